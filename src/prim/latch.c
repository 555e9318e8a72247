/* SPDX-License-Identifier: MIT */
/*
 * hf_latch_*(): a count that participants bring down to 0, each once, and that others wait for. The
 * whole state is in the cell of the latch's name (latch_plan.h). A participant that joins also
 * holds a lease, so that waiters notice when it dies (participant.h). A waiter that finds such a
 * lease gone writes that into the cell, where all see it.
 */
#include "prim/latch_plan.h"
#include "prim/participant.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/random.h"

/* A call and its state. Large: not on a stack. */
struct latch_call {
    struct hfi_prim_task task;
    bool joins;                   /* else it counts down */
    uint32_t count;               /* hf_latch_create() */
    struct hfi_presence presence; /* joining and counting down */
    hf_status result;             /* joining: the outcome of the write */
    struct hfi_survey survey;     /* waiting */
    struct hfi_latch latch;
};

/* ---- decisions ------------------------------------------------------------------------------------------ */

static enum hfi_verdict broken(struct hfi_cell_run *run, const struct hfi_latch *latch)
{
    return hfi_run_fail(run, HF_BROKEN, "'%s' is gone, and had not counted down", latch->broken);
}

/* false: *ret_verdict says why there is none. */
static bool read_latch(struct hfi_cell_run *run, struct hfi_latch *latch,
                       enum hfi_verdict *ret_verdict)
{
    if (run->found.version == 0)
        *ret_verdict = hfi_run_fail(run, HF_NOT_FOUND, "there is no such latch");
    else if (!hfi_latch_get(latch, run->found.bytes, run->found.len))
        *ret_verdict = hfi_run_mismatch(run);
    else
        return true;
    return false;
}

static enum hfi_verdict write_latch(struct hfi_cell_run *run, const struct hfi_latch *latch)
{
    return hfi_latch_put(latch, hfi_run_buffer(run)) ? hfi_run_write(run, 0) : hfi_run_memory(run);
}

static enum hfi_verdict decide_create(struct hfi_cell_run *run, void *arg)
{
    struct latch_call *call = arg;
    enum hfi_verdict verdict;

    if (run->found.version == 0) {
        call->latch.count = call->count;
        call->latch.broken[0] = 0;
        call->latch.participants.count = 0;
        return write_latch(run, &call->latch);
    }
    if (!read_latch(run, &call->latch, &verdict))
        return verdict;
    if (call->latch.count != call->count)
        return hfi_run_fail(run, HF_MISMATCH, "it exists already, for %u participants",
                            call->latch.count);
    return HFI_END;
}

static enum hfi_verdict decide_delete(struct hfi_cell_run *run, void *arg)
{
    struct latch_call *call = arg;
    enum hfi_verdict verdict;

    if (run->found.version == 0 && (run->wrote || run->doubt))
        return HFI_END;
    return read_latch(run, &call->latch, &verdict) ? HFI_DELETE : verdict;
}

static enum hfi_verdict decide_part(struct hfi_cell_run *run, void *arg)
{
    struct latch_call *call = arg;
    const struct hfi_presence *own = &call->presence;
    enum hfi_verdict verdict;
    bool changed = false;
    hf_status status;

    if (!call->joins && run->doubt && run->found.version == 0)
        return hfi_run_fail(run, HF_UNKNOWN,
                            "it may have been counted, and the latch removed since");
    if (!read_latch(run, &call->latch, &verdict))
        return verdict;
    status = call->joins ? hfi_latch_join(&call->latch, own->who, own->id, &changed)
                         : hfi_latch_down(&call->latch, own->who, &changed);
    if (status == HF_BROKEN)
        return broken(run, &call->latch);
    if (status == HF_FULL)
        return hfi_run_fail(run, HF_FULL, "more than %d participants", HF_PARTICIPANTS_MAX);
    return changed ? write_latch(run, &call->latch) : HFI_END;
}

static enum hfi_verdict decide_look(struct hfi_cell_run *run, void *arg)
{
    struct latch_call *call = arg;
    enum hfi_verdict verdict;

    if (!read_latch(run, &call->latch, &verdict))
        return verdict;
    return call->latch.broken[0] ? broken(run, &call->latch) : HFI_END;
}

static enum hfi_verdict decide_wait(struct hfi_cell_run *run, void *arg)
{
    struct latch_call *call = arg;
    struct hfi_latch *latch = &call->latch;
    enum hfi_verdict verdict;
    bool changed;

    if (!read_latch(run, latch, &verdict))
        return verdict;
    if (hfi_latch_left(latch) == 0)
        return HFI_END;
    if (latch->broken[0])
        return broken(run, latch);
    run->leases = hfi_participants_with(&latch->participants, HFI_JOINED) > 0;
    if (run->answer == HFI_IS_GONE) {
        run->foreign = true; /* not our outcome: the participant may have counted down meanwhile, or
                              * be back */
        hfi_latch_break(latch, call->survey.last.who, call->survey.last.token, &changed);
        return changed ? write_latch(run, latch) : HFI_WAIT;
    }
    return run->leases_due ? hfi_survey_next(&call->survey, run, &latch->participants, HFI_JOINED)
                           : HFI_WAIT;
}

/* ---- the calls -------------------------------------------------------------------------------------------- */

static hf_status latch_call_new(hf_store *store, const void *name, size_t name_len,
                                const char *verb, hfi_decide_fn *decide,
                                struct latch_call **ret_call, hf_error *err)
{
    struct latch_call *call = hfi_prim_call_new(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    hfi_prim_task_init_run(&call->task, decide, call);
    call->task.run.look_again = true;
    status = hfi_prim_enter(&call->task.prim, store, verb, name, name_len, HF_CAP_CELLS, err);
    if (status == HF_OK)
        *ret_call = call;
    else
        hfi_free(call);
    return status;
}

static void latch_call_free(struct latch_call *call)
{
    hfi_prim_task_done(&call->task);
    hfi_free(call);
}

static hf_status refuse(struct latch_call *call, hf_status status)
{
    hfi_prim_leave(&call->task.prim);
    latch_call_free(call);
    return status;
}

static hf_status run(struct latch_call *call, uint32_t *ret_count, uint32_t *ret_left,
                     hf_error *err)
{
    hf_status status = hfi_prim_task_run(&call->task, err);

    if (status == HF_OK && ret_count)
        *ret_count = call->latch.count;
    if (status == HF_OK && ret_left)
        *ret_left = hfi_latch_left(&call->latch);
    latch_call_free(call);
    return status;
}

static void finish(struct hfi_prim_task *task, hf_result *result)
{
    const struct latch_call *call = hfi_container(task, struct latch_call, task);

    if (result->status != HF_OK)
        return;
    result->count = call->latch.count;
    result->number = hfi_latch_left(&call->latch);
    result->lease = call->presence.lease;
}

static hf_status begin(struct latch_call *call, hf_done_fn *done, void *arg, hf_op **ret_op,
                       hf_error *err)
{
    return hfi_prim_task_begin(&call->task, HF_OK, finish, done, arg, ret_op, err);
}

/* ---- creating, deleting, looking --------------------------------------------------------------------------- */

static hf_status prepare_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                                struct latch_call **ret_call, hf_error *err)
{
    hf_status status;

    if (count == 0 || count > HF_PARTICIPANTS_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: from 1 to %d", HF_PARTICIPANTS_MAX);
    status = latch_call_new(store, name, name_len, "latch", decide_create, ret_call, err);
    if (status == HF_OK)
        (*ret_call)->count = count;
    return status;
}

hf_status hf_latch_create(hf_store *store, const void *name, size_t name_len, uint32_t count,
                          hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = prepare_create(store, name, name_len, count, &call, err);

    return status == HF_OK ? run(call, NULL, NULL, err) : status;
}

hf_status hf_latch_create_async(hf_store *store, const void *name, size_t name_len, uint32_t count,
                                hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = prepare_create(store, name, name_len, count, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}

hf_status hf_latch_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = latch_call_new(store, name, name_len, "latch", decide_delete, &call, err);

    return status == HF_OK ? run(call, NULL, NULL, err) : status;
}

hf_status hf_latch_delete_async(hf_store *store, const void *name, size_t name_len,
                                hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = latch_call_new(store, name, name_len, "latch", decide_delete, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}

hf_status hf_latch_get(hf_store *store, const void *name, size_t name_len, uint32_t *ret_count,
                       uint32_t *ret_left, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = latch_call_new(store, name, name_len, "latch", decide_look, &call, err);

    return status == HF_OK ? run(call, ret_count, ret_left, err) : status;
}

hf_status hf_latch_get_async(hf_store *store, const void *name, size_t name_len, hf_done_fn *done,
                             void *arg, hf_op **ret_op, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = latch_call_new(store, name, name_len, "latch", decide_look, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}

/* ---- counting down, waiting ---------------------------------------------------------------------------------- */

static hf_status prepare_down(hf_store *store, const void *name, size_t name_len, const char *who,
                              struct latch_call **ret_call, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = latch_call_new(store, name, name_len, "count down", decide_part, &call, err);

    if (status != HF_OK)
        return status;
    *ret_call = call;
    status = hfi_presence_name(&call->presence, &call->task.prim, who, err);
    return status == HF_OK ? HF_OK : refuse(call, status);
}

hf_status hf_latch_count_down(hf_store *store, const void *name, size_t name_len, const char *who,
                              uint32_t *ret_left, hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = prepare_down(store, name, name_len, who, &call, err);

    return status == HF_OK ? run(call, NULL, ret_left, err) : status;
}

hf_status hf_latch_count_down_async(hf_store *store, const void *name, size_t name_len,
                                    const char *who, hf_done_fn *done, void *arg, hf_op **ret_op,
                                    hf_error *err)
{
    struct latch_call *call = NULL;
    hf_status status = prepare_down(store, name, name_len, who, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}

static hf_status prepare_wait(hf_store *store, const hf_party_request *given,
                              struct latch_call **ret_call, hf_error *err)
{
    hf_party_request request;
    struct hfi_prim_task *task;
    int64_t until_ms;
    hf_status status = hfi_party_request(&request, given, err);

    if (status == HF_OK)
        status = hfi_party_no_events(&request, err);
    if (status != HF_OK)
        return status;
    if (!hfi_until(request.wait_ms, &until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    status = latch_call_new(store, request.name, request.name_len, "wait for latch", decide_wait,
                            ret_call, err);
    if (status != HF_OK)
        return status;
    task = &(*ret_call)->task;
    task->until_ms = until_ms;
    task->core.cancel = request.cancel;
    task->run.patient = true;
    (*ret_call)->survey.turn = (uint32_t)hfi_random_u64();
    return HF_OK;
}

hf_status hf_latch_wait(hf_store *store, const hf_party_request *request, hf_error *err)
{
    struct latch_call *call;
    hf_status status = prepare_wait(store, request, &call, err);

    return status == HF_OK ? run(call, NULL, NULL, err) : status;
}

hf_status hf_latch_wait_async(hf_store *store, const hf_party_request *request, hf_done_fn *done,
                              void *arg, hf_op **ret_op, hf_error *err)
{
    struct latch_call *call;
    hf_status status = prepare_wait(store, request, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}

/* ---- joining ---------------------------------------------------------------------------------------------- */

enum join_state { JOIN_BEGIN, JOIN_ACQUIRED, JOIN_LISTED, JOIN_RELEASED };

static hf_status step_join(struct hfi_prim_task *task, hf_status got)
{
    struct latch_call *call = hfi_container(task, struct latch_call, task);

    switch ((enum join_state)task->state) {
    case JOIN_BEGIN:
        return hfi_presence_acquire(&call->presence, task, JOIN_ACQUIRED);
    case JOIN_ACQUIRED:
        task->whole = got != HF_OK;
        if (got != HF_OK)
            return got;
        hfi_presence_acquired(&call->presence, task);
        return hfi_begin_cell(task, JOIN_LISTED, decide_part, call);
    case JOIN_LISTED:
        call->result = got;
        return got == HF_OK ? HF_OK : hfi_begin_release(task, JOIN_RELEASED, call->presence.lease);
    case JOIN_RELEASED:
        break;
    }
    return call->result;
}

static hf_status prepare_join(hf_store *store, const hf_party_request *given,
                              struct latch_call **ret_call, hf_error *err)
{
    hf_party_request request;
    struct latch_call *call;
    int64_t until_ms;
    hf_status status = hfi_party_request(&request, given, err);

    if (status != HF_OK)
        return status;
    if (!hfi_until(request.wait_ms, &until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    status = latch_call_new(store, request.name, request.name_len, "join", decide_part, &call, err);
    if (status != HF_OK)
        return status;
    *ret_call = call;
    call->joins = true;
    call->presence.on_event = request.on_event;
    call->presence.on_event_arg = request.on_event_arg;
    call->task.step = step_join;
    call->task.until_ms = until_ms;
    call->task.core.cancel = request.cancel;
    status = hfi_presence_ttl(&call->presence, &call->task.prim, request.ttl_ms, err);
    if (status == HF_OK)
        status = hfi_presence_name(&call->presence, &call->task.prim, request.who, err);
    return status == HF_OK ? HF_OK : refuse(call, status);
}

hf_status hf_latch_join(hf_store *store, const hf_party_request *request, hf_lease **ret_lease,
                        hf_error *err)
{
    struct latch_call *call;
    hf_status status;

    if (!ret_lease)
        return hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");
    status = prepare_join(store, request, &call, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call->task, err);
    if (status == HF_OK)
        *ret_lease = call->presence.lease;
    latch_call_free(call);
    return status;
}

hf_status hf_latch_join_async(hf_store *store, const hf_party_request *request, hf_done_fn *done,
                              void *arg, hf_op **ret_op, hf_error *err)
{
    struct latch_call *call;
    hf_status status = prepare_join(store, request, &call, err);

    return status == HF_OK ? begin(call, done, arg, ret_op, err) : status;
}
