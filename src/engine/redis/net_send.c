/* SPDX-License-Identifier: MIT */
/*
 * What is sent, and what comes back. What cannot be sent is parked, in order, for as long as its caller
 * wants to wait. A command whose answer was cut off is sent again only if its script allows that
 * (`again`); else its outcome is HFI_MAYBE, and it is up to the caller to settle it.
 */
#include "engine/redis/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

/*
 * So many bytes leave although more may come: the server works on the first commands while the driver
 * is still waking, one by one, those whose answers came. (Some twelve acquires; measured: 64 threads
 * get 1.3 to 1.7 times as much done as with one write at the end.) Not while a caller's loop runs its
 * callbacks: that is soon over, and small writes come back as small reads.
 */
#define EAGER 4096

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);

static struct redis_node *route(struct hfi_conn *conn, const struct redis_call *call)
{
    if (call->synced)
        return conn->sync.link ? &conn->sync : NULL;
    if (conn->slots)
        return redis_cluster_route(conn, call);
    return conn->node_count ? conn->nodes[0] : NULL;
}

/* What the user is told of a call that could not be sent. */
static void end_unsent(struct hfi_conn *conn, struct redis_call *call)
{
    const struct redis_node *node = route(conn, call);
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "%s",
                  node && node->why.text[0] ? node->why.text
                  : call->tries > 0         ? call->sent_to->said.text
                                            : "not connected");
    if (node && node->why.status != HF_OK)
        err.status = node->why.status;
    redis_call_end(call, HFI_UNSENT, &err);
}

static void park(struct hfi_conn *conn, struct redis_call *call)
{
    if (call->hasty)
        end_unsent(conn, call);
    else
        hfi_request_park(&conn->requests, &call->request);
}

bool redis_net_later(struct redis_call *call, const struct hfi_reply *reply)
{
    int64_t pause_ms =
        hfi_backoff_ms(call->tries < REDIS_TRIES_SLOWER ? ++call->tries : REDIS_TRIES_SLOWER,
                       (uint32_t)hfi_random_u64());
    int64_t at_ms = hfi_now_ms() + pause_ms;

    if (call->hasty || at_ms >= call->request.give_up_ms || call->conn->closing)
        return false;
    (void)hfi_reply_status(reply, &call->sent_to->said);
    call->request.retry_ms = at_ms;
    hfi_request_park(&call->conn->requests, &call->request);
    return true;
}

/* Has this server been sent the script's text since we connected? From now on it has. So NOSCRIPT is
 * rare (SCRIPT FLUSH), and commands are executed in the order in which they were sent. */
static bool knows_script(struct redis_node *node, const struct hfi_script *script)
{
    for (size_t i = 0; i < REDIS_SCRIPTS_MAX; i++) {
        if (node->scripts[i] == script)
            return true;
        if (!node->scripts[i]) {
            node->scripts[i] = script;
            return false;
        }
    }
    return false;
}

void redis_scripts_forget(struct redis_node *node)
{
    memset(node->scripts, 0, sizeof node->scripts);
}

void redis_net_send(struct hfi_conn *conn, struct redis_call *call)
{
    struct redis_node *node = route(conn, call);

    call->request.retry_ms = 0;
    if (!node || hfi_link_state(node->link) != HFI_STREAM_UP) {
        if (node)
            hfi_link_keep(node->link, true);
        if (node && hfi_link_failures(node->link) == 0 && !conn->closing)
            hfi_request_park(
                &conn->requests,
                &call->request); /* it is being connected to for the first time: even in haste */
        else
            park(conn, call);
        return;
    }
    call->sent_to = node;
    call->sent.answered = answered;
    if (call->first_ms == 0)
        call->first_ms = hfi_now_ms();
    if (call->command.script && !call->theirs)
        call->command.whole = !knows_script(node, call->command.script);
    if (call->asking)
        hfi_link_send_asking(node->link, &call->command, &call->sent);
    else
        hfi_link_send(node->link, &call->command, &call->sent);
    if (!conn->reactor.looping)
        hfi_link_flush_if(node->link, EAGER);
}

void redis_net_resend(struct hfi_request *request)
{
    struct redis_call *call = (struct redis_call *)request;

    redis_net_send(call->conn, call);
}

void redis_net_give_up(struct hfi_request *request)
{
    struct redis_call *call = (struct redis_call *)request;

    end_unsent(call->conn, call);
}

void redis_net_end_parked(struct hfi_conn *conn)
{
    struct hfi_request *request;
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the store is being closed");
    while ((request = hfi_requests_pop(&conn->requests)))
        redis_call_end((struct redis_call *)request, HFI_UNSENT, &err);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void unanswered(struct redis_call *call, bool maybe)
{
    struct hfi_conn *conn = call->conn;
    hf_error err;

    call->was_sent = call->was_sent || maybe;
    call->copied = call->copied || maybe;
    if (!conn->closing && (!maybe || call->again)) {
        park(conn, call);
        return;
    }
    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the connection broke before the answer came");
    redis_call_end(call, maybe ? HFI_MAYBE : HFI_UNSENT, &err);
}

/* In the server's own words: one that a script made up itself means that it has run. */
static bool is_noscript(const struct hfi_reply *reply)
{
    static const char words[] = "NOSCRIPT No matching script";

    return reply->len >= sizeof words - 1 && memcmp(reply->text, words, sizeof words - 1) == 0;
}

static void refused(struct redis_call *call, const struct hfi_reply *reply)
{
    struct hfi_conn *conn = call->conn;
    hf_error err;

    if (call->command.script && !call->command.whole && is_noscript(reply)) {
        if (call->theirs)
            call->command.whole = true;
        else
            redis_scripts_forget(call->sent_to); /* SCRIPT FLUSH: all are gone */
        redis_net_send(conn, call);
        return;
    }
    if (conn->topology->refused && conn->topology->refused(call, reply))
        return;
    (void)hfi_reply_status(reply, &err);
    /* It was made a replica under us; its name may lead to another server by now. */
    if (conn->topology == &redis_single && hfi_reply_is_error(reply, "READONLY")) {
        hfi_link_unusable(call->sent_to->link, err.status, "%s", err.text);
    }
    /* Waiting would not help. (In a cluster, where these have been followed too often, it may.) */
    if (conn->conf->way != HFI_WAY_CLUSTER && hfi_reply_is_error(reply, "MOVED"))
        hfi_error_set(&err, HF_CONFIG, 0,
                      "the server is one of a cluster, and another one has this name: use "
                      "redis+cluster:");
    if (call->theirs) {
        call->answer(call, HFI_REFUSED, reply, &err);
        redis_call_free(call);
        return;
    }
    /* An error that we do not know may have struck in the middle of a script. */
    redis_call_end(call, err.status == HF_CORRUPT ? HFI_MAYBE : HFI_REFUSED, &err);
}

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_call *call =
        (struct redis_call *)((char *)sent - offsetof(struct redis_call, sent));

    if (!reply) {
        unanswered(call, maybe);
        return;
    }
    if (reply->type == HFI_REPLY_ERROR) {
        refused(call, reply);
        return;
    }
    call->answer(call, HFI_ANSWERED, reply, NULL);
    redis_call_free(call);
}
