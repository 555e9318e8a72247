/* SPDX-License-Identifier: MIT */
/*
 * The module: what lib/native.js finds in it. A call that begins returns the index of its slot; -1: it did not begin, and error()
 * says why. All that does not block is done at once.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

#define ARGS_MAX 11

static size_t read_args(napi_env env, napi_callback_info info, napi_value *value, void **ret_data)
{
    size_t count = ARGS_MAX;

    return napi_get_cb_info(env, info, &count, value, NULL, ret_data) == napi_ok ? count : 0;
}

/* ---- calls --------------------------------------------------------------------------------------- */

static napi_value begin_call(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    void *data = NULL;
    const struct call *call;
    struct store *store;
    struct args args;
    hf_status status;

    if (!read_args(env, info, value, &data))
        return NULL;
    call = data;
    store = store_arg(env, value[0]);
    args_init(&args, env, store, value);
    args.slot = slot_new(store, USE_CALL);
    if (!args.slot)
        return make_int(env, -1);
    args.slot->result = call->result;
    status = call->begin(&args, value + 1);
    args_done(&args);
    if (status == HF_OK) {
        store_begun(store);
        return make_int(env, args.slot->index);
    }
    args.err->status = status;
    if (args.slot->target)
        watch_resume(args.slot->target);
    slot_free(args.slot);
    return make_int(env, -1);
}

/* cancel(store, call): `done` still comes. */
static napi_value cancel_call(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot;
    uint32_t index = 0;

    if (!read_args(env, info, value, NULL))
        return NULL;
    napi_get_value_uint32(env, value[1], &index);
    slot = slot_at(store_arg(env, value[0]), index, USE_CALL);
    if (slot && slot->op)
        (void)hf_op_cancel(slot->op);
    return NULL;
}

/* error(store): [status, native, text] */
static napi_value last_error(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX], list;
    struct store *store;

    if (!read_args(env, info, value, NULL) || napi_create_array(env, &list) != napi_ok)
        return NULL;
    store = store_arg(env, value[0]);
    napi_set_element(env, list, 0, make_int(env, store->error.status));
    napi_set_element(env, list, 1, make_int(env, store->error.native));
    napi_set_element(env, list, 2, make_text(env, store->error.text));
    return list;
}

/* keep(store, on): something waits for events. */
static napi_value keep(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct store *store;
    bool on = false;

    if (!read_args(env, info, value, NULL))
        return NULL;
    store = store_arg(env, value[0]);
    napi_get_value_bool(env, value[1], &on);
    store_keep(store, on);
    return NULL;
}

/* used(store): how many calls are pending and leases held. */
static napi_value used(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];

    return read_args(env, info, value, NULL) ? make_int(env, slots_used(store_arg(env, value[0])))
                                             : NULL;
}

/* ---- leases ---------------------------------------------------------------------------------------- */

/* NULL: it has ended. */
static struct slot *lease_arg(napi_env env, napi_callback_info info, napi_value *value)
{
    uint32_t index = 0;
    struct slot *slot;

    if (!read_args(env, info, value, NULL))
        return NULL;
    napi_get_value_uint32(env, value[1], &index);
    slot = slot_at(store_arg(env, value[0]), index, USE_LEASE);
    return slot && slot->lease ? slot : NULL;
}

static napi_value lease_state(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);

    return make_int(env, slot ? hf_lease_state(slot->lease) : HF_STATE_LOST);
}

/* Infinity: no limit. */
static napi_value lease_remaining(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);
    int64_t left_ms = slot ? hf_lease_remaining_ms(slot->lease) : 0;

    return make_number(env, left_ms == INT64_MAX ? (double)INFINITY : (double)left_ms);
}

static napi_value lease_wanted(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);

    return make_bool(env, slot && hf_lease_wanted(slot->lease));
}

/* leaseWatch(store, lease): somebody listens, and the library has no callback for it. */
static napi_value lease_watch(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);

    if (slot)
        watch_start(slot);
    return NULL;
}

/* leaseInfo(store, lease): undefined: it has ended. */
static napi_value lease_info(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX], object, slots;
    struct slot *slot = lease_arg(env, info, value);
    hf_lease_info found = HF_LEASE_INFO_INIT;

    if (!slot || hf_lease_get(slot->lease, &found) != HF_OK ||
        napi_create_object(env, &object) != napi_ok || napi_create_array(env, &slots) != napi_ok)
        return NULL;
    put(env, object, "token", make_number(env, (double)found.token));
    put(env, object, "state", make_int(env, found.state));
    put(env, object, "holds", make_int(env, found.holds));
    put(env, object, "remaining",
        make_number(env, found.remaining_ms == INT64_MAX ? (double)INFINITY
                                                         : (double)found.remaining_ms));
    put(env, object, "age", make_number(env, (double)found.age_ms));
    put(env, object, "ttl", make_number(env, (double)found.ttl_ms));
    put(env, object, "nameBytes", make_bytes(env, found.name, found.name_len));
    put(env, object, "wanted", make_bool(env, found.wanted));
    put(env, object, "asks", make_int(env, found.asks));
    put(env, object, "kind", make_int(env, found.kind));
    for (uint32_t i = 0; i < found.slot_count && i < HF_SLOTS_MAX; i++)
        napi_set_element(env, slots, i, make_int(env, found.slots[i]));
    put(env, object, "slots", slots);
    return object;
}

/* A value, or undefined and the store's error. */
static napi_value or_error(struct slot *slot, hf_status status, napi_value value)
{
    if (status == HF_OK)
        return value;
    slot->store->error.status = status;
    return NULL;
}

static napi_value lease_fence(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);
    uint64_t token = 0;
    hf_status status;

    if (!slot)
        return NULL;
    status = hf_lease_fence(slot->lease, &token, &slot->store->error);
    return or_error(slot, status, make_number(env, (double)token));
}

static napi_value lease_export(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);
    char text[HF_LEASE_TEXT_MAX] = "";
    hf_status status;

    if (!slot)
        return NULL;
    status = hf_lease_export(slot->lease, text);
    slot->store->error.native = 0;
    strcpy(slot->store->error.text, hf_status_text(status)); /* shorter than that room */
    return or_error(slot, status, make_text(env, text));
}

/* leaseSession(store, lease, around) */
static napi_value lease_session(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX];
    struct slot *slot = lease_arg(env, info, value);
    char text[HF_SESSION_TEXT_MAX] = "";
    struct args args;
    const char *around;
    hf_status status;

    if (!slot)
        return NULL;
    args_init(&args, env, slot->store, value);
    around = args_text(&args, value[2], "around");
    status = args.err->status;
    if (status == HF_OK)
        status = hf_session_get(slot->lease, around, text, args.err);
    args_done(&args);
    return or_error(slot, status, make_text(env, text));
}

/* ---- stores and engines -------------------------------------------------------------------------------- */

static napi_value make_lacks(napi_env env, const hf_engine_lack *lacks)
{
    napi_value list, object;

    if (napi_create_array(env, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; lacks && lacks[i].why; i++) {
        if (napi_create_object(env, &object) != napi_ok)
            return NULL;
        put(env, object, "caps", make_big(env, lacks[i].caps));
        put(env, object, "why", make_text(env, lacks[i].why));
        napi_set_element(env, list, i, object);
    }
    return list;
}

static napi_value store_info(napi_env env, napi_callback_info info)
{
    napi_value value[ARGS_MAX], object;
    hf_store_info found = HF_STORE_INFO_INIT;
    struct store *store;

    if (!read_args(env, info, value, NULL))
        return NULL;
    store = store_arg(env, value[0]);
    if (!store->handle || hf_store_get(store->handle, &found) != HF_OK ||
        napi_create_object(env, &object) != napi_ok)
        return NULL;
    put(env, object, "engine", make_text(env, found.engine));
    put(env, object, "location", make_text(env, found.location));
    put(env, object, "caps", make_big(env, found.caps));
    put(env, object, "tokens", make_int(env, found.tokens));
    put(env, object, "defaultTtl", make_number(env, (double)found.default_ttl_ms));
    put(env, object, "minTtl", make_number(env, (double)found.min_ttl_ms));
    put(env, object, "maxTtl", make_number(env, (double)found.max_ttl_ms));
    put(env, object, "lacks", make_lacks(env, found.lacks));
    put(env, object, "source", make_text(env, found.source));
    put(env, object, "embedded", make_bool(env, store->embedded));
    return object;
}

static napi_value make_engine(napi_env env, const hf_engine_info *engine)
{
    napi_value object;

    if (napi_create_object(env, &object) != napi_ok)
        return NULL;
    put(env, object, "name", make_text(env, engine->name));
    put(env, object, "schemes", make_text(env, engine->schemes));
    put(env, object, "available", make_bool(env, engine->available));
    put(env, object, "whyNot", make_text(env, engine->available ? NULL : engine->why_not));
    put(env, object, "choice", make_text(env, engine->choice ? engine->choice : ""));
    if (!engine->available)
        return object;
    put(env, object, "caps", make_big(env, engine->caps));
    put(env, object, "tokens", make_int(env, engine->tokens));
    put(env, object, "onCrash", make_text(env, engine->on_crash));
    put(env, object, "onPause", make_text(env, engine->on_pause));
    put(env, object, "onClockJump", make_text(env, engine->on_clock_jump));
    put(env, object, "onServerLoss", make_text(env, engine->on_server_loss));
    put(env, object, "onPartition", make_text(env, engine->on_partition));
    put(env, object, "fairness", make_text(env, engine->fairness));
    put(env, object, "wakeup", make_text(env, engine->wakeup));
    put(env, object, "lacks", make_lacks(env, engine->lacks));
    return object;
}

/* engines(): a list of lists, one for each engine: its sets of promises. */
static napi_value engines(napi_env env, napi_callback_info info)
{
    napi_value list, modes;
    const hf_engine_info *engine;

    (void)info;
    if (napi_create_array(env, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; hf_engine_get(i); i++) {
        if (napi_create_array(env, &modes) != napi_ok)
            return NULL;
        for (uint32_t k = 0; (engine = hf_engine_get_mode(i, k)); k++)
            napi_set_element(env, modes, k, make_engine(env, engine));
        napi_set_element(env, list, i, modes);
    }
    return list;
}

/* statuses(): a list of [name, text], by number. */
static napi_value statuses(napi_env env, napi_callback_info info)
{
    napi_value list, item;

    (void)info;
    if (napi_create_array(env, &list) != napi_ok)
        return NULL;
#define HF_STATUS_ITEM(name, number, text)                                         \
    if (napi_create_array(env, &item) == napi_ok) {                                \
        napi_set_element(env, item, 0, make_text(env, #name));                     \
        napi_set_element(env, item, 1, make_text(env, hf_status_text(HF_##name))); \
        napi_set_element(env, list, number, item);                                 \
    }
    HF_STATUS_MAP(HF_STATUS_ITEM)
#undef HF_STATUS_ITEM
    return list;
}

/* ---- the module ------------------------------------------------------------------------------------------ */

static void export_function(napi_env env, napi_value exports, const char *name, napi_callback fn,
                            const void *data)
{
    napi_value function;

    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, fn, (void *)data, &function) == napi_ok)
        put(env, exports, name, function);
}

static void export_calls(napi_env env, napi_value exports, const struct call *calls)
{
    for (; calls->name; calls++)
        export_function(env, exports, calls->name, begin_call, calls);
}

NAPI_MODULE_INIT()
{
    static const struct {
        const char *name;
        napi_callback fn;
    } functions[] = {
        { "open", store_open },
        { "close", store_close },
        { "info", store_info },
        { "stats", store_stats },
        { "quantile", quantile },
        { "error", last_error },
        { "keep", keep },
        { "cancel", cancel_call },
        { "used", used },
        { "directAcquire", direct_acquire },
        { "directRelease", direct_release },
        { "leaseState", lease_state },
        { "leaseRemaining", lease_remaining },
        { "leaseWanted", lease_wanted },
        { "leaseWatch", lease_watch },
        { "leaseInfo", lease_info },
        { "leaseFence", lease_fence },
        { "leaseExport", lease_export },
        { "leaseSession", lease_session },
        { "engines", engines },
        { "statuses", statuses },
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        export_function(env, exports, functions[i].name, functions[i].fn, NULL);
    export_calls(env, exports, lease_calls);
    export_calls(env, exports, primitive_calls);
    put(env, exports, "version", make_text(env, hf_version()));
    put(env, exports, "bounds", make_bounds(env));
    return exports;
}
