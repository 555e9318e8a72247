/* SPDX-License-Identifier: MIT */
/*
 * The zookeeper engine: its table, opening and closing, and what comes in from core. See internal.h for the
 * parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
    conn->epoll_fd = conn->kick_fd = conn->socket_fd = -1;
    hfi_list_init(&conn->claim_nodes);
    pthread_mutex_init(&conn->lock, NULL);
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
    struct epoll_event event = { .events = EPOLLIN, .data.fd = -1 };

    conn->host = host;
    conn->told_ms = INT64_MIN;
    conn->done_end = &conn->done;
    conn->due_ms = conn->op_due_ms = conn->asked_ms = HFI_NEVER;
    conn->validity.timeout_ms = conn->conf->timeout_ms;
    init_acl(conn);
    conn->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    conn->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->epoll_fd < 0 || conn->kick_fd < 0 ||
        epoll_ctl(conn->epoll_fd, EPOLL_CTL_ADD, conn->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor to be had: %s",
                             strerror(errno));
    return HF_OK;
}

static void destroy(struct hfi_conn *conn)
{
    struct zk_loss *loss;

    while (!hfi_list_empty(&conn->claim_nodes))
        zk_claim_node_free(hfi_container(conn->claim_nodes.next, struct zk_claim_node, listed));
    while ((loss = conn->losses)) {
        conn->losses = loss->next;
        hfi_free(loss);
    }
    if (conn->epoll_fd >= 0)
        close(conn->epoll_fd);
    if (conn->kick_fd >= 0)
        close(conn->kick_fd);
    pthread_mutex_destroy(&conn->lock);
    hfi_free(conn->members);
    zk_servers_done(&conn->servers);
    hfi_free(conn);
}

static void zk_close(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    zk_session_close(conn);
    pthread_mutex_unlock(&conn->lock);
    destroy(conn);
}

static int64_t zk_max_ttl_ms(struct hfi_conn *conn)
{
    int64_t timeout_ms;

    pthread_mutex_lock(&conn->lock);
    timeout_ms = conn->validity.timeout_ms;
    pthread_mutex_unlock(&conn->lock);
    return timeout_ms;
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
    pthread_mutex_lock(&conn->lock);
    submit(conn, op);
    zk_leave(conn);
}

static void zk_cancel_op(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    pthread_mutex_lock(&conn->lock);
    if (op->kind == HFI_OP_CELL_WAIT)
        zk_cell_cancel(conn, op, status);
    else
        zk_cancel(conn, op, status);
    zk_leave(conn);
}

void zk_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    *zk_op(op) = (struct zk_op){ .status = status };
    *conn->done_end = op;
    conn->done_end = &zk_op(op)->next;
}

void zk_lost(struct hfi_conn *conn, struct hfi_claim *claim, const char *why)
{
    struct zk_loss *loss = hfi_malloc(sizeof *loss);

    if (!loss)
        return; /* the next renewal will find out */
    loss->claim = claim;
    memcpy(loss->owner, claim->owner, HFI_OWNER_LEN);
    loss->why = why;
    loss->next = conn->losses;
    conn->losses = loss;
}

void zk_leave(struct hfi_conn *conn)
{
    struct hfi_op *op = conn->done, *next;
    struct zk_loss *loss = conn->losses, *after;
    struct hfi_host *host = conn->host;
    bool doubt = conn->doubt, wake;

    conn->done = NULL;
    conn->done_end = &conn->done;
    conn->losses = NULL;
    conn->doubt = false;
    wake = zk_hurry(conn);
    pthread_mutex_unlock(&conn->lock);

    if (wake && host->wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, "the session with ZooKeeper is disconnected");
    for (; loss; loss = after) {
        after = loss->next;
        host->lost(host, loss->claim, loss->owner, loss->why);
        hfi_free(loss);
    }
    for (; op; op = next) {
        next = zk_op(op)->next;
        hfi_op_finish(op, zk_op(op)->status);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct hfi_engine zookeeper = {
    .abi = HFI_ENGINE_ABI,
    .drive = HFI_EVENT,
    .default_ttl_ms = ZK_DEFAULT_TTL_MS,
    .min_ttl_ms = 1000,
    HFI_ROOMS(struct zk_op, struct zk_claim),
    .open = zk_open,
    .close = zk_close,
    .conf = &zk_conf_type,
    .max_ttl_ms = zk_max_ttl_ms,
    .submit = zk_submit,
    .cancel = zk_cancel_op,
    .fd = zk_fd,
    .timeout_ms = zk_timeout_ms,
    .process = zk_process,
    .turn = zk_turn,
    .kick = zk_kick,
    .doctor = zk_doctor,
    .info = { .name = "zookeeper",
              .schemes = "zk",
              .available = 1,
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
