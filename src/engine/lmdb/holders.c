/* SPDX-License-Identifier: MIT */
/*
 * The permit model in the store: adding and removing holders, and choosing the next one.
 *
 * Why two conflicting leases can never be held at the same time: `taken` of a name is the sum of
 * the permits of its holders, changes only in the transaction that adds or removes a holder, and a
 * holder is added only if its permits fit. Transactions are serialised by the mutex and atomic by
 * LMDB. A holder is removed only by its owner id, by `break` with its token, when its deadline has
 * passed on the clock that all processes of this machine share, or when the kernel has taken down
 * its process.
 */
#include "engine/lmdb/internal.h"

#include <string.h>

int lmdb_token_take(struct lmdb_txn *t, uint32_t count_wanted, uint64_t *ret_first)
{
    struct lmdb_header *h = t->directory->header;

    if (h->token_next >= HFI_TOKEN_LIMIT) /* before it is added to */
        return LMDB_E_TOKENS;
    if (h->token_next + count_wanted > h->token_limit) {
        uint64_t limit = h->token_next + count_wanted + LMDB_TOKEN_BLOCK;

        if (h->token_next + count_wanted >= HFI_TOKEN_LIMIT)
            return LMDB_E_TOKENS;
        if (limit > HFI_TOKEN_LIMIT)
            limit = HFI_TOKEN_LIMIT;
        if (lmdb_tokens_reserve(t->directory, limit) != 0)
            return LMDB_E_TOKENS;
        h->token_limit = limit;
    }
    *ret_first = h->token_next;
    h->token_next += count_wanted;
    return 0;
}

/* After this moment no lease that no process remembers can still be valid. */
void lmdb_remember_latest(struct lmdb_txn *t, int64_t until_ms)
{
    if (until_ms != HFI_NEVER && until_ms > t->directory->header->latest_ms)
        t->directory->header->latest_ms = until_ms;
}

int lmdb_holder_grant(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                      struct lmdb_holder *h, const char *label, size_t label_len,
                      uint32_t ret_slots[HF_SLOTS_MAX])
{
    char text[HF_LABEL_MAX + 1];
    int rc = 0;

    if (h->flags & LMDB_HOLDER_NUMBERED) {
        rc = lmdb_numbers_give(t, hash, rec, h->permits, ret_slots);
        if (rc != 0)
            return rc;
        label_len = lmdb_numbers_put(ret_slots, h->permits, label, label_len, text);
        label = text;
    }
    rc = lmdb_token_take(t, h->tokens, &h->token);
    return rc != 0 ? rc : lmdb_holder_add(t, hash, rec, h, label, label_len);
}

int lmdb_holder_add(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                    const struct lmdb_holder *h, const char *label, size_t label_len)
{
    rec->taken += h->permits;
    if (h->slot == LMDB_NO_SLOT)
        lmdb_remember_latest(t, hfi_after_ms(h->deadline_ms, h->lock_delay_ms));
    if (rec->first.token == 0) {
        lmdb_first_set(rec, h, label, label_len);
        return 0;
    }
    rec->further++;
    return lmdb_further_put(t, hash, h, label, label_len);
}

int lmdb_holder_remove(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                       const struct lmdb_holder *h, bool unclean, int64_t since_ms)
{
    struct lmdb_holder copy = *h; /* it may be rec->first */

    if (copy.permits > rec->taken)
        return LMDB_E_CORRUPT;
    rec->taken -= copy.permits;
    if (rec->first.token == copy.token) {
        rec->first.token = 0;
        rec->label_len = 0;
    } else {
        int rc = lmdb_further_del(t, hash, copy.token);

        if (rc != 0)
            return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
        rec->further--;
    }
    if (unclean && copy.lock_delay_ms > 0) {
        int64_t until = hfi_after_ms(since_ms, copy.lock_delay_ms);
        int rc = lmdb_call_head(t, hash, rec); /* the first waiter must wake when the name opens */

        if (rc != 0)
            return rc;
        if (until > rec->closed_ms)
            rec->closed_ms = until;
        lmdb_remember_latest(t, until);
    }
    if (copy.slot == LMDB_NO_SLOT)
        return 0;
    return lmdb_wake_later(t, (struct lmdb_wake){ .kind = LMDB_WAKE_FORGET, .slot = copy.slot });
}

/* The owner's validity ended before this deadline, so the lease can be removed. */
int lmdb_expire(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec)
{
    struct lmdb_further further;
    uint64_t at = 0;
    int rc = 0;

    if (rec->first.token && lmdb_past(t, rec->first.deadline_ms))
        rc = lmdb_holder_remove(t, hash, rec, &rec->first, true, rec->first.deadline_ms);
    while (rc == 0 && rec->further > 0) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == MDB_NOTFOUND)
            return 0;
        if (rc == 0 && lmdb_past(t, further.holder.deadline_ms))
            rc =
                lmdb_holder_remove(t, hash, rec, &further.holder, true, further.holder.deadline_ms);
        at++;
    }
    return rc;
}

static struct lmdb_wake call(const struct lmdb_waiter *w)
{
    return (struct lmdb_wake){ .kind = LMDB_WAKE_CALLED,
                               .slot = w->slot,
                               .cell = w->cell,
                               .turn = w->turn,
                               .cookie = w->cookie };
}

/*
 * The first waiter must notice the death and the expiry of every holder. It watches the holders
 * that it saw when it last read the name, and the waiter that was ahead of it. If these are not all
 * holders any more, it is told to read the name again.
 */
int lmdb_call_head(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec)
{
    struct lmdb_waiter w;
    uint64_t ticket = 0;
    int rc;

    if (rec->waiters == 0)
        return 0;
    rc = lmdb_waiter_next(t, hash, &ticket, &w);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
    return lmdb_wake_later(t, call(&w));
}

/* The waiter takes the place of the holder with this token, if that one has not ended: remove the holder if the waiter fits then, and
 * say when it would have ended. */
static int make_place(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                      const struct lmdb_waiter *w, int64_t *ret_least_ms)
{
    uint64_t token = lmdb_waiter_replaced(w);
    struct lmdb_further further;
    struct lmdb_holder old = rec->first;

    *ret_least_ms = 0;
    if (token == 0)
        return 0;
    if (old.token != token) {
        int rc = rec->further > 0 ? lmdb_further_get(t, hash, token, &further) : MDB_NOTFOUND;

        if (rc != 0)
            return rc == MDB_NOTFOUND ? 0 : rc;
        old = further.holder;
    }
    if (old.permits > rec->taken)
        return LMDB_E_CORRUPT;
    if (!lmdb_fits(rec->capacity, rec->taken - old.permits, w->permits))
        return 0;
    *ret_least_ms = old.deadline_ms;
    return lmdb_holder_remove(t, hash, rec, &old, false, 0);
}

/*
 * Grants in the order of tickets: as long as the first waiter fits, it becomes a holder.
 * Nobody behind it is looked at, so a writer or a large request is never overtaken.
 * The winner's cell carries the token: it needs no transaction of its own. The new first waiter is
 * not woken either if the waiter that was ahead of it is now the only holder and has no deadline.
 */
int lmdb_promote(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec, uint64_t self)
{
    struct lmdb_waiter w;
    uint64_t ticket = 0;
    uint32_t missing;
    uint32_t grants = 0, label_len, slots[HF_SLOTS_MAX];
    const char *label;
    int64_t least_ms;
    bool look = false, others;
    int rc;

    if (rec->waiters == 0 || !lmdb_past(t, rec->closed_ms) || !lmdb_open_for_grants(t, &missing))
        return 0;
    rc = lmdb_expire(t, hash, rec);
    others = rec->taken > 0;
    while (rc == 0 && rec->waiters > 0 && lmdb_past(t, rec->closed_ms)) {
        rc = lmdb_waiter_next(t, hash, &ticket, &w);
        if (rc != 0)
            return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
        rc = make_place(t, hash, rec, &w, &least_ms);
        if (rc != 0)
            return rc;
        if (!lmdb_fits(rec->capacity, rec->taken, w.permits))
            break;
        struct lmdb_wake wake = { .kind = LMDB_WAKE_GRANTED,
                                  .slot = w.slot,
                                  .cell = w.cell,
                                  .turn = w.turn,
                                  .cookie = w.cookie,
                                  .granted_ms = lmdb_now(t) };

        if (w.flags & LMDB_WAITER_BARGE && ticket != self) {
            wake.kind = LMDB_WAKE_CALLED; /* a barging waiter competes: the first to acquire gets
                                           * it */
            return lmdb_wake_later(t, wake);
        }
        struct lmdb_holder h = { .granted_ms = lmdb_now(t),
                                 .deadline_ms =
                                     w.ttl_ms ? hfi_after_ms(lmdb_now(t), w.ttl_ms) : HFI_NEVER,
                                 .lock_delay_ms = w.lock_delay_ms,
                                 .tokens = w.tokens_wanted,
                                 .permits = w.permits,
                                 .ttl_ms = w.ttl_ms,
                                 .slot = w.flags & LMDB_WAITER_DETACHED ? LMDB_NO_SLOT : w.slot,
                                 .flags =
                                     (w.flags & LMDB_WAITER_WATCHED ? LMDB_HOLDER_WATCHED : 0) |
                                     (w.flags & LMDB_WAITER_NUMBERED ? LMDB_HOLDER_NUMBERED : 0) };

        if (h.deadline_ms < least_ms)
            h.deadline_ms = least_ms;
        memcpy(h.owner, w.owner, HFI_OWNER_LEN);
        rc = lmdb_waiter_del(t, hash, ticket);
        label = lmdb_waiter_label(&w, &label_len);
        if (rc == 0)
            rc = lmdb_holder_grant(t, hash, rec, &h, label, label_len, slots);
        rec->waiters--;
        grants++;
        wake.token = h.token;
        if (rec->waiters > 0 && h.flags & LMDB_HOLDER_WATCHED)
            wake.token |= LMDB_OTHERS_WAIT;
        if (rc == 0)
            rc = lmdb_wake_later(t, wake);
        if (rc == 0 && h.slot == LMDB_NO_SLOT)
            rc = lmdb_wake_later(t, (struct lmdb_wake){ .kind = LMDB_WAKE_FORGET, .slot = w.slot });
        look = rec->further > 0 || h.deadline_ms != HFI_NEVER;
        ticket++;
    }
    if (rc == 0 && grants > 0 && (rec->waiters > 0 || others || grants > 1))
        rc = lmdb_tell_waiters(t, hash, rec);
    return rc == 0 && look ? lmdb_call_head(t, hash, rec) : rc;
}

int lmdb_name_forget(struct lmdb_txn *t, const uint64_t hash[2], uint32_t slot)
{
    struct lmdb_further further;
    struct lmdb_waiter w;
    struct lmdb_name rec;
    uint64_t at = 0;
    bool behind_dead = false, removed = false;
    int rc = lmdb_name_get_by_hash(t, hash, &rec);

    if (rc != 0)
        return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
    if (rec.first.token && rec.first.slot == slot)
        rc = lmdb_holder_remove(t, hash, &rec, &rec.first, true, lmdb_now(t));
    for (; rc == 0 && rec.further > 0; at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0 && further.holder.slot == slot)
            rc = lmdb_holder_remove(t, hash, &rec, &further.holder, true, lmdb_now(t));
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    at = 0;
    for (; rc == 0 && rec.waiters > 0; at++) {
        rc = lmdb_waiter_next(t, hash, &at, &w);
        if (rc != 0)
            break;
        if (w.slot == slot) {
            rc = lmdb_waiter_del(t, hash, at);
            rec.waiters--;
            removed = true;
        } else if (behind_dead) {
            rc = lmdb_wake_later(t, call(&w)); /* it has another waiter ahead of it now */
        }
        behind_dead = w.slot == slot;
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0 && removed)
        rc = lmdb_tell_waiters(t, hash, &rec);
    if (rc == 0)
        rc = lmdb_promote(t, hash, &rec, 0);
    return rc != 0 ? rc : lmdb_name_put(t, hash, &rec);
}

static int dead_at(struct lmdb_txn *t, uint32_t slot, bool trust_watch)
{
    if (slot == LMDB_NO_SLOT || slot == t->directory->slot)
        return 0;
    if (slot >= lmdb_slots_used(t->directory))
        return LMDB_E_CORRUPT;
    if (trust_watch && lmdb_watched(t->directory, slot, lmdb_slot(t->directory, slot)->generation))
        return 0;
    if (lmdb_alive(t->directory, slot))
        return 0;
    if (atomic_load(&lmdb_slot(t->directory, slot)->state) != LMDB_SLOT_LIVE)
        return LMDB_E_CORRUPT; /* this process was cleaned up after: no record can belong to it */
    t->dead = slot;
    return LMDB_E_DEAD;
}

int lmdb_find_dead(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                   bool trust_watch)
{
    struct lmdb_further further;
    struct lmdb_waiter w;
    uint64_t at = 0;
    int rc = rec->first.token ? dead_at(t, rec->first.slot, trust_watch) : 0;

    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0)
            rc = dead_at(t, further.holder.slot, trust_watch);
    }
    at = 0;
    if (rc == 0 && rec->waiters > 0) {
        rc = lmdb_waiter_next(t, hash, &at, &w);
        if (rc == 0)
            rc = dead_at(t, w.slot, trust_watch);
    }
    return rc == MDB_NOTFOUND ? 0 : rc; /* removed in this transaction */
}
