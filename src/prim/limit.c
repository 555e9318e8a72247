/* SPDX-License-Identifier: MIT */
/*
 * hf_limit_take(), hf_limit_get(), hf_limit_set(): rate limits. limit_plan.h decides; this file writes the decision
 * into the store, and waits.
 *
 * An engine that decides by itself (HFI_NATIVE_LIMIT) does it in one op. Elsewhere: read the cell,
 * then the store's clock, decide, and swap at the version that was read. A swap that succeeds
 * proves that nobody decided in between. An expired state means the same as no state, so it has a
 * ttl where cells can have one; but not one with a rule that was set.
 *
 * Waiting. A reservation says "at T, and it is N now" by the store's clock. We sleep for T - N, counted by our own clock
 * from a moment after that N was read, and a little longer than two clocks may drift apart in that time. So we wake at T or
 * later, and never earlier, whatever our clock says the time of day is.
 *
 *   DECIDE ---> end (refused, or at once)
 *      +------> SLEEP ---> end
 *                 +------> BACK ---> end (cancelled)
 */
#include "prim/limit_plan.h"

#include "core/request.h"
#include "core/wait.h"
#include "holdfast/primitives.h"
#include "prim/task.h"
#include "util/clock.h"
#include "util/error.h"

#include <stddef.h>
#include <string.h>

#define RACE_MS (4 * HFI_CALL_LIMIT_MS) /* how long a lost race is repeated */
#define DRIFT_PARTS \
    1000 /* two clocks drift apart by less than a thousandth: 500 ppm each at most */
#define TTL_SLACK_MS 2000

struct limiter {
    struct hfi_prim_task task;
    hf_limit_request limit;     /* in full size */
    struct hfi_limit_rule rule; /* of the question; rate 0: none */
    struct hfi_limit_ask ask;
    struct hfi_limit_answer answer;
    struct hfi_limit_rule in_force; /* that of the state, if there is another */
    bool is_set;
    int64_t begun_ms;
    int64_t heard_ns;      /* our time just after the store's time was read */
    int64_t waited_ms;     /* how long it slept */
    hf_limit_result found; /* asynchronous */
    hf_status result;      /* the status for the caller, after the permits were given back */
};

/* ---- deciding ------------------------------------------------------------------------------------ */

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

static int64_t cell_ttl(const struct limiter *limiter, const char *state)
{
    if (!(hfi_prim_caps(&limiter->task.prim) & HF_CAP_CELL_TTL) || state[1] == HFI_LIMIT_WAS_SET)
        return 0;
    return (limiter->answer.refill_us > 0 ? limiter->answer.refill_us / 1000 : 0) + TTL_SLACK_MS;
}

static enum hfi_verdict decide_limit(struct hfi_cell_run *run, void *arg)
{
    struct limiter *limiter = arg;
    struct hfi_buffer *to;
    char *room;

    if (run->wrote)
        return HFI_END;
    if (!run->has_time)
        return HFI_CLOCK;
    to = hfi_run_buffer(run);
    room = hfi_buffer_reserve(to, hfi_limit_room(&limiter->rule, run->found.len));
    if (!room)
        return hfi_run_memory(run);
    limiter->heard_ns = run->heard_ns;
    if (run->round > 0 && limiter->ask.act == HFI_LIMIT_TAKE)
        limiter->ask.wait_us = wait_left_us(limiter);
    hfi_limit_decide(&limiter->rule, &limiter->ask, run->now_us, run->found.bytes, run->found.len,
                     (unsigned char *)room, &limiter->answer);
    to->len = limiter->answer.len;
    return to->len > 0 ? hfi_run_write(run, cell_ttl(limiter, room)) : HFI_END;
}

/* Let the limit decide, by the engine or on a cell. */
static hf_status begin_decision(struct limiter *limiter, int state)
{
    struct hfi_prim_task *task = &limiter->task;

    if (!(hfi_store_promises(task->prim.store)->native & HFI_NATIVE_LIMIT)) {
        task->run.race_until_ms = hfi_now_ms() + RACE_MS;
        return hfi_begin_cell(task, state, decide_limit, limiter);
    }
    task->action.native.limit = (struct hfi_limit_op){ .rule = limiter->rule, .ask = limiter->ask };
    return hfi_begin_act(task, state, HFI_ACT_LIMIT);
}

/* What the limit said that is a failure. */
static hf_status failure(enum hfi_limit_said said, hf_error *err)
{
    switch (said) {
    case HFI_LIMIT_MISMATCH:
        return hfi_error_set(err, HF_MISMATCH, 0,
                             "the limit is in use with another algorithm, rate, period or burst, "
                             "or the name is something else");
    case HFI_LIMIT_MANY:
        return hfi_error_set(err, HF_MISMATCH, 0,
                             "permits: more than the limit ever has by the rule that was set");
    case HFI_LIMIT_NONE:
        return hfi_error_set(err, HF_NOT_FOUND, 0, "the limit is not in use, and no rule was set");
    case HFI_LIMIT_VERSION:
        return hfi_error_set(err, HF_VERSION, 0, "the limit's state is of a later version");
    case HFI_LIMIT_CORRUPT:
        return hfi_error_set(err, HF_CORRUPT, 0, "the limit's state is damaged");
    default:
        return HF_OK;
    }
}

static hf_status decided(struct limiter *limiter, hf_status got)
{
    struct hfi_prim_task *task = &limiter->task;

    if (got != HF_OK)
        return got;
    if (hfi_store_promises(task->prim.store)->native & HFI_NATIVE_LIMIT) {
        limiter->heard_ns = hfi_now_ns();
        limiter->answer = task->action.native.limit.answer;
    }
    limiter->is_set = limiter->ask.act == HFI_LIMIT_SET;
    if (limiter->answer.head[0] && limiter->answer.said <= HFI_LIMIT_SEEN_IT) {
        limiter->is_set = limiter->answer.head[1] == HFI_LIMIT_WAS_SET;
        if (!hfi_limit_rule_of(limiter->answer.head, &limiter->in_force))
            limiter->answer.said = HFI_LIMIT_CORRUPT;
    }
    return failure(limiter->answer.said, &task->error);
}

/* ---- taking -------------------------------------------------------------------------------------- */

enum limit_state { LIMIT_BEGIN, LIMIT_DECIDED, LIMIT_SLEPT, LIMIT_BACK };

/* When we may go on, by hfi_now_ms(): see the head of this file. */
static int64_t moment_ms(int64_t heard_ns, int64_t wait_us)
{
    int64_t heard_us = heard_ns / 1000 + 1;

    return (heard_us + wait_us + wait_us / DRIFT_PARTS) / 1000 + 1;
}

static int64_t up_to_ms(int64_t us)
{
    return us > 0 ? (us + 999) / 1000 : 0;
}

static hf_status reserved(struct limiter *limiter)
{
    struct hfi_prim_task *task = &limiter->task;
    const struct hfi_limit_answer *answer = &limiter->answer;

    if (answer->said == HFI_LIMIT_REFUSED)
        return hfi_error_set(&task->error, limiter->limit.wait_ms == 0 ? HF_BUSY : HF_TIMEOUT, 0,
                             "the limit is reached: the wait would be %lld ms",
                             (long long)up_to_ms(answer->wait_us));
    if (answer->wait_us <= 0)
        return HF_OK;
    task->action.pause_us = 0;
    task->action.until_ms = moment_ms(limiter->heard_ns, answer->wait_us);
    return hfi_begin_act(task, LIMIT_SLEPT, HFI_ACT_PAUSE);
}

/* Give the reserved permits back. The caller does not learn whether that works: permits that could
 * not be given back are used up. It is never tried twice, since a second attempt could give back
 * what another caller has reserved. */
static hf_status give_back(struct limiter *limiter)
{
    limiter->ask = (struct hfi_limit_ask){ .act = HFI_LIMIT_BACK,
                                           .permits = limiter->ask.permits,
                                           .at_us = limiter->answer.at_us };
    return begin_decision(limiter, LIMIT_BACK);
}

static hf_status step_take(struct hfi_prim_task *task, hf_status got)
{
    struct limiter *limiter = hfi_container(task, struct limiter, task);

    switch ((enum limit_state)task->state) {
    case LIMIT_BEGIN:
        return begin_decision(limiter, LIMIT_DECIDED);
    case LIMIT_DECIDED:
        got = decided(limiter, got);
        return got == HF_OK ? reserved(limiter) : got;
    case LIMIT_SLEPT:
        limiter->waited_ms = (hfi_now_ns() - limiter->heard_ns) / 1000000;
        if (got == HF_OK)
            return HF_OK;
        /* The canceller was valid before: so it has been fired or closed since. */
        limiter->result = got == HF_INVALID || got == HF_FORKED ? HF_CANCELLED : got;
        return give_back(limiter);
    case LIMIT_BACK:
        break;
    }
    task->error.text[0] = 0;
    return limiter->result;
}

static hf_status step_once(struct hfi_prim_task *task, hf_status got)
{
    struct limiter *limiter = hfi_container(task, struct limiter, task);

    return task->state == LIMIT_BEGIN ? begin_decision(limiter, LIMIT_DECIDED)
                                      : decided(limiter, got);
}

/* ---- calls --------------------------------------------------------------------------------------- */

static hf_status invalid(hf_error *err, const char *text)
{
    return hfi_error_set(err, HF_INVALID, 0, "%s", text);
}

static hf_status check_take(struct limiter *limiter, hf_error *err)
{
    const hf_limit_request *limit = &limiter->limit;
    hf_status status;

    limiter->ask.permits = limit->permits ? limit->permits : 1;
    if (limiter->ask.permits > hfi_limit_most(&limiter->rule))
        return invalid(err, "permits: more than this limit ever has");
    if (limit->wait_ms < HF_FOREVER || limit->wait_ms > HF_DURATION_MAX_MS)
        return invalid(err, "wait_ms: negative and not HF_FOREVER, or more than ten years");
    status = limit->cancel ? hfi_cancel_look(limit->cancel) : HF_OK;
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    return status == HF_OK ? HF_OK : hfi_error_set(err, status, 0, "%s", hf_status_text(status));
}

static hf_status check(struct limiter *limiter, const hf_limit_request *given,
                       const hf_limit_result *result, hf_error *err)
{
    hf_limit_request *limit = &limiter->limit;
    bool take = limiter->ask.act == HFI_LIMIT_TAKE;
    const char *wrong;

    if (!given)
        return invalid(err, "limit: NULL");
    if (!hfi_struct_copy(limit, sizeof *limit, given, given->size,
                         offsetof(hf_limit_request, burst)))
        return invalid(err,
                       "size: not that of a known hf_limit_request; use HF_LIMIT_REQUEST_INIT");
    if (result &&
        (result->size < offsetof(hf_limit_result, refill_ms) || result->size > HFI_STRUCT_MAX))
        return invalid(err, "ret_result: its size is not set; use HF_LIMIT_RESULT_INIT");
    if (limit->rate == 0 && !take) {
        if (limiter->ask.act == HFI_LIMIT_SET)
            limiter->ask.act = HFI_LIMIT_UNSET;
        return HF_OK;
    }
    if (limit->per_ms < 1 || limit->per_ms > HF_DURATION_MAX_MS)
        return invalid(err, "per_ms: from 1 to ten years");
    wrong = hfi_limit_rule(limit->algorithm, limit->rate, limit->per_ms * 1000, limit->burst,
                           &limiter->rule);
    if (wrong)
        return invalid(err, wrong);
    return take ? check_take(limiter, err) : HF_OK;
}

static hf_status enter(struct limiter *limiter, hf_store *store, enum hfi_limit_act act,
                       const hf_limit_request *limit, const hf_limit_result *result, hf_error *err)
{
    static const char *const verbs[] = { [HFI_LIMIT_TAKE] = "limit",
                                         [HFI_LIMIT_LOOK] = "look at limit",
                                         [HFI_LIMIT_SET] = "set limit" };
    bool take = act == HFI_LIMIT_TAKE;
    struct hfi_prim_task *task = &limiter->task;
    hf_status status;

    memset(limiter, 0, sizeof *limiter);
    hfi_prim_task_init(task, take ? step_take : step_once);
    limiter->ask.act = act;
    status = check(limiter, limit, result, err);
    if (status == HF_OK)
        status = hfi_prim_enter(&task->prim, store, verbs[act], limiter->limit.name,
                                limiter->limit.name_len, HF_CAP_CELLS | HF_CAP_CLOCK, err);
    task->core.cancel = take ? limiter->limit.cancel : NULL;
    task->run.late = HF_UNAVAILABLE;
    task->run.late_text = "other clients kept changing it";
    limiter->begun_ms = hfi_now_ms();
    if (take)
        limiter->ask.wait_us = wait_left_us(limiter);
    return status;
}

static void fill(const struct limiter *limiter, hf_limit_result *ret_result)
{
    const struct hfi_limit_answer *answer = &limiter->answer;
    const struct hfi_limit_rule *rule =
        limiter->in_force.rate ? &limiter->in_force : &limiter->rule;
    hf_limit_result result = { .left = (uint64_t)(answer->left > 0 ? answer->left : 0),
                               .refill_ms = up_to_ms(answer->refill_us),
                               .waited_ms = limiter->waited_ms,
                               .per_ms = rule->period_us / 1000,
                               .rate = (uint32_t)rule->rate,
                               .burst = (uint32_t)rule->burst,
                               .algorithm = rule->algorithm,
                               .is_set = limiter->is_set };
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

static bool was_refused(const struct limiter *limiter)
{
    return limiter->task.state == LIMIT_DECIDED && limiter->answer.said == HFI_LIMIT_REFUSED;
}

static hf_status call(hf_store *store, enum hfi_limit_act act, const hf_limit_request *limit,
                      hf_limit_result *ret_result, hf_error *err)
{
    struct limiter limiter;
    hf_status status = enter(&limiter, store, act, limit, ret_result, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&limiter.task, err);
    if (status == HF_OK || was_refused(&limiter))
        fill(&limiter, ret_result);
    hfi_prim_task_done(&limiter.task);
    return status;
}

static void finish(struct hfi_prim_task *task, hf_result *result)
{
    struct limiter *limiter = hfi_container(task, struct limiter, task);

    if (result->status != HF_OK && !was_refused(limiter))
        return;
    limiter->found.size = sizeof limiter->found;
    fill(limiter, &limiter->found);
    result->limit = &limiter->found;
}

static hf_status begin(hf_store *store, enum hfi_limit_act act, const hf_limit_request *limit,
                       hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct limiter *limiter = hfi_prim_call_new(sizeof *limiter);
    hf_status status;

    if (!limiter)
        return hfi_error_memory(err);
    status = enter(limiter, store, act, limit, NULL, err);
    return hfi_prim_task_begin(&limiter->task, status, finish, done, arg, ret_op, err);
}

hf_status hf_limit_take(hf_store *store, const hf_limit_request *limit, hf_limit_result *ret_result,
                        hf_error *err)
{
    return call(store, HFI_LIMIT_TAKE, limit, ret_result, err);
}

hf_status hf_limit_take_async(hf_store *store, const hf_limit_request *limit, hf_done_fn *done,
                              void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, HFI_LIMIT_TAKE, limit, done, arg, ret_op, err);
}

hf_status hf_limit_get(hf_store *store, const hf_limit_request *limit, hf_limit_result *ret_result,
                       hf_error *err)
{
    return call(store, HFI_LIMIT_LOOK, limit, ret_result, err);
}

hf_status hf_limit_get_async(hf_store *store, const hf_limit_request *limit, hf_done_fn *done,
                             void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, HFI_LIMIT_LOOK, limit, done, arg, ret_op, err);
}

hf_status hf_limit_set(hf_store *store, const hf_limit_request *limit, hf_limit_result *ret_result,
                       hf_error *err)
{
    return call(store, HFI_LIMIT_SET, limit, ret_result, err);
}

hf_status hf_limit_set_async(hf_store *store, const hf_limit_request *limit, hf_done_fn *done,
                             void *arg, hf_op **ret_op, hf_error *err)
{
    return begin(store, HFI_LIMIT_SET, limit, done, arg, ret_op, err);
}
