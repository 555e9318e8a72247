/* SPDX-License-Identifier: MIT */
/*
 * The callbacks of the library. In hf_store_process() they run on the environment's thread and call JavaScript at once: lib/ settles a
 * promise, whose reactions run when the callback scope of store.c is closed. On any other thread they write a letter.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* JavaScript that throws here is a defect of lib/, or the environment ends. */
static void call_js(struct store *store, napi_ref function, size_t count, const napi_value *values)
{
    napi_value resource, fn, ignored;
    bool thrown = false;

    if (napi_get_reference_value(store->env, store->resource, &resource) != napi_ok ||
        napi_get_reference_value(store->env, function, &fn) != napi_ok)
        return;
    napi_call_function(store->env, resource, fn, count, values, &ignored);
    if (napi_is_exception_pending(store->env, &thrown) == napi_ok && thrown &&
        napi_get_and_clear_last_exception(store->env, &ignored) == napi_ok)
        napi_fatal_exception(store->env, ignored);
}

/* ---- answers -------------------------------------------------------------------------------- */

void on_done(const hf_result *result, void *arg)
{
    struct slot *slot = arg;

    if (slot->store->dead)
        result_free(result); /* hf_close() is ending all of it */
    else if (store_here(slot->store))
        deliver_result(slot, result);
    else
        letter_answer(slot, result);
}

/* The lease that this call has replaced. A yield ends it if it gets no new one. If it was released meanwhile, the new one is held
 * once more, until lib/ gives it back. */
static void settle_moved(const struct slot *slot, struct slot *target, const hf_result *result)
{
    bool released = target->holds == 0;

    target->moving--;
    if (result->lease) {
        target->lease = result->lease;
        target->holds += released;
        if (!released)
            watch_resume(target);
    } else if (released || slot->ends) {
        slot_unhold(target);
    } else {
        watch_resume(target);
    }
}

/* The lease that this call has ended or replaced. */
static void settle_target(struct slot *slot, const hf_result *result)
{
    if (slot->target && slot->replaces)
        settle_moved(slot, slot->target, result);
    else if (slot->target && slot->ends)
        slot_unhold(slot->target);
}

void deliver_result(struct slot *slot, const hf_result *result)
{
    struct store *store = slot->store;
    napi_env env = store->env;
    napi_handle_scope scope;
    napi_value values[5];
    bool failed = result->status != HF_OK && result->error;

    store_ended(store);
    if (!store_enter_js(store) || napi_open_handle_scope(env, &scope) != napi_ok) {
        result_free(result);
        return;
    }
    settle_target(slot, result);
    values[0] = make_int(env, slot->index);
    values[1] = make_int(env, result->status);
    values[2] = result_value(env, slot, result); /* the slot may be that of a lease afterwards */
    values[3] = failed ? make_int(env, result->error->native) : NULL;
    values[4] = failed ? make_text(env, result->error->text) : NULL;
    if (slot->use == USE_CALL)
        slot_free(slot);
    call_js(store, store->deliver, failed ? 5 : 3, values);
    napi_close_handle_scope(env, scope);
}

/* ---- events --------------------------------------------------------------------------------- */

void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    struct slot *slot = arg;

    (void)lease;
    if (slot->store->dead)
        return;
    if (store_here(slot->store))
        deliver_event(slot, event, text);
    else
        letter_event(slot, event, text);
}

void deliver_event(struct slot *slot, hf_event event, const char *text)
{
    struct store *store = slot->store;
    napi_env env = store->env;
    napi_handle_scope scope;
    napi_value values[3];

    if (!store_enter_js(store) || napi_open_handle_scope(env, &scope) != napi_ok)
        return;
    if (slot->use == USE_CALL)
        slot->early = true;
    values[0] = make_int(env, slot->index);
    values[1] = make_int(env, event);
    values[2] = make_text(env, text);
    call_js(store, store->event, 3, values);
    napi_close_handle_scope(env, scope);
}

/* ---- updates -------------------------------------------------------------------------------- */

/* What lib/ answered: [action, bytes, ttl]. false: it cannot be read. */
static bool read_change(struct slot *slot, napi_value answer, hf_cell_change *change)
{
    napi_env env = slot->store->env;
    hf_error err = { .status = HF_OK };
    struct args args;
    struct bytes bytes;
    uint32_t count = 0;

    if (napi_get_array_length(env, answer, &count) != napi_ok || count == 0)
        return false;
    args_init(&args, env, slot->store, NULL);
    args.err = &err;
    change->action = (hf_cell_action)args_int(&args, args_item(&args, answer, 0));
    if (change->action == HF_CELL_ACTION_WRITE) {
        bytes = args_bytes(&args, args_item(&args, answer, 1), "bytes");
        change->ttl_ms = args_int(&args, args_item(&args, answer, 2));
        free(slot->written);
        slot->written = malloc(bytes.len + 1);
        if (slot->written && bytes.len > 0)
            memcpy(slot->written, bytes.at, bytes.len);
        change->bytes = slot->written;
        change->len = bytes.len;
    }
    args_done(&args);
    return err.status == HF_OK && (change->action != HF_CELL_ACTION_WRITE || slot->written);
}

hf_status on_update(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct slot *slot = arg;
    napi_env env = slot->store->env;
    napi_handle_scope scope;
    napi_value values[2], fn, resource, answer;
    bool ok;

    if (slot->store->dead || !store_here(slot->store) || !store_enter_js(slot->store) ||
        napi_open_handle_scope(env, &scope) != napi_ok)
        return HF_CANCELLED;
    values[0] = old->version ? make_bytes(env, old->bytes, old->len) : NULL;
    if (!values[0])
        napi_get_null(env, &values[0]);
    values[1] = make_big(env, old->version);
    ok = napi_get_reference_value(env, slot->fn, &fn) == napi_ok &&
         napi_get_reference_value(env, slot->store->resource, &resource) == napi_ok &&
         napi_call_function(env, resource, fn, 2, values, &answer) == napi_ok &&
         read_change(slot, answer, change);
    napi_close_handle_scope(env, scope);
    return ok ? HF_OK : HF_CANCELLED;
}
