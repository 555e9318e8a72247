/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine: its table, opening and closing, and what comes in from core. See internal.h for the
 * parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err);
static void destroy(struct hfi_conn *conn);

/* ---- open and close ------------------------------------------------------------------------- */

static hf_status zk_open(struct hfi_conf *conf, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err)
{
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->socket_fd = -1;
    hfi_list_init(&conn->claim_nodes);
    conn->conf = (struct zk_conf *)conf;
    status = zk_conf_finish(conn->conf, err);
    host->location = conn->conf->location;
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = zk_session_open(conn, err);
    if (status != HF_OK) {
        zk_session_close(conn);
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

static void init_acl(struct hfi_conn *conn)
{
    bool open = conn->conf->acl == ZK_ACL_OPEN;

    conn->acl.data = conn->acl_room;
    conn->acl.count = conn->conf->acl == ZK_ACL_READ ? 2 : 1;
    conn->acl_room[0].perms = ZOO_PERM_ALL;
    conn->acl_room[0].id = open ? ZOO_ANYONE_ID_UNSAFE : ZOO_AUTH_IDS;
    conn->acl_room[1].perms = ZOO_PERM_READ;
    conn->acl_room[1].id = ZOO_ANYONE_ID_UNSAFE;
}

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    hf_status status;

    conn->due_ms = conn->op_due_ms = conn->asked_ms = HFI_NEVER;
    conn->validity.timeout_ms = conn->conf->timeout_ms;
    atomic_store(&host->max_ttl_ms, conn->conf->timeout_ms);
    init_acl(conn);
    status = hfi_reactor_init(&conn->reactor, host, err);
    if (status == HF_OK && !hfi_source_add(&conn->library, &conn->reactor, &zk_library_calls))
        status = hfi_error_memory(err);
    return status;
}

static void destroy(struct hfi_conn *conn)
{
    while (!hfi_list_empty(&conn->claim_nodes))
        zk_claim_node_free(hfi_container(conn->claim_nodes.next, struct zk_claim_node, listed));
    hfi_reactor_done(&conn->reactor);
    hfi_free(conn->members);
    zk_servers_done(&conn->servers);
    hfi_free(conn);
}

static void zk_close(struct hfi_conn *conn)
{
    hfi_reactor_enter(&conn->reactor);
    zk_session_close(conn);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    destroy(conn);
}

/* ---- ops ------------------------------------------------------------------------------------- */

void zk_begin(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_INSPECT:
        zk_inspect(conn, op);
        return;
    case HFI_OP_BREAK:
        zk_break(conn, op);
        return;
    case HFI_OP_CELL_READ:
        zk_cell_read(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        zk_cell_swap(conn, op);
        return;
    case HFI_OP_TIME:
        zk_time(conn, op);
        return;
    default:
        zk_finish(conn, op, HF_UNSUPPORTED, NULL);
    }
}

void zk_park(struct hfi_conn *conn, struct hfi_op *op)
{
    zk_op(op)->next = conn->parked;
    conn->parked = op;
    if (op->deadline_ms < conn->op_due_ms)
        conn->op_due_ms = op->deadline_ms;
}

static void submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        zk_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        zk_release(conn, op);
        return;
    case HFI_OP_RENEW:
        zk_renew(conn, op);
        return;
    case HFI_OP_CELL_WAIT:
        zk_cell_wait(conn, op);
        return;
    default:
        break;
    }
    if (conn->denied) {
        zk_finish(conn, op, HF_DENIED, &conn->why);
    } else if (conn->connected) {
        zk_begin(conn, op);
    } else {
        zk_park(conn, op);
    }
}

static void zk_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    hfi_reactor_enter(&conn->reactor);
    submit(conn, op);
    hfi_reactor_leave(&conn->reactor);
}

static void zk_cancel_op(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    hfi_reactor_enter(&conn->reactor);
    if (op->kind == HFI_OP_CELL_WAIT)
        zk_cell_cancel(conn, op, status);
    else
        zk_cancel(conn, op, status);
    hfi_reactor_leave(&conn->reactor);
}

void zk_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err)
{
    zk_op(op)->node = NULL;
    zk_op(op)->cell_wait = NULL;
    hfi_reactor_finish(&conn->reactor, op, status, err);
}

void zk_lost(struct hfi_conn *conn, struct hfi_claim *claim, const char *why)
{
    hfi_reactor_lost(&conn->reactor, claim, why);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct hfi_engine zookeeper = {
    .abi = HFI_ENGINE_ABI,
    .drive = &hfi_reactor_drive,
    HFI_ROOMS(struct zk_op, struct zk_claim),
    .open = zk_open,
    .close = zk_close,
    .conf = &zk_conf_type,
    .submit = zk_submit,
    .cancel = zk_cancel_op,
    .admin = &(const struct hfi_admin){ .doctor = zk_doctor },
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = ZK_DEFAULT_TTL_MS,
            .min_ttl_ms = 1000,
            .name = "zookeeper",
            .schemes = "zk",
            .tokens = HF_TOKEN_STRENGTH_STRICT,
            .on_crash = "freed when the session times out",
            .on_pause = "freed when the session times out; the token fences",
            .on_clock_jump = "none: the servers count with a steady clock",
            .on_server_loss = "goes on while a majority of the ensemble lives",
            .on_partition = "unavailable on the far side; LOST by our own clock before the "
                            "session ends",
            .fairness = "FIFO",
            .wakeup = "a watch on who is before us",
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK | HF_CAP_CELLS |
                    HF_CAP_CELL_WATCH | HF_CAP_CLOCK },
};

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &zookeeper;
}
