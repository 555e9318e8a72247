/* SPDX-License-Identifier: MIT */
/*
 * The redis engine: its table, opening and closing, and the calls of core. See internal.h for the
 * parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/redis/extension.h"
#include "engine/redis/internal.h"

#include "util/error.h"

#define CALLS_KEPT 256 /* for use again */

static hf_status init(struct redis_store *store, struct hfi_host *host, hf_error *err);
static void destroy(struct redis_store *store);
static const struct hfi_promises *promises_of(const struct hfi_redis_conf *conf);

/* ---- open and close --------------------------------------------------------------- */

static hf_status redis_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct redis_store *store = self;
    hf_status status;

    store->conf = (struct hfi_redis_conf *)conf;
    status = redis_conf_finish(store->conf, host->label, err);
    host->location = store->conf->location;
    host->promises = promises_of(store->conf);
    if (status == HF_OK)
        status = init(store, host, err);
    if (status == HF_OK)
        status = redis_servers_open(store, err);
    if (status != HF_OK)
        destroy(store);
    return status;
}

static bool add_timers(struct redis_store *store)
{
    static const struct hfi_request_calls requests = { .send = redis_call_resend,
                                                       .give_up = redis_call_give_up };
    static const struct hfi_source_calls heartbeat = { .due = redis_heartbeat_due };
    static const struct hfi_source_calls cell_read = { .due = redis_cell_read_due };
    static const struct hfi_source_calls changes = { .due = redis_changes_due };
    static const struct hfi_source_calls notes = { .due = redis_notes_due };

    store->heartbeat.listens = true; /* for the message that grants */
    return hfi_requests_init(&store->requests, &store->reactor, &requests,
                             sizeof(struct redis_call), CALLS_KEPT) &&
           hfi_source_add(&store->heartbeat, &store->reactor, &heartbeat) &&
           hfi_source_add(&store->cell_read, &store->reactor, &cell_read) &&
           hfi_source_add(&store->changes.timer, &store->reactor, &changes) &&
           hfi_source_add(&store->notes, &store->reactor, &notes);
}

static hf_status init(struct redis_store *store, struct hfi_host *host, hf_error *err)
{
    hf_status status;

    hfi_list_init(&store->waits);
    hfi_list_init(&store->noted);
    hfi_list_init(&store->changes.waits);
    store->changes.number = 1;
    store->wire = store->conf->wire == HFI_WIRE_PLAIN      ? &redis_plain
                  : store->conf->wire == HFI_WIRE_REDISSON ? &redis_redisson
                                                           : &redis_native;
    status = hfi_reactor_init(&store->reactor, host, store->wire->ops, err);
    return status == HF_OK && !(add_timers(store) && redis_identity_init(store))
               ? hfi_error_memory(err)
               : status;
}

static void destroy(struct redis_store *store)
{
    hfi_requests_done(&store->requests);
    hfi_reactor_done(&store->reactor);
    redis_conf_done(store->conf);
}

static void redis_close(void *self)
{
    struct redis_store *store = self;

    hfi_reactor_enter(&store->reactor);
    store->closing = true;
    redis_servers_close(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    destroy(store);
}

/* ---- the tables ----------------------------------------------------------------------------- */

#define SCHEMES \
    "redis rediss redis+unix redis+sentinel rediss+sentinel redis+cluster rediss+cluster"

/* Promises that do not depend on the wire. */
#define PROMISES                                                                                 \
    .schemes = SCHEMES, .default_ttl_ms = REDIS_TTL_MS, .min_ttl_ms = 1000,                      \
    .on_crash = "freed after the ttl",                                                           \
    .on_server_loss = "leases are lost with the data; an asynchronous failover may forget them " \
                      "(sync=N narrows that)",                                                   \
    .on_partition =                                                                              \
        "unavailable on the far side; LOST by the client's own clock before the lease ends"

/* A foreign wire has no tokens, and the server's own expiry ends its locks. */
#define FOREIGN                                                                              \
    .on_pause = "freed after the ttl; nothing fences: there are no tokens",                  \
    .on_clock_jump = "forward: leases end early; back: names stay taken until the clock is " \
                     "there again"

/* Why not. */
static const hf_engine_lack foreign_lacks[] = {
    { HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,
      "the other clients of this wire know a key with one holder, and nothing else" },
    { HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_BARGE | HF_CAP_WAITERS | HF_CAP_WANTED,
      "this wire has no queue; clients try again, and the first try after a release wins" },
    { HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_LINGER,
      "the other clients raise no counter when they are granted the name" },
    { HF_CAP_INSPECT | HF_CAP_BREAK,
      "a key of this wire says nothing of its holder but a random id" },
    { HF_CAP_LOCK_DELAY,
      "the end of the key is the server's own and frees the name for the other clients at once" },
    { HF_CAP_PROCESS, "the server does not see a process end; the ttl frees the name" },
    { HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_COMMIT | HF_CAP_CLOCK |
          HF_CAP_SCRIPTS,
      "a store with this wire writes nothing but the locks of this wire; open one with wire=native "
      "beside it" },
    { HF_CAP_WATCH, "the other clients do not report changes" },
    { 0, NULL },
};

static const hf_engine_lack native_lacks[] = {
    { HF_CAP_PROCESS, "the server does not see a process end; the ttl frees the name" },
    { 0, NULL },
};

static const hf_engine_lack cluster_lacks[] = {
    { HF_CAP_PROCESS, "the server does not see a process end; the ttl frees the name" },
    { HF_CAP_WATCH,
      "in a cluster the names are on different servers, and each reports only its own" },
    { 0, NULL },
};

static const struct hfi_promises plain = { PROMISES,
                                           FOREIGN,
                                           .name = "redis-plain",
                                           .choice = "wire=plain",
                                           .lacks = foreign_lacks,
                                           .tokens = HF_TOKEN_STRENGTH_NONE,
                                           .fairness =
                                               "none: the first request after a release wins",
                                           .wakeup = "a jittered poll, and the holder's expiry",
                                           .caps = HF_CAP_TTL | HF_CAP_DETACHED };

static const struct hfi_promises redisson = { PROMISES,
                                              FOREIGN,
                                              .name = "redis-redisson",
                                              .choice = "wire=redisson",
                                              .lacks = foreign_lacks,
                                              .tokens = HF_TOKEN_STRENGTH_NONE,
                                              .fairness =
                                                  "none: the first request after a release wins",
                                              .wakeup = "the unlock message, and a jittered poll",
                                              .counts = true,
                                              .caps = HF_CAP_TTL | HF_CAP_DETACHED };

/* Without a cluster and with one. */
#define NATIVE                                                                                  \
    PROMISES, .name = "redis", .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE, .fairness = "FIFO",   \
              .on_pause = "freed after the ttl; the token fences",                              \
              .on_clock_jump =                                                                  \
                  "forward: leases end early, the token fences; back: a dead holder keeps its " \
                  "name for a ttl more",                                                        \
              .wakeup = "the release hands over by a message",                                  \
              .native = HFI_NATIVE_COUNTER | HFI_NATIVE_LIMIT

#define NATIVE_CAPS                                                                                \
    (HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL | HF_CAP_DETACHED | \
     HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE | HF_CAP_LOCK_DELAY | HF_CAP_INSPECT |              \
     HF_CAP_WAITERS | HF_CAP_BREAK | HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH |          \
     HF_CAP_CLOCK | HF_CAP_SCRIPTS | HF_CAP_WANTED | HF_CAP_LINGER | HF_CAP_CONVERT |              \
     HF_CAP_COMMIT | HF_CAP_NUMBERED | HF_CAP_RESIZE)

static const struct hfi_promises native = { NATIVE, .lacks = native_lacks,
                                            .caps = NATIVE_CAPS | HF_CAP_WATCH };

static const struct hfi_promises cluster = { NATIVE, .lacks = cluster_lacks, .caps = NATIVE_CAPS };

/* The URL chooses the wire, and the wire decides what can be promised. */
static const struct hfi_promises *promises_of(const struct hfi_redis_conf *conf)
{
    switch (conf->wire) {
    case HFI_WIRE_PLAIN:
        return &plain;
    case HFI_WIRE_REDISSON:
        return &redisson;
    case HFI_WIRE_NATIVE:
        break;
    }
    return conf->topology == REDIS_TOPOLOGY_CLUSTER ? &cluster : &native;
}

static const struct hfi_redis_extension extension = {
    .head = { HFI_REDIS_EXTENSION, sizeof extension },
    .kill_script = redis_kill_script,
};

static const struct hfi_engine redis = {
    .abi = HFI_ENGINE_ABI,
    .promises = &native,
    .modes = (const struct hfi_promises *const[]){ &plain, &redisson, NULL },
    .conf = &redis_conf_type,
    HFI_STORAGE(struct redis_store, struct redis_op, struct redis_claim),
    HFI_REACTOR_CALLS,
    .open = redis_open,
    .close = redis_close,
    .passed = redis_passed,
    .admin = &(const struct hfi_admin){ .doctor = redis_doctor, .extension = &extension.head },
};

HFI_ENGINE_ENTRY(redis)
