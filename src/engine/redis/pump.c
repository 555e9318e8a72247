/* SPDX-License-Identifier: MIT */
/*
 * Being driven: see pump.h. One thread at a time is in turn or process; it alone reads from
 * sockets, opens, closes and frees links.
 *
 * There are two ways to sleep. While answers are under way on one link only, everything that
 * can happen soon happens there: a plain recv(2) on that socket is the sleep, the wake-up and
 * the reading in one system call, so an uncontended pair on one server costs four in all. The sleep is
 * sliced (HFI_LINK_SLICE_MS), and now and then epoll is asked what the other sockets have.
 * Otherwise we wait for several, for a message or a timer, and that is epoll_wait(2).
 */
#include "engine/redis/pump.h"

#include "engine/redis/link.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX   32
#define LOOK_MS      2  /* how long the other sockets may go without a look while one is busy ... */
#define LOOK_IDLE_MS 20 /* ... and nobody waits for a message */

/* A claim that is no longer ours, until core has been told. */
struct hfi_loss {
    struct hfi_loss *next;
    struct hfi_claim *claim;
    unsigned char owner[HFI_OWNER_LEN];
    const char *why;
};

static int poll_links(struct hfi_pump *pump, int timeout_ms, struct hfi_link *ready[EVENTS_MAX]);
static void work(struct hfi_pump *pump, struct hfi_link *const ready[], int count);
static bool hurry(struct hfi_pump *pump);

hf_status hfi_pump_init(struct hfi_pump *pump, struct hfi_host *host,
                        const struct hfi_pump_owner *owner, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

    pthread_mutex_init(&pump->lock, NULL);
    pump->host = host;
    pump->owner = owner;
    pump->told_ms = INT64_MIN;
    pump->done_end = &pump->done;
    pump->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pump->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pump->epoll_fd < 0 || pump->kick_fd < 0 ||
        epoll_ctl(pump->epoll_fd, EPOLL_CTL_ADD, pump->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor to be had: %s",
                             strerror(errno));
    return HF_OK;
}

void hfi_pump_done(struct hfi_pump *pump)
{
    struct hfi_loss *loss;

    while ((loss = pump->losses)) {
        pump->losses = loss->next;
        hfi_free(loss);
    }
    if (!pump->host)
        return; /* never begun */
    if (pump->epoll_fd >= 0)
        close(pump->epoll_fd);
    if (pump->kick_fd >= 0)
        close(pump->kick_fd);
    pthread_mutex_destroy(&pump->lock);
}

/* ---- what core is told ------------------------------------------------------------------- */

void hfi_pump_enter(struct hfi_pump *pump)
{
    pthread_mutex_lock(&pump->lock);
}

void hfi_pump_finish(struct hfi_pump *pump, struct hfi_op *op, hf_status status,
                     const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    op->engine[HFI_PUMP_NEXT] = NULL;
    op->engine[HFI_PUMP_STATUS] = (void *)(intptr_t)status;
    *pump->done_end = op;
    pump->done_end = (struct hfi_op **)&op->engine[HFI_PUMP_NEXT];
}

void hfi_pump_lost(struct hfi_pump *pump, struct hfi_claim *claim, const char *why)
{
    struct hfi_loss *loss = hfi_malloc(sizeof *loss);

    if (!loss)
        return; /* the next renewal will find out */
    loss->claim = claim;
    memcpy(loss->owner, claim->owner, HFI_OWNER_LEN);
    loss->why = why;
    loss->next = pump->losses;
    pump->losses = loss;
}

void hfi_pump_leave(struct hfi_pump *pump)
{
    struct hfi_op *op = pump->done, *next;
    struct hfi_loss *loss = pump->losses, *after;
    struct hfi_host *host = pump->host;
    const char *doubt = pump->doubt;
    bool wake;

    pump->done = NULL;
    pump->done_end = &pump->done;
    pump->losses = NULL;
    pump->doubt = NULL;
    if (!pump->corked)
        pump->owner->flush(pump);
    wake = hurry(pump);
    pthread_mutex_unlock(&pump->lock);

    if (wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, doubt);
    for (; loss; loss = after) {
        after = loss->next;
        host->lost(host, loss->claim, loss->owner, loss->why);
        hfi_free(loss);
    }
    for (; op; op = next) {
        next = op->engine[HFI_PUMP_NEXT];
        hfi_op_finish(op, (hf_status)(intptr_t)op->engine[HFI_PUMP_STATUS]);
    }
}

void hfi_pump_slip(struct hfi_pump *pump, bool sooner)
{
    struct hfi_host *host = pump->host;
    bool wake = sooner && hurry(pump);

    pthread_mutex_unlock(&pump->lock);
    if (wake)
        host->wake(host);
}

/* ---- being driven --------------------------------------------------------------------------- */

static int until(int64_t due_ms, int64_t now_ms)
{
    if (due_ms == HFI_NEVER)
        return -1;
    if (due_ms <= now_ms)
        return 0;
    return due_ms - now_ms > INT_MAX ? INT_MAX : (int)(due_ms - now_ms);
}

int hfi_pump_timeout_ms(struct hfi_pump *pump, int64_t now_ms)
{
    int timeout_ms;

    pthread_mutex_lock(&pump->lock);
    pump->told_ms = pump->done || pump->losses ? now_ms : pump->owner->next_ms(pump);
    timeout_ms = until(pump->told_ms, now_ms);
    pthread_mutex_unlock(&pump->lock);
    return timeout_ms;
}

void hfi_pump_process(struct hfi_pump *pump)
{
    struct hfi_link *ready[EVENTS_MAX];

    work(pump, ready, poll_links(pump, 0, ready));
}

void hfi_pump_turn(struct hfi_pump *pump, int64_t until_ms)
{
    struct hfi_link *ready[EVENTS_MAX + 1], *busy = NULL;
    int64_t now_ms = hfi_now_ms(), due_ms;
    bool look, listens = false, heard = false;
    int count = 0;

    pthread_mutex_lock(&pump->lock);
    if (pump->owner->busy)
        busy = pump->owner->busy(pump, &listens);
    due_ms = pump->owner->next_ms(pump);
    if (until_ms < due_ms)
        due_ms = until_ms;
    look = !busy || now_ms - pump->looked_ms >= (listens ? LOOK_MS : LOOK_IDLE_MS);
    if (look)
        pump->looked_ms = now_ms;
    if (!busy) {
        /* First the mark, then the sleep: what becomes due from now on comes with a kick. */
        pump->nap_until_ms = due_ms;
        pump->napping = true;
    }
    pthread_mutex_unlock(&pump->lock);

    if (look) {
        count = poll_links(pump, busy ? 0 : until(due_ms, now_ms), ready);
        for (int i = 0; i < count; i++)
            heard = heard || ready[i] == busy;
    }
    if (busy && !heard && due_ms > now_ms) {
        hfi_link_read(busy, true);
        ready[count++] = busy;
    }
    work(pump, ready, count);
}

/* Wait for sockets, and read from those that have something. Without the lock. */
static int poll_links(struct hfi_pump *pump, int timeout_ms, struct hfi_link *ready[EVENTS_MAX])
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(pump->epoll_fd, events, EVENTS_MAX, timeout_ms), used = 0;
    uint64_t kicks;

    for (int i = 0; i < count; i++) {
        struct hfi_link *link = events[i].data.ptr;

        if (!link) {
            if (read(pump->kick_fd, &kicks, sizeof kicks) < 0)
                kicks = 0; /* it was read before: nothing is lost */
            continue;
        }
        hfi_link_read(link, false);
        ready[used++] = link;
    }
    return used;
}

/* Act on what was read and on what is due; finish what is done. What others submit meanwhile, woken
 * by what we finish, leaves with our own in one write at the end. */
static void work(struct hfi_pump *pump, struct hfi_link *const ready[], int count)
{
    int64_t now_ms = hfi_now_ms();

    pthread_mutex_lock(&pump->lock);
    pump->napping = false;
    pump->corked++;
    for (int i = 0; i < count; i++)
        hfi_link_take(ready[i], now_ms);
    pump->owner->tick(pump, now_ms);
    /* One alone needs no cork: whoever it wakes writes for himself. */
    if ((pump->done && pump->done->engine[HFI_PUMP_NEXT]) || pump->losses || pump->doubt) {
        hfi_pump_leave(pump);
        pthread_mutex_lock(&pump->lock);
    }
    pump->corked--;
    hfi_pump_leave(pump);
}

void hfi_pump_cork(struct hfi_pump *pump, bool on)
{
    pthread_mutex_lock(&pump->lock);
    pump->looping = on;
    if (on) {
        pump->corked++;
        pthread_mutex_unlock(&pump->lock);
        return;
    }
    pump->corked--;
    hfi_pump_leave(pump);
}

void hfi_pump_kick(struct hfi_pump *pump)
{
    uint64_t one = 1;

    if (write(pump->kick_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* Something may have become due earlier: a driver that naps past it is kicked. true: core must be
 * told too (host->wake), for a caller's own loop sleeps longer than it should. With the lock. */
static bool hurry(struct hfi_pump *pump)
{
    int64_t due_ms = pump->owner->next_ms(pump);

    if (pump->napping && due_ms < pump->nap_until_ms) {
        pump->nap_until_ms = due_ms; /* one kick is enough */
        hfi_pump_kick(pump);
    }
    if (due_ms >= pump->told_ms)
        return false;
    pump->told_ms = due_ms;
    return true;
}
