/* SPDX-License-Identifier: MIT */
/*
 * The way into a SQL store: opening, closing, and where each op goes. BLOCKING: each op runs here, on
 * the thread that submits it, until it is finished.
 */
#include "engine/sql/hold.h"
#include "engine/sql/wait.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define OPEN_LIMIT_MS  5000
#define REACH_PAUSE_MS 50

#define SWEEP_ONE_IN 4 /* stores that are closed */

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    pthread_condattr_t attr;

    conn->host = host;
    conn->client = (int64_t)(hfi_random_u64() >> 2) | 1;
    pthread_mutex_init(&conn->lock, NULL);
    pthread_mutex_init(&conn->schema_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&conn->note_lock, NULL);
    pthread_cond_init(&conn->link_free, &attr);
    pthread_condattr_destroy(&attr);
    conn->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->kick_fd < 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor to be had: %s",
                             strerror(errno));
    return HF_OK;
}

static void destroy(struct hfi_conn *conn)
{
    sql_fork_remove(conn);
    if (conn->conf.mode == SQL_MODE_LEASE)
        while (conn->held) /* detached, or what could not be given back: its note is still ours */
            sql_held_remove(conn, conn->held);
    sql_hold_close(conn);
    sql_pool_close(conn);
    sql_ghosts_done(conn);
    conn->driver->free_conf(conn);
    if (conn->kick_fd >= 0)
        close(conn->kick_fd);
    hfi_free(conn);
}

/* Reach the server, and find or make what we need there. */
static hf_status reach_once(struct hfi_conn *conn, int64_t until_ms, hf_error *err)
{
    struct sql_link *link;
    hf_status status = sql_take(conn, until_ms, &link, err);

    if ((status == HF_NOT_FOUND || status == HF_VERSION) &&
        conn->host->existing) /* each op says so; doctor needs no tables */
        status = sql_take_raw(conn, until_ms, &link, err);
    if (status != HF_OK)
        return status;
    /* Also in mode=lease: a bell that is another session with every transaction rings for nobody. */
    status = conn->driver->hold->verify(link, conn->conf.mode, until_ms, err);
    sql_give(link);
    return status;
}

/* A server that is just being started is worth a wait, as long as opening may take. */
static hf_status reach(struct hfi_conn *conn, hf_error *err)
{
    const struct timespec pause = { .tv_nsec = REACH_PAUSE_MS * 1000000L };
    int64_t until_ms = conn->host->open_deadline_ms;
    hf_status status;

    if (until_ms <= 0 || until_ms == HFI_NEVER)
        until_ms = hfi_now_ms() + OPEN_LIMIT_MS;
    for (;;) {
        status = reach_once(conn, until_ms, err);
        if ((status != HF_UNAVAILABLE && status != HF_UNKNOWN) || conn->host->open_once ||
            hfi_now_ms() + REACH_PAUSE_MS >= until_ms)
            break;
        nanosleep(&pause, NULL);
    }
    return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
}

hf_status sql_store_open(const struct sql_driver *driver, const struct hfi_engine *engine,
                         struct hfi_conf *conf, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err)
{
    struct sql_conf *sql = (struct sql_conf *)conf;
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->driver = driver;
    conn->engine = engine;
    conn->kick_fd = -1;
    status = sql_conf_finish(sql, err);
    conn->conf = *sql;
    if (status == HF_OK)
        status = driver->parse(conn, sql, err);
    host->location = conn->location;
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK && conn->conf.mode != SQL_MODE_LEASE)
        status = sql_hold_open(conn, err);
    if (status == HF_OK) {
        sql_fork_add(conn);
        status = reach(conn, err);
    }
    if (status != HF_OK) {
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

void sql_close(struct hfi_conn *conn)
{
    sql_bell_stop(conn);
    if (!conn->host->existing && hfi_random_u64() % SWEEP_ONE_IN == 0)
        sql_sweep(conn);
    destroy(conn);
}

/* In a forked child: descriptors are copies, and closing them tells the server nothing. The rest
 * belongs to threads that do not exist here. */
void sql_abandon(struct hfi_conn *conn)
{
    for (struct sql_link *link = conn->all; link; link = link->all_next)
        conn->driver->abandon(link);
    sql_hold_abandon(conn);
    close(conn->kick_fd);
}

/* ---- ops ---------------------------------------------------------------------------------------- */

void sql_finish(struct hfi_op *op, hf_status status, const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    hfi_op_finish(op, status);
}

static void submit_lease(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        sql_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        sql_release(conn, op);
        return;
    case HFI_OP_RENEW:
        sql_renew(conn, op);
        return;
    case HFI_OP_ADOPT:
        sql_adopt(conn, op);
        return;
    case HFI_OP_INSPECT:
        sql_inspect(conn, op);
        return;
    case HFI_OP_BREAK:
        sql_break(conn, op);
        return;
    default:
        sql_finish(op, HF_UNSUPPORTED, NULL);
        return;
    }
}

void sql_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_CELL_READ:
        sql_cell_read(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        sql_cell_swap(conn, op);
        return;
    case HFI_OP_CELL_WAIT:
        sql_cell_wait(conn, op);
        return;
    case HFI_OP_TIME:
        sql_time(conn, op);
        return;
    default:
        if (conn->conf.mode == SQL_MODE_LEASE)
            submit_lease(conn, op);
        else
            sql_hold_submit(conn, op);
        return;
    }
}

void sql_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    if (conn->conf.mode == SQL_MODE_LEASE || op->kind == HFI_OP_CELL_WAIT)
        sql_wait_cancel(conn, op, status);
    else
        sql_hold_cancel(conn, op, status);
}
