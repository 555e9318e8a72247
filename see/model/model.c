/* SPDX-License-Identifier: MIT */
/* A model as a whole: its table of rows, the order of changes, the state of the store. Views come in by update.c. */
#include "parts.h"

#include "util/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 1024

void see_model_init(struct see_model *model)
{
    *model = (struct see_model){ .latency_us = -1, .next_id = 1 };
}

static void row_free(struct see_row *row)
{
    free(row->holders);
    free(row->waiters);
    free(row);
}

void see_circles_free(struct see_circle *circles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(circles[i].links);
    free(circles);
}

void see_model_done(struct see_model *model)
{
    for (struct see_row *row = model->oldest, *next; row; row = next) {
        next = row->newer;
        row_free(row);
    }
    see_circles_free(model->circles, model->circle_count);
    free(model->findings);
    free(model->buckets);
    free(model->spare);
    *model = (struct see_model){ .latency_us = -1 };
}

/* ---- rows by name ------------------------------------------------------------------------- */

static uint64_t hash_of(const void *name, size_t len)
{
    uint64_t hash[2];

    hfi_hash128(name, len, hash);
    return hash[0];
}

static struct see_row *find(const struct see_model *model, uint64_t hash, const void *name,
                            size_t len)
{
    struct see_row *row =
        model->bucket_count ? model->buckets[hash & (model->bucket_count - 1)] : NULL;

    while (row && (row->hash != hash || row->name_len != len || memcmp(row->name, name, len) != 0))
        row = row->hash_next;
    return row;
}

struct see_row *see_model_find(const struct see_model *model, const void *name, size_t len)
{
    return find(model, hash_of(name, len), name, len);
}

static bool make_room(struct see_model *model)
{
    size_t count = model->bucket_count ? 2 * model->bucket_count : FIRST_BUCKETS;
    struct see_row **buckets;

    if (model->known < model->bucket_count)
        return true;
    buckets = calloc(count, sizeof(struct see_row *));
    if (!buckets)
        return model->bucket_count > 0; /* longer chains, but no harm */
    for (struct see_row *row = model->oldest; row; row = row->newer) {
        struct see_row **bucket = &buckets[row->hash & (count - 1)];

        row->hash_next = *bucket;
        *bucket = row;
    }
    free(model->buckets);
    model->buckets = buckets;
    model->bucket_count = count;
    return true;
}

static void unlink_row(struct see_model *model, struct see_row *row)
{
    *(row->older ? &row->older->newer : &model->oldest) = row->newer;
    *(row->newer ? &row->newer->older : &model->newest) = row->older;
}

static void link_newest(struct see_model *model, struct see_row *row)
{
    row->older = model->newest;
    row->newer = NULL;
    *(model->newest ? &model->newest->newer : &model->oldest) = row;
    model->newest = row;
}

struct see_row *see_row_for(struct see_model *model, const void *name, size_t len)
{
    uint64_t hash = hash_of(name, len);
    struct see_row *row = find(model, hash, name, len);

    if (row || !make_room(model))
        return row;
    row = calloc(1, sizeof *row + len);
    if (!row)
        return NULL;
    row->id = model->next_id++;
    row->hash = hash;
    row->p50_ms = row->p99_ms = -1;
    row->state = SEE_IDLE;
    row->name_len = len;
    memcpy(row->name, name, len);
    row->hash_next = model->buckets[hash & (model->bucket_count - 1)];
    model->buckets[hash & (model->bucket_count - 1)] = row;
    model->known++;
    link_newest(model, row);
    return row;
}

void see_row_touch(struct see_model *model, struct see_row *row, bool in_list)
{
    row->detail_change = ++model->change;
    if (!in_list)
        return;
    row->change = model->change;
    unlink_row(model, row);
    link_newest(model, row);
}

void see_row_forget(struct see_model *model, struct see_row *row)
{
    struct see_row **at = &model->buckets[row->hash & (model->bucket_count - 1)];

    while (*at != row)
        at = &(*at)->hash_next;
    *at = row->hash_next;
    unlink_row(model, row);
    if (row->change > model->forgotten_change)
        model->forgotten_change = row->change;
    model->known--;
    row_free(row);
}

/* ---- the store ------------------------------------------------------------------------------ */

void see_model_set_up(struct see_model *model, bool up, int64_t now_ms)
{
    model->tried = true;
    if (model->up == up && model->since_ms)
        return;
    model->up = up;
    model->since_ms = now_ms;
    model->state_change = ++model->change;
}

void see_model_asked(struct see_model *model, int64_t now_ms)
{
    if (!model->asked_ms || now_ms < model->asked_ms)
        model->asked_ms = now_ms;
}

bool see_model_is_up(const struct see_model *model, int64_t now_ms, int64_t *ret_since_ms)
{
    bool late = model->up && model->asked_ms && now_ms - model->asked_ms > SEE_LATE_MS;

    *ret_since_ms = late ? model->asked_ms : model->since_ms;
    return model->up && !late;
}

void see_model_away(struct see_model *model, int64_t now_ms, const char *text, int64_t next_try_ms)
{
    see_model_set_up(model, false, model->asked_ms ? model->asked_ms : now_ms);
    model->asked_ms = 0;
    model->next_try_ms = next_try_ms;
    snprintf(model->text, sizeof model->text, "%s", text);
    model->state_change = ++model->change;
    see_history_turn(model, now_ms);
    model->point_away = true;
}

void see_model_latency(struct see_model *model, int64_t latency_us)
{
    model->asked_ms = 0;
    if (model->latency_us == latency_us)
        return;
    model->latency_us = latency_us;
    model->state_change = ++model->change;
}

static bool same_findings(const struct see_model *model, const hf_report *report)
{
    if (!model->checked_ms || hf_report_count(report) != model->finding_count)
        return false;
    for (size_t i = 0; i < model->finding_count; i++) {
        const hf_finding *finding = hf_report_item(report, i);

        if (finding->level != model->findings[i].level ||
            finding->note != model->findings[i].note ||
            strncmp(finding->text, model->findings[i].text, sizeof model->findings[i].text - 1) !=
                0)
            return false;
    }
    return true;
}

bool see_model_check(struct see_model *model, const hf_report *report, int64_t now_ms)
{
    size_t count = hf_report_count(report);
    struct see_finding *findings = NULL;

    if (!same_findings(model, report)) {
        findings = calloc(count + 1, sizeof *findings);
        if (!findings)
            return false;
        for (size_t i = 0; i < count; i++) {
            const hf_finding *finding = hf_report_item(report, i);

            findings[i].level = finding->level;
            findings[i].note = finding->note;
            snprintf(findings[i].topic, sizeof findings[i].topic, "%s", finding->topic);
            snprintf(findings[i].text, sizeof findings[i].text, "%s", finding->text);
        }
        free(model->findings);
        model->findings = findings;
        model->finding_count = count;
    }
    model->checked_ms = now_ms;
    model->finding_change = ++model->change;
    return true;
}
