/* SPDX-License-Identifier: MIT */
/* What holders ask: renew, release, show; lines of a lease with_connection; the end of all. */
#include "leases.h"

#include <stdlib.h>
#include <string.h>

#define ALIVE_MS 10000 /* a line at least that often: both sides see that the other one is there */

/* An answer of the store that a request waits for; the request may end first. */
struct reply {
    struct request *request;
    struct lease *lease;
};

static void reply_gone(struct request *request, bool delivered)
{
    struct reply *reply = request->job;

    (void)delivered;
    if (reply)
        reply->request = NULL;
}

static struct reply *reply_new(struct request *request, struct lease *lease)
{
    struct reply *reply = calloc(1, sizeof *reply);

    if (!reply)
        return NULL;
    reply->request = request;
    reply->lease = lease;
    if (request) {
        request->job = reply;
        request->gone = reply_gone;
    }
    return reply;
}

/* The request of a reply that has come; NULL: it has ended meanwhile. */
static struct request *reply_take(struct reply *reply)
{
    struct request *request = reply->request;

    if (request) {
        request->job = NULL;
        request->gone = NULL;
    }
    free(reply);
    return request;
}

void lease_put(struct out *out, const struct lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    int64_t left_ms = 0;

    if (lease->handle && hf_lease_get(lease->handle, &info) == HF_OK)
        left_ms = info.remaining_ms;
    out_word(out, "lease", lease->id);
    out_name(out, lease->ask.name.at, lease->ask.name.len);
    out_u64(out, "token", lease->token);
    if (left_ms == INT64_MAX) {
        out_null(out, "ttl_ms");
        out_null(out, "remaining_ms");
    } else {
        out_int(out, "ttl_ms", lease->ttl_ms);
        out_int(out, "remaining_ms", left_ms);
    }
    out_bool(out, "with_connection", lease->ask.with_connection);
}

void lease_say(struct lease *lease, const char *event, const char *text)
{
    struct out *out = &lease->lines;

    if (!lease->ask.with_connection)
        return;
    lease->alive_ms = clock_ms();
    out->comma = false;
    out_open(out, NULL, '{');
    out_word(out, "event", event);
    if (strcmp(event, "lost") != 0)
        lease_put(out, lease);
    if (text)
        out_word(out, "text", text);
    out_close(out, '}');
    out_bytes(out, "\n", 1);
    if (lease->stream)
        stream_wake(lease->stream);
}

/* ---- release --------------------------------------------------------------------------- */

static void answer_released(struct request *request, const hf_error *err)
{
    struct out out = { 0 };

    if (err->status != HF_OK) {
        answer_status(request, err);
        return;
    }
    out_open(&out, NULL, '{');
    out_word(&out, "status", "OK");
    out_close(&out, '}');
    answer_json(request, MHD_HTTP_OK, &out);
}

static void given_back(const hf_result *result, void *arg)
{
    struct reply *reply = arg;
    struct lease *lease = reply->lease;
    struct request *request = reply_take(reply);

    lease->store->held--;
    lease->store->released += result->status == HF_OK;
    if (request)
        answer_released(request, result->error);
    lease->handle = NULL;
    if (lease->stream) /* it still has a line to send; stream_done() frees the lease */
        stream_end(lease->stream);
    else
        lease_free(lease);
}

void lease_give_back(struct lease *lease, struct request *ask)
{
    struct reply *reply = reply_new(ask, lease);
    hf_error err = { .status = HF_NO_MEMORY };

    lease->state = LEASE_ENDED;
    if (!reply || hf_release_async(lease->handle, given_back, reply, NULL, &err) != HF_OK) {
        /* No memory: the handle is still there, and the lease ends with its ttl. */
        free(reply);
        if (ask) {
            ask->job = NULL;
            ask->gone = NULL;
            answer_status(ask, &err);
        }
        return;
    }
    if (ask)
        request_wait(ask);
}

static struct lease *held(struct request *request)
{
    struct lease *lease = lease_find(request->client, request->uri.lease);

    if (lease && lease->state == LEASE_HELD)
        return lease;
    answer_error(request, MHD_HTTP_NOT_FOUND, "NOT_FOUND",
                 "no such lease: it has ended, or belongs to another token");
    return NULL;
}

void lease_release(struct request *request, struct store *store)
{
    struct lease *lease = held(request);

    (void)store;
    if (lease)
        lease_give_back(lease, request);
}

void lease_show(struct request *request, struct store *store)
{
    struct lease *lease = held(request);
    struct out out = { 0 };

    (void)store;
    if (!lease)
        return;
    out_open(&out, NULL, '{');
    out_word(&out, "status", "OK");
    lease_put(&out, lease);
    out_close(&out, '}');
    answer_json(request, MHD_HTTP_OK, &out);
}

/* ---- renew ------------------------------------------------------------------------------ */

static void renewed(const hf_result *result, void *arg)
{
    struct reply *reply = arg;
    struct request *request = reply_take(reply);
    struct lease *lease;
    struct out out = { 0 };

    if (!request)
        return;
    if (result->status != HF_OK) {
        answer_status(request, result->error);
        return;
    }
    /* It may have been released meanwhile: look again. */
    lease = lease_find(request->client, request->uri.lease);
    if (!lease || lease->state != LEASE_HELD) {
        answer_error(request, MHD_HTTP_GONE, "LOST", "it was released meanwhile");
        return;
    }
    out_open(&out, NULL, '{');
    out_word(&out, "status", "OK");
    lease_put(&out, lease);
    out_close(&out, '}');
    answer_json(request, MHD_HTTP_OK, &out);
}

void lease_renew(struct request *request, struct store *store)
{
    char why[BODY_TEXT_MAX];
    int64_t ttl_ms;
    const char *wrong = body_renew(request->body, request->body_len, &ttl_ms, why);
    struct lease *lease;
    struct reply *reply;
    hf_error err = { 0 };

    (void)store;
    if (wrong) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "INVALID", wrong);
        return;
    }
    lease = held(request);
    if (!lease)
        return;
    reply = reply_new(request, lease);
    if (!reply)
        return;
    if (ttl_ms == 0)
        ttl_ms = lease->ttl_ms;
    if (hf_renew_async(lease->handle, ttl_ms, renewed, reply, NULL, &err) != HF_OK) {
        reply_take(reply);
        answer_status(request, &err);
        return;
    }
    lease->ttl_ms = ttl_ms;
    request_wait(request);
}

/* ---- time, and the end --------------------------------------------------------------------- */

void leases_tick(struct server *server, int64_t now_ms)
{
    static int64_t last_ms;

    (void)server;
    if (now_ms < last_ms + ALIVE_MS / 2)
        return;
    last_ms = now_ms;
    for (struct lease *lease = lease_first(); lease; lease = lease->all_next)
        if (lease->stream && lease->state == LEASE_HELD && !lease->lines.len &&
            now_ms >= lease->alive_ms + ALIVE_MS)
            lease_say(lease, "alive", NULL);
}

bool leases_busy(void)
{
    for (const struct lease *lease = lease_first(); lease; lease = lease->all_next)
        if (lease->state != LEASE_HELD || lease->ask.with_connection)
            return true;
    return false;
}

/* Leases with a ttl live on: nobody can renew them any more. */
void leases_rights(const struct rights *now)
{
    struct lease *lease = lease_first(), *next;

    for (; lease; lease = next) {
        const struct client *client = rights_named(now, lease->client);

        next = lease->all_next;
        if (client && (client->rights & RIGHT_LEASE))
            continue;
        if (lease->state == LEASE_GOING) {
            hf_op_cancel(lease->op);
        } else if (lease->state == LEASE_HELD && lease->stream) {
            lease->told_lost = true;
            lease_say(lease, "lost", "this token may not take leases any more");
            stream_end(lease->stream);
            lease_give_back(lease, NULL);
        }
    }
}

/* Leases with a ttl live on in the store; those of a connection are given back with it. */
void leases_stop(struct server *server)
{
    struct lease *lease = lease_first(), *next;

    (void)server;
    for (; lease; lease = next) {
        next = lease->all_next;
        if (lease->state == LEASE_GOING) {
            hf_op_cancel(lease->op);
        } else if (lease->state == LEASE_HELD && lease->ask.with_connection) {
            lease_say(lease, "lost", "holdfast serve is stopping");
            lease_give_back(lease, NULL);
        }
    }
}
