/* SPDX-License-Identifier: MIT */
/*
 * Counters: a string with a number, under the key that a cell of that name would have. So a name
 * cannot be both: the server refuses one on the other (WRONGTYPE, which is HF_MISMATCH).
 *
 * Adding is a plain INCRBY, without a script: one round trip, and the cheapest way in Redis. A
 * command that may have been executed is never sent again.
 */
#include "engine/redis/internal.h"

#include "engine/native.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 20 /* "-9223372036854775808" */

static void mismatch(struct redis_call *call)
{
    hfi_reactor_finish(&call->store->reactor, call->op, HF_MISMATCH,
                       &(hf_error){ .text = "the key is a string that is no number" });
}

/* A number as Redis writes it. false: it is none. (INCRBY is as strict.) */
static bool parse(const struct hfi_reply *text, int64_t *ret_value)
{
    const char *digits = text->text + (text->len > 0 && text->text[0] == '-');
    char *end;

    if (text->len == 0 || text->len > NUMBER_MAX || *digits < '0' || *digits > '9' ||
        (*digits == '0' && text->len > 1))
        return false;
    errno = 0;
    *ret_value = strtoll(text->text, &end, 10);
    return errno == 0 && end == text->text + text->len;
}

static void not_answered(struct redis_call *call, enum hfi_outcome outcome, const hf_error *err)
{
    bool reads = call->op->u.counter->verb == HFI_COUNTER_GET;

    hfi_reactor_finish(
        &call->store->reactor, call->op,
        reads ? hfi_outcome_read_status(outcome, err) : hfi_outcome_status(outcome, err), err);
}

static void added(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                  const hf_error *err)
{
    if (outcome != HFI_ANSWERED) {
        not_answered(call, outcome, err);
    } else if (reply->type != HFI_REPLY_INTEGER) {
        redis_finish_odd(call->store, call->op, reply);
    } else {
        call->op->u.counter->ret_value = reply->integer;
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
    }
}

static void got(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                const hf_error *err)
{
    struct hfi_counter_op *counter = call->op->u.counter;

    counter->ret_value = 0;
    if (outcome != HFI_ANSWERED)
        not_answered(call, outcome, err);
    else if (reply->type == HFI_REPLY_NIL ||
             (reply->type == HFI_REPLY_TEXT && parse(reply, &counter->ret_value)))
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
    else if (reply->type == HFI_REPLY_TEXT)
        mismatch(call);
    else
        redis_finish_odd(call->store, call->op, reply);
}

static void was_set(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    const struct hfi_reply *now = hfi_reply_at(reply, 1, HFI_REPLY_TEXT);
    char letter = hfi_reply_letter(reply);

    if (outcome != HFI_ANSWERED)
        not_answered(call, outcome, err);
    else if (letter == 'C')
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
    else if (letter == 'V' && now && parse(now, &call->op->u.counter->ret_value))
        hfi_reactor_finish(&call->store->reactor, call->op, HF_CHANGED, NULL);
    else if (letter == 'M' || (letter == 'V' && now))
        mismatch(call);
    else
        redis_finish_odd(call->store, call->op, reply);
}

static void send_set(struct redis_store *store, struct hfi_op *op)
{
    struct redis_call *call = redis_call_new(store, &hfi_script_counter_set, 1, was_set, op);
    const struct hfi_counter_op *counter = op->u.counter;

    if (!call)
        return;
    redis_add_cell_key(call, &counter->name);
    if (counter->verb == HFI_COUNTER_DELETE)
        hfi_command_add_text(&call->command, "");
    else
        hfi_command_add_number(&call->command, counter->value);
    if (counter->verb == HFI_COUNTER_SET_IF)
        hfi_command_add_number(&call->command, counter->expected);
    else
        hfi_command_add_text(&call->command, "");
    redis_call_send(call);
}

static void send_plain(struct redis_store *store, struct hfi_op *op, const char *verb,
                       redis_answer_fn *answer)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, answer, op);
    const struct hfi_counter_op *counter = op->u.counter;

    if (!call)
        return;
    call->idempotent = counter->verb == HFI_COUNTER_GET;
    hfi_command_add_text(&call->command, verb);
    redis_add_cell_key(call, &counter->name);
    if (counter->verb == HFI_COUNTER_ADD)
        hfi_command_add_number(&call->command, counter->value);
    redis_call_send(call);
}

void redis_counter(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;

    switch (op->u.counter->verb) {
    case HFI_COUNTER_ADD:
        send_plain(store, op, "INCRBY", added);
        return;
    case HFI_COUNTER_GET:
        send_plain(store, op, "GET", got);
        return;
    case HFI_COUNTER_SET:
    case HFI_COUNTER_SET_IF:
    case HFI_COUNTER_DELETE:
        send_set(store, op);
        return;
    }
}
