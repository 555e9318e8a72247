/* SPDX-License-Identifier: MIT */
/*
 * hf_guard_token(), hf_guard_claim(), hf_guard_write(): a resource that checks tokens, made of a
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
#include "core/cohort.h"
#include "core/op.h"
#include "core/request.h"
#include "core/store.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_LEN     18 /* "G1" and the token */
#define TOKEN_DIGITS 16 /* 2^53 has so many */

/* ---- the token of a lease -------------------------------------------------------------------- */

hf_status hf_guard_token(hf_lease *handle, uint64_t *ret_token, hf_error *err)
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

/* ---- one op on a cell -------------------------------------------------------------------------- */

/* It may be finished after we have given it up, so it has all that it needs in itself. */
struct cell_job {
    struct hfi_job job;
    unsigned char name[HF_NAME_MAX];
    char bytes[];
};

static void late_cell(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    if (job->op.kind == HFI_OP_CELL_READ && hfi_op_status(&job->op) == HF_OK)
        hfi_free(job->op.u.cell.ret_bytes);
    hfi_free(hfi_container(job, struct cell_job, job));
    hfi_keeper_idle(store);
}

/* What a call is about, and what it has found. */
struct guard {
    struct hfi_store *store;
    const char *verb;
    struct hfi_name name;
    uint64_t token;

    char *found; /* the cell's bytes; NULL: there is none */
    size_t found_len;
    uint64_t version; /* 0: there is none */
    uint64_t highest; /* 0: likewise */
};

static hf_status failed(const struct guard *guard, hf_status status, const hf_error *inner,
                        hf_error *err)
{
    return hfi_store_error(guard->store, guard->verb, &guard->name, status, inner, err);
}

static struct cell_job *cell_new(const struct guard *guard, enum hfi_op_kind kind, size_t room)
{
    struct cell_job *cell = hfi_malloc(sizeof *cell + room);

    if (!cell)
        return NULL;
    hfi_job_init(&cell->job, guard->store, kind);
    cell->job.late = late_cell;
    memset(&cell->job.op.u.cell, 0, sizeof cell->job.op.u.cell);
    memcpy(cell->name, guard->name.bytes, guard->name.len);
    cell->job.op.u.cell.name = guard->name;
    cell->job.op.u.cell.name.bytes = cell->name;
    return cell;
}

/* Run it. HF_UNKNOWN with *ret_gone: it has been given up and is not ours any more. */
static hf_status cell_run(struct cell_job *cell, bool *ret_gone)
{
    struct hfi_store *store = cell->job.store;
    hf_status status;

    hfi_keeper_busy(store); /* for late_cell(), which may come any time */
    status = hfi_job_run(&cell->job, ret_gone);
    if (!*ret_gone)
        hfi_keeper_idle(store);
    return status;
}

/* ---- steps -------------------------------------------------------------------------------------- */

static bool take_apart(struct guard *guard)
{
    const char *head = guard->found;

    guard->highest = 0;
    if (guard->found_len < HEAD_LEN || head[0] != 'G' || (head[1] != '0' && head[1] != '1') ||
        (head[1] == '0' && guard->found_len != HEAD_LEN))
        return false;
    for (int i = 0; i < TOKEN_DIGITS; i++) {
        if (head[2 + i] < '0' || head[2 + i] > '9')
            return false;
        guard->highest = guard->highest * 10 + (uint64_t)(head[2 + i] - '0');
    }
    return true;
}

static void forget(struct guard *guard)
{
    hfi_free(guard->found);
    guard->found = NULL;
    guard->found_len = 0;
    guard->version = guard->highest = 0;
}

/* What is there now? HF_FENCED: a higher token was. */
static hf_status look(struct guard *guard, hf_error *err)
{
    struct cell_job *cell = cell_new(guard, HFI_OP_CELL_READ, 0);
    hf_error refusal;
    hf_status status;
    bool gone;

    forget(guard);
    if (!cell)
        return hfi_error_memory(err);
    status = cell_run(cell, &gone);
    if (gone) /* a read changes nothing, so this is no secret: it did not answer */
        return failed(guard, HF_UNAVAILABLE, NULL, err);
    if (status == HF_OK) {
        guard->found = cell->job.op.u.cell.ret_bytes;
        guard->found_len = cell->job.op.u.cell.ret_len;
        guard->version = cell->job.op.u.cell.ret_version;
    } else if (status != HF_NOT_FOUND) {
        status =
            failed(guard, status == HF_UNKNOWN ? HF_UNAVAILABLE : status, &cell->job.op.error, err);
    }
    hfi_free(cell);
    if (status == HF_NOT_FOUND)
        return HF_OK;
    if (status != HF_OK)
        return status;
    if (!take_apart(guard))
        return failed(guard, HF_MISMATCH, NULL, err);
    if (guard->highest <= guard->token)
        return HF_OK;
    hfi_error_set(&refusal, HF_FENCED, 0,
                  "token %" PRIu64 " is refused: %" PRIu64 " has been there", guard->token,
                  guard->highest);
    return failed(guard, HF_FENCED, &refusal, err);
}

/* Put these bytes there under our token, if it still is as we saw it. HF_BUSY: it is not. */
static hf_status swap(struct guard *guard, bool written, const void *bytes, size_t len,
                      hf_error *err)
{
    struct cell_job *cell = cell_new(guard, HFI_OP_CELL_SWAP, HEAD_LEN + 1 + len);
    hf_status status;
    bool gone;

    if (!cell)
        return hfi_error_memory(err);
    snprintf(cell->bytes, HEAD_LEN + 1, "G%c%016" PRIu64, written ? '1' : '0', guard->token);
    if (len > 0)
        memcpy(cell->bytes + HEAD_LEN, bytes, len);
    cell->job.op.u.cell.version = guard->version;
    cell->job.op.u.cell.bytes = cell->bytes;
    cell->job.op.u.cell.len = HEAD_LEN + len;
    status = cell_run(cell, &gone);
    if (gone)
        return failed(guard, HF_UNKNOWN, NULL, err);
    if (status != HF_OK)
        failed(guard, status, &cell->job.op.error, err);
    hfi_free(cell);
    return status;
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
        status = swap(guard, guard->found && guard->found[1] == '1',
                      guard->found ? guard->found + HEAD_LEN : NULL,
                      guard->found ? guard->found_len - HEAD_LEN : 0, err);
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
    hf_status status = hfi_store_enter(at, &guard->store, err);

    if (status != HF_OK)
        return status;
    *guard = (struct guard){ .store = guard->store, .verb = verb, .token = token };
    status = hfi_name_check(name, name_len, &guard->name.len, err);
    if (status == HF_OK && (token == 0 || token >= HFI_TOKEN_LIMIT))
        status = hfi_error_set(err, HF_INVALID, 0, "token: never 0, nor 2^53 or more");
    if (status == HF_OK && !(hfi_store_engine(guard->store)->info.caps & HF_CAP_CELLS))
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine cannot guard a resource");
    if (status != HF_OK) {
        hfi_store_leave(guard->store);
        return status;
    }
    guard->name.bytes = name;
    hfi_hash128(name, guard->name.len, guard->name.hash);
    return HF_OK;
}

static hf_status leave(struct guard *guard, hf_status status, hf_error *err)
{
    forget(guard);
    hfi_store_leave(guard->store);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* The thing itself, in memory of its own with a NUL behind it. */
static hf_status copy_out(const struct guard *guard, void **ret_bytes, size_t *ret_len,
                          hf_error *err)
{
    bool written = guard->found && guard->found[1] == '1';
    size_t len = written ? guard->found_len - HEAD_LEN : 0;
    char *bytes = NULL;

    if (written && ret_bytes) {
        bytes = hfi_malloc(len + 1);
        if (!bytes)
            return hfi_error_memory(err);
        memcpy(bytes, guard->found + HEAD_LEN, len);
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

hf_status hf_guard_write(hf_store *at, const void *name, size_t name_len, uint64_t token,
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

void hf_guard_free(void *bytes)
{
    hfi_free(bytes);
}
