/* SPDX-License-Identifier: MIT */
/*
 * hf_once_*(): something that is to be done once only, by whoever comes first; across machines and
 * crashes. The lock keeps the others out while it is done, and a mark in the cell of the same name
 * says that it has been.
 *
 * The cell is "O0" while somebody is at it (or was, and crashed) and "O1" when it is done; then the
 * token, for how long the mark is to stay, when it was written (by the clock of who wrote it, for people)
 * and a label. "O0" is a claim: from then on a holder of an earlier lease, however late it comes, cannot
 * say that it is done, for the record is not its own any more. For the same reason who has lost its lease
 * while nobody came after it may still say so: it has been done, and by nobody else.
 *
 * All on the calling thread.
 */
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/change.h"
#include "prim/held.h"
#include "util/error.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

struct record {
    bool there, done;
    uint64_t token, for_ms, at_ms;
    char label[HF_LABEL_MAX + 1];
};

static hf_status look(const struct hfi_prim *prim, hf_once_mark *mark, bool *ret_done,
                      hf_error *err);

static int64_t wall_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the record ---------------------------------------------------------------------------------- */

static hf_status get(const struct hfi_cell *cell, struct record *ret_record, hf_error *inner)
{
    struct hfi_reader from = { cell->bytes, cell->len };
    const unsigned char *head;

    *ret_record = (struct record){ .there = cell->version != 0 };
    if (cell->version == 0)
        return HF_OK;
    if (!hfi_get_bytes(&from, 2, &head) || head[0] != 'O' || (head[1] != '0' && head[1] != '1') ||
        !hfi_get_number(&from, &ret_record->token) || !hfi_get_number(&from, &ret_record->for_ms) ||
        !hfi_get_number(&from, &ret_record->at_ms) ||
        !hfi_get_text(&from, ret_record->label, sizeof ret_record->label) || from.left != 0)
        return hfi_error_set(inner, HF_MISMATCH, 0, "the cell of that name is something else");
    ret_record->done = head[1] == '1';
    return HF_OK;
}

static hf_status put(struct hfi_change *change, const struct record *record, hf_error *inner)
{
    struct hfi_buffer *to = &change->bytes;

    if (!hfi_put_bytes(to, record->done ? "O1" : "O0", 2) || !hfi_put_number(to, record->token) ||
        !hfi_put_number(to, record->for_ms) || !hfi_put_number(to, record->at_ms) ||
        !hfi_put_text(to, record->label))
        return hfi_error_memory(inner);
    change->what = HFI_WRITE;
    change->ttl_ms = record->done ? (int64_t)record->for_ms : 0;
    return HF_OK;
}

static hf_once_mark mark_of(const struct record *record, const struct hfi_cell *cell)
{
    hf_once_mark mark = { .token = record->token,
                          .at_ms = (int64_t)record->at_ms,
                          .ttl_ms = cell->ttl_ms };

    memcpy(mark.label, record->label, sizeof mark.label);
    return mark;
}

/* ---- decisions ------------------------------------------------------------------------------------ */

struct call {
    struct hfi_held held;
    int64_t for_ms;
    bool done; /* claim: it has been done already, and `mark` says by whom */
    hf_once_mark mark;
};

static hf_status later(const struct record *record, hf_error *inner)
{
    return hfi_error_set(inner, HF_FENCED, 0, "a later lease, of token %" PRIu64 ", is at it",
                         record->token);
}

static hf_status lost(hf_error *inner)
{
    return hfi_error_set(inner, HF_LOST, 0, "%s", hf_status_text(HF_LOST));
}

static hf_status plan_claim(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct call *call = arg;
    struct record record;
    hf_status status = get(&change->found, &record, inner);

    if (status != HF_OK)
        return status;
    call->done = record.done;
    if (record.done) {
        call->mark = mark_of(&record, &change->found);
        return HF_OK;
    }
    if (record.there && record.token > call->held.token)
        return later(&record, inner);
    if (!hfi_held_valid(&call->held)) /* after the reading: see held.h */
        return lost(inner);
    record = (struct record){ .token = call->held.token,
                              .for_ms = (uint64_t)call->for_ms,
                              .at_ms = (uint64_t)wall_ms() };
    memcpy(record.label, call->held.label, sizeof record.label);
    return put(change, &record, inner);
}

static hf_status plan_done(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct call *call = arg;
    bool fenced = call->held.token != 0, valid;
    struct record record;
    hf_status status = get(&change->found, &record, inner);

    if (status != HF_OK)
        return status;
    valid = hfi_held_valid(&call->held);
    if (fenced && record.there && record.token > call->held.token)
        return later(&record, inner);
    if (fenced && record.there && record.token < call->held.token)
        return hfi_error_set(inner, HF_INVALID, 0, "it was not begun under this lease");
    if (change->doubt && !record.there)
        return hfi_error_set(inner, HF_UNKNOWN, 0,
                             "it may have been marked, and the mark removed since");
    if (!valid && (!fenced || !record.there))
        return lost(inner); /* nothing tells whether somebody came after us */
    if (!record.there)
        return hfi_error_set(inner, HF_INVALID, 0, "it was not begun under this lease");
    if (record.done)
        return HF_OK; /* by us, in an earlier attempt */
    record.done = true;
    record.at_ms = (uint64_t)wall_ms();
    return put(change, &record, inner);
}

static hf_status plan_forget(struct hfi_change *change, void *arg, hf_error *inner)
{
    struct record record;
    hf_status status = get(&change->found, &record, inner);

    if (status != HF_OK)
        return status;
    if (!record.done)
        return *(bool *)arg ? HF_OK : hfi_error_set(inner, HF_NOT_FOUND, 0, "it is not done");
    *(bool *)arg = true;
    change->what = HFI_REMOVE;
    return HF_OK;
}

/* ---- the calls -------------------------------------------------------------------------------------- */

static hf_status check_mark(const hf_once_mark *mark, hf_error *err)
{
    if (mark && (mark->size < offsetof(hf_once_mark, at_ms) || mark->size > HFI_STRUCT_MAX))
        return hfi_error_set(err, HF_INVALID, 0, "ret_mark: no such size");
    return HF_OK;
}

/* As much of it as the caller knows of. */
static void give_mark(hf_once_mark *mark, hf_once_mark *ret_mark)
{
    if (!ret_mark)
        return;
    mark->size = ret_mark->size;
    memcpy(ret_mark, mark, mark->size < sizeof *mark ? mark->size : sizeof *mark);
}

static hf_status check_for(uint64_t caps, int64_t for_ms, hf_error *err)
{
    if (for_ms != 0 && (for_ms < HF_TTL_MIN_MS || for_ms > HF_DURATION_MAX_MS))
        return hfi_error_set(err, HF_INVALID, 0, "for_ms: 0, or from a second to ten years");
    if (for_ms > 0 && !(caps & HF_CAP_CELL_TTL))
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "for_ms: a mark that ends by itself needs cells with a ttl, which "
                             "this engine does not have");
    return HF_OK;
}

hf_status hf_once_get(hf_store *store, const void *name, size_t name_len, hf_once_mark *ret_mark,
                      hf_error *err)
{
    hf_once_mark mark;
    struct hfi_prim prim;
    hf_error inner;
    hf_status status = check_mark(ret_mark, err);
    bool done = false;

    if (status == HF_OK)
        status = hfi_prim_enter(&prim, store, "once", name, name_len, HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    status = look(&prim, &mark, &done, err);
    if (status == HF_OK && !done) {
        hfi_error_set(&inner, HF_NOT_FOUND, 0, "it is not done");
        status = hfi_prim_error(&prim, HF_NOT_FOUND, &inner, err);
    }
    hfi_prim_leave(&prim);
    if (status != HF_OK)
        return status;
    give_mark(&mark, ret_mark);
    return hfi_ok(err);
}

static hf_status look(const struct hfi_prim *prim, hf_once_mark *mark, bool *ret_done,
                      hf_error *err)
{
    struct hfi_cell cell;
    struct record record;
    hf_error inner;
    hf_status status = hfi_cell_read(prim, &cell, &inner);

    if (status == HF_OK)
        status = get(&cell, &record, &inner);
    if (status == HF_OK) {
        *ret_done = record.done;
        *mark = mark_of(&record, &cell);
    }
    hfi_cell_forget(&cell);
    return status == HF_OK ? HF_OK : hfi_prim_error(prim, status, &inner, err);
}

hf_status hf_once_claim(hf_lease *lease, int64_t for_ms, hf_once_mark *ret_mark, hf_error *err)
{
    struct call call = { .for_ms = for_ms };
    hf_status status = check_mark(ret_mark, err);

    if (status == HF_OK)
        status = hfi_held_enter(&call.held, lease, "once", HF_CAP_CELLS, err);
    if (status != HF_OK)
        return status;
    status = check_for(hfi_store_engine(call.held.prim.store)->info.caps, for_ms, err);
    if (status == HF_OK)
        status = hfi_cell_change(&call.held.prim, plan_claim, &call, NULL, err);
    if (status == HF_OK && call.done) {
        give_mark(&call.mark, ret_mark);
        status = hfi_prim_error(&call.held.prim, HF_DONE, NULL, err);
    }
    hfi_held_leave(&call.held);
    return status == HF_OK ? hfi_ok(err) : status;
}

/* HF_DONE; or HF_NOT_FOUND: we may ask for the lock. */
static hf_status prepare(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                         hf_once_mark *ret_mark, hf_error *err)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_status status = hf_store_get(store, &info);

    if (status != HF_OK)
        return hfi_error_set(err, status, 0, "store: %s", hf_status_text(status));
    if (!request || request->size < offsetof(hf_acquire_request, capacity))
        return hfi_error_set(err, HF_INVALID, 0, "request: NULL, or of no such size");
    if (request->kind != HF_KIND_MUTEX && request->kind != HF_KIND_EXCLUSIVE)
        return hfi_error_set(err, HF_INVALID, 0, "kind: one at a time, or it is not once");
    status = check_for(info.caps, for_ms, err);
    if (status != HF_OK)
        return status;
    status = hf_once_get(store, request->name, request->name_len, ret_mark, err);
    return status == HF_OK ? hfi_error_set(err, HF_DONE, 0, "%s", hf_status_text(HF_DONE)) : status;
}

hf_status hf_once_begin(hf_store *store, const hf_acquire_request *request, int64_t for_ms,
                        hf_lease **ret_lease, hf_once_mark *ret_mark, hf_error *err)
{
    hf_lease *lease;
    hf_status status;

    if (!ret_lease)
        return hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");
    status = prepare(store, request, for_ms, ret_mark, err);
    if (status != HF_NOT_FOUND)
        return status;
    status = hf_acquire(store, request, &lease, err);
    if (status != HF_OK)
        return status;
    /* Whoever had it before us may have done it. */
    status = hf_once_claim(lease, for_ms, ret_mark, err);
    if (status == HF_OK)
        *ret_lease = lease;
    else
        (void)hf_release(lease, NULL);
    return status;
}

hf_status hf_once_finish(hf_lease *lease, hf_error *err)
{
    struct call call = { .for_ms = 0 };
    hf_status status = hfi_held_enter(&call.held, lease, "once", HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    status = hfi_cell_change(&call.held.prim, plan_done, &call, NULL, err);
    hfi_held_leave(&call.held);
    return status == HF_OK ? hfi_ok(err) : status;
}

hf_status hf_once_delete(hf_store *store, const void *name, size_t name_len, hf_error *err)
{
    struct hfi_prim prim;
    bool removed = false;
    hf_status status = hfi_prim_enter(&prim, store, "once", name, name_len, HF_CAP_CELLS, err);

    if (status != HF_OK)
        return status;
    status = hfi_cell_change(&prim, plan_forget, &removed, NULL, err);
    hfi_prim_leave(&prim);
    return status == HF_OK ? hfi_ok(err) : status;
}
