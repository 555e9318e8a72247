/* SPDX-License-Identifier: MIT */
/*
 * The limit for the embedded store: LMDB by hand, as fast as it goes. NOSYNC|WRITEMAP|NOLOCK, the
 * unnamed database, records as large as those of a held name; no lock around it, no owner,
 * no queue, no token.
 */
#ifndef BENCH_RAW_LMDB_H
#define BENCH_RAW_LMDB_H

#include <lmdb.h>
#include <stdint.h>

#define RAW_KEY   16  /* bytes */
#define RAW_VALUE 128 /* 112 and a name of 16 bytes */

struct raw_lmdb {
    MDB_env *env;
    MDB_dbi dbi;
};

struct raw_lmdb raw_open(const char *file, size_t map_bytes);
/* One transaction each. */
void raw_put(struct raw_lmdb *raw, const uint64_t key[2]);
void raw_delete(struct raw_lmdb *raw, const uint64_t key[2]);
/* Many records in one transaction. */
void raw_fill(struct raw_lmdb *raw, uint64_t first, uint64_t count);
/* Bytes of the file up to the last page in use. */
double raw_size(const struct raw_lmdb *raw);

#endif
