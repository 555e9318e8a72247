/* SPDX-License-Identifier: MIT */
/*
 * LIST and LOOK: read a page of claims, or all claims of a name; ask how long their leases live; then tell. What is
 * read of one name comes from one revision, so it fits together; so do all pages of a list.
 */
#include "engine/etcd/internal.h"

#include "engine/kit/position.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE       1000
#define LEASES_MAX 256 /* leases whose remaining ttl is asked for; for others the ttl is shown */

struct lifetime {
    int64_t id, left_ms;
};

struct place {        /* the cursor */
    int64_t revision; /* all pages are read at this revision; 0: the first tells */
    size_t asked;     /* leases, on the pages before */
    struct etcd_key from;
};
_Static_assert(sizeof(struct place) <= HFI_CURSOR_MAX, "a key fits into a cursor");

struct search {
    struct etcd_store *store;
    struct hfi_op *op;
    struct hfi_sink *sink;
    struct place *place; /* NULL: a LOOK */
    struct etcd_key from, to;
    struct etcd_record *records;
    size_t count, room;
    struct lifetime lives[LEASES_MAX];
    size_t life_count, asking;
};

static void ask_lives(struct search *search);
static void emit(struct search *search);

static void end(struct search *search, hf_status status, const hf_error *err)
{
    etcd_finish(search->store, search->op, status, err);
    hfi_free(search->records);
    hfi_free(search);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool wanted(const struct search *search, const struct etcd_record *record)
{
    return !search->place || hfi_glob_match(search->op->u.list.pattern, search->op->u.list.len,
                                            record->name, record->name_len);
}

static bool same_name(const struct etcd_record *a, const struct etcd_record *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool keep(struct search *search, const struct etcd_record *record)
{
    if (search->count == search->room) {
        size_t room = search->room ? 2 * search->room : 16;
        struct etcd_record *records = hfi_realloc(search->records, room * sizeof *records);

        if (!records)
            return false;
        search->records = records;
        search->room = room;
    }
    search->records[search->count++] = *record;
    return true;
}

static bool is_before(const struct etcd_key *a, const struct etcd_key *b)
{
    int order = memcmp(a->bytes, b->bytes, a->len < b->len ? a->len : b->len);

    return order < 0 || (order == 0 && a->len < b->len);
}

/* There are more pages, behind `key`. The last name on this one may go on there: then it is left to a LOOK, and the next page
 * begins behind it. */
static hf_status turn_page(struct search *search, struct etcd_message kv,
                           const struct etcd_record *last)
{
    struct place *place = search->place;
    struct etcd_key first, behind;

    if (!etcd_kv_key(kv, &place->from) || place->from.len == sizeof place->from.bytes)
        return HF_CORRUPT; /* not one of ours, and no place to go on from */
    place->from.bytes[place->from.len++] = 0;
    if (!is_before(&search->from, &place->from))
        return HF_CORRUPT; /* pages go forward */
    search->op->u.list.cursor->len = sizeof *place;
    if (last->name_len == 0)
        return HF_OK;
    etcd_name_range(search->store->conf->prefix, last->name, last->name_len, &first, &behind);
    if (!is_before(&place->from, &behind))
        return HF_OK;
    place->from = behind;
    while (search->count > 0 && same_name(&search->records[search->count - 1], last))
        search->count--;
    return search->sink->name(search->sink, last->name, last->name_len) ? HF_OK : HF_NO_MEMORY;
}

static hf_status take_page(struct search *search, struct etcd_message reply)
{
    struct etcd_message at = reply, one = { NULL, 0 };
    struct etcd_record record, last = { .name_len = 0 };

    while (etcd_next(&at, ETCD_RANGE_KVS, &one)) {
        if (!etcd_kv(search->store->conf->prefix, one, &record))
            continue;
        last = record;
        if (wanted(search, &record) && !keep(search, &record))
            return HF_NO_MEMORY;
    }
    if (!search->place)
        return HF_OK;
    search->op->u.list.cursor->len = 0;
    if (!search->place->revision)
        search->place->revision = etcd_revision(reply);
    return etcd_number(reply, ETCD_RANGE_MORE) ? turn_page(search, one, &last) : HF_OK;
}

static void page_read(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct search *search = call->data;
    hf_status status;

    if (outcome != HFI_ANSWERED) {
        end(search, outcome == HFI_MAYBE ? HF_UNAVAILABLE : hfi_outcome_status(outcome, err), err);
        return;
    }
    status = take_page(search, reply);
    if (status == HF_OK)
        ask_lives(search);
    else
        end(search, status, NULL);
}

static void read_page(struct search *search)
{
    struct etcd_call *call = etcd_call_new(search->store, &etcd_range_method, page_read, NULL);
    struct etcd_range page = { .key = &search->from, .to = &search->to };

    if (!call) {
        end(search, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = search;
    call->again = true;
    if (search->place) {
        page.limit = PAGE;
        page.revision = search->place->revision; /* 0: the newest */
    }
    etcd_add_range(&call->body, &page);
    etcd_call_send(call);
}

static struct search *search_new(struct etcd_store *store, struct hfi_op *op, struct hfi_sink *sink)
{
    struct search *search = hfi_calloc(1, sizeof *search);

    if (search) {
        search->store = store;
        search->op = op;
        search->sink = sink;
    } else {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
    }
    return search;
}

void etcd_list(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct search *search = search_new(store, op, op->u.list.sink);

    if (!search)
        return;
    search->place = (struct place *)(void *)op->u.list.cursor->bytes;
    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &search->from, &search->to);
    if (op->u.list.cursor->len > 0)
        search->from = search->place->from;
    else
        *search->place = (struct place){ .revision = 0 };
    read_page(search);
}

void etcd_look(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct search *search = search_new(store, op, op->u.look.sink);

    if (!search)
        return;
    etcd_name_range(store->conf->prefix, op->u.look.name.bytes, op->u.look.name.len, &search->from,
                    &search->to);
    read_page(search);
}

/* ---- how long they live ------------------------------------------------------------------------------------ */

static int by_name_and_age(const void *a, const void *b)
{
    const struct etcd_record *x = a, *y = b;
    uint32_t len = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, len);

    if (order == 0)
        order = (x->name_len > y->name_len) - (x->name_len < y->name_len);
    return order ? order : (x->revision > y->revision) - (x->revision < y->revision);
}

static struct lifetime *life_of(struct search *search, int64_t id)
{
    for (size_t i = 0; i < search->life_count; i++)
        if (search->lives[i].id == id)
            return &search->lives[i];
    return NULL;
}

static void lives(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                  const hf_error *err)
{
    struct search *search = call->data;
    struct lifetime *life = life_of(search, etcd_number(reply, ETCD_LEASE_ID));

    (void)err;
    if (outcome == HFI_ANSWERED && life)
        life->left_ms = etcd_ttl_ms(reply);
    if (--search->asking == 0)
        emit(search);
}

static void ask_lives(struct search *search)
{
    size_t most = LEASES_MAX - (search->place ? search->place->asked : 0);

    if (search->count > 1)
        qsort(search->records, search->count, sizeof *search->records, by_name_and_age);
    search->asking = 1; /* our own count, until all are sent */
    for (size_t i = 0; i < search->count && search->life_count < most; i++) {
        int64_t id = search->records[i].lease;
        struct etcd_call *call;

        if (life_of(search, id))
            continue;
        search->lives[search->life_count++] =
            (struct lifetime){ id, search->records[i].ttl_s * 1000 };
        call = etcd_call_new(search->store, &etcd_ttl_method, lives, NULL);
        if (!call)
            continue;
        call->data = search;
        call->again = true;
        etcd_add_id(&call->body, id);
        search->asking++;
        etcd_call_send(call);
    }
    if (search->place)
        search->place->asked += search->life_count;
    if (--search->asking == 0)
        emit(search);
}

/* ---- telling ------------------------------------------------------------------------------------------------- */

static int64_t age_ms(const struct etcd_record *record)
{
    struct timespec now;
    int64_t age;

    clock_gettime(CLOCK_REALTIME, &now);
    age = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - record->since_ms;
    return age > 0 ? age : 0;
}

static bool emit_one(struct search *search, const struct etcd_record *record, uint32_t waiting)
{
    struct hfi_sink *sink = search->sink;
    const struct lifetime *life = life_of(search, record->lease);
    hf_holder holder = { .token = record->revision,
                         .first = record->revision,
                         .permits = record->permits,
                         .detached = record->detached,
                         .watched = record->watched,
                         .age_ms = age_ms(record),
                         .ttl_ms = life ? life->left_ms : record->ttl_s * 1000,
                         .label = record->label };
    hf_waiter waiter = { .position = waiting,
                         .permits = record->permits,
                         .kind = hfi_shown_kind(record->mode, record->permits),
                         .age_ms = holder.age_ms,
                         .label = record->label };

    return waiting ? sink->waiter(sink, &waiter) : sink->holder(sink, &holder);
}

/* The records from `i` on that are of one name; returns the first of the next. */
static size_t emit_name(struct search *search, size_t i, bool *ok)
{
    struct hfi_sink *sink = search->sink;
    const struct etcd_record *first = &search->records[i];
    hf_entry entry = { .name = first->name,
                       .name_len = first->name_len,
                       .kind = hfi_shown_kind(first->mode, 1),
                       .capacity = first->capacity };
    struct hfi_line line = { .count = 0 };
    size_t end = i;

    for (; end < search->count && same_name(first, &search->records[end]); end++) {
        const struct etcd_record *one = &search->records[end];

        if (hfi_line_add(&line, &(struct hfi_demand){ one->mode, one->capacity, one->permits }))
            entry.taken = (uint32_t)line.taken;
    }
    *ok = sink->entry(sink, &entry);
    for (size_t k = 0; k < line.count && *ok; k++)
        *ok = emit_one(search, &search->records[i + k],
                       k < line.holders ? 0 : (uint32_t)(k - line.holders + 1));
    return end;
}

static void emit(struct search *search)
{
    bool ok = true;

    for (size_t i = 0; i < search->count && ok;)
        i = emit_name(search, i, &ok);
    end(search, ok ? HF_OK : HF_NO_MEMORY, NULL);
}
