/* SPDX-License-Identifier: MIT */
/*
 * Seats: connections that hold leases. They are links of the pool that are not given back while there is
 * room; one link is always left to the pool, for calls that are not ours (tokens, cells, recording names).
 *
 *   free seat --take--> busy --give--> free          any thread that needs a statement on it
 *        \                 \
 *         +---- hung ------+--> ended: link closed, leases lost
 */
#include "engine/sql/hold.h"

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

static hf_status open_seat(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat **ret_seat,
                           hf_error *err);

void sql_hold_sleep(struct sql_hold *hold, int64_t until_ms)
{
    int64_t ms = until_ms - hfi_now_ms();
    struct timespec t;

    if (ms > 60000)
        ms = 60000; /* callers look again anyway */
    if (ms <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&hold->changed, &hold->lock, &t);
}

/* ---- choosing --------------------------------------------------------------------------------------- */

/* By hash alone: two names that share one are kept apart too, which costs nothing. */
static bool holds(const struct sql_seat *seat, uint64_t hash)
{
    for (uint32_t i = 0; i < seat->count; i++)
        if (seat->held[i].hash == hash)
            return true;
    return false;
}

/* A free seat: an empty one if somebody may wait on it, else the one that has most, so that empty ones
 * stay so. */
static struct sql_seat *choose(struct sql_hold *hold, const struct sql_stay *stay, bool tried,
                               enum sql_way *ret_way)
{
    uint64_t hash = stay->op->claim->name.hash[0];
    struct sql_seat *best = NULL;

    for (struct sql_seat *seat = hold->seats; seat; seat = seat->next) {
        if (seat->busy || seat->hung)
            continue;
        if (seat->count == 0 && stay->op->may_wait) {
            *ret_way = SQL_WAY_WAIT;
            return seat;
        }
        if (!tried && seat->count < hold->seat_max && !holds(seat, hash) &&
            (!best || best->count < seat->count))
            best = seat;
    }
    *ret_way = SQL_WAY_TRY;
    return best;
}

/* Is there a seat that will be free as soon as its statement is answered? */
static bool soon_free(const struct sql_hold *hold)
{
    for (const struct sql_seat *seat = hold->seats; seat; seat = seat->next) {
        const struct sql_stay *stay = hold->stays;

        while (stay && stay->seat != seat)
            stay = stay->next;
        if (seat->busy && !stay && seat->count < hold->seat_max)
            return true;
    }
    return false;
}

static hf_status full(struct sql_hold *hold, hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0,
                         "all %u connections for locks hold leases or wait for them (connections=)",
                         (unsigned)hold->limit);
}

hf_status sql_seat_take(struct sql_hold *hold, struct sql_stay *stay, bool tried,
                        struct sql_seat **ret_seat, enum sql_way *ret_way, hf_error *err)
{
    struct sql_seat *seat = NULL;
    hf_status status = HF_OK;

    pthread_mutex_lock(&hold->lock);
    while (!(seat = choose(hold, stay, tried, ret_way)) && hold->count >= hold->limit) {
        if (stay->stop != HF_OK)
            status = (hf_status)stay->stop;
        else if (!stay->op->may_wait && !soon_free(hold))
            status = full(hold, HF_FULL, err);
        else if (hfi_now_ms() >= stay->op->deadline_ms)
            status = full(hold, stay->op->may_wait ? HF_TIMEOUT : HF_UNAVAILABLE, err);
        if (status != HF_OK)
            break;
        sql_hold_sleep(hold, stay->op->deadline_ms);
    }
    if (seat)
        seat->busy = true;
    else if (status == HF_OK)
        hold->count++; /* our right to open one */
    pthread_mutex_unlock(&hold->lock);
    if (seat || status != HF_OK) {
        *ret_seat = seat;
        return status;
    }
    *ret_way = stay->op->may_wait ? SQL_WAY_WAIT : SQL_WAY_TRY;
    return open_seat(hold, stay, ret_seat, err);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* So that a host that vanished is noticed: by us, soon; by the server (words->prepare), a little later. */
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

/* The link's session, made fit to hold. */
static hf_status prepare(struct sql_hold *hold, struct sql_link *link, int64_t deadline_ms,
                         hf_error *err)
{
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble;
    hf_status status = hold->words->verify(link, hold->conn->conf.mode, deadline_ms, err);

    if (status != HF_OK)
        return status;
    status = sql_text(link, hold->words->prepare, deadline_ms, &rows, &trouble);
    if (status == HF_OK) {
        sql_rows_free(&rows);
        return HF_OK;
    }
    if (status == HF_UNKNOWN)
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
}

static void close_seat(struct sql_seat *seat)
{
    if (seat->link) {
        seat->link->dead = true; /* whatever is left in its session ends with it */
        sql_give(seat->link);
    }
    if (seat->fd >= 0)
        close(seat->fd);
    hfi_free(seat);
}

static hf_status make_seat(struct sql_hold *hold, int64_t deadline_ms, struct sql_seat *seat,
                           hf_error *err)
{
    hf_status status = sql_take(hold->conn, deadline_ms, &seat->link, err);

    if (status != HF_OK)
        return status;
    seat->fd = fcntl(hold->conn->driver->fd(seat->link), F_DUPFD_CLOEXEC, 3);
    if (seat->fd < 0)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "no descriptor to be had");
    keep_alive(seat->fd);
    status = prepare(hold, seat->link, deadline_ms, err);
    if (status == HF_OK && !sql_watch_add(hold, seat))
        return hfi_error_memory(err);
    return status;
}

static hf_status open_seat(struct sql_hold *hold, struct sql_stay *stay, struct sql_seat **ret_seat,
                           hf_error *err)
{
    struct sql_seat *seat = hfi_calloc(1, sizeof *seat + hold->seat_max * sizeof seat->held[0]);
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), hold->conn->conf.connect_ms);
    hf_status status;

    if (stay->op->deadline_ms < until_ms)
        until_ms = stay->op->deadline_ms;
    if (seat) {
        seat->fd = -1;
        seat->busy = true;
        seat->id = ++hold->last_id;
        status = make_seat(hold, until_ms, seat, err);
    } else {
        status = hfi_error_memory(err);
    }
    if (status != HF_OK && seat)
        close_seat(seat);
    if (status == HF_UNAVAILABLE && stay->op->may_wait && hfi_now_ms() >= stay->op->deadline_ms)
        status = HF_TIMEOUT; /* it may be there, but not in the time that we were given */
    pthread_mutex_lock(&hold->lock);
    if (status == HF_OK) {
        seat->next = hold->seats;
        hold->seats = seat;
        *ret_seat = seat;
    } else {
        hold->count--;
        pthread_cond_broadcast(&hold->changed);
    }
    pthread_mutex_unlock(&hold->lock);
    return status;
}

/* ---- leases on it -------------------------------------------------------------------------------------- */

void sql_seat_put(struct sql_seat *seat, struct hfi_claim *claim)
{
    *sql_lock_claim(claim) = (struct sql_lock_claim){ .seat = seat, .at = seat->count };
    seat->held[seat->count++] = (struct sql_held){ claim->name.hash[0], claim };
}

static void take_off(struct sql_seat *seat, struct hfi_claim *claim)
{
    size_t at = sql_lock_claim(claim)->at;

    seat->held[at] = seat->held[--seat->count];
    sql_lock_claim(seat->held[at].claim)->at = at;
    sql_lock_claim(claim)->seat = NULL;
}

struct sql_seat *sql_seat_of(struct sql_hold *hold, struct hfi_claim *claim)
{
    struct sql_seat *seat;

    pthread_mutex_lock(&hold->lock);
    while ((seat = sql_lock_claim(claim)->seat) && seat->busy)
        sql_hold_sleep(hold, HFI_NEVER); /* its statement has a time limit */
    if (seat) {
        seat->busy = true;
        take_off(seat, claim);
    }
    pthread_mutex_unlock(&hold->lock);
    return seat;
}

void sql_seat_give(struct sql_hold *hold, struct sql_seat *seat)
{
    pthread_mutex_lock(&hold->lock);
    if (!seat->hung && !seat->link->dead) {
        seat->busy = false;
        pthread_cond_broadcast(&hold->changed);
        pthread_mutex_unlock(&hold->lock);
        return;
    }
    pthread_mutex_unlock(&hold->lock);
    sql_seat_end(hold, seat, "its connection to the server was lost");
}

void sql_seat_end(struct sql_hold *hold, struct sql_seat *seat, const char *why)
{
    struct hfi_host *host = hold->conn->host;

    pthread_mutex_lock(&hold->lock);
    for (struct sql_seat **at = &hold->seats; *at; at = &(*at)->next)
        if (*at == seat) {
            *at = seat->next;
            break;
        }
    (void)epoll_ctl(hold->epoll_fd, EPOLL_CTL_DEL, seat->fd, NULL);
    while (seat->count > 0) {
        struct hfi_claim *claim = seat->held[seat->count - 1].claim;
        unsigned char owner[HFI_OWNER_LEN];

        memcpy(owner, claim->owner, sizeof owner);
        take_off(seat, claim); /* from here on a release finds it lost */
        pthread_mutex_unlock(&hold->lock);
        host->lost(host, claim, owner, why);
        pthread_mutex_lock(&hold->lock);
    }
    hold->count--;
    pthread_cond_broadcast(&hold->changed);
    pthread_mutex_unlock(&hold->lock);
    close_seat(seat);
}
