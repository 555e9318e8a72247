/* SPDX-License-Identifier: MIT */
/*
 * LOOK is one get. LIST asks the server for its keys (`lru_crawler metadump hash`), then reads every
 * key of ours: whole entries, in one page, since the dump has no cursor. It does not leave the
 * reading to core, as it could with bare names: the key of a long name is a hash, and only its
 * record tells the name.
 *
 * The dump walks the hash table. (`all` would walk the LRU lists, between which items move, also
 * when they are read: it misses some.) It lists all keys of the server, so it has a connection of
 * its own: commands after it would have to wait. The server does one dump at a time; while it is
 * busy we ask again.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_MAX 64 /* names read at a time */
#define BUSY_MS 30 /* until we ask again for a dump */

static const char dump_command[] = "lru_crawler metadump hash\r\n";

enum stage { DUMPING, READING, OVER };

/* One LIST under way. */
struct memcached_search {
    struct memcached_search *next;
    struct memcached_store *store;
    struct hfi_op *op;
    enum stage stage;
    struct memcached_connection connection; /* of the dump; the driver makes it */
    struct memcached_sent sent;
    bool asked;
    int64_t ask_ms, until_ms; /* when to ask for the dump; and until when */
    struct memcached_key *keys;
    size_t count, room, read; /* keys[read] is read next */
    size_t asking;
    hf_status status; /* the first that went wrong */
    hf_error err;
};

/* ---- LOOK -------------------------------------------------------------------------------- */

static int64_t age_ms(int64_t since_ms)
{
    struct timespec t;
    int64_t now_ms;

    clock_gettime(CLOCK_REALTIME, &t);
    now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    return now_ms > since_ms ? now_ms - since_ms : 0;
}

/* The time that is certainly left: the server was told a longer ttl than the caller asked for. */
static int64_t left_ms(const struct memcached_reply *reply)
{
    int64_t left = (reply->ttl_s - MEMCACHED_LATE_S) * 1000 - MEMCACHED_GUARD_MS;

    if (!reply->has_ttl || reply->ttl_s < 0)
        return -1;
    return left > 0 ? left : 0;
}

static bool emit(struct hfi_sink *sink, const struct memcached_record *record,
                 const struct memcached_reply *reply)
{
    hf_entry entry = { .name = record->name,
                       .name_len = record->name_len,
                       .kind = HF_KIND_MUTEX,
                       .capacity = 1,
                       .taken = 1 };
    char label[HF_LABEL_MAX + 1] = { 0 };
    hf_holder holder = { .permits = 1,
                         .detached = record->detached,
                         .age_ms = age_ms(record->since_ms),
                         .ttl_ms = left_ms(reply),
                         .label = label };

    memcpy(label, record->label, record->label_len);
    return sink->entry(sink, &entry) && sink->holder(sink, &holder);
}

static void looked(struct memcached_call *call, enum hfi_outcome outcome,
                   const struct memcached_reply *reply)
{
    struct hfi_op *op = call->op;
    struct memcached_record record;
    hf_status status;
    hf_error err;

    if (outcome != HFI_ANSWERED || (reply->kind != MEMCACHED_VA && reply->kind != MEMCACHED_EN)) {
        status = memcached_trouble(call->store, outcome, false, reply, &err);
        hfi_reactor_finish(&call->store->reactor, op, status, &err);
        return;
    }
    if (reply->kind == MEMCACHED_EN) {
        hfi_reactor_finish(&call->store->reactor, op, HF_OK,
                           NULL); /* the lease has expired: no entry */
        return;
    }
    status = memcached_read(reply, &op->u.look.name, &record, &err);
    if (status != HF_OK)
        hfi_reactor_finish(&call->store->reactor, op, status, &err);
    else
        hfi_reactor_finish(&call->store->reactor, op,
                           emit(op->u.look.sink, &record, reply) ? HF_OK : HF_NO_MEMORY, NULL);
}

void memcached_look(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct memcached_call *call = memcached_call_new(store, 'l', &op->u.look.name, op);

    if (call)
        memcached_call_go(call, MEMCACHED_GET, looked);
}

/* ---- LIST: the dump ------------------------------------------------------------------------ */

static void dump_up(struct memcached_connection *connection);
static void dump_down(struct memcached_connection *connection, hf_status status, const char *why);
static void dumped(struct memcached_sent *sent, const struct memcached_reply *reply, bool maybe);
static void go_on(struct memcached_search *search);

static const struct memcached_connection_calls dump_calls = { .up = dump_up, .down = dump_down };

void memcached_list(void *self, struct hfi_op *op)
{
    struct memcached_store *store = self;
    struct memcached_search *search = hfi_calloc(1, sizeof *search);
    int64_t now_ms = hfi_now_ms();

    if (!search) {
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    search->store = store;
    search->op = op;
    search->ask_ms = now_ms; /* the driver opens it */
    search->until_ms = now_ms + store->conf->connect_ms + store->conf->op_ms;
    search->next = store->searches;
    store->searches = search;
}

static void fail(struct memcached_search *search, hf_status status, const char *why)
{
    if (search->status == HF_OK)
        search->status = hfi_error_set(&search->err, status, 0, "%s", why);
    if (search->stage == DUMPING)
        search->stage = READING;
    search->read = search->count; /* read no more */
    go_on(search);
}

static void dump_down(struct memcached_connection *connection, hf_status status, const char *why)
{
    struct memcached_search *search = connection->data;

    if (search->stage == DUMPING)
        fail(search, status, why);
}

static void dump_up(struct memcached_connection *connection)
{
    struct memcached_search *search = connection->data;
    char *to = hfi_stream_reserve(&connection->stream, sizeof dump_command);

    if (to)
        memcpy(to, dump_command, sizeof dump_command - 1);
    search->asked = true;
    search->sent.sent.lines = true;
    search->sent.answered = dumped;
    memcached_connection_send(connection, to ? sizeof dump_command - 1 : 0, &search->sent);
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "key=hf%3Al%3Ajob exp=..." into the key; false: it is too long, or not encoded as it should be. */
static bool dumped_key(const struct memcached_reply *reply, struct memcached_key *ret_key)
{
    const char *at = reply->text + 4, *end = reply->text + reply->len;

    ret_key->len = 0;
    for (; at < end && *at != ' '; at++) {
        char byte = *at;

        if (byte == '%') {
            if (end - at < 3 || hex(at[1]) < 0 || hex(at[2]) < 0)
                return false;
            byte = (char)(hex(at[1]) * 16 + hex(at[2]));
            at += 2;
        }
        if (ret_key->len == MEMCACHED_KEY_MAX || !memcached_key_byte((unsigned char)byte))
            return false;
        ret_key->text[ret_key->len++] = byte;
    }
    return ret_key->len > 0;
}

/* Is it the key of a lease whose name matches, or may match if the key is a hash? */
static bool is_wanted(const struct memcached_search *search, const struct memcached_key *key)
{
    const char *prefix = search->store->conf->prefix;
    size_t len = strlen(prefix);

    if (key->len < len + 3 || memcmp(key->text, prefix, len) != 0 || key->text[len + 1] != ':')
        return false;
    if (key->text[len] == 'L')
        return true;
    return key->text[len] == 'l' &&
           hfi_glob_match(search->op->u.list.pattern, search->op->u.list.len,
                          (const unsigned char *)key->text + len + 2, key->len - len - 2);
}

static bool keep(struct memcached_search *search, const struct memcached_key *key)
{
    if (search->count == search->room) {
        size_t room = search->room ? 2 * search->room : 64;
        struct memcached_key *keys = hfi_realloc(search->keys, room * sizeof *keys);

        if (!keys)
            return false;
        search->keys = keys;
        search->room = room;
    }
    search->keys[search->count++] = *key;
    return true;
}

static void dumped(struct memcached_sent *sent, const struct memcached_reply *reply, bool maybe)
{
    struct memcached_search *search = hfi_container(sent, struct memcached_search, sent);
    struct memcached_key key;

    (void)maybe;
    if (!reply || search->stage != DUMPING)
        return; /* `down` says why */
    switch (reply->kind) {
    case MEMCACHED_DUMPED:
        if (dumped_key(reply, &key) && is_wanted(search, &key) && !keep(search, &key))
            fail(search, HF_NO_MEMORY, hf_status_text(HF_NO_MEMORY));
        return;
    case MEMCACHED_END:
        search->stage = READING;
        go_on(search);
        return;
    case MEMCACHED_BUSY:
        search->asked = false;
        search->ask_ms = hfi_now_ms() + BUSY_MS;
        return;
    default:
        fail(search, HF_UNSUPPORTED,
             "the server does not list its keys (is its LRU crawler off?): ask for one name");
        return;
    }
}

/* ---- LIST: the records ----------------------------------------------------------------------- */

static void record_read(struct memcached_call *call, enum hfi_outcome outcome,
                        const struct memcached_reply *reply)
{
    struct memcached_search *search = call->data;
    struct hfi_op *op = search->op;
    struct memcached_record record;
    hf_error err;

    search->asking--;
    if (outcome != HFI_ANSWERED || (reply->kind != MEMCACHED_VA && reply->kind != MEMCACHED_EN)) {
        hf_status status = memcached_trouble(call->store, outcome, false, reply, &err);

        fail(search, status, err.text);
        return;
    }
    if (search->status == HF_OK && reply->kind == MEMCACHED_VA &&
        memcached_record_read(reply->text, reply->len, &record) &&
        hfi_glob_match(op->u.list.pattern, op->u.list.len, record.name, record.name_len) &&
        !emit(op->u.list.sink, &record, reply)) {
        fail(search, HF_NO_MEMORY, hf_status_text(HF_NO_MEMORY));
        return;
    }
    go_on(search);
}

/* Read the next ones; when all have been read, end the search: the driver frees it. */
static void go_on(struct memcached_search *search)
{
    static const struct hfi_name none = { .bytes = (const unsigned char *)"", .len = 0 };

    while (search->stage == READING && search->read < search->count && search->asking < ASK_MAX) {
        struct memcached_call *call = memcached_call_new(search->store, 'l', &none, NULL);

        if (!call) {
            fail(search, HF_NO_MEMORY, hf_status_text(HF_NO_MEMORY));
            return;
        }
        call->key = search->keys[search->read++];
        call->data = search;
        search->asking++;
        memcached_call_go(call, MEMCACHED_GET, record_read);
    }
    if (search->stage == READING && search->asking == 0) {
        search->stage = OVER;
        hfi_reactor_finish(&search->store->reactor, search->op, search->status, &search->err);
    }
}

/* ---- time ------------------------------------------------------------------------------------------- */

static void free_search(struct memcached_search *search)
{
    memcached_connection_done(&search->connection);
    hfi_free(search->keys);
    hfi_free(search);
}

static void tick(struct memcached_search *search, int64_t now_ms)
{
    struct memcached_connection *connection = &search->connection;

    if (search->stage != DUMPING || (!search->asked && now_ms >= search->until_ms)) {
        if (search->stage == DUMPING)
            fail(search, HF_UNAVAILABLE, "the server's LRU crawler is busy with others' dumps");
        if (connection->stream.source.reactor)
            hfi_stream_close(&connection->stream);
        return;
    }
    if (!connection->stream.source.reactor) {
        /* Connect once: if the connection breaks, the search ends. */
        if (memcached_connection_init(connection, &search->store->reactor, search->store->conf,
                                      &dump_calls, search))
            hfi_stream_open(&connection->stream, now_ms);
        else
            fail(search, HF_NO_MEMORY, hf_status_text(HF_NO_MEMORY));
        return;
    }
    if (connection->stream.state == HFI_STREAM_UP && !search->asked && search->ask_ms <= now_ms)
        dump_up(connection);
}

void memcached_searches_tick(struct memcached_store *store, int64_t now_ms)
{
    struct memcached_search **at = &store->searches, *search;

    while ((search = *at)) {
        if (search->stage != OVER)
            tick(search, now_ms);
        if (search->stage == OVER) {
            *at = search->next;
            free_search(search);
            continue;
        }
        at = &search->next;
    }
}

int64_t memcached_searches_next_ms(const struct memcached_store *store)
{
    int64_t next = HFI_NEVER;

    for (const struct memcached_search *search = store->searches; search; search = search->next) {
        const struct hfi_stream *stream = &search->connection.stream;
        int64_t at_ms = HFI_NEVER;

        if (search->stage == OVER)
            at_ms = 0;
        else if (search->stage == DUMPING && !search->asked)
            at_ms = stream->state == HFI_STREAM_IDLE || stream->state == HFI_STREAM_UP
                        ? search->ask_ms
                        : search->until_ms;
        next = at_ms < next ? at_ms : next;
    }
    return next;
}

void memcached_searches_done(struct memcached_store *store)
{
    struct memcached_search *search;

    while ((search = store->searches)) {
        store->searches = search->next;
        free_search(search);
    }
}
