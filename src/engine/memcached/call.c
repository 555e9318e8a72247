/* SPDX-License-Identifier: MIT */
/*
 * One command under way, and the one connection it goes through. A connection that goes down is opened
 * again after a pause; commands that cannot be sent meanwhile are parked, in order, for as long as
 * their callers want to wait. Nothing is sent twice from here: the caller decides what a broken
 * connection means (HFI_MAYBE). A command with a CAS number is not parked: the number is not valid
 * on another connection.
 */
#include "engine/memcached/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void call_answered(struct memcached_sent *sent, const struct memcached_reply *reply,
                          bool maybe);
static void park_call(struct memcached_call *call);
static void note_time(struct memcached_store *store, int64_t sent_ms);
static void server_up(struct memcached_connection *connection);
static void server_down(struct memcached_connection *connection, hf_status status, const char *why);

static const struct memcached_connection_calls calls = { .up = server_up, .down = server_down };

/* ---- a call's life ------------------------------------------------------------------------ */

struct memcached_call *memcached_call_new(struct memcached_store *store, char kind,
                                          const struct hfi_name *name, struct hfi_op *op)
{
    bool must = op && op->kind == HFI_OP_RELEASE;
    struct memcached_call *call = (struct memcached_call *)hfi_request_new(&store->requests, must);

    if (!call) {
        if (op)
            hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->store = store;
    call->op = op;
    call->data = NULL;
    call->give_up_ms = hfi_now_ms() + store->conf->op_ms;
    call->busy = call->was_sent = call->dropped = false;
    call->tries = 0;
    call->from_epoch = 0;
    call->cas = 0;
    call->ttl_ms = call->granted_ms = 0;
    call->hold = NULL;
    call->sent.sent.lines = false;
    call->sent.answered = call_answered;
    memcached_key(store->conf->prefix, kind, name, &call->key);
    return call;
}

void memcached_call_free(struct memcached_call *call)
{
    hfi_request_free(&call->store->requests, &call->request);
}

static void end_call(struct memcached_call *call, enum hfi_outcome outcome,
                     const struct memcached_reply *reply)
{
    call->busy = false;
    call->answer(call, outcome, reply);
    if (!call->busy)
        memcached_call_free(call);
}

/* A slow answer: the server may have been stopped, and its clock may not have ticked yet. */
static void note_time(struct memcached_store *store, int64_t sent_ms)
{
    int64_t now_ms = hfi_now_ms();

    if (now_ms - sent_ms > MEMCACHED_STALL_MS)
        store->settled_ms = now_ms + MEMCACHED_SETTLE_MS;
}

int64_t memcached_settles_in_ms(const struct memcached_call *call)
{
    const struct memcached_store *store = call->store;
    int64_t left_ms = store->settled_ms - hfi_now_ms();

    if (call->sent.sent.sent_ms >= store->settled_ms)
        return -1;
    return left_ms > 0 ? left_ms : 0;
}

static void call_answered(struct memcached_sent *sent, const struct memcached_reply *reply,
                          bool maybe)
{
    struct memcached_call *call = hfi_container(sent, struct memcached_call, sent);
    struct memcached_store *store = call->store;

    if (reply)
        note_time(store, call->sent.sent.sent_ms);
    /* A command that had no effect, and can be sent on any connection, waits for the next one. */
    if (!reply && !store->closing && !call->dropped &&
        (call->verb == MEMCACHED_GET || call->verb == MEMCACHED_TICKET ||
         (call->verb == MEMCACHED_ADD && !maybe)))
        park_call(call);
    else
        end_call(call, reply ? HFI_ANSWERED : maybe ? HFI_MAYBE : HFI_UNSENT, reply);
}

/* ---- writing ---------------------------------------------------------------------------------- */

/*
 * The form of a ttl for the server: seconds from now; above 30 days, which the server would read as
 * a date, a date by its own clock. We read that clock at the greeting. It is never set: memcached
 * counts it from its start.
 */
static int64_t expiry(const struct memcached_connection *connection, int64_t ttl_ms,
                      int64_t *ret_granted_ms)
{
    const struct memcached_server *server = &connection->server;
    int64_t ttl_s = (ttl_ms + 999) / 1000 + MEMCACHED_GUARD_MS / 1000 + MEMCACHED_LATE_S;
    int64_t at_s;

    *ret_granted_ms = (ttl_s - MEMCACHED_LATE_S) * 1000;
    if (ttl_s <= MEMCACHED_RELATIVE_S)
        return ttl_s;
    at_s = (int64_t)server->time_s + 1 + (hfi_now_ms() - server->asked_ms + 999) / 1000 + ttl_s;
    if (at_s > INT32_MAX) { /* 2038: the server knows no later date */
        *ret_granted_ms -= (at_s - INT32_MAX) * 1000;
        at_s = INT32_MAX;
    }
    return at_s;
}

static void record_of(const struct memcached_hold *hold, int64_t ttl_ms,
                      struct memcached_record *ret_record)
{
    memcpy(ret_record->owner, hold->claim->owner, HFI_OWNER_LEN);
    ret_record->detached = hold->detached;
    ret_record->ttl_ms = ttl_ms;
    ret_record->since_ms = hold->since_ms;
    ret_record->name = hold->claim->name.bytes;
    ret_record->name_len = hold->claim->name.len;
    ret_record->label = hold->label;
    ret_record->label_len = hold->label_len;
}

/* "ms <key> <size> <how> T<when> F<ticket> c O<number>\r\n<value>\r\n" */
static size_t write_set(struct memcached_call *call, struct memcached_connection *connection)
{
    char value[MEMCACHED_RECORD_MAX], how[24] = "ME", ticket[16] = "";
    struct memcached_record record;
    size_t head, body = 0, len;
    int64_t when = 0;
    char *to;

    if (call->hold) {
        record_of(call->hold, call->ttl_ms, &record);
        head = memcached_record_write(&record, value);
        when = expiry(connection, call->ttl_ms, &call->granted_ms);
    } else {
        head = memcached_cell_head(&call->cell, value);
        body = call->cell.len;
        if (call->ttl_ms > 0)
            when = expiry(connection, call->ttl_ms, &call->granted_ms);
    }
    if (call->verb == MEMCACHED_SWAP)
        snprintf(how, sizeof how, "C%" PRIu64, call->cas);
    if (call->hold && call->hold->pace.ticket)
        snprintf(ticket, sizeof ticket, " F%" PRIu32, call->hold->pace.ticket);
    to = hfi_stream_reserve(&connection->stream, MEMCACHED_HEAD_ROOM + head + body + 2);
    if (!to)
        return 0;
    len = (size_t)snprintf(to, MEMCACHED_HEAD_ROOM,
                           "ms %.*s %zu %s T%" PRId64 "%s c O%" PRIu64 "\r\n", (int)call->key.len,
                           call->key.text, head + body, how, when, ticket, call->sent.opaque);
    memcpy(to + len, value, head);
    len += head;
    if (body)
        memcpy(to + len, call->cell.bytes, body);
    len += body;
    memcpy(to + len, "\r\n", 2);
    return len + 2;
}

static size_t write_short(const struct memcached_call *call,
                          struct memcached_connection *connection)
{
    char *to = hfi_stream_reserve(&connection->stream, MEMCACHED_HEAD_ROOM);
    struct memcached_key key;

    if (!to)
        return 0;
    if (call->verb == MEMCACHED_GET)
        return (size_t)snprintf(to, MEMCACHED_HEAD_ROOM, "mg %.*s v c t f O%" PRIu64 "\r\n",
                                (int)call->key.len, call->key.text, call->sent.opaque);
    if (call->verb == MEMCACHED_TICKET) {
        memcached_ticket_key(call->store->conf->prefix, &call->key, &key);
        return (size_t)snprintf(to, MEMCACHED_HEAD_ROOM, "ma %.*s N%d J1 T%d v O%" PRIu64 "\r\n",
                                (int)key.len, key.text, MEMCACHED_TICKETS_S, MEMCACHED_TICKETS_S,
                                call->sent.opaque);
    }
    return (size_t)snprintf(to, MEMCACHED_HEAD_ROOM, "md %.*s%s C%" PRIu64 " O%" PRIu64 "\r\n",
                            (int)call->key.len, call->key.text,
                            call->verb == MEMCACHED_MARK_ITEM ? " I" : "", call->cas,
                            call->sent.opaque);
}

static void write_call(struct memcached_call *call)
{
    struct memcached_connection *connection = &call->store->connection;

    call->sent.opaque = ++connection->last_opaque;
    call->sent.may_refuse = call->verb == MEMCACHED_TICKET;
    memcached_connection_send(connection,
                              call->verb == MEMCACHED_ADD || call->verb == MEMCACHED_SWAP
                                  ? write_set(call, connection)
                                  : write_short(call, connection),
                              &call->sent);
}

/* ---- sending and parking ------------------------------------------------------------------------ */

static bool is_up(const struct memcached_store *store)
{
    return store->connection.stream.state == HFI_STREAM_UP &&
           store->connection.stream.failed == HF_OK;
}

bool memcached_fresh(const struct memcached_store *store, const struct memcached_hold *hold)
{
    return hold && hold->epoch != 0 && hold->epoch == store->epoch && is_up(store);
}

static void park_call(struct memcached_call *call)
{
    call->request.give_up_ms = call->give_up_ms;
    call->request.retry_ms = 0;
    hfi_request_park(&call->store->requests, &call->request);
}

void memcached_call_go(struct memcached_call *call, enum memcached_verb verb,
                       memcached_answer_fn *answer)
{
    call->busy = true;
    call->verb = verb;
    call->answer = answer;
    if (is_up(call->store)) {
        write_call(call);
    } else if (verb == MEMCACHED_SWAP || verb == MEMCACHED_DELETE || verb == MEMCACHED_MARK_ITEM) {
        call->request.give_up_ms = 0; /* it cannot be sent any more: answered at the next turn */
        call->request.retry_ms = 0;
        hfi_request_park(&call->store->requests, &call->request);
    } else {
        park_call(call);
    }
}

void memcached_call_later(struct memcached_call *call, int64_t delay_ms,
                          memcached_answer_fn *answer)
{
    call->busy = true;
    call->verb = MEMCACHED_SWAP;
    call->answer = answer;
    call->from_epoch = call->store->epoch;
    call->request.give_up_ms = HFI_NEVER;
    call->request.retry_ms = hfi_now_ms() + (delay_ms > 0 ? delay_ms : 1);
    hfi_request_park(&call->store->requests, &call->request);
}

static void call_give_up(struct hfi_request *request)
{
    end_call((struct memcached_call *)request, HFI_UNSENT, NULL);
}

/* A call that was delayed (from_epoch): its time has come, or its connection is gone and its CAS
 * number is invalid. */
static void call_send(struct hfi_request *request)
{
    struct memcached_call *call = (struct memcached_call *)request;
    bool here = is_up(call->store) && (!call->from_epoch || call->from_epoch == call->store->epoch);

    if (call->from_epoch && !here) {
        call->from_epoch = 0;
        call_give_up(request);
        return;
    }
    call->from_epoch = 0;
    if (here)
        write_call(call);
    else
        park_call(call);
}

const struct hfi_request_calls memcached_request_calls = { .send = call_send,
                                                           .give_up = call_give_up };

bool memcached_unsend(struct memcached_store *store, struct memcached_call *call)
{
    return hfi_request_unpark(&store->requests, &call->request);
}

/* ---- the connection ------------------------------------------------------------------------------ */

hf_status memcached_net_open(struct memcached_store *store, hf_error *err)
{
    const struct hfi_host *host = store->reactor.host;
    struct hfi_stream *stream = &store->connection.stream;

    if (!memcached_connection_init(&store->connection, &store->reactor, store->conf, &calls, store))
        return hfi_error_memory(err);
    stream->source.sleeps = true;
    hfi_stream_keep(stream, true);
    if (host->no_wait)
        return HF_OK;
    while (
        stream->state != HFI_STREAM_UP && hfi_now_ms() < host->open_deadline_ms &&
        (store->why.status == HF_OK || (store->why.status == HF_UNAVAILABLE && !host->open_once)))
        hfi_reactor_turn(&store->reactor, host->open_deadline_ms);
    if (stream->state == HFI_STREAM_UP)
        return HF_OK;
    if (store->why.status != HF_OK)
        return hfi_error_set(err, store->why.status, 0, "%s", store->why.text);
    return hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                         store->conf->url.hosts[0].shown);
}

void memcached_net_close(struct memcached_store *store)
{
    struct hfi_request *request;

    store->closing = true;
    memcached_searches_done(store);
    memcached_connection_done(&store->connection);
    while ((request = hfi_requests_pop(&store->requests)))
        call_give_up(request);
}

static void server_up(struct memcached_connection *connection)
{
    struct memcached_store *store = connection->data;
    const struct memcached_server *server = &connection->server;

    store->epoch++;
    if (store->was_up && (store->pid != server->pid || store->start_s != server->start_s))
        store->reactor.doubt = "the server was restarted: it has forgotten all leases";
    store->was_up = true;
    store->pid = server->pid;
    store->start_s = server->start_s;
    store->why = (hf_error){ .status = HF_OK };
    hfi_stream_settled(&connection->stream);
    note_time(store, server->asked_ms);
    /* Calls that wait with a CAS number of an earlier connection: the number is invalid now. */
    for (struct hfi_request *one = store->requests.parked; one; one = one->next)
        one->retry_ms = 0;
    hfi_requests_unpark(&store->requests, hfi_now_ms());
}

static void server_down(struct memcached_connection *connection, hf_status status, const char *why)
{
    struct memcached_store *store = connection->data;

    hfi_error_set(&store->why, status, 0, "%s", why);
    if (!store->was_up && status != HF_UNAVAILABLE)
        hfi_requests_give_up(&store->requests); /* what open() would have said, had it waited */
}

/* ---- answers --------------------------------------------------------------------------------------- */

hf_status memcached_trouble(const struct memcached_store *store, enum hfi_outcome outcome,
                            bool changed, const struct memcached_reply *reply, hf_error *ret_err)
{
    char said[96];

    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_ERROR) {
        hfi_quote_name(reply->text, reply->len, said, sizeof said);
        return hfi_error_set(ret_err, HF_FULL, 0, "%s: the server says: %s",
                             store->conf->url.hosts[0].shown, said);
    }
    if (outcome == HFI_ANSWERED)
        return hfi_error_set(ret_err, HF_CORRUPT, 0, "%s: an unexpected answer",
                             store->conf->url.hosts[0].shown);
    if (outcome == HFI_MAYBE && changed)
        return hfi_error_set(ret_err, HF_UNKNOWN, 0,
                             "%s: the connection broke before the answer came",
                             store->conf->url.hosts[0].shown);
    return hfi_error_set(ret_err, store->why.status == HF_OK ? HF_UNAVAILABLE : store->why.status,
                         0, "%s", store->why.text[0] ? store->why.text : "not connected");
}

hf_status memcached_read(const struct memcached_reply *reply, const struct hfi_name *name,
                         struct memcached_record *ret_record, hf_error *ret_err)
{
    if (!memcached_record_read(reply->text, reply->len, ret_record))
        return hfi_error_set(ret_err, HF_MISMATCH, 0,
                             "the name's key holds a value that is not a lease of Holdfast");
    if (ret_record->name_len != name->len || memcmp(ret_record->name, name->bytes, name->len) != 0)
        return hfi_error_set(ret_err, HF_MISMATCH, 0,
                             "another name has the same hash, and its lease blocks this one");
    return HF_OK;
}
