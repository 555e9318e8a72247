/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine: its table, opening and closing, and what comes in from core. See internal.h for
 * the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/url.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
    conn->epoll_fd = conn->kick_fd = -1;
    conn->conf = (struct memcached_conf *)conf;
    status = memcached_conf_check(conn->conf, err);
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = memcached_net_open(conn, err);
    if (status != HF_OK) {
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

    pthread_mutex_init(&conn->lock, NULL);
    conn->host = host;
    conn->told_ms = INT64_MIN;
    conn->parked_end = &conn->parked;
    conn->done_end = &conn->done;
    conn->beat_ms = conn->ghost_ms = conn->parked_ms = HFI_NEVER;
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
    struct memcached_call *call;
    struct memcached_hold *hold;

    while ((call = conn->pool)) {
        conn->pool = call->next;
        hfi_free(call);
    }
    while ((hold = conn->held)) {
        memcached_hold_unlink(&conn->held, hold);
        hfi_free(hold);
    }
    memcached_ghosts_done(conn);
    if (conn->epoll_fd >= 0)
        close(conn->epoll_fd);
    if (conn->kick_fd >= 0)
        close(conn->kick_fd);
    hfi_free(conn);
}

static void memcached_close(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->closing = true;
    memcached_net_close(conn);
    pthread_mutex_unlock(&conn->lock);
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
    pthread_mutex_lock(&conn->lock);
    submit(conn, op);
    memcached_leave(conn);
}

static void memcached_engine_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    pthread_mutex_lock(&conn->lock);
    memcached_cancel(conn, op, status);
    memcached_leave(conn);
}

void memcached_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status,
                      const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    op->engine[MEMCACHED_OP_NEXT] = NULL;
    op->engine[MEMCACHED_OP_STATUS] = (void *)(intptr_t)status;
    *conn->done_end = op;
    conn->done_end = (struct hfi_op **)&op->engine[MEMCACHED_OP_NEXT];
}

void memcached_leave(struct hfi_conn *conn)
{
    struct hfi_op *op = conn->done, *next;
    struct hfi_host *host = conn->host;
    bool doubt = conn->doubt, wake;

    conn->done = NULL;
    conn->done_end = &conn->done;
    conn->doubt = false;
    if (!conn->corked) {
        if (conn->link)
            memcached_link_flush(conn->link);
        memcached_searches_flush(conn);
    }
    wake = memcached_hurry(conn);
    pthread_mutex_unlock(&conn->lock);

    if (wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, "the server was restarted: it has forgotten all leases");
    for (; op; op = next) {
        next = op->engine[MEMCACHED_OP_NEXT];
        hfi_op_finish(op, (hf_status)(intptr_t)op->engine[MEMCACHED_OP_STATUS]);
    }
}

void memcached_hold_link(struct memcached_hold **list, struct memcached_hold *hold)
{
    hold->prev = NULL;
    hold->next = *list;
    if (*list)
        (*list)->prev = hold;
    *list = hold;
}

void memcached_hold_unlink(struct memcached_hold **list, struct memcached_hold *hold)
{
    if (hold->next)
        hold->next->prev = hold->prev;
    if (hold->prev)
        hold->prev->next = hold->next;
    else
        *list = hold->next;
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = HFI_EVENT,
    .default_ttl_ms = MEMCACHED_TTL_MS,
    .min_ttl_ms = MEMCACHED_MIN_TTL_MS,
    .guard_ms = MEMCACHED_GUARD_MS,
    .info = { .name = "memcached",
              .schemes = "memcached memcached+unix",
              .available = 1,
              .tokens = HF_TOKEN_STRENGTH_NONE,
              .on_crash = "freed after the ttl",
              .on_pause = "freed after the ttl; nothing fences: there are no tokens",
              .on_clock_jump =
                  "no effect; but what reaches a stopped server just before it goes on "
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
    .fd = memcached_fd,
    .timeout_ms = memcached_timeout_ms,
    .process = memcached_process,
    .turn = memcached_drive,
    .kick = memcached_kick,
    .cork = memcached_cork,
    .doctor = memcached_doctor,
};

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &engine;
}
