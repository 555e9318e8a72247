/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine: its table, opening and closing, and what comes in from core. See internal.h for
 * the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/url.h"

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err);
static void destroy(struct hfi_conn *conn);

/* ---- open and close ---------------------------------------------------------------------- */

static hf_status memcached_open(struct hfi_conf *conf, struct hfi_host *host,
                                struct hfi_conn **ret_conn, hf_error *err)
{
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    hfi_list_init(&conn->waits);
    hfi_list_init(&conn->held);
    conn->conf = (struct memcached_conf *)conf;
    status = memcached_conf_check(conn->conf, err);
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = memcached_net_open(conn, err);
    if (status != HF_OK) {
        memcached_net_close(conn);
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

/* ---- what is due ------------------------------------------------------------------------------- */

static int64_t timers_next_ms(const struct hfi_source *source)
{
    const struct hfi_conn *conn = hfi_container(source, struct hfi_conn, timers);
    int64_t next = memcached_searches_next_ms(conn);

    if (conn->beat_ms < next)
        next = conn->beat_ms;
    return conn->late_add_ms < next ? conn->late_add_ms : next;
}

static void timers_due(struct hfi_source *source, int64_t now_ms)
{
    struct hfi_conn *conn = hfi_container(source, struct hfi_conn, timers);

    if (conn->beat_ms <= now_ms)
        memcached_waits_tick(conn, now_ms);
    if (conn->late_add_ms <= now_ms)
        memcached_late_adds_tick(conn, now_ms);
    if (conn->searches)
        memcached_searches_tick(conn, now_ms);
}

static const struct hfi_source_calls timers = { .due = timers_due, .next_ms = timers_next_ms };

/* ---- init and destroy ---------------------------------------------------------------------------- */

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    hf_status status = hfi_reactor_init(&conn->reactor, host, err);

    conn->beat_ms = conn->late_add_ms = HFI_NEVER;
    conn->timers.exact = conn->requests.unpark.exact = true;
    if (status == HF_OK &&
        (!hfi_source_add(&conn->timers, &conn->reactor, &timers) ||
         !hfi_requests_init(&conn->requests, &conn->reactor, &memcached_request_calls,
                            sizeof(struct memcached_call), MEMCACHED_POOL_MAX)))
        status = hfi_error_memory(err);
    return status;
}

static void destroy(struct hfi_conn *conn)
{
    struct hfi_list *held;

    while ((held = hfi_list_pop(&conn->held)))
        hfi_free(hfi_container(held, struct memcached_hold, listed));
    memcached_late_adds_done(conn);
    hfi_requests_done(&conn->requests);
    hfi_reactor_done(&conn->reactor);
    hfi_free(conn);
}

static void memcached_close(struct hfi_conn *conn)
{
    hfi_reactor_enter(&conn->reactor);
    memcached_net_close(conn);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    destroy(conn);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        memcached_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        memcached_release(conn, op);
        return;
    case HFI_OP_RENEW:
        memcached_renew(conn, op);
        return;
    case HFI_OP_ADOPT:
        memcached_adopt(conn, op);
        return;
    case HFI_OP_INSPECT:
        memcached_inspect(conn, op);
        return;
    case HFI_OP_CELL_READ:
        memcached_cell_read_op(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        memcached_cell_swap_op(conn, op);
        return;
    default: /* BREAK: by token, and there are none */
        break;
    }
    memcached_finish(conn, op, HF_UNSUPPORTED, NULL);
}

static void memcached_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    hfi_reactor_enter(&conn->reactor);
    submit(conn, op);
    hfi_reactor_leave(&conn->reactor);
}

static void memcached_engine_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    hfi_reactor_enter(&conn->reactor);
    memcached_cancel(conn, op, status);
    hfi_reactor_leave(&conn->reactor);
}

void memcached_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status,
                      const hf_error *err)
{
    hfi_reactor_finish(&conn->reactor, op, status, err);
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &hfi_reactor_drive,
    HFI_ROOMS(struct memcached_op, struct memcached_claim),
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = MEMCACHED_TTL_MS,
            .min_ttl_ms = MEMCACHED_MIN_TTL_MS,
            .guard_ms = MEMCACHED_GUARD_MS,
            .name = "memcached",
            .schemes = "memcached memcached+unix",
            .tokens = HF_TOKEN_STRENGTH_NONE,
            .on_crash = "freed after the ttl",
            .on_pause = "freed after the ttl; nothing fences: there are no tokens",
            .on_clock_jump = "no effect; but what reaches a stopped server just before it goes on "
                             "may end early",
            .on_server_loss = "a restart, a flush or an eviction forgets leases while they are "
                              "held: noticed at the next renewal only",
            .on_partition = "unavailable on the far side; LOST by our own clock before the lease "
                            "ends",
            .fairness = "none: who asks first after a release",
            .wakeup = "a jittered poll: there is nothing to wait on",
            .caps =
                HF_CAP_TTL | HF_CAP_DETACHED | HF_CAP_INSPECT | HF_CAP_CELLS | HF_CAP_CELL_TTL },
    .open = memcached_open,
    .close = memcached_close,
    .conf = &memcached_conf_type,
    .submit = memcached_submit,
    .cancel = memcached_engine_cancel,
    .admin = &(const struct hfi_admin){ .doctor = memcached_doctor },
};

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &engine;
}
