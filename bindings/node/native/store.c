/* SPDX-License-Identifier: MIT */
/*
 * A store in an environment's event loop: one uv_poll for its descriptor and one uv_timer for its timeout. Both are referenced
 * only while a call is pending, so that a program that waits for nothing can end.
 *
 * hf_open() and hf_close() block, and run in libuv's pool. When an environment ends (a worker is terminated, the program ends), its
 * stores are closed by a cleanup hook: leases are released, and nothing is called back.
 *
 *   open -> [ closing -> open (HF_IN_USE) ] -> closing -> closed
 *   open -> dead -> closed           the environment ends
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static void on_poll(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);
static void on_prepare(uv_prepare_t *prepare);
static void on_letters(uv_async_t *async);
static void with_scope(struct store *store, void (*work)(struct store *));
static void run_work(struct store *store);
static void on_cleanup(napi_async_cleanup_hook_handle hook, void *arg);

/* ---- its life ------------------------------------------------------------------------------------ */

static void unref(struct store *store)
{
    if (--store->refs > 0)
        return;
    letters_drop(store);
    slots_free(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static void on_external_gone(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    unref(data);
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct store *store = handle->data;

    if (--store->open_handles > 0)
        return;
    if (store->hook)
        napi_remove_async_cleanup_hook(store->hook);
    store->hook = NULL;
    unref(store);
}

static void close_poll(struct store *store)
{
    if (store->poll)
        uv_close((uv_handle_t *)store->poll, on_poll_closed);
    store->poll = NULL;
}

/* What libuv and N-API have of us. The memory stays until libuv has closed its handles. */
static void let_go(struct store *store)
{
    napi_env env = store->env;

    close_poll(store);
    uv_close((uv_handle_t *)&store->timer, on_handle_closed);
    uv_close((uv_handle_t *)&store->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&store->async, on_handle_closed);
    if (store->context)
        napi_async_destroy(env, store->context);
    napi_delete_reference(env, store->resource);
    napi_delete_reference(env, store->deliver);
    napi_delete_reference(env, store->event);
    napi_delete_reference(env, store->out_ref);
    store->context = NULL;
}

static bool start_poll(struct store *store)
{
    int fd = hf_store_fd(store->handle);

    store->poll = fd >= 0 ? calloc(1, sizeof *store->poll) : NULL;
    if (!store->poll)
        return false;
    if (uv_poll_init(store->loop, store->poll, fd) != 0) {
        free(store->poll);
        store->poll = NULL;
        return false;
    }
    store->poll->data = store;
    uv_poll_start(store->poll, UV_READABLE, on_poll);
    if (store->pending == 0)
        uv_unref((uv_handle_t *)store->poll);
    return true;
}

static bool start_handles(struct store *store)
{
    uv_timer_init(store->loop, &store->timer);
    uv_prepare_init(store->loop, &store->prepare);
    if (uv_async_init(store->loop, &store->async, on_letters) != 0)
        return false;
    store->timer.data = store->prepare.data = store->async.data = store;
    uv_unref((uv_handle_t *)&store->timer);
    uv_unref((uv_handle_t *)&store->prepare);
    uv_unref((uv_handle_t *)&store->async);
    store->open_handles = 3;
    store->refs++;
    return true;
}

/* functions: deliver, event, out (a Float64Array). */
static bool keep_values(struct store *store, const napi_value *values)
{
    napi_env env = store->env;
    napi_value resource, name, buffer;
    napi_typedarray_type type;
    size_t count, offset;
    void *out;

    return napi_create_object(env, &resource) == napi_ok &&
           napi_create_string_utf8(env, "Holdfast", NAPI_AUTO_LENGTH, &name) == napi_ok &&
           napi_async_init(env, resource, name, &store->context) == napi_ok &&
           napi_create_reference(env, resource, 1, &store->resource) == napi_ok &&
           napi_create_reference(env, values[0], 1, &store->deliver) == napi_ok &&
           napi_create_reference(env, values[1], 1, &store->event) == napi_ok &&
           napi_create_reference(env, values[2], 1, &store->out_ref) == napi_ok &&
           napi_get_typedarray_info(env, values[2], &type, &count, &out, &buffer, &offset) ==
               napi_ok &&
           (store->out = out);
}

/* NULL: the environment ends, or memory is short; the store is closed then. */
static napi_value make_store(napi_env env, hf_store *handle, const napi_value *values)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    struct store *store = calloc(1, sizeof *store);
    napi_value external = NULL;

    if (!store) {
        (void)hf_close(handle, HF_CLOSE_FLAG_RELEASE);
        return NULL;
    }
    store->env = env;
    store->handle = handle;
    store->thread = pthread_self();
    store->refs = 1;
    store->letters_end = &store->letters;
    pthread_mutex_init(&store->lock, NULL);
    store->embedded = hf_store_get(handle, &info) == HF_OK && strcmp(info.engine, "lmdb") == 0;
    if (napi_get_uv_event_loop(env, &store->loop) == napi_ok && keep_values(store, values) &&
        napi_create_external(env, store, on_external_gone, NULL, &external) == napi_ok &&
        start_handles(store)) {
        if (start_poll(store) &&
            napi_add_async_cleanup_hook(env, on_cleanup, store, &store->hook) == napi_ok)
            return external;
        let_go(store);
    }
    (void)hf_close(handle, HF_CLOSE_FLAG_RELEASE);
    store->handle = NULL;
    if (!external)
        unref(store);
    return NULL;
}

struct store *store_arg(napi_env env, napi_value value)
{
    void *store = NULL;

    napi_get_value_external(env, value, &store);
    return store;
}

bool store_here(const struct store *store)
{
    return pthread_equal(pthread_self(), store->thread);
}

/* ---- its part of the event loop ------------------------------------------------------------------------ */

static void ask_for_timeout(struct store *store)
{
    if (store->handle && store->poll && !uv_is_active((uv_handle_t *)&store->prepare))
        uv_prepare_start(&store->prepare, on_prepare);
}

void store_keep(struct store *store, bool keep)
{
    if (keep && store->pending++ == 0 && store->poll)
        uv_ref((uv_handle_t *)store->poll);
    if (!keep && --store->pending == 0 && store->poll)
        uv_unref((uv_handle_t *)store->poll);
}

void store_begun(struct store *store)
{
    store_keep(store, true);
    ask_for_timeout(store);
}

void store_ended(struct store *store)
{
    store_keep(store, false);
}

void store_run(struct store *store, void (*work)(struct slot *), struct slot *slot)
{
    store->work = work;
    store->work_slot = slot;
    with_scope(store, run_work);
}

static void run_work(struct store *store)
{
    store->work(store->work_slot);
}

/* Run `work` so that it may call JavaScript; reactions of promises run at its end. Scopes cost more than many a turn of the loop, so
 * the first call of JavaScript opens them: store_enter_js(). */
static void with_scope(struct store *store, void (*work)(struct store *))
{
    struct scopes scopes = { .handles = NULL };

    if (store->dead)
        return;
    if (store->scopes) { /* within JavaScript that we have called */
        work(store);
        return;
    }
    store->scopes = &scopes;
    work(store);
    store->scopes = NULL;
    if (scopes.callbacks)
        napi_close_callback_scope(store->env, scopes.callbacks);
    if (scopes.handles)
        napi_close_handle_scope(store->env, scopes.handles);
}

bool store_enter_js(struct store *store)
{
    struct scopes *scopes = store->scopes;
    napi_env env = store->env;
    napi_value resource;

    if (!scopes || scopes->callbacks)
        return true;
    if (!scopes->handles && napi_open_handle_scope(env, &scopes->handles) != napi_ok)
        return false;
    return napi_get_reference_value(env, store->resource, &resource) == napi_ok &&
           napi_open_callback_scope(env, resource, store->context, &scopes->callbacks) == napi_ok;
}

static void process(struct store *store)
{
    store->processing = true;
    (void)hf_store_process(store->handle);
    store->processing = false;
}

/* JavaScript may begin to close the store in it. */
static void turn(struct store *store)
{
    if (!store->handle || !store->poll || store->processing)
        return;
    store->refs++;
    with_scope(store, process);
    /* What JavaScript has begun in there is often answered by now (a server on the same machine): to look is cheaper than a turn of
     * the loop. Once: a program that begins again and again must not keep the loop. */
    if (store->handle && store->poll && store->pending > 0)
        with_scope(store, process);
    ask_for_timeout(store);
    unref(store);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    turn(poll->data);
}

static void on_timer(uv_timer_t *timer)
{
    turn(timer->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct store *store = prepare->data;
    int timeout_ms;

    uv_prepare_stop(prepare);
    if (!store->handle || !store->poll)
        return;
    timeout_ms = hf_store_timeout_ms(store->handle);
    if (timeout_ms >= 0)
        uv_timer_start(&store->timer, on_timer, (uint64_t)timeout_ms, 0);
    else
        uv_timer_stop(&store->timer);
}

static void on_letters(uv_async_t *async)
{
    with_scope(async->data, letters_deliver);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

struct opening {
    napi_async_work work;
    napi_ref values[4]; /* deliver, event, out, opened */
    char *url, *label;
    hf_open_options options;
    hf_store *handle;
    hf_error error;
};

static void opening_free(napi_env env, struct opening *opening)
{
    for (int i = 0; i < 4; i++)
        if (opening->values[i])
            napi_delete_reference(env, opening->values[i]);
    if (opening->work)
        napi_delete_async_work(env, opening->work);
    if (opening->url)
        memset(opening->url, 0, strlen(opening->url)); /* it may hold a password */
    free(opening->url);
    free(opening->label);
    free(opening);
}

static void open_work(napi_env env, void *data)
{
    struct opening *opening = data;

    (void)env;
    opening->options.label = opening->label;
    opening->error.status =
        hf_open(opening->url, &opening->options, &opening->handle, &opening->error);
}

/* opened(status, native, text, store) */
static void open_done(napi_env env, napi_status status, void *data)
{
    struct opening *opening = data;
    napi_value values[4], arguments[4], undefined, ignored;
    napi_handle_scope scope;
    bool ok = true;

    (void)status;
    if (napi_open_handle_scope(env, &scope) != napi_ok)
        ok = false;
    for (int i = 0; ok && i < 4; i++)
        ok = napi_get_reference_value(env, opening->values[i], &values[i]) == napi_ok;
    arguments[3] = ok && opening->handle ? make_store(env, opening->handle, values) : NULL;
    if (!ok && opening->handle)
        (void)hf_close(opening->handle, HF_CLOSE_FLAG_RELEASE);
    if (ok && napi_get_undefined(env, &undefined) == napi_ok) {
        if (opening->handle && !arguments[3])
            opening->error = (hf_error){ .status = HF_NO_MEMORY, .text = "no room for a store" };
        arguments[0] = make_int(env, opening->error.status);
        arguments[1] = make_int(env, opening->error.native);
        arguments[2] = make_text(env, opening->error.text);
        napi_call_function(env, undefined, values[3], arguments[3] ? 4 : 3, arguments, &ignored);
    }
    opening_free(env, opening);
    if (ok)
        napi_close_handle_scope(env, scope);
}

static char *copy_string(napi_env env, napi_value value)
{
    size_t len = 0;
    char *text;

    if (is_nothing(env, value) ||
        napi_get_value_string_utf8(env, value, NULL, 0, &len) != napi_ok ||
        !(text = malloc(len + 1)))
        return NULL;
    napi_get_value_string_utf8(env, value, text, len + 1, &len);
    return text;
}

/* open(url, label, wait, flags, deliver, event, out, opened) */
napi_value store_open(napi_env env, napi_callback_info info)
{
    napi_value value[8], name;
    size_t count = 8;
    struct opening *opening = calloc(1, sizeof *opening);
    int64_t flags = 0;
    bool ok = opening && napi_get_cb_info(env, info, &count, value, NULL, NULL) == napi_ok;

    if (ok) {
        opening->options = (hf_open_options)HF_OPEN_OPTIONS_INIT;
        opening->url = copy_string(env, value[0]);
        opening->label = copy_string(env, value[1]);
        napi_get_value_int64(env, value[2], &opening->options.open_wait_ms);
        napi_get_value_int64(env, value[3], &flags);
        opening->options.flags = (uint64_t)flags;
    }
    for (int i = 0; ok && i < 4; i++)
        ok = napi_create_reference(env, value[4 + i], 1, &opening->values[i]) == napi_ok;
    ok = ok && napi_create_string_utf8(env, "Holdfast", NAPI_AUTO_LENGTH, &name) == napi_ok &&
         napi_create_async_work(env, NULL, name, open_work, open_done, opening, &opening->work) ==
             napi_ok &&
         napi_queue_async_work(env, opening->work) == napi_ok;
    if (!ok) {
        if (opening)
            opening_free(env, opening);
        napi_throw_error(env, NULL, "a store cannot be opened now");
    }
    return NULL;
}

/* ---- closing ------------------------------------------------------------------------------------------ */

struct closing {
    napi_async_work work;
    napi_ref closed;
    struct store *store;
    uint64_t flags;
    hf_status status;
};

static void close_work(napi_env env, void *data)
{
    struct closing *closing = data;

    (void)env;
    closing->status = hf_close(closing->store->handle, closing->flags);
}

static void deliver_rest(struct store *store)
{
    letters_deliver(store);
}

/* closed(status) */
static void close_done(napi_env env, napi_status status, void *data)
{
    struct closing *closing = data;
    struct store *store = closing->store;
    napi_handle_scope scope;
    napi_value fn, undefined, code, ignored;

    (void)status;
    if (closing->status == HF_OK) {
        store->handle = NULL;
        with_scope(store, deliver_rest);
        slots_end_leases(store);
        let_go(store);
    } else {
        (void)start_poll(store); /* still open */
        watches(store, watch_resume);
        ask_for_timeout(store);
    }
    if (napi_open_handle_scope(env, &scope) == napi_ok) {
        if (napi_get_reference_value(env, closing->closed, &fn) == napi_ok &&
            napi_get_undefined(env, &undefined) == napi_ok) {
            code = make_int(env, closing->status);
            napi_call_function(env, undefined, fn, 1, &code, &ignored);
        }
        napi_close_handle_scope(env, scope);
    }
    napi_delete_reference(env, closing->closed);
    napi_delete_async_work(env, closing->work);
    free(closing);
    unref(store);
}

/* close(store, flags, closed). lib/ calls it for an open store only. */
napi_value store_close(napi_env env, napi_callback_info info)
{
    napi_value value[3], name;
    size_t count = 3;
    struct closing *closing = calloc(1, sizeof *closing);
    struct store *store;
    int64_t flags = 0;

    if (!closing || napi_get_cb_info(env, info, &count, value, NULL, NULL) != napi_ok ||
        napi_create_string_utf8(env, "Holdfast", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_async_work(env, NULL, name, close_work, close_done, closing, &closing->work) !=
            napi_ok) {
        free(closing);
        napi_throw_error(env, NULL, "a store cannot be closed now");
        return NULL;
    }
    store = closing->store = store_arg(env, value[0]);
    napi_get_value_int64(env, value[1], &flags);
    closing->flags = (uint64_t)flags;
    napi_create_reference(env, value[2], 1, &closing->closed);
    store->refs++;
    close_poll(store); /* hf_close() closes its descriptor, and those of leases */
    watches(store, watch_pause);
    uv_timer_stop(&store->timer);
    uv_prepare_stop(&store->prepare);
    napi_queue_async_work(env, closing->work);
    return NULL;
}

/* The environment ends. Work of the pool has ended before: Node waits for it. */
static void on_cleanup(napi_async_cleanup_hook_handle hook, void *arg)
{
    struct store *store = arg;

    (void)hook;
    store->dead = true;
    close_poll(store);
    watches(store, watch_pause);
    if (store->handle)
        (void)hf_close(store->handle, HF_CLOSE_FLAG_RELEASE);
    store->handle = NULL;
    slots_end_leases(store);
    let_go(store);
}
