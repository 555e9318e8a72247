/* SPDX-License-Identifier: MIT */
/* The list of a group's members: see members.h. */
#include "prim/members.h"

#include "prim/record.h"
#include "util/alloc.h"
#include "util/hash.h"
#include "util/list.h"

#include <stdlib.h>
#include <string.h>

struct hf_members {
    size_t count;
    hf_member items[];
};

struct found {
    hf_member member;
    size_t at; /* where its value begins, in `texts` */
};

struct members_sink {
    struct hfi_sink sink;
    bool readers; /* the entry is a read-write lock */
    size_t count, room;
    struct found *found;
    struct hfi_buffer texts;
};

/* ---- collecting ------------------------------------------------------------------------------------------- */

/* A name may come again, as of a later moment: then only that counts. */
static bool take_entry(struct hfi_sink *sink, const hf_entry *entry)
{
    struct members_sink *own = hfi_container(sink, struct members_sink, sink);

    own->readers = entry->kind == HF_KIND_SHARED;
    own->count = 0;
    own->texts.len = 0;
    return true;
}

static bool make_room(struct members_sink *own)
{
    size_t room = own->room ? own->room * 2 : 16;
    struct found *found;

    if (own->count < own->room)
        return true;
    found = hfi_realloc(own->found, room * sizeof *found);
    if (!found)
        return false;
    own->found = found;
    own->room = room;
    return true;
}

static bool take_holder(struct hfi_sink *sink, const hf_holder *holder)
{
    struct members_sink *own = hfi_container(sink, struct members_sink, sink);
    const char *value = holder->label ? holder->label : "";

    if (!own->readers || holder->permits != 1)
        return true; /* the writer */
    if (!make_room(own))
        return false;
    own->found[own->count] = (struct found){ .member = { .token = holder->token,
                                                         .age_ms = holder->age_ms,
                                                         .ttl_ms = holder->ttl_ms,
                                                         .pid = holder->pid },
                                             .at = own->texts.len };
    if (!hfi_put_bytes(&own->texts, value, strlen(value) + 1))
        return false;
    own->count++;
    return true;
}

static bool take_waiter(struct hfi_sink *sink, const hf_waiter *waiter)
{
    (void)sink;
    (void)waiter;
    return true;
}

struct hfi_sink *hfi_members_sink_new(void)
{
    struct members_sink *own = hfi_calloc(1, sizeof *own);

    if (!own)
        return NULL;
    own->sink = (struct hfi_sink){ NULL, take_entry, take_holder, take_waiter };
    return &own->sink;
}

void hfi_members_sink_forget(void *sink, struct hfi_op *op)
{
    struct members_sink *own = hfi_container(sink, struct members_sink, sink);

    (void)op;
    hfi_free(own->found);
    hfi_buffer_done(&own->texts);
    hfi_free(own);
}

/* ---- the list --------------------------------------------------------------------------------------------- */

static int by_token(const void *left, const void *right)
{
    const struct found *a = left, *b = right;

    return a->member.token < b->member.token ? -1 : a->member.token > b->member.token;
}

hf_members *hfi_members_new(const struct hfi_sink *sink)
{
    const struct members_sink *own =
        hfi_container((struct hfi_sink *)(uintptr_t)sink, struct members_sink, sink);
    hf_members *members =
        hfi_malloc(sizeof *members + own->count * sizeof *members->items + own->texts.len + 1);
    char *texts;

    if (!members)
        return NULL;
    members->count = own->count;
    texts = (char *)(members->items + own->count);
    if (own->texts.len > 0)
        memcpy(texts, own->texts.bytes, own->texts.len);
    if (own->count > 0)
        qsort(own->found, own->count, sizeof *own->found, by_token);
    for (size_t i = 0; i < own->count; i++) {
        members->items[i] = own->found[i].member;
        members->items[i].value = texts + own->found[i].at;
    }
    return members;
}

uint64_t hfi_members_digest(const hf_members *members)
{
    uint64_t digest[2] = { members->count, 0 };

    for (size_t i = 0; i < members->count; i++) {
        uint64_t what[3] = { digest[0], digest[1], members->items[i].token };

        hfi_hash128(what, sizeof what, digest);
    }
    return digest[0];
}

size_t hf_members_count(const hf_members *members)
{
    return members ? members->count : 0;
}

const hf_member *hf_members_item(const hf_members *members, size_t index)
{
    return members && index < members->count ? &members->items[index] : NULL;
}
