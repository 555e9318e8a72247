/* SPDX-License-Identifier: MIT */
/*
 * hf_limit_take(), hf_limit_get(): rate limits. limit_plan.h decides; here is how a decision
 * gets into the store, and the waiting. The calling thread does it all.
 *
 * Where the engine decides by itself (HFI_NATIVE_LIMIT) that is one op. Elsewhere: read the cell,
 * then the store's clock, decide, and swap what was read. A swap that succeeds proves that nobody
 * decided in between; one that fails because the version moved begins again after a pause, which grows
 * and is drawn by lot. Somebody always gets on. A state that is over says nothing more than no state, so it
 * has a ttl where cells can have one.
 *
 * Waiting. A reservation says "at T, and it is N now" by the store's clock. We sleep for T - N,
 * counted by our own clock from a moment after that N was read, and a little longer than two
 * clocks may drift apart in that time. So we wake at T or later, and never earlier, whatever our
 * clock says the time of day is.
 */
#include "prim/limit_plan.h"

#include "core/op.h"
#include "core/request.h"
#include "core/wait.h"
#include "holdfast/primitives.h"
#include "prim/cell_op.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/random.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#define RACE_MS     (4 * HFI_CALL_LIMIT_MS) /* for how long we begin again */
#define PAUSE_US    200
#define PAUSE_GROWS 8 /* times it is doubled */
#define DRIFT_PARTS \
    1000 /* two clocks drift apart by less than a thousandth: 500 ppm each at most */
#define TTL_SLACK_MS 2000

/* A call. */
struct limiter {
    struct hfi_prim prim;
    hf_limit_request limit; /* in full size */
    struct hfi_limit_rule rule;
    int64_t permits;
    int64_t begun_ms;
};

/* ---- native -------------------------------------------------------------------------------------- */

struct step {
    struct hfi_job job;
    struct hfi_limit_op limit;
    unsigned char name[HF_NAME_MAX];
};

static void late_step(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    hfi_free(hfi_container(job, struct step, job));
    hfi_keeper_idle(store);
}

static hf_status ask_engine(struct limiter *limiter, const struct hfi_limit_ask *ask,
                            struct hfi_limit_answer *ret_answer, hf_error *inner)
{
    struct step *step = hfi_malloc(sizeof *step);
    hf_status status;
    bool gone;

    if (!step)
        return hfi_error_memory(inner);
    hfi_job_init(&step->job, limiter->prim.store, HFI_OP_LIMIT);
    step->job.late = late_step;
    step->job.op.u.limit = &step->limit;
    memcpy(step->name, limiter->prim.name.bytes, limiter->prim.name.len);
    step->limit =
        (struct hfi_limit_op){ .name = limiter->prim.name, .rule = limiter->rule, .ask = *ask };
    step->limit.name.bytes = step->name;

    hfi_keeper_busy(limiter->prim.store); /* for late_step(), which may come any time */
    status = hfi_job_run(&step->job, &gone);
    if (gone)
        return hfi_error_set(inner, HF_UNKNOWN, 0, "the store did not answer in time");
    hfi_keeper_idle(limiter->prim.store);
    if (status == HF_OK)
        *ret_answer = step->limit.answer;
    else
        *inner = step->job.op.error;
    hfi_free(step);
    return status;
}

/* ---- on a cell ----------------------------------------------------------------------------------- */

static void pause_for(int tries)
{
    uint64_t most_us = (uint64_t)PAUSE_US << (tries < PAUSE_GROWS ? tries : PAUSE_GROWS);
    struct timespec pause = { .tv_nsec = (long)(hfi_random_u64() % most_us) * 1000 };

    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static int64_t cell_ttl(const struct limiter *limiter, const struct hfi_limit_answer *answer)
{
    if (!(hfi_store_engine(limiter->prim.store)->info.caps & HF_CAP_CELL_TTL))
        return 0;
    return (answer->refill_us > 0 ? answer->refill_us / 1000 : 0) + TTL_SLACK_MS;
}

/* Once. HF_BUSY: somebody else was quicker. */
static hf_status try_cell(struct limiter *limiter, const struct hfi_limit_ask *ask,
                          unsigned char *room, struct hfi_limit_answer *ret_answer,
                          int64_t *ret_heard_ns, hf_error *inner)
{
    struct hfi_cell cell;
    int64_t now_us;
    hf_status status = hfi_cell_read(&limiter->prim, &cell, inner);

    if (status != HF_OK)
        return status;
    status = hfi_store_time(&limiter->prim, &now_us, inner);
    if (status == HF_OK) {
        *ret_heard_ns = hfi_now_ns();
        hfi_limit_decide(&limiter->rule, ask, now_us, cell.bytes, cell.len, room, ret_answer);
        if (ret_answer->len > 0)
            status = hfi_cell_swap(&limiter->prim, cell.version, room, ret_answer->len,
                                   cell_ttl(limiter, ret_answer), NULL, inner);
    }
    hfi_cell_forget(&cell);
    return status;
}

static int64_t wait_left_us(const struct limiter *limiter);

static hf_status ask_cell(struct limiter *limiter, struct hfi_limit_ask *ask,
                          struct hfi_limit_answer *ret_answer, int64_t *ret_heard_ns,
                          hf_error *inner)
{
    unsigned char *room = hfi_malloc(hfi_limit_room(&limiter->rule));
    int64_t begun_ms = hfi_now_ms();
    hf_status status;

    if (!room)
        return hfi_error_memory(inner);
    for (int tries = 0;; tries++) {
        status = try_cell(limiter, ask, room, ret_answer, ret_heard_ns, inner);
        if (status != HF_BUSY)
            break;
        if (hfi_now_ms() - begun_ms > RACE_MS) {
            status = hfi_error_set(inner, HF_UNAVAILABLE, 0, "others changed it all the time");
            break;
        }
        pause_for(tries);
        if (ask->act == HFI_LIMIT_TAKE)
            ask->wait_us = wait_left_us(limiter);
    }
    hfi_free(room);
    return status;
}

/* ---- either way ---------------------------------------------------------------------------------- */

static hf_status mismatch(hf_error *inner)
{
    return hfi_error_set(inner, HF_MISMATCH, 0,
                         "the limit is in use with another algorithm, rate, period or burst, or "
                         "the name is something else");
}

static hf_status decide(struct limiter *limiter, struct hfi_limit_ask *ask,
                        struct hfi_limit_answer *ret_answer, int64_t *ret_heard_ns, hf_error *inner)
{
    hf_status status;

    if (hfi_store_engine(limiter->prim.store)->native & HFI_NATIVE_LIMIT) {
        status = ask_engine(limiter, ask, ret_answer, inner);
        *ret_heard_ns = hfi_now_ns();
    } else {
        status = ask_cell(limiter, ask, ret_answer, ret_heard_ns, inner);
    }
    if (status != HF_OK)
        return status;
    if (ret_answer->said == HFI_LIMIT_MISMATCH)
        return mismatch(inner);
    if (ret_answer->said == HFI_LIMIT_VERSION)
        return hfi_error_set(inner, HF_VERSION, 0, "the limit's state is of a later version");
    if (ret_answer->said == HFI_LIMIT_CORRUPT)
        return hfi_error_set(inner, HF_CORRUPT, 0, "the limit's state is damaged");
    return HF_OK;
}

/* ---- waiting ------------------------------------------------------------------------------------- */

/* What is left of wait_ms now. */
static int64_t wait_left_us(const struct limiter *limiter)
{
    int64_t most_us = hfi_limit_wait_max(&limiter->rule);
    int64_t left_ms;

    if (limiter->limit.wait_ms == 0)
        return 0;
    if (limiter->limit.wait_ms == HF_FOREVER)
        return most_us;
    left_ms = limiter->limit.wait_ms - (hfi_now_ms() - limiter->begun_ms);
    if (left_ms < 0)
        return 0;
    return left_ms < most_us / 1000 ? left_ms * 1000 : most_us;
}

/* When we may go on, by hfi_now_ms(): see the head of this file. */
static int64_t moment_ms(int64_t heard_ns, int64_t wait_us)
{
    int64_t heard_us = heard_ns / 1000 + 1;

    return (heard_us + wait_us + wait_us / DRIFT_PARTS) / 1000 + 1;
}

static hf_status sleep_until(struct limiter *limiter, int64_t until_ms)
{
    struct hfi_wait wait;
    hf_status status = HF_OK;
    uint32_t word;

    hfi_wait_init(&wait, limiter->prim.store, NULL, 0);
    if (limiter->limit.cancel)
        status = hfi_wait_follow(&wait, limiter->limit.cancel);
    if (status != HF_OK)
        return HF_CANCELLED; /* it has been looked at before: fired, or freed, since */
    hfi_wait_list(&wait);
    while ((word = atomic_load_explicit(&wait.word, memory_order_acquire)) == HFI_WAIT_SLEEPING &&
           hfi_now_ms() < until_ms)
        hfi_futex_wait(&wait.word, word, until_ms, false);
    hfi_wait_leave(&wait);
    return word == HFI_WAIT_SLEEPING ? HF_OK : (hf_status)atomic_load(&wait.stop);
}

/* Whether it worked makes no difference to the caller: what could not be given back is used up. It is
 * never tried twice, for the second one could give back what somebody else has reserved. */
static void give_back(struct limiter *limiter, int64_t at_us)
{
    struct hfi_limit_ask ask = { .act = HFI_LIMIT_BACK,
                                 .permits = limiter->permits,
                                 .at_us = at_us };
    struct hfi_limit_answer answer;
    int64_t heard_ns;
    hf_error inner;

    decide(limiter, &ask, &answer, &heard_ns, &inner);
}

/* ---- calls --------------------------------------------------------------------------------------- */

static hf_status invalid(hf_error *err, const char *text)
{
    return hfi_error_set(err, HF_INVALID, 0, "%s", text);
}

static hf_status check(struct limiter *limiter, const hf_limit_request *given,
                       const hf_limit_result *result, bool take, hf_error *err)
{
    hf_limit_request *limit = &limiter->limit;
    const char *wrong;
    hf_status status;

    if (!given)
        return invalid(err, "limit: NULL");
    if (!hfi_struct_copy(limit, sizeof *limit, given, given->size,
                         offsetof(hf_limit_request, burst)))
        return invalid(
            err, "size: not that of an hf_limit_request that we know; use HF_LIMIT_REQUEST_INIT");
    if (result &&
        (result->size < offsetof(hf_limit_result, refill_ms) || result->size > HFI_STRUCT_MAX))
        return invalid(err, "ret_result: its size is not set; use HF_LIMIT_RESULT_INIT");
    if (limit->per_ms < 1 || limit->per_ms > HF_DURATION_MAX_MS)
        return invalid(err, "per_ms: from 1 to ten years");
    wrong = hfi_limit_rule(limit->algorithm, limit->rate, limit->per_ms * 1000, limit->burst,
                           &limiter->rule);
    if (wrong)
        return invalid(err, wrong);
    if (!take)
        return HF_OK;

    limiter->permits = limit->permits ? limit->permits : 1;
    if (limiter->permits > hfi_limit_most(&limiter->rule))
        return invalid(err, "permits: more than this limit ever has");
    if (limit->wait_ms < HF_FOREVER || limit->wait_ms > HF_DURATION_MAX_MS)
        return invalid(err, "wait_ms: negative, or more than ten years");
    status = limit->cancel ? hfi_cancel_look(limit->cancel) : HF_OK;
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    return status == HF_OK ? HF_OK : hfi_error_set(err, status, 0, "%s", hf_status_text(status));
}

static hf_status enter(struct limiter *limiter, hf_store *store, const char *verb,
                       const hf_limit_request *limit, const hf_limit_result *result, bool take,
                       hf_error *err)
{
    hf_status status;

    memset(limiter, 0, sizeof *limiter);
    status = check(limiter, limit, result, take, err);
    if (status == HF_OK)
        status = hfi_prim_enter(&limiter->prim, store, verb, limiter->limit.name,
                                limiter->limit.name_len, HF_CAP_CELLS | HF_CAP_CLOCK, err);
    limiter->begun_ms = hfi_now_ms();
    return status;
}

static int64_t up_to_ms(int64_t us)
{
    return us > 0 ? (us + 999) / 1000 : 0;
}

static void fill(hf_limit_result *ret_result, const struct hfi_limit_answer *answer,
                 int64_t waited_ms)
{
    hf_limit_result result = { .left = (uint64_t)(answer->left > 0 ? answer->left : 0),
                               .refill_ms = up_to_ms(answer->refill_us),
                               .waited_ms = waited_ms };
    size_t size = ret_result ? ret_result->size : 0;

    if (!ret_result)
        return;
    if (answer->said == HFI_LIMIT_REFUSED)
        result.retry_ms = up_to_ms(answer->wait_us);
    if (answer->said == HFI_LIMIT_GRANTED)
        result.at_us = answer->at_us;
    result.size = size;
    memcpy(ret_result, &result, size < sizeof result ? size : sizeof result);
}

static hf_status refused(struct limiter *limiter, const struct hfi_limit_answer *answer,
                         hf_limit_result *ret_result, hf_error *err)
{
    hf_status status = limiter->limit.wait_ms == 0 ? HF_BUSY : HF_TIMEOUT;
    hf_error inner;

    fill(ret_result, answer, 0);
    hfi_error_set(&inner, status, 0, "the limit is reached: it would have to wait for %lld ms",
                  (long long)up_to_ms(answer->wait_us));
    return hfi_prim_error(&limiter->prim, status, &inner, err);
}

static hf_status take(struct limiter *limiter, hf_limit_result *ret_result, hf_error *err)
{
    struct hfi_limit_ask ask = { .act = HFI_LIMIT_TAKE,
                                 .permits = limiter->permits,
                                 .wait_us = wait_left_us(limiter) };
    struct hfi_limit_answer answer;
    int64_t heard_ns;
    hf_error inner = { .status = HF_OK };
    hf_status status = decide(limiter, &ask, &answer, &heard_ns, &inner);

    if (status != HF_OK)
        return hfi_prim_error(&limiter->prim, status, &inner, err);
    if (answer.said == HFI_LIMIT_REFUSED)
        return refused(limiter, &answer, ret_result, err);
    if (answer.wait_us > 0) {
        status = sleep_until(limiter, moment_ms(heard_ns, answer.wait_us));
        if (status != HF_OK) {
            give_back(limiter, answer.at_us);
            return hfi_prim_error(&limiter->prim, status, NULL, err);
        }
    }
    fill(ret_result, &answer, answer.wait_us > 0 ? (hfi_now_ns() - heard_ns) / 1000000 : 0);
    return hfi_ok(err);
}

hf_status hf_limit_take(hf_store *store, const hf_limit_request *limit, hf_limit_result *ret_result,
                        hf_error *err)
{
    struct limiter limiter;
    hf_status status = enter(&limiter, store, "limit", limit, ret_result, true, err);

    if (status != HF_OK)
        return status;
    status = take(&limiter, ret_result, err);
    hfi_prim_leave(&limiter.prim);
    return status;
}

hf_status hf_limit_get(hf_store *store, const hf_limit_request *limit, hf_limit_result *ret_result,
                       hf_error *err)
{
    struct hfi_limit_ask ask = { .act = HFI_LIMIT_LOOK };
    struct hfi_limit_answer answer;
    struct limiter limiter;
    int64_t heard_ns;
    hf_error inner = { .status = HF_OK };
    hf_status status = enter(&limiter, store, "look at limit", limit, ret_result, false, err);

    if (status != HF_OK)
        return status;
    status = decide(&limiter, &ask, &answer, &heard_ns, &inner);
    if (status == HF_UNKNOWN)
        status = HF_UNAVAILABLE; /* nothing could have changed */
    if (status == HF_OK)
        fill(ret_result, &answer, 0);
    status = status == HF_OK ? hfi_ok(err) : hfi_prim_error(&limiter.prim, status, &inner, err);
    hfi_prim_leave(&limiter.prim);
    return status;
}
