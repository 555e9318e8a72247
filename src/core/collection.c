/* SPDX-License-Identifier: MIT */
/* Collections: see collection.h. */
#include "core/collection.h"

#include "core/view.h"
#include "util/alloc.h"
#include "util/list.h"
#include "util/text.h"

#include <stdlib.h>

#define FIRST_ROOM 16

struct raw_name {
    size_t name; /* offset in `texts` */
    uint32_t len;
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

/* ---- arrays ---------------------------------------------------------------------------------------- */

/* Room for `count` more items of `size`; returns the first. NULL: out of memory. */
static void *extend(struct hfi_array *array, size_t count, size_t size)
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

/* Append all of `from`. */
static void *append(struct hfi_array *to, const struct hfi_array *from, size_t size)
{
    char *items = extend(to, from->count, size);

    if (items && from->count > 0)
        memcpy(items, from->items, from->count * size);
    return items;
}

/* Keep bytes and a NUL. */
static bool keep(struct hfi_collection *c, const void *bytes, size_t len, size_t *ret_offset)
{
    char *to = extend(&c->texts, len + 1, 1);

    if (!to)
        return false;
    *ret_offset = (size_t)(to - c->texts.items);
    if (len > 0)
        memcpy(to, bytes, len);
    to[len] = 0;
    return true;
}

static bool keep_label(struct hfi_collection *c, const char *label, size_t *ret_offset)
{
    return keep(c, label, label ? strlen(label) : 0, ret_offset);
}

/* ---- the sink ---------------------------------------------------------------------------------------- */

static struct raw_entry *last_entry(struct hfi_collection *c)
{
    return (struct raw_entry *)(void *)c->entries.items + c->entries.count - 1;
}

/* The last entry is complete: drop it if it is not wanted. */
static void end_entry(struct hfi_collection *c)
{
    const struct raw_entry *last;

    if (!c->contended || c->entries.count == 0)
        return;
    last = last_entry(c);
    if (last->entry.waiter_count > 0)
        return;
    c->entries.count--;
    c->holders.count = last->holder;
    c->texts.count = last->name;
}

/* An engine passes on what a server sent: a name of an invalid length is ignored. */
static bool is_wanted(const struct hfi_collection *c, const unsigned char *name, size_t len)
{
    if (len == 0 || len > HF_NAME_MAX)
        return false;
    return c->glob ? hfi_glob_match(c->pattern, c->len, name, len)
                   : len == c->len && memcmp(name, c->pattern, len) == 0;
}

static bool put_name(struct hfi_sink *sink, const unsigned char *name, size_t len)
{
    struct hfi_collection *c = hfi_container(sink, struct hfi_collection, sink);
    struct raw_name *raw;

    end_entry(c);
    c->skips = true;
    if (!is_wanted(c, name, len))
        return true;
    raw = extend(&c->names, 1, sizeof *raw);
    if (!raw)
        return false;
    raw->len = (uint32_t)len;
    return keep(c, name, len, &raw->name);
}

static bool put_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    struct hfi_collection *c = hfi_container(sink, struct hfi_collection, sink);
    struct raw_entry *raw;

    end_entry(c);
    c->skips = !is_wanted(c, entry->name, entry->name_len);
    if (c->skips)
        return true;
    raw = extend(&c->entries, 1, sizeof *raw);
    if (!raw)
        return false;
    *raw = (struct raw_entry){ .entry = *entry,
                               .holder = c->holders.count,
                               .waiter = c->waiters.count };
    raw->entry.holder_count = raw->entry.waiter_count = 0;
    return keep(c, entry->name, entry->name_len, &raw->name);
}

static bool put_holder(struct hfi_sink *sink, const hf_holder *holder)
{
    struct hfi_collection *c = hfi_container(sink, struct hfi_collection, sink);
    struct raw_holder *raw;

    if (c->skips)
        return true;
    raw = extend(&c->holders, 1, sizeof *raw);
    if (!raw)
        return false;
    raw->holder = *holder;
    last_entry(c)->entry.holder_count++;
    return keep_label(c, holder->label, &raw->label);
}

static bool put_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    struct hfi_collection *c = hfi_container(sink, struct hfi_collection, sink);
    struct raw_waiter *raw;

    if (c->skips)
        return true;
    raw = extend(&c->waiters, 1, sizeof *raw);
    if (!raw)
        return false;
    raw->waiter = *waiter;
    last_entry(c)->entry.waiter_count++;
    return keep_label(c, waiter->label, &raw->label);
}

/* ---- its life ---------------------------------------------------------------------------------------- */

struct hfi_collection *hfi_collection_new(void)
{
    struct hfi_collection *c = hfi_calloc(1, sizeof *c);

    if (c)
        c->sink = (struct hfi_sink){ put_name, put_entry, put_holder, put_waiter };
    return c;
}

void hfi_collection_free(struct hfi_collection *collection)
{
    if (!collection)
        return;
    hfi_free(collection->names.items);
    hfi_free(collection->entries.items);
    hfi_free(collection->holders.items);
    hfi_free(collection->waiters.items);
    hfi_free(collection->texts.items);
    hfi_free(collection);
}

void hfi_collection_filter(struct hfi_collection *collection, const void *pattern, uint32_t len,
                           bool glob, bool contended)
{
    memcpy(collection->pattern, pattern, len);
    collection->len = len;
    collection->glob = glob;
    collection->contended = contended;
    collection->skips = true; /* what belongs to no entry */
}

bool hfi_collection_move(struct hfi_collection *to, struct hfi_collection *from)
{
    size_t texts, first_holder, first_waiter;
    struct raw_holder *holders;
    struct raw_waiter *waiters;
    struct raw_entry *entries;

    end_entry(to);
    end_entry(from);
    texts = to->texts.count;
    first_holder = to->holders.count;
    first_waiter = to->waiters.count;
    entries = append(&to->entries, &from->entries, sizeof *entries);
    holders = append(&to->holders, &from->holders, sizeof *holders);
    waiters = append(&to->waiters, &from->waiters, sizeof *waiters);
    if (!entries || !holders || !waiters || !append(&to->texts, &from->texts, 1))
        return false;
    for (size_t i = 0; i < from->entries.count; i++) {
        entries[i].name += texts;
        entries[i].holder += first_holder;
        entries[i].waiter += first_waiter;
    }
    for (size_t i = 0; i < from->holders.count; i++)
        holders[i].label += texts;
    for (size_t i = 0; i < from->waiters.count; i++)
        waiters[i].label += texts;
    from->names.count = from->entries.count = from->holders.count = from->waiters.count =
        from->texts.count = 0;
    return true;
}

/* ---- order -------------------------------------------------------------------------------------------- */

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_names(const void *left, const void *right, void *texts)
{
    const struct raw_name *a = left, *b = right;

    return compare((char *)texts + a->name, a->len, (char *)texts + b->name, b->len);
}

/* By name; entries of one name in their order of arrival. */
static int compare_entries(const void *left, const void *right, void *texts)
{
    const struct raw_entry *a = left, *b = right;
    int order = compare((char *)texts + a->name, a->entry.name_len, (char *)texts + b->name,
                        b->entry.name_len);

    return order ? order : (a->name > b->name) - (a->name < b->name);
}

void hfi_collection_sort_names(struct hfi_collection *collection)
{
    struct raw_name *names = (void *)collection->names.items;
    char *texts = collection->texts.items;
    size_t count = collection->names.count, kept = 0;

    if (count > 1)
        qsort_r(names, count, sizeof *names, compare_names, texts);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || compare_names(&names[kept - 1], &names[i], texts) != 0)
            names[kept++] = names[i];
    collection->names.count = kept;
}

const unsigned char *hfi_collection_name(const struct hfi_collection *collection, size_t index,
                                         uint32_t *ret_len)
{
    const struct raw_name *name = (const struct raw_name *)(void *)collection->names.items + index;

    *ret_len = name->len;
    return (const unsigned char *)collection->texts.items + name->name;
}

/* ---- the view ------------------------------------------------------------------------------------------ */

/* A free semaphore whose size was set: only a question for its own name shows it. */
static bool is_free(const hf_entry *entry)
{
    return entry->resized && entry->holder_count == 0 && entry->waiter_count == 0 &&
           entry->closed_ms == 0;
}

/* Sorted, each name once. Returns how many are left. */
static size_t sort_entries(struct hfi_collection *c)
{
    struct raw_entry *raw = (void *)c->entries.items;
    char *texts = c->texts.items;
    size_t kept = 0;

    if (c->entries.count > 1)
        qsort_r(raw, c->entries.count, sizeof *raw, compare_entries, texts);
    for (size_t i = 0; i < c->entries.count; i++) {
        if (kept > 0 && compare(texts + raw[kept - 1].name, raw[kept - 1].entry.name_len,
                                texts + raw[i].name, raw[i].entry.name_len) == 0)
            kept--;
        if (c->glob && is_free(&raw[i].entry))
            continue;
        if (kept != i)
            raw[kept] = raw[i];
        kept++;
    }
    return kept;
}

hf_view *hfi_collection_view(struct hfi_collection *collection)
{
    const struct raw_holder *raw_held = (void *)collection->holders.items;
    const struct raw_waiter *raw_wait = (void *)collection->waiters.items;
    const struct raw_entry *raw = (void *)collection->entries.items;
    size_t count, holder_count, waiter_count;
    struct hfi_entry *entries;
    hf_holder *holders;
    hf_waiter *waiters;
    hf_view *view;
    char *texts;

    end_entry(collection);
    count = sort_entries(collection);
    holder_count = collection->holders.count;
    waiter_count = collection->waiters.count;
    view = hfi_malloc(sizeof *view + count * sizeof *entries + holder_count * sizeof *holders +
                      waiter_count * sizeof *waiters + collection->texts.count);
    if (!view)
        return NULL;
    entries = (void *)(view + 1);
    holders = (void *)(entries + count);
    waiters = (void *)(holders + holder_count);
    texts = (void *)(waiters + waiter_count);
    *view = (hf_view){ .count = count, .entries = entries };
    if (collection->texts.count > 0)
        memcpy(texts, collection->texts.items, collection->texts.count);

    for (size_t i = 0; i < count; i++) {
        entries[i].entry = raw[i].entry;
        entries[i].entry.name = (unsigned char *)texts + raw[i].name;
        entries[i].holders = holders + raw[i].holder;
        entries[i].waiters = waiters + raw[i].waiter;
    }
    for (size_t i = 0; i < holder_count; i++) {
        holders[i] = raw_held[i].holder;
        holders[i].label = texts + raw_held[i].label;
    }
    for (size_t i = 0; i < waiter_count; i++) {
        waiters[i] = raw_wait[i].waiter;
        waiters[i].label = texts + raw_wait[i].label;
    }
    return view;
}
