/* SPDX-License-Identifier: MIT */
/* The state of the screen: which rows in which order, where the cursor is. Keys are in keys.c. */
#include "ui.h"

#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_init(struct ui *ui)
{
    *ui = (struct ui){ .may_break = true, .may_ask = true, .list_rows = 1 };
}

void ui_done(struct ui *ui)
{
    free(ui->order);
    free(ui->rows);
    ui->order = NULL;
    ui->rows = NULL;
}

void ui_say(struct ui *ui, bool bad, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(ui->notice, sizeof ui->notice, format, args);
    va_end(args);
    ui->notice_bad = bad;
    ui->notice_ms = 0; /* set by the next refresh */
}

const struct see_row *ui_row(const struct ui *ui)
{
    return ui->cursor < ui->count ? ui->rows[ui->cursor] : NULL;
}

const struct see_holder *ui_holder(const struct ui *ui, const struct see_row *row)
{
    if (!row || row->holder_count == 0)
        return NULL;
    return ui->holder ? &row->holders[ui->holder % row->holder_count] : see_row_holder(row);
}

/* ---- which rows ------------------------------------------------------------------------------ */

static bool has_text(const void *bytes, size_t len, const char *wanted)
{
    char text[HFI_QUOTED_MAX];

    return strcasestr(hfi_quote_name(bytes, len, text, sizeof text), wanted);
}

/* A name, a label of a holder or waiter, a token. */
static bool fits(const struct ui *ui, const struct see_row *row)
{
    char token[24];

    if (ui->glob && !hfi_glob_match((const unsigned char *)ui->glob, strlen(ui->glob), row->name,
                                    row->name_len))
        return false;
    if (!ui->filter[0] || has_text(row->name, row->name_len, ui->filter))
        return true;
    for (size_t i = 0; i < row->holder_count; i++) {
        snprintf(token, sizeof token, "%llu", (unsigned long long)row->holders[i].token);
        if (has_text(row->holders[i].label, strlen(row->holders[i].label), ui->filter) ||
            strcmp(token, ui->filter) == 0)
            return true;
    }
    for (size_t i = 0; i < row->waiter_count; i++)
        if (has_text(row->waiters[i].label, strlen(row->waiters[i].label), ui->filter))
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    return see_name_natural(*(const struct see_row *const *)a, *(const struct see_row *const *)b);
}

static int64_t since_of(const struct see_row *row)
{
    const struct see_holder *holder = see_row_holder(row);

    return holder ? holder->since_ms : INT64_MAX;
}

static int by_age(const void *a, const void *b)
{
    int64_t left = since_of(*(const struct see_row *const *)a);
    int64_t right = since_of(*(const struct see_row *const *)b);

    return left < right ? -1 : left > right ? 1 : by_name(a, b);
}

static int by_waiters(const void *a, const void *b)
{
    size_t left = (*(const struct see_row *const *)a)->waiter_count;
    size_t right = (*(const struct see_row *const *)b)->waiter_count;

    return left > right ? -1 : left < right ? 1 : by_name(a, b);
}

static unsigned handovers_of(const struct see_row *row)
{
    unsigned sum = 0;

    for (size_t i = 0; i < SEE_INTERVALS; i++)
        sum += row->handovers[i];
    return sum;
}

static int by_handovers(const void *a, const void *b)
{
    unsigned left = handovers_of(*(const struct see_row *const *)a);
    unsigned right = handovers_of(*(const struct see_row *const *)b);

    return left > right ? -1 : left < right ? 1 : by_name(a, b);
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = (*(const struct see_row *const *)a)->id;
    uint64_t right = (*(const struct see_row *const *)b)->id;

    return left < right ? -1 : left > right;
}

/* Rows that fit, into ui->rows. */
static size_t collect(struct ui *ui)
{
    size_t count = 0;

    ui->hidden = 0;
    for (const struct see_row *row = ui->model->newest; row; row = row->older) {
        if (!row->present || count >= ui->rows_size)
            continue;
        if (fits(ui, row))
            ui->rows[count++] = row;
        else
            ui->hidden++;
    }
    return count;
}

static bool make_room(struct ui *ui, size_t count)
{
    const struct see_row **rows;
    uint64_t *order;

    if (count <= ui->rows_size)
        return true;
    rows = realloc(ui->rows, 2 * count * sizeof *rows);
    if (rows)
        ui->rows = rows;
    order = realloc(ui->order, 2 * count * sizeof *order);
    if (order)
        ui->order = order;
    if (!rows || !order)
        return false;
    ui->rows_size = 2 * count;
    return true;
}

/* ---- order -------------------------------------------------------------------------------------- */

/* The order stays: find each of its rows again, NULL for one that is gone, and count what came. `fresh` rows are in ui->rows. */
static void keep_order(struct ui *ui, size_t fresh)
{
    const struct see_row **found = malloc((fresh + 1) * sizeof(struct see_row *));
    size_t kept = 0;

    if (!found)
        return;
    memcpy(found, ui->rows, fresh * sizeof *found);
    qsort(found, fresh, sizeof *found, by_id);
    for (size_t i = 0; i < ui->count; i++) {
        size_t low = 0, high = fresh;

        while (low < high) {
            size_t middle = low + (high - low) / 2;

            if (found[middle]->id < ui->order[i])
                low = middle + 1;
            else
                high = middle;
        }
        ui->rows[i] = low < fresh && found[low]->id == ui->order[i] ? found[low] : NULL;
        kept += ui->rows[i] != NULL;
    }
    ui->changes = (ui->count - kept) + (fresh - kept);
    free(found);
}

static void new_order(struct ui *ui, size_t fresh)
{
    static int (*const orders[SORT_COUNT])(const void *, const void *) = { see_row_compare, by_name,
                                                                           by_age, by_waiters,
                                                                           by_handovers };
    size_t line = ui->cursor - ui->top;

    qsort(ui->rows, fresh, sizeof(struct see_row *), orders[ui->sort]);
    ui->count = fresh;
    ui->changes = 0;
    for (size_t i = 0; i < fresh; i++) {
        ui->order[i] = ui->rows[i]->id;
        if (ui->chosen && ui->order[i] == ui->chosen) { /* the cursor stays with its row */
            ui->cursor = i;
            ui->top = i > line ? i - line : 0;
        }
    }
    if (!ui->chosen)
        ui->cursor = ui->top = 0;
}

void ui_refresh(struct ui *ui, const struct see_model *model, int64_t now_ms)
{
    size_t fresh;

    ui->model = model;
    if (!ui->notice_ms)
        ui->notice_ms = now_ms;
    ui->clock_ms = now_ms;
    /* The store is away: ages stop where they were. */
    ui->up = see_model_is_up(model, now_ms, &ui->up_since_ms);
    ui->now_ms = !ui->up && model->looked_ms ? model->looked_ms : now_ms;
    if (!make_room(ui, model->present + ui->count + 1))
        return;
    fresh = collect(ui);
    if (ui->key_ms && now_ms - ui->key_ms < UI_SETTLE_MS && now_ms >= ui->key_ms && ui->count)
        keep_order(ui, fresh);
    else
        new_order(ui, fresh);
    if (ui->cursor >= ui->count)
        ui->cursor = ui->count ? ui->count - 1 : 0;
}
