/* SPDX-License-Identifier: MIT */
/*
 * See reactor.h. One thread at a time is in turn or process; it alone reads from sockets, and adds and removes sources.
 *
 * There are two ways to sleep. If only one source expects answers, the driver sleeps in a plain
 * recv(2) on its socket: one system call sleeps, wakes and reads, so an uncontended pair on one
 * server costs four in all. That sleep is limited to slices (HFI_REACTOR_SLICE_MS), and now and
 * then epoll is asked for events of the other descriptors. Otherwise, with several sources, or to
 * wait for a message or a time, the driver sleeps in epoll_wait(2).
 */
#include "engine/kit/reactor.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32
#define LOOK_MS \
    2 /* how often epoll is asked while the driver sleeps in recv(2), if a source listens for
       * messages ... */
#define LOOK_IDLE_MS    HFI_REACTOR_SLICE_MS /* ... and if none does */
#define KICK            UINT64_MAX
#define YIELD_SLOW_MS   2  /* threads of ours do not need so long to submit something */
#define YIELD_PAUSE_MIN 64 /* turns */
#define YIELD_PAUSE_MAX 8192

/* What has happened to a claim, to be reported to core. */
struct hfi_news {
    struct hfi_news *next;
    struct hfi_claim *claim;
    unsigned char owner[HFI_OWNER_LEN];
    const char *lost; /* why; NULL: it is wanted */
    enum hfi_wanted what;
    char text[]; /* of the asker */
};

/* How the driver will sleep. */
struct plan {
    int64_t due_ms;   /* the next time limit */
    int64_t exact_ms; /* ... the next one that must be exact */
    bool listens;
    struct hfi_source *at; /* the only source that expects answers, if its read() may sleep */
};

/* What a sleep has brought. */
struct events {
    struct epoll_event all[EVENTS_MAX];
    int count;
    struct hfi_source *slept_at;
};

static struct plan plan_sleep(const struct hfi_reactor *reactor);
static void poll_sources(struct hfi_reactor *reactor, int timeout_ms, struct events *ret_events);
static void work(struct hfi_reactor *reactor, const struct events *events, bool prepared);
static void prepare_all(struct hfi_reactor *reactor, int64_t now_ms);
static bool wake_if_sooner(struct hfi_reactor *reactor);
static void kick(struct hfi_reactor *reactor);

static struct hfi_reactor *of(void *store)
{
    return (struct hfi_reactor *)store;
}

static struct hfi_reactor_op *room(struct hfi_op *op)
{
    return (struct hfi_reactor_op *)op->room;
}

/* It is held for a microsecond, and threads that the driver has woken ask for it one right behind the other: to spin for a
 * moment costs less than to sleep. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
#if defined(__GLIBC__)
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

hf_status hfi_reactor_init(struct hfi_reactor *reactor, struct hfi_host *host,
                           const struct hfi_op_calls *ops, hf_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = KICK };

    init_lock(&reactor->lock);
    reactor->begun = true;
    reactor->host = host;
    reactor->ops = ops;
    reactor->told_ms = INT64_MIN;
    reactor->soonest_ms = reactor->limit_ms = HFI_NEVER;
    hfi_list_init(&reactor->limited);
    reactor->done_end = &reactor->done;
    reactor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    reactor->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reactor->epoll_fd < 0 || reactor->kick_fd < 0 ||
        epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, reactor->kick_fd, &event) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor is left: %s",
                             strerror(errno));
    return HF_OK;
}

void hfi_reactor_done(struct hfi_reactor *reactor)
{
    struct hfi_news *news;

    if (!reactor->begun)
        return;
    while ((news = reactor->news)) {
        reactor->news = news->next;
        hfi_free(news);
    }
    hfi_free(reactor->sources);
    if (reactor->epoll_fd >= 0)
        close(reactor->epoll_fd);
    if (reactor->kick_fd >= 0)
        close(reactor->kick_fd);
    pthread_mutex_destroy(&reactor->lock);
    reactor->begun = false;
}

/* ---- ops -------------------------------------------------------------------------------------- */

static struct hfi_op *limited_op(struct hfi_list *node)
{
    return hfi_container(hfi_container(node, struct hfi_reactor_op, limited), struct hfi_op, room);
}

/*
 * An op that may not wait ends at its deadline, whether a thread of core waits for it or not. Most are finished long before:
 * so the time is not moved when one is, and is looked at again when it has come.
 */
static void limit(struct hfi_reactor *reactor, struct hfi_op *op)
{
    struct hfi_list *after = reactor->limited.prev;

    if (op->may_wait || op->deadline_ms == HFI_NEVER || !reactor->ops[op->kind].cancel)
        return;
    while (after != &reactor->limited && limited_op(after)->deadline_ms > op->deadline_ms)
        after = after->prev;
    hfi_list_append(after->next, &room(op)->limited);
    if (op->deadline_ms < reactor->limit_ms)
        reactor->limit_ms = op->deadline_ms;
    if (reactor->limit_ms < reactor->soonest_ms)
        reactor->soonest_ms = reactor->limit_ms;
}

static void unlimit(struct hfi_op *op)
{
    if (room(op)->limited.next)
        hfi_list_remove(&room(op)->limited);
}

/* Tell the engine of the ops whose deadline has passed. */
static void end_limited(struct hfi_reactor *reactor, int64_t now_ms)
{
    struct hfi_op *op;

    if (reactor->limit_ms > now_ms)
        return;
    while (!hfi_list_empty(&reactor->limited)) {
        op = limited_op(reactor->limited.next);
        if (op->deadline_ms > now_ms)
            break;
        unlimit(op);
        reactor->ops[op->kind].cancel(reactor, op, HF_TIMEOUT);
    }
    reactor->limit_ms = hfi_list_empty(&reactor->limited)
                            ? HFI_NEVER
                            : limited_op(reactor->limited.next)->deadline_ms;
}

void hfi_reactor_submit(void *store, struct hfi_op *op)
{
    struct hfi_reactor *reactor = of(store);
    const struct hfi_op_calls *calls = &reactor->ops[op->kind];

    hfi_reactor_enter(reactor);
    limit(reactor, op);
    if (calls->begin)
        calls->begin(store, op);
    else
        hfi_reactor_finish(reactor, op, HF_UNSUPPORTED, NULL);
    hfi_reactor_leave(reactor);
}

void hfi_reactor_cancel(void *store, struct hfi_op *op, hf_status status)
{
    struct hfi_reactor *reactor = of(store);
    const struct hfi_op_calls *calls = &reactor->ops[op->kind];

    if (!calls->cancel)
        return;
    hfi_reactor_enter(reactor);
    calls->cancel(store, op, status);
    hfi_reactor_leave(reactor);
}

/* ---- what core is told ------------------------------------------------------------------- */

void hfi_reactor_enter(struct hfi_reactor *reactor)
{
    pthread_mutex_lock(&reactor->lock);
}

void hfi_reactor_finish(struct hfi_reactor *reactor, struct hfi_op *op, hf_status status,
                        const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    unlimit(op);
    room(op)->next = NULL;
    room(op)->status = status;
    *reactor->done_end = op;
    reactor->done_end = &room(op)->next;
}

/* Out of memory: the next renewal finds it. */
static void add_news(struct hfi_reactor *reactor, struct hfi_claim *claim, const char *lost,
                     enum hfi_wanted what, const char *text, size_t len)
{
    size_t kept = len < HF_LABEL_MAX ? len : HF_LABEL_MAX;
    struct hfi_news *news = hfi_malloc(sizeof *news + kept + 1);

    if (!news)
        return;
    news->next = NULL;
    news->claim = claim;
    memcpy(news->owner, claim->owner, HFI_OWNER_LEN);
    news->lost = lost;
    news->what = what;
    memcpy(news->text, text, kept);
    news->text[kept] = 0;
    *(reactor->news ? reactor->news_end : &reactor->news) = news;
    reactor->news_end = &news->next;
}

void hfi_reactor_lost(struct hfi_reactor *reactor, struct hfi_claim *claim, const char *why)
{
    add_news(reactor, claim, why, HFI_WANTED_NO, "", 0);
}

void hfi_reactor_wanted(struct hfi_reactor *reactor, struct hfi_claim *claim, enum hfi_wanted what,
                        const char *text, size_t len)
{
    add_news(reactor, claim, NULL, what, text, len);
}

void hfi_reactor_hears(struct hfi_reactor *reactor, bool on)
{
    reactor->hears = on;
}

/* Is there anything for core but finished ops? */
static bool has_news(const struct hfi_reactor *reactor)
{
    return reactor->news || reactor->doubt || reactor->hears != reactor->told_hears;
}

static void tell_news(struct hfi_host *host, struct hfi_news *news)
{
    for (struct hfi_news *next; news; news = next) {
        next = news->next;
        if (news->lost)
            host->lost(host, news->claim, news->owner, news->lost);
        else
            host->wanted(host, news->claim, news->owner, news->what, news->text);
        hfi_free(news);
    }
}

static void flush_dirty(struct hfi_reactor *reactor)
{
    struct hfi_source *source;

    while ((source = reactor->dirty)) {
        reactor->dirty = source->next_dirty;
        source->dirty = false;
        source->calls->flush(source);
    }
}

void hfi_reactor_leave(struct hfi_reactor *reactor)
{
    struct hfi_host *host = reactor->host;
    struct hfi_op *op, *next;
    struct hfi_news *news;
    const char *doubt;
    bool wake, hears, said;

    if (!reactor->corked)
        flush_dirty(reactor);
    op = reactor->done;
    news = reactor->news;
    doubt = reactor->doubt;
    reactor->done = NULL;
    reactor->done_end = &reactor->done;
    reactor->news = NULL;
    reactor->doubt = NULL;
    hears = reactor->hears;
    said = hears != reactor->told_hears;
    reactor->told_hears = hears;
    wake = wake_if_sooner(reactor);
    pthread_mutex_unlock(&reactor->lock);

    if (wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, doubt);
    if (said)
        host->hears(host, hears);
    tell_news(host, news);
    for (; op; op = next) {
        next = room(op)->next;
        hfi_op_finish(op, room(op)->status);
    }
}

void hfi_reactor_leave_quietly(struct hfi_reactor *reactor, bool sooner)
{
    struct hfi_host *host = reactor->host;
    bool wake = sooner && wake_if_sooner(reactor);

    pthread_mutex_unlock(&reactor->lock);
    if (wake)
        host->wake(host);
}

/* ---- when ----------------------------------------------------------------------------------------- */

static int until(int64_t due_ms, int64_t now_ms)
{
    if (due_ms == HFI_NEVER)
        return -1;
    if (due_ms <= now_ms)
        return 0;
    return due_ms - now_ms > INT_MAX ? INT_MAX : (int)(due_ms - now_ms);
}

static int64_t source_next_ms(const struct hfi_source *source)
{
    int64_t next_ms = source->calls->next_ms ? source->calls->next_ms(source) : HFI_NEVER;

    return source->due_ms < next_ms ? source->due_ms : next_ms;
}

static struct plan plan_sleep(const struct hfi_reactor *reactor)
{
    struct plan plan = { .due_ms = reactor->limit_ms,
                         .exact_ms = HFI_NEVER,
                         .listens = reactor->listeners > 0 };
    unsigned awaiting = 0;

    for (uint32_t i = 0; i < reactor->source_count; i++) {
        struct hfi_source *source = reactor->sources[i];
        int64_t due_ms = source ? source_next_ms(source) : HFI_NEVER;

        if (due_ms < plan.due_ms)
            plan.due_ms = due_ms;
        if (due_ms < plan.exact_ms && source->exact)
            plan.exact_ms = due_ms;
        if (due_ms != HFI_NEVER && source->listens)
            plan.listens = true;
        if (source && source->awaited > 0) {
            plan.at = source;
            awaiting++;
        }
    }
    if (awaiting > 1 || (plan.at && !plan.at->sleeps))
        plan.at = NULL;
    if (reactor->done || has_news(reactor))
        plan.due_ms = 0; /* prepare() found them */
    return plan;
}

/* The next time limit may be earlier now: wake a driver that would sleep past it. true: core must
 * be told too (host->wake), because a caller's own loop would sleep too long. With the lock. */
static bool wake_if_sooner(struct hfi_reactor *reactor)
{
    int64_t due_ms = reactor->askers ? plan_sleep(reactor).due_ms : reactor->soonest_ms;

    if (reactor->napping && due_ms < reactor->nap_until_ms) {
        reactor->nap_until_ms = due_ms; /* one kick is enough */
        kick(reactor);
    }
    if (due_ms >= reactor->told_ms)
        return false;
    reactor->told_ms = due_ms;
    return true;
}

/* ---- being driven --------------------------------------------------------------------------------- */

static int reactor_fd(void *store)
{
    return of(store)->epoll_fd;
}

static int reactor_timeout_ms(void *store, int64_t now_ms)
{
    struct hfi_reactor *reactor = of(store);
    int timeout_ms;

    pthread_mutex_lock(&reactor->lock);
    reactor->told_ms = reactor->soonest_ms = plan_sleep(reactor).due_ms;
    timeout_ms = until(reactor->told_ms, now_ms);
    pthread_mutex_unlock(&reactor->lock);
    return timeout_ms;
}

/* Must epoll be asked now? With the lock. */
static bool looks(struct hfi_reactor *reactor, const struct plan *plan, int64_t now_ms)
{
    bool look =
        !plan->at || now_ms - reactor->looked_ms >= (plan->listens ? LOOK_MS : LOOK_IDLE_MS);

    if (look)
        reactor->looked_ms = now_ms;
    return look;
}

/* For a caller's loop, which knows only that some descriptor is readable. Most often that is the one source that expects answers: it is
 * read without asking epoll. What else is readable stays so until epoll is asked. */
static void reactor_process(void *store, int64_t now_ms)
{
    struct hfi_reactor *reactor = of(store);
    struct events events = { .count = 0, .slept_at = NULL };
    struct plan plan;
    bool look;

    pthread_mutex_lock(&reactor->lock);
    prepare_all(reactor, now_ms);
    plan = plan_sleep(reactor);
    look = looks(reactor, &plan, now_ms);
    pthread_mutex_unlock(&reactor->lock);
    if (!look && plan.at->calls->read(plan.at, false))
        events.slept_at = plan.at;
    else
        poll_sources(reactor, 0, &events);
    work(reactor, &events, true);
}

void hfi_reactor_turn(struct hfi_reactor *reactor, int64_t until_ms)
{
    int64_t now_ms = hfi_now_ms();
    struct events events;
    struct plan plan;
    bool look, heard = false;

    pthread_mutex_lock(&reactor->lock);
    prepare_all(reactor, now_ms);
    /* The driver sleeps to wait for answers: so a cork must not hold back the requests. (A callback
     * of the caller's loop may make a blocking call.) */
    flush_dirty(reactor);
    plan = plan_sleep(reactor);
    reactor->soonest_ms = plan.due_ms;
    if (until_ms < plan.due_ms)
        plan.due_ms = until_ms;
    if (until_ms < plan.exact_ms)
        plan.exact_ms = until_ms;
    /* An exact time limit comes before the end of a slice: use epoll, which can be exact. */
    if (plan.exact_ms - now_ms < HFI_REACTOR_SLICE_MS)
        plan.at = NULL;
    look = looks(reactor, &plan, now_ms);
    if (!plan.at) {
        /* Note the time before sleeping: an earlier time limit from now on wakes us. */
        reactor->nap_until_ms = plan.due_ms;
        reactor->napping = true;
    }
    pthread_mutex_unlock(&reactor->lock);

    events.count = 0;
    events.slept_at = NULL;
    if (look)
        poll_sources(reactor, plan.at ? 0 : until(plan.due_ms, now_ms), &events);
    for (int i = 0; plan.at && i < events.count; i++)
        heard = heard || events.all[i].data.u64 >> 32 == plan.at->slot;
    if (plan.at && !heard && plan.due_ms > now_ms) {
        (void)plan.at->calls->read(plan.at, true);
        events.slept_at = plan.at;
    }
    work(reactor, &events, false);
}

/* Wait for events, and read from the descriptors that have data. Without the lock. */
static void poll_sources(struct hfi_reactor *reactor, int timeout_ms, struct events *ret_events)
{
    int count = epoll_wait(reactor->epoll_fd, ret_events->all, EVENTS_MAX, timeout_ms);
    uint64_t kicks;

    ret_events->count = 0;
    ret_events->slept_at = NULL;
    for (int i = 0; i < count; i++) {
        const struct epoll_event *event = &ret_events->all[i];
        struct hfi_source *source;

        if (event->data.u64 == KICK) {
            if (read(reactor->kick_fd, &kicks, sizeof kicks) < 0)
                kicks = 0; /* another read has reset it: no kick is lost */
            continue;
        }
        source = reactor->sources[event->data.u64 >> 32];
        if (source && source->calls->read)
            (void)source->calls->read(source, false);
        ret_events->all[ret_events->count++] = *event;
    }
}

static void prepare_all(struct hfi_reactor *reactor, int64_t now_ms)
{
    for (uint32_t i = 0; reactor->preparers && i < reactor->source_count; i++)
        if (reactor->sources[i] && reactor->sources[i]->calls->prepare)
            reactor->sources[i]->calls->prepare(reactor->sources[i], now_ms);
}

static void call_ready(struct hfi_reactor *reactor, const struct events *events, int64_t now_ms)
{
    for (int i = 0; i < events->count; i++) {
        const struct epoll_event *event = &events->all[i];
        struct hfi_source *source = reactor->sources[event->data.u64 >> 32];

        if (source)
            source->calls->ready(source, (int)(uint32_t)event->data.u64, event->events, now_ms);
    }
    if (events->slept_at)
        events->slept_at->calls->ready(events->slept_at, -1, 0, now_ms);
}

static void call_due(struct hfi_reactor *reactor, int64_t now_ms)
{
    if (reactor->soonest_ms > now_ms && !reactor->askers)
        return;
    for (uint32_t i = 0; i < reactor->source_count; i++) {
        struct hfi_source *source = reactor->sources[i];

        if (!source || (source->due_ms > now_ms && !source->calls->next_ms))
            continue;
        source->due_ms = HFI_NEVER;
        source->calls->due(source, now_ms);
    }
}

/*
 * Threads were woken, and most will submit something soon. What they submit before the driver has dropped the cork leaves in
 * one write, and not in one for each (measured: 64 threads do 1.5 times as much, with 0.6 of the system time). On a busy
 * machine another process may get the processor instead: then it is not tried for a while.
 */
static void let_others_submit(struct hfi_reactor *reactor)
{
    int64_t before_ms;

    if (reactor->yields_off > 0) {
        reactor->yields_off--;
        return;
    }
    before_ms = hfi_now_ms();
    sched_yield();
    if (hfi_now_ms() - before_ms < YIELD_SLOW_MS)
        reactor->yields_pause /= 2;
    else if (reactor->yields_pause < YIELD_PAUSE_MAX)
        reactor->yields_pause = 2 * reactor->yields_pause + YIELD_PAUSE_MIN;
    reactor->yields_off = reactor->yields_pause;
}

/* Act on what was read and on expired times; finish ops. What threads that we wake submit meanwhile
 * is sent together with our own output, in one write at the end. `prepare`: a caller's loop sleeps
 * next, without telling us. */
static void work(struct hfi_reactor *reactor, const struct events *events, bool prepare)
{
    int64_t now_ms = hfi_now_ms();
    bool several;

    pthread_mutex_lock(&reactor->lock);
    reactor->napping = false;
    reactor->corked++;
    call_ready(reactor, events, now_ms);
    end_limited(reactor, now_ms);
    call_due(reactor, now_ms);
    if (prepare)
        prepare_all(reactor, now_ms);
    /* A single op needs no cork: the thread that it wakes sends its own output. */
    several = reactor->done && room(reactor->done)->next;
    if (several || has_news(reactor)) {
        hfi_reactor_leave(reactor);
        if (several &&
            !prepare) /* the caller's loop has one thread; and nobody wakes up for news that are to send something */
            let_others_submit(reactor);
        pthread_mutex_lock(&reactor->lock);
    }
    reactor->corked--;
    hfi_reactor_leave(reactor);
}

static void reactor_cork(void *store, bool on)
{
    struct hfi_reactor *reactor = of(store);

    pthread_mutex_lock(&reactor->lock);
    if (on) {
        reactor->corked++;
        pthread_mutex_unlock(&reactor->lock);
        return;
    }
    reactor->corked--;
    hfi_reactor_leave(reactor);
}

static void kick(struct hfi_reactor *reactor)
{
    uint64_t one = 1;

    if (write(reactor->kick_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* ---- for the engine's table ---------------------------------------------------------------- */

static void reactor_turn(void *store, int64_t until_ms)
{
    hfi_reactor_turn(of(store), until_ms);
}

static void reactor_kick(void *store)
{
    kick(of(store));
}

const struct hfi_drive hfi_reactor_drive = {
    .kind = HFI_EVENT,
    .fd = reactor_fd,
    .timeout_ms = reactor_timeout_ms,
    .process = reactor_process,
    .turn = reactor_turn,
    .kick = reactor_kick,
    .cork = reactor_cork,
};
