/* SPDX-License-Identifier: MIT */
/*
 * Waiting in the store's queue.
 *
 * A waiting thread sleeps on a futex word of its own in the control file, its cell:
 *
 *            enqueue                 promote (another process)
 *   IDLE ---------------> WAITING ---------------------------> GRANTED --> IDLE
 *                          |   ^                                  ^
 *            told to look  v   | looked                           |
 *                         CALLED -------------------------------- +
 *
 * The cell contains the grant; the winner need not read the store. CALLED means "check your
 * position": the waiter ahead has left, or the name is free and you barge. Asynchronous waiters,
 * and those that got no cell, receive the same by mail (mail.c).
 *
 * The processes ahead are watched by pidfd (watch.c): the holders, and the waiter directly before
 * us. Each waiter further ahead is watched by the one behind it.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/futex.h"

#include <limits.h>
#include <string.h>

static struct lmdb_wait *wait_of(struct hfi_op *op)
{
    return lmdb_op_of(op)->wait;
}

/* ---- beginning and ending ----------------------------------------------------- */

static uint32_t take_cell(struct lmdb_directory *d)
{
    for (uint32_t i = 0; i < LMDB_CELLS; i++)
        if (!(d->cells_used[i / 64] >> i % 64 & 1)) {
            d->cells_used[i / 64] |= UINT64_C(1) << i % 64;
            return i;
        }
    return LMDB_CELLS;
}

/* NULL: out of memory. Called under the mutex. */
struct lmdb_wait *lmdb_wait_new(struct lmdb_store *store, struct hfi_op *op)
{
    struct lmdb_directory *d = store->directory;
    struct lmdb_wait *w;

    pthread_mutex_lock(&d->local);
    w = d->pool;
    if (w)
        d->pool = w->next;
    else
        w = hfi_calloc(1, sizeof *w);
    if (w) {
        w->op = op;
        w->claim = op->claim;
        w->store = store;
        atomic_store(&w->cookie, ++d->next_cookie);
        w->told = w->replaced = 0;
        atomic_store(&w->open, w->cookie);
        atomic_store(&w->unwatched, 0);
        atomic_store(&w->wake_ms, HFI_NEVER);
        atomic_store(&w->look_ms, HFI_NEVER);
        w->cell = op->blocking ? take_cell(d) : LMDB_CELLS;
        w->turn = w->cell < LMDB_CELLS ? ++d->turns[w->cell] & 0x3fffffff : 0;
        w->prev = d->last_wait;
        w->next = NULL;
        if (d->last_wait)
            d->last_wait->next = w;
        else
            d->waits = w;
        d->last_wait = w;
        lmdb_op_of(op)->wait = w;
        lmdb_op_of(op)->cell = w->cell;
        lmdb_op_of(op)->turn = w->turn;
        lmdb_op_of(op)->cookie = w->cookie;
    }
    pthread_mutex_unlock(&d->local);
    return w;
}

static void free_cell(struct lmdb_directory *d, struct lmdb_wait *w)
{
    if (w->cell >= LMDB_CELLS)
        return;
    atomic_store(&lmdb_slot(d, d->slot)->cells[w->cell].word, w->turn << 2 | LMDB_IDLE);
    d->cells_used[w->cell / 64] &= ~(UINT64_C(1) << w->cell % 64);
    w->cell = LMDB_CELLS;
}

/* Remove it from the list of waits. Its cell is free for another wait. */
static void leave_list(struct lmdb_directory *d, struct lmdb_wait *w)
{
    pthread_mutex_lock(&d->local);
    if (w->op) {
        w->op = NULL;
        free_cell(d, w);
        if (w->prev)
            w->prev->next = w->next;
        else
            d->waits = w->next;
        if (w->next)
            w->next->prev = w->prev;
        else
            d->last_wait = w->prev;
    }
    pthread_mutex_unlock(&d->local);
}

void lmdb_wait_end(struct lmdb_directory *d, struct lmdb_wait *w)
{
    leave_list(d, w);
    pthread_mutex_lock(&d->local);
    w->claim = NULL;
    w->next = d->pool;
    d->pool = w;
    pthread_mutex_unlock(&d->local);
}

/* ---- who is ahead ---------------------------------------------------------------- */

static void ahead_add(struct lmdb_txn *t, struct lmdb_ahead *ahead, uint32_t slot)
{
    if (slot == LMDB_NO_SLOT || slot == t->directory->slot || slot >= lmdb_slots_used(t->directory))
        return;
    for (uint32_t i = 0; i < ahead->count; i++)
        if (ahead->slots[i] == slot)
            return;
    if (ahead->count == LMDB_WATCH_MAX) {
        ahead->more = true;
        return;
    }
    ahead->generations[ahead->count] = lmdb_slot(t->directory, slot)->generation;
    ahead->slots[ahead->count++] = slot;
}

static void ahead_holder(struct lmdb_txn *t, struct lmdb_ahead *ahead, const struct lmdb_holder *h)
{
    ahead_add(t, ahead, h->slot);
    if (h->deadline_ms < ahead->wake_ms)
        ahead->wake_ms = h->deadline_ms;
}

int lmdb_look_ahead(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                    uint64_t ticket, struct lmdb_ahead *ret)
{
    struct lmdb_header *header = t->directory->header;
    struct lmdb_further further;
    struct lmdb_waiter w;
    uint64_t at = 0;
    int rc = 0;

    ret->count = 0;
    ret->more = header->state != LMDB_READY; /* there is no event when the rebuild is complete:
                                              * poll */
    ret->wake_ms = !lmdb_past(t, rec->closed_ms) ? rec->closed_ms : HFI_NEVER;
    if (!lmdb_past(t, header->closed_ms) && header->closed_ms < ret->wake_ms)
        ret->wake_ms = header->closed_ms;
    if (rec->first.token)
        ahead_holder(t, ret, &rec->first);
    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0)
            ahead_holder(t, ret, &further.holder);
    }
    if (rc == 0 && rec->waiters > 1) {
        rc = lmdb_waiter_before(t, hash, &ticket, &w);
        if (rc == 0)
            ahead_add(t, ret, w.slot);
    }
    if (lmdb_past(t, ret->wake_ms)) /* it has passed, but the store is closed for grants: try again
                                     * later */
        ret->wake_ms = hfi_after_ms(lmdb_now(t), LMDB_HEARTBEAT_MS);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Watching begins after the record is written: lmdb_watch_add() finds a process that died before its
 * pidfd was opened. The wait may have ended meanwhile, and `w` may serve another one: the cookie
 * shows that. */
static void watch_ahead(struct lmdb_directory *d, struct lmdb_wait *w, uint64_t cookie,
                        const struct lmdb_ahead *ahead)
{
    bool all = !ahead->more;
    uint32_t emptied;

    pthread_mutex_lock(&d->local);
    emptied = d->emptied;
    pthread_mutex_unlock(&d->local);
    for (uint32_t i = 0; i < ahead->count; i++)
        if (!lmdb_watch_add(d, ahead->slots[i], ahead->generations[i]))
            all = false;
    pthread_mutex_lock(&d->local);
    if (atomic_load(&w->cookie) == cookie) {
        /* If the table was emptied in between, the processes added before that are no longer
         * watched. */
        atomic_store(&w->unwatched, !all || (emptied != d->emptied && ahead->count > 1));
        atomic_store(&w->wake_ms, ahead->wake_ms);
        atomic_store(&w->look_ms, hfi_after_ms(hfi_now_ms(), LMDB_LOOK_MS));
    }
    pthread_mutex_unlock(&d->local);
}

void lmdb_wait_begun(struct lmdb_directory *d, struct lmdb_wait *w, uint64_t cookie,
                     const struct lmdb_ahead *ahead, bool by_mail)
{
    watch_ahead(d, w, cookie, ahead);
    /* A thread that sleeps on its cell keeps its own time; for the others the watch thread does. */
    if (by_mail)
        lmdb_watch_poke(d);
}

/* ---- the grant arrives --------------------------------------------------------------- */

/* The time of the grant, from its low 32 bits: never in the future, at most 49 days ago. */
static int64_t whole_ms(uint32_t low, int64_t now_ms)
{
    return now_ms - (int64_t)(uint32_t)((uint32_t)now_ms - low);
}

/* A thread that waits without a cell sleeps on op->finished. The wake-up needs only its address:
 * the op may be gone by then. */
static void finish(struct hfi_op *op, hf_status status)
{
    _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)&op->finished;
    bool sleeps = op->blocking && lmdb_op_of(op)->cell >= LMDB_CELLS;

    hfi_op_finish(op, status);
    if (sleeps)
        hfi_futex_wake(word, 1, false);
}

/*
 * Claim the right to finish the op of this wait, by its cookie: when two cancels, or a cancel and a
 * grant, happen at once, `w` may have ended and serve another wait.
 */
static bool take_wait(struct lmdb_wait *w, uint64_t cookie)
{
    return atomic_compare_exchange_strong(&w->open, &cookie, 0);
}

/* Call only after take_wait() returned true. */
static void granted(struct lmdb_directory *d, struct lmdb_wait *w, struct hfi_op *op,
                    uint64_t token, uint32_t granted_ms)
{
    struct hfi_claim *claim = op->claim;

    /* Before the token is known: a rebuild in between registers it without numbers then. */
    if (claim->flags & HFI_CLAIM_NUMBERED && !lmdb_numbers_fetch(d, claim)) {
        leave_list(d, w);
        finish(op, hfi_error_set(&op->error, HF_UNKNOWN, 0, "its numbers could not be read"));
        return;
    }
    claim->token = token & ~LMDB_OTHERS_WAIT;
    claim->others_wait = token & LMDB_OTHERS_WAIT;
    claim->tokens = claim->tokens_wanted;
    claim->granted_ttl_ms = claim->ttl_ms;
    claim->sent_ms = whole_ms(granted_ms, hfi_now_ms());
    leave_list(d, w);
    finish(op, HF_OK);
}

void lmdb_wait_granted(struct lmdb_directory *d, uint64_t cookie, uint64_t token,
                       uint32_t granted_ms)
{
    struct hfi_op *op = NULL;
    struct lmdb_wait *w;

    pthread_mutex_lock(&d->local);
    for (w = d->waits; w && w->cookie != cookie; w = w->next)
        ;
    if (w && take_wait(w, cookie))
        op = w->op;
    pthread_mutex_unlock(&d->local);
    if (op)
        granted(d, w, op, token, granted_ms);
}

/*
 * The waiting thread. `w` may end and serve another wait at any time (a cancel from another
 * thread): so the thread knows its cell and turn from its op, and takes the grant only if that cell
 * says so; then `w` is certainly still its own. Once a second it checks its cell without being
 * woken: the granter may have been stopped before the futex call.
 */
void lmdb_wait(struct lmdb_store *store, struct hfi_op *op, int64_t until_ms)
{
    struct lmdb_directory *d = store->directory;
    struct lmdb_wait *w = wait_of(op);
    uint32_t cell = lmdb_op_of(op)->cell;
    uint32_t turn = lmdb_op_of(op)->turn;
    uint64_t cookie = lmdb_op_of(op)->cookie;

    while (!atomic_load(&op->finished)) {
        int64_t now = hfi_now_ms(), wake_ms, beat_ms;

        if (now >= until_ms)
            return;
        if (cell >= LMDB_CELLS) { /* no cell was left: the mail thread finishes the op */
            hfi_futex_wait((_Atomic uint32_t *)(void *)&op->finished, 0, until_ms, false);
            continue;
        }

        struct lmdb_cell *c = &lmdb_slot(d, d->slot)->cells[cell];
        uint32_t word = atomic_load(&c->word);

        if (word == (turn << 2 | LMDB_GRANTED) && take_wait(w, cookie)) {
            granted(d, w, op, c->token, c->granted_ms);
            return;
        }
        if (word == (turn << 2 | LMDB_CALLED)) {
            atomic_compare_exchange_strong(&c->word, &word, turn << 2 | LMDB_WAITING);
            lmdb_attend(d, cookie);
            continue;
        }
        wake_ms = atomic_load(&w->wake_ms);
        if (word == (turn << 2 | LMDB_WAITING) && now >= wake_ms) {
            lmdb_attend(d, cookie);
            continue;
        }
        /* Any other word: a cancel has it and is about to finish the op. */
        beat_ms = hfi_after_ms(now, LMDB_HEARTBEAT_MS);
        if (wake_ms > until_ms)
            wake_ms = until_ms;
        hfi_futex_wait(&c->word, word, wake_ms < beat_ms ? wake_ms : beat_ms, true);
        now = hfi_now_ms();
        if (now >= beat_ms && (atomic_load(&w->unwatched) || now >= atomic_load(&w->look_ms)))
            lmdb_attend(d, cookie);
    }
}

/* ---- looking at our place ------------------------------------------------------------- */

struct attend {
    struct lmdb_directory *directory;
    uint64_t cookie;
    struct lmdb_wait *wait;
    struct hfi_claim *claim;
    uint64_t ticket;
    uint32_t cell, turn;
    struct lmdb_ahead ahead;
    bool looked, trust;
};

/* Under the mutex, so the claim cannot go away. The wait can, when its grant is taken. */
static bool find_wait(struct lmdb_directory *d, struct attend *a)
{
    struct lmdb_wait *w;

    pthread_mutex_lock(&d->local);
    for (w = d->waits; w && w->cookie != a->cookie; w = w->next)
        ;
    if (w && atomic_load(&w->open) == 0)
        w = NULL; /* a cancel has removed it from the store's queue already: do not enqueue it
                   * again */
    a->wait = w;
    if (w) {
        a->claim = w->claim;
        a->ticket = w->ticket;
        a->cell = w->cell;
        a->turn = w->turn;
        a->trust = hfi_now_ms() < atomic_load(&w->look_ms);
    }
    pthread_mutex_unlock(&d->local);
    return w != NULL;
}

static uint64_t marked(const struct lmdb_holder *h, const struct lmdb_name *rec)
{
    return h->token | (rec->waiters > 0 && h->flags & LMDB_HOLDER_WATCHED ? LMDB_OTHERS_WAIT : 0);
}

static int tell_self(struct lmdb_txn *t, struct attend *a, const struct lmdb_holder *h,
                     const struct lmdb_name *rec)
{
    return lmdb_wake_later(t, (struct lmdb_wake){ .kind = LMDB_WAKE_GRANTED,
                                                  .slot = t->directory->slot,
                                                  .cell = a->cell,
                                                  .turn = a->turn,
                                                  .cookie = a->cookie,
                                                  .token = marked(h, rec),
                                                  .granted_ms = h->granted_ms });
}

/*
 * If the wait is still queued, find out who is ahead now. If it was granted without a message (the
 * granter died), act on the grant. If neither, our record was lost by something that should not
 * happen: enqueue again rather than wait for ever.
 */
static int attend_body(struct lmdb_txn *t, void *arg)
{
    struct attend *a = arg;
    struct hfi_claim *claim;
    const uint64_t *hash;
    struct lmdb_name rec;
    struct lmdb_waiter w;
    struct lmdb_holder h;
    int rc;

    a->looked = false;
    if (!find_wait(t->directory, a))
        return LMDB_STOP;
    claim = a->claim;
    hash = claim->name.hash;
    rc = lmdb_name_get(t, &claim->name, &rec);
    if (rc == MDB_NOTFOUND) {
        lmdb_name_init(&rec, &claim->name);
        rec.mode = (uint8_t)claim->mode;
        rec.capacity = claim->capacity;
        rc = 0;
    }
    if (rc == 0)
        rc = lmdb_waiter_get(t, hash, a->ticket, &w);
    if (rc == 0 && memcmp(w.owner, claim->owner, HFI_OWNER_LEN) != 0)
        rc = MDB_NOTFOUND;
    if (rc == MDB_NOTFOUND) {
        rc = lmdb_holder_find(t, hash, &rec, claim->owner, 0, &h);
        if (rc == 0)
            return tell_self(t, a, &h, &rec);
        if (rc != MDB_NOTFOUND)
            return rc;
        rc = lmdb_enqueue(t, &rec, a->wait, lmdb_ticket_last(t));
        a->ticket = a->wait->ticket;
        lmdb_slot(t->directory, t->directory->slot)->records++;
    }
    if (rc == 0)
        rc = lmdb_find_dead(t, hash, &rec, a->trust);
    if (rc == 0)
        rc = lmdb_promote(t, hash, &rec, a->ticket);
    if (rc == 0)
        rc = lmdb_name_put(t, hash, &rec);
    if (rc == 0)
        rc = lmdb_look_ahead(t, hash, &rec, a->ticket, &a->ahead);
    a->looked = rc == 0;
    return rc;
}

void lmdb_attend(struct lmdb_directory *d, uint64_t cookie)
{
    struct attend a = { .directory = d, .cookie = cookie };
    hf_status status =
        lmdb_run(d, true, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), attend_body, NULL, &a, NULL);

    if (status == HF_OK && a.looked) {
        watch_ahead(d, a.wait, cookie, &a.ahead);
        return;
    }
    if (find_wait(d, &a)) { /* the mutex is stuck: try again later */
        atomic_store(&a.wait->wake_ms, hfi_after_ms(hfi_now_ms(), LMDB_HEARTBEAT_MS));
        atomic_store(&a.wait->look_ms, hfi_after_ms(hfi_now_ms(), LMDB_HEARTBEAT_MS));
    }
}

/* A granter wrote our grant before it died, but may not have woken us. */
void lmdb_wake_own(struct lmdb_directory *d)
{
    struct lmdb_slot *s = lmdb_slot(d, d->slot);

    pthread_mutex_lock(&d->local);
    for (struct lmdb_wait *w = d->waits; w; w = w->next)
        if (w->cell < LMDB_CELLS && (atomic_load(&s->cells[w->cell].word) & 3) == LMDB_GRANTED)
            hfi_futex_wake(&s->cells[w->cell].word, INT_MAX, true);
    pthread_mutex_unlock(&d->local);
    if (atomic_load(&s->mail_sent) != atomic_load(&s->mail_read))
        hfi_futex_wake(&s->mail, INT_MAX, true);
}

/* ---- leaving ------------------------------------------------------------------------------ */

/* Take our waiter record out of the queue. MDB_NOTFOUND: it is not there. */
int lmdb_waiter_remove(struct lmdb_txn *t, const uint64_t hash[2], struct lmdb_name *rec,
                       uint64_t ticket, const unsigned char owner[HFI_OWNER_LEN])
{
    struct lmdb_waiter w;
    int rc = lmdb_waiter_get(t, hash, ticket, &w);

    if (rc == 0 && memcmp(w.owner, owner, HFI_OWNER_LEN) != 0)
        rc = MDB_NOTFOUND;
    if (rc == 0)
        rc = lmdb_waiter_del(t, hash, ticket);
    if (rc == 0)
        rc = lmdb_wake_later(t, (struct lmdb_wake){ .kind = LMDB_WAKE_FORGET, .slot = w.slot });
    if (rc != 0)
        return rc;
    rec->waiters--;
    rc = lmdb_tell_waiters(t, hash, rec);
    if (rc != 0)
        return rc;
    /* The waiter behind us now has another one ahead, which it may not be watching. */
    if (rec->waiters > 0) {
        rc = lmdb_waiter_next(t, hash, &ticket, &w);
        if (rc == 0)
            rc = lmdb_wake_later(t, (struct lmdb_wake){ .kind = LMDB_WAKE_CALLED,
                                                        .slot = w.slot,
                                                        .cell = w.cell,
                                                        .turn = w.turn,
                                                        .cookie = w.cookie });
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
    }
    return lmdb_promote(t, hash, rec, 0);
}

struct leave {
    struct lmdb_wait *wait;
    struct hfi_claim *claim;
    bool gone, granted;
    struct lmdb_holder h;
};

static int leave_body(struct lmdb_txn *t, void *arg)
{
    struct leave *l = arg;
    const uint64_t *hash = l->claim->name.hash;
    struct lmdb_name rec;
    int rc = lmdb_name_get(t, &l->claim->name, &rec);

    l->granted = l->gone = false;
    if (rc == 0) {
        rc = lmdb_waiter_remove(t, hash, &rec, l->wait->ticket, l->claim->owner);
        if (rc == 0) {
            l->gone = true;
            return lmdb_name_put(t, hash, &rec);
        }
        if (rc == MDB_NOTFOUND)
            rc = lmdb_holder_find(t, hash, &rec, l->claim->owner, 0, &l->h);
        if (rc == 0)
            l->h.token = marked(&l->h, &rec);
    }
    l->granted = rc == 0;
    l->gone = rc == MDB_NOTFOUND;
    return rc == 0 || rc == MDB_NOTFOUND ? LMDB_STOP : rc;
}

static void leave_after(struct lmdb_txn *t, void *arg)
{
    struct leave *l = arg;

    if (!l->gone)
        return;
    lmdb_claim_of(l->claim)->wait = NULL; /* lmdb_cancel() frees it, after it has woken the
                                           * thread */
    lmdb_claim_unlink(t->directory, l->claim);
}

void lmdb_cancel(struct lmdb_store *store, struct hfi_op *op, hf_status status)
{
    struct lmdb_directory *d = store->directory;
    struct lmdb_wait *w = wait_of(op);
    struct leave l = { .wait = w, .claim = op->claim };
    uint32_t cell = lmdb_op_of(op)->cell;
    hf_error err;
    hf_status run;

    /* The thread that takes the wait finishes the op; no other thread touches it after that. */
    if (!w || atomic_load(&op->finished) || !take_wait(w, lmdb_op_of(op)->cookie))
        return;
    run = lmdb_run(d, true, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), leave_body, leave_after,
                   &l, &err);
    if (run == HF_OK && l.granted) {
        granted(d, w, op, l.h.token, (uint32_t)l.h.granted_ms);
    } else {
        leave_list(d, w);
        if (run == HF_OK)
            lmdb_wait_end(d, w);
        hfi_error_set(&op->error, run == HF_OK ? status : HF_UNKNOWN, 0, "%s",
                      run == HF_OK ? hf_status_text(status) : err.text);
        finish(op, run == HF_OK ? status : HF_UNKNOWN);
    }
    if (cell < LMDB_CELLS)
        hfi_futex_wake(&lmdb_slot(d, d->slot)->cells[cell].word, INT_MAX, true);
}
