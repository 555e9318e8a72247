/* SPDX-License-Identifier: MIT */
/* mode=lease: a lease after it was granted: release, renew, adopt, break, and notes of local passes. */
#include "engine/sql/listener.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define RENEW_BATCH 500
#define NOTE_BATCH  100

/* A local pass that the server does not know yet. Belongs to the claim, from its grant until its
 * release. */
struct sql_note {
    struct sql_note *next;
    bool queued;
    uint64_t token;
    int64_t tid;
    struct hfi_claim *claim;
};

/* ---- what we hold ------------------------------------------------------------------------------- */

void sql_held_add(struct sql_store *store, struct hfi_claim *claim)
{
    bool passes = claim->tokens > 1 || claim->flags & HFI_CLAIM_LINGERS;
    struct sql_note *note = passes ? hfi_calloc(1, sizeof *note) : NULL;

    pthread_mutex_lock(&store->lock);
    *sql_lease_claim(claim) = (struct sql_lease_claim){ .next = store->held,
                                                        .listed = true,
                                                        .note = note,
                                                        .since_ms = hfi_now_ms(),
                                                        .wanted = claim->others_wait,
                                                        .last = claim->token + claim->tokens - 1 };
    if (store->held)
        sql_lease_claim(store->held)->prev = claim;
    store->held = claim;
    if (note)
        note->claim = claim;
    sql_listener_held(store, claim->flags & HFI_CLAIM_WATCHED);
    pthread_mutex_unlock(&store->lock);
}

void sql_held_remove(struct sql_store *store, struct hfi_claim *claim)
{
    struct sql_lease_claim *own = sql_lease_claim(claim);
    struct sql_note *note, **at;

    pthread_mutex_lock(&store->lock);
    if (own->listed) {
        note = own->note;
        if (own->next)
            sql_lease_claim(own->next)->prev = own->prev;
        if (own->prev)
            sql_lease_claim(own->prev)->next = own->next;
        else
            store->held = own->next;
        for (at = &store->notes; note && note->queued && *at; at = &(*at)->next)
            if (*at == note) {
                *at = note->next;
                break;
            }
        hfi_free(note);
        *own = (struct sql_lease_claim){ .listed = false };
    }
    pthread_mutex_unlock(&store->lock);
}

/* ---- release --------------------------------------------------------------------------------------- */

/* The lease has ended by our own clock, which is ahead of the server's, and its lock delay must
 * run: a release that arrives a moment too early would be a clean end, and open the name at
 * once. */
static bool must_lapse(const struct hfi_claim *claim)
{
    return claim->lock_delay_ms > 0 && claim->granted_ttl_ms > 0 &&
           hfi_now_ms() >= claim->sent_ms + claim->granted_ttl_ms;
}

static hf_status release(struct sql_store *store, struct hfi_op *op, bool contended, hf_error *err)
{
    const struct hfi_claim *claim = op->claim;
    struct sql_value params[2] = { sql_bytes(claim->name.bytes, claim->name.len),
                                   sql_bytes(claim->owner, HFI_OWNER_LEN) };
    struct sql_request r = { .call = SQL_RELEASE,
                             .params = params,
                             .count = 2,
                             .deadline_ms = op->deadline_ms,
                             .contended = contended,
                             .again = true };
    hf_status status;
    char letter;

    if (must_lapse(claim))
        return HF_LOST;
    status = sql_stale_wait_until_gone(store, claim, op->deadline_ms, err);
    if (status != HF_OK)
        return status;
    status = sql_call(store, &r);
    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    letter = sql_letter(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    if (letter == 'R')
        return HF_OK;
    if (letter == 'L' && r.copied) /* core asks once more, and that answer decides */
        return hfi_error_set(err, HF_UNKNOWN, 0,
                             "the connection broke, and the lease no longer exists: it was "
                             "released, or lost before");
    return letter == 'L' ? HF_LOST : HF_UNKNOWN;
}

void sql_release(struct sql_store *store, struct hfi_op *op)
{
    hf_error err = { .status = HF_OK };
    hf_status status;
    bool contended;

    pthread_mutex_lock(&store->lock);
    contended = sql_lease_claim(op->claim)->wanted;
    pthread_mutex_unlock(&store->lock);
    sql_held_remove(store, op->claim);
    status = release(store, op, contended, &err);
    if (status == HF_OK)
        sql_sweep_released(store);
    sql_finish(op, status, &err);
}

/* ---- renew -------------------------------------------------------------------------------------------- */

/* All clients lock rows in the order of names. */
static int by_name(const void *left, const void *right)
{
    const struct hfi_renewal *const *l = left, *const *r = right;
    const struct hfi_name *a = &(*l)->claim->name, *b = &(*r)->claim->name;
    int order = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* The further block of a lease that lingers. */
static void take_block(struct sql_store *store, struct hfi_renewal *item,
                       const struct sql_rows *rows, uint32_t row)
{
    struct sql_lease_claim *own = sql_lease_claim(item->claim);
    uint64_t token = (uint64_t)sql_int(rows, row, 2);
    int64_t tokens = sql_int(rows, row, 3);

    if (token == 0 || tokens == 0 || tokens > item->tokens_wanted)
        return;
    item->token = token;
    item->tokens = (uint32_t)tokens;
    pthread_mutex_lock(&store->lock);
    own->last = token + (uint64_t)tokens - 1;
    pthread_mutex_unlock(&store->lock);
}

/* With `refill` each of them wants tokens, else none. */
static void renew_some(struct sql_store *store, struct hfi_op *op, int64_t deadline_ms, bool refill,
                       struct hfi_renewal **items, uint32_t count, struct sql_value *params)
{
    uint32_t each = refill ? 4 : 3;
    struct sql_request r = { .call = refill ? SQL_REFILL : SQL_RENEW,
                             .params = params,
                             .count = each * count,
                             .deadline_ms = deadline_ms };
    hf_status status;

    for (uint32_t i = 0; i < count; i++) {
        const struct hfi_claim *claim = items[i]->claim;

        params[each * i] = sql_bytes(claim->name.bytes, claim->name.len);
        params[each * i + 1] = sql_bytes(claim->owner, HFI_OWNER_LEN);
        params[each * i + 2] = sql_int_of(items[i]->ttl_ms);
        if (refill)
            params[each * i + 3] =
                sql_int_of(items[i]->tokens_wanted < HFI_TOKEN_AHEAD_US ? items[i]->tokens_wanted
                                                                        : HFI_TOKEN_AHEAD_US);
    }
    status = sql_call(store, &r);
    for (uint32_t i = 0; i < count; i++)
        items[i]->status = status == HF_OK ? HF_LOST : status;
    if (status != HF_OK) {
        op->error = r.trouble.error;
        return;
    }
    for (uint32_t row = 0; row < r.rows.count; row++) {
        int64_t i = sql_int(&r.rows, row, 0), there = sql_int(&r.rows, row, 1);

        if (i < 0 || i >= count)
            continue;
        if (there == 2)
            items[i]->status = HF_BUSY;
        if (there != 1 && there != 3)
            continue;
        items[i]->status = HF_OK;
        items[i]->others_wait = there == 3;
        items[i]->claim->granted_ttl_ms = items[i]->ttl_ms;
        items[i]->claim->sent_ms = r.sent_ms;
        if (refill)
            take_block(store, items[i], &r.rows, row);
    }
    sql_rows_free(&r.rows);
}

/* Renew those whose rows were locked by others, one by one. This is bounded in time, so that the
 * next renewal of the others is not late. */
static void renew_rest(struct sql_store *store, struct hfi_op *op, struct hfi_renewal **items,
                       size_t count, struct sql_value *params)
{
    int64_t until_ms = op->deadline_ms;

    for (size_t i = 0; i < count; i++) {
        int64_t most_ms = hfi_now_ms() + items[i]->ttl_ms / 4;

        if (most_ms < until_ms)
            until_ms = most_ms;
    }
    for (size_t i = 0; i < count; i++)
        if (items[i]->status == HF_BUSY) {
            items[i]->status = HF_UNAVAILABLE;
            if (hfi_now_ms() < until_ms)
                renew_some(store, op, until_ms, items[i]->tokens_wanted > 0, items + i, 1, params);
        }
}

/* The items from `from` to `to` are all of one kind. */
static void renew_kind(struct sql_store *store, struct hfi_op *op, bool refill,
                       struct hfi_renewal **items, size_t from, size_t to, struct sql_value *params)
{
    if (to > from)
        qsort(items + from, to - from, sizeof *items, by_name);
    for (size_t i = from; i < to; i += RENEW_BATCH)
        renew_some(store, op, op->deadline_ms, refill, items + i,
                   (uint32_t)(to - i < RENEW_BATCH ? to - i : RENEW_BATCH), params);
}

/* First those that want tokens: somebody may wait for these. */
void sql_renew(struct sql_store *store, struct hfi_op *op)
{
    size_t count = op->u.renew.count, refills = 0;
    struct hfi_renewal **items = hfi_calloc(count, sizeof *items);
    struct sql_value *params =
        hfi_calloc(4 * (count < RENEW_BATCH ? count : RENEW_BATCH), sizeof *params);

    if (!items || !params) {
        for (size_t i = 0; i < count; i++)
            op->u.renew.items[i].status = HF_NO_MEMORY;
    } else {
        size_t at = count;

        for (size_t i = 0; i < count; i++) {
            struct hfi_renewal *item = &op->u.renew.items[i];

            if (item->tokens_wanted > 0)
                items[refills++] = item;
            else
                items[--at] = item;
        }
        renew_kind(store, op, true, items, 0, refills, params);
        renew_kind(store, op, false, items, refills, count, params);
        renew_rest(store, op, items, count, params);
    }
    hfi_free(items);
    hfi_free(params);
    sql_finish(op, HF_OK, NULL);
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

hf_status sql_slots_get(struct sql_store *store, struct hfi_claim *claim, int64_t deadline_ms,
                        hf_error *err)
{
    struct sql_value params[2] = { sql_bytes(claim->name.bytes, claim->name.len),
                                   sql_bytes(claim->owner, HFI_OWNER_LEN) };
    struct sql_request r = {
        .call = SQL_SLOTS, .params = params, .count = 2, .deadline_ms = deadline_ms, .again = true
    };
    hf_status status = sql_call(store, &r);
    uint32_t count = 0;

    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    if (r.rows.count == 0)
        status = HF_NOT_FOUND;
    else if (!sql_slots_parse(sql_at(&r.rows, 0, 0), claim->slots, &count) ||
             count != claim->permits)
        status = hfi_error_set(err, HF_CORRUPT, 0, "the server says other numbers than permits");
    sql_rows_free(&r.rows);
    return status;
}

/* ---- adopt --------------------------------------------------------------------------------------------- */

static hf_status adopt(struct sql_store *store, struct hfi_op *op, hf_error *err)
{
    struct hfi_claim *claim = op->claim;
    struct sql_value params[4] = { sql_bytes(claim->name.bytes, claim->name.len),
                                   sql_bytes(claim->owner, HFI_OWNER_LEN),
                                   sql_int_of((int64_t)claim->token), sql_int_of(claim->ttl_ms) };
    struct sql_request r = {
        .call = SQL_ADOPT, .params = params, .count = 4, .deadline_ms = op->deadline_ms
    };
    hf_status status = sql_call(store, &r);

    if (status != HF_OK) {
        *err = r.trouble.error;
        return status;
    }
    if (r.rows.count == 1) {
        claim->token = (uint64_t)sql_int(&r.rows, 0, 0);
        claim->tokens = (uint32_t)sql_int(&r.rows, 0, 1);
        claim->mode = (enum hfi_mode)sql_int(&r.rows, 0, 2);
        claim->capacity = (uint32_t)sql_int(&r.rows, 0, 3);
        claim->permits = (uint32_t)sql_int(&r.rows, 0, 4);
        claim->ttl_ms = claim->granted_ttl_ms = sql_int(&r.rows, 0, 5);
        claim->lock_delay_ms = sql_int(&r.rows, 0, 6);
        claim->sent_ms = r.sent_ms;
    }
    status = r.rows.count == 1 ? HF_OK : HF_NOT_FOUND;
    sql_rows_free(&r.rows);
    if (status != HF_OK || claim->mode != HFI_MODE_SEMAPHORE)
        return status;
    status = sql_slots_get(store, claim, op->deadline_ms, err);
    if (status == HF_OK)
        claim->flags |= HFI_CLAIM_NUMBERED;
    return status == HF_NOT_FOUND ? HF_OK : status;
}

void sql_adopt(struct sql_store *store, struct hfi_op *op)
{
    hf_error err = { .status = HF_OK };
    hf_status status = adopt(store, op, &err);

    if (status == HF_OK)
        sql_held_add(store, op->claim);
    sql_finish(op, status, &err);
}

/* ---- break ---------------------------------------------------------------------------------------------- */

/* A lease of this store learns of the break at once, without waiting for the message. */
static void tell_own(struct sql_store *store, const struct hfi_op *op)
{
    unsigned char owner[HFI_OWNER_LEN];
    struct hfi_claim *claim;

    pthread_mutex_lock(&store->lock);
    for (claim = store->held; claim; claim = sql_lease_claim(claim)->next)
        if (op->u.brk.token >= claim->token && op->u.brk.token <= sql_lease_claim(claim)->last &&
            claim->name.len == op->u.brk.name.len &&
            memcmp(claim->name.bytes, op->u.brk.name.bytes, claim->name.len) == 0)
            break;
    if (claim)
        memcpy(owner, claim->owner, HFI_OWNER_LEN);
    pthread_mutex_unlock(&store->lock);
    if (claim)
        store->host->lost(store->host, claim, owner, "it was broken");
}

void sql_break(struct sql_store *store, struct hfi_op *op)
{
    struct sql_value params[2] = { sql_bytes(op->u.brk.name.bytes, op->u.brk.name.len),
                                   sql_int_of((int64_t)op->u.brk.token) };
    struct sql_request r = {
        .call = SQL_BREAK, .params = params, .count = 2, .deadline_ms = op->deadline_ms
    };
    hf_status status;
    char letter;

    (void)sql_notes_send(store, op->deadline_ms, &(hf_error){ .status = HF_OK });
    status = sql_call(store, &r);
    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    letter = sql_letter(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    if (letter == 'B')
        tell_own(store, op);
    sql_finish(op, letter == 'B' ? HF_OK : HF_NOT_FOUND, NULL);
}

/* ---- ask ------------------------------------------------------------------------------------------------ */

void sql_ask(struct sql_store *store, struct hfi_op *op)
{
    const char *text = op->u.ask.text ? op->u.ask.text : "";
    struct sql_value params[2] = { sql_bytes(op->u.ask.name.bytes, op->u.ask.name.len),
                                   sql_bytes(text, strlen(text)) };
    struct sql_request r = {
        .call = SQL_ASK, .params = params, .count = 2, .deadline_ms = op->deadline_ms
    };
    hf_status status = sql_call(store, &r);
    char letter;

    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    letter = sql_letter(&r.rows, 0, 0);
    sql_rows_free(&r.rows);
    sql_finish(op, letter == 'T' ? HF_OK : letter == 'B' ? HF_BUSY : HF_NOT_FOUND, NULL);
}

/* ---- resize --------------------------------------------------------------------------------------------- */

/* Not sent again by itself: a copy that was cut off might come after one with another size. */
void sql_resize(struct sql_store *store, struct hfi_op *op)
{
    struct sql_value params[2] = { sql_bytes(op->u.resize.name.bytes, op->u.resize.name.len),
                                   sql_int_of(op->u.resize.capacity) };
    struct sql_request r = {
        .call = SQL_RESIZE, .params = params, .count = 2, .deadline_ms = op->deadline_ms
    };
    hf_status status = sql_call(store, &r);
    char letter;

    if (status != HF_OK) {
        sql_finish(op, status, &r.trouble.error);
        return;
    }
    letter = sql_letter(&r.rows, 0, 0);
    if (letter == 'M')
        status = hfi_mismatch_set(&op->error, sql_int(&r.rows, 0, 1), sql_int(&r.rows, 0, 2));
    else if (letter != 'R')
        status = HF_UNKNOWN;
    sql_rows_free(&r.rows);
    sql_finish(op, status, status == HF_MISMATCH ? &op->error : NULL);
}

/* ---- local passes ----------------------------------------------------------------------------------------- */

void sql_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    struct sql_store *store = self;
    struct sql_note *note;

    pthread_mutex_lock(&store->lock);
    note = sql_lease_claim(claim)->note;
    if (note) {
        note->token = token;
        note->tid = tid ? tid : SQL_TID_IDLE;
        if (!note->queued) {
            note->next = store->notes;
            store->notes = note;
            note->queued = true;
        }
        sql_listener_note(store);
    }
    pthread_mutex_unlock(&store->lock);
}

struct pass {
    unsigned char name[HF_NAME_MAX], owner[HFI_OWNER_LEN];
    uint32_t len;
    uint64_t token;
    int64_t tid;
};

static int by_pass(const void *left, const void *right)
{
    const struct pass *a = left, *b = right;
    int order = memcmp(a->name, b->name, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static hf_status send_notes(struct sql_store *store, int64_t deadline_ms, hf_error *err);

static uint32_t take_notes(struct sql_store *store, struct pass *passes)
{
    struct sql_note *note;
    uint32_t count = 0;

    pthread_mutex_lock(&store->lock);
    while (count < NOTE_BATCH && (note = store->notes)) {
        struct pass *pass = &passes[count++];

        store->notes = note->next;
        note->queued = false;
        pass->len = note->claim->name.len;
        memcpy(pass->name, note->claim->name.bytes, pass->len);
        memcpy(pass->owner, note->claim->owner, HFI_OWNER_LEN);
        pass->token = note->token;
        pass->tid = note->tid;
    }
    pthread_mutex_unlock(&store->lock);
    return count;
}

/* The server may not know these passes: send them with the next notes, if the leases are still
 * held. Otherwise break would compare an old token. */
static void put_back(struct sql_store *store, const struct pass *passes, uint32_t count)
{
    pthread_mutex_lock(&store->lock);
    for (struct hfi_claim *claim = store->held; claim; claim = sql_lease_claim(claim)->next) {
        struct sql_note *note = sql_lease_claim(claim)->note;

        for (uint32_t i = 0; note && !note->queued && i < count; i++)
            if (memcmp(passes[i].owner, claim->owner, HFI_OWNER_LEN) == 0) {
                note->next = store->notes;
                store->notes = note;
                note->queued = true;
            }
    }
    if (store->notes)
        sql_listener_note(store);
    pthread_mutex_unlock(&store->lock);
}

/* One sender at a time: an inspection must see what another sender is just sending, and of two
 * notes of one claim the newer one must come last. */
hf_status sql_notes_send(struct sql_store *store, int64_t deadline_ms, hf_error *err)
{
    hf_status status;

    pthread_mutex_lock(&store->note_lock);
    status = send_notes(store, deadline_ms, err);
    pthread_mutex_unlock(&store->note_lock);
    return status;
}

static hf_status send_notes(struct sql_store *store, int64_t deadline_ms, hf_error *err)
{
    struct sql_request r = { .call = SQL_NOTE, .deadline_ms = deadline_ms };
    struct sql_value *params;
    struct pass *passes;
    hf_status status, result = HF_OK;
    uint32_t count;
    bool any;

    pthread_mutex_lock(&store->lock);
    any = store->notes != NULL;
    pthread_mutex_unlock(&store->lock);
    if (!any)
        return HF_OK;
    passes = hfi_calloc(NOTE_BATCH, sizeof *passes);
    params = hfi_calloc(4 * NOTE_BATCH, sizeof *params);
    while (passes && params && (count = take_notes(store, passes)) > 0) {
        qsort(passes, count, sizeof *passes, by_pass);
        for (uint32_t i = 0; i < count; i++) {
            params[4 * i] = sql_bytes(passes[i].name, passes[i].len);
            params[4 * i + 1] = sql_bytes(passes[i].owner, HFI_OWNER_LEN);
            params[4 * i + 2] = sql_int_of((int64_t)passes[i].token);
            params[4 * i + 3] = sql_int_of(passes[i].tid);
        }
        r.params = params;
        r.count = 4 * count;
        status = sql_call(store, &r);
        if (status == HF_OK) {
            sql_rows_free(&r.rows);
        } else if (status == HF_UNAVAILABLE || status == HF_UNKNOWN) {
            put_back(store, passes, count);
            *err = r.trouble.error;
            result = status;
            break;
        }
    }
    hfi_free(passes);
    hfi_free(params);
    return result;
}
