/* SPDX-License-Identifier: MIT */
/* The detector: see detector.h. */
#include "deadlock/detector.h"

#include "core/inspect.h"
#include "core/lack.h"
#include "core/local_queue.h"
#include "core/thread.h"
#include "deadlock/graph.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/thread.h"

#define NEEDED (HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_TOKEN)

/* Two views of one store, the second compared with the first. */
struct two_views {
    hf_view *views[2];
    struct hfi_graph *graphs[2];
};

static void *detect_main(void *arg);
static struct hfi_wait *surface_one(struct hfi_store *store, int64_t now_ms);
static void check(struct hfi_store *store, int64_t now_ms);
static hf_status read_two_views(struct hfi_store *store, struct two_views *views, hf_error *err);
static void views_free(struct two_views *views);

/* ---- the thread ------------------------------------------------------------------------ */

void hfi_detect_init(struct hfi_store *store, int64_t first_ms)
{
    struct hfi_detector *d = &store->detector;

    d->first_ms = first_ms;
    pthread_mutex_init(&d->lock, NULL);
    d->able = d->first_ms > 0 && ((hfi_store_promises(store)->caps & NEEDED) == NEEDED ||
                                  hfi_store_promises(store)->tells_own);
    d->started = d->stop = false;
    d->rest_ms = 0;
    atomic_store(&d->awake, 0);
    atomic_store(&d->wakeups, 0);
}

static void ring(struct hfi_detector *d)
{
    atomic_fetch_add(&d->wakeups, 1);
    hfi_futex_wake(&d->wakeups, 1, false);
}

void hfi_detect_stop(struct hfi_store *store)
{
    struct hfi_detector *d = &store->detector;
    bool started;

    pthread_mutex_lock(&d->lock);
    started = d->started;
    d->stop = true;
    pthread_mutex_unlock(&d->lock);
    if (!started)
        return;
    ring(d);
    pthread_join(d->thread, NULL);
}

void hfi_detect_watch(struct hfi_wait *wait, const struct hfi_tag *tag)
{
    struct hfi_store *store = wait->store;
    struct hfi_detector *d = &store->detector;

    if (!wait->tag) {
        wait->since_ms = hfi_now_ms();
        wait->check_ms = wait->since_ms + d->first_ms;
        wait->pause_ms = d->first_ms;
        wait->tag = tag;
    }
    hfi_wait_list(wait);

    /* Either we see that it is awake, or it sees us in the list. */
    if (atomic_load(&d->awake))
        return;
    pthread_mutex_lock(&d->lock);
    if (!d->started && !d->stop)
        d->started = hfi_thread_start(&d->thread, "hf-deadlock", detect_main, store) == 0;
    if (d->started && !atomic_exchange(&d->awake, 1))
        ring(d);
    pthread_mutex_unlock(
        &d->lock); /* without a thread nothing is found, and nothing else happens */
}

static bool stopped(struct hfi_detector *d)
{
    bool stop;

    pthread_mutex_lock(&d->lock);
    stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    return stop;
}

/* Is there a wait that needs the detector? */
static bool anybody(struct hfi_store *store)
{
    bool found = false;

    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits && !found;
         node = node->next)
        found = hfi_container(node, struct hfi_wait, listed)->tag != NULL;
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* When to look at the list of waits again: when the next wait is due, at the latest after first_ms
 * (a new wait may be due by then), and not before an eighth of that. */
static int64_t next_round(struct hfi_store *store, int64_t now_ms)
{
    const struct hfi_detector *d = &store->detector;
    int64_t next_ms = now_ms + d->first_ms, least_ms = now_ms + d->first_ms / 8 + 1;

    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits; node = node->next) {
        const struct hfi_wait *wait = hfi_container(node, struct hfi_wait, listed);

        if (wait->tag && wait->check_ms < next_ms)
            next_ms = wait->check_ms;
    }
    pthread_mutex_unlock(&store->lock);
    return next_ms > least_ms ? next_ms : least_ms;
}

/* While anything waits, the thread looks at the list of waits once per first_ms at least. It looks
 * once more after the last wait has gone: so waits that come and go all the time need not wake it
 * each time. */
static void *detect_main(void *arg)
{
    struct hfi_store *store = arg;
    struct hfi_detector *d = &store->detector;
    bool lingers = true;

    while (!stopped(d)) {
        uint32_t seen = atomic_load(&d->wakeups);
        bool busy = anybody(store);

        if (busy) {
            struct hfi_wait *wait;

            while ((wait = surface_one(store, hfi_now_ms())))
                hfi_wait_tell(wait, HFI_WAIT_GO);
            check(store, hfi_now_ms());
        }
        if (busy || lingers) {
            lingers = busy;
            if (!stopped(d))
                hfi_futex_wait(&d->wakeups, seen, next_round(store, hfi_now_ms()), false);
            continue;
        }
        lingers = true;
        atomic_store(&d->awake, 0);
        if (anybody(store))
            atomic_store(&d->awake, 1);
        else
            hfi_futex_wait(&d->wakeups, seen, HFI_NEVER, false);
    }
    return NULL;
}

/* ---- local waiters ------------------------------------------------------------------------ */

/* A wait that has been in the local queue for long enough, taken out of it. NULL: there is none. */
static struct hfi_wait *surface_one(struct hfi_store *store, int64_t now_ms)
{
    struct hfi_wait *found = NULL;

    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits && !found;
         node = node->next) {
        struct hfi_wait *wait = hfi_container(node, struct hfi_wait, listed);

        if (wait->tag && now_ms >= wait->since_ms + store->detector.first_ms &&
            atomic_load(&wait->stop) == HF_OK && hfi_local_queue_surface(wait))
            found = wait; /* it cannot go away before it is told */
    }
    pthread_mutex_unlock(&store->lock);
    return found;
}

/* ---- looking ---------------------------------------------------------------------------------- */

/* Is one of the waits to be examined now? The next examination of all waits that this one serves is
 * put off. */
static bool is_due(struct hfi_store *store, int64_t now_ms)
{
    int64_t longest_ms = store->detector.first_ms * HFI_DETECT_LONGEST;
    bool due = false;

    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits; node = node->next) {
        struct hfi_wait *wait = hfi_container(node, struct hfi_wait, listed);

        if (!wait->tag || now_ms < wait->check_ms || !atomic_load(&wait->op))
            continue;
        due = true;
        wait->pause_ms = wait->pause_ms * 2 < longest_ms ? wait->pause_ms * 2 : longest_ms;
        wait->check_ms = now_ms + wait->pause_ms;
    }
    pthread_mutex_unlock(&store->lock);
    return due;
}

/* End the wait with this tag, if it is one of ours. */
static void end_wait(struct hfi_store *store, const struct hfi_graph *graph, size_t cycle)
{
    const struct hfi_tag *victim = hfi_graph_victim(graph, cycle);

    pthread_mutex_lock(&store->lock);
    for (struct hfi_list *node = store->waits.next; node != &store->waits; node = node->next) {
        struct hfi_wait *wait = hfi_container(node, struct hfi_wait, listed);
        hf_deadlock_waiter *links;
        size_t count;

        if (!wait->tag || !hfi_tag_same(wait->tag, victim) || wait->words)
            continue;
        links = hfi_graph_circle(graph, cycle, &count);
        wait->words = links ? hfi_malloc(HF_ERROR_TEXT_MAX) : NULL;
        if (wait->words)
            hfi_circle_words(links, count, wait->words, HF_ERROR_TEXT_MAX);
        hfi_free(links);
        hfi_wait_stop(wait, HF_DEADLOCK);
        break;
    }
    pthread_mutex_unlock(&store->lock);
}

static void check(struct hfi_store *store, int64_t now_ms)
{
    struct two_views views = { 0 };
    hf_error err;

    if (now_ms < store->detector.rest_ms || !is_due(store, now_ms))
        return;
    if (read_two_views(store, &views, &err) == HF_OK && views.graphs[1])
        for (size_t i = 0; i < hfi_graph_cycles(views.graphs[1]); i++)
            end_wait(store, views.graphs[1], i);
    views_free(&views);
    store->detector.rest_ms = hfi_now_ms() + (hfi_now_ms() - now_ms) * HFI_DETECT_SHARE;
}

const hf_error *hfi_detect_error(const struct hfi_wait *wait, hf_error *ret_error)
{
    hfi_error_set(ret_error, HF_DEADLOCK, 0, "%s%s%s", hf_status_text(HF_DEADLOCK),
                  wait->words ? ": " : "", wait->words ? wait->words : "");
    return ret_error;
}

/* If the first view has no cycle, no second one is read. */
static hf_status read_two_views(struct hfi_store *store, struct two_views *views, hf_error *err)
{
    bool fifo = hfi_store_promises(store)->caps & HF_CAP_FIFO;

    for (int i = 0; i < 2; i++) {
        hf_status status = hfi_inspect_contended(store, &views->views[i], err);

        if (status != HF_OK)
            return status;
        views->graphs[i] = hfi_graph_new(views->views[i], fifo, i ? views->graphs[0] : NULL);
        if (!views->graphs[i])
            return hfi_error_memory(err);
        if (hfi_graph_cycles(views->graphs[i]) == 0)
            break;
    }
    return HF_OK;
}

static void views_free(struct two_views *views)
{
    for (int i = 0; i < 2; i++) {
        hfi_graph_free(views->graphs[i]);
        hfi_free(views->views[i]);
    }
}

/* ---- telling ------------------------------------------------------------------------------------- */

struct list_call {
    struct hfi_task task;
    hf_deadlocks *deadlocks;
};

/* Reads two views of the whole store, on the caller's thread or on a worker. */
static hf_status list_work(struct hfi_task *task)
{
    struct list_call *call = hfi_container(task, struct list_call, task);
    struct two_views views = { 0 };
    hf_status status = read_two_views(task->store, &views, &task->child.error);

    if (status == HF_OK && !hfi_deadlocks_new(views.graphs[1], &call->deadlocks))
        status = hfi_error_memory(&task->child.error);
    views_free(&views);
    return status;
}

static hf_status list_step(struct hfi_task *task, hf_status got)
{
    if (task->state++ == 0)
        return hfi_task_work(task, list_work);
    task->error = task->child.error;
    return got;
}

static void list_finish(struct hfi_task *task, hf_result *result)
{
    result->deadlocks = hfi_container(task, struct list_call, task)->deadlocks;
}

/* HF_OK: the store is entered. */
static hf_status list_init(struct list_call *call, hf_store *handle, bool wanted, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, list_step);
    call->task.finish = list_finish;
    call->task.free = hfi_task_free_entered;
    call->deadlocks = NULL;
    if (!wanted)
        status = hfi_error_set(err, HF_INVALID, 0, "ret_deadlocks: NULL");
    else if ((hfi_store_promises(store)->caps & NEEDED) != NEEDED)
        status = hfi_unsupported(hfi_store_promises(store), NEEDED, NULL, err);
    if (status != HF_OK)
        hfi_store_leave(store);
    return status;
}

hf_status hf_deadlock_list(hf_store *handle, hf_deadlocks **ret_deadlocks, hf_error *err)
{
    struct list_call call;
    hf_status status = list_init(&call, handle, ret_deadlocks != NULL, err);

    if (status != HF_OK)
        return status;
    status = hfi_task_run_entered(&call.task, err);
    if (status == HF_OK)
        *ret_deadlocks = call.deadlocks;
    return status;
}

hf_status hf_deadlock_list_async(hf_store *handle, hf_done_fn *done, void *arg, hf_op **ret_op,
                                 hf_error *err)
{
    struct list_call *call = hfi_malloc(sizeof *call);
    hf_status status = call ? list_init(call, handle, true, err) : hfi_error_memory(err);

    if (status == HF_OK)
        return hfi_task_begin_entered(&call->task, done, arg, ret_op, err);
    hfi_free(call);
    return status;
}
