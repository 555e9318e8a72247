/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: what this process holds and waits for, in all its handles of the store, for core's deadlock
 * detector. The server knows which connection waits for which, but a thread holds its leases on other connections than
 * it waits on: to the server these have nothing to do with each other. Other processes are not seen: a name that one
 * of them holds has no holder here, and whoever waits for it is taken to go on some day.
 */
#include "engine/sql/hold.h"

#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A copy: claims are the caller's again when the lock is given back. */
struct line {
    bool waits;
    uint64_t number; /* hfi_claim_number() */
    uint32_t len;
    unsigned char name[HF_NAME_MAX];
    uint64_t hash;
    char label[HF_LABEL_MAX + 1];
};

struct lines {
    struct line *all;
    size_t count, room;
};

/* ---- collecting: with the list's lock, each with its hold->lock ---------------------------------------- */

static void count_stays(struct hfi_conn *conn, void *arg)
{
    struct lines *lines = arg;

    pthread_mutex_lock(&conn->hold->lock);
    for (const struct sq_stay *stay = conn->hold->stays; stay; stay = stay->next)
        lines->room += 2; /* it, and who holds what it waits for */
    pthread_mutex_unlock(&conn->hold->lock);
}

/* What there is no room for came after the count: it will be seen the next time. */
static void add(struct lines *lines, const struct hfi_claim *claim, bool waits)
{
    struct line *line;

    if (lines->count == lines->room)
        return;
    line = &lines->all[lines->count++];
    *line = (struct line){ .waits = waits,
                           .number = hfi_claim_number(claim),
                           .len = claim->name.len,
                           .hash = claim->name.hash[0] };
    memcpy(line->name, claim->name.bytes, claim->name.len);
    if (waits && claim->label)
        strncpy(line->label, claim->label, HF_LABEL_MAX);
}

static void add_stays(struct hfi_conn *conn, void *arg)
{
    struct lines *lines = arg;

    pthread_mutex_lock(&conn->hold->lock);
    for (const struct sq_stay *stay = conn->hold->stays; stay; stay = stay->next)
        if (stay->op->may_wait && lines->count < lines->room / 2)
            add(lines, stay->op->claim, true);
    pthread_mutex_unlock(&conn->hold->lock);
}

static int by_name(const void *left, const void *right)
{
    const struct line *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static bool is_waited_for(const struct lines *lines, const struct hfi_claim *claim)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->all[i].waits && lines->all[i].hash == claim->name.hash[0] &&
            lines->all[i].len == claim->name.len &&
            memcmp(lines->all[i].name, claim->name.bytes, claim->name.len) == 0)
            return true;
    return false;
}

static void add_holders(struct hfi_conn *conn, void *arg)
{
    pthread_mutex_lock(&conn->hold->lock);
    for (const struct sq_seat *seat = conn->hold->seats; seat; seat = seat->next)
        for (uint32_t i = 0; i < seat->count; i++)
            if (is_waited_for(arg, seat->held[i].claim))
                add(arg, seat->held[i].claim, false);
    pthread_mutex_unlock(&conn->hold->lock);
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

static bool tell(const struct line *line, uint32_t position, struct hfi_sink *sink)
{
    hf_holder holder = { .first = line->number, .permits = 1, .label = "" };
    hf_waiter waiter = {
        .position = position, .permits = 1, .kind = HF_MUTEX, .label = line->label
    };

    return line->waits ? sink->waiter(sink, &waiter) : sink->holder(sink, &holder);
}

static hf_status tell_all(struct lines *lines, struct hfi_sink *sink)
{
    uint32_t position = 0;

    if (lines->count > 0)
        qsort(lines->all, lines->count, sizeof *lines->all, by_name);
    for (size_t i = 0; i < lines->count; i++) {
        const struct line *line = &lines->all[i];
        hf_entry entry = {
            .name = line->name, .name_len = line->len, .kind = HF_MUTEX, .capacity = 1
        };

        if (i == 0 || by_name(line, line - 1) != 0) {
            if (!sink->entry(sink, &entry))
                return HF_NO_MEMORY;
            position = 0;
        }
        if (!tell(line, ++position, sink))
            return HF_NO_MEMORY;
    }
    return HF_OK;
}

void hfi_sq_hold_look(struct hfi_conn *conn, struct hfi_op *op)
{
    struct lines lines = { 0 };
    hf_status status = HF_NO_MEMORY;

    hfi_sq_each(conn, count_stays, &lines);
    lines.all = hfi_calloc(lines.room + 1, sizeof *lines.all);
    if (lines.all) {
        hfi_sq_each(conn, add_stays, &lines);
        hfi_sq_each(conn, add_holders, &lines);
        status = tell_all(&lines, op->u.inspect.sink);
    }
    hfi_free(lines.all);
    hfi_sq_finish(op, status, NULL);
}
