/* SPDX-License-Identifier: MIT */
/*
 * A worker: threads that acquire, hold and release in every possible way, and log what happened.
 * Each event is logged just after it is certain, or just before it stops being certain: the checker
 * relies on that.
 */
#include "torture.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct lock locks[] = {
    { "mutex", HF_KIND_MUTEX, 1, HF_FLAG_STRICT, 0, false },
    { "passed on", HF_KIND_MUTEX, 1, 0, 0, false },
    { "read-write", HF_KIND_SHARED, 0, HF_FLAG_STRICT, 0, false },
    { "semaphore", HF_KIND_SEMAPHORE, 3, HF_FLAG_STRICT, 0, false },
    { "with a ttl", HF_KIND_MUTEX, 1, HF_FLAG_STRICT, 1000, false },
    { "barging", HF_KIND_MUTEX, 1, HF_FLAG_STRICT, 0, true },
    { "barging readers", HF_KIND_SHARED, 0, HF_FLAG_STRICT, 0, true },
    { "short ttl readers", HF_KIND_SHARED, 0, HF_FLAG_STRICT, 1000, false },
};
const unsigned lock_count = sizeof locks / sizeof locks[0];

#define NESTED_MAX 3

/*
 * How a worker ends, which its first thread that comes to an end decides:
 *
 *   UNDECIDED -> RETURNING   the run is over: all threads return and are joined
 *   UNDECIDED -> DYING       a thread ends the process with what it holds
 *
 * Never both: a thread that has returned when another one ends the process was not joined, which
 * ThreadSanitizer rightly reports as a leak.
 */
enum ending { UNDECIDED, RETURNING, DYING };

struct thread {
    const struct torture *torture;
    _Atomic int *ending; /* the worker's */
    hf_store *store;
    uint32_t lane;
    struct rng rng;
    _Atomic(hf_cancel *) cancel; /* to be fired by the canceller */
    pthread_t pthread;
    bool async;
};

struct worker {
    struct thread threads[8];
    unsigned count;
    _Atomic int ending; /* enum ending */
    _Atomic int done;
};

uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

unsigned rng_below(struct rng *rng, unsigned n)
{
    return (unsigned)(rng_next(rng) % n);
}

static bool stopping(const struct thread *t)
{
    return atomic_load(&t->torture->history->stop) != 0;
}

/* Decide how the worker ends, unless that was decided before. */
static bool decide(struct thread *t, enum ending ending)
{
    int decided = UNDECIDED;

    return atomic_compare_exchange_strong(t->ending, &decided, (int)ending) ||
           decided == (int)ending;
}

static void note(struct thread *t, struct event event)
{
    if (event.at_ns == 0)
        event.at_ns = history_now_ns();
    if (!history_add(t->torture->history, t->lane, event))
        atomic_store(&t->torture->history->stop, 1); /* full: it is enough */
}

/* ---- asking ------------------------------------------------------------------------ */

struct
try {
    unsigned index;
    hf_acquire_request request;
    char label[64];
    struct event event;
    hf_lease *lease;
};

static void make_request(struct thread *t, struct try *try, unsigned index, bool may_wait)
{
    const struct lock *lock = &locks[index];
    hf_acquire_request *r = &try->request;
    unsigned how = rng_below(&t->rng, 10);

    *r = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    r->name = lock->name;
    r->name_len = HF_CSTRING;
    r->kind = lock->kind;
    if (lock->kind == HF_KIND_SHARED && rng_below(&t->rng, 3) == 0)
        r->kind = HF_KIND_EXCLUSIVE;
    if (lock->kind == HF_KIND_SEMAPHORE) {
        r->capacity = lock->capacity;
        r->permits = 1 + rng_below(&t->rng, rng_below(&t->rng, 4) == 0 ? 3 : 1);
    }
    r->flags = lock->flags;
    if (lock->barge && rng_below(&t->rng, 2))
        r->flags |= HF_FLAG_BARGE;
    if (t->torture->mutexes) {
        r->kind = HF_KIND_MUTEX;
        r->capacity = r->permits = 0;
        r->flags &= ~HF_FLAG_BARGE;
    }
    r->ttl_ms = t->torture->ttl_ms ? t->torture->ttl_ms : lock->ttl_ms;
    r->wait_ms = !may_wait || how == 0 ? 0 : how < 3 ? 1 + rng_below(&t->rng, 30) : HF_FOREVER;
    try->index = index;
    try->lease = NULL;
    snprintf(try->label, sizeof try->label, LABEL_FORMAT, t->lane,
             atomic_load(&t->torture->history->lane[t->lane].number) + 1);
    r->label = try->label;
    try->event = (struct event){ .name = (uint8_t)index,
                                 .lock = (uint8_t)r->kind,
                                 .permits = r->permits ? r->permits : 1,
                                 .flags = (uint32_t)r->flags,
                                 .ttl = r->ttl_ms != 0 };
}

static void ask(struct thread *t, struct try *try)
{
    struct lane *lane = &t->torture->history->lane[t->lane];

    try->event.number = atomic_fetch_add(&lane->number, 1) + 1;
    atomic_store(&lane->doing, (int)try->index + 1);
    try->event.kind = EV_ASK;
    note(t, try->event);
}

/* Is the lease certainly valid? Read the time first, then ask. */
static bool certain(struct thread *t, struct try *try, enum event_kind kind)
{
    int64_t at_ns = history_now_ns();

    if (try->event.ttl && hf_lease_remaining_ms(try->lease) <= 0)
        return false;
    try->event.kind = (uint8_t)kind;
    try->event.at_ns = at_ns;
    note(t, try->event);
    try->event.at_ns = 0;
    return true;
}

static bool answered(struct thread *t, struct try *try, hf_status status)
{
    struct lane *lane = &t->torture->history->lane[t->lane];

    atomic_store(&lane->doing, 0);
    atomic_fetch_add(&lane->progress, 1);
    if (status == HF_OK) {
        try->event.token = hf_lease_token(try->lease);
        if (certain(t, try, EV_GOT))
            return true;
    }
    try->event.kind = EV_NOT;
    try->event.status = (uint8_t)status;
    note(t, try->event);
    try->event.status = 0;
    return status == HF_OK;
}

static void released(struct thread *t, struct try *try, hf_status status)
{
    try->event.kind = EV_LET;
    try->event.status = (uint8_t)status;
    note(t, try->event);
}

/* ---- blocking ------------------------------------------------------------------------- */

static bool acquire(struct thread *t, struct try *try)
{
    hf_cancel *cancel = NULL;
    hf_status status;

    if (rng_below(&t->rng, 8) == 0 && hf_cancel_open(&cancel) == HF_OK) {
        try->request.cancel = cancel;
        atomic_store(&t->cancel, cancel);
    }
    ask(t, try);
    status = hf_acquire(t->store, &try->request, &try->lease, NULL);
    if (cancel) {
        while (!atomic_exchange(&t->cancel, NULL))
            usleep(100); /* the canceller uses it: wait until it has finished */
        hf_cancel_close(cancel);
    }
    return answered(t, try, status);
}

static void *cancel_main(void *arg)
{
    struct worker *w = arg;
    struct rng rng = { .state = (uint64_t)getpid() };

    while (!atomic_load(&w->done)) {
        usleep(1000 + rng_below(&rng, 10000));
        for (unsigned i = 0; i < w->count; i++) {
            hf_cancel *cancel = atomic_exchange(&w->threads[i].cancel, NULL);

            if (!cancel)
                continue;
            hf_cancel_fire(cancel);
            atomic_store(&w->threads[i].cancel, cancel);
        }
    }
    return NULL;
}

static void release(struct thread *t, struct try *try)
{
    bool still = !try->event.ttl || certain(t, try, EV_STILL);

    try->event.kind = still ? EV_LETTING : EV_LOST;
    note(t, try->event);
    released(t, try, hf_release(try->lease, NULL));
}

static void hold(struct thread *t)
{
    unsigned how = rng_below(&t->rng, 20);

    if (how < 9)
        return;
    if (how < 17)
        usleep(rng_below(&t->rng, 300));
    else
        usleep(1000 + rng_below(&t->rng, 4000));
}

/* Nested requests never wait: so a thread cannot block itself. */
static void once(struct thread *t, unsigned depth)
{
    struct try try;

    make_request(t, &try, rng_below(&t->rng, lock_count), depth == 0);
    if (!acquire(t, &try))
        return;
    hold(t);
    if (depth < NESTED_MAX && rng_below(&t->rng, 8) == 0)
        once(t, depth + 1);
    if (t->torture->suicide && rng_below(&t->rng, 3000) == 0 && decide(t, DYING)) {
        try.event.kind = EV_LETTING;
        if (!try.event.ttl)
            note(t, try.event);
        _exit(0);
    }
    release(t, &try);
}

/* ---- driven by an event loop ----------------------------------------------------------------- */

struct waiting {
    struct try *try;
    hf_status status;
    bool done;
};

static void on_done(const hf_result *result, void *arg)
{
    struct waiting *w = arg;

    w->status = result->status;
    if (result->status == HF_OK && result->lease)
        w->try->lease = result->lease;
    w->done = true;
}

static void drive(struct thread *t, const struct waiting *w)
{
    while (!w->done) {
        struct pollfd fd = { .fd = hf_store_fd(t->store), .events = POLLIN };
        int timeout = hf_store_timeout_ms(t->store);

        poll(&fd, 1, timeout < 0 || timeout > 1000 ? 1000 : timeout);
        hf_store_process(t->store);
    }
}

static void once_async(struct thread *t)
{
    struct try try;
    struct waiting w = { .try = &try };
    bool still;

    make_request(t, &try, rng_below(&t->rng, lock_count), true);
    ask(t, &try);
    if (hf_acquire_async(t->store, &try.request, on_done, &w, NULL, NULL) != HF_OK) {
        answered(t, &try, HF_INTERNAL);
        return;
    }
    drive(t, &w);
    if (!answered(t, &try, w.status))
        return;
    hold(t);
    still = !try.event.ttl || certain(t, &try, EV_STILL);
    try.event.kind = still ? EV_LETTING : EV_LOST;
    note(t, try.event);
    w = (struct waiting){ .try = &try };
    if (hf_release_async(try.lease, on_done, &w, NULL, NULL) != HF_OK)
        return;
    drive(t, &w);
    released(t, &try, w.status);
}

/* ---- the process ------------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
    struct thread *t = arg;

    atomic_store(&t->torture->history->lane[t->lane].tid, (int)syscall(SYS_gettid));
    while (!stopping(t)) {
        if (t->async)
            once_async(t);
        else
            once(t, 0);
    }
    while (!decide(t, RETURNING))
        pause(); /* another thread is about to end the process */
    return NULL;
}

int worker_main(const struct torture *torture, uint32_t lane, uint32_t incarnation)
{
    struct worker w = { .count = torture->threads };
    pthread_t canceller;
    hf_status status;

    for (unsigned i = 0; i < w.count; i++) {
        struct thread *t = &w.threads[i];
        hf_error err;

        t->torture = torture;
        t->ending = &w.ending;
        t->lane = lane + i;
        t->rng.state = torture->seed * 1000003 + (uint64_t)incarnation * 1009 + lane + i;
        t->async = rng_below(&t->rng, 4) == 0;
        /* All threads may share one handle, but an event loop needs one of its own. */
        status = hf_open(torture->url, NULL, &t->store, &err);
        if (status != HF_OK) {
            fprintf(stderr, "torture: open: %s\n", err.text);
            return status == HF_UNAVAILABLE ? 0 : 2;
        }
    }
    pthread_create(&canceller, NULL, cancel_main, &w);
    for (unsigned i = 0; i < w.count; i++)
        pthread_create(&w.threads[i].pthread, NULL, thread_main, &w.threads[i]);
    for (unsigned i = 0; i < w.count; i++)
        pthread_join(w.threads[i].pthread, NULL);
    atomic_store(&w.done, 1);
    pthread_join(canceller, NULL);
    for (unsigned i = 0; i < w.count; i++)
        if (hf_close(w.threads[i].store, 0) != HF_OK) {
            fprintf(stderr, "torture: a lease or a request is left over at the end\n");
            return 3;
        }
    return 0;
}

/* ---- the observer ------------------------------------------------------------------------------- */

static void look_at(const struct torture *torture, uint32_t lane, hf_store *store, unsigned index,
                    uint32_t look)
{
    hf_view *view;
    int64_t at_ns;

    if (hf_store_inspect(store, locks[index].name, HF_CSTRING, 0, &view, NULL) != HF_OK)
        return;
    at_ns = history_now_ns();
    for (size_t i = 0; hf_view_count(view) == 1 && i < hf_view_entry(view, 0)->waiter_count; i++) {
        unsigned seen_lane, number;

        if (sscanf(hf_entry_waiter(hf_view_entry(view, 0), i)->label, LABEL_FORMAT, &seen_lane,
                   &number) == 2)
            history_add(torture->history, lane,
                        (struct event){ .kind = EV_SEEN,
                                        .at_ns = at_ns,
                                        .look = look,
                                        .name = (uint8_t)index,
                                        .seen_lane = (uint8_t)seen_lane,
                                        .number = number });
    }
    hf_free(view);
}

int observer_main(const struct torture *torture, uint32_t lane)
{
    struct rng rng = { .state = torture->seed };
    hf_store *store;
    uint32_t look = 0;
    hf_error err;

    if (hf_open(torture->url, NULL, &store, &err) != HF_OK) {
        fprintf(stderr, "torture: observer: %s\n", err.text);
        return err.status == HF_UNAVAILABLE ? 0 : 2;
    }
    while (!atomic_load(&torture->history->stop)) {
        unsigned index = rng_below(&rng, lock_count);

        if (locks[index].flags & HF_FLAG_STRICT && !locks[index].barge)
            look_at(torture, lane, store, index, ++look);
        usleep(500 + rng_below(&rng, 2000));
        atomic_fetch_add(&torture->history->lane[lane].progress, 1);
    }
    hf_close(store, 0);
    return 0;
}
