/* SPDX-License-Identifier: MIT */
/*
 * What the servers have of the user's scripts: load one, ask for several, flush all. In a cluster each
 * server has its own, so every master is asked, one after the other; twice is as good as once, so what was
 * not answered is sent again. Under the lock of the reactor.
 */
#include "engine/redis/script.h"

#include "util/alloc.h"

#include <string.h>

/* EXISTS: what is asked for, kept until the op is finished. */
struct asked {
    size_t count;
    char shas[][HFI_SCRIPT_SHA_LEN + 1];
};

static void send_next(struct redis_store *store, struct hfi_op *op);

/* ---- values ------------------------------------------------------------------------------------------ */

/* A list of `count` integers, all 1. NULL: out of memory. */
static hf_value *list_of_ones(size_t count)
{
    struct hf_value *root = hfi_malloc((count + 1) * sizeof *root);

    if (!root)
        return NULL;
    *root = (struct hf_value){ .kind = HF_VALUE_KIND_LIST, .items = root + 1, .count = count };
    for (size_t i = 1; i <= count; i++)
        root[i] = (struct hf_value){ .kind = HF_VALUE_KIND_INTEGER, .integer = 1 };
    return root;
}

static hf_value *sha_value(const char *sha)
{
    struct hf_value *root = hfi_malloc(sizeof *root + HFI_SCRIPT_SHA_LEN + 1);

    if (!root)
        return NULL;
    *root = (struct hf_value){ .kind = HF_VALUE_KIND_BYTES,
                               .bytes = (char *)(root + 1),
                               .len = HFI_SCRIPT_SHA_LEN };
    memcpy(root + 1, sha, HFI_SCRIPT_SHA_LEN + 1);
    return root;
}

static void finish(struct redis_store *store, struct hfi_op *op, hf_status status,
                   const hf_error *err)
{
    if (status != HF_OK) {
        hfi_free(op->u.script->ret_value);
        op->u.script->ret_value = NULL;
    }
    redis_script_finish(store, op, status, err);
}

/* ---- what one server answered --------------------------------------------------------------------------- */

/* What every server has so far: those of this one that it has, too. *ret_any: there is still one. */
static hf_status merge_exists(const struct hfi_reply *reply, hf_value *list, bool *ret_any)
{
    struct hf_value *items = list + 1;

    *ret_any = false;
    if (reply->type != HFI_REPLY_LIST || reply->count != list->count)
        return HF_CORRUPT;
    for (size_t i = 0; i < list->count; i++) {
        const struct hfi_reply *found = hfi_reply_at(reply, i, HFI_REPLY_INTEGER);

        if (!found)
            return HF_CORRUPT;
        if (found->integer != 1)
            items[i].integer = 0;
        *ret_any = *ret_any || items[i].integer;
    }
    return HF_OK;
}

/* The server names it as we do, or we would run another one by that name. */
static hf_status check_loaded(const struct hfi_reply *reply, const struct hfi_op *op)
{
    const struct redis_user_script *theirs = redis_op((struct hfi_op *)op)->script.kept;

    return reply->type == HFI_REPLY_TEXT && reply->len == HFI_SCRIPT_SHA_LEN &&
                   memcmp(reply->text, theirs->script.sha, HFI_SCRIPT_SHA_LEN) == 0
               ? HF_OK
               : HF_CORRUPT;
}

/* Ask the next server, or finish. */
static void one_answered(struct redis_call *call, enum hfi_outcome outcome,
                         const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct hfi_op *op = call->op;
    struct hfi_script_op *script = op->u.script;
    hf_status status = HF_OK;
    bool go_on = true;
    uint32_t next;

    if (outcome == HFI_REFUSED && reply) {
        hfi_free(script->ret_value);
        script->ret_value = NULL;
        redis_script_refused(store, op, reply, err);
        return;
    }
    if (outcome != HFI_ANSWERED) {
        finish(store, op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (script->verb == HFI_SCRIPT_EXISTS)
        status = merge_exists(reply, script->ret_value, &go_on);
    else if (script->verb == HFI_SCRIPT_LOAD)
        status = check_loaded(reply, op);
    next = store->slots && go_on ? redis_cluster_next(store, call->node + 1) : REDIS_NODE_ANY;
    if (status != HF_OK || next == REDIS_NODE_ANY) {
        finish(store, op, status, NULL);
        return;
    }
    redis_op(op)->script.node = next;
    send_next(store, op);
}

/* ---- asking ----------------------------------------------------------------------------------------------- */

static void add_words(struct hfi_command *command, struct hfi_op *op)
{
    const void *kept = redis_op(op)->script.kept;
    const struct redis_user_script *theirs = kept;
    const struct asked *asked = kept;

    hfi_command_add_text(command, "SCRIPT");
    switch (kept ? op->u.script->verb : HFI_SCRIPT_FLUSH) {
    case HFI_SCRIPT_LOAD:
        hfi_command_add_text(command, "LOAD");
        hfi_command_add(command, theirs->text, theirs->script.len);
        break;
    case HFI_SCRIPT_EXISTS:
        hfi_command_add_text(command, "EXISTS");
        for (size_t i = 0; i < asked->count; i++)
            hfi_command_add_text(command, asked->shas[i]);
        break;
    default:
        hfi_command_add_text(command, "FLUSH");
        break;
    }
}

static void send_next(struct redis_store *store, struct hfi_op *op)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, one_answered, NULL);

    if (!call) {
        finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->idempotent = true;
    /* Whether a script compiles is between its author and the server. */
    call->user_script = op->u.script->verb == HFI_SCRIPT_LOAD;
    if (store->slots)
        call->node = redis_op(op)->script.node;
    add_words(&call->command, op);
    redis_call_send(call);
}

static bool keep_asked(struct hfi_op *op)
{
    struct hfi_script_op *script = op->u.script;
    struct asked *asked = hfi_malloc(sizeof *asked + script->count * sizeof asked->shas[0]);

    redis_op(op)->script.kept = asked;
    script->ret_value = list_of_ones(script->count);
    if (!asked || !script->ret_value)
        return false;
    asked->count = script->count;
    for (size_t i = 0; i < script->count; i++)
        redis_script_sha(script->texts[i],
                         script->lens ? script->lens[i] : strlen(script->texts[i]), asked->shas[i]);
    return true;
}

static bool keep_loaded(struct hfi_op *op)
{
    struct hfi_script_op *script = op->u.script;
    struct redis_user_script *theirs = redis_user_script_new(script->texts[0], script->lens[0]);

    redis_op(op)->script.kept = theirs;
    script->ret_value = theirs ? sha_value(theirs->script.sha) : NULL;
    return script->ret_value;
}

void redis_script_cache(struct redis_store *store, struct hfi_op *op)
{
    const struct hfi_script_op *script = op->u.script;
    bool kept = true;

    redis_op(op)->script.kept = NULL;
    if (script->verb == HFI_SCRIPT_LOAD)
        kept = keep_loaded(op);
    else if (script->verb == HFI_SCRIPT_EXISTS)
        kept = keep_asked(op);
    if (!kept) {
        finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    redis_op(op)->script.node = store->slots ? redis_cluster_next(store, 0) : 0;
    send_next(store, op);
}
