/* SPDX-License-Identifier: MIT */
/* See raw_lmdb.h. */
#include "raw_lmdb.h"

#include "bench.h"

#include <string.h>

static void check(int rc, const char *what)
{
    if (rc != 0)
        bench_die("raw LMDB: %s: %s", what, mdb_strerror(rc));
}

static MDB_txn *begin(const struct raw_lmdb *raw)
{
    MDB_txn *txn;

    check(mdb_txn_begin(raw->env, NULL, 0, &txn), "begin");
    return txn;
}

struct raw_lmdb raw_open(const char *file, size_t map_bytes)
{
    struct raw_lmdb raw;
    MDB_txn *txn;

    check(mdb_env_create(&raw.env), "create");
    check(mdb_env_set_mapsize(raw.env, map_bytes), "map size");
    check(mdb_env_open(raw.env, file, MDB_NOSUBDIR | MDB_NOSYNC | MDB_WRITEMAP | MDB_NOLOCK, 0600),
          "open");
    txn = begin(&raw);
    check(mdb_dbi_open(txn, NULL, 0, &raw.dbi), "database");
    check(mdb_txn_commit(txn), "commit");
    return raw;
}

static void put(const struct raw_lmdb *raw, MDB_txn *txn, const uint64_t key[2])
{
    unsigned char bytes[RAW_VALUE];
    MDB_val k = { RAW_KEY, (void *)(uintptr_t)key }, v = { sizeof bytes, bytes };

    memset(bytes, (int)key[0], sizeof bytes);
    check(mdb_put(txn, raw->dbi, &k, &v, 0), "put");
}

void raw_put(struct raw_lmdb *raw, const uint64_t key[2])
{
    MDB_txn *txn = begin(raw);

    put(raw, txn, key);
    check(mdb_txn_commit(txn), "commit");
}

void raw_delete(struct raw_lmdb *raw, const uint64_t key[2])
{
    MDB_val k = { RAW_KEY, (void *)(uintptr_t)key };
    MDB_txn *txn = begin(raw);

    check(mdb_del(txn, raw->dbi, &k, NULL), "delete");
    check(mdb_txn_commit(txn), "commit");
}

/* Spread over the whole range, as hashes of names are. */
void raw_fill(struct raw_lmdb *raw, uint64_t first, uint64_t count)
{
    MDB_txn *txn = begin(raw);

    for (uint64_t i = first; i < first + count; i++) {
        uint64_t key[2] = { (i + 1) * UINT64_C(0x9e3779b97f4a7c15), i };

        put(raw, txn, key);
    }
    check(mdb_txn_commit(txn), "commit");
}

double raw_size(const struct raw_lmdb *raw)
{
    MDB_envinfo info;
    MDB_stat stat;

    check(mdb_env_info(raw->env, &info), "info");
    check(mdb_env_stat(raw->env, &stat), "stat");
    return (double)(info.me_last_pgno + 1) * stat.ms_psize;
}
