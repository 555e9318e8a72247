/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: acquire, and its waiting, on the caller's thread or, without one, on workers: it has one for each statement, and is
 * suspended in between (listener.h).
 *
 *             busy                  the listener listens
 *   ASK ------------------> LISTENER -------------------+
 *    ^ \                      | it cannot now           |
 *    |  \ not reachable       v                         |
 *    |   +----------------> REST -- in a while -------> ASK
 *    |
 *    +-- forgotten, lapsed -- QUEUED <-- queued -- ASK          each of them: END, when it is granted, refused or stopped
 *
 * kit/handover.h has the states that the server knows of, and the rules. CANCELLING and CONFIRMING last as long as one statement.
 *
 * The first ACQUIRE does not ask to be queued unless the listener listens already: an uncontended
 * lock costs one round trip and no thread. If the name is busy, the listener is started, and the
 * acquire asks again.
 */
#include "engine/sql/listener.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <assert.h>
#include <string.h>

#define REST_MS 250 /* about the interval at which a server that cannot be reached is asked again */
#define GRACE_MS \
    250 /* extra time for the answer beyond our deadline: giving up would cost the connection */
#define DENY_TRIES 3

static enum sql_step ask(struct sql_acquire *a);
static enum sql_step queued(struct sql_acquire *a, hf_status stop);
static enum sql_step leave(struct sql_acquire *a, hf_status stop);
static hf_status deny(struct sql_acquire *a, hf_status status);
static enum sql_step take_grant(struct sql_acquire *a, uint64_t token, uint32_t tokens,
                                int64_t from_ms, int64_t lasts_ms);

int64_t sql_window_ms(const struct sql_store *store, int64_t ttl_ms)
{
    const struct sql_conf *conf = &store->conf;

    return hfi_window_ms(ttl_ms, conf->window_min_ms, conf->window_max_ms);
}

static hf_status stopped(const struct sql_acquire *a)
{
    const struct hfi_op *op = a->wait.op;
    hf_status stop = (hf_status)atomic_load(&op->stop);

    if (stop == HF_OK && hfi_now_ms() >= op->deadline_ms)
        stop = op->may_wait ? HF_TIMEOUT : HF_UNAVAILABLE;
    return stop;
}

/* The listener reads the state of a wait that is in the list. */
static void enter(struct sql_acquire *a, enum hfi_waiter_state state)
{
    pthread_mutex_lock(&a->wait.store->lock);
    /* No answer chooses a step: after CANCELLING nothing is asked again, since what stopped the acquire stays. */
    assert(hfi_waiter_may(a->wait.state, state));
    a->wait.state = state;
    pthread_mutex_unlock(&a->wait.store->lock);
}

static enum sql_step end(struct sql_acquire *a, hf_status status)
{
    a->status = status;
    return SQL_STEP_END;
}

/* The server cannot be asked now. */
static enum sql_step begin_rest(struct sql_acquire *a)
{
    enter(a, HFI_WAITER_RESTING);
    a->rest_ms = hfi_now_ms() + REST_MS / 2 + (int64_t)(hfi_random_u64() % REST_MS);
    return SQL_STEP_REST;
}

/* ... and take the same step again. */
static enum sql_step sleep_until(struct sql_acquire *a, int64_t until_ms)
{
    enum sql_step step = a->step;

    if (until_ms > a->wait.op->deadline_ms)
        until_ms = a->wait.op->deadline_ms;
    return sql_wait_sleep(&a->wait, until_ms) ? step : SQL_STEP_SUSPENDED;
}

static enum sql_step await_listener(struct sql_acquire *a)
{
    hf_status status = sql_listener_ready(&a->wait, &a->wait.op->error);

    switch (status) {
    case HF_OK:
        return SQL_STEP_ASK;
    case HF_BUSY:
        return sleep_until(a, HFI_NEVER);
    case HF_UNAVAILABLE:
        return begin_rest(a);
    default:
        return end(a, deny(a, status));
    }
}

static enum sql_step take_step(struct sql_acquire *a)
{
    hf_status stop = stopped(a);

    if (a->step == SQL_STEP_QUEUED)
        return queued(a, stop);
    if (stop != HF_OK)
        return leave(a, stop);
    switch (a->step) {
    case SQL_STEP_LISTENER:
        return await_listener(a);
    case SQL_STEP_REST:
        return hfi_now_ms() < a->rest_ms ? sleep_until(a, a->rest_ms) : SQL_STEP_ASK;
    default:
        return ask(a);
    }
}

static void begin(struct sql_acquire *a, struct sql_store *store, struct hfi_op *op)
{
    a->wait.store = store;
    a->wait.op = op;
    a->wait.claim = op->claim;
    a->wait.window_ms = op->may_wait ? sql_window_ms(store, op->claim->ttl_ms) : 0;
    a->wait.recheck_ms = HFI_NEVER;
    a->step = SQL_STEP_ASK;
    if (op->claim->flags & HFI_CLAIM_WATCHED)
        atomic_store(&store->watches, true);
    /* A try too: others may want it before we know that we have it. */
    if (op->may_wait || op->claim->flags & HFI_CLAIM_WATCHED)
        sql_wait_add(&a->wait);
}

void sql_acquire(struct sql_store *store, struct hfi_op *op)
{
    struct sql_acquire *a = (struct sql_acquire *)(void *)op->room;

    if (a->step == SQL_STEP_BEGIN)
        begin(a, store, op);
    while (a->step != SQL_STEP_END) {
        enum sql_step step = take_step(a);

        if (step == SQL_STEP_SUSPENDED)
            return; /* another thread may be here already */
        a->step = step;
        a->wait.resumed_ms = 0;
    }
    if (a->status == HF_OK)
        sql_held_add(store, op->claim);
    if (a->wait.listed) /* after that: what is heard finds the claim in one list or the other */
        sql_wait_remove(&a->wait);
    sql_finish(op, a->status, &op->error);
}

/* ---- asking --------------------------------------------------------------------------------------- */

/* Q: it is in the queue. A message may have come before the answer. */
static enum sql_step still_waiting(struct sql_acquire *a, const struct sql_rows *rows,
                                   int64_t sent_ms)
{
    struct sql_wait *wait = &a->wait;
    struct sql_store *store = wait->store;
    int64_t recheck_ms = sql_int(rows, 0, 3);

    pthread_mutex_lock(&store->lock);
    wait->state = HFI_WAITER_QUEUED;
    wait->op->ret_queued = true;
    wait->heard_ms = sent_ms;
    wait->floor = (uint64_t)sql_int(rows, 0, 1);
    wait->recheck_ms = recheck_ms > 0 ? hfi_now_ms() + recheck_ms + HFI_RECHECK_MS : HFI_NEVER;
    if (wait->naps && !store->listener->napping)
        sql_listener_kick(store);
    if (wait->told)
        sql_wait_message(store, wait, wait->token, wait->tokens, wait->lasts_ms);
    wait->told = false;
    sql_listener_by(store, wait->recheck_ms);
    sql_listener_by(store, sent_ms + hfi_heartbeat_ms(wait->window_ms));
    if (!sql_listener_fresh(store)) /* the listener's connection was lost meanwhile, and it
                                     * pauses */
        sql_listener_kick(store);
    pthread_mutex_unlock(&store->lock);
    a->in_store = true;
    return SQL_STEP_QUEUED;
}

static enum sql_step asked(struct sql_acquire *a, struct sql_request *r, bool wanted_wait)
{
    struct hfi_op *op = a->wait.op;
    char letter = sql_letter(&r->rows, 0, 0);
    uint32_t slots;

    switch (hfi_waiter_answered(HFI_WAITER_ASKING, letter == 'g' ? 'G' : letter)) {
    case HFI_ANSWER_GRANTED:
        op->claim->others_wait = letter == 'g';
        a->numbered = sql_slots_parse(sql_at(&r->rows, 0, 4), op->claim->slots, &slots) &&
                      slots == op->claim->permits;
        return take_grant(a, (uint64_t)sql_int(&r->rows, 0, 1), (uint32_t)sql_int(&r->rows, 0, 2),
                          r->sent_ms, sql_int(&r->rows, 0, 3));
    case HFI_ANSWER_QUEUED:
        if (!op->may_wait) /* no routine of ours says so; nobody would hear of the grant */
            break;
        return still_waiting(a, &r->rows, r->sent_ms);
    case HFI_ANSWER_BUSY:
        if (op->may_wait && !wanted_wait)
            return SQL_STEP_LISTENER;
        op->ret_lingers = sql_int(&r->rows, 0, 2) == 1;
        return end(a, deny(a, HF_BUSY));
    case HFI_ANSWER_MISMATCH:
        return end(a, deny(a, hfi_mismatch_set(&op->error, sql_int(&r->rows, 0, 1),
                                               sql_int(&r->rows, 0, 3))));
    case HFI_ANSWER_FULL:
        return end(a, deny(a, hfi_error_set(&op->error, HF_FULL, 0, "the name has no token left")));
    case HFI_ANSWER_FORGOTTEN:
        if (op->claim->flags & HFI_CLAIM_REPLACES)
            return end(a, HF_LOST);
        break;
    default:
        break;
    }
    return end(a, hfi_error_set(&op->error, HF_UNKNOWN, 0, "an unexpected answer of a function"));
}

static enum sql_step ask(struct sql_acquire *a)
{
    struct sql_store *store = a->wait.store;
    struct hfi_op *op = a->wait.op;
    const struct hfi_claim *c = a->wait.claim;
    const char *label = c->label ? c->label : store->host->label;
    bool wait = false;
    int64_t flags = (c->flags & HFI_CLAIM_BARGE ? SQL_FLAG_BARGE : 0) |
                    (c->flags & HFI_CLAIM_DETACHED ? SQL_FLAG_DETACHED : 0) |
                    (c->flags & HFI_CLAIM_WATCHED ? SQL_FLAG_WATCHED : 0) |
                    (c->flags & HFI_CLAIM_LINGERS ? SQL_FLAG_LINGERS : 0) |
                    (c->flags & HFI_CLAIM_NUMBERED ? SQL_FLAG_NUMBERED : 0) | SQL_FLAG_LISTENS;
    uint32_t tokens = c->flags & HFI_CLAIM_LINGERS ? HFI_TOKEN_AHEAD_US : SQL_BLOCK_MAX;
    struct sql_value params[14] = {
        sql_bytes(c->name.bytes, c->name.len),
        sql_bytes(c->owner, HFI_OWNER_LEN),
        sql_int_of((int64_t)c->mode),
        sql_int_of(c->capacity),
        sql_int_of(c->permits),
        sql_int_of(flags),
        sql_int_of(c->ttl_ms),
        sql_int_of(c->lock_delay_ms),
        sql_int_of(c->tokens_wanted < tokens ? c->tokens_wanted : tokens),
        sql_int_of(0),
        sql_int_of(sql_window_ms(store, c->ttl_ms)),
        sql_int_of(store->client),
        sql_bytes(label, strlen(label)),
        c->flags & HFI_CLAIM_REPLACES ? sql_bytes(c->replaced, HFI_OWNER_LEN) : sql_null(),
    };
    bool more = c->flags & (HFI_CLAIM_REPLACES | HFI_CLAIM_NUMBERED);
    struct sql_request r = {
        .call = more ? SQL_CLAIM : SQL_ACQUIRE,
        .params = params,
        .count = more ? 14 : 13,
        .deadline_ms = op->deadline_ms,
        .again = true, /* by the owner: a second copy finds what the first has done */
        .claim = c
    };
    enum sql_step step;
    hf_status status;

    enter(a, HFI_WAITER_ASKING);
    a->numbered = false;
    if (op->may_wait) {
        pthread_mutex_lock(&store->lock);
        wait = sql_listener_fresh(store);
        a->wait.naps = wait && store->listener->naps;
        a->wait.told = a->wait.granted = a->wait.forgotten = a->wait.others_wait = false;
        pthread_mutex_unlock(&store->lock);
    }
    params[5].number |= a->wait.naps ? SQL_FLAG_NAPS : 0;
    params[9] = sql_int_of(wait);
    if (r.deadline_ms < hfi_now_ms() + GRACE_MS)
        r.deadline_ms = hfi_now_ms() + GRACE_MS;
    sql_serve(op);
    status = sql_call(store, &r);
    a->silent = hfi_now_ms() >= sql_until_ms(HFI_NEVER);
    sql_serve(NULL);
    a->unsure = a->unsure || r.copied;
    if (status == HF_OK) {
        step = asked(a, &r, wait);
        sql_rows_free(&r.rows);
        return step;
    }
    op->error = r.trouble.error;
    if (op->may_wait && (status == HF_UNAVAILABLE || status == HF_UNKNOWN))
        return begin_rest(a);
    return end(a, deny(a, status == HF_UNKNOWN ? HF_UNAVAILABLE : status));
}

/* ---- in the queue ------------------------------------------------------------------------------------ */

static enum sql_step queued(struct sql_acquire *a, hf_status stop)
{
    struct sql_wait *wait = &a->wait;
    bool granted, forgotten, others_wait;
    uint64_t token;
    uint32_t tokens;
    int64_t from_ms, lasts_ms;

    pthread_mutex_lock(
        &wait->store->lock); /* two messages may report a grant: read all fields of the same one */
    granted = wait->granted;
    forgotten = wait->forgotten;
    others_wait = wait->others_wait;
    token = wait->token;
    tokens = wait->tokens;
    from_ms = wait->from_ms;
    lasts_ms = wait->lasts_ms;
    pthread_mutex_unlock(&wait->store->lock);
    if (granted) {
        a->wait.claim->others_wait = others_wait;
        return take_grant(a, token, tokens, from_ms, lasts_ms);
    }
    if (stop != HF_OK)
        return leave(a, stop);
    if (!forgotten)
        return sleep_until(a, HFI_NEVER);
    a->in_store = false;
    return SQL_STEP_ASK;
}

/* Until when a waiter that leaves the queue waits for an answer. If the server has answered nothing since it was resumed, the
 * time that it waited for a worker counts: those that leave a silent server together end together, however few workers
 * there are. */
static int64_t leave_until_ms(const struct sql_acquire *a)
{
    int64_t from_ms = a->wait.resumed_ms;

    if (from_ms == 0 || atomic_load(&a->wait.store->answered_ms) >= from_ms)
        from_ms = hfi_now_ms();
    return from_ms + SQL_CANCEL_MS;
}

/* Undo whatever an earlier copy of our ACQUIRE has done or will do: nobody would know of that
 * grant. */
static hf_status deny(struct sql_acquire *a, hf_status status)
{
    const struct hfi_claim *c = a->wait.claim;
    struct sql_value params[2] = { sql_bytes(c->name.bytes, c->name.len),
                                   sql_bytes(c->owner, HFI_OWNER_LEN) };
    struct sql_request r = { .call = SQL_RELEASE, .params = params, .count = 2, .again = true };
    hf_error why;

    if (!a->unsure)
        return status;
    if (a->silent) /* it would not answer that either */
        return HF_UNKNOWN;
    if (c->flags &
        HFI_CLAIM_REPLACES) /* what it has replaced cannot come back: core must know first */
        return HF_UNKNOWN;
    r.deadline_ms = leave_until_ms(a);
    if (hfi_now_ms() >= r.deadline_ms)
        return HF_UNKNOWN;
    for (int tries = 0; tries < DENY_TRIES;
         tries++) /* memory may be short, or a connection lost, once */
        if (sql_stale_wait_until_gone(a->wait.store, c, r.deadline_ms, &why) == HF_OK &&
            sql_call(a->wait.store, &r) == HF_OK) {
            sql_rows_free(&r.rows);
            return status;
        }
    return HF_UNKNOWN;
}

/* The acquire ends with `stop`: leave the queue, unless it was granted first. */
static enum sql_step leave(struct sql_acquire *a, hf_status stop)
{
    const struct hfi_claim *c = a->wait.claim;
    struct hfi_op *op = a->wait.op;
    struct sql_value params[2] = { sql_bytes(c->name.bytes, c->name.len),
                                   sql_bytes(c->owner, HFI_OWNER_LEN) };
    struct sql_request r = { .call = SQL_CANCEL, .params = params, .count = 2, .again = true };
    enum hfi_waiter_answer answer;
    enum sql_step step;

    if (!a->in_store)
        return end(a, deny(a, stop));
    r.deadline_ms = leave_until_ms(a);
    if (hfi_now_ms() >= r.deadline_ms)
        return end(a, hfi_error_set(&op->error, HF_UNKNOWN, 0, "the server does not answer"));
    enter(a, HFI_WAITER_CANCELLING);
    if (sql_call(a->wait.store, &r) != HF_OK) {
        op->error = r.trouble.error;
        return end(a, HF_UNKNOWN);
    }
    answer = hfi_waiter_answered(HFI_WAITER_CANCELLING, sql_letter(&r.rows, 0, 0));
    op->error.text[0] = 0;
    if (answer == HFI_ANSWER_GRANTED)
        step = take_grant(a, (uint64_t)sql_int(&r.rows, 0, 1), (uint32_t)sql_int(&r.rows, 0, 2),
                          r.sent_ms, sql_int(&r.rows, 0, 3));
    else
        step = end(a, deny(a, stop));
    sql_rows_free(&r.rows);
    return step;
}

/* ---- granted --------------------------------------------------------------------------------------------- */

/* The grant is too short for the caller, or has expired: renew it for the whole ttl before the
 * acquire ends. */
static enum sql_step confirm(struct sql_acquire *a)
{
    struct hfi_claim *c = a->wait.claim;
    struct sql_value params[3] = { sql_bytes(c->name.bytes, c->name.len),
                                   sql_bytes(c->owner, HFI_OWNER_LEN), sql_int_of(c->ttl_ms) };
    struct sql_request r = { .call = SQL_RENEW, .params = params, .count = 3 };
    int64_t there;

    enter(a, HFI_WAITER_CONFIRMING);
    r.deadline_ms = hfi_now_ms() + SQL_CANCEL_MS;
    if (sql_call(a->wait.store, &r) != HF_OK) {
        a->wait.op->error = r.trouble.error;
        return end(a, HF_UNKNOWN);
    }
    there = sql_int(&r.rows, 0, 1);
    sql_rows_free(&r.rows);
    if (there != 1 && there != 3 && c->flags & HFI_CLAIM_REPLACES)
        return end(a, HF_LOST);
    if (there != 1 && there != 3) { /* it has expired: ask again */
        a->in_store = false;
        return SQL_STEP_ASK;
    }
    c->others_wait = there == 3;
    c->granted_ttl_ms = c->ttl_ms;
    c->sent_ms = r.sent_ms;
    return end(a, HF_OK);
}

/* What was handed over says no numbers. */
static enum sql_step confirm_numbers(struct sql_acquire *a)
{
    struct hfi_op *op = a->wait.op;
    hf_status status =
        sql_slots_get(a->wait.store, op->claim, hfi_now_ms() + SQL_CANCEL_MS, &op->error);

    if (status == HF_OK) {
        a->numbered = true;
        return SQL_STEP_END;
    }
    if (status != HF_NOT_FOUND)
        return end(a, HF_UNKNOWN);
    a->in_store = false; /* it has expired: ask again */
    return SQL_STEP_ASK;
}

/* For how long it was granted. The answer to a heartbeat (on PostgreSQL also to a cancel) says only what is left of that: lasts_ms. */
static int64_t granted_for_ms(const struct sql_acquire *a, int64_t lasts_ms)
{
    int64_t ttl_ms = a->wait.claim->ttl_ms, window_ms = a->wait.window_ms;
    int64_t least_ms = window_ms < ttl_ms ? window_ms : ttl_ms;

    return lasts_ms > least_ms ? lasts_ms : least_ms;
}

static enum sql_step take_grant(struct sql_acquire *a, uint64_t token, uint32_t tokens,
                                int64_t from_ms, int64_t lasts_ms)
{
    struct hfi_claim *c = a->wait.claim;
    int64_t left_ms;

    if (c->flags & HFI_CLAIM_NUMBERED && !a->numbered) {
        enum sql_step step = confirm_numbers(a);

        if (!a->numbered)
            return step;
    }
    left_ms = from_ms + lasts_ms - hfi_now_ms();
    if (token == 0 || tokens == 0 || tokens > c->tokens_wanted)
        return end(a, hfi_error_set(&a->wait.op->error, HF_UNKNOWN, 0, "an odd grant"));
    c->token = token;
    c->tokens = tokens;
    c->granted_ttl_ms = lasts_ms > 0 ? lasts_ms : 1; /* 0 would mean: no end */
    c->sent_ms = from_ms;
    if (hfi_grant_needs_renewal(left_ms, granted_for_ms(a, lasts_ms), c->ttl_ms, c->min_valid_ms))
        return confirm(a);
    return end(a, HF_OK);
}
