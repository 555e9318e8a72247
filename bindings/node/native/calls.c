/* SPDX-License-Identifier: MIT */
/* The calls of holdfast.h that lib/ makes: each begins one asynchronous call. Their arguments follow the store. */
#include "internal.h"

#include <stdlib.h>

/* ---- acquiring ----------------------------------------------------------------------------- */

static hf_status begin_acquire(struct args *args, napi_value *value)
{
    hf_acquire_request request;

    args_request(args, value, args->slot, &request);
    return REFUSED(args) ? args->err->status
                         : hf_acquire_async(args->store->handle, &request, DONE(args));
}

/* Each request has a slot of its own, for its events. They are freed with what `done` brings; here only if nothing begins. */
static hf_acquire_request *read_requests(struct args *args, napi_value list, uint32_t *ret_count)
{
    uint32_t count = args_count(args, list);
    hf_acquire_request *requests = args_memory(args, (count + 1) * sizeof *requests);
    struct slot *slot = args->slot;
    napi_value value[8];

    slot->parts = calloc(count + 1, sizeof(struct slot *)); /* NOLINT */
    for (uint32_t i = 0; requests && slot->parts && i < count; i++) {
        napi_value packed = args_item(args, list, i);

        for (uint32_t k = 0; k < 8; k++)
            value[k] = args_item(args, packed, k);
        slot->parts[i] = slot_new(args->store, USE_CALL);
        if (!slot->parts[i])
            break;
        slot->part_count++;
        args_request(args, value, slot->parts[i], &requests[i]);
    }
    if (!REFUSED(args) && slot->part_count < count) {
        args->err->status = HF_NO_MEMORY;
        args->err->text[0] = '\0';
    }
    *ret_count = count;
    return requests;
}

static hf_status unless_begun(struct args *args, hf_status status)
{
    for (size_t i = 0; status != HF_OK && i < args->slot->part_count; i++)
        slot_free(args->slot->parts[i]);
    return status;
}

static hf_status begin_acquire_all(struct args *args, napi_value *value)
{
    uint32_t count;
    hf_acquire_request *requests = read_requests(args, value[0], &count);

    return unless_begun(args, REFUSED(args) ? args->err->status
                                            : hf_acquire_all_async(args->store->handle, requests,
                                                                   count, DONE(args)));
}

static hf_status begin_acquire_any(struct args *args, napi_value *value)
{
    uint32_t count;
    hf_acquire_request *requests = read_requests(args, value[0], &count);

    return unless_begun(args, REFUSED(args) ? args->err->status
                                            : hf_acquire_any_async(args->store->handle, requests,
                                                                   count, DONE(args)));
}

/* ---- leases -------------------------------------------------------------------------------- */

/* The lease that the call ends or replaces. NULL: refused. */
static hf_lease *target(struct args *args, napi_value value, bool ends, bool replaces)
{
    struct slot *lease = args_lease(args, value);

    args->slot->target = lease;
    args->slot->ends = ends;
    args->slot->replaces = replaces;
    if (lease)
        watch_pause(lease);
    return lease ? lease->lease : NULL;
}

/* While a yield waits, its lease has ended in the library: this release is refused, and ends it here. */
static hf_status begin_release(struct args *args, napi_value *value)
{
    hf_lease *lease = target(args, value[0], true, false);
    hf_status status = lease ? hf_release_async(lease, DONE(args)) : args->err->status;

    if (lease && status == HF_INVALID) {
        slot_unhold(args->slot->target);
        args->slot->target = NULL;
    }
    return status;
}

/* A call that will replace its target: until its answer has come, the slot is that of no other lease. */
static hf_status moves(struct args *args, hf_status status)
{
    if (status == HF_OK)
        args->slot->target->moving++;
    return status;
}

static hf_status begin_renew(struct args *args, napi_value *value)
{
    hf_lease *lease = args_handle(args, value[0]);

    return lease ? hf_renew_async(lease, args_int(args, value[1]), DONE(args)) : args->err->status;
}

static hf_status begin_yield(struct args *args, napi_value *value)
{
    hf_lease *lease = target(args, value[0], true, true);

    return lease ? moves(args, hf_yield_async(lease, args_int(args, value[1]), DONE(args)))
                 : args->err->status;
}

static hf_status begin_convert(struct args *args, napi_value *value)
{
    hf_lease *lease = target(args, value[0], false, true);

    return lease ? moves(args, hf_convert_async(lease, (hf_kind)args_int(args, value[1]),
                                                args_int(args, value[2]), DONE(args)))
                 : args->err->status;
}

static hf_status begin_adopt(struct args *args, napi_value *value)
{
    hf_adopt_request request = HF_ADOPT_REQUEST_INIT;
    struct bytes name = args_bytes(args, value[0], "name");

    request.name = name.at;
    request.name_len = name.len;
    request.text = args_text(args, value[1], "text");
    request.ttl_ms = args_int(args, value[2]);
    request.renew = args_int(args, value[3]);
    return REFUSED(args) ? args->err->status
                         : hf_lease_adopt_async(args->store->handle, &request, DONE(args));
}

/* ---- stores --------------------------------------------------------------------------------- */

static hf_status begin_resize(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return REFUSED(args)
               ? args->err->status
               : hf_semaphore_resize_async(args->store->handle, name.at, name.len,
                                           (uint32_t)args_int(args, value[1]), DONE(args));
}

static hf_status begin_ask(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");
    const char *text = args_text(args, value[1], "text");

    return REFUSED(args) ? args->err->status
                         : hf_ask_async(args->store->handle, name.at, name.len, text, DONE(args));
}

static hf_status begin_break(struct args *args, napi_value *value)
{
    struct bytes name = args_bytes(args, value[0], "name");

    return REFUSED(args) ? args->err->status
                         : hf_lease_break_async(args->store->handle, name.at, name.len,
                                                (uint64_t)args_int(args, value[1]), DONE(args));
}

static hf_status begin_inspect(struct args *args, napi_value *value)
{
    struct bytes name = { NULL, 0 };

    if (!is_nothing(args->env, value[0]))
        name = args_bytes(args, value[0], "name");
    return REFUSED(args) ? args->err->status
                         : hf_store_inspect_async(args->store->handle, name.at, name.len,
                                                  (uint64_t)args_int(args, value[1]), DONE(args));
}

static hf_status begin_wait(struct args *args, napi_value *value)
{
    uint64_t seq = args_big(args, value[0]);

    return REFUSED(args) ? args->err->status
                         : hf_store_wait_async(args->store->handle, seq, args_int(args, value[1]),
                                               NULL, DONE(args));
}

static hf_status begin_check(struct args *args, napi_value *value)
{
    (void)value;
    return hf_store_check_async(args->store->handle, DONE(args));
}

static hf_status begin_deadlocks(struct args *args, napi_value *value)
{
    (void)value;
    return hf_deadlock_list_async(args->store->handle, DONE(args));
}

const struct call lease_calls[] = {
    { "acquire", RESULT_LEASE, begin_acquire },
    { "acquireAll", RESULT_LEASES, begin_acquire_all },
    { "acquireAny", RESULT_ANY, begin_acquire_any },
    { "release", RESULT_NOTHING, begin_release },
    { "renew", RESULT_NOTHING, begin_renew },
    { "yield", RESULT_LEASE, begin_yield },
    { "convert", RESULT_LEASE, begin_convert },
    { "adopt", RESULT_LEASE, begin_adopt },
    { "resize", RESULT_NOTHING, begin_resize },
    { "ask", RESULT_NOTHING, begin_ask },
    { "break", RESULT_NOTHING, begin_break },
    { "inspect", RESULT_VIEW, begin_inspect },
    { "wait", RESULT_VERSION, begin_wait },
    { "check", RESULT_REPORT, begin_check },
    { "deadlocks", RESULT_DEADLOCKS, begin_deadlocks },
    { NULL, RESULT_NOTHING, NULL },
};

/* ---- the embedded store: at once ----------------------------------------------------------------- */

/*
 * The asynchronous form of the embedded store hands an acquire to a thread, which costs more than the acquire. So lib/ tries
 * once in the blocking form first, which takes some microseconds. Such a lease would belong to this thread, which all code of the
 * environment shares: without a scope it takes no part in deadlock detection, as an asynchronous one.
 */
napi_value direct_acquire(napi_env env, napi_callback_info info)
{
    napi_value value[9];
    size_t count = 9;
    struct store *store;
    struct args args;
    hf_acquire_request request;
    hf_lease *lease;
    struct slot *slot;
    hf_status status = HF_NO_MEMORY;

    if (napi_get_cb_info(env, info, &count, value, NULL, NULL) != napi_ok)
        return NULL;
    store = store_arg(env, value[0]);
    args_init(&args, env, store, value);
    slot = slot_new(store, USE_CALL);
    if (slot) {
        args_request(&args, value + 1, slot, &request);
        request.wait_ms = 0;
        if (!request.scope)
            request.flags |= HF_FLAG_NO_DEADLOCK_CHECK;
        status = args.err->status;
    }
    if (status == HF_OK)
        status = hf_acquire(store->handle, &request, &lease, args.err);
    args_done(&args);
    if (status == HF_OK) {
        slot->use = USE_LEASE;
        slot->lease = lease;
        slot->holds = 1;
        store->out[0] = (double)hf_lease_token(lease);
        return make_int(env, slot->index);
    }
    if (slot)
        slot_free(slot);
    return make_int(env, -(int64_t)status);
}

napi_value direct_release(napi_env env, napi_callback_info info)
{
    napi_value value[2];
    size_t count = 2;
    struct store *store;
    struct args args;
    struct slot *slot;
    hf_status status;

    if (napi_get_cb_info(env, info, &count, value, NULL, NULL) != napi_ok)
        return NULL;
    store = store_arg(env, value[0]);
    args_init(&args, env, store, value);
    slot = args_lease(&args, value[1]);
    if (!slot)
        return make_int(env, HF_INVALID);
    watch_pause(slot);
    status = hf_release(slot->lease, args.err);
    slot_unhold(slot);
    return make_int(env, status);
}
