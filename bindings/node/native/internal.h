/* SPDX-License-Identifier: MIT */
/*
 * The Node addon: what its files share. Only lib/ calls it, so what it expects of its arguments is stated in lib/ and not
 * checked twice; what users hand through (names, texts, bytes) is checked in values.c.
 *
 * One `struct store` for each open store of one environment (main thread or worker). All of it is used on the environment's
 * thread alone, but for the letters, which other threads write.
 */
#ifndef HOLDFAST_NODE_INTERNAL_H
#define HOLDFAST_NODE_INTERNAL_H

#define NAPI_VERSION 8
#include <holdfast/primitives.h>
#include <node_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

/* What `done` finds, and in which form lib/ gets it: results.c. */
enum result {
    RESULT_NOTHING,
    RESULT_LEASE,  /* in store->out: token and slot */
    RESULT_LEASES, /* a list of pairs: slot, token */
    RESULT_ANY,    /* as RESULT_LEASE, and the index of the request */
    RESULT_CELL,
    RESULT_BYTES,
    RESULT_VERSION,
    RESULT_VERSIONS,
    RESULT_NUMBER,
    RESULT_COUNTS,
    RESULT_LIMIT,
    RESULT_MARK,
    RESULT_VIEW,
    RESULT_REPORT,
    RESULT_DEADLOCKS,
    RESULT_LEADER,
    RESULT_MEMBERS,
};

enum use { USE_FREE, USE_CALL, USE_LEASE };

/*
 * A call that is pending, or a lease. lib/ knows it by its index. The slot of an acquire becomes that of the lease, because events
 * may come before `done`. Slots do not move and are freed with their store.
 */
struct slot {
    struct store *store;
    uint32_t index;
    uint32_t generation; /* counts the uses, so that a late letter is recognized */
    enum use use;
    enum result result;
    struct slot *next_free;
    hf_op *op;           /* of a call */
    hf_lease *lease;     /* of a lease */
    uint32_t holds;      /* of a lease: how often it was acquired (reentrant); 0: it was released */
    uint32_t moving;     /* ... calls under way that will replace it, and keep its slot */
    struct slot *target; /* of a call: the lease that it ends or replaces */
    bool ends, replaces; /* ... which of the two */
    bool reentrant;      /* of an acquire: it may get a lease that we have */
    bool early;          /* ... and lib/ keeps an event for it */
    struct slot **parts; /* of a call: the slots of its requests */
    size_t part_count;
    napi_ref fn;      /* of an update: the callback */
    void *written;    /* ... and what it said last */
    uv_poll_t *watch; /* of a lease without a callback for events: watch.c */
    bool watched;
    hf_state told;
};

#define SLOTS_IN_CHUNK 256

struct letter;

/* Opened by the first call of JavaScript in a turn of the loop. */
struct scopes {
    napi_handle_scope handles;
    napi_callback_scope callbacks;
};

struct store {
    napi_env env;
    hf_store *handle; /* NULL: closed */
    pthread_t thread;
    uv_loop_t *loop;
    uv_poll_t *poll; /* of its own, as it ends before hf_close() closes the descriptor */
    uv_timer_t timer;
    uv_prepare_t prepare; /* asks for the timeout once, however many calls began */
    uv_async_t async;     /* letters have come */
    unsigned open_handles;
    unsigned refs; /* JavaScript's object, the handles of libuv */
    size_t pending;
    bool processing, dead; /* dead: the environment ends, JavaScript is not called any more */
    struct scopes *scopes; /* NULL: not in a turn of the loop */
    bool embedded;
    void (*work)(struct slot *); /* store_run() */
    struct slot *work_slot;
    napi_async_cleanup_hook_handle hook;
    napi_async_context context;
    napi_ref resource, deliver, event;
    double *out; /* memory of a Float64Array of lib/ */
    napi_ref out_ref;
    hf_error error; /* of the last call that did not begin */
    struct slot **chunks;
    uint32_t chunk_count;
    struct slot *free_slots;
    pthread_mutex_t lock; /* of the letters */
    struct letter *letters, **letters_end;
};

/* ---- slot.c ------------------------------------------------------------------------------ */

struct slot *slot_new(struct store *store, enum use use);
void slot_free(struct slot *slot);
struct slot *slot_at(struct store *store, uint32_t index, enum use use); /* NULL: none */
struct slot *slot_of_lease(struct store *store, const hf_lease *lease);
/* One hold of a lease has ended. */
void slot_unhold(struct slot *slot);
void slots_free(struct store *store);
uint32_t slots_used(struct store *store); /* for the tests */
/* After hf_close(): what is left of the leases. */
void slots_end_leases(struct store *store);

/* ---- store.c ----------------------------------------------------------------------------- */

napi_value store_open(napi_env env, napi_callback_info info);
napi_value store_close(napi_env env, napi_callback_info info);
struct store *store_arg(napi_env env, napi_value value);
void store_begun(struct store *store);           /* a call is pending */
void store_ended(struct store *store);           /* it is not any more */
bool store_here(const struct store *store);      /* on its thread, with JavaScript? */
bool store_enter_js(struct store *store);        /* before values are made for JavaScript */
void store_keep(struct store *store, bool keep); /* as if a call was pending */
/* Run something that may call JavaScript; reactions of promises run at its end. */
void store_run(struct store *store, void (*work)(struct slot *), struct slot *slot);

/* ---- letter.c: what other threads have to tell ---------------------------------------------- */

void letter_event(struct slot *slot, hf_event event, const char *text);
void letter_answer(struct slot *slot, const hf_result *result);
void letters_deliver(struct store *store);
void letters_drop(struct store *store);

/* ---- deliver.c ----------------------------------------------------------------------------- */

void on_done(const hf_result *result, void *slot);
void on_event(hf_lease *lease, hf_event event, const char *text, void *slot);
void deliver_result(struct slot *slot, const hf_result *result);
void deliver_event(struct slot *slot, hf_event event, const char *text);
hf_status on_update(const hf_cell *old, hf_cell_change *change, void *slot);

/* ---- watch.c: leases without a callback for events --------------------------------------------- */

void watch_start(struct slot *slot);
void watch_pause(struct slot *slot); /* before a call that may end its handle */
void watch_resume(struct slot *slot);
void watches(struct store *store, void (*each)(struct slot *));

/* ---- results.c ------------------------------------------------------------------------------- */

napi_value result_value(napi_env env, struct slot *slot, const hf_result *result);
void result_free(const hf_result *result);
napi_value make_mark(napi_env env, const hf_once_mark *mark);

/* ---- values.c -------------------------------------------------------------------------------- */

/* The arguments of a call, and the memory that they need while it begins. */
struct args {
    napi_env env;
    struct store *store;
    struct slot *slot;
    napi_value *value;
    hf_error *err; /* status HF_OK while all arguments were right */
    size_t used;
    struct args_block *more; /* what did not fit into `room` */
    char room[1536];
};

struct bytes {
    const void *at;
    size_t len;
};

void args_init(struct args *args, napi_env env, struct store *store, napi_value *value);
void args_done(struct args *args);
void *args_memory(struct args *args, size_t size);
struct bytes args_bytes(struct args *args, napi_value value, const char *what);
const char *args_text(struct args *args, napi_value value, const char *what);
int64_t args_int(struct args *args, napi_value value);
uint64_t args_big(struct args *args, napi_value value);
/* What an observer has seen, from which the next wait goes on. NULL for nothing; what another kind of observer has seen is refused. */
enum seen { SEEN_LEADER = 0x6c656164, SEEN_MEMBERS = 0x6d656d62 };
void *args_seen(struct args *args, napi_value value, enum seen kind);
struct slot *args_lease(struct args *args, napi_value value);
hf_lease *args_handle(struct args *args, napi_value value);
/* Eight values, as lib/options.js packs them. */
void args_request(struct args *args, napi_value *value, struct slot *slot,
                  hf_acquire_request *ret_request);
uint32_t args_count(struct args *args, napi_value list);
napi_value args_item(struct args *args, napi_value list, uint32_t index);

napi_value make_int(napi_env env, int64_t number);
napi_value make_number(napi_env env, double number);
napi_value make_big(napi_env env, uint64_t number);
napi_value make_bool(napi_env env, bool value);
napi_value make_text(napi_env env, const char *text); /* NULL: undefined */
napi_value make_bytes(napi_env env, const void *bytes, size_t len);
napi_value make_seen(napi_env env, void *memory, enum seen kind); /* freed by hf_free() */
void put(napi_env env, napi_value object, const char *name, napi_value value);
bool is_nothing(napi_env env, napi_value value); /* undefined or null */

/* ---- calls.c, primitives.c ---------------------------------------------------------------------- */

typedef hf_status call_fn(struct args *args, napi_value *value);

struct call {
    const char *name;
    enum result result;
    call_fn *begin;
};

extern const struct call lease_calls[], primitive_calls[]; /* ended by a name that is NULL */

#define DONE(args)    on_done, (args)->slot, &(args)->slot->op, (args)->err
#define REFUSED(args) ((args)->err->status != HF_OK)

napi_value direct_acquire(napi_env env, napi_callback_info info);
napi_value direct_release(napi_env env, napi_callback_info info);

/* ---- stats.c ------------------------------------------------------------------------------------ */

napi_value store_stats(napi_env env, napi_callback_info info);
napi_value quantile(napi_env env, napi_callback_info info);
napi_value make_bounds(napi_env env);

#endif
