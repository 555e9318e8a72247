/* SPDX-License-Identifier: MIT */
/* Cells: bytes and a version, read and compare-and-swap; and the server's clock. */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void cell_read(struct redis_call *call, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    const struct hfi_reply *version = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *bytes = hfi_reply_at(reply, 2, HFI_REPLY_TEXT);
    const struct hfi_reply *left = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);
    struct hfi_op *op = call->op;

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&call->store->reactor, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    if (hfi_reply_letter(reply) == 'N') {
        hfi_reactor_finish(&call->store->reactor, op, HF_NOT_FOUND, NULL);
        return;
    }
    if (hfi_reply_letter(reply) != 'C' || !version || !bytes || !left || version->integer <= 0) {
        redis_finish_odd(call->store, op, reply);
        return;
    }
    op->u.cell.ret_bytes = hfi_malloc(bytes->len ? bytes->len : 1);
    if (!op->u.cell.ret_bytes) {
        hfi_reactor_finish(&call->store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    memcpy(op->u.cell.ret_bytes, bytes->text, bytes->len);
    op->u.cell.ret_len = bytes->len;
    op->u.cell.ret_version = (uint64_t)version->integer;
    op->u.cell.ret_ttl_ms = left->integer < 0 ? -1 : hfi_told_ms(left->integer);
    hfi_reactor_finish(&call->store->reactor, op, HF_OK, NULL);
}

void redis_cell_read(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(store, &hfi_script_cell_read, 1, cell_read, op);

    if (!call)
        return;
    call->idempotent = true;
    redis_add_cell_key(call, &op->u.cell.name);
    redis_call_send(call);
}

static void cell_swapped(struct redis_call *call, enum hfi_outcome outcome,
                         const struct hfi_reply *reply, const hf_error *err)
{
    const struct hfi_reply *version = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    char letter = hfi_reply_letter(reply);

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if ((letter != 'C' && letter != 'V') || !version || version->integer < 0) {
        redis_finish_odd(call->store, call->op, reply);
        return;
    }
    call->op->u.cell.ret_version = (uint64_t)version->integer;
    hfi_reactor_finish(&call->store->reactor, call->op, letter == 'C' ? HF_OK : HF_BUSY, NULL);
}

void redis_cell_swap(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(store, &hfi_script_cell_swap, 1, cell_swapped, op);

    if (!call)
        return;
    redis_add_cell_key(call, &op->u.cell.name);
    hfi_command_add_number(&call->command, (int64_t)op->u.cell.version);
    if (op->u.cell.bytes) /* without: delete */
        hfi_command_add(&call->command, op->u.cell.bytes, op->u.cell.len);
    if (op->u.cell.bytes && op->u.cell.ttl_ms > 0)
        hfi_command_add_number(&call->command, op->u.cell.ttl_ms);
    redis_call_send(call);
}

/* ---- the clock ------------------------------------------------------------------------------ */

static bool number_of(const struct hfi_reply *text, int64_t *ret_number)
{
    char *end;

    if (!text || text->len == 0 || text->text[0] < '0' || text->text[0] > '9')
        return false;
    errno = 0;
    *ret_number = strtoll(text->text, &end, 10);
    return errno == 0 && end == text->text + text->len;
}

static void time_told(struct redis_call *call, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    int64_t seconds, us;

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_read_status(outcome, err),
                           err);
        return;
    }
    if (!number_of(hfi_reply_at(reply, 0, HFI_REPLY_TEXT), &seconds) ||
        !number_of(hfi_reply_at(reply, 1, HFI_REPLY_TEXT), &us) || us >= 1000000 ||
        seconds >= HFI_TOLD_S_MAX) {
        redis_finish_odd(call->store, call->op, reply);
        return;
    }
    call->op->u.time.ret_us = seconds * 1000000 + us;
    hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
}

/* In a cluster every server has a clock: the server of the name is asked. */
void redis_time(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call = redis_call_new(store, NULL, 0, time_told, op);

    if (!call)
        return;
    call->idempotent = true;
    if (store->slots)
        call->command.slot = redis_name_slot(store, &op->u.time.name);
    hfi_command_add_text(&call->command, "TIME");
    redis_call_send(call);
}
