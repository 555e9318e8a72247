/* SPDX-License-Identifier: MIT */
/*
 * hf_cell_*(): versioned cells for everybody, on the calling thread.
 *
 * The bytes in the store begin with "C1", so that a cell of the caller's and one of another
 * primitive (a guarded thing is "G...") are never taken for each other. That is looked at whenever
 * one is read. hf_cell_swap() and hf_cell_delete() need not look: a version that was told of a cell of
 * the caller's is never that of another kind.
 *
 * A swap whose outcome is unknown is never sent again from here: if it arrives late it finds the
 * version that it expects, and is what was asked for, or another one, and does nothing.
 */
#include "core/request.h"
#include "core/thread.h"
#include "core/wait.h"
#include "holdfast/primitives.h"
#include "prim/cell_op.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <inttypes.h>
#include <string.h>

#define HEAD          "C1"
#define HEAD_LEN      2
#define PAUSE_LAST_MS 64 /* between two tries to be quicker than others, at most */

/* One call. */
struct call {
    struct hfi_prim prim;
    struct hfi_cell found; /* as it was read last */
    int64_t until_ms;
    hf_cancel *cancel;
    int64_t pause_ms;
};

static hf_status enter(struct call *call, hf_store *store, const char *verb, const void *name,
                       size_t name_len, hf_error *err)
{
    *call = (struct call){ .until_ms = HFI_NEVER };
    return hfi_prim_enter(&call->prim, store, verb, name, name_len, HF_CAP_CELLS, err);
}

/* The same for the calls that take a request. */
static hf_status enter_request(struct call *call, hf_store *store, const char *verb,
                               const hf_cell_request *given, hf_cell_request *whole, hf_error *err)
{
    hf_status status = hfi_request_copy(
        whole, sizeof *whole, given, offsetof(hf_cell_request, bytes), "HF_CELL_REQUEST_INIT", err);

    return status == HF_OK ? enter(call, store, verb, whole->name, whole->name_len, err) : status;
}

static hf_status leave(struct call *call, hf_status status, hf_error *err)
{
    hfi_cell_forget(&call->found);
    hfi_prim_leave(&call->prim);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* ---- what callers give us ----------------------------------------------------------------------- */

/* Every refusal names the field. */
static hf_status check_bytes(struct call *call, const void *bytes, size_t len, int64_t ttl_ms,
                             hf_error *err)
{
    if (!bytes && len > 0)
        return hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    if (len > HF_CELL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_CELL_MAX);
    if (ttl_ms == 0)
        return HF_OK;
    if (ttl_ms < HF_TTL_MIN_MS || ttl_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0,
                             "ttl_ms: less than a second, or more than ten years");
    if (!(hfi_store_engine(call->prim.store)->info.caps & HF_CAP_CELL_TTL))
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "ttl_ms: cells of this engine have no ttl");
    return HF_OK;
}

static hf_status check_wait(struct call *call, int64_t wait_ms, hf_cancel *cancel, hf_error *err)
{
    hf_status status = cancel ? hfi_cancel_look(cancel) : HF_OK;

    if (wait_ms < HF_FOREVER || wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative, or more than ten years");
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    if (status != HF_OK)
        return hfi_prim_error(&call->prim, status, NULL, err);
    call->until_ms = wait_ms == HF_FOREVER ? HFI_NEVER : hfi_now_ms() + wait_ms;
    call->cancel = cancel;
    return HF_OK;
}

/* ---- steps -------------------------------------------------------------------------------------- */

/* What is there now? HF_OK also if nothing is. */
static hf_status look(struct call *call, hf_error *err)
{
    hf_error inner;
    hf_status status;

    hfi_cell_forget(&call->found);
    status = hfi_cell_read(&call->prim, &call->found, &inner);
    if (status != HF_OK)
        return hfi_prim_error(&call->prim, status, &inner, err);
    if (call->found.version == 0 ||
        (call->found.len >= HEAD_LEN && memcmp(call->found.bytes, HEAD, HEAD_LEN) == 0))
        return HF_OK;
    hfi_error_set(&inner, HF_MISMATCH, 0, "that name's cell is something else");
    return hfi_prim_error(&call->prim, HF_MISMATCH, &inner, err);
}

/* HF_BUSY: it has another version; err is not filled in then. */
static hf_status write_at(struct call *call, uint64_t version, const void *bytes, size_t len,
                          int64_t ttl_ms, uint64_t *ret_version, hf_error *err)
{
    char *whole = hfi_malloc(HEAD_LEN + len);
    hf_error inner;
    hf_status status;

    if (!whole)
        return hfi_error_memory(err);
    memcpy(whole, HEAD, HEAD_LEN);
    if (len > 0)
        memcpy(whole + HEAD_LEN, bytes, len);
    status =
        hfi_cell_swap(&call->prim, version, whole, HEAD_LEN + len, ttl_ms, ret_version, &inner);
    hfi_free(whole);
    return status == HF_OK || status == HF_BUSY ? status
                                                : hfi_prim_error(&call->prim, status, &inner, err);
}

static hf_status delete_at(struct call *call, uint64_t version, hf_error *err)
{
    hf_error inner;
    hf_status status = hfi_cell_swap(&call->prim, version, NULL, 0, 0, NULL, &inner);

    return status == HF_OK || status == HF_BUSY ? status
                                                : hfi_prim_error(&call->prim, status, &inner, err);
}

static hf_status changed(struct call *call, uint64_t version, hf_error *err)
{
    hf_error inner;

    if (version)
        hfi_error_set(&inner, HF_CHANGED, 0, "its version is not %" PRIu64 " any more", version);
    else
        hfi_error_set(&inner, HF_CHANGED, 0, "there is one already");
    return hfi_prim_error(&call->prim, HF_CHANGED, &inner, err);
}

/* Somebody else was quicker. HF_OK: try again; it was not the last time, and a random while has passed. */
static hf_status give_way(struct call *call, hf_status late, hf_error *err)
{
    hf_error inner;
    hf_status status;
    int64_t now_ms = hfi_now_ms(), wake_ms;

    if (now_ms >= call->until_ms) {
        hfi_error_set(&inner, late, 0, "others changed it all the time");
        return hfi_prim_error(&call->prim, late, &inner, err);
    }
    wake_ms = now_ms + (int64_t)(hfi_random_u64() % (uint64_t)(call->pause_ms + 1));
    call->pause_ms = call->pause_ms ? call->pause_ms * 2 : 1; /* the first time: none */
    if (call->pause_ms > PAUSE_LAST_MS)
        call->pause_ms = PAUSE_LAST_MS;
    if (wake_ms > call->until_ms)
        wake_ms = call->until_ms;
    status = hfi_prim_pause(&call->prim, wake_ms, call->cancel, &inner);
    return status == HF_OK ? HF_OK : hfi_prim_error(&call->prim, status, &inner, err);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* What was read, as callers see it: the bytes move to where the head was, which leaves room for a NUL. */
static hf_cell show(struct call *call)
{
    struct hfi_cell *found = &call->found;
    hf_cell cell = { .size = sizeof cell, .ttl_ms = -1 };

    if (found->version == 0)
        return cell;
    cell.bytes = found->bytes;
    cell.len = found->len - HEAD_LEN;
    cell.version = found->version;
    cell.ttl_ms = found->ttl_ms;
    memmove(found->bytes, found->bytes + HEAD_LEN, cell.len);
    found->bytes[cell.len] = 0;
    return cell;
}

hf_status hf_cell_get(hf_store *store, const void *name, size_t name_len, hf_cell *ret_cell,
                      hf_error *err)
{
    size_t size = ret_cell ? ret_cell->size : 0;
    hf_error inner;
    struct call call;
    hf_cell cell;
    hf_status status = enter(&call, store, "read cell", name, name_len, err);

    if (status != HF_OK)
        return status;
    if (size < offsetof(hf_cell, ttl_ms) || size > HFI_STRUCT_MAX) {
        status = hfi_error_set(err, HF_INVALID, 0,
                               ret_cell ? "size: not that of an hf_cell; use HF_CELL_INIT"
                                        : "ret_cell: NULL");
        return leave(&call, status, err);
    }
    status = look(&call, err);
    if (status == HF_OK && call.found.version == 0) {
        hfi_error_set(&inner, HF_NOT_FOUND, 0, "there is none");
        status = hfi_prim_error(&call.prim, HF_NOT_FOUND, &inner, err);
    }
    if (status == HF_OK) {
        cell = show(&call);
        call.found.bytes = NULL; /* it is the caller's now */
        cell.size = size;
        memset(ret_cell, 0, size);
        memcpy(ret_cell, &cell, size < sizeof cell ? size : sizeof cell);
    }
    return leave(&call, status, err);
}

/* ---- writing ------------------------------------------------------------------------------------ */

hf_status hf_cell_set(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                      hf_error *err)
{
    hf_cell_request set;
    struct call call;
    hf_status status = enter_request(&call, store, "write cell", request, &set, err);

    if (status != HF_OK)
        return status;
    call.until_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    status = check_bytes(&call, set.bytes, set.len, set.ttl_ms, err);
    while (status == HF_OK) {
        status = look(&call, err);
        if (status == HF_OK)
            status = write_at(&call, call.found.version, set.bytes, set.len, set.ttl_ms,
                              ret_version, err);
        if (status != HF_BUSY)
            break;
        status = give_way(&call, HF_BUSY, err);
    }
    return leave(&call, status, err);
}

hf_status hf_cell_swap(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                       hf_error *err)
{
    hf_cell_request swap;
    struct call call;
    hf_status status = enter_request(&call, store, "swap cell", request, &swap, err);

    if (status != HF_OK)
        return status;
    status = check_bytes(&call, swap.bytes, swap.len, swap.ttl_ms, err);
    if (status == HF_OK)
        status = write_at(&call, swap.version, swap.bytes, swap.len, swap.ttl_ms, ret_version, err);
    if (status == HF_BUSY)
        status = changed(&call, swap.version, err);
    return leave(&call, status, err);
}

hf_status hf_cell_delete(hf_store *store, const void *name, size_t name_len, uint64_t version,
                         hf_error *err)
{
    struct call call;
    hf_status status = enter(&call, store, "delete cell", name, name_len, err);

    if (status != HF_OK)
        return status;
    if (version == 0)
        status = hfi_error_set(err, HF_INVALID, 0, "version: 0 is that of no cell");
    else
        status = delete_at(&call, version, err);
    if (status == HF_BUSY)
        status = changed(&call, version, err);
    return leave(&call, status, err);
}

/* ---- updating ----------------------------------------------------------------------------------- */

static hf_status ask(struct call *call, hf_cell_fn *fn, void *arg, hf_cell_change *ret_change,
                     hf_error *err)
{
    const struct hfi_store *outer = hfi_self.calling;
    hf_cell old = show(call);
    hf_error inner;
    hf_status status;

    *ret_change = (hf_cell_change){ .size = sizeof *ret_change };
    hfi_self.calling = call->prim.store;
    status = fn(&old, ret_change, arg);
    hfi_self.calling = outer;
    if (status == HF_OK)
        return HF_OK;
    hfi_error_set(&inner, status, 0, "the callback refused: %s", hf_status_text(status));
    return hfi_prim_error(&call->prim, status, &inner, err);
}

/* Do what the callback wants with what it has seen. HF_BUSY: somebody was quicker. */
static hf_status carry_out(struct call *call, const hf_cell_change *change, uint64_t *ret_version,
                           hf_error *err)
{
    hf_status status;

    *ret_version = call->found.version;
    switch (change->action) {
    case HF_CELL_ACTION_LEAVE:
        return HF_OK;
    case HF_CELL_ACTION_WRITE:
        status = check_bytes(call, change->bytes, change->len, change->ttl_ms, err);
        if (status != HF_OK)
            return status;
        return write_at(call, call->found.version, change->bytes, change->len, change->ttl_ms,
                        ret_version, err);
    case HF_CELL_ACTION_DELETE:
        if (call->found.version == 0)
            return HF_OK;
        *ret_version = 0;
        return delete_at(call, call->found.version, err);
    }
    return hfi_error_set(err, HF_INVALID, 0, "action: not an hf_cell_action");
}

hf_status hf_cell_update(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                         hf_error *err)
{
    hf_cell_request update;
    hf_cell_change change;
    struct call call;
    uint64_t version;
    hf_status status = enter_request(&call, store, "update cell", request, &update, err);

    if (status != HF_OK)
        return status;
    status = update.fn ? check_wait(&call, update.wait_ms, update.cancel, err)
                       : hfi_error_set(err, HF_INVALID, 0, "fn: NULL");
    while (status == HF_OK) {
        status = look(&call, err);
        if (status == HF_OK)
            status = ask(&call, update.fn, update.fn_arg, &change, err);
        if (status != HF_OK)
            break;
        status = carry_out(&call, &change, &version, err);
        if (status != HF_BUSY)
            break;
        status = give_way(&call, update.wait_ms == 0 ? HF_BUSY : HF_TIMEOUT, err);
    }
    if (status == HF_OK && ret_version)
        *ret_version = version;
    return leave(&call, status, err);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

hf_status hf_cell_wait(hf_store *store, const hf_cell_request *request, uint64_t *ret_version,
                       hf_error *err)
{
    hf_cell_request wait;
    struct call call;
    hf_error inner;
    hf_status status = enter_request(&call, store, "wait for cell", request, &wait, err);

    if (status != HF_OK)
        return status;
    status = check_wait(&call, wait.wait_ms, wait.cancel, err);
    if (status == HF_OK) {
        status = hfi_cell_wait(&call.prim, wait.version, call.until_ms, call.cancel, ret_version,
                               &inner);
        if (status != HF_OK)
            hfi_prim_error(&call.prim, status, &inner, err);
    }
    return leave(&call, status, err);
}
