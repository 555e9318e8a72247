/* SPDX-License-Identifier: MIT */
/*
 * Cells: bytes and a version, read and compare-and-swap. The version is our own and part of the
 * value: the server's CAS numbers repeat after a restart. It begins at the time in microseconds, so
 * that a cell that was deleted or forgotten and then made again has none of its old versions. The
 * CAS number makes comparison and change one step. A swap is a get and a swap by the number it
 * brought.
 *
 * A ttl is the item's own. The server counts in seconds and may be late, so a cell may live longer than
 * was asked for. There are no events for changes.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>
#include <time.h>

#define TRIES_MAX 8

/* The cell that a get has found. HF_OK; HF_NOT_FOUND; HF_MISMATCH. */
static hf_status read_cell(const struct memcached_reply *reply, const struct hfi_name *name,
                           struct memcached_cell *ret_cell, hf_error *ret_err)
{
    if (reply->kind == MEMCACHED_EN)
        return hfi_error_set(ret_err, HF_NOT_FOUND, 0, "no such cell");
    if (!memcached_cell_read(reply->text, reply->len, ret_cell))
        return hfi_error_set(ret_err, HF_MISMATCH, 0,
                             "the name's key holds a value that is not a cell of Holdfast");
    if (ret_cell->name_len != name->len || memcmp(ret_cell->name, name->bytes, name->len) != 0)
        return hfi_error_set(ret_err, HF_MISMATCH, 0,
                             "another name has the same hash, and its cell blocks this one");
    return HF_OK;
}

static bool is_get_answer(enum hfi_outcome outcome, const struct memcached_reply *reply)
{
    return outcome == HFI_ANSWERED && (reply->kind == MEMCACHED_VA || reply->kind == MEMCACHED_EN);
}

static void trouble(struct memcached_call *call, enum hfi_outcome outcome, bool changed,
                    const struct memcached_reply *reply)
{
    hf_error err;
    hf_status status = memcached_trouble(call->store, outcome, changed, reply, &err);

    hfi_reactor_finish(&call->store->reactor, call->op, status, &err);
}

/* ---- read ------------------------------------------------------------------------------------- */

static void cell_read(struct memcached_call *call, enum hfi_outcome outcome,
                      const struct memcached_reply *reply)
{
    struct hfi_op *op = call->op;
    struct memcached_cell cell;
    hf_status status;
    hf_error err;

    if (!is_get_answer(outcome, reply)) {
        trouble(call, outcome, false, reply);
        return;
    }
    status = read_cell(reply, &op->u.cell.name, &cell, &err);
    if (status == HF_OK) {
        op->u.cell.ret_bytes = hfi_malloc(cell.len ? cell.len : 1);
        if (!op->u.cell.ret_bytes)
            status = hfi_error_memory(&err);
    }
    if (status == HF_OK) {
        memcpy(op->u.cell.ret_bytes, cell.bytes, cell.len);
        op->u.cell.ret_len = cell.len;
        op->u.cell.ret_version = cell.version;
        op->u.cell.ret_ttl_ms =
            reply->has_ttl && reply->ttl_s >= 0 ? hfi_told_ms(reply->ttl_s * 1000) : -1;
    }
    hfi_reactor_finish(&call->store->reactor, op, status, &err);
}

void memcached_cell_read_op(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct memcached_call *call = memcached_call_new(store, 'c', &op->u.cell.name, op);

    if (call)
        memcached_call_go(call, MEMCACHED_GET, cell_read);
}

/* ---- swap --------------------------------------------------------------------------------------- */

static void swap_looked(struct memcached_call *call, enum hfi_outcome outcome,
                        const struct memcached_reply *reply);

static void cell_changed(struct memcached_call *call, enum hfi_outcome outcome,
                         const struct memcached_reply *reply)
{
    struct hfi_op *op = call->op;

    if (outcome != HFI_ANSWERED) {
        trouble(call, outcome, true, reply);
    } else if (reply->kind == MEMCACHED_HD) {
        op->u.cell.ret_version = op->u.cell.bytes ? call->cell.version : 0;
        hfi_reactor_finish(&call->store->reactor, op, HF_OK, NULL);
    } else if ((reply->kind == MEMCACHED_EX || reply->kind == MEMCACHED_NF ||
                reply->kind == MEMCACHED_NS) &&
               call->tries++ < TRIES_MAX) {
        memcached_call_go(call, MEMCACHED_GET,
                          swap_looked); /* another client was faster: read again */
    } else {
        trouble(call, outcome, true, reply);
    }
}

static void swap_looked(struct memcached_call *call, enum hfi_outcome outcome,
                        const struct memcached_reply *reply)
{
    struct hfi_op *op = call->op;
    struct memcached_cell cell = { 0 };
    hf_status status;
    hf_error err;

    if (!is_get_answer(outcome, reply)) {
        trouble(call, outcome, false, reply);
        return;
    }
    status = read_cell(reply, &op->u.cell.name, &cell, &err);
    if (status == HF_MISMATCH) {
        hfi_reactor_finish(&call->store->reactor, op, status, &err);
        return;
    }
    if (cell.version != op->u.cell.version) { /* 0: there is none */
        op->u.cell.ret_version = cell.version;
        hfi_reactor_finish(&call->store->reactor, op, HF_BUSY, NULL);
        return;
    }
    if (status == HF_NOT_FOUND && !op->u.cell.bytes) {
        op->u.cell.ret_version = 0;
        hfi_reactor_finish(&call->store->reactor, op, HF_OK, NULL);
        return;
    }
    call->cas = reply->cas;
    if (status == HF_OK)
        call->cell.version = cell.version + 1;
    memcached_call_go(call,
                      status == HF_NOT_FOUND ? MEMCACHED_ADD
                      : op->u.cell.bytes     ? MEMCACHED_SWAP
                                             : MEMCACHED_DELETE,
                      cell_changed);
}

static uint64_t first_version(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void memcached_cell_swap_op(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct memcached_call *call = memcached_call_new(store, 'c', &op->u.cell.name, op);

    if (!call)
        return;
    call->cell = (struct memcached_cell){ .version = first_version(),
                                          .name = op->u.cell.name.bytes,
                                          .name_len = op->u.cell.name.len,
                                          .bytes = op->u.cell.bytes,
                                          .len = op->u.cell.len };
    call->ttl_ms = op->u.cell.ttl_ms;
    if (op->u.cell.version == 0 && op->u.cell.bytes)
        memcached_call_go(call, MEMCACHED_ADD, cell_changed);
    else
        memcached_call_go(call, MEMCACHED_GET, swap_looked);
}
