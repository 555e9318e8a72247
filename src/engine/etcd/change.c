/* SPDX-License-Identifier: MIT */
/*
 * Waiting for any change of a claim: HFI_OP_CHANGE_WAIT, a stream on all of them. The change number is etcd's
 * revision, so nothing is missed between two waits, nor while there is no stream. With the lock.
 *
 *          seq is 0                   the stream is created, and has caught up
 *   ASK ----------------> WATCH ------------------------------------------------> (changed, or cancelled)
 *    ^  the number of now   |
 *    +----------------------+ the stream ended; check that the store answers, then continue from
 *    the same revision
 *
 * cancel(HF_TIMEOUT) ends it at once only if the stream has caught up. Before that we do not know
 * whether anything changed, for ANSWER_MS at most.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#define CATCH_UP_MS \
    500                   /* etcd reports earlier events with a delay after it has created a
                           * stream */
#define ANSWER_MS    4000 /* less than core waits for an op */
#define FAILURES_MAX 10

/* A waiter for any change; in store->changes. */
struct etcd_change {
    struct hfi_list listed;
    struct hfi_op *op;
    struct etcd_call *call;   /* ASK */
    struct etcd_watch *watch; /* WATCH; NULL: no stream was available; tried again at `again_ms` */
    int64_t again_ms;
    int64_t caught_up_ms; /* when the stream has reported all earlier events; HFI_NEVER: not created
                       * yet */
    unsigned failures;    /* streams that ended */
    hf_status stop;       /* HF_OK, or the status to end with when it has caught up, ... */
    int64_t stop_ms;      /* ... or at the latest then */
};

static void ask(struct etcd_store *store, struct etcd_change *change);
static void watch_from(struct etcd_store *store, struct etcd_change *change);

static void end_change(struct etcd_store *store, struct etcd_change *change, hf_status status,
                       const hf_error *err)
{
    struct hfi_op *op = change->op;
    hf_error nothing;

    if (change->watch)
        etcd_watch_close(store, change->watch);
    hfi_list_remove(&change->listed);
    if (change->call)
        change->call->data = NULL; /* ignore its answer */
    hfi_free(change);
    if (status == HF_TIMEOUT) {
        hfi_error_set(&nothing, status, 0, "nothing changed");
        err = &nothing;
    }
    etcd_finish(store, op, status, err);
}

/* The store could not be asked. A wait that was to end anyway has missed nothing: its number is
 * still valid. */
static void fail_change(struct etcd_store *store, struct etcd_change *change, hf_status status,
                        const hf_error *err)
{
    if (change->stop != HF_OK && change->op->u.change.seq != 0)
        end_change(store, change, change->stop, NULL);
    else
        end_change(store, change, status, err);
}

void etcd_change_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct etcd_store *store = self;
    struct etcd_change *change = etcd_op(op)->change;
    int64_t now_ms = hfi_now_ms();

    if (!change)
        return; /* finished meanwhile */
    if (status != HF_TIMEOUT || change->caught_up_ms <= now_ms) {
        end_change(store, change, status, NULL);
        return;
    }
    change->stop = status;
    change->stop_ms = now_ms + ANSWER_MS;
}

/* ---- the stream --------------------------------------------------------------------------------- */

static void watch_from(struct etcd_store *store, struct etcd_change *change)
{
    struct etcd_key from, to;

    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    change->caught_up_ms = HFI_NEVER;
    change->again_ms = etcd_watch_changes(store, change, &from, &to,
                                          (int64_t)change->op->u.change.seq, &change->watch)
                           ? HFI_NEVER
                           : hfi_now_ms() + ETCD_POLL_MS;
}

void etcd_change_created(struct etcd_change *change, int64_t revision)
{
    bool behind = revision > (int64_t)change->op->u.change.seq;

    change->caught_up_ms = hfi_now_ms() + (behind ? CATCH_UP_MS : 0);
}

void etcd_change_told(struct etcd_store *store, struct etcd_change *change, int64_t revision)
{
    change->op->u.change.seq = (uint64_t)revision;
    end_change(store, change, HF_OK, NULL);
}

void etcd_change_unwatched(struct etcd_store *store, struct etcd_change *change,
                           const hf_error *why)
{
    change->watch = NULL;
    change->caught_up_ms = HFI_NEVER;
    if (++change->failures > FAILURES_MAX)
        fail_change(store, change, HF_UNAVAILABLE, why);
    else
        ask(store, change);
}

/* ---- the number of now --------------------------------------------------------------------------- */

static void number_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                        const hf_error *err)
{
    struct etcd_change *change = call->data;
    struct etcd_store *store = call->store;

    if (!change)
        return; /* cancelled */
    change->call = NULL;
    if (outcome != HFI_ANSWERED) {
        fail_change(store, change, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    if (change->op->u.change.seq == 0) {
        change->op->u.change.seq = (uint64_t)etcd_revision(reply);
        if (change->stop != HF_OK) { /* nothing can have changed since now */
            end_change(store, change, change->stop, NULL);
            return;
        }
    }
    watch_from(store, change);
}

static void ask(struct etcd_store *store, struct etcd_change *change)
{
    change->call = etcd_call_probe(store, number_read);
    if (!change->call) {
        fail_change(store, change, HF_NO_MEMORY, NULL);
        return;
    }
    change->call->data = change;
    etcd_call_send(change->call);
}

void etcd_change_wait(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_change *change = hfi_calloc(1, sizeof *change);

    if (!change) {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    change->op = op;
    change->stop = HF_OK;
    change->again_ms = change->caught_up_ms = HFI_NEVER;
    etcd_op(op)->change = change;
    hfi_list_append(&store->changes, &change->listed);
    if (op->u.change.seq == 0)
        ask(store, change);
    else
        watch_from(store, change);
}

/* ---- time ------------------------------------------------------------------------------------------- */

/* When this wait needs attention. */
static int64_t change_due_ms(const struct etcd_change *change)
{
    int64_t due_ms = change->again_ms;

    if (change->stop != HF_OK) {
        due_ms = change->stop_ms < due_ms ? change->stop_ms : due_ms;
        due_ms = change->caught_up_ms < due_ms ? change->caught_up_ms : due_ms;
    }
    return due_ms;
}

int64_t etcd_changes_next_ms(const struct etcd_store *store)
{
    int64_t next_ms = HFI_NEVER;

    for (const struct hfi_list *at = store->changes.next; at != &store->changes; at = at->next) {
        int64_t due_ms = change_due_ms(hfi_container(at, struct etcd_change, listed));

        next_ms = due_ms < next_ms ? due_ms : next_ms;
    }
    return next_ms;
}

void etcd_changes_tick(struct etcd_store *store, int64_t now_ms)
{
    struct hfi_list *next;
    hf_error err;

    for (struct hfi_list *at = store->changes.next; at != &store->changes; at = next) {
        struct etcd_change *change = hfi_container(at, struct etcd_change, listed);

        next = at->next;
        if (change_due_ms(change) > now_ms)
            continue;
        if (change->stop == HF_OK || (change->stop_ms > now_ms && change->caught_up_ms > now_ms)) {
            watch_from(store, change);
        } else {
            hfi_error_set(&err, HF_UNAVAILABLE, 0, "no answer in time");
            fail_change(store, change, HF_UNAVAILABLE, &err);
        }
    }
}
