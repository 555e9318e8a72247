/* SPDX-License-Identifier: MIT */
/*
 * WANTED and ASK: a holder that asked for it learns that others wait for what it holds. A claim with HFI_CLAIM_WATCHED has a
 * watch on all claims of its name and kind, from its grant to its end; what an event cannot tell, a look does. Claims
 * without the flag have neither. With the lock.
 *
 *   watch created -> LOOK <---- a claim came while nobody waited, or one went while somebody did
 *                     |
 *                     +-> others wait, or not: core is told if that is news
 *
 * All of it is advice. A look that fails is made again; a watch that ends is opened again, and then there is a look.
 */
#include "engine/etcd/internal.h"

#include "engine/kit/position.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/text.h"

#include <string.h>

#define AGAIN_MS 500

/* Of one held claim; in store->wants. */
struct etcd_want {
    struct hfi_list listed;
    struct hfi_claim *claim;
    struct etcd_watch *watch; /* NULL: to be opened at again_ms */
    struct etcd_call *call;   /* a look */
    int64_t again_ms;         /* HFI_NEVER: nothing is due */
    bool dirty;               /* an event came during the look */
    bool yes;                 /* what core knows */
};

/* ---- how many wait --------------------------------------------------------------------------- */

/* `range` has all claims of one kind, oldest first. */
static bool others_wait(const struct etcd_store *store, struct etcd_message range)
{
    struct hfi_line line = { .count = 0 };
    struct etcd_record record;
    struct etcd_message one;

    while (etcd_next(&range, ETCD_RANGE_KVS, &one))
        if (etcd_kv(store->conf->prefix, one, &record))
            (void)hfi_line_add(
                &line, &(struct hfi_demand){ record.mode, record.capacity, record.permits });
    return line.count > line.holders;
}

/* A call that reads all claims of this name and kind. NULL: out of memory. */
static struct etcd_call *read_all(struct etcd_store *store, const struct hfi_claim *claim,
                                  etcd_answer_fn *answer, void *data)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, answer, NULL);
    struct etcd_key from, to;

    if (!call)
        return NULL;
    call->again = true;
    call->data = data;
    etcd_kind_range(store->conf->prefix, claim, &from, &to);
    etcd_add_range(&call->body,
                   &(struct etcd_range){ .key = &from, .to = &to, .order = ETCD_OLDEST_FIRST });
    return call;
}

/* ---- at the grant ------------------------------------------------------------------------------ */

static void behind_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                        const hf_error *err)
{
    struct etcd_wait *wait = call->data;

    (void)err;
    if (!wait)
        return;
    wait->call = NULL;
    wait->claim->others_wait = outcome == HFI_ANSWERED && others_wait(call->store, reply);
    etcd_wait_confirm(call->store, wait);
}

bool etcd_want_look_behind(struct etcd_store *store, struct etcd_wait *wait)
{
    if (!(wait->claim->flags & HFI_CLAIM_WATCHED))
        return false;
    wait->call = read_all(store, wait->claim, behind_read, wait);
    if (!wait->call)
        return false;
    wait->state = ETCD_WAIT_LOOK;
    etcd_call_send(wait->call);
    return true;
}

/* ---- while it is held --------------------------------------------------------------------------- */

static void looked(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                   const hf_error *err);

static void look(struct etcd_store *store, struct etcd_want *want)
{
    want->dirty = want->call != NULL;
    if (want->call)
        return;
    want->call = read_all(store, want->claim, looked, want);
    if (want->call)
        etcd_call_send(want->call);
    else
        want->again_ms = hfi_now_ms() + AGAIN_MS;
}

static void looked(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                   const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_want *want = call->data;
    bool yes;

    (void)err;
    if (!want)
        return; /* it has ended */
    want->call = NULL;
    if (outcome != HFI_ANSWERED) {
        want->again_ms = hfi_now_ms() + AGAIN_MS;
        return;
    }
    yes = others_wait(store, reply);
    if (yes != want->yes)
        hfi_reactor_wanted(&store->reactor, want->claim, yes ? HFI_WANTED_YES : HFI_WANTED_NO, "",
                           0);
    want->yes = yes;
    if (want->dirty)
        look(store, want);
}

static void open_watch(struct etcd_store *store, struct etcd_want *want)
{
    struct etcd_key from, to;

    etcd_kind_range(store->conf->prefix, want->claim, &from, &to);
    want->again_ms = etcd_watch_want(store, want, &from, &to, &want->watch)
                         ? HFI_NEVER
                         : hfi_now_ms() + AGAIN_MS;
}

void etcd_want_begin(struct etcd_store *store, struct hfi_claim *claim)
{
    struct etcd_want *want;

    if (!(claim->flags & HFI_CLAIM_WATCHED))
        return;
    want = hfi_calloc(1, sizeof *want);
    if (!want)
        return; /* it is advice; renewals go on to say false */
    want->claim = claim;
    want->yes = claim->others_wait;
    want->again_ms = HFI_NEVER;
    etcd_claim(claim)->want = want;
    hfi_list_append(&store->wants, &want->listed);
    open_watch(store, want);
}

void etcd_want_end(struct etcd_store *store, struct hfi_claim *claim)
{
    struct etcd_want *want = etcd_claim(claim)->want;

    etcd_claim(claim)->want = NULL;
    if (!want)
        return;
    if (want->watch)
        etcd_watch_close(store, want->watch);
    if (want->call)
        want->call->data = NULL;
    hfi_list_remove(&want->listed);
    hfi_free(want);
}

void etcd_wants_close(struct etcd_store *store)
{
    while (store->wants.next && !hfi_list_empty(&store->wants))
        etcd_want_end(store, hfi_container(store->wants.next, struct etcd_want, listed)->claim);
}

bool etcd_want_yes(const struct hfi_claim *claim)
{
    const struct etcd_want *want = etcd_claim_const(claim)->want;

    return want && want->yes;
}

void etcd_want_created(struct etcd_store *store, struct etcd_want *want)
{
    look(store, want);
}

void etcd_want_event(struct etcd_store *store, struct etcd_want *want, bool deleted)
{
    if (want->yes == deleted || want->call)
        look(store, want);
}

void etcd_want_unwatched(struct etcd_want *want)
{
    want->watch = NULL;
    want->again_ms = hfi_now_ms() + AGAIN_MS;
}

int64_t etcd_wants_next_ms(const struct etcd_store *store)
{
    int64_t next = HFI_NEVER;

    hfi_list_each (const struct etcd_want, want, &store->wants, listed)
        if (want->again_ms < next)
            next = want->again_ms;
    return next;
}

void etcd_wants_tick(struct etcd_store *store, int64_t now_ms)
{
    hfi_list_each (struct etcd_want, want, &store->wants, listed) {
        if (want->again_ms > now_ms)
            continue;
        want->again_ms = HFI_NEVER;
        if (want->watch)
            look(store, want);
        else
            open_watch(store, want);
    }
}

/* ---- ASK ------------------------------------------------------------------------------------------ */

static void asked(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                  const hf_error *err)
{
    struct hfi_op *op = call->op;
    bool told = false;

    for (size_t i = 0; outcome == HFI_ANSWERED && i < ETCD_BATCH; i++)
        told = told || etcd_number(etcd_response(reply, i, ETCD_RESPONSE_TXN), ETCD_TXN_SUCCEEDED);
    if (outcome != HFI_ANSWERED)
        etcd_finish(call->store, op, hfi_outcome_status(outcome, err), err);
    else
        etcd_finish(call->store, op, told ? HF_OK : HF_NOT_FOUND, NULL);
}

/* If the claim is still there, a note for its store: a byte, and the text. */
static void add_note(struct etcd_text *body, const struct etcd_store *store,
                     const struct hfi_op *op, const struct etcd_record *record)
{
    struct hfi_claim claim = { .name = op->u.ask.name,
                               .mode = record->mode,
                               .capacity = record->capacity };
    char value[HF_LABEL_MAX + 2], owner[ETCD_OWNER_HEX + 1];
    size_t len = strnlen(op->u.ask.text, HF_LABEL_MAX);
    struct etcd_key key, note;

    value[0] = ETCD_NOTE_ASKED;
    memcpy(value + 1, op->u.ask.text, len);
    etcd_claim_at(&claim, record);
    hfi_hex(record->owner, HFI_OWNER_LEN, owner);
    etcd_claim_key(store->conf->prefix, &claim, &key);
    etcd_told_key(store->conf->prefix, record->store, owner, &note);
    etcd_add_op_note(body, &key, (int64_t)record->revision, &note, value, len + 1, record->lease);
}

static void ask_found(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct hfi_op *op = call->op;
    struct hfi_line line = { .count = 0 };
    struct etcd_call *next;
    struct etcd_record record;
    struct etcd_message one;
    size_t listeners = 0;

    if (outcome != HFI_ANSWERED) {
        etcd_finish(store, op, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    next = etcd_call_new(store, &etcd_txn_method, asked, op);
    if (!next)
        return;
    while (etcd_next(&reply, ETCD_RANGE_KVS, &one) && listeners < ETCD_BATCH) {
        if (!etcd_kv(store->conf->prefix, one, &record))
            continue;
        if (!hfi_line_add(&line,
                          &(struct hfi_demand){ record.mode, record.capacity, record.permits }))
            break; /* it waits, and so do all behind it */
        if (record.watched) {
            add_note(&next->body, store, op, &record);
            listeners++;
        }
    }
    if (listeners > 0) {
        next->again = true; /* a note that is told twice is no harm */
        etcd_call_send(next);
        return;
    }
    etcd_call_free(next);
    etcd_finish(store, op, line.count > 0 ? HF_BUSY : HF_NOT_FOUND, NULL);
}

void etcd_ask_holders(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, ask_found, op);
    struct etcd_key from, to;

    if (!call)
        return;
    call->again = true;
    etcd_name_range(store->conf->prefix, op->u.ask.name.bytes, op->u.ask.name.len, &from, &to);
    etcd_add_range(&call->body,
                   &(struct etcd_range){ .key = &from, .to = &to, .order = ETCD_OLDEST_FIRST });
    etcd_call_send(call);
}
