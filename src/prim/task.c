/* SPDX-License-Identifier: MIT */
/* Tasks, and their executor on the calling thread: see task.h. */
#include "prim/task.h"

#include "util/clock.h"

#include <string.h>

enum { ONE_BEGIN, ONE_RUN }; /* of a task that has one child */

void hfi_prim_task_init(struct hfi_prim_task *task,
                        hf_status (*step)(struct hfi_prim_task *task, hf_status got))
{
    memset(task, 0, offsetof(struct hfi_prim_task, error));
    task->step = step;
    task->until_ms = HFI_NEVER;
    task->error.status = HF_OK;
    task->error.native = 0;
    task->error.text[0] = 0;
}

static hf_status step_of_one_run(struct hfi_prim_task *task, hf_status got)
{
    if (task->state == ONE_RUN)
        return got;
    return hfi_begin_cell(task, ONE_RUN, task->run.decide, task->run.arg);
}

void hfi_prim_task_init_run(struct hfi_prim_task *task, hfi_decide_fn *decide, void *arg)
{
    hfi_prim_task_init(task, step_of_one_run);
    task->run.decide = decide;
    task->run.arg = arg;
}

static hf_status step_of_one_act(struct hfi_prim_task *task, hf_status got)
{
    return task->state == ONE_BEGIN ? hfi_begin_act(task, ONE_RUN, task->action.kind) : got;
}

void hfi_prim_task_init_act(struct hfi_prim_task *task, enum hfi_action_kind kind)
{
    hfi_prim_task_init(task, step_of_one_act);
    task->action.kind = kind;
}

/* ---- children --------------------------------------------------------------------------------------- */

hf_status hfi_begin_cell(struct hfi_prim_task *task, int state, hfi_decide_fn *decide, void *arg)
{
    task->state = state;
    hfi_cell_run_begin(&task->run, decide, arg);
    return HFI_BEGUN;
}

hf_status hfi_begin_act(struct hfi_prim_task *task, int state, enum hfi_action_kind kind)
{
    task->state = state;
    task->quiet = false;
    task->action.kind = kind;
    return HFI_BEGUN;
}

hf_status hfi_begin_acquire(struct hfi_prim_task *task, int state,
                            const hf_acquire_request *request)
{
    task->action.request = request;
    task->action.lease = NULL;
    return hfi_begin_act(task, state, HFI_ACT_ACQUIRE);
}

hf_status hfi_begin_release(struct hfi_prim_task *task, int state, hf_lease *lease)
{
    task->action.lease = lease;
    hfi_begin_act(task, state, HFI_ACT_RELEASE);
    task->quiet = true;
    return HFI_BEGUN;
}

/* ---- the executor ------------------------------------------------------------------------------------ */

/* A child has ended with `got`. HFI_BEGUN: task->action is to be done. Else that is the end. */
static hf_status resume(struct hfi_prim_task *task, hf_status got)
{
    for (;;) {
        if (task->run.active) {
            got = hfi_cell_run_step(task, got);
            if (got == HFI_BEGUN)
                return got;
            task->run.active = false;
        }
        got = task->step(task, got);
        if (got != HFI_BEGUN || !task->run.active)
            return got;
        got = HF_OK; /* it began a run */
    }
}

hf_status hfi_prim_task_run(struct hfi_prim_task *task, hf_error *err)
{
    hf_status status = resume(task, HF_OK);
    hf_error unheard;

    while (status == HFI_BEGUN)
        status = resume(task, hfi_action_run(&task->prim, &task->action, task->cancel,
                                             task->quiet ? &unheard : &task->error));
    if (status == HF_OK)
        hfi_ok(err);
    else if (!task->whole)
        hfi_prim_error(&task->prim, status, &task->error, err);
    else if (err)
        *err = task->error;
    hfi_prim_leave(&task->prim);
    return status;
}

void hfi_prim_task_done(struct hfi_prim_task *task)
{
    hfi_cell_run_done(&task->run);
}
