/* SPDX-License-Identifier: MIT */
/*
 * hf_election_*(): the leader is the holder of the lock, and the leader's value is in the cell of
 * the same name: "E1", its token, its label and the value; "E0" and the token after it resigned.
 *
 * A leader is one for as long as its lease is valid by its own clock, which ends before the store lets another one lead;
 * nothing here makes that longer. A former leader can never overwrite the value of a later one: see
 * lease_cell.h for the rule.
 *
 * Observers are woken by the change of the cell. If a leader dies and nobody follows, only the end
 * of its lease shows it, so observers check the lease once a second.
 */
#include "core/lack.h"
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/lease_cell.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* ---- the record ------------------------------------------------------------------------------------- */

struct record {
    bool leads;
    uint64_t token;
    char label[HF_LABEL_MAX + 1];
    const void *value; /* in the cell's bytes */
    size_t len;
};

static bool get(const struct hfi_cell *cell, struct record *ret_record)
{
    struct hfi_reader from = { cell->bytes, cell->len };
    const unsigned char *head;

    *ret_record = (struct record){ .leads = false };
    if (cell->version == 0)
        return true;
    if (!hfi_get_bytes(&from, 2, &head) || head[0] != 'E' || (head[1] != '0' && head[1] != '1') ||
        !hfi_get_number(&from, &ret_record->token) ||
        !hfi_get_text(&from, ret_record->label, sizeof ret_record->label))
        return false;
    ret_record->leads = head[1] == '1';
    ret_record->value = from.at;
    ret_record->len = from.left;
    return true;
}

static bool put(struct hfi_buffer *to, const struct record *record)
{
    return hfi_put_bytes(to, record->leads ? "E1" : "E0", 2) && hfi_put_number(to, record->token) &&
           hfi_put_text(to, record->label) && hfi_put_bytes(to, record->value, record->len);
}

/* ---- leading ------------------------------------------------------------------------------------------ */

struct leading {
    struct hfi_prim_task task;
    struct hfi_lease_cell lease_cell;
    hf_acquire_request request; /* campaign: in full size */
    hf_lease *leader;
    struct record say;
    hf_status result; /* the status for the caller, after the lease is released ... */
    hf_error unsaid;  /* ... and why */
};

static enum hfi_verdict decide_say(struct hfi_cell_run *run, void *arg)
{
    struct leading *leading = arg;
    struct record found;

    if (run->wrote)
        return HFI_END;
    if (!get(&run->found, &found))
        return hfi_run_mismatch(run);
    if (found.token > leading->lease_cell.token)
        return hfi_run_fail(run, HF_FENCED, "a later leader (token %" PRIu64 ") has been elected",
                            found.token);
    if (!hfi_lease_cell_valid(&leading->lease_cell)) /* after the reading: see lease_cell.h */
        return hfi_run_fail(run, HF_LOST, "%s", hf_status_text(HF_LOST));
    return put(hfi_run_buffer(run), &leading->say) ? hfi_run_write(run, 0) : hfi_run_memory(run);
}

static void set_speech(struct leading *leading, bool leads, const void *value, size_t len)
{
    leading->say = (struct record){ .leads = leads, .value = value, .len = len };
    leading->task.run.look_again = true;
}

/* The lease is known: the value is published under its token and label. */
static void sign(struct leading *leading)
{
    leading->say.token = leading->lease_cell.token;
    memcpy(leading->say.label, leading->lease_cell.label, sizeof leading->say.label);
}

static hf_status enter_by_lease(struct leading *leading, hf_lease *leader, const char *verb,
                                hf_error *err)
{
    hf_status status = hfi_lease_cell_enter(&leading->lease_cell, &leading->task.prim, leader, verb,
                                            HF_CAP_CELLS, err);

    leading->leader = leader;
    if (status == HF_OK)
        sign(leading);
    return status;
}

static hf_status check_value(const void *value, size_t len, hf_error *err)
{
    if (len > HF_ELECTION_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_ELECTION_MAX);
    if (len > 0 && !value)
        return hfi_error_set(err, HF_INVALID, 0, "value: NULL");
    return HF_OK;
}

static hf_status prepare_set(struct leading *leading, hf_lease *leader, const void *value,
                             size_t len, hf_error *err)
{
    hf_status status = check_value(value, len, err);

    if (status != HF_OK)
        return status;
    hfi_prim_task_init_run(&leading->task, decide_say, leading);
    set_speech(leading, true, value, len);
    return enter_by_lease(leading, leader, "proclaim", err);
}

hf_status hf_election_set(hf_lease *leader, const void *value, size_t len, hf_error *err)
{
    struct leading leading;
    hf_status status = prepare_set(&leading, leader, value, len, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&leading.task, err);
    hfi_prim_task_done(&leading.task);
    return status;
}

/* Copy the value into the task. The prim was entered. */
static hf_status keep_value(struct leading *leading, hf_error *err)
{
    leading->say.value = hfi_prim_keep(&leading->task, leading->say.value, leading->say.len);
    if (leading->say.value)
        return HF_OK;
    hfi_prim_leave(&leading->task.prim);
    return hfi_error_memory(err);
}

hf_status hf_election_set_async(hf_lease *leader, const void *value, size_t len, hf_done_fn *done,
                                void *arg, hf_op **ret_op, hf_error *err)
{
    struct leading *leading = hfi_prim_call_new(sizeof *leading);
    hf_status status;

    if (!leading)
        return hfi_error_memory(err);
    status = prepare_set(leading, leader, value, len, err);
    if (status == HF_OK)
        status = keep_value(leading, err);
    return hfi_prim_task_begin(&leading->task, status, NULL, done, arg, ret_op, err);
}

/* ---- campaigning ---------------------------------------------------------------------------------------- */

static hf_status check_campaign(hf_store *store, const hf_acquire_request *request, hf_error *err)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_status status = hf_store_get(store, &info);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "store: %s", hf_status_text(status));
    if (!(info.caps & HF_CAP_CELLS))
        return hfi_unsupported(&(const struct hfi_promises){ .name = info.engine,
                                                             .caps = info.caps,
                                                             .lacks = info.lacks },
                               HF_CAP_CELLS, "campaign", err);
    if (!request || request->size < offsetof(hf_acquire_request, capacity))
        return hfi_error_set(err, HF_INVALID, 0, "request: NULL, or its size is unknown");
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_EXCLUSIVE)
        return hfi_error_set(err, HF_INVALID, 0,
                             "kind: an election needs a mutex or an exclusive lock");
    return HF_OK;
}

enum campaign_state { CAMPAIGN_BEGIN, CAMPAIGN_ACQUIRED, CAMPAIGN_SAID, CAMPAIGN_RELEASED };

static hf_status step_campaign(struct hfi_prim_task *task, hf_status got)
{
    struct leading *leading = hfi_container(task, struct leading, task);

    switch ((enum campaign_state)task->state) {
    case CAMPAIGN_BEGIN:
        return hfi_begin_acquire(task, CAMPAIGN_ACQUIRED, &leading->request);
    case CAMPAIGN_ACQUIRED:
        task->whole = true;
        if (got != HF_OK)
            return got;
        leading->leader = task->action.lease;
        leading->result =
            hfi_lease_cell_take(&leading->lease_cell, &task->prim, leading->leader, &task->error);
        if (leading->result != HF_OK)
            return hfi_begin_release(task, CAMPAIGN_RELEASED, leading->leader);
        sign(leading);
        task->whole = false;
        return hfi_begin_cell(task, CAMPAIGN_SAID, decide_say, leading);
    case CAMPAIGN_SAID:
        leading->result = got;
        return got == HF_OK ? HF_OK : hfi_begin_release(task, CAMPAIGN_RELEASED, leading->leader);
    case CAMPAIGN_RELEASED:
        break;
    }
    return leading->result;
}

static hf_status prepare_campaign(struct leading *leading, hf_store *store,
                                  const hf_acquire_request *request, const void *value, size_t len,
                                  hf_error *err)
{
    struct hfi_prim *prim = &leading->task.prim;
    hf_status status = check_campaign(store, request, err);

    if (status == HF_OK)
        status = check_value(value, len, err);
    if (status == HF_OK)
        status = hfi_prim_copy_request(&leading->request, request, err);
    if (status != HF_OK)
        return status;
    hfi_prim_task_init(&leading->task, step_campaign);
    set_speech(leading, true, value, len);
    leading->task.core.cancel = leading->request.cancel;
    prim->handle = store;
    prim->verb = "proclaim";
    return hfi_store_enter(store, &prim->store, err);
}

hf_status hf_election_campaign(hf_store *store, const hf_acquire_request *request,
                               const void *value, size_t len, hf_lease **ret_leader, hf_error *err)
{
    struct leading leading;
    hf_status status;

    if (!ret_leader)
        return hfi_error_set(err, HF_INVALID, 0, "ret_leader: NULL");
    status = prepare_campaign(&leading, store, request, value, len, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&leading.task, err);
    if (status == HF_OK)
        *ret_leader = leading.leader;
    hfi_prim_task_done(&leading.task);
    return status;
}

static void finish_campaign(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->lease = hfi_container(task, struct leading, task)->leader;
}

hf_status hf_election_campaign_async(hf_store *store, const hf_acquire_request *request,
                                     const void *value, size_t len, hf_done_fn *done, void *arg,
                                     hf_op **ret_op, hf_error *err)
{
    struct leading *leading = hfi_prim_call_new(sizeof *leading);
    hf_status status;

    if (!leading)
        return hfi_error_memory(err);
    status = prepare_campaign(leading, store, request, value, len, err);
    if (status == HF_OK)
        status = keep_value(leading, err);
    return hfi_prim_task_begin(&leading->task, status, finish_campaign, done, arg, ret_op, err);
}

/* ---- resigning -------------------------------------------------------------------------------------------- */

enum resign_state { RESIGN_BEGIN, RESIGN_SAID, RESIGN_RELEASED };

/* The lease ends, whether the cell could be written or not. If the lease was lost, the caller
 * learns that rather than the failed write. */
static hf_status step_resign(struct hfi_prim_task *task, hf_status got)
{
    struct leading *leading = hfi_container(task, struct leading, task);

    switch ((enum resign_state)task->state) {
    case RESIGN_BEGIN:
        return hfi_begin_cell(task, RESIGN_SAID, decide_say, leading);
    case RESIGN_SAID:
        leading->result = got;
        hfi_begin_release(task, RESIGN_RELEASED, leading->leader);
        task->quiet = false;
        leading->unsaid = task->error;
        return HFI_BEGUN;
    case RESIGN_RELEASED:
        break;
    }
    task->whole = got != HF_OK;
    if (got == HF_OK)
        task->error = leading->unsaid;
    return got == HF_OK ? leading->result : got;
}

hf_status hf_election_resign(hf_lease *leader, hf_error *err)
{
    struct leading leading;
    hf_error unsaid;
    hf_status said, status;

    hfi_prim_task_init(&leading.task, step_resign);
    set_speech(&leading, false, NULL, 0);
    said = enter_by_lease(&leading, leader, "resign", &unsaid);
    if (said != HF_OK) {
        status = hf_release(leader, err);
        if (status == HF_OK && err)
            *err = unsaid;
        return status == HF_OK ? said : status;
    }
    status = hfi_prim_task_run(&leading.task, err);
    hfi_prim_task_done(&leading.task);
    return status;
}

hf_status hf_election_resign_async(hf_lease *leader, hf_done_fn *done, void *arg, hf_op **ret_op,
                                   hf_error *err)
{
    struct leading *leading = hfi_prim_call_new(sizeof *leading);

    if (!leading)
        return hfi_error_memory(err);
    hfi_prim_task_init(&leading->task, step_resign);
    set_speech(leading, false, NULL, 0);
    return hfi_prim_task_begin(&leading->task, enter_by_lease(leading, leader, "resign", err), NULL,
                               done, arg, ret_op, err);
}

/* ---- observing ---------------------------------------------------------------------------------------- */

struct observing {
    struct hfi_prim_task task;
    bool has_last; /* the caller knows of one: */
    bool leads;
    uint64_t version;
    hf_leader *seen;
};

/* A block of its own: the struct, the value with a NUL behind it, the label. */
static hf_leader *leader_new(const struct record *record, bool leads, uint64_t version)
{
    size_t len = leads ? record->len : 0;
    hf_leader *leader = hfi_malloc(sizeof *leader + len + 1 + sizeof record->label);
    char *text;

    if (!leader)
        return NULL;
    text = (char *)(leader + 1);
    *leader = (hf_leader){ .leads = leads, .version = version, .value = text, .value_len = len };
    leader->label = text + len + 1;
    if (leads)
        leader->token = record->token;
    if (len > 0)
        memcpy(text, record->value, len);
    text[len] = 0;
    memcpy(text + len + 1, leads ? record->label : "", leads ? sizeof record->label : 1);
    return leader;
}

static enum hfi_verdict decide_observe(struct hfi_cell_run *run, void *arg)
{
    struct observing *observing = arg;
    const struct hfi_name *name = &observing->task.prim.name;
    struct record record;

    if (!get(&run->found, &record))
        return hfi_run_mismatch(run);
    if (record.leads && run->answer == HFI_UNASKED)
        return hfi_run_ask(run, name->bytes, name->len, record.token, false);
    run->leases = record.leads && run->answer == HFI_IS_HELD;
    if (observing->has_last && observing->version == run->found.version &&
        observing->leads == run->leases)
        return HFI_WAIT;
    observing->seen = leader_new(&record, run->leases, run->found.version);
    return observing->seen ? HFI_END : hfi_run_memory(run);
}

static hf_status prepare_wait(struct observing *observing, hf_store *store,
                              const hf_election_request *given, hf_error *err)
{
    struct hfi_prim_task *task = &observing->task;
    hf_election_request request;
    int64_t until_ms;
    hf_status status =
        hfi_request_copy(&request, sizeof request, given, offsetof(hf_election_request, last),
                         "HF_ELECTION_REQUEST_INIT", err);

    if (status != HF_OK)
        return status;
    if (!hfi_until(request.wait_ms, &until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    hfi_prim_task_init_run(task, decide_observe, observing);
    observing->seen = NULL;
    observing->has_last = request.last != NULL;
    observing->leads = request.last && request.last->leads;
    observing->version = request.last ? request.last->version : 0;
    task->until_ms = until_ms;
    task->core.cancel = request.cancel;
    task->run.patient = true;
    return hfi_prim_enter(&task->prim, store, "observe", request.name, request.name_len,
                          HF_CAP_CELLS, err);
}

hf_status hf_election_wait(hf_store *store, const hf_election_request *request,
                           hf_leader **ret_leader, hf_error *err)
{
    struct observing observing;
    hf_status status;

    if (!ret_leader)
        return hfi_error_set(err, HF_INVALID, 0, "ret_leader: NULL");
    status = prepare_wait(&observing, store, request, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&observing.task, err);
    if (status == HF_OK)
        *ret_leader = observing.seen;
    hfi_prim_task_done(&observing.task);
    return status;
}

static void finish_wait(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->leader = hfi_container(task, struct observing, task)->seen;
}

hf_status hf_election_wait_async(hf_store *store, const hf_election_request *request,
                                 hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct observing *observing = hfi_prim_call_new(sizeof *observing);

    if (!observing)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&observing->task, prepare_wait(observing, store, request, err),
                               finish_wait, done, arg, ret_op, err);
}
