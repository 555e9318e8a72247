/* SPDX-License-Identifier: MIT */
/*
 * Waiting in the queue: our key exists, and there are claims ahead (acquire.c draws all states).
 * LOOK reads them, WATCH waits for the end of one; a claim whose lease must end moves to another
 * lease meanwhile.
 *
 * A watch begins now, not at the revision of our read: etcd serves watches that begin in the past
 * only every 100 ms. A second read finds what happened in between.
 */
#include "engine/etcd/internal.h"

#include "engine/kit/position.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <string.h>

#define MOVE_AGAIN_MS  1000
#define WATCH_AGAIN_MS 50
#define DOUBT_MS       30
#define DOUBTS         4 /* together they cover the 100 ms */

/* ---- LOOK ---------------------------------------------------------------------------------------------- */

static bool is_exclusive(const struct hfi_claim *claim)
{
    return claim->permits == claim->capacity;
}

/* Newest first; a claim that takes all permits needs only the one directly ahead. */
void etcd_wait_order(const struct hfi_claim *claim, struct etcd_range *range)
{
    range->order = ETCD_NEWEST_FIRST;
    range->limit = is_exclusive(claim) ? 2 : 0;
}

/* There was such a revision: what was read before it is too old. */
static void know(struct etcd_wait *wait, int64_t revision)
{
    if (revision > wait->known)
        wait->known = revision;
}

static void queue_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                       const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_wait *wait = call->data;

    if (!wait)
        return;
    wait->call = NULL;
    if (outcome == HFI_ANSWERED && etcd_revision(reply) < wait->known) {
        wait->strict = true; /* it was read before what we know already */
        etcd_wait_look(store, wait);
    } else if (outcome == HFI_ANSWERED)
        etcd_wait_judge(store, wait, reply, etcd_revision(reply));
    else if (hfi_outcome_status(outcome, err) == HF_DENIED)
        etcd_wait_leave(store, wait, HF_DENIED, err);
    else {
        wait->state = ETCD_WAIT_WATCH;
        wait->beat_ms = hfi_now_ms() + ETCD_POLL_MS;
    }
}

/*
 * May the member that has our watch answer from what it knows, without asking the others? If it knows our key, it knows every
 * claim that came before, and what it has seen deleted is deleted. It may be late, even behind its own events (etcd sends
 * an event a moment before the change can be read): so an answer of a revision before wait->known is not used. Without a
 * watch there the event of a later change might never come.
 */
static bool may_be_local(const struct etcd_store *store, const struct etcd_wait *wait)
{
    return wait->watch && wait->watch->created && wait->watch->host == store->at && !wait->strict;
}

void etcd_wait_look(struct etcd_store *store, struct etcd_wait *wait)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, queue_read, NULL);
    struct etcd_key from, to;
    struct etcd_range ahead = { .key = &from,
                                .to = &to,
                                .max_created = (int64_t)wait->token,
                                .serializable = may_be_local(store, wait) };

    wait->beat_ms = HFI_NEVER;
    wait->dirty = wait->strict = false;
    if (!call) {
        wait->state = ETCD_WAIT_WATCH;
        wait->beat_ms = hfi_now_ms() + ETCD_POLL_MS;
        return;
    }
    wait->state = ETCD_WAIT_LOOK;
    wait->call = call;
    call->data = wait;
    call->again = true;
    call->request.give_up_ms = HFI_NEVER;
    etcd_kind_range(store->conf->prefix, wait->claim, &from, &to);
    etcd_wait_order(wait->claim, &ahead);
    etcd_add_range(&call->body, &ahead);
    etcd_call_send(call);
}

void etcd_wait_unwatch(struct etcd_store *store, struct etcd_wait *wait)
{
    if (wait->watch)
        etcd_watch_close(store, wait->watch);
    wait->watch = NULL;
    wait->watched = 0;
    wait->beat_ms = HFI_NEVER;
}

/*
 * When to read the queue although nothing came. Even a watch that begins now may have begun in the past: etcd fixes its
 * revision before it makes the watch, and then serves it only every 100 ms, until it has caught up. So a new watch is
 * doubted for that long; one that etcd has not confirmed, again and again.
 */
static void doubt(struct etcd_wait *wait)
{
    int64_t pause_ms = DOUBT_MS;

    if (wait->doubts >= DOUBTS && wait->watch->created)
        return;
    for (unsigned i = DOUBTS; i < wait->doubts && pause_ms < ETCD_AGAIN_MAX_MS; i++)
        pause_ms *= 2;
    wait->doubts++;
    wait->beat_ms = hfi_now_ms() + pause_ms;
}

static void watch(struct etcd_store *store, struct etcd_wait *wait, const struct etcd_key *key,
                  const struct etcd_key *to, uint64_t whom)
{
    wait->state = ETCD_WAIT_WATCH;
    if (wait->op)
        wait->op->ret_queued = true;
    if (wait->watch && wait->watched == whom) {
        if (wait->dirty)
            etcd_wait_look(store, wait);
        else
            doubt(wait);
        return;
    }
    etcd_wait_unwatch(store, wait);
    wait->doubts = 0;
    if (etcd_watch_open(store, wait, key, to, 0, &wait->watch)) {
        wait->watched = whom;
        doubt(wait);
    } else {
        wait->beat_ms = hfi_now_ms() + ETCD_POLL_MS;
    }
}

/* Read the `count` claims ahead, which follow ours in `range`: keep them for a watch on all of them,
 * and compute the position. false: out of memory. */
static bool read_ahead(const struct etcd_store *store, struct etcd_wait *wait,
                       struct etcd_message range, size_t count, struct hfi_position *position)
{
    const struct hfi_claim *claim = wait->claim;
    struct hfi_demand demand = { claim->mode, claim->capacity, claim->permits };
    struct etcd_ahead *ahead = hfi_realloc(wait->ahead, (count ? count : 1) * sizeof *ahead);
    struct etcd_message one;
    struct etcd_record record;

    if (!ahead)
        return false;
    wait->ahead = ahead;
    wait->ahead_count = count;
    (void)etcd_next(&range, ETCD_RANGE_KVS, &one); /* ours */
    for (size_t i = 0; i < count && etcd_next(&range, ETCD_RANGE_KVS, &one); i++) {
        if (!etcd_kv(store->conf->prefix, one, &record)) {
            memset(record.place, 0, sizeof record.place);
            record.permits = claim->capacity; /* not a record of ours: it must end first */
        }
        memcpy(ahead[i].place, record.place, HFI_OWNER_LEN);
        ahead[i].permits = record.permits;
    }
    hfi_position_begin(position, &demand);
    for (size_t i = count; i-- > 0;) {
        demand.permits = ahead[i].permits;
        hfi_position_ahead(position, &demand); /* all keys of this range are of our kind */
    }
    wait->taken = position->ahead.taken;
    return true;
}

static struct etcd_message kv_at(struct etcd_message range, size_t index)
{
    struct etcd_message kv = { NULL, 0 };

    for (size_t i = 0; i <= index; i++)
        if (!etcd_next(&range, ETCD_RANGE_KVS, &kv))
            return (struct etcd_message){ NULL, 0 };
    return kv;
}

/* Newest first; the first must be ours. */
void etcd_wait_judge(struct etcd_store *store, struct etcd_wait *wait, struct etcd_message range,
                     int64_t revision)
{
    size_t count = etcd_count(range, ETCD_RANGE_KVS);
    struct hfi_position position;
    struct etcd_key key, to;
    struct etcd_message blocker;

    if ((uint64_t)etcd_number(kv_at(range, 0), ETCD_KV_CREATED) != wait->token) {
        wait->lease->retiring = true; /* whatever deleted our key may have ended the lease */
        etcd_wait_again(store, wait);
        return;
    }
    wait->seen = revision;
    know(wait, revision);
    if (!read_ahead(store, wait, range, count - 1, &position)) {
        wait->state = ETCD_WAIT_WATCH;
        wait->beat_ms = hfi_now_ms() + ETCD_POLL_MS;
        return;
    }
    if (hfi_position_verdict(&position) == HFI_VERDICT_HOLDS) {
        if (revision == (int64_t)wait->token || !etcd_want_look_behind(store, wait))
            etcd_wait_confirm(store,
                              wait); /* nobody can be behind us yet, or it is not asked for */
        return;
    }
    if (wait->stop != HF_OK) {
        etcd_wait_leave(store, wait, wait->stop, NULL);
        return;
    }
    if (position.blocker == HFI_NO_BLOCKER) {
        etcd_kind_range(store->conf->prefix, wait->claim, &key, &to);
        watch(store, wait, &key, &to, ETCD_ALL);
        return;
    }
    blocker = kv_at(range, count - 1 - position.blocker); /* newest first */
    if (etcd_kv_key(blocker, &key))
        watch(store, wait, &key, NULL, (uint64_t)etcd_number(blocker, ETCD_KV_CREATED));
    else
        etcd_wait_leave(store, wait, HF_CORRUPT, NULL);
}

/* ---- events -------------------------------------------------------------------------------------------------- */

void etcd_wait_created(struct etcd_store *store, struct etcd_wait *wait, int64_t revision)
{
    wait->failures = 0;
    know(wait, revision);
    if (revision == wait->seen)
        return;
    if (wait->state == ETCD_WAIT_WATCH)
        etcd_wait_look(store, wait);
    else
        wait->dirty = true;
}

void etcd_wait_deleted(struct etcd_store *store, struct etcd_wait *wait,
                       const unsigned char place[HFI_OWNER_LEN], int64_t revision)
{
    know(wait, revision);
    if (wait->watched == ETCD_ALL) {
        for (size_t i = 0; i < wait->ahead_count; i++)
            if (memcmp(wait->ahead[i].place, place, HFI_OWNER_LEN) == 0) {
                wait->taken -= wait->ahead[i].permits;
                wait->ahead[i] = wait->ahead[--wait->ahead_count];
                break;
            }
        if (wait->taken + wait->claim->permits > wait->claim->capacity &&
            wait->state == ETCD_WAIT_WATCH)
            return; /* it cannot be our turn yet: no need to read the queue */
    }
    if (wait->state == ETCD_WAIT_WATCH)
        etcd_wait_look(store, wait);
    else
        wait->dirty = true;
}

void etcd_wait_unwatched(struct etcd_store *store, struct etcd_wait *wait, const hf_error *why)
{
    int64_t pause_ms = WATCH_AGAIN_MS;

    (void)store, (void)why;
    wait->watch = NULL;
    wait->watched = 0;
    for (unsigned i = 0; i < wait->failures && pause_ms < ETCD_AGAIN_MAX_MS; i++)
        pause_ms *= 2;
    wait->failures++;
    wait->dirty = true;
    if (wait->state == ETCD_WAIT_WATCH)
        wait->beat_ms = hfi_now_ms() + pause_ms; /* read the queue, and watch again */
}

void etcd_waits_lease_gone(struct etcd_store *store, struct etcd_lease *lease)
{
    hfi_list_each (struct etcd_wait, wait, &store->waits, listed)
        if (wait->lease == lease && wait->state == ETCD_WAIT_WATCH)
            wait->beat_ms = 0; /* the next read will find that its key is gone */
}

/* ---- to another lease -------------------------------------------------------------------------------------------- */

void etcd_wait_stop_moving(struct etcd_store *store, struct etcd_wait *wait)
{
    if (!wait->next_lease)
        return;
    etcd_lease_unask(wait->next_lease, &wait->move_ask);
    if (wait->move_call)
        wait->move_call->data = NULL;
    wait->move_call = NULL;
    etcd_lease_drop(store, wait->next_lease);
    wait->next_lease = NULL;
}

static void moved(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                  const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_wait *wait = call->data;

    (void)err;
    if (!wait)
        return;
    wait->move_call = NULL;
    if (outcome == HFI_ANSWERED && etcd_number(reply, ETCD_TXN_SUCCEEDED)) {
        struct etcd_lease *lease = wait->next_lease;

        wait->next_lease = NULL;
        etcd_lease_unask(wait->lease, &wait->ask);
        wait->lease->waits--;
        etcd_lease_drop(store, wait->lease);
        wait->lease = lease;
        lease->waits++;
        return;
    }
    etcd_wait_stop_moving(store, wait);
    wait->move_ms = hfi_now_ms() + MOVE_AGAIN_MS;
    if (outcome == HFI_ANSWERED && wait->state == ETCD_WAIT_WATCH)
        etcd_wait_look(store, wait); /* the key is gone */
}

static void move_ready(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                       const hf_error *err, void *data)
{
    struct etcd_wait *wait = data;
    struct etcd_call *call =
        status == HF_OK ? etcd_call_new(store, &etcd_txn_method, moved, NULL) : NULL;
    struct etcd_key key;

    (void)err;
    if (!call) {
        wait->move_ms = hfi_now_ms() + MOVE_AGAIN_MS;
        etcd_lease_drop(store, wait->next_lease);
        wait->next_lease = NULL;
        return;
    }
    wait->move_call = call;
    call->data = wait;
    call->again = true;
    etcd_claim_key(store->conf->prefix, wait->claim, &key);
    etcd_add_move(&call->body, &key, (int64_t)wait->token, lease->id);
    etcd_call_send(call);
}

static bool must_move(const struct etcd_wait *wait)
{
    return wait->state == ETCD_WAIT_WATCH && wait->lease && wait->lease->retiring && wait->token &&
           !wait->next_lease && wait->lease->state == ETCD_LEASE_LIVE;
}

static void move(struct etcd_store *store, struct etcd_wait *wait)
{
    wait->next_lease = etcd_lease_get(store, wait->claim->ttl_ms, wait->lease->own);
    if (!wait->next_lease) {
        wait->move_ms = hfi_now_ms() + MOVE_AGAIN_MS;
        return;
    }
    wait->move_ask = (struct etcd_ask){ .ready = move_ready, .data = wait };
    etcd_lease_ready(store, wait->next_lease, ETCD_USE_SIXTHS, &wait->move_ask);
}

/* ---- time ------------------------------------------------------------------------------------------------------------ */

int64_t etcd_waits_next_ms(const struct etcd_store *store)
{
    int64_t next = HFI_NEVER;

    hfi_list_each (const struct etcd_wait, wait, &store->waits, listed) {
        if (wait->state == ETCD_WAIT_WATCH && wait->beat_ms < next)
            next = wait->beat_ms;
        if (must_move(wait) && wait->move_ms < next)
            next = wait->move_ms;
    }
    return next;
}

void etcd_waits_tick(struct etcd_store *store, int64_t now_ms)
{
    const struct hfi_list *at = store->waits.next;

    while (at != &store->waits) {
        struct etcd_wait *wait = hfi_container(at, struct etcd_wait, listed);

        if (must_move(wait) && wait->move_ms <= now_ms)
            move(store, wait);
        else if (wait->state == ETCD_WAIT_WATCH && wait->beat_ms <= now_ms)
            etcd_wait_look(store, wait);
        else {
            at = at->next;
            continue;
        }
        at = store->waits.next; /* waits may have ended: start again; none is due twice */
    }
}
