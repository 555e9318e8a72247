/* SPDX-License-Identifier: MIT */
/*
 * Lock connections: those that hold leases. They are connections of the pool that are kept; one
 * connection is always left to the pool, for other calls (tokens, cells, recording names).
 *
 *   free lock connection --take--> busy --give--> free          any thread that needs a statement on it
 *        \                 \
 *         +---- hung ------+--> ended: connection closed, leases lost
 */
#include "engine/sql/native_lock.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static hf_status open_lock_conn(struct sql_locks *locks, struct sql_lock_wait *wait,
                                struct sql_lock_connection **ret_lock_conn, hf_error *err);

void sql_locks_sleep(struct sql_locks *locks, int64_t until_ms)
{
    sql_cond_wait(&locks->changed, &locks->lock, until_ms);
}

/* ---- choosing --------------------------------------------------------------------------------------- */

/* Compares hashes only: two names with the same hash are kept apart too, which does no harm. */
static bool holds(const struct sql_lock_connection *lock_conn, uint64_t hash)
{
    for (uint32_t i = 0; i < lock_conn->count; i++)
        if (lock_conn->held[i].hash == hash)
            return true;
    return false;
}

/* A free lock connection: an empty one if the caller may have to wait on it, else the one with the
 * most leases, so that others stay empty. */
static struct sql_lock_connection *choose(struct sql_locks *locks, const struct sql_lock_wait *wait,
                                          bool tried, enum sql_lock_how *ret_how)
{
    uint64_t hash = wait->op->claim->name.hash[0];
    struct sql_lock_connection *best = NULL;

    for (struct sql_lock_connection *lock_conn = locks->lock_conns; lock_conn;
         lock_conn = lock_conn->next) {
        if (lock_conn->busy || lock_conn->hung)
            continue;
        if (lock_conn->count == 0 && wait->op->may_wait) {
            *ret_how = SQL_LOCK_BY_WAIT;
            return lock_conn;
        }
        if (!tried && lock_conn->count < locks->locks_max && !holds(lock_conn, hash) &&
            (!best || best->count < lock_conn->count))
            best = lock_conn;
    }
    *ret_how = SQL_LOCK_BY_TRY;
    return best;
}

/* Is there a lock connection that will be free as soon as its statement is answered? */
static bool soon_free(const struct sql_locks *locks)
{
    for (const struct sql_lock_connection *lock_conn = locks->lock_conns; lock_conn;
         lock_conn = lock_conn->next) {
        const struct sql_lock_wait *wait = locks->lock_waits;

        while (wait && wait->lock_conn != lock_conn)
            wait = wait->next;
        if (lock_conn->busy && !wait && lock_conn->count < locks->locks_max)
            return true;
    }
    return false;
}

static hf_status full(struct sql_locks *locks, hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0,
                         "all %u connections for locks hold leases or wait for them (connections=)",
                         (unsigned)locks->limit);
}

hf_status sql_lock_connection_take(struct sql_locks *locks, struct sql_lock_wait *wait, bool tried,
                                   struct sql_lock_connection **ret_lock_conn,
                                   enum sql_lock_how *ret_how, hf_error *err)
{
    struct sql_lock_connection *lock_conn = NULL;
    hf_status status = HF_OK;

    pthread_mutex_lock(&locks->lock);
    while (!(lock_conn = choose(locks, wait, tried, ret_how)) && locks->count >= locks->limit) {
        if (wait->stop != HF_OK)
            status = (hf_status)wait->stop;
        else if (!wait->op->may_wait && !soon_free(locks))
            status = full(locks, HF_FULL, err);
        else if (hfi_now_ms() >= wait->op->deadline_ms)
            status = full(locks, wait->op->may_wait ? HF_TIMEOUT : HF_UNAVAILABLE, err);
        if (status != HF_OK)
            break;
        sql_locks_sleep(locks, wait->op->deadline_ms);
    }
    if (lock_conn)
        lock_conn->busy = true;
    else if (status == HF_OK)
        locks->count++; /* reserve the one that we open */
    pthread_mutex_unlock(&locks->lock);
    if (lock_conn || status != HF_OK) {
        *ret_lock_conn = lock_conn;
        return status;
    }
    *ret_how = wait->op->may_wait ? SQL_LOCK_BY_WAIT : SQL_LOCK_BY_TRY;
    return open_lock_conn(locks, wait, ret_lock_conn, err);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* Keepalives, so that the loss of a host is noticed: by us soon, by the server (sql->prepare) a
 * little later. */
static void keep_alive(int fd)
{
    int on = 1, idle = SQL_ALIVE_IDLE_S, interval = SQL_ALIVE_INTERVAL_S, count = SQL_ALIVE_COUNT;
    unsigned most_ms = 1000u * (SQL_ALIVE_IDLE_S + SQL_ALIVE_INTERVAL_S * SQL_ALIVE_COUNT);

    /* A unix socket has none of these, and does not need them. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

/* Prepare the session of the connection for holding locks. */
static hf_status prepare(struct sql_locks *locks, struct sql_connection *connection,
                         int64_t deadline_ms, hf_error *err)
{
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble;
    hf_status status = locks->sql->verify(connection, locks->store->conf.mode, deadline_ms, err);

    if (status != HF_OK)
        return status;
    status = sql_text(connection, locks->sql->prepare, deadline_ms, &rows, &trouble);
    if (status == HF_OK) {
        sql_rows_free(&rows);
        return HF_OK;
    }
    if (status == HF_UNKNOWN)
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
}

static void close_lock_conn(struct sql_lock_connection *lock_conn)
{
    if (lock_conn->connection) {
        lock_conn->connection->dead = true; /* close it: that ends whatever its session still has */
        sql_give(lock_conn->connection);
    }
    if (lock_conn->fd >= 0)
        close(lock_conn->fd);
    hfi_free(lock_conn);
}

static hf_status make_lock_conn(struct sql_locks *locks, int64_t deadline_ms,
                                struct sql_lock_connection *lock_conn, hf_error *err)
{
    hf_status status = sql_take(locks->store, deadline_ms, &lock_conn->connection, err);

    if (status != HF_OK)
        return status;
    lock_conn->fd = fcntl(locks->store->driver->fd(lock_conn->connection), F_DUPFD_CLOEXEC, 3);
    if (lock_conn->fd < 0)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "no descriptor is left");
    keep_alive(lock_conn->fd);
    status = prepare(locks, lock_conn->connection, deadline_ms, err);
    if (status == HF_OK && !sql_watch_add(locks, lock_conn))
        return hfi_error_memory(err);
    return status;
}

static hf_status open_lock_conn(struct sql_locks *locks, struct sql_lock_wait *wait,
                                struct sql_lock_connection **ret_lock_conn, hf_error *err)
{
    struct sql_lock_connection *lock_conn =
        hfi_calloc(1, sizeof *lock_conn + locks->locks_max * sizeof lock_conn->held[0]);
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), locks->store->conf.connect_ms);
    hf_status status;

    if (wait->op->deadline_ms < until_ms)
        until_ms = wait->op->deadline_ms;
    if (lock_conn) {
        lock_conn->fd = -1;
        lock_conn->busy = true;
        lock_conn->id = ++locks->last_id;
        status = make_lock_conn(locks, until_ms, lock_conn, err);
    } else {
        status = hfi_error_memory(err);
    }
    if (status != HF_OK && lock_conn)
        close_lock_conn(lock_conn);
    if (status == HF_UNAVAILABLE && wait->op->may_wait && hfi_now_ms() >= wait->op->deadline_ms)
        status = HF_TIMEOUT; /* the server may work, but not within our deadline */
    pthread_mutex_lock(&locks->lock);
    if (status == HF_OK) {
        lock_conn->next = locks->lock_conns;
        locks->lock_conns = lock_conn;
        *ret_lock_conn = lock_conn;
    } else {
        locks->count--;
        pthread_cond_broadcast(&locks->changed);
    }
    pthread_mutex_unlock(&locks->lock);
    return status;
}

/* ---- leases on it -------------------------------------------------------------------------------------- */

void sql_lock_connection_put(struct sql_lock_connection *lock_conn, struct hfi_claim *claim,
                             int64_t key)
{
    *sql_lock_claim(claim) =
        (struct sql_lock_claim){ .lock_conn = lock_conn, .at = lock_conn->count, .key = key };
    lock_conn->held[lock_conn->count++] = (struct sql_held){ claim->name.hash[0], claim };
}

static void take_off(struct sql_lock_connection *lock_conn, struct hfi_claim *claim)
{
    size_t at = sql_lock_claim(claim)->at;

    lock_conn->held[at] = lock_conn->held[--lock_conn->count];
    sql_lock_claim(lock_conn->held[at].claim)->at = at;
    sql_lock_claim(claim)->lock_conn = NULL;
}

struct sql_lock_connection *sql_lock_connection_of(struct sql_locks *locks, struct hfi_claim *claim)
{
    struct sql_lock_connection *lock_conn;

    pthread_mutex_lock(&locks->lock);
    while ((lock_conn = sql_lock_claim(claim)->lock_conn) && lock_conn->busy)
        sql_locks_sleep(locks, HFI_NEVER); /* its statement has a time limit */
    if (lock_conn) {
        lock_conn->busy = true;
        take_off(lock_conn, claim);
    }
    pthread_mutex_unlock(&locks->lock);
    return lock_conn;
}

void sql_lock_connection_give(struct sql_locks *locks, struct sql_lock_connection *lock_conn)
{
    pthread_mutex_lock(&locks->lock);
    if (!lock_conn->hung && !lock_conn->connection->dead) {
        lock_conn->busy = false;
        pthread_cond_broadcast(&locks->changed);
        pthread_mutex_unlock(&locks->lock);
        return;
    }
    pthread_mutex_unlock(&locks->lock);
    sql_lock_connection_end(locks, lock_conn, "its connection to the server was lost");
}

void sql_lock_connection_end(struct sql_locks *locks, struct sql_lock_connection *lock_conn,
                             const char *why)
{
    struct hfi_host *host = locks->store->host;

    pthread_mutex_lock(&locks->lock);
    for (struct sql_lock_connection **at = &locks->lock_conns; *at; at = &(*at)->next)
        if (*at == lock_conn) {
            *at = lock_conn->next;
            break;
        }
    (void)epoll_ctl(locks->epoll_fd, EPOLL_CTL_DEL, lock_conn->fd, NULL);
    while (lock_conn->count > 0) {
        struct hfi_claim *claim = lock_conn->held[lock_conn->count - 1].claim;
        unsigned char owner[HFI_OWNER_LEN];

        memcpy(owner, claim->owner, sizeof owner);
        take_off(lock_conn, claim); /* from here on a release finds it lost */
        pthread_mutex_unlock(&locks->lock);
        host->lost(host, claim, owner, why);
        pthread_mutex_lock(&locks->lock);
    }
    locks->count--;
    pthread_cond_broadcast(&locks->changed);
    pthread_mutex_unlock(&locks->lock);
    close_lock_conn(lock_conn);
}
