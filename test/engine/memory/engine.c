/* SPDX-License-Identifier: MIT */
/*
 * memory:NAME, the smallest engine: mutexes between the threads of one process, first come, first served.
 *
 * It shows what an engine consists of (CONTRIBUTING.md, "A new engine"), and that adding one needs
 * only a folder and a line of engines.def. Inline: submit() finishes every op but an acquire that
 * must wait, which the thread that releases finishes.
 *
 * One mutex guards everything. hfi_op_finish() is called without it.
 */
#include "engine/engine.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <pthread.h>
#include <stdatomic.h>

struct memory_lock { /* a name that is held; a name that is free has none */
    struct memory_lock *next;
    struct memory_store *store; /* the holder's */
    struct hfi_claim *holder;
    struct hfi_op *first, *last; /* acquires that wait, oldest first; linked by memory_op */
};

struct memory_op { /* op->room */
    struct hfi_op *next;
    struct memory_store *store; /* of an acquire that waits */
};

struct memory_claim { /* claim->room */
    struct memory_lock *lock;
};

struct memory_store {
    const char *name; /* NAME: stores of one name share their locks */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* an op was finished; made by open() */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct memory_lock *locks;
static uint64_t last_token;

static struct memory_op *room_of(struct hfi_op *op)
{
    return (struct memory_op *)(void *)op->room;
}

static struct memory_claim *claim_of(struct hfi_claim *claim)
{
    return (struct memory_claim *)(void *)claim->room;
}

/* ---- what the URL says --------------------------------------------------------------------- */

static const struct hfi_form forms[] = { { .scheme = "memory" }, { .scheme = NULL } };
static const struct hfi_param params[] = { { .name = NULL } };
static const struct hfi_conf_type conf_type = { sizeof(struct hfi_conf), forms, params };

/* ---- open and close -------------------------------------------------------------------------- */

static void make_condition(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static hf_status memory_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                             hf_error *err)
{
    struct memory_store *store = self;

    (void)host, (void)err;
    pthread_once(&once, make_condition);
    store->name = conf->path;
    return HF_OK;
}

static void memory_close(void *self)
{
    const struct memory_store *store = self;

    pthread_mutex_lock(&guard);
    for (struct memory_lock **at = &locks, *lock; (lock = *at);) {
        if (lock->store != store) {
            at = &lock->next;
            continue;
        }
        *at = lock->next; /* what core could not release */
        hfi_free(lock);
    }
    pthread_mutex_unlock(&guard);
}

/* ---- acquire and release ----------------------------------------------------------------------- */

static void grant(struct memory_lock *lock, struct memory_store *store, struct hfi_claim *claim)
{
    lock->store = store;
    lock->holder = claim;
    claim_of(claim)->lock = lock;
    claim->token = ++last_token;
    claim->tokens = 1;
    claim->granted_ttl_ms = 0;
    claim->sent_ms = hfi_now_ms();
}

static struct memory_lock *find(const struct memory_store *store, const struct hfi_name *name)
{
    struct memory_lock *lock = locks;

    while (lock &&
           (strcmp(lock->store->name, store->name) != 0 || lock->holder->name.len != name->len ||
            memcmp(lock->holder->name.bytes, name->bytes, name->len) != 0))
        lock = lock->next;
    return lock;
}

/* HF_OK: granted; HF_BUSY: another claim holds it, and *ret_queued says whether `op` waits for
 * it. */
static hf_status try_acquire(struct memory_store *store, struct hfi_op *op, bool *ret_queued)
{
    struct memory_lock *lock = find(store, &op->claim->name);

    *ret_queued = op->ret_queued = lock && op->may_wait;
    if (*ret_queued) {
        room_of(op)->store = store;
        *(lock->last ? &room_of(lock->last)->next : &lock->first) = op;
        lock->last = op;
    }
    if (lock)
        return HF_BUSY;
    lock = hfi_calloc(1, sizeof *lock);
    if (!lock)
        return HF_NO_MEMORY;
    lock->next = locks;
    locks = lock;
    grant(lock, store, op->claim);
    return HF_OK;
}

static void acquire(struct memory_store *store, struct hfi_op *op)
{
    hf_status status;
    bool queued;

    pthread_mutex_lock(&guard);
    status = try_acquire(store, op, &queued);
    pthread_mutex_unlock(&guard);
    if (!queued)
        hfi_op_finish(op, status);
}

static void finish_waiter(struct hfi_op *op, hf_status status)
{
    hfi_op_finish(op, status);
    pthread_mutex_lock(&guard);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void release(struct hfi_op *op)
{
    struct memory_lock **at = &locks, *lock;
    struct hfi_op *next;

    pthread_mutex_lock(&guard);
    while (*at && *at != claim_of(op->claim)->lock)
        at = &(*at)->next;
    lock = *at;
    if (!lock || lock->holder != op->claim) {
        pthread_mutex_unlock(&guard);
        hfi_op_finish(op, HF_LOST);
        return;
    }
    next = lock->first;
    if (next) {
        lock->first = room_of(next)->next;
        lock->last = lock->first ? lock->last : NULL;
        grant(lock, room_of(next)->store, next->claim);
    } else {
        *at = lock->next;
        hfi_free(lock);
    }
    pthread_mutex_unlock(&guard);
    if (next)
        finish_waiter(next, HF_OK);
    hfi_op_finish(op, HF_OK);
}

static void memory_submit(void *self, struct hfi_op *op)
{
    struct memory_store *store = self;

    if (op->kind == HFI_OP_ACQUIRE)
        acquire(store, op);
    else if (op->kind == HFI_OP_RELEASE)
        release(op);
    else
        hfi_op_finish(op, HF_UNSUPPORTED);
}

/* Take `op` out of the queue it is in. false: in none. */
static bool leave(struct hfi_op *op)
{
    for (struct memory_lock *lock = locks; lock; lock = lock->next) {
        struct hfi_op **at = &lock->first, *before = NULL;

        while (*at && *at != op) {
            before = *at;
            at = &room_of(*at)->next;
        }
        if (!*at)
            continue;
        *at = room_of(op)->next;
        if (lock->last == op)
            lock->last = before;
        return true;
    }
    return false;
}

static void memory_cancel(void *self, struct hfi_op *op, hf_status status)
{
    bool left;

    (void)self;
    pthread_mutex_lock(&guard);
    left = leave(op);
    pthread_mutex_unlock(&guard);
    if (left)
        finish_waiter(op, status);
}

/* Core comes back if nothing has happened for a second. */
static void memory_wait(void *self, struct hfi_op *op, int64_t until_ms)
{
    int64_t left_ms = until_ms - hfi_now_ms();
    struct timespec end;

    (void)self;
    left_ms = left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : left_ms;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)left_ms * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&guard);
    while (!atomic_load(&op->finished) && pthread_cond_timedwait(&changed, &guard, &end) == 0)
        ;
    pthread_mutex_unlock(&guard);
}

static hf_status memory_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    (void)self, (void)err;
    finding(HF_CHECK_LEVEL_OK, "memory", "locks between the threads of this process", arg);
    return HF_OK;
}

/* ---- the table ---------------------------------------------------------------------------------- */

static const hf_engine_lack lacks[] = {
    { HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,
      "the smallest engine has mutexes only" },
    { HF_CAP_TTL | HF_CAP_DETACHED | HF_CAP_LOCK_DELAY, "its leases end with the process" },
    { HF_CAP_PASS | HF_CAP_LINGER | HF_CAP_BARGE | HF_CAP_WANTED | HF_CAP_BREAK,
      "the smallest engine has a queue and nothing around it" },
    { HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_WATCH, "nobody else could look" },
    { HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_COMMIT | HF_CAP_CLOCK |
          HF_CAP_SCRIPTS,
      "the smallest engine has locks only" },
    { 0, NULL },
};

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_INLINE, .wait = memory_wait },
    .promises = &(const struct hfi_promises){ .name = "memory",
                                              .schemes = "memory",
                                              .caps = HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_PROCESS |
                                                      HF_CAP_TOKEN,
                                              .lacks = lacks,
                                              .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
                                              .on_crash = "ends with the process",
                                              .on_pause = "kept",
                                              .on_clock_jump = "no effect",
                                              .on_server_loss = "no server",
                                              .on_partition = "one process only",
                                              .fairness = "FIFO",
                                              .wakeup = "the winner, by a condition variable" },
    HFI_STORAGE(struct memory_store, struct memory_op, struct memory_claim),
    .conf = &conf_type,
    .open = memory_open,
    .close = memory_close,
    .submit = memory_submit,
    .cancel = memory_cancel,
    .admin = &(const struct hfi_admin){ .doctor = memory_doctor },
};

HFI_ENGINE_ENTRY(engine)
