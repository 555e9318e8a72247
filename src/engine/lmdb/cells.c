/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells, in a durable LMDB environment of their own under a mutex of their
 * own: an fsync of a cell stalls no lock. Prepared for the primitives that will stand on
 * it (src/prim); versions come from one counter, so that a cell which was deleted and
 * made again never shows an old version.
 */
#include "engine/lmdb/lm.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CELLS_MAP   ((size_t)1 << 30)
#define VERSION_KEY "v" /* shorter than any hash */

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

/* Value: version, length of the name, name, bytes. */
static int cell_get(MDB_txn *txn, MDB_dbi dbi, const struct hfi_name *name, uint64_t *ret_version,
                    MDB_val *ret_bytes)
{
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash }, value;
    uint16_t name_len;
    const char *at;
    int rc = mdb_get(txn, dbi, &key, &value);

    if (rc != 0)
        return rc;
    at = value.mv_data;
    if (value.mv_size < 10)
        return LM_E_CORRUPT;
    memcpy(ret_version, at, 8);
    memcpy(&name_len, at + 8, 2);
    if (value.mv_size < 10u + name_len)
        return LM_E_CORRUPT;
    if (name_len != name->len || memcmp(at + 10, name->bytes, name_len) != 0)
        return LM_E_COLLISION;
    ret_bytes->mv_data = (void *)(uintptr_t)(at + 10 + name_len);
    ret_bytes->mv_size = value.mv_size - 10 - name_len;
    return 0;
}

static int cell_put(MDB_txn *txn, MDB_dbi dbi, const struct hfi_name *name, const void *bytes,
                    size_t len, uint64_t *ret_version)
{
    MDB_val key = { .mv_size = sizeof VERSION_KEY - 1, .mv_data = (void *)(uintptr_t)VERSION_KEY },
            value;
    uint64_t version = 0;
    uint16_t name_len = (uint16_t)name->len;
    int rc = mdb_get(txn, dbi, &key, &value);

    if (rc == 0 && value.mv_size == sizeof version)
        memcpy(&version, value.mv_data, sizeof version);
    else if (rc != MDB_NOTFOUND)
        return rc == 0 ? LM_E_CORRUPT : rc;
    version++;
    value = (MDB_val){ .mv_size = sizeof version, .mv_data = &version };
    rc = mdb_put(txn, dbi, &key, &value, 0);
    if (rc != 0)
        return rc;

    key = (MDB_val){ .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash };
    value = (MDB_val){ .mv_size = 10u + name_len + len };
    rc = mdb_put(txn, dbi, &key, &value, MDB_RESERVE);
    if (rc != 0)
        return rc;
    memcpy(value.mv_data, &version, 8);
    memcpy((char *)value.mv_data + 8, &name_len, 2);
    memcpy((char *)value.mv_data + 10, name->bytes, name_len);
    if (len)
        memcpy((char *)value.mv_data + 10 + name_len, bytes, len);
    *ret_version = version;
    return 0;
}

static hf_status failed(struct lm_depot *d, int rc, hf_error *err)
{
    if (rc == MDB_MAP_FULL || rc == ENOSPC)
        return hfi_error_set(err, HF_FULL, rc, "%s/cells.mdb is full", d->path);
    if (hfi_lm_is_corrupt(rc))
        return hfi_error_set(err, HF_CORRUPT, rc, "%s/cells.mdb is damaged", d->path);
    return hfi_lm_failed(d, rc, err);
}

void hfi_lm_cell_read(struct hfi_conn *conn, struct hfi_op *op)
{
    struct lm_depot *d = conn->depot;
    MDB_val bytes = { 0 };
    MDB_txn *txn = NULL;
    int rc = 0;
    hf_status status = hfi_lm_lock_cells(d, op->deadline_ms, &op->error);

    if (status != HF_OK) {
        hfi_op_finish(op, status);
        return;
    }
    if (!d->cells)
        status = open_cells(d, &op->error);
    if (status == HF_OK && (rc = mdb_txn_begin(d->cells, NULL, MDB_RDONLY, &txn)) == 0)
        rc = cell_get(txn, d->cells_dbi, &op->u.cell.name, &op->u.cell.ret_version, &bytes);
    if (status == HF_OK && rc == 0) {
        op->u.cell.ret_len = bytes.mv_size;
        op->u.cell.ret_bytes = hfi_malloc(bytes.mv_size ? bytes.mv_size : 1);
        if (op->u.cell.ret_bytes)
            memcpy(op->u.cell.ret_bytes, bytes.mv_data, bytes.mv_size);
        else
            status = hfi_error_memory(&op->error);
    } else if (status == HF_OK && rc == MDB_NOTFOUND) {
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no such cell");
    } else if (status == HF_OK) {
        status = failed(d, rc, &op->error);
    }
    if (txn)
        mdb_txn_abort(txn);
    hfi_lm_unlock_cells(d);
    hfi_op_finish(op, status);
}

/* version 0: only if there is none; bytes NULL: delete. HF_BUSY: it has another version. */
static int swap(struct lm_depot *d, MDB_txn *txn, struct hfi_op *op, bool *ret_other)
{
    MDB_val bytes, key = { .mv_size = LM_KEY_NAME, .mv_data = op->u.cell.name.hash };
    uint64_t version = 0;
    int rc = cell_get(txn, d->cells_dbi, &op->u.cell.name, &version, &bytes);

    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc != 0)
        return rc;
    op->u.cell.ret_version = version;
    *ret_other = version != op->u.cell.version;
    if (*ret_other)
        return 0;
    if (!op->u.cell.bytes)
        return version ? mdb_del(txn, d->cells_dbi, &key, NULL) : 0;
    return cell_put(txn, d->cells_dbi, &op->u.cell.name, op->u.cell.bytes, op->u.cell.len,
                    &op->u.cell.ret_version);
}

void hfi_lm_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct lm_depot *d = conn->depot;
    MDB_txn *txn = NULL;
    bool other = false;
    int rc = 0;
    hf_status status = hfi_lm_lock_cells(d, op->deadline_ms, &op->error);

    if (status != HF_OK) {
        hfi_op_finish(op, status);
        return;
    }
    if (!d->cells)
        status = open_cells(d, &op->error);
    if (status == HF_OK && (rc = mdb_txn_begin(d->cells, NULL, 0, &txn)) == 0) {
        rc = swap(d, txn, op, &other);
        if (rc == 0 && !other)
            rc = mdb_txn_commit(txn); /* fsynced when it returns */
        else
            mdb_txn_abort(txn);
    }
    if (status == HF_OK && rc != 0)
        status = failed(d, rc, &op->error);
    else if (status == HF_OK && other)
        status = hfi_error_set(&op->error, HF_BUSY, 0, "the cell has another version");
    hfi_lm_unlock_cells(d);
    hfi_op_finish(op, status);
}
