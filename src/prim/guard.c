/* SPDX-License-Identifier: MIT */
/*
 * hf_lease_fence(), hf_guard_claim(), hf_guard_set(): a resource that checks tokens, made of a
 * cell (bytes and a version, compare and swap) of any engine that has them. The calling thread
 * does it all.
 *
 * The cell's bytes are "G1", the highest token as 16 digits, and the thing itself; "G0" before the
 * first write. Both calls are: read; refuse a token below the highest; swap what was read, at the
 * version that was read. A swap that succeeds proves that nobody wrote in between, so reading,
 * comparing and writing are one step for everybody else. One that fails because the version moved
 * begins again: the token may be too low by now, or still the highest.
 *
 * A swap whose outcome is unknown is not sent again by itself. If it arrives late it finds the
 * version that it expects, and is what the caller asked for, or another one, and does nothing.
 */
#include "core/local_queue.h"
#include "holdfast/primitives.h"
#include "prim/cell_op.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_LEN     18 /* "G1" and the token */
#define TOKEN_DIGITS 16 /* 2^53 has so many */

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
        return hfi_error_set(err, status, 0, "lease: %s", hf_status_text(status));
    if (lease->token == 0)
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine gives no fencing tokens");
    else if (lease->claim.permits < lease->claim.capacity)
        status = hfi_error_set(err, HF_UNSUPPORTED, 0,
                               "the token of a shared lease is an id and not a fence: others hold "
                               "the name at the same time");
    else if (hfi_lease_lost(lease))
        status = hfi_error_set(err, HF_LOST, 0, "%s", hf_status_text(HF_LOST));
    else
        *ret_token = lease->token;
    hfi_lease_unlock(lease, next);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* What a call is about, and what it has found. */
struct guard {
    struct hfi_prim prim;
    uint64_t token;
    struct hfi_cell found;
    uint64_t highest; /* 0: there is no cell */
};

static bool is_written(const struct guard *guard)
{
    return guard->found.bytes && guard->found.bytes[1] == '1';
}

/* ---- steps -------------------------------------------------------------------------------------- */

static bool take_apart(struct guard *guard)
{
    const unsigned char *head = guard->found.bytes;
    size_t len = guard->found.len;

    guard->highest = 0;
    if (len < HEAD_LEN || head[0] != 'G' || (head[1] != '0' && head[1] != '1') ||
        (head[1] == '0' && len != HEAD_LEN))
        return false;
    for (int i = 0; i < TOKEN_DIGITS; i++) {
        if (head[2 + i] < '0' || head[2 + i] > '9')
            return false;
        guard->highest = guard->highest * 10 + (uint64_t)(head[2 + i] - '0');
    }
    return true;
}

/* What is there now? HF_FENCED: a higher token was. */
static hf_status look(struct guard *guard, hf_error *err)
{
    hf_error inner;
    hf_status status;

    hfi_cell_forget(&guard->found);
    guard->highest = 0;
    status = hfi_cell_read(&guard->prim, &guard->found, &inner);
    if (status != HF_OK)
        return hfi_prim_error(&guard->prim, status, &inner, err);
    if (guard->found.version == 0)
        return HF_OK;
    if (!take_apart(guard))
        return hfi_prim_error(&guard->prim, HF_MISMATCH, NULL, err);
    if (guard->highest <= guard->token)
        return HF_OK;
    hfi_error_set(&inner, HF_FENCED, 0, "token %" PRIu64 " is refused: %" PRIu64 " has been there",
                  guard->token, guard->highest);
    return hfi_prim_error(&guard->prim, HF_FENCED, &inner, err);
}

/* Put these bytes there under our token, if it still is as we saw it. HF_BUSY: it is not. */
static hf_status swap(struct guard *guard, bool written, const void *bytes, size_t len,
                      hf_error *err)
{
    char *whole = hfi_malloc(HEAD_LEN + 1 + len);
    hf_error inner;
    hf_status status;

    if (!whole)
        return hfi_error_memory(err);
    snprintf(whole, HEAD_LEN + 1, "G%c%016" PRIu64, written ? '1' : '0', guard->token);
    if (len > 0)
        memcpy(whole + HEAD_LEN, bytes, len);
    status =
        hfi_cell_swap(&guard->prim, guard->found.version, whole, HEAD_LEN + len, 0, NULL, &inner);
    hfi_free(whole);
    return status == HF_OK ? HF_OK : hfi_prim_error(&guard->prim, status, &inner, err);
}

/* ---- the calls ------------------------------------------------------------------------------------ */

/* Again, because the version had moved? Whoever moved it got on, so this ends; but not for sure for us. */
static bool again(hf_status status, int64_t begun_ms)
{
    return status == HF_BUSY && hfi_now_ms() - begun_ms < HFI_CALL_LIMIT_MS;
}

static hf_status claim(struct guard *guard, hf_error *err)
{
    int64_t begun_ms = hfi_now_ms();
    hf_status status;

    do {
        status = look(guard, err);
        if (status != HF_OK || guard->highest == guard->token)
            return status; /* ours already: what we read is of a time when no lower token could write */
        status = swap(guard, is_written(guard),
                      guard->found.bytes ? guard->found.bytes + HEAD_LEN : NULL,
                      guard->found.bytes ? guard->found.len - HEAD_LEN : 0, err);
    } while (again(status, begun_ms));
    return status;
}

static hf_status write_bytes(struct guard *guard, const void *bytes, size_t len, hf_error *err)
{
    int64_t begun_ms = hfi_now_ms();
    hf_status status;

    do {
        status = look(guard, err);
        if (status == HF_OK)
            status = swap(guard, true, bytes, len, err);
    } while (again(status, begun_ms));
    return status;
}

static hf_status enter(struct guard *guard, hf_store *at, const char *verb, const void *name,
                       size_t name_len, uint64_t token, hf_error *err)
{
    hf_status status;

    *guard = (struct guard){ .token = token };
    status = hfi_prim_enter(&guard->prim, at, verb, name, name_len, HF_CAP_CELLS, err);
    if (status == HF_OK && (token == 0 || token >= HFI_TOKEN_LIMIT)) {
        hfi_prim_leave(&guard->prim);
        status = hfi_error_set(err, HF_INVALID, 0, "token: never 0, nor 2^53 or more");
    }
    return status;
}

static hf_status leave(struct guard *guard, hf_status status, hf_error *err)
{
    hfi_cell_forget(&guard->found);
    hfi_prim_leave(&guard->prim);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* The thing itself, in memory of its own with a NUL behind it. */
static hf_status copy_out(const struct guard *guard, void **ret_bytes, size_t *ret_len,
                          hf_error *err)
{
    size_t len = is_written(guard) ? guard->found.len - HEAD_LEN : 0;
    char *bytes = NULL;

    if (is_written(guard) && ret_bytes) {
        bytes = hfi_malloc(len + 1);
        if (!bytes)
            return hfi_error_memory(err);
        memcpy(bytes, guard->found.bytes + HEAD_LEN, len);
        bytes[len] = 0;
    }
    if (ret_bytes)
        *ret_bytes = bytes;
    if (ret_len)
        *ret_len = len;
    return HF_OK;
}

hf_status hf_guard_claim(hf_store *at, const void *name, size_t name_len, uint64_t token,
                         void **ret_bytes, size_t *ret_len, hf_error *err)
{
    struct guard guard;
    hf_status status = enter(&guard, at, "claim", name, name_len, token, err);

    if (status != HF_OK)
        return status;
    status = claim(&guard, err);
    if (status == HF_OK)
        status = copy_out(&guard, ret_bytes, ret_len, err);
    return leave(&guard, status, err);
}

hf_status hf_guard_set(hf_store *at, const void *name, size_t name_len, uint64_t token,
                       const void *bytes, size_t len, hf_error *err)
{
    struct guard guard;
    hf_status status = enter(&guard, at, "guarded write", name, name_len, token, err);

    if (status != HF_OK)
        return status;
    if (len > HF_GUARD_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_GUARD_MAX);
    else if (len > 0 && !bytes)
        status = hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    else
        status = write_bytes(&guard, bytes, len, err);
    return leave(&guard, status, err);
}
