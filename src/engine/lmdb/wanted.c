/* SPDX-License-Identifier: MIT */
/*
 * Telling holders that others wait: mail to the processes of those that asked for it (HFI_CLAIM_WATCHED), sent by the transaction
 * that adds the first waiter of a name or takes the last one out; and asking them. A name whose holders did not ask costs a look at
 * their records. Messages are advice: one that is lost with a process that is killed is made good by the audit that follows.
 *
 * Bodies run on the threads of callers, under the mutex; what arrives runs on the mail thread.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define AUDIT_MAX 4096 /* claims that one audit can look at */

/* ---- sending ------------------------------------------------------------------------------- */

/* The process of the first waiter, which the holder's process watches: if it dies and nobody waits behind it, nobody else would
 * notice. 0: it is the holder's own, or there is none. */
static uint64_t first_waiter(struct lmdb_txn *t, const uint64_t hash[2], uint32_t holder)
{
    struct lmdb_waiter w;
    uint64_t ticket = 0;

    if (lmdb_waiter_next(t, hash, &ticket, &w) != 0 || w.slot == holder ||
        w.slot >= lmdb_slots_used(t->directory))
        return 0;
    return (uint64_t)lmdb_slot(t->directory, w.slot)->generation << 32 | w.slot;
}

static int tell_one(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_holder *h,
                    enum lmdb_wake_kind kind, uint32_t *told)
{
    struct lmdb_wake wake = { .kind = kind, .slot = h->slot, .token = h->token };

    if (!h->token || !(h->flags & LMDB_HOLDER_WATCHED) || lmdb_past(t, h->deadline_ms))
        return 0;
    ++*told;
    if (kind == LMDB_WAKE_WANTED)
        wake.cookie = first_waiter(t, hash, h->slot);
    return lmdb_wake_later(t, wake);
}

int lmdb_tell_holders(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      enum lmdb_wake_kind kind, uint32_t *ret_told)
{
    struct lmdb_further further;
    uint32_t told = 0;
    uint64_t at = 0;
    int rc = tell_one(t, hash, &rec->first, kind, &told);

    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0)
            rc = tell_one(t, hash, &further.holder, kind, &told);
    }
    if (ret_told)
        *ret_told = told;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int lmdb_tell_waiters(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec)
{
    return lmdb_tell_holders(t, hash, rec, rec->waiters > 0 ? LMDB_WAKE_WANTED : LMDB_WAKE_UNWANTED,
                             NULL);
}

/* ---- asking -------------------------------------------------------------------------------- */

struct ask {
    struct hfi_op *op;
    hf_status status;
};

static int ask_body(struct lmdb_txn *t, void *arg)
{
    struct ask *a = arg;
    const struct hfi_name *name = &a->op->u.ask.name;
    struct lmdb_name rec;
    uint32_t told = 0;
    int rc = lmdb_name_get(t, name, &rec);

    a->status = HF_NOT_FOUND;
    if (rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION)
        return LMDB_STOP;
    if (rc == 0)
        rc = lmdb_find_dead(t, name->hash, &rec, false);
    if (rc == 0)
        rc = lmdb_tell_holders(t, name->hash, &rec, LMDB_WAKE_ASKED, &told);
    if (told > 0)
        a->status = HF_OK;
    else if (rec.further > 0 || (rec.first.token && !lmdb_past(t, rec.first.deadline_ms)))
        a->status = HF_BUSY;
    return rc;
}

/* The text is written before the message is. */
static void ask_after(struct lmdb_txn *t, void *arg)
{
    struct ask *a = arg;

    for (size_t i = 0; a->status == HF_OK && i < t->wake_count; i++)
        if (t->wakes[i].kind == LMDB_WAKE_ASKED &&
            t->wakes[i].slot < lmdb_slots_used(t->directory)) {
            char *to = lmdb_asked(lmdb_slot(t->directory, t->wakes[i].slot));

            strncpy(to, a->op->u.ask.text, HF_LABEL_MAX);
            to[HF_LABEL_MAX] = 0;
        }
}

void lmdb_ask(struct lmdb_store *store, struct hfi_op *op)
{
    struct ask a = { .op = op };
    hf_status status = lmdb_run_op(store, op, false, ask_body, ask_after, &a);

    if (status == HF_OK && a.status != HF_OK)
        status = hfi_error_set(&op->error, a.status, 0, "%s", hf_status_text(a.status));
    lmdb_finish(store, op, status);
}

/* ---- receiving ------------------------------------------------------------------------------ */

bool lmdb_wanted(struct lmdb_directory *d, uint64_t token, enum hfi_wanted what, const char *text)
{
    unsigned char owner[HFI_OWNER_LEN];
    struct lmdb_store *store = NULL;
    struct hfi_claim *claim;
    bool waits;

    pthread_mutex_lock(&d->calls);
    if (lmdb_lock(d, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), NULL) == HF_OK) {
        for (claim = d->claims; claim && lmdb_token_of(d, claim) != token;
             claim = lmdb_claim_of(claim)->next)
            ;
        if (claim) {
            store = lmdb_claim_of(claim)->store;
            memcpy(owner, claim->owner, sizeof owner);
        }
        lmdb_unlock(d);
    }
    if (store)
        store->host->wanted(store->host, claim, owner, what, text);
    pthread_mutex_unlock(&d->calls);
    pthread_mutex_lock(&d->local);
    waits = d->waits != NULL;
    pthread_mutex_unlock(&d->local);
    return store || !waits;
}

void lmdb_watch_waiter(struct lmdb_directory *d, uint64_t process)
{
    uint32_t slot = (uint32_t)process;

    if (process != 0 && slot < lmdb_slots_used(d) && lmdb_watch_start(d, NULL) == HF_OK)
        (void)lmdb_watch_add(d, slot, (uint32_t)(process >> 32));
}

struct audit {
    struct {
        uint64_t token;
        bool waits;
    } * found;
    size_t count;
};

static int audit_body(struct lmdb_txn *t, void *arg)
{
    struct audit *a = arg;
    struct lmdb_name rec;

    a->count = 0;
    for (struct hfi_claim *c = t->directory->claims; c && a->count < AUDIT_MAX;
         c = lmdb_claim_of(c)->next) {
        uint64_t token = c->flags & HFI_CLAIM_WATCHED ? lmdb_token_of(t->directory, c) : 0;
        int rc = token ? lmdb_name_get(t, &c->name, &rec) : MDB_NOTFOUND;

        if (rc == 0) {
            a->found[a->count].token = token;
            a->found[a->count++].waits = rec.waiters > 0;
        } else if (rc != MDB_NOTFOUND) {
            return rc;
        }
    }
    return 0;
}

void lmdb_wanted_audit(struct lmdb_directory *d)
{
    struct audit a = { .found = NULL };

    a.found = hfi_malloc(AUDIT_MAX * sizeof *a.found);
    if (!a.found)
        return;
    if (lmdb_run(d, false, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), audit_body, NULL, &a,
                 NULL) == HF_OK)
        for (size_t i = 0; i < a.count; i++)
            (void)lmdb_wanted(d, a.found[i].token,
                              a.found[i].waits ? HFI_WANTED_YES : HFI_WANTED_NO, "");
    hfi_free(a.found);
}
