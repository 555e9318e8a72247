/* SPDX-License-Identifier: MIT */
/*
 * Acquire: if nobody holds the name, one insertion takes it. Else read its record and take free
 * permits, join the queue, or refuse.
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <stddef.h>
#include <string.h>

struct acquire {
    struct lmdb_store *store;
    struct hfi_op *op;
    struct lmdb_wait *wait;
    uint64_t cookie; /* of `wait` */
    bool by_mail;
    struct lmdb_ahead ahead;
    hf_status status; /* HF_OK: granted, or waiting if `wait` is set */
    hf_error *err;
    bool counted; /* our record is in slot->records */
    bool waiting;
    bool room; /* false: the file is full: report what blocks the request, but write nothing */
    bool others_wait;
    uint64_t token;
    uint32_t tokens;
    uint32_t slots[HF_SLOTS_MAX]; /* NUMBERED */
    int64_t now_ms;
};

static int acquire_body(struct lmdb_txn *t, void *arg);
static void acquire_after(struct lmdb_txn *t, void *arg);
static int acquire_known(struct lmdb_txn *t, struct acquire *a, const MDB_val *value, bool open,
                         uint32_t missing);
static int acquire_replacing(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec,
                             bool open, uint32_t missing);
static int grant(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec, int64_t least_ms);
static int refuse(struct lmdb_txn *t, struct acquire *a, bool open, uint32_t missing);
static int enqueue(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec, uint64_t ticket,
                   uint64_t replaced);
static int stop(struct acquire *a, hf_status status);
static hf_status closed(struct lmdb_txn *t, uint32_t missing, hf_error *err);
static void count(struct lmdb_txn *t, struct acquire *a);

void lmdb_acquire(struct lmdb_store *store, struct hfi_op *op)
{
    struct acquire a;
    hf_status status;

    a.store = store;
    a.op = op;
    a.wait = NULL;
    a.counted = a.waiting = false;
    a.err = &op->error;
    status = lmdb_mail_start(store->directory, &op->error);
    if (status == HF_OK && op->claim->flags & HFI_CLAIM_WATCHED &&
        !atomic_exchange(&store->watches, true))
        store->host->hears(store->host, true);
    if (status == HF_OK && op->may_wait)
        status = lmdb_watch_start(store->directory, &op->error);
    if (status == HF_OK)
        status = lmdb_run_op(store, op, true, acquire_body, acquire_after, &a);
    if (status == HF_OK)
        status = a.status;
    if (status == HF_OK && a.waiting) {
        lmdb_wait_begun(store->directory, a.wait, a.cookie, &a.ahead,
                        a.by_mail); /* the op may be gone */
        return;
    }
    if (a.wait)
        lmdb_wait_end(store->directory, a.wait);
    lmdb_finish(store, op, status);
}

static struct lmdb_holder holder_of(struct lmdb_txn *t, const struct hfi_claim *claim,
                                    uint32_t slot)
{
    struct lmdb_holder h;

    memcpy(h.owner, claim->owner, HFI_OWNER_LEN);
    h.token = 0;
    h.granted_ms = lmdb_now(t);
    h.deadline_ms = claim->ttl_ms ? hfi_after_ms(lmdb_now(t), claim->ttl_ms) : HFI_NEVER;
    h.lock_delay_ms = claim->lock_delay_ms;
    h.tokens = claim->tokens_wanted;
    h.permits = claim->permits;
    h.slot = claim->flags & HFI_CLAIM_DETACHED ? LMDB_NO_SLOT : slot;
    h.flags = (claim->flags & HFI_CLAIM_WATCHED ? LMDB_HOLDER_WATCHED : 0) |
              (claim->flags & HFI_CLAIM_NUMBERED ? LMDB_HOLDER_NUMBERED : 0);
    h.ttl_ms = claim->ttl_ms;
    return h;
}

/* A name that nobody holds has no record: one insertion finds that out and takes it. */
static int acquire_body(struct lmdb_txn *t, void *arg)
{
    struct acquire *a = arg;
    const struct hfi_claim *claim = a->op->claim;
    struct lmdb_name rec;
    MDB_val key = { .mv_size = LMDB_KEY_NAME, .mv_data = (void *)(uintptr_t)claim->name.hash },
            value;
    uint32_t missing;
    bool open = lmdb_open_for_grants(t, &missing);
    struct lmdb_holder h;
    size_t label_len;
    const char *label = lmdb_label(a->store, claim, &label_len);
    int rc;

    a->status = HF_OK;
    a->waiting = a->others_wait = false;
    a->now_ms = lmdb_now(t);
    a->room = lmdb_pages_room(t->directory);
    if (!lmdb_pages_way(t, claim->name.hash))
        return LMDB_E_CORRUPT;
    if (claim->ttl_ms && (rc = lmdb_sweep(t)) != 0)
        return rc;
    if (!open || !a->room || claim->flags & HFI_CLAIM_REPLACES) {
        rc = mdb_get(t->mdb, t->directory->dbi, &key, &value);
        return rc == 0              ? acquire_known(t, a, &value, open, missing)
               : rc != MDB_NOTFOUND ? rc
               : claim->flags & HFI_CLAIM_REPLACES
                   ? stop(a, hfi_error_set(a->err, HF_LOST, 0, "%s", hf_status_text(HF_LOST)))
               : a->room ? acquire_known(t, a, NULL, false, missing)
                         : MDB_MAP_FULL;
    }

    lmdb_name_init(&rec, &claim->name);
    rec.mode = (uint8_t)claim->mode;
    rec.capacity = claim->capacity;
    h = holder_of(t, claim, t->directory->slot);
    rc = lmdb_holder_grant(t, claim->name.hash, &rec, &h, label, label_len, a->slots);
    if (rc != 0)
        return rc;
    value.mv_size = lmdb_name_seal(&rec, claim->name.hash);
    value.mv_data = &rec;
    rc = mdb_put(t->mdb, t->directory->dbi, &key, &value, MDB_NOOVERWRITE);
    if (rc == MDB_KEYEXIST)
        return acquire_known(t, a, &value, true, missing);
    if (rc != 0)
        return rc;
    a->token = h.token;
    a->tokens = h.tokens;
    count(t, a);
    return 0;
}

/* Is the name what the claim takes it for? A size that was set counts, whatever the claim says. */
static bool agrees(const struct lmdb_name *rec, const struct hfi_claim *claim)
{
    if (lmdb_mode(rec) != claim->mode)
        return false;
    return rec->mode & LMDB_MODE_SET ? claim->permits <= rec->capacity
                                     : claim->capacity == rec->capacity;
}

/* The name has a record (`value`; NULL: none, but the store is closed for grants). */
static int acquire_known(struct lmdb_txn *t, struct acquire *a, const MDB_val *value, bool open,
                         uint32_t missing)
{
    const struct hfi_claim *claim = a->op->claim;
    const uint64_t *hash = claim->name.hash;
    struct lmdb_name rec;
    int rc = 0;

    if (!value)
        lmdb_name_init(&rec, &claim->name);
    else
        rc = lmdb_name_parse(hash, value, &rec);
    if (rc == 0 &&
        (rec.name_len != claim->name.len || memcmp(rec.text, claim->name.bytes, rec.name_len) != 0))
        rc = LMDB_E_COLLISION;
    if (rc == 0)
        rc = lmdb_expire(t, hash, &rec);
    if (rc != 0)
        return rc;
    if (rec.first.token == 0 && rec.further == 0 && rec.waiters == 0 &&
        !(rec.mode & LMDB_MODE_SET)) {
        rec.mode = (uint8_t)claim->mode;
        rec.capacity = claim->capacity;
        rec.taken = 0;
    }

    if (!agrees(&rec, claim)) {
        rc = lmdb_find_dead(t, hash, &rec, false);
        return rc != 0 ? rc : stop(a, hfi_mismatch_set(a->err, lmdb_mode(&rec), rec.capacity));
    }
    if (claim->flags & HFI_CLAIM_REPLACES)
        return acquire_replacing(t, a, &rec, open, missing);
    if (open && lmdb_past(t, rec.closed_ms) && lmdb_fits(rec.capacity, rec.taken, claim->permits) &&
        (rec.waiters == 0 || claim->flags & HFI_CLAIM_BARGE)) {
        rc = grant(t, a, &rec, 0);
        if (rc == 0)
            rc = lmdb_call_head(t, hash, &rec); /* tell the waiter that we overtook, if we barged */
        return rc != 0 ? rc : lmdb_name_put(t, hash, &rec);
    }

    rc = lmdb_find_dead(t, hash, &rec, a->op->may_wait);
    if (rc != 0)
        return rc;
    if (!a->op->may_wait)
        return refuse(t, a, open, missing);
    return enqueue(t, a, &rec, lmdb_ticket_last(t), 0);
}

/* It takes the place of a holder: now, or before all others when it fits there. */
static int acquire_replacing(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec,
                             bool open, uint32_t missing)
{
    const struct hfi_claim *claim = a->op->claim;
    const uint64_t *hash = claim->name.hash;
    struct lmdb_holder old;
    uint64_t ticket;
    int rc = lmdb_holder_find(t, hash, rec, claim->replaced, 0, &old);

    if (rc == MDB_NOTFOUND)
        return stop(a, hfi_error_set(a->err, HF_LOST, 0, "%s", hf_status_text(HF_LOST)));
    if (rc == 0 && open && (claim->permits <= old.permits || lmdb_past(t, rec->closed_ms)) &&
        lmdb_fits(rec->capacity, rec->taken - old.permits, claim->permits)) {
        rc = lmdb_holder_remove(t, hash, rec, &old, false, 0);
        if (rc == 0)
            rc = grant(t, a, rec, old.deadline_ms);
        if (rc == 0)
            rc = lmdb_promote(t, hash, rec, 0); /* a reader lets other readers in */
        if (rc == 0)
            rc = lmdb_call_head(t, hash, rec);
        return rc != 0 ? rc : lmdb_name_put(t, hash, rec);
    }
    if (rc == 0)
        rc = lmdb_find_dead(t, hash, rec, a->op->may_wait);
    if (rc == 0 && !a->op->may_wait)
        return refuse(t, a, open, missing);
    if (rc == 0)
        rc = lmdb_ticket_first(t, hash, rec, &ticket);
    if (rc != 0)
        return rc;
    return enqueue(t, a, rec, ticket, old.token);
}

/* It fits. It does not end before least_ms. */
static int grant(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec, int64_t least_ms)
{
    const struct hfi_claim *claim = a->op->claim;
    struct lmdb_holder h = holder_of(t, claim, t->directory->slot);
    size_t label_len;
    const char *label = lmdb_label(a->store, claim, &label_len);
    int rc;

    if (!a->room)
        return MDB_MAP_FULL;
    if (h.deadline_ms < least_ms)
        h.deadline_ms = least_ms;
    rc = lmdb_holder_grant(t, claim->name.hash, rec, &h, label, label_len, a->slots);
    a->token = h.token;
    a->tokens = h.tokens;
    a->others_wait = rec->waiters > 0 && claim->flags & HFI_CLAIM_WATCHED;
    count(t, a);
    return rc;
}

static int refuse(struct lmdb_txn *t, struct acquire *a, bool open, uint32_t missing)
{
    if (!open)
        return stop(a, closed(t, missing, a->err));
    return stop(a, hfi_error_set(a->err, HF_BUSY, 0, "%s", hf_status_text(HF_BUSY)));
}

static int enqueue(struct lmdb_txn *t, struct acquire *a, struct lmdb_name *rec, uint64_t ticket,
                   uint64_t replaced)
{
    const uint64_t *hash = a->op->claim->name.hash;
    int rc;

    if (!a->room)
        return MDB_MAP_FULL;
    if (!a->wait)
        a->wait = lmdb_wait_new(a->store, a->op);
    if (!a->wait)
        return stop(a, hfi_error_memory(a->err));
    a->wait->replaced = replaced;
    rc = lmdb_enqueue(t, rec, a->wait, ticket);
    if (rc == 0)
        rc = lmdb_name_put(t, hash, rec);
    if (rc == 0 && rec->waiters == 1)
        rc = lmdb_tell_waiters(t, hash, rec);
    if (rc == 0)
        rc = lmdb_look_ahead(t, hash, rec, a->wait->ticket, &a->ahead);
    a->waiting = true;
    count(t, a);
    return rc;
}

static void acquire_after(struct lmdb_txn *t, void *arg)
{
    struct acquire *a = arg;
    struct hfi_claim *claim = a->op->claim;

    if (a->status != HF_OK)
        return;
    lmdb_claim_link(t->directory, claim, a->store);
    if (a->waiting) {
        a->op->ret_queued = true;
        lmdb_claim_of(claim)->wait = a->wait;
        a->cookie = a->wait->cookie;
        a->by_mail = a->wait->cell >= LMDB_CELLS;
        return;
    }
    claim->token = a->token;
    claim->tokens = a->tokens;
    claim->granted_ttl_ms = claim->ttl_ms;
    claim->sent_ms = a->now_ms;
    claim->others_wait = a->others_wait;
    if (claim->flags & HFI_CLAIM_NUMBERED)
        memcpy(claim->slots, a->slots, claim->permits * sizeof a->slots[0]);
}

static hf_status closed(struct lmdb_txn *t, uint32_t missing, hf_error *err)
{
    if (missing != LMDB_NO_SLOT)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "the lease file was damaged and is being rebuilt: process %d has not "
                             "registered its leases yet",
                             (int)lmdb_slot(t->directory, missing)->pid);
    return hfi_error_set(
        err, HF_UNAVAILABLE, 0,
        "the lease file was damaged and rebuilt: no grants for another %lld s, until every "
        "lease without a process has expired",
        (long long)(t->directory->header->closed_ms - lmdb_now(t) + 999) / 1000);
}

static int stop(struct acquire *a, hf_status status)
{
    a->status = status;
    return LMDB_STOP;
}

/* Before the commit: a count that is too high only costs a search, one that is too low would lose a
 * lease. */
static void count(struct lmdb_txn *t, struct acquire *a)
{
    if (!a->counted && !(a->op->claim->flags & HFI_CLAIM_DETACHED && !a->waiting))
        lmdb_slot(t->directory, t->directory->slot)->records++;
    a->counted = true;
}

const char *lmdb_label(const struct lmdb_store *store, const struct hfi_claim *claim,
                       size_t *ret_len)
{
    const char *label = claim->label;

    if (!label && (store->own_label || claim->flags & HFI_CLAIM_DETACHED))
        label = store->host->label;
    *ret_len = label ? strnlen(label, HF_LABEL_MAX) : 0;
    return label;
}
