/* SPDX-License-Identifier: MIT */
/*
 * hf_script_*() and hf_value_*(). The engine does the work. This file checks the arguments and
 * waits; if the engine has no scripts, the error text names an alternative.
 */
#include "engine/native.h"

#include "core/by_url.h"
#include "core/op.h"
#include "core/request.h"
#include "core/store.h"
#include "engine/redis/extension.h"
#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

#define ITEM_COST 32 /* what a key or an argument counts in addition to its bytes */

/* ---- the call -------------------------------------------------------------------------- */

static hf_status enter(hf_store *handle, const char *verb, struct hfi_store **ret_store,
                       hf_error *err)
{
    hf_status status = hfi_store_enter(handle, ret_store, err);

    if (status != HF_OK || hfi_store_promises(*ret_store)->caps & HF_CAP_SCRIPTS)
        return status;
    status = hfi_error_set(err, HF_UNSUPPORTED, 0,
                           "%s: %s: this engine runs no scripts; cells (bytes with a version, "
                           "compare and swap) do what one name needs",
                           (*ret_store)->host.location, verb);
    hfi_store_leave(*ret_store);
    return status;
}

/* Submit the op, and wait until the engine has finished it; op_timeout of the URL bounds that,
 * since a script may be slow. The op is never given up, so it may be on the stack. */
static hf_status run(struct hfi_store *store, struct hfi_script_op *op, const char *verb,
                     hf_error *err)
{
    struct hfi_job job;
    hf_status status;

    hfi_job_init(&job, store, HFI_OP_SCRIPT);
    job.op.u.script = op;
    hfi_job_submit(&job);
    (void)hfi_job_wait(&job, HFI_NEVER);
    status = hfi_op_status(&job.op);
    return status == HF_OK ? hfi_ok(err)
                           : hfi_store_error(store, verb, NULL, status, &job.op.error, err);
}

/* ---- running ------------------------------------------------------------------------------- */

/* Add up their sizes; false: one is NULL. */
static bool add_up(const char *const *items, const size_t *lens, size_t count, size_t *total)
{
    for (size_t i = 0; i < count && *total <= HF_SCRIPT_MAX; i++) {
        if (!items || !items[i])
            return false;
        *total += ITEM_COST + (lens ? lens[i] : strlen(items[i]));
    }
    return true;
}

/* After HF_OK *script has its full size and real lengths: the engine need not know
 * HF_CSTRING. */
static hf_status check(const hf_script_request *given, hf_script_request *script, hf_error *err)
{
    hf_status status =
        hfi_request_copy(script, sizeof *script, given, offsetof(hf_script_request, keys),
                         "HF_SCRIPT_REQUEST_INIT", err);
    size_t total;

    if (status != HF_OK)
        return status;
    if (!script->text)
        return hfi_error_set(err, HF_INVALID, 0, "text: NULL");
    if (script->text_len == HF_CSTRING)
        script->text_len = strlen(script->text);
    if (script->text_len == 0)
        return hfi_error_set(err, HF_INVALID, 0, "text: empty");
    total = script->text_len;
    if (!add_up(script->keys, script->key_lens, script->key_count, &total))
        return hfi_error_set(err, HF_INVALID, 0, "keys: NULL");
    if (!add_up(script->args, script->arg_lens, script->arg_count, &total))
        return hfi_error_set(err, HF_INVALID, 0, "args: NULL");
    if (total > HF_SCRIPT_MAX)
        return hfi_error_set(err, HF_INVALID, 0,
                             "script: longer than %d bytes with keys and arguments", HF_SCRIPT_MAX);
    return HF_OK;
}

hf_status hf_script_run(hf_store *handle, const hf_script_request *script, hf_value **ret_value,
                        hf_error *err)
{
    hf_script_request whole;
    struct hfi_script_op op = { .verb = HFI_SCRIPT_RUN, .script = &whole };
    struct hfi_store *store;
    hf_status status = enter(handle, "script", &store, err);

    if (status != HF_OK)
        return status;
    status = check(script, &whole, err);
    if (status == HF_OK)
        status = run(store, &op, "script", err);
    hfi_store_leave(store);
    if (status != HF_OK)
        return status;
    if (ret_value)
        *ret_value = op.ret_value;
    else
        hfi_free(op.ret_value);
    return HF_OK;
}

/* ---- what the server has ------------------------------------------------------------------- */

hf_status hf_script_exists(hf_store *handle, const char *text, size_t len, bool *ret_exists,
                           hf_error *err)
{
    struct hfi_script_op op = { .verb = HFI_SCRIPT_EXISTS, .text = text };
    struct hfi_store *store;
    hf_status status = enter(handle, "script exists", &store, err);

    if (status != HF_OK)
        return status;
    op.len = text && len == HF_CSTRING ? strlen(text) : len;
    if (!text || !ret_exists)
        status = hfi_error_set(err, HF_INVALID, 0, "%s: NULL", text ? "ret_exists" : "text");
    else if (op.len > HF_SCRIPT_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "text: more than %d bytes", HF_SCRIPT_MAX);
    else
        status = run(store, &op, "script exists", err);
    hfi_store_leave(store);
    if (status == HF_UNKNOWN) { /* it asks, and changes nothing */
        status = HF_UNAVAILABLE;
        if (err)
            err->status = status;
    }
    if (status == HF_OK)
        *ret_exists = op.ret_exists;
    return status;
}

hf_status hf_script_flush(hf_store *handle, hf_error *err)
{
    struct hfi_script_op op = { .verb = HFI_SCRIPT_FLUSH };
    struct hfi_store *store;
    hf_status status = enter(handle, "script flush", &store, err);

    if (status != HF_OK)
        return status;
    status = run(store, &op, "script flush", err);
    hfi_store_leave(store);
    return status;
}

/* ---- ending one ------------------------------------------------------------------------------- */

hf_status hf_script_kill(const char *url, int64_t wait_ms, hf_error *err)
{
    const struct hfi_redis_extension *redis;
    struct hfi_by_url at;
    hf_status status;

    if (wait_ms < 0 || wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative, or more than ten years");
    status = hfi_by_url_open(&at, url, HFI_REDIS_EXTENSION, sizeof *redis, err);
    if (status != HF_OK)
        return status;
    redis = at.extension;
    status = redis->kill_script(at.conf, wait_ms ? wait_ms : HF_SCRIPT_KILL_WAIT_MS, err);
    return hfi_by_url_close(&at, status, err);
}

/* ---- values ---------------------------------------------------------------------------------- */

hf_value_kind hf_value_get_kind(const hf_value *value)
{
    return value ? value->kind : HF_VALUE_KIND_NIL;
}

int64_t hf_value_get_integer(const hf_value *value)
{
    return value && value->kind == HF_VALUE_KIND_INTEGER ? value->integer : 0;
}

const char *hf_value_get_bytes(const hf_value *value, size_t *ret_len)
{
    if (ret_len)
        *ret_len = value ? value->len : 0;
    return value ? value->bytes : NULL;
}

size_t hf_value_get_count(const hf_value *value)
{
    return value ? value->count : 0;
}

const hf_value *hf_value_get_item(const hf_value *list, size_t index)
{
    return list && index < list->count ? &list->items[index] : NULL;
}
