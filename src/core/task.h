/* SPDX-License-Identifier: MIT */
/*
 * A task: a public call that needs several steps. The primitives are tasks, and so are core's calls
 * other than acquire and release.
 *
 * A task begins a *child* (a raw op, an acquire, a release, a pause), or several of them, and its
 * step() is called each time one has ended. Its code is the same in both forms:
 *
 *   hf_X()        hfi_task_run() takes all steps on the calling thread, and returns the final status
 *   hf_X_async()  hfi_task_begin() takes the first step; the thread that brings a child's answer takes the next; in the
 *                 end hf_store_process() calls finish(), which fills in the hf_result, `done`, and free()
 *
 * A blocking call that waits for several children at once, and goes on with the first that ends, is an asynchronous task for
 * which its thread waits (hfi_task_await()): the thread drives meanwhile, and no hf_store_process() is needed.
 *
 * So step() runs on one thread at a time, without locks, and never blocks. A child is a call (call.h) with a slot of its
 * own: an op that a blocking task has given up lives on there, with all that it needs.
 *
 * An asynchronous task follows the caller's canceller, hf_close() and hf_op_cancel(); its children
 * follow the task. If a child ends while waits are being stopped, under locks, hf_store_process()
 * takes the next step.
 */
#ifndef HFI_TASK_H
#define HFI_TASK_H

#include "core/call.h"
#include "core/cancel.h"

#define HFI_BEGUN         ((hf_status)-1) /* step(): a child is under way */
#define HFI_CHILD_CLEANUP 1u              /* nothing stops it; it ends within HFI_CALL_LIMIT_MS */

struct hfi_task;

/* A child has ended with `got`; the first time there was none, and it is HF_OK. Returns HFI_BEGUN, also if nothing was begun
 * but others are under way; or the final status, with task->error filled in, when none is under way. */
typedef hf_status hfi_step_fn(struct hfi_task *task, hf_status got);
/* Asynchronous form, in hf_store_process(): status and error are in the result; add what was found. */
typedef void hfi_finish_fn(struct hfi_task *task, hf_result *result);
/* Asynchronous form, after `done`: leave the store, free the memory. */
typedef void hfi_task_free_fn(struct hfi_task *task);
/* May block until its work is done. */
typedef hf_status hfi_work_fn(struct hfi_task *task);

struct hfi_task {
    /* Set by the owner before it runs. */
    struct hfi_store *store; /* kept open by the owner: entered, or counted in a shard */
    hf_store *handle;        /* the caller's, for acquires */
    hfi_step_fn *step;
    hfi_finish_fn *finish; /* may be NULL */
    hfi_task_free_fn *free;
    hf_cancel *cancel; /* the caller's; NULL: none */
    /* its acquires wait for one of several names: the tag of them all; else NULL */
    struct hfi_tag *any;
    int state;     /* the next step: used by the owner only */
    unsigned mark; /* of the children that are begun from now on, to tell them apart: likewise */

    /* The results of the child that has just ended; valid during step(). */
    struct {
        struct hfi_op *op; /* of a raw op that was finished. What u.cell.ret_bytes points to is the
                              owner's if it sets that to NULL, else it is freed with the child */
        hf_lease *lease;   /* of an acquire, with HF_OK */
        /* as it was when the child was begun; not of one that had no memory to begin */
        unsigned mark;
        bool given_up;  /* blocking form: it did not end in time, and its outcome is unknown:
                         * HF_UNKNOWN, or HF_LOST from the release of a lost lease */
        hf_error error; /* not HF_OK: the text, of the engine or (acquire, release) of core */
    } child;

    hf_error error; /* the call's own, for the caller */

    /* Core's. */
    struct hfi_call *call;  /* asynchronous: the call behind the hf_op handle; NULL: a thread runs
                             * it */
    bool awaited;           /* asynchronous, and a thread waits for its end: hfi_task_await() */
    _Atomic unsigned told;  /* awaited: HFI_TASK_* */
    struct hfi_cancel stop; /* asynchronous: what the children follow; never a handle */
    pthread_mutex_t lock;
    struct hfi_list children;  /* by `due`: that have ended; in the blocking form, under way */
    bool running;              /* a thread takes steps */
    unsigned without;          /* children that could not begin: no memory */
    struct hfi_call *ending;   /* the child that step() sees */
    struct hfi_call *turn;     /* the child that ends in hf_store_process(); NULL: none */
    struct hfi_call *prepared; /* the raw op that is being prepared; NULL: none */
};

/* All zero, but for these two. */
void hfi_task_init(struct hfi_task *task, struct hfi_store *store, hfi_step_fn *step);

/* Take all steps here. task->error says what went wrong. */
hf_status hfi_task_run(struct hfi_task *task);
/* Take the first step; finish(), done() and free() will follow. Not HF_OK: nothing began, and the owner
 * still has everything. */
hf_status hfi_task_begin(struct hfi_task *task, hf_done_fn *done, void *arg, hf_op **ret_op,
                         hf_error *err);
/* As hfi_task_run(), but all its children are under way at the same time, as of an asynchronous task, and the first to end is
 * the first that step() sees; the first step is taken here. For waits of which one is enough. */
hf_status hfi_task_await(struct hfi_task *task);
/* In step(), asynchronous or awaited: end the waits of all children early, with `why`. Each still ends. */
void hfi_task_stop_children(struct hfi_task *task, hf_status why);
/*
 * For a task in a struct that begins with it, of hfi_malloc() in the asynchronous form, whose store was entered: run it, fill
 * in err, leave the store; begin it, and in the end, or if it cannot begin, leave the store and free it.
 */
hf_status hfi_task_run_entered(struct hfi_task *task, hf_error *err);
hf_status hfi_task_begin_entered(struct hfi_task *task, hf_done_fn *done, void *arg, hf_op **ret_op,
                                 hf_error *err);
void hfi_task_free_entered(struct hfi_task *task);
/* Why the task should end early; HF_OK: it need not. (In a blocking task only the children
 * know.) */
hf_status hfi_task_stopped(struct hfi_task *task);

/* ---- children; each returns HFI_BEGUN, and what cannot begin ends at once ----------------------- */

/* Prepare a raw op: the owner fills in op->u and calls hfi_task_submit(). NULL: out of memory. */
struct hfi_op *hfi_task_op(struct hfi_task *task, enum hfi_op_kind kind);
/* A copy of the name that lives as long as the op that is being prepared. One for each op. */
struct hfi_name hfi_task_name(struct hfi_task *task, const struct hfi_name *name);
/* The op that is being prepared points into `memory`: forget(memory, op) is called when it has
 * ended, however late. NULL: hfi_free(). */
void hfi_task_keep(struct hfi_task *task, void *memory, hfi_forget_fn *forget);
/* In step(), unless the child was given up: take back the memory that hfi_task_keep() gave it. */
void *hfi_task_take(struct hfi_task *task);
/* Drop the prepared op without submitting it. */
void hfi_task_forget_op(struct hfi_task *task);
/* until_ms: for CELL_WAIT and CHANGE_WAIT, when to end it with HF_TIMEOUT (HFI_NEVER: do not). For other ops, when the blocking form gives
 * it up (HFI_NEVER: after HFI_CALL_LIMIT_MS); an inline engine makes none of them wait. */
hf_status hfi_task_submit(struct hfi_task *task, int64_t until_ms, unsigned flags);

/* As hf_acquire(). The request, which has its full size, and what it points to is used during this call only. Its
 * canceller is the task's. */
hf_status hfi_task_acquire(struct hfi_task *task, const hf_acquire_request *request);
/* Likewise, in place of a lease (HFI_CLAIM_REPLACES). */
hf_status hfi_task_replace(struct hfi_task *task, const hf_acquire_request *request,
                           const struct hfi_replaced *replaced);
/* As hf_release(). */
hf_status hfi_task_release(struct hfi_task *task, hf_lease *lease);
/* HF_OK: it is until_ms (hfi_now_ms() time) now. Else it was stopped. */
hf_status hfi_task_pause(struct hfi_task *task, int64_t until_ms, unsigned flags);
/* Run `work` where it may block: here, in the blocking form, else on a worker. Its status is the child's, its text is
 * in task->child.error. Nothing stops it. */
hf_status hfi_task_work(struct hfi_task *task, hfi_work_fn *work);
/* Take the next step where user code may run: in hf_store_process(), or at once in the blocking form. HF_OK. */
hf_status hfi_task_turn(struct hfi_task *task);

/* ---- between task.c, child.c and child_op.c ------------------------------------------------------------ */

/* NULL: out of memory. */
struct hfi_call *hfi_child_new(struct hfi_task *task, enum hfi_child_kind kind, unsigned flags);
/* Blocking form: the thread that runs the task waits for it later. HFI_BEGUN. */
hf_status hfi_child_await_later(struct hfi_task *task, struct hfi_call *child);
/* The child has ended, with the text of `inner` or that of its status. */
hfi_answered_fn hfi_child_end;
/* Blocking form: wait until it has ended. false: given up; it must not be used any more, and
 * task->child.error says so. */
bool hfi_child_await(struct hfi_call *child);
/* Of a raw op: until it is finished. false: likewise. */
bool hfi_child_await_op(struct hfi_call *child);
/* It has ended, and step() has seen it; or it never began. */
void hfi_child_free(struct hfi_call *child);

/* ---- for call.c ----------------------------------------------------------------------------------- */

#define HFI_TASK_STEP 1u /* a step is due */
#define HFI_TASK_OVER 2u /* it has its final status, and no other thread uses its call */
/* Tell the thread that waits in hfi_task_await(). */
void hfi_task_tell(struct hfi_task *task, unsigned what);
/* A child has ended, with no reference left. */
void hfi_task_child_ended(struct hfi_call *child);
/* hf_store_process(): take the next step, or call back. */
void hfi_task_deliver(struct hfi_call *call);
/* End a task or a pause early. Locks may be held. */
void hfi_task_stop(struct hfi_call *call);
void hfi_task_stop_pause(struct hfi_call *child);

#endif
