/* SPDX-License-Identifier: MIT */
/*
 * Encodes and decodes the records of cells.
 *
 * A record is: version (8 bytes), length of the name (2), a checksum of key and record (4), the
 * name, the bytes. Two bits of the length, which no name needs, are flags. With HAS_END the end of
 * the ttl (8 bytes, milliseconds since 1970) comes before the name. With HAS_SUM there is a
 * checksum. Stores of older versions have no checksums: they can be read, and the first write adds
 * one to all their records. The counter of versions says which kind of store it is; a record of the
 * other kind is damaged.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/hash.h"

#include <errno.h>
#include <string.h>

#define HAS_END 0x8000u
#define HAS_SUM 0x4000u
#define HEAD    10 /* version and length */
#define SUM     4

_Static_assert(sizeof LMDB_CELL_COUNTER - 1 == LMDB_CELL_COUNTER_LEN, "as internal.h says");

static uint32_t checksum(const void *key, const unsigned char *at, size_t len)
{
    uint64_t words[2], folded;
    uint32_t head = hfi_checksum(at, HEAD);

    memcpy(words, key, sizeof words);
    folded = words[0] ^ words[1];
    return hfi_checksum(at + HEAD + SUM, len - HEAD - SUM) ^ (head << 1 | head >> 31) ^
           (uint32_t)folded ^ (uint32_t)(folded >> 32);
}

int lmdb_cell_parse(const MDB_val *key, const MDB_val *value, bool sealed, struct lmdb_found *ret)
{
    const unsigned char *at = value->mv_data;
    size_t head = HEAD + (sealed ? SUM : 0);
    uint16_t len;
    uint32_t sum;

    *ret = (struct lmdb_found){ .end_ms = HFI_NEVER };
    if (key->mv_size != LMDB_KEY_NAME || value->mv_size < head)
        return LMDB_E_CORRUPT;
    memcpy(&ret->version, at, 8);
    memcpy(&len, at + 8, 2);
    if (len & HAS_END) {
        if (value->mv_size < head + 8)
            return LMDB_E_CORRUPT;
        memcpy(&ret->end_ms, at + head, 8);
        head += 8;
    }
    len &= (uint16_t)~HAS_END;
    if (sealed != ((len & HAS_SUM) != 0))
        return LMDB_E_CORRUPT;
    len &= (uint16_t)~HAS_SUM;
    if (len == 0 || len > HF_NAME_MAX || ret->version == 0 || value->mv_size < head + len)
        return LMDB_E_CORRUPT;
    ret->name_len = len;
    ret->name = at + head;
    ret->bytes.mv_data = (void *)(uintptr_t)(at + head + len);
    ret->bytes.mv_size = value->mv_size - head - len;
    if (!sealed)
        return 0;
    memcpy(&sum, at + HEAD, SUM);
    return sum == checksum(key->mv_data, at, value->mv_size) ? 0 : LMDB_E_CORRUPT;
}

/* The counter of versions. *ret_sealed: it has a checksum, and so have all records of the store. */
int lmdb_cell_counter_parse(const MDB_val *value, uint64_t *ret_version, bool *ret_sealed)
{
    uint32_t sum;

    *ret_sealed = value->mv_size == sizeof *ret_version + SUM;
    if (value->mv_size != sizeof *ret_version && !*ret_sealed)
        return LMDB_E_CORRUPT;
    memcpy(ret_version, value->mv_data, sizeof *ret_version);
    if (!*ret_sealed)
        return 0;
    memcpy(&sum, (const char *)value->mv_data + sizeof *ret_version, SUM);
    return sum == hfi_checksum(ret_version, sizeof *ret_version) ? 0 : LMDB_E_CORRUPT;
}

int lmdb_cell_counter_put(MDB_txn *txn, MDB_dbi dbi, uint64_t version)
{
    MDB_val key = { .mv_size = LMDB_CELL_COUNTER_LEN,
                    .mv_data = (void *)(uintptr_t)LMDB_CELL_COUNTER };
    unsigned char bytes[sizeof version + SUM];
    MDB_val value = { .mv_size = sizeof bytes, .mv_data = bytes };
    uint32_t sum = hfi_checksum(&version, sizeof version);

    memcpy(bytes, &version, sizeof version);
    memcpy(bytes + sizeof version, &sum, SUM);
    return mdb_put(txn, dbi, &key, &value, 0);
}

int lmdb_cell_put(MDB_txn *txn, MDB_dbi dbi, const uint64_t hash[2],
                  const struct lmdb_found *record)
{
    MDB_val key = { .mv_size = LMDB_KEY_NAME, .mv_data = (void *)(uintptr_t)hash }, value;
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

/* A store of a version without checksums: every record gets one, in the transaction of the first
 * write. */
int lmdb_cell_seal_all(MDB_txn *txn, MDB_dbi dbi)
{
    unsigned char at[LMDB_KEY_NAME] = { 0 };
    MDB_val key = { .mv_size = LMDB_KEY_NAME, .mv_data = at }, value;
    struct lmdb_found found;
    MDB_cursor *cursor;
    uint64_t hash[2];
    int rc = mdb_cursor_open(txn, dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0) {
        if (key.mv_size == LMDB_KEY_NAME) {
            MDB_val copy = { .mv_size = value.mv_size, .mv_data = hfi_malloc(value.mv_size) };

            /* A copy: LMDB's pages move under a write. */
            rc = copy.mv_data ? 0 : ENOMEM;
            if (rc == 0) {
                memcpy(copy.mv_data, value.mv_data, value.mv_size);
                memcpy(hash, key.mv_data, sizeof hash);
                rc = lmdb_cell_parse(&key, &copy, false, &found);
            }
            if (rc == 0)
                rc = lmdb_cell_put(txn, dbi, hash, &found);
            hfi_free(copy.mv_data);
            key = (MDB_val){ .mv_size = LMDB_KEY_NAME, .mv_data = hash };
            if (rc == 0)
                rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_KEY);
        }
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}
