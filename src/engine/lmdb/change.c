/* SPDX-License-Identifier: MIT */
/*
 * "Has anything changed?" One counter for the whole store, incremented by every transaction that
 * wrote; watchers sleep on it. Writers make a futex call only while there are watchers.
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
 * After the mutex was freed. A watcher counts itself, then reads the number; we wrote the
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

/* Callers see the counter plus one, because 0 means "from now on". */
hf_status lmdb_wait_change(void *self, uint64_t *seq, int64_t until_ms, const _Atomic int *stop,
                           hf_error *err)
{
    struct lmdb_store *store = self;
    struct lmdb_directory *d = store->directory;
    struct lmdb_header *h = d->header;
    struct lmdb_slot *s = lmdb_slot(d, d->slot);
    uint32_t seen = *seq ? (uint32_t)(*seq - 1) : atomic_load(&h->change_seq), now;

    atomic_fetch_add(&s->watching, 1);
    atomic_fetch_add(&h->change_watchers, 1);
    for (;;) {
        now = atomic_load(&h->change_seq);
        if (now != seen || (stop && atomic_load(stop)) || hfi_now_ms() >= until_ms)
            break;
        hfi_futex_wait(&h->change_seq, seen, until_ms, true);
    }
    atomic_fetch_sub(&h->change_watchers, 1);
    atomic_fetch_sub(&s->watching, 1);

    *seq = (uint64_t)now + 1;
    if (now != seen)
        return HF_OK;
    if (stop && atomic_load(stop))
        return hfi_error_set(err, HF_CANCELLED, 0, "%s", hf_status_text(HF_CANCELLED));
    return hfi_error_set(err, HF_TIMEOUT, 0, "nothing changed");
}

void lmdb_stop_wait(void *self)
{
    struct lmdb_store *store = self;

    hfi_futex_wake(&store->directory->header->change_seq, INT_MAX, true);
}
