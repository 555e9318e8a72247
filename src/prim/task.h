/* SPDX-License-Identifier: MIT */
/*
 * A call of a primitive as a state machine. step(task, got) is called with the status of the child that has ended (HF_OK at
 * first, in state 0). It begins the next child and returns HFI_BEGUN, or it returns the final status. A child is an action
 * (action.h) or a run over a cell (cell_run.h).
 *
 * A step never blocks. The task contains one of core's (core/task.h), which does what a step
 * begins: hf_X() takes all steps on the calling thread, hf_X_async() takes each on the thread that
 * brings the answer.
 *
 * Every call of a primitive is a struct that begins with its task. In the asynchronous form it is memory of its own, with
 * copies of what the caller gave (hfi_prim_keep()), and lives until `done` has been called.
 *
 * Errors: the text of a failure is in task->error; store, verb and name come before it, unless it
 * is `whole`. A child that cleans up must not change the error for the caller: hfi_begin_release()
 * keeps the text.
 */
#ifndef HFI_PRIM_TASK_H
#define HFI_PRIM_TASK_H

#include "core/task.h"
#include "prim/cell_run.h"

struct hfi_prim_task {
    struct hfi_task core;
    struct hfi_prim prim;
    hf_status (*step)(struct hfi_prim_task *task, hf_status got);
    void (*finish)(struct hfi_prim_task *task,
                   hf_result *result); /* asynchronous: what was found; may be NULL */
    int state;
    int64_t until_ms; /* how long the caller waits; HFI_NEVER */
    bool async;       /* no thread waits for it */
    bool whole;       /* error.text needs nothing before it */
    bool quiet;       /* nobody needs the action's error text */
    bool begun;       /* an action is under way */
    struct hfi_kept *kept;
    struct hfi_action action;
    struct hfi_cell_run run;
    hf_error error;
};

/* Everything is 0 but the step and the time. The prim is still to be entered. */
void hfi_prim_task_init(struct hfi_prim_task *task,
                        hf_status (*step)(struct hfi_prim_task *task, hf_status got));
/* Likewise, for a task that is one run of `decide` over the cell of its name. */
void hfi_prim_task_init_run(struct hfi_prim_task *task, hfi_decide_fn *decide, void *arg);
/* Likewise, for a task that is one action; the rest of task->action is still to be filled in. */
void hfi_prim_task_init_act(struct hfi_prim_task *task, enum hfi_action_kind kind);

/* Run the task on this thread. The prim is left afterwards; task->run.found lives until
 * hfi_prim_task_done(). */
hf_status hfi_prim_task_run(struct hfi_prim_task *task, hf_error *err);
void hfi_prim_task_done(struct hfi_prim_task *task);

/* ---- the asynchronous form ---------------------------------------------------------------------------- */

/* Memory for a call, or NULL. hfi_prim_task_begin() frees it in the end, whatever it returns. */
void *hfi_prim_call_new(size_t size);
/* A copy of the caller's bytes that lives as long as the task. NULL: out of memory. */
void *hfi_prim_keep(struct hfi_prim_task *task, const void *bytes, size_t len);
/* Likewise what a request points to; its name is that of the prim. false: out of memory. */
bool hfi_prim_keep_request(struct hfi_prim_task *task, hf_acquire_request *request);
/* The call has been prepared with `prepared`, and the prim was entered if that is HF_OK. Begin it: finish() and done() will come.
 * Not HF_OK: nothing began. */
hf_status hfi_prim_task_begin(struct hfi_prim_task *task, hf_status prepared,
                              void (*finish)(struct hfi_prim_task *task, hf_result *result),
                              hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err);

/* Copy a request of the caller's, in full size. HF_INVALID: its size is not known. */
hf_status hfi_prim_copy_request(hf_acquire_request *ret_copy, const hf_acquire_request *request,
                                hf_error *err);

/* ---- for steps: each returns HFI_BEGUN, and step() is called in `state` when it has ended ------------------------- */

hf_status hfi_begin_cell(struct hfi_prim_task *task, int state, hfi_decide_fn *decide, void *arg);
hf_status hfi_begin_act(struct hfi_prim_task *task, int state, enum hfi_action_kind kind);
/* The request has its full size; it is used at once. */
hf_status hfi_begin_acquire(struct hfi_prim_task *task, int state,
                            const hf_acquire_request *request);
hf_status hfi_begin_release(struct hfi_prim_task *task, int state, hf_lease *lease);

#endif
