/* SPDX-License-Identifier: MIT */
/* Rate limits: the decision is taken by scripts/limit.lua, in one round trip. Under the reactor's lock. */
#include "engine/native.h"
#include "engine/redis/internal.h"
#include "holdfast/primitives.h"

#include <endian.h>
#include <string.h>

#define NUMBERS    4                 /* of an answer */
#define ANSWER_LEN (1 + 8 * NUMBERS) /* and a letter */
#define ASKED      7                 /* numbers of a question; and two letters */

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
    case 'U':
        return HFI_LIMIT_OPENED;
    case 'N':
        return HFI_LIMIT_NONE;
    case 'P':
        return HFI_LIMIT_MANY;
    case 'M':
        return HFI_LIMIT_MISMATCH;
    case 'V':
        return HFI_LIMIT_VERSION;
    default: /* X, or not an answer of our script */
        return HFI_LIMIT_CORRUPT;
    }
}

static int64_t number_at(const char *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return (int64_t)le64toh(value);
}

/* A letter, or a letter and four numbers of 8 bytes, and the head of the state if its rule counts; src/prim checks that. Numbers in a
 * script are doubles. */
static bool take_apart(const struct hfi_reply *reply, struct hfi_limit_answer *answer)
{
    int64_t numbers[NUMBERS];

    *answer = (struct hfi_limit_answer){ .said = HFI_LIMIT_CORRUPT };
    if (reply->type != HFI_REPLY_TEXT || reply->len == 0)
        return false;
    answer->said = said_by(reply->text[0]);
    if (answer->said == HFI_LIMIT_CORRUPT)
        return false;
    if (answer->said > HFI_LIMIT_SEEN_IT)
        return reply->len == 1;
    if (reply->len == ANSWER_LEN + sizeof answer->head)
        memcpy(answer->head, reply->text + ANSWER_LEN, sizeof answer->head);
    else if (reply->len != ANSWER_LEN)
        return false;
    for (size_t i = 0; i < NUMBERS; i++) {
        numbers[i] = number_at(reply->text + 1 + 8 * i);
        if (numbers[i] < -(int64_t)HFI_TOKEN_LIMIT || numbers[i] > (int64_t)HFI_TOKEN_LIMIT)
            return false;
    }
    answer->wait_us = numbers[0];
    answer->left = numbers[1];
    answer->refill_us = numbers[2];
    answer->at_us = numbers[3];
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

static void put_number(char *bytes, int64_t number)
{
    uint64_t value = htole64((uint64_t)number);

    memcpy(bytes, &value, sizeof value);
}

void redis_limit(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    static const char acts[] = { [HFI_LIMIT_TAKE] = 't',
                                 [HFI_LIMIT_LOOK] = 'l',
                                 [HFI_LIMIT_BACK] = 'b',
                                 [HFI_LIMIT_SET] = 's',
                                 [HFI_LIMIT_UNSET] = 'u' };
    const struct hfi_limit_rule *rule = &op->u.limit->rule;
    const struct hfi_limit_ask *ask = &op->u.limit->ask;
    struct redis_call *call = redis_call_new(store, &hfi_script_limit, 1, limited, op);
    const int64_t asked[ASKED] = { ask->permits,
                                   ask->act == HFI_LIMIT_BACK ? ask->at_us : ask->wait_us,
                                   rule->rate,
                                   rule->period_us,
                                   rule->burst * rule->unit,
                                   rule->unit,
                                   rule->speed };
    char question[2 + 8 * ASKED];

    if (!call)
        return;
    call->idempotent = ask->act == HFI_LIMIT_LOOK;
    redis_add_cell_key(call, &op->u.limit->name);
    hfi_command_add(&call->command, rule->head, sizeof rule->head);
    question[0] = acts[ask->act];
    question[1] = (char)rule->head[2]; /* the kind */
    for (size_t i = 0; i < ASKED; i++)
        put_number(question + 2 + 8 * i, asked[i]);
    hfi_command_add(&call->command, question, sizeof question);
    redis_call_send(call);
}
