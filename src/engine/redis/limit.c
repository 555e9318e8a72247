/* SPDX-License-Identifier: MIT */
/* Rate limits: the decision is taken by scripts/limit.lua, in one round trip. */
#include "engine/native.h"
#include "engine/redis/internal.h"
#include "holdfast/primitives.h"

static enum hfi_limit_said said_by(char letter)
{
    switch (letter) {
    case 'G':
        return HFI_LIMIT_GRANTED;
    case 'R':
        return HFI_LIMIT_REFUSED;
    case 'L':
        return HFI_LIMIT_SEEN_IT;
    case 'B':
        return HFI_LIMIT_RETURNED;
    case 'K':
        return HFI_LIMIT_KEPT;
    case 'M':
        return HFI_LIMIT_MISMATCH;
    case 'V':
        return HFI_LIMIT_VERSION;
    default: /* X, or not an answer of our script */
        return HFI_LIMIT_CORRUPT;
    }
}

static bool take_apart(const struct hfi_reply *reply, struct hfi_limit_answer *answer)
{
    const struct hfi_reply *numbers[4];

    *answer = (struct hfi_limit_answer){ .said = said_by(hfi_reply_letter(reply)) };
    if (answer->said == HFI_LIMIT_CORRUPT)
        return false;
    if (answer->said > HFI_LIMIT_SEEN_IT)
        return true;
    for (size_t i = 0; i < 4; i++) {
        numbers[i] = hfi_reply_at(reply, i + 1, HFI_REPLY_INTEGER);
        if (!numbers[i])
            return false;
    }
    answer->wait_us = numbers[0]->integer;
    answer->left = numbers[1]->integer;
    answer->refill_us = numbers[2]->integer;
    answer->at_us = numbers[3]->integer;
    for (size_t i = 0; i < 4; i++) /* numbers in a script are doubles */
        if (numbers[i]->integer < -(int64_t)HFI_TOKEN_LIMIT ||
            numbers[i]->integer > (int64_t)HFI_TOKEN_LIMIT)
            return false;
    return answer->wait_us >= 0 && answer->wait_us <= HFI_LIMIT_PARTS_MAX;
}

static void limited(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_limit_op *limit = call->op->u.limit;

    if (outcome != HFI_ANSWERED)
        hfi_reactor_finish(&call->store->reactor, call->op, hfi_outcome_status(outcome, err), err);
    else if (!take_apart(reply, &limit->answer))
        redis_finish_odd(call->store, call->op, reply);
    else
        hfi_reactor_finish(&call->store->reactor, call->op, HF_OK, NULL);
}

void redis_limit(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    static const char *const acts[] = {
        [HFI_LIMIT_TAKE] = "t", [HFI_LIMIT_LOOK] = "l", [HFI_LIMIT_BACK] = "b"
    };
    const struct hfi_limit_rule *rule = &op->u.limit->rule;
    const struct hfi_limit_ask *ask = &op->u.limit->ask;
    struct redis_call *call = redis_call_new(store, &hfi_script_limit, 1, limited, op);

    if (!call)
        return;
    call->idempotent = ask->act == HFI_LIMIT_LOOK;
    redis_add_cell_key(call, &op->u.limit->name);
    hfi_command_add(&call->command, rule->head, sizeof rule->head);
    hfi_command_add_text(&call->command, acts[ask->act]);
    hfi_command_add_number(&call->command, ask->act == HFI_LIMIT_LOOK ? 0 : ask->permits);
    hfi_command_add_number(&call->command, ask->act == HFI_LIMIT_BACK ? ask->at_us : ask->wait_us);
    hfi_command_add_number(&call->command, rule->rate);
    hfi_command_add_number(&call->command, rule->period_us);
    if (rule->algorithm == HF_LIMIT_ALGORITHM_BUCKET) {
        hfi_command_add_number(&call->command, rule->burst * rule->unit);
        hfi_command_add_number(&call->command, rule->unit);
        hfi_command_add_number(&call->command, rule->speed);
    }
    redis_call_send(call);
}
