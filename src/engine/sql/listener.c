/* SPDX-License-Identifier: MIT */
/*
 * Those who wait, and the listener: one thread for each open store, from its first lease on. It hears of grants and
 * losses, says every third of a window that we live (HEARTBEAT), asks when something ahead of our waiters must have
 * expired (RECHECK), and tells the server of local passes. It has a connection of its own from when somebody has to wait, or
 * has held something for a quarter of a second: a lock that is taken and given back costs no second connection.
 *
 * Waiting threads sleep on a futex, without a connection.
 */
#include "engine/sql/listener.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MIN_MS  50 /* after the listener's connection was lost */
#define PAUSE_MAX_MS  2000
#define BATCH         256 /* waits that one HEARTBEAT names */
#define NOTE_AFTER_MS 20  /* passes come in bursts: the last one counts */
#define IDLE_MS       250 /* what is held for longer is worth a connection that hears of its loss */

/* What the listener keeps for itself; under store->lock. */
struct sql_listener {
    bool stop;
    bool up;            /* it listens */
    bool asleep;        /* nothing is held: it wants a kick when something is */
    bool heartbeat_now; /* somebody wants one, or a notify asked for it */
    int64_t until_ms;   /* it sleeps until then, unless it hears something */
    int64_t note_ms;    /* when to send notes */
    hf_error why;       /* it is not up */
    uint32_t failures;
    uint32_t round; /* of heartbeats */
    _Atomic uint32_t
        changes; /* raised whenever one of these changes; who waits for the listener sleeps on it */
};

static void *listener_main(void *arg);

/* ---- waits ------------------------------------------------------------------------------------------- */

void sql_wait_add(struct hfi_conn *store, struct sql_wait *wait)
{
    pthread_mutex_lock(&store->lock);
    wait->prev = NULL;
    wait->next = store->waits;
    if (store->waits)
        store->waits->prev = wait;
    store->waits = wait;
    pthread_mutex_unlock(&store->lock);
}

void sql_wait_remove(struct hfi_conn *store, struct sql_wait *wait)
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

void sql_wait_sleep(struct hfi_conn *store, struct sql_wait *wait, int64_t until_ms)
{
    uint32_t word = atomic_load(&wait->word);
    bool busy;

    pthread_mutex_lock(&store->lock);
    busy = wait->granted || wait->forgotten || wait->changed || wait->stop != HF_OK;
    pthread_mutex_unlock(&store->lock);
    if (!busy && atomic_load(&wait->op->stop) == 0)
        hfi_futex_wait(&wait->word, word, until_ms, false);
}

void sql_wait_cancel(struct hfi_conn *store, struct hfi_op *op, hf_status status)
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
    if (listener) { /* it may wait for the listener */
        atomic_fetch_add(&listener->changes, 1);
        hfi_futex_wake(&listener->changes, INT32_MAX, false);
    }
    pthread_mutex_unlock(&store->lock);
}

/* ---- the listener, from outside ---------------------------------------------------------------------------- */

void sql_listener_kick(struct hfi_conn *store)
{
    uint64_t one = 1;
    ssize_t rc = write(store->kick_fd, &one, sizeof one);

    (void)rc; /* it is full: the listener is being kicked already */
}

bool sql_listener_fresh(const struct hfi_conn *store)
{
    const struct sql_listener *listener = store->listener;

    return listener && listener->up && store->heartbeat_sent_ms > 0 &&
           hfi_now_ms() - store->heartbeat_sent_ms < store->conf.window_min_ms / 2;
}

static bool wait_is_cancelled(const struct sql_wait *wait)
{
    return wait->stop != HF_OK || atomic_load(&wait->op->stop) != 0;
}

/* With the lock. */
static hf_status start(struct hfi_conn *store, hf_error *err)
{
    struct sql_listener *listener = store->listener;
    sigset_t all, old;
    int rc;

    if (store->listener_runs)
        return HF_OK;
    if (!listener) {
        listener = store->listener = hfi_calloc(1, sizeof *listener);
        if (!listener)
            return hfi_error_memory(err);
        listener->note_ms = HFI_NEVER;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&store->listener_thread, NULL, listener_main, store);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return hfi_error_set(err, HF_NO_MEMORY, rc, "cannot start a thread: %s", strerror(rc));
    store->listener_runs = true;
    return HF_OK;
}

hf_status sql_listener_ready(struct hfi_conn *store, struct sql_wait *wait, int64_t deadline_ms,
                             hf_error *err)
{
    hf_status status;
    struct sql_listener *listener;
    uint32_t change, failures;

    pthread_mutex_lock(&store->lock);
    status = start(store, err);
    listener = store->listener;
    failures = status == HF_OK ? listener->failures : 0;
    while (status == HF_OK && !sql_listener_fresh(store)) {
        if (wait_is_cancelled(wait) || hfi_now_ms() >= deadline_ms)
            break; /* the caller finds that too */
        if (listener->failures != failures) {
            if (err)
                *err = listener->why;
            status = listener->why.status;
            break;
        }
        listener->heartbeat_now = true;
        change = atomic_load(&listener->changes);
        pthread_mutex_unlock(&store->lock);
        sql_listener_kick(store);
        hfi_futex_wait(&listener->changes, change, deadline_ms, false);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

void sql_listener_stop(struct hfi_conn *store)
{
    struct sql_listener *listener = store->listener;

    if (store->listener_runs) {
        pthread_mutex_lock(&store->lock);
        listener->stop = true;
        pthread_mutex_unlock(&store->lock);
        sql_listener_kick(store);
        pthread_join(store->listener_thread, NULL);
        store->listener_runs = false;
    }
    if (store->listener_connection)
        sql_drop(store->listener_connection);
    store->listener_connection = NULL;
    hfi_free(listener);
    store->listener = NULL;
}

void sql_listener_by(struct hfi_conn *store, int64_t at_ms)
{
    const struct sql_listener *listener = store->listener;

    if (listener && at_ms < listener->until_ms)
        sql_listener_kick(store);
}

void sql_listener_held(struct hfi_conn *store)
{
    struct sql_listener *listener;
    hf_error err;

    if (start(store, &err) != HF_OK)
        return; /* we learn of a loss from our next renewal */
    listener = store->listener;
    if (listener->asleep) {
        listener->asleep = false;
        sql_listener_kick(store);
    }
}

void sql_listener_note(struct hfi_conn *store)
{
    struct sql_listener *listener = store->listener;

    if (listener && listener->note_ms == HFI_NEVER) {
        listener->note_ms = hfi_now_ms() + NOTE_AFTER_MS;
        sql_listener_kick(store);
    }
}

/* ---- the listener thread: one thing after the other ---------------------------------------------------------- */

static void listener_changed(struct sql_listener *listener)
{
    atomic_fetch_add(&listener->changes, 1);
    hfi_futex_wake(&listener->changes, INT32_MAX, false);
}

/* A granted wait; with the lock. */
static void grant(struct sql_wait *wait, uint64_t token, uint32_t tokens, int64_t from_ms,
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

void sql_wait_message(struct hfi_conn *store, struct sql_wait *wait, uint64_t token,
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
        grant(wait, token, tokens, wait->heard_ms, window_ms);
        return;
    }
}

static struct sql_wait *find(struct hfi_conn *store, const unsigned char *owner)
{
    struct sql_wait *wait = store->waits;

    while (wait && (!wait->claim || memcmp(wait->claim->owner, owner, HFI_OWNER_LEN) != 0))
        wait = wait->next;
    return wait;
}

static void lost(struct hfi_conn *store, const unsigned char *owner)
{
    struct hfi_claim *claim;

    pthread_mutex_lock(&store->lock);
    for (claim = store->held; claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0;)
        claim = sql_lease_claim(claim)->next;
    pthread_mutex_unlock(&store->lock);
    if (claim)
        store->host->lost(store->host, claim, owner, "it was broken");
}

static void take_notice(struct hfi_conn *store, const struct sql_message *m)
{
    struct sql_listener *listener = store->listener;
    struct sql_wait *wait;

    if (m->kind == SQL_NOTICE_LOST) {
        lost(store, m->owner);
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
        wait = find(store, m->owner);
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

/* ---- heartbeats and rechecks ------------------------------------------------------------------------------------------ */

/* Names and owners of waits, copied: the waits themselves may be gone when the answer comes. */
struct heartbeat_batch {
    uint32_t count;
    int64_t window_ms;
    struct sql_value params[2 + 2 * BATCH];
    unsigned char owners[BATCH][HFI_OWNER_LEN];
    unsigned char names[BATCH][HF_NAME_MAX];
};

static void batch_add(struct heartbeat_batch *batch, const struct hfi_claim *claim)
{
    uint32_t i = batch->count++;

    memcpy(batch->owners[i], claim->owner, HFI_OWNER_LEN);
    memcpy(batch->names[i], claim->name.bytes, claim->name.len);
    batch->params[2 + 2 * i] = sql_bytes(batch->names[i], claim->name.len);
    batch->params[3 + 2 * i] = sql_bytes(batch->owners[i], HFI_OWNER_LEN);
}

/* Those that have not been named in this round. With `held` also what we hold: what was said while nobody
 * listened may have been that it was broken. */
static void fill_batch(struct hfi_conn *store, struct heartbeat_batch *batch, uint32_t round,
                       bool held)
{
    batch->count = 0;
    batch->window_ms = store->conf.window_min_ms;
    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next) {
        if (w->window_ms > batch->window_ms)
            batch->window_ms = w->window_ms;
        if (!w->claim || w->state != HFI_WAITER_QUEUED || w->granted || w->forgotten ||
            w->round == round || batch->count == BATCH)
            continue;
        w->round = round;
        batch_add(batch, w->claim);
    }
    for (struct hfi_claim *c = store->held; held && c; c = sql_lease_claim(c)->next) {
        if (sql_lease_claim(c)->round == round || batch->count == BATCH)
            continue;
        sql_lease_claim(c)->round = round;
        batch_add(batch, c);
    }
    pthread_mutex_unlock(&store->lock);
    batch->params[0] = sql_int_of(store->client);
    batch->params[1] = sql_int_of(batch->window_ms);
}

/* One answer of a HEARTBEAT. */
static void answer(struct hfi_conn *store, const struct heartbeat_batch *batch,
                   const struct sql_rows *rows, uint32_t row, int64_t sent_ms)
{
    int64_t i = sql_int(rows, row, 0), ms = sql_int(rows, row, 4);
    uint64_t token = (uint64_t)sql_int(rows, row, 2);
    char letter = sql_letter(rows, row, 1);
    struct sql_wait *wait;

    if (i < 0 || i >= batch->count)
        return;
    pthread_mutex_lock(&store->lock);
    wait = find(store, batch->owners[i]);
    if (wait && wait->state == HFI_WAITER_QUEUED && !wait->granted) {
        switch (hfi_waiter_answered(HFI_WAITER_QUEUED, letter)) {
        case HFI_ANSWER_QUEUED:
            wait->heard_ms = sent_ms;
            if (token > wait->floor)
                wait->floor = token; /* heard_ms is not before what was granted up to it */
            wait->recheck_ms = ms > 0 ? hfi_now_ms() + ms + HFI_RECHECK_MS : HFI_NEVER;
            break;
        case HFI_ANSWER_GRANTED:
            grant(wait, token, (uint32_t)sql_int(rows, row, 3), sent_ms, ms);
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
    if (!wait && letter == 'N')
        lost(store, batch->owners[i]);
}

static struct sql_connection *listener_connection(const struct hfi_conn *store)
{
    return store->driver->listener_calls ? store->listener_connection : NULL;
}

static hf_status heartbeat_some(struct hfi_conn *store, struct heartbeat_batch *batch,
                                hf_error *err)
{
    struct sql_request r = { .call = SQL_HEARTBEAT,
                             .params = batch->params,
                             .connection = listener_connection(store) };
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
        answer(store, batch, &r.rows, i, r.sent_ms);
    sql_rows_free(&r.rows);
    return HF_OK;
}

static hf_status heartbeat(struct hfi_conn *store, struct heartbeat_batch *batch, bool held,
                           hf_error *err)
{
    struct sql_listener *listener = store->listener;
    hf_status status;

    pthread_mutex_lock(&store->lock);
    listener->heartbeat_now = false; /* who asks from here on wants another */
    listener->round++;
    pthread_mutex_unlock(&store->lock);
    do {
        fill_batch(store, batch, listener->round, held);
        status = heartbeat_some(store, batch, err);
    } while (status == HF_OK && batch->count == BATCH);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&store->lock);
    listener->up = true;
    listener_changed(listener);
    pthread_mutex_unlock(&store->lock);
    return HF_OK;
}

/* Something ahead of this wait must be over. Others of the same name need not ask too. */
static hf_status recheck(struct hfi_conn *store, const unsigned char *bytes, uint32_t len,
                         hf_error *err)
{
    struct sql_value name = sql_bytes(bytes, len);
    struct sql_request r = {
        .call = SQL_RECHECK, .params = &name, .count = 1, .connection = listener_connection(store)
    };
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

static hf_status recheck_due(struct hfi_conn *store, hf_error *err)
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

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* When there is something to do by ourselves; *ret_heartbeat: a heartbeat is due now. */
static int64_t next_ms(struct hfi_conn *store, bool *ret_heartbeat)
{
    struct sql_listener *listener = store->listener;
    int64_t now_ms = hfi_now_ms(), next_ms = HFI_NEVER, third_ms = HFI_NEVER;

    pthread_mutex_lock(&store->lock);
    for (const struct sql_wait *w = store->waits; w; w = w->next) {
        if (w->window_ms > 0 && hfi_heartbeat_ms(w->window_ms) < third_ms)
            third_ms = hfi_heartbeat_ms(w->window_ms);
        if (w->claim && w->state == HFI_WAITER_QUEUED && w->recheck_ms < next_ms)
            next_ms = w->recheck_ms;
    }
    if (third_ms != HFI_NEVER && store->heartbeat_sent_ms + third_ms < next_ms)
        next_ms = store->heartbeat_sent_ms + third_ms;
    *ret_heartbeat = listener->heartbeat_now ||
                     (third_ms != HFI_NEVER && now_ms >= store->heartbeat_sent_ms + third_ms);
    if (listener->note_ms < next_ms)
        next_ms = listener->note_ms;
    if (*ret_heartbeat)
        next_ms = now_ms;
    listener->until_ms = next_ms;
    pthread_mutex_unlock(&store->lock);
    return next_ms;
}

static bool is_stopped(struct hfi_conn *store)
{
    const struct sql_listener *listener = store->listener;
    bool stop;

    pthread_mutex_lock(&store->lock);
    stop = listener->stop;
    pthread_mutex_unlock(&store->lock);
    return stop;
}

static bool notes_due(struct hfi_conn *store)
{
    struct sql_listener *listener = store->listener;
    bool due;

    pthread_mutex_lock(&store->lock);
    due = listener->note_ms <= hfi_now_ms();
    if (due)
        listener->note_ms = HFI_NEVER;
    pthread_mutex_unlock(&store->lock);
    return due;
}

/* Notes that could not be sent on our own connection: it is lost. */
static hf_status notes(struct hfi_conn *store, hf_error *err)
{
    hf_status status =
        sql_notes_send(store, listener_connection(store), hfi_now_ms() + store->conf.op_ms, err);

    return listener_connection(store) ? status : HF_OK;
}

/* Whoever waits for a cell has missed what was said while nobody listened. */
static void recheck_cells(struct hfi_conn *store)
{
    pthread_mutex_lock(&store->lock);
    for (struct sql_wait *w = store->waits; w; w = w->next)
        if (!w->claim) {
            w->changed = true;
            sql_wait_wake(w);
        }
    pthread_mutex_unlock(&store->lock);
}

/* Listen, and work, until the connection is lost or we are stopped. */
static hf_status serve(struct hfi_conn *store, struct heartbeat_batch *batch, hf_error *err)
{
    hf_status status =
        heartbeat(store, batch, true, err); /* what was said before we listened is learnt now */

    if (status == HF_OK)
        recheck_cells(store);
    while (status == HF_OK && !is_stopped(store)) {
        struct sql_message message = { .kind = SQL_NOTICE_NONE };
        bool due;
        int64_t until_ms = next_ms(store, &due);

        status = store->driver->next_notice(store->listener_connection, store->kick_fd, until_ms,
                                            &message, err);
        if (status != HF_OK)
            break;
        if (message.kind != SQL_NOTICE_NONE) {
            take_notice(store, &message);
            if (until_ms > hfi_now_ms())
                continue; /* what has been said first, as long as nothing else is due */
        }
        (void)next_ms(store, &due);
        if (due)
            status = heartbeat(store, batch, false, err);
        if (status == HF_OK)
            status = recheck_due(store, err);
        if (status == HF_OK && notes_due(store))
            status = notes(store, err);
    }
    return status;
}

static void failed(struct hfi_conn *store, const hf_error *err)
{
    struct sql_listener *listener = store->listener;

    pthread_mutex_lock(&store->lock);
    listener->up = false;
    listener->failures++;
    listener->why = *err;
    if (listener->why.status == HF_OK || listener->why.status == HF_UNKNOWN)
        listener->why.status = HF_UNAVAILABLE;
    listener_changed(listener);
    pthread_mutex_unlock(&store->lock);
}

/* A while, or until we are stopped. */
static void listener_pause(struct hfi_conn *store, int64_t ms)
{
    int64_t until_ms = hfi_now_ms() + ms, left_ms;
    struct pollfd at = { .fd = store->kick_fd, .events = POLLIN };
    uint64_t count;

    while (!is_stopped(store) && (left_ms = until_ms - hfi_now_ms()) > 0)
        if (poll(&at, 1, (int)left_ms) > 0 && read(store->kick_fd, &count, sizeof count) < 0)
            return;
}

/* Until somebody needs to be told something; false: we are stopped. */
static bool wait_for_work(struct hfi_conn *store)
{
    struct sql_listener *listener = store->listener;
    struct pollfd at = { .fd = store->kick_fd, .events = POLLIN };
    uint64_t count;
    ssize_t rc;

    for (;;) {
        bool wanted = false, stop, asleep;

        pthread_mutex_lock(&store->lock);
        stop = listener->stop;
        for (struct hfi_claim *c = store->held; c && !wanted; c = sql_lease_claim(c)->next)
            wanted = hfi_now_ms() - sql_lease_claim(c)->since_ms >= IDLE_MS;
        for (struct sql_wait *w = store->waits; w && !wanted; w = w->next)
            wanted = !w->claim || w->state == HFI_WAITER_QUEUED;
        wanted = wanted || listener->heartbeat_now || store->notes;
        asleep = listener->asleep = !wanted && !store->held;
        pthread_mutex_unlock(&store->lock);
        if (stop || wanted)
            return !stop;
        if (poll(&at, 1, asleep ? -1 : IDLE_MS) > 0) {
            rc = read(store->kick_fd, &count, sizeof count);
            (void)rc;
        }
    }
}

static void *listener_main(void *arg)
{
    struct hfi_conn *store = arg;
    struct heartbeat_batch *batch = hfi_calloc(1, sizeof *batch);
    int64_t pause_ms = PAUSE_MIN_MS;
    hf_error err;

    while (wait_for_work(store)) {
        int64_t deadline_ms = hfi_now_ms() + store->conf.connect_ms;
        struct sql_connection *connection = NULL;
        hf_status status;

        hfi_error_clear(&err);
        status = batch ? store->driver->listen(store, deadline_ms, &connection, &err)
                       : hfi_error_memory(&err);
        if (status == HF_OK) {
            sql_pool_adopt(connection);
            store->listener_connection = connection;
            if (serve(store, batch, &err) == HF_OK)
                break;
            store->listener_connection = NULL;
            sql_drop(connection);
            pause_ms = PAUSE_MIN_MS;
        }
        failed(store, &err);
        listener_pause(store, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        if (!batch)
            batch = hfi_calloc(1, sizeof *batch);
    }
    hfi_free(batch);
    return NULL;
}
