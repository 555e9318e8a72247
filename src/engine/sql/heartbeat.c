/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: the periodic calls of the listener thread. Every third of a window it reports that
 * our waiters live, and gets the state of each (HEARTBEAT). When something ahead of a waiter must
 * have expired, it lets the server check the name (RECHECK).
 */
#include "engine/sql/listener.h"

#include "util/clock.h"

#include <string.h>

static void batch_add(struct sql_heartbeat_batch *batch, const struct hfi_claim *claim)
{
    uint32_t i = batch->count++;

    memcpy(batch->owners[i], claim->owner, HFI_OWNER_LEN);
    memcpy(batch->names[i], claim->name.bytes, claim->name.len);
    batch->params[2 + 2 * i] = sql_bytes(batch->names[i], claim->name.len);
    batch->params[3 + 2 * i] = sql_bytes(batch->owners[i], HFI_OWNER_LEN);
}

/* Fill in the waits that were not named in this round. With `held` also the held leases: a notice
 * that one was broken may have been missed while nobody listened. */
static void fill_batch(struct sql_store *store, struct sql_heartbeat_batch *batch, uint32_t round,
                       bool held)
{
    batch->count = 0;
    batch->window_ms = store->conf.window_min_ms;
    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next) {
        if (w->window_ms > batch->window_ms)
            batch->window_ms = w->window_ms;
        if (!w->claim || w->state != HFI_WAITER_QUEUED || w->granted || w->forgotten ||
            w->round == round || batch->count == SQL_HEARTBEAT_BATCH)
            continue;
        w->round = round;
        batch_add(batch, w->claim);
    }
    for (struct hfi_claim *c = store->held; held && c; c = sql_lease_claim(c)->next) {
        if (sql_lease_claim(c)->round == round || batch->count == SQL_HEARTBEAT_BATCH)
            continue;
        sql_lease_claim(c)->round = round;
        batch_add(batch, c);
    }
    pthread_mutex_unlock(&store->lock);
    batch->params[0] = sql_int_of(store->client);
    batch->params[1] = sql_int_of(batch->window_ms);
}

/* One answer of a HEARTBEAT. */
static void heartbeat_answered(struct sql_store *store, const struct sql_heartbeat_batch *batch,
                               const struct sql_rows *rows, uint32_t row, int64_t sent_ms)
{
    int64_t i = sql_int(rows, row, 0), ms = sql_int(rows, row, 4);
    uint64_t token = (uint64_t)sql_int(rows, row, 2);
    char letter = sql_letter(rows, row, 1);
    struct sql_wait *wait;
    bool queued;

    if (i < 0 || i >= batch->count)
        return;
    pthread_mutex_lock(&store->lock);
    wait = sql_wait_find(store, batch->owners[i]);
    queued = wait && wait->state == HFI_WAITER_QUEUED && !wait->granted;
    if (queued) { /* N then says that it is forgotten, and not that what it is granted next is lost */
        switch (hfi_waiter_answered(HFI_WAITER_QUEUED, letter)) {
        case HFI_ANSWER_QUEUED:
            wait->heard_ms = sent_ms;
            if (token > wait->floor)
                wait->floor = token; /* grants up to this token were made before heard_ms */
            wait->recheck_ms = ms > 0 ? hfi_now_ms() + ms + HFI_RECHECK_MS : HFI_NEVER;
            break;
        case HFI_ANSWER_GRANTED:
            sql_wait_granted(wait, token, (uint32_t)sql_int(rows, row, 3), sent_ms, ms);
            break;
        case HFI_ANSWER_FORGOTTEN:
            wait->forgotten = true;
            sql_wait_wake(wait);
            break;
        default:
            break;
        }
    }
    pthread_mutex_unlock(&store->lock);
    if (letter == 'N' && !queued)
        sql_held_lost(store, batch->owners[i]);
}

static hf_status heartbeat_some(struct sql_store *store, struct sql_heartbeat_batch *batch,
                                hf_error *err)
{
    struct sql_request r = { .call = SQL_HEARTBEAT, .params = batch->params };
    hf_status status;

    r.count = 2 + 2 * batch->count;
    r.deadline_ms = hfi_now_ms() + store->conf.op_ms;
    status = sql_call(store, &r);
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    pthread_mutex_lock(&store->lock);
    store->heartbeat_sent_ms = r.sent_ms;
    pthread_mutex_unlock(&store->lock);
    for (uint32_t i = 0; i < r.rows.count; i++)
        heartbeat_answered(store, batch, &r.rows, i, r.sent_ms);
    sql_rows_free(&r.rows);
    return HF_OK;
}

hf_status sql_heartbeat(struct sql_store *store, struct sql_heartbeat_batch *batch, bool held,
                        hf_error *err)
{
    struct sql_listener *listener = store->listener;
    hf_status status;

    pthread_mutex_lock(&store->lock);
    listener->heartbeat_now = false; /* a later request needs another heartbeat */
    listener->round++;
    pthread_mutex_unlock(&store->lock);
    do {
        fill_batch(store, batch, listener->round, held);
        status = heartbeat_some(store, batch, err);
    } while (status == HF_OK && batch->count == SQL_HEARTBEAT_BATCH);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&store->lock);
    listener->up = true;
    sql_listener_changed(store);
    pthread_mutex_unlock(&store->lock);
    sql_listener_hears(store, true);
    return HF_OK;
}

/* Something ahead of this wait must have expired. Other waits of the same name need no RECHECK of
 * their own. */
static hf_status recheck(struct sql_store *store, const unsigned char *bytes, uint32_t len,
                         hf_error *err)
{
    struct sql_value name = sql_bytes(bytes, len);
    struct sql_request r = { .call = SQL_RECHECK, .params = &name, .count = 1 };
    int64_t next_ms;
    hf_status status;

    r.deadline_ms = hfi_now_ms() + store->conf.op_ms;
    status = sql_call(store, &r);
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    next_ms = sql_int(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next)
        if (w->claim && w->recheck_ms <= hfi_now_ms() && w->claim->name.len == len &&
            memcmp(w->claim->name.bytes, bytes, len) == 0)
            w->recheck_ms = next_ms > 0 ? hfi_now_ms() + next_ms + HFI_RECHECK_MS : HFI_NEVER;
    pthread_mutex_unlock(&store->lock);
    return HF_OK;
}

hf_status sql_recheck_due(struct sql_store *store, hf_error *err)
{
    unsigned char name[HF_NAME_MAX];
    hf_status status = HF_OK;

    while (status == HF_OK) {
        struct sql_wait *w;
        uint32_t len = 0;

        pthread_mutex_lock(&store->lock);
        for (w = store->waits; w; w = w->next)
            if (w->claim && w->state == HFI_WAITER_QUEUED && w->recheck_ms <= hfi_now_ms())
                break;
        if (w) {
            len = w->claim->name.len;
            memcpy(name, w->claim->name.bytes, len);
        }
        pthread_mutex_unlock(&store->lock);
        if (!w)
            return HF_OK;
        status = recheck(store, name, len, err);
    }
    return status;
}
