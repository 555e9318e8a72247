/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine: its table, opening and closing, and the calls of core. See internal.h for
 * the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/error.h"

static hf_status init(struct memcached_store *store, struct hfi_host *host, hf_error *err);
static void destroy(struct memcached_store *store);
static const struct hfi_op_calls ops[HFI_OP_KINDS];

/* ---- open and close ---------------------------------------------------------------------- */

static hf_status memcached_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                                hf_error *err)
{
    struct memcached_store *store = self;
    hf_status status;

    hfi_list_init(&store->waits);
    hfi_list_init(&store->held);
    store->conf = (struct memcached_conf *)conf;
    status = memcached_conf_finish(store->conf, err);
    host->location = store->conf->location;
    if (status == HF_OK)
        status = init(store, host, err);
    if (status == HF_OK)
        status = memcached_net_open(store, err);
    if (status != HF_OK) {
        memcached_net_close(store);
        destroy(store);
    }
    return status;
}

/* ---- what is due ------------------------------------------------------------------------------- */

static int64_t timers_next_ms(const struct hfi_source *source)
{
    const struct memcached_store *store = hfi_container(source, struct memcached_store, timers);
    int64_t next = memcached_searches_next_ms(store);

    if (store->beat_ms < next)
        next = store->beat_ms;
    return store->late_add_ms < next ? store->late_add_ms : next;
}

static void timers_due(struct hfi_source *source, int64_t now_ms)
{
    struct memcached_store *store = hfi_container(source, struct memcached_store, timers);

    if (store->beat_ms <= now_ms)
        memcached_waits_tick(store, now_ms);
    if (store->late_add_ms <= now_ms)
        memcached_late_adds_tick(store, now_ms);
    if (store->searches)
        memcached_searches_tick(store, now_ms);
}

static const struct hfi_source_calls timers = { .due = timers_due, .next_ms = timers_next_ms };

/* ---- init and destroy ---------------------------------------------------------------------------- */

static hf_status init(struct memcached_store *store, struct hfi_host *host, hf_error *err)
{
    hf_status status = hfi_reactor_init(&store->reactor, host, ops, err);

    store->beat_ms = store->late_add_ms = HFI_NEVER;
    store->timers.exact = store->requests.unpark.exact = true;
    if (status == HF_OK &&
        (!hfi_source_add(&store->timers, &store->reactor, &timers) ||
         !hfi_requests_init(&store->requests, &store->reactor, &memcached_request_calls,
                            sizeof(struct memcached_call), MEMCACHED_POOL_MAX)))
        status = hfi_error_memory(err);
    return status;
}

static void destroy(struct memcached_store *store)
{
    struct hfi_list *held;

    while ((held = hfi_list_pop(&store->held)))
        hfi_free(hfi_container(held, struct memcached_hold, listed));
    memcached_late_adds_done(store);
    hfi_requests_done(&store->requests);
    hfi_reactor_done(&store->reactor);
}

static void memcached_close(void *self)
{
    struct memcached_store *store = self;

    hfi_reactor_enter(&store->reactor);
    memcached_net_close(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    destroy(store);
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* No BREAK: it needs a token, and this engine has none. */
static const struct hfi_op_calls ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { memcached_acquire, memcached_cancel },
    [HFI_OP_RELEASE] = { memcached_release, NULL },
    [HFI_OP_RENEW] = { memcached_renew, NULL },
    [HFI_OP_ADOPT] = { memcached_adopt, NULL },
    [HFI_OP_LIST] = { memcached_list, NULL },
    [HFI_OP_LOOK] = { memcached_look, NULL },
    [HFI_OP_CELL_READ] = { memcached_cell_read_op, NULL },
    [HFI_OP_CELL_SWAP] = { memcached_cell_swap_op, NULL },
};

/* ---- the table --------------------------------------------------------------------------------- */

/* Why not. */
static const hf_engine_lack lacks[] = {
    { HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,
      "a lease is one item, and an eviction would forget some holders and not the others" },
    { HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_BARGE | HF_CAP_WAITERS | HF_CAP_WANTED,
      "memcached sends no messages and keeps no queue; waiters try again, and the first try wins" },
    { HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_LINGER,
      "a counter may be evicted, and begins at 1 again" },
    { HF_CAP_BREAK, "a lease is named by its token, and there are none" },
    { HF_CAP_PROCESS, "the server does not see a process end; the ttl frees the name" },
    { HF_CAP_LOCK_DELAY, "an item ends at once and as a whole, and one that only keeps the name "
                         "closed would look like one that holds it" },
    { HF_CAP_CELL_WATCH | HF_CAP_WATCH, "memcached sends no messages; a client can only poll" },
    { HF_CAP_COMMIT, "there is no transaction over several items" },
    { HF_CAP_CLOCK,
      "its clock ticks once a second, and a limit that is evicted would allow everything again" },
    { HF_CAP_SCRIPTS, "memcached has no scripts" },
    { 0, NULL },
};

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    HFI_REACTOR_CALLS,
    HFI_STORAGE(struct memcached_store, struct memcached_op, struct memcached_claim),
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = MEMCACHED_TTL_MS,
            .min_ttl_ms = MEMCACHED_MIN_TTL_MS,
            .guard_ms = MEMCACHED_GUARD_MS,
            .name = "memcached",
            .lacks = lacks,
            .schemes = "memcached memcached+unix",
            .tokens = HF_TOKEN_STRENGTH_NONE,
            .on_crash = "freed after the ttl",
            .on_pause = "freed after the ttl; nothing fences: there are no tokens",
            .on_clock_jump = "no effect; but what reaches a stopped server just before it goes on "
                             "may end early",
            .on_server_loss = "a restart, a flush or an eviction forgets leases while they are "
                              "held: noticed at the next renewal, a restart at once",
            .on_partition =
                "unavailable on the far side; LOST by the client's own clock before the lease ends",
            .fairness = "rough: waiters look in the order of their tickets, but the first request "
                        "after a release wins",
            .wakeup = "a poll, paced by the place in line: there is nothing to wait on",
            .caps =
                HF_CAP_TTL | HF_CAP_DETACHED | HF_CAP_INSPECT | HF_CAP_CELLS | HF_CAP_CELL_TTL },
    .open = memcached_open,
    .close = memcached_close,
    .conf = &memcached_conf_type,
    .admin = &(const struct hfi_admin){ .doctor = memcached_doctor },
};

HFI_ENGINE_ENTRY(engine)
