/* SPDX-License-Identifier: MIT */
/*
 * The entry points of a SQL store: open, close, and dispatching each op. BLOCKING: each op runs
 * here, on the thread that submits it, until it is finished or suspended.
 */
#include "engine/sql/listener.h"
#include "engine/sql/native_lock.h"

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

static hf_status init(struct sql_store *store, struct hfi_host *host, hf_error *err)
{
    pthread_condattr_t attr;

    store->host = host;
    store->client = (int64_t)(hfi_random_u64() >> 2) | 1;
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->schema_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&store->note_lock, NULL);
    pthread_cond_init(&store->connection_free, &attr);
    pthread_condattr_destroy(&attr);
    store->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->kick_fd < 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor is left: %s",
                             strerror(errno));
    return HF_OK;
}

static void destroy(struct sql_store *store)
{
    sql_fork_remove(store);
    if (store->conf.mode == SQL_MODE_LEASE)
        while (store->held) /* detached, or could not be released: its note is still ours */
            sql_held_remove(store, store->held);
    sql_locks_close(store);
    sql_pool_close(store);
    sql_stale_free(store);
    store->driver->free_conf(store);
    if (store->kick_fd >= 0)
        close(store->kick_fd);
}

/* Connect to the server, and find or create our tables. */
static hf_status reach_once(struct sql_store *store, int64_t until_ms, hf_error *err)
{
    struct sql_connection *connection;
    hf_status status = sql_take(store, until_ms, &connection, err);

    if ((status == HF_NOT_FOUND || status == HF_VERSION) &&
        store->host->existing) /* each op reports that; the doctor needs no tables */
        status = sql_take_raw(store, until_ms, &connection, err);
    if (status != HF_OK)
        return status;
    /* Also in mode=lease: behind a transaction pooler a listener would get no notifications. */
    status = store->driver->lock_sql->verify(connection, store->conf.mode, until_ms, err);
    sql_give(connection);
    return status;
}

/* Retry while the server is being started, as long as opening may take. */
static hf_status reach(struct sql_store *store, hf_error *err)
{
    const struct timespec pause = { .tv_nsec = REACH_PAUSE_MS * 1000000L };
    int64_t until_ms = store->host->open_deadline_ms;
    hf_status status;

    if (until_ms <= 0 || until_ms == HFI_NEVER)
        until_ms = hfi_now_ms() + OPEN_LIMIT_MS;
    for (;;) {
        status = reach_once(store, until_ms, err);
        if ((status != HF_UNAVAILABLE && status != HF_UNKNOWN) || store->host->open_once ||
            hfi_now_ms() + REACH_PAUSE_MS >= until_ms)
            break;
        nanosleep(&pause, NULL);
    }
    return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
}

hf_status sql_store_open(struct sql_store *store, const struct sql_driver *driver,
                         struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct sql_conf *sql = (struct sql_conf *)conf;
    hf_status status;

    store->driver = driver;
    store->kick_fd = -1;
    status = sql_conf_finish(sql, err);
    store->conf = *sql;
    if (status == HF_OK)
        status = driver->parse(store, sql, err);
    if (status == HF_OK)
        status = sql_conf_select(store, &sql->url, err);
    host->location = store->location;
    if (status == HF_OK && host->no_wait)
        status = hfi_error_set(err, HF_UNSUPPORTED, 0,
                               "a database is waited for: opening finds out whether a connection "
                               "keeps its session, which a pooler may take away");
    if (status == HF_OK)
        status = init(store, host, err);
    if (status == HF_OK && store->conf.mode != SQL_MODE_LEASE)
        status = sql_locks_open(store, err);
    if (status == HF_OK) {
        sql_fork_add(store);
        status = reach(store, err);
    }
    if (status != HF_OK)
        destroy(store);
    return status;
}

const struct hfi_promises *sql_promises(const struct sql_conf *conf,
                                        const struct hfi_promises *lease,
                                        const struct hfi_promises native[2][2])
{
    return conf->mode == SQL_MODE_LEASE ? lease
                                        : &native[conf->mode == SQL_MODE_SESSION][conf->tokens];
}

void sql_close(void *self)
{
    struct sql_store *store = self;
    bool known = store->listener || atomic_load(&store->watches); /* the server has rows of ours */

    sql_listener_stop(store);
    sql_sweep_closing(store, known);
    destroy(store);
}

/* In a forked child: descriptors are copies, and closing them tells the server nothing. The rest
 * belongs to threads that do not exist here. */
void sql_abandon(struct sql_store *store)
{
    for (struct sql_connection *connection = store->all; connection;
         connection = connection->all_next)
        store->driver->abandon(connection);
    sql_locks_abandon(store);
    close(store->kick_fd);
}

/* ---- ops ---------------------------------------------------------------------------------------- */

void sql_finish(struct hfi_op *op, hf_status status, const hf_error *err)
{
    if (status != HF_OK && !(err && err->text[0])) {
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    } else if (status != HF_OK) {
        if (err != &op->error)
            op->error = *err;
        op->error.status = status;
    }
    hfi_op_finish(op, status);
}

static void submit_lease(struct sql_store *store, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        sql_acquire(store, op);
        return;
    case HFI_OP_RELEASE:
        sql_release(store, op);
        return;
    case HFI_OP_RENEW:
        sql_renew(store, op);
        return;
    case HFI_OP_ADOPT:
        sql_adopt(store, op);
        return;
    case HFI_OP_LIST:
        sql_list(store, op);
        return;
    case HFI_OP_LOOK:
        sql_look(store, op);
        return;
    case HFI_OP_BREAK:
        sql_break(store, op);
        return;
    case HFI_OP_ASK:
        sql_ask(store, op);
        return;
    case HFI_OP_RESIZE:
        sql_resize(store, op);
        return;
    default:
        sql_finish(op, HF_UNSUPPORTED, NULL);
        return;
    }
}

void sql_submit(void *self, struct hfi_op *op)
{
    struct sql_store *store = self;

    switch (op->kind) {
    case HFI_OP_CELL_READ:
        sql_cell_read(store, op);
        return;
    case HFI_OP_CELL_SWAP:
        sql_cell_swap(store, op);
        return;
    case HFI_OP_CELLS_COMMIT:
        sql_cells_commit(store, op);
        return;
    case HFI_OP_CELL_WAIT:
        sql_cell_wait(store, op);
        return;
    case HFI_OP_TIME:
        sql_time(store, op);
        return;
    default:
        if (store->conf.mode == SQL_MODE_LEASE)
            submit_lease(store, op);
        else
            sql_locks_submit(store, op);
        return;
    }
}

void sql_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct sql_store *store = self;

    if (store->conf.mode == SQL_MODE_LEASE || op->kind == HFI_OP_CELL_WAIT)
        sql_wait_cancel(store, op);
    else
        sql_locks_cancel(store, op, status);
}
