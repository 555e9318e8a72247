/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session: holders and waiters, for core's deadlock detector. The server knows
 * which connection waits for which, but a thread holds its leases on other connections than the one
 * it waits on: for the server these are unrelated. So this process reports what it knows, in all
 * its handles of the store, and adds what other processes report (lock_share.c). A name whose
 * holder reports nothing has no holder here, and its waiters are assumed to proceed some day. Readers
 * report nothing: the rows between processes do not tell them from writers.
 */
#include "engine/sql/native_lock.h"

#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- collecting: with the list's lock, each with its locks->lock ---------------------------------------- */

bool sql_lines_room(struct sql_lines *lines, size_t more)
{
    struct sql_line *all = hfi_realloc(lines->all, (lines->room + more + 1) * sizeof *all);

    if (!all)
        return false;
    lines->all = all;
    lines->room += more;
    return true;
}

struct collection {
    const struct sql_store *store; /* the store that inspects */
    struct sql_lines lines;
    size_t count;
};

static void count_waits(struct sql_store *store, void *arg)
{
    struct collection *c = arg;

    pthread_mutex_lock(&store->locks->lock);
    for (const struct sql_lock_wait *wait = store->locks->lock_waits; wait; wait = wait->next)
        c->count++;
    pthread_mutex_unlock(&store->locks->lock);
}

/* Lines without room were added after the count: they are seen the next time. */
static bool add(struct collection *c, struct sql_store *store, const struct hfi_claim *claim,
                bool waits)
{
    struct sql_line *line;

    if (c->lines.count == c->lines.room)
        return false;
    line = &c->lines.all[c->lines.count++];
    *line = (struct sql_line){ .waits = waits,
                               .here = store == c->store,
                               .number = hfi_claim_number(claim),
                               .len = claim->name.len };
    memcpy(line->name, claim->name.bytes, claim->name.len);
    memcpy(line->owner, claim->owner, sizeof line->owner);
    if (waits && claim->label)
        strncpy(line->label, claim->label, HF_LABEL_MAX);
    return true;
}

static void add_waits(struct sql_store *store, void *arg)
{
    struct collection *c = arg;

    pthread_mutex_lock(&store->locks->lock);
    for (struct sql_lock_wait *wait = store->locks->lock_waits; wait; wait = wait->next)
        if (wait->op->may_wait && !sql_lock_is_shared(wait->op->claim) &&
            add(c, store, wait->op->claim, true) && store == c->store)
            wait->told = true;
    pthread_mutex_unlock(&store->locks->lock);
}

static int by_name(const void *left, const void *right)
{
    const struct sql_line *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static bool is_waited_for(const struct sql_lines *lines, const struct hfi_claim *claim)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->all[i].waits && lines->all[i].len == claim->name.len &&
            memcmp(lines->all[i].name, claim->name.bytes, claim->name.len) == 0)
            return true;
    return false;
}

static void add_holders(struct sql_store *store, void *arg)
{
    struct collection *c = arg;

    pthread_mutex_lock(&store->locks->lock);
    for (const struct sql_lock_connection *lock_conn = store->locks->lock_conns; lock_conn;
         lock_conn = lock_conn->next)
        for (uint32_t i = 0; i < lock_conn->count; i++)
            if (!sql_lock_is_shared(lock_conn->held[i].claim) &&
                is_waited_for(&c->lines, lock_conn->held[i].claim))
                (void)add(c, store, lock_conn->held[i].claim, false);
    pthread_mutex_unlock(&store->locks->lock);
}

/* ---- telling ------------------------------------------------------------------------------------------------ */

static bool tell(const struct sql_line *line, uint32_t position, struct hfi_sink *sink)
{
    hf_holder holder = { .first = line->number, .permits = 1, .label = "" };
    hf_waiter waiter = {
        .position = position, .permits = 1, .kind = HF_KIND_MUTEX, .label = line->label
    };

    return line->waits ? sink->waiter(sink, &waiter) : sink->holder(sink, &holder);
}

static hf_status tell_all(struct sql_lines *lines, struct hfi_sink *sink)
{
    uint32_t position = 0;

    if (lines->count > 0)
        qsort(lines->all, lines->count, sizeof *lines->all, by_name);
    for (size_t i = 0; i < lines->count; i++) {
        const struct sql_line *line = &lines->all[i];
        hf_entry entry = {
            .name = line->name, .name_len = line->len, .kind = HF_KIND_MUTEX, .capacity = 1
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

static hf_status collect(struct sql_store *store, struct collection *c)
{
    bool others;

    sql_each(store, count_waits, c);
    if (!sql_lines_room(&c->lines, c->count))
        return HF_NO_MEMORY;
    sql_each(store, add_waits, c);
    others = sql_share_waits(store, &c->lines);
    if (!sql_lines_room(&c->lines, c->lines.count)) /* a holder of each */
        return HF_NO_MEMORY;
    sql_each(store, add_holders, c);
    if (others)
        sql_share_holders(store, &c->lines);
    return HF_OK;
}

void sql_locks_list(struct sql_store *store, struct hfi_op *op)
{
    struct collection c = { .store = store };
    hf_status status;

    pthread_mutex_lock(&store->locks->share_lock);
    status = collect(store, &c);
    pthread_mutex_unlock(&store->locks->share_lock);
    if (status == HF_OK)
        status = tell_all(&c.lines, op->u.list.sink);
    hfi_free(c.lines.all);
    sql_finish(op, status, NULL);
}
