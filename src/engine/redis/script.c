/* SPDX-License-Identifier: MIT */
/*
 * Scripts of the user: running one.
 *
 * A script is sent as EVALSHA, and as EVAL if the server answers NOSCRIPT: then it has not run. (One
 * that the caller knows by its SHA-1 only cannot be sent whole.) It is not sent a second time for any
 * other reason, since only its author knows whether that would do harm. So, unlike for our own scripts,
 * an error that means "try again later" is passed on: a script can return any error itself.
 */
#include "engine/redis/script.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/sha1.h"
#include "util/text.h"

#include <string.h>

static void ran(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                const hf_error *err);

static void run(struct redis_store *store, struct hfi_op *op);
static void sha_of(const char *text, size_t len, char ret_sha[HFI_SCRIPT_SHA_LEN + 1]);

void redis_script(void *self, struct hfi_op *op)
{
    if (op->u.script->verb == HFI_SCRIPT_RUN)
        run(self, op);
    else
        redis_script_cache(self, op);
}

void redis_script_finish(struct redis_store *store, struct hfi_op *op, hf_status status,
                         const hf_error *err)
{
    hfi_free(redis_op(op)->script.kept);
    redis_op(op)->script.kept = NULL;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

struct redis_user_script *redis_user_script_new(const char *text, size_t len)
{
    struct redis_user_script *theirs = hfi_malloc(sizeof *theirs + len + 1);

    if (!theirs)
        return NULL;
    memcpy(theirs->text, text, len);
    theirs->text[len] = 0;
    theirs->script = (struct hfi_script){ .name = "theirs", .text = theirs->text, .len = len };
    sha_of(text, len, theirs->script.sha);
    return theirs;
}

static void sha_of(const char *text, size_t len, char ret_sha[HFI_SCRIPT_SHA_LEN + 1])
{
    unsigned char digest[HFI_SHA1_LEN];

    hfi_sha1(text, len, digest);
    hfi_hex(digest, sizeof digest, ret_sha);
}

void redis_script_sha(const char *text, size_t len, char ret_sha[HFI_SCRIPT_SHA_LEN + 1])
{
    unsigned char digest[HFI_SHA1_LEN];

    if (len != HFI_SCRIPT_SHA_LEN || !hfi_unhex(text, len, digest, sizeof digest))
        hfi_sha1(text, len, digest);
    hfi_hex(digest, sizeof digest, ret_sha); /* SCRIPT EXISTS knows lower case only */
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

/* The script as it is kept: its text, or the SHA-1 that the caller gave. */
static struct redis_user_script *keep(const hf_script_request *script)
{
    struct redis_user_script *theirs;

    if (script->text)
        return redis_user_script_new(script->text, script->text_len);
    theirs = redis_user_script_new(script->sha1, HFI_SCRIPT_SHA_LEN);
    if (!theirs)
        return NULL;
    redis_script_sha(script->sha1, HFI_SCRIPT_SHA_LEN, theirs->script.sha);
    theirs->script.text = NULL;
    return theirs;
}

static void run(struct redis_store *store, struct hfi_op *op)
{
    const hf_script_request *script = op->u.script->script;
    struct redis_user_script *theirs = keep(script);
    struct redis_call *call;
    uint32_t slot = HFI_SLOT_ANY;

    redis_op(op)->script.kept = theirs;
    if (theirs && !find_slot(store, script, &slot)) {
        redis_script_finish(store, op, HF_INVALID,
                            &(hf_error){ .text = "keys: in a cluster all of them must be of one "
                                                 "slot; {the same tag} makes them so" });
        return;
    }
    call = theirs ? redis_call_new(store, &theirs->script, (uint32_t)script->key_count, ran, NULL)
                  : NULL;
    if (!call) {
        redis_script_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->op = op;
    call->user_script = true;
    call->command.slot = slot;
    call->command.read_only = script->flags & HF_SCRIPT_FLAG_READ_ONLY;
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

/* "ERR unknown command 'EVALSHA_RO', with args ...", or with backquotes: it is tried before EVAL_RO. */
static bool lacks_read_only(const struct hfi_reply *reply)
{
    static const char words[] = "ERR unknown command", command[] = "EVALSHA_RO";
    const size_t from = sizeof words - 1, behind = from + 2; /* a blank, a quote */

    return reply->len >= behind + sizeof command - 1 && memcmp(reply->text, words, from) == 0 &&
           memcmp(reply->text + behind, command, sizeof command - 1) == 0;
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
    if (hfi_reply_is_noscript(reply))
        return hfi_error_set(
            err, HF_NOT_FOUND, 0,
            "NOSCRIPT: the server has no script with this SHA-1; load it, or run its text");
    if (lacks_read_only(reply))
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "the server has no EVAL_RO, which came with Redis 7.0");
    if (inside || !is_refusal(reply))
        return HF_INVALID;
    if (hfi_reply_is_error(reply, "BUSY"))
        hfi_error_wrap(err, "another script runs for too long, and can be killed");
    return err->status;
}

void redis_script_refused(struct redis_store *store, struct hfi_op *op,
                          const struct hfi_reply *reply, const hf_error *err)
{
    hf_error said = *err;
    hf_status status = judge(reply, &said);

    redis_script_finish(store, op, status, &said);
}

static void ran(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                const hf_error *err)
{
    struct redis_store *store = call->store;

    if (outcome == HFI_REFUSED && reply) {
        redis_script_refused(store, call->op, reply, err);
        return;
    }
    if (outcome != HFI_ANSWERED) {
        redis_script_finish(store, call->op, hfi_outcome_status(outcome, err), err);
        return;
    }
    call->op->u.script->ret_value = copy_tree(reply);
    if (call->op->u.script->ret_value)
        redis_script_finish(store, call->op, HF_OK, NULL);
    else
        redis_script_finish(
            store, call->op, HF_UNKNOWN,
            &(hf_error){ .text = "it ran, but there is no memory for what it answered" });
}
