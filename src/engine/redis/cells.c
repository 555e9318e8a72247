/* SPDX-License-Identifier: MIT */
/* Cells: bytes and a version, read and compare-and-swap. */
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

static void cell_read(struct rd_call *call, enum rd_outcome outcome, const struct hfi_reply *reply,
                      const hf_error *err)
{
    const struct hfi_reply *version = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *bytes = hfi_reply_at(reply, 2, HFI_REPLY_TEXT);
    struct hfi_op *op = call->op;

    if (outcome != RD_ANSWERED) {
        hfi_rd_finish(call->conn, op,
                      outcome == RD_MAYBE ? HF_UNAVAILABLE : hfi_rd_status(outcome, err), err);
        return;
    }
    if (hfi_rd_letter(reply) == 'N') {
        hfi_rd_finish(call->conn, op, HF_NOT_FOUND, NULL);
        return;
    }
    if (hfi_rd_letter(reply) != 'C' || !version || !bytes || version->integer <= 0) {
        hfi_rd_finish_odd(call->conn, op, reply);
        return;
    }
    op->u.cell.ret_bytes = hfi_malloc(bytes->len ? bytes->len : 1);
    if (!op->u.cell.ret_bytes) {
        hfi_rd_finish(call->conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    memcpy(op->u.cell.ret_bytes, bytes->text, bytes->len);
    op->u.cell.ret_len = bytes->len;
    op->u.cell.ret_version = (uint64_t)version->integer;
    hfi_rd_finish(call->conn, op, HF_OK, NULL);
}

void hfi_rd_cell_read(struct hfi_conn *conn, struct hfi_op *op)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_cell_read, 1, cell_read, op);

    if (!call)
        return;
    call->again = true;
    hfi_rd_add_cell_key(call, &op->u.cell.name);
    hfi_rd_call_send(call);
}

static void cell_swapped(struct rd_call *call, enum rd_outcome outcome,
                         const struct hfi_reply *reply, const hf_error *err)
{
    const struct hfi_reply *version = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    char letter = hfi_rd_letter(reply);

    if (outcome != RD_ANSWERED) {
        hfi_rd_finish(call->conn, call->op, hfi_rd_status(outcome, err), err);
        return;
    }
    if ((letter != 'C' && letter != 'V') || !version || version->integer < 0) {
        hfi_rd_finish_odd(call->conn, call->op, reply);
        return;
    }
    call->op->u.cell.ret_version = (uint64_t)version->integer;
    hfi_rd_finish(call->conn, call->op, letter == 'C' ? HF_OK : HF_BUSY, NULL);
}

void hfi_rd_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct rd_call *call = hfi_rd_call_new(conn, &hfi_script_cell_swap, 1, cell_swapped, op);

    if (!call)
        return;
    hfi_rd_add_cell_key(call, &op->u.cell.name);
    hfi_command_add_number(&call->command, (int64_t)op->u.cell.version);
    if (op->u.cell.bytes) /* without: delete */
        hfi_command_add(&call->command, op->u.cell.bytes, op->u.cell.len);
    hfi_rd_call_send(call);
}
