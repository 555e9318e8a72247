/* SPDX-License-Identifier: MIT */
/*
 * The memcached engine: its table, opening and closing, and what comes in from core. See mc.h for
 * the parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/memcached/mc.h"

#include "core/url.h"
#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err);
static void destroy(struct hfi_conn *conn);

/* ---- open and close ---------------------------------------------------------------------- */

static hf_status mc_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err)
{
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->epoll_fd = conn->kick_fd = -1;
    status = hfi_mc_conf_parse(url, &conn->conf, err);
    if (status == HF_OK)
        status = hfi_url_all_taken(url, err); /* before a server that refuses us can hide it */
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = hfi_mc_net_open(conn, err);
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
    struct mc_call *call;
    struct mc_hold *hold;

    while ((call = conn->pool)) {
        conn->pool = call->next;
        hfi_free(call);
    }
    while ((hold = conn->held)) {
        hfi_mc_hold_unlink(&conn->held, hold);
        hfi_free(hold);
    }
    hfi_mc_ghosts_done(conn);
    if (conn->epoll_fd >= 0)
        close(conn->epoll_fd);
    if (conn->kick_fd >= 0)
        close(conn->kick_fd);
    hfi_mc_conf_free(conn->conf);
    hfi_free(conn);
}

static void mc_close(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->closing = true;
    hfi_mc_net_close(conn);
    pthread_mutex_unlock(&conn->lock);
    destroy(conn);
}

static const char *mc_location(struct hfi_conn *conn)
{
    return conn->conf->location;
}

/* ---- ops ------------------------------------------------------------------------------------- */

static void submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        hfi_mc_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        hfi_mc_release(conn, op);
        return;
    case HFI_OP_RENEW:
        hfi_mc_renew(conn, op);
        return;
    case HFI_OP_ADOPT:
        hfi_mc_adopt(conn, op);
        return;
    case HFI_OP_INSPECT:
        hfi_mc_inspect(conn, op);
        return;
    case HFI_OP_CELL_READ:
        hfi_mc_cell_read_op(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        hfi_mc_cell_swap_op(conn, op);
        return;
    default: /* BREAK: by token, and there are none */
        break;
    }
    hfi_mc_finish(conn, op, HF_UNSUPPORTED, NULL);
}

static void mc_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    pthread_mutex_lock(&conn->lock);
    submit(conn, op);
    hfi_mc_leave(conn);
}

static void mc_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    pthread_mutex_lock(&conn->lock);
    hfi_mc_cancel(conn, op, status);
    hfi_mc_leave(conn);
}

void hfi_mc_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    op->engine[MC_OP_NEXT] = NULL;
    op->engine[MC_OP_STATUS] = (void *)(intptr_t)status;
    *conn->done_end = op;
    conn->done_end = (struct hfi_op **)&op->engine[MC_OP_NEXT];
}

void hfi_mc_leave(struct hfi_conn *conn)
{
    struct hfi_op *op = conn->done, *next;
    struct hfi_host *host = conn->host;
    bool doubt = conn->doubt, wake;

    conn->done = NULL;
    conn->done_end = &conn->done;
    conn->doubt = false;
    if (!conn->corked) {
        if (conn->link)
            hfi_mc_link_flush(conn->link);
        hfi_mc_searches_flush(conn);
    }
    wake = hfi_mc_hurry(conn);
    pthread_mutex_unlock(&conn->lock);

    if (wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, "the server was restarted: it has forgotten all leases");
    for (; op; op = next) {
        next = op->engine[MC_OP_NEXT];
        hfi_op_finish(op, (hf_status)(intptr_t)op->engine[MC_OP_STATUS]);
    }
}

void hfi_mc_hold_link(struct mc_hold **list, struct mc_hold *hold)
{
    hold->prev = NULL;
    hold->next = *list;
    if (*list)
        (*list)->prev = hold;
    *list = hold;
}

void hfi_mc_hold_unlink(struct mc_hold **list, struct mc_hold *hold)
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
    .default_ttl_ms = MC_TTL_MS,
    .min_ttl_ms = MC_MIN_TTL_MS,
    .guard_ms = MC_GUARD_MS,
    .info = { .name = "memcached",
              .schemes = "memcached memcached+unix",
              .available = 1,
              .tokens = HF_TOKENS_NONE,
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
    .open = mc_open,
    .close = mc_close,
    .location = mc_location,
    .submit = mc_submit,
    .cancel = mc_cancel,
    .fd = hfi_mc_fd,
    .timeout_ms = hfi_mc_timeout_ms,
    .process = hfi_mc_process,
    .turn = hfi_mc_drive,
    .kick = hfi_mc_kick,
    .cork = hfi_mc_cork,
    .doctor = hfi_mc_doctor,
};

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &engine;
}
