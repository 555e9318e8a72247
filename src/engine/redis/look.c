/* SPDX-License-Identifier: MIT */
/*
 * LOOK: one script call finds the holders and waiters of a name. Most records have no label, but the id of a client, whose
 * label is a key by itself (identity.c), in a cluster on any server: these are asked for then, each once, all in one write. The
 * reply of the script is kept until they are there. With the lock; answers come from the driver.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT_OF_HOLDER = 11, CLIENT_OF_WAITER = 5 }; /* in their lists; the label is behind it */
enum { NUMBERS_OF_HOLDER = 13 };

struct label {
    unsigned char client[REDIS_CLIENT_LEN];
    char text[HF_LABEL_MAX + 1];
};

/* A look whose labels are under way. */
struct redis_looking {
    struct hfi_reply *reply; /* our copy */
    size_t awaited;          /* answers */
    size_t count;
    struct label labels[]; /* sorted by client */
};

static void finish(struct redis_store *store, struct hfi_op *op, hf_status status);

/* ---- a copy of a reply --------------------------------------------------------------------- */

static void drop(struct hfi_reply *reply)
{
    for (size_t i = 0; reply->items && i < reply->count; i++)
        drop((struct hfi_reply *)&reply->items[i]);
    hfi_free((void *)(uintptr_t)reply->items);
    hfi_free((void *)(uintptr_t)reply->text);
}

/* false: out of memory; what there is can be dropped. */
static bool copy(struct hfi_reply *to, const struct hfi_reply *from)
{
    struct hfi_reply *items = NULL;
    char *text = NULL;

    *to = (struct hfi_reply){ .type = from->type, .integer = from->integer };
    if (from->text) {
        if (!(text = hfi_malloc(from->len + 1)))
            return false;
        memcpy(text, from->text, from->len);
        text[from->len] = 0;
        to->text = text;
        to->len = from->len;
    }
    if (from->count) {
        if (!(items = hfi_calloc(from->count, sizeof *items)))
            return false;
        to->items = items;
        to->count = from->count;
    }
    for (size_t i = 0; i < from->count; i++)
        if (!copy(&items[i], &from->items[i]))
            return false;
    return true;
}

/* ---- telling core -------------------------------------------------------------------------- */

/* 0: there is none, or a negative one (REDIS_IDLE). */
static int64_t number(const struct hfi_reply *reply, size_t index)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    return item && item->integer > 0 ? item->integer : 0;
}

static int by_client(const void *a, const void *b)
{
    return memcmp(a, b, REDIS_CLIENT_LEN);
}

/* The client of a holder or waiter whose label is its client's; NULL: it has one of its own. */
static const unsigned char *client_of(const struct hfi_reply *item, size_t at)
{
    const struct hfi_reply *client = hfi_reply_at(item, at, HFI_REPLY_TEXT);
    const struct hfi_reply *label = hfi_reply_at(item, at + 1, HFI_REPLY_TEXT);

    return client && client->len == REDIS_CLIENT_LEN && label && label->len == 0
               ? (const unsigned char *)client->text
               : NULL;
}

static const char *label_of(const struct redis_looking *looking, const struct hfi_reply *item,
                            size_t at)
{
    const struct hfi_reply *own = hfi_reply_at(item, at + 1, HFI_REPLY_TEXT);
    const unsigned char *client = client_of(item, at);
    const struct label *label =
        client && looking->count
            ? bsearch(client, looking->labels, looking->count, sizeof *looking->labels, by_client)
            : NULL;

    return label ? label->text : own ? own->text : "";
}

static bool emit_holder(struct hfi_sink *sink, const struct redis_looking *looking,
                        const struct hfi_reply *item)
{
    int64_t flags = number(item, 5);
    const struct hfi_reply *thread = hfi_reply_at(item, 10, HFI_REPLY_INTEGER);
    const struct hfi_reply *numbers = hfi_reply_at(item, NUMBERS_OF_HOLDER, HFI_REPLY_TEXT);
    bool lingers = (flags & 32) != 0;
    hf_holder holder = { .token = (uint64_t)number(item, 1),
                         .first = (uint64_t)number(item, 2),
                         .permits = (uint32_t)number(item, 4),
                         .detached = (flags & 4) != 0,
                         .lingers = lingers,
                         .watched = (flags & 16) != 0,
                         .idle = lingers && thread && thread->integer == REDIS_IDLE,
                         .age_ms = hfi_told_ms(number(item, 6)),
                         .ttl_ms = hfi_told_ms(number(item, 7)),
                         .tid = number(item, 10),
                         .label = label_of(looking, item, CLIENT_OF_HOLDER) };

    if (numbers && redis_numbers_read(numbers->text, numbers->len, holder.permits, holder.slots))
        holder.slot_count = holder.permits;
    return sink->holder(sink, &holder);
}

static bool emit_waiter(struct hfi_sink *sink, const struct redis_looking *looking,
                        const struct hfi_reply *item, uint32_t position, int64_t mode)
{
    hf_waiter waiter = { .position = position,
                         .permits = (uint32_t)number(item, 1),
                         .age_ms = hfi_told_ms(number(item, 3)),
                         .label = label_of(looking, item, CLIENT_OF_WAITER) };

    waiter.kind = hfi_shown_kind(mode, waiter.permits);
    return sink->waiter(sink, &waiter);
}

/* `L`, mode, capacity, taken, closed, holders, waiters, resized (scripts/look.lua). */
static bool emit(struct hfi_sink *sink, const struct hfi_name *name,
                 const struct redis_looking *looking)
{
    const struct hfi_reply *reply = looking->reply;
    const struct hfi_reply *holders = hfi_reply_at(reply, 5, HFI_REPLY_LIST);
    const struct hfi_reply *waiters = hfi_reply_at(reply, 6, HFI_REPLY_LIST);
    int64_t mode = number(reply, 1);
    hf_entry entry = { .name = name->bytes,
                       .name_len = name->len,
                       .kind = hfi_shown_kind(mode, 1),
                       .capacity = (uint32_t)number(reply, 2),
                       .taken = (uint32_t)number(reply, 3),
                       .closed_ms = hfi_told_ms(number(reply, 4)),
                       .resized = number(reply, 7) > 0 };
    bool ok = sink->entry(sink, &entry);

    for (size_t i = 0; ok && holders && i < holders->count; i++)
        ok = emit_holder(sink, looking, &holders->items[i]);
    for (size_t i = 0; ok && waiters && i < waiters->count; i++)
        ok = emit_waiter(sink, looking, &waiters->items[i], (uint32_t)i + 1, mode);
    return ok;
}

/* ---- labels ----------------------------------------------------------------------------------- */

/* The clients whose labels are needed into `labels`, sorted, each once; their number. */
static size_t find_clients(const struct hfi_reply *reply, struct label *labels)
{
    size_t found = 0, count = 0;

    for (size_t part = 0; part < 2; part++) {
        const struct hfi_reply *list = hfi_reply_at(reply, 5 + part, HFI_REPLY_LIST);

        for (size_t i = 0; list && i < list->count; i++) {
            const unsigned char *client =
                client_of(&list->items[i], part ? CLIENT_OF_WAITER : CLIENT_OF_HOLDER);

            if (client)
                memcpy(labels[found++].client, client, REDIS_CLIENT_LEN);
        }
    }
    if (found)
        qsort(labels, found, sizeof *labels, by_client);
    for (size_t i = 0; i < found; i++)
        if (i == 0 || by_client(&labels[i], &labels[count - 1]) != 0)
            labels[count++] = labels[i];
    return count;
}

/* Nobody is told whose label is not there: its id is shown. */
static void label_came(struct redis_call *call, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_looking *looking = redis_op(call->op)->looking;
    struct label *label = call->data;

    (void)err;
    if (outcome == HFI_ANSWERED && reply->type == HFI_REPLY_TEXT)
        snprintf(label->text, sizeof label->text, "%s", reply->text);
    if (--looking->awaited == 0)
        finish(call->store, call->op, HF_OK);
}

static void ask_label(struct redis_store *store, struct hfi_op *op, struct label *label)
{
    char key[REDIS_CLIENT_KEY_MAX], hex[2 * REDIS_CLIENT_LEN + 1];
    size_t len = redis_client_key(store, label->client, key);
    struct redis_call *call;

    if (memcmp(label->client, store->client, REDIS_CLIENT_LEN) == 0) {
        snprintf(label->text, sizeof label->text, "%s", store->reactor.host->label);
        return;
    }
    hfi_hex(label->client, REDIS_CLIENT_LEN, hex);
    snprintf(label->text, sizeof label->text, "client %s", hex);
    call = redis_call_new(store, NULL, 0, label_came, NULL);
    if (!call)
        return;
    redis_op(op)->looking->awaited++;
    call->op = op;
    call->data = label;
    call->idempotent = true;
    call->command.slot = hfi_key_slot(key, len);
    hfi_command_add_text(&call->command, "GET");
    hfi_command_add(&call->command, key, len);
    redis_call_send(call);
}

/* ---- LOOK ------------------------------------------------------------------------------------ */

static void finish(struct redis_store *store, struct hfi_op *op, hf_status status)
{
    struct redis_looking *looking = redis_op(op)->looking;

    if (looking) {
        if (status == HF_OK && !emit(op->u.look.sink, &op->u.look.name, looking))
            status = HF_NO_MEMORY;
        drop(looking->reply);
        hfi_free(looking->reply);
        hfi_free(looking);
    }
    hfi_reactor_finish(&store->reactor, op, status, NULL);
}

/* Keep the reply, and ask for the labels. false: out of memory. */
static bool keep(struct hfi_op *op, const struct hfi_reply *reply)
{
    const struct hfi_reply *holders = hfi_reply_at(reply, 5, HFI_REPLY_LIST);
    const struct hfi_reply *waiters = hfi_reply_at(reply, 6, HFI_REPLY_LIST);
    size_t most = (holders ? holders->count : 0) + (waiters ? waiters->count : 0);
    struct redis_looking *looking = hfi_calloc(1, sizeof *looking + most * sizeof *looking->labels);

    if (!looking)
        return false;
    redis_op(op)->looking = looking;
    looking->reply = hfi_calloc(1, sizeof *looking->reply);
    if (!looking->reply || !copy(looking->reply, reply)) {
        if (looking->reply)
            drop(looking->reply);
        hfi_free(looking->reply);
        hfi_free(looking);
        redis_op(op)->looking = NULL;
        return false;
    }
    looking->count = find_clients(looking->reply, looking->labels);
    return true;
}

static void looked(struct redis_call *call, enum hfi_outcome outcome, const struct hfi_reply *reply,
                   const hf_error *err)
{
    struct redis_store *store = call->store;
    struct hfi_op *op = call->op;
    struct redis_looking *looking;
    char letter = hfi_reply_letter(reply);

    if (outcome != HFI_ANSWERED) {
        hfi_reactor_finish(&store->reactor, op, redis_unanswered(outcome, err), err);
        return;
    }
    if (letter != 'L' || !keep(op, reply)) {
        finish(store, op, letter == 'N' ? HF_OK : letter == 'L' ? HF_NO_MEMORY : HF_CORRUPT);
        return;
    }
    looking = redis_op(op)->looking;
    looking->awaited = 1; /* our own, until all are sent: an answer may come at once */
    for (size_t i = 0; i < looking->count; i++)
        ask_label(store, op, &looking->labels[i]);
    if (--looking->awaited == 0)
        finish(store, op, HF_OK);
}

void redis_look(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_call *call;

    redis_notes_send(store);
    call = redis_call_new(store, &hfi_script_look, REDIS_NAME_KEYS, looked, op);
    if (!call)
        return;
    call->idempotent = true;
    redis_add_keys(call, &op->u.look.name, true);
    redis_call_send(call);
}
