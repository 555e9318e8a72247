/* SPDX-License-Identifier: MIT */
/*
 * The queue of a name: tickets, and the record of a waiter. A claim that takes the place of a holder (HFI_CLAIM_REPLACES) has a ticket
 * before all others. Everything here runs in a transaction, under the mutex.
 */
#include "engine/lmdb/internal.h"

#include <string.h>

uint64_t lmdb_ticket_last(struct lmdb_txn *t)
{
    struct lmdb_header *header = t->directory->header;

    if (header->last_ticket == 0)
        header->last_ticket = 1; /* so that there is one before the first */
    return ++header->last_ticket;
}

int lmdb_ticket_first(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      uint64_t *ret_ticket)
{
    struct lmdb_waiter w;
    uint64_t ticket = 0;
    int rc = rec->waiters > 0 ? lmdb_waiter_next(t, hash, &ticket, &w) : MDB_NOTFOUND;

    *ret_ticket = rc == 0 ? ticket - 1 : lmdb_ticket_last(t);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

uint64_t lmdb_waiter_replaced(const struct lmdb_waiter *w)
{
    uint64_t token = 0;

    if (w->flags & LMDB_WAITER_REPLACES && w->label_len >= sizeof token)
        memcpy(&token, w->label, sizeof token);
    return token;
}

const char *lmdb_waiter_label(const struct lmdb_waiter *w, uint32_t *ret_len)
{
    uint32_t skip = lmdb_waiter_replaced(w) ? sizeof(uint64_t) : 0;

    *ret_len = w->label_len - skip;
    return w->label + skip;
}

int lmdb_enqueue(struct lmdb_txn *t, struct lmdb_name *rec, struct lmdb_wait *w, uint64_t ticket)
{
    struct lmdb_directory *d = t->directory;
    const struct hfi_claim *claim = w->claim;
    struct lmdb_waiter record = { .slot = d->slot,
                                  .since_ms = lmdb_now(t),
                                  .ttl_ms = claim->ttl_ms,
                                  .lock_delay_ms = claim->lock_delay_ms,
                                  .cookie = w->cookie,
                                  .cell = w->cell,
                                  .turn = w->turn,
                                  .permits = claim->permits,
                                  .tokens_wanted = claim->tokens_wanted };
    size_t label_len;
    const char *label = lmdb_label(w->store, claim, &label_len);

    memcpy(record.owner, claim->owner, HFI_OWNER_LEN);
    record.flags = (claim->flags & HFI_CLAIM_BARGE ? LMDB_WAITER_BARGE : 0) |
                   (claim->flags & HFI_CLAIM_DETACHED ? LMDB_WAITER_DETACHED : 0) |
                   (claim->flags & HFI_CLAIM_WATCHED ? LMDB_WAITER_WATCHED : 0) |
                   (claim->flags & HFI_CLAIM_NUMBERED ? LMDB_WAITER_NUMBERED : 0) |
                   (claim->flags & HFI_CLAIM_REPLACES ? LMDB_WAITER_REPLACES : 0);
    if (w->replaced) {
        memcpy(record.label, &w->replaced, sizeof w->replaced);
        record.label_len = sizeof w->replaced;
        if (label_len > HF_LABEL_MAX - sizeof w->replaced)
            label_len = HF_LABEL_MAX - sizeof w->replaced;
    }
    if (label_len)
        memcpy(record.label + record.label_len, label, label_len);
    record.label_len += (uint32_t)label_len;
    w->ticket = ticket;
    rec->waiters++;
    if (w->cell < LMDB_CELLS)
        atomic_store(&lmdb_slot(d, d->slot)->cells[w->cell].word, w->turn << 2 | LMDB_WAITING);
    return lmdb_waiter_put(t, claim->name.hash, w->ticket, &record);
}
