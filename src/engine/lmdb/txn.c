/* SPDX-License-Identifier: MIT */
/*
 * Transactions: mutex, LMDB, body, commit, then the futexes.
 *
 * The order matters if a process is killed in between. The decisions of a body take effect when
 * mdb_txn_commit() returns, and not before. Futex words and mail are written under the mutex after
 * the commit: a process that is killed in between leaves EOWNERDEAD, after which every waiter
 * checks its position itself. Only the futex calls come after the mutex is free: a process that is
 * killed there was watched by the waiters that it should have woken (watch.c).
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define LOOK_AT_SHAPE 1024 /* transactions between two checks whether most of the file is free */
#define RETRIES_MAX   64   /* a body is run again only a few times; a bug must not loop for ever */

static hf_status run(struct lmdb_directory *d, bool write, struct lmdb_patience patience,
                     lmdb_body *body, lmdb_after *after, void *arg, hf_error *err);
static int attempt(struct lmdb_txn *t, lmdb_body *body, void *arg);
static bool repairable(int rc);
static int begin(struct lmdb_txn *t);
static void deliver_all(struct lmdb_txn *t);
static void ring(struct lmdb_txn *t);
static hf_status repair(struct lmdb_txn *t, int rc, hf_error *err);

hf_status lmdb_run(struct lmdb_directory *d, bool write, int64_t deadline_ms, lmdb_body *body,
                   lmdb_after *after, void *arg, hf_error *err)
{
    return run(d, write, (struct lmdb_patience){ .until_ms = deadline_ms }, body, after, arg, err);
}

hf_status lmdb_run_op(struct lmdb_store *store, struct hfi_op *op, bool write, lmdb_body *body,
                      lmdb_after *after, void *arg)
{
    hf_status status =
        run(store->directory, write, lmdb_patience_of(op), body, after, arg, &op->error);

    lmdb_op_of(op)->put_off = op->hurried && status == LMDB_NOT_NOW;
    return status;
}

struct lmdb_patience lmdb_patience_of(const struct hfi_op *op)
{
    return (struct lmdb_patience){ .until_ms = op->deadline_ms,
                                   .since_ms = ((const struct lmdb_op *)op->room)->since_ms,
                                   .tries = op->kind == HFI_OP_ACQUIRE && !op->may_wait,
                                   .never = op->hurried };
}

void lmdb_put_off(struct lmdb_store *store, struct hfi_op *op)
{
    lmdb_op_of(op)->put_off = false;
    lmdb_op_of(op)->since_ms = hfi_now_ms();
    store->host->resume(store->host, op);
}

void lmdb_finish(struct lmdb_store *store, struct hfi_op *op, hf_status status)
{
    if (__builtin_expect(lmdb_op_of(op)->put_off, 0))
        lmdb_put_off(store, op);
    else
        hfi_op_finish(op, status);
}

static hf_status run(struct lmdb_directory *d, bool write, struct lmdb_patience patience,
                     lmdb_body *body, lmdb_after *after, void *arg, hf_error *err)
{
    struct lmdb_txn t;
    hf_status status = HF_INTERNAL;
    int rc = 0;

    t.directory = d;
    t.write = write;
    t.wakes = t.few;
    t.wake_room = LMDB_WAKES_INLINE;
    for (int i = 0; i < RETRIES_MAX; i++) {
        t.wake_count = t.futex_count = 0;
        status = lmdb_lock_for(d, &patience, err);
        if (status != HF_OK)
            break;
        patience.never = false; /* what follows a repair, which is rare, may take its time */

        rc = attempt(&t, body, arg);
        if (rc == 0 || rc == LMDB_STOP) {
            if (after)
                after(&t, arg);
            if (rc == 0)
                deliver_all(&t);
            lmdb_unlock(d);
            ring(&t);
            break;
        }
        status = repairable(rc) ? repair(&t, rc, err) : HF_OK;
        lmdb_unlock(d);
        if (status != HF_OK)
            break;
        if (rc == LMDB_E_DEAD) {
            /* Terminates: each time there is one dead process less. */
            status = lmdb_recover(d, t.dead, lmdb_slot(d, t.dead)->generation, err);
            if (status != HF_OK)
                break;
            i--;
        } else if (!repairable(rc)) {
            status = lmdb_failed(d, rc, err);
            break;
        }
        status = HF_INTERNAL;
    }
    if (t.wakes != t.few)
        hfi_free(t.wakes);
    return status;
}

/* Can this be repaired, so that the body can be run again? */
static bool repairable(int rc)
{
    return rc == MDB_MAP_FULL || rc == MDB_MAP_RESIZED || lmdb_is_corrupt(rc);
}

static int attempt(struct lmdb_txn *t, lmdb_body *body, void *arg)
{
    int rc;

    if (!LMDB_GUARD(t->directory))
        return LMDB_E_CORRUPT;
    rc = begin(t);
    if (rc != 0)
        return rc;
    rc = body(t, arg);
    if (rc != 0) {
        mdb_txn_abort(t->mdb);
        return rc;
    }
    if (!t->write) {
        mdb_txn_abort(t->mdb);
        return 0;
    }
    rc = mdb_txn_commit(t->mdb);
    if (rc == 0)
        lmdb_pages_committed(t->directory);
    return rc;
}

static int begin(struct lmdb_txn *t)
{
    t->read_ms = 0;
    if (!lmdb_pages_check(t->directory))
        return LMDB_E_CORRUPT;
    return mdb_txn_begin(t->directory->env, NULL, t->write ? 0 : MDB_RDONLY, &t->mdb);
}

static void deliver_all(struct lmdb_txn *t)
{
    for (size_t i = 0; i < t->wake_count; i++) {
        _Atomic uint32_t *futex = lmdb_deliver(t->directory, &t->wakes[i]);

        if (!futex)
            continue;
        if (t->futex_count == LMDB_WAKES_INLINE)
            hfi_futex_wake(futex, INT_MAX, true); /* many at once: after a death, or when a writer
                                                   * has left */
        else
            t->futexes[t->futex_count++] = futex;
    }
    if (!t->write)
        return;
    lmdb_changed(t->directory);
    if (++t->directory->writes % LOOK_AT_SHAPE == 0)
        lmdb_compact(t->directory);
}

static void ring(struct lmdb_txn *t)
{
    for (size_t i = 0; i < t->futex_count; i++)
        hfi_futex_wake(t->futexes[i], INT_MAX, true);
    if (t->write)
        lmdb_tell_changed(t->directory);
}

int lmdb_wake_later(struct lmdb_txn *t, struct lmdb_wake wake)
{
    if (t->wake_count == t->wake_room) {
        size_t room = t->wake_room * 2;
        struct lmdb_wake *more = hfi_malloc(room * sizeof *more);

        if (!more)
            return ENOMEM;
        memcpy(more, t->wakes, t->wake_count * sizeof *more);
        if (t->wakes != t->few)
            hfi_free(t->wakes);
        t->wakes = more;
        t->wake_room = room;
    }
    t->wakes[t->wake_count++] = wake;
    return 0;
}

/* Under the mutex, with no transaction open. */
static hf_status repair(struct lmdb_txn *t, int rc, hf_error *err)
{
    struct lmdb_directory *d = t->directory;

    if (rc == MDB_MAP_RESIZED)
        rc = lmdb_leases_remap(d); /* another process made it larger */
    else if (rc == MDB_MAP_FULL)
        rc = lmdb_leases_grow(d);
    if (lmdb_is_corrupt(rc))
        return lmdb_rebuild(d, err);
    return rc == 0 ? HF_OK : lmdb_failed(d, rc, err);
}

hf_status lmdb_failed(struct lmdb_directory *d, int rc, hf_error *err)
{
    switch (rc) {
    case LMDB_E_CORRUPT:
        return hfi_error_set(err, HF_CORRUPT, 0, "%s: the lease file is damaged", d->path);
    case LMDB_E_COLLISION:
        return hfi_error_set(err, HF_INTERNAL, 0,
                             "another name in use has the same hash: choose another name");
    case LMDB_E_TOKENS:
        return hfi_error_set(err, HF_FULL, 0, "%s: no fencing token could be reserved", d->path);
    case LMDB_E_DEAD:
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "%s: the leases of a dead process could not be freed", d->path);
    case ENOMEM:
        return hfi_error_memory(err);
    case ENOSPC:
    case EDQUOT:
    case MDB_MAP_FULL:
        return hfi_error_set(err, HF_FULL, rc, "%s: no space left for the lease file", d->path);
    default:
        return hfi_error_set(err, HF_INTERNAL, rc, "%s: %s", d->path, mdb_strerror(rc));
    }
}
