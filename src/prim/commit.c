/* SPDX-License-Identifier: MIT */
/*
 * hf_cells_commit(): several cells of the caller's in one step, all or nothing. The engine has the transaction
 * (HFI_OP_CELLS_COMMIT); this file checks the list and settles what the engine cannot.
 *
 *     READ, of each item with HF_CELL_ANY <--------------------+ (pause) only such items were overtaken
 *       |                                                      |
 *       +---> COMMIT ---> done, HF_CHANGED                     |
 *              ^   |                                           |
 *              |   +--- HF_BUSY -------------------------------+
 *              +------- HF_UNKNOWN (pause)
 *
 * The engine knows exact versions only: an item with HF_CELL_ANY is read first, which also shows whether the cell is the
 * caller's, and is committed at the version that was found.
 *
 * A commit whose outcome is unknown is sent again, as it was. Each item that it writes names a version, and a write moves that
 * version: if one copy is done, no other copy is. That needs a version that never comes back, so at least one item that is
 * written must have one; "there is none" can become true again. If the second copy finds other versions, either the first copy
 * was done or another client was faster: HF_UNKNOWN.
 */
#include "core/lack.h"
#include "core/request.h"
#include "holdfast/primitives.h"
#include "prim/record.h"
#include "prim/task.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/random.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST_MS 1 /* the longest pause before the next copy; each is twice the last */
#define PAUSE_LAST_MS  64

/* One item. `at` points into the caller's memory, or in the asynchronous form to copies. */
struct item {
    struct hfi_commit_item at;
    size_t index; /* in the caller's list */
    bool any;     /* HF_CELL_ANY */
    bool is_read; /* ... and its version is known */
    hf_cell_action wish;
};

struct commit_call {
    struct hfi_prim_task task;
    struct item items[HF_CELLS_MAX]; /* sorted by name */
    size_t count;
    size_t reading;                  /* the item that is being read */
    bool doubt;                      /* an earlier copy may have been done */
    unsigned pauses;                 /* so far */
    int64_t limit_ms;                /* when to give up */
    size_t changed;                  /* HF_CHANGED: index of the caller's item */
    uint64_t versions[HF_CELLS_MAX]; /* in the caller's order */
};

/* ---- what callers give us ----------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right)
{
    const struct hfi_name *a = &((const struct item *)left)->at.name;
    const struct hfi_name *b = &((const struct item *)right)->at.name;
    int order = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);

    if (order != 0)
        return order;
    return a->len < b->len ? -1 : a->len > b->len;
}

static hf_status check_bytes(const struct hfi_promises *promises, const hf_cell_item *item,
                             hf_error *err)
{
    if (!item->bytes && item->len > 0)
        return hfi_error_set(err, HF_INVALID, 0, "bytes: NULL");
    if (item->len > HF_CELL_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "len: more than %d bytes", HF_CELL_MAX);
    if (item->ttl_ms == 0)
        return HF_OK;
    if (item->ttl_ms < HF_TTL_MIN_MS || item->ttl_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0,
                             "ttl_ms: less than a second, or more than ten years");
    if (!(promises->caps & HF_CAP_CELL_TTL))
        return hfi_unsupported(promises, HF_CAP_CELL_TTL, "ttl_ms", err);
    return HF_OK;
}

static hf_status check_action(const struct hfi_promises *promises, const hf_cell_item *item,
                              hf_error *err)
{
    switch (item->action) {
    case HF_CELL_ACTION_LEAVE:
        if (item->version == HF_CELL_ANY)
            return hfi_error_set(err, HF_INVALID, 0, "version: HF_CELL_ANY asserts nothing");
        return HF_OK;
    case HF_CELL_ACTION_WRITE:
        return check_bytes(promises, item, err);
    case HF_CELL_ACTION_DELETE:
        if (item->version == 0)
            return hfi_error_set(err, HF_INVALID, 0, "version: no cell has version 0");
        return HF_OK;
    }
    return hfi_error_set(err, HF_INVALID, 0, "action: not an hf_cell_action");
}

/* Every refusal names the field. */
static hf_status read_one(struct commit_call *call, const hf_cell_item *given, struct item *item,
                          hf_error *err)
{
    hf_cell_item whole;
    hf_status status = hfi_request_copy(&whole, sizeof whole, given, offsetof(hf_cell_item, ttl_ms),
                                        "HF_CELL_ITEM_INIT", err);

    if (status == HF_OK)
        status = hfi_name_check(whole.name, whole.name_len, &item->at.name.len, err);
    if (status == HF_OK)
        status = check_action(hfi_store_promises(call->task.prim.store), &whole, err);
    if (status != HF_OK)
        return status;
    item->at.name.bytes = whole.name;
    hfi_hash128(whole.name, item->at.name.len, item->at.name.hash);
    item->at.version = whole.version;
    item->at.action = item->wish = whole.action;
    item->any = whole.version == HF_CELL_ANY;
    if (whole.action == HF_CELL_ACTION_WRITE) {
        item->at.bytes = whole.bytes;
        item->at.len = whole.len;
        item->at.ttl_ms = whole.ttl_ms;
    }
    return HF_OK;
}

static hf_status read_all(struct commit_call *call, const hf_cell_item *items, hf_error *err)
{
    const char *at = (const char *)items;
    size_t bytes = 0;

    for (size_t i = 0; i < call->count; i++) {
        const hf_cell_item *given = (const void *)at;
        struct item *item = &call->items[i];
        hf_status status = read_one(call, given, item, err);

        if (status == HF_OK &&
            (given->size != items->size || given->size % _Alignof(hf_cell_item) != 0))
            status = hfi_error_set(err, HF_INVALID, 0, "size: another one than in the first");
        if (status != HF_OK) {
            hfi_error_wrap(err, "items[%zu]", i);
            return status;
        }
        item->index = i;
        bytes += item->at.name.len + item->at.len;
        at += given->size; /* the caller's struct may be smaller than ours */
    }
    if (bytes > HF_CELLS_BYTES_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "items: more than %d bytes of names and values",
                             HF_CELLS_BYTES_MAX);
    return HF_OK;
}

static hf_status refuse_twins(struct commit_call *call, hf_error *err)
{
    char name[128];

    qsort(call->items, call->count, sizeof *call->items, by_name);
    for (size_t i = 1; i < call->count; i++) {
        const struct item *a = &call->items[i - 1], *b = &call->items[i];

        if (by_name(a, b) != 0)
            continue;
        return hfi_error_set(err, HF_INVALID, 0, "items[%zu]: name: '%s' is that of items[%zu] too",
                             a->index > b->index ? a->index : b->index,
                             hfi_quote_name(a->at.name.bytes, a->at.name.len, name, sizeof name),
                             a->index > b->index ? b->index : a->index);
    }
    return HF_OK;
}

static hf_status check_items(struct commit_call *call, const hf_cell_item *items, hf_error *err)
{
    hf_status status;

    if (call->count == 0 || call->count > HF_CELLS_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "count: not 1 to %d", HF_CELLS_MAX);
    if (!items)
        return hfi_error_set(err, HF_INVALID, 0, "items: NULL");
    status = read_all(call, items, err);
    return status == HF_OK ? refuse_twins(call, err) : status;
}

static hf_status check_engine(struct hfi_prim *prim, hf_error *err)
{
    const struct hfi_promises *promises = hfi_store_promises(prim->store);

    if (promises->caps & HF_CAP_COMMIT)
        return HF_OK;
    return hfi_prim_unsupported(prim->store, prim->verb, HF_CAP_CELLS | HF_CAP_COMMIT, err);
}

static hf_status step(struct hfi_prim_task *task, hf_status got);

/* After HF_OK the store is entered. */
static hf_status prepare(struct commit_call *call, hf_store *store, const hf_cell_item *items,
                         size_t count, hf_error *err)
{
    struct hfi_prim *prim = &call->task.prim;
    hf_status status;

    memset(call, 0, sizeof *call);
    hfi_prim_task_init(&call->task, step);
    *prim = (struct hfi_prim){ .handle = store, .verb = "commit cells" };
    call->count = count;
    status = hfi_store_enter(store, &prim->store, err);
    if (status != HF_OK)
        return status;
    status = check_engine(prim, err);
    if (status == HF_OK)
        status = check_items(call, items, err);
    if (status != HF_OK)
        hfi_prim_leave(prim);
    call->limit_ms = hfi_now_ms() + HFI_CALL_LIMIT_MS;
    return status;
}

/* ---- HF_CELL_ANY ------------------------------------------------------------------------------------------- */

enum { COMMIT_BEGIN, COMMIT_READ, COMMIT_ANSWERED, COMMIT_PAUSED };

static hf_status send(struct commit_call *call);

static hf_status read_next(struct commit_call *call)
{
    struct hfi_prim_task *task = &call->task;

    while (call->reading < call->count &&
           (!call->items[call->reading].any || call->items[call->reading].is_read))
        call->reading++;
    if (call->reading == call->count)
        return send(call);
    task->prim.name = call->items[call->reading].at.name;
    return hfi_begin_act(task, COMMIT_READ, HFI_ACT_READ);
}

static hf_status was_read(struct commit_call *call, hf_status got)
{
    struct item *item = &call->items[call->reading];
    struct hfi_cell *found = &call->task.action.cell;
    bool ours;

    if (got != HF_OK)
        return got;
    ours = found->version == 0 || hfi_is_callers_cell(found->bytes, found->len);
    item->at.version = found->version;
    item->at.action = item->wish == HF_CELL_ACTION_DELETE && found->version == 0
                          ? HF_CELL_ACTION_LEAVE
                          : item->wish;
    item->is_read = true;
    hfi_cell_forget(found);
    if (!ours)
        return hfi_error_set(&call->task.error, HF_MISMATCH, 0,
                             "the cell of that name belongs to another primitive");
    return read_next(call);
}

/* ---- committing ----------------------------------------------------------------------------------------------- */

/* The op, and all that it points to, in one block: it may live longer than this call. */
static struct hfi_commit_op *make_op(const struct commit_call *call)
{
    size_t size = sizeof(struct hfi_commit_op) + call->count * sizeof(struct hfi_commit_item);
    struct hfi_commit_op *op;
    unsigned char *at;

    for (size_t i = 0; i < call->count; i++)
        size += call->items[i].at.name.len + HFI_CELL_HEAD_LEN + call->items[i].at.len;
    op = hfi_malloc(size);
    if (!op)
        return NULL;
    op->count = call->count;
    op->items = (struct hfi_commit_item *)(void *)(op + 1);
    at = (unsigned char *)(op->items + op->count);
    for (size_t i = 0; i < op->count; i++) {
        struct hfi_commit_item *item = &op->items[i];

        *item = call->items[i].at;
        item->name.bytes = memcpy(at, item->name.bytes, item->name.len);
        at += item->name.len;
        if (item->action != HF_CELL_ACTION_WRITE)
            continue;
        memcpy(at, HFI_CELL_HEAD, HFI_CELL_HEAD_LEN);
        if (item->len > 0)
            memcpy(at + HFI_CELL_HEAD_LEN, item->bytes, item->len);
        item->bytes = at;
        item->len += HFI_CELL_HEAD_LEN;
        at += item->len;
    }
    return op;
}

static hf_status send(struct commit_call *call)
{
    struct hfi_prim_task *task = &call->task;

    task->prim.name.len = 0; /* the errors of a commit are not of one name */
    task->action.commit = make_op(call);
    if (!task->action.commit)
        return hfi_error_memory(&task->error);
    task->action.writes = hfi_commit_writes(task->action.commit);
    return hfi_begin_act(task, COMMIT_ANSWERED, HFI_ACT_COMMIT);
}

/* Random, and longer each time: competitors that start again at the same moment would collide again. */
static hf_status pause_then(struct commit_call *call)
{
    uint64_t most_ms =
        call->pauses < 6 ? (uint64_t)PAUSE_FIRST_MS << call->pauses : (uint64_t)PAUSE_LAST_MS;

    call->pauses++;
    call->task.action.pause_us = 0;
    call->task.action.until_ms = hfi_now_ms() + (int64_t)(hfi_random_u64() % (most_ms + 1));
    return hfi_begin_act(&call->task, COMMIT_PAUSED, HFI_ACT_PAUSE);
}

/* Is at most one of two copies done? */
static bool may_repeat(const struct commit_call *call)
{
    for (size_t i = 0; i < call->count; i++)
        if (call->items[i].at.action != HF_CELL_ACTION_LEAVE && call->items[i].at.version != 0)
            return true;
    return false;
}

static hf_status end_unknown(struct commit_call *call, hf_status why)
{
    char text[sizeof call->task.error.text];

    if (why == HF_UNKNOWN)
        return why;
    snprintf(text, sizeof text, "%s",
             call->task.error.text[0] ? call->task.error.text : hf_status_text(why));
    return hfi_error_set(&call->task.error, HF_UNKNOWN, 0, "it may have been done: %s", text);
}

static void take_versions(struct commit_call *call)
{
    const struct hfi_commit_op *op = call->task.action.commit;

    for (size_t i = 0; i < call->count; i++)
        call->versions[call->items[i].index] = op->items[i].ret_version;
}

static hf_status set_changed(struct commit_call *call, const struct item *item)
{
    uint64_t found = call->versions[item->index];
    char name[128];

    hfi_quote_name(item->at.name.bytes, item->at.name.len, name, sizeof name);
    call->changed = item->index;
    if (found == 0)
        return hfi_error_set(&call->task.error, HF_CHANGED, 0,
                             "items[%zu]: '%s' does not exist, its version was to be %" PRIu64,
                             item->index, name, item->at.version);
    if (item->at.version == 0)
        return hfi_error_set(&call->task.error, HF_CHANGED, 0,
                             "items[%zu]: '%s' exists, with version %" PRIu64, item->index, name,
                             found);
    return hfi_error_set(&call->task.error, HF_CHANGED, 0,
                         "items[%zu]: '%s' has version %" PRIu64 ", not %" PRIu64, item->index,
                         name, found, item->at.version);
}

/* An item has another version. Of an HF_CELL_ANY item that is nothing to the caller: it is read again. */
static hf_status was_overtaken(struct commit_call *call)
{
    const struct item *first = NULL, *raced = NULL;

    take_versions(call);
    for (size_t i = 0; i < call->count; i++) {
        struct item *item = &call->items[i];

        if (call->versions[item->index] == item->at.version)
            continue;
        if (item->any)
            raced = item;
        else if (!first || item->index < first->index)
            first = item;
        item->is_read = false;
    }
    if (!first && !raced)
        return hfi_error_set(&call->task.error, HF_CORRUPT, 0,
                             "the store reports another version, but does not say of which item");
    if (call->doubt)
        return end_unknown(call, set_changed(call, first ? first : raced));
    if (first)
        return set_changed(call, first);
    if (hfi_now_ms() >= call->limit_ms) {
        call->task.prim.name = raced->at.name;
        return hfi_error_set(&call->task.error, HF_BUSY, 0, "other clients kept changing it");
    }
    call->reading = 0;
    return pause_then(call);
}

static hf_status was_answered(struct commit_call *call, hf_status got)
{
    if (got == HF_OK) {
        take_versions(call);
        return HF_OK;
    }
    if (got == HF_BUSY)
        return was_overtaken(call);
    if (got == HF_UNKNOWN && may_repeat(call) && hfi_now_ms() < call->limit_ms) {
        call->doubt = true;
        return pause_then(call);
    }
    return call->doubt ? end_unknown(call, got) : got;
}

static hf_status was_pausing(struct commit_call *call, hf_status got)
{
    if (got != HF_OK)
        return call->doubt ? end_unknown(call, got) : got;
    return call->doubt ? send(call) : read_next(call);
}

static hf_status step(struct hfi_prim_task *task, hf_status got)
{
    struct commit_call *call = hfi_container(task, struct commit_call, task);

    switch (task->state) {
    case COMMIT_BEGIN:
        return read_next(call);
    case COMMIT_READ:
        return was_read(call, got);
    case COMMIT_ANSWERED:
        return was_answered(call, got);
    default:
        return was_pausing(call, got);
    }
}

/* ---- both forms ---------------------------------------------------------------------------------------------------- */

hf_status hf_cells_commit(hf_store *store, const hf_cell_item *items, size_t count,
                          uint64_t *ret_versions, size_t *ret_index, hf_error *err)
{
    struct commit_call call;
    hf_status status = prepare(&call, store, items, count, err);

    if (status != HF_OK)
        return status;
    status = hfi_prim_task_run(&call.task, err);
    if (status == HF_OK && ret_versions)
        memcpy(ret_versions, call.versions, count * sizeof *ret_versions);
    if (status == HF_CHANGED && ret_versions)
        ret_versions[call.changed] = call.versions[call.changed];
    if (status == HF_CHANGED && ret_index)
        *ret_index = call.changed;
    hfi_prim_task_done(&call.task);
    return status;
}

static void finish(struct hfi_prim_task *task, hf_result *result)
{
    struct commit_call *call = hfi_container(task, struct commit_call, task);

    if (result->status == HF_OK) {
        result->versions = call->versions;
        result->count = call->count;
    } else if (result->status == HF_CHANGED) {
        result->number = (int64_t)call->changed;
        result->version = call->versions[call->changed];
    }
}

/* After HF_OK names and bytes are the call's own. */
static hf_status keep_items(struct commit_call *call, hf_error *err)
{
    for (size_t i = 0; i < call->count; i++) {
        struct hfi_commit_item *item = &call->items[i].at;

        item->name.bytes = hfi_prim_keep(&call->task, item->name.bytes, item->name.len);
        item->bytes = hfi_prim_keep(&call->task, item->bytes, item->len);
        if (item->name.bytes && item->bytes)
            continue;
        hfi_prim_leave(&call->task.prim);
        return hfi_error_memory(err);
    }
    return HF_OK;
}

hf_status hf_cells_commit_async(hf_store *store, const hf_cell_item *items, size_t count,
                                hf_done_fn *done, void *arg, hf_op **ret_op, hf_error *err)
{
    struct commit_call *call = hfi_prim_call_new(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = prepare(call, store, items, count, err);
    if (status == HF_OK)
        status = keep_items(call, err);
    return hfi_prim_task_begin(&call->task, status, finish, done, arg, ret_op, err);
}
