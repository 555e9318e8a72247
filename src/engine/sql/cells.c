/* SPDX-License-Identifier: MIT */
/* Cells, in every mode: read, compare-and-swap, wait for a change; and the server's clock. */
#include "engine/sql/listener.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define CELL_RECHECK_MS 10000 /* a cell is read again at this interval although no notice came */

/* A call that changes nothing was not done if it is not known. */
static hf_status plain(hf_status status)
{
    return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
}

void sql_cell_read(struct sql_store *store, struct hfi_op *op)
{
    struct sql_value name = sql_bytes(op->u.cell.name.bytes, op->u.cell.name.len);
    struct sql_request r = { .call = SQL_CELL_READ,
                             .params = &name,
                             .count = 1,
                             .deadline_ms = op->deadline_ms,
                             .again = true };
    hf_status status = plain(sql_call(store, &r));
    const struct sql_value *bytes;

    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    if (r.rows.count == 0) {
        status = HF_NOT_FOUND;
    } else {
        bytes = sql_at(&r.rows, 0, 1);
        op->u.cell.ret_bytes = hfi_malloc(bytes->len ? bytes->len : 1);
        op->u.cell.ret_len = bytes->len;
        op->u.cell.ret_version = (uint64_t)sql_int(&r.rows, 0, 0);
        op->u.cell.ret_ttl_ms = sql_int(&r.rows, 0, 2);
        if (!op->u.cell.ret_bytes)
            status = HF_NO_MEMORY;
        else if (bytes->len)
            memcpy(op->u.cell.ret_bytes, bytes->bytes, bytes->len);
    }
    sql_rows_free(&r.rows);
    sql_finish(op, status, NULL);
}

void sql_cell_swap(struct sql_store *store, struct hfi_op *op)
{
    struct sql_value params[4] = {
        sql_bytes(op->u.cell.name.bytes, op->u.cell.name.len),
        sql_int_of((int64_t)op->u.cell.version),
        op->u.cell.bytes ? sql_bytes(op->u.cell.bytes, op->u.cell.len) : sql_null(),
        sql_int_of(op->u.cell.ttl_ms),
    };
    struct sql_request r = {
        .call = SQL_CELL_SWAP, .params = params, .count = 4, .deadline_ms = op->deadline_ms
    };
    hf_status status = sql_call(store, &r);

    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    op->u.cell.ret_version = (uint64_t)sql_int(&r.rows, 0, 1);
    status = sql_letter(&r.rows, 0, 0) == 'C' ? HF_OK : HF_BUSY;
    sql_rows_free(&r.rows);
    sql_finish(op, status, NULL);
}

/* Is it another version? HF_OK: yes; HF_BUSY: not yet, and *ret_ms is when it ends by itself. */
static hf_status look(struct sql_store *store, struct hfi_op *op, int64_t *ret_ms, hf_error *err)
{
    struct sql_value params[4] = { sql_int_of(store->client), sql_int_of(store->conf.window_max_ms),
                                   sql_bytes(op->u.cell.name.bytes, op->u.cell.name.len),
                                   sql_int_of((int64_t)op->u.cell.version) };
    struct sql_request r = { .call = SQL_CELL_WATCH, .params = params, .count = 4, .again = true };
    hf_status status;

    r.deadline_ms = hfi_now_ms() + store->conf.op_ms;
    status = plain(sql_call(store, &r));
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    op->u.cell.ret_version = (uint64_t)sql_int(&r.rows, 0, 1);
    *ret_ms = sql_int(&r.rows, 0, 2);
    sql_rows_free(&r.rows);
    return op->u.cell.ret_version != op->u.cell.version ? HF_OK : HF_BUSY;
}

static hf_status wait_for(struct sql_store *store, struct sql_wait *wait, hf_error *err)
{
    struct hfi_op *op = wait->op;
    hf_status status, stop;
    int64_t left_ms = -1, until_ms;

    for (;;) {
        pthread_mutex_lock(&store->lock);
        wait->changed = false;
        stop = wait->stop != HF_OK ? wait->stop : (hf_status)atomic_load(&op->stop);
        pthread_mutex_unlock(&store->lock);
        if (stop != HF_OK)
            return stop;
        if (hfi_now_ms() >= op->deadline_ms)
            return HF_TIMEOUT;
        status = sql_listener_ready(store, wait, op->deadline_ms, err);
        if (status == HF_OK)
            status = look(store, op, &left_ms, err);
        if (status == HF_OK || (status != HF_BUSY && status != HF_UNAVAILABLE))
            return status;
        until_ms =
            hfi_now_ms() + (status == HF_UNAVAILABLE                        ? 250
                            : left_ms >= 0 && left_ms + 5 < CELL_RECHECK_MS ? left_ms + 5
                                                                            : CELL_RECHECK_MS);
        sql_wait_sleep(store, wait, until_ms < op->deadline_ms ? until_ms : op->deadline_ms);
    }
}

void sql_cell_wait(struct sql_store *store, struct hfi_op *op)
{
    struct sql_wait wait = { .op = op, .cell = op->u.cell.name.hash[0], .recheck_ms = HFI_NEVER };
    hf_error err = { .status = HF_OK };
    hf_status status;

    sql_wait_add(store, &wait);
    status = wait_for(store, &wait, &err);
    sql_wait_remove(store, &wait);
    sql_finish(op, status, &err);
}

void sql_time(struct sql_store *store, struct hfi_op *op)
{
    struct sql_request r = { .call = SQL_TIME, .deadline_ms = op->deadline_ms, .again = true };
    hf_status status = plain(sql_call(store, &r));

    if (status == HF_OK) {
        op->u.time.ret_us = sql_int(&r.rows, 0, 0);
        sql_rows_free(&r.rows);
    }
    sql_finish(op, status, &r.trouble.error);
}
