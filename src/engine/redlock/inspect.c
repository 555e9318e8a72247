/* SPDX-License-Identifier: MIT */
/*
 * Inspect and break. One name is one round of `look`. A pattern is a SCAN of every node that is up for keys of
 * ours, then a round for each name that matches, some at a time. Break looks first, to learn who has that token
 * by majority, and then ends that owner's attempt at every node.
 *
 * With the lock; answers come from the driver.
 */
#include "engine/redlock/inspect.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
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
    unsigned scanned; /* nodes that showed all their keys */
    struct found *names;
    size_t count, room, next; /* names[next] is asked about next */
    size_t asking;            /* rounds under way */
    hf_status status;         /* the first that went wrong */
    hf_error err;
};

/* One name being looked at: for an inspect, for one of many (`search`), or for a break. */
struct look {
    struct hfi_op *op;
    struct search *search;
    struct hfi_name name;
    struct redlock_view view;
    hf_status status; /* of the last node that said no */
    hf_error err;
};

static void looked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err);
static void all_looked(struct redlock_round *round);
static hf_status emit(const struct look *look, struct hfi_sink *sink,
                      struct redlock_merged *merged);
static void scan_all(struct redlock_store *store, struct hfi_op *op);
static void scan(struct redlock_store *store, struct search *search, unsigned node,
                 const char *cursor, size_t len);
static void go_on(struct redlock_store *store, struct search *search);
static void break_found(struct redlock_store *store, const struct look *look,
                        const struct redlock_merged *merged);

/* ---- one name ---------------------------------------------------------------------------- */

/* Nodes that owe an answer for long are left out as long as the others are enough. */
static uint32_t askable(const struct redlock_store *store)
{
    uint32_t up = redlock_nodes_up(store), quick = up;
    int64_t now_ms = hfi_now_ms();

    for (unsigned i = 0; i < store->n; i++)
        if (up & 1u << i && redlock_node_silent(&store->nodes[i], now_ms))
            quick &= ~(1u << i);
    return redlock_count(quick) >= store->need ? quick : up;
}

static bool look_at(struct redlock_store *store, struct hfi_op *op, struct search *search,
                    const struct hfi_name *name)
{
    struct look *look = hfi_calloc(1, sizeof *look);
    struct redlock_round *round = redlock_round_new(store, &redlock_script_look, 1, looked);
    uint32_t nodes = askable(store);

    if (!look || !round) {
        hfi_free(look);
        if (round)
            redlock_round_free(round);
        return false;
    }
    look->op = op;
    look->search = search;
    look->name = *name;
    look->view.n = store->n;
    look->view.need = store->need;
    round->data = look;
    round->over = all_looked;
    redlock_add_name(round, name);
    redlock_round_send(round, nodes);
    return true;
}

void redlock_inspect(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;
    struct hfi_name name = { .bytes = op->u.inspect.pattern, .len = op->u.inspect.len };

    redlock_notes_send(store); /* our own passes, before anybody's token is shown */
    if (op->u.inspect.glob)
        scan_all(store, op);
    else if (!look_at(store, op, NULL, &name))
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
}

void redlock_break(void *self, struct hfi_op *op)
{
    struct redlock_store *store = self;

    redlock_notes_send(store); /* ... or compared */
    if (!look_at(store, op, NULL, &op->u.brk.name))
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
}

static void looked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err)
{
    struct look *look = round->data;

    if (outcome != HFI_ANSWERED) {
        look->status = err->status;
        look->err = *err;
    } else if (!redlock_view_take(&look->view, node, reply)) {
        look->status = hfi_error_set(&look->err, HF_CORRUPT, 0,
                                     "%s: an answer to look that is not one of ours",
                                     round->store->conf->url.hosts[node].shown);
    }
}

/* Too few nodes have answered: why. */
static hf_status too_few(const struct redlock_store *store, unsigned answered, hf_status status,
                         hf_error *err)
{
    if (status == HF_OK || status == HF_UNAVAILABLE)
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "%u of %u nodes answered, and %u are needed",
                             answered, store->n, store->need);
    return status;
}

static void all_looked(struct redlock_round *round)
{
    struct redlock_store *store = round->store;
    struct look *look = round->data;
    struct search *search = look->search;
    struct redlock_merged merged = { .parties = NULL };
    hf_status status = HF_OK;

    if (look->view.failed)
        status = hfi_error_memory(&look->err);
    else if (look->view.answered < store->need)
        status = too_few(store, look->view.answered, look->status, &look->err);
    else if (!redlock_merge(&look->view, &merged))
        status = hfi_error_memory(&look->err);

    if (look->op->kind == HFI_OP_BREAK && status == HF_OK) {
        break_found(store, look, &merged);
    } else {
        if (status == HF_OK)
            status = emit(look, look->op->u.inspect.sink, &merged);
        if (!search)
            hfi_reactor_finish(&store->reactor, look->op, status, &look->err);
        else if (status != HF_OK && search->status == HF_OK) {
            search->status = status;
            search->err = look->err;
        }
    }
    redlock_merged_done(&merged);
    redlock_view_done(&look->view);
    hfi_free(look);
    if (search) {
        search->asking--;
        go_on(store, search);
    }
}

static hf_kind kind_of(int64_t mode, uint32_t permits)
{
    if (mode == HFI_MODE_SEMAPHORE)
        return HF_KIND_SEMAPHORE;
    if (mode == HFI_MODE_RW)
        return permits == HFI_RW_MAX ? HF_KIND_EXCLUSIVE : HF_KIND_SHARED;
    return HF_KIND_MUTEX;
}

static bool emit_party(struct hfi_sink *sink, const struct redlock_party *party, uint32_t position,
                       int64_t mode)
{
    const struct redlock_record *record = party->record;
    hf_holder holder = { .token = party->token,
                         .first = party->first,
                         .permits = record->permits,
                         .detached = record->detached,
                         .age_ms = party->age_ms,
                         .ttl_ms = party->left_ms,
                         .tid = party->tid,
                         .label = record->label };
    hf_waiter waiter = { .position = position,
                         .permits = record->permits,
                         .kind = kind_of(mode, record->permits),
                         .age_ms = party->age_ms,
                         .label = record->label };

    return party->holds ? sink->holder(sink, &holder) : sink->waiter(sink, &waiter);
}

static hf_status emit(const struct look *look, struct hfi_sink *sink, struct redlock_merged *merged)
{
    hf_entry entry = { .name = look->name.bytes,
                       .name_len = look->name.len,
                       .kind = kind_of(merged->mode, 0),
                       .capacity = (uint32_t)merged->capacity,
                       .taken = merged->taken,
                       .closed_ms = merged->closed_ms };
    bool ok;

    if (!merged->holders && !merged->waiters && !merged->closed_ms)
        return HF_OK; /* nothing to show */
    ok = sink->entry(sink, &entry);
    for (size_t i = 0; ok && i < merged->holders + merged->waiters; i++)
        ok = emit_party(sink, &merged->parties[i], (uint32_t)(i + 1 - merged->holders),
                        merged->mode);
    return ok ? HF_OK : HF_NO_MEMORY;
}

/* ---- break ---------------------------------------------------------------------------------- */

/* Enough have answered: whether it held there or not, they hold nothing of it now, and never will again. */
static void broke(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    char letter = outcome == HFI_ANSWERED ? hfi_reply_letter(reply) : 0;
    const struct hfi_name *name = round->op ? &round->op->u.brk.name : NULL;

    (void)err;
    if (letter == 'R')
        round->yes++;
    else if (letter == 'N')
        round->no++;
    else if (name) /* it is told when it can be */
        redlock_defer_release(&store->nodes[node], name, round->owner, round->attempt,
                              round->ttl_ms);
    if (round->op && round->yes + round->no >= store->need && !round->sending) {
        hfi_reactor_finish(&store->reactor, round->op, round->yes ? HF_OK : HF_NOT_FOUND, NULL);
        round->op = NULL;
    }
}

static void all_broke(struct redlock_round *round)
{
    hf_error err;

    if (!round->op)
        return;
    if (round->yes + round->no >= round->store->need)
        hfi_reactor_finish(&round->store->reactor, round->op, round->yes ? HF_OK : HF_NOT_FOUND,
                           NULL);
    else {
        hfi_error_set(&err, HF_UNKNOWN, 0, "%u of %u nodes confirmed it, and %u are needed",
                      round->yes + round->no, round->store->n, round->store->need);
        hfi_reactor_finish(&round->store->reactor, round->op, HF_UNKNOWN, &err);
    }
}

static void break_owner(struct redlock_store *store, struct hfi_op *op,
                        const struct redlock_record *record)
{
    struct redlock_round *round = redlock_round_new(store, &redlock_script_break, 2, broke);
    const struct hfi_name *name = &op->u.brk.name;

    if (!round || !hfi_unhex(record->owner, sizeof record->owner, round->owner, HFI_OWNER_LEN)) {
        hfi_reactor_finish(&store->reactor, op, round ? HF_CORRUPT : HF_NO_MEMORY, NULL);
        if (round)
            redlock_round_free(round);
        return;
    }
    round->op = op;
    round->over = all_broke;
    round->attempt = record->attempt;
    round->ttl_ms = record->ttl_ms;
    redlock_add_cluster(round);
    redlock_add_name(round, name);
    hfi_command_add(&round->command, name->bytes, name->len);
    redis_add_owner(&round->command, round->owner);
    hfi_command_add_number(&round->command, (int64_t)record->attempt);
    hfi_command_add_number(&round->command, record->ttl_ms);
    hfi_command_add_number(&round->command, (int64_t)redlock_proposal(store));
    redlock_round_send(round, (1u << store->n) - 1);
}

static void break_found(struct redlock_store *store, const struct look *look,
                        const struct redlock_merged *merged)
{
    for (size_t i = 0; i < merged->holders; i++)
        if (merged->parties[i].token == look->op->u.brk.token) {
            break_owner(store, look->op, merged->parties[i].record);
            return;
        }
    hfi_reactor_finish(&store->reactor, look->op, HF_NOT_FOUND, NULL);
}

/* ---- a pattern ------------------------------------------------------------------------------ */

static void end_search(struct redlock_store *store, struct search *search)
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
    hfi_error_clear(&search->err);
    if (err)
        search->err = *err;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The name of a key "P{T}"; its length, or 0: not a name's first key. */
static uint32_t key_name(const struct redlock_store *store, const char *key, size_t len,
                         unsigned char ret_name[HF_NAME_MAX])
{
    size_t skip = store->prefix_len + 1;
    uint32_t used = 0;

    if (len < skip + 2 || key[skip - 1] != '{' || key[len - 1] != '}' ||
        memcmp(key, store->prefix, skip - 1) != 0)
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
    if (search->count == search->room) {
        size_t room = search->room ? 2 * search->room : 64;
        struct found *names = hfi_realloc(search->names, room * sizeof *names);

        if (!names)
            return false;
        search->names = names;
        search->room = room;
    }
    search->names[search->count].bytes = hfi_malloc(len);
    if (!search->names[search->count].bytes)
        return false;
    memcpy(search->names[search->count].bytes, name, len);
    search->names[search->count++].len = len;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Every name is at several nodes, and SCAN may show a key twice. */
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

static void keep_keys(struct redlock_store *store, struct search *search,
                      const struct hfi_reply *keys)
{
    const struct hfi_op *op = search->op;
    unsigned char name[HF_NAME_MAX];

    for (size_t i = 0; i < keys->count; i++) {
        const struct hfi_reply *key = hfi_reply_at(keys, i, HFI_REPLY_TEXT);
        uint32_t len = key ? key_name(store, key->text, key->len, name) : 0;

        if (len > 0 && hfi_glob_match(op->u.inspect.pattern, op->u.inspect.len, name, len) &&
            !keep_name(search, name, len))
            fail_search(search, HF_NO_MEMORY, NULL);
    }
}

static void scanned(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct search *search = round->data;
    const struct hfi_reply *cursor = hfi_reply_at(reply, 0, HFI_REPLY_TEXT);
    const struct hfi_reply *keys = hfi_reply_at(reply, 1, HFI_REPLY_LIST);

    if (outcome != HFI_ANSWERED) { /* the others may be enough */
        search->err = *err;
        return;
    }
    if (!cursor || !keys) {
        fail_search(search, HF_CORRUPT, NULL);
        return;
    }
    keep_keys(round->store, search, keys);
    if (search->status == HF_OK && (cursor->len != 1 || cursor->text[0] != '0'))
        scan(round->store, search, node, cursor->text, cursor->len);
    else
        search->scanned++;
}

/* When no node is being scanned any more the names are asked about. */
static void scan_over(struct redlock_store *store, struct search *search)
{
    if (--search->asking > 0)
        return;
    if (search->status == HF_OK && search->scanned < store->need)
        search->status = too_few(store, search->scanned, search->err.status, &search->err);
    drop_twins(search);
    go_on(store, search);
}

static void one_scanned(struct redlock_round *round)
{
    scan_over(round->store, round->data);
}

static void scan(struct redlock_store *store, struct search *search, unsigned node,
                 const char *cursor, size_t len)
{
    struct redlock_round *round = redlock_round_new(store, NULL, 0, scanned);
    char pattern[2 * sizeof store->prefix + 3]; /* each byte escaped, and "{*}" */
    size_t used = 0;

    if (!round) {
        fail_search(search, HF_NO_MEMORY, NULL);
        return;
    }
    /* The prefix as it is, although it may hold characters of patterns. */
    for (size_t i = 0; i < store->prefix_len; i++) {
        if (strchr("*?[]\\^", store->prefix[i]))
            pattern[used++] = '\\';
        pattern[used++] = store->prefix[i];
    }
    memcpy(pattern + used, "{*}", 3);
    round->data = search;
    round->over = one_scanned;
    search->asking++;
    hfi_command_add_text(&round->command, "SCAN");
    hfi_command_add(&round->command, cursor, len);
    hfi_command_add_text(&round->command, "MATCH");
    hfi_command_add(&round->command, pattern, used + 3);
    hfi_command_add_text(&round->command, "COUNT");
    hfi_command_add_number(&round->command, SCAN_COUNT);
    redlock_round_send(round, 1u << node);
}

static void scan_all(struct redlock_store *store, struct hfi_op *op)
{
    struct search *search = hfi_calloc(1, sizeof *search);
    uint32_t nodes = askable(store);

    if (!search) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    search->op = op;
    search->asking = 1; /* one may be over before the next is sent: do not end under us */
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i)
            scan(store, search, i, "0", 1);
    scan_over(store, search);
}

static void go_on(struct redlock_store *store, struct search *search)
{
    search->asking++; /* as above */
    while (search->status == HF_OK && search->next < search->count && search->asking <= ASK_MAX) {
        struct found *found = &search->names[search->next++];
        struct hfi_name name = { .bytes = found->bytes, .len = found->len };

        search->asking++;
        if (!look_at(store, search->op, search, &name)) {
            search->asking--;
            fail_search(search, HF_NO_MEMORY, NULL);
        }
    }
    search->asking--;
    if (search->asking == 0 && (search->status != HF_OK || search->next == search->count))
        end_search(store, search);
}
