/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells, in a durable LMDB environment of their own under a mutex of their
 * own: an fsync of a cell stalls no lock. Versions come from one counter, so that a cell
 * which was deleted and made again never shows an old version.
 *
 * A ttl ends by the wall clock, which all processes of the machine share and which goes on
 * while it is switched off. An expired record counts as absent, and the process that finds it
 * removes it before it reports that: so a clock that is set back never restores a cell that was
 * reported as absent. Expired cells that nobody reads are swept, a few with every write.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_LOOKS 4 /* records that each write checks */

/* A write, and the futexes to wake after it. */
struct change {
    /* an item may expire and be made again */
    _Atomic uint32_t *futexes[2 * HF_CELLS_MAX + SWEEP_LOOKS];
    unsigned futex_count;
    bool commit; /* there is something to write */
};

int64_t lmdb_wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t wall_ms(void)
{
    return lmdb_wall_us() / 1000;
}

/* ---- the file ---------------------------------------------------------------------- */

static hf_status failed(struct lmdb_directory *d, int rc, hf_error *err);

static hf_status open_cells(struct lmdb_directory *d, hf_error *err)
{
    char path[64];
    MDB_txn *txn;
    bool created;
    int fd, rc;
    hf_status status = lmdb_file(d, "cells.mdb", &fd, &created, err);

    if (status != HF_OK)
        return status;
    rc = lmdb_cells_map(&d->cells_view, fd);
    if (rc != 0) {
        lmdb_cells_close(d);
        return failed(d, rc, err);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!LMDB_CELLS_GUARD(d)) {
        lmdb_cells_close(d);
        return failed(d, LMDB_E_CORRUPT, err);
    }
    rc = mdb_env_create(&d->cells);
    if (rc == 0) {
        mdb_env_set_userctx(d->cells, d);
        mdb_env_set_assert(d->cells, lmdb_pages_assert);
    }
    if (rc == 0)
        rc = mdb_env_set_mapsize(
            d->cells, LMDB_CELLS_MAP); /* not a writable map: a full disk is an error code */
    if (rc == 0)
        rc = mdb_env_open(d->cells, path, MDB_NOSUBDIR | MDB_NOLOCK, d->file_mode);
    if (rc == 0)
        lmdb_close_on_exec(d->cells);
    if (rc == 0)
        rc = mdb_txn_begin(d->cells, NULL, 0, &txn);
    if (rc == 0) {
        rc = mdb_dbi_open(txn, NULL, 0, &d->cells_dbi);
        mdb_txn_abort(txn);
    }
    if (rc == 0)
        return HF_OK;
    lmdb_cells_close(d);
    return hfi_error_set(err, lmdb_is_corrupt(rc) ? HF_CORRUPT : HF_UNAVAILABLE, rc,
                         "%s/cells.mdb: %s", d->path, mdb_strerror(rc));
}

void lmdb_cells_close(struct lmdb_directory *d)
{
    if (d->cells)
        mdb_env_close(d->cells);
    d->cells = NULL;
    lmdb_cells_unmap(&d->cells_view);
}

static hf_status failed(struct lmdb_directory *d, int rc, hf_error *err)
{
    if (rc == MDB_MAP_FULL || rc == ENOSPC)
        return hfi_error_set(err, HF_FULL, rc, "%s/cells.mdb is full", d->path);
    if (lmdb_is_corrupt(rc))
        return hfi_error_set(
            err, HF_CORRUPT, rc,
            "%s/cells.mdb is damaged: restore it, or move it away to start with an empty one",
            d->path);
    return lmdb_failed(d, rc, err);
}

/* Lock, and open on first use. Not HF_OK: nothing is locked. */
static hf_status enter(struct lmdb_directory *d, const struct lmdb_patience *patience,
                       hf_error *err)
{
    hf_status status = lmdb_lock_cells(d, patience, err);

    if (status != HF_OK || d->cells)
        return status;
    status = open_cells(d, err);
    if (status != HF_OK)
        lmdb_unlock_cells(d);
    return status;
}

/* ---- transactions --------------------------------------------------------------------- */

/* `txn`: NULL in a read, which does not use LMDB. */
typedef int cells_body(struct lmdb_directory *d, MDB_txn *txn, void *arg);

static int attempt(struct lmdb_directory *d, bool write, cells_body *body, void *arg)
{
    MDB_txn *txn;
    int rc;

    if (!LMDB_CELLS_GUARD(d))
        return LMDB_E_CORRUPT;
    rc = lmdb_cells_begin(&d->cells_view, write);
    if (rc == 0 && !write)
        rc = body(d, NULL, arg);
    if (rc != 0 || !write)
        return rc;
    rc = mdb_txn_begin(d->cells, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    rc = body(d, txn, arg);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc == LMDB_STOP ? 0 : rc;
    }
    return mdb_txn_commit(txn); /* fsynced when it returns */
}

/* Under the mutex. A damaged file is closed, and the next call opens it again: it may have been
 * restored. */
static int run(struct lmdb_directory *d, bool write, cells_body *body, void *arg)
{
    int rc = attempt(d, write, body, arg);

    if (lmdb_is_corrupt(rc))
        lmdb_cells_close(d);
    return rc;
}

/* ---- records ------------------------------------------------------------------------ */

static MDB_val key_of(const uint64_t hash[2])
{
    return (MDB_val){ .mv_size = LMDB_KEY_NAME, .mv_data = (void *)(uintptr_t)hash };
}

/* The counter of versions; 0: the store is empty. Also learns whether its records have checksums. */
static int counter_get(struct lmdb_cells_view *v, uint64_t *ret_version)
{
    MDB_val key = { .mv_size = LMDB_CELL_COUNTER_LEN,
                    .mv_data = (void *)(uintptr_t)LMDB_CELL_COUNTER },
            value;
    int rc;

    *ret_version = 0;
    if (v->main.entries == 0) {
        v->sealed = true;
        return v->main.depth == 0 ? 0 : LMDB_E_CORRUPT;
    }
    rc = lmdb_cells_find(v, &key, &value);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
    return lmdb_cell_counter_parse(&value, ret_version, &v->sealed);
}

/* The record of this name; version 0: there is none. */
static int get(struct lmdb_directory *d, const struct hfi_name *name, struct lmdb_found *ret)
{
    struct lmdb_cells_view *v = &d->cells_view;
    MDB_val key = key_of(name->hash), value;
    uint64_t counter;
    int rc = v->sealed ? 0 : counter_get(v, &counter);

    *ret = (struct lmdb_found){ .end_ms = HFI_NEVER };
    if (rc == 0)
        rc = lmdb_cells_find(v, &key, &value);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    rc = lmdb_cell_parse(&key, &value, v->sealed, ret);
    if (rc != 0)
        return rc;
    if (ret->name_len != name->len || memcmp(ret->name, name->bytes, name->len) != 0)
        return LMDB_E_COLLISION;
    return 0;
}

static int del(struct lmdb_directory *d, MDB_txn *txn, const uint64_t hash[2])
{
    MDB_val key = key_of(hash);

    return lmdb_cells_around(&d->cells_view, &key) ? mdb_del(txn, d->cells_dbi, &key, NULL)
                                                   : LMDB_E_CORRUPT;
}

/* The version for the cells that this transaction writes. They may share it: versions of different cells are never compared. */
static int next_version(struct lmdb_directory *d, MDB_txn *txn, uint64_t *ret_version)
{
    int rc = counter_get(&d->cells_view, ret_version);

    if (rc == 0 && !d->cells_view.sealed)
        rc = lmdb_cells_audit(&d->cells_view);
    if (rc == 0 && !d->cells_view.sealed)
        rc = lmdb_cell_seal_all(txn, d->cells_dbi);
    return rc == 0 ? lmdb_cell_counter_put(txn, d->cells_dbi, ++*ret_version) : rc;
}

static int put(struct lmdb_directory *d, MDB_txn *txn, struct hfi_commit_item *item,
               uint64_t version, int64_t now_ms)
{
    struct lmdb_found record = { .version = version,
                                 .end_ms = item->ttl_ms ? now_ms + item->ttl_ms : HFI_NEVER,
                                 .name = item->name.bytes,
                                 .name_len = (uint16_t)item->name.len,
                                 .bytes = { .mv_size = item->len,
                                            .mv_data = (void *)(uintptr_t)item->bytes } };

    item->ret_version = version;
    return lmdb_cell_put(txn, d->cells_dbi, item->name.hash, &record);
}

static void will_change(struct lmdb_directory *d, struct change *change, uint64_t hash)
{
    change->commit = true;
    change->futexes[change->futex_count++] = lmdb_cell_futex(d, hash);
}

static bool is_item(const struct hfi_commit_op *commit, const uint64_t hash[2])
{
    for (size_t i = 0; i < commit->count; i++)
        if (memcmp(commit->items[i].name.hash, hash, LMDB_KEY_NAME) == 0)
            return true;
    return false;
}

/*
 * Check a few records from where the last write stopped, and remove the expired ones. It reads the
 * state before this transaction, so not the records that the transaction writes.
 */
static int sweep(struct lmdb_directory *d, MDB_txn *txn, struct change *change,
                 const struct hfi_commit_op *own, int64_t now_ms)
{
    struct lmdb_cells_view *v = &d->cells_view;
    uint64_t *at = d->header->cells_sweep, hash[2];
    MDB_val key = key_of(at), value;
    struct lmdb_cells_path path;
    struct lmdb_found found;
    int rc = lmdb_cells_from(v, &key, &path);

    for (int i = 0; rc == 0 && i <= SWEEP_LOOKS; i++) {
        rc = lmdb_cells_next(v, &path, &key, &value);
        if (rc != 0 || key.mv_size != LMDB_KEY_NAME)
            continue;
        memcpy(hash, key.mv_data, sizeof hash);
        if (i == SWEEP_LOOKS) {
            memcpy(at, hash, sizeof hash);
        } else if (!is_item(own, hash) && lmdb_cell_parse(&key, &value, v->sealed, &found) == 0 &&
                   found.end_ms <= now_ms) {
            will_change(d, change, hash[0]);
            rc = del(d, txn, hash);
        }
    }
    if (rc == MDB_NOTFOUND)
        memset(at, 0, LMDB_KEY_NAME); /* begin again at the first record next time */
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- reading ------------------------------------------------------------------------- */

/* The record has expired: remove it, so that it stays absent. Under the mutex. */
static int remove_body(struct lmdb_directory *d, MDB_txn *txn, void *arg)
{
    return del(d, txn, ((const struct hfi_name *)arg)->hash);
}

static int remove_ended(struct lmdb_directory *d, const struct hfi_name *name)
{
    _Atomic uint32_t *futex = lmdb_cell_futex(d, name->hash[0]);
    int rc = run(d, true, remove_body, (void *)(uintptr_t)name);

    hfi_futex_wake(futex, INT_MAX, true);
    return rc;
}

struct find_cell {
    const struct hfi_name *name;
    hf_status (*take)(const struct lmdb_found *found,
                      struct hfi_op *op); /* called while the record can be read; may be NULL */
    struct hfi_op *op;
    struct lmdb_found *found;
    hf_status status;
    bool ended;
};

static int look_body(struct lmdb_directory *d, MDB_txn *txn, void *arg)
{
    struct find_cell *l = arg;
    int rc = get(d, l->name, l->found);

    (void)txn;
    if (rc != 0 || !l->found->version)
        return rc;
    l->ended = l->found->end_ms <= wall_ms();
    if (l->take && !l->ended)
        l->status = l->take(l->found, l->op);
    return 0;
}

/* Find the record of a cell. */
static hf_status find_cell(struct lmdb_directory *d, struct find_cell *l,
                           const struct lmdb_patience *patience, hf_error *err)
{
    hf_status status = enter(d, patience, err);
    int rc;

    *l->found = (struct lmdb_found){ .end_ms = HFI_NEVER };
    if (status != HF_OK)
        return status;
    rc = run(d, false, look_body, l);
    if (rc == 0 && l->ended) {
        rc = remove_ended(d, l->name);
        *l->found = (struct lmdb_found){ .end_ms = HFI_NEVER };
    }
    status = rc == 0 ? l->status : failed(d, rc, err);
    lmdb_unlock_cells(d);
    return status;
}

static hf_status copy_out(const struct lmdb_found *found, struct hfi_op *op)
{
    size_t len = found->bytes.mv_size;
    int64_t left_ms = found->end_ms == HFI_NEVER ? -1 : found->end_ms - wall_ms();

    op->u.cell.ret_bytes = hfi_malloc(len ? len : 1);
    if (!op->u.cell.ret_bytes)
        return hfi_error_memory(&op->error);
    memcpy(op->u.cell.ret_bytes, found->bytes.mv_data, len);
    op->u.cell.ret_len = len;
    op->u.cell.ret_version = found->version;
    op->u.cell.ret_ttl_ms = found->end_ms != HFI_NEVER && left_ms < 0 ? 0 : left_ms;
    return HF_OK;
}

void lmdb_cell_read(struct lmdb_store *store, struct hfi_op *op)
{
    struct lmdb_found found = { .version = 0 };
    struct find_cell l = { .name = &op->u.cell.name, .take = copy_out, .op = op, .found = &found };
    struct lmdb_patience patience = lmdb_patience_of(op);
    hf_status status = find_cell(store->directory, &l, &patience, &op->error);

    lmdb_op_of(op)->put_off = op->hurried && status == LMDB_NOT_NOW;
    if (status == HF_OK && found.version == 0)
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no such cell");
    lmdb_finish(store, op, status);
}

hf_status lmdb_cell_look(struct lmdb_directory *d, const struct hfi_name *name, int64_t deadline_ms,
                         uint64_t *ret_version, int64_t *ret_end_ms, hf_error *err)
{
    struct lmdb_found found = { .version = 0 };
    struct find_cell l = { .name = name, .found = &found };
    hf_status status = find_cell(d, &l, &(struct lmdb_patience){ .until_ms = deadline_ms }, err);

    if (status == HF_OK) {
        *ret_version = found.version;
        *ret_end_ms = found.end_ms;
    }
    return status;
}

/* ---- writing -------------------------------------------------------------------------- */

struct commit {
    struct hfi_commit_op *op;
    struct change change;
    bool other; /* an item has another version */
};

/* What each item finds. An expired record is removed, also if nothing else changes. */
static int find_items(struct lmdb_directory *d, MDB_txn *txn, struct commit *c, int64_t now_ms)
{
    struct lmdb_found found;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->op->count; i++) {
        struct hfi_commit_item *item = &c->op->items[i];

        rc = get(d, &item->name, &found);
        if (rc == 0 && found.version && found.end_ms <= now_ms) {
            rc = del(d, txn, item->name.hash);
            found.version = 0;
            will_change(d, &c->change, item->name.hash[0]);
        }
        item->ret_version = found.version;
        c->other = c->other || found.version != item->version;
    }
    return rc;
}

static int write_items(struct lmdb_directory *d, MDB_txn *txn, struct commit *c, int64_t now_ms)
{
    uint64_t version = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->op->count; i++) {
        struct hfi_commit_item *item = &c->op->items[i];

        if (item->action == HF_CELL_ACTION_LEAVE)
            continue;
        will_change(d, &c->change, item->name.hash[0]);
        if (item->action == HF_CELL_ACTION_DELETE) {
            item->ret_version = 0;
            rc = del(d, txn, item->name.hash);
            continue;
        }
        if (version == 0)
            rc = next_version(d, txn, &version);
        if (rc == 0)
            rc = put(d, txn, item, version, now_ms);
    }
    return rc;
}

static int commit_body(struct lmdb_directory *d, MDB_txn *txn, void *arg)
{
    struct commit *c = arg;
    int64_t now_ms = wall_ms();
    int rc = find_items(d, txn, c, now_ms);

    if (rc == 0 && !c->other)
        rc = write_items(d, txn, c, now_ms);
    if (rc == 0 && !c->change.commit)
        return LMDB_STOP;
    return rc == 0 ? sweep(d, txn, &c->change, c->op, now_ms) : rc;
}

static hf_status commit_items(struct lmdb_directory *d, struct hfi_commit_op *commit,
                              struct hfi_op *op)
{
    struct commit c = { .op = commit };
    struct lmdb_patience patience = lmdb_patience_of(op);
    hf_error *err = &op->error;
    hf_status status = enter(d, &patience, err);
    int rc;

    lmdb_op_of(op)->put_off = op->hurried && status == LMDB_NOT_NOW;
    if (status != HF_OK)
        return status;
    rc = run(d, true, commit_body, &c);
    if (rc != 0)
        status = failed(d, rc, err);
    else if (c.other)
        status = hfi_error_set(err, HF_BUSY, 0, "the cell has another version");
    lmdb_unlock_cells(d);
    for (unsigned i = 0; i < c.change.futex_count; i++)
        hfi_futex_wake(c.change.futexes[i], INT_MAX, true);
    return status;
}

void lmdb_cells_commit(struct lmdb_store *store, struct hfi_op *op)
{
    lmdb_finish(store, op, commit_items(store->directory, op->u.commit, op));
}

/* A commit of one item. version 0: only if there is none; bytes NULL: delete. */
void lmdb_cell_swap(struct lmdb_store *store, struct hfi_op *op)
{
    struct hfi_commit_item item = { .name = op->u.cell.name,
                                    .version = op->u.cell.version,
                                    .action = op->u.cell.bytes     ? HF_CELL_ACTION_WRITE
                                              : op->u.cell.version ? HF_CELL_ACTION_DELETE
                                                                   : HF_CELL_ACTION_LEAVE,
                                    .bytes = op->u.cell.bytes,
                                    .len = op->u.cell.len,
                                    .ttl_ms = op->u.cell.ttl_ms };
    struct hfi_commit_op commit = { .count = 1, .items = &item };
    hf_status status = commit_items(store->directory, &commit, op);

    op->u.cell.ret_version = item.ret_version;
    lmdb_finish(store, op, status);
}

/* ---- for the doctor ----------------------------------------------------------------------- */

static int count_body(struct lmdb_directory *d, MDB_txn *txn, void *arg)
{
    struct lmdb_cells_report *report = arg;
    struct lmdb_cells_view *v = &d->cells_view;
    MDB_val key = { .mv_size = 0, .mv_data = "" }, value;
    struct lmdb_cells_path path;
    struct lmdb_found found;
    uint64_t counter;
    int rc = lmdb_cells_audit(v);

    (void)txn;
    if (rc == 0)
        rc = counter_get(v, &counter);
    if (rc == 0)
        rc = lmdb_cells_from(v, &key, &path);
    report->sealed = v->sealed;
    while (rc == 0 && (rc = lmdb_cells_next(v, &path, &key, &value)) == 0) {
        if (key.mv_size == LMDB_CELL_COUNTER_LEN)
            continue;
        report->cells++;
        if (lmdb_cell_parse(&key, &value, v->sealed, &found) == 0)
            continue;
        if (report->damaged++ == 0)
            hfi_quote_name(found.name, found.name_len, report->first, sizeof report->first);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Check every page and every record. HF_NOT_FOUND: there is no file yet, and none is created. */
hf_status lmdb_cells_report(struct lmdb_directory *d, int64_t deadline_ms,
                            struct lmdb_cells_report *ret, hf_error *err)
{
    struct stat st;
    hf_status status;
    int rc;

    memset(ret, 0, sizeof *ret);
    if (fstatat(d->dir_fd, "cells.mdb", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return HF_NOT_FOUND;
    status = enter(d, &(struct lmdb_patience){ .until_ms = deadline_ms }, err);
    if (status != HF_OK)
        return status;
    rc = run(d, false, count_body, ret);
    lmdb_unlock_cells(d);
    return rc == 0 ? HF_OK : failed(d, rc, err);
}
