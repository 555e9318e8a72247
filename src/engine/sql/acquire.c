/* SPDX-License-Identifier: MIT */
/*
 * mode=lease: acquire, and its waiting, on the caller's thread.
 *
 * kit/handover.h has the states and the rules. CANCELLING and CONFIRMING last as long as one statement.
 *
 * The first ACQUIRE does not ask to be queued unless the listener listens already: a lock that nobody else wants
 * costs one round trip, and no thread. One that is busy makes the listener, and asks again.
 */
#include "engine/sql/listener.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <assert.h>
#include <string.h>

#define REST_MS 250 /* about the interval at which a server that cannot be reached is asked again */
#define GRACE_MS \
    250 /* for the answer, beyond our deadline: to cut it off costs more, a connection */
#define DENY_TRIES 3

struct attempt {
    struct sql_store *store;
    struct hfi_op *op;
    struct hfi_claim *claim;
    struct sql_wait wait;
    bool listed;    /* `wait` is in the list */
    bool unsure;    /* a copy of our ACQUIRE may still be executed */
    bool in_store;  /* the server may have us in its queue */
    hf_error error; /* why the last call failed */
};

enum step { GRANTED, AGAIN, REST, ENDED };

static enum step ask(struct attempt *a, hf_status *ret_status);
static enum step queued(struct attempt *a, hf_status *ret_status);
static enum step leave(struct attempt *a, hf_status stop, hf_status *ret_status);
static hf_status deny(struct attempt *a, hf_status status);
static enum step take_grant(struct attempt *a, uint64_t token, uint32_t tokens, int64_t from_ms,
                            int64_t lasts_ms, hf_status *ret_status);

int64_t sql_window_ms(const struct sql_store *store, int64_t ttl_ms)
{
    const struct sql_conf *conf = &store->conf;

    return hfi_window_ms(ttl_ms, conf->window_min_ms, conf->window_max_ms);
}

static hf_status stopped(struct attempt *a)
{
    hf_status stop = (hf_status)atomic_load(&a->op->stop);

    pthread_mutex_lock(&a->store->lock);
    if (a->wait.stop == HF_OK)
        a->wait.stop = stop;
    stop = a->wait.stop;
    pthread_mutex_unlock(&a->store->lock);
    if (stop == HF_OK && hfi_now_ms() >= a->op->deadline_ms)
        stop = a->op->may_wait ? HF_TIMEOUT : HF_UNAVAILABLE;
    return stop;
}

/* The listener reads the state of a wait that is in the list. */
static void enter(struct attempt *a, enum hfi_waiter_state state)
{
    if (a->listed)
        pthread_mutex_lock(&a->store->lock);
    assert(hfi_waiter_may(a->wait.state, state));
    a->wait.state = state;
    if (a->listed)
        pthread_mutex_unlock(&a->store->lock);
}

/* Until the server can be asked again. */
static void rest(struct attempt *a)
{
    int64_t until_ms = hfi_now_ms() + REST_MS / 2 + (int64_t)(hfi_random_u64() % REST_MS);

    enter(a, HFI_WAITER_RESTING);
    if (until_ms > a->op->deadline_ms)
        until_ms = a->op->deadline_ms;
    while (hfi_now_ms() < until_ms && stopped(a) == HF_OK)
        sql_wait_sleep(a->store, &a->wait, until_ms);
}

void sql_acquire(struct sql_store *store, struct hfi_op *op)
{
    struct attempt a = { .store = store, .op = op, .claim = op->claim };
    hf_status status = HF_OK;
    enum step step = AGAIN;

    a.wait.op = op;
    a.wait.claim = op->claim;
    a.wait.window_ms = sql_window_ms(store, op->claim->ttl_ms);
    a.wait.recheck_ms = HFI_NEVER;
    if (op->may_wait) {
        sql_wait_add(store, &a.wait); /* from here on cancel() finds us */
        a.listed = true;
    }
    while (step == AGAIN || step == REST) {
        hf_status stop = stopped(&a);

        if (stop != HF_OK) {
            step = leave(&a, stop, &status);
        } else if (step == REST) {
            rest(&a);
            step = AGAIN;
        } else {
            step = ask(&a, &status);
        }
    }
    if (a.listed)
        sql_wait_remove(store, &a.wait);
    if (status == HF_OK)
        sql_held_add(store, op->claim);
    sql_finish(op, status, &a.error);
}

/* ---- asking --------------------------------------------------------------------------------------- */

/* Q: it is in the queue. A message may have been here before the answer. */
static enum step still_waiting(struct attempt *a, const struct sql_rows *rows, int64_t sent_ms,
                               hf_status *ret_status)
{
    struct sql_wait *wait = &a->wait;
    int64_t recheck_ms = sql_int(rows, 0, 3);

    pthread_mutex_lock(&a->store->lock);
    wait->state = HFI_WAITER_QUEUED;
    wait->heard_ms = sent_ms;
    wait->floor = (uint64_t)sql_int(rows, 0, 1);
    wait->recheck_ms = recheck_ms > 0 ? hfi_now_ms() + recheck_ms + HFI_RECHECK_MS : HFI_NEVER;
    if (wait->told)
        sql_wait_message(a->store, wait, wait->token, wait->tokens, wait->lasts_ms);
    wait->told = false;
    sql_listener_by(a->store, wait->recheck_ms);
    sql_listener_by(a->store, sent_ms + hfi_heartbeat_ms(wait->window_ms));
    if (!sql_listener_fresh(a->store)) /* its connection was lost meanwhile, and it dozes */
        sql_listener_kick(a->store);
    pthread_mutex_unlock(&a->store->lock);
    return queued(a, ret_status);
}

static enum step asked(struct attempt *a, struct sql_request *r, bool wanted_wait,
                       hf_status *ret_status)
{
    switch (hfi_waiter_answered(HFI_WAITER_ASKING, sql_letter(&r->rows, 0, 0))) {
    case HFI_ANSWER_GRANTED:
        return take_grant(a, (uint64_t)sql_int(&r->rows, 0, 1), (uint32_t)sql_int(&r->rows, 0, 2),
                          r->sent_ms, sql_int(&r->rows, 0, 3), ret_status);
    case HFI_ANSWER_QUEUED:
        return still_waiting(a, &r->rows, r->sent_ms, ret_status);
    case HFI_ANSWER_BUSY:
        if (a->op->may_wait && !wanted_wait) {
            hf_status status =
                sql_listener_ready(a->store, &a->wait, a->op->deadline_ms, &a->error);

            if (status == HF_OK)
                return AGAIN;
            if (status == HF_UNAVAILABLE)
                return REST;
            *ret_status = deny(a, status);
            return ENDED;
        }
        *ret_status = deny(a, HF_BUSY);
        return ENDED;
    case HFI_ANSWER_MISMATCH:
        *ret_status =
            deny(a, hfi_mismatch_set(&a->error, sql_int(&r->rows, 0, 1), sql_int(&r->rows, 0, 3)));
        return ENDED;
    case HFI_ANSWER_FULL:
        *ret_status = deny(a, hfi_error_set(&a->error, HF_FULL, 0, "the name has no token left"));
        return ENDED;
    default:
        *ret_status =
            hfi_error_set(&a->error, HF_UNKNOWN, 0, "an answer that none of our functions gives");
        return ENDED;
    }
}

static enum step ask(struct attempt *a, hf_status *ret_status)
{
    const struct hfi_claim *c = a->claim;
    const char *label = c->label ? c->label : a->store->host->label;
    bool wait = false;
    struct sql_value params[13] = {
        sql_bytes(c->name.bytes, c->name.len),
        sql_bytes(c->owner, HFI_OWNER_LEN),
        sql_int_of((int64_t)c->mode),
        sql_int_of(c->capacity),
        sql_int_of(c->permits),
        sql_int_of((c->flags & HFI_CLAIM_BARGE ? SQL_FLAG_BARGE : 0) |
                   (c->flags & HFI_CLAIM_DETACHED ? SQL_FLAG_DETACHED : 0) | SQL_FLAG_LISTENS),
        sql_int_of(c->ttl_ms),
        sql_int_of(c->lock_delay_ms),
        sql_int_of(c->tokens_wanted < SQL_BLOCK_MAX ? c->tokens_wanted : SQL_BLOCK_MAX),
        sql_int_of(0),
        sql_int_of(a->wait.window_ms),
        sql_int_of(a->store->client),
        sql_bytes(label, strlen(label)),
    };
    struct sql_request r = {
        .call = SQL_ACQUIRE,
        .params = params,
        .count = 13,
        .deadline_ms = a->op->deadline_ms,
        .again = true, /* by the owner: a second copy finds what the first has done */
        .claim = c
    };
    enum step step;
    hf_status status;

    enter(a, HFI_WAITER_ASKING);
    if (a->op->may_wait) {
        pthread_mutex_lock(&a->store->lock);
        wait = sql_listener_fresh(a->store);
        a->wait.told = a->wait.granted = a->wait.forgotten = false;
        pthread_mutex_unlock(&a->store->lock);
    }
    params[9] = sql_int_of(wait);
    if (r.deadline_ms < hfi_now_ms() + GRACE_MS)
        r.deadline_ms = hfi_now_ms() + GRACE_MS;
    status = sql_call(a->store, &r);
    a->unsure = a->unsure || r.copied;
    if (status == HF_OK) {
        step = asked(a, &r, wait, ret_status);
        sql_rows_free(&r.rows);
        return step;
    }
    a->error = r.trouble.error;
    if (a->op->may_wait && (status == HF_UNAVAILABLE || status == HF_UNKNOWN))
        return REST;
    *ret_status = deny(a, status == HF_UNKNOWN ? HF_UNAVAILABLE : status);
    return ENDED;
}

/* ---- in the queue ------------------------------------------------------------------------------------ */

static enum step queued(struct attempt *a, hf_status *ret_status)
{
    struct sql_wait *wait = &a->wait;
    struct sql_store *store = a->store;

    a->in_store = true;
    for (;;) {
        hf_status stop = stopped(a);
        bool granted, forgotten;
        uint64_t token;
        uint32_t tokens;
        int64_t from_ms, lasts_ms;

        pthread_mutex_lock(&store->lock); /* a grant may be told of twice: all is of one message */
        granted = wait->granted;
        forgotten = wait->forgotten;
        token = wait->token;
        tokens = wait->tokens;
        from_ms = wait->from_ms;
        lasts_ms = wait->lasts_ms;
        pthread_mutex_unlock(&store->lock);
        if (granted)
            return take_grant(a, token, tokens, from_ms, lasts_ms, ret_status);
        if (stop != HF_OK)
            return leave(a, stop, ret_status);
        if (forgotten) {
            a->in_store = false;
            return AGAIN;
        }
        sql_wait_sleep(store, wait, a->op->deadline_ms);
    }
}

/* Whatever an earlier copy of our ACQUIRE has done, or will do, must not remain: nobody would know of it. */
static hf_status deny(struct attempt *a, hf_status status)
{
    struct sql_value params[2] = { sql_bytes(a->claim->name.bytes, a->claim->name.len),
                                   sql_bytes(a->claim->owner, HFI_OWNER_LEN) };
    struct sql_request r = { .call = SQL_RELEASE, .params = params, .count = 2, .again = true };
    hf_error why;

    if (!a->unsure)
        return status;
    r.deadline_ms = hfi_now_ms() + SQL_CANCEL_MS;
    for (int tries = 0; tries < DENY_TRIES;
         tries++) /* memory may be short, or a connection lost, once */
        if (sql_stale_wait_until_gone(a->store, a->claim, r.deadline_ms, &why) == HF_OK &&
            sql_call(a->store, &r) == HF_OK) {
            sql_rows_free(&r.rows);
            return status;
        }
    return HF_UNKNOWN;
}

/* It is to end, with `stop`: out of the queue, unless it was granted first. */
static enum step leave(struct attempt *a, hf_status stop, hf_status *ret_status)
{
    struct sql_value params[2] = { sql_bytes(a->claim->name.bytes, a->claim->name.len),
                                   sql_bytes(a->claim->owner, HFI_OWNER_LEN) };
    struct sql_request r = { .call = SQL_CANCEL, .params = params, .count = 2, .again = true };
    enum hfi_waiter_answer answer;
    enum step step = ENDED;

    if (!a->in_store) {
        *ret_status = deny(a, stop);
        return ENDED;
    }
    enter(a, HFI_WAITER_CANCELLING);
    r.deadline_ms = hfi_now_ms() + SQL_CANCEL_MS;
    if (sql_call(a->store, &r) != HF_OK) {
        a->error = r.trouble.error;
        *ret_status = HF_UNKNOWN;
        return ENDED;
    }
    answer = hfi_waiter_answered(HFI_WAITER_CANCELLING, sql_letter(&r.rows, 0, 0));
    a->error.text[0] = 0;
    if (answer == HFI_ANSWER_GRANTED)
        step = take_grant(a, (uint64_t)sql_int(&r.rows, 0, 1), (uint32_t)sql_int(&r.rows, 0, 2),
                          r.sent_ms, sql_int(&r.rows, 0, 3), ret_status);
    else
        *ret_status = deny(a, stop);
    sql_rows_free(&r.rows);
    return step;
}

/* ---- granted --------------------------------------------------------------------------------------------- */

/* Too short for the caller, or over already: the whole ttl, before anybody hears of it. */
static enum step confirm(struct attempt *a, hf_status *ret_status)
{
    struct hfi_claim *c = a->claim;
    struct sql_value params[3] = { sql_bytes(c->name.bytes, c->name.len),
                                   sql_bytes(c->owner, HFI_OWNER_LEN), sql_int_of(c->ttl_ms) };
    struct sql_request r = { .call = SQL_RENEW, .params = params, .count = 3 };
    bool there;

    enter(a, HFI_WAITER_CONFIRMING);
    r.deadline_ms = hfi_now_ms() + SQL_CANCEL_MS;
    if (sql_call(a->store, &r) != HF_OK) {
        a->error = r.trouble.error;
        *ret_status = HF_UNKNOWN;
        return ENDED;
    }
    there = sql_int(&r.rows, 0, 1) == 1;
    sql_rows_free(&r.rows);
    if (!there) { /* it has lapsed: stand in line again */
        a->in_store = false;
        return AGAIN;
    }
    c->granted_ttl_ms = c->ttl_ms;
    c->sent_ms = r.sent_ms;
    *ret_status = HF_OK;
    return GRANTED;
}

static enum step take_grant(struct attempt *a, uint64_t token, uint32_t tokens, int64_t from_ms,
                            int64_t lasts_ms, hf_status *ret_status)
{
    struct hfi_claim *c = a->claim;
    int64_t left_ms = from_ms + lasts_ms - hfi_now_ms();

    if (token == 0 || tokens == 0 || tokens > c->tokens_wanted) {
        *ret_status = hfi_error_set(&a->error, HF_UNKNOWN, 0, "an odd grant");
        return ENDED;
    }
    c->token = token;
    c->tokens = tokens;
    c->granted_ttl_ms = lasts_ms > 0 ? lasts_ms : 1; /* 0 would mean: no end */
    c->sent_ms = from_ms;
    if (hfi_grant_needs_renewal(left_ms, lasts_ms, c->ttl_ms, c->min_valid_ms))
        return confirm(a, ret_status);
    *ret_status = HF_OK;
    return GRANTED;
}
