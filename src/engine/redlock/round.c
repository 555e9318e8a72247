/* SPDX-License-Identifier: MIT */
/* One command to several nodes: built once, sent to each, answered exactly once by each. With the
 * lock; answers come from the driver, or during the send if a node cannot be reached. */
#include "engine/redlock/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <stddef.h>
#include <string.h>

static void send_leg(struct redlock_round *round, unsigned node);
static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void end_leg(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err);

struct redlock_round *redlock_round_new(struct redlock_store *store,
                                        const struct hfi_script *script, uint32_t key_count,
                                        redlock_answer_fn *answer)
{
    struct redlock_round *round = (struct redlock_round *)hfi_request_new(
        &store->rounds, script && script == store->wire->release);

    if (!round)
        return NULL;
    memset(round, 0, offsetof(struct redlock_round, command));
    round->store = store;
    round->answer = answer;
    hfi_command_init_script(&round->command, script, key_count);
    return round;
}

void redlock_round_free(struct redlock_round *round)
{
    hfi_command_done(&round->command);
    hfi_request_free(&round->store->rounds, &round->request);
}

static void leave_round(struct redlock_round *round)
{
    round->depth--;
    if (round->open || round->depth)
        return;
    if (round->over)
        round->over(round);
    redlock_round_free(round);
}

void redlock_round_decide(struct redlock_round *round, uint32_t nodes, redlock_over_fn *decide)
{
    round->depth++;
    redlock_round_send(round, nodes);
    decide(round);
    leave_round(round);
}

void redlock_round_send(struct redlock_round *round, uint32_t nodes)
{
    hf_error err;

    round->asked = round->open = nodes;
    round->sent_ms = hfi_now_ms();
    round->sending = true;
    round->depth++; /* not over before all have been sent */
    for (unsigned i = 0; i < round->store->n; i++) {
        if (!(nodes & 1u << i))
            continue;
        if (round->command.failed) {
            hfi_error_memory(&err);
            end_leg(round, i, HFI_UNSENT, NULL, &err);
        } else {
            send_leg(round, i);
        }
    }
    round->sending = false;
    leave_round(round);
}

void redlock_round_again(struct redlock_round *round, unsigned node)
{
    round->open |= 1u << node;
    send_leg(round, node);
}

static void send_leg(struct redlock_round *round, unsigned index)
{
    struct redlock_node *node = &round->store->nodes[index];
    struct redlock_leg *leg = &round->legs[index];
    hf_error err;

    if (!redlock_node_up(node)) {
        hfi_error_set(&err, node->why.status != HF_OK ? node->why.status : HF_UNAVAILABLE, 0, "%s",
                      node->why.text[0] ? node->why.text : "not connected");
        end_leg(round, index, HFI_UNSENT, NULL, &err);
        return;
    }
    leg->round = round;
    leg->node = index;
    leg->sent.answered = answered;
    hfi_command_choose_text(&round->command, &node->scripts);
    if (hfi_link_in_flight(node->link) == 0)
        node->heard_ms = round->sent_ms;
    hfi_link_send(node->link, &round->command, &leg->sent);
}

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redlock_leg *leg = hfi_container(sent, struct redlock_leg, sent);
    struct redlock_round *round = leg->round;
    struct redlock_node *node = &round->store->nodes[leg->node];
    hf_error err;

    if (!reply) {
        /* The node may well be there: it was this process that could not ask, or not read the answer. */
        if (round->command.failed || hfi_link_ended(node->link) == HF_NO_MEMORY)
            hfi_error_memory(&err);
        else
            hfi_error_set(&err, HF_UNAVAILABLE, 0,
                          "%s: the connection broke before the answer came",
                          hfi_link_address(node->link)->shown);
        end_leg(round, leg->node, maybe ? HFI_MAYBE : HFI_UNSENT, NULL, &err);
        return;
    }
    node->heard_ms = hfi_now_ms();
    if (reply->type != HFI_REPLY_ERROR) {
        end_leg(round, leg->node, HFI_ANSWERED, reply, NULL);
        return;
    }
    if (round->command.script && hfi_reply_is_noscript(reply)) {
        node->scripts = (struct hfi_script_set){ 0 }; /* SCRIPT FLUSH */
        if (round->wanted && !round->wanted(round)) {
            hfi_error_set(&err, HF_UNAVAILABLE, 0, "it was not wanted any more");
            end_leg(round, leg->node, HFI_UNSENT, NULL, &err);
        } else {
            send_leg(round, leg->node);
        }
        return;
    }
    (void)hfi_reply_status(reply, &err);
    if (hfi_reply_is_error(reply,
                           "READONLY")) /* it has become a replica: its vote would count twice */
        hfi_link_unusable(node->link, err.status, "%s", err.text);
    hfi_error_wrap(&err, "%s", hfi_link_address(node->link)->shown);
    /* An unknown error may have stopped a script half way. */
    end_leg(round, leg->node, err.status == HF_CORRUPT ? HFI_MAYBE : HFI_REFUSED, NULL, &err);
}

static void end_leg(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    round->open &= ~(1u << node);
    round->depth++;
    round->answer(round, node, outcome, reply, err);
    leave_round(round);
}

/* ---- keys and arguments --------------------------------------------------------------- */

void redlock_add_cluster(struct redlock_round *round)
{
    char key[sizeof round->store->prefix + sizeof "cluster"];
    size_t len = round->store->prefix_len;

    memcpy(key, round->store->prefix, len);
    memcpy(key + len, "cluster", 7);
    hfi_command_add(&round->command, key, len + 7);
}

void redlock_add_name(struct redlock_round *round, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];

    hfi_command_add(&round->command, key, redis_name_key(round->store->prefix, name, key));
}

void redlock_add_name_keys(struct redlock_round *round, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];
    size_t len = redis_name_key(round->store->prefix, name, key);

    hfi_command_add(&round->command, key, len);
    memcpy(key + len, ":w", 2);
    hfi_command_add(&round->command, key, len + 2);
    memcpy(key + len, ":q", 2);
    hfi_command_add(&round->command, key, len + 2);
}

/* ---- epochs on the wire ------------------------------------------------------------------ */

void redlock_put_number(unsigned char ret_bytes[8], uint64_t value)
{
    double number = (double)value; /* below 2^53: exact */
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        ret_bytes[i] = (unsigned char)(bits >> 8 * i);
}

void redlock_add_epoch(struct redlock_round *round, const struct hfi_epoch *epoch)
{
    unsigned char bytes[REDLOCK_EPOCH_LEN];

    redlock_put_epoch(bytes, epoch);
    hfi_command_add(&round->command, bytes, sizeof bytes);
}

void redlock_put_epoch(unsigned char ret_bytes[REDLOCK_EPOCH_LEN], const struct hfi_epoch *epoch)
{
    redlock_put_number(ret_bytes, epoch->number);
    memcpy(ret_bytes + 8, epoch->id, HFI_EPOCH_ID);
}

void redlock_put_lease(unsigned char ret_bytes[REDLOCK_LEASE_LEN], const unsigned char *owner,
                       uint64_t attempt)
{
    char hex[2 * HFI_OWNER_LEN + 1];

    ret_bytes[0] = 'l';
    for (unsigned i = 0; i < 4; i++)
        ret_bytes[1 + i] = (unsigned char)(attempt >> 8 * i);
    hfi_hex(owner, HFI_OWNER_LEN, hex);
    memcpy(ret_bytes + 5, hex, 2 * HFI_OWNER_LEN);
}

bool redlock_read_epoch(const struct hfi_reply *reply, struct hfi_epoch *ret_epoch)
{
    uint64_t bits = 0;
    double number;

    if (!reply || reply->type != HFI_REPLY_TEXT || reply->len != REDLOCK_EPOCH_LEN)
        return false;
    for (unsigned i = 0; i < 8; i++)
        bits |= (uint64_t)(unsigned char)reply->text[i] << 8 * i;
    memcpy(&number, &bits, sizeof number);
    if (!(number >= 1 && number < (double)HFI_TOKEN_LIMIT))
        return false;
    ret_epoch->number = (uint64_t)number;
    memcpy(ret_epoch->id, reply->text + 8, HFI_EPOCH_ID);
    return true;
}
