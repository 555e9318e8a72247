/* SPDX-License-Identifier: MIT */
/*
 * Acquire, and its waiting.
 *
 *            add: it exists                    another owner's
 *   ASKING --------------------> LOOKING -----------------------> RESTING
 *     |  ^   or: cut off           |  |                              |
 *     |  |                         |  +--> ours: CONFIRMING          | a pause, with jitter
 *     |  +-------------------------+ <-------------------------------+
 *     |        it is gone
 *     +--> stored: granted; or CONFIRMING first, if the answer was slow, or a look found it
 *
 * On its way to RESTING a waiter takes a ticket (TICKETING) and may mark the lease (MARKING): see pace.h, which also says
 * when it looks again. An acquire that begins with its ticket goes from there to ASKING, or to RESTING first.
 *
 * memcached has no events: a waiter polls. It polls with a get,
 * and adds only if the key is absent. An add for which the server has no memory deletes the item
 * under that key (seen with 1.6, -M), and that would be the lease of another holder.
 *
 * An add whose reply was lost is settled by a get: if the owner in the record is ours, we have the
 * lease, and renew it, so that its time counts from a send that we know of. If not, another add may
 * follow: it has the same owner, so whichever is executed is ours. An add on a broken connection
 * may be executed late, when the server reads the rest of that connection. By then nobody may want
 * the lease: see late_add.c.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>
#include <time.h>

#define CONFIRMS_MAX 3 /* on a connection that is always slow, give up after this many */
#define FINDS_MAX    8 /* give up if other clients change the item all the time */

static void send_add(struct memcached_hold *hold);
static void send_get(struct memcached_hold *hold);
static void send_ticket(struct memcached_hold *hold);
static void confirm(struct memcached_hold *hold, uint64_t cas, int64_t delay_ms);
static void give_back(struct memcached_hold *hold, uint64_t cas);
static void no_answer(struct memcached_store *store, struct memcached_hold *hold,
                      enum hfi_outcome outcome, const struct memcached_reply *reply);
static void asked(struct memcached_call *call, enum hfi_outcome outcome,
                  const struct memcached_reply *reply);
static void looked(struct memcached_call *call, enum hfi_outcome outcome,
                   const struct memcached_reply *reply);

/* ---- beginning and ending ------------------------------------------------------------------ */

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t now_us(void)
{
    return hfi_now_ns() / 1000;
}

void memcached_acquire(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct hfi_claim *claim = op->claim;
    const char *label = claim->label ? claim->label : store->reactor.host->label;
    struct memcached_hold *hold;
    struct memcached_call *call;

    if (claim->mode != HFI_MODE_MUTEX) {
        hfi_reactor_finish(&store->reactor, op, HF_UNSUPPORTED, NULL);
        return;
    }
    hold = hfi_calloc(1, sizeof *hold);
    call = hold ? memcached_call_new(store, 'l', &claim->name, NULL) : NULL;
    if (!call) {
        hfi_free(hold);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    hold->claim = claim;
    hold->op = op;
    hold->call = call;
    hold->beat_ms = HFI_NEVER;
    hold->give_up_ms = op->may_wait ? HFI_NEVER : call->give_up_ms;
    hold->since_ms = wall_ms();
    hold->ttl_ms = claim->ttl_ms;
    hold->detached = claim->flags & HFI_CLAIM_DETACHED;
    hold->label_len = (uint32_t)strnlen(label, HF_LABEL_MAX);
    memcpy(hold->label, label, hold->label_len);
    hfi_list_append(&store->waits, &hold->listed);
    memcached_claim(claim)->hold = hold;
    call->data = hold;
    call->hold = hold;
    call->ttl_ms = claim->ttl_ms;
    hold->yields =
        op->may_wait && memcached_manners_recall(&store->manners, claim->name.hash, hfi_now_ms(),
                                                 now_us(), &hold->pace, &hold->wanted);
    if (hold->yields)
        send_ticket(hold);
    else
        send_add(hold);
}

/* End the acquire. If core will release the claim (it is held, or may be), its hold stays until
 * then. */
static void end_acquire(struct memcached_store *store, struct memcached_hold *hold,
                        hf_status status, const hf_error *err)
{
    hfi_list_remove(&hold->listed);
    hfi_reactor_finish(&store->reactor, hold->op, status, err);
    hold->op = NULL;
    hold->call = NULL;
    hold->state = MEMCACHED_HELD;
    if (status == HF_OK || status == HF_UNKNOWN) {
        hfi_list_append(&store->held, &hold->listed);
        return;
    }
    if (hold->unsure)
        memcached_late_add_note(store, &hold->claim->name, hold->claim->owner);
    memcached_claim(hold->claim)->hold = NULL;
    hfi_free(hold);
}

/* The server has stored it, by an add or by a renewal. */
static void item_stored(struct memcached_call *call, struct memcached_hold *hold,
                        const struct memcached_reply *reply)
{
    int64_t delay_ms = memcached_settles_in_ms(call);
    struct hfi_claim *claim = hold->claim;

    hold->ours = true;
    if (delay_ms >= 0 && reply->has_cas && call->tries++ < CONFIRMS_MAX) {
        if (hold->stop == HF_OK)
            confirm(hold, reply->cas, delay_ms);
        else
            give_back(hold, reply->cas);
        return;
    }
    hold->cas = reply->cas;
    hold->epoch = reply->has_cas && reply->cas ? call->store->epoch : 0;
    claim->token = 0;
    claim->tokens = 1;
    claim->granted_ttl_ms = call->granted_ms;
    claim->sent_ms = call->sent.sent.sent_ms;
    end_acquire(call->store, hold, HF_OK, NULL);
}

/* ---- asking ------------------------------------------------------------------------------------ */

static void send_call(struct memcached_hold *hold, enum memcached_state state,
                      enum memcached_verb verb, memcached_answer_fn *answer)
{
    hold->state = state;
    if (hold->stop == HF_OK)
        hold->beat_ms = HFI_NEVER;
    hold->call->give_up_ms = hold->give_up_ms;
    memcached_call_go(hold->call, verb, answer);
}

static void send_add(struct memcached_hold *hold)
{
    send_call(hold, MEMCACHED_ASKING, MEMCACHED_ADD, asked);
}

static void send_get(struct memcached_hold *hold)
{
    send_call(hold, MEMCACHED_LOOKING, MEMCACHED_GET, looked);
}

/* The swap used the CAS number that the get has just returned. If it failed, another get tells
 * why. */
static void confirmed(struct memcached_call *call, enum hfi_outcome outcome,
                      const struct memcached_reply *reply)
{
    struct memcached_hold *hold = call->data;

    if (!hold)
        return;
    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_HD)
        item_stored(call, hold, reply);
    else
        send_get(hold);
}

static void confirm(struct memcached_hold *hold, uint64_t cas, int64_t delay_ms)
{
    hold->state = MEMCACHED_CONFIRMING;
    hold->call->cas = cas;
    if (delay_ms > 0)
        memcached_call_later(hold->call, delay_ms, confirmed);
    else
        memcached_call_go(hold->call, MEMCACHED_SWAP, confirmed);
}

static void given_back(struct memcached_call *call, enum hfi_outcome outcome,
                       const struct memcached_reply *reply)
{
    struct memcached_hold *hold = call->data;

    if (!hold)
        return;
    if (outcome == HFI_ANSWERED && (reply->kind == MEMCACHED_HD || reply->kind == MEMCACHED_NF)) {
        hold->ours = false;
        end_acquire(call->store, hold, hold->stop, NULL);
    } else {
        end_acquire(call->store, hold, HF_UNKNOWN, NULL); /* core releases it by owner id */
    }
}

/* The server has granted it, but the caller has gone and it was not confirmed: delete it. */
static void give_back(struct memcached_hold *hold, uint64_t cas)
{
    hold->state = MEMCACHED_CONFIRMING;
    hold->call->cas = cas;
    memcached_call_go(hold->call, MEMCACHED_DELETE, given_back);
}

/* ---- waiting: pace.h -------------------------------------------------------------------------- */

static void rest_until_next_look(struct memcached_store *store, struct memcached_hold *hold)
{
    int64_t now = now_us(), rest_us = memcached_pace_rest_us(
                                &hold->pace, store->conf->poll_ms * 1000, now, hfi_random_u64());

    hold->call->busy = true; /* kept for the next get */
    hold->state = MEMCACHED_RESTING;
    hold->beat_ms = (now + rest_us + 500) / 1000;
    if (hold->beat_ms < store->beat_ms)
        store->beat_ms = hold->beat_ms;
}

/* The answer says nothing of the lease. If the caller has gone, that is the end. */
static bool ends_here(struct memcached_store *store, struct memcached_hold *hold)
{
    if (hold->stop == HF_OK)
        return false;
    end_acquire(store, hold, hold->unsure || hold->ours ? HF_UNKNOWN : hold->stop, NULL);
    return true;
}

/* A mark is a hint. Whether it came in time does not matter: the next look shows it. */
static void marked(struct memcached_call *call, enum hfi_outcome outcome,
                   const struct memcached_reply *reply)
{
    struct memcached_hold *hold = call->data;

    (void)outcome;
    (void)reply;
    if (hold && !ends_here(call->store, hold))
        rest_until_next_look(call->store, hold);
}

static void wait_on(struct memcached_store *store, struct memcached_hold *hold)
{
    switch (memcached_pace_step(&hold->pace, &hold->seen)) {
    case MEMCACHED_TAKE_TICKET:
        send_ticket(hold);
        break;
    case MEMCACHED_MARK:
        hold->pace.marked = hold->seen.holder;
        hold->call->cas = hold->seen.cas;
        send_call(hold, MEMCACHED_MARKING, MEMCACHED_MARK_ITEM, marked);
        break;
    case MEMCACHED_REST:
        rest_until_next_look(store, hold);
        break;
    }
}

/* A counter that gives no number (no memory, another value under its key, a server that has none) leaves the waiter without a
 * place in line. */
static void ticketed(struct memcached_call *call, enum hfi_outcome outcome,
                     const struct memcached_reply *reply)
{
    struct memcached_store *store = call->store;
    struct memcached_hold *hold = call->data;
    uint64_t number = 0;
    bool yields;

    if (!hold)
        return;
    if (outcome != HFI_ANSWERED) {
        no_answer(store, hold, outcome, reply);
        return;
    }
    if (ends_here(store, hold))
        return;
    if (reply->kind != MEMCACHED_VA ||
        !memcached_number(reply->text, reply->len, UINT64_MAX, &number))
        number = 0;
    memcached_pace_ticket(&hold->pace, (uint32_t)number, now_us());
    yields = hold->yields;
    hold->yields = false;
    if (!yields)
        wait_on(store, hold);
    else if (memcached_manners_yield(&store->manners, hold->claim->name.hash, &hold->pace,
                                     hold->wanted))
        rest_until_next_look(store, hold);
    else
        send_add(hold);
}

static void send_ticket(struct memcached_hold *hold)
{
    send_call(hold, MEMCACHED_TICKETING, MEMCACHED_TICKET, ticketed);
}

/* No usable answer. A waiter polls again; a cancelled acquire, or one that does not wait, ends. */
static void no_answer(struct memcached_store *store, struct memcached_hold *hold,
                      enum hfi_outcome outcome, const struct memcached_reply *reply)
{
    hf_status status;
    hf_error err;

    status = memcached_trouble(store, outcome, hold->unsure, reply, &err);
    if ((hold->unsure && outcome != HFI_ANSWERED) || hold->ours)
        status = HF_UNKNOWN;
    if (hold->stop != HF_OK && status != HF_UNKNOWN)
        end_acquire(store, hold, hold->stop, NULL);
    else
        end_acquire(store, hold, status, &err);
}

static void asked(struct memcached_call *call, enum hfi_outcome outcome,
                  const struct memcached_reply *reply)
{
    struct memcached_store *store = call->store;
    struct memcached_hold *hold = call->data;

    if (!hold)
        return; /* the caller has gone */
    if (outcome == HFI_MAYBE)
        hold->unsure = true;
    if (outcome == HFI_MAYBE && hold->stop == HF_OK)
        send_get(hold);
    else if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_HD)
        item_stored(call, hold, reply);
    else if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_NS && hold->stop != HF_OK &&
             !hold->unsure)
        end_acquire(store, hold, hold->stop, NULL);
    else if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_NS)
        send_get(hold);
    else
        no_answer(store, hold, outcome, reply);
}

/* Another owner has it. */
static void found_busy(struct memcached_store *store, struct memcached_hold *hold,
                       const struct memcached_record *record, const struct memcached_reply *reply)
{
    if (hold->stop != HF_OK)
        end_acquire(store, hold, hold->stop, NULL);
    else if (!hold->op->may_wait)
        end_acquire(store, hold, HF_BUSY, NULL);
    else {
        memcpy(&hold->seen.holder, record->owner, sizeof hold->seen.holder);
        hold->seen.cas = reply->has_cas ? reply->cas : 0;
        hold->seen.ticket = reply->flags;
        hold->seen.marked = reply->stale;
        memcached_pace_saw(&hold->pace, &hold->seen, now_us());
        hold->op->ret_queued = true;
        wait_on(store, hold);
    }
}

/* The key is absent. An acquire that does not wait ends as busy if its add found the key taken. But
 * if its add got no reply, or its own lease could not be confirmed and has ended, it adds again. */
static void found_vacant(struct memcached_store *store, struct memcached_hold *hold)
{
    if (hold->stop != HF_OK)
        end_acquire(store, hold, hold->stop, NULL);
    else if (hold->op->may_wait || hold->unsure || hold->call->tries > 0)
        send_add(hold);
    else
        end_acquire(store, hold, HF_BUSY, NULL);
}

/* The record is ours: from an add whose reply was lost, or a lease that is not confirmed yet. */
static void found_item(struct memcached_call *call, struct memcached_hold *hold,
                       const struct memcached_reply *reply)
{
    hold->ours = true;
    if (reply->has_cas && call->tries++ < FINDS_MAX)
        confirm(hold, reply->cas, 0);
    else
        end_acquire(call->store, hold, HF_UNKNOWN, NULL);
}

static void looked(struct memcached_call *call, enum hfi_outcome outcome,
                   const struct memcached_reply *reply)
{
    struct memcached_store *store = call->store;
    struct memcached_hold *hold = call->data;
    struct memcached_record record;
    hf_error err;

    if (!hold)
        return;
    if (outcome != HFI_ANSWERED || (reply->kind != MEMCACHED_VA && reply->kind != MEMCACHED_EN)) {
        no_answer(store, hold, outcome, reply);
        return;
    }
    hold->ours = false;
    if (reply->kind == MEMCACHED_EN)
        found_vacant(store, hold);
    else if (memcached_read(reply, &hold->claim->name, &record, &err) != HF_OK)
        end_acquire(store, hold, HF_MISMATCH, &err);
    else if (memcmp(record.owner, hold->claim->owner, HFI_OWNER_LEN) == 0)
        found_item(call, hold, reply);
    else
        found_busy(store, hold, &record, reply);
}

/* ---- time, and giving up -------------------------------------------------------------------------- */

/* The answer has not come in time. Core releases by owner id, whatever the answer will be: on this
 * connection the release is executed after the add, and on the next one late_add.c looks for the
 * item. */
static void give_up_waiting(struct memcached_store *store, struct memcached_hold *hold)
{
    struct memcached_call *call = hold->call;
    hf_error err;

    if (memcached_unsend(store, call)) {
        memcached_call_free(call); /* its connection broke: it must not be sent again */
    } else {
        hold->unsure = hold->unsure || hold->state == MEMCACHED_ASKING;
        call->dropped = true;
        call->data = NULL;
        call->hold = NULL;
    }
    hfi_error_set(&err, HF_UNKNOWN, 0, "%s: no answer yet", store->conf->url.hosts[0].shown);
    end_acquire(store, hold, hold->unsure || hold->ours ? HF_UNKNOWN : hold->stop, &err);
}

void memcached_waits_tick(struct memcached_store *store, int64_t now_ms)
{
    store->beat_ms = HFI_NEVER;
    hfi_list_each (struct memcached_hold, hold, &store->waits, listed) {
        if (hold->beat_ms <= now_ms && hold->state == MEMCACHED_RESTING)
            send_get(hold);
        else if (hold->beat_ms <= now_ms)
            give_up_waiting(store, hold);
        else if (hold->beat_ms < store->beat_ms)
            store->beat_ms = hold->beat_ms;
    }
}

void memcached_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct memcached_store *store = self;
    struct memcached_hold *hold = memcached_hold_of(op->claim);
    struct memcached_call *call;

    if (!hold || hold->op != op || hold->stop != HF_OK)
        return; /* it has ended, or is ending already */
    hold->stop = status;
    call = hold->call;
    if (hold->state == MEMCACHED_CONFIRMING && memcached_unsend(store, call)) {
        call->from_epoch = 0;
        give_back(hold, call->cas);
    } else if (hold->state == MEMCACHED_RESTING || memcached_unsend(store, call)) {
        hf_status said = hold->unsure || hold->ours ? HF_UNKNOWN : status;

        end_acquire(store, hold, said, NULL);
        memcached_call_free(call);
        return;
    }
    /* It is under way: its answer decides, if it comes soon. */
    hold->beat_ms = hfi_now_ms() + MEMCACHED_CANCEL_MS;
    if (hold->beat_ms < store->beat_ms)
        store->beat_ms = hold->beat_ms;
}
