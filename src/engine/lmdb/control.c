/* SPDX-License-Identifier: MIT */
/*
 * The control file: a header with the mutexes, and a page for every process.
 * The first process after a boot makes it anew: nobody else can have it mapped then, since all
 * processes that had it mapped ended with the machine.
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_SIZE      ((size_t)LMDB_PAGE * (1 + LMDB_SLOTS_MAX))
#define INIT_PAUSE_NS     500000 /* between two tries at the lock on `init`; doubled each time */
#define INIT_PAUSE_MAX_NS 16000000
#define SPIN              60 /* tries before sleeping for the mutex: about a transaction's length */

static hf_status init_lock(struct lmdb_directory *d, int how, int64_t deadline_ms, int *ret_fd,
                           hf_error *err);
static hf_status open_or_make(struct lmdb_directory *d, hf_error *err);
static hf_status make_control(struct lmdb_directory *d, const char *boot_id, hf_error *err);
static hf_status map_control(struct lmdb_directory *d, hf_error *err);
static bool same_live(struct lmdb_directory *d);
static bool old_format(struct lmdb_directory *d, const char *boot_id);
static int lock_slowly(struct lmdb_directory *d, pthread_mutex_t *mutex,
                       const struct lmdb_patience *patience);
static hf_status not_locked(struct lmdb_directory *d, int rc, int32_t pid, hf_error *err);

/* Two C libraries do not share a mutex, even if it has the same size in both. */
static uint32_t shape(void)
{
#if defined(__GLIBC__)
    uint32_t library = 0;
#else
    uint32_t library = 1u << 31;
#endif

    return library ^ (uint32_t)(sizeof(struct lmdb_header) ^ sizeof(struct lmdb_slot) << 9 ^
                                sizeof(pthread_mutex_t) << 20 ^ sizeof(struct lmdb_name) << 4);
}

/* With the file `init` locked: LOCK_EX lets one process in, LOCK_SH all that make nothing. */
static hf_status open_locked(struct lmdb_directory *d, int how, int64_t deadline_ms, hf_error *err)
{
    int init_fd = -1;
    hf_status status = init_lock(d, how, deadline_ms, &init_fd, err);

    if (status != HF_OK)
        return status;
    d->alone = how == LOCK_EX;
    status = open_or_make(d, err);
    flock(init_fd,
          LOCK_UN); /* not by close alone: a child forked meanwhile has the descriptor too */
    close(init_fd);
    return status;
}

/*
 * Open the durable file, the control file and the lease file, and create the missing ones. A store that is there is opened by any
 * number of processes at once. What must be made, or made anew, is made by one process while no other opens the store.
 */
hf_status lmdb_control_open(struct lmdb_directory *d, int64_t deadline_ms, hf_error *err)
{
    hf_status status = open_locked(d, LOCK_SH, deadline_ms, err);

    if (status != LMDB_MUST_BE_ALONE)
        return status;
    lmdb_control_close(d);
    return open_locked(d, LOCK_EX, deadline_ms, err);
}

void lmdb_control_close(struct lmdb_directory *d)
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

/* A process that has this file flock(2)ed, for a message; 0: the kernel does not tell. Lines are
 * "1: FLOCK ADVISORY WRITE 4711 08:01:12345 0 EOF". Those of processes that wait for it have an arrow. */
static long flock_holder(int fd)
{
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    struct stat st;
    long found = 0;

    if (!locks)
        return 0;
    while (!found && fstat(fd, &st) == 0 && fgets(line, sizeof line, locks)) {
        const char *at = strstr(line, ": FLOCK "), *inode = strrchr(line, ':');

        if (!at || !inode || strtoull(inode + 1, NULL, 10) != st.st_ino)
            continue;
        at += strcspn(at, "0123456789"); /* ": FLOCK  ADVISORY  WRITE 1234 08:01:5 ..." */
        found = strtol(at, NULL, 10);
    }
    fclose(locks);
    return found;
}

static hf_status init_lock(struct lmdb_directory *d, int how, int64_t deadline_ms, int *ret_fd,
                           hf_error *err)
{
    long pause_ns = INIT_PAUSE_NS;
    bool created;
    int fd;
    hf_status status = lmdb_file(d, "init", &fd, &created, err);

    if (status != HF_OK)
        return status;
    /* The lock is held for milliseconds, unless its holder is stopped. flock(2) has no timeout, so
     * without signals a bounded retry is the only way. */
    while (flock(fd, how | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            status = hfi_error_set(err, HF_UNAVAILABLE, errno, "flock %s/init: %s", d->path,
                                   strerror(errno));
            close(fd);
            return status;
        }
        if (hfi_now_ms() >= deadline_ms) {
            long pid = flock_holder(fd);

            close(fd);
            if (pid > 0)
                return hfi_error_set(err, HF_UNAVAILABLE, 0,
                                     "process %ld has had %s/init locked for too long: it opens "
                                     "the store and was stopped, or it is a stranger",
                                     pid, d->path);
            return hfi_error_set(
                err, HF_UNAVAILABLE, 0,
                "another process has had %s/init locked for too long (is it stopped?)", d->path);
        }
        nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
        pause_ns = pause_ns < INIT_PAUSE_MAX_NS ? 2 * pause_ns : INIT_PAUSE_MAX_NS;
    }
    *ret_fd = fd;
    return HF_OK;
}

static hf_status open_or_make(struct lmdb_directory *d, hf_error *err)
{
    char boot_id[40];
    uint64_t limit;
    bool created, good;
    hf_status status = lmdb_boot_id(boot_id, err);

    if (status == HF_OK)
        status = lmdb_tokens_open(d, &limit, err);
    if (status == HF_OK)
        status = lmdb_file(d, "control", &d->control_fd, &created, err);
    if (status != HF_OK)
        return status;

    status = map_control(d, err);
    good = status == HF_OK && d->header->magic == LMDB_CONTROL_MAGIC &&
           d->header->format == LMDB_CONTROL_FORMAT && d->header->shape == shape() &&
           memcmp(d->header->boot_id, boot_id, sizeof boot_id) == 0;
    if (status != HF_OK && status != HF_NOT_FOUND)
        return status;
    /* Before `live` is opened: closing it again would drop the locks of the other copy. */
    if (good || old_format(d, boot_id)) {
        hf_status second = lmdb_refuse_second_copy(d, err);

        if (second != HF_OK)
            return second;
    }
    hf_status live = lmdb_file(d, "live", &d->live_fd, &created, err);

    if (live != HF_OK || (good && same_live(d)))
        return live;
    if (!d->alone)
        return LMDB_MUST_BE_ALONE;

    /* Missing, of an earlier boot, of another build, or damaged: it is made anew, unless a live
     * process uses it (locks that we cannot see must not be granted twice). */
    bool known = status == HF_OK && d->header->magic == LMDB_CONTROL_MAGIC;
    int32_t pid;

    if (lmdb_anybody_alive(d, &pid) || (good && lmdb_anybody_running(d, &pid))) {
        if (known && !good)
            return hfi_error_set(err, HF_VERSION, 0,
                                 "%s is in use by process %d, which has another version of "
                                 "Holdfast (format %u, ours is %u): end that process first",
                                 d->path, (int)pid, d->header->format, LMDB_CONTROL_FORMAT);
        return hfi_error_set(err, HF_CORRUPT, 0,
                             "%s/%s is damaged or missing while process %d uses the store: end "
                             "that process first",
                             d->path, good ? "live" : "control", (int)pid);
    }
    return make_control(d, boot_id, err);
}

/* A control file of this boot in an older format whose slots we can read: does a copy of that
 * version of the library run in this process? */
static bool old_format(struct lmdb_directory *d, const char *boot_id)
{
    return d->header && d->header->magic == LMDB_CONTROL_MAGIC &&
           d->header->format < LMDB_CONTROL_FORMAT && d->header->shape == shape() &&
           memcmp(d->header->boot_id, boot_id, sizeof d->header->boot_id) == 0;
}

/* Is it the file on which the live processes have their locks? */
static bool same_live(struct lmdb_directory *d)
{
    struct stat st;

    return fstat(d->live_fd, &st) == 0 && (uint64_t)st.st_ino == d->header->live_ino;
}

/* HF_NOT_FOUND: too short to be one. */
static hf_status map_control(struct lmdb_directory *d, hf_error *err)
{
    struct stat st;
    void *map;

    if (fstat(d->control_fd, &st) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s/control: %s", d->path,
                             strerror(errno));
    if (d->header)
        munmap(d->header, CONTROL_SIZE);
    d->header = NULL;
    atomic_store(&d->slots_backed, 0);
    if (st.st_size < LMDB_PAGE * (1 + LMDB_SLOTS_STEP))
        return HF_NOT_FOUND;
    map = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, d->control_fd, 0);
    if (map == MAP_FAILED)
        return hfi_error_set(err, HF_NO_MEMORY, errno, "mmap %s/control: %s", d->path,
                             strerror(errno));
    d->header = map;
    return HF_OK;
}

/*
 * No live process uses the file, and nobody else opens it: we have `init` locked. So it is emptied
 * and filled again. It is not removed, since in a sticky directory only its owner may do that. The
 * magic is written last.
 */
static hf_status make_control(struct lmdb_directory *d, const char *boot_id, hf_error *err)
{
    pthread_mutexattr_t attr;
    struct lmdb_header *h;
    uint64_t limit;
    struct stat live;
    hf_status status;

    if (d->header)
        munmap(d->header, CONTROL_SIZE);
    d->header = NULL;
    if (fstat(d->live_fd, &live) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s/live: %s", d->path,
                             strerror(errno));
    if (ftruncate(d->control_fd, 0) != 0)
        return hfi_error_set(err, HF_DENIED, errno, "cannot empty the old %s/control: %s", d->path,
                             strerror(errno));
    status =
        lmdb_reserve_space(d, d->control_fd, "control", LMDB_PAGE * (1 + LMDB_SLOTS_STEP), err);
    if (status == HF_OK)
        status = map_control(d, err);
    if (status == HF_OK)
        status = lmdb_tokens_open(d, &limit, err);
    if (status != HF_OK) {
        (void)!ftruncate(d->control_fd, 0);
        return status;
    }

    h = d->header;
    h->format = LMDB_CONTROL_FORMAT;
    h->shape = shape();
    memcpy(h->boot_id, boot_id, sizeof h->boot_id);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&h->mutex, &attr);
    pthread_mutex_init(&h->cells_mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    h->token_next = h->token_limit = limit;
    h->slot_room = LMDB_SLOTS_STEP;
    h->live_ino = (uint64_t)live.st_ino;
    h->epoch = 1;
    h->state = LMDB_READY;
    d->epoch = h->epoch;
    status = lmdb_leases_open(d, true, err);
    if (status == HF_OK)
        status = lmdb_sizes_load(d, true, err);
    if (status != HF_OK)
        return status; /* without the magic it does not count */
    __atomic_store_n(&h->magic, LMDB_CONTROL_MAGIC, __ATOMIC_RELEASE);
    return HF_OK;
}

/* ---- the mutex -------------------------------------------------------------- */

/*
 * Every transaction of leases of every process goes through here. If the holder of the mutex was killed, we
 * get EOWNERDEAD: LMDB has discarded its unfinished transaction, but it may have committed grants
 * without waking the winners, so all waiters are woken to check for themselves. If the holder is
 * stopped, we give up after a while and name it.
 */
hf_status lmdb_lock(struct lmdb_directory *d, int64_t deadline_ms, hf_error *err)
{
    return lmdb_lock_for(d, &(struct lmdb_patience){ .until_ms = deadline_ms }, err);
}

hf_status lmdb_lock_for(struct lmdb_directory *d, const struct lmdb_patience *patience,
                        hf_error *err)
{
    struct lmdb_header *h = d->header;
    bool unfinished = false, died = false;
    int rc = pthread_mutex_trylock(&h->mutex);
    hf_status status = HF_OK;

    if (rc == EBUSY)
        rc = lock_slowly(d, &h->mutex, patience);
    if (rc == EOWNERDEAD) {
        pthread_mutex_consistent(&h->mutex);
        h->last_txn = 0; /* it may have committed or not */
        lmdb_wake_all(d);
        unfinished = h->rebuilt > h->epoch; /* killed while it began a new epoch */
        died = true;
        rc = 0;
    }
    if (rc != 0)
        return not_locked(d, rc, atomic_load_explicit(&h->lock_pid, memory_order_relaxed), err);
    atomic_store_explicit(&h->lock_pid, d->pid, memory_order_relaxed);

    if (__builtin_expect(h->epoch != d->epoch || unfinished, 0))
        status = unfinished ? lmdb_rebuild(d, err) : lmdb_follow(d, err);
    if (__builtin_expect(died && status == HF_OK && d->env, 0))
        status = lmdb_sizes_load(d, false, err); /* killed between the two files */
    if (status != HF_OK)
        lmdb_unlock(d);
    return status;
}

void lmdb_unlock(struct lmdb_directory *d)
{
    pthread_mutex_unlock(&d->header->mutex);
}

/* A killed writer of a cell leaves nothing to repair: LMDB's commit is atomic. */
hf_status lmdb_lock_cells(struct lmdb_directory *d, const struct lmdb_patience *patience,
                          hf_error *err)
{
    struct lmdb_header *h = d->header;
    int rc = pthread_mutex_trylock(&h->cells_mutex);

    if (rc == EBUSY)
        rc = lock_slowly(d, &h->cells_mutex, patience);
    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(&h->cells_mutex);
    if (rc != 0)
        return not_locked(d, rc, atomic_load_explicit(&h->cells_pid, memory_order_relaxed), err);
    atomic_store_explicit(&h->cells_pid, d->pid, memory_order_relaxed);
    return HF_OK;
}

void lmdb_unlock_cells(struct lmdb_directory *d)
{
    pthread_mutex_unlock(&d->header->cells_mutex);
}

static hf_status not_locked(struct lmdb_directory *d, int rc, int32_t pid, hf_error *err)
{
    if (rc == EBUSY)
        return LMDB_NOT_NOW;
    if (rc == ETIMEDOUT)
        return hfi_error_set(
            err, HF_UNAVAILABLE, rc,
            "process %d has been inside a transaction of %s for too long (is it stopped?)",
            (int)pid, d->path);
    if (rc == EAGAIN)
        return hfi_error_set(err, HF_UNAVAILABLE, rc, "too many processes use %s: no turn in time",
                             d->path);
    return hfi_error_set(err, HF_CORRUPT, rc, "%s/control: its mutex is damaged: %s", d->path,
                         strerror(rc));
}

/*
 * ThreadSanitizer does not know clocklock, nor that timedlock has locked the mutex when it returns
 * EOWNERDEAD, and would report everything under it as a race. It knows trylock. Only glibc has clocklock.
 */
static int timed_lock(pthread_mutex_t *mutex, const struct timespec *until)
{
#if defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
    struct timespec now;
    int rc;

    while ((rc = pthread_mutex_trylock(mutex)) == EBUSY) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > until->tv_sec)
            return ETIMEDOUT;
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    return rc;
#else
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until);
#endif
}

static int lock_until(pthread_mutex_t *mutex, int64_t now_ms, int64_t until_ms)
{
    int64_t ms = until_ms > now_ms ? until_ms - now_ms : 0;
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return timed_lock(mutex, &until);
}

/* Changes when the mutex goes from hand to hand, and with every transaction of leases. Only a hint. */
static uint64_t progress(const struct lmdb_header *h, const pthread_mutex_t *mutex)
{
    if (mutex == &h->cells_mutex)
        return (uint64_t)atomic_load_explicit(&h->cells_pid, memory_order_relaxed);
    return (uint64_t)atomic_load_explicit(&h->lock_pid, memory_order_relaxed) ^
           atomic_load_explicit(&h->last_txn, memory_order_relaxed) << 32;
}

/* Is the process that has the mutex stopped (a signal, a debugger)? By its number in this namespace: the answer only decides
 * how long to wait. */
static bool holder_is_stopped(const struct lmdb_header *h, const pthread_mutex_t *mutex)
{
    int32_t pid = atomic_load_explicit(mutex == &h->mutex ? &h->lock_pid : &h->cells_pid,
                                       memory_order_relaxed);
    char path[32], text[128]; /* "4711 (name) T ..." */
    const char *end;
    ssize_t len;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    len = read(fd, text, sizeof text - 1);
    close(fd);
    text[len > 0 ? len : 0] = 0;
    end = strrchr(text, ')');
    return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

/* ETIMEDOUT: one process has had it all the time. EAGAIN: many have had it in turn, and the deadline has passed. EBUSY: it is
 * not free, and this thread must not sleep. */
static int lock_slowly(struct lmdb_directory *d, pthread_mutex_t *mutex,
                       const struct lmdb_patience *patience)
{
    int64_t now_ms, begin_ms, deadline_ms, until_ms;
    uint64_t before = progress(d->header, mutex);
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

    if (patience->never)
        return EBUSY;
    now_ms = hfi_now_ms();
    begin_ms = patience->since_ms ? patience->since_ms : now_ms;

    if (patience->tries) {
        rc = lock_until(mutex, now_ms,
                        hfi_after_ms(begin_ms, d->lock_wait_ms < LMDB_HEARTBEAT_MS
                                                   ? d->lock_wait_ms
                                                   : LMDB_HEARTBEAT_MS));
        if (rc != ETIMEDOUT ||
            (progress(d->header, mutex) == before && holder_is_stopped(d->header, mutex)))
            return rc;
        now_ms = hfi_now_ms();
    }
    /* Even a try must wait for the length of a transaction of another process: so never less than
     * that, whatever the caller's deadline. */
    deadline_ms = hfi_after_ms(begin_ms, LMDB_HEARTBEAT_MS);
    if (deadline_ms < patience->until_ms)
        deadline_ms = patience->until_ms;
    until_ms = hfi_after_ms(begin_ms, d->lock_wait_ms);
    for (;;) {
        before = progress(d->header, mutex);
        if (until_ms > deadline_ms)
            until_ms = deadline_ms;
        if (until_ms < hfi_after_ms(now_ms, LMDB_PUT_OFF_MS))
            until_ms = hfi_after_ms(now_ms, LMDB_PUT_OFF_MS);
        rc = lock_until(mutex, now_ms, until_ms);
        if (rc != ETIMEDOUT)
            return rc;
        if (progress(d->header, mutex) == before)
            return ETIMEDOUT;
        now_ms = hfi_now_ms();
        if (now_ms >= deadline_ms)
            return EAGAIN;
        until_ms = hfi_after_ms(now_ms, d->lock_wait_ms);
    }
}
