/* SPDX-License-Identifier: MIT */
/*
 * Merges the answers of the nodes. An owner with records of one attempt (and, for a semaphore, the
 * same slots) at a majority of all nodes holds. All other owners count as waiters: each once, in
 * the order of their stamps, which is the order in which nodes hand over. Pure but for the heap.
 */
#include "engine/redlock/inspect.h"

#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- taking down what a node said ---------------------------------------------------------- */

static int64_t number(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    return item && item->integer > 0 ? item->integer : 0;
}

static struct redlock_record *add_record(struct redlock_view *view, unsigned node,
                                         const struct hfi_reply *item, size_t label_at)
{
    const struct hfi_reply *owner = hfi_reply_at(item, 0, HFI_REPLY_TEXT);
    const struct hfi_reply *label = hfi_reply_at(item, label_at, HFI_REPLY_TEXT);
    struct redlock_record *record;

    if (!owner || owner->len != sizeof record->owner || !label)
        return NULL;
    if (view->count == view->room) {
        size_t room = view->room ? 2 * view->room : 16;
        struct redlock_record *records = hfi_realloc(view->records, room * sizeof *records);

        if (!records) {
            view->failed = true;
            return NULL;
        }
        view->records = records;
        view->room = room;
    }
    record = &view->records[view->count];
    memset(record, 0, sizeof *record);
    record->label = hfi_strndup(label->text, label->len);
    if (!record->label) {
        view->failed = true;
        return NULL;
    }
    view->count++;
    memcpy(record->owner, owner->text, sizeof record->owner);
    record->attempt = (uint64_t)number(item, 1);
    record->node = node;
    return record;
}

/* owner, attempt, c, tokens, permits, flags, age, left, ttl, delay, held, tid, slots, label */
static bool take_holder(struct redlock_view *view, unsigned node, const struct hfi_reply *item)
{
    const struct hfi_reply *slots = hfi_reply_at(item, 12, HFI_REPLY_TEXT);
    struct redlock_record *record = add_record(view, node, item, 13);

    if (!record || !slots)
        return false;
    record->holds = true;
    record->counter = (uint64_t)number(item, 2);
    record->tokens = (uint64_t)number(item, 3);
    record->permits = (uint32_t)number(item, 4);
    record->detached = (number(item, 5) & 4) != 0;
    record->lingers = (number(item, 5) & 32) != 0;
    record->watched = (number(item, 5) & 16) != 0;
    record->age_ms = hfi_told_ms(number(item, 6));
    record->left_ms = hfi_told_ms(number(item, 7));
    record->ttl_ms = hfi_told_ms(number(item, 8));
    record->held = (uint64_t)number(item, 10);
    record->tid = number(item, 11);
    record->choice = redlock_choice(slots->text, slots->len);
    if (number(item, 5) & 1 &&
        hfi_slots_read(slots->text, slots->len, record->permits, record->slots))
        record->slot_count = record->permits;
    return true;
}

/* owner, attempt, permits, flags, age, ttl, stamp, label */
static bool take_waiter(struct redlock_view *view, unsigned node, const struct hfi_reply *item)
{
    struct redlock_record *record = add_record(view, node, item, 7);

    if (!record)
        return false;
    record->permits = (uint32_t)number(item, 2);
    record->age_ms = hfi_told_ms(number(item, 4));
    record->ttl_ms = hfi_told_ms(number(item, 5));
    record->stamp = (uint64_t)number(item, 6);
    return true;
}

bool redlock_view_take(struct redlock_view *view, unsigned node, const struct hfi_reply *reply)
{
    const struct hfi_reply *holders = hfi_reply_at(reply, 4, HFI_REPLY_LIST);
    const struct hfi_reply *waiters = hfi_reply_at(reply, 5, HFI_REPLY_LIST);
    struct redlock_said *said = &view->said[node];
    char letter = hfi_reply_letter(reply);
    bool ok = letter == 'N' || (letter == 'L' && holders && waiters);

    for (size_t i = 0; ok && holders && i < holders->count; i++)
        ok = take_holder(view, node, &holders->items[i]);
    for (size_t i = 0; ok && waiters && i < waiters->count; i++)
        ok = take_waiter(view, node, &waiters->items[i]);
    if (!ok)
        return false;
    view->answered++;
    said->answered = true;
    if (letter == 'L') {
        said->busy = true;
        said->mode = number(reply, 1);
        said->capacity = number(reply, 2);
        said->closed_ms = hfi_told_ms(number(reply, 3));
    }
    return true;
}

void redlock_view_done(struct redlock_view *view)
{
    for (size_t i = 0; i < view->count; i++)
        hfi_free(view->records[i].label);
    hfi_free(view->records);
}

void redlock_merged_done(struct redlock_merged *merged)
{
    hfi_free(merged->parties);
}

/* ---- putting it together ---------------------------------------------------------------------- */

/* By owner; of one owner the latest attempt first, and of that what it holds, by slots. */
static int by_owner(const void *a, const void *b)
{
    const struct redlock_record *x = a, *y = b;
    int order = memcmp(x->owner, y->owner, sizeof x->owner);

    if (order)
        return order;
    if (x->attempt != y->attempt)
        return x->attempt > y->attempt ? -1 : 1;
    if (x->holds != y->holds)
        return x->holds ? -1 : 1;
    return (x->choice > y->choice) - (x->choice < y->choice);
}

static int by_ms_left(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y); /* the longest first */
}

/* The block's last token: the most common of the records; if equal, the largest. */
static uint64_t most_common(const struct redlock_record *records, size_t count)
{
    uint64_t best = 0;
    size_t most = 0;

    for (size_t i = 0; i < count; i++) {
        size_t same = 0;

        for (size_t k = 0; k < count; k++)
            same += records[k].counter == records[i].counter;
        if (same > most || (same == most && records[i].counter > best)) {
            most = same;
            best = records[i].counter;
        }
    }
    return best;
}

/* `count` records of one attempt with the same slots, one a node, at a majority. */
static struct redlock_party holder_of(const struct redlock_record *records, size_t count,
                                      unsigned need)
{
    struct redlock_party party = { .record = records, .holds = true };
    uint64_t last = most_common(records, count);
    int64_t left_ms[HFI_NODES_MAX];

    for (size_t i = 0; i < count; i++)
        if (records[i].counter == last) {
            party.record = &records[i];
            break;
        }
    party.first = last - (party.record->tokens > 0 ? party.record->tokens - 1 : 0);
    party.token = party.first;
    for (size_t i = 0; i < count; i++) {
        left_ms[i] = records[i].left_ms;
        if (records[i].age_ms > party.age_ms)
            party.age_ms = records[i].age_ms;
        /* Local passes are reported to all nodes, sometimes late to one: the highest is the
         * newest. */
        if (records[i].held >= party.token && records[i].held <= last) {
            party.token = records[i].held;
            party.tid = records[i].tid;
            party.idle = party.record->lingers && records[i].tid == 0;
        }
    }
    qsort(left_ms, count, sizeof *left_ms, by_ms_left);
    party.left_ms = left_ms[need - 1]; /* then it is no majority any more */
    return party;
}

/* `count` records of one owner, too few of which hold. */
static struct redlock_party waiter_of(const struct redlock_record *records, size_t count)
{
    struct redlock_party party = { .record = records };

    for (size_t i = 0; i < count; i++) {
        if (records[i].age_ms > party.age_ms)
            party.age_ms = records[i].age_ms;
        if (records[i].stamp && (!party.stamp || records[i].stamp < party.stamp))
            party.stamp = records[i].stamp;
    }
    return party;
}

static struct redlock_party party_of(const struct redlock_record *records, size_t count,
                                     unsigned need)
{
    for (size_t i = 0, same; i < count && records[i].holds; i += same) {
        same = 1;
        while (i + same < count && records[i + same].holds &&
               records[i + same].attempt == records[i].attempt &&
               records[i + same].choice == records[i].choice && same < HFI_NODES_MAX)
            same++;
        if (records[i].attempt == records[0].attempt && same >= need)
            return holder_of(records + i, same, need);
    }
    return waiter_of(records, count);
}

/* Holders first, by their tokens; then waiters by stamp, those without one last, the oldest first. */
static int by_place(const void *a, const void *b)
{
    const struct redlock_party *x = a, *y = b;

    if (x->holds != y->holds)
        return x->holds ? -1 : 1;
    if (x->holds && x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (!x->holds && x->stamp != y->stamp)
        return x->stamp - 1 < y->stamp - 1 ? -1 : 1; /* 0 wraps: last */
    if (!x->holds && !x->stamp && x->age_ms != y->age_ms)
        return x->age_ms > y->age_ms ? -1 : 1;
    return memcmp(x->record->owner, y->record->owner, sizeof x->record->owner);
}

/* Kind and capacity: those that most of the busy nodes report. */
static void merge_kind(const struct redlock_view *view, struct redlock_merged *merged)
{
    unsigned most = 0;

    for (unsigned i = 0; i < view->n; i++) {
        unsigned same = 0;

        if (!view->said[i].busy)
            continue;
        for (unsigned k = 0; k < view->n; k++)
            same += view->said[k].busy && view->said[k].mode == view->said[i].mode &&
                    view->said[k].capacity == view->said[i].capacity;
        if (same > most) {
            most = same;
            merged->mode = view->said[i].mode;
            merged->capacity = view->said[i].capacity;
        }
    }
}

/* Closed until a majority of all nodes is open. */
static int64_t merge_closed(const struct redlock_view *view)
{
    int64_t closed_ms[HFI_NODES_MAX] = { 0 };

    for (unsigned i = 0; i < view->n; i++)
        closed_ms[i] = view->said[i].closed_ms;
    qsort(closed_ms, view->n, sizeof *closed_ms, by_ms_left);
    return closed_ms[view->n - view->need];
}

bool redlock_merge(struct redlock_view *view, struct redlock_merged *ret_merged)
{
    struct redlock_merged *merged = ret_merged;
    size_t parties = 0, same;

    memset(merged, 0, sizeof *merged);
    merge_kind(view, merged);
    merged->closed_ms = merge_closed(view);
    if (!view->count)
        return true;
    merged->parties = hfi_calloc(view->count, sizeof *merged->parties);
    if (!merged->parties)
        return false;
    qsort(view->records, view->count, sizeof *view->records, by_owner);
    for (size_t i = 0; i < view->count; i += same) {
        struct redlock_party *party = &merged->parties[parties++];

        same = 1;
        while (i + same < view->count &&
               memcmp(view->records[i].owner, view->records[i + same].owner,
                      sizeof view->records[i].owner) == 0)
            same++;
        *party = party_of(view->records + i, same, view->need);
        merged->holders += party->holds;
        merged->waiters += !party->holds;
        if (party->holds)
            merged->taken += party->record->permits;
    }
    qsort(merged->parties, parties, sizeof *merged->parties, by_place);
    return true;
}
