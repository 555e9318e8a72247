/* SPDX-License-Identifier: MIT */
/*
 * Waiting until a versioned cell changes, across processes: the waiting thread sleeps on one of a
 * few futexes in the control file, chosen by the hash of the name, and reads the cell whenever that
 * futex is woken.
 *
 * A writer signals in two steps: it increments the futex word under the mutex of the cells, before
 * the commit, and wakes the sleepers after it has unlocked. A waiter that sees the new number and
 * reads the cell waits for the mutex, and so sees the commit. A waiter that read the cell before
 * finds that the number has changed, and does not go to sleep. If a writer is killed between the
 * two steps, the number has changed: once a second a sleeper compares it without being woken, as a
 * waiting acquire does (wait.c). It then also notices if the wall clock, by which a ttl ends, has
 * been set.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"
#include "util/futex.h"

#include <limits.h>

static _Atomic uint32_t *futex_of(struct lmdb_directory *d, uint64_t hash)
{
    return &d->header->cell_futexes[hash % LMDB_CELL_FUTEXES];
}

_Atomic uint32_t *lmdb_cell_futex(struct lmdb_directory *d, uint64_t hash)
{
    _Atomic uint32_t *futex = futex_of(d, hash);

    atomic_fetch_add(futex, 1);
    return futex;
}

bool lmdb_op_take(struct lmdb_directory *d, struct hfi_op *op)
{
    bool mine;

    pthread_mutex_lock(&d->local);
    mine = !lmdb_op_of(op)->taken;
    lmdb_op_of(op)->taken = true;
    pthread_mutex_unlock(&d->local);
    return mine;
}

/* When to read the clocks again. */
static int64_t wake_ms(int64_t until_ms, int64_t end_ms)
{
    int64_t now_ms = hfi_now_ms(), wake = hfi_after_ms(now_ms, LMDB_HEARTBEAT_MS), left_ms;

    if (end_ms != HFI_NEVER) {
        left_ms = end_ms - lmdb_wall_us() / 1000;
        wake = left_ms < LMDB_HEARTBEAT_MS ? now_ms + (left_ms > 0 ? left_ms : 0) : wake;
    }
    return wake < until_ms ? wake : until_ms;
}

/* Sleep until the futex is woken, the ttl ends, or it is time to return. */
static void sleep_on(_Atomic uint32_t *futex, uint32_t heard, const struct hfi_op *op,
                     int64_t until_ms, int64_t end_ms)
{
    while (atomic_load(futex) == heard && !atomic_load(&op->finished) && hfi_now_ms() < until_ms &&
           (end_ms == HFI_NEVER || lmdb_wall_us() / 1000 < end_ms))
        hfi_futex_wait(futex, heard, wake_ms(until_ms, end_ms), true);
}

void lmdb_cell_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms)
{
    struct lmdb_directory *d = store->directory;
    _Atomic uint32_t *futex = futex_of(d, op->u.cell.name.hash[0]);
    uint64_t version = 0;
    int64_t end_ms;
    hf_error err = { .status = HF_OK };
    hf_status status;
    uint32_t heard;

    while (!atomic_load(&op->finished) && hfi_now_ms() < until_ms) {
        heard = atomic_load(futex); /* before the cell is read */
        status = lmdb_cell_look(d, &op->u.cell.name, op->deadline_ms, &version, &end_ms, &err);
        if (status != HF_OK || version != op->u.cell.version) {
            if (lmdb_op_take(d, op)) {
                op->u.cell.ret_version = version;
                op->error = err;
                hfi_op_finish(op, status);
            }
            return;
        }
        sleep_on(futex, heard, op, until_ms, end_ms);
    }
}

/* The store knows nothing of this wait. Every thread that sleeps on this futex wakes, checks, and
 * sleeps again. */
void lmdb_cell_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status)
{
    struct lmdb_directory *d = store->directory;
    uint64_t hash = op->u.cell.name.hash[0];

    if (!lmdb_op_take(d, op))
        return;
    hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    hfi_op_finish(op, status);
    hfi_futex_wake(lmdb_cell_futex(d, hash), INT_MAX, true);
}
