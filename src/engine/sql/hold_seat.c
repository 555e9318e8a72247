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

static hf_status open_seat(struct sq_hold *hold, struct sq_stay *stay, struct sq_seat **ret_seat,
                           hf_error *err);

void hfi_sq_hold_sleep(struct sq_hold *hold, int64_t until_ms)
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
static bool holds(const struct sq_seat *seat, uint64_t hash)
{
    for (uint32_t i = 0; i < seat->count; i++)
        if (seat->held[i].hash == hash)
            return true;
    return false;
}

/* A free seat: an empty one if somebody may wait on it, else the one that has most, so that empty ones
 * stay so. */
static struct sq_seat *choose(struct sq_hold *hold, const struct sq_stay *stay, bool tried,
                              enum sq_way *ret_way)
{
    uint64_t hash = stay->op->claim->name.hash[0];
    struct sq_seat *best = NULL;

    for (struct sq_seat *seat = hold->seats; seat; seat = seat->next) {
        if (seat->busy || seat->hung)
            continue;
        if (seat->count == 0 && stay->op->may_wait) {
            *ret_way = SQ_WAY_WAIT;
            return seat;
        }
        if (!tried && seat->count < hold->seat_max && !holds(seat, hash) &&
            (!best || best->count < seat->count))
            best = seat;
    }
    *ret_way = SQ_WAY_TRY;
    return best;
}

/* Is there a seat that will be free as soon as its statement is answered? */
static bool soon_free(const struct sq_hold *hold)
{
    for (const struct sq_seat *seat = hold->seats; seat; seat = seat->next) {
        const struct sq_stay *stay = hold->stays;

        while (stay && stay->seat != seat)
            stay = stay->next;
        if (seat->busy && !stay && seat->count < hold->seat_max)
            return true;
    }
    return false;
}

static hf_status full(struct sq_hold *hold, hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0,
                         "all %u connections for locks hold leases or wait for them (connections=)",
                         (unsigned)hold->limit);
}

hf_status hfi_sq_seat_take(struct sq_hold *hold, struct sq_stay *stay, bool tried,
                           struct sq_seat **ret_seat, enum sq_way *ret_way, hf_error *err)
{
    struct sq_seat *seat = NULL;
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
        hfi_sq_hold_sleep(hold, stay->op->deadline_ms);
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
    *ret_way = stay->op->may_wait ? SQ_WAY_WAIT : SQ_WAY_TRY;
    return open_seat(hold, stay, ret_seat, err);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* So that a host that vanished is noticed: by us, soon; by the server (words->prepare), a little later. */
static void keep_alive(int fd)
{
    int on = 1, idle = SQ_ALIVE_IDLE_S, interval = SQ_ALIVE_INTERVAL_S, count = SQ_ALIVE_COUNT;
    unsigned most_ms = 1000u * (SQ_ALIVE_IDLE_S + SQ_ALIVE_INTERVAL_S * SQ_ALIVE_COUNT);

    /* A unix socket has none of these, and does not need them. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

/* The link's session, made fit to hold. */
static hf_status prepare(struct sq_hold *hold, struct sq_link *link, int64_t deadline_ms,
                         hf_error *err)
{
    struct sq_rows rows = { 0 };
    struct sq_trouble trouble;
    hf_status status = hold->words->verify(link, hold->conn->conf.mode, deadline_ms, err);

    if (status != HF_OK)
        return status;
    status = hfi_sq_text(link, hold->words->prepare, deadline_ms, &rows, &trouble);
    if (status == HF_OK) {
        hfi_sq_rows_free(&rows);
        return HF_OK;
    }
    if (status == HF_UNKNOWN)
        status = trouble.status == HF_NO_MEMORY ? HF_NO_MEMORY : HF_UNAVAILABLE;
    return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
}

static void close_seat(struct sq_seat *seat)
{
    if (seat->link) {
        seat->link->dead = true; /* whatever is left in its session ends with it */
        hfi_sq_give(seat->link);
    }
    if (seat->fd >= 0)
        close(seat->fd);
    hfi_free(seat);
}

static hf_status make_seat(struct sq_hold *hold, int64_t deadline_ms, struct sq_seat *seat,
                           hf_error *err)
{
    hf_status status = hfi_sq_take(hold->conn, deadline_ms, &seat->link, err);

    if (status != HF_OK)
        return status;
    seat->fd = fcntl(hold->conn->driver->fd(seat->link), F_DUPFD_CLOEXEC, 3);
    if (seat->fd < 0)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "no descriptor to be had");
    keep_alive(seat->fd);
    status = prepare(hold, seat->link, deadline_ms, err);
    if (status == HF_OK && !hfi_sq_watch_add(hold, seat))
        return hfi_error_memory(err);
    return status;
}

static hf_status open_seat(struct sq_hold *hold, struct sq_stay *stay, struct sq_seat **ret_seat,
                           hf_error *err)
{
    struct sq_seat *seat = hfi_calloc(1, sizeof *seat + hold->seat_max * sizeof seat->held[0]);
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

void hfi_sq_seat_put(struct sq_seat *seat, struct hfi_claim *claim)
{
    claim->engine[SQ_CLAIM_SEAT] = seat;
    claim->engine[SQ_CLAIM_AT] = (void *)(uintptr_t)seat->count;
    seat->held[seat->count++] = (struct sq_held){ claim->name.hash[0], claim };
}

static void take_off(struct sq_seat *seat, struct hfi_claim *claim)
{
    size_t at = (size_t)(uintptr_t)claim->engine[SQ_CLAIM_AT];

    seat->held[at] = seat->held[--seat->count];
    seat->held[at].claim->engine[SQ_CLAIM_AT] = (void *)at;
    claim->engine[SQ_CLAIM_SEAT] = NULL;
}

struct sq_seat *hfi_sq_seat_of(struct sq_hold *hold, struct hfi_claim *claim)
{
    struct sq_seat *seat;

    pthread_mutex_lock(&hold->lock);
    while ((seat = claim->engine[SQ_CLAIM_SEAT]) && seat->busy)
        hfi_sq_hold_sleep(hold, HFI_NEVER); /* its statement has a time limit */
    if (seat) {
        seat->busy = true;
        take_off(seat, claim);
    }
    pthread_mutex_unlock(&hold->lock);
    return seat;
}

void hfi_sq_seat_give(struct sq_hold *hold, struct sq_seat *seat)
{
    pthread_mutex_lock(&hold->lock);
    if (!seat->hung && !seat->link->dead) {
        seat->busy = false;
        pthread_cond_broadcast(&hold->changed);
        pthread_mutex_unlock(&hold->lock);
        return;
    }
    pthread_mutex_unlock(&hold->lock);
    hfi_sq_seat_end(hold, seat, "its connection to the server was lost");
}

void hfi_sq_seat_end(struct sq_hold *hold, struct sq_seat *seat, const char *why)
{
    struct hfi_host *host = hold->conn->host;

    pthread_mutex_lock(&hold->lock);
    for (struct sq_seat **at = &hold->seats; *at; at = &(*at)->next)
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
