/* SPDX-License-Identifier: MIT */
/* Cells, in every mode: read, compare-and-swap, several in one step, wait for a change; and the server's clock. */
#include "engine/sql/listener.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define CELL_RECHECK_MS 10000 /* a cell is read again at this interval although no notice came */
#define CELL_REST_MS    250   /* ... and at this one if it could not be */

/* For a call that changes nothing, an unknown outcome is HF_UNAVAILABLE. */
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

/* The answer has a row for each item, and all have the same verdict. */
static bool take_commit(struct hfi_commit_op *commit, const struct sql_rows *rows)
{
    if (rows->count != commit->count)
        return false;
    for (uint32_t i = 0; i < rows->count; i++) {
        if (sql_int(rows, i, 0) != (int64_t)i || sql_letter(rows, i, 1) != sql_letter(rows, 0, 1))
            return false;
        commit->items[i].ret_version = (uint64_t)sql_int(rows, i, 2);
    }
    return true;
}

void sql_cells_commit(struct sql_store *store, struct hfi_op *op)
{
    struct hfi_commit_op *commit = op->u.commit;
    struct sql_value params[SQL_COMMIT_PARAMS * HF_CELLS_MAX], *at = params;
    struct sql_request r = { .call = SQL_CELL_COMMIT,
                             .params = params,
                             .count = (uint32_t)(SQL_COMMIT_PARAMS * commit->count),
                             .deadline_ms = op->deadline_ms };
    hf_status status;

    for (size_t i = 0; i < commit->count; i++) {
        const struct hfi_commit_item *item = &commit->items[i];
        bool write = item->action == HF_CELL_ACTION_WRITE;

        *at++ = sql_bytes(item->name.bytes, item->name.len);
        /* A larger number than any version is none. */
        *at++ = sql_int_of(item->version > INT64_MAX ? INT64_MAX : (int64_t)item->version);
        *at++ = sql_int_of(item->action);
        *at++ = sql_bytes(write ? item->bytes : "", write ? item->len : 0);
        *at++ = sql_int_of(write ? item->ttl_ms : 0);
    }
    status = sql_call(store, &r);
    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    if (take_commit(commit, &r.rows))
        status = sql_letter(&r.rows, 0, 1) == 'C' ? HF_OK : HF_BUSY;
    else
        status = hfi_error_set(&r.trouble.error, HF_CORRUPT, 0,
                               "the server's answer (commit cells) is not of these items");
    sql_rows_free(&r.rows);
    sql_finish(op, status, &r.trouble.error);
}

/* Has the cell another version? HF_OK: yes; HF_BUSY: not yet, and *ret_ms is when it expires. */
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

/* When to look again although nothing was said: the cell ends by itself, the server was not reachable, or to be sure. */
static int64_t next_look_ms(hf_status status, int64_t left_ms)
{
    if (status == HF_UNAVAILABLE)
        return hfi_now_ms() + CELL_REST_MS;
    return hfi_now_ms() +
           (left_ms >= 0 && left_ms + 5 < CELL_RECHECK_MS ? left_ms + 5 : CELL_RECHECK_MS);
}

static hf_status stopped(const struct hfi_op *op)
{
    hf_status stop = (hf_status)atomic_load(&op->stop);

    return stop == HF_OK && hfi_now_ms() >= op->deadline_ms ? HF_TIMEOUT : stop;
}

/* One look, if the listener is there to tell of a change after it. HF_BUSY, HF_UNAVAILABLE: again, at *ret_until_ms. */
static hf_status look_once(struct sql_wait *wait, int64_t *ret_until_ms)
{
    struct hfi_op *op = wait->op;
    hf_status status = stopped(op);
    int64_t left_ms = -1;

    if (status != HF_OK)
        return status;
    status = sql_listener_ready(wait, &op->error);
    if (status == HF_BUSY) {
        *ret_until_ms = HFI_NEVER;
        return HF_BUSY;
    }
    if (status == HF_OK)
        status = look(wait->store, op, &left_ms, &op->error);
    *ret_until_ms = next_look_ms(status, left_ms);
    return status;
}

/* Runs from the beginning each time: whatever woke it, it looks. */
void sql_cell_wait(struct sql_store *store, struct hfi_op *op)
{
    struct sql_wait *wait = sql_wait_of(op);
    int64_t until_ms = HFI_NEVER;
    hf_status status;

    if (!wait->store) {
        wait->store = store;
        wait->op = op;
        wait->cell = op->u.cell.name.hash[0];
        wait->recheck_ms = HFI_NEVER;
        sql_wait_add(wait);
    }
    while ((status = look_once(wait, &until_ms)) == HF_BUSY || status == HF_UNAVAILABLE)
        if (!sql_wait_sleep(wait, until_ms < op->deadline_ms ? until_ms : op->deadline_ms))
            return;
    sql_wait_remove(wait);
    sql_finish(op, status, &op->error);
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
