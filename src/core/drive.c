/* SPDX-License-Identifier: MIT */
/* Driving EVENT engines, and waiting for ops of any engine. See drive.h. */
#include "core/call.h"
#include "util/clock.h"
#include "util/futex.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * A thread that waits for its op while another drives; on its stack. The thread that sets DONE has
 * removed it from the list before, and afterwards uses only the address of `word`, to wake it: so a
 * woken thread whose op is finished needs no lock.
 */
struct hfi_sleeper {
    struct hfi_list node;
    _Atomic uint32_t word; /* 0: sleep; LOOK, DONE */
};

#define LOOK 1u /* no thread drives: check again. Set with the lock */
#define DONE 2u /* its op is finished */

static void drive_once(struct hfi_store *store, int64_t until_ms, const _Atomic uint32_t *bell,
                       uint32_t rung);
static void poll_once(struct hfi_store *store, int64_t until_ms, const _Atomic uint32_t *bell,
                      uint32_t rung);
static void unlock_handing_on(struct hfi_driver *driver);
static bool sleep_until(struct hfi_driver *driver, struct hfi_call *call, int64_t until_ms);

/* ---- ops -------------------------------------------------------------------------- */

void hfi_op_finish(struct hfi_op *op, hf_status status)
{
    hfi_done_fn *done = op->done; /* without it the op may be gone as soon as it is finished */

    atomic_store_explicit(&op->finished, 1 + (int)status, memory_order_release);
    if (done)
        done(op);
}

bool hfi_call_tell(struct hfi_call *call)
{
    struct hfi_store *store = call->store;
    struct hfi_driver *driver = &store->driver;
    struct hfi_sleeper *sleeper;
    bool late, wake;

    pthread_mutex_lock(&driver->lock);
    atomic_store(&call->done_word, 1);
    late = call->receiver == HFI_TO_NOBODY;
    wake = call->drives && !pthread_equal(driver->thread, pthread_self());
    sleeper = call->sleeper;
    if (sleeper)
        hfi_list_remove(&sleeper->node);
    call->sleeper = NULL;
    pthread_mutex_unlock(&driver->lock);

    /* Without the lock, or the thread would wake up only to wait for it. */
    if (sleeper) {
        atomic_fetch_or(&sleeper->word, DONE);
        hfi_futex_wake(&sleeper->word, 1, false);
    }
    if (wake)
        hfi_drive_wake(store);
    return !late;
}

/* Runs on the thread that drives, or in submit() or cancel(): then the thread that waits for the op may be driving, and
 * sleep in the engine. */
void hfi_call_done(struct hfi_op *op)
{
    struct hfi_call *call = hfi_container(op, struct hfi_call, op);

    if (!hfi_call_tell(call))
        call->answered_by(call, hfi_op_status(op), &op->error);
}

bool hfi_call_wait(struct hfi_call *call, int64_t until_ms)
{
    struct hfi_driver *driver = &call->store->driver;
    bool done;

    if (call->store->drive != HFI_EVENT)
        return true; /* submit() did it */

    pthread_mutex_lock(&driver->lock);
    for (bool first = true; !atomic_load(&call->done_word) && (first || hfi_now_ms() < until_ms);
         first = false) {
        if (driver->driving) {
            if (sleep_until(driver, call, until_ms))
                return true;
            continue;
        }
        driver->driving = true;
        driver->thread = pthread_self();
        driver->used++;
        call->drives = true;
        pthread_mutex_unlock(&driver->lock);
        drive_once(call->store, until_ms, &call->done_word, 0);
        pthread_mutex_lock(&driver->lock);
        call->drives = false;
        driver->driving = false;
    }
    done = atomic_load(&call->done_word);
    unlock_handing_on(driver);
    return done;
}

bool hfi_call_abandon(struct hfi_call *call, hfi_answered_fn *late)
{
    struct hfi_driver *driver = &call->store->driver;
    bool abandoned;

    if (call->store->drive != HFI_EVENT)
        return false;
    (void)hfi_keeper_start(call->store); /* the keeper must drive it to its end */
    pthread_mutex_lock(&driver->lock);
    abandoned = !atomic_load(&call->done_word);
    if (abandoned) {
        call->receiver = HFI_TO_NOBODY;
        call->answered_by = late;
    }
    pthread_mutex_unlock(&driver->lock);
    return abandoned;
}

/* ---- the role ----------------------------------------------------------------------- */

bool hfi_drive_init(struct hfi_store *store)
{
    struct hfi_driver *driver = &store->driver;

    pthread_mutex_init(&driver->lock, NULL);
    hfi_list_init(&driver->sleepers);
    driver->driving = driver->by_keeper = driver->loop_asks = driver->keeper_asks = false;
    driver->used = 0;
    driver->wake_fd = -1;
    atomic_store(&driver->polling, 0);
    if (store->drive != HFI_EVENT)
        return true;

    driver->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return driver->wake_fd >= 0;
}

void hfi_drive_done(struct hfi_store *store)
{
    if (store->driver.wake_fd >= 0)
        close(store->driver.wake_fd);
    store->driver.wake_fd = -1;
}

/*
 * Another thread drives: sleep until the op is finished or the role is free. With the lock, which is
 * dropped; true: it is finished, and the lock is not held any more.
 */
static bool sleep_until(struct hfi_driver *driver, struct hfi_call *call, int64_t until_ms)
{
    struct hfi_sleeper sleeper;
    bool by_keeper = driver->by_keeper;
    uint32_t word;

    atomic_init(&sleeper.word, 0);
    hfi_list_append(&driver->sleepers, &sleeper.node);
    call->sleeper = &sleeper;
    pthread_mutex_unlock(&driver->lock);

    if (by_keeper)
        hfi_drive_wake(
            call->store); /* it gives the role up: that saves a thread switch for every answer */
    while ((word = atomic_load(&sleeper.word)) == 0 && hfi_now_ms() < until_ms)
        hfi_futex_wait(&sleeper.word, 0, until_ms, false);
    if (word != DONE) {
        pthread_mutex_lock(&driver->lock);
        if (call->sleeper) {
            hfi_list_remove(&sleeper.node);
            call->sleeper = NULL;
            return false;
        }
        unlock_handing_on(driver); /* the role may have been offered to us */
        while (!((word = atomic_load(&sleeper.word)) & DONE))
            hfi_futex_wait(&sleeper.word, word, HFI_NEVER, false); /* it is used until then */
    }
    call->sleeper = NULL; /* already done; no other thread uses the call now */
    return true;
}

/* Unlock. If no thread drives, wake one that waits: the word is set with the lock, while the
 * sleeper certainly exists, and the wake-up needs only its address. */
static void unlock_handing_on(struct hfi_driver *driver)
{
    struct hfi_store *store = hfi_container(driver, struct hfi_store, driver);
    _Atomic uint32_t *word = NULL;
    bool ring = false, keeper = false;

    if (!driver->driving && !hfi_list_empty(&driver->sleepers)) {
        word = &hfi_container(driver->sleepers.next, struct hfi_sleeper, node)->word;
        atomic_fetch_or(word, LOOK);
    } else if (!driver->driving) {
        ring = driver->loop_asks;
        keeper = driver->keeper_asks;
        driver->loop_asks = driver->keeper_asks = false;
        hfi_closing_tell_others(store);
    }
    pthread_mutex_unlock(&driver->lock);
    if (word)
        hfi_futex_wake(word, 1, false);
    if (ring)
        hfi_loop_ring(store);
    if (keeper) {
        atomic_fetch_add(&store->keeper.bell, 1);
        hfi_futex_wake(&store->keeper.bell, 1, false);
    }
}

static int shorter(int timeout_ms, int64_t until_ms, int64_t now_ms)
{
    int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;

    if (timeout_ms >= 0 && timeout_ms < left_ms)
        return timeout_ms;
    if (until_ms == HFI_NEVER)
        return -1;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* Wait for the engine to have work, at most until until_ms, and let it work. Do not wait if *bell
 * differs from `rung`. */
static void drive_once(struct hfi_store *store, int64_t until_ms, const _Atomic uint32_t *bell,
                       uint32_t rung)
{
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    struct hfi_driver *driver = &store->driver;

    if (!drive->turn) {
        poll_once(store, until_ms, bell, rung);
        return;
    }
    /* Set the mark first, then read the bell, as below. */
    atomic_store(&driver->polling, 1);
    if (bell && atomic_load(bell) != rung)
        until_ms = 0;
    drive->turn(store->opened, until_ms);
    atomic_store(&driver->polling, 0);
}

/* The same, for an engine without turn(). */
static void poll_once(struct hfi_store *store, int64_t until_ms, const _Atomic uint32_t *bell,
                      uint32_t rung)
{
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    struct hfi_driver *driver = &store->driver;
    struct pollfd fds[2] = { { .fd = drive->fd(store->opened), .events = POLLIN },
                             { .fd = driver->wake_fd, .events = POLLIN } };
    uint64_t count;
    int64_t now_ms;

    /* Set the mark first, then read timeout and bell: a later change comes with a wake-up, which
     * sees the mark and ends the poll. */
    atomic_store(&driver->polling, 1);
    now_ms = hfi_now_ms();
    if (bell && atomic_load(bell) != rung)
        until_ms = now_ms;
    if (poll(fds, 2, shorter(drive->timeout_ms(store->opened, now_ms), until_ms, now_ms)) > 0 &&
        fds[1].revents && read(driver->wake_fd, &count, sizeof count) < 0)
        count = 0; /* another driver was woken by it */
    atomic_store(&driver->polling, 0);
    drive->process(store->opened, hfi_now_ms());
}

/* Take the role if nobody has it. */
static bool take_role(struct hfi_driver *driver)
{
    bool mine;

    pthread_mutex_lock(&driver->lock);
    mine = !driver->driving;
    if (mine) {
        driver->driving = true;
        driver->used++;
    }
    pthread_mutex_unlock(&driver->lock);
    return mine;
}

static void leave_role(struct hfi_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    driver->driving = driver->by_keeper = false;
    unlock_handing_on(driver);
}

void hfi_drive_poll(struct hfi_store *store)
{
    if (store->drive != HFI_EVENT || !take_role(&store->driver))
        return;
    hfi_store_engine(store)->drive->process(store->opened, hfi_now_ms());
    leave_role(&store->driver);
}

int hfi_drive_timeout(struct hfi_store *store)
{
    int timeout_ms;
    bool driving;

    if (store->drive != HFI_EVENT)
        return -1;
    if (!take_role(&store->driver)) {
        pthread_mutex_lock(&store->driver.lock);
        driving = store->driver.loop_asks = store->driver.driving;
        pthread_mutex_unlock(&store->driver.lock);
        return driving ? -1 : 0; /* hf_store_fd() becomes readable when it stops */
    }
    timeout_ms = hfi_store_engine(store)->drive->timeout_ms(store->opened, hfi_now_ms());
    leave_role(&store->driver);
    return timeout_ms;
}

bool hfi_drive_idle(struct hfi_store *store, uint64_t *used, int64_t until_ms,
                    const _Atomic uint32_t *bell, uint32_t rung, bool *ret_told)
{
    struct hfi_driver *driver = &store->driver;
    bool listens = atomic_load_explicit(&store->listens, memory_order_relaxed) > 0;
    bool mine;

    pthread_mutex_lock(&driver->lock);
    mine =
        !driver->driving && (driver->used == *used || listens) && hfi_list_empty(&driver->sleepers);
    /* The same turn goes on since the last call: its thread waits, and will not return soon. Or somebody must hear at all times
     * that others want a lease. */
    *ret_told = driver->keeper_asks =
        !mine && ((driver->driving && driver->used == *used) || listens);
    *used = driver->used;
    if (mine)
        driver->driving = driver->by_keeper = true;
    pthread_mutex_unlock(&driver->lock);
    if (!mine)
        return false;

    drive_once(store, until_ms, bell, rung);
    leave_role(driver);
    return true;
}

void hfi_drive_listen(struct hfi_store *store)
{
    struct hfi_driver *driver = &store->driver;

    if (store->drive != HFI_EVENT)
        return;
    pthread_mutex_lock(&driver->lock);
    driver->keeper_asks = !driver->by_keeper;
    pthread_mutex_unlock(&driver->lock);
}

void hfi_drive_sleep(struct hfi_store *store, _Atomic uint32_t *word, uint32_t seen,
                     int64_t until_ms)
{
    if (store->drive == HFI_EVENT && take_role(&store->driver)) {
        drive_once(store, until_ms, word, seen);
        leave_role(&store->driver);
    } else {
        hfi_futex_wait(word, seen, until_ms, false);
    }
}

void hfi_drive_wake(struct hfi_store *store)
{
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    uint64_t one = 1;

    if (store->drive == HFI_EVENT && drive->kick) {
        if (atomic_load(&store->driver.polling))
            drive->kick(store->opened);
        return;
    }
    if (store->driver.wake_fd >= 0 && atomic_load(&store->driver.polling) &&
        write(store->driver.wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* cannot happen to an eventfd; the driver's own timeouts remain */
}

void hfi_drive_host_wake(struct hfi_host *host)
{
    struct hfi_store *store = hfi_container(host, struct hfi_store, host);

    hfi_drive_wake(store);
    hfi_loop_ring_timeout(store);
}
