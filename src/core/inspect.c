/* SPDX-License-Identifier: MIT */
/*
 * hf_store_inspect(). One name is one LOOK. A pattern is LIST, page by page; then a LOOK at each name that came without its
 * entry, many at a time. It is a task (task.h): the blocking and the asynchronous form are the same code, and what an op
 * fills in belongs to that op until it has ended.
 *
 *   BEGIN --> LISTING (a page after the other) --> LOOKING --> the view
 *       \___________________one name____________/
 *
 * The whole call ends within HFI_CALL_LIMIT_MS, unless the engine is inline: a server could report
 * further pages for ever.
 */
#include "core/inspect.h"

#include "core/collection.h"
#include "core/lack.h"
#include "core/request.h"
#include "core/view.h"
#include "deadlock/graph.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <inttypes.h>

#define LOOKS_MAX \
    64 /* under way at a time; more are sent when half of them have ended, in one write */

enum { BEGIN, LISTING, LOOKING };

/* The results. The LIST op owns it while it is under way, also after it was given up. */
struct listing {
    struct hfi_collection *found;
    struct hfi_cursor cursor;
};

struct inspect_call {
    struct hfi_task task;
    hf_view *view; /* NULL: not built yet, or taken */
    struct listing *listing;
    struct hfi_collection *spare[LOOKS_MAX]; /* for the next LOOKs */
    size_t spares;
    size_t next, under_way; /* the next name for a LOOK; LOOKs that have not ended */
    hf_status status;       /* the first failure; task.error has its text */
    int64_t until_ms;
    uint32_t len;
    bool glob, contended;
    bool plain; /* keep the tags on the labels */
    unsigned char pattern[HF_NAME_MAX];
};

static bool tell_sessions(hf_view *view);

/* ---- its memory ------------------------------------------------------------------------------------ */

static void free_listing(void *memory, struct hfi_op *op)
{
    struct listing *listing = memory;

    (void)op;
    if (!listing)
        return;
    hfi_collection_free(listing->found);
    hfi_free(listing);
}

static void free_look(void *memory, struct hfi_op *op)
{
    (void)op;
    hfi_collection_free(memory);
}

static struct listing *new_listing(const struct inspect_call *call)
{
    struct listing *listing = hfi_malloc(sizeof *listing);

    if (!listing)
        return NULL;
    listing->cursor.len = 0;
    listing->found = hfi_collection_new();
    if (!listing->found) {
        hfi_free(listing);
        return NULL;
    }
    hfi_collection_filter(listing->found, call->pattern, call->len, call->glob, call->contended);
    return listing;
}

/* ---- steps ------------------------------------------------------------------------------------------ */

/* The first failure is reported. */
static hf_status fail(struct inspect_call *call, hf_status status, const hf_error *inner)
{
    if (call->status == HF_OK)
        call->status =
            hfi_store_error(call->task.store, "inspect", NULL, status, inner, &call->task.error);
    return call->status;
}

static hf_status fail_memory(struct inspect_call *call)
{
    if (call->status == HF_OK)
        call->status = hfi_error_memory(&call->task.error);
    return call->status;
}

static hf_status fail_child(struct inspect_call *call, hf_status got)
{
    if (call->task.child.given_up)
        return fail(call, HF_UNAVAILABLE, NULL);
    return fail(call, got, &call->task.child.error);
}

/* May another op begin? */
static bool goes_on(struct inspect_call *call)
{
    hf_status stopped = hfi_task_stopped(&call->task);

    if (call->status == HF_OK && stopped != HF_OK)
        fail(call, stopped, NULL);
    if (call->status == HF_OK && call->until_ms != HFI_NEVER && hfi_now_ms() >= call->until_ms)
        fail(call, HF_UNAVAILABLE, NULL);
    return call->status == HF_OK;
}

static hf_status end_inspect(struct inspect_call *call)
{
    struct hfi_task *task = &call->task;

    if (call->status == HF_OK) {
        call->view = hfi_collection_view(call->listing->found);
        if (call->view && !call->plain && !tell_sessions(call->view)) {
            hfi_free(call->view);
            call->view = NULL;
        }
        if (call->view)
            call->view->waiters_tracked =
                (hfi_store_promises(task->store)->caps & HF_CAP_WAITERS) != 0;
        else
            fail_memory(call);
    }
    free_listing(call->listing, NULL);
    while (call->spares > 0)
        hfi_collection_free(call->spare[--call->spares]);
    return call->status == HF_OK ? hfi_ok(&task->error) : call->status;
}

static hf_status list_page(struct inspect_call *call)
{
    struct hfi_task *task = &call->task;
    struct listing *listing = call->listing;
    struct hfi_op *op;

    if (!goes_on(call))
        return end_inspect(call);
    op = hfi_task_op(task, HFI_OP_LIST);
    if (!op) {
        fail_memory(call);
        return end_inspect(call);
    }
    hfi_task_keep(task, listing, free_listing);
    call->listing = NULL;
    op->u.list.pattern = listing->found->pattern;
    op->u.list.len = listing->found->len;
    op->u.list.waited = call->contended;
    op->u.list.cursor = &listing->cursor;
    op->u.list.sink = &listing->found->sink;
    return hfi_task_submit(task, call->until_ms, 0);
}

static void look_at_next(struct inspect_call *call)
{
    struct hfi_task *task = &call->task;
    struct hfi_collection *found =
        call->spares > 0 ? call->spare[--call->spares] : hfi_collection_new();
    struct hfi_op *op = found ? hfi_task_op(task, HFI_OP_LOOK) : NULL;
    const unsigned char *bytes;
    uint32_t len;

    if (!op) {
        hfi_collection_free(found);
        fail_memory(call);
        return;
    }
    hfi_task_keep(task, found, free_look);
    bytes = hfi_collection_name(call->listing->found, call->next++, &len);
    hfi_collection_filter(found, bytes, len, false, call->contended);
    op->u.look.name = (struct hfi_name){ .bytes = found->pattern, .len = len };
    hfi_hash128(found->pattern, len, op->u.look.name.hash);
    op->u.look.sink = &found->sink;
    call->under_way++;
    hfi_task_submit(task, call->until_ms, 0);
}

static hf_status look_on(struct inspect_call *call)
{
    struct hfi_store *store = call->task.store;
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    size_t left = call->listing->found->names.count - call->next;
    bool cork = left > 1 && drive->cork;

    if (left > 0 && call->under_way <= LOOKS_MAX / 2 && goes_on(call)) {
        if (cork)
            drive->cork(store->opened, true);
        for (; left > 0 && call->under_way < LOOKS_MAX && call->status == HF_OK; left--)
            look_at_next(call);
        if (cork)
            drive->cork(store->opened, false);
    }
    return call->under_way > 0 ? HFI_BEGUN : end_inspect(call);
}

static hf_status begin_inspect(struct inspect_call *call)
{
    call->listing = new_listing(call);
    if (!call->listing) {
        fail_memory(call);
        return end_inspect(call);
    }
    if (call->glob) {
        call->task.state = LISTING;
        return list_page(call);
    }
    call->task.state = LOOKING;
    if (!call->listing->found->sink.name(&call->listing->found->sink, call->pattern, call->len))
        fail_memory(call);
    return look_on(call);
}

static hf_status page_listed(struct inspect_call *call, hf_status got)
{
    if (!call->task.child.given_up)
        call->listing = hfi_task_take(&call->task);
    if (got != HF_OK) {
        fail_child(call, got);
        return end_inspect(call);
    }
    if (call->listing->cursor.len > 0)
        return list_page(call);
    hfi_collection_sort_names(call->listing->found);
    call->task.state = LOOKING;
    return look_on(call);
}

static hf_status name_looked_at(struct inspect_call *call, hf_status got)
{
    struct hfi_collection *found = NULL;

    if (!call->task.child.given_up)
        found = hfi_task_take(&call->task);
    call->under_way--;
    if (got != HF_OK)
        fail_child(call, got);
    else if (!hfi_collection_move(call->listing->found, found))
        fail_memory(call);
    if (found)
        call->spare[call->spares++] = found;
    return look_on(call);
}

static hf_status inspect_step(struct hfi_task *task, hf_status got)
{
    struct inspect_call *call = hfi_container(task, struct inspect_call, task);

    switch (task->state) {
    case BEGIN:
        return begin_inspect(call);
    case LISTING:
        return page_listed(call, got);
    default:
        return name_looked_at(call, got);
    }
}

/* ---- the call --------------------------------------------------------------------------------------- */

static void inspect_finish(struct hfi_task *task, hf_result *result)
{
    result->view = hfi_container(task, struct inspect_call, task)->view;
}

static void inspect_prepare(struct inspect_call *call, struct hfi_store *store, const void *pattern,
                            uint32_t len, bool glob)
{
    hfi_task_init(&call->task, store, inspect_step);
    call->task.finish = inspect_finish;
    call->task.free = hfi_task_free_entered;
    call->view = NULL;
    call->listing = NULL;
    call->spares = call->next = call->under_way = 0;
    call->status = HF_OK;
    call->until_ms = store->drive == HFI_INLINE ? HFI_NEVER : hfi_now_ms() + HFI_CALL_LIMIT_MS;
    call->plain = call->contended = false;
    call->glob = glob;
    call->len = len;
    memcpy(call->pattern, pattern, len);
}

/* HF_OK: the store is entered. */
static hf_status inspect_init(struct inspect_call *call, hf_store *handle, const void *name,
                              size_t name_len, uint64_t flags, bool wanted, hf_error *err)
{
    struct hfi_store *store;
    uint32_t len = 1;
    bool all = flags == HF_INSPECT_FLAG_PATTERN && !name && name_len == 0;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    if (flags & ~HF_INSPECT_FLAG_PATTERN)
        status = hfi_error_set(err, HF_INVALID, 0, "flags: unknown bits 0x%" PRIx64,
                               flags & ~HF_INSPECT_FLAG_PATTERN);
    else if (!wanted)
        status = hfi_error_set(err, HF_INVALID, 0, "ret_view: NULL");
    else if (!all && !name)
        status = hfi_error_set(err, HF_INVALID, 0, "name: NULL");
    else if (!all)
        status = hfi_name_check(name, name_len, &len, err);
    if (status == HF_OK && !(hfi_store_promises(store)->caps & HF_CAP_INSPECT))
        status = hfi_unsupported(hfi_store_promises(store), HF_CAP_INSPECT, NULL, err);
    if (status != HF_OK) {
        hfi_store_leave(store);
        return status;
    }
    inspect_prepare(call, store, all ? "*" : name, len, flags & HF_INSPECT_FLAG_PATTERN);
    return HF_OK;
}

hf_status hf_store_inspect(hf_store *handle, const void *name, size_t name_len, uint64_t flags,
                           hf_view **ret_view, hf_error *err)
{
    struct inspect_call call;
    hf_status status = inspect_init(&call, handle, name, name_len, flags, ret_view != NULL, err);

    if (status != HF_OK)
        return status;
    status = hfi_task_run_entered(&call.task, err);
    if (status == HF_OK)
        *ret_view = call.view;
    return status;
}

hf_status hf_store_inspect_async(hf_store *handle, const void *name, size_t name_len,
                                 uint64_t flags, hf_done_fn *done, void *arg, hf_op **ret_op,
                                 hf_error *err)
{
    struct inspect_call *call = hfi_malloc(sizeof *call);
    hf_status status;

    if (!call)
        return hfi_error_memory(err);
    status = inspect_init(call, handle, name, name_len, flags, true, err);
    if (status == HF_OK)
        return hfi_task_begin_entered(&call->task, done, arg, ret_op, err);
    hfi_free(call);
    return status;
}

hf_status hfi_inspect_contended(struct hfi_store *store, hf_view **ret_view, hf_error *err)
{
    struct inspect_call call;
    hf_status status;

    inspect_prepare(&call, store, "*", 1, true);
    call.contended = call.plain = true;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    if (status == HF_OK)
        *ret_view = call.view;
    return status;
}

/* ---- labels ----------------------------------------------------------------------------------------- */

/* Most views have none. */
static bool any_tags(const hf_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct hfi_entry *entry = &view->entries[i];

        for (size_t k = 0; k < entry->entry.holder_count; k++)
            if (hfi_tag_maybe(entry->holders[k].label))
                return true;
        for (size_t k = 0; k < entry->entry.waiter_count; k++)
            if (hfi_tag_maybe(entry->waiters[k].label))
                return true;
    }
    return false;
}

/* Replace the tags on the labels by sessions. false: out of memory. */
static bool tell_sessions(hf_view *view)
{
    struct hfi_graph *graph;

    if (!any_tags(view))
        return true;
    graph = hfi_graph_new(view, true, NULL);
    hfi_graph_free(graph);
    return graph != NULL;
}
