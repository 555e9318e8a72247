/* SPDX-License-Identifier: MIT */
/*
 * Waiting for any change of the store: HFI_OP_CHANGE_WAIT. Every transaction that wrote increments
 * one counter of the whole store, and a waiting thread sleeps on it. Writers make a futex call only
 * while there is such a thread.
 *
 * Once a second a waiting thread checks without being woken, as in cell_wait.c: a writer may be
 * killed between the change and the wake-up, and a cancel, which must not change the counter, may
 * come between the check and the sleep.
 *
 * Core sees the counter plus one, because 0 means "from now on".
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <limits.h>

/* Under the mutex, so nobody else increments it at the same time. */
void lmdb_changed(struct lmdb_directory *d)
{
    struct lmdb_header *h = d->header;
    uint32_t seq = atomic_load_explicit(&h->change_seq, memory_order_relaxed);

    atomic_store_explicit(&h->change_seq, seq + 1, memory_order_relaxed);
}

/*
 * After the mutex was freed. A waiting thread counts itself, then reads the number; we wrote the
 * number, then read the count: with a full fence on both sides one of us sees the other.
 * Not under the mutex, because the fence waits until all stores of the transaction are visible.
 */
void lmdb_tell_changed(struct lmdb_directory *d)
{
    struct lmdb_header *h = d->header;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&h->change_watchers, memory_order_relaxed) > 0)
        hfi_futex_wake(&h->change_seq, INT_MAX, true);
}

static void finish_changed(struct lmdb_directory *d, struct hfi_op *op, uint32_t now)
{
    if (!lmdb_op_take(d, op))
        return;
    op->u.change.seq = (uint64_t)now + 1;
    hfi_op_finish(op, HF_OK);
}

void lmdb_change_begin(struct lmdb_store *store, struct hfi_op *op)
{
    struct lmdb_directory *d = store->directory;
    uint32_t now = atomic_load(&d->header->change_seq);

    if (op->u.change.seq == 0)
        op->u.change.seq = (uint64_t)now + 1;
    else if (now != (uint32_t)(op->u.change.seq - 1))
        finish_changed(d, op, now);
}

void lmdb_change_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms)
{
    struct lmdb_directory *d = store->directory;
    struct lmdb_header *h = d->header;
    struct lmdb_slot *s = lmdb_slot(d, d->slot);
    uint32_t seen = (uint32_t)(op->u.change.seq - 1), now;
    int64_t now_ms;

    atomic_fetch_add(&s->watching, 1);
    atomic_fetch_add(&h->change_watchers, 1);
    while ((now = atomic_load(&h->change_seq)) == seen && !atomic_load(&op->finished) &&
           (now_ms = hfi_now_ms()) < until_ms) {
        int64_t look_ms = hfi_after_ms(now_ms, LMDB_HEARTBEAT_MS);

        hfi_futex_wait(&h->change_seq, seen, look_ms < until_ms ? look_ms : until_ms, true);
    }
    atomic_fetch_sub(&h->change_watchers, 1);
    atomic_fetch_sub(&s->watching, 1);
    if (now != seen)
        finish_changed(d, op, now);
}

/* The store knows nothing of this wait. Every thread that waits for a change wakes, checks, and
 * sleeps again. */
void lmdb_change_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status)
{
    struct lmdb_directory *d = store->directory;

    if (!lmdb_op_take(d, op))
        return;
    hfi_error_set(&op->error, status, 0, "%s",
                  status == HF_TIMEOUT ? "nothing changed" : hf_status_text(status));
    hfi_op_finish(op, status);
    hfi_futex_wake(&d->header->change_seq, INT_MAX, true);
}
