/* SPDX-License-Identifier: MIT */
/*
 * Waiting until a versioned cell changes, across processes: the waiting thread sleeps on one of a
 * few futexes in the control file, by the hash of the name (a bell), and looks whenever it rings.
 *
 * A writer rings twice: the number goes up under the mutex of the cells, before the commit, and
 * sleepers are woken when the mutex is free. Who sees the new number and looks waits for the mutex
 * and so sees the commit; who looked before finds that the number is not what it was and does not
 * go to sleep. A writer that is killed between the two has raised the number: once a second a
 * sleeper compares it without being woken, as a waiting acquire does (wait.c). At the same time it
 * sees whether the wall clock, by which a ttl ends, has been set.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"
#include "util/futex.h"

#include <limits.h>

static _Atomic uint32_t *bell_of(struct lmdb_depot *d, uint64_t hash)
{
    return &d->header->cell_bells[hash % LMDB_CELL_BELLS];
}

_Atomic uint32_t *lmdb_cell_bell(struct lmdb_depot *d, uint64_t hash)
{
    _Atomic uint32_t *bell = bell_of(d, hash);

    atomic_fetch_add(bell, 1);
    return bell;
}

/* Be the one who finishes it: the waiting thread, or who cancels it. */
static bool take(struct lmdb_depot *d, struct hfi_op *op)
{
    bool mine;

    pthread_mutex_lock(&d->local);
    mine = !op->engine[LMDB_OP_TAKEN];
    op->engine[LMDB_OP_TAKEN] = op;
    pthread_mutex_unlock(&d->local);
    return mine;
}

/* When to look at the clocks again. */
static int64_t wake_ms(int64_t until_ms, int64_t end_ms)
{
    int64_t now_ms = hfi_now_ms(), wake = hfi_after_ms(now_ms, LMDB_HEARTBEAT_MS), left_ms;

    if (end_ms != HFI_NEVER) {
        left_ms = end_ms - lmdb_wall_us() / 1000;
        wake = left_ms < LMDB_HEARTBEAT_MS ? now_ms + (left_ms > 0 ? left_ms : 0) : wake;
    }
    return wake < until_ms ? wake : until_ms;
}

/* Sleep until the bell has rung, the ttl ends, or it is time to return. */
static void sleep_on(_Atomic uint32_t *bell, uint32_t heard, const struct hfi_op *op,
                     int64_t until_ms, int64_t end_ms)
{
    while (atomic_load(bell) == heard && !atomic_load(&op->finished) && hfi_now_ms() < until_ms &&
           (end_ms == HFI_NEVER || lmdb_wall_us() / 1000 < end_ms))
        hfi_futex_wait(bell, heard, wake_ms(until_ms, end_ms), true);
}

void lmdb_cell_wait(struct hfi_conn *conn, struct hfi_op *op, int64_t until_ms)
{
    struct lmdb_depot *d = conn->depot;
    _Atomic uint32_t *bell = bell_of(d, op->u.cell.name.hash[0]);
    uint64_t version = 0;
    int64_t end_ms;
    hf_error err = { .status = HF_OK };
    hf_status status;
    uint32_t heard;

    while (!atomic_load(&op->finished) && hfi_now_ms() < until_ms) {
        heard = atomic_load(bell); /* before the look */
        status = lmdb_cell_look(d, &op->u.cell.name, op->deadline_ms, &version, &end_ms, &err);
        if (status != HF_OK || version != op->u.cell.version) {
            if (take(d, op)) {
                op->u.cell.ret_version = version;
                op->error = err;
                hfi_op_finish(op, status);
            }
            return;
        }
        sleep_on(bell, heard, op, until_ms, end_ms);
    }
}

/* Nothing of it is in the store. The bell rings for all who sleep on it; they look, and sleep on. */
void lmdb_cell_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    struct lmdb_depot *d = conn->depot;
    uint64_t hash = op->u.cell.name.hash[0];

    if (!take(d, op))
        return;
    hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    hfi_op_finish(op, status);
    hfi_futex_wake(lmdb_cell_bell(d, hash), INT_MAX, true);
}
