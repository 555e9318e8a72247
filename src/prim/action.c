/* SPDX-License-Identifier: MIT */
/* Actions as children of core's tasks: see action.h. */
#include "prim/action.h"

#include "core/op.h"
#include "core/wait.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <string.h>
#include <time.h>

void hfi_cell_forget(struct hfi_cell *cell)
{
    hfi_free(cell->bytes);
    *cell = (struct hfi_cell){ .ttl_ms = -1 };
}

/* ---- ops -------------------------------------------------------------------------------------------- */

static const enum hfi_op_kind op_kinds[] = {
    [HFI_ACT_READ] = HFI_OP_CELL_READ, [HFI_ACT_SWAP] = HFI_OP_CELL_SWAP,
    [HFI_ACT_TIME] = HFI_OP_TIME,      [HFI_ACT_COUNTER] = HFI_OP_COUNTER,
    [HFI_ACT_LIMIT] = HFI_OP_LIMIT,    [HFI_ACT_WAIT] = HFI_OP_CELL_WAIT,
    [HFI_ACT_SCRIPT] = HFI_OP_SCRIPT,  [HFI_ACT_COMMIT] = HFI_OP_CELLS_COMMIT
};

/* Memory that lives as long as the op that is being prepared. The op may finish after the task has
 * given it up. NULL: out of memory. */
static void *op_memory(struct hfi_prim_task *task, const void *bytes, size_t len)
{
    void *memory = hfi_malloc(len + 1);

    if (!memory)
        return NULL;
    memcpy(memory, bytes, len);
    hfi_task_keep(&task->core, memory, NULL);
    return memory;
}

static bool fill_op(struct hfi_prim_task *task, struct hfi_op *op, const struct hfi_name *name)
{
    struct hfi_action *action = &task->action;

    switch (action->kind) {
    case HFI_ACT_COMMIT:
        op->u.commit = action->commit;
        hfi_task_keep(&task->core, action->commit, NULL);
        action->commit = NULL;
        return true;
    case HFI_ACT_TIME:
        op->u.time.name = *name;
        return true;
    case HFI_ACT_COUNTER:
        action->native.counter.name = *name;
        op->u.counter = op_memory(task, &action->native.counter, sizeof action->native.counter);
        return op->u.counter;
    case HFI_ACT_LIMIT:
        action->native.limit.name = *name;
        op->u.limit = op_memory(task, &action->native.limit, sizeof action->native.limit);
        return op->u.limit;
    case HFI_ACT_SCRIPT:
        op->u.script = op_memory(task, &action->native.script, sizeof action->native.script);
        return op->u.script;
    default:
        break;
    }
    op->u.cell.name = *name;
    op->u.cell.version = action->version;
    op->u.cell.ttl_ms = action->ttl_ms;
    op->u.cell.ret_ttl_ms = -1;
    if (action->kind != HFI_ACT_SWAP || !action->bytes)
        return true;
    op->u.cell.len = action->len;
    op->u.cell.bytes = op_memory(task, action->bytes, action->len);
    return op->u.cell.bytes;
}

static hf_status begin_op(struct hfi_prim_task *task)
{
    struct hfi_name name;
    struct hfi_op *op = hfi_task_op(&task->core, op_kinds[task->action.kind]);

    if (!op) {
        if (task->action.kind == HFI_ACT_COMMIT)
            hfi_free(task->action.commit);
        return hfi_error_memory(&task->error);
    }
    name = hfi_task_name(&task->core, &task->prim.name);
    if (!fill_op(task, op, &name)) {
        hfi_task_forget_op(&task->core);
        return hfi_error_memory(&task->error);
    }
    return hfi_task_submit(
        &task->core, task->action.kind == HFI_ACT_WAIT ? task->action.until_ms : HFI_NEVER, 0);
}

static void end_op(struct hfi_prim_task *task, struct hfi_op *op, hf_status got)
{
    struct hfi_action *action = &task->action;

    switch (action->kind) {
    case HFI_ACT_READ:
        action->cell = (struct hfi_cell){ .ttl_ms = -1 };
        if (got != HF_OK)
            break;
        action->cell = (struct hfi_cell){ .bytes = op->u.cell.ret_bytes,
                                          .len = op->u.cell.ret_len,
                                          .version = op->u.cell.ret_version,
                                          .ttl_ms = op->u.cell.ret_ttl_ms };
        op->u.cell.ret_bytes = NULL; /* the task owns it now */
        break;
    case HFI_ACT_SWAP:
    case HFI_ACT_WAIT:
        if (got == HF_OK)
            action->version = op->u.cell.ret_version;
        break;
    case HFI_ACT_COMMIT:
        action->commit = op->u.commit;
        break;
    case HFI_ACT_TIME:
        action->now_us = op->u.time.ret_us;
        break;
    case HFI_ACT_COUNTER:
        action->native.counter.ret_value = op->u.counter->ret_value;
        break;
    case HFI_ACT_LIMIT:
        action->native.limit.answer = op->u.limit->answer;
        break;
    case HFI_ACT_SCRIPT:
        action->native.script.ret_value = op->u.script->ret_value;
        break;
    default:
        break;
    }
}

/* ---- does that lease hold the name? ------------------------------------------------------------------ */

struct hfi_lease_sink {
    struct hfi_sink sink;
    uint64_t token; /* 0: any token */
    bool holds;
};

static bool sink_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    (void)sink;
    (void)entry;
    return true;
}

static bool sink_holder(struct hfi_sink *sink, const hf_holder *holder)
{
    struct hfi_lease_sink *own = hfi_container(sink, struct hfi_lease_sink, sink);

    /* The store learns of local passes late: until then it names an earlier token of the same
     * block. */
    if (own->token == 0 || (holder->first <= own->token && holder->token <= own->token))
        own->holds = true;
    return true;
}

static bool sink_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    (void)sink;
    (void)waiter;
    return true;
}

static hf_status begin_holds(struct hfi_prim_task *task)
{
    struct hfi_name name = { .bytes = task->action.name.bytes, .len = task->action.name.len };
    struct hfi_lease_sink sink = { .sink = { NULL, sink_entry, sink_holder, sink_waiter },
                                   .token = hfi_prim_caps(&task->prim) & HF_CAP_TOKEN
                                                ? task->action.token
                                                : 0 };
    struct hfi_op *op = hfi_task_op(&task->core, HFI_OP_LOOK);

    if (!op)
        return hfi_error_memory(&task->error);
    task->action.sink = op_memory(task, &sink, sizeof sink);
    if (!task->action.sink) {
        hfi_task_forget_op(&task->core);
        return hfi_error_memory(&task->error);
    }
    hfi_hash128(name.bytes, name.len, name.hash);
    op->u.look.name = hfi_task_name(&task->core, &name);
    op->u.look.sink = &task->action.sink->sink;
    return hfi_task_submit(&task->core, HFI_NEVER, 0);
}

static void end_holds(struct hfi_prim_task *task, hf_status got)
{
    if (got == HF_OK)
        task->action.holds = task->action.sink->holds;
    else
        hfi_store_error(task->prim.store, "inspect", NULL, got, &task->error, &task->error);
}

/* ---- what the store shows of a name ------------------------------------------------------------------------ */

static hf_status begin_look(struct hfi_prim_task *task)
{
    struct hfi_action *action = &task->action;
    struct hfi_name name = { .bytes = action->name.bytes, .len = action->name.len };
    struct hfi_op *op = hfi_task_op(&task->core, HFI_OP_LOOK);

    if (!op) {
        action->forget_look(action->look, NULL);
        action->look = NULL;
        return hfi_error_memory(&task->error);
    }
    hfi_task_keep(&task->core, action->look, action->forget_look);
    hfi_hash128(name.bytes, name.len, name.hash);
    op->u.look.name = hfi_task_name(&task->core, &name);
    op->u.look.sink = action->look;
    return hfi_task_submit(&task->core, HFI_NEVER, 0);
}

/* After a failure the block is freed with its op. */
static void end_look(struct hfi_prim_task *task, hf_status got)
{
    task->action.look = got == HF_OK ? hfi_task_take(&task->core) : NULL;
}

/* ---- all ------------------------------------------------------------------------------------------------ */

/* An action that may wait is stopped by the task's canceller: check that it is one. */
static hf_status check_cancel(struct hfi_prim_task *task)
{
    hf_status status = task->core.cancel ? hfi_cancel_look(task->core.cancel) : HF_OK;

    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(&task->error, status, 0, "cancel: not a canceller of this process");
    return HF_OK;
}

static hf_status begin_pause(struct hfi_prim_task *task)
{
    const struct hfi_action *action = &task->action;
    hf_status status;

    if (action->pause_us > 0 && !task->async) {
        nanosleep(&(struct timespec){ .tv_nsec = action->pause_us * 1000 }, NULL);
        return HF_OK;
    }
    if (action->pause_us > 0)
        return hfi_task_pause(&task->core, hfi_now_ms() + 1 + action->pause_us / 1000,
                              HFI_CHILD_CLEANUP);
    status = check_cancel(task);
    return status == HF_OK ? hfi_task_pause(&task->core, action->until_ms, 0) : status;
}

hf_status hfi_action_begin(struct hfi_prim_task *task)
{
    hf_status status;

    if (!task->quiet)
        hfi_ok(&task->error);
    switch (task->action.kind) {
    case HFI_ACT_PAUSE:
        return begin_pause(task);
    case HFI_ACT_HOLDS:
        return begin_holds(task);
    case HFI_ACT_LOOK:
        return begin_look(task);
    case HFI_ACT_ACQUIRE:
        return hfi_task_acquire(&task->core, task->action.request);
    case HFI_ACT_RELEASE:
        return hfi_task_release(&task->core, task->action.lease);
    case HFI_ACT_TURN:
        return hfi_task_turn(&task->core);
    case HFI_ACT_WAIT:
        status = check_cancel(task);
        return status == HF_OK ? begin_op(task) : status;
    default:
        return begin_op(task);
    }
}

/* Does the action change nothing? Then an unanswered one is HF_UNAVAILABLE, not HF_UNKNOWN. */
static bool only_reads(const struct hfi_action *action)
{
    switch (action->kind) {
    case HFI_ACT_READ:
    case HFI_ACT_TIME:
    case HFI_ACT_HOLDS:
    case HFI_ACT_LOOK:
        return true;
    case HFI_ACT_COMMIT:
        return !action->writes;
    case HFI_ACT_COUNTER:
        return action->native.counter.verb == HFI_COUNTER_GET;
    case HFI_ACT_LIMIT:
        return action->native.limit.ask.act == HFI_LIMIT_LOOK;
    case HFI_ACT_SCRIPT:
        return action->native.script.verb == HFI_SCRIPT_EXISTS;
    default:
        return false;
    }
}

hf_status hfi_action_end(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_action *action = &task->action;
    struct hfi_task *core = &task->core;

    if (got != HF_OK && !task->quiet)
        task->error = core->child.error;
    if (core->child.given_up && action->kind != HFI_ACT_ACQUIRE &&
        action->kind != HFI_ACT_RELEASE) {
        hfi_error_set(&task->error, got, 0, "the store did not answer in time");
        if (action->kind == HFI_ACT_WAIT)
            return hfi_error_set(&task->error, HF_TIMEOUT, 0, "nothing changed");
    }
    if (action->kind == HFI_ACT_ACQUIRE && got == HF_OK)
        action->lease = core->child.lease;
    else if (action->kind == HFI_ACT_HOLDS)
        end_holds(task, got);
    else if (action->kind == HFI_ACT_LOOK)
        end_look(task, got);
    else if (core->child.op)
        end_op(task, core->child.op, got);
    if (action->kind == HFI_ACT_READ && got == HF_NOT_FOUND)
        return HF_OK;
    return got == HF_UNKNOWN && only_reads(action) ? HF_UNAVAILABLE : got;
}
