/* SPDX-License-Identifier: MIT */
/*
 * Operations on an existing lease, always by its owner id: release, renew, adopt. Release hands
 * over to the next waiter in the same transaction. Renewal never re-creates: a lease whose deadline
 * has passed is lost, also if nobody has taken it.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"

#include <string.h>

struct release {
    struct hfi_claim *claim;
    hf_status status;
};

/* This owner is not a holder. An acquire whose cancel failed may still be in the queue. */
static int release_unknown(struct lmdb_txn *t, struct release *r, bool look)
{
    struct hfi_claim *claim = r->claim;
    struct lmdb_wait *w = lmdb_claim_of(claim)->wait;
    struct lmdb_name rec;
    int rc = look && w ? lmdb_name_get(t, &claim->name, &rec) : MDB_NOTFOUND;

    if (rc == 0)
        rc = lmdb_waiter_remove(t, claim->name.hash, &rec, w->ticket, claim->owner);
    r->status = rc == 0 ? HF_OK : HF_LOST;
    if (rc == MDB_NOTFOUND)
        return LMDB_STOP;
    return rc != 0 ? rc : lmdb_name_put(t, claim->name.hash, &rec);
}

static int release_body(struct lmdb_txn *t, void *arg)
{
    struct release *r = arg;
    const struct hfi_claim *claim = r->claim;
    const uint64_t *hash = claim->name.hash;
    struct lmdb_name rec;
    struct lmdb_holder h;
    bool deleted;
    int rc = lmdb_name_take(t, &claim->name, claim->owner, &rec, &deleted);

    if (rc == 0 && deleted) {
        r->status = HF_OK;
        return rec.first.slot == LMDB_NO_SLOT
                   ? 0
                   : lmdb_wake_later(
                         t, (struct lmdb_wake){ .kind = LMDB_WAKE_FORGET, .slot = rec.first.slot });
    }
    if (rc == 0)
        rc = lmdb_holder_find(t, hash, &rec, claim->owner, claim->token, &h);
    if (rc == MDB_NOTFOUND && !lmdb_pages_absent(t, hash))
        return LMDB_E_CORRUPT;
    if (rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION)
        return release_unknown(t, r, rc == MDB_NOTFOUND);
    if (rc != 0)
        return rc;
    r->status = lmdb_past(t, h.deadline_ms) ? HF_LOST : HF_OK;
    rc = lmdb_holder_remove(t, hash, &rec, &h, r->status == HF_LOST, h.deadline_ms);
    if (rc == 0 && rec.waiters > 0)
        rc = lmdb_promote(t, hash, &rec, 0);
    return rc != 0 ? rc : lmdb_name_put(t, hash, &rec);
}

static void release_after(struct lmdb_txn *t, void *arg)
{
    struct release *r = arg;

    lmdb_pass_end(t->directory, r->claim);
    lmdb_claim_unlink(t->directory, r->claim);
}

void lmdb_release(struct lmdb_store *store, struct hfi_op *op)
{
    struct release r = { .claim = op->claim };
    hf_status status = lmdb_run_op(store, op, true, release_body, release_after, &r);

    if (status == HF_OK && r.status == HF_LOST)
        status = hfi_error_set(&op->error, HF_LOST, 0, "%s", hf_status_text(HF_LOST));
    lmdb_finish(store, op, status);
}

/* ---- renew and adopt ----------------------------------------------------------------- */

/* The first waiter wakes at the deadline that it has read: if the new one is earlier, it must be
 * told. */
static int set_deadline(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                        struct lmdb_holder *h, int64_t ttl_ms)
{
    int64_t before_ms = h->deadline_ms;
    int rc;

    h->deadline_ms = hfi_after_ms(lmdb_now(t), ttl_ms);
    if (h->slot == LMDB_NO_SLOT)
        lmdb_remember_latest(t, hfi_after_ms(h->deadline_ms, h->lock_delay_ms));
    rc = lmdb_holder_update(t, hash, rec, h);
    return rc == 0 && h->deadline_ms < before_ms ? lmdb_call_head(t, hash, rec) : rc;
}

static int renew_one(struct lmdb_txn *t, struct hfi_renewal *item)
{
    const uint64_t *hash = item->claim->name.hash;
    struct lmdb_name rec;
    struct lmdb_holder h;
    int rc = lmdb_name_get(t, &item->claim->name, &rec);

    if (rc == 0)
        rc = lmdb_holder_find(t, hash, &rec, item->claim->owner, item->claim->token, &h);
    if (rc == MDB_NOTFOUND && !lmdb_pages_absent(t, hash))
        return LMDB_E_CORRUPT;
    if (rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION || (rc == 0 && lmdb_past(t, h.deadline_ms))) {
        item->status =
            HF_LOST; /* also an expired one that nobody has taken yet: never re-created */
        return 0;
    }
    if (rc != 0)
        return rc;
    item->status = HF_OK;
    item->others_wait = rec.waiters > 0;
    rc = set_deadline(t, hash, &rec, &h, item->ttl_ms);
    return rc != 0 ? rc : lmdb_name_put(t, hash, &rec);
}

struct renew {
    struct hfi_renewal *items;
    size_t count;
};

static int renew_body(struct lmdb_txn *t, void *arg)
{
    struct renew *r = arg;

    for (size_t i = 0; i < r->count; i++) {
        int rc = renew_one(t, &r->items[i]);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void renew_after(struct lmdb_txn *t, void *arg)
{
    struct renew *r = arg;

    for (size_t i = 0; i < r->count; i++) {
        struct hfi_renewal *item = &r->items[i];

        if (item->status != HF_OK)
            continue;
        item->claim->granted_ttl_ms = item->ttl_ms;
        item->claim->sent_ms = lmdb_now(t);
    }
}

void lmdb_renew(struct lmdb_store *store, struct hfi_op *op)
{
    struct renew r = { op->u.renew.items, op->u.renew.count };
    hf_status status = lmdb_run_op(store, op, true, renew_body, renew_after, &r);

    /* A full disk: the reserved space is enough for a few changes at a time, but not for all at
     * once. */
    if (status == HF_FULL && r.count > 1)
        for (r.count = 1, status = HF_OK;
             status == HF_OK && r.items < op->u.renew.items + op->u.renew.count; r.items++)
            status = lmdb_run_op(store, op, true, renew_body, renew_after, &r);
    for (size_t i = 0; status != HF_OK && i < op->u.renew.count; i++)
        op->u.renew.items[i].status = status;
    lmdb_finish(store, op, status);
}

struct adopt {
    struct lmdb_store *store;
    struct hfi_op *op;
    struct lmdb_name rec;
    struct lmdb_holder h;
    uint32_t slots[HF_SLOTS_MAX]; /* NUMBERED */
    int64_t now_ms;
};

static int adopt_body(struct lmdb_txn *t, void *arg)
{
    struct adopt *a = arg;
    struct hfi_claim *claim = a->op->claim;
    int rc = lmdb_name_get(t, &claim->name, &a->rec);

    if (rc == 0)
        rc = lmdb_holder_find(t, claim->name.hash, &a->rec, claim->owner, claim->token, &a->h);
    if (rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION ||
        (rc == 0 && (lmdb_past(t, a->h.deadline_ms) || a->h.slot != LMDB_NO_SLOT))) {
        a->h.token = 0;
        return LMDB_STOP;
    }
    if (rc != 0)
        return rc;
    if (claim->ttl_ms)
        a->h.ttl_ms = claim->ttl_ms;
    a->now_ms = lmdb_now(t);
    rc = lmdb_numbers_get(t, claim->name.hash, &a->rec, &a->h, a->slots);
    if (rc == 0)
        rc = set_deadline(t, claim->name.hash, &a->rec, &a->h, a->h.ttl_ms);
    return rc != 0 ? rc : lmdb_name_put(t, claim->name.hash, &a->rec);
}

static void adopt_after(struct lmdb_txn *t, void *arg)
{
    struct adopt *a = arg;
    struct hfi_claim *claim = a->op->claim;

    if (a->h.token == 0)
        return;
    claim->mode = lmdb_mode(&a->rec);
    claim->capacity = a->rec.capacity;
    claim->permits = a->h.permits;
    claim->flags |= HFI_CLAIM_DETACHED;
    if (a->h.flags & LMDB_HOLDER_NUMBERED) {
        claim->flags |= HFI_CLAIM_NUMBERED;
        memcpy(claim->slots, a->slots, sizeof a->slots);
    }
    claim->lock_delay_ms = a->h.lock_delay_ms;
    claim->token = a->h.token;
    claim->tokens = 1; /* earlier local passes are not known here */
    claim->ttl_ms = claim->granted_ttl_ms = a->h.ttl_ms;
    claim->sent_ms = a->now_ms;
    lmdb_claim_link(t->directory, claim, a->store);
}

void lmdb_adopt(struct lmdb_store *store, struct hfi_op *op)
{
    struct adopt a = { .store = store, .op = op };
    hf_status status = lmdb_mail_start(store->directory, &op->error);

    if (status == HF_OK)
        status = lmdb_run_op(store, op, true, adopt_body, adopt_after, &a);
    if (status == HF_OK && a.h.token == 0)
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0,
                               "no such lease: it ended, expired or was broken");
    lmdb_finish(store, op, status);
}
