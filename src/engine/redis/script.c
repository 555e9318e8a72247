/* SPDX-License-Identifier: MIT */
/*
 * Scripts of the user: run one, ask whether the server has it, flush all.
 *
 * A script is sent as EVALSHA, and as EVAL if the server answers NOSCRIPT: then it has not run. It
 * is not sent a second time for any other reason, since only its author knows whether that would do
 * harm. So, unlike for our own scripts, an error that means "try again later" is passed on: a
 * script can return any error itself.
 */
#include "engine/redis/internal.h"

#include "engine/native.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/sha1.h"
#include "util/text.h"

#include <string.h>

/* Kept until the op is finished: the command is built from it when it is sent. */
struct user_script {
    struct hfi_script script;
    char text[];
};

static void ran(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                const hf_error *err);
static void send_to_all(struct redis_store *store, struct hfi_op *op);

static void finish(struct redis_store *store, struct hfi_op *op, hf_status status,
                   const hf_error *err)
{
    hfi_free(redis_op(op)->script.text);
    redis_op(op)->script.text = NULL;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

static void sha_of(const char *text, size_t len, char ret_sha[HFI_SCRIPT_SHA_LEN + 1])
{
    unsigned char digest[HFI_SHA1_LEN];

    hfi_sha1(text, len, digest);
    hfi_hex(digest, sizeof digest, ret_sha);
}

/* ---- running ---------------------------------------------------------------------------- */

static size_t length(const char *const *items, const size_t *lens, size_t i)
{
    return lens ? lens[i] : strlen(items[i]);
}

/* In a cluster all keys must be on one server, or no server can run the script. */
static bool find_slot(const struct redis_store *store, const hf_script_request *script,
                      uint32_t *ret_slot)
{
    *ret_slot = HFI_SLOT_ANY;
    for (size_t i = 0; store->slots && i < script->key_count; i++) {
        uint32_t slot = hfi_key_slot(script->keys[i], length(script->keys, script->key_lens, i));

        if (*ret_slot != HFI_SLOT_ANY && *ret_slot != slot)
            return false;
        *ret_slot = slot;
    }
    return true;
}

static void run(struct redis_store *store, struct hfi_op *op)
{
    const hf_script_request *script = op->u.script->script;
    size_t len = script->text_len;
    struct user_script *theirs = hfi_malloc(sizeof *theirs + len + 1);
    struct redis_call *call;
    uint32_t slot;

    if (!theirs) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    redis_op(op)->script.text = theirs;
    if (!find_slot(store, script, &slot)) {
        finish(store, op, HF_INVALID,
               &(hf_error){ .text = "keys: in a cluster all of them must be of one slot; {the same "
                                    "tag} makes them so" });
        return;
    }
    memcpy(theirs->text, script->text, len);
    theirs->text[len] = 0;
    theirs->script = (struct hfi_script){ .name = "theirs", .text = theirs->text, .len = len };
    sha_of(theirs->text, len, theirs->script.sha);

    call = redis_call_new(store, &theirs->script, (uint32_t)script->key_count, ran, NULL);
    if (!call) {
        finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->user_script = true;
    call->command.slot = slot;
    for (size_t i = 0; i < script->key_count; i++)
        hfi_command_add(&call->command, script->keys[i], length(script->keys, script->key_lens, i));
    for (size_t i = 0; i < script->arg_count; i++)
        hfi_command_add(&call->command, script->args[i], length(script->args, script->arg_lens, i));
    redis_call_send(call);
}

/* ---- what it answered --------------------------------------------------------------------- */

/* How much memory a reply's tree needs: values, and bytes with a NUL each. */
static void measure(const struct hfi_reply *reply, size_t *values, size_t *bytes)
{
    *values += 1;
    if (reply->type == HFI_REPLY_TEXT || reply->type == HFI_REPLY_STATE ||
        reply->type == HFI_REPLY_ERROR)
        *bytes += reply->len + 1;
    for (size_t i = 0; reply->type == HFI_REPLY_LIST && i < reply->count; i++)
        measure(&reply->items[i], values, bytes);
}

/* The next free value and byte of the block. */
struct room {
    struct hf_value *values;
    char *bytes;
};

static void copy(const struct hfi_reply *reply, struct hf_value *to, struct room *room)
{
    static const hf_value_kind kinds[] = {
        [HFI_REPLY_NIL] = HF_VALUE_KIND_NIL,     [HFI_REPLY_INTEGER] = HF_VALUE_KIND_INTEGER,
        [HFI_REPLY_TEXT] = HF_VALUE_KIND_BYTES,  [HFI_REPLY_STATE] = HF_VALUE_KIND_STATE,
        [HFI_REPLY_ERROR] = HF_VALUE_KIND_ERROR, [HFI_REPLY_LIST] = HF_VALUE_KIND_LIST,
    };
    struct hf_value *items;

    *to = (struct hf_value){ .kind = kinds[reply->type] };
    if (reply->type == HFI_REPLY_INTEGER) {
        to->integer = reply->integer;
    } else if (reply->type == HFI_REPLY_LIST) {
        items = room->values;
        room->values += reply->count;
        to->items = items;
        to->count = reply->count;
        for (size_t i = 0; i < reply->count; i++)
            copy(&reply->items[i], &items[i], room);
    } else if (reply->type != HFI_REPLY_NIL) {
        to->bytes = room->bytes;
        to->len = reply->len;
        if (reply->len > 0)
            memcpy(room->bytes, reply->text, reply->len);
        room->bytes[reply->len] = 0;
        room->bytes += reply->len + 1;
    }
}

static hf_value *copy_tree(const struct hfi_reply *reply)
{
    size_t values = 0, bytes = 0;
    struct hf_value *root;

    measure(reply, &values, &bytes);
    root = hfi_malloc(values * sizeof *root + bytes);
    if (root)
        copy(reply, root, &(struct room){ root + 1, (char *)(root + values) });
    return root;
}

static bool has_words(const struct hfi_reply *reply, const char *words)
{
    return memmem(reply->text, reply->len, words, strlen(words)) != NULL;
}

/* Errors with which the server itself refuses a command before it begins. */
static const struct {
    const char *code, *words;
} refusals[] = {
    { "NOAUTH", "Authentication" },
    { "NOPERM", "permissions" },
    { "DENIED", "protected mode" },
    { "READONLY", "You can't write" },
    { "MASTERDOWN", "MASTER is down" },
    { "CLUSTERDOWN", "The cluster is down" },
    { "CLUSTERDOWN", "not served" },
    { "LOADING", "is loading" },
    { "MISCONF", "is configured" },
    { "MISCONF", "Errors writing" },
    { "BUSY", "is busy" },
    { "NOREPLICAS", "Not enough" },
    { "OOM", "command not allowed" },
    { "MOVED", "" },
    { "ASK", "" },
    { "TRYAGAIN", "Multiple keys" },
};

static bool is_refusal(const struct hfi_reply *reply)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (hfi_reply_is_error(reply, refusals[i].code) && has_words(reply, refusals[i].words))
            return true;
    return false;
}

/*
 * What an error means. Redis 7 says where in a script something failed ("... script: 5f0d..., on
 * @user_script:1."), Redis 6.2 wraps it ("ERR Error running script ..."): such a script has begun.
 * Without that, a text of the server's own means that it was refused before it began; any other
 * text comes from the script.
 */
static hf_status judge(const struct hfi_reply *reply, hf_error *err)
{
    bool inside = has_words(reply, " script: ") && has_words(reply, "user_script");

    if (has_words(reply, "Script killed by user"))
        return HF_CANCELLED;
    if (inside || !is_refusal(reply))
        return HF_INVALID;
    if (hfi_reply_is_error(reply, "BUSY"))
        hfi_error_wrap(err, "another script runs for too long, and can be killed");
    return err->status;
}

static void ran(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                const hf_error *err)
{
    struct redis_store *store = call->store;
    hf_error said;
    hf_status status;

    if (outcome == HFI_REFUSED && reply) {
        said = *err;
        status = judge(reply, &said);
        finish(store, call->op, status, &said);
        return;
    }
    if (outcome != HFI_ANSWERED) {
        finish(store, call->op, hfi_outcome_status(outcome, err), err);
        return;
    }
    call->op->u.script->ret_value = copy_tree(reply);
    if (call->op->u.script->ret_value)
        finish(store, call->op, HF_OK, NULL);
    else
        finish(store, call->op, HF_UNKNOWN,
               &(hf_error){ .text = "it ran, but there is no memory for what it answered" });
}

/* ---- what the servers have ------------------------------------------------------------------ */

/* Ask the next server, or finish. In a cluster each server has its own scripts. */
static void all_answered(struct redis_call *call, enum hfi_outcome outcome,
                         const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct hfi_op *op = call->op;
    struct hfi_script_op *script = op->u.script;
    const struct hfi_reply *found = hfi_reply_at(reply, 0, HFI_REPLY_INTEGER);
    bool flush = script->verb == HFI_SCRIPT_FLUSH;

    if (outcome != HFI_ANSWERED) {
        finish(store, op, hfi_outcome_status(outcome, err), err);
        return;
    }
    if (!flush && !found) {
        finish(store, op, HF_CORRUPT, NULL);
        return;
    }
    script->ret_exists = found && found->integer == 1;
    if (store->slots && (flush || script->ret_exists)) {
        uint32_t next = redis_cluster_next(store, call->node + 1);

        if (next != REDIS_NODE_ANY) {
            redis_op(op)->script.node = next;
            send_to_all(store, op);
            return;
        }
    }
    finish(store, op, HF_OK, NULL);
}

static void send_to_all(struct redis_store *store, struct hfi_op *op)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, all_answered, NULL);

    if (!call) {
        finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->idempotent = true; /* twice is as good as once */
    if (store->slots)
        call->node = redis_op(op)->script.node;
    hfi_command_add_text(&call->command, "SCRIPT");
    if (op->u.script->verb == HFI_SCRIPT_FLUSH) {
        hfi_command_add_text(&call->command, "FLUSH");
    } else {
        hfi_command_add_text(&call->command, "EXISTS");
        hfi_command_add_text(&call->command, redis_op(op)->script.text);
    }
    redis_call_send(call);
}

static bool is_sha(const char *text, size_t len)
{
    unsigned char digest[HFI_SHA1_LEN];

    return len == HFI_SCRIPT_SHA_LEN && hfi_unhex(text, len, digest, sizeof digest);
}

void redis_script(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    const struct hfi_script_op *script = op->u.script;
    char *sha = NULL;

    if (script->verb == HFI_SCRIPT_RUN) {
        run(store, op);
        return;
    }
    if (script->verb == HFI_SCRIPT_EXISTS) {
        sha = hfi_malloc(HFI_SCRIPT_SHA_LEN + 1);
        if (!sha) {
            hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
            return;
        }
        if (is_sha(script->text, script->len))
            memcpy(sha, script->text, HFI_SCRIPT_SHA_LEN);
        else
            sha_of(script->text, script->len, sha);
        sha[HFI_SCRIPT_SHA_LEN] = 0;
    }
    redis_op(op)->script.text = sha;
    redis_op(op)->script.node = store->slots ? redis_cluster_next(store, 0) : 0;
    send_to_all(store, op);
}
