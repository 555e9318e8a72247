/* SPDX-License-Identifier: MIT */
/* Calls of primitives as tasks of core: see task.h. */
#include "prim/task.h"

#include "core/request.h"
#include "util/alloc.h"
#include "util/error.h"

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

/* ---- steps ------------------------------------------------------------------------------------ */

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

static hf_status take_step(struct hfi_task *core, hf_status got)
{
    struct hfi_prim_task *task = hfi_container(core, struct hfi_prim_task, core);
    hf_status status;

    if (task->begun)
        got = hfi_action_end(task, got);
    while ((status = resume(task, got)) == HFI_BEGUN) {
        task->begun = true;
        got = hfi_action_begin(task);
        if (got == HFI_BEGUN)
            return HFI_BEGUN;
    }
    if (status == HF_OK)
        hfi_ok(&core->error);
    else if (task->whole)
        core->error = task->error;
    else
        hfi_prim_error(&task->prim, status, &task->error, &core->error);
    return status;
}

static void set_core(struct hfi_prim_task *task)
{
    hf_cancel *cancel = task->core.cancel;

    hfi_task_init(&task->core, task->prim.store, take_step);
    task->core.cancel = cancel;
    task->core.handle = task->prim.handle;
}

hf_status hfi_prim_task_run(struct hfi_prim_task *task, hf_error *err)
{
    hf_status status;

    set_core(task);
    status = hfi_task_run(&task->core);
    if (err)
        *err = task->core.error;
    hfi_prim_leave(&task->prim);
    return status;
}

/* ---- the asynchronous form ---------------------------------------------------------------------------- */

struct hfi_kept {
    struct hfi_kept *next;
    _Alignas(16) unsigned char bytes[];
};

void *hfi_prim_call_new(size_t size)
{
    return hfi_calloc(1, size);
}

void *hfi_prim_keep(struct hfi_prim_task *task, const void *bytes, size_t len)
{
    struct hfi_kept *kept = hfi_malloc(sizeof *kept + len + 1);

    if (!kept)
        return NULL;
    if (len > 0)
        memcpy(kept->bytes, bytes, len);
    kept->bytes[len] = 0;
    kept->next = task->kept;
    task->kept = kept;
    return kept->bytes;
}

static const char *keep_text(struct hfi_prim_task *task, const char *text, bool *ok)
{
    const char *copy = text ? hfi_prim_keep(task, text, strlen(text)) : NULL;

    *ok = *ok && (copy || !text);
    return copy;
}

hf_status hfi_prim_copy_request(hf_acquire_request *ret_copy, const hf_acquire_request *request,
                                hf_error *err)
{
    if (!hfi_struct_copy(ret_copy, sizeof *ret_copy, request, request->size,
                         offsetof(hf_acquire_request, kind)))
        return hfi_error_set(
            err, HF_INVALID, 0,
            "size: not that of a known hf_acquire_request; use HF_ACQUIRE_REQUEST_INIT");
    ret_copy->size = sizeof *ret_copy;
    return HF_OK;
}

bool hfi_prim_keep_request(struct hfi_prim_task *task, hf_acquire_request *request)
{
    bool ok = true;

    request->name_len = task->prim.name.len;
    request->name = hfi_prim_keep(task, request->name, request->name_len);
    request->label = keep_text(task, request->label, &ok);
    request->session = keep_text(task, request->session, &ok);
    return ok && request->name;
}

static void finish(struct hfi_task *core, hf_result *result)
{
    struct hfi_prim_task *task = hfi_container(core, struct hfi_prim_task, core);

    if (task->finish)
        task->finish(task, result);
}

static void free_call(struct hfi_task *core)
{
    struct hfi_prim_task *task = hfi_container(core, struct hfi_prim_task, core);

    hfi_prim_task_done(task);
    hfi_prim_leave(&task->prim);
    hfi_free(task); /* every call begins with its task */
}

hf_status hfi_prim_task_begin(struct hfi_prim_task *task, hf_status prepared,
                              void (*finish_fn)(struct hfi_prim_task *task, hf_result *result),
                              hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct hfi_name *name = &task->prim.name;
    hf_status status;

    if (prepared != HF_OK) {
        hfi_prim_task_done(task);
        hfi_free(task);
        return prepared;
    }
    task->async = true;
    task->finish = finish_fn;
    set_core(task);
    task->core.finish = finish;
    task->core.free = free_call;
    name->bytes = name->len > 0 ? hfi_prim_keep(task, name->bytes, name->len) : NULL;
    status = name->bytes || name->len == 0 ? hfi_task_begin(&task->core, done, arg, ret_op, err)
                                           : hfi_error_memory(err);
    if (status != HF_OK)
        free_call(&task->core);
    return status;
}

void hfi_prim_task_done(struct hfi_prim_task *task)
{
    struct hfi_kept *kept = task->kept;

    hfi_cell_run_done(&task->run);
    for (struct hfi_kept *next; kept; kept = next) {
        next = kept->next;
        hfi_free(kept);
    }
    task->kept = NULL;
}
