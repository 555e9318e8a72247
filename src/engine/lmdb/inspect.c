/* SPDX-License-Identifier: MIT */
/*
 * LIST, LOOK and BREAK. A page has a bound, so that listing a hundred thousand names does not block
 * other processes for long.
 */
#include "engine/lmdb/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <errno.h>
#include <string.h>

#define PAGE 256 /* names per transaction */

/* ---- local passes ------------------------------------------------------------- */

/* Core calls this between the passes of one lease, so a claim's cell has one writer. */
void lmdb_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    struct lmdb_store *store = self;
    struct lmdb_slot *s = lmdb_slot(store->directory, store->directory->slot);
    uint64_t mine = lmdb_claim_of(claim)->pass;

    for (uint64_t i = 0; !mine && i < LMDB_PASSES; i++) {
        uint64_t vacant = 0;

        if (atomic_compare_exchange_strong(&s->passes[i].first, &vacant, claim->token))
            mine = i + 1;
    }
    lmdb_claim_of(claim)->pass = mine;
    if (!mine)
        return; /* more leases are being passed on than can be noted: for this one the first token
                 * is shown */
    atomic_store(&s->passes[mine - 1].tid, tid);
    atomic_store(&s->passes[mine - 1].now, token);
}

void lmdb_pass_end(struct lmdb_directory *d, struct hfi_claim *claim)
{
    uint64_t mine = lmdb_claim_of(claim)->pass;

    if (!mine)
        return;
    atomic_store(&lmdb_slot(d, d->slot)->passes[mine - 1].now, 0);
    atomic_store(&lmdb_slot(d, d->slot)->passes[mine - 1].first, 0);
    lmdb_claim_of(claim)->pass = 0;
}

/* The token of the block that is current, and the thread that holds it. */
static uint64_t token_now(struct lmdb_directory *d, const struct lmdb_holder *h, int64_t *ret_tid)
{
    struct lmdb_slot *s;

    *ret_tid = 0;
    if (h->slot == LMDB_NO_SLOT || h->tokens <= 1 || h->slot >= lmdb_slots_used(d))
        return h->token;
    s = lmdb_slot(d, h->slot);
    for (int i = 0; i < LMDB_PASSES; i++)
        if (atomic_load(&s->passes[i].first) == h->token) {
            uint64_t now = atomic_load(&s->passes[i].now);

            *ret_tid = atomic_load(&s->passes[i].tid);
            return now >= h->token && now < h->token + h->tokens ? now : h->token;
        }
    return h->token;
}

/* ---- LIST, LOOK ----------------------------------------------------------------------- */

static bool alive_here(struct lmdb_directory *d, uint32_t slot)
{
    return slot == LMDB_NO_SLOT || (slot < lmdb_slots_used(d) && lmdb_alive(d, slot));
}

static int64_t pid_for_us(struct lmdb_directory *d, uint32_t slot)
{
    struct lmdb_slot *s;

    if (slot >= lmdb_slots_used(d))
        return 0;
    s = lmdb_slot(d, slot);
    return s->pid_namespace == d->pid_namespace ? s->pid : 0;
}

/* A record without a label has its process's. */
static void slot_label(struct lmdb_directory *d, uint32_t slot, char ret_text[HF_LABEL_MAX + 1])
{
    if (slot < lmdb_slots_used(d))
        memcpy(ret_text, lmdb_slot(d, slot)->label, HF_LABEL_MAX);
    ret_text[HF_LABEL_MAX] = '\0';
}

static bool emit_holder(struct lmdb_txn *t, struct hfi_sink *sink, const struct lmdb_holder *h,
                        const char *label, size_t label_len)
{
    struct lmdb_directory *d = t->directory;
    char text[HF_LABEL_MAX + 1];
    hf_holder view = { .first = h->token,
                       .permits = h->permits,
                       .detached = h->slot == LMDB_NO_SLOT,
                       .watched = (h->flags & LMDB_HOLDER_WATCHED) != 0,
                       .age_ms = lmdb_now(t) - h->granted_ms,
                       .ttl_ms = h->deadline_ms == HFI_NEVER ? -1 : h->deadline_ms - lmdb_now(t),
                       .label = text };

    view.slot_count = (uint32_t)(lmdb_numbers_len(h) / sizeof view.slots[0]);
    memcpy(view.slots, label, lmdb_numbers_len(h));
    label += lmdb_numbers_len(h);
    label_len -= lmdb_numbers_len(h);
    memcpy(text, label, label_len);
    text[label_len] = '\0';
    if (h->slot != LMDB_NO_SLOT) {
        view.pid = pid_for_us(d, h->slot);
        if (label_len == 0)
            slot_label(d, h->slot, text);
    }
    view.token = token_now(d, h, &view.tid);
    return sink->holder(sink, &view);
}

static bool emit_waiter(struct lmdb_txn *t, struct hfi_sink *sink, const struct lmdb_name *rec,
                        const struct lmdb_waiter *w, uint32_t position)
{
    char text[HF_LABEL_MAX + 1];
    const char *label;
    uint32_t label_len;
    hf_waiter view = { .position = position,
                       .permits = w->permits,
                       .kind = hfi_shown_kind(lmdb_mode(rec), w->permits),
                       .age_ms = lmdb_now(t) - w->since_ms,
                       .pid = pid_for_us(t->directory, w->slot),
                       .label = text };

    label = lmdb_waiter_label(w, &label_len);
    memcpy(text, label, label_len);
    text[label_len] = '\0';
    if (label_len == 0)
        slot_label(t->directory, w->slot, text);
    return sink->waiter(sink, &view);
}

/* A lease whose deadline has passed, or whose process is gone, is not valid, though its record
 * exists. */
static bool counts(struct lmdb_txn *t, const struct lmdb_holder *h)
{
    return h->token && !lmdb_past(t, h->deadline_ms) && alive_here(t->directory, h->slot);
}

/* The lock delay of an expired lease has begun even if nobody has removed the lease yet. */
static void closing(struct lmdb_txn *t, const struct lmdb_holder *h, hf_entry *entry)
{
    int64_t left;

    if (!h->token || !h->lock_delay_ms || !lmdb_past(t, h->deadline_ms))
        return;
    left = hfi_after_ms(h->deadline_ms, h->lock_delay_ms) - lmdb_now(t);
    if (left > entry->closed_ms)
        entry->closed_ms = left;
}

static int emit_name(struct lmdb_txn *t, struct hfi_sink *sink, const uint64_t hash[2],
                     const struct lmdb_name *rec)
{
    hf_entry entry = { .name = rec->text,
                       .name_len = rec->name_len,
                       .kind = hfi_shown_kind(lmdb_mode(rec), 1),
                       .capacity = rec->capacity,
                       .resized = (rec->mode & LMDB_MODE_SET) != 0,
                       .closed_ms =
                           !lmdb_past(t, rec->closed_ms) ? rec->closed_ms - lmdb_now(t) : 0 };
    struct lmdb_further further;
    struct lmdb_waiter w;
    uint64_t at = 0;
    uint32_t holders = 0, position = 0;
    int rc = 0;

    if (counts(t, &rec->first))
        entry.taken += rec->first.permits, holders++;
    else
        closing(t, &rec->first, &entry);
    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0 && counts(t, &further.holder))
            entry.taken += further.holder.permits, holders++;
        else if (rc == 0)
            closing(t, &further.holder, &entry);
    }
    if (rc != 0)
        return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
    if (holders == 0 && rec->waiters == 0 && entry.closed_ms == 0 && !entry.resized)
        return 0;

    if (!sink->entry(sink, &entry))
        return ENOMEM;
    if (counts(t, &rec->first) &&
        !emit_holder(t, sink, &rec->first, (const char *)rec->text + rec->name_len, rec->label_len))
        return ENOMEM;
    at = 0;
    for (uint32_t i = 0; i < rec->further && lmdb_further_next(t, hash, &at, &further) == 0;
         i++, at++)
        if (counts(t, &further.holder) &&
            !emit_holder(t, sink, &further.holder, further.label, further.label_len))
            return ENOMEM;
    at = 0;
    for (uint32_t i = 0; i < rec->waiters && lmdb_waiter_next(t, hash, &at, &w) == 0; i++, at++)
        if (alive_here(t->directory, w.slot) && !emit_waiter(t, sink, rec, &w, ++position))
            return ENOMEM;
    return 0;
}

static int look_body(struct lmdb_txn *t, void *arg)
{
    const struct hfi_op *op = arg;
    struct lmdb_name rec;
    int rc = lmdb_name_get(t, &op->u.look.name, &rec);

    if (rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION)
        return 0;
    return rc != 0 ? rc : emit_name(t, op->u.look.sink, op->u.look.name.hash, &rec);
}

/* The cursor is the key of the last name of the page, as long as a key can be: behind all records of that name. */
static int list_body(struct lmdb_txn *t, void *arg)
{
    struct hfi_op *op = arg;
    struct hfi_cursor *place = op->u.list.cursor;
    MDB_val key = { .mv_size = place->len, .mv_data = place->bytes }, value;
    struct lmdb_name rec;
    MDB_cursor *cursor;
    int seen = 0, rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, place->len ? MDB_SET_RANGE : MDB_FIRST);
    for (; rc == 0 && seen < PAGE; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        uint64_t hash[2];

        if (key.mv_size != LMDB_KEY_NAME)
            continue; /* belongs to the name before */
        memcpy(hash, key.mv_data, sizeof hash);
        rc = lmdb_name_parse(hash, &value, &rec);
        if (rc == 0 && hfi_glob_match(op->u.list.pattern, op->u.list.len, rec.text, rec.name_len))
            rc = emit_name(t, op->u.list.sink, hash, &rec);
        if (rc != 0)
            break;
        memcpy(place->bytes, hash, LMDB_KEY_NAME);
        memset(place->bytes + LMDB_KEY_NAME, 0xff, LMDB_KEY_FULL - LMDB_KEY_NAME);
        place->len = LMDB_KEY_FULL;
        seen++;
    }
    mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND)
        place->len = 0;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

void lmdb_list(struct lmdb_store *store, struct hfi_op *op)
{
    if (op->u.list.cursor->len == 0 && op->hurried) {
        lmdb_put_off(store, op); /* to free leases of dead processes takes the mutex too */
        return;
    }
    if (op->u.list.cursor->len == 0)
        lmdb_reap(store->directory); /* so that leases of dead processes are not shown as held */
    lmdb_finish(store, op, lmdb_run_op(store, op, false, list_body, NULL, op));
}

void lmdb_look(struct lmdb_store *store, struct hfi_op *op)
{
    if (op->hurried) {
        lmdb_put_off(store, op);
        return;
    }
    lmdb_reap(store->directory);
    lmdb_finish(store, op, lmdb_run_op(store, op, false, look_body, NULL, op));
}

/* ---- BREAK ----------------------------------------------------------------------------- */

struct brk {
    struct hfi_op *op;
    bool found;
};

static int break_holder(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                        const struct lmdb_holder *h)
{
    struct lmdb_holder copy = *h;
    int rc = lmdb_holder_remove(t, hash, rec, &copy, true, lmdb_now(t));

    if (rc == 0 && copy.slot != LMDB_NO_SLOT)
        rc = lmdb_wake_later(
            t,
            (struct lmdb_wake){ .kind = LMDB_WAKE_LOST, .slot = copy.slot, .token = copy.token });
    if (rc == 0)
        rc = lmdb_promote(t, hash, rec, 0);
    return rc != 0 ? rc : lmdb_name_put(t, hash, rec);
}

static int break_body(struct lmdb_txn *t, void *arg)
{
    struct brk *b = arg;
    const struct hfi_name *name = &b->op->u.brk.name;
    uint64_t token = b->op->u.brk.token, at = 0;
    struct lmdb_further further;
    struct lmdb_name rec;
    int64_t tid;
    int rc = lmdb_name_get(t, name, &rec);

    b->found = false;
    if (rc == 0 && counts(t, &rec.first) && token_now(t->directory, &rec.first, &tid) == token) {
        b->found = true;
        return break_holder(t, name->hash, &rec, &rec.first);
    }
    for (uint32_t i = 0; rc == 0 && i < rec.further; i++, at++) {
        rc = lmdb_further_next(t, name->hash, &at, &further);
        if (rc == 0 && counts(t, &further.holder) &&
            token_now(t->directory, &further.holder, &tid) == token) {
            b->found = true;
            return break_holder(t, name->hash, &rec, &further.holder);
        }
    }
    return rc == 0 || rc == MDB_NOTFOUND || rc == LMDB_E_COLLISION ? LMDB_STOP : rc;
}

void lmdb_break(struct lmdb_store *store, struct hfi_op *op)
{
    struct brk b = { .op = op };
    hf_status status = lmdb_run_op(store, op, true, break_body, NULL, &b);

    if (status == HF_OK && !b.found)
        status =
            hfi_error_set(&op->error, HF_NOT_FOUND, 0, "no lease of that name has token %llu now",
                          (unsigned long long)op->u.brk.token);
    lmdb_finish(store, op, status);
}
