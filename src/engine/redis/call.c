/* SPDX-License-Identifier: MIT */
/* One command under way: built here, sent by net_send.c, answered exactly once. */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <string.h>

struct redis_call *redis_call_new(struct hfi_conn *conn, const struct hfi_script *script,
                                  uint32_t key_count, redis_answer_fn *answer, struct hfi_op *op)
{
    bool must = answer == redis_cancelled || (op && op->kind == HFI_OP_RELEASE);
    struct redis_call *call = (struct redis_call *)hfi_request_new(&conn->requests, must);

    if (!call) {
        if (op)
            redis_finish(conn, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->conn = conn;
    call->answer = answer;
    call->op = op;
    call->data = NULL;
    call->first_ms = 0;
    call->hasty = false;
    call->again = call->was_sent = call->copied = call->asking = call->synced = false;
    call->theirs = false;
    call->hops = call->tries = 0;
    call->node = REDIS_NODE_ANY;
    call->sent_to = NULL;
    if (script)
        hfi_command_init_script(&call->command, script, key_count);
    else
        hfi_command_init(&call->command);
    return call;
}

void redis_call_free(struct redis_call *call)
{
    hfi_command_done(&call->command);
    hfi_request_free(&call->conn->requests, &call->request);
}

void redis_call_send(struct redis_call *call)
{
    hf_error err;

    if (call->command.failed) {
        hfi_error_memory(&err);
        redis_call_end(call, HFI_UNSENT, &err);
        return;
    }
    if (call->request.give_up_ms == 0)
        call->request.give_up_ms = hfi_now_ms() + call->conn->conf->op_ms;
    redis_net_send(call->conn, call);
}

void redis_call_end(struct redis_call *call, enum hfi_outcome outcome, const hf_error *err)
{
    if (outcome != HFI_ANSWERED && call->was_sent)
        outcome =
            HFI_MAYBE; /* an earlier copy may have been executed, whatever became of this one */
    call->answer(call, outcome, NULL, err);
    redis_call_free(call);
}

/* ---- replicas ---------------------------------------------------------------------- */

struct redis_call *redis_wait_call(struct hfi_conn *conn, redis_answer_fn *answer)
{
    struct redis_call *call = redis_call_new(conn, NULL, 0, answer, NULL);

    if (!call)
        return NULL;
    call->synced = true;
    hfi_command_add_text(&call->command, "WAIT");
    hfi_command_add_number(&call->command, conn->conf->sync);
    hfi_command_add_number(&call->command, conn->conf->sync_ms);
    return call;
}

bool redis_wait_enough(const struct hfi_conn *conn, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, hf_error *ret_err)
{
    if (outcome != HFI_ANSWERED || reply->type != HFI_REPLY_INTEGER) {
        hfi_error_set(ret_err, HF_UNAVAILABLE, 0, "sync: it is not known which replicas have it");
        return false;
    }
    if (reply->integer >= conn->conf->sync)
        return true;
    hfi_error_set(ret_err, HF_UNAVAILABLE, 0, "sync: %lld of %u replicas had it in time",
                  (long long)reply->integer, conn->conf->sync);
    return false;
}

/* ---- arguments -------------------------------------------------------------------- */

/* "P{T}" into ret_key; returns its length. The name's braces are escaped, so that the tag is the
 * whole name and every key of a name is in one slot. */
static size_t name_key(const struct hfi_conn *conn, const struct hfi_name *name,
                       char ret_key[REDIS_KEY_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = strlen(conn->conf->prefix);

    memcpy(ret_key, conn->conf->prefix, len);
    ret_key[len++] = '{';
    for (uint32_t i = 0; i < name->len; i++) {
        unsigned char byte = name->bytes[i];

        if (byte == '%' || byte == '{' || byte == '}') {
            ret_key[len++] = '%';
            ret_key[len++] = digits[byte >> 4];
            ret_key[len++] = digits[byte & 15];
        } else {
            ret_key[len++] = (char)byte;
        }
    }
    ret_key[len++] = '}';
    return len;
}

uint32_t redis_name_slot(const struct hfi_conn *conn, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];

    return hfi_key_slot(key, name_key(conn, name, key));
}

static void set_slot(struct redis_call *call, const char *key, size_t len)
{
    if (call->conn->slots)
        call->command.slot = hfi_key_slot(key, len);
}

void redis_add_keys(struct redis_call *call, const struct hfi_name *name, bool all)
{
    char key[REDIS_KEY_MAX];
    size_t len = name_key(call->conn, name, key);

    set_slot(call, key, len);
    hfi_command_add(&call->command, key, len);
    if (!all)
        return;
    key[len] = ':';
    key[len + 1] = 'w';
    hfi_command_add(&call->command, key, len + 2);
    key[len + 1] = 'q';
    hfi_command_add(&call->command, key, len + 2);
}

size_t redis_cell_key(const struct hfi_conn *conn, const struct hfi_name *name,
                      char ret_key[REDIS_KEY_MAX])
{
    size_t len = name_key(conn, name, ret_key);

    memcpy(ret_key + len, ":c", 2);
    return len + 2;
}

void redis_add_cell_key(struct redis_call *call, const struct hfi_name *name)
{
    char key[REDIS_KEY_MAX];
    size_t len = redis_cell_key(call->conn, name, key);

    set_slot(call, key, len);
    hfi_command_add(&call->command, key, len);
}

void redis_add_owner(struct redis_call *call, const unsigned char *owner)
{
    char hex[2 * HFI_OWNER_LEN + 1];

    hfi_hex(owner, HFI_OWNER_LEN, hex);
    hfi_command_add(&call->command, hex, 2 * HFI_OWNER_LEN);
}

/* ---- answers ------------------------------------------------------------------------- */

char redis_letter(const struct hfi_reply *reply)
{
    const struct hfi_reply *first = hfi_reply_at(reply, 0, HFI_REPLY_TEXT);

    return first && first->len == 1 ? first->text[0] : 0;
}

/* Was it lost before? If an earlier copy of the release may have been executed, nobody can tell that from its being
 * given back. Core asks once more, and that answer settles it. */
void redis_finish_gone(struct redis_call *call)
{
    hf_error err;

    hfi_error_set(&err, HF_UNKNOWN, 0,
                  "the connection broke, and the lease is not there any more: it was released, or "
                  "lost before");
    if (call->was_sent)
        redis_finish(call->conn, call->op, HF_UNKNOWN, &err);
    else
        redis_finish(call->conn, call->op, HF_LOST, NULL);
}

void redis_finish_odd(struct hfi_conn *conn, struct hfi_op *op, const struct hfi_reply *reply)
{
    hf_error err;

    (void)reply;
    hfi_error_set(&err, HF_CORRUPT, 0, "the server gave an answer that none of our scripts gives");
    redis_finish(conn, op, HF_CORRUPT, &err);
}
