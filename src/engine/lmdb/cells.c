/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells, in a durable LMDB environment of their own under a mutex of their
 * own: an fsync of a cell stalls no lock. Versions come from one counter, so that a cell
 * which was deleted and made again never shows an old version.
 *
 * A record is: version (8 bytes), length of the name (2), the name, the bytes. With the
 * bit HAS_END in the length, which no name needs, the end of its ttl (8 bytes, milliseconds
 * since 1970) comes before the name; stores of before there were ttls have no such records.
 *
 * A ttl ends by the wall clock, which all processes of the machine share and which goes on
 * while it is switched off. A record that is past its end counts as absent, and whoever
 * meets it removes it before he says so: a clock that is set back brings nothing back that
 * somebody has missed. Those that nobody asks for are swept, a few with every write.
 */
#include "engine/lmdb/lm.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CELLS_MAP   ((size_t)1 << 30)
#define VERSION_KEY "v" /* shorter than any hash */
#define HAS_END     0x8000u
#define SWEEP_LOOKS 4 /* records that a write looks at */

/* A record, as it lies in LMDB's pages. */
struct found {
    uint64_t version; /* 0: there is none */
    int64_t end_ms;   /* HFI_NEVER: none */
    const unsigned char *name;
    uint16_t name_len;
    MDB_val bytes;
};

/* A write, and whom to wake after it. */
struct change {
    _Atomic uint32_t *bells[1 + SWEEP_LOOKS];
    unsigned bell_count;
    bool commit; /* there is something to write */
};

int64_t hfi_lm_wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t wall_ms(void)
{
    return hfi_lm_wall_us() / 1000;
}

/* ---- the file ---------------------------------------------------------------------- */

static hf_status open_cells(struct lm_depot *d, hf_error *err)
{
    char path[64];
    MDB_txn *txn;
    bool created;
    int fd, rc;
    hf_status status = hfi_lm_file(d, "cells.mdb", &fd, &created, err);

    if (status != HF_OK)
        return status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = mdb_env_create(&d->cells);
    if (rc == 0)
        rc = mdb_env_set_mapsize(d->cells,
                                 CELLS_MAP); /* not a writable map: a full disk is an error code */
    if (rc == 0)
        rc = mdb_env_open(d->cells, path, MDB_NOSUBDIR | MDB_NOLOCK, d->file_mode);
    if (rc == 0)
        hfi_lm_close_on_exec(d->cells);
    if (rc == 0)
        rc = mdb_txn_begin(d->cells, NULL, 0, &txn);
    if (rc == 0) {
        rc = mdb_dbi_open(txn, NULL, 0, &d->cells_dbi);
        mdb_txn_abort(txn);
    }
    close(fd);
    if (rc == 0)
        return HF_OK;
    hfi_lm_cells_close(d);
    return hfi_error_set(err, hfi_lm_is_corrupt(rc) ? HF_CORRUPT : HF_UNAVAILABLE, rc,
                         "%s/cells.mdb: %s", d->path, mdb_strerror(rc));
}

void hfi_lm_cells_close(struct lm_depot *d)
{
    if (d->cells)
        mdb_env_close(d->cells);
    d->cells = NULL;
}

static hf_status failed(struct lm_depot *d, int rc, hf_error *err)
{
    if (rc == MDB_MAP_FULL || rc == ENOSPC)
        return hfi_error_set(err, HF_FULL, rc, "%s/cells.mdb is full", d->path);
    if (hfi_lm_is_corrupt(rc))
        return hfi_error_set(err, HF_CORRUPT, rc, "%s/cells.mdb is damaged", d->path);
    return hfi_lm_failed(d, rc, err);
}

/* Lock, and open on first use. Not HF_OK: nothing is locked. */
static hf_status enter(struct lm_depot *d, int64_t deadline_ms, hf_error *err)
{
    hf_status status = hfi_lm_lock_cells(d, deadline_ms, err);

    if (status != HF_OK || d->cells)
        return status;
    status = open_cells(d, err);
    if (status != HF_OK)
        hfi_lm_unlock_cells(d);
    return status;
}

/* ---- records ------------------------------------------------------------------------ */

static int parse(const MDB_val *value, struct found *ret)
{
    const unsigned char *at = value->mv_data;
    size_t head = 10;
    uint16_t len;

    if (value->mv_size < head)
        return LM_E_CORRUPT;
    memcpy(&ret->version, at, 8);
    memcpy(&len, at + 8, 2);
    ret->end_ms = HFI_NEVER;
    if (len & HAS_END) {
        head += 8;
        if (value->mv_size < head)
            return LM_E_CORRUPT;
        memcpy(&ret->end_ms, at + 10, 8);
    }
    ret->name_len = (uint16_t)(len & ~HAS_END);
    if (value->mv_size < head + ret->name_len)
        return LM_E_CORRUPT;
    ret->name = at + head;
    ret->bytes.mv_data = (void *)(uintptr_t)(at + head + ret->name_len);
    ret->bytes.mv_size = value->mv_size - head - ret->name_len;
    return 0;
}

/* The record of this name; version 0: there is none. */
static int get(MDB_txn *txn, MDB_dbi dbi, const struct hfi_name *name, struct found *ret)
{
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash }, value;
    int rc = mdb_get(txn, dbi, &key, &value);

    *ret = (struct found){ .end_ms = HFI_NEVER };
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    rc = parse(&value, ret);
    if (rc != 0)
        return rc;
    if (ret->name_len != name->len || memcmp(ret->name, name->bytes, name->len) != 0)
        return LM_E_COLLISION;
    return 0;
}

static int del(MDB_txn *txn, MDB_dbi dbi, const struct hfi_name *name)
{
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash };

    return mdb_del(txn, dbi, &key, NULL);
}

static int next_version(MDB_txn *txn, MDB_dbi dbi, uint64_t *ret_version)
{
    MDB_val key = { .mv_size = sizeof VERSION_KEY - 1, .mv_data = (void *)(uintptr_t)VERSION_KEY },
            value;
    uint64_t version = 0;
    int rc = mdb_get(txn, dbi, &key, &value);

    if (rc == 0 && value.mv_size == sizeof version)
        memcpy(&version, value.mv_data, sizeof version);
    else if (rc != MDB_NOTFOUND)
        return rc == 0 ? LM_E_CORRUPT : rc;
    *ret_version = ++version;
    value = (MDB_val){ .mv_size = sizeof version, .mv_data = &version };
    return mdb_put(txn, dbi, &key, &value, 0);
}

static int put(MDB_txn *txn, MDB_dbi dbi, struct hfi_op *op, int64_t now_ms)
{
    const struct hfi_name *name = &op->u.cell.name;
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash }, value;
    int64_t end_ms = now_ms + op->u.cell.ttl_ms;
    size_t head = op->u.cell.ttl_ms ? 18 : 10;
    uint16_t len = (uint16_t)(name->len | (op->u.cell.ttl_ms ? HAS_END : 0));
    unsigned char *at;
    uint64_t version;
    int rc = next_version(txn, dbi, &version);

    if (rc != 0)
        return rc;
    value = (MDB_val){ .mv_size = head + name->len + op->u.cell.len };
    rc = mdb_put(txn, dbi, &key, &value, MDB_RESERVE);
    if (rc != 0)
        return rc;
    at = value.mv_data;
    memcpy(at, &version, 8);
    memcpy(at + 8, &len, 2);
    if (op->u.cell.ttl_ms)
        memcpy(at + 10, &end_ms, 8);
    memcpy(at + head, name->bytes, name->len);
    if (op->u.cell.len)
        memcpy(at + head + name->len, op->u.cell.bytes, op->u.cell.len);
    op->u.cell.ret_version = version;
    return 0;
}

static void will_change(struct lm_depot *d, struct change *change, uint64_t hash)
{
    change->commit = true;
    change->bells[change->bell_count++] = hfi_lm_cell_bell(d, hash);
}

/* Look at a few records from where the last write stopped, and remove those that are past their end. */
static int sweep(struct lm_depot *d, MDB_txn *txn, struct change *change, int64_t now_ms)
{
    uint64_t *at = d->header->cells_sweep;
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = at }, value;
    struct found found;
    MDB_cursor *cursor;
    uint64_t hash;
    int rc = mdb_cursor_open(txn, d->cells_dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (int i = 0; rc == 0 && i < SWEEP_LOOKS; i++) {
        if (key.mv_size == LM_KEY_NAME && parse(&value, &found) == 0 && found.end_ms <= now_ms) {
            memcpy(&hash, key.mv_data, sizeof hash);
            will_change(d, change, hash);
            rc = mdb_cursor_del(cursor, 0);
        }
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    if (rc == 0 && key.mv_size == LM_KEY_NAME)
        memcpy(at, key.mv_data, LM_KEY_NAME);
    else if (rc == MDB_NOTFOUND)
        memset(at, 0, LM_KEY_NAME); /* from the beginning, the next time */
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- reading ------------------------------------------------------------------------- */

/* It is past its end: remove it, so that it stays absent. Under the mutex. */
static hf_status remove_ended(struct lm_depot *d, const struct hfi_name *name, hf_error *err)
{
    _Atomic uint32_t *bell = hfi_lm_cell_bell(d, name->hash[0]);
    MDB_txn *txn;
    int rc = mdb_txn_begin(d->cells, NULL, 0, &txn);

    if (rc == 0) {
        rc = del(txn, d->cells_dbi, name);
        if (rc == 0)
            rc = mdb_txn_commit(txn);
        else
            mdb_txn_abort(txn);
    }
    hfi_futex_wake(bell, INT_MAX, true);
    return rc == 0 ? HF_OK : failed(d, rc, err);
}

/* Find it. `take`, which may be NULL, gets it while it can be read. */
static hf_status look(struct lm_depot *d, const struct hfi_name *name, int64_t deadline_ms,
                      hf_status (*take)(const struct found *found, struct hfi_op *op),
                      struct hfi_op *op, struct found *ret, hf_error *err)
{
    hf_status status = enter(d, deadline_ms, err);
    MDB_txn *txn = NULL;
    bool ended = false;
    int rc;

    *ret = (struct found){ .end_ms = HFI_NEVER };
    if (status != HF_OK)
        return status;
    rc = mdb_txn_begin(d->cells, NULL, MDB_RDONLY, &txn);
    if (rc == 0)
        rc = get(txn, d->cells_dbi, name, ret);
    if (rc == 0 && ret->version) {
        ended = ret->end_ms <= wall_ms();
        if (take && !ended)
            status = take(ret, op);
    }
    if (txn)
        mdb_txn_abort(txn);
    if (rc != 0)
        status = failed(d, rc, err);
    if (ended) {
        status = remove_ended(d, name, err);
        *ret = (struct found){ .end_ms = HFI_NEVER };
    }
    hfi_lm_unlock_cells(d);
    return status;
}

static hf_status copy_out(const struct found *found, struct hfi_op *op)
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

void hfi_lm_cell_read(struct hfi_conn *conn, struct hfi_op *op)
{
    struct found found;
    hf_status status =
        look(conn->depot, &op->u.cell.name, op->deadline_ms, copy_out, op, &found, &op->error);

    if (status == HF_OK && found.version == 0)
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no such cell");
    hfi_op_finish(op, status);
}

hf_status hfi_lm_cell_look(struct lm_depot *d, const struct hfi_name *name, int64_t deadline_ms,
                           uint64_t *ret_version, int64_t *ret_end_ms, hf_error *err)
{
    struct found found;
    hf_status status = look(d, name, deadline_ms, NULL, NULL, &found, err);

    if (status == HF_OK) {
        *ret_version = found.version;
        *ret_end_ms = found.end_ms;
    }
    return status;
}

/* ---- swapping ------------------------------------------------------------------------- */

/* version 0: only if there is none; bytes NULL: delete. *ret_other: it has another version. */
static int swap(struct lm_depot *d, MDB_txn *txn, struct hfi_op *op, struct change *change,
                bool *ret_other)
{
    int64_t now_ms = wall_ms();
    struct found found;
    int rc = get(txn, d->cells_dbi, &op->u.cell.name, &found);

    if (rc == 0 && found.version && found.end_ms <= now_ms) {
        rc = del(txn, d->cells_dbi, &op->u.cell.name);
        found.version = 0;
        change->commit = true; /* also if that is all */
    }
    if (rc != 0)
        return rc;
    op->u.cell.ret_version = found.version;
    *ret_other = found.version != op->u.cell.version;
    if (!*ret_other && op->u.cell.bytes)
        rc = put(txn, d->cells_dbi, op, now_ms);
    else if (!*ret_other && found.version)
        rc = del(txn, d->cells_dbi, &op->u.cell.name);
    else if (!change->commit)
        return 0;
    will_change(d, change, op->u.cell.name.hash[0]);
    return rc == 0 ? sweep(d, txn, change, now_ms) : rc;
}

void hfi_lm_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct lm_depot *d = conn->depot;
    struct change change = { .bell_count = 0 };
    MDB_txn *txn;
    bool other = false;
    int rc;
    hf_status status = enter(d, op->deadline_ms, &op->error);

    if (status != HF_OK) {
        hfi_op_finish(op, status);
        return;
    }
    rc = mdb_txn_begin(d->cells, NULL, 0, &txn);
    if (rc == 0) {
        rc = swap(d, txn, op, &change, &other);
        if (rc == 0 && change.commit)
            rc = mdb_txn_commit(txn); /* fsynced when it returns */
        else
            mdb_txn_abort(txn);
    }
    if (rc != 0)
        status = failed(d, rc, &op->error);
    else if (other)
        status = hfi_error_set(&op->error, HF_BUSY, 0, "the cell has another version");
    hfi_lm_unlock_cells(d);
    for (unsigned i = 0; i < change.bell_count; i++)
        hfi_futex_wake(change.bells[i], INT_MAX, true);
    hfi_op_finish(op, status);
}
