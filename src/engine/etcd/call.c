/* SPDX-License-Identifier: MIT */
/*
 * One request and its answer. A call is sent to the endpoint in use; if that cannot be reached, or
 * cannot serve, the next one is used. A call that may have been executed is sent again only if the
 * caller says that a second copy does no harm (`again`); `maybe` and `copies` then say that there
 * was more than one.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define POOL_MAX       32
#define ATTEMPT_MIN_MS 500
#define REPLY_USUAL    8000

static void attempt(struct etcd_call *call);
static void park(struct etcd_call *call, int64_t retry_ms);
static void end(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                const hf_error *err);

/* ---- making and freeing -------------------------------------------------------------------------- */

/* Another copy is about to be sent: libcurl itself repeats a request on a dead connection. */
static int on_leave(void *arg, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct etcd_call *call = arg;

    (void)to_ip, (void)from_ip, (void)to_port, (void)from_port;
    call->copies++;
    call->sent_ms = hfi_now_ms();
    return CURL_PREREQFUNC_OK;
}

static bool make(struct hfi_requests *requests, struct hfi_request *request)
{
    struct etcd_store *store = hfi_container(requests, struct etcd_store, requests);
    struct etcd_call *call = (struct etcd_call *)request;

    call->store = store;
    call->easy = curl_easy_init();
    if (!call->easy)
        return false;
    etcd_easy_setup(store, call->easy);
    etcd_track(&store->multis[ETCD_CALLS], call->easy);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, etcd_on_bytes);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, &call->reply);
    curl_easy_setopt(call->easy, CURLOPT_PREREQFUNCTION, on_leave);
    curl_easy_setopt(call->easy, CURLOPT_PREREQDATA, call);
    return true;
}

static void unmake(struct hfi_request *request)
{
    struct etcd_call *call = (struct etcd_call *)request;

    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    etcd_text_done(&call->body);
    etcd_text_done(&call->reply);
}

struct etcd_call *etcd_call_new(struct etcd_store *store, const char *path, etcd_answer_fn *answer,
                                struct hfi_op *op)
{
    bool must = op && op->kind == HFI_OP_RELEASE;
    struct etcd_call *call = (struct etcd_call *)hfi_request_new(&store->requests, must);

    if (!call) {
        if (op)
            etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->live = NULL;
    call->path = path;
    call->answer = answer;
    call->op = op;
    call->data = NULL;
    call->again = call->maybe = call->secret = call->waits_auth = call->flying = false;
    call->starved = false;
    call->copies = call->tries = call->auth_tries = 0;
    call->code = 0;
    call->sent_ms = 0;
    call->request.give_up_ms = hfi_now_ms() + store->conf->op_ms;
    call->body.len = call->reply.len = 0;
    call->body.failed = call->reply.failed = false;
    return call;
}

struct etcd_call *etcd_call_probe(struct etcd_store *store, etcd_answer_fn *answer)
{
    struct etcd_call *call = etcd_call_new(store, "/v3/kv/range", answer, NULL);
    struct etcd_key from, to;

    if (!call)
        return NULL;
    call->again = true;
    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add(&call->body, "{");
    etcd_add_key(&call->body, "key", &from);
    etcd_add(&call->body, ",\"count_only\":true}");
    return call;
}

void etcd_call_free(struct etcd_call *call)
{
    struct etcd_store *store = call->store;

    if (call->secret || call->body.room > 16384 || call->reply.room > 65536) {
        etcd_text_done(&call->body);
        etcd_text_done(&call->reply);
    }
    curl_slist_free_all(call->headers);
    call->headers = NULL;
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
    end(call, call->maybe ? HFI_MAYBE : HFI_UNSENT, NULL, &err);
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

    return hfi_requests_init(&store->requests, &store->reactor, &calls, sizeof(struct etcd_call),
                             POOL_MAX);
}

void etcd_calls_close(struct etcd_store *store)
{
    struct hfi_request *request;
    struct etcd_call *call;

    while ((call = store->calls)) {
        store->calls = call->live;
        curl_multi_remove_handle(store->multis[ETCD_CALLS].handle, call->easy);
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
    char url[ETCD_URL_ROOM];

    /* Allocate room for the usual answer before the request is executed. */
    if (call->body.failed || !etcd_reserve(&call->reply, REPLY_USUAL)) {
        fail_later(call);
        return;
    }
    /* An endpoint that does not answer must not use up the time of the others. */
    share_ms = share_ms < ATTEMPT_MIN_MS ? ATTEMPT_MIN_MS : share_ms;
    if (store->conf->url.host_count == 1)
        share_ms = store->conf->op_ms;
    if (left_ms > share_ms)
        left_ms = share_ms;
    call->host = store->at;
    call->copies = 0;
    call->tries++;
    call->reply.len = 0;
    call->reply.failed = false;
    call->sent_ms = now_ms;
    call->token = store->tokens;
    curl_slist_free_all(call->headers);
    call->headers = call->secret ? NULL : etcd_headers(store);
    if (call->url_path != call->path || call->url_host != call->host) {
        etcd_conf_address(store->conf, call->host, call->path, url, sizeof url);
        call->url_path = NULL;
        if (curl_easy_setopt(call->easy, CURLOPT_URL, url) != CURLE_OK) {
            fail_later(call);
            return;
        }
        call->url_path = call->path;
        call->url_host = call->host;
    }
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER,
                     call->headers ? call->headers : store->headers);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body.bytes);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE, (long)call->body.len);
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms < 1 ? 1 : left_ms));
    if (curl_multi_add_handle(store->multis[ETCD_CALLS].handle, call->easy) != CURLM_OK) {
        fail_later(call);
        return;
    }
    call->flying = true;
    call->live = store->calls;
    store->calls = call;
    etcd_started(store);
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
    if (store->conf->url.host_count < 2)
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
        return 0; /* another endpoint can be asked */
    for (size_t i = hosts; i < call->tries && pause_ms < ETCD_AGAIN_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < ETCD_AGAIN_MAX_MS ? pause_ms : ETCD_AGAIN_MAX_MS;
}

/* The endpoint did not serve it. Send it again, if that does no harm and there is time. */
static void fail(struct etcd_call *call, hf_error *err)
{
    struct etcd_store *store = call->store;
    int64_t now_ms = hfi_now_ms(), wait_ms = pause_ms(call);

    etcd_host_failed(store, call->host);
    if ((call->maybe && !call->again) || err->status == HF_DENIED ||
        (store->reactor.host->open_once && call->tries >= store->conf->url.host_count) ||
        now_ms + wait_ms >= call->request.give_up_ms)
        end(call, call->maybe ? HFI_MAYBE : HFI_UNSENT, NULL, err);
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
static void refused(struct etcd_call *call, long http, int code, const char *text)
{
    struct etcd_store *store = call->store;
    hf_error err;

    if (needs_token(call, code, text)) {
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
    call->code = code;
    hfi_error_set(&err, etcd_code_status(code, text), code, "%s: %s",
                  store->conf->url.hosts[call->host].shown, text);
    if (code == 0 && http == 404) {
        hfi_error_set(&err, HF_VERSION, 404, "%s: no /v3 there: etcd 3.4 or newer is needed",
                      store->conf->url.hosts[call->host].shown);
        end(call, HFI_REFUSED, NULL, &err);
    } else if (err.status == HF_FULL && strstr(text, "too many requests")) { /* it was not
                                                                              * executed */
        err.status = HF_UNAVAILABLE;
        fail(call, &err);
    } else if (err.status == HF_UNAVAILABLE) {
        call->maybe = true; /* "leader changed", "request timed out": it may still be executed */
        fail(call, &err);
    } else {
        end(call, HFI_REFUSED, NULL, &err);
    }
}

static void answered(struct etcd_call *call)
{
    struct etcd_store *store = call->store;
    json_t *whole =
        call->reply.len ? json_loadb(call->reply.bytes, call->reply.len, 0, NULL) : NULL;
    json_t *error = json_object_get(whole, "error"), *inner = json_object_get(whole, "result");
    const char *text = "not what etcd answers";
    long http = 0;
    int code = 0;
    hf_error err;

    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http);
    call->maybe = call->maybe || call->copies > 1;
    if (json_is_object(error)) { /* of a stream */
        code = (int)etcd_read_number(error, "grpc_code");
        if (json_is_string(json_object_get(error, "message")))
            text = json_string_value(json_object_get(error, "message"));
    } else if (json_is_string(error)) {
        code = (int)etcd_read_number(whole, "code");
        text = json_string_value(error);
    }
    if (error || http == 404) {
        refused(call, http, code, text);
    } else if (http != 200 || !json_is_object(whole)) {
        call->maybe = true;
        hfi_error_set(&err, HF_UNAVAILABLE, (int)http, "%s: an answer that etcd does not give",
                      store->conf->url.hosts[call->host].shown);
        fail(call, &err);
    } else {
        store->failures = 0;
        end(call, HFI_ANSWERED, json_is_object(inner) ? inner : whole, NULL);
    }
    json_decref(whole);
}

/* Add the errno of the system to "Couldn't connect". */
static const char *why(CURL *easy, CURLcode result)
{
    long error = 0;

    if (result == CURLE_COULDNT_CONNECT)
        (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &error);
    return error ? strerror((int)error) : curl_easy_strerror(result);
}

void etcd_call_ended(struct etcd_call *call, CURLcode result)
{
    struct etcd_store *store = call->store;
    struct etcd_call **at = &store->calls;
    hf_error err;

    while (*at != call)
        at = &(*at)->live;
    *at = call->live;
    call->flying = false;
    if (result == CURLE_OK) {
        answered(call);
        return;
    }
    call->maybe = call->maybe || call->copies > 0;
    store->failures++;
    hfi_error_set(&err, etcd_curl_status(result), (int)result, "%s: %s",
                  store->conf->url.hosts[call->host].shown, why(call->easy, result));
    fail(call, &err);
}

static void end(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                const hf_error *err)
{
    call->answer(call, outcome, reply, err);
    etcd_call_free(call);
}
