/* SPDX-License-Identifier: MIT */
/*
 * hf_store_inspect(): what the engine finds goes through a sink into growing arrays, and
 * from there, sorted, into one block of memory that is the caller's view.
 * While it grows nothing has a fixed address: texts are kept as offsets.
 */
#include "core/inspect.h"

#include "core/request.h"
#include "core/view.h"
#include "deadlock/graph.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIRST_ROOM 16

struct array {
    char *items;
    size_t count, room;
};

struct raw_entry {
    hf_entry entry;
    size_t name;           /* offset in `texts` */
    size_t holder, waiter; /* index of its first */
};

struct raw_holder {
    hf_holder holder;
    size_t label;
};

struct raw_waiter {
    hf_waiter waiter;
    size_t label;
};

/* What the engine has found so far. The op keeps it. */
struct finding {
    struct hfi_sink sink;
    struct array entries, holders, waiters, texts;
    bool contended; /* keep only names that somebody waits for */
    unsigned char pattern[HF_NAME_MAX];
};

static bool put_entry(struct hfi_sink *sink, const hf_entry *entry);
static bool put_holder(struct hfi_sink *sink, const hf_holder *holder);
static bool put_waiter(struct hfi_sink *sink, const hf_waiter *waiter);
static void end_entry(struct finding *f);
static hf_view *build(struct finding *f);
static bool tell_sessions(hf_view *view);

static void finding_free(void *memory, struct hfi_op *op)
{
    struct finding *f = memory;

    (void)op;
    hfi_free(f->entries.items);
    hfi_free(f->holders.items);
    hfi_free(f->waiters.items);
    hfi_free(f->texts.items);
    hfi_free(f);
}

hf_status hfi_look_begin(struct hfi_task *task, const void *pattern, uint32_t len, unsigned how)
{
    struct finding *f = hfi_calloc(1, sizeof *f);
    struct hfi_op *op = f ? hfi_task_op(task, HFI_OP_INSPECT) : NULL;

    if (!op) {
        hfi_free(f);
        return hfi_error_memory(&task->error);
    }
    hfi_task_keep(task, f, finding_free);
    memcpy(f->pattern, pattern, len);
    f->sink = (struct hfi_sink){ put_entry, put_holder, put_waiter };
    f->contended = how & HFI_LOOK_CONTENDED;
    op->u.inspect.pattern = f->pattern;
    op->u.inspect.len = len;
    op->u.inspect.glob = how & HFI_LOOK_GLOB;
    op->u.inspect.sink = &f->sink;
    return hfi_task_submit(task, HFI_NEVER, 0);
}

hf_status hfi_look_end(struct hfi_task *task, hf_status got, hf_view **ret_view)
{
    struct finding *f;

    if (task->child.given_up)
        return hfi_store_error(task->store, "inspect", NULL, HF_UNAVAILABLE, NULL, &task->error);
    if (got != HF_OK)
        return hfi_store_error(task->store, "inspect", NULL, got, &task->child.error, &task->error);
    f = hfi_task_take(task);
    end_entry(f);
    *ret_view = build(f);
    finding_free(f, NULL);
    return *ret_view ? hfi_ok(&task->error) : hfi_error_memory(&task->error);
}

/* ---- the call --------------------------------------------------------------------------- */

struct inspect_call {
    struct hfi_task task;
    hf_view *view; /* NULL: not there yet, or taken */
    uint32_t len;
    unsigned how;
    bool plain; /* keep the tags on the labels */
    unsigned char pattern[HF_NAME_MAX];
};

static hf_status inspect_step(struct hfi_task *task, hf_status got)
{
    struct inspect_call *call = hfi_container(task, struct inspect_call, task);
    hf_status status;

    if (task->state++ == 0)
        return hfi_look_begin(task, call->pattern, call->len, call->how);
    status = hfi_look_end(task, got, &call->view);
    if (status == HF_OK && !call->plain && !tell_sessions(call->view)) {
        hfi_free(call->view);
        call->view = NULL;
        status = hfi_error_memory(&task->error);
    }
    if (status == HF_OK)
        call->view->waiters_tracked = (hfi_store_promises(task->store)->caps & HF_CAP_WAITERS) != 0;
    return status;
}

static void inspect_finish(struct hfi_task *task, hf_result *result)
{
    result->view = hfi_container(task, struct inspect_call, task)->view;
}

static void inspect_prepare(struct inspect_call *call, struct hfi_store *store, const void *pattern,
                            uint32_t len, unsigned how)
{
    hfi_task_init(&call->task, store, inspect_step);
    call->task.finish = inspect_finish;
    call->task.free = hfi_task_free_entered;
    call->view = NULL;
    call->plain = false;
    call->how = how;
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
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine cannot list holders");
    if (status != HF_OK) {
        hfi_store_leave(store);
        return status;
    }
    inspect_prepare(call, store, all ? "*" : name, len,
                    flags & HF_INSPECT_FLAG_PATTERN ? HFI_LOOK_GLOB : 0);
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

static hf_status inspect_here(struct hfi_store *store, const void *pattern, uint32_t len,
                              unsigned how, bool plain, hf_view **ret_view, hf_error *err)
{
    struct inspect_call call;
    hf_status status;

    inspect_prepare(&call, store, pattern, len, how);
    call.plain = plain;
    status = hfi_task_run(&call.task);
    if (err)
        *err = call.task.error;
    if (status == HF_OK)
        *ret_view = call.view;
    return status;
}

hf_status hfi_look(struct hfi_store *store, const void *pattern, uint32_t len, unsigned how,
                   hf_view **ret_view, hf_error *err)
{
    return inspect_here(store, pattern, len, how, true, ret_view, err);
}

hf_status hfi_inspect(struct hfi_store *store, const void *name, uint32_t len, hf_view **ret_view,
                      hf_error *err)
{
    return inspect_here(store, name, len, 0, false, ret_view, err);
}

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

/* ---- the sink -------------------------------------------------------------------------- */

/* Room for `count` more items of `size`; returns the first. NULL: out of memory. */
static void *extend(struct array *array, size_t count, size_t size)
{
    size_t room = array->room ? array->room : FIRST_ROOM;
    char *items = array->items;

    while (room < array->count + count)
        room *= 2;
    if (room != array->room) {
        items = hfi_realloc(items, room * size);
        if (!items)
            return NULL;
        array->items = items;
        array->room = room;
    }
    array->count += count;
    return items + (array->count - count) * size;
}

/* Keep bytes and a NUL. */
static bool keep(struct finding *f, const void *bytes, size_t len, size_t *ret_offset)
{
    char *to = extend(&f->texts, len + 1, 1);

    if (!to)
        return false;
    *ret_offset = (size_t)(to - f->texts.items);
    if (len > 0)
        memcpy(to, bytes, len);
    to[len] = 0;
    return true;
}

static bool keep_label(struct finding *f, const char *label, size_t *ret_offset)
{
    return keep(f, label, label ? strlen(label) : 0, ret_offset);
}

static struct raw_entry *last_entry(struct finding *f)
{
    return (struct raw_entry *)(void *)f->entries.items + f->entries.count - 1;
}

/* The last entry is complete: drop it if it is not wanted. */
static void end_entry(struct finding *f)
{
    const struct raw_entry *last;

    if (!f->contended || f->entries.count == 0)
        return;
    last = last_entry(f);
    if (last->entry.waiter_count > 0)
        return;
    f->entries.count--;
    f->holders.count = last->holder;
    f->texts.count = last->name;
}

static bool put_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    struct finding *f = hfi_container(sink, struct finding, sink);
    struct raw_entry *raw;

    end_entry(f);
    raw = extend(&f->entries, 1, sizeof *raw);
    if (!raw)
        return false;
    *raw = (struct raw_entry){ .entry = *entry,
                               .holder = f->holders.count,
                               .waiter = f->waiters.count };
    raw->entry.holder_count = raw->entry.waiter_count = 0;
    return keep(f, entry->name, entry->name_len, &raw->name);
}

static bool put_holder(struct hfi_sink *sink, const hf_holder *holder)
{
    struct finding *f = hfi_container(sink, struct finding, sink);
    struct raw_holder *raw = extend(&f->holders, 1, sizeof *raw);

    if (!raw || f->entries.count == 0)
        return false;
    raw->holder = *holder;
    last_entry(f)->entry.holder_count++;
    return keep_label(f, holder->label, &raw->label);
}

static bool put_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    struct finding *f = hfi_container(sink, struct finding, sink);
    struct raw_waiter *raw = extend(&f->waiters, 1, sizeof *raw);

    if (!raw || f->entries.count == 0)
        return false;
    raw->waiter = *waiter;
    last_entry(f)->entry.waiter_count++;
    return keep_label(f, waiter->label, &raw->label);
}

/* ---- the view --------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right, void *texts)
{
    const struct raw_entry *a = left, *b = right;
    size_t a_len = a->entry.name_len, b_len = b->entry.name_len;
    int order =
        memcmp((char *)texts + a->name, (char *)texts + b->name, a_len < b_len ? a_len : b_len);

    if (order != 0)
        return order;
    return a_len < b_len ? -1 : a_len > b_len;
}

/* One block: the view, the entries, the holders, the waiters, the texts. NULL: out of memory. */
static hf_view *build(struct finding *f)
{
    struct raw_entry *raw = (void *)f->entries.items;
    struct raw_holder *raw_held = (void *)f->holders.items;
    struct raw_waiter *raw_wait = (void *)f->waiters.items;
    hf_view *view = hfi_malloc(sizeof *view + f->entries.count * sizeof(struct hfi_entry) +
                               f->holders.count * sizeof(hf_holder) +
                               f->waiters.count * sizeof(hf_waiter) + f->texts.count);
    struct hfi_entry *entries;
    hf_holder *holders;
    hf_waiter *waiters;
    char *texts;

    if (!view)
        return NULL;
    entries = (void *)(view + 1);
    holders = (void *)(entries + f->entries.count);
    waiters = (void *)(holders + f->holders.count);
    texts = (void *)(waiters + f->waiters.count);
    *view = (hf_view){ .count = f->entries.count, .entries = entries };
    if (f->texts.count > 0)
        memcpy(texts, f->texts.items, f->texts.count);
    if (f->entries.count > 0)
        qsort_r(raw, f->entries.count, sizeof *raw, by_name, texts);

    for (size_t i = 0; i < f->entries.count; i++) {
        entries[i].entry = raw[i].entry;
        entries[i].entry.name = (unsigned char *)texts + raw[i].name;
        entries[i].holders = holders + raw[i].holder;
        entries[i].waiters = waiters + raw[i].waiter;
    }
    for (size_t i = 0; i < f->holders.count; i++) {
        holders[i] = raw_held[i].holder;
        holders[i].label = texts + raw_held[i].label;
    }
    for (size_t i = 0; i < f->waiters.count; i++) {
        waiters[i] = raw_wait[i].waiter;
        waiters[i].label = texts + raw_wait[i].label;
    }
    return view;
}
