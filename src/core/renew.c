/* SPDX-License-Identifier: MIT */
/*
 * Renewals. The keeper collects the leases that are due into a batch and sends it as one op: on the
 * pool if the engine may block, else at once. Meanwhile each lease's timer stays set for the end of
 * its validity, so no lease is lost late because an answer did not come.
 *
 * hf_renew() is a batch of one, that the caller waits for.
 */
#include "core/renew.h"

#include "core/idle.h"
#include "core/local_queue.h"
#include "core/request.h"
#include "core/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#define AGAIN_MS 10 /* when there was no memory, or the lease was just being granted */

static struct hfi_wait *look(struct hfi_store *store, struct hfi_lease *lease, int64_t now_ms,
                             struct hfi_idle_end *ret_end);
static struct hfi_wait *take_answer(struct hfi_lease *lease, const struct hfi_renewal *item,
                                    int64_t now_ms, struct hfi_idle_end *ret_end);

/* ---- by itself ------------------------------------------------------------------- */

void hfi_renew_due(struct hfi_store *store, struct hfi_timer *timer, int64_t now_ms)
{
    struct hfi_lease *lease = hfi_container(timer, struct hfi_lease, timer);
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_idle_end end = { NULL, NULL, NULL };
    struct hfi_wait *next = NULL;

    /* Since the timer was taken out, the slot may have begun another lease, even in another store.
     * If it has a timer in this store, checking it once more is right in any case. */
    pthread_mutex_lock(&shard->lock);
    if (atomic_load_explicit(&lease->shard, memory_order_relaxed) == shard && shard->store == store)
        next = look(store, lease, now_ms, &end);
    pthread_mutex_unlock(&shard->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    hfi_idle_finish(&end);
    if (store->keeper.renewal) {
        const struct hfi_batch *batch = store->keeper.renewal->memory;

        if (batch->count == batch->room)
            hfi_renew_flush(store);
    }
}

/* A call with an empty batch. NULL: out of memory. */
static struct hfi_call *renewal_new(struct hfi_store *store)
{
    struct hfi_call *call = hfi_call_new(store, HFI_TO_KEEPER);
    struct hfi_batch *batch = call ? hfi_batch_new(store, HFI_BATCH_MAX) : NULL;

    if (!batch) {
        if (call)
            hfi_call_free(call);
        return NULL;
    }
    call->memory = batch;
    hfi_call_op(call, HFI_OP_RENEW)->u.renew.items = batch->items;
    return call;
}

/* Put it into the keeper's batch. false: out of memory. */
static bool gather(struct hfi_store *store, struct hfi_lease *lease, int64_t now_ms)
{
    struct hfi_keeper *keeper = &store->keeper;

    if (!keeper->renewal)
        keeper->renewal = renewal_new(store);
    if (!keeper->renewal)
        return false;
    hfi_batch_add(keeper->renewal->memory, lease,
                  hfi_term_ask(&lease->term, hfi_idle_ttl(lease, now_ms), now_ms), now_ms);
    return true;
}

/* Decide what the lease needs. With the lock. Returns the local waiter to be told GO, or NULL. */
static struct hfi_wait *look(struct hfi_store *store, struct hfi_lease *lease, int64_t now_ms,
                             struct hfi_idle_end *ret_end)
{
    int phase = atomic_load(&lease->phase);
    struct hfi_term_step step;

    if (!(phase == HFI_GOING || phase == HFI_HELD || phase == HFI_IDLE) || !lease->timed)
        return NULL;
    if (phase == HFI_GOING) {
        hfi_keeper_arm(store, &lease->timer, now_ms + AGAIN_MS);
        return NULL;
    }

    lease->linger.look_ms = HFI_NEVER;
    if (phase == HFI_IDLE && hfi_idle_due(lease, now_ms, ret_end))
        return NULL;
    step = hfi_term_next(&lease->term, now_ms);
    if (lease->linger.refill && !lease->term.renewing && step.what == HFI_TERM_SLEEP)
        step.what = HFI_TERM_RENEW;
    if (step.what == HFI_TERM_SLEEP && step.at_ms - now_ms <= HFI_BATCH_EARLY_MS &&
        hfi_term_next(&lease->term, step.at_ms).what == HFI_TERM_RENEW)
        step.what = HFI_TERM_RENEW; /* due soon: renew it together with others */
    if (step.what == HFI_TERM_LOST)
        return hfi_lease_expire(lease);
    if (step.what == HFI_TERM_RISK && phase == HFI_HELD) {
        hfi_term_risk(&lease->term);
        hfi_lease_note(lease);
        step = hfi_term_next(&lease->term, now_ms);
    } else if (step.what ==
               HFI_TERM_RISK) { /* nobody to tell; whoever takes it is told: take() of idle.c */
        step = (struct hfi_term_step){ HFI_TERM_SLEEP, lease->term.valid_until_ms };
    }
    if (step.what == HFI_TERM_RENEW) {
        if (!gather(store, lease, now_ms)) {
            hfi_keeper_arm(store, &lease->timer, now_ms + AGAIN_MS);
            return NULL;
        }
        step = hfi_term_next(&lease->term, now_ms);
    }
    hfi_idle_arm(lease, step.at_ms);
    return NULL;
}

/* On the pool, or on the thread that drives. */
static void batch_answered(struct hfi_call *call, hf_status status, const hf_error *inner)
{
    struct hfi_batch *batch = call->memory;

    (void)status, (void)inner; /* each lease has its own */
    hfi_call_free(call);
    hfi_batch_end(batch);
}

void hfi_renew_flush(struct hfi_store *store)
{
    struct hfi_call *call = store->keeper.renewal;
    struct hfi_batch *batch = call ? call->memory : NULL;

    if (!call)
        return;
    store->keeper.renewal = NULL;
    call->op.deadline_ms = batch->until_ms;
    call->op.u.renew.count = batch->count;
    hfi_keeper_busy(store);
    hfi_call_send(call, batch_answered, store->drive != HFI_EVENT);
}

/* ---- batches ------------------------------------------------------------------------ */

struct hfi_batch *hfi_batch_new(struct hfi_store *store, size_t room)
{
    struct hfi_batch *batch = hfi_malloc(sizeof *batch + room * sizeof batch->items[0]);

    if (!batch)
        return NULL;
    batch->store = store;
    batch->count = 0;
    batch->room = room;
    batch->until_ms = HFI_NEVER;
    return batch;
}

void hfi_batch_add(struct hfi_batch *batch, struct hfi_lease *lease, int64_t ttl_ms, int64_t now_ms)
{
    /* Until the engine says otherwise the outcome is not known. */
    batch->items[batch->count++] = (struct hfi_renewal){ .claim = &lease->claim,
                                                         .ttl_ms = ttl_ms,
                                                         .tokens_wanted = hfi_idle_tokens(lease),
                                                         .status = HF_UNKNOWN };
    lease->heard = false;
    lease->parts |= HFI_PART_RENEWAL;
    hfi_term_renewing(&lease->term, ttl_ms, now_ms);
    if (lease->term.valid_until_ms < batch->until_ms)
        batch->until_ms = lease->term.valid_until_ms;
}

void hfi_batch_end(struct hfi_batch *batch)
{
    struct hfi_store *store = batch->store;
    struct hfi_keeper *keeper = &store->keeper;
    int64_t now_ms = hfi_now_ms();

    for (size_t i = 0; i < batch->count; i++) {
        struct hfi_lease *lease = hfi_container(batch->items[i].claim, struct hfi_lease, claim);
        struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        struct hfi_idle_end end = { NULL, NULL, NULL };
        struct hfi_wait *next;
        bool free;

        pthread_mutex_lock(&shard->lock);
        next = take_answer(lease, &batch->items[i], now_ms, &end);
        free = hfi_lease_drop(lease, HFI_PART_RENEWAL);
        pthread_mutex_unlock(&shard->lock);
        if (next)
            hfi_wait_tell(next, HFI_WAIT_GO);
        hfi_idle_finish(&end);
        if (free)
            hfi_lease_free(lease);
    }
    hfi_free(batch);

    pthread_mutex_lock(&keeper->lock);
    keeper->rounds++;
    pthread_cond_broadcast(&keeper->ended);
    pthread_mutex_unlock(&keeper->lock);
    hfi_keeper_idle(store);
}

/* With the lock. Returns the local waiter to be told GO, or NULL. */
static struct hfi_wait *take_answer(struct hfi_lease *lease, const struct hfi_renewal *item,
                                    int64_t now_ms, struct hfi_idle_end *ret_end)
{
    int phase = atomic_load(&lease->phase);
    bool held = phase == HFI_HELD || phase == HFI_IDLE;
    hf_status status = lease->converting && item->status == HF_LOST ? HF_UNKNOWN : item->status;
    bool lost = hfi_term_renewed(&lease->term, status, item->claim->sent_ms,
                                 item->claim->granted_ttl_ms, now_ms);

    if (item->status == HF_OK)
        atomic_load_explicit(&lease->shard, memory_order_relaxed)->stats.renewals++;
    else
        atomic_load_explicit(&lease->shard, memory_order_relaxed)->stats.renewals_failed++;
    if (!held || hfi_lease_lost(lease))
        return NULL;
    /* What was heard since the renewal was sent is newer than its answer. */
    if (item->status == HF_OK && lease->claim.flags & HFI_CLAIM_WATCHED &&
        (item->others_wait || !lease->heard))
        atomic_store_explicit(&lease->wanted, item->others_wait, memory_order_relaxed);
    if (lease->claim.flags & HFI_CLAIM_LINGERS)
        hfi_idle_renewed(lease, item, lost, now_ms, ret_end);
    if (phase == HFI_IDLE)
        return NULL;
    if (lost && (item->status == HF_LOST || item->status == HF_NOT_FOUND)) {
        atomic_store(&lease->gone, 1);
        return hfi_lease_lose(lease, HF_LOSS_FORGOTTEN,
                              "the store no longer had it when it was renewed");
    }
    if (lost)
        return hfi_lease_lose(lease, HF_LOSS_EXPIRED,
                              "its validity ended before it could be renewed");
    hfi_lease_note(lease);
    if (lease->timed)
        hfi_idle_arm(lease,
                     lease->linger.refill ? now_ms : hfi_term_next(&lease->term, now_ms).at_ms);
    return NULL;
}

/* ---- hf_renew() ------------------------------------------------------------------------ */

/* Lock the lease when no renewal of it is under way. HF_BUSY: one is, and we may not wait for its end. */
static hf_status lock_quiet(hf_lease *handle, bool may_wait, struct hfi_lease **ret_lease)
{
    struct hfi_wait *next;
    struct hfi_keeper *keeper;
    uint64_t rounds;
    hf_status status;

    for (;;) {
        status = hfi_lease_lock(handle, ret_lease, &next);
        if (status != HF_OK)
            return status;
        if (next) {
            hfi_lease_unlock(*ret_lease, next);
            continue;
        }
        if (!(*ret_lease)->term.renewing)
            return HF_OK;
        if (!may_wait) {
            hfi_lease_unlock(*ret_lease, NULL);
            return HF_BUSY;
        }
        keeper = &(*ret_lease)->store->keeper;
        pthread_mutex_lock(&keeper->lock);
        rounds = keeper->rounds;
        pthread_mutex_unlock(&keeper->lock);
        hfi_lease_unlock(*ret_lease, NULL);

        /* The batch ends with its op, whose time the engine bounds. */
        pthread_mutex_lock(&keeper->lock);
        while (keeper->rounds == rounds)
            pthread_cond_wait(&keeper->ended, &keeper->lock);
        pthread_mutex_unlock(&keeper->lock);
    }
}

/* May it be renewed for ttl_ms (0: as before)? With the lock. */
static hf_status check(const struct hfi_lease *lease, int64_t *ttl_ms, int64_t now_ms,
                       hf_error *err)
{
    hf_status status = HF_OK;

    if (hfi_lease_lost(lease))
        return hfi_error_set(err, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    if (lease->term.granted_ms == 0 || lease->term.ttl_ms == 0)
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "this lease has no ttl");
    if (*ttl_ms != 0)
        status = hfi_ttl_check(hfi_store_promises(lease->store), "ttl_ms", *ttl_ms, err);
    if (status != HF_OK)
        return status;

    *ttl_ms = hfi_term_ask(&lease->term, *ttl_ms ? *ttl_ms : lease->term.ttl_ms, now_ms);
    if (*ttl_ms == 0)
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "max_hold leaves no time for a renewal");
    return HF_OK;
}

/* The status: first the state of the lease decides, then the store's answer. `before_ms`: the ttl
 * that it had. */
static hf_status judge(struct hfi_store *store, hf_lease *handle, bool given_up, hf_status status,
                       int64_t before_ms, const hf_error *inner, hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;

    if (hfi_lease_lock(handle, &lease, &next) != HF_OK)
        return hfi_error_set(err, HF_INVALID, 0, "lease: it was released meanwhile");
    if (hfi_lease_lost(lease))
        status = HF_LOST;
    else if (status == HF_LOST)
        status = HF_UNKNOWN; /* it is being converted */
    else if (given_up) {
        lease->term.state = HF_STATE_AT_RISK;
        hfi_lease_note(lease);
    }
    if (status == HF_INVALID) /* the store refuses this ttl: later renewals must not ask for it */
        lease->term.ttl_ms = before_ms;
    status = status == HF_OK
                 ? hfi_ok(err)
                 : hfi_store_error(store, "renew", &lease->claim.name, status, inner, err);
    hfi_lease_unlock(lease, next);
    return status;
}

struct renew_call {
    struct hfi_task task;
    hf_lease *handle;
    struct hfi_shard *shard; /* which keeps the store open */
    int64_t ttl_ms, before_ms;
};

static void renew_late(void *memory, struct hfi_op *op)
{
    (void)op;
    hfi_batch_end(memory);
}

/* Prepare the renewal of one lease, which is locked and is not being renewed. */
static hf_status gather_one(struct renew_call *call, struct hfi_lease *lease,
                            struct hfi_batch **ret_batch, hf_error *err)
{
    int64_t ask_ms = call->ttl_ms;
    hf_status status = check(lease, &ask_ms, hfi_now_ms(), err);

    if (status != HF_OK)
        return status;
    *ret_batch = hfi_batch_new(lease->store, 1);
    if (!*ret_batch)
        return hfi_error_memory(err);
    call->before_ms = lease->term.ttl_ms;
    if (call->ttl_ms != 0 && call->ttl_ms != lease->term.ttl_ms) {
        /* Later renewals use this ttl too; and it is not passed on, as no local waiter has asked
         * for this ttl. */
        lease->term.ttl_ms = call->ttl_ms;
        lease->pass = false;
    }
    hfi_batch_add(*ret_batch, lease, ask_ms, hfi_now_ms());
    if (lease->timed) /* the keeper looks whether it is confirmed in time */
        hfi_idle_arm(lease, hfi_term_next(&lease->term, hfi_now_ms()).at_ms);
    hfi_keeper_busy(lease->store);
    return HF_OK;
}

/* Send it, unless a renewal of the lease is under way: then try again when that may have ended. */
static hf_status renew_begin(struct hfi_task *task, struct renew_call *call)
{
    struct hfi_batch *batch = NULL;
    struct hfi_lease *lease;
    struct hfi_op *op;
    hf_status status = lock_quiet(call->handle, task->call == NULL, &lease);

    if (status == HF_BUSY) {
        task->state = 0;
        return hfi_task_pause(task, hfi_now_ms() + AGAIN_MS, HFI_CHILD_CLEANUP);
    }
    if (status != HF_OK)
        return hfi_lease_refuse(status, &task->error);
    status = gather_one(call, lease, &batch, &task->error);
    hfi_lease_unlock(lease, NULL);
    if (status != HF_OK)
        return status;

    op = hfi_task_op(task, HFI_OP_RENEW);
    if (!op) {
        hfi_batch_end(batch);
        return hfi_error_memory(&task->error);
    }
    op->u.renew.items = batch->items;
    op->u.renew.count = batch->count;
    hfi_task_keep(task, batch, renew_late);
    return hfi_task_submit(task, HFI_NEVER, HFI_CHILD_CLEANUP);
}

static hf_status renew_step(struct hfi_task *task, hf_status got)
{
    struct renew_call *call = hfi_container(task, struct renew_call, task);
    struct hfi_batch *batch;
    bool given_up = task->state > 0 && task->child.given_up;
    hf_error inner = task->child.error;

    if (task->state == 0 && got != HF_OK) /* no memory for the pause */
        return hfi_error_set(&task->error, got, 0, "%s", hf_status_text(got));
    if (task->state++ == 0)
        return renew_begin(task, call);

    if (!given_up) {
        batch = hfi_task_take(task);
        if (got != HF_OK)
            batch->items[0].status = got;
        else if (task->child.op) /* the op has ended, and its text is about the refused lease */
            inner = task->child.op->error;
        got = batch->items[0].status;
        hfi_batch_end(batch);
    }
    return judge(task->store, call->handle, given_up, got, call->before_ms, &inner, &task->error);
}

static void renew_free(struct hfi_task *task)
{
    struct renew_call *call = hfi_container(task, struct renew_call, task);

    hfi_shard_leave(call->shard);
    hfi_free(call);
}

static hf_status renew_init(struct renew_call *call, hf_lease *handle, int64_t ttl_ms,
                            hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_lease_enter_store(handle, &store, &call->shard, err);

    if (status != HF_OK)
        return status;
    hfi_task_init(&call->task, store, renew_step);
    call->task.free = renew_free;
    call->handle = handle;
    call->ttl_ms = ttl_ms;
    call->before_ms = 0;
    return HF_OK;
}

hf_status hf_renew(hf_lease *handle, int64_t ttl_ms, hf_error *err)
{
    struct renew_call call;
    hf_status status = renew_init(&call, handle, ttl_ms, err);

    if (status != HF_OK)
        return status;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    hfi_shard_leave(call.shard);
    return status;
}

hf_status hf_renew_async(hf_lease *handle, int64_t ttl_ms, hf_done_fn *done, void *arg,
                         hf_op **ret_op, hf_error *err)
{
    struct renew_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = renew_init(call, handle, ttl_ms, err);
    if (status == HF_OK) {
        status = hfi_task_begin(&call->task, done, arg, ret_op, err);
        if (status == HF_OK)
            return HF_OK;
        hfi_shard_leave(call->shard);
    }
    hfi_free(call);
    return status;
}
