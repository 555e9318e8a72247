/* SPDX-License-Identifier: MIT */
/*
 * hf_lease_fence(), hf_guard_claim(), hf_guard_set(): a resource that checks tokens, made of a cell
 * of any engine that has cells.
 *
 * The cell's bytes are "G1", the highest token as 16 digits, and the value; "G0" before the first
 * write. Both calls read, refuse a token below the highest, and swap at the version that was read.
 * A swap that succeeds proves that nobody wrote in between, so reading, comparing and writing are
 * one step for everybody else. If the version has moved, the call begins again: the token may be
 * too low by now, or still the highest.
 *
 * A swap whose outcome is unknown is not sent again by itself. If it arrives late and finds the
 * version that it expects, it does what the caller asked for; if it finds another version, it does
 * nothing.
 */
#include "core/local_queue.h"
#include "holdfast/primitives.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

#define HEAD_LEN (2 + HFI_DIGITS) /* "G1" and the token */

/* ---- the token of a lease -------------------------------------------------------------------- */

hf_status hf_lease_fence(hf_lease *handle, uint64_t *ret_token, hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status;

    if (!ret_token)
        return hfi_error_set(err, HF_INVALID, 0, "ret_token: NULL");
    status = hfi_lease_lock(handle, &lease, &next);
    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (lease->token == 0)
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine gives no fencing tokens");
    else if (hfi_lease_overlaps(lease))
        status = hfi_error_set(err, HF_UNSUPPORTED, 0,
                               "the token of a shared lease is an id and not a fence: others hold "
                               "the name at the same time");
    else if (hfi_lease_lost(lease))
        status = hfi_error_set(err, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    else
        *ret_token = lease->token;
    hfi_lease_unlock(lease, next);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* ---- the record --------------------------------------------------------------------------------- */

struct guard_call {
    struct hfi_prim_task task;
    uint64_t token;
    bool writes;
    const void *bytes; /* what it writes */
    size_t len;
};

/* The contents of the cell. `bytes` point into it. */
struct record {
    uint64_t highest; /* 0: there is no cell */
    bool written;
    const unsigned char *bytes;
    size_t len;
};

static bool get(const struct hfi_cell *found, struct record *ret_record)
{
    struct hfi_reader from = { found->bytes, found->len };
    const unsigned char *head;

    *ret_record = (struct record){ .highest = 0 };
    if (found->version == 0)
        return true;
    if (!hfi_get_bytes(&from, 2, &head) || head[0] != 'G' || (head[1] != '0' && head[1] != '1') ||
        !hfi_get_number(&from, &ret_record->highest) || (head[1] == '0' && from.left > 0))
        return false;
    ret_record->written = head[1] == '1';
    ret_record->bytes = from.at;
    ret_record->len = from.left;
    return true;
}

static enum hfi_verdict put(struct hfi_cell_run *run, const struct guard_call *call, bool written,
                            const void *bytes, size_t len)
{
    struct hfi_buffer *to = hfi_run_buffer(run);

    if (!hfi_put_bytes(to, written ? "G1" : "G0", 2) || !hfi_put_number(to, call->token) ||
        !hfi_put_bytes(to, bytes, len))
        return hfi_run_memory(run);
    return hfi_run_write(run, 0);
}

static enum hfi_verdict decide_guard(struct hfi_cell_run *run, void *arg)
{
    struct guard_call *call = arg;
    struct record record;

    if (run->wrote)
        return HFI_END;
    if (!get(&run->found, &record))
        return hfi_run_fail(run, HF_MISMATCH, "%s", hf_status_text(HF_MISMATCH));
    if (record.highest > call->token)
        return hfi_run_fail(run, HF_FENCED,
                            "token %" PRIu64 " is refused: %" PRIu64 " has been used", call->token,
                            record.highest);
    if (call->writes)
        return put(run, call, true, call->bytes, call->len);
    if (record.highest == call->token)
        return HFI_END; /* claimed by us already: no lower token could write when we read */
    return put(run, call, record.written, record.bytes, record.len);
}

/* ---- the calls ------------------------------------------------------------------------------------ */

static hf_status enter(struct guard_call *call, hf_store *at, const char *verb, const void *name,
                       size_t name_len, hf_error *err)
{
    struct hfi_prim_task *task = &call->task;
    hf_status status;

    hfi_prim_task_init_run(task, decide_guard, call);
    status = hfi_prim_enter(&task->prim, at, verb, name, name_len, HF_CAP_CELLS, err);
    if (status == HF_OK && (call->token == 0 || call->token >= HFI_TOKEN_LIMIT)) {
        hfi_prim_leave(&task->prim);
        status = hfi_error_set(err, HF_INVALID, 0, "token: must be from 1 to 2^53 - 1");
    }
    return status;
}

/* The value, with a NUL behind it: it moves over the head, and the caller owns its memory. */
static void take_out(struct hfi_cell_run *run, void **ret_bytes, size_t *ret_len)
{
    struct record record;
    unsigned char *bytes = NULL;

    (void)get(&run->found, &record);
    if (!record.written)
        record.len = 0;
    if (record.written && ret_bytes) {
        bytes = run->owned;
        run->owned = NULL;
        memmove(bytes, record.bytes, record.len);
        bytes[record.len] = 0;
    }
    if (ret_bytes)
        *ret_bytes = bytes;
    if (ret_len)
        *ret_len = record.len;
}

hf_status hf_guard_claim(hf_store *at, const void *name, size_t name_len, uint64_t token,
                         void **ret_bytes, size_t *ret_len, hf_error *err)
{
    struct guard_call call = { .token = token };
    hf_status status = enter(&call, at, "claim", name, name_len, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK)
        take_out(&call.task.run, ret_bytes, ret_len);
    hfi_prim_task_done(&call.task);
    return status;
}

static void finish_claim(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        take_out(&task->run, &result->bytes, &result->len);
}

hf_status hf_guard_claim_async(hf_store *at, const void *name, size_t name_len, uint64_t token,
                               hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct guard_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    call->token = token;
    return hfi_prim_task_begin(&call->task, enter(call, at, "claim", name, name_len, err),
                               finish_claim, done, arg, ret_op, err);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static hf_status prepare_set(struct guard_call *call, hf_store *at, const void *name,
                             size_t name_len, hf_error *err)
{
    hf_status status = enter(call, at, "guarded write", name, name_len, err);

    if (status != HF_OK)
        return status;
    if (call->len > HF_GUARD_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_GUARD_MAX);
    else if (call->len > 0 && !call->bytes)
        status = hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    if (status != HF_OK)
        hfi_prim_leave(&call->task.prim);
    return status;
}

hf_status hf_guard_set_async(hf_store *at, const void *name, size_t name_len, uint64_t token,
                             const void *bytes, size_t len, hf_done_fn *done, void *arg,
                             hf_op **ret_op, hf_error *err)
{
    struct guard_call *call = hfi_prim_call_new(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    call->token = token;
    call->writes = true;
    call->bytes = bytes;
    call->len = len;
    status = prepare_set(call, at, name, name_len, err);
    if (status == HF_OK && !(call->bytes = hfi_prim_keep(&call->task, bytes, len))) {
        hfi_prim_leave(&call->task.prim);
        status = hfi_error_memory(err);
    }
    return hfi_prim_task_begin(&call->task, status, NULL, done, arg, ret_op, err);
}

hf_status hf_guard_set(hf_store *at, const void *name, size_t name_len, uint64_t token,
                       const void *bytes, size_t len, hf_error *err)
{
    struct guard_call call = { .token = token, .writes = true, .bytes = bytes, .len = len };
    hf_status status = prepare_set(&call, at, name, name_len, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    hfi_prim_task_done(&call.task);
    return status;
}
