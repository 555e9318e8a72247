/* SPDX-License-Identifier: MIT */
/*
 * A task: a public call that needs several steps. The primitives stand on this, and core's own calls that are more than one
 * acquire or release.
 *
 * A task begins one *child* at a time (a raw op, an acquire, a release, a pause) and is asked what to do next when the
 * child has ended. Its code is the same in both forms:
 *
 *   hf_X()        hfi_task_run() takes all steps on the calling thread, and returns the final status
 *   hf_X_async()  hfi_task_begin() takes the first step; the thread that brings a child's answer takes the next; in the end
 *                 hf_store_process() calls finish(), which fills in the hf_result and frees the task, and then `done`
 *
 * So step() runs on one thread at a time, without locks, and never blocks. A child is a call (call.h), with a slot of its
 * own: an op that a blocking task has given up lives on there, with all that it needs.
 *
 * An asynchronous task follows the caller's canceller, hf_close() and hf_op_cancel(); its children follow the task. A
 * child that ends while somebody is being stopped, under locks, is seen to by hf_store_process().
 */
#ifndef HFI_TASK_H
#define HFI_TASK_H

#include "core/call.h"
#include "core/cancel.h"

#define HFI_BEGUN ((hf_status)-1) /* step(): a child is under way */

#define HFI_CHILD_CLEANUP 1u /* nothing stops it; it ends within HFI_CALL_LIMIT_MS */

struct hfi_task;

/* The child that was under way has ended with `got`; the first time nothing was, and it is HF_OK. Returns HFI_BEGUN, or the
 * final status, with task->error filled in. */
typedef hf_status hfi_step_fn(struct hfi_task *task, hf_status got);
/* Asynchronous form, in hf_store_process(): status and error are in the result; add what was found. The task's memory may be freed
 * by hfi_task_free_fn later: what the result points to must live until then. */
typedef void hfi_finish_fn(struct hfi_task *task, hf_result *result);
/* Asynchronous form: after `done`; or the task never began. Frees its memory. */
typedef void hfi_task_free_fn(struct hfi_task *task);

struct hfi_task {
    /* The owner's, before it runs. */
    struct hfi_store *
        store; /* entered by the owner, who leaves it after hfi_task_run(). Asynchronous: core leaves it */
    hf_store *handle; /* the caller's, for acquires */
    hfi_step_fn *step;
    hfi_finish_fn *finish;
    hfi_task_free_fn *free;
    hf_cancel *cancel; /* the caller's; NULL: none */
    int state;         /* which step is due: the owner's business */

    /* What the child that has just ended brought; good during step(). */
    struct {
        struct hfi_op *
            op; /* of a raw op that was finished. What op->u.cell.ret_bytes points to is the owner's if it sets that
                              to NULL, else it is freed with the child */
        hf_lease *lease; /* of an acquire, with HF_OK */
        bool given_up; /* a raw op did not end in time: HF_UNKNOWN, and what it does is not known */
        hf_error error; /* not HF_OK: the text, of the engine or (acquire, release) of core */
    } child;

    hf_error error; /* the call's own, for the caller */

    /* Core's. */
    struct hfi_call *call;  /* asynchronous: what hf_op * stands for; NULL: a thread runs it */
    struct hfi_cancel stop; /* asynchronous: what the children follow; no slot, never a handle */
    pthread_mutex_t lock;
    struct hfi_list ended;  /* children, by `due` */
    bool running;           /* some thread takes steps */
    bool out_of_memory;     /* a child could not begin */
    struct hfi_call *turn;  /* the child that ends in hf_store_process(); NULL: none */
    struct hfi_call *begun; /* the child: being prepared or, in the blocking form, under way */
};

/* All zero, but for step. */
void hfi_task_init(struct hfi_task *task, struct hfi_store *store, hfi_step_fn *step);

/* Take all steps here. task->error says what went wrong. */
hf_status hfi_task_run(struct hfi_task *task);
/* Take the first step; finish(), done() and free() will follow. Not HF_OK: nothing began, and the owner still has everything. */
hf_status hfi_task_begin(struct hfi_task *task, hf_done_fn *done, void *arg, hf_op **ret_op,
                         hf_error *err);
/* Has somebody asked it to end early? HF_OK: no. (A blocking task: only its children know.) */
hf_status hfi_task_stopped(struct hfi_task *task);

/* ---- children; each returns HFI_BEGUN, and what cannot begin ends at once ----------------------- */

/*
 * Prepare a raw op. The owner fills in the rest of op->u and calls hfi_task_submit(). *ret_name (may be NULL) is a copy of
 * `name` (NULL: it needs none) that lives as long as the op. NULL: out of memory.
 */
struct hfi_op *hfi_task_op(struct hfi_task *task, enum hfi_op_kind kind,
                           const struct hfi_name *name, struct hfi_name *ret_name);
/* The op that is being prepared points into `memory`: forget(memory) when it is over, or hfi_free() if that is NULL. */
void hfi_task_keep(struct hfi_task *task, void *memory, void (*forget)(void *memory));
/* It is not submitted after all. */
void hfi_task_forget_op(struct hfi_task *task);
/* until_ms: for CELL_WAIT, when to end it with HF_TIMEOUT (HFI_NEVER: do not). */
hf_status hfi_task_submit(struct hfi_task *task, int64_t until_ms, unsigned flags);

/* As hf_acquire(). The request, which has its full size, and what it points to is used during this call only. Its canceller is
 * the task's. */
hf_status hfi_task_acquire(struct hfi_task *task, const hf_acquire_request *request);
/* As hf_release(). */
hf_status hfi_task_release(struct hfi_task *task, hf_lease *lease);
/* HF_OK: it is until_ms (hfi_now_ms() time) now. Else it was stopped. */
hf_status hfi_task_pause(struct hfi_task *task, int64_t until_ms, unsigned flags);
/* Run `work` where it may block: here, in the blocking form, else on a worker. Its status is the child's. */
hf_status hfi_task_work(struct hfi_task *task, hf_status (*work)(struct hfi_task *task));
/* Take the next step where user code may run: in hf_store_process(), or at once in the blocking form. HF_OK. */
hf_status hfi_task_turn(struct hfi_task *task);

/* ---- for call.c ----------------------------------------------------------------------------------- */

/* A child has ended, with no reference left. */
void hfi_task_child_ended(struct hfi_call *child);
/* hf_store_process(): go on, or deliver. */
void hfi_task_deliver(struct hfi_call *call);
/* The call of a task, or a pause, is to end early. Locks may be held. */
void hfi_task_stop(struct hfi_call *call);
void hfi_task_stop_pause(struct hfi_call *child);

#endif
