/* SPDX-License-Identifier: MIT */
/*
 * Members of a group: hf_member_join(), hf_member_leave(), hf_members_wait(), and their asynchronous forms.
 *
 * A group is a read-write lock, and a member is one of its readers: a shared lease of the group's name, whose label is the
 * member's value. So a member is one for exactly as long as its lease is in the store: release, expiry, loss and break end both.
 * The list is what the store shows of the name, in one look.
 *
 * The store does not tell of leases that come and go. The cell of the same name does: "M", written again by each member after it
 * has joined, and after it has left. Its version wakes those that wait. A member that died writes nothing: so they look once a
 * second too, as observers of an election do. A write that fails costs that second, and nothing else.
 */
#include "prim/members.h"
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/lease_cell.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stddef.h>
#include <string.h>

#define LOOK_AGAIN_MS 1000
#define NEEDED        (HF_CAP_SHARED | HF_CAP_INSPECT | HF_CAP_TOKEN)

/* ---- telling ------------------------------------------------------------------------------------------- */

struct membership {
    struct hfi_prim_task task;
    struct hfi_lease_cell lease_cell; /* leave: the name */
    hf_acquire_request request;       /* join: in full size */
    hf_lease *lease;
    bool said;        /* the cell was written, by us or by another member after we came or went */
    hf_status result; /* leave: of the release ... */
    hf_error why;     /* ... and its text */
};

/* Whoever was faster has written after us, for our lease came, or went, before we read: that will do. */
static enum hfi_verdict decide_tell(struct hfi_cell_run *run, void *arg)
{
    struct membership *membership = arg;

    if (run->wrote || membership->said)
        return HFI_END;
    if (run->found.version != 0 && (run->found.len != 1 || run->found.bytes[0] != 'M'))
        return hfi_run_mismatch(run);
    membership->said = true;
    return hfi_put_bytes(hfi_run_buffer(run), "M", 1) ? hfi_run_write(run, 0) : hfi_run_memory(run);
}

/* ---- joining ------------------------------------------------------------------------------------------- */

enum { JOIN_BEGIN, JOIN_ACQUIRED, JOIN_TOLD };

static hf_status step_join(struct hfi_prim_task *task, hf_status got)
{
    struct membership *membership = hfi_container(task, struct membership, task);

    switch (task->state) {
    case JOIN_BEGIN:
        return hfi_begin_acquire(task, JOIN_ACQUIRED, &membership->request);
    case JOIN_ACQUIRED:
        task->whole = true;
        if (got != HF_OK)
            return got;
        membership->lease = task->action.lease;
        if (hfi_prim_caps(&task->prim) & HF_CAP_CELLS)
            return hfi_begin_cell(task, JOIN_TOLD, decide_tell, membership);
        return HF_OK;
    default:
        return HF_OK; /* we are a member, told or not */
    }
}

/* A label is cut where it is too long, and has no tag: a value must come back as it was given. */
static hf_status check_value(const char *value, hf_error *err)
{
    if (value && strlen(value) > HF_LABEL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "value: more than %d bytes", HF_LABEL_MAX);
    for (const char *at = value; at && *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return hfi_error_set(err, HF_INVALID, 0, "value: a control character");
    return HF_OK;
}

static hf_status prepare_join(struct membership *membership, hf_store *store,
                              const hf_acquire_request *given, const char *value, hf_error *err)
{
    hf_acquire_request *request = &membership->request;
    hf_status status = check_value(value, err);

    if (status == HF_OK && !given)
        status = hfi_error_set(err, HF_INVALID, 0, "request: NULL");
    if (status == HF_OK)
        status = hfi_prim_copy_request(request, given, err);
    if (status != HF_OK)
        return status;
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_SHARED)
        return hfi_error_set(err, HF_INVALID, 0, "kind: a member is a reader of its group");
    request->kind = HF_KIND_SHARED;
    request->label = value;
    request->flags |= HF_FLAG_NO_DEADLOCK_CHECK; /* it is no lock, and its label stays whole */
    hfi_prim_task_init(&membership->task, step_join);
    membership->said = false;
    membership->task.core.cancel = request->cancel;
    return hfi_prim_enter(&membership->task.prim, store, "join", request->name, request->name_len,
                          NEEDED, err);
}

hf_status hf_member_join(hf_store *store, const hf_acquire_request *request, const char *value,
                         hf_lease **ret_member, hf_error *err)
{
    struct membership membership;
    hf_status status;

    if (!ret_member)
        return hfi_error_set(err, HF_INVALID, 0, "ret_member: NULL");
    status = prepare_join(&membership, store, request, value, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&membership.task, err);
    if (status == HF_OK)
        *ret_member = membership.lease;
    hfi_prim_task_done(&membership.task);
    return status;
}

static void finish_join(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->lease = hfi_container(task, struct membership, task)->lease;
}

hf_status hf_member_join_async(hf_store *store, const hf_acquire_request *request,
                               const char *value, hf_done_fn *done, void *arg, hf_op **ret_op,
                               hf_error *err)
{
    struct membership *membership = hfi_prim_call_new(sizeof *membership);
    hf_status status;

    if (!membership)
        return hfi_error_memory(err);
    status = prepare_join(membership, store, request, value, err);
    if (status == HF_OK && !hfi_prim_keep_request(&membership->task, &membership->request)) {
        hfi_prim_leave(&membership->task.prim);
        status = hfi_error_memory(err);
    }
    return hfi_prim_task_begin(&membership->task, status, finish_join, done, arg, ret_op, err);
}

/* ---- leaving ------------------------------------------------------------------------------------------- */

enum { LEAVE_BEGIN, LEAVE_RELEASED, LEAVE_TOLD };

static hf_status step_leave(struct hfi_prim_task *task, hf_status got)
{
    struct membership *membership = hfi_container(task, struct membership, task);

    switch (task->state) {
    case LEAVE_BEGIN:
        hfi_begin_release(task, LEAVE_RELEASED, membership->lease);
        task->quiet = false;
        return HFI_BEGUN;
    case LEAVE_RELEASED:
        membership->result = got;
        membership->why = task->error;
        if (hfi_prim_caps(&task->prim) & HF_CAP_CELLS)
            return hfi_begin_cell(task, LEAVE_TOLD, decide_tell, membership);
        break;
    default:
        break;
    }
    task->whole = true;
    task->error = membership->why;
    return membership->result;
}

static hf_status prepare_leave(struct membership *membership, hf_lease *member, hf_error *err)
{
    hfi_prim_task_init(&membership->task, step_leave);
    membership->said = false;
    membership->lease = member;
    return hfi_lease_cell_enter_shared(&membership->lease_cell, &membership->task.prim, member,
                                       "leave", err);
}

hf_status hf_member_leave(hf_lease *member, hf_error *err)
{
    struct membership membership;
    hf_status status = prepare_leave(&membership, member, err);

    if (status == HF_LOST) /* its store was closed */
        return hf_release(member, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&membership.task, err);
    hfi_prim_task_done(&membership.task);
    return status;
}

hf_status hf_member_leave_async(hf_lease *member, hf_done_fn *done, void *arg, hf_op **ret_op,
                                hf_error *err)
{
    struct membership *membership = hfi_prim_call_new(sizeof *membership);

    if (!membership)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&membership->task, prepare_leave(membership, member, err), NULL,
                               done, arg, ret_op, err);
}

/* ---- watching ------------------------------------------------------------------------------------------- */

struct watching {
    struct hfi_prim_task task;
    bool has_last;
    uint64_t last; /* hfi_members_digest() of what the caller has seen */
    hf_members *seen;
};

enum { WATCH_BEGIN, WATCH_READ, WATCH_LOOKED, WATCH_WAITED, WATCH_RESTED };

static hf_status look(struct watching *watching)
{
    struct hfi_prim_task *task = &watching->task;

    task->action.sink = NULL;
    task->action.look = hfi_members_sink_new();
    if (!task->action.look)
        return hfi_error_memory(&task->error);
    task->action.forget_look = hfi_members_sink_forget;
    task->action.name.bytes = task->prim.name.bytes;
    task->action.name.len = task->prim.name.len;
    return hfi_begin_act(task, WATCH_LOOKED, HFI_ACT_LOOK);
}

/* Until the cell changes; or for a second where there is none, or it tells of nothing. */
static hf_status wait_on(struct watching *watching)
{
    struct hfi_prim_task *task = &watching->task;
    int64_t now_ms = hfi_now_ms(), again_ms = now_ms + LOOK_AGAIN_MS;
    bool told = hfi_prim_caps(&task->prim) & HF_CAP_CELL_WATCH;

    if (task->until_ms <= now_ms)
        return hfi_error_set(&task->error, HF_TIMEOUT, 0, "nobody has joined or left");
    task->action.until_ms = task->until_ms < again_ms ? task->until_ms : again_ms;
    return hfi_begin_act(task, WATCH_WAITED, told ? HFI_ACT_WAIT : HFI_ACT_PAUSE);
}

static hf_status looked(struct watching *watching, hf_status got)
{
    struct hfi_prim_task *task = &watching->task;
    hf_members *members;

    if (got != HF_OK)
        return got;
    members = hfi_members_new(task->action.look);
    hfi_members_sink_forget(task->action.look, NULL);
    task->action.look = NULL;
    if (!members)
        return hfi_error_memory(&task->error);
    if (watching->has_last && hfi_members_digest(members) == watching->last) {
        hfi_free(members);
        return wait_on(watching);
    }
    watching->seen = members;
    return HF_OK;
}

static hf_status step_watch(struct hfi_prim_task *task, hf_status got)
{
    struct watching *watching = hfi_container(task, struct watching, task);

    switch (task->state) {
    case WATCH_BEGIN: /* the version first: what happens during the look then wakes us */
        if (watching->has_last && hfi_prim_caps(&task->prim) & HF_CAP_CELL_WATCH)
            return hfi_begin_act(task, WATCH_READ, HFI_ACT_READ);
        return look(watching);
    case WATCH_READ:
        if (got != HF_OK)
            return got;
        task->action.version = task->action.cell.version;
        hfi_cell_forget(&task->action.cell);
        return look(watching);
    case WATCH_LOOKED:
        return looked(watching, got);
    case WATCH_WAITED:
        if (got ==
            HF_UNAVAILABLE) { /* the line on which changes are told is down: look now and then */
            task->action.until_ms = hfi_now_ms() + LOOK_AGAIN_MS;
            return hfi_begin_act(task, WATCH_RESTED, HFI_ACT_PAUSE);
        }
        break;
    default:
        break;
    }
    if (got != HF_OK && got != HF_TIMEOUT && got != HF_UNAVAILABLE)
        return got;
    return look(watching);
}

static hf_status prepare_watch(struct watching *watching, hf_store *store,
                               const hf_members_request *given, hf_error *err)
{
    struct hfi_prim_task *task = &watching->task;
    hf_members_request request;
    int64_t until_ms;
    hf_status status =
        hfi_request_copy(&request, sizeof request, given, offsetof(hf_members_request, last),
                         "HF_MEMBERS_REQUEST_INIT", err);

    if (status != HF_OK)
        return status;
    if (!hfi_until(request.wait_ms, &until_ms))
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative and not HF_FOREVER");
    hfi_prim_task_init(task, step_watch);
    watching->seen = NULL;
    watching->has_last = request.last != NULL;
    watching->last = request.last ? hfi_members_digest(request.last) : 0;
    task->until_ms = until_ms;
    task->core.cancel = request.cancel;
    return hfi_prim_enter(&task->prim, store, "list members", request.name, request.name_len,
                          NEEDED, err);
}

hf_status hf_members_wait(hf_store *store, const hf_members_request *request,
                          hf_members **ret_members, hf_error *err)
{
    struct watching watching;
    hf_status status;

    if (!ret_members)
        return hfi_error_set(err, HF_INVALID, 0, "ret_members: NULL");
    status = prepare_watch(&watching, store, request, err);
    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&watching.task, err);
    if (status == HF_OK)
        *ret_members = watching.seen;
    hfi_prim_task_done(&watching.task);
    return status;
}

static void finish_watch(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->members = hfi_container(task, struct watching, task)->seen;
}

hf_status hf_members_wait_async(hf_store *store, const hf_members_request *request,
                                hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct watching *watching = hfi_prim_call_new(sizeof *watching);

    if (!watching)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&watching->task, prepare_watch(watching, store, request, err),
                               finish_watch, done, arg, ret_op, err);
}
