/* SPDX-License-Identifier: MIT */
/*
 * One action on the calling thread, which drives the engine if need be: see action.h.
 *
 * An op that waits for nobody is given up after HFI_CALL_LIMIT_MS. The engine may finish it later, so each op has a block of
 * its own with all that it needs. A wait for a cell lasts until its time is up, or until the canceller or hf_close() ends
 * it: an op is gone only after hfi_wait_leave() has made sure that neither of them is about to stop it.
 */
#include "prim/action.h"

#include "core/op.h"
#include "core/wait.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <string.h>
#include <time.h>

void hfi_cell_forget(struct hfi_cell *cell)
{
    hfi_free(cell->bytes);
    *cell = (struct hfi_cell){ .ttl_ms = -1 };
}

/* ---- an op ---------------------------------------------------------------------------------------- */

struct block {
    struct hfi_job job;
    struct hfi_wait wait; /* WAIT */
    union {
        struct hfi_counter_op counter;
        struct hfi_limit_op limit;
    } native;
    unsigned char name[HF_NAME_MAX];
    char bytes[];
};

static void late_block(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    if (job->op.kind == HFI_OP_CELL_READ && hfi_op_status(&job->op) == HF_OK)
        hfi_free(job->op.u.cell.ret_bytes);
    hfi_free(hfi_container(job, struct block, job));
    hfi_keeper_idle(store);
}

static const enum hfi_op_kind op_kinds[] = {
    [HFI_ACT_READ] = HFI_OP_CELL_READ, [HFI_ACT_SWAP] = HFI_OP_CELL_SWAP,
    [HFI_ACT_TIME] = HFI_OP_TIME,      [HFI_ACT_COUNTER] = HFI_OP_COUNTER,
    [HFI_ACT_LIMIT] = HFI_OP_LIMIT,    [HFI_ACT_WAIT] = HFI_OP_CELL_WAIT
};

static void fill_cell(struct block *block, const struct hfi_action *action, struct hfi_name name)
{
    struct hfi_op *op = &block->job.op;

    op->u.cell.name = name;
    op->u.cell.version = action->version;
    op->u.cell.ttl_ms = action->ttl_ms;
    op->u.cell.ret_ttl_ms = -1;
    if (action->kind != HFI_ACT_SWAP || !action->bytes)
        return;
    memcpy(block->bytes, action->bytes, action->len);
    op->u.cell.bytes = block->bytes;
    op->u.cell.len = action->len;
}

static struct block *block_new(const struct hfi_prim *prim, const struct hfi_action *action)
{
    bool swap = action->kind == HFI_ACT_SWAP && action->bytes;
    struct block *block = hfi_malloc(sizeof *block + (swap ? action->len + 1 : 0));
    struct hfi_name name = prim->name;
    struct hfi_op *op;

    if (!block)
        return NULL;
    memcpy(block->name, name.bytes, name.len);
    name.bytes = block->name;
    hfi_job_init(&block->job, prim->store, op_kinds[action->kind]);
    block->job.late = late_block;
    op = &block->job.op;
    memset(&op->u, 0, sizeof op->u);
    if (action->kind == HFI_ACT_COUNTER) {
        block->native.counter = action->native.counter;
        block->native.counter.name = name;
        op->u.counter = &block->native.counter;
    } else if (action->kind == HFI_ACT_LIMIT) {
        block->native.limit = action->native.limit;
        block->native.limit.name = name;
        op->u.limit = &block->native.limit;
    } else if (action->kind == HFI_ACT_TIME) {
        op->u.time.name = name;
    } else {
        fill_cell(block, action, name);
    }
    return block;
}

/* The op is finished: its answer goes to the action. */
static hf_status take_answer(struct block *block, struct hfi_action *action, hf_error *error)
{
    struct hfi_op *op = &block->job.op;
    hf_status status = hfi_op_status(op);

    if (status != HF_OK)
        *error = op->error;
    switch (action->kind) {
    case HFI_ACT_READ:
        action->cell = (struct hfi_cell){ .ttl_ms = -1 };
        if (status == HF_OK)
            action->cell = (struct hfi_cell){ .bytes = op->u.cell.ret_bytes,
                                              .len = op->u.cell.ret_len,
                                              .version = op->u.cell.ret_version,
                                              .ttl_ms = op->u.cell.ret_ttl_ms };
        return status == HF_NOT_FOUND ? HF_OK : status;
    case HFI_ACT_SWAP:
    case HFI_ACT_WAIT:
        if (status == HF_OK)
            action->version = op->u.cell.ret_version;
        break;
    case HFI_ACT_TIME:
        action->now_us = op->u.time.ret_us;
        break;
    case HFI_ACT_COUNTER:
        action->native.counter.ret_value = block->native.counter.ret_value;
        break;
    case HFI_ACT_LIMIT:
        action->native.limit.answer = block->native.limit.answer;
        break;
    default:
        break;
    }
    return status;
}

/* What changes nothing: that it was not answered is all that there is to know. */
static bool only_reads(const struct hfi_action *action)
{
    switch (action->kind) {
    case HFI_ACT_READ:
    case HFI_ACT_TIME:
        return true;
    case HFI_ACT_COUNTER:
        return action->native.counter.verb == HFI_COUNTER_GET;
    case HFI_ACT_LIMIT:
        return action->native.limit.ask.act == HFI_LIMIT_LOOK;
    default:
        return false;
    }
}

static hf_status run_op(const struct hfi_prim *prim, struct hfi_action *action, hf_error *error)
{
    struct block *block = block_new(prim, action);
    hf_status status;
    bool gone;

    if (!block)
        return hfi_error_memory(error);
    hfi_keeper_busy(prim->store); /* for late_block(), which may come any time */
    status = hfi_job_run(&block->job, &gone);
    if (gone) {
        hfi_error_set(error, HF_UNKNOWN, 0, "the store did not answer in time");
    } else {
        hfi_keeper_idle(prim->store);
        status = take_answer(block, action, error);
        hfi_free(block);
    }
    return status == HF_UNKNOWN && only_reads(action) ? HF_UNAVAILABLE : status;
}

/* ---- what can be stopped --------------------------------------------------------------------------- */

static hf_status stopped(hf_status status, hf_error *error)
{
    return hfi_error_set(error, status, 0, "%s", hf_status_text(status));
}

/* From here on the canceller and hf_close() stop `wait`. Not HF_OK: it is over before it has begun. */
static hf_status follow(const struct hfi_prim *prim, hf_cancel *cancel, struct hfi_wait *wait,
                        hf_error *error)
{
    hf_status status = HF_OK;

    hfi_wait_init(wait, prim->store, NULL, 0);
    if (cancel)
        status = hfi_wait_follow(wait, cancel);
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(error, status, 0, "cancel: not a canceller of this process");
    if (status != HF_OK)
        return stopped(status, error);
    hfi_wait_list(wait);
    status = (hf_status)atomic_load(&wait->stop);
    if (status == HF_OK)
        return HF_OK;
    hfi_wait_leave(wait);
    return stopped(status, error);
}

static hf_status run_pause(const struct hfi_prim *prim, const struct hfi_action *action,
                           hf_cancel *cancel, hf_error *error)
{
    struct hfi_wait wait;
    hf_status status;

    if (action->pause_us > 0) {
        nanosleep(&(struct timespec){ .tv_nsec = action->pause_us * 1000 }, NULL);
        return HF_OK;
    }
    status = follow(prim, cancel, &wait, error);
    if (status != HF_OK)
        return status;
    while (atomic_load(&wait.word) == HFI_WAIT_SLEEPING && hfi_now_ms() < action->until_ms)
        hfi_futex_wait(&wait.word, HFI_WAIT_SLEEPING, action->until_ms, false);
    hfi_wait_leave(&wait);
    status = (hf_status)atomic_load(&wait.stop);
    return status == HF_OK ? HF_OK : stopped(status, error);
}

/* EVENT: drive until it is finished. false: it is not, not even after being stopped; it goes on without this thread, and
 * belongs to late_block(). */
static bool wait_event(struct block *block, int64_t until_ms)
{
    hfi_job_submit(&block->job);
    hfi_wait_in_store(&block->wait, &block->job.op);
    if (!hfi_job_wait(&block->job, until_ms)) {
        hfi_wait_stop(&block->wait, HF_TIMEOUT);
        if (!hfi_job_wait(&block->job, hfi_after_ms(until_ms, HFI_GRACE_MS))) {
            hfi_wait_leave(&block->wait);
            return !hfi_job_abandon(&block->job);
        }
    }
    hfi_wait_leave(&block->wait);
    return true;
}

/* INLINE and BLOCKING: the engine blocks this thread, in wait() or in submit(). */
static void wait_here(struct block *block, int64_t until_ms)
{
    struct hfi_store *store = block->job.store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    struct hfi_op *op = &block->job.op;

    if (store->drive == HFI_BLOCKING)
        hfi_wait_in_store(&block->wait, op); /* must be stoppable from here on */
    hfi_job_submit(&block->job);
    if (!hfi_op_finished(op)) {
        hfi_wait_in_store(&block->wait, op);
        while (!hfi_op_finished(op)) {
            if (until_ms != HFI_NEVER && hfi_now_ms() >= until_ms)
                engine->cancel(store->conn, op, HF_TIMEOUT);
            else
                engine->drive->wait(store->conn, op, until_ms);
        }
    }
    hfi_wait_leave(&block->wait);
}

static hf_status run_wait(const struct hfi_prim *prim, struct hfi_action *action, hf_cancel *cancel,
                          hf_error *error)
{
    struct hfi_store *store = prim->store;
    struct block *block = block_new(prim, action);
    hf_status status;

    if (!block)
        return hfi_error_memory(error);
    block->job.op.may_wait = block->job.op.blocking = true;
    block->job.op.deadline_ms = action->until_ms;
    status = follow(prim, cancel, &block->wait, error);
    if (status != HF_OK) {
        hfi_free(block);
        return status;
    }
    if (store->drive == HFI_EVENT) {
        hfi_keeper_busy(store); /* for late_block(), which may come any time */
        if (!wait_event(block, action->until_ms))
            return hfi_error_set(error, HF_TIMEOUT, 0, "nothing changed");
        hfi_keeper_idle(store);
    } else {
        wait_here(block, action->until_ms);
    }
    status = take_answer(block, action, error);
    hfi_free(block);
    return status;
}

/* ---- leases ----------------------------------------------------------------------------------------- */

static hf_status run_holds(const struct hfi_prim *prim, struct hfi_action *action, hf_error *error)
{
    uint64_t token = hfi_prim_caps(prim) & HF_CAP_TOKEN ? action->token : 0;
    const hf_entry *entry;
    hf_view *view = NULL;
    hf_status status = hfi_inspect(prim->store, action->name.bytes, action->name.len, &view, error);

    if (status != HF_OK)
        return status;
    action->holds = false;
    entry = hf_view_entry(view, 0);
    for (size_t i = 0; entry && i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);

        /* The store hears of local passes late: until then it tells an earlier token of the same block. */
        if (token == 0 || (holder->first <= token && holder->token <= token))
            action->holds = true;
    }
    hf_free(view);
    return HF_OK;
}

hf_status hfi_action_run(const struct hfi_prim *prim, struct hfi_action *action, hf_cancel *cancel,
                         hf_error *error)
{
    error->text[0] = 0;
    error->native = 0;
    switch (action->kind) {
    case HFI_ACT_WAIT:
        return run_wait(prim, action, cancel, error);
    case HFI_ACT_PAUSE:
        return run_pause(prim, action, cancel, error);
    case HFI_ACT_HOLDS:
        return run_holds(prim, action, error);
    case HFI_ACT_ACQUIRE:
        return hf_acquire(prim->handle, action->request, &action->lease, error);
    case HFI_ACT_RELEASE:
        return hf_release(action->lease, error);
    default:
        return run_op(prim, action, error);
    }
}
