/* SPDX-License-Identifier: MIT */
/*
 * The permit model in the store: acquire, release, renew, adopt, and who is next.
 *
 * Why two can never hold what excludes one another: `taken` of a name is the sum of
 * the permits of its holders, changes only in the transaction that adds or removes
 * a holder, and a holder is added only where permits fit beside it. Transactions are
 * serialised by the mutex and atomic by LMDB. A holder is removed only by its owner
 * id, by `break` with its token, when its deadline has passed on the clock that all
 * processes of this machine share, or when the kernel has taken down its process.
 */
#include "engine/lmdb/lm.h"

#include "core/permit.h"
#include "util/clock.h"
#include "util/error.h"

#include <stddef.h>
#include <string.h>

#define SWEEP_STEP 32 /* names looked at for expired leases by each acquire that has a ttl */

struct acquire {
    struct hfi_conn *conn;
    struct hfi_op *op;
    struct lm_wait *wait;
    struct lm_ahead ahead;
    hf_status status; /* HF_OK: granted, or waiting if `wait` is set */
    hf_error *err;
    bool counted; /* our record is in slot->records */
    bool waiting;
    uint64_t token;
    uint32_t tokens;
    int64_t now_ms;
};

static int acquire_body(struct lm_txn *t, void *arg);
static void acquire_after(struct lm_txn *t, void *arg);
static int acquire_known(struct lm_txn *t, struct acquire *a, const MDB_val *value, bool open, uint32_t missing);
static int stop(struct acquire *a, hf_status status);
static hf_status closed(struct lm_txn *t, uint32_t missing, hf_error *err);
static void count(struct lm_txn *t, struct acquire *a);
static int add_holder(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec, struct lm_holder *h,
                      const char *label, size_t label_len);
static int sweep(struct lm_txn *t);

/* ---- acquire ---------------------------------------------------------------- */

void hfi_lm_acquire(struct hfi_conn *conn, struct hfi_op *op)
{
    struct acquire a;
    hf_status status;

    a.conn = conn;
    a.op = op;
    a.wait = NULL;
    a.counted = a.waiting = false;
    a.err = &op->error;
    status = hfi_lm_bell_start(conn->depot, &op->error);
    if (status == HF_OK && op->may_wait)
        status = hfi_lm_watch_start(conn->depot, &op->error);
    if (status == HF_OK)
        status = hfi_lm_run(conn->depot, true, op->deadline_ms, acquire_body, acquire_after, &a, &op->error);
    if (status == HF_OK)
        status = a.status;
    if (status == HF_OK && a.waiting) {
        hfi_lm_wait_begun(a.wait, &a.ahead);
        return;
    }
    if (a.wait)
        hfi_lm_wait_end(conn->depot, a.wait);
    hfi_op_finish(op, status);
}

static struct lm_holder holder_of(struct lm_txn *t, const struct hfi_claim *claim, uint32_t slot)
{
    struct lm_holder h;

    memcpy(h.owner, claim->owner, HFI_OWNER_LEN);
    h.token = 0;
    h.granted_ms = t->now_ms;
    h.deadline_ms = claim->ttl_ms ? hfi_after_ms(t->now_ms, claim->ttl_ms) : HFI_NEVER;
    h.lock_delay_ms = claim->lock_delay_ms;
    h.tokens = claim->tokens_wanted;
    h.permits = claim->permits;
    h.slot = claim->flags & HFI_CLAIM_DETACHED ? LM_NO_SLOT : slot;
    h.zero = 0;
    h.ttl_ms = claim->ttl_ms;
    return h;
}

/* A name that nobody holds has no record: one insertion finds that out and takes it. */
static int acquire_body(struct lm_txn *t, void *arg)
{
    struct acquire *a = arg;
    const struct hfi_claim *claim = a->op->claim;
    struct lm_name rec;
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = (void *)(uintptr_t)claim->name.hash }, value;
    uint32_t missing;
    bool open = hfi_lm_open_for_grants(t, &missing);
    struct lm_holder h;
    size_t label_len;
    const char *label = hfi_lm_label(a->conn, claim, &label_len);
    int rc;

    a->status = HF_OK;
    a->waiting = false;
    a->now_ms = t->now_ms;
    if (claim->ttl_ms && (rc = sweep(t)) != 0)
        return rc;
    if (!open) {
        rc = mdb_get(t->mdb, t->depot->dbi, &key, &value);
        return rc == 0              ? acquire_known(t, a, &value, false, missing)
               : rc == MDB_NOTFOUND ? acquire_known(t, a, NULL, false, missing)
                                    : rc;
    }

    hfi_lm_name_init(&rec, &claim->name);
    rec.mode = (uint8_t)claim->mode;
    rec.capacity = claim->capacity;
    h = holder_of(t, claim, t->depot->slot);
    rc = add_holder(t, claim->name.hash, &rec, &h, label, label_len);
    if (rc != 0)
        return rc;
    value.mv_size = hfi_lm_name_seal(&rec);
    value.mv_data = &rec;
    rc = mdb_put(t->mdb, t->depot->dbi, &key, &value, MDB_NOOVERWRITE);
    if (rc == MDB_KEYEXIST)
        return acquire_known(t, a, &value, true, missing);
    if (rc != 0)
        return rc;
    a->token = h.token;
    a->tokens = h.tokens;
    count(t, a);
    return 0;
}

/* The name has a record (`value`; NULL: none, but the store is closed for grants). */
static int acquire_known(struct lm_txn *t, struct acquire *a, const MDB_val *value, bool open, uint32_t missing)
{
    const struct hfi_claim *claim = a->op->claim;
    const uint64_t *hash = claim->name.hash;
    struct lm_name rec;
    size_t label_len;
    const char *label = hfi_lm_label(a->conn, claim, &label_len);
    int rc = 0;

    if (!value)
        hfi_lm_name_init(&rec, &claim->name);
    else
        rc = hfi_lm_name_parse(value, &rec);
    if (rc == 0 && (rec.name_len != claim->name.len || memcmp(rec.text, claim->name.bytes, rec.name_len) != 0))
        rc = LM_E_COLLISION;
    if (rc == 0)
        rc = hfi_lm_expire(t, hash, &rec);
    if (rc != 0)
        return rc;
    if (rec.first.token == 0 && rec.further == 0 && rec.waiters == 0) {
        rec.mode = (uint8_t)claim->mode;
        rec.capacity = claim->capacity;
        rec.taken = 0;
    }

    if (!hfi_permit_agrees((enum hfi_mode)rec.mode, rec.capacity, claim->mode, claim->capacity)) {
        rc = hfi_lm_find_dead(t, hash, &rec, false);
        return rc != 0 ? rc : stop(a, hfi_error_set(a->err, HF_MISMATCH, 0, "%s", hf_status_text(HF_MISMATCH)));
    }
    if (open && rec.closed_ms <= t->now_ms && hfi_permit_fits(rec.capacity, rec.taken, claim->permits) &&
        (rec.waiters == 0 || claim->flags & HFI_CLAIM_BARGE)) {
        struct lm_holder h = holder_of(t, claim, t->depot->slot);

        rc = add_holder(t, hash, &rec, &h, label, label_len);
        a->token = h.token;
        a->tokens = h.tokens;
        count(t, a);
        return rc != 0 ? rc : hfi_lm_name_put(t, hash, &rec);
    }

    rc = hfi_lm_find_dead(t, hash, &rec, a->op->may_wait);
    if (rc != 0)
        return rc;
    if (!a->op->may_wait && !open)
        return stop(a, closed(t, missing, a->err));
    if (!a->op->may_wait)
        return stop(a, hfi_error_set(a->err, HF_BUSY, 0, "%s", hf_status_text(HF_BUSY)));

    if (!a->wait)
        a->wait = hfi_lm_wait_new(a->conn, a->op);
    if (!a->wait)
        return stop(a, hfi_error_memory(a->err));
    rc = hfi_lm_enqueue(t, &rec, a->wait);
    if (rc == 0)
        rc = hfi_lm_name_put(t, hash, &rec);
    if (rc == 0)
        rc = hfi_lm_look_ahead(t, hash, &rec, a->wait->ticket, &a->ahead);
    a->waiting = true;
    count(t, a);
    return rc;
}

static void acquire_after(struct lm_txn *t, void *arg)
{
    struct acquire *a = arg;
    struct hfi_claim *claim = a->op->claim;

    if (a->status != HF_OK)
        return;
    hfi_lm_claim_link(t->depot, claim, a->conn);
    if (a->waiting) {
        claim->engine[LM_CLAIM_WAIT] = a->wait;
        return;
    }
    claim->token = a->token;
    claim->tokens = a->tokens;
    claim->granted_ttl_ms = claim->ttl_ms;
    claim->sent_ms = a->now_ms;
}

static hf_status closed(struct lm_txn *t, uint32_t missing, hf_error *err)
{
    if (missing != LM_NO_SLOT)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "the lease file was damaged and is being rebuilt: process %d has not "
                             "registered its leases yet",
                             (int)hfi_lm_slot(t->depot, missing)->pid);
    return hfi_error_set(err, HF_UNAVAILABLE, 0,
                         "the lease file was damaged and rebuilt: no grants for another %lld s, until every "
                         "lease without a process has expired",
                         (long long)(t->depot->header->closed_ms - t->now_ms + 999) / 1000);
}

static int stop(struct acquire *a, hf_status status)
{
    a->status = status;
    return LM_STOP;
}

/* Before the commit: a count that is too high costs a look, one too low would lose a lease. */
static void count(struct lm_txn *t, struct acquire *a)
{
    if (!a->counted && !(a->op->claim->flags & HFI_CLAIM_DETACHED && !a->waiting))
        hfi_lm_slot(t->depot, t->depot->slot)->records++;
    a->counted = true;
}

const char *hfi_lm_label(const struct hfi_conn *conn, const struct hfi_claim *claim, size_t *ret_len)
{
    const char *label = claim->label;

    if (!label && (conn->own_label || claim->flags & HFI_CLAIM_DETACHED))
        label = conn->host->label;
    *ret_len = label ? strnlen(label, HF_LABEL_MAX) : 0;
    return label;
}

/* ---- holders come and go -------------------------------------------------------- */

int hfi_lm_token_take(struct lm_txn *t, uint32_t count_wanted, uint64_t *ret_first)
{
    struct lm_header *h = t->depot->header;

    if (h->token_next + count_wanted > h->token_limit) {
        uint64_t limit = h->token_next + count_wanted + LM_TOKEN_BLOCK;

        if (h->token_next + count_wanted >= HFI_TOKEN_LIMIT)
            return LM_E_TOKENS;
        if (limit > HFI_TOKEN_LIMIT)
            limit = HFI_TOKEN_LIMIT;
        if (hfi_lm_tokens_reserve(t->depot, limit) != 0)
            return LM_E_TOKENS;
        h->token_limit = limit;
    }
    *ret_first = h->token_next;
    h->token_next += count_wanted;
    return 0;
}

/* Beyond this moment nothing of a lease that no process remembers can still count. */
static void remember_latest(struct lm_txn *t, int64_t until_ms)
{
    if (until_ms != HFI_NEVER && until_ms > t->depot->header->latest_ms)
        t->depot->header->latest_ms = until_ms;
}

static int add_holder(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec, struct lm_holder *h,
                      const char *label, size_t label_len)
{
    int rc = hfi_lm_token_take(t, h->tokens, &h->token);

    return rc != 0 ? rc : hfi_lm_holder_add(t, hash, rec, h, label, label_len);
}

int hfi_lm_holder_add(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec, const struct lm_holder *h,
                      const char *label, size_t label_len)
{
    rec->taken += h->permits;
    if (h->slot == LM_NO_SLOT)
        remember_latest(t, hfi_after_ms(h->deadline_ms, h->lock_delay_ms));
    if (rec->first.token == 0) {
        hfi_lm_first_set(rec, h, label, label_len);
        return 0;
    }
    rec->further++;
    return hfi_lm_further_put(t, hash, h, label, label_len);
}

int hfi_lm_holder_remove(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec,
                         const struct lm_holder *h, bool unclean, int64_t since_ms)
{
    struct lm_holder copy = *h; /* it may be rec->first */

    if (copy.permits > rec->taken)
        return LM_E_CORRUPT;
    rec->taken -= copy.permits;
    if (rec->first.token == copy.token) {
        rec->first.token = 0;
        rec->label_len = 0;
    } else {
        int rc = hfi_lm_further_del(t, hash, copy.token);

        if (rc != 0)
            return rc == MDB_NOTFOUND ? LM_E_CORRUPT : rc;
        rec->further--;
    }
    if (unclean && copy.lock_delay_ms > 0) {
        int64_t until = hfi_after_ms(since_ms, copy.lock_delay_ms);

        if (until > rec->closed_ms)
            rec->closed_ms = until;
        remember_latest(t, until);
    }
    if (copy.slot == LM_NO_SLOT)
        return 0;
    return hfi_lm_wake_later(t, (struct lm_wake){ .kind = LM_WAKE_FORGET, .slot = copy.slot });
}

/* Its owner stopped counting on it before its deadline (validity ends earlier), so it is nobody's. */
int hfi_lm_expire(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec)
{
    struct lm_further further;
    uint64_t at = 0;
    int rc = 0;

    if (rec->first.token && rec->first.deadline_ms <= t->now_ms)
        rc = hfi_lm_holder_remove(t, hash, rec, &rec->first, true, rec->first.deadline_ms);
    while (rc == 0 && rec->further > 0) {
        rc = hfi_lm_further_next(t, hash, &at, &further);
        if (rc == MDB_NOTFOUND)
            return 0;
        if (rc == 0 && further.holder.deadline_ms <= t->now_ms)
            rc = hfi_lm_holder_remove(t, hash, rec, &further.holder, true, further.holder.deadline_ms);
        at++;
    }
    return rc;
}

/*
 * Grants in the order of tickets: as long as the first waiter fits, it becomes a holder.
 * Nobody behind it is looked at, so a writer or a large request is never overtaken.
 * The winner's bell carries the token: it needs no transaction of its own.
 */
int hfi_lm_promote(struct lm_txn *t, const uint64_t hash[2], struct lm_name *rec, uint64_t self)
{
    struct lm_waiter w;
    uint64_t ticket = 0;
    uint32_t missing;
    int rc;

    if (rec->waiters == 0 || rec->closed_ms > t->now_ms || !hfi_lm_open_for_grants(t, &missing))
        return 0;
    rc = hfi_lm_expire(t, hash, rec);
    while (rc == 0 && rec->waiters > 0 && rec->closed_ms <= t->now_ms) {
        rc = hfi_lm_waiter_next(t, hash, &ticket, &w);
        if (rc != 0)
            return rc == MDB_NOTFOUND ? LM_E_CORRUPT : rc;
        if (!hfi_permit_fits(rec->capacity, rec->taken, w.permits))
            return 0;
        struct lm_wake wake = { .kind = LM_WAKE_GRANTED, .slot = w.slot, .cell = w.cell, .turn = w.turn,
                                .cookie = w.cookie, .granted_ms = t->now_ms };

        if (w.flags & LM_WAITER_BARGE && ticket != self) {
            wake.kind = LM_WAKE_CALLED; /* it wants throughput: whoever is first takes it */
            return hfi_lm_wake_later(t, wake);
        }
        struct lm_holder h = { .granted_ms = t->now_ms,
                               .deadline_ms = w.ttl_ms ? hfi_after_ms(t->now_ms, w.ttl_ms) : HFI_NEVER,
                               .lock_delay_ms = w.lock_delay_ms, .tokens = w.tokens_wanted,
                               .permits = w.permits, .ttl_ms = w.ttl_ms,
                               .slot = w.flags & LM_WAITER_DETACHED ? LM_NO_SLOT : w.slot };

        memcpy(h.owner, w.owner, HFI_OWNER_LEN);
        rc = hfi_lm_waiter_del(t, hash, ticket);
        if (rc == 0)
            rc = add_holder(t, hash, rec, &h, w.label, w.label_len);
        rec->waiters--;
        wake.token = h.token;
        if (rc == 0)
            rc = hfi_lm_wake_later(t, wake);
        if (rc == 0 && h.slot == LM_NO_SLOT)
            rc = hfi_lm_wake_later(t, (struct lm_wake){ .kind = LM_WAKE_FORGET, .slot = w.slot });
        ticket++;
    }
    return rc;
}

int hfi_lm_name_forget(struct lm_txn *t, const uint64_t hash[2], uint32_t slot)
{
    struct lm_further further;
    struct lm_waiter w;
    struct lm_name rec;
    uint64_t at = 0;
    int rc = hfi_lm_name_get_by_hash(t, hash, &rec);

    if (rc != 0)
        return rc == MDB_NOTFOUND ? LM_E_CORRUPT : rc;
    if (rec.first.token && rec.first.slot == slot)
        rc = hfi_lm_holder_remove(t, hash, &rec, &rec.first, true, t->now_ms);
    for (; rc == 0 && rec.further > 0; at++) {
        rc = hfi_lm_further_next(t, hash, &at, &further);
        if (rc == 0 && further.holder.slot == slot)
            rc = hfi_lm_holder_remove(t, hash, &rec, &further.holder, true, t->now_ms);
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    at = 0;
    for (; rc == 0 && rec.waiters > 0; at++) {
        rc = hfi_lm_waiter_next(t, hash, &at, &w);
        if (rc == 0 && w.slot == slot) {
            rc = hfi_lm_waiter_del(t, hash, at);
            rec.waiters--;
        } else if (rc == 0) {
            /* Who stood behind the dead must look at who is ahead of him now. */
            rc = hfi_lm_wake_later(t, (struct lm_wake){ .kind = LM_WAKE_CALLED, .slot = w.slot, .cell = w.cell,
                                                        .turn = w.turn, .cookie = w.cookie });
        }
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0)
        rc = hfi_lm_promote(t, hash, &rec, 0);
    return rc != 0 ? rc : hfi_lm_name_put(t, hash, &rec);
}

static int dead_at(struct lm_txn *t, uint32_t slot, bool trust_watch)
{
    if (slot == LM_NO_SLOT || slot == t->depot->slot)
        return 0;
    if (slot >= t->depot->header->slot_high)
        return LM_E_CORRUPT;
    if (trust_watch && hfi_lm_watched(t->depot, slot, hfi_lm_slot(t->depot, slot)->generation))
        return 0;
    if (hfi_lm_alive(t->depot, slot))
        return 0;
    t->dead = slot;
    return LM_E_DEAD;
}

int hfi_lm_find_dead(struct lm_txn *t, const uint64_t hash[2], const struct lm_name *rec, bool trust_watch)
{
    struct lm_further further;
    struct lm_waiter w;
    uint64_t at = 0;
    int rc = rec->first.token ? dead_at(t, rec->first.slot, trust_watch) : 0;

    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = hfi_lm_further_next(t, hash, &at, &further);
        if (rc == 0)
            rc = dead_at(t, further.holder.slot, trust_watch);
    }
    at = 0;
    if (rc == 0 && rec->waiters > 0) {
        rc = hfi_lm_waiter_next(t, hash, &at, &w);
        if (rc == 0)
            rc = dead_at(t, w.slot, trust_watch);
    }
    return rc == MDB_NOTFOUND ? 0 : rc; /* removed in this transaction */
}

/* ---- release ---------------------------------------------------------------------- */

struct release {
    struct hfi_claim *claim;
    hf_status status;
};

/* Not a holder. An acquire whose cancel failed may still stand in the queue. */
static int release_unknown(struct lm_txn *t, struct release *r, bool look)
{
    struct hfi_claim *claim = r->claim;
    struct lm_wait *w = claim->engine[LM_CLAIM_WAIT];
    struct lm_name rec;
    int rc = look && w ? hfi_lm_name_get(t, &claim->name, &rec) : MDB_NOTFOUND;

    if (rc == 0)
        rc = hfi_lm_waiter_remove(t, claim->name.hash, &rec, w->ticket, claim->owner);
    r->status = rc == 0 ? HF_OK : HF_LOST;
    if (rc == MDB_NOTFOUND)
        return LM_STOP;
    return rc != 0 ? rc : hfi_lm_name_put(t, claim->name.hash, &rec);
}

static int release_body(struct lm_txn *t, void *arg)
{
    struct release *r = arg;
    const struct hfi_claim *claim = r->claim;
    const uint64_t *hash = claim->name.hash;
    struct lm_name rec;
    struct lm_holder h;
    int rc = hfi_lm_name_get(t, &claim->name, &rec);

    if (rc == 0)
        rc = hfi_lm_holder_find(t, hash, &rec, claim->owner, claim->token, &h);
    if (rc == MDB_NOTFOUND || rc == LM_E_COLLISION)
        return release_unknown(t, r, rc == MDB_NOTFOUND);
    if (rc != 0)
        return rc;
    r->status = h.deadline_ms <= t->now_ms ? HF_LOST : HF_OK;
    rc = hfi_lm_holder_remove(t, hash, &rec, &h, r->status == HF_LOST, h.deadline_ms);
    if (rc == 0 && rec.waiters > 0)
        rc = hfi_lm_promote(t, hash, &rec, 0);
    return rc != 0 ? rc : hfi_lm_name_put(t, hash, &rec);
}

static void release_after(struct lm_txn *t, void *arg)
{
    struct release *r = arg;

    hfi_lm_pass_end(t->depot, r->claim);
    hfi_lm_claim_unlink(t->depot, r->claim);
}

void hfi_lm_release(struct hfi_conn *conn, struct hfi_op *op)
{
    struct release r = { .claim = op->claim };
    hf_status status = hfi_lm_run(conn->depot, true, op->deadline_ms, release_body, release_after, &r, &op->error);

    if (status == HF_OK && r.status == HF_LOST)
        status = hfi_error_set(&op->error, HF_LOST, 0, "%s", hf_status_text(HF_LOST));
    hfi_op_finish(op, status);
}

/* ---- renew and adopt ----------------------------------------------------------------- */

static int renew_one(struct lm_txn *t, struct hfi_renewal *item)
{
    const uint64_t *hash = item->claim->name.hash;
    struct lm_name rec;
    struct lm_holder h;
    int rc = hfi_lm_name_get(t, &item->claim->name, &rec);

    if (rc == 0)
        rc = hfi_lm_holder_find(t, hash, &rec, item->claim->owner, item->claim->token, &h);
    if (rc == MDB_NOTFOUND || rc == LM_E_COLLISION || (rc == 0 && h.deadline_ms <= t->now_ms)) {
        item->status = HF_LOST; /* also an expired one that nobody has taken yet: never re-created */
        return 0;
    }
    if (rc != 0)
        return rc;
    h.deadline_ms = hfi_after_ms(t->now_ms, item->ttl_ms);
    if (h.slot == LM_NO_SLOT)
        remember_latest(t, hfi_after_ms(h.deadline_ms, h.lock_delay_ms));
    item->status = HF_OK;
    rc = hfi_lm_holder_update(t, hash, &rec, &h);
    return rc != 0 ? rc : hfi_lm_name_put(t, hash, &rec);
}

struct renew {
    struct hfi_op *op;
};

static int renew_body(struct lm_txn *t, void *arg)
{
    struct renew *r = arg;

    for (size_t i = 0; i < r->op->u.renew.count; i++) {
        int rc = renew_one(t, &r->op->u.renew.items[i]);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void renew_after(struct lm_txn *t, void *arg)
{
    struct hfi_op *op = ((struct renew *)arg)->op;

    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];

        if (item->status != HF_OK)
            continue;
        item->claim->granted_ttl_ms = item->ttl_ms;
        item->claim->sent_ms = t->now_ms;
    }
}

void hfi_lm_renew(struct hfi_conn *conn, struct hfi_op *op)
{
    struct renew r = { .op = op };
    hf_status status = hfi_lm_run(conn->depot, true, op->deadline_ms, renew_body, renew_after, &r, &op->error);

    for (size_t i = 0; status != HF_OK && i < op->u.renew.count; i++)
        op->u.renew.items[i].status = status;
    hfi_op_finish(op, status);
}

struct adopt {
    struct hfi_conn *conn;
    struct hfi_op *op;
    struct lm_name rec;
    struct lm_holder h;
    int64_t now_ms;
};

static int adopt_body(struct lm_txn *t, void *arg)
{
    struct adopt *a = arg;
    struct hfi_claim *claim = a->op->claim;
    int rc = hfi_lm_name_get(t, &claim->name, &a->rec);

    if (rc == 0)
        rc = hfi_lm_holder_find(t, claim->name.hash, &a->rec, claim->owner, claim->token, &a->h);
    if (rc == MDB_NOTFOUND || rc == LM_E_COLLISION ||
        (rc == 0 && (a->h.deadline_ms <= t->now_ms || a->h.slot != LM_NO_SLOT))) {
        a->h.token = 0;
        return LM_STOP;
    }
    if (rc != 0)
        return rc;
    if (claim->ttl_ms)
        a->h.ttl_ms = claim->ttl_ms;
    a->now_ms = t->now_ms;
    a->h.deadline_ms = hfi_after_ms(t->now_ms, a->h.ttl_ms);
    remember_latest(t, hfi_after_ms(a->h.deadline_ms, a->h.lock_delay_ms));
    rc = hfi_lm_holder_update(t, claim->name.hash, &a->rec, &a->h);
    return rc != 0 ? rc : hfi_lm_name_put(t, claim->name.hash, &a->rec);
}

static void adopt_after(struct lm_txn *t, void *arg)
{
    struct adopt *a = arg;
    struct hfi_claim *claim = a->op->claim;

    if (a->h.token == 0)
        return;
    claim->mode = (enum hfi_mode)a->rec.mode;
    claim->capacity = a->rec.capacity;
    claim->permits = a->h.permits;
    claim->flags |= HFI_CLAIM_DETACHED;
    claim->lock_delay_ms = a->h.lock_delay_ms;
    claim->token = a->h.token;
    claim->tokens = 1; /* whoever passed it on before is not ours to know */
    claim->ttl_ms = claim->granted_ttl_ms = a->h.ttl_ms;
    claim->sent_ms = a->now_ms;
    hfi_lm_claim_link(t->depot, claim, a->conn);
}

void hfi_lm_adopt(struct hfi_conn *conn, struct hfi_op *op)
{
    struct adopt a = { .conn = conn, .op = op };
    hf_status status = hfi_lm_bell_start(conn->depot, &op->error);

    if (status == HF_OK)
        status = hfi_lm_run(conn->depot, true, op->deadline_ms, adopt_body, adopt_after, &a, &op->error);
    if (status == HF_OK && a.h.token == 0)
        status = hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no such lease: it ended, expired or was broken");
    hfi_op_finish(op, status);
}

/* ---- the claims of this process ----------------------------------------------------------- */

void hfi_lm_claim_link(struct lm_depot *d, struct hfi_claim *claim, struct hfi_conn *conn)
{
    claim->engine[LM_CLAIM_CONN] = conn;
    claim->engine[LM_CLAIM_PREV] = NULL;
    claim->engine[LM_CLAIM_NEXT] = d->claims;
    if (d->claims)
        d->claims->engine[LM_CLAIM_PREV] = claim;
    d->claims = claim;
    d->claim_count++;
}

void hfi_lm_claim_unlink(struct lm_depot *d, struct hfi_claim *claim)
{
    struct hfi_claim *prev = claim->engine[LM_CLAIM_PREV], *next = claim->engine[LM_CLAIM_NEXT];

    if (!claim->engine[LM_CLAIM_CONN])
        return;
    if (prev)
        prev->engine[LM_CLAIM_NEXT] = next;
    else
        d->claims = next;
    if (next)
        next->engine[LM_CLAIM_PREV] = prev;
    claim->engine[LM_CLAIM_CONN] = NULL;
    d->claim_count--;
    if (claim->engine[LM_CLAIM_WAIT])
        hfi_lm_wait_end(d, claim->engine[LM_CLAIM_WAIT]);
    claim->engine[LM_CLAIM_WAIT] = NULL;
}

/* ---- expired leases that nobody asks for any more -------------------------------------------- */

static int sweep(struct lm_txn *t)
{
    struct lm_header *header = t->depot->header;
    struct { uint64_t hash[2]; } stale[SWEEP_STEP];
    MDB_val key = { .mv_size = LM_KEY_NAME, .mv_data = header->sweep }, value;
    struct lm_name rec;
    MDB_cursor *cursor;
    int found = 0, rc = mdb_cursor_open(t->mdb, t->depot->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (int i = 0; rc == 0 && i < SWEEP_STEP; i++) {
        if (key.mv_size == LM_KEY_NAME && hfi_lm_name_parse(&value, &rec) == 0 &&
            ((rec.first.token && rec.first.deadline_ms <= t->now_ms) ||
             (rec.closed_ms && rec.closed_ms <= t->now_ms)))
            memcpy(stale[found++].hash, key.mv_data, LM_KEY_NAME);
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    if (rc == 0)
        memcpy(header->sweep, key.mv_data, LM_KEY_NAME);
    else
        header->sweep[0] = header->sweep[1] = 0;
    mdb_cursor_close(cursor);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return rc;

    for (int i = 0; i < found; i++) {
        rc = hfi_lm_name_get_by_hash(t, stale[i].hash, &rec);
        if (rc == 0)
            rc = hfi_lm_expire(t, stale[i].hash, &rec);
        if (rc == 0)
            rc = hfi_lm_promote(t, stale[i].hash, &rec, 0);
        if (rc == 0)
            rc = hfi_lm_name_put(t, stale[i].hash, &rec);
        if (rc != 0)
            return rc;
    }
    return 0;
}
