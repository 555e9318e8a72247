/* SPDX-License-Identifier: MIT */
/*
 * Detects the death of processes. A waiting process has a pidfd of each process ahead of it; its
 * watch thread sleeps in epoll until one of them becomes readable, which happens when the last
 * thread of that process is gone. Its fcntl lock then says whether it is really dead: the kernel
 * drops that lock first. Only processes that cannot be watched are polled, once a second: those of
 * another PID namespace, and those beyond LMDB_WATCH_MAX.
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/thread.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORGET_STEP 256 /* names of a dead process that are cleaned up in one transaction */
#define EVENTS_MAX  16
#define WAKE_EVENT  UINT64_MAX

static void *watch_main(void *arg);
static int mail_timers(struct lmdb_directory *d);
static void drop_watch(struct lmdb_directory *d, uint32_t slot, uint32_t generation);

/* ---- the table ---------------------------------------------------------------- */

static struct lmdb_watch *lookup(struct lmdb_directory *d, uint32_t slot, uint32_t generation)
{
    for (int i = 0; i < LMDB_WATCH_MAX; i++)
        if (d->watches[i].fd >= 0 && d->watches[i].slot == slot &&
            d->watches[i].generation == generation)
            return &d->watches[i];
    return NULL;
}

bool lmdb_watched(struct lmdb_directory *d, uint32_t slot, uint32_t generation)
{
    bool found;

    pthread_mutex_lock(&d->local);
    found = lookup(d, slot, generation) != NULL;
    pthread_mutex_unlock(&d->local);
    return found;
}

/* The table is full of live processes that we once waited for. Empty it; current waiters add theirs
 * again. */
static void empty_table(struct lmdb_directory *d)
{
    for (int i = 0; i < LMDB_WATCH_MAX; i++) {
        close(d->watches[i].fd);
        d->watches[i].fd = -1;
    }
    for (struct lmdb_wait *w = d->waits; w; w = w->next)
        atomic_store(&w->unwatched, 1);
    d->emptied++;
}

static bool add(struct lmdb_directory *d, uint32_t slot, uint32_t generation, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)generation << 32 | slot };
    bool full = true;

    for (int i = 0; full && i < LMDB_WATCH_MAX; i++)
        full = d->watches[i].fd >= 0;
    if (full)
        empty_table(d);
    for (int i = 0; i < LMDB_WATCH_MAX; i++) {
        if (d->watches[i].fd >= 0)
            continue;
        if (epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
            return false;
        d->watches[i] = (struct lmdb_watch){ .slot = slot, .generation = generation, .fd = fd };
        return true;
    }
    return false;
}

/*
 * First open the pidfd, then check that the process is alive: if it is alive after that, the pidfd
 * is its own, however quickly pids are reused.
 */
bool lmdb_watch_add(struct lmdb_directory *d, uint32_t slot, uint32_t generation)
{
    struct lmdb_slot *s = lmdb_slot(d, slot);
    bool watched;
    int fd;

    if (lmdb_watched(d, slot, generation))
        return true;
    if (s->pid_namespace == 0 || s->pid_namespace != d->pid_namespace)
        return false;
    fd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    if (fd < 0 && errno != ESRCH)
        return false;
    if (!lmdb_alive(d, slot)) {
        if (fd >= 0)
            close(fd);
        return lmdb_recover(d, slot, generation, NULL) == HF_OK;
    }
    if (fd < 0)
        return false; /* alive, but its pid is that of another process here */
    pthread_mutex_lock(&d->local);
    watched = lookup(d, slot, generation) != NULL;
    if (watched || !add(d, slot, generation, fd))
        close(fd);
    else
        watched = true;
    pthread_mutex_unlock(&d->local);
    return watched;
}

static void drop_watch(struct lmdb_directory *d, uint32_t slot, uint32_t generation)
{
    struct lmdb_watch *w;

    pthread_mutex_lock(&d->local);
    w = lookup(d, slot, generation);
    if (w) {
        close(w->fd); /* which takes it out of the epoll set */
        w->fd = -1;
    }
    pthread_mutex_unlock(&d->local);
}

/* ---- recovery -------------------------------------------------------------------- */

struct recover {
    uint32_t slot, generation;
    int step; /* names at a time */
    bool done;
};

/* The names in which this slot has a holder or a waiter, up to `max` of them. */
static int find_names(struct lmdb_txn *t, uint32_t slot, uint64_t hashes[][2], int max,
                      int *ret_found)
{
    MDB_val key, value;
    MDB_cursor *cursor;
    int found = 0, rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; rc == 0 && found < max; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        const unsigned char *bytes = key.mv_data;
        bool his = false;

        if (key.mv_size == LMDB_KEY_NAME && value.mv_size >= LMDB_NAME_FIXED) {
            struct lmdb_holder first;

            memcpy(&first, (const char *)value.mv_data + offsetof(struct lmdb_name, first),
                   sizeof first);
            his = first.token && first.slot == slot;
        } else if (key.mv_size == LMDB_KEY_FULL && bytes[LMDB_KEY_NAME] == 'h' &&
                   value.mv_size >= LMDB_FURTHER_FIXED) {
            struct lmdb_further further;

            memcpy(&further, value.mv_data, LMDB_FURTHER_FIXED);
            his = further.holder.slot == slot;
        } else if (key.mv_size == LMDB_KEY_FULL && bytes[LMDB_KEY_NAME] == 'w' &&
                   value.mv_size >= LMDB_WAITER_FIXED) {
            struct lmdb_waiter waiter;

            memcpy(&waiter, value.mv_data, LMDB_WAITER_FIXED);
            his = waiter.slot == slot;
        } else if (key.mv_size != LMDB_KEY_ANCHOR) {
            rc = LMDB_E_CORRUPT;
            break;
        }
        if (his && (found == 0 || memcmp(hashes[found - 1], bytes, LMDB_KEY_NAME) != 0))
            memcpy(hashes[found++], bytes, LMDB_KEY_NAME);
    }
    mdb_cursor_close(cursor);
    *ret_found = found;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int recover_body(struct lmdb_txn *t, void *arg)
{
    struct recover *r = arg;
    struct lmdb_slot *s = lmdb_slot(t->directory, r->slot);
    uint64_t hashes[FORGET_STEP][2];
    int found = 0, rc = 0;

    r->done = true;
    if (atomic_load(&s->state) != LMDB_SLOT_LIVE || s->generation != r->generation ||
        lmdb_alive(t->directory, r->slot))
        return LMDB_STOP;
    if (s->records > 0)
        rc = find_names(t, r->slot, hashes, r->step, &found);
    for (int i = 0; rc == 0 && i < found; i++)
        rc = lmdb_name_forget(t, hashes[i], r->slot);
    r->done = rc == 0 && found < r->step;
    return rc;
}

/* The slot is free only when no record in LMDB has its number. */
static void recover_after(struct lmdb_txn *t, void *arg)
{
    struct recover *r = arg;
    struct lmdb_slot *s = lmdb_slot(t->directory, r->slot);

    if (!r->done || atomic_load(&s->state) != LMDB_SLOT_LIVE || s->generation != r->generation ||
        lmdb_alive(t->directory, r->slot))
        return;
    s->records = 0;
    atomic_fetch_sub(&t->directory->header->change_watchers, atomic_load(&s->watching));
    atomic_store(&s->state, LMDB_SLOT_FREE);
}

/* Free what a dead process held, grant it to the waiters, and free its slot. Idempotent: if we are
 * killed here, another process does the rest. */
hf_status lmdb_recover(struct lmdb_directory *d, uint32_t slot, uint32_t generation, hf_error *err)
{
    struct recover r = { .slot = slot, .generation = generation, .step = FORGET_STEP };

    do {
        hf_status status = lmdb_run(d, true, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms),
                                    recover_body, recover_after, &r, err);

        if (status == HF_FULL && r.step > 1) {
            r.step /= 4; /* space is reserved for a few changes at a time */
            r.done = false;
        } else if (status != HF_OK) {
            return status;
        }
    } while (!r.done);
    drop_watch(d, slot, generation);
    return HF_OK;
}

void lmdb_reap(struct lmdb_directory *d)
{
    uint32_t used = lmdb_slots_used(d);

    for (uint32_t i = 0; i < used; i++) {
        struct lmdb_slot *s = lmdb_slot(d, i);
        uint32_t generation = s->generation; /* a newer generation is checked under the mutex */

        if (atomic_load(&s->state) == LMDB_SLOT_LIVE && !lmdb_alive(d, i))
            (void)lmdb_recover(d, i, generation, NULL);
    }
}

/* ---- the thread --------------------------------------------------------------------- */

hf_status lmdb_watch_start(struct lmdb_directory *d, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = WAKE_EVENT };
    int rc = 0;

    if (atomic_load_explicit(&d->watch_runs, memory_order_acquire))
        return HF_OK;
    pthread_mutex_lock(&d->local);
    if (!atomic_load(&d->watch_runs)) {
        if (d->epoll_fd < 0)
            d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (d->wake_fd < 0) {
            d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            if (d->wake_fd >= 0 && epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, d->wake_fd, &event) != 0)
                rc = errno;
        }
        if (d->epoll_fd < 0 || d->wake_fd < 0)
            rc = errno;
        if (rc == 0)
            rc = hfi_thread_start(&d->watch_thread, "hf-watch", watch_main, d);
        if (rc == 0)
            atomic_store_explicit(&d->watch_runs, 1, memory_order_release);
    }
    pthread_mutex_unlock(&d->local);
    return rc == 0
               ? HF_OK
               : hfi_error_set(err, HF_NO_MEMORY, rc, "cannot start a thread: %s", strerror(rc));
}

void lmdb_watch_poke(struct lmdb_directory *d)
{
    (void)!write(d->wake_fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

void lmdb_watch_stop(struct lmdb_directory *d)
{
    if (atomic_load(&d->watch_runs)) {
        lmdb_watch_poke(d);
        pthread_join(d->watch_thread, NULL);
        atomic_store(&d->watch_runs, 0);
    }
    for (int i = 0; i < LMDB_WATCH_MAX; i++)
        if (d->watches[i].fd >= 0)
            close(d->watches[i].fd);
    if (d->epoll_fd >= 0)
        close(d->epoll_fd);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    d->epoll_fd = d->wake_fd = -1;
}

/* The dead process could not be cleaned up after: a stuck mutex, a full disk. Its waiters try again
 * later. */
static void look_later(struct lmdb_directory *d)
{
    pthread_mutex_lock(&d->local);
    for (struct lmdb_wait *w = d->waits; w; w = w->next)
        atomic_store(&w->unwatched, 1);
    pthread_mutex_unlock(&d->local);
}

static void *watch_main(void *arg)
{
    struct lmdb_directory *d = arg;
    struct epoll_event events[EVENTS_MAX];

    while (!atomic_load(&d->stop)) {
        int n = epoll_wait(d->epoll_fd, events, EVENTS_MAX, mail_timers(d));

        for (int i = 0; i < n && !atomic_load(&d->stop); i++) {
            uint64_t data = events[i].data.u64, drained;
            uint32_t slot = (uint32_t)data, generation = (uint32_t)(data >> 32);

            if (data == WAKE_EVENT) {
                (void)!read(d->wake_fd, &drained, sizeof drained);
                continue;
            }
            if (lmdb_recover(d, slot, generation, NULL) != HF_OK)
                look_later(d);
            drop_watch(d, slot, generation); /* also if it ended without dying */
            lmdb_wake_own(d);
        }
    }
    return NULL;
}

/* For waiters without a thread of their own: handle those whose time has come, and return how long
 * to sleep. */
static int mail_timers(struct lmdb_directory *d)
{
    for (;;) {
        int64_t now = hfi_now_ms(), next = HFI_NEVER;
        uint64_t due = 0;

        pthread_mutex_lock(&d->local);
        for (struct lmdb_wait *w = d->waits; w; w = w->next) {
            int64_t at = atomic_load(&w->wake_ms), beat_ms = hfi_after_ms(now, LMDB_HEARTBEAT_MS);

            if (w->cell < LMDB_CELLS)
                continue;
            if (atomic_load(&w->unwatched) && at > beat_ms)
                atomic_store(&w->wake_ms, at = beat_ms);
            if (at > atomic_load(&w->look_ms))
                at = atomic_load(&w->look_ms);
            if (at <= now && due == 0)
                due = w->cookie;
            if (at < next)
                next = at;
            if (beat_ms < next)
                next = beat_ms; /* as every waiter does: the granter may have been stopped before it
                              * woke us */
        }
        pthread_mutex_unlock(&d->local);
        lmdb_wake_own(d);
        if (due == 0)
            return next == HFI_NEVER ? -1 : (int)(next - now > 3600000 ? 3600000 : next - now);
        lmdb_attend(d, due);
    }
}
