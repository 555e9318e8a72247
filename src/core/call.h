/* SPDX-License-Identifier: MIT */
/*
 * A call: everything that core asks an engine for is one, from its begin to its answer: acquires and releases, the children
 * of tasks, and what the keeper sends. It is a slot of one table, so its memory stays a call for the life of the process,
 * and a thread keeps a few spare ones.
 *
 *   begin    check what was asked, submit the op (or queue locally)
 *   wait     HFI_TO_THREAD only: until the answer is there
 *   end      the same continuation for all: what the answer means, and what is left to be settled
 *
 * The receiver of the answer:
 *
 *   THREAD --------> the thread that began it waits, and runs the continuation itself
 *      | gives up (hfi_call_abandon(), one step under the driver's lock)
 *      v
 *   NOBODY           the thread that brings the answer runs `answered_by`: a claim that was granted is settled
 *   KEEPER           likewise: settling, renewals
 *   LOOP             that thread runs the continuation; hf_store_process() calls back
 *   TASK             that thread runs the continuation, and then the task's next step (task.h)
 *
 * A call for LOOP or TASK has two references while it is under way: one for the thread that begins
 * it, and one for the event it waits for. When both are gone it is due. Timers and cancels take a
 * third for a moment.
 */
#ifndef HFI_CALL_H
#define HFI_CALL_H

#include "core/op.h"
#include "core/release.h"
#include "core/spare.h"
#include "util/clock.h"

struct hfi_call;
enum hfi_receiver { HFI_TO_THREAD, HFI_TO_NOBODY, HFI_TO_KEEPER, HFI_TO_LOOP, HFI_TO_TASK };

enum hfi_child_kind {
    HFI_CHILD_NONE,
    HFI_CHILD_OP,
    HFI_CHILD_ACQUIRE,
    HFI_CHILD_RELEASE,
    HFI_CHILD_PAUSE,
    HFI_CHILD_WORK,
    HFI_CHILD_TURN
};

enum hfi_counting { HFI_COUNTS_NOT, HFI_COUNTS_UP, HFI_COUNTS_DOWN };

/* An op that points into `memory` has ended. */
typedef void hfi_forget_fn(void *memory, struct hfi_op *op);

/* The members that every call writes come first, next to each other. */
struct hfi_call {
    struct hfi_slot slot;
    struct hfi_store *store;
    enum hfi_receiver receiver;
    enum hfi_child_kind child; /* of `parent` */
    struct hfi_lease *lease;   /* the slot that goes to the store, or is released */
    bool may_wait;
    bool tries;    /* acquire: it may wait, but only for a lease that lingers elsewhere */
    bool waits;    /* `wait` has been prepared */
    bool waited;   /* the answer did not come at once */
    bool queued;   /* THREAD: in the local queue */
    bool answered; /* THREAD: status and handle are set */
    bool sole;     /* release: as in struct hfi_release_plan */
    /* its op is an HFI_OP_COUNT about `old`; `shard` keeps the store open: count.h */
    enum hfi_counting counts;
    bool told;  /* THREAD, release: a callback of the lease `old` runs on another thread */
    bool lost;  /* likewise: the answer is HF_LOST, whatever the store says */
    bool timed; /* has a place for its timer at the keeper */
    bool held_by_session;    /* the lease counts for deadlock detection ... */
    bool cleanup;            /* nothing stops it: a child that cleans up */
    bool awaited;            /* TASK: a thread waits for the task, whose session it belongs to */
    bool ended;              /* the call of a task, which has its final status */
    hf_status status;        /* the answer */
    uint64_t scope;          /* ... as held by this scope; 0: by the thread */
    hf_cancel *cancel;       /* of the caller; NULL: none */
    hf_error *err;           /* where the text goes; NULL: nowhere */
    hf_lease *handle;        /* with HF_OK of an acquire */
    struct hfi_task *task;   /* LOOP: the task of this call; NULL: an acquire or a release */
    struct hfi_task *parent; /* the task of which it is a child; NULL: none */
    hf_lease *old;           /* with `told` ... */
    struct hfi_shard *shard; /* ... which keeps the store open */
    int64_t min_valid_ms;    /* acquire */
    const struct hfi_replaced *replaced; /* acquire: as in struct hfi_checked_request */
    int64_t deadline_ms;                 /* HFI_NEVER: none */
    struct hfi_op op;

    /* The thread that waits for it: under driver.lock. */
    _Atomic uint32_t done_word;  /* 1: the op is finished */
    bool drives;                 /* it drives */
    struct hfi_sleeper *sleeper; /* it sleeps; NULL: it does not */

    struct hfi_tag tag; /* what its session holds while it waits */
    struct hfi_wait wait;
    struct hfi_call *after; /* in a thread's list of calls that GO */
    pthread_mutex_t lock;   /* protects the end of the handle against hf_op_cancel() */

    /* LOOP and TASK */
    _Atomic int refs;
    struct hfi_timer timer;
    struct hfi_pool_task work;      /* blocking work on the pool ... */
    hfi_answered_fn *answered_by;   /* ... and what follows it; also without a worker */
    struct hfi_pool_task stop_task; /* likewise, at the deadline; INLINE: its cancel() */
    _Atomic bool stopping;          /* INLINE: `stop_task` is queued */
    struct hfi_list due;
    hf_done_fn *done;
    void *arg;
    hf_error error;

    /* Children of tasks (task.h). */
    unsigned mark;
    _Atomic int pausing;
    hf_status (*do_work)(struct hfi_task *task);
    void *memory; /* what the op points to; NULL: nothing that is to be freed */
    hfi_forget_fn *forget;
    unsigned char name[HF_NAME_MAX];
    struct hfi_renewal stay; /* release: what the op renews, if the claim stays (min_hold_ms) */
};

extern struct hfi_table hfi_calls;

/* LOOP and TASK: set up what only asynchronous calls need, with two references. (A blocking call
 * never has a handle: the owner of its slot does not matter.) */
void hfi_call_make_async(struct hfi_call *call);

static inline void hfi_call_init(struct hfi_call *call, struct hfi_store *store,
                                 enum hfi_receiver receiver)
{
    call->store = store;
    call->receiver = receiver;
    call->child = HFI_CHILD_NONE;
    call->lease = NULL;
    call->may_wait = call->tries = call->waits = call->waited = call->queued = call->answered =
        false;
    call->sole = call->told = call->lost = call->timed = call->held_by_session = false;
    call->cleanup = call->ended = call->awaited = false;
    call->counts = HFI_COUNTS_NOT;
    call->scope = 0;
    call->cancel = NULL;
    call->err = NULL;
    call->handle = NULL;
    call->task = call->parent = NULL;
    call->min_valid_ms = 0;
    call->replaced = NULL;
    call->deadline_ms = HFI_NEVER;
    call->tag.count = 0;
    call->tag.any = 0;
    if (receiver >= HFI_TO_LOOP)
        hfi_call_make_async(call);
}

/* Likewise, from a spare slot. NULL: out of memory. */
static inline struct hfi_call *hfi_call_new(struct hfi_store *store, enum hfi_receiver receiver)
{
    struct hfi_call *call = hfi_spare_take(&hfi_calls, &hfi_self.calls);

    if (__builtin_expect(call != NULL, 1))
        hfi_call_init(call, store, receiver);
    return call;
}

/* Free the slot of a blocking call that has ended, or of a call that never began. */
static inline void hfi_call_free(struct hfi_call *call)
{
    hfi_spare_give(&hfi_calls, &hfi_self.calls, call);
}

/* LOOP: give it a callback; it counts in its store from now on. */
void hfi_call_callback(struct hfi_call *call, hf_done_fn *done, void *arg);
/* LOOP: end its handle. */
void hfi_call_retire(struct hfi_call *call);
/* LOOP: the call never began, and there is no callback. */
void hfi_call_drop(struct hfi_call *call);
/* false: it has none any more, and is due. */
bool hfi_call_ref(struct hfi_call *call);
void hfi_call_unref(struct hfi_call *call);

/* From now on the canceller and, for a session that holds something, the deadlock detector can end it; `listed`: hf_close() too.
 * Any number of times. */
void hfi_call_listen(struct hfi_call *call, bool listed);
/* Likewise its deadline, for which it has a place: LOOP and TASK. */
void hfi_call_arm(struct hfi_call *call);
/* After this neither the canceller nor hf_close() nor the detector knows the call, and none of them
 * is about to end it. */
void hfi_call_unlisten(struct hfi_call *call);

/* The text of call->status, which is not HF_OK. */
void hfi_call_explain(struct hfi_call *call, const char *verb, const struct hfi_name *name,
                      const hf_error *inner);

/* Set the answer. `name` is used only in the error text. */
static inline void hfi_call_result(struct hfi_call *call, hf_status status, hf_lease *handle,
                                   const char *verb, const struct hfi_name *name,
                                   const hf_error *inner)
{
    call->status = status;
    call->handle = handle;
    if (__builtin_expect(status == HF_OK, 1))
        hfi_ok(call->err);
    else
        hfi_call_explain(call, verb, name, inner);
}

void hfi_call_end_async(struct hfi_call *call);

/* The answer is set and acted on; only the receiver is to be told. LOOP, TASK: drops a reference; a
 * caller that still uses the call has another one. */
static inline void hfi_call_end(struct hfi_call *call)
{
    if (__builtin_expect(call->receiver != HFI_TO_THREAD, 0)) {
        hfi_call_end_async(call);
        return;
    }
    if (call->waits)
        hfi_call_unlisten(call);
    call->answered = true;
}

/* An asynchronous call in the local queue has been told PASSED or GO. Any thread, no locks. */
void hfi_call_told(struct hfi_call *call, uint32_t word);
/* The call should end early and has nothing in the store: leave the local queue, if it is in one.
 * Locks of cancellers or the store may be held. */
void hfi_call_stop_local(struct hfi_call *call);
/* hf_release_async() of a lost lease: its callback with LOST has ended. Any thread, no locks. */
void hfi_call_lost(struct hfi_call *call);
/* LOOP: call back, and free it. */
void hfi_call_deliver(struct hfi_call *call);

static inline bool hfi_call_has_thread(const struct hfi_call *call)
{
    return call->receiver == HFI_TO_THREAD;
}

/* Is it a call of an event loop? Else a thread waits, for it or for its task: the thread's session is that of the call, and the
 * events of the lease come from the notifier. */
static inline bool hfi_call_in_loop(const struct hfi_call *call)
{
    return call->receiver != HFI_TO_THREAD && !call->awaited;
}

/* ---- its op ------------------------------------------------------------------------------------ */

/* Prepare the op; the caller fills in what its kind needs. */
static inline struct hfi_op *hfi_call_op(struct hfi_call *call, enum hfi_op_kind kind)
{
    struct hfi_store *store = call->store;

    hfi_op_init(&call->op, hfi_store_engine(store), kind, NULL, HFI_NEVER);
    if (store->drive == HFI_EVENT) {
        call->op.done = hfi_call_done;
        atomic_store_explicit(&call->done_word, 0, memory_order_relaxed);
        call->drives = false;
        call->sleeper = NULL;
    }
    return &call->op;
}

/* Likewise, the op that releases call->lease. */
static inline void hfi_call_release_op(struct hfi_call *call)
{
    struct hfi_op *op = hfi_call_op(call, HFI_OP_RELEASE);

    op->claim = &call->lease->claim;
    if (call->store->drive != HFI_INLINE)
        op->deadline_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
}

/* It was stopped before it was submitted: does it end with that? A CHANGE_WAIT whose time is up also reads the number:
 * it may have its answer already. */
static inline bool hfi_call_ends_unasked(const struct hfi_call *call, hf_status stop)
{
    return stop != HF_OK && (stop != HF_TIMEOUT || call->op.kind != HFI_OP_CHANGE_WAIT);
}

static inline void hfi_call_submit(struct hfi_call *call)
{
    hfi_store_engine(call->store)->submit(call->store->opened, &call->op);
}

/* Submit the op, which waits for nobody, without a thread: on a worker, or here. `answered` comes on the thread that brings the
 * answer, perhaps before this returns. */
void hfi_call_send(struct hfi_call *call, hfi_answered_fn *answered, bool on_worker);
/* op->done of a call without a thread: answered_by(). */
void hfi_call_sent_done(struct hfi_op *op);

/* ---- workers.c: INLINE engines, without a thread of the caller's ----------------------------- */

void hfi_workers_init(struct hfi_store *store);
/* Submit the op here, where nothing may sleep, or on a worker: then after those that are there already. */
void hfi_workers_hurried(struct hfi_call *call);
/* Let a worker cancel the op of the call, for that may sleep too. false: cancel it here. Under any lock. */
bool hfi_workers_cancel(struct hfi_call *call);

/* ---- workers.c: BLOCKING engines, without a thread of the caller's --------------------------- */

/* The lane that must be started before hfi_workers_submit(). */
enum hfi_lane hfi_workers_lane(struct hfi_store *store, bool may_wait);
/* Submit an acquire, or an op that may wait, on a worker, after hfi_call_listen(). `answered` comes on
 * the worker that finishes the op, also if the call is stopped before it comes to the engine. */
void hfi_workers_submit(struct hfi_call *call, hfi_answered_fn *answered);
/* host->resume() */
void hfi_workers_resume(struct hfi_host *host, struct hfi_op *op);
/* The call should end early, but is queued for a worker, behind others that may be slow: let a worker
 * that is free end it. Under any lock. */
void hfi_workers_hurry(struct hfi_call *call);

#endif
