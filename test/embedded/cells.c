/* SPDX-License-Identifier: MIT */
/*
 * The cells of the embedded engine, by the engine's own contract, and their file from the outside:
 * what is swapped survives everybody's closing, stores of before there were ttls stay readable, and
 * what is past its end leaves the file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "../lib/direct.h"
#include "calls.h"
#include "core/op.h"
#include "holdfast/primitives.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <cmocka.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct hfi_engine *engine;
static struct hfi_host host = { .label = "cells" };

static void *open_at(const char *text)
{
    host.open_deadline_ms = hfi_now_ms() + 10000;
    return direct_open(text, &host, &engine);
}

static hf_status name_op(void *store, enum hfi_op_kind kind, struct hfi_op *op, const char *name,
                         uint64_t version, const char *bytes, int64_t ttl_ms)
{
    hfi_op_init(op, engine, kind, NULL, hfi_now_ms() + 10000);
    memset(&op->u.cell, 0, sizeof op->u.cell);
    op->u.cell.name.bytes = (const unsigned char *)name;
    op->u.cell.name.len = (uint32_t)strlen(name);
    hfi_hash128(name, strlen(name), op->u.cell.name.hash);
    op->u.cell.version = version;
    op->u.cell.bytes = bytes;
    op->u.cell.len = bytes ? strlen(bytes) : 0;
    op->u.cell.ttl_ms = ttl_ms;
    engine->submit(store, op);
    return hfi_op_status(op);
}

static hf_status cell(void *store, enum hfi_op_kind kind, struct hfi_op *op, uint64_t version,
                      const char *bytes)
{
    return name_op(store, kind, op, "stock", version, bytes, 0);
}

static void expect_bytes(void *store, const char *bytes, uint64_t version)
{
    struct hfi_op op;

    assert_int_equal(cell(store, HFI_OP_CELL_READ, &op, 0, NULL), HF_OK);
    assert_int_equal(op.u.cell.ret_version, version);
    assert_int_equal(op.u.cell.ret_len, strlen(bytes));
    assert_memory_equal(op.u.cell.ret_bytes, bytes, strlen(bytes));
    assert_int_equal(op.u.cell.ret_ttl_ms, -1);
    hfi_free(op.u.cell.ret_bytes);
}

/* ---- a store of its own, and its file ------------------------------------------------- */

static char dir[64], url[80];

static int make_dir(void **unused)
{
    (void)unused;
    snprintf(dir, sizeof dir, "/tmp/holdfast-cells-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(url, sizeof url, "file:%s", dir);
    return 0;
}

static int remove_dir(void **unused)
{
    char command[80];

    (void)unused;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* While no store is open on it: LMDB must not have a file open twice in one process. */
static MDB_env *open_file(MDB_txn **ret_txn, MDB_dbi *ret_dbi)
{
    char path[96];
    MDB_env *env;

    snprintf(path, sizeof path, "%s/cells.mdb", dir);
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, ret_txn), 0);
    assert_int_equal(mdb_dbi_open(*ret_txn, NULL, 0, ret_dbi), 0);
    return env;
}

static size_t count_records(void)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_env *env = open_file(&txn, &dbi);
    MDB_stat stat;

    assert_int_equal(mdb_stat(txn, dbi, &stat), 0);
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return stat.ms_entries;
}

/* ---- cases ----------------------------------------------------------------------------- */

static void swapped_by_version_and_durable(void **unused)
{
    void *store = open_at(url);
    uint64_t first, second;
    struct hfi_op op;

    (void)unused;
    assert_int_equal(cell(store, HFI_OP_CELL_READ, &op, 0, NULL), HF_NOT_FOUND);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, 0, "ten"), HF_OK);
    first = op.u.cell.ret_version;
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, 0, "again"), HF_BUSY);
    assert_int_equal(op.u.cell.ret_version, first);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, first, "nine"), HF_OK);
    second = op.u.cell.ret_version;
    assert_true(second > first);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, first, "late"), HF_BUSY);
    direct_close(engine, store);

    store = open_at(url);
    expect_bytes(store, "nine", second);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, second, NULL), HF_OK);
    assert_int_equal(cell(store, HFI_OP_CELL_READ, &op, 0, NULL), HF_NOT_FOUND);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, 0, "new"), HF_OK);
    assert_true(op.u.cell.ret_version > second);
    direct_close(engine, store);
}

static void put_old(MDB_txn *txn, MDB_dbi dbi, const char *name, const void *record, size_t len)
{
    uint64_t hash[2];
    MDB_val key = { .mv_size = sizeof hash, .mv_data = hash };
    MDB_val value = { .mv_size = len, .mv_data = (void *)(uintptr_t)record };

    hfi_hash128(name, strlen(name), hash);
    assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
}

/* Byte by byte as it was written before a record could have an end or a checksum. The first write gives all of them
 * a checksum. */
static void an_old_store_is_read(void **unused)
{
    static const unsigned char record[] = { 41, 0,   0,   0,   0,   0,   0,   0,   5,
                                            0,  's', 't', 'o', 'c', 'k', 'o', 'l', 'd' };
    static const unsigned char other[] = { 40, 0, 0, 0, 0, 0, 0, 0, 5, 0, 'o', 't', 'h', 'e', 'r' };
    void *store = open_at(url);
    uint64_t hash[2], version = 41;
    MDB_val key, value;
    struct hfi_op op;
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned char changed[sizeof other + 4];
    MDB_env *env;

    (void)unused;
    direct_close(engine, store); /* the store is there */
    env = open_file(&txn, &dbi);
    key = (MDB_val){ .mv_size = 1, .mv_data = "v" };
    value = (MDB_val){ .mv_size = sizeof version, .mv_data = &version };
    assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
    put_old(txn, dbi, "stock", record, sizeof record);
    put_old(txn, dbi, "other", other, sizeof other);
    for (unsigned i = 0; i < 500; i++) { /* enough to split pages when they grow */
        unsigned char many[32] = { 1, 0, 0, 0, 0, 0, 0, 0, 7, 0 };
        char name[16];

        snprintf(name, sizeof name, "many%03u", i);
        memcpy(many + 10, name, 7);
        put_old(txn, dbi, name, many, sizeof many);
    }
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);

    store = open_at(url);
    expect_bytes(store, "old", 41);
    assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, 41, "new"), HF_OK);
    expect_bytes(store, "new", 42);
    direct_close(engine, store);

    /* All have a checksum now, also those that nobody wrote. */
    assert_int_equal(count_records(), 503);
    env = open_file(&txn, &dbi);
    hfi_hash128("other", 5, hash);
    key = (MDB_val){ .mv_size = sizeof hash, .mv_data = hash };
    assert_int_equal(mdb_get(txn, dbi, &key, &value), 0);
    assert_int_equal(value.mv_size, sizeof other + 4);
    ((unsigned char *)memcpy(changed, value.mv_data, sizeof changed))[sizeof changed - 1] ^= 1;
    value.mv_data = changed;
    assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    store = open_at(url);
    expect_bytes(store, "new", 42);
    assert_int_equal(name_op(store, HFI_OP_CELL_READ, &op, "many250", 0, NULL, 0), HF_OK);
    hfi_free(op.u.cell.ret_bytes);
    assert_int_equal(name_op(store, HFI_OP_CELL_READ, &op, "other", 0, NULL, 0), HF_CORRUPT);
    direct_close(engine, store);
}

/* A process that finds an expired cell removes it before it reports that: a clock that is set back
 * later does not restore it. */
static void what_is_met_too_late_is_removed(void **unused)
{
    void *store = open_at(url);
    struct hfi_op op;
    uint64_t version;

    (void)unused;
    assert_int_equal(name_op(store, HFI_OP_CELL_SWAP, &op, "stock", 0, "x", 10), HF_OK);
    version = op.u.cell.ret_version;
    usleep(20000);
    assert_int_equal(cell(store, HFI_OP_CELL_READ, &op, 0, NULL), HF_NOT_FOUND);
    direct_close(engine, store);
    assert_int_equal(count_records(), 1); /* the counter of versions */

    store = open_at(url);
    assert_int_equal(name_op(store, HFI_OP_CELL_SWAP, &op, "other", 0, "x", 10), HF_OK);
    usleep(20000);
    assert_int_equal(name_op(store, HFI_OP_CELL_SWAP, &op, "other", version + 1, "y", 0), HF_BUSY);
    assert_int_equal(op.u.cell.ret_version, 0);
    direct_close(engine, store);
    assert_int_equal(count_records(), 1);
}

static void what_nobody_asks_for_is_swept(void **unused)
{
    void *store = open_at(url);
    uint64_t version = 0;
    struct hfi_op op;
    char name[16];

    (void)unused;
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "gone-%d", i);
        /* long enough that none or few end while they are written */
        assert_int_equal(name_op(store, HFI_OP_CELL_SWAP, &op, name, 0, "x", 100), HF_OK);
    }
    assert_int_equal(name_op(store, HFI_OP_CELL_SWAP, &op, "stays", 0, "x", 3600000), HF_OK);
    usleep(110000);
    for (int i = 0; i < 6; i++) { /* a few with each: all of them, and round the end */
        assert_int_equal(cell(store, HFI_OP_CELL_SWAP, &op, version, "x"), HF_OK);
        version = op.u.cell.ret_version;
    }
    direct_close(engine, store);
    assert_int_equal(count_records(), 3); /* "stays", "stock" and the counter */
    store = open_at(url);
    assert_int_equal(name_op(store, HFI_OP_CELL_READ, &op, "stays", 0, NULL, 0), HF_OK);
    assert_true(op.u.cell.ret_ttl_ms > 0 && op.u.cell.ret_ttl_ms <= 3600000);
    hfi_free(op.u.cell.ret_bytes);
    direct_close(engine, store);
}

static hf_store *store;

static void *wait_for_change(void *arg)
{
    uint64_t version = *(uint64_t *)arg;

    assert_int_equal(call_cell_wait(store, "bell", HF_CSTRING, version, 60000, NULL, NULL, NULL),
                     HF_OK);
    return NULL;
}

/*
 * A waiter looks once a second, for a writer that was killed before it could wake it. So that it is
 * woken shows in how long it takes: one of five rounds at least is shorter than that, however busy
 * the machine is.
 */
static void a_waiter_is_woken(void **unused)
{
    int64_t took_ms = 1000, begun_ms;
    pthread_t thread;
    uint64_t version;

    (void)unused;
    assert_int_equal(hf_open(url, NULL, &store, NULL), HF_OK);
    for (int i = 0; i < 5 && took_ms >= 900; i++) {
        assert_int_equal(call_cell_set(store, "bell", HF_CSTRING, "x", 1, 0, &version, NULL),
                         HF_OK);
        begun_ms = hfi_now_ms();
        assert_int_equal(pthread_create(&thread, NULL, wait_for_change, &version), 0);
        usleep(20000); /* it sleeps by then, or this round shows nothing */
        assert_int_equal(call_cell_set(store, "bell", HF_CSTRING, "y", 1, 0, NULL, NULL), HF_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        took_ms = hfi_now_ms() - begun_ms;
    }
    assert_true(took_ms < 900);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(swapped_by_version_and_durable),
        CASE(an_old_store_is_read),
        CASE(what_is_met_too_late_is_removed),
        CASE(what_nobody_asks_for_is_swept),
        CASE(a_waiter_is_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
