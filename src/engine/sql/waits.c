/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: ops that wait (acquires and waits for cells), in a list of the store; and what the listener hears for them. A waiting
 * op has no connection. It has a thread only if its caller's thread waits; that sleeps on a futex. Any thread, unless it says
 * otherwise.
 */
#include "engine/sql/listener.h"

#include "util/clock.h"
#include "util/futex.h"

#include <assert.h>
#include <string.h>

/* ---- the list ------------------------------------------------------------------------------------ */

void sql_wait_add(struct sql_wait *wait)
{
    struct sql_store *store = wait->store;

    pthread_mutex_lock(&store->lock);
    wait->prev = NULL;
    wait->next = store->waits;
    if (store->waits)
        store->waits->prev = wait;
    store->waits = wait;
    wait->listed = true;
    pthread_mutex_unlock(&store->lock);
}

void sql_wait_remove(struct sql_wait *wait)
{
    struct sql_store *store = wait->store;

    pthread_mutex_lock(&store->lock);
    if (wait->next)
        wait->next->prev = wait->prev;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        store->waits = wait->next;
    wait->listed = false;
    pthread_mutex_unlock(&store->lock);
}

void sql_wait_wake(struct sql_wait *wait)
{
    struct hfi_host *host = wait->store->host;

    if (wait->suspended) {
        wait->suspended = false;
        wait->resumed_ms = hfi_now_ms();
        host->resume(host, wait->op);
        return;
    }
    atomic_store(&wait->woken, 1);
    hfi_futex_wake(&wait->woken, 1, false);
}

/* With the lock. Core ends it at its deadline; any other time is the listener's business. false: there is no listener. */
static bool suspend(struct sql_wait *wait, int64_t until_ms)
{
    struct sql_store *store = wait->store;
    hf_error err;

    if (until_ms >= wait->op->deadline_ms)
        until_ms = HFI_NEVER;
    if (until_ms != HFI_NEVER && sql_listener_start(store, &err) != HF_OK)
        return false;
    wait->wake_ms = until_ms;
    wait->suspended = true;
    sql_listener_by(store, until_ms);
    return true;
}

bool sql_wait_sleep(struct sql_wait *wait, int64_t until_ms)
{
    struct sql_store *store = wait->store;
    bool suspended;

    /* An acquire that may not wait never sleeps, whatever is answered (asked()). */
    assert(wait->listed);
    pthread_mutex_lock(&store->lock);
    suspended = !wait->op->blocking && !atomic_load(&wait->woken) && suspend(wait, until_ms);
    pthread_mutex_unlock(&store->lock);
    if (suspended)
        return false;
    hfi_futex_wait(&wait->woken, 0, until_ms, false);
    atomic_store(&wait->woken, 0);
    return true;
}

bool sql_waits_need_nap(struct sql_store *store)
{
    bool need = false;

    pthread_mutex_lock(&store->lock);
    for (const struct sql_wait *w = store->waits; w && !need; w = w->next)
        need = w->naps && w->state == HFI_WAITER_QUEUED && !w->granted;
    pthread_mutex_unlock(&store->lock);
    return need;
}

int64_t sql_waits_wake_due(struct sql_store *store, int64_t now_ms)
{
    int64_t next_ms = HFI_NEVER;

    for (struct sql_wait *w = store->waits; w; w = w->next) {
        if (w->suspended && w->wake_ms <= now_ms)
            sql_wait_wake(w);
        else if (w->suspended && w->wake_ms < next_ms)
            next_ms = w->wake_ms;
    }
    return next_ms;
}

/* Core has set op->stop before. */
void sql_wait_cancel(struct sql_store *store, struct hfi_op *op)
{
    struct sql_wait *wait = sql_wait_of(op);

    pthread_mutex_lock(&store->lock);
    if (wait->listed)
        sql_wait_wake(wait);
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

/* With the lock. */
static struct hfi_claim *find_held(const struct sql_store *store, const unsigned char *owner)
{
    struct hfi_claim *claim = store->held;

    while (claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0)
        claim = sql_lease_claim(claim)->next;
    return claim;
}

static void held_wanted(struct sql_store *store, const struct sql_message *m)
{
    struct hfi_claim *claim;

    pthread_mutex_lock(&store->lock);
    claim = find_held(store, m->owner);
    if (claim)
        sql_lease_claim(claim)->wanted = m->wanted != HFI_WANTED_NO;
    if (!claim) { /* it may overtake the grant */
        const struct sql_wait *wait = sql_wait_find(store, m->owner);

        claim = wait ? wait->claim : NULL;
    }
    pthread_mutex_unlock(&store->lock);
    if (claim)
        store->host->wanted(store->host, claim, m->owner, m->wanted, m->text);
}

void sql_held_lost(struct sql_store *store, const unsigned char *owner)
{
    struct hfi_claim *claim;

    pthread_mutex_lock(&store->lock);
    claim = find_held(store, owner);
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
    if (m->kind == SQL_NOTICE_WANTED) {
        held_wanted(store, m);
        return;
    }
    pthread_mutex_lock(&store->lock);
    if (m->kind == SQL_NOTICE_ANY) {
        listener->heartbeat_now = true;
        for (wait = store->waits; wait; wait = wait->next) /* it may have been a cell */
            if (!wait->claim)
                sql_wait_wake(wait);
    } else if (m->kind == SQL_NOTICE_GRANT) {
        wait = sql_wait_find(store, m->owner);
        if (wait && !wait->granted)
            wait->others_wait = m->others_wait;
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
            if (!wait->claim && wait->cell == m->cell)
                sql_wait_wake(wait);
    }
    pthread_mutex_unlock(&store->lock);
}
