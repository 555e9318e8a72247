/* SPDX-License-Identifier: MIT */
/*
 * Inspect: one name is one script call. A pattern is a SCAN of every server for keys of
 * ours, then a script call for each name that matches, some at a time. SCAN may show a key
 * twice, so names are sorted and told apart before anybody is asked about them.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT 1000 /* keys that one SCAN looks at */
#define ASK_MAX    64   /* names asked about at a time */

struct found {
    uint32_t len;
    unsigned char *bytes;
};

/* One inspect of a pattern under way. */
struct search {
    struct hfi_op *op;
    uint32_t node; /* being scanned */
    struct found *names;
    size_t count, room, next; /* names[next] is asked about next */
    size_t asking;
    hf_status status; /* the first that went wrong */
    hf_error err;
};

static void looked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err);
static void scan(struct redis_store *store, struct search *search, const char *cursor, size_t len);
static void go_on(struct redis_store *store, struct search *search);

void redis_inspect(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct hfi_name name = { .bytes = op->u.inspect.pattern, .len = op->u.inspect.len };
    struct search *search;
    struct redis_call *call;

    redis_notes_send(store);
    if (op->u.inspect.glob) {
        search = hfi_calloc(1, sizeof *search);
        if (!search) {
            hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
            return;
        }
        search->op = op;
        search->node = store->slots ? redis_cluster_next(store, 0) : REDIS_NODE_ANY;
        scan(store, search, "0", 1);
        return;
    }
    call = redis_call_new(store, &hfi_script_look, 3, looked, op);
    if (!call)
        return;
    call->idempotent = true;
    redis_add_keys(call, &name, true);
    redis_call_send(call);
}

/* ---- one name ---------------------------------------------------------------------------- */

static int64_t number(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    return item && item->integer > 0 ? item->integer : 0;
}

static const char *text(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_TEXT);

    return item ? item->text : "";
}

static bool emit_holder(struct hfi_sink *sink, const struct hfi_reply *item)
{
    hf_holder holder = { .token = (uint64_t)number(item, 1),
                         .first = (uint64_t)number(item, 2),
                         .permits = (uint32_t)number(item, 4),
                         .detached = number(item, 5) & 4 ? 1 : 0,
                         .age_ms = hfi_told_ms(number(item, 6)),
                         .ttl_ms = hfi_told_ms(number(item, 7)),
                         .tid = number(item, 10),
                         .label = text(item, 11) };

    return sink->holder(sink, &holder);
}

static bool emit_waiter(struct hfi_sink *sink, const struct hfi_reply *item, uint32_t position,
                        int64_t mode)
{
    hf_waiter waiter = { .position = position,
                         .permits = (uint32_t)number(item, 1),
                         .kind = HF_KIND_MUTEX,
                         .age_ms = hfi_told_ms(number(item, 3)),
                         .label = text(item, 5) };

    if (mode == HFI_MODE_SEMAPHORE)
        waiter.kind = HF_KIND_SEMAPHORE;
    else if (mode == HFI_MODE_RW)
        waiter.kind = waiter.permits == HFI_RW_MAX ? HF_KIND_EXCLUSIVE : HF_KIND_SHARED;
    return sink->waiter(sink, &waiter);
}

/* `L`, mode, capacity, taken, closed, holders, waiters (scripts/look.lua). */
static bool emit(struct hfi_sink *sink, const unsigned char *name, uint32_t len,
                 const struct hfi_reply *reply)
{
    const struct hfi_reply *holders = hfi_reply_at(reply, 5, HFI_REPLY_LIST);
    const struct hfi_reply *waiters = hfi_reply_at(reply, 6, HFI_REPLY_LIST);
    int64_t mode = number(reply, 1);
    hf_entry entry = { .name = name,
                       .name_len = len,
                       .kind = mode == HFI_MODE_SEMAPHORE ? HF_KIND_SEMAPHORE
                               : mode == HFI_MODE_RW      ? HF_KIND_SHARED
                                                          : HF_KIND_MUTEX,
                       .capacity = (uint32_t)number(reply, 2),
                       .taken = (uint32_t)number(reply, 3),
                       .closed_ms = hfi_told_ms(number(reply, 4)) };
    bool ok = sink->entry(sink, &entry);

    for (size_t i = 0; ok && holders && i < holders->count; i++)
        ok = emit_holder(sink, &holders->items[i]);
    for (size_t i = 0; ok && waiters && i < waiters->count; i++)
        ok = emit_waiter(sink, &waiters->items[i], (uint32_t)i + 1, mode);
    return ok;
}

/* What the answer is worth: HF_OK, also when there is nothing to show. */
static hf_status take_look(const struct hfi_op *op, const unsigned char *name, uint32_t len,
                           enum hfi_outcome outcome, const struct hfi_reply *reply,
                           const hf_error *err)
{
    hf_status status;

    if (outcome != HFI_ANSWERED) {
        status = hfi_outcome_status(outcome, err);
        return status == HF_UNKNOWN ? HF_UNAVAILABLE : status; /* looking changes nothing */
    }
    switch (hfi_reply_letter(reply)) {
    case 'N':
        return HF_OK;
    case 'L':
        return emit(op->u.inspect.sink, name, len, reply) ? HF_OK : HF_NO_MEMORY;
    default:
        return HF_CORRUPT;
    }
}

static void looked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    struct hfi_op *op = call->op;

    hfi_reactor_finish(&call->store->reactor, op,
                       take_look(op, op->u.inspect.pattern, op->u.inspect.len, outcome, reply, err),
                       err);
}

/* ---- a pattern ------------------------------------------------------------------------------ */

static void end_search(struct redis_store *store, struct search *search)
{
    for (size_t i = 0; i < search->count; i++)
        hfi_free(search->names[i].bytes);
    hfi_free(search->names);
    hfi_reactor_finish(&store->reactor, search->op, search->status, &search->err);
    hfi_free(search);
}

static void fail_search(struct search *search, hf_status status, const hf_error *err)
{
    if (search->status != HF_OK)
        return;
    search->status = status;
    search->err.text[0] = 0;
    if (err)
        search->err = *err;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The name of a key "P{T}"; its length, or 0: not a name's first key. */
static uint32_t key_name(const struct redis_store *store, const char *key, size_t len,
                         unsigned char ret_name[HF_NAME_MAX])
{
    size_t skip = strlen(store->conf->prefix) + 1;
    uint32_t used = 0;

    if (len < skip + 2 || key[skip - 1] != '{' || key[len - 1] != '}' ||
        memcmp(key, store->conf->prefix, skip - 1) != 0)
        return 0;
    for (size_t i = skip; i < len - 1 && used < HF_NAME_MAX; i++) {
        int byte = (unsigned char)key[i];

        if (byte == '{' || byte == '}')
            return 0; /* it ends elsewhere: a queue, or nothing of ours */
        if (byte == '%') {
            int high = i + 2 < len ? hex_digit(key[i + 1]) : -1;
            int low = i + 2 < len ? hex_digit(key[i + 2]) : -1;

            if (high < 0 || low < 0)
                return 0;
            byte = 16 * high + low;
            i += 2;
        }
        ret_name[used++] = (unsigned char)byte;
    }
    return used;
}

static bool keep_name(struct search *search, const unsigned char *name, uint32_t len)
{
    struct found *names = search->names;

    if (search->count == search->room) {
        size_t room = search->room ? 2 * search->room : 64;

        names = hfi_realloc(names, room * sizeof *names);
        if (!names)
            return false;
        search->names = names;
        search->room = room;
    }
    names[search->count].bytes = hfi_malloc(len);
    if (!names[search->count].bytes)
        return false;
    memcpy(names[search->count].bytes, name, len);
    names[search->count++].len = len;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void drop_twins(struct search *search)
{
    size_t kept = 0;

    if (search->count > 1)
        qsort(search->names, search->count, sizeof *search->names, by_name);
    for (size_t i = 0; i < search->count; i++)
        if (kept == 0 || by_name(&search->names[kept - 1], &search->names[i]) != 0)
            search->names[kept++] = search->names[i];
        else
            hfi_free(search->names[i].bytes);
    search->count = kept;
}

static void scanned(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct search *search = call->data;
    struct hfi_op *op = search->op;
    const struct hfi_reply *cursor = hfi_reply_at(reply, 0, HFI_REPLY_TEXT);
    const struct hfi_reply *keys = hfi_reply_at(reply, 1, HFI_REPLY_LIST);
    unsigned char name[HF_NAME_MAX];

    if (outcome != HFI_ANSWERED || !cursor || !keys) {
        hf_status status = hfi_outcome_status(outcome, err);

        fail_search(search,
                    outcome == HFI_ANSWERED ? HF_CORRUPT
                    : status == HF_UNKNOWN  ? HF_UNAVAILABLE
                                            : status,
                    err);
        end_search(call->store, search);
        return;
    }
    for (size_t i = 0; i < keys->count; i++) {
        const struct hfi_reply *key = hfi_reply_at(keys, i, HFI_REPLY_TEXT);
        uint32_t len = key ? key_name(call->store, key->text, key->len, name) : 0;

        if (len > 0 && hfi_glob_match(op->u.inspect.pattern, op->u.inspect.len, name, len) &&
            !keep_name(search, name, len))
            fail_search(search, HF_NO_MEMORY, NULL);
    }
    if (cursor->len != 1 || cursor->text[0] != '0') {
        scan(call->store, search, cursor->text, cursor->len);
        return;
    }
    if (call->store->slots) {
        search->node = redis_cluster_next(call->store, search->node + 1);
        if (search->node != REDIS_NODE_ANY) {
            scan(call->store, search, "0", 1);
            return;
        }
    }
    drop_twins(search);
    go_on(call->store, search);
}

static void scan(struct redis_store *store, struct search *search, const char *cursor, size_t len)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, scanned, NULL);
    char pattern[2 * HFI_PREFIX_MAX + 3]; /* each byte escaped, and "{*}" */
    size_t used = 0;

    if (!call) {
        fail_search(search, HF_NO_MEMORY, NULL);
        end_search(store, search);
        return;
    }
    /* The prefix as it is, although it may hold characters of patterns. */
    for (const char *at = store->conf->prefix; *at; at++) {
        if (strchr("*?[]\\^", *at))
            pattern[used++] = '\\';
        pattern[used++] = *at;
    }
    memcpy(pattern + used, "{*}", 3);
    call->data = search;
    call->idempotent = true;
    call->node = search->node;
    hfi_command_add_text(&call->command, "SCAN");
    hfi_command_add(&call->command, cursor, len);
    hfi_command_add_text(&call->command, "MATCH");
    hfi_command_add(&call->command, pattern, used + 3);
    hfi_command_add_text(&call->command, "COUNT");
    hfi_command_add_number(&call->command, SCAN_COUNT);
    redis_call_send(call);
}

static void looked_at_one(struct redis_call *call, enum hfi_outcome outcome,
                          const struct hfi_reply *reply, const hf_error *err)
{
    struct search *search = (struct search *)call->op;
    const struct found *name = call->data;
    hf_status status = take_look(search->op, name->bytes, name->len, outcome, reply, err);

    if (status != HF_OK)
        fail_search(search, status, err);
    search->asking--;
    go_on(call->store, search);
}

static void go_on(struct redis_store *store, struct search *search)
{
    search->asking++; /* a call may be answered before it has been sent: do not end under us */
    while (search->status == HF_OK && search->next < search->count && search->asking <= ASK_MAX) {
        struct redis_call *call = redis_call_new(store, &hfi_script_look, 3, looked_at_one, NULL);
        struct found *found = &search->names[search->next];

        if (!call) {
            fail_search(search, HF_NO_MEMORY, NULL);
            break;
        }
        search->next++;
        search->asking++;
        call->op = (struct hfi_op *)search;
        call->data = found;
        call->idempotent = true;
        redis_add_keys(call, &(struct hfi_name){ .bytes = found->bytes, .len = found->len }, true);
        redis_call_send(call);
    }
    search->asking--;
    if (search->asking == 0 && (search->status != HF_OK || search->next == search->count))
        end_search(store, search);
}
