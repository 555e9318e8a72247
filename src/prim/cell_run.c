/* SPDX-License-Identifier: MIT */
/* The loop over a cell: see cell_run.h. It never blocks: the next thing to do is the task's
 * action. */
#include "prim/cell_run.h"

#include "prim/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <stdarg.h>
#include <stdio.h>

#define RACE_FIRST_US 100 /* the longest pause after a lost race; each pause is twice the last */
#define RACE_LAST_US  20000
#define REST_FIRST_MS \
    25 /* between two reads of a cell that the engine cannot watch, or of a store that is away */
#define REST_LAST_MS 1000

enum run_state {
    RUN_NEW,
    RUN_READ,
    RUN_SWAP,
    RUN_CLOCK,
    RUN_ASK,
    RUN_TRY,
    RUN_GIVE_BACK,
    RUN_PAUSE,
    RUN_WAIT,
    RUN_TURN
};

static hf_status read_cell(struct hfi_prim_task *task);
static hf_status ask_decision(struct hfi_prim_task *task);
static hf_status swap_cell(struct hfi_prim_task *task, bool write);
static hf_status ask_for_lease(struct hfi_prim_task *task);
static hf_status wait_for_change(struct hfi_prim_task *task);
static hf_status wait_for_version(struct hfi_prim_task *task);
static hf_status rest_then_read(struct hfi_prim_task *task);

void hfi_cell_run_begin(struct hfi_cell_run *run, hfi_decide_fn *decide, void *arg)
{
    run->decide = decide;
    run->arg = arg;
    run->active = true;
    run->state = RUN_NEW;
    run->wrote = run->doubt = false;
    run->round = 0;
    run->rest_ms = REST_FIRST_MS;
}

void hfi_cell_run_done(struct hfi_cell_run *run)
{
    hfi_free(run->owned);
    run->owned = NULL;
    run->found = (struct hfi_cell){ .ttl_ms = -1 };
    hfi_buffer_done(&run->buffer);
}

static hf_status begin_action(struct hfi_prim_task *task, enum run_state state,
                              enum hfi_action_kind kind)
{
    task->run.state = (int)state;
    return hfi_begin_act(task, task->state, kind);
}

/* ---- failures ----------------------------------------------------------------------------------------- */

/* May the outcome of such a failure be known after the next read? */
static bool is_unsettled(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN || status == HF_BUSY;
}

/* If an earlier swap may have been done, the caller must learn that; the failure only says why it
 * is not known. */
static hf_status end_failed(struct hfi_prim_task *task, hf_status status)
{
    char why[sizeof task->error.text];

    if (!task->run.doubt || status == HF_UNKNOWN)
        return status;
    snprintf(why, sizeof why, "%s",
             task->error.text[0] ? task->error.text : hf_status_text(status));
    return hfi_error_set(&task->error, HF_UNKNOWN, 0, "it may have been done: %s", why);
}

static hf_status failed(struct hfi_prim_task *task, hf_status status)
{
    return task->run.patient && is_unsettled(status) ? rest_then_read(task)
                                                     : end_failed(task, status);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* Set what the cell holds now. `owned` is its memory if the run owns it. */
static void set_found(struct hfi_cell_run *run, const struct hfi_cell *cell, unsigned char *owned)
{
    if (run->owned != owned)
        hfi_free(run->owned);
    run->owned = owned;
    if (run->found.version != cell->version)
        run->rest_ms = REST_FIRST_MS;
    run->found = *cell;
    run->answer = HFI_UNASKED;
    run->has_time = false;
}

static hf_status read_cell(struct hfi_prim_task *task)
{
    return begin_action(task, RUN_READ, HFI_ACT_READ);
}

static hf_status was_read(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_cell_run *run = &task->run;

    if (got != HF_OK)
        return failed(task, got);
    set_found(run, &task->action.cell, task->action.cell.bytes);
    run->wrote = false;
    run->leases_due = hfi_now_ms() >= run->leases_ms;
    if (run->asks_user && task->async)
        return begin_action(task, RUN_TURN, HFI_ACT_TURN);
    return ask_decision(task);
}

/* ---- deciding ----------------------------------------------------------------------------------------- */

static hf_status ask_decision(struct hfi_prim_task *task)
{
    struct hfi_cell_run *run = &task->run;

    run->leases = run->foreign = false;
    task->error.text[0] = 0;
    switch (run->decide(run, run->arg)) {
    case HFI_END:
        return HF_OK;
    case HFI_FAIL:
        return run->status; /* the decision knows of the doubt: its status stands */
    case HFI_WRITE:
        return swap_cell(task, true);
    case HFI_DELETE:
        return swap_cell(task, false);
    case HFI_CLOCK:
        return begin_action(task, RUN_CLOCK, HFI_ACT_TIME);
    case HFI_ASK:
        return ask_for_lease(task);
    case HFI_WAIT:
        break;
    }
    return wait_for_change(task);
}

static hf_status heard_time(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_cell_run *run = &task->run;

    if (got != HF_OK)
        return failed(task, got);
    run->heard_ns = hfi_now_ns();
    run->now_us = task->action.now_us;
    run->has_time = true;
    return ask_decision(task);
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static hf_status swap_cell(struct hfi_prim_task *task, bool write)
{
    struct hfi_cell_run *run = &task->run;

    if (!write) {
        run->bytes = NULL;
        run->len = 0;
        run->ttl_ms = 0;
    }
    task->action.version = run->found.version;
    task->action.bytes = run->bytes;
    task->action.len = run->len;
    task->action.ttl_ms = run->ttl_ms;
    return begin_action(task, RUN_SWAP, HFI_ACT_SWAP);
}

/* Our write succeeded: it is what the cell holds now. */
static void set_written(struct hfi_prim_task *task)
{
    struct hfi_cell_run *run = &task->run;
    struct hfi_cell cell = { .bytes = (unsigned char *)run->bytes, /* NOLINT: nobody writes to it */
                             .len = run->len,
                             .version = run->bytes ? task->action.version : 0,
                             .ttl_ms = run->ttl_ms ? run->ttl_ms : -1 };
    unsigned char *owned = NULL;

    if (run->bytes && run->bytes == run->buffer.bytes) {
        owned = (unsigned char *)run->buffer.bytes;
        run->buffer = (struct hfi_buffer){ 0 };
    }
    set_found(run, &cell, owned);
    run->wrote = true;
    run->doubt = false;
    run->round = 0;
    run->begun_ms = hfi_now_ms();
}

/* Pause before the next attempt: longer each time and of random length, since competitors that
 * start again at the same moment would collide again. */
static hf_status step_back(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_cell_run *run = &task->run;
    int64_t now_ms = hfi_now_ms();
    int64_t limit_ms = run->race_until_ms ? run->race_until_ms : run->begun_ms + HFI_CALL_LIMIT_MS;
    int64_t most_us = run->round > 7 ? RACE_LAST_US : (int64_t)RACE_FIRST_US << run->round;
    int64_t pause_us = 1 + (int64_t)(hfi_random_u64() % (uint64_t)most_us);

    if (now_ms >= limit_ms) {
        if (got == HF_BUSY && run->late_text)
            got = hfi_error_set(&task->error, run->late, 0, "%s", run->late_text);
        return end_failed(task, got);
    }
    run->round++;
    task->action.pause_us = run->stoppable ? 0 : pause_us;
    task->action.until_ms = now_ms + (pause_us + 999) / 1000;
    if (task->action.until_ms > limit_ms)
        task->action.until_ms = limit_ms;
    return begin_action(task, RUN_PAUSE, HFI_ACT_PAUSE);
}

static hf_status was_swapped(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_cell_run *run = &task->run;

    if (got == HF_OK) {
        set_written(task);
        return ask_decision(task);
    }
    if (run->patient && is_unsettled(got))
        return got == HF_BUSY ? read_cell(task) : rest_then_read(task);
    if (run->foreign && got == HF_UNKNOWN)
        return hfi_now_ms() < task->until_ms ? step_back(task, got) : HF_UNAVAILABLE;
    if (got == HF_UNKNOWN && run->look_again)
        run->doubt = true;
    return got == HF_BUSY || run->doubt ? step_back(task, got) : got;
}

/* ---- leases ------------------------------------------------------------------------------------------- */

static hf_status ask_for_lease(struct hfi_prim_task *task)
{
    struct hfi_cell_run *run = &task->run;
    hf_acquire_request *request = &run->try_request;

    if (hfi_prim_caps(&task->prim) & HF_CAP_INSPECT) {
        task->action.name.bytes = run->ask_name;
        task->action.name.len = run->ask_len;
        task->action.token = run->ask_token;
        return begin_action(task, RUN_ASK, HFI_ACT_HOLDS);
    }
    if (!run->ask_may_try || !task->prim.handle) {
        run->answer = HFI_IS_HELD;
        return ask_decision(task);
    }
    *request = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    request->name = run->ask_name;
    request->name_len = run->ask_len;
    request->flags = HF_FLAG_STRICT;
    run->state = RUN_TRY;
    return hfi_begin_acquire(task, task->state, request);
}

static hf_status answered(struct hfi_prim_task *task, hf_status got, bool held)
{
    if (got != HF_OK)
        return task->run.patient && is_unsettled(got) ? rest_then_read(task) : got;
    task->run.answer = held ? HFI_IS_HELD : HFI_IS_GONE;
    return ask_decision(task);
}

static hf_status was_tried(struct hfi_prim_task *task, hf_status got)
{
    if (got != HF_OK)
        return answered(task, got == HF_BUSY ? HF_OK : got, true);
    task->run.state = RUN_GIVE_BACK;
    return hfi_begin_release(task, task->state, task->action.lease);
}

/* ---- waiting ------------------------------------------------------------------------------------------ */

static int64_t twice(int64_t pause_ms, int64_t first_ms, int64_t last_ms)
{
    if (pause_ms == 0)
        return first_ms;
    return pause_ms * 2 < last_ms ? pause_ms * 2 : last_ms;
}

/* Read again after a pause that grows each time and has a random part; at `until_ms` at the
 * latest. */
static hf_status rest_until(struct hfi_prim_task *task, int64_t until_ms)
{
    struct hfi_cell_run *run = &task->run;
    int64_t half_ms = run->rest_ms / 2;
    int64_t wake_ms =
        hfi_now_ms() + half_ms + (int64_t)(hfi_random_u64() % (uint64_t)(half_ms + 1));

    run->rest_ms = twice(run->rest_ms, REST_FIRST_MS, REST_LAST_MS);
    task->action.pause_us = 0;
    task->action.until_ms = wake_ms < until_ms ? wake_ms : until_ms;
    return begin_action(task, RUN_PAUSE, HFI_ACT_PAUSE);
}

/* The store is away, or its answer is unknown. When the time is up, the caller must not be told
 * that nothing has changed. */
static hf_status rest_then_read(struct hfi_prim_task *task)
{
    return hfi_now_ms() < task->until_ms ? rest_until(task, task->until_ms) : HF_UNAVAILABLE;
}

static bool is_told(struct hfi_prim_task *task)
{
    return hfi_prim_caps(&task->prim) & HF_CAP_CELL_WATCH;
}

static hf_status wait_until(struct hfi_prim_task *task, int64_t now_ms, int64_t until_ms)
{
    /* Without a thread of its own, a wait in an INLINE engine takes a worker: many take turns. */
    if (task->async && task->prim.store->drive == HFI_INLINE && until_ms > now_ms + REST_LAST_MS)
        until_ms = now_ms + REST_LAST_MS;
    task->run.wait_begun_ms = now_ms;
    task->action.version = task->run.found.version;
    task->action.until_ms = until_ms;
    return begin_action(task, RUN_WAIT, HFI_ACT_WAIT);
}

static hf_status wait_for_change(struct hfi_prim_task *task)
{
    struct hfi_cell_run *run = &task->run;
    int64_t now_ms = hfi_now_ms(), until_ms = task->until_ms;

    run->doubt = false;
    run->round = 0;
    run->begun_ms = now_ms;
    if (run->leases_due) {
        run->leases_pause_ms = twice(run->leases_pause_ms, HFI_LEASES_FIRST_MS, HFI_LEASES_LAST_MS);
        run->leases_ms = now_ms + run->leases_pause_ms;
    }
    if (now_ms >= until_ms)
        return hfi_error_set(&task->error, HF_TIMEOUT, 0, "the deadline passed");
    if (run->leases && run->leases_ms < until_ms)
        until_ms = run->leases_ms;
    return is_told(task) ? wait_until(task, now_ms, until_ms) : rest_until(task, until_ms);
}

/* If the engine cannot watch cells, or there is no time to wait, the cell is read. */
static hf_status wait_for_version(struct hfi_prim_task *task)
{
    int64_t now_ms = hfi_now_ms();

    return is_told(task) && now_ms < task->until_ms ? wait_until(task, now_ms, task->until_ms)
                                                    : read_cell(task);
}

static hf_status was_waiting(struct hfi_prim_task *task, hf_status got)
{
    struct hfi_cell_run *run = &task->run;
    int64_t now_ms = hfi_now_ms();
    bool over = now_ms >= task->action.until_ms;

    if (now_ms - run->wait_begun_ms > REST_LAST_MS)
        run->rest_ms = REST_FIRST_MS; /* the engine has worked for a while */
    if (got == HF_OK && run->version_only) {
        set_found(run, &(struct hfi_cell){ .version = task->action.version }, NULL);
        return ask_decision(task);
    }
    if (got == HF_TIMEOUT && over && run->version_only)
        return now_ms >= task->until_ms ? got : wait_for_version(task);
    if (got == HF_OK || (got == HF_TIMEOUT && over))
        return read_cell(task);
    if (got == HF_TIMEOUT || got == HF_UNAVAILABLE || got == HF_UNKNOWN)
        return rest_then_read(task);
    return got;
}

/* ---- one step ----------------------------------------------------------------------------------------- */

static hf_status was_pausing(struct hfi_prim_task *task, hf_status got)
{
    if (got != HF_OK)
        return end_failed(task, got);
    return task->run.version_only ? wait_for_version(task) : read_cell(task);
}

hf_status hfi_cell_run_step(struct hfi_prim_task *task, hf_status got)
{
    switch ((enum run_state)task->run.state) {
    case RUN_NEW:
        task->run.begun_ms = hfi_now_ms();
        return task->run.version_only ? wait_for_version(task) : read_cell(task);
    case RUN_READ:
        return was_read(task, got);
    case RUN_SWAP:
        return was_swapped(task, got);
    case RUN_CLOCK:
        return heard_time(task, got);
    case RUN_ASK:
        return answered(task, got, task->action.holds);
    case RUN_TRY:
        return was_tried(task, got);
    case RUN_GIVE_BACK:
        return answered(task, HF_OK, false);
    case RUN_PAUSE:
        return was_pausing(task, got);
    case RUN_WAIT:
        return was_waiting(task, got);
    case RUN_TURN:
        return got == HF_OK ? ask_decision(task) : end_failed(task, got);
    }
    return HF_INTERNAL;
}

/* ---- for decisions ------------------------------------------------------------------------------------ */

hf_error *hfi_run_error(struct hfi_cell_run *run)
{
    return &hfi_container(run, struct hfi_prim_task, run)->error;
}

enum hfi_verdict hfi_run_fail(struct hfi_cell_run *run, hf_status status, const char *format, ...)
{
    char text[HF_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->status = hfi_error_set(hfi_run_error(run), status, 0, "%s", text);
    return HFI_FAIL;
}

enum hfi_verdict hfi_run_mismatch(struct hfi_cell_run *run)
{
    return hfi_run_fail(run, HF_MISMATCH,
                        "the cell of that name belongs to another kind of primitive");
}

enum hfi_verdict hfi_run_memory(struct hfi_cell_run *run)
{
    run->status = hfi_error_memory(hfi_run_error(run));
    return HFI_FAIL;
}

struct hfi_buffer *hfi_run_buffer(struct hfi_cell_run *run)
{
    run->buffer.start = run->buffer.len = 0;
    return &run->buffer;
}

enum hfi_verdict hfi_run_write(struct hfi_cell_run *run, int64_t ttl_ms)
{
    return hfi_run_write_bytes(run, run->buffer.bytes, run->buffer.len, ttl_ms);
}

enum hfi_verdict hfi_run_write_bytes(struct hfi_cell_run *run, const void *bytes, size_t len,
                                     int64_t ttl_ms)
{
    run->bytes = bytes;
    run->len = len;
    run->ttl_ms = ttl_ms;
    return HFI_WRITE;
}

enum hfi_verdict hfi_run_ask(struct hfi_cell_run *run, const void *name, uint32_t len,
                             uint64_t token, bool may_try)
{
    run->ask_name = name;
    run->ask_len = len;
    run->ask_token = token;
    run->ask_may_try = may_try;
    return HFI_ASK;
}
