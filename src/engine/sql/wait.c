/* SPDX-License-Identifier: MIT */
/*
 * Those who wait, and the bell: one thread for each open store, from its first lease on. It hears of grants and
 * losses, says every third of a window that we live (BEAT), asks when something ahead of our waiters must have
 * expired (POKE), and tells the server of local passes. It has a link of its own from when somebody has to wait, or
 * has held something for a quarter of a second: a lock that is taken and given back costs no second connection.
 *
 * Waiting threads sleep on a futex, without a link.
 */
#include "engine/sql/wait.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_MIN_MS  50 /* after the bell's link was lost */
#define PAUSE_MAX_MS  2000
#define BATCH         256 /* waits that one BEAT names */
#define NOTE_AFTER_MS 20  /* passes come in bursts: the last one counts */
#define DOZE_MS       250 /* what is held for longer is worth a link that hears of its loss */

/* What the bell keeps for itself; under conn->lock. */
struct bell {
    bool stop;
    bool up;          /* it listens */
    bool asleep;      /* nothing is held: it wants a kick when something is */
    bool beat_now;    /* somebody wants one, or a ring asked for it */
    int64_t until_ms; /* it sleeps until then, unless it hears something */
    int64_t note_ms;  /* when to send notes */
    hf_error why;     /* it is not up */
    uint32_t failures;
    uint32_t round; /* of beats */
    _Atomic uint32_t
        turns; /* raised whenever one of these changes; who waits for the bell sleeps on it */
};

static void *bell_main(void *arg);

/* ---- waits ------------------------------------------------------------------------------------------- */

void sql_wait_add(struct hfi_conn *conn, struct sql_wait *wait)
{
    pthread_mutex_lock(&conn->lock);
    wait->prev = NULL;
    wait->next = conn->waits;
    if (conn->waits)
        conn->waits->prev = wait;
    conn->waits = wait;
    pthread_mutex_unlock(&conn->lock);
}

void sql_wait_remove(struct hfi_conn *conn, struct sql_wait *wait)
{
    pthread_mutex_lock(&conn->lock);
    if (wait->next)
        wait->next->prev = wait->prev;
    if (wait->prev)
        wait->prev->next = wait->next;
    else
        conn->waits = wait->next;
    pthread_mutex_unlock(&conn->lock);
}

void sql_wait_wake(struct sql_wait *wait)
{
    atomic_fetch_add(&wait->word, 1);
    hfi_futex_wake(&wait->word, 1, false);
}

void sql_wait_sleep(struct hfi_conn *conn, struct sql_wait *wait, int64_t until_ms)
{
    uint32_t word = atomic_load(&wait->word);
    bool busy;

    pthread_mutex_lock(&conn->lock);
    busy = wait->granted || wait->forgotten || wait->changed || wait->stop != HF_OK;
    pthread_mutex_unlock(&conn->lock);
    if (!busy && atomic_load(&wait->op->stop) == 0)
        hfi_futex_wait(&wait->word, word, until_ms, false);
}

void sql_wait_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    struct bell *bell;

    pthread_mutex_lock(&conn->lock);
    for (struct sql_wait *w = conn->waits; w; w = w->next)
        if (w->op == op) {
            if (w->stop == HF_OK)
                w->stop = status;
            sql_wait_wake(w);
        }
    bell = conn->wait_state;
    if (bell) { /* it may wait for the bell */
        atomic_fetch_add(&bell->turns, 1);
        hfi_futex_wake(&bell->turns, INT32_MAX, false);
    }
    pthread_mutex_unlock(&conn->lock);
}

/* ---- the bell, from outside ---------------------------------------------------------------------------- */

void sql_bell_kick(struct hfi_conn *conn)
{
    uint64_t one = 1;
    ssize_t rc = write(conn->kick_fd, &one, sizeof one);

    (void)rc; /* it is full: the bell is being kicked already */
}

bool sql_bell_fresh(const struct hfi_conn *conn)
{
    const struct bell *bell = conn->wait_state;

    return bell && bell->up && conn->beat_sent_ms > 0 &&
           hfi_now_ms() - conn->beat_sent_ms < conn->conf.window_min_ms / 2;
}

static bool is_name_stopped(const struct sql_wait *wait)
{
    return wait->stop != HF_OK || atomic_load(&wait->op->stop) != 0;
}

/* With the lock. */
static hf_status start(struct hfi_conn *conn, hf_error *err)
{
    struct bell *bell = conn->wait_state;
    sigset_t all, old;
    int rc;

    if (conn->bell_runs)
        return HF_OK;
    if (!bell) {
        bell = conn->wait_state = hfi_calloc(1, sizeof *bell);
        if (!bell)
            return hfi_error_memory(err);
        bell->note_ms = HFI_NEVER;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&conn->bell_thread, NULL, bell_main, conn);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return hfi_error_set(err, HF_NO_MEMORY, rc, "cannot start a thread: %s", strerror(rc));
    conn->bell_runs = true;
    return HF_OK;
}

hf_status sql_bell_ready(struct hfi_conn *conn, struct sql_wait *wait, int64_t deadline_ms,
                         hf_error *err)
{
    hf_status status;
    struct bell *bell;
    uint32_t turn, failures;

    pthread_mutex_lock(&conn->lock);
    status = start(conn, err);
    bell = conn->wait_state;
    failures = status == HF_OK ? bell->failures : 0;
    while (status == HF_OK && !sql_bell_fresh(conn)) {
        if (is_name_stopped(wait) || hfi_now_ms() >= deadline_ms)
            break; /* the caller finds that too */
        if (bell->failures != failures) {
            if (err)
                *err = bell->why;
            status = bell->why.status;
            break;
        }
        bell->beat_now = true;
        turn = atomic_load(&bell->turns);
        pthread_mutex_unlock(&conn->lock);
        sql_bell_kick(conn);
        hfi_futex_wait(&bell->turns, turn, deadline_ms, false);
        pthread_mutex_lock(&conn->lock);
    }
    pthread_mutex_unlock(&conn->lock);
    return status;
}

void sql_bell_stop(struct hfi_conn *conn)
{
    struct bell *bell = conn->wait_state;

    if (conn->bell_runs) {
        pthread_mutex_lock(&conn->lock);
        bell->stop = true;
        pthread_mutex_unlock(&conn->lock);
        sql_bell_kick(conn);
        pthread_join(conn->bell_thread, NULL);
        conn->bell_runs = false;
    }
    if (conn->bell)
        sql_drop(conn->bell);
    conn->bell = NULL;
    hfi_free(bell);
    conn->wait_state = NULL;
}

void sql_bell_by(struct hfi_conn *conn, int64_t at_ms)
{
    const struct bell *bell = conn->wait_state;

    if (bell && at_ms < bell->until_ms)
        sql_bell_kick(conn);
}

void sql_bell_hold(struct hfi_conn *conn)
{
    struct bell *bell;
    hf_error err;

    if (start(conn, &err) != HF_OK)
        return; /* we learn of a loss from our next renewal */
    bell = conn->wait_state;
    if (bell->asleep) {
        bell->asleep = false;
        sql_bell_kick(conn);
    }
}

void sql_bell_note(struct hfi_conn *conn)
{
    struct bell *bell = conn->wait_state;

    if (bell && bell->note_ms == HFI_NEVER) {
        bell->note_ms = hfi_now_ms() + NOTE_AFTER_MS;
        sql_bell_kick(conn);
    }
}

/* ---- the bell's thread: one thing after the other ---------------------------------------------------------- */

static void turned(struct bell *bell)
{
    atomic_fetch_add(&bell->turns, 1);
    hfi_futex_wake(&bell->turns, INT32_MAX, false);
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
    wait->poke_ms = HFI_NEVER;
    sql_wait_wake(wait);
}

void sql_wait_message(struct hfi_conn *conn, struct sql_wait *wait, uint64_t token, uint32_t tokens,
                      int64_t window_ms)
{
    struct bell *bell = conn->wait_state;

    switch (hfi_message_judge(wait->state, wait->heard_ms, wait->floor, token, window_ms,
                              hfi_now_ms())) {
    case HFI_MESSAGE_IGNORE:
        return;
    case HFI_MESSAGE_RECHECK:
        bell->beat_now = true;
        sql_bell_kick(conn);
        return;
    case HFI_MESSAGE_GRANT:
        grant(wait, token, tokens, wait->heard_ms, window_ms);
        return;
    }
}

static struct sql_wait *find(struct hfi_conn *conn, const unsigned char *owner)
{
    struct sql_wait *wait = conn->waits;

    while (wait && (!wait->claim || memcmp(wait->claim->owner, owner, HFI_OWNER_LEN) != 0))
        wait = wait->next;
    return wait;
}

static void lost(struct hfi_conn *conn, const unsigned char *owner)
{
    struct hfi_claim *claim;

    pthread_mutex_lock(&conn->lock);
    for (claim = conn->held; claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0;)
        claim = claim->engine[SQL_CLAIM_NEXT];
    pthread_mutex_unlock(&conn->lock);
    if (claim)
        conn->host->lost(conn->host, claim, owner, "it was broken");
}

static void hear(struct hfi_conn *conn, const struct sql_message *m)
{
    struct bell *bell = conn->wait_state;
    struct sql_wait *wait;

    if (m->kind == SQL_BELL_LOST) {
        lost(conn, m->owner);
        return;
    }
    pthread_mutex_lock(&conn->lock);
    if (m->kind == SQL_BELL_RUNG) {
        bell->beat_now = true;
        for (wait = conn->waits; wait; wait = wait->next) /* it may have been a cell */
            if (!wait->claim) {
                wait->changed = true;
                sql_wait_wake(wait);
            }
    } else if (m->kind == SQL_BELL_GRANT) {
        wait = find(conn, m->owner);
        if (wait && wait->state == HFI_WAITER_ASKING) {
            /* Messages have no attempt numbers here: the answer that is under way tells whether it is an old one. */
            wait->told = true;
            wait->token = m->token;
            wait->tokens = m->tokens;
            wait->lasts_ms = m->window_ms;
        } else if (wait && !wait->granted) {
            sql_wait_message(conn, wait, m->token, m->tokens, m->window_ms);
        }
    } else if (m->kind == SQL_BELL_CELL) {
        for (wait = conn->waits; wait; wait = wait->next)
            if (!wait->claim && wait->cell == m->cell) {
                wait->changed = true;
                sql_wait_wake(wait);
            }
    }
    pthread_mutex_unlock(&conn->lock);
}

/* ---- beats and pokes ------------------------------------------------------------------------------------------ */

/* Names and owners of waits, copied: the waits themselves may be gone when the answer comes. */
struct roll {
    uint32_t count;
    int64_t window_ms;
    struct sql_value params[2 + 2 * BATCH];
    unsigned char owners[BATCH][HFI_OWNER_LEN];
    unsigned char names[BATCH][HF_NAME_MAX];
};

static void enlist(struct roll *roll, const struct hfi_claim *claim)
{
    uint32_t i = roll->count++;

    memcpy(roll->owners[i], claim->owner, HFI_OWNER_LEN);
    memcpy(roll->names[i], claim->name.bytes, claim->name.len);
    roll->params[2 + 2 * i] = sql_bytes(roll->names[i], claim->name.len);
    roll->params[3 + 2 * i] = sql_bytes(roll->owners[i], HFI_OWNER_LEN);
}

/* Those that have not been named in this round. With `held` also what we hold: what was said while nobody
 * listened may have been that it was broken. */
static void call_roll(struct hfi_conn *conn, struct roll *roll, uint32_t round, bool held)
{
    void *mark = (void *)(uintptr_t)round;

    roll->count = 0;
    roll->window_ms = conn->conf.window_min_ms;
    pthread_mutex_lock(&conn->lock);
    for (struct sql_wait *w = conn->waits; w; w = w->next) {
        if (w->window_ms > roll->window_ms)
            roll->window_ms = w->window_ms;
        if (!w->claim || w->state != HFI_WAITER_QUEUED || w->granted || w->forgotten ||
            w->round == round || roll->count == BATCH)
            continue;
        w->round = round;
        enlist(roll, w->claim);
    }
    for (struct hfi_claim *c = conn->held; held && c; c = c->engine[SQL_CLAIM_NEXT]) {
        if (c->engine[SQL_CLAIM_ROUND] == mark || roll->count == BATCH)
            continue;
        c->engine[SQL_CLAIM_ROUND] = mark;
        enlist(roll, c);
    }
    pthread_mutex_unlock(&conn->lock);
    roll->params[0] = sql_int_of(conn->client);
    roll->params[1] = sql_int_of(roll->window_ms);
}

/* One answer of a BEAT. */
static void answer(struct hfi_conn *conn, const struct roll *roll, const struct sql_rows *rows,
                   uint32_t row, int64_t sent_ms)
{
    int64_t i = sql_int(rows, row, 0), ms = sql_int(rows, row, 4);
    uint64_t token = (uint64_t)sql_int(rows, row, 2);
    char letter = sql_letter(rows, row, 1);
    struct sql_wait *wait;

    if (i < 0 || i >= roll->count)
        return;
    pthread_mutex_lock(&conn->lock);
    wait = find(conn, roll->owners[i]);
    if (wait && wait->state == HFI_WAITER_QUEUED && !wait->granted) {
        switch (hfi_waiter_answered(HFI_WAITER_QUEUED, letter)) {
        case HFI_ANSWER_QUEUED:
            wait->heard_ms = sent_ms;
            if (token > wait->floor)
                wait->floor = token; /* heard_ms is not before what was granted up to it */
            wait->poke_ms = ms > 0 ? hfi_now_ms() + ms + HFI_RECHECK_MS : HFI_NEVER;
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
    pthread_mutex_unlock(&conn->lock);
    if (!wait && letter == 'N')
        lost(conn, roll->owners[i]);
}

static struct sql_link *own_link(const struct hfi_conn *conn)
{
    return conn->driver->bell_calls ? conn->bell : NULL;
}

static hf_status beat_some(struct hfi_conn *conn, struct roll *roll, hf_error *err)
{
    struct sql_request r = { .call = SQL_BEAT, .params = roll->params, .link = own_link(conn) };
    hf_status status;

    r.count = 2 + 2 * roll->count;
    r.deadline_ms = hfi_now_ms() + conn->conf.op_ms;
    status = sql_call(conn, &r);
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    pthread_mutex_lock(&conn->lock);
    conn->beat_sent_ms = r.sent_ms;
    pthread_mutex_unlock(&conn->lock);
    for (uint32_t i = 0; i < r.rows.count; i++)
        answer(conn, roll, &r.rows, i, r.sent_ms);
    sql_rows_free(&r.rows);
    return HF_OK;
}

static hf_status beat(struct hfi_conn *conn, struct roll *roll, bool held, hf_error *err)
{
    struct bell *bell = conn->wait_state;
    hf_status status;

    pthread_mutex_lock(&conn->lock);
    bell->beat_now = false; /* who asks from here on wants another */
    bell->round++;
    pthread_mutex_unlock(&conn->lock);
    do {
        call_roll(conn, roll, bell->round, held);
        status = beat_some(conn, roll, err);
    } while (status == HF_OK && roll->count == BATCH);
    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&conn->lock);
    bell->up = true;
    turned(bell);
    pthread_mutex_unlock(&conn->lock);
    return HF_OK;
}

/* Something ahead of this wait must be over. Others of the same name need not ask too. */
static hf_status poke(struct hfi_conn *conn, const unsigned char *bytes, uint32_t len,
                      hf_error *err)
{
    struct sql_value name = sql_bytes(bytes, len);
    struct sql_request r = {
        .call = SQL_POKE, .params = &name, .count = 1, .link = own_link(conn)
    };
    int64_t next_ms;
    hf_status status;

    r.deadline_ms = hfi_now_ms() + conn->conf.op_ms;
    status = sql_call(conn, &r);
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    next_ms = sql_int(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    pthread_mutex_lock(&conn->lock);
    for (struct sql_wait *w = conn->waits; w; w = w->next)
        if (w->claim && w->poke_ms <= hfi_now_ms() && w->claim->name.len == len &&
            memcmp(w->claim->name.bytes, bytes, len) == 0)
            w->poke_ms = next_ms > 0 ? hfi_now_ms() + next_ms + HFI_RECHECK_MS : HFI_NEVER;
    pthread_mutex_unlock(&conn->lock);
    return HF_OK;
}

static hf_status pokes(struct hfi_conn *conn, hf_error *err)
{
    unsigned char name[HF_NAME_MAX];
    hf_status status = HF_OK;

    while (status == HF_OK) {
        struct sql_wait *w;
        uint32_t len = 0;

        pthread_mutex_lock(&conn->lock);
        for (w = conn->waits; w; w = w->next)
            if (w->claim && w->state == HFI_WAITER_QUEUED && w->poke_ms <= hfi_now_ms())
                break;
        if (w) {
            len = w->claim->name.len;
            memcpy(name, w->claim->name.bytes, len);
        }
        pthread_mutex_unlock(&conn->lock);
        if (!w)
            return HF_OK;
        status = poke(conn, name, len, err);
    }
    return status;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* When there is something to do by ourselves; *ret_beat: a beat is due now. */
static int64_t next_ms(struct hfi_conn *conn, bool *ret_beat)
{
    struct bell *bell = conn->wait_state;
    int64_t now_ms = hfi_now_ms(), next_ms = HFI_NEVER, third_ms = HFI_NEVER;

    pthread_mutex_lock(&conn->lock);
    for (const struct sql_wait *w = conn->waits; w; w = w->next) {
        if (w->window_ms > 0 && hfi_heartbeat_ms(w->window_ms) < third_ms)
            third_ms = hfi_heartbeat_ms(w->window_ms);
        if (w->claim && w->state == HFI_WAITER_QUEUED && w->poke_ms < next_ms)
            next_ms = w->poke_ms;
    }
    if (third_ms != HFI_NEVER && conn->beat_sent_ms + third_ms < next_ms)
        next_ms = conn->beat_sent_ms + third_ms;
    *ret_beat =
        bell->beat_now || (third_ms != HFI_NEVER && now_ms >= conn->beat_sent_ms + third_ms);
    if (bell->note_ms < next_ms)
        next_ms = bell->note_ms;
    if (*ret_beat)
        next_ms = now_ms;
    bell->until_ms = next_ms;
    pthread_mutex_unlock(&conn->lock);
    return next_ms;
}

static bool is_stopped(struct hfi_conn *conn)
{
    const struct bell *bell = conn->wait_state;
    bool stop;

    pthread_mutex_lock(&conn->lock);
    stop = bell->stop;
    pthread_mutex_unlock(&conn->lock);
    return stop;
}

static bool notes_due(struct hfi_conn *conn)
{
    struct bell *bell = conn->wait_state;
    bool due;

    pthread_mutex_lock(&conn->lock);
    due = bell->note_ms <= hfi_now_ms();
    if (due)
        bell->note_ms = HFI_NEVER;
    pthread_mutex_unlock(&conn->lock);
    return due;
}

/* Notes that could not be sent on our own link: it is lost. */
static hf_status notes(struct hfi_conn *conn, hf_error *err)
{
    hf_status status = sql_notes_send(conn, own_link(conn), hfi_now_ms() + conn->conf.op_ms, err);

    return own_link(conn) ? status : HF_OK;
}

/* Whoever waits for a cell has missed what was said while nobody listened. */
static void look_at_cells(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    for (struct sql_wait *w = conn->waits; w; w = w->next)
        if (!w->claim) {
            w->changed = true;
            sql_wait_wake(w);
        }
    pthread_mutex_unlock(&conn->lock);
}

/* Listen, and work, until the link is lost or we are stopped. */
static hf_status serve(struct hfi_conn *conn, struct roll *roll, hf_error *err)
{
    hf_status status =
        beat(conn, roll, true, err); /* what was said before we listened is learnt now */

    if (status == HF_OK)
        look_at_cells(conn);
    while (status == HF_OK && !is_stopped(conn)) {
        struct sql_message message = { .kind = SQL_BELL_QUIET };
        bool due;
        int64_t until_ms = next_ms(conn, &due);

        status = conn->driver->bell_wait(conn->bell, conn->kick_fd, until_ms, &message, err);
        if (status != HF_OK)
            break;
        if (message.kind != SQL_BELL_QUIET) {
            hear(conn, &message);
            if (until_ms > hfi_now_ms())
                continue; /* what has been said first, as long as nothing else is due */
        }
        (void)next_ms(conn, &due);
        if (due)
            status = beat(conn, roll, false, err);
        if (status == HF_OK)
            status = pokes(conn, err);
        if (status == HF_OK && notes_due(conn))
            status = notes(conn, err);
    }
    return status;
}

static void failed(struct hfi_conn *conn, const hf_error *err)
{
    struct bell *bell = conn->wait_state;

    pthread_mutex_lock(&conn->lock);
    bell->up = false;
    bell->failures++;
    bell->why = *err;
    if (bell->why.status == HF_OK || bell->why.status == HF_UNKNOWN)
        bell->why.status = HF_UNAVAILABLE;
    turned(bell);
    pthread_mutex_unlock(&conn->lock);
}

/* A while, or until we are stopped. */
static void bell_pause(struct hfi_conn *conn, int64_t ms)
{
    int64_t until_ms = hfi_now_ms() + ms, left_ms;
    struct pollfd at = { .fd = conn->kick_fd, .events = POLLIN };
    uint64_t count;

    while (!is_stopped(conn) && (left_ms = until_ms - hfi_now_ms()) > 0)
        if (poll(&at, 1, (int)left_ms) > 0 && read(conn->kick_fd, &count, sizeof count) < 0)
            return;
}

/* Until somebody needs to be told something; false: we are stopped. */
static bool doze(struct hfi_conn *conn)
{
    struct bell *bell = conn->wait_state;
    struct pollfd at = { .fd = conn->kick_fd, .events = POLLIN };
    uint64_t count;
    ssize_t rc;

    for (;;) {
        bool wanted = false, stop, asleep;

        pthread_mutex_lock(&conn->lock);
        stop = bell->stop;
        for (struct hfi_claim *c = conn->held; c && !wanted; c = c->engine[SQL_CLAIM_NEXT])
            wanted = hfi_now_ms() - (int64_t)(intptr_t)c->engine[SQL_CLAIM_SINCE] >= DOZE_MS;
        for (struct sql_wait *w = conn->waits; w && !wanted; w = w->next)
            wanted = !w->claim || w->state == HFI_WAITER_QUEUED;
        wanted = wanted || bell->beat_now || conn->notes;
        asleep = bell->asleep = !wanted && !conn->held;
        pthread_mutex_unlock(&conn->lock);
        if (stop || wanted)
            return !stop;
        if (poll(&at, 1, asleep ? -1 : DOZE_MS) > 0) {
            rc = read(conn->kick_fd, &count, sizeof count);
            (void)rc;
        }
    }
}

static void *bell_main(void *arg)
{
    struct hfi_conn *conn = arg;
    struct roll *roll = hfi_calloc(1, sizeof *roll);
    int64_t pause_ms = PAUSE_MIN_MS;
    hf_error err;

    while (doze(conn)) {
        int64_t deadline_ms = hfi_now_ms() + conn->conf.connect_ms;
        struct sql_link *link = NULL;
        hf_status status;

        hfi_error_clear(&err);
        status =
            roll ? conn->driver->bell_open(conn, deadline_ms, &link, &err) : hfi_error_memory(&err);
        if (status == HF_OK) {
            sql_adopt_link(link);
            conn->bell = link;
            if (serve(conn, roll, &err) == HF_OK)
                break;
            conn->bell = NULL;
            sql_drop(link);
            pause_ms = PAUSE_MIN_MS;
        }
        failed(conn, &err);
        bell_pause(conn, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        if (!roll)
            roll = hfi_calloc(1, sizeof *roll);
    }
    hfi_free(roll);
    return NULL;
}
