/* SPDX-License-Identifier: MIT */
/*
 * Leases as text: hf_lease_export() and hf_lease_adopt(). The text is the owner's id and
 * the token, "<32 hex digits>-<hex token>"; the name is not in it.
 */
#include "core/acquire.h"
#include "core/lack.h"
#include "core/local_queue.h"
#include "core/op.h"
#include "core/table.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>

#define OWNER_HEX     (2 * HFI_OWNER_LEN)
#define TOKEN_HEX_MAX 14 /* 2^53 */

_Static_assert(OWNER_HEX + 1 + TOKEN_HEX_MAX + 1 <= HF_LEASE_TEXT_MAX, "it fits");

hf_status hf_lease_export(hf_lease *handle, char ret_text[HF_LEASE_TEXT_MAX])
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status;

    if (!ret_text)
        return HF_INVALID;
    status = hfi_lease_lock(handle, &lease, &next);
    if (status != HF_OK)
        return status;
    if (hfi_lease_lost(lease))
        status = HF_LOST;
    else if (!(lease->claim.flags & HFI_CLAIM_DETACHED) || lease->min_hold_ms > 0)
        status = HF_UNSUPPORTED; /* it ends with this process: adoption is impossible */
    else {
        hfi_hex(lease->claim.owner, HFI_OWNER_LEN, ret_text);
        snprintf(ret_text + OWNER_HEX, HF_LEASE_TEXT_MAX - OWNER_HEX, "-%" PRIx64,
                 lease->claim.token);
        lease->exported = true; /* from now on it outlives hf_close() */
    }
    hfi_lease_unlock(lease, next);
    return status;
}

/* Parse the text of a handle. false: it is not one. */
static bool parse(const char *text, unsigned char owner[HFI_OWNER_LEN], uint64_t *ret_token)
{
    size_t len = text ? strnlen(text, HF_LEASE_TEXT_MAX) : 0;
    uint64_t token = 0;

    if (len < OWNER_HEX + 2 || len > OWNER_HEX + 1 + TOKEN_HEX_MAX || text[OWNER_HEX] != '-' ||
        !hfi_unhex(text, OWNER_HEX, owner, HFI_OWNER_LEN))
        return false;
    for (const char *c = text + OWNER_HEX + 1; *c; c++) {
        if (*c >= '0' && *c <= '9')
            token = token << 4 | (uint64_t)(*c - '0');
        else if (*c >= 'a' && *c <= 'f')
            token = token << 4 | (uint64_t)(*c - 'a' + 10);
        else
            return false;
    }
    *ret_token = token;
    return token < HFI_TOKEN_LIMIT;
}

struct adopt_call {
    struct hfi_task task;
    struct hfi_lease *lease;
    hf_lease *adopted;
};

/* The store has the lease and has given it to us. */
static hf_lease *begin(struct hfi_lease *lease)
{
    hf_lease *handle;

    if (lease->term.ttl_ms == 0)
        lease->term.ttl_ms = lease->claim.granted_ttl_ms;
    if (hfi_acquire_granted(lease, 0, false, &handle) == HF_OK)
        return handle;
    return hfi_lease_begin(lease, lease->claim.sent_ms); /* too late: the next call finds it LOST */
}

/*
 * The op has ended after the task gave it up. If we got the lease, it stays in the table without a
 * known handle, neither renewed nor released: it belongs to the process that has its text.
 */
static void adopt_late(void *memory, struct hfi_op *op)
{
    struct hfi_lease *lease = memory;

    lease->term.renew = false;
    hfi_events_begin(&lease->events, NULL, NULL); /* the caller has been told that it has none */
    if (hfi_op_finished(op) && hfi_op_status(op) == HF_OK)
        (void)begin(lease);
    else
        hfi_acquire_failed(lease, HF_NOT_FOUND);
}

static hf_status adopt_step(struct hfi_task *task, hf_status got)
{
    struct adopt_call *call = hfi_container(task, struct adopt_call, task);
    struct hfi_lease *lease = call->lease;
    struct hfi_op *op;

    if (task->state++ == 0) {
        op = hfi_task_op(task, HFI_OP_ADOPT);
        if (!op) {
            hfi_acquire_failed(lease, HF_NO_MEMORY);
            return hfi_error_memory(&task->error);
        }
        hfi_task_keep(task, lease, adopt_late);
        op->claim = &lease->claim;
        return hfi_task_submit(task, HFI_NEVER, 0);
    }
    if (task->child.given_up)
        return hfi_store_error(task->store, "adopt", NULL, HF_UNKNOWN, NULL, &task->error);
    (void)hfi_task_take(task);
    if (got == HF_OK) {
        call->adopted = begin(lease);
        return hfi_ok(&task->error);
    }
    hfi_store_error(task->store, "adopt", &lease->claim.name, got, &task->child.error,
                    &task->error);
    hfi_acquire_failed(lease, HF_NOT_FOUND);
    return got;
}

static void adopt_finish(struct hfi_task *task, hf_result *result)
{
    result->lease = hfi_container(task, struct adopt_call, task)->adopted;
}

/* Take a slot, put it into the table, and reserve its timer. */
static hf_status take_slot(struct adopt_call *call, hf_store *handle,
                           const struct hfi_checked_request *checked, const hf_adopt_request *given,
                           bool in_loop, hf_error *err)
{
    struct hfi_store *store = call->task.store;
    struct hfi_lease *lease;
    unsigned char owner[HFI_OWNER_LEN];
    unsigned threads = HFI_STARTED_KEEPER;
    uint64_t token;
    hf_lease *again;

    if (!parse(given->text, owner, &token))
        return hfi_error_set(err, HF_INVALID, 0, "text: not the handle of a lease");
    if (given->on_event && !in_loop)
        threads |= HFI_STARTED_NOTIFY;
    if (!hfi_store_start(store, threads))
        return hfi_error_memory(err);
    lease = hfi_lease_new(store, checked);
    if (!lease)
        return hfi_error_memory(err);

    memcpy(lease->claim.owner, owner, sizeof owner);
    lease->claim.token = token;
    lease->claim.tokens = 1;
    lease->term.renew = given->renew;
    lease->in_loop = in_loop;
    lease->exported = true; /* another process may have its text */
    if (hfi_local_queue_enter(handle, lease, NULL, false, 0, &again) != HFI_ENTRY_GO) {
        hfi_lease_free(lease);
        return hfi_error_set(err, HF_INVALID, 0, "store: it was closed");
    }
    if (!hfi_keeper_reserve(store)) {
        hfi_acquire_failed(lease, HF_NO_MEMORY);
        return hfi_error_memory(err);
    }
    hfi_lease_timed(lease);
    call->lease = lease;
    return HF_OK;
}

static hf_status check_adopt(const struct hfi_promises *promises, const hf_adopt_request *request,
                             struct hfi_checked_request *checked, hf_error *err)
{
    hf_status status = hfi_name_check(request->name, request->name_len, &checked->name_len, err);

    if (status != HF_OK)
        return status;
    if (!(promises->caps & HF_CAP_DETACHED))
        return hfi_unsupported(promises, HF_CAP_DETACHED, NULL, err);
    checked->name = request->name;
    checked->ttl_ms = request->ttl_ms;
    return request->ttl_ms != 0 ? hfi_ttl_check(promises, "ttl_ms", request->ttl_ms, err) : HF_OK;
}

/* HF_OK: the store is entered. */
static hf_status adopt_init(struct adopt_call *call, hf_store *handle,
                            const hf_adopt_request *given, bool in_loop, hf_error *err)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    struct hfi_checked_request checked = {
        .request = &request, .mode = HFI_MODE_MUTEX, .capacity = 1, .permits = 1
    };
    hf_adopt_request whole;
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, adopt_step);
    call->task.finish = adopt_finish;
    call->task.free = hfi_task_free_entered;
    call->adopted = NULL;
    request.flags = HF_FLAG_DETACHED;
    status = hfi_request_copy(&whole, sizeof whole, given, offsetof(hf_adopt_request, ttl_ms),
                              "HF_ADOPT_REQUEST_INIT", err);
    if (status == HF_OK)
        status = check_adopt(hfi_store_promises(store), &whole, &checked, err);
    if (status == HF_OK) {
        request.on_event = whole.on_event;
        request.on_event_arg = whole.on_event_arg;
        status = take_slot(call, handle, &checked, &whole, in_loop, err);
    }
    if (status != HF_OK)
        hfi_store_leave(store);
    return status;
}

hf_status hf_lease_adopt(hf_store *store, const hf_adopt_request *request, hf_lease **ret_lease,
                         hf_error *err)
{
    struct adopt_call call;
    hf_status status = ret_lease ? adopt_init(&call, store, request, false, err)
                                 : hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");

    if (status != HF_OK)
        return status;
    status = hfi_task_run_entered(&call.task, err);
    if (status == HF_OK)
        *ret_lease = call.adopted;
    return status;
}

hf_status hf_lease_adopt_async(hf_store *store, const hf_adopt_request *request, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    struct adopt_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = adopt_init(call, store, request, true, err);
    if (status == HF_OK) {
        status = hfi_task_begin(&call->task, done, arg, ret_op, err);
        if (status == HF_OK)
            return HF_OK;
        hfi_acquire_failed(call->lease, HF_NOT_FOUND);
        hfi_store_leave(call->task.store);
    }
    hfi_free(call);
    return status;
}
