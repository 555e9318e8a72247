/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: ops that wait (acquires and waits for cells), in a list of the store, each on its thread's stack; and what the
 * listener hears for them. A waiting thread sleeps on a futex, without a connection. Any thread, unless it says otherwise.
 */
#include "engine/sql/listener.h"

#include "util/clock.h"
#include "util/futex.h"

#include <string.h>

/* ---- the list ------------------------------------------------------------------------------------ */

void sql_wait_add(struct sql_store *store, struct sql_wait *wait)
{
    pthread_mutex_lock(&store->lock);
    wait->prev = NULL;
    wait->next = store->waits;
    if (store->waits)
        store->waits->prev = wait;
    store->waits = wait;
    pthread_mutex_unlock(&store->lock);
}

void sql_wait_remove(struct sql_store *store, struct sql_wait *wait)
{
    pthread_mutex_lock(&store->lock);
    if (wait->next)
        wait->next->prev = wait->prev;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        store->waits = wait->next;
    pthread_mutex_unlock(&store->lock);
}

void sql_wait_wake(struct sql_wait *wait)
{
    atomic_fetch_add(&wait->word, 1);
    hfi_futex_wake(&wait->word, 1, false);
}

void sql_wait_sleep(struct sql_store *store, struct sql_wait *wait, int64_t until_ms)
{
    uint32_t word = atomic_load(&wait->word);
    bool busy;

    pthread_mutex_lock(&store->lock);
    busy = wait->granted || wait->forgotten || wait->changed || wait->stop != HF_OK;
    pthread_mutex_unlock(&store->lock);
    if (!busy && atomic_load(&wait->op->stop) == 0)
        hfi_futex_wait(&wait->word, word, until_ms, false);
}

void sql_wait_cancel(struct sql_store *store, struct hfi_op *op, hf_status status)
{
    struct sql_listener *listener;

    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next)
        if (w->op == op) {
            if (w->stop == HF_OK)
                w->stop = status;
            sql_wait_wake(w);
        }
    listener = store->listener;
    if (listener) /* it may wait for the listener */
        sql_listener_changed(listener);
    pthread_mutex_unlock(&store->lock);
}

/* ---- what the listener hears: its thread ------------------------------------------------------------ */

void sql_wait_granted(struct sql_wait *wait, uint64_t token, uint32_t tokens, int64_t from_ms,
                      int64_t lasts_ms)
{
    wait->token = token;
    wait->tokens = tokens;
    wait->from_ms = from_ms;
    wait->lasts_ms = lasts_ms;
    wait->granted = true;
    wait->recheck_ms = HFI_NEVER;
    sql_wait_wake(wait);
}

void sql_wait_message(struct sql_store *store, struct sql_wait *wait, uint64_t token,
                      uint32_t tokens, int64_t window_ms)
{
    struct sql_listener *listener = store->listener;

    switch (hfi_message_judge(wait->state, wait->heard_ms, wait->floor, token, window_ms,
                              hfi_now_ms())) {
    case HFI_MESSAGE_IGNORE:
        return;
    case HFI_MESSAGE_RECHECK:
        listener->heartbeat_now = true;
        sql_listener_kick(store);
        return;
    case HFI_MESSAGE_GRANT:
        sql_wait_granted(wait, token, tokens, wait->heard_ms, window_ms);
        return;
    }
}

struct sql_wait *sql_wait_find(struct sql_store *store, const unsigned char *owner)
{
    struct sql_wait *wait = store->waits;

    while (wait && (!wait->claim || memcmp(wait->claim->owner, owner, HFI_OWNER_LEN) != 0))
        wait = wait->next;
    return wait;
}

void sql_held_lost(struct sql_store *store, const unsigned char *owner)
{
    struct hfi_claim *claim;

    pthread_mutex_lock(&store->lock);
    for (claim = store->held; claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0;)
        claim = sql_lease_claim(claim)->next;
    pthread_mutex_unlock(&store->lock);
    if (claim)
        store->host->lost(store->host, claim, owner, "it was broken");
}

void sql_take_notice(struct sql_store *store, const struct sql_message *m)
{
    struct sql_listener *listener = store->listener;
    struct sql_wait *wait;

    if (m->kind == SQL_NOTICE_LOST) {
        sql_held_lost(store, m->owner);
        return;
    }
    pthread_mutex_lock(&store->lock);
    if (m->kind == SQL_NOTICE_ANY) {
        listener->heartbeat_now = true;
        for (wait = store->waits; wait; wait = wait->next) /* it may have been a cell */
            if (!wait->claim) {
                wait->changed = true;
                sql_wait_wake(wait);
            }
    } else if (m->kind == SQL_NOTICE_GRANT) {
        wait = sql_wait_find(store, m->owner);
        if (wait && wait->state == HFI_WAITER_ASKING) {
            /* Messages have no attempt numbers here: the answer that is under way tells whether it is an old one. */
            wait->told = true;
            wait->token = m->token;
            wait->tokens = m->tokens;
            wait->lasts_ms = m->window_ms;
        } else if (wait && !wait->granted) {
            sql_wait_message(store, wait, m->token, m->tokens, m->window_ms);
        }
    } else if (m->kind == SQL_NOTICE_CELL) {
        for (wait = store->waits; wait; wait = wait->next)
            if (!wait->claim && wait->cell == m->cell) {
                wait->changed = true;
                sql_wait_wake(wait);
            }
    }
    pthread_mutex_unlock(&store->lock);
}
