/* SPDX-License-Identifier: MIT */
/*
 * Acquire: the steps of a claim through the queue.
 *
 *   LEASE --> PUT --+--> (granted)
 *     ^         |   +--> (busy, mismatch, refused)
 *     |         v
 *     |       WATCH <--> LOOK --> CONFIRM --> (granted)
 *     |         |         |          |
 *     +---------+---------+----------+     its key is gone: from the beginning
 *               v         v          v
 *             LEAVE --> (stopped)
 *
 * The first PUT of an acquire that may wait is a transaction that succeeds only if the name has no
 * claims (the cheapest one; not used for names that were busy lately). The next one puts our key,
 * and its answer lists the claims ahead. If there are none, that is the grant. It compares our own
 * key (so an executed copy is found, and a second one does nothing) and keys of another kind or
 * capacity (MISMATCH: then our key is not put). A try puts its key only if the name has no claims,
 * or no new ones since it read the queue and found room: so a refused try leaves nothing behind.
 *
 * WATCH and LOOK are in queue.c.
 */
#include "engine/etcd/internal.h"

#include "engine/kit/handover.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <string.h>
#include <time.h>

#define FRESH_SIXTHS 4 /* a lease is renewed in the background if less than this is left of it */
#define FULL_SIXTHS  5

static void begin_wait(struct etcd_store *store, struct etcd_wait *wait);
static void put_key(struct etcd_store *store, struct etcd_wait *wait);

/* ---- a wait's life ---------------------------------------------------------------------------------- */

static void lease_is_ready(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                           const hf_error *err, void *data);

void etcd_acquire(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_wait *wait = hfi_calloc(1, sizeof *wait);

    if (!wait) {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->op = op;
    wait->claim = op->claim;
    wait->beat_ms = HFI_NEVER;
    hfi_list_append(&store->waits, &wait->listed);
    etcd_op(op)->wait = wait;
    etcd_slot_take(store, wait->claim);
    begin_wait(store, wait);
}

static void drop_lease(struct etcd_store *store, struct etcd_wait *wait)
{
    if (!wait->lease)
        return;
    etcd_lease_unask(wait->lease, &wait->ask);
    wait->lease->waits--;
    etcd_lease_drop(store, wait->lease);
    wait->lease = NULL;
}

/* End the wait. If its lease is still needed, the claim has it already. */
static void end_wait(struct etcd_store *store, struct etcd_wait *wait, hf_status status,
                     const hf_error *err)
{
    etcd_wait_unwatch(store, wait);
    etcd_wait_stop_moving(store, wait);
    if (wait->call)
        wait->call->data = NULL;
    if (status == HF_UNKNOWN && wait->lease) {
        /* Core releases it by owner until that is confirmed; until then the lease lives. */
        etcd_claim(wait->claim)->lease = wait->lease;
        wait->lease->refs++;
    }
    if (status != HF_OK && status != HF_UNKNOWN)
        etcd_slot_drop(store, wait->claim);
    drop_lease(store, wait);
    hfi_list_remove(&wait->listed);
    etcd_finish(store, wait->op, status, err);
    hfi_free(wait->ahead);
    hfi_free(wait);
}

static void begin_wait(struct etcd_store *store, struct etcd_wait *wait)
{
    wait->state = ETCD_WAIT_LEASE;
    wait->token = 0;
    wait->known = 0;
    wait->limit = 0;
    wait->hopes = false;
    wait->claim->others_wait = false;
    wait->lease =
        etcd_lease_get(store, wait->claim->ttl_ms, (wait->claim->flags & HFI_CLAIM_DETACHED) != 0);
    if (!wait->lease) {
        end_wait(store, wait, HF_NO_MEMORY, NULL);
        return;
    }
    wait->lease->waits++;
    wait->ask = (struct etcd_ask){ .ready = lease_is_ready, .data = wait };
    etcd_lease_ready(store, wait->lease, ETCD_USE_SIXTHS, &wait->ask);
}

/* The key is gone, and with it the place in the queue: begin again. */
void etcd_wait_again(struct etcd_store *store, struct etcd_wait *wait)
{
    etcd_wait_unwatch(store, wait);
    etcd_wait_stop_moving(store, wait);
    drop_lease(store, wait);
    if (wait->stop != HF_OK)
        end_wait(store, wait, wait->stop, NULL);
    else
        begin_wait(store, wait);
}

static void lease_is_ready(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                           const hf_error *err, void *data)
{
    struct etcd_wait *wait = data;

    if (status == HF_LOST) {
        etcd_wait_again(store, wait);
        return;
    }
    if (wait->state == ETCD_WAIT_CONFIRM) {
        if (status == HF_OK) {
            etcd_wait_confirm(store, wait);
            return;
        }
        wait->state = ETCD_WAIT_WATCH; /* we stay in the queue, and ask again in a moment */
        wait->beat_ms = hfi_now_ms() + ETCD_POLL_MS;
        return;
    }
    if (status == HF_UNAVAILABLE && wait->op->may_wait && wait->stop == HF_OK) {
        drop_lease(store, wait);
        begin_wait(store, wait); /* each try has its time limit */
        return;
    }
    if (status != HF_OK) {
        end_wait(store, wait, status, err);
        return;
    }
    if (etcd_lease_left_ms(lease, hfi_now_ms()) < lease->granted_ms * FRESH_SIXTHS / 6)
        etcd_lease_keep(store, lease);
    put_key(store, wait);
}

/* ---- PUT -------------------------------------------------------------------------------------------- */

static void add_put(struct etcd_text *body, const struct etcd_store *store,
                    const struct etcd_wait *wait, const struct etcd_key *key)
{
    const struct hfi_claim *claim = wait->claim;
    char value[ETCD_VALUE_MAX];
    struct timespec now;
    size_t len;

    clock_gettime(CLOCK_REALTIME, &now);
    len = etcd_write_value(claim, wait->lease->ttl_s,
                           (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, store->id,
                           claim->label ? claim->label : store->reactor.host->label, value);
    etcd_add_op_put(body, ETCD_THEN, key, value, len, wait->lease->id);
}

/* Join the queue, unless the name has claims of another kind. */
static void write_queue(struct etcd_text *body, const struct etcd_store *store,
                        const struct etcd_wait *wait)
{
    struct etcd_key key, from, to, kind, kind_to;
    struct etcd_range ahead = { .key = &kind, .to = &kind_to };

    etcd_claim_key(store->conf->prefix, wait->claim, &key);
    etcd_name_range(store->conf->prefix, wait->claim->name.bytes, wait->claim->name.len, &from,
                    &to);
    etcd_kind_range(store->conf->prefix, wait->claim, &kind, &kind_to);
    etcd_wait_order(wait->claim, &ahead);
    etcd_add_compare(body, &key, NULL, ETCD_CREATED_AT, 0);
    etcd_add_compare(body, &from, &kind, ETCD_CREATED_AT, 0);
    etcd_add_compare(body, &kind_to, &to, ETCD_CREATED_AT, 0);
    add_put(body, store, wait, &key);
    etcd_add_op_range(body, ETCD_THEN, &ahead);
    etcd_add_op_range(body, ETCD_ELSE, &(struct etcd_range){ .key = &key });
}

/* Put our key only if the name has no claims. */
static void write_hope(struct etcd_text *body, const struct etcd_store *store,
                       const struct etcd_wait *wait)
{
    struct etcd_key key, from, to;

    etcd_claim_key(store->conf->prefix, wait->claim, &key);
    etcd_name_range(store->conf->prefix, wait->claim->name.bytes, wait->claim->name.len, &from,
                    &to);
    etcd_add_compare(body, &from, &to, ETCD_CREATED_AT, 0);
    add_put(body, store, wait, &key);
}

static uint64_t *hot(struct etcd_store *store, const struct hfi_claim *claim)
{
    return &store->hot[claim->name.hash[0] % ETCD_HOT];
}

/* Put our key if the name has no claims, or only those that we have seen, with room for us. */
static void write_try(struct etcd_text *body, const struct etcd_store *store,
                      const struct etcd_wait *wait)
{
    struct etcd_key key, from, to;

    etcd_claim_key(store->conf->prefix, wait->claim, &key);
    etcd_name_range(store->conf->prefix, wait->claim->name.bytes, wait->claim->name.len, &from,
                    &to);
    etcd_add_compare(body, &from, &to, ETCD_CREATED_BEFORE, wait->limit + 1);
    add_put(body, store, wait, &key);
    etcd_add_op_range(body, ETCD_ELSE,
                      &(struct etcd_range){ .key = &from, .to = &to, .order = ETCD_OLDEST_FIRST });
}

/* Our try was refused: the name has claims. */
static void tried(struct etcd_store *store, struct etcd_wait *wait, struct etcd_message range,
                  int64_t revision)
{
    struct etcd_message one;
    const struct hfi_claim *claim = wait->claim;
    struct etcd_record record;
    uint64_t taken = 0, older = 0;
    hf_error err;

    while (etcd_next(&range, ETCD_RANGE_KVS, &one)) { /* oldest first */
        if (!etcd_kv(store->conf->prefix, one, &record)) {
            taken = claim->capacity; /* not a record of ours: treat it as busy */
        } else if (memcmp(record.owner, claim->owner, HFI_OWNER_LEN) == 0) {
            wait->token = record.revision; /* a copy that was executed before */
            older = taken;
        } else if (record.mode != claim->mode || record.capacity != claim->capacity) {
            (void)hfi_mismatch_set(&err, record.mode, record.capacity);
            end_wait(store, wait, HF_MISMATCH, &err);
            return;
        } else {
            taken += record.permits;
        }
    }
    if (wait->token && older + claim->permits <= claim->capacity)
        etcd_wait_confirm(store, wait);
    else if (wait->token)
        etcd_wait_leave(store, wait, HF_BUSY, NULL);
    else if (wait->stop != HF_OK || taken + claim->permits > claim->capacity)
        end_wait(store, wait, wait->stop != HF_OK ? wait->stop : HF_BUSY, NULL);
    else if (wait->limit == revision)
        end_wait(store, wait, HF_BUSY, NULL); /* cannot happen: do not send the same try twice */
    else {
        wait->limit = revision;
        put_key(store, wait);
    }
}

static bool is_mine(const struct etcd_store *store, const struct etcd_wait *wait,
                    struct etcd_message kv)
{
    struct etcd_record record;

    return etcd_kv(store->conf->prefix, kv, &record) &&
           memcmp(record.owner, wait->claim->owner, HFI_OWNER_LEN) == 0;
}

/* Our key is there. */
static void put_done(struct etcd_store *store, struct etcd_wait *wait, struct etcd_message reply)
{
    struct etcd_message range = etcd_response(reply, 1, ETCD_RESPONSE_RANGE);
    bool asked = wait->op->may_wait && !wait->hopes;

    wait->token = (uint64_t)etcd_revision(reply);
    if (wait->token == 0 || (asked && !range.at) ||
        !etcd_response(reply, 0, ETCD_RESPONSE_PUT).at) {
        end_wait(store, wait, HF_UNKNOWN, NULL);
    } else if (wait->token >= HFI_TOKEN_LIMIT) {
        etcd_wait_leave(store, wait, HF_FULL, NULL);
    } else if (asked) {
        if (etcd_count(range, ETCD_RANGE_KVS) == 1)
            *hot(store, wait->claim) = 0;
        etcd_wait_judge(store, wait, range, etcd_revision(reply));
    } else {
        etcd_wait_confirm(store, wait);
    }
}

/* The claims that were in the way, if any is left. */
static void kind_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct etcd_wait *wait = call->data;
    struct etcd_message range, one;
    struct etcd_record record;
    hf_error other;
    bool known = false;

    (void)err;
    if (!wait)
        return;
    wait->call = NULL;
    range = outcome == HFI_ANSWERED ? etcd_response(reply, 0, ETCD_RESPONSE_RANGE)
                                    : (struct etcd_message){ NULL, 0 };
    while (!known && range.at && etcd_next(&range, ETCD_RANGE_KVS, &one))
        known = etcd_kv(call->store->conf->prefix, one, &record);
    if (known)
        (void)hfi_mismatch_set(&other, record.mode, record.capacity);
    end_wait(call->store, wait, HF_MISMATCH, known ? &other : NULL);
}

/* The name is in use as another kind, and our key was not put: as which kind? Only the text depends on the answer. */
static void ask_kind(struct etcd_store *store, struct etcd_wait *wait)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, kind_read, NULL);
    struct etcd_key from, to;

    if (!call) {
        end_wait(store, wait, HF_MISMATCH, NULL);
        return;
    }
    wait->call = call;
    call->data = wait;
    etcd_name_range(store->conf->prefix, wait->claim->name.bytes, wait->claim->name.len, &from,
                    &to);
    etcd_add_op_range(&call->body, ETCD_THEN,
                      &(struct etcd_range){ .key = &from, .to = &to, .order = ETCD_OLDEST_FIRST });
    etcd_call_send(call);
}

static void key_put(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_wait *wait = call->data;
    struct etcd_message range, mine;

    if (!wait)
        return; /* never: a wait with a put under way does not end */
    wait->call = NULL;
    if (call->maybe)
        wait->lease->retiring = true; /* a copy of it may be executed late */
    if (outcome == HFI_REFUSED && err->status == HF_NOT_FOUND) {
        etcd_lease_gone(store, wait->lease, "etcd has ended its lease");
        etcd_wait_again(store, wait);
        return;
    }
    if (outcome != HFI_ANSWERED) {
        if (outcome != HFI_MAYBE && call->maybe)
            outcome = HFI_MAYBE;
        end_wait(store, wait,
                 outcome == HFI_UNSENT && wait->stop != HF_OK ? wait->stop
                                                              : hfi_outcome_status(outcome, err),
                 err);
        return;
    }
    if (etcd_number(reply, ETCD_TXN_SUCCEEDED)) {
        put_done(store, wait, reply);
        return;
    }
    if (wait->hopes) {
        *hot(store, wait->claim) = wait->claim->name.hash[0];
        if (wait->stop != HF_OK)
            end_wait(store, wait, call->maybe ? HF_UNKNOWN : wait->stop, NULL);
        else
            put_key(store, wait);
        return;
    }
    range = etcd_response(reply, 0, ETCD_RESPONSE_RANGE);
    if (!range.at) {
        end_wait(store, wait, HF_UNKNOWN, NULL);
        return;
    }
    if (!wait->op->may_wait) {
        tried(store, wait, range, etcd_revision(reply));
        return;
    }
    mine = etcd_part(range, ETCD_RANGE_KVS);
    if (mine.at && !is_mine(store, wait, mine)) {
        etcd_slot_take(store, wait->claim); /* a late copy of another claim has this key; it will
                                             * end */
        if (wait->stop != HF_OK)
            end_wait(store, wait, wait->stop, NULL);
        else
            put_key(store, wait);
        return;
    }
    wait->token = (uint64_t)etcd_number(mine, ETCD_KV_CREATED);
    if (wait->token == 0)
        ask_kind(store, wait);
    else if (wait->stop != HF_OK)
        etcd_wait_leave(store, wait, wait->stop, NULL);
    else
        etcd_wait_look(store, wait);
}

static void put_key(struct etcd_store *store, struct etcd_wait *wait)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_txn_method, key_put, NULL);

    if (!call) {
        end_wait(store, wait, HF_NO_MEMORY, NULL);
        return;
    }
    wait->state = ETCD_WAIT_PUT;
    wait->call = call;
    call->data = wait;
    call->again = true;
    wait->hopes =
        wait->op->may_wait && !wait->hopes && *hot(store, wait->claim) != wait->claim->name.hash[0];
    if (wait->op->may_wait)
        call->request.give_up_ms = HFI_NEVER; /* until it is stopped */
    if (wait->hopes)
        write_hope(&call->body, store, wait);
    else if (wait->op->may_wait)
        write_queue(&call->body, store, wait);
    else
        write_try(&call->body, store, wait);
    etcd_call_send(call);
}

/* ---- CONFIRM, LEAVE --------------------------------------------------------------------------------------------- */

/* The claim is first. Is enough validity of its lease left? */
void etcd_wait_confirm(struct etcd_store *store, struct etcd_wait *wait)
{
    struct etcd_lease *lease = wait->lease;
    struct hfi_claim *claim = wait->claim;
    int64_t left_ms = etcd_lease_left_ms(lease, hfi_now_ms());
    bool confirmed = wait->state == ETCD_WAIT_CONFIRM;

    etcd_wait_unwatch(store, wait);
    if (!confirmed && hfi_grant_needs_renewal(left_ms, lease->granted_ms, lease->granted_ms,
                                              claim->min_valid_ms)) {
        wait->state = ETCD_WAIT_CONFIRM;
        wait->ask = (struct etcd_ask){ .ready = lease_is_ready, .data = wait };
        etcd_lease_ready(store, lease, FULL_SIXTHS, &wait->ask);
        return;
    }
    claim->token = wait->token;
    claim->tokens = 1;
    claim->granted_ttl_ms = lease->granted_ms;
    claim->sent_ms = lease->base_ms;
    lease->refs++;
    etcd_claim(claim)->lease = lease;
    etcd_claim_add(store, claim);
    etcd_want_begin(store, claim);
    if (!(claim->flags & HFI_CLAIM_DETACHED))
        etcd_inbox_want(store, (int64_t)claim->token);
    end_wait(store, wait, HF_OK, NULL);
}

static void left(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                 const hf_error *err)
{
    struct etcd_wait *wait = call->data;

    (void)reply, (void)err;
    if (!wait)
        return;
    wait->call = NULL;
    end_wait(call->store, wait, outcome == HFI_ANSWERED ? wait->verdict : HF_UNKNOWN,
             wait->why.text[0] ? &wait->why : NULL);
}

/* Leave the queue. */
void etcd_wait_leave(struct etcd_store *store, struct etcd_wait *wait, hf_status verdict,
                     const hf_error *err)
{
    struct etcd_call *call;
    struct etcd_key key;

    etcd_wait_unwatch(store, wait);
    etcd_wait_stop_moving(store, wait);
    wait->verdict = verdict;
    if (err)
        wait->why = *err;
    if (wait->call)
        wait->call->data = NULL; /* whatever it says */
    wait->call = NULL;
    call = wait->token ? etcd_call_new(store, &etcd_txn_method, left, NULL) : NULL;
    if (!call) {
        end_wait(store, wait, wait->token ? HF_UNKNOWN : verdict, err);
        return;
    }
    wait->state = ETCD_WAIT_LEAVE;
    wait->call = call;
    call->data = wait;
    call->again = true;
    if (wait->stop != HF_OK)
        call->request.give_up_ms = hfi_now_ms() + ETCD_CANCEL_MS;
    etcd_claim_key(store->conf->prefix, wait->claim, &key);
    etcd_add_delete_if(&call->body, &key, (int64_t)wait->token);
    etcd_call_send(call);
}

void etcd_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct etcd_store *store = self;
    struct etcd_wait *wait = etcd_op(op)->wait;

    if (!wait || wait->stop != HF_OK)
        return;
    wait->stop = status;
    switch (wait->state) {
    case ETCD_WAIT_LEASE:
        end_wait(store, wait, status, NULL);
        break;
    case ETCD_WAIT_PUT: /* its answer says whether there is a key to delete; do not repeat it */
        etcd_call_hurry(wait->call);
        break;
    case ETCD_WAIT_LOOK:
    case ETCD_WAIT_WATCH:
    case ETCD_WAIT_CONFIRM:
        etcd_lease_unask(wait->lease, &wait->ask);
        etcd_wait_leave(store, wait, status, NULL);
        break;
    case ETCD_WAIT_LEAVE:
        if (wait->call)
            etcd_call_hurry(wait->call);
        break;
    }
}
