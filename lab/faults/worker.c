/* SPDX-License-Identifier: MIT */
/*
 * A worker: one thread that acquires the mutex, the read-write lock and the semaphore, holds them for a moment, and releases
 * them; in between it updates the values of updates.c. Each event is logged just after it is certain, or just before it stops
 * being certain: the checker (test/torture/checker.h) relies on that. The holder's own validity decides what is certain:
 * hf_lease_remaining_ms().
 *
 * While a fault is under way (`trouble`) every second holder of the mutex stays where it is: there a fault does the most harm.
 *
 * A wrong client (enum wrong) is the same worker with one rule broken.
 */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAP_US      2000
#define AFTER_NS    (INT64_C(300) * 1000000)  /* a holder stays for so long after the fault */
#define STAY_NS     (INT64_C(8000) * 1000000) /* and never longer than this */
#define FAILED_US   5000
#define WRITE_US    5000
#define REST_US     100
#define OPEN_MS     3000
#define TTL_MS      1000
#define SHORT_WAIT  400
#define EVENTS_KEPT 64 /* room in the log that ends the run in order */

static const char *const lock_names[LOCKS] = { "mutex", "read-write", "semaphore", "busy" };

/* One acquire, and what its callback needs. */
struct hold {
    struct worker *worker;
    hf_acquire_request request;
    hf_lease *lease;
    struct event event;
    char name[128];
    _Atomic int64_t end_ns; /* when its validity ends, as last seen */
};

static bool stopping(const struct worker *w)
{
    return atomic_load(&w->shared->history.stop) != 0;
}

void worker_nap_us(unsigned us)
{
    usleep(us);
}

const char *worker_name(const struct shared *shared, const char *what)
{
    static _Thread_local char name[128];

    snprintf(name, sizeof name, "%s/%s", shared->names, what);
    return name;
}

/* ---- the log ---------------------------------------------------------------------------------- */

static void note(struct worker *w, struct event event, enum event_kind kind)
{
    struct history *history = &w->shared->history;

    event.kind = (uint8_t)kind;
    if (event.at_ns == 0)
        event.at_ns = history_now_ns();
    if (!history_add(history, w->lane, event) ||
        atomic_load(&history->lane[w->lane].count) > LANE_EVENTS - EVENTS_KEPT)
        atomic_store(&history->stop, 1); /* it is enough */
}

/* Is the lease held now, for certain? The time first, then the question. */
static bool certain(struct hold *h, enum event_kind kind)
{
    struct worker *w = h->worker;
    int64_t now_ns = history_now_ns(), left_ms = hf_lease_remaining_ms(h->lease);

    if (left_ms <= 0 && w->shared->wrong != WRONG_VALIDITY)
        return false;
    if (left_ms > 0 && left_ms < HF_DURATION_MAX_MS)
        atomic_store(&h->end_ns, now_ns + left_ms * 1000000);
    if (h->event.name == LOCK_MUTEX)
        atomic_store(&w->shared->mutex_end_ns, atomic_load(&h->end_ns));
    h->event.at_ns = now_ns;
    note(w, h->event, kind);
    h->event.at_ns = 0;
    return true;
}

/* LOST must not come later than the end of the validity. A worker that was stopped hears of it when it goes on. */
static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    struct hold *h = arg;
    struct shared *shared = h->worker->shared;
    int64_t due_ns = atomic_load(&h->end_ns), late_ns, seen;

    (void)lease, (void)text;
    if (event != HF_EVENT_LOST)
        return;
    atomic_fetch_add(&shared->losses, 1);
    if (due_ns == 0)
        return;
    if (atomic_load(&shared->continued_ns[h->worker->lane]) > due_ns)
        due_ns = atomic_load(&shared->continued_ns[h->worker->lane]);
    late_ns = history_now_ns() - due_ns;
    seen = atomic_load(&shared->late_ns);
    while (late_ns > seen && !atomic_compare_exchange_weak(&shared->late_ns, &seen, late_ns))
        ;
}

/* ---- one lease --------------------------------------------------------------------------------- */

/* Lanes 0 to 3: the mutex. 4 and 5: the other kinds, where there are some. 6 and 7: the busy one. */
static unsigned choose_lock(struct worker *w)
{
    if (w->lane < WORKERS / 2)
        return LOCK_MUTEX;
    if (w->lane >= WORKERS - 2)
        return LOCK_BUSY;
    if (w->info.caps & HF_CAP_SEMAPHORE && chance(&w->dice, 2))
        return LOCK_SEMAPHORE;
    return w->info.caps & HF_CAP_SHARED ? LOCK_RW : LOCK_MUTEX;
}

static void make_request(struct worker *w, struct hold *h)
{
    unsigned lock = choose_lock(w), dice;
    hf_acquire_request *r = &h->request;

    *r = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    snprintf(h->name, sizeof h->name, "%s", worker_name(w->shared, lock_names[lock]));
    r->name = h->name;
    r->name_len = HF_CSTRING;
    if (lock == LOCK_RW)
        r->kind = chance(&w->dice, 3) ? HF_KIND_SHARED : HF_KIND_EXCLUSIVE;
    if (lock == LOCK_SEMAPHORE) {
        r->kind = HF_KIND_SEMAPHORE;
        r->capacity = SEMAPHORE_CAPACITY;
        r->permits = chance(&w->dice, 8) ? 1 : SEMAPHORE_CAPACITY;
    }
    dice = chance(&w->dice, 8);
    r->wait_ms = dice == 0 ? 0 : dice < 3 ? 1 + chance(&w->dice, SHORT_WAIT) : HF_FOREVER;
    r->ttl_ms = atomic_load(&w->shared->lease_ms);
    r->on_event = on_event;
    r->on_event_arg = h;
    h->event = (struct event){ .name = (uint8_t)lock,
                               .lock = (uint8_t)r->kind,
                               .permits = r->permits ? r->permits : 1,
                               .ttl = 1 }; /* only what was certain counts */
}

/* Hold it: for a moment, or for as long as a fault lasts and a little more. */
static void stay(struct hold *h)
{
    struct worker *w = h->worker;
    int64_t now_ns = history_now_ns(), until_ns = now_ns, end_ns = now_ns + STAY_NS;
    bool through =
        h->event.name != LOCK_BUSY && chance(&w->dice, h->event.name == LOCK_MUTEX ? 2 : 8) == 0;

    if (w->shared->wrong == WRONG_VALIDITY && h->event.name == LOCK_MUTEX)
        through = true;
    if (chance(&w->dice, 4) == 0)
        worker_nap_us(chance(&w->dice, 500));
    while (!stopping(w) && now_ns < end_ns) {
        if (through && atomic_load(&w->shared->trouble))
            until_ns = now_ns + AFTER_NS;
        if (now_ns >= until_ns || !certain(h, EV_STILL))
            break;
        worker_nap_us(NAP_US);
        now_ns = history_now_ns();
    }
}

/*
 * A client that does all it can without a fence: it looks at its validity just before it writes. The write takes a moment, in
 * which it may be stopped: `inside`. Only the guard notices that.
 */
static void work(struct hold *h)
{
    struct worker *w = h->worker;
    struct update update;

    if (h->event.name != LOCK_MUTEX) {
        stay(h);
        return;
    }
    update = update_begin(w, h->lease);
    stay(h);
    if (!certain(h, EV_STILL))
        return;
    atomic_store(&w->shared->inside[w->lane], 1);
    if (chance(&w->dice, 8) == 0)
        worker_nap_us(chance(&w->dice, WRITE_US));
    update_end(w, update);
    atomic_store(&w->shared->inside[w->lane], 0);
}

static void release(struct hold *h, bool held)
{
    struct worker *w = h->worker;

    if (w->shared->wrong == WRONG_EARLY && held) {
        hf_release(h->lease, NULL);
        worker_nap_us(chance(&w->dice, 3000));
        note(w, h->event, EV_STILL);
        note(w, h->event, EV_LETTING);
        return;
    }
    held = held && certain(h, EV_STILL);
    note(w, h->event, held ? EV_LETTING : EV_LOST);
    h->event.status = (uint8_t)hf_release(h->lease, NULL);
    note(w, h->event, EV_LET);
}

static void acquire_once(struct worker *w)
{
    struct history *history = &w->shared->history;
    struct hold h = { .worker = w };
    hf_status status;
    bool held;

    make_request(w, &h);
    h.event.number = atomic_fetch_add(&history->lane[w->lane].number, 1) + 1;
    note(w, h.event, EV_ASK);
    status = hf_acquire(w->store, &h.request, &h.lease, NULL);
    atomic_fetch_add(&history->lane[w->lane].progress, 1);
    if (status != HF_OK) {
        atomic_fetch_add(&w->shared->failed[status < STATUSES ? status : 0], 1);
        if (status != HF_BUSY && status != HF_TIMEOUT)
            worker_nap_us(FAILED_US); /* a store that is away says so at once */
        return;
    }
    h.event.token = hf_lease_token(h.lease);
    held = certain(&h, EV_GOT);
    if (held) {
        atomic_fetch_add(&w->shared->grants[h.event.name], 1);
        work(&h);
    }
    release(&h, held);
}

/* ---- the process --------------------------------------------------------------------------------- */

static hf_store *open_store(struct worker *w, const char *url)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store;
    hf_error err;

    options.open_wait_ms = OPEN_MS;
    for (;;) {
        if (hf_open(url, &options, &store, &err) == HF_OK)
            return store;
        if (stopping(w))
            _exit(0); /* it began while the store was away, and the run is over */
        if (err.status == HF_CONFIG || err.status == HF_INVALID || err.status == HF_DENIED) {
            if (atomic_fetch_add(&w->shared->refused, 1) == 0)
                fprintf(stderr, "faults: %s\n", err.text);
            atomic_store(&w->shared->history.stop, 1);
            _exit(0);
        }
        worker_nap_us(FAILED_US);
    }
}

static int worker_main(struct shared *shared, unsigned lane)
{
    struct worker w = { .shared = shared, .lane = lane, .info = HF_STORE_INFO_INIT };
    struct history *history = &shared->history;
    int64_t ttl_ms;

    w.dice = shared->seed * 1009 + (uint64_t)getpid();
    w.store = open_store(&w, shared->url);
    w.vault = open_store(&w, shared->vault);
    if (hf_store_get(w.store, &w.info) != HF_OK)
        return 2;
    ttl_ms = shared->ttl_ms ? shared->ttl_ms : TTL_MS;
    if (ttl_ms < w.info.min_ttl_ms)
        ttl_ms = w.info.min_ttl_ms;
    if (!(w.info.caps & HF_CAP_TTL) || shared->ttl_ms < 0)
        ttl_ms = 0;
    atomic_store(&shared->caps, w.info.caps);
    atomic_store(&shared->tokens, (int)w.info.tokens);
    atomic_store(&shared->lease_ms, ttl_ms);
    history->tokenless = w.info.tokens == HF_TOKEN_STRENGTH_NONE;
    atomic_fetch_add(&shared->opened, 1);

    while (!stopping(&w)) {
        if (w.info.caps & HF_CAP_CELLS && lane >= WORKERS / 2 && chance(&w.dice, 4) == 0)
            update_store(&w);
        else
            acquire_once(&w);
        if (chance(&w.dice, 2))
            worker_nap_us(chance(&w.dice, REST_US)); /* the log has room for one run at this pace */
    }
    hf_close(w.store, HF_CLOSE_FLAG_RELEASE);
    hf_close(w.vault, HF_CLOSE_FLAG_RELEASE);
    return 0;
}

int worker_arguments(int argc, char **argv)
{
    struct shared *shared;
    int lane;

    if (argc != 4 || strcmp(argv[1], "--worker") != 0)
        return -1;
    lane = (int)strtol(argv[2], NULL, 10);
    shared = shared_map((int)strtol(argv[3], NULL, 10));
    if (!shared || lane < 0 || lane >= WORKERS)
        return 2;
    return worker_main(shared, (unsigned)lane);
}
