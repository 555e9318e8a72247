/* SPDX-License-Identifier: MIT */
/*
 * One request and its answer. A call is sent to the member in use; if that cannot be reached, or cannot serve, the next one
 * is used. A call that may have been executed is sent again only if the caller says that a second copy does no harm
 * (`again`); `maybe` then says that there may have been more than one.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define POOL_MAX       32
#define ATTEMPT_MIN_MS 500
#define BODY_KEPT      16384 /* a longer one is not kept for the next call */
#define REPLY_KEPT     65536

static void attempt(struct etcd_call *call);
static void park(struct etcd_call *call, int64_t retry_ms);
static void end(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                const hf_error *err);
static void over(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                 const hf_error *why);

static const struct etcd_message none = { NULL, 0 };

/* ---- making and freeing -------------------------------------------------------------------------- */

static bool make(struct hfi_requests *requests, struct hfi_request *request)
{
    static const struct etcd_exchange_calls calls = { .over = over };
    struct etcd_call *call = (struct etcd_call *)request;

    call->store = hfi_container(requests, struct etcd_store, requests);
    call->exchange.calls = &calls;
    call->exchange.out = &call->body;
    return true;
}

static void unmake(struct hfi_request *request)
{
    struct etcd_call *call = (struct etcd_call *)request;

    etcd_text_done(&call->body);
    etcd_text_done(&call->exchange.in);
}

struct etcd_call *etcd_call_new(struct etcd_store *store, const struct etcd_method *method,
                                etcd_answer_fn *answer, struct hfi_op *op)
{
    bool must = op && op->kind == HFI_OP_RELEASE;
    struct etcd_call *call = (struct etcd_call *)hfi_request_new(&store->requests, must);

    if (!call) {
        if (op)
            etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->exchange.method = method;
    call->exchange.link = NULL;
    call->answer = answer;
    call->op = op;
    call->data = NULL;
    call->again = call->maybe = call->secret = call->waits_auth = call->starved = false;
    call->tries = call->auth_tries = 0;
    call->code = 0;
    call->sent_ms = 0;
    call->request.give_up_ms = hfi_now_ms() + store->conf->op_ms;
    call->body.len = 0;
    call->body.failed = false;
    call->begun = etcd_message_begin(&call->body);
    return call;
}

struct etcd_call *etcd_call_probe(struct etcd_store *store, etcd_answer_fn *answer)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_range_method, answer, NULL);
    struct etcd_key from, to;

    if (!call)
        return NULL;
    call->again = true;
    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add_range(&call->body, &(struct etcd_range){ .key = &from, .count_only = true });
    return call;
}

void etcd_call_free(struct etcd_call *call)
{
    struct etcd_store *store = call->store;

    if (call->secret || call->body.room > BODY_KEPT || call->exchange.in.room > REPLY_KEPT) {
        etcd_text_done(&call->body);
        etcd_text_done(&call->exchange.in);
    }
    hfi_request_free(&store->requests, &call->request);
}

static void give_up(struct hfi_request *request)
{
    struct etcd_call *call = (struct etcd_call *)request;
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                  call->store->conf->url.hosts[call->host].shown);
    if (call->starved)
        hfi_error_memory(&err);
    end(call, call->maybe ? HFI_MAYBE : HFI_UNSENT, none, &err);
}

static void resend(struct hfi_request *request)
{
    attempt((struct etcd_call *)request);
}

bool etcd_calls_open(struct etcd_store *store)
{
    static const struct hfi_request_calls calls = {
        .make = make, .unmake = unmake, .send = resend, .give_up = give_up
    };

    hfi_list_init(&store->calls);
    return hfi_requests_init(&store->requests, &store->reactor, &calls, sizeof(struct etcd_call),
                             POOL_MAX);
}

void etcd_calls_close(struct etcd_store *store)
{
    struct hfi_request *request;
    struct hfi_list *node;

    while (store->calls.next && (node = hfi_list_pop(&store->calls))) {
        struct etcd_call *call = hfi_container(node, struct etcd_call, listed);

        etcd_exchange_drop(&call->exchange);
        etcd_call_free(call);
    }
    while ((request = hfi_requests_pop(&store->requests)))
        etcd_call_free((struct etcd_call *)request);
    hfi_requests_done(&store->requests);
}

/* ---- sending -------------------------------------------------------------------------------------- */

void etcd_call_send(struct etcd_call *call)
{
    struct etcd_store *store = call->store;

    if (store->conf->url.user && !store->token && !call->secret) {
        call->waits_auth = true;
        park(call, HFI_NEVER);
        etcd_auth_begin(store);
        return;
    }
    attempt(call);
}

void etcd_call_hurry(struct etcd_call *call)
{
    int64_t now_ms = hfi_now_ms();

    etcd_exchange_end_by(&call->exchange, now_ms + ETCD_CANCEL_MS);
    hfi_request_give_up_at(&call->store->requests, &call->request, now_ms);
}

/* No memory to send it. A call is never answered while it is being sent: so it is answered at the
 * next tick. */
static void fail_later(struct etcd_call *call)
{
    call->starved = true;
    call->request.give_up_ms = 0;
    park(call, 0);
}

static void attempt(struct etcd_call *call)
{
    struct etcd_store *store = call->store;
    int64_t now_ms = hfi_now_ms(), left_ms = call->request.give_up_ms - now_ms;
    int64_t share_ms = store->conf->op_ms / 3;

    if (call->body.failed) {
        fail_later(call);
        return;
    }
    etcd_message_end(&call->body, call->begun);
    /* A member that does not answer must not use up the time of the others. */
    share_ms = share_ms < ATTEMPT_MIN_MS ? ATTEMPT_MIN_MS : share_ms;
    if (store->conf->url.host_count == 1 || store->aside)
        share_ms = store->conf->op_ms;
    if (left_ms > share_ms)
        left_ms = share_ms;
    call->host = store->at;
    call->tries++;
    call->token = store->tokens;
    call->exchange.token = call->secret ? NULL : &store->token;
    call->exchange.until_ms = now_ms + (left_ms < 1 ? 1 : left_ms);
    hfi_list_append(&store->calls, &call->listed);
    etcd_link_begin(&store->members[call->host].link, &call->exchange);
}

static void park(struct etcd_call *call, int64_t retry_ms)
{
    call->request.retry_ms = retry_ms;
    hfi_request_park(&call->store->requests, &call->request);
}

void etcd_calls_authenticated(struct etcd_store *store)
{
    for (struct hfi_request *one = store->requests.parked; one; one = one->next) {
        struct etcd_call *call = (struct etcd_call *)one;

        if (call->waits_auth)
            one->retry_ms = 0;
        call->waits_auth = false;
    }
    hfi_source_at(&store->requests.unpark, 0);
}

/* ---- what came back --------------------------------------------------------------------------------- */

void etcd_host_failed(struct etcd_store *store, size_t host)
{
    if (store->conf->url.host_count < 2 || store->aside)
        return;
    if (host == store->at)
        store->at = (store->at + 1) % store->conf->url.host_count;
    etcd_watches_host_failed(store, host);
}

static int64_t pause_ms(const struct etcd_call *call)
{
    size_t hosts = call->store->conf->url.host_count;
    int64_t pause_ms = ETCD_AGAIN_MIN_MS;

    if (call->tries < hosts)
        return 0; /* another member can be asked */
    for (size_t i = hosts; i < call->tries && pause_ms < ETCD_AGAIN_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < ETCD_AGAIN_MAX_MS ? pause_ms : ETCD_AGAIN_MAX_MS;
}

/* The member did not serve it. Send it again, if that does no harm and there is time. */
static void fail(struct etcd_call *call, const hf_error *err)
{
    struct etcd_store *store = call->store;
    bool once = store->aside ||
                (store->reactor.host->open_once && call->tries >= store->conf->url.host_count);
    int64_t now_ms = hfi_now_ms(), wait_ms = pause_ms(call);

    etcd_host_failed(store, call->host);
    if ((call->maybe && !call->again) || err->status == HF_DENIED || once ||
        now_ms + wait_ms >= call->request.give_up_ms)
        end(call, call->maybe ? HFI_MAYBE : HFI_UNSENT, none, err);
    else
        park(call, now_ms + wait_ms);
}

/* Is the token not valid any more? Then request another one, once. */
static bool needs_token(const struct etcd_call *call, int code, const char *text)
{
    return call->store->conf->url.user && !call->secret && call->auth_tries < 2 &&
           (code == ETCD_CODE_UNAUTHENTICATED || strstr(text, "auth store is old"));
}

/* etcd refused the request. */
static void refused(struct etcd_call *call, const hf_error *why)
{
    struct etcd_store *store = call->store;
    hf_error err = *why;

    if (needs_token(call, why->native, why->text)) {
        call->auth_tries++;
        if (store->token && call->token == store->tokens) { /* otherwise there is a new one
                                                             * already */
            explicit_bzero(store->token, strlen(store->token));
            hfi_free(store->token);
            store->token = NULL;
        }
        etcd_call_send(call);
        return;
    }
    call->code = why->native;
    err.status = etcd_code_status(why->native, why->text);
    if (err.status == HF_FULL && strstr(why->text, "too many requests")) { /* it was not
                                                                            * executed */
        err.status = HF_UNAVAILABLE;
        fail(call, &err);
    } else if (err.status == HF_UNAVAILABLE) {
        call->maybe = true; /* "leader changed", "request timed out": it may still be executed */
        fail(call, &err);
    } else {
        end(call, HFI_REFUSED, none, &err);
    }
}

static void over(struct etcd_exchange *exchange, enum etcd_end ended, struct etcd_message reply,
                 const hf_error *why)
{
    struct etcd_call *call = hfi_container(exchange, struct etcd_call, exchange);
    struct etcd_store *store = call->store;

    hfi_list_remove(&call->listed);
    call->sent_ms = exchange->sent_ms;
    switch (ended) {
    case ETCD_ANSWERED:
        store->failures = 0;
        end(call, HFI_ANSWERED, reply, NULL);
        return;
    case ETCD_REFUSED:
        refused(call, why);
        return;
    case ETCD_ODD:
        if (why->status == HF_VERSION) {
            end(call, HFI_REFUSED, none, why);
            return;
        }
        break;
    case ETCD_MAYBE:
    case ETCD_UNSENT:
        store->failures++;
        break;
    }
    call->maybe = call->maybe || ended != ETCD_UNSENT;
    fail(call, why);
}

static void end(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                const hf_error *err)
{
    call->answer(call, outcome, reply, err);
    etcd_call_free(call);
}
