/* SPDX-License-Identifier: MIT */
/*
 * The claims of this process, so that it can register them again if the lease file is lost; and the
 * sweep, which finds expired leases of names that nobody asks for. All of it runs under the mutex.
 */
#include "engine/lmdb/internal.h"

#include <string.h>

#define SWEEP_STEP 32 /* names that each acquire with a ttl checks */

void lmdb_claim_link(struct lmdb_directory *d, struct hfi_claim *claim, struct lmdb_store *store)
{
    lmdb_claim_of(claim)->store = store;
    lmdb_claim_of(claim)->prev = NULL;
    lmdb_claim_of(claim)->next = d->claims;
    if (d->claims)
        lmdb_claim_of(d->claims)->prev = claim;
    d->claims = claim;
    d->claim_count++;
}

void lmdb_claim_unlink(struct lmdb_directory *d, struct hfi_claim *claim)
{
    struct hfi_claim *prev = lmdb_claim_of(claim)->prev, *next = lmdb_claim_of(claim)->next;

    if (!lmdb_claim_of(claim)->store)
        return;
    if (prev)
        lmdb_claim_of(prev)->next = next;
    else
        d->claims = next;
    if (next)
        lmdb_claim_of(next)->prev = prev;
    lmdb_claim_of(claim)->store = NULL;
    d->claim_count--;
    if (lmdb_claim_of(claim)->wait)
        lmdb_wait_end(d, lmdb_claim_of(claim)->wait);
    lmdb_claim_of(claim)->wait = NULL;
}

int lmdb_sweep(struct lmdb_txn *t)
{
    struct lmdb_header *header = t->directory->header;
    struct {
        uint64_t hash[2];
    } stale[SWEEP_STEP];
    MDB_val key = { .mv_size = LMDB_KEY_NAME, .mv_data = header->sweep }, value;
    struct lmdb_name rec;
    MDB_cursor *cursor;
    int found = 0, rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (int i = 0; rc == 0 && i < SWEEP_STEP; i++) {
        if (key.mv_size == LMDB_KEY_NAME && lmdb_name_parse(key.mv_data, &value, &rec) == 0 &&
            ((rec.first.token && lmdb_past(t, rec.first.deadline_ms)) ||
             (rec.closed_ms && lmdb_past(t, rec.closed_ms))))
            memcpy(stale[found++].hash, key.mv_data, LMDB_KEY_NAME);
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    if (rc == 0)
        memcpy(header->sweep, key.mv_data, LMDB_KEY_NAME);
    else
        header->sweep[0] = header->sweep[1] = 0;
    mdb_cursor_close(cursor);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;

    for (int i = 0; i < found; i++) {
        rc = lmdb_name_get_by_hash(t, stale[i].hash, &rec);
        if (rc == 0)
            rc = lmdb_expire(t, stale[i].hash, &rec);
        if (rc == 0)
            rc = lmdb_promote(t, stale[i].hash, &rec, 0);
        if (rc == 0)
            rc = lmdb_name_put(t, stale[i].hash, &rec);
        if (rc != 0)
            return rc;
    }
    return 0;
}
