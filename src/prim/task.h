/* SPDX-License-Identifier: MIT */
/*
 * A task: a call that needs several ops, as a state machine. step(task, got) is called with the status of the child that has
 * ended (HF_OK at first, in state 0). It begins the next child and returns HFI_BEGUN, or it returns the final status. A
 * child is an action (action.h) or a run over a cell (cell_run.h); both are embedded, so a task needs no other memory.
 *
 * A step never blocks. What it begins is done by an executor: hfi_prim_task_run() does it all on the calling thread.
 *
 * Errors: the text of a failure is in task->error, and hfi_prim_task_run() puts store, verb and name before it, unless it is
 * `whole`. A child that cleans up must not change what the caller is told: hfi_begin_release() keeps the text.
 */
#ifndef HFI_PRIM_TASK_H
#define HFI_PRIM_TASK_H

#include "prim/cell_run.h"

#define HFI_BEGUN ((hf_status)-1)

struct hfi_prim_task {
    struct hfi_prim prim;
    hf_status (*step)(struct hfi_prim_task *task, hf_status got);
    int state;
    hf_cancel *cancel; /* the caller's; may be NULL */
    int64_t until_ms;  /* how long the caller waits; HFI_NEVER */
    bool whole;        /* error.text needs nothing before it */
    bool quiet;        /* the action's error is nobody's */
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

/* Do it, on this thread. The prim is left afterwards; task->run.found lives until hfi_prim_task_done(). */
hf_status hfi_prim_task_run(struct hfi_prim_task *task, hf_error *err);
void hfi_prim_task_done(struct hfi_prim_task *task);

/* ---- for steps: each returns HFI_BEGUN, and step() is called in `state` when it has ended ------------------------- */

hf_status hfi_begin_cell(struct hfi_prim_task *task, int state, hfi_decide_fn *decide, void *arg);
hf_status hfi_begin_act(struct hfi_prim_task *task, int state, enum hfi_action_kind kind);
/* The request, and what it points to, stay where they are until then. */
hf_status hfi_begin_acquire(struct hfi_prim_task *task, int state,
                            const hf_acquire_request *request);
hf_status hfi_begin_release(struct hfi_prim_task *task, int state, hf_lease *lease);

#endif
