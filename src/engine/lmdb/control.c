/* SPDX-License-Identifier: MIT */
/*
 * The control file: a header with the one mutex, and a page for every process.
 * It is made anew by the first process of a boot: then nobody else can have it
 * mapped, since all processes that had died with the machine.
 */
#include "engine/lmdb/lm.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_SIZE ((size_t)LM_PAGE * (1 + LM_SLOTS_MAX))
#define SPIN 60            /* tries before sleeping for the mutex: about a transaction's length */
#define REAP_PER_REGISTER 8 /* dead slots looked for by each newcomer */

static hf_status init_lock(struct lm_depot *d, int64_t deadline_ms, int *ret_fd, hf_error *err);
static hf_status open_or_make(struct lm_depot *d, hf_error *err);
static hf_status make_control(struct lm_depot *d, const char *boot_id, hf_error *err);
static hf_status map_control(struct lm_depot *d, hf_error *err);
static bool anybody_alive(struct lm_depot *d, int32_t *ret_pid);
static int lock_slowly(struct lm_depot *d, pthread_mutex_t *mutex, int64_t deadline_ms);
static hf_status not_locked(struct lm_depot *d, int rc, int32_t pid, hf_error *err);

static uint32_t shape(void)
{
    return (uint32_t)(sizeof(struct lm_header) ^ sizeof(struct lm_slot) << 9 ^ sizeof(pthread_mutex_t) << 20 ^
                      sizeof(struct lm_name) << 4);
}

/* Open the durable file, the control file and the lease file, making what is missing; one
 * process at a time. */
hf_status hfi_lm_control_open(struct lm_depot *d, int64_t deadline_ms, hf_error *err)
{
    int init_fd = -1;
    hf_status status = init_lock(d, deadline_ms, &init_fd, err);

    if (status != HF_OK)
        return status;
    status = open_or_make(d, err);
    close(init_fd); /* and with it the flock */
    return status;
}

void hfi_lm_control_close(struct lm_depot *d)
{
    if (d->header)
        munmap(d->header, CONTROL_SIZE);
    d->header = NULL;
    if (d->control_fd >= 0)
        close(d->control_fd);
    if (d->live_fd >= 0)
        close(d->live_fd);
    if (d->store_fd >= 0)
        close(d->store_fd);
    d->control_fd = d->live_fd = d->store_fd = -1;
}

static hf_status init_lock(struct lm_depot *d, int64_t deadline_ms, int *ret_fd, hf_error *err)
{
    bool created;
    int fd;
    hf_status status = hfi_lm_file(d, "init", &fd, &created, err);

    if (status != HF_OK)
        return status;
    /* Held for milliseconds, and by nobody for long unless it is stopped: a bounded retry is
     * all that flock(2), which has no timeout, leaves without signals. */
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            status = hfi_error_set(err, HF_UNAVAILABLE, errno, "flock %s/init: %s", d->path, strerror(errno));
            close(fd);
            return status;
        }
        if (hfi_now_ms() >= deadline_ms) {
            close(fd);
            return hfi_error_set(err, HF_UNAVAILABLE, 0,
                                 "another process has been opening %s for too long (is it stopped?)", d->path);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
    }
    *ret_fd = fd;
    return HF_OK;
}

static hf_status open_or_make(struct lm_depot *d, hf_error *err)
{
    char boot_id[40];
    uint64_t limit;
    bool created;
    hf_status status = hfi_lm_boot_id(boot_id, err);

    if (status == HF_OK)
        status = hfi_lm_tokens_open(d, &limit, err);
    if (status == HF_OK)
        status = hfi_lm_file(d, "live", &d->live_fd, &created, err);
    if (status == HF_OK)
        status = hfi_lm_file(d, "control", &d->control_fd, &created, err);
    if (status != HF_OK)
        return status;

    status = map_control(d, err);
    if (status == HF_OK && d->header->magic == LM_CONTROL_MAGIC && d->header->format == LM_FORMAT &&
        d->header->shape == shape() && memcmp(d->header->boot_id, boot_id, sizeof boot_id) == 0)
        return HF_OK;
    if (status != HF_OK && status != HF_NOT_FOUND)
        return status;

    /* Missing, of an earlier boot, of another build, or damaged: made anew, unless somebody lives
     * in it (locks that we cannot see must not be granted twice). */
    int32_t pid;

    if (anybody_alive(d, &pid))
        return hfi_error_set(err, status == HF_OK && d->header->magic == LM_CONTROL_MAGIC ? HF_VERSION : HF_CORRUPT, 0,
                             "%s/control is damaged, missing or of another version while process %d uses the "
                             "store: end that process first",
                             d->path, (int)pid);
    status = make_control(d, boot_id, err);
    if (status != HF_OK)
        return status;
    return HF_OK;
}

/* HF_NOT_FOUND: too short to be one. */
static hf_status map_control(struct lm_depot *d, hf_error *err)
{
    struct stat st;
    void *map;

    if (fstat(d->control_fd, &st) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s/control: %s", d->path, strerror(errno));
    if (d->header)
        munmap(d->header, CONTROL_SIZE);
    d->header = NULL;
    if (st.st_size < LM_PAGE * (1 + LM_SLOTS_STEP))
        return HF_NOT_FOUND;
    map = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, d->control_fd, 0);
    if (map == MAP_FAILED)
        return hfi_error_set(err, HF_NO_MEMORY, errno, "mmap %s/control: %s", d->path, strerror(errno));
    d->header = map;
    return HF_OK;
}

/*
 * Removed and created, not truncated: an old mapping of it, if there could be one, must not
 * see the new one grow under it. The magic is written last.
 */
static hf_status make_control(struct lm_depot *d, const char *boot_id, hf_error *err)
{
    pthread_mutexattr_t attr;
    struct lm_header *h;
    uint64_t limit;
    bool created;
    hf_status status;

    close(d->control_fd);
    d->control_fd = -1;
    if (unlinkat(d->dir_fd, "control", 0) != 0 && errno != ENOENT)
        return hfi_error_set(err, HF_DENIED, errno, "cannot remove the old %s/control: %s", d->path, strerror(errno));
    status = hfi_lm_file(d, "control", &d->control_fd, &created, err);
    if (status == HF_OK)
        status = hfi_lm_reserve_space(d, d->control_fd, "control", LM_PAGE * (1 + LM_SLOTS_STEP), err);
    if (status == HF_OK)
        status = map_control(d, err);
    if (status == HF_OK)
        status = hfi_lm_tokens_open(d, &limit, err);
    if (status != HF_OK) {
        unlinkat(d->dir_fd, "control", 0);
        return status;
    }

    h = d->header;
    h->format = LM_FORMAT;
    h->shape = shape();
    memcpy(h->boot_id, boot_id, sizeof h->boot_id);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&h->mutex, &attr);
    pthread_mutex_init(&h->cells_mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    h->token_next = h->token_limit = limit;
    h->slot_room = LM_SLOTS_STEP;
    h->epoch = 1;
    h->state = LM_READY;
    d->epoch = h->epoch;
    status = hfi_lm_leases_open(d, true, err);
    if (status != HF_OK) {
        unlinkat(d->dir_fd, "control", 0);
        return status;
    }
    atomic_thread_fence(memory_order_release);
    h->magic = LM_CONTROL_MAGIC;
    return HF_OK;
}

/* ---- the mutex -------------------------------------------------------------- */

/*
 * Every transaction of every process goes through here. A holder that was killed hands
 * us EOWNERDEAD: LMDB forgot its unfinished transaction, but grants that it committed
 * may not have been rung, so everybody looks for himself. A holder that is stopped
 * makes us give up after a while, and say who it is.
 */
hf_status hfi_lm_lock(struct lm_depot *d, int64_t deadline_ms, hf_error *err)
{
    struct lm_header *h = d->header;
    int rc = pthread_mutex_trylock(&h->mutex);

    if (rc == EBUSY)
        rc = lock_slowly(d, &h->mutex, deadline_ms);
    if (rc == EOWNERDEAD) {
        pthread_mutex_consistent(&h->mutex);
        hfi_lm_ring_all(d);
        rc = 0;
    }
    if (rc != 0)
        return not_locked(d, rc, atomic_load_explicit(&h->lock_pid, memory_order_relaxed), err);
    atomic_store_explicit(&h->lock_pid, d->pid, memory_order_relaxed);

    if (h->epoch != d->epoch) {
        hf_status status = hfi_lm_follow(d, err);

        if (status != HF_OK)
            hfi_lm_unlock(d);
        return status;
    }
    return HF_OK;
}

void hfi_lm_unlock(struct lm_depot *d)
{
    pthread_mutex_unlock(&d->header->mutex);
}

/* A cell's writer that was killed left nothing behind: LMDB's commit is all there is. */
hf_status hfi_lm_lock_cells(struct lm_depot *d, int64_t deadline_ms, hf_error *err)
{
    struct lm_header *h = d->header;
    int rc = pthread_mutex_trylock(&h->cells_mutex);

    if (rc == EBUSY)
        rc = lock_slowly(d, &h->cells_mutex, deadline_ms);
    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(&h->cells_mutex);
    if (rc != 0)
        return not_locked(d, rc, atomic_load_explicit(&h->cells_pid, memory_order_relaxed), err);
    atomic_store_explicit(&h->cells_pid, d->pid, memory_order_relaxed);
    return HF_OK;
}

void hfi_lm_unlock_cells(struct lm_depot *d)
{
    pthread_mutex_unlock(&d->header->cells_mutex);
}

static hf_status not_locked(struct lm_depot *d, int rc, int32_t pid, hf_error *err)
{
    if (rc == ETIMEDOUT)
        return hfi_error_set(err, HF_UNAVAILABLE, rc,
                             "process %d has been inside a transaction of %s for too long (is it stopped?)",
                             (int)pid, d->path);
    return hfi_error_set(err, HF_CORRUPT, rc, "%s/control: its mutex is damaged: %s", d->path, strerror(rc));
}

static int lock_slowly(struct lm_depot *d, pthread_mutex_t *mutex, int64_t deadline_ms)
{
    int64_t now = hfi_now_ms(), end = hfi_after_ms(now, d->lock_wait_ms);
    struct timespec until;
    int rc;

    for (int i = 0; i < SPIN; i++) {
        for (int j = 0; j < 20; j++) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        rc = pthread_mutex_trylock(mutex);
        if (rc != EBUSY)
            return rc;
    }

    /* A try asks for nothing to be waited for but the length of a transaction, which is what
     * this is: so never less than that, whatever the caller's deadline. */
    if (deadline_ms < end)
        end = deadline_ms < hfi_after_ms(now, LM_HEARTBEAT_MS) ? hfi_after_ms(now, LM_HEARTBEAT_MS) : deadline_ms;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (end - now) / 1000;
    until.tv_nsec += (end - now) % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
}

/* ---- slots -------------------------------------------------------------------- */

struct lm_slot *hfi_lm_slot(struct lm_depot *d, uint32_t slot)
{
    return (struct lm_slot *)(void *)((char *)d->header + (size_t)LM_PAGE * (1 + slot));
}

static int live_lock(struct lm_depot *d, int command, uint32_t slot, short type, struct flock *ret)
{
    *ret = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1 };
    return fcntl(d->live_fd, command, ret);
}

/* Our own lock never conflicts with us, so for our own slot the answer is known. */
bool hfi_lm_alive(struct lm_depot *d, uint32_t slot)
{
    struct flock lock;

    if (slot == d->slot)
        return true;
    if (live_lock(d, F_GETLK, slot, F_WRLCK, &lock) != 0)
        return true; /* cannot tell: the safe side */
    return lock.l_type != F_UNLCK;
}

static bool anybody_alive(struct lm_depot *d, int32_t *ret_pid)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0 };

    if (fcntl(d->live_fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    *ret_pid = lock.l_pid;
    return true;
}

/* A second copy of the library in one process would take our fcntl locks down with its first close. */
static hf_status refuse_second_copy(struct lm_depot *d, hf_error *err)
{
    const void *image = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */

    for (uint32_t i = 0; i < d->header->slot_high; i++) {
        struct lm_slot *s = hfi_lm_slot(d, i);

        if (atomic_load(&s->state) == LM_SLOT_LIVE && s->pid == d->pid && s->pid_namespace == d->pid_namespace &&
            image && memcmp(s->image, image, sizeof s->image) == 0)
            return hfi_error_set(err, HF_IN_USE, 0,
                                 "this process has %s open through another copy of libholdfast", d->path);
    }
    return HF_OK;
}

/* The first free slot, or one more; -1: none, with err set. */
static int64_t find_slot(struct lm_depot *d, hf_error *err)
{
    struct lm_header *h = d->header;

    for (uint32_t i = 0; i < h->slot_high; i++)
        if (atomic_load(&hfi_lm_slot(d, i)->state) == LM_SLOT_FREE)
            return i;
    if (h->slot_high == LM_SLOTS_MAX) {
        hfi_error_set(err, HF_FULL, 0, "%d processes have %s open: no more fit", LM_SLOTS_MAX, d->path);
        return -1;
    }
    if (h->slot_high == h->slot_room) {
        if (hfi_lm_reserve_space(d, d->control_fd, "control",
                                 (int64_t)LM_PAGE * (1 + h->slot_room + LM_SLOTS_STEP), err) != HF_OK)
            return -1;
        h->slot_room += LM_SLOTS_STEP;
    }
    return h->slot_high;
}

/* Look at a few slots in turn, so that what dead processes left does not pile up. */
static void reap_some(struct lm_depot *d, int64_t deadline_ms)
{
    struct { uint32_t slot, generation; } dead[REAP_PER_REGISTER];
    struct lm_header *h = d->header;
    int found = 0;

    if (hfi_lm_lock(d, deadline_ms, NULL) != HF_OK)
        return;
    for (uint32_t i = 0; i < h->slot_high && i < REAP_PER_REGISTER; i++) {
        uint32_t slot = h->slot_hint++ % h->slot_high;
        struct lm_slot *s = hfi_lm_slot(d, slot);

        if (atomic_load(&s->state) == LM_SLOT_LIVE && !hfi_lm_alive(d, slot)) {
            dead[found].slot = slot;
            dead[found++].generation = s->generation;
        }
    }
    hfi_lm_unlock(d);
    while (found > 0) {
        found--;
        hfi_lm_recover(d, dead[found].slot, dead[found].generation);
    }
}

hf_status hfi_lm_register(struct lm_depot *d, const char *label, int64_t deadline_ms, hf_error *err)
{
    const void *image = (const void *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
    struct flock lock;
    struct lm_slot *s;
    hf_status status;
    int64_t slot;

    reap_some(d, deadline_ms);
    status = hfi_lm_lock(d, deadline_ms, err);
    if (status != HF_OK)
        return status;
    status = refuse_second_copy(d, err);
    if (status != HF_OK)
        goto out;
    slot = find_slot(d, err);
    if (slot < 0) {
        status = err ? err->status : HF_FULL;
        goto out;
    }
    /* The lock before the state: a slot that says LIVE without a lock is a dead process. */
    if (live_lock(d, F_SETLK, (uint32_t)slot, F_WRLCK, &lock) != 0) {
        status = hfi_error_set(err, HF_UNAVAILABLE, errno, "cannot lock our byte of %s/live: %s", d->path,
                               strerror(errno));
        goto out;
    }
    s = hfi_lm_slot(d, (uint32_t)slot);
    uint32_t generation = s->generation + 1;

    memset(s, 0, sizeof *s);
    s->generation = generation;
    s->pid = d->pid;
    s->uid = (uint32_t)getuid();
    s->pid_namespace = d->pid_namespace;
    if (image)
        memcpy(s->image, image, sizeof s->image);
    s->epoch = d->header->epoch;
    snprintf(s->label, sizeof s->label, "%s", label);
    d->slot = (uint32_t)slot;
    if (slot == d->header->slot_high)
        d->header->slot_high++;
    atomic_store(&s->state, LM_SLOT_LIVE);
out:
    hfi_lm_unlock(d);
    return status;
}

/* If the mutex cannot be had the slot stays LIVE without a lock: a dead process's, and treated so. */
void hfi_lm_unregister(struct lm_depot *d)
{
    struct flock lock;

    if (d->slot == LM_NO_SLOT)
        return;
    if (hfi_lm_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) == HF_OK) {
        struct lm_slot *s = hfi_lm_slot(d, d->slot);

        if (s->records == 0)
            atomic_store(&s->state, LM_SLOT_FREE);
        live_lock(d, F_SETLK, d->slot, F_UNLCK, &lock);
        hfi_lm_unlock(d);
    }
    d->slot = LM_NO_SLOT;
}

/* ---- delivering ----------------------------------------------------------------- */

static _Atomic uint32_t *send_mail(struct lm_slot *s, struct lm_mail mail)
{
    uint32_t read = atomic_load(&s->mail_read);

    if (s->mail_sent - read >= LM_MAILS)
        s->mail_overflow = 1;
    else
        s->mails[s->mail_sent++ % LM_MAILS] = mail;
    atomic_fetch_add(&s->mail, 1);
    return &s->mail;
}

_Atomic uint32_t *hfi_lm_deliver(struct lm_depot *d, const struct lm_wake *wake)
{
    struct lm_slot *s;

    if (wake->slot >= d->header->slot_high)
        return NULL;
    s = hfi_lm_slot(d, wake->slot);
    if (wake->kind == LM_WAKE_FORGET) {
        if (s->records > 0)
            s->records--;
        return NULL;
    }
    if (wake->kind == LM_WAKE_LOST)
        return send_mail(s, (struct lm_mail){ .kind = LM_MAIL_LOST, .token = wake->token });
    if (wake->cell >= LM_CELLS)
        return send_mail(s, (struct lm_mail){
                                .kind = wake->kind == LM_WAKE_GRANTED ? LM_MAIL_GRANTED : LM_MAIL_CALLED,
                                .cookie = wake->cookie,
                                .token = wake->token,
                                .granted_ms = (uint32_t)wake->granted_ms });

    struct lm_cell *cell = &s->cells[wake->cell];
    uint32_t waiting = wake->turn << 2 | LM_WAITING, called = wake->turn << 2 | LM_CALLED;
    uint32_t now = atomic_load(&cell->word);

    if (now != waiting && now != called)
        return NULL; /* not that waiter any more */
    if (wake->kind == LM_WAKE_GRANTED) {
        cell->token = wake->token;
        cell->granted_ms = (uint32_t)wake->granted_ms;
        atomic_store(&cell->word, wake->turn << 2 | LM_GRANTED);
    } else {
        atomic_store(&cell->word, called);
    }
    return &cell->word;
}

void hfi_lm_ring_all(struct lm_depot *d)
{
    for (uint32_t i = 0; i < d->header->slot_high; i++) {
        struct lm_slot *s = hfi_lm_slot(d, i);

        if (atomic_load(&s->state) != LM_SLOT_LIVE)
            continue;
        for (int c = 0; c < LM_CELLS; c++) {
            uint32_t word = atomic_load(&s->cells[c].word);

            if ((word & 3) != LM_WAITING)
                continue;
            atomic_store(&s->cells[c].word, (word & ~3u) | LM_CALLED);
            hfi_futex_wake(&s->cells[c].word, 1, true);
        }
        s->mail_overflow = 1;
        atomic_fetch_add(&s->mail, 1);
        hfi_futex_wake(&s->mail, 1, true);
    }
}
