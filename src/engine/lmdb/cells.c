/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells, in a durable LMDB environment of their own under a mutex of their
 * own: an fsync of a cell stalls no lock. Versions come from one counter, so that a cell
 * which was deleted and made again never shows an old version.
 *
 * A record is: version (8 bytes), length of the name (2), a checksum of key and record (4), the name, the bytes. With
 * the bit HAS_END in the length, which no name needs, the end of its ttl (8 bytes, milliseconds since 1970) comes
 * before the name. The bit HAS_SUM says that there is a checksum. Stores of before have none: they can be read, and
 * the first write gives one to all their records. The counter of versions says which kind of store it is, and
 * a record of the other kind is damage.
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
#include "util/hash.h"
#include "util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERSION_KEY "v" /* shorter than any hash */
#define HAS_END     0x8000u
#define HAS_SUM     0x4000u
#define HEAD        10 /* version and length */
#define SUM         4
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

static hf_status failed(struct lm_depot *d, int rc, hf_error *err);

static hf_status open_cells(struct lm_depot *d, hf_error *err)
{
    char path[64];
    uint64_t unknown = 0;
    struct stat st;
    MDB_txn *txn;
    bool created;
    int fd, rc;
    hf_status status = hfi_lm_file(d, "cells.mdb", &fd, &created, err);

    if (status != HF_OK)
        return status;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && !hfi_lm_cells_sound(fd, true, &unknown)) {
        close(fd);
        return failed(d, LM_E_CORRUPT, err);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!LM_CELLS_GUARD(d)) {
        close(fd);
        hfi_lm_cells_close(d);
        return failed(d, LM_E_CORRUPT, err);
    }
    rc = mdb_env_create(&d->cells);
    if (rc == 0) {
        mdb_env_set_userctx(d->cells, d);
        mdb_env_set_assert(d->cells, hfi_lm_sound_assert);
    }
    if (rc == 0)
        rc = mdb_env_set_mapsize(
            d->cells, HFI_LM_CELLS_MAP); /* not a writable map: a full disk is an error code */
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
    d->cells_txn = 0;
}

static hf_status failed(struct lm_depot *d, int rc, hf_error *err)
{
    if (rc == MDB_MAP_FULL || rc == ENOSPC)
        return hfi_error_set(err, HF_FULL, rc, "%s/cells.mdb is full", d->path);
    if (hfi_lm_is_corrupt(rc))
        return hfi_error_set(err, HF_CORRUPT, rc,
                             "%s/cells.mdb is damaged: restore it, or move it away to begin anew",
                             d->path);
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

/* ---- transactions --------------------------------------------------------------------- */

typedef int cells_body(struct lm_depot *d, MDB_txn *txn, void *arg);

static int attempt(struct lm_depot *d, bool write, cells_body *body, void *arg)
{
    MDB_txn *txn;
    int fd, rc;

    if (!LM_CELLS_GUARD(d))
        return LM_E_CORRUPT;
    rc = mdb_env_get_fd(d->cells, &fd);
    if (rc == 0 && !hfi_lm_cells_sound(fd, write, &d->cells_txn))
        rc = LM_E_CORRUPT;
    if (rc == 0)
        rc = mdb_txn_begin(d->cells, NULL, write ? 0 : MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = body(d, txn, arg);
    if (rc != 0 || !write) {
        mdb_txn_abort(txn);
        return rc == LM_STOP ? 0 : rc;
    }
    return mdb_txn_commit(txn); /* fsynced when it returns */
}

/* Under the mutex. Whatever is damaged is opened anew by the next, who may find it restored. */
static int run(struct lm_depot *d, bool write, cells_body *body, void *arg)
{
    int rc = attempt(d, write, body, arg);

    if (hfi_lm_is_corrupt(rc))
        hfi_lm_cells_close(d);
    return rc;
}

/* ---- records ------------------------------------------------------------------------ */

static uint32_t checksum(const void *key, const unsigned char *at, size_t len)
{
    uint64_t words[2], folded;
    uint32_t head = hfi_checksum(at, HEAD);

    memcpy(words, key, sizeof words);
    folded = words[0] ^ words[1];
    return hfi_checksum(at + HEAD + SUM, len - HEAD - SUM) ^ (head << 1 | head >> 31) ^
           (uint32_t)folded ^ (uint32_t)(folded >> 32);
}

/* `sealed`: of a store whose records have checksums. If that is wrong, the rest of *ret is what it would be. */
static int parse(const MDB_val *key, const MDB_val *value, bool sealed, struct found *ret)
{
    const unsigned char *at = value->mv_data;
    size_t head = HEAD + (sealed ? SUM : 0);
    uint16_t len;
    uint32_t sum;

    *ret = (struct found){ .end_ms = HFI_NEVER };
    if (key->mv_size != LM_KEY_NAME || value->mv_size < head)
        return LM_E_CORRUPT;
    memcpy(&ret->version, at, 8);
    memcpy(&len, at + 8, 2);
    if (len & HAS_END) {
        if (value->mv_size < head + 8)
            return LM_E_CORRUPT;
        memcpy(&ret->end_ms, at + head, 8);
        head += 8;
    }
    len &= (uint16_t)~HAS_END;
    if (sealed != ((len & HAS_SUM) != 0))
        return LM_E_CORRUPT;
    len &= (uint16_t)~HAS_SUM;
    if (len == 0 || len > HF_NAME_MAX || ret->version == 0 || value->mv_size < head + len)
        return LM_E_CORRUPT;
    ret->name_len = len;
    ret->name = at + head;
    ret->bytes.mv_data = (void *)(uintptr_t)(at + head + len);
    ret->bytes.mv_size = value->mv_size - head - len;
    if (!sealed)
        return 0;
    memcpy(&sum, at + HEAD, SUM);
    return sum == checksum(key->mv_data, at, value->mv_size) ? 0 : LM_E_CORRUPT;
}

/* The counter of versions; 0: the store is empty. *ret_sealed: its records have checksums, as it has. */
static int counter_get(MDB_txn *txn, MDB_dbi dbi, uint64_t *ret_version, bool *ret_sealed)
{
    MDB_val key = { .mv_size = sizeof VERSION_KEY - 1, .mv_data = (void *)(uintptr_t)VERSION_KEY },
            value;
    MDB_stat stat;
    uint32_t sum;
    int rc = mdb_get(txn, dbi, &key, &value);

    *ret_version = 0;
    *ret_sealed = true;
    if (rc == MDB_NOTFOUND) {
        rc = mdb_stat(txn, dbi, &stat);
        return rc != 0 || stat.ms_entries == 0 ? rc : LM_E_CORRUPT;
    }
    if (rc != 0)
        return rc;
    *ret_sealed = value.mv_size == sizeof *ret_version + SUM;
    if (value.mv_size != sizeof *ret_version && !*ret_sealed)
        return LM_E_CORRUPT;
    memcpy(ret_version, value.mv_data, sizeof *ret_version);
    if (*ret_sealed) {
        memcpy(&sum, (const char *)value.mv_data + sizeof *ret_version, SUM);
        if (sum != hfi_checksum(ret_version, sizeof *ret_version))
            return LM_E_CORRUPT;
    }
    return 0;
}

static int counter_put(MDB_txn *txn, MDB_dbi dbi, uint64_t version)
{
    MDB_val key = { .mv_size = sizeof VERSION_KEY - 1, .mv_data = (void *)(uintptr_t)VERSION_KEY };
    unsigned char bytes[sizeof version + SUM];
    MDB_val value = { .mv_size = sizeof bytes, .mv_data = bytes };
    uint32_t sum = hfi_checksum(&version, sizeof version);

    memcpy(bytes, &version, sizeof version);
    memcpy(bytes + sizeof version, &sum, SUM);
    return mdb_put(txn, dbi, &key, &value, 0);
}

/* It is not there. Is it really? A key that was changed is still beside where it should be: so all must be sound. */
static int check_absent(MDB_txn *txn, MDB_dbi dbi, bool sealed)
{
    struct found found;
    MDB_val key, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, dbi, &cursor);

    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0)
        if (key.mv_size != sizeof VERSION_KEY - 1 &&
            (rc = parse(&key, &value, sealed, &found)) != 0)
            break;
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* The record of this name; version 0: there is none. */
static int get(struct lm_depot *d, MDB_txn *txn, const struct hfi_name *name, struct found *ret)
{
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)name->hash }, value;
    bool sealed, few = false;
    uint64_t counter;
    int fd, rc = mdb_env_get_fd(d->cells, &fd);

    *ret = (struct found){ .end_ms = HFI_NEVER };
    if (rc == 0 && !hfi_lm_cells_sound_way(fd, (const unsigned char *)name->hash, &few))
        rc = LM_E_CORRUPT;
    if (rc == 0)
        rc = counter_get(txn, d->cells_dbi, &counter, &sealed);
    if (rc != 0)
        return rc;
    rc = mdb_get(txn, d->cells_dbi, &key, &value);
    if (rc != 0)
        return rc != MDB_NOTFOUND ? rc : few ? check_absent(txn, d->cells_dbi, sealed) : 0;
    rc = parse(&key, &value, sealed, ret);
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

static int put_record(MDB_txn *txn, MDB_dbi dbi, const uint64_t hash[2], const struct found *record)
{
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)hash }, value;
    bool ends = record->end_ms != HFI_NEVER;
    size_t head = HEAD + SUM + (ends ? 8 : 0);
    uint16_t len = (uint16_t)(record->name_len | HAS_SUM | (ends ? HAS_END : 0));
    unsigned char *at;
    uint32_t sum;
    int rc;

    value = (MDB_val){ .mv_size = head + record->name_len + record->bytes.mv_size };
    rc = mdb_put(txn, dbi, &key, &value, MDB_RESERVE);
    if (rc != 0)
        return rc;
    at = value.mv_data;
    memcpy(at, &record->version, 8);
    memcpy(at + 8, &len, 2);
    if (ends)
        memcpy(at + HEAD + SUM, &record->end_ms, 8);
    memcpy(at + head, record->name, record->name_len);
    if (record->bytes.mv_size)
        memcpy(at + head + record->name_len, record->bytes.mv_data, record->bytes.mv_size);
    sum = checksum(hash, at, value.mv_size);
    memcpy(at + HEAD, &sum, SUM);
    return 0;
}

/* A store of before there were checksums: every record gets one, in the transaction of the first write. */
static int seal_all(MDB_txn *txn, MDB_dbi dbi)
{
    unsigned char at[LM_KEY_NAME] = { 0 };
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = at }, value;
    struct found found;
    MDB_cursor *cursor;
    uint64_t hash[2];
    int rc = mdb_cursor_open(txn, dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0) {
        if (key.mv_size == LM_KEY_NAME) {
            MDB_val copy = { .mv_size = value.mv_size, .mv_data = hfi_malloc(value.mv_size) };

            /* A copy: LMDB's pages move under a write. */
            rc = copy.mv_data ? 0 : ENOMEM;
            if (rc == 0) {
                memcpy(copy.mv_data, value.mv_data, value.mv_size);
                memcpy(hash, key.mv_data, sizeof hash);
                rc = parse(&key, &copy, false, &found);
            }
            if (rc == 0)
                rc = put_record(txn, dbi, hash, &found);
            hfi_free(copy.mv_data);
            key = (MDB_val){ .mv_size = LM_KEY_NAME, .mv_data = hash };
            if (rc == 0)
                rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY);
        }
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int put(MDB_txn *txn, MDB_dbi dbi, struct hfi_op *op, int64_t now_ms)
{
    const struct hfi_name *name = &op->u.cell.name;
    struct found record = { .end_ms = op->u.cell.ttl_ms ? now_ms + op->u.cell.ttl_ms : HFI_NEVER,
                            .name = name->bytes,
                            .name_len = (uint16_t)name->len,
                            .bytes = { .mv_size = op->u.cell.len,
                                       .mv_data = (void *)(uintptr_t)op->u.cell.bytes } };
    bool sealed;
    int rc = counter_get(txn, dbi, &record.version, &sealed);

    if (rc == 0 && !sealed)
        rc = seal_all(txn, dbi);
    if (rc == 0)
        rc = counter_put(txn, dbi, ++record.version);
    if (rc == 0)
        rc = put_record(txn, dbi, name->hash, &record);
    if (rc == 0)
        op->u.cell.ret_version = record.version;
    return rc;
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
    uint64_t hash, counter;
    bool sealed;
    int rc = counter_get(txn, d->cells_dbi, &counter, &sealed);

    if (rc == 0)
        rc = mdb_cursor_open(txn, d->cells_dbi, &cursor);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (int i = 0; rc == 0 && i < SWEEP_LOOKS; i++) {
        if (parse(&key, &value, sealed, &found) == 0 && found.end_ms <= now_ms) {
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
static int remove_body(struct lm_depot *d, MDB_txn *txn, void *arg)
{
    return del(txn, d->cells_dbi, arg);
}

static int remove_ended(struct lm_depot *d, const struct hfi_name *name)
{
    _Atomic uint32_t *bell = hfi_lm_cell_bell(d, name->hash[0]);
    int rc = run(d, true, remove_body, (void *)(uintptr_t)name);

    hfi_futex_wake(bell, INT_MAX, true);
    return rc;
}

struct look {
    const struct hfi_name *name;
    hf_status (*take)(const struct found *found,
                      struct hfi_op *op); /* while it can be read; may be NULL */
    struct hfi_op *op;
    struct found *found;
    hf_status status;
    bool ended;
};

static int look_body(struct lm_depot *d, MDB_txn *txn, void *arg)
{
    struct look *l = arg;
    int rc = get(d, txn, l->name, l->found);

    if (rc != 0 || !l->found->version)
        return rc;
    l->ended = l->found->end_ms <= wall_ms();
    if (l->take && !l->ended)
        l->status = l->take(l->found, l->op);
    return 0;
}

/* Find it. */
static hf_status look(struct lm_depot *d, struct look *l, int64_t deadline_ms, hf_error *err)
{
    hf_status status = enter(d, deadline_ms, err);
    int rc;

    *l->found = (struct found){ .end_ms = HFI_NEVER };
    if (status != HF_OK)
        return status;
    rc = run(d, false, look_body, l);
    if (rc == 0 && l->ended) {
        rc = remove_ended(d, l->name);
        *l->found = (struct found){ .end_ms = HFI_NEVER };
    }
    status = rc == 0 ? l->status : failed(d, rc, err);
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
    struct look l = { .name = &op->u.cell.name, .take = copy_out, .op = op, .found = &found };
    hf_status status = look(conn->depot, &l, op->deadline_ms, &op->error);

    if (status == HF_OK && found.version == 0)
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no such cell");
    hfi_op_finish(op, status);
}

hf_status hfi_lm_cell_look(struct lm_depot *d, const struct hfi_name *name, int64_t deadline_ms,
                           uint64_t *ret_version, int64_t *ret_end_ms, hf_error *err)
{
    struct found found;
    struct look l = { .name = name, .found = &found };
    hf_status status = look(d, &l, deadline_ms, err);

    if (status == HF_OK) {
        *ret_version = found.version;
        *ret_end_ms = found.end_ms;
    }
    return status;
}

/* ---- swapping ------------------------------------------------------------------------- */

struct swap {
    struct hfi_op *op;
    struct change change;
    bool other; /* it has another version */
};

/* version 0: only if there is none; bytes NULL: delete. */
static int swap_body(struct lm_depot *d, MDB_txn *txn, void *arg)
{
    struct swap *s = arg;
    struct hfi_op *op = s->op;
    int64_t now_ms = wall_ms();
    struct found found;
    int rc = get(d, txn, &op->u.cell.name, &found);

    if (rc == 0 && found.version && found.end_ms <= now_ms) {
        rc = del(txn, d->cells_dbi, &op->u.cell.name);
        found.version = 0;
        s->change.commit = true; /* also if that is all */
    }
    if (rc != 0)
        return rc;
    op->u.cell.ret_version = found.version;
    s->other = found.version != op->u.cell.version;
    if (!s->other && op->u.cell.bytes)
        rc = put(txn, d->cells_dbi, op, now_ms);
    else if (!s->other && found.version)
        rc = del(txn, d->cells_dbi, &op->u.cell.name);
    else if (!s->change.commit)
        return LM_STOP;
    will_change(d, &s->change, op->u.cell.name.hash[0]);
    return rc == 0 ? sweep(d, txn, &s->change, now_ms) : rc;
}

void hfi_lm_cell_swap(struct hfi_conn *conn, struct hfi_op *op)
{
    struct lm_depot *d = conn->depot;
    struct swap s = { .op = op };
    hf_status status = enter(d, op->deadline_ms, &op->error);
    int rc;

    if (status != HF_OK) {
        hfi_op_finish(op, status);
        return;
    }
    rc = run(d, true, swap_body, &s);
    if (rc != 0)
        status = failed(d, rc, &op->error);
    else if (s.other)
        status = hfi_error_set(&op->error, HF_BUSY, 0, "the cell has another version");
    hfi_lm_unlock_cells(d);
    for (unsigned i = 0; i < s.change.bell_count; i++)
        hfi_futex_wake(s.change.bells[i], INT_MAX, true);
    hfi_op_finish(op, status);
}

/* ---- for the doctor ----------------------------------------------------------------------- */

static int count_body(struct lm_depot *d, MDB_txn *txn, void *arg)
{
    struct lm_cells_report *report = arg;
    struct found found;
    MDB_val key, value;
    MDB_cursor *cursor;
    uint64_t counter;
    int rc = counter_get(txn, d->cells_dbi, &counter, &report->sealed);

    if (rc == 0)
        rc = mdb_cursor_open(txn, d->cells_dbi, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        if (key.mv_size == sizeof VERSION_KEY - 1)
            continue;
        report->cells++;
        if (parse(&key, &value, report->sealed, &found) == 0)
            continue;
        if (report->damaged++ == 0)
            hfi_quote_name(found.name, found.name_len, report->first, sizeof report->first);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Every page and every record. HF_NOT_FOUND: there is no file yet, and none is made. */
hf_status hfi_lm_cells_report(struct lm_depot *d, int64_t deadline_ms, struct lm_cells_report *ret,
                              hf_error *err)
{
    struct stat st;
    hf_status status;
    int fd, rc;

    memset(ret, 0, sizeof *ret);
    if (fstatat(d->dir_fd, "cells.mdb", &st, AT_SYMLINK_NOFOLLOW) != 0)
        return HF_NOT_FOUND;
    status = enter(d, deadline_ms, err);
    if (status != HF_OK)
        return status;
    rc = mdb_env_get_fd(d->cells, &fd);
    if (rc == 0 && !hfi_lm_cells_sound_file(fd))
        rc = LM_E_CORRUPT;
    if (rc == 0)
        rc = run(d, false, count_body, ret);
    hfi_lm_unlock_cells(d);
    return rc == 0 ? HF_OK : failed(d, rc, err);
}
