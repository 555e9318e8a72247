/* SPDX-License-Identifier: MIT */
/*
 * The redis engine: its table, opening and closing, and what comes in from core. See internal.h
 * for the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err);
static void destroy(struct hfi_conn *conn);

/* ---- open and close --------------------------------------------------------------- */

static hf_status redis_open(struct hfi_conf *conf, struct hfi_host *host,
                            struct hfi_conn **ret_conn, hf_error *err)
{
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->conf = (struct hfi_redis_conf *)conf;
    status = redis_conf_finish(conn->conf, host->label, err);
    host->location = conn->conf->location;
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = redis_net_open(conn, err);
    if (status != HF_OK) {
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

static bool add_timers(struct hfi_conn *conn)
{
    static const struct hfi_source_calls unpark = { .due = redis_unpark_due };
    static const struct hfi_source_calls heartbeat = { .due = redis_heartbeat_due };
    static const struct hfi_source_calls cell_look = { .due = redis_cell_look_due };
    static const struct hfi_source_calls notes = { .due = redis_notes_due };

    conn->heartbeat.listens = true; /* for the message that grants */
    return hfi_source_add(&conn->unpark, &conn->reactor, &unpark) &&
           hfi_source_add(&conn->heartbeat, &conn->reactor, &heartbeat) &&
           hfi_source_add(&conn->cell_look, &conn->reactor, &cell_look) &&
           hfi_source_add(&conn->notes, &conn->reactor, &notes);
}

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    unsigned char id[REDIS_INBOX_ID_LEN / 2];
    char hex[REDIS_INBOX_ID_LEN + 1];
    hf_status status;

    conn->parked_end = &conn->parked;
    conn->way = conn->conf->wire == HFI_WIRE_PLAIN      ? &redis_plain
                : conn->conf->wire == HFI_WIRE_REDISSON ? &redis_redisson
                                                        : &redis_native;
    conn->reserve = hfi_malloc(sizeof *conn->reserve);
    if (!conn->reserve)
        return hfi_error_memory(err);
    hfi_random_bytes(id, sizeof id);
    hfi_hex(id, sizeof id, hex);
    conn->inbox_len = (size_t)snprintf(conn->inbox_name, sizeof conn->inbox_name, "%sinbox:%s",
                                       conn->conf->prefix, hex);
    status = hfi_reactor_init(&conn->reactor, host, err);
    return status == HF_OK && !add_timers(conn) ? hfi_error_memory(err) : status;
}

static void destroy(struct hfi_conn *conn)
{
    struct redis_call *call;

    hfi_free(conn->reserve);
    while ((call = conn->pool)) {
        conn->pool = call->next;
        hfi_free(call);
    }
    hfi_reactor_done(&conn->reactor);
    redis_conf_done(conn->conf);
    hfi_free(conn);
}

static void redis_close(struct hfi_conn *conn)
{
    hfi_reactor_enter(&conn->reactor);
    conn->closing = true;
    redis_net_close(conn);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    destroy(conn);
}

/* ---- ops ------------------------------------------------------------------------------ */

static void submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        redis_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        redis_claim_remove(conn, op->claim);
        conn->way->release(conn, op);
        return;
    case HFI_OP_RENEW:
        conn->way->renew(conn, op);
        return;
    case HFI_OP_ADOPT:
        conn->way->adopt(conn, op);
        return;
    case HFI_OP_INSPECT:
        conn->way->inspect(conn, op);
        return;
    case HFI_OP_BREAK:
        conn->way->brk(conn, op);
        return;
    case HFI_OP_CELL_READ:
        redis_cell_read(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        redis_cell_swap(conn, op);
        return;
    case HFI_OP_CELL_WAIT:
        redis_cell_wait(conn, op);
        return;
    case HFI_OP_TIME:
        redis_time(conn, op);
        return;
    case HFI_OP_COUNTER:
        redis_counter(conn, op);
        return;
    case HFI_OP_LIMIT:
        redis_limit(conn, op);
        return;
    case HFI_OP_SCRIPT:
        redis_script(conn, op);
        return;
    }
    redis_finish(conn, op, HF_UNSUPPORTED, NULL);
}

static void redis_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    hfi_reactor_enter(&conn->reactor);
    submit(conn, op);
    hfi_reactor_leave(&conn->reactor);
}

static void redis_engine_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    hfi_reactor_enter(&conn->reactor);
    if (op->kind == HFI_OP_CELL_WAIT)
        redis_cell_cancel(conn, op, status);
    else
        redis_cancel(conn, op, status);
    hfi_reactor_leave(&conn->reactor);
}

void redis_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err)
{
    op->engine[REDIS_OP_WAIT] = NULL;
    hfi_reactor_finish(&conn->reactor, op, status, err);
}

void redis_doubt(struct hfi_conn *conn)
{
    conn->reactor.doubt = "the server, or its data, is another one now";
}

/* ---- claims by owner --------------------------------------------------------------------- */

static struct hfi_claim **bucket(struct hfi_conn *conn, const unsigned char *owner)
{
    uint32_t key;

    memcpy(&key, owner, sizeof key); /* owners are random */
    return &conn->claims[key % REDIS_BUCKETS];
}

static uintptr_t flags(const struct hfi_claim *claim)
{
    return (uintptr_t)claim->engine[REDIS_CLAIM_FLAGS];
}

void redis_claim_add(struct hfi_conn *conn, struct hfi_claim *claim)
{
    struct hfi_claim **at = bucket(conn, claim->owner);

    if (flags(claim) & REDIS_FLAG_LISTED)
        return;
    claim->engine[REDIS_CLAIM_NEXT] = *at;
    *at = claim;
    claim->engine[REDIS_CLAIM_FLAGS] = (void *)(flags(claim) | REDIS_FLAG_LISTED);
}

static void forget_note(struct hfi_conn *conn, struct hfi_claim *claim)
{
    struct hfi_claim *before = NULL, *next = claim->engine[REDIS_CLAIM_NOTED];

    if (!next)
        return;
    if (next == claim)
        next = NULL; /* it is the last */
    for (struct hfi_claim *one = conn->noted; one != claim; one = one->engine[REDIS_CLAIM_NOTED])
        before = one;
    if (before)
        before->engine[REDIS_CLAIM_NOTED] =
            next ? next : before; /* never NULL: it is in the list */
    else
        conn->noted = next;
    claim->engine[REDIS_CLAIM_NOTED] = NULL;
}

void redis_claim_remove(struct hfi_conn *conn, struct hfi_claim *claim)
{
    struct hfi_claim **at = bucket(conn, claim->owner);

    if (!(flags(claim) & REDIS_FLAG_LISTED))
        return;
    forget_note(conn, claim);
    while (*at != claim) {
        struct hfi_claim *one = *at;
        at = (struct hfi_claim **)&one->engine[REDIS_CLAIM_NEXT];
    }
    *at = claim->engine[REDIS_CLAIM_NEXT];
    claim->engine[REDIS_CLAIM_FLAGS] = (void *)(flags(claim) & ~(uintptr_t)REDIS_FLAG_LISTED);
}

struct hfi_claim *redis_claim_find(struct hfi_conn *conn, const unsigned char *owner)
{
    struct hfi_claim *claim = *bucket(conn, owner);

    while (claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0)
        claim = claim->engine[REDIS_CLAIM_NEXT];
    return claim;
}

/* ---- the tables ----------------------------------------------------------------------------- */

#define CALLS                                                                                      \
    .abi = HFI_ENGINE_ABI, .default_ttl_ms = REDIS_TTL_MS, .min_ttl_ms = 1000, .open = redis_open, \
    .close = redis_close, .conf = &redis_conf_type, .submit = redis_submit,                        \
    .cancel = redis_engine_cancel, HFI_REACTOR_DRIVE, .doctor = redis_doctor,                      \
    HFI_ROOMS(struct hfi_reactor_op, char)

#define SCHEMES \
    "redis rediss redis+unix redis+sentinel rediss+sentinel redis+cluster rediss+cluster"

/* Promises that do not depend on the wire. */
#define PROMISES                                                                                 \
    .schemes = SCHEMES, .available = 1, .on_crash = "freed after the ttl",                       \
    .on_server_loss = "leases are lost with the data; an asynchronous failover may forget them " \
                      "(sync=N narrows that)",                                                   \
    .on_partition = "unavailable on the far side; LOST by our own clock before the lease ends"

/* A foreign wire has no tokens, and the server's own expiry ends its locks. */
#define FOREIGN                                                                              \
    .on_pause = "freed after the ttl; nothing fences: there are no tokens",                  \
    .on_clock_jump = "forward: leases end early; back: names stay taken until the clock is " \
                     "there again"

static const struct hfi_engine plain = {
    CALLS,
    .info = { PROMISES, FOREIGN, .name = "redis-plain", .tokens = HF_TOKEN_STRENGTH_NONE,
              .fairness = "none: who asks first after a release",
              .wakeup = "a jittered poll, and the holder's expiry",
              .caps = HF_CAP_TTL | HF_CAP_DETACHED },
};

static const struct hfi_engine redisson = {
    CALLS,
    .info = { PROMISES, FOREIGN, .name = "redis-redisson", .tokens = HF_TOKEN_STRENGTH_NONE,
              .fairness = "none: who asks first after a release",
              .wakeup = "the unlock message, and a jittered poll",
              .caps = HF_CAP_TTL | HF_CAP_DETACHED },
};

static const struct hfi_engine *redis_variant(const struct hfi_conf *conf);

static const struct hfi_engine native = {
    CALLS,
    .variant = redis_variant,
    .passed = redis_passed,
    .native = HFI_NATIVE_COUNTER | HFI_NATIVE_LIMIT,
    .kill_script = redis_script_kill,
    .manage = redis_manage,
    .info = { PROMISES, .name = "redis", .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
              .fairness = "FIFO", .on_pause = "freed after the ttl; the token fences",
              .on_clock_jump =
                  "forward: leases end early, the token fences; back: a dead holder keeps its "
                  "name for a ttl more",
              .wakeup = "the release hands over by a message",
              .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                      HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                      HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK |
                      HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_CLOCK |
                      HF_CAP_SCRIPTS },
};

/* The URL decides on the wire, and that on what can be promised. */
static const struct hfi_engine *redis_variant(const struct hfi_conf *conf)
{
    switch (((const struct hfi_redis_conf *)conf)->wire) {
    case HFI_WIRE_PLAIN:
        return &plain;
    case HFI_WIRE_REDISSON:
        return &redisson;
    case HFI_WIRE_NATIVE:
        break;
    }
    return &native;
}

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &native;
}
