/* SPDX-License-Identifier: MIT */
/*
 * One command under way: built, sent, answered exactly once. Commands that cannot be sent are
 * parked, in order, for as long as their callers want to wait. A command whose answer was lost is
 * sent again only if it is `idempotent`; otherwise its outcome is HFI_MAYBE, and the caller settles
 * it.
 */
#include "engine/redis/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

/*
 * This many bytes are sent even while corked: the server works on the first commands while the
 * driver still wakes threads, one by one, or a caller's loop runs its callbacks. (About twelve acquires; measured: 64 threads
 * do 1.3 to 1.7 times as much as with one write at the end, and 64 in flight 1.3 times.)
 */
#define EAGER 2048

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);

struct redis_call *redis_call_new(struct redis_store *store, const struct hfi_script *script,
                                  uint32_t key_count, redis_answer_fn *answer, struct hfi_op *op)
{
    bool must = answer == redis_cancelled || (op && op->kind == HFI_OP_RELEASE);
    struct redis_call *call = (struct redis_call *)hfi_request_new(&store->requests, must);

    if (!call) {
        if (op)
            hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->store = store;
    call->answer = answer;
    call->op = op;
    call->data = NULL;
    call->first_ms = 0;
    call->fail_fast = false;
    call->idempotent = call->was_sent = call->resent = call->asking = call->synced = false;
    call->user_script = false;
    call->hops = call->tries = 0;
    call->node = REDIS_NODE_ANY;
    call->sent_to = NULL;
    hfi_command_init_script(&call->command, script, key_count);
    return call;
}

void redis_call_free(struct redis_call *call)
{
    hfi_command_done(&call->command);
    hfi_request_free(&call->store->requests, &call->request);
}

void redis_call_send(struct redis_call *call)
{
    hf_error err;

    if (call->command.failed) {
        hfi_error_memory(&err);
        redis_call_end(call, HFI_UNSENT, &err);
        return;
    }
    if (call->request.give_up_ms == 0)
        call->request.give_up_ms = hfi_now_ms() + call->store->conf->op_ms;
    redis_call_try(call->store, call);
}

void redis_call_end(struct redis_call *call, enum hfi_outcome outcome, const hf_error *err)
{
    if (outcome != HFI_ANSWERED && call->was_sent)
        outcome = HFI_MAYBE; /* an earlier copy may have been executed, even if this one was not */
    call->answer(call, outcome, NULL, err);
    redis_call_free(call);
}

/* ---- sending ------------------------------------------------------------------------------------ */

static struct redis_node *route(struct redis_store *store, const struct redis_call *call)
{
    if (call->synced)
        return store->sync.link ? &store->sync : NULL;
    if (store->slots)
        return redis_cluster_route(store, call);
    return store->node_count ? store->nodes[0] : NULL;
}

/* End a call that could not be sent. */
static void end_unsent(struct redis_store *store, struct redis_call *call)
{
    const struct redis_node *node = route(store, call);
    /* No server is known, perhaps for a reason that will not pass: an unknown master, a wrong password. */
    const hf_error *why = node || store->closing ? NULL : store->topology->why(store, true);
    hf_error err;

    if (why) {
        err = *why;
        redis_call_end(call, HFI_UNSENT, &err);
        return;
    }
    hfi_error_set(&err, HF_UNAVAILABLE, 0, "%s",
                  node && node->why.text[0] ? node->why.text
                  : call->tries > 0         ? call->sent_to->said.text
                                            : "not connected");
    if (node && node->why.status != HF_OK)
        err.status = node->why.status;
    redis_call_end(call, HFI_UNSENT, &err);
}

static void park(struct redis_store *store, struct redis_call *call)
{
    if (call->fail_fast)
        end_unsent(store, call);
    else
        hfi_request_park(&store->requests, &call->request);
}

bool redis_call_later(struct redis_call *call, const struct hfi_reply *reply)
{
    int64_t pause_ms =
        hfi_backoff_ms(call->tries < REDIS_TRIES_SLOWER ? ++call->tries : REDIS_TRIES_SLOWER,
                       (uint32_t)hfi_random_u64());
    int64_t at_ms = hfi_now_ms() + pause_ms;

    if (call->fail_fast || at_ms >= call->request.give_up_ms || call->store->closing)
        return false;
    (void)hfi_reply_status(reply, &call->sent_to->said);
    call->request.retry_ms = at_ms;
    hfi_request_park(&call->store->requests, &call->request);
    return true;
}

void redis_call_try(struct redis_store *store, struct redis_call *call)
{
    struct redis_node *node = route(store, call);

    call->request.retry_ms = 0;
    if (!node || hfi_link_state(node->link) != HFI_STREAM_UP) {
        if (node)
            hfi_link_keep(node->link, true);
        if (node && hfi_link_failures(node->link) == 0 && !store->closing)
            hfi_request_park(
                &store->requests,
                &call->request); /* the first connection is being made: park it even if fail_fast */
        else
            park(store, call);
        return;
    }
    call->sent_to = node;
    call->sent.answered = answered;
    if (call->first_ms == 0)
        call->first_ms = hfi_now_ms();
    if (!call->user_script)
        hfi_command_choose_text(&call->command, &node->scripts);
    if (call->synced && call->command.script)
        call->command.whole = true; /* after a NOSCRIPT it would be sent again behind its WAIT */
    if (call->asking)
        hfi_link_send_asking(node->link, &call->command, &call->sent);
    else
        hfi_link_send(node->link, &call->command, &call->sent);
    hfi_link_flush_if(node->link, EAGER);
}

void redis_call_resend(struct hfi_request *request)
{
    struct redis_call *call = (struct redis_call *)request;

    redis_call_try(call->store, call);
}

void redis_call_give_up(struct hfi_request *request)
{
    struct redis_call *call = (struct redis_call *)request;

    end_unsent(call->store, call);
}

void redis_calls_end_parked(struct redis_store *store)
{
    struct hfi_request *request;
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the store is being closed");
    while ((request = hfi_requests_pop(&store->requests)))
        redis_call_end((struct redis_call *)request, HFI_UNSENT, &err);
}

/* ---- what came back ---------------------------------------------------------------------------- */

static void unanswered(struct redis_call *call, bool maybe)
{
    struct redis_store *store = call->store;
    hf_error err;

    call->was_sent = call->was_sent || maybe;
    call->resent = call->resent || maybe;
    if (!store->closing && (!maybe || call->idempotent)) {
        park(store, call);
        return;
    }
    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the connection broke before the answer came");
    redis_call_end(call, maybe ? HFI_MAYBE : HFI_UNSENT, &err);
}

static void refused(struct redis_call *call, const struct hfi_reply *reply)
{
    struct redis_store *store = call->store;
    hf_error err;

    if (call->command.script && call->command.script->text && !call->command.whole &&
        hfi_reply_is_noscript(reply)) {
        if (call->user_script)
            call->command.whole = true;
        else
            call->sent_to->scripts = (struct hfi_script_set){ 0 }; /* SCRIPT FLUSH */
        redis_call_try(store, call);
        return;
    }
    if (store->topology->refused && store->topology->refused(call, reply))
        return;
    (void)hfi_reply_status(reply, &err);
    /* The server has become a replica; its host name may now resolve to another server. */
    if (store->topology == &redis_single && hfi_reply_is_error(reply, "READONLY")) {
        hfi_link_unusable(call->sent_to->link, err.status, "%s", err.text);
    }
    /* Waiting does not help. (In a cluster it may: there the redirections were followed too
     * often.) */
    if (store->conf->topology != REDIS_TOPOLOGY_CLUSTER && hfi_reply_is_error(reply, "MOVED"))
        hfi_error_set(&err, HF_CONFIG, 0,
                      "the server is one of a cluster, and another one has this name: use "
                      "redis+cluster:");
    if (call->user_script) {
        call->answer(call, HFI_REFUSED, reply, &err);
        redis_call_free(call);
        return;
    }
    /* An unknown error may have stopped a script half way. */
    redis_call_end(call, err.status == HF_CORRUPT ? HFI_MAYBE : HFI_REFUSED, &err);
}

static void answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_call *call = hfi_container(sent, struct redis_call, sent);

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

/* ---- replicas ---------------------------------------------------------------------- */

struct redis_call *redis_wait_call(struct redis_store *store, redis_answer_fn *answer)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, answer, NULL);

    if (!call)
        return NULL;
    call->synced = true;
    hfi_command_add_text(&call->command, "WAIT");
    hfi_command_add_number(&call->command, store->conf->sync);
    hfi_command_add_number(&call->command, store->conf->sync_ms);
    return call;
}

bool redis_wait_enough(const struct redis_store *store, enum hfi_outcome outcome,
                       const struct hfi_reply *reply, hf_error *ret_err)
{
    if (outcome != HFI_ANSWERED || reply->type != HFI_REPLY_INTEGER) {
        hfi_error_set(ret_err, HF_UNAVAILABLE, 0, "sync: it is not known which replicas have it");
        return false;
    }
    if (reply->integer >= store->conf->sync)
        return true;
    hfi_error_set(ret_err, HF_UNAVAILABLE, 0, "sync: %lld of %u replicas had it in time",
                  (long long)reply->integer, store->conf->sync);
    return false;
}

/* ---- answers ------------------------------------------------------------------------- */

/* The lease was not found. If an earlier copy of the release may have been executed, that can mean
 * released or lost before. Core asks once more, and that answer decides. */
void redis_finish_gone(struct redis_call *call)
{
    hf_error err;

    hfi_error_set(
        &err, HF_UNKNOWN, 0,
        "the connection broke, and the lease no longer exists: it was released, or lost before");
    if (call->was_sent)
        hfi_reactor_finish(&call->store->reactor, call->op, HF_UNKNOWN, &err);
    else
        hfi_reactor_finish(&call->store->reactor, call->op, HF_LOST, NULL);
}

void redis_finish_odd(struct redis_store *store, struct hfi_op *op, const struct hfi_reply *reply)
{
    hf_error err;

    (void)reply;
    hfi_error_set(&err, HF_CORRUPT, 0, "the server gave an unexpected answer to a script");
    hfi_reactor_finish(&store->reactor, op, HF_CORRUPT, &err);
}
