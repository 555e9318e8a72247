/* SPDX-License-Identifier: MIT */
/*
 * POST /api/v1/stores/N/leases: the way to a grant. Many requests may wait for one acquisition, if
 * they have the same Idempotency-Key. When the last of them is gone the acquisition is cancelled; what
 * was granted in that moment is given back.
 */
#include "leases.h"

#include <stdio.h>
#include <string.h>

/* A waiter gets a lease for at most this long from the one before it; its first renewal gives it the whole
 * ttl. Nobody renews ours at once, so it has to be renewed before it is granted: min_valid_ms. */
#define HANDED_OVER_MS 10000

static void unlink_request(struct lease *lease, struct request *request)
{
    struct request **at = &lease->waiting;

    while (*at && *at != request)
        at = &(*at)->next;
    if (*at)
        *at = request->next;
}

/* The request has ended: its client hung up, or it has its answer. */
static void request_gone(struct request *request, bool delivered)
{
    /* By its id: a lease may have ended and gone while its client was reading. */
    struct lease *lease = lease_find(request->client, request->uri.lease);

    if (!lease)
        return;
    if (lease->state == LEASE_GOING) {
        unlink_request(lease, request);
        if (!lease->waiting) {
            lease->abandoned = true;
            hf_op_cancel(lease->op);
        }
    } else if (!delivered && !lease->key[0] && !lease->stream && lease->state == LEASE_HELD) {
        lease_give_back(lease, NULL); /* nobody knows its id; with a key the client may ask again */
    }
}

static void wait_for(struct lease *lease, struct request *request)
{
    request->job = lease;
    request->gone = request_gone;
    strcpy(request->uri.lease, lease->id);
    request->next = lease->waiting;
    lease->waiting = request;
    request_wait(request);
}

static void answer_grant(struct request *request, const struct lease *lease, bool repeated)
{
    struct out out = { 0 };

    out_open(&out, NULL, '{');
    out_word(&out, "status", "OK");
    lease_put(&out, lease);
    out_bool(&out, "repeated", repeated);
    out_close(&out, '}');
    answer_json(request, repeated ? MHD_HTTP_OK : MHD_HTTP_CREATED, &out);
}

static struct piece *next_lines(void *arg)
{
    struct lease *lease = arg;
    struct piece *piece = lease->lines.len > 0 || lease->lines.failed ? piece_new() : NULL;

    if (piece) {
        piece->text = lease->lines;
        lease->lines = (struct out){ 0 };
    }
    return piece;
}

/* The connection has closed: so has the lease. */
static void stream_done(void *arg)
{
    struct lease *lease = arg;

    lease->stream = NULL;
    if (lease->state == LEASE_HELD)
        lease_give_back(lease, NULL);
    else if (!lease->handle) /* given back before, as lost: the stream was what remained */
        lease_free(lease);
}

static void answer_stream(struct request *request, struct lease *lease)
{
    lease_say(lease, "granted", NULL);
    lease->stream = stream_answer(request, "application/x-ndjson", next_lines, stream_done, lease);
    request->gone = NULL; /* the end of the stream is what counts */
    if (!lease->stream)
        lease_give_back(lease, NULL);
}

static void granted(struct lease *lease, hf_lease *handle)
{
    char text[HF_LEASE_TEXT_MAX];
    struct request *request = lease->waiting, *next;

    lease->state = LEASE_HELD;
    lease->handle = handle;
    lease->token = hf_lease_token(handle);
    lease->store->granted++;
    lease->store->held++;
    if (!lease->ask.with_connection)
        (void)!hf_lease_export(handle, text); /* from now on it outlives this process */
    lease->waiting = NULL;
    for (bool first = true; request; request = next, first = false) {
        next = request->next;
        request->next = NULL;
        if (lease->ask.with_connection)
            answer_stream(request, lease);
        else
            answer_grant(request, lease, !first);
    }
}

static void acquired(const hf_result *result, void *arg)
{
    struct lease *lease = arg;
    struct store *store = lease->store;
    struct request *request = lease->waiting;

    store->waiting--;
    lease->op = NULL;
    if (result->status == HF_OK && lease->abandoned) {
        lease->handle = result->lease;
        store->held++;
        lease_give_back(lease, NULL);
        return;
    }
    if (result->status == HF_OK) {
        granted(lease, result->lease);
        return;
    }
    if (result->status == HF_UNKNOWN)
        store->unknown++;
    else
        store->refused++;
    lease->waiting = NULL;
    while (request) {
        struct request *next = request->next;

        request->next = NULL;
        request->job = NULL;
        request->gone = NULL;
        answer_status(request, result->error);
        request = next;
    }
    lease_free(lease);
}

static void happened(hf_lease *handle, hf_event event, const char *text, void *arg)
{
    struct lease *lease = arg;

    (void)handle;
    if (event == HF_EVENT_AT_RISK || event == HF_EVENT_HELD)
        lease_say(lease, event == HF_EVENT_HELD ? "held" : "at_risk", text);
    if (event != HF_EVENT_LOST || lease->told_lost)
        return;
    lease->told_lost = true;
    lease->store->lost++;
    lease_say(lease, "lost", text);
    if (lease->stream)
        stream_end(lease->stream);
    if (lease->state == LEASE_HELD)
        lease_give_back(lease, NULL);
}

static hf_status begin(struct lease *lease, hf_error *err)
{
    const struct lease_body *ask = &lease->ask;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    char label[CLIENT_NAME_MAX + HF_LABEL_MAX + 4];

    snprintf(label, sizeof label, "%s%s%s", lease->client, ask->label[0] ? ": " : "", ask->label);
    request.name = ask->name.at;
    request.name_len = ask->name.len;
    request.kind = ask->kind;
    request.capacity = ask->capacity;
    request.permits = ask->permits;
    request.wait_ms = ask->wait_ms;
    request.label = label;
    request.on_event = happened;
    request.on_event_arg = lease;
    request.linger_ms = HF_LINGER_NEVER;
    /* Clients are strangers to each other: each has its own place in the store's queue. */
    request.flags = HF_FLAG_STRICT | HF_FLAG_NO_DEADLOCK_CHECK;
    if (!ask->with_connection)
        request.flags |= HF_FLAG_DETACHED | HF_FLAG_NO_RENEW;
    if (lease->ttl_ms)
        request.ttl_ms = lease->ttl_ms;
    if (!ask->with_connection && lease->ttl_ms > HANDED_OVER_MS)
        request.min_valid_ms = lease->ttl_ms / 4 * 3;
    return hf_acquire_async(lease->store->handle, &request, acquired, lease, &lease->op, err);
}

/* What this store can promise a client; NULL, or why not. */
static const char *cannot(const struct store *store, const struct lease_body *ask)
{
    uint64_t caps = see_source_info(store->source).caps;

    if (!ask->with_connection &&
        (caps & (HF_CAP_DETACHED | HF_CAP_TTL)) != (HF_CAP_DETACHED | HF_CAP_TTL))
        return "the leases of this engine end with the process that holds them: only a lease "
               "with_connection is possible";
    return NULL;
}

/* A request with a key that was used before. true: it has been dealt with. */
static bool repeated(struct request *request, struct store *store, const char *key,
                     const struct lease_body *ask)
{
    struct lease *lease = lease_find_key(request->client, key);

    if (!lease) {
        if (!past_find(request->client, key))
            return false;
        answer_error(request, MHD_HTTP_CONFLICT, "DONE",
                     "the lease of this Idempotency-Key has ended");
        return true;
    }
    if (lease->store != store || !body_same(&lease->ask, ask)) {
        answer_error(request, MHD_HTTP_UNPROCESSABLE_CONTENT, "INVALID",
                     "Idempotency-Key: it was used with another request");
    } else if (lease->state == LEASE_GOING) {
        wait_for(lease, request);
    } else if (lease->state == LEASE_HELD) {
        answer_grant(request, lease, true);
    } else {
        answer_error(request, MHD_HTTP_CONFLICT, "DONE",
                     "the lease of this Idempotency-Key has ended");
    }
    return true;
}

static bool key_is_fine(const char *key)
{
    size_t len = strlen(key);

    return len >= 1 && len <= KEY_LEN_MAX &&
           strspn(key, "0123456789abcdefghijklmnopqrstuvwxyz"
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~:") == len;
}

void lease_acquire(struct request *request, struct store *store)
{
    const char *key = request_header(request, "Idempotency-Key");
    char why[BODY_TEXT_MAX];
    struct lease_body ask;
    const char *wrong;
    struct lease *lease;
    hf_error err = { 0 };

    wrong = body_lease(request->body, request->body_len, &ask, why);
    if (!wrong && key && !key_is_fine(key))
        wrong = "Idempotency-Key: 1 to 64 letters, digits and -._~:";
    if (!wrong && key && ask.with_connection)
        wrong = "Idempotency-Key: not for a lease with_connection, which ends with its connection";
    if (wrong) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "INVALID", wrong);
        return;
    }
    if (key && repeated(request, store, key, &ask))
        return;
    if (!store->handle) {
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE",
                     "the store cannot be reached");
        return;
    }
    wrong = cannot(store, &ask);
    if (wrong) {
        answer_error(request, MHD_HTTP_NOT_IMPLEMENTED, "UNSUPPORTED", wrong);
        return;
    }
    if (lease_count_of(request->client) >= request->server->limits.leases) {
        answer_error(request, MHD_HTTP_TOO_MANY_REQUESTS, "LIMIT",
                     "this token has as many leases as it may have");
        return;
    }
    lease = lease_new(request->client);
    if (!lease)
        return;
    lease->store = store;
    lease->ask = ask;
    /* Without ttls (HF_CAP_TTL) a lease ends with this process, and with its connection. */
    lease->ttl_ms = see_source_info(store->source).caps & HF_CAP_TTL ? ask.ttl_ms : 0;
    strcpy(lease->key, key ? key : "");
    if (begin(lease, &err) != HF_OK) {
        lease_free(lease);
        answer_status(request, &err);
        return;
    }
    store->waiting++;
    wait_for(lease, request);
}
