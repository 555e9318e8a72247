/* SPDX-License-Identifier: MIT */
/*
 * hf_script_*() and hf_value_*(), in both forms. The engine does the work; this file checks the
 * arguments, and if the engine has no scripts, the error text names an alternative. A call is a
 * task of one action (task.h). It is never given up: a script may be slow, and op_timeout of the
 * URL ends it.
 */
#include "core/by_url.h"
#include "core/request.h"
#include "engine/redis/extension.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/error.h"

#include <string.h>

#define ITEM_COST 32 /* what a key or an argument counts in addition to its bytes */

struct script_call {
    struct hfi_prim_task task;
    hf_script_request whole; /* used while the call begins, with all that it points to */
    const char *text;        /* likewise, of a call that has one; HF_CSTRING is known here only */
    size_t len;
};

/* ---- the call -------------------------------------------------------------------------- */

/* After HF_OK the store is entered. */
static hf_status enter(struct script_call *call, hf_store *handle, enum hfi_script_verb verb,
                       const char *name, hf_error *err)
{
    struct hfi_prim *prim = &call->task.prim;
    hf_status status;

    hfi_prim_task_init_act(&call->task, HFI_ACT_SCRIPT);
    call->task.action.native.script.verb = verb;
    *prim = (struct hfi_prim){ .handle = handle, .verb = name };
    status = hfi_store_enter(handle, &prim->store, err);
    if (status != HF_OK || hfi_prim_caps(prim) & HF_CAP_SCRIPTS)
        return status;
    status = hfi_prim_unsupported(prim->store, name, HF_CAP_SCRIPTS, err);
    hfi_prim_leave(prim);
    return status;
}

/* The arguments have been checked with `status`. The store is left if that is not HF_OK. */
static hf_status checked(struct script_call *call, hf_status status)
{
    if (status != HF_OK)
        hfi_prim_leave(&call->task.prim);
    return status;
}

static struct hfi_script_op *script_of(struct script_call *call)
{
    return &call->task.action.native.script;
}

/* ---- running ------------------------------------------------------------------------------- */

static bool is_sha(const char *text)
{
    return strnlen(text, HF_SCRIPT_SHA1_LEN + 1) == HF_SCRIPT_SHA1_LEN &&
           strspn(text, "0123456789abcdefABCDEF") == HF_SCRIPT_SHA1_LEN;
}

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

/* A text, or a SHA-1. */
static hf_status check_which(hf_script_request *script, hf_error *err)
{
    if (script->text && script->sha1)
        return hfi_error_set(err, HF_INVALID, 0, "sha1: there is a text, too");
    if (!script->text && !script->sha1)
        return hfi_error_set(err, HF_INVALID, 0, "text: NULL, and there is no sha1");
    if (script->sha1) {
        script->text_len = 0;
        return is_sha(script->sha1) ? HF_OK
                                    : hfi_error_set(err, HF_INVALID, 0, "sha1: not %d hex digits",
                                                    HF_SCRIPT_SHA1_LEN);
    }
    if (script->text_len == HF_CSTRING)
        script->text_len = strlen(script->text);
    if (script->text_len == 0)
        return hfi_error_set(err, HF_INVALID, 0, "text: empty");
    return HF_OK;
}

/* After HF_OK *script has its full size and real lengths: the engine need not know
 * HF_CSTRING. */
static hf_status check(const hf_script_request *given, hf_script_request *script, hf_error *err)
{
    hf_status status =
        hfi_request_copy(script, sizeof *script, given, offsetof(hf_script_request, keys),
                         "HF_SCRIPT_REQUEST_INIT", err);
    size_t total;

    if (status == HF_OK)
        status = check_which(script, err);
    if (status != HF_OK)
        return status;
    if (script->flags & ~HF_SCRIPT_FLAG_READ_ONLY)
        return hfi_error_set(err, HF_INVALID, 0, "flags: bits that are none of HF_SCRIPT_FLAG_*");
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

static hf_status prepare_run(struct script_call *call, hf_store *store,
                             const hf_script_request *script, hf_error *err)
{
    hf_status status = enter(call, store, HFI_SCRIPT_RUN, "script", err);

    if (status != HF_OK)
        return status;
    script_of(call)->script = &call->whole;
    return checked(call, check(script, &call->whole, err));
}

hf_status hf_script_run(hf_store *store, const hf_script_request *script, hf_value **ret_value,
                        hf_error *err)
{
    struct script_call call;
    hf_status status = prepare_run(&call, store, script, err);

    if (status == HF_OK)
        status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_value)
        *ret_value = script_of(&call)->ret_value;
    else if (status == HF_OK)
        hfi_free(script_of(&call)->ret_value);
    return status;
}

static void finish_run(struct hfi_prim_task *task, hf_result *result)
{
    if (result->status == HF_OK)
        result->value = task->action.native.script.ret_value;
}

hf_status hf_script_run_async(hf_store *store, const hf_script_request *script, hf_done_fn *done,
                              void *arg, hf_op **ret_op, hf_error *err)
{
    struct script_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_run(call, store, script, err), finish_run, done,
                               arg, ret_op, err);
}

/* ---- what the server has ------------------------------------------------------------------- */

static hf_status prepare_text(struct script_call *call, hf_store *store, enum hfi_script_verb verb,
                              const char *text, size_t len, hf_error *err)
{
    hf_status status =
        enter(call, store, verb, verb == HFI_SCRIPT_LOAD ? "script load" : "script exists", err);
    struct hfi_script_op *op = script_of(call);

    if (status != HF_OK)
        return status;
    call->text = text;
    call->len = text && len == HF_CSTRING ? strlen(text) : len;
    op->texts = &call->text;
    op->lens = &call->len;
    op->count = 1;
    if (!text)
        status = hfi_error_set(err, HF_INVALID, 0, "text: NULL");
    else if (call->len == 0 && verb == HFI_SCRIPT_LOAD)
        status = hfi_error_set(err, HF_INVALID, 0, "text: empty");
    else if (call->len > HF_SCRIPT_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "text: more than %d bytes", HF_SCRIPT_MAX);
    return checked(call, status);
}

hf_status hf_script_load(hf_store *store, const char *text, size_t len,
                         char ret_sha1[HF_SCRIPT_SHA1_LEN + 1], hf_error *err)
{
    struct script_call call;
    hf_status status = prepare_text(&call, store, HFI_SCRIPT_LOAD, text, len, err);

    if (status == HF_OK)
        status = hfi_prim_task_run(&call.task, err);
    if (status != HF_OK)
        return status;
    if (ret_sha1)
        memcpy(ret_sha1, script_of(&call)->ret_value->bytes, HF_SCRIPT_SHA1_LEN + 1);
    hfi_free(script_of(&call)->ret_value);
    return HF_OK;
}

hf_status hf_script_load_async(hf_store *store, const char *text, size_t len, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    struct script_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task,
                               prepare_text(call, store, HFI_SCRIPT_LOAD, text, len, err),
                               finish_run, done, arg, ret_op, err);
}

hf_status hf_script_exists(hf_store *store, const char *text, size_t len, bool *ret_exists,
                           hf_error *err)
{
    struct script_call call;
    hf_status status = prepare_text(&call, store, HFI_SCRIPT_EXISTS, text, len, err);

    if (status == HF_OK && !ret_exists)
        status = checked(&call, hfi_error_set(err, HF_INVALID, 0, "ret_exists: NULL"));
    if (status == HF_OK)
        status = hfi_prim_task_run(&call.task, err);
    if (status != HF_OK)
        return status;
    *ret_exists = script_of(&call)->ret_value->items[0].integer == 1;
    hfi_free(script_of(&call)->ret_value);
    return HF_OK;
}

static void finish_exists(struct hfi_prim_task *task, hf_result *result)
{
    hf_value *list = task->action.native.script.ret_value;

    if (result->status != HF_OK)
        return;
    result->number = list->items[0].integer;
    hfi_free(list);
}

hf_status hf_script_exists_async(hf_store *store, const char *text, size_t len, hf_done_fn *done,
                                 void *arg, hf_op **ret_op, hf_error *err)
{
    struct script_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task,
                               prepare_text(call, store, HFI_SCRIPT_EXISTS, text, len, err),
                               finish_exists, done, arg, ret_op, err);
}

static hf_status prepare_each(struct script_call *call, hf_store *store, const char *const *texts,
                              const size_t *lens, size_t count, hf_error *err)
{
    hf_status status = enter(call, store, HFI_SCRIPT_EXISTS, "script exists", err);
    struct hfi_script_op *op = script_of(call);
    size_t total = 0;

    if (status != HF_OK)
        return status;
    op->texts = texts;
    op->lens = lens;
    op->count = count;
    if (count == 0 || count > HF_SCRIPT_EXISTS_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "count: %zu, must be 1 to %d", count,
                               HF_SCRIPT_EXISTS_MAX);
    else if (!add_up(texts, lens, count, &total))
        status = hfi_error_set(err, HF_INVALID, 0, "texts: NULL");
    else if (total > HF_SCRIPT_MAX)
        status = hfi_error_set(err, HF_INVALID, 0, "texts: more than %d bytes", HF_SCRIPT_MAX);
    return checked(call, status);
}

hf_status hf_script_exists_each(hf_store *store, const char *const *texts, const size_t *lens,
                                size_t count, bool *ret_exists, hf_error *err)
{
    struct script_call call;
    hf_status status = prepare_each(&call, store, texts, lens, count, err);

    if (status == HF_OK && !ret_exists)
        status = checked(&call, hfi_error_set(err, HF_INVALID, 0, "ret_exists: NULL"));
    if (status == HF_OK)
        status = hfi_prim_task_run(&call.task, err);
    if (status != HF_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        ret_exists[i] = script_of(&call)->ret_value->items[i].integer == 1;
    hfi_free(script_of(&call)->ret_value);
    return HF_OK;
}

static void finish_each(struct hfi_prim_task *task, hf_result *result)
{
    finish_run(task, result);
    for (size_t i = 0; i < hf_value_get_count(result->value); i++)
        result->number += hf_value_get_integer(hf_value_get_item(result->value, i));
}

hf_status hf_script_exists_each_async(hf_store *store, const char *const *texts, const size_t *lens,
                                      size_t count, hf_done_fn *done, void *arg, hf_op **ret_op,
                                      hf_error *err)
{
    struct script_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task, prepare_each(call, store, texts, lens, count, err),
                               finish_each, done, arg, ret_op, err);
}

hf_status hf_script_flush(hf_store *store, hf_error *err)
{
    struct script_call call;
    hf_status status = enter(&call, store, HFI_SCRIPT_FLUSH, "script flush", err);

    return status == HF_OK ? hfi_prim_task_run(&call.task, err) : status;
}

hf_status hf_script_flush_async(hf_store *store, hf_done_fn *done, void *arg, hf_op **ret_op,
                                hf_error *err)
{
    struct script_call *call = hfi_prim_call_new(sizeof *call);

    if (!call)
        return hfi_error_memory(err);
    return hfi_prim_task_begin(&call->task,
                               enter(call, store, HFI_SCRIPT_FLUSH, "script flush", err), NULL,
                               done, arg, ret_op, err);
}

/* ---- ending one ------------------------------------------------------------------------------- */

/* It may be the store itself that is stuck behind the script, so this goes by a URL, over connections of its own. */
struct kill_call {
    struct hfi_by_url_task task;
    int64_t wait_ms;
};

static hf_status prepare_kill(struct kill_call *call, const char *url, int64_t wait_ms,
                              hf_error *err)
{
    if (wait_ms < 0 || wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative, or more than ten years");
    call->wait_ms = wait_ms ? wait_ms : HF_SCRIPT_KILL_WAIT_MS;
    return hfi_by_url_open(&call->task.at, url, HFI_REDIS_EXTENSION,
                           sizeof(struct hfi_redis_extension), err);
}

static hf_status kill_script(struct kill_call *call, hf_error *err)
{
    const struct hfi_redis_extension *redis = call->task.at.extension;

    return redis->kill_script(call->task.at.conf, call->wait_ms, err);
}

hf_status hf_script_kill(const char *url, int64_t wait_ms, hf_error *err)
{
    struct kill_call call;
    hf_status status = prepare_kill(&call, url, wait_ms, err);

    return status == HF_OK ? hfi_by_url_close(&call.task.at, kill_script(&call, err), err) : status;
}

static hf_status kill_work(struct hfi_task *task)
{
    return kill_script(hfi_container(task, struct kill_call, task.core), &task->child.error);
}

static hf_status kill_step(struct hfi_task *task, hf_status got)
{
    struct kill_call *call = hfi_container(task, struct kill_call, task.core);

    if (task->state++ == 0)
        return hfi_task_work(task, kill_work);
    task->error = task->child.error;
    return hfi_by_url_close(&call->task.at, got, &task->error);
}

hf_status hf_script_kill_async(hf_store *handle, const char *url, int64_t wait_ms, hf_done_fn *done,
                               void *arg, hf_op **ret_op, hf_error *err)
{
    struct kill_call *call = hfi_malloc(sizeof *call);
    hf_status status =
        call ? hfi_by_url_enter(&call->task, handle, kill_step, err) : hfi_error_memory(err);

    if (status != HF_OK) {
        hfi_free(call);
        return status;
    }
    return hfi_by_url_begin(&call->task, prepare_kill(call, url, wait_ms, err), done, arg, ret_op,
                            err);
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
