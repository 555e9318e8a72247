/* SPDX-License-Identifier: MIT */
/*
 * hf_barrier_*(): barriers, single and double. The whole state of a barrier is in the cell of its
 * name (barrier_plan.h). Each participant holds a lease from before it arrives until after it has
 * left, so that the others notice when it dies (participant.h). A waiter that finds such a lease
 * gone marks the generation as broken in the cell, where all see it.
 *
 *   hf_barrier_wait, _enter:   ENTER ---> PASS ----------------------> LEAVE ---> end
 *                                |          | gave up: WITHDRAW ---------^
 *                                +--> end, without a lease
 *   hf_barrier_leave:          PASS (leaving) ---> LEAVE ---> end
 */
#include "prim/barrier_plan.h"
#include "prim/lease_cell.h"
#include "prim/participant.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"
#include "util/text.h"

#include <string.h>

/* A call and its state. Large: not on a stack. */
struct barrier_call {
    struct hfi_prim_task task;
    struct hfi_presence presence;
    struct hfi_lease_cell lease_cell; /* leaving */
    uint32_t parties;
    bool twice;          /* a double barrier */
    bool leaving;        /* hf_barrier_leave() */
    bool counted;        /* we have arrived, or left: now we wait for the others */
    uint64_t generation; /* our generation */
    uint64_t tried;      /* the generation that we may have joined: the outcome is unknown */
    hf_status withdrawn; /* what the barrier said when we gave up */
    hf_status result;    /* the status for the caller, after the lease is released */
    struct hfi_survey survey;
    struct hfi_barrier barrier;
};

/* ---- the cell ------------------------------------------------------------------------------------------ */

static bool read_barrier(struct hfi_cell_run *run, struct barrier_call *call)
{
    if (run->found.version == 0)
        hfi_barrier_new(&call->barrier, call->parties, call->twice);
    else
        return hfi_barrier_get(&call->barrier, run->found.bytes, run->found.len);
    return true;
}

static enum hfi_verdict write_barrier(struct hfi_cell_run *run, const struct barrier_call *call)
{
    return hfi_barrier_put(&call->barrier, hfi_run_buffer(run)) ? hfi_run_write(run, 0)
                                                                : hfi_run_memory(run);
}

static hf_status broken_text(const struct barrier_call *call, hf_error *error)
{
    const struct hfi_barrier *barrier = &call->barrier;

    if (barrier->generation == call->generation && barrier->gone[0])
        return hfi_error_set(error, HF_BROKEN, 0, "'%s' is gone", barrier->gone);
    return hfi_error_set(error, HF_BROKEN, 0, "%s", hf_status_text(HF_BROKEN));
}

static enum hfi_verdict broken(struct hfi_cell_run *run, const struct barrier_call *call)
{
    run->status = broken_text(call, hfi_run_error(run));
    return HFI_FAIL;
}

static enum hfi_verdict maybe_passed(struct hfi_cell_run *run)
{
    return hfi_run_fail(run, HF_UNKNOWN, "it may have been counted, and passed");
}

/* ---- the others ------------------------------------------------------------------------------------------ */

/* The lease that we asked about is gone: mark its generation as broken. Whether that write succeeds
 * does not decide our own outcome. */
static enum hfi_verdict break_generation(struct hfi_cell_run *run, struct barrier_call *call)
{
    bool changed = false;

    hfi_barrier_break(&call->barrier, call->survey.last.who, call->survey.last.token, &changed);
    run->foreign = run->leases = true;
    return changed ? write_barrier(run, call) : HFI_WAIT;
}

/* Wait for the other participants, and check that those who have arrived still hold their
 * leases. */
static enum hfi_verdict wait_for_others(struct hfi_cell_run *run, struct barrier_call *call)
{
    run->patient = run->leases = true;
    if (run->answer == HFI_IS_GONE)
        return break_generation(run, call);
    return run->leases_due
               ? hfi_survey_next(&call->survey, run, &call->barrier.participants, HFI_HERE)
               : HFI_WAIT;
}

/*
 * One of those who arrived before us, whose lease is to be checked. Each waiter checks the others,
 * so one live participant is enough. But if all of them died, nobody has noticed, and we must not
 * count them. NULL: nobody arrived before us.
 */
static const struct hfi_participant *somebody_else(const struct barrier_call *call)
{
    const struct hfi_participants *participants = &call->barrier.participants;

    for (uint32_t i = 0; i < participants->count; i++)
        if (strcmp(participants->items[i].who, call->presence.who) != 0)
            return &participants->items[i];
    return NULL;
}

/* ---- decisions ------------------------------------------------------------------------------------------- */

/* Does the cell list us? Nobody else takes a participant off its list; it lists those of two
 * generations. */
static bool is_listed(struct barrier_call *call)
{
    return hfi_participant_find(&call->barrier.participants, call->presence.who) ||
           hfi_participant_find(&call->barrier.before, call->presence.who);
}

/* How did our generation end? */
static enum hfi_verdict see_end(struct hfi_cell_run *run, struct barrier_call *call)
{
    switch (hfi_barrier_outcome(&call->barrier, call->generation, !call->leaving)) {
    case HF_OK:
        return HFI_END;
    case HF_BROKEN:
        return broken(run, call);
    default:
        return wait_for_others(run, call);
    }
}

/* Join a generation. The leases of the others are checked first: nobody is counted together with a
 * dead participant. */
static enum hfi_verdict arrive(struct hfi_cell_run *run, struct barrier_call *call)
{
    struct hfi_barrier *barrier = &call->barrier;
    const struct hfi_participant *other;
    bool changed = false;
    hf_status status;

    if (run->doubt && barrier->generation != call->tried && !is_listed(call))
        return maybe_passed(run);
    status = hfi_barrier_arrive(barrier, call->parties, call->twice, call->presence.who,
                                call->presence.id, &call->generation, &changed);
    if (status == HF_BUSY)
        return wait_for_others(run, call); /* those inside must leave first */
    run->patient = false;
    if ((status == HF_MISMATCH || (changed && barrier->phase != HFI_FILLING)) &&
        run->answer == HFI_UNASKED) {
        other = somebody_else(call);
        if (other)
            return hfi_survey_ask(&call->survey, run, other);
    }
    if (run->answer == HFI_IS_GONE && (status == HF_MISMATCH || changed)) {
        (void)read_barrier(run, call); /* as it is, without us */
        return break_generation(run, call);
    }
    if (status == HF_MISMATCH)
        return hfi_run_fail(run, status, "it is in use as a %s barrier for %u",
                            barrier->twice ? "double" : "single", barrier->parties);
    call->counted = !changed;
    if (!changed)
        return see_end(run, call);
    call->tried = call->generation;
    return write_barrier(run, call);
}

/* Arrive, and wait until all are here. */
static enum hfi_verdict decide_pass(struct hfi_cell_run *run, void *arg)
{
    struct barrier_call *call = arg;

    if (!read_barrier(run, call))
        return hfi_run_mismatch(run);
    return call->counted ? see_end(run, call) : arrive(run, call);
}

/* Leave, and wait until all have left. */
static enum hfi_verdict decide_leave(struct hfi_cell_run *run, void *arg)
{
    struct barrier_call *call = arg;
    bool changed = false;
    hf_status status;

    if (!read_barrier(run, call))
        return hfi_run_mismatch(run);
    if (call->counted)
        return see_end(run, call);
    status = hfi_barrier_leave(&call->barrier, call->presence.who, call->presence.id,
                               &call->generation, &changed);
    if (status == HF_BROKEN && run->doubt && call->barrier.generation != call->tried)
        return hfi_run_fail(run, HF_UNKNOWN, "it may have been the last to leave");
    if (status == HF_BROKEN)
        return broken(run, call);
    call->tried = call->generation;
    call->counted = !changed;
    return changed ? write_barrier(run, call) : see_end(run, call);
}

/* Give up: take our arrival back, unless the generation has ended before that. */
static enum hfi_verdict decide_withdraw(struct hfi_cell_run *run, void *arg)
{
    struct barrier_call *call = arg;
    bool changed = false;

    if (run->wrote)
        return HFI_END;
    if (!read_barrier(run, call))
        return hfi_run_mismatch(run);
    if (run->doubt && !is_listed(call) && call->barrier.generation >= call->generation) {
        if (call->barrier.generation - call->generation > 1)
            return maybe_passed(run);
        call->withdrawn =
            HF_TIMEOUT; /* we had withdrawn, and others may have come and passed since */
        return HFI_END;
    }
    call->withdrawn = hfi_barrier_withdraw(&call->barrier, call->presence.who, call->presence.id,
                                           call->generation, &changed);
    return changed ? write_barrier(run, call) : HFI_END;
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

enum barrier_state { BARRIER_BEGIN, BARRIER_ENTER, BARRIER_PASS, BARRIER_WITHDRAW, BARRIER_LEAVE };

/* The status for a caller that gave up with `result`, after the withdrawal ended with `got`. */
static hf_status withdrew(struct barrier_call *call, hf_status got)
{
    hf_error *error = &call->task.error;

    /* We have been counted. Our lease ends now, so the others will see that we are gone; but they
     * may have passed. */
    if (got == HF_UNAVAILABLE || got == HF_BUSY)
        return HF_UNKNOWN;
    if (got != HF_OK || call->withdrawn == HF_OK)
        return got;
    if (call->withdrawn == HF_BROKEN)
        return broken_text(call, error);
    return hfi_error_set(error, call->result, 0, "%s",
                         call->result == HF_TIMEOUT ? "the deadline passed"
                                                    : hf_status_text(call->result));
}

/* The lease stays with a caller that has entered a double barrier. */
static hf_status leave(struct barrier_call *call)
{
    if (call->result == HF_OK && call->twice && !call->leaving)
        return HF_OK;
    return hfi_begin_release(&call->task, BARRIER_LEAVE, call->presence.lease);
}

static hf_status step_barrier(struct hfi_prim_task *task, hf_status got)
{
    struct barrier_call *call = hfi_container(task, struct barrier_call, task);

    switch ((enum barrier_state)task->state) {
    case BARRIER_BEGIN:
        if (call->leaving)
            return hfi_begin_cell(task, BARRIER_PASS, decide_leave, call);
        return hfi_presence_acquire(&call->presence, task, BARRIER_ENTER);
    case BARRIER_ENTER: /* the lease that shows the others that we live */
        task->whole = got != HF_OK;
        if (got != HF_OK)
            return got;
        hfi_presence_acquired(&call->presence, task);
        return hfi_begin_cell(task, BARRIER_PASS, decide_pass, call);
    case BARRIER_PASS:
        call->result = got;
        if (got == HF_OK || got == HF_BROKEN || !call->counted || call->leaving)
            return leave(call);
        task->run.patient = false;
        return hfi_begin_cell(task, BARRIER_WITHDRAW, decide_withdraw, call);
    case BARRIER_WITHDRAW:
        call->result = withdrew(call, got);
        return leave(call);
    case BARRIER_LEAVE:
        break;
    }
    return call->result;
}

/* ---- the calls --------------------------------------------------------------------------------------------- */

static struct barrier_call *barrier_call_new(void)
{
    struct barrier_call *call = hfi_calloc(1, sizeof *call);

    if (!call)
        return NULL;
    hfi_prim_task_init(&call->task, step_barrier);
    call->task.run.look_again = true;
    call->task.run.leases_ms =
        hfi_now_ms() + HFI_LEASES_FIRST_MS; /* most barriers are passed before that */
    call->survey.turn = (uint32_t)hfi_random_u64();
    return call;
}

static void barrier_call_free(struct barrier_call *call)
{
    hfi_prim_task_done(&call->task);
    hfi_free(call);
}

/* The participant's name; NULL: a random one. */
static hf_status name_participant(struct barrier_call *call, const char *who, hf_error *err)
{
    unsigned char chance[8];
    char hex[2 * sizeof chance + 1];

    if (who)
        return hfi_presence_name(&call->presence, &call->task.prim, who, err);
    hfi_random_bytes(chance, sizeof chance);
    hfi_hex(chance, sizeof chance, hex);
    return hfi_presence_name(&call->presence, &call->task.prim, hex, err);
}

/* Prepare a call that arrives at a barrier, in a store that it has entered. `twice`: a double
 * barrier. */
static hf_status prepare_come(hf_store *store, const hf_party_request *given, bool twice,
                              struct barrier_call **ret_call, hf_error *err)
{
    struct barrier_call *call = barrier_call_new();
    struct hfi_prim_task *task;
    hf_party_request request;
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    task = &call->task;
    status = hfi_party_request(&request, given, err);
    if (status == HF_OK && !twice)
        status = hfi_party_no_events(&request, err);
    if (status == HF_OK)
        status = hfi_prim_enter(&task->prim, store, "barrier", request.name, request.name_len,
                                HF_CAP_CELLS, err);
    if (status != HF_OK) {
        barrier_call_free(call);
        return status;
    }
    call->parties = request.parties;
    call->twice = twice;
    call->presence.on_event = request.on_event;
    call->presence.on_event_arg = request.on_event_arg;
    task->core.cancel = request.cancel;
    if (!hfi_until(request.wait_ms, &task->until_ms))
        status = hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    else if (request.parties == 0 || request.parties > HF_PARTICIPANTS_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "parties: from 1 to %d", HF_PARTICIPANTS_MAX);
    else
        status = hfi_presence_ttl(&call->presence, &task->prim, request.ttl_ms, err);
    if (status == HF_OK)
        status = name_participant(call, request.who, err);
    if (status == HF_OK) {
        *ret_call = call;
        return HF_OK;
    }
    hfi_prim_leave(&task->prim);
    barrier_call_free(call);
    return status;
}

hf_status hf_barrier_wait(hf_store *store, const hf_party_request *request, hf_error *err)
{
    struct barrier_call *call;
    hf_status status = prepare_come(store, request, false, &call, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call->task, err);
    barrier_call_free(call);
    return status;
}

hf_status hf_barrier_wait_async(hf_store *store, const hf_party_request *request, hf_done_fn *done,
                                void *arg, hf_op **ret_op, hf_error *err)
{
    struct barrier_call *call;
    hf_status status = prepare_come(store, request, false, &call, err);

    if (status != HF_OK)
        return status;
    return hfi_prim_task_begin(&call->task, HF_OK, NULL, done, arg, ret_op, err);
}

hf_status hf_barrier_enter(hf_store *store, const hf_party_request *request, hf_lease **ret_party,
                           hf_error *err)
{
    struct barrier_call *call;
    hf_status status;

    if (!ret_party)
        return hfi_error_set(err, HF_INVALID, 0, "ret_party: NULL");
    status = prepare_come(store, request, true, &call, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call->task, err);
    if (status == HF_OK)
        *ret_party = call->presence.lease;
    barrier_call_free(call);
    return status;
}

static void finish_enter(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->lease = hfi_container(task, struct barrier_call, task)->presence.lease;
}

hf_status hf_barrier_enter_async(hf_store *store, const hf_party_request *request, hf_done_fn *done,
                                 void *arg, hf_op **ret_op, hf_error *err)
{
    struct barrier_call *call;
    hf_status status = prepare_come(store, request, true, &call, err);

    if (status != HF_OK)
        return status;
    return hfi_prim_task_begin(&call->task, HF_OK, finish_enter, done, arg, ret_op, err);
}

/* ---- leaving --------------------------------------------------------------------------------------------- */

/* The name of our lease consists of the barrier's name and our own. */
static hf_status take_apart(struct hfi_prim *prim, char ret_who[HF_PARTICIPANT_MAX + 1],
                            hf_error *err)
{
    struct hfi_name *name = &prim->name;
    const unsigned char *nul = memrchr(name->bytes, 0, name->len);
    size_t len = nul ? (size_t)(name->bytes + name->len - (nul + 1)) : 0;

    if (!nul || nul == name->bytes || len == 0 || len > HF_PARTICIPANT_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "party: it did not enter a barrier");
    memcpy(ret_who, nul + 1, len);
    ret_who[len] = 0;
    name->len = (uint32_t)(nul - name->bytes);
    hfi_hash128(name->bytes, name->len, name->hash);
    return HF_OK;
}

/* Prepare a call that leaves. *ret_ends: the lease is one that entered a barrier, so it ends
 * whatever happens. */
static hf_status prepare_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel,
                               struct barrier_call **ret_call, bool *ret_ends, hf_error *err)
{
    char who[HF_PARTICIPANT_MAX + 1];
    struct hfi_lease_cell lease_cell;
    struct hfi_prim prim;
    struct barrier_call *call;
    int64_t until_ms;
    hf_status status =
        hfi_lease_cell_enter(&lease_cell, &prim, party, "barrier", HF_CAP_CELLS, err);

    *ret_ends = false;
    if (status != HF_OK)
        return status;
    status = take_apart(&prim, who, err);
    *ret_ends = status == HF_OK;
    if (status == HF_OK && !hfi_until(wait_ms, &until_ms))
        status = hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    call = status == HF_OK ? barrier_call_new() : NULL;
    if (!call) {
        hfi_prim_leave(&prim);
        return status == HF_OK ? hfi_error_memory(err) : status;
    }
    call->lease_cell = lease_cell;
    call->task.prim = prim;
    call->task.prim.name.bytes = call->lease_cell.name;
    call->task.until_ms = until_ms;
    call->task.core.cancel = cancel;
    call->parties = 1;
    call->leaving = call->twice = true;
    (void)hfi_presence_name(&call->presence, &call->task.prim, who, NULL);
    call->presence.lease = party;
    call->presence.id = lease_cell.token;
    *ret_call = call;
    return HF_OK;
}

hf_status hf_barrier_leave(hf_lease *party, int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    struct barrier_call *call;
    bool ends;
    hf_status status = prepare_leave(party, wait_ms, cancel, &call, &ends, err);

    if (status != HF_OK) {
        if (ends)
            (void)hf_release(party, NULL);
        return status;
    }
    status = hfi_prim_task_run(&call->task, err);
    barrier_call_free(call);
    return status;
}

hf_status hf_barrier_leave_async(hf_lease *party, int64_t wait_ms, hf_cancel *cancel,
                                 hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct barrier_call *call;
    bool ends;
    hf_status status = prepare_leave(party, wait_ms, cancel, &call, &ends, err);

    if (status != HF_OK)
        return status; /* nothing began: the lease goes on */
    return hfi_prim_task_begin(&call->task, HF_OK, NULL, done, arg, ret_op, err);
}
