/* SPDX-License-Identifier: MIT */
/*
 * Waiting until a cell has another version: hfi_cell_wait(), on the calling thread.
 *
 * Where the engine has HF_CAP_CELL_WATCH its own wait does it, and wakes by an event. Elsewhere
 * (memcached, which can tell nobody of anything) the cell is read again and again, at intervals
 * that grow; the capability says so.
 *
 * The store may go away for a while meanwhile. A wait asks for nothing that could be done twice, so
 * it is begun again, at growing intervals too, until its time is up.
 *
 * Each attempt, and each pause between two, has a struct hfi_wait of its own, by which a canceller
 * and hf_close() end it: an op is gone only after hfi_wait_leave() has made sure that neither of
 * them is about to stop it.
 */
#include "core/op.h"
#include "core/wait.h"
#include "prim/cell_op.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/random.h"

#include <string.h>

#define PAUSE_FIRST_MS 25
#define PAUSE_LAST_MS  1000

/* What a call waits for, and how it goes. */
struct watch {
    const struct hfi_prim *prim;
    uint64_t version;
    int64_t until_ms;
    hf_cancel *cancel;
    int64_t pause_ms; /* the next one */
};

/* An attempt in the engine. It may be finished after we have given it up. */
struct attempt {
    struct hfi_job job;
    struct hfi_wait wait;
    unsigned char name[HF_NAME_MAX];
};

static hf_status look(const struct watch *watch, uint64_t *ret_version, hf_error *inner);
static hf_status attend(const struct watch *watch, uint64_t *ret_version, hf_error *inner);
static hf_status rest(struct watch *watch, hf_error *inner);

/* The store did not answer, or not for sure: it may the next time. */
static bool is_absence(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

hf_status hfi_cell_wait(const struct hfi_prim *prim, uint64_t version, int64_t until_ms,
                        hf_cancel *cancel, uint64_t *ret_version, hf_error *inner)
{
    bool pushed = hfi_store_engine(prim->store)->info.caps & HF_CAP_CELL_WATCH;
    struct watch watch = { .prim = prim,
                           .version = version,
                           .until_ms = until_ms,
                           .cancel = cancel,
                           .pause_ms = PAUSE_FIRST_MS };
    int64_t begun_ms = hfi_now_ms();
    hf_status status, rested;

    for (;;) {
        status = pushed && begun_ms < until_ms ? attend(&watch, ret_version, inner)
                                               : look(&watch, ret_version, inner);
        /* Time is up: an absent store is not one where nothing has changed. */
        if ((status != HF_TIMEOUT && !is_absence(status)) || hfi_now_ms() >= until_ms)
            return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
        if (pushed && hfi_now_ms() - begun_ms > PAUSE_LAST_MS)
            watch.pause_ms = PAUSE_FIRST_MS; /* it did well for a while */
        rested = rest(&watch, inner);
        if (rested != HF_OK)
            return rested;
        begun_ms = hfi_now_ms();
    }
}

/* ---- stopping -------------------------------------------------------------------------------- */

static hf_status stopped(hf_status status, hf_error *inner)
{
    return hfi_error_set(inner, status, 0, "%s", hf_status_text(status));
}

/* From here on the canceller and hf_close() stop `wait`. Not HF_OK: it is over before it has begun. */
static hf_status follow(const struct hfi_prim *prim, hf_cancel *cancel, struct hfi_wait *wait,
                        hf_error *inner)
{
    hf_status status = HF_OK;

    hfi_wait_init(wait, prim->store, NULL, 0);
    if (cancel)
        status = hfi_wait_follow(wait, cancel);
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(inner, status, 0, "cancel: not a canceller of this process");
    if (status != HF_OK)
        return stopped(status, inner);
    hfi_wait_list(wait);
    status = (hf_status)atomic_load(&wait->stop);
    if (status == HF_OK)
        return HF_OK;
    hfi_wait_leave(wait);
    return stopped(status, inner);
}

hf_status hfi_prim_pause(const struct hfi_prim *prim, int64_t until_ms, hf_cancel *cancel,
                         hf_error *inner)
{
    struct hfi_wait wait;
    hf_status status = follow(prim, cancel, &wait, inner);

    if (status != HF_OK)
        return status;
    while (atomic_load(&wait.word) == HFI_WAIT_SLEEPING && hfi_now_ms() < until_ms)
        hfi_futex_wait(&wait.word, HFI_WAIT_SLEEPING, until_ms, false);
    hfi_wait_leave(&wait);
    status = (hf_status)atomic_load(&wait.stop);
    return status == HF_OK ? HF_OK : stopped(status, inner);
}

/* Between two attempts, each time longer than the last and never as long as another's. */
static hf_status rest(struct watch *watch, hf_error *inner)
{
    int64_t half_ms = watch->pause_ms / 2;
    int64_t wake_ms =
        hfi_now_ms() + half_ms + (int64_t)(hfi_random_u64() % (uint64_t)(half_ms + 1));

    watch->pause_ms = watch->pause_ms > PAUSE_LAST_MS / 2 ? PAUSE_LAST_MS : watch->pause_ms * 2;
    if (wake_ms > watch->until_ms)
        wake_ms = watch->until_ms;
    return hfi_prim_pause(watch->prim, wake_ms, watch->cancel, inner);
}

/* ---- looking --------------------------------------------------------------------------------- */

static hf_status unchanged(hf_error *inner)
{
    return hfi_error_set(inner, HF_TIMEOUT, 0, "nothing changed");
}

/* HF_TIMEOUT: it has that version still. */
static hf_status look(const struct watch *watch, uint64_t *ret_version, hf_error *inner)
{
    struct hfi_wait wait;
    struct hfi_cell cell;
    hf_status status = follow(watch->prim, watch->cancel, &wait, inner);

    if (status != HF_OK)
        return status;
    hfi_wait_leave(&wait); /* a read ends by itself */
    status = hfi_cell_read(watch->prim, &cell, inner);
    if (status != HF_OK)
        return status;
    if (cell.version == watch->version)
        status = unchanged(inner);
    else if (ret_version)
        *ret_version = cell.version;
    hfi_cell_forget(&cell);
    return status;
}

/* ---- waiting in the engine ------------------------------------------------------------------- */

static void late_attempt(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    hfi_free(hfi_container(job, struct attempt, job));
    hfi_keeper_idle(store);
}

static struct attempt *attempt_new(const struct watch *watch)
{
    const struct hfi_prim *prim = watch->prim;
    struct attempt *a = hfi_malloc(sizeof *a);

    if (!a)
        return NULL;
    hfi_job_init(&a->job, prim->store, HFI_OP_CELL_WAIT);
    a->job.late = late_attempt;
    a->job.op.may_wait = a->job.op.blocking = true;
    a->job.op.deadline_ms = watch->until_ms;
    memset(&a->job.op.u, 0, sizeof a->job.op.u);
    memcpy(a->name, prim->name.bytes, prim->name.len);
    a->job.op.u.cell.name = prim->name;
    a->job.op.u.cell.name.bytes = a->name;
    a->job.op.u.cell.version = watch->version;
    return a;
}

/* EVENT: drive until it is finished. false: it is not, not even after being stopped; it goes on
 * without us, and belongs to late_attempt(). */
static bool run_event(struct attempt *a, int64_t until_ms)
{
    hfi_job_submit(&a->job);
    hfi_wait_in_store(&a->wait, &a->job.op);
    if (!hfi_job_wait(&a->job, until_ms)) {
        hfi_wait_stop(&a->wait, HF_TIMEOUT);
        if (!hfi_job_wait(&a->job, hfi_after_ms(until_ms, HFI_GRACE_MS))) {
            hfi_wait_leave(&a->wait);
            return !hfi_job_abandon(&a->job);
        }
    }
    hfi_wait_leave(&a->wait);
    return true;
}

/* INLINE and BLOCKING: the engine blocks this thread, in wait() or in submit(). */
static void run_here(struct attempt *a, int64_t until_ms)
{
    struct hfi_store *store = a->job.store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    struct hfi_op *op = &a->job.op;

    if (store->drive == HFI_BLOCKING)
        hfi_wait_in_store(&a->wait, op); /* must be stoppable from here on */
    hfi_job_submit(&a->job);
    if (!hfi_op_finished(op)) {
        hfi_wait_in_store(&a->wait, op);
        while (!hfi_op_finished(op)) {
            if (until_ms != HFI_NEVER && hfi_now_ms() >= until_ms)
                engine->cancel(store->conn, op, HF_TIMEOUT);
            else
                engine->wait(store->conn, op, until_ms);
        }
    }
    hfi_wait_leave(&a->wait);
}

static hf_status attend(const struct watch *watch, uint64_t *ret_version, hf_error *inner)
{
    struct hfi_store *store = watch->prim->store;
    struct attempt *a = attempt_new(watch);
    hf_status status;

    if (!a)
        return hfi_error_memory(inner);
    status = follow(watch->prim, watch->cancel, &a->wait, inner);
    if (status != HF_OK) {
        hfi_free(a);
        return status;
    }
    if (store->drive == HFI_EVENT) {
        hfi_keeper_busy(store); /* for late_attempt(), which may come any time */
        if (!run_event(a, watch->until_ms))
            return unchanged(inner);
        hfi_keeper_idle(store);
    } else {
        run_here(a, watch->until_ms);
    }
    status = hfi_op_status(&a->job.op);
    if (status == HF_OK && ret_version)
        *ret_version = a->job.op.u.cell.ret_version;
    else if (status != HF_OK && inner)
        *inner = a->job.op.error;
    hfi_free(a);
    return status;
}
