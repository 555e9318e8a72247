/* SPDX-License-Identifier: MIT */
/*
 * One request and its answer. A call is sent to the endpoint in use; if that cannot be reached, or
 * says that it cannot serve, the next endpoint is. What may have been executed is sent again only
 * if the caller says that a second copy does no harm (`again`), and the answer then tells that
 * there was more than one (`maybe`, `copies`).
 */
#include "engine/etcd/ec.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define POOL_MAX       32
#define ATTEMPT_MIN_MS 500
#define REPLY_MAX      (64u << 20)
#define REPLY_USUAL    8000
#define URL_ROOM       512

/* gRPC's codes, as the gateway passes them on */
enum {
    CODE_INVALID = 3,
    CODE_NOT_FOUND = 5,
    CODE_DENIED = 7,
    CODE_EXHAUSTED = 8,
    CODE_PRECONDITION = 9,
    CODE_RANGE = 11,
    CODE_UNIMPLEMENTED = 12,
    CODE_UNAUTHENTICATED = 16
};

static void attempt(struct ec_call *call);
static void park(struct ec_call *call, int64_t retry_ms);
static void end(struct ec_call *call, enum ec_outcome outcome, json_t *reply, const hf_error *err);

/* ---- making and freeing -------------------------------------------------------------------------- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct ec_call *call = arg;

    if (call->reply.len + size * count > REPLY_MAX)
        return 0;
    hfi_ec_add_bytes(&call->reply, bytes, size * count);
    return call->reply.failed ? 0 : size * count;
}

/* Another copy is about to leave: libcurl repeats by itself on a connection that turned out dead. */
static int on_leave(void *arg, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct ec_call *call = arg;

    (void)to_ip, (void)from_ip, (void)to_port, (void)from_port;
    call->copies++;
    call->sent_ms = hfi_now_ms();
    return CURL_PREREQFUNC_OK;
}

void hfi_ec_easy_setup(struct hfi_conn *conn, CURL *easy)
{
    const struct ec_conf *conf = conn->conf;

    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, conf->tls ? "https" : "http");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)conf->connect_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (!conf->tls)
        return;
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, conf->tls_verify ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, conf->tls_verify ? 2L : 0L);
    if (conf->tls_ca)
        curl_easy_setopt(easy, CURLOPT_CAINFO, conf->tls_ca);
    if (conf->tls_cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, conf->tls_cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, conf->tls_key);
    }
}

static struct ec_call *make(struct hfi_conn *conn)
{
    struct ec_call *call = hfi_calloc(1, sizeof *call);

    if (!call)
        return NULL;
    call->conn = conn;
    call->easy = curl_easy_init();
    if (!call->easy) {
        hfi_free(call);
        return NULL;
    }
    hfi_ec_easy_setup(conn, call->easy);
    hfi_ec_track(conn, call->easy);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_PREREQFUNCTION, on_leave);
    curl_easy_setopt(call->easy, CURLOPT_PREREQDATA, call);
    return call;
}

static void unmake(struct ec_call *call)
{
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    hfi_ec_text_done(&call->body);
    hfi_ec_text_done(&call->reply);
    hfi_free(call);
}

struct ec_call *hfi_ec_call_new(struct hfi_conn *conn, const char *path, ec_answer_fn *answer,
                                struct hfi_op *op)
{
    struct ec_call *call = conn->pool;

    if (call) {
        conn->pool = call->next;
        conn->pool_count--;
    } else {
        call = make(conn);
    }
    if (!call) {
        if (op)
            hfi_ec_finish(conn, op, HF_NO_MEMORY, NULL);
        return NULL;
    }
    call->next = call->live = NULL;
    call->path = path;
    call->answer = answer;
    call->op = op;
    call->data = NULL;
    call->again = call->maybe = call->secret = call->waits_auth = call->flying = false;
    call->starved = false;
    call->copies = call->tries = call->auth_tries = 0;
    call->code = 0;
    call->sent_ms = 0;
    call->until_ms = hfi_now_ms() + conn->conf->op_ms;
    call->body.len = call->reply.len = 0;
    call->body.failed = call->reply.failed = false;
    return call;
}

void hfi_ec_call_free(struct ec_call *call)
{
    struct hfi_conn *conn = call->conn;

    if (call->secret || call->body.room > 16384 || call->reply.room > 65536) {
        hfi_ec_text_done(&call->body);
        hfi_ec_text_done(&call->reply);
    }
    curl_slist_free_all(call->headers);
    call->headers = NULL;
    if (conn->pool_count >= POOL_MAX) {
        unmake(call);
        return;
    }
    call->next = conn->pool;
    conn->pool = call;
    conn->pool_count++;
}

void hfi_ec_calls_close(struct hfi_conn *conn)
{
    struct ec_call *call;

    while ((call = conn->calls)) {
        conn->calls = call->live;
        curl_multi_remove_handle(conn->multis[EC_CALLS].handle, call->easy);
        unmake(call);
    }
    while ((call = conn->parked)) {
        conn->parked = call->next;
        unmake(call);
    }
    while ((call = conn->pool)) {
        conn->pool = call->next;
        unmake(call);
    }
}

/* ---- sending -------------------------------------------------------------------------------------- */

struct curl_slist *hfi_ec_headers(struct hfi_conn *conn)
{
    struct curl_slist *list, *more;
    char line[1024];

    if (!conn->token ||
        snprintf(line, sizeof line, "Authorization: %s", conn->token) >= (int)sizeof line)
        return NULL;
    list = curl_slist_append(NULL, "Content-Type: application/json");
    more = list ? curl_slist_append(list, line) : NULL;
    explicit_bzero(line, sizeof line);
    if (more)
        return more;
    curl_slist_free_all(list);
    return NULL;
}

void hfi_ec_call_send(struct ec_call *call)
{
    struct hfi_conn *conn = call->conn;

    if (conn->conf->user && !conn->token && !call->secret) {
        call->waits_auth = true;
        park(call, HFI_NEVER);
        hfi_ec_auth_begin(conn);
        return;
    }
    attempt(call);
}

/* No memory for it. Nobody is answered by sending: that comes with the next tick. */
static void fail_later(struct ec_call *call)
{
    call->starved = true;
    call->until_ms = 0;
    park(call, 0);
}

static void attempt(struct ec_call *call)
{
    struct hfi_conn *conn = call->conn;
    int64_t now_ms = hfi_now_ms(), left_ms = call->until_ms - now_ms;
    int64_t share_ms = conn->conf->op_ms / 3;
    char url[URL_ROOM];

    /* Room for the usual answer, before anything is done that it would tell of. */
    if (call->body.failed || !hfi_ec_reserve(&call->reply, REPLY_USUAL)) {
        fail_later(call);
        return;
    }
    /* One that is stopped must not eat the time of all others. */
    share_ms = share_ms < ATTEMPT_MIN_MS ? ATTEMPT_MIN_MS : share_ms;
    if (conn->conf->host_count == 1)
        share_ms = conn->conf->op_ms;
    if (left_ms > share_ms)
        left_ms = share_ms;
    call->host = conn->at;
    call->copies = 0;
    call->tries++;
    call->reply.len = 0;
    call->reply.failed = false;
    call->sent_ms = now_ms;
    call->token = conn->tokens;
    curl_slist_free_all(call->headers);
    call->headers = call->secret ? NULL : hfi_ec_headers(conn);
    if (call->url_path != call->path || call->url_host != call->host) {
        snprintf(url, sizeof url, "%s%s", conn->conf->hosts[call->host].base, call->path);
        call->url_path = NULL;
        if (curl_easy_setopt(call->easy, CURLOPT_URL, url) != CURLE_OK) {
            fail_later(call);
            return;
        }
        call->url_path = call->path;
        call->url_host = call->host;
    }
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers ? call->headers : conn->headers);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body.bytes);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE, (long)call->body.len);
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)(left_ms < 1 ? 1 : left_ms));
    if (curl_multi_add_handle(conn->multis[EC_CALLS].handle, call->easy) != CURLM_OK) {
        fail_later(call);
        return;
    }
    call->flying = true;
    call->live = conn->calls;
    conn->calls = call;
    conn->started = true;
}

static void park(struct ec_call *call, int64_t retry_ms)
{
    call->retry_ms = retry_ms;
    call->next = call->conn->parked;
    call->conn->parked = call;
}

int64_t hfi_ec_calls_next_ms(const struct hfi_conn *conn)
{
    int64_t next = HFI_NEVER;

    for (const struct ec_call *call = conn->parked; call; call = call->next) {
        int64_t due_ms = call->retry_ms < call->until_ms ? call->retry_ms : call->until_ms;

        if (call->waits_auth && conn->token)
            return 0;
        next = due_ms < next ? due_ms : next;
    }
    return next;
}

void hfi_ec_calls_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct ec_call *call = conn->parked, *next;
    hf_error err;

    conn->parked = NULL;
    for (; call; call = next) {
        next = call->next;
        if (call->waits_auth && conn->token) {
            call->waits_auth = false;
            attempt(call);
        } else if (now_ms >= call->until_ms) {
            hfi_error_set(&err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                          conn->conf->hosts[call->host].shown);
            if (call->starved)
                hfi_error_memory(&err);
            end(call, call->maybe ? EC_MAYBE : EC_UNSENT, NULL, &err);
        } else if (!call->waits_auth && now_ms >= call->retry_ms) {
            attempt(call);
        } else {
            call->next = conn->parked;
            conn->parked = call;
        }
    }
}

/* ---- what came back --------------------------------------------------------------------------------- */

void hfi_ec_host_failed(struct hfi_conn *conn, size_t host)
{
    if (conn->conf->host_count < 2)
        return;
    if (host == conn->at)
        conn->at = (conn->at + 1) % conn->conf->host_count;
    hfi_ec_watches_host_failed(conn, host);
}

static int64_t pause_ms(const struct ec_call *call)
{
    size_t hosts = call->conn->conf->host_count;
    int64_t pause_ms = EC_AGAIN_MIN_MS;

    if (call->tries < hosts)
        return 0; /* there is another to be asked */
    for (size_t i = hosts; i < call->tries && pause_ms < EC_AGAIN_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < EC_AGAIN_MAX_MS ? pause_ms : EC_AGAIN_MAX_MS;
}

/* It was not served. Again, if that does no harm and there is time. */
static void fail(struct ec_call *call, hf_error *err)
{
    int64_t now_ms = hfi_now_ms(), wait_ms = pause_ms(call);

    hfi_ec_host_failed(call->conn, call->host);
    if ((call->maybe && !call->again) || err->status == HF_DENIED ||
        now_ms + wait_ms >= call->until_ms)
        end(call, call->maybe ? EC_MAYBE : EC_UNSENT, NULL, err);
    else
        park(call, now_ms + wait_ms);
}

static hf_status code_status(int code, const char *text)
{
    switch (code) {
    case CODE_DENIED:
    case CODE_UNAUTHENTICATED:
        return HF_DENIED;
    case CODE_INVALID: /* what etcd says to a wrong password, and to no user where one is needed */
        return strstr(text, "auth") || strstr(text, "user name") ? HF_DENIED : HF_INTERNAL;
    case CODE_PRECONDITION:
        return strstr(text, "auth") ? HF_DENIED : HF_INTERNAL;
    case CODE_NOT_FOUND:
        return HF_NOT_FOUND;
    case CODE_EXHAUSTED:
        return HF_FULL;
    case CODE_RANGE:
        return HF_CORRUPT;
    case CODE_UNIMPLEMENTED:
        return HF_VERSION;
    default:
        return HF_UNAVAILABLE;
    }
}

/* The token is no longer good: ask for another, once. */
static bool needs_token(const struct ec_call *call, int code, const char *text)
{
    return call->conn->conf->user && !call->secret && call->auth_tries < 2 &&
           (code == CODE_UNAUTHENTICATED || strstr(text, "auth store is old"));
}

/* etcd said no. */
static void refused(struct ec_call *call, long http, int code, const char *text)
{
    struct hfi_conn *conn = call->conn;
    hf_error err;

    if (needs_token(call, code, text)) {
        call->auth_tries++;
        if (conn->token && call->token == conn->tokens) { /* else there is a new one already */
            explicit_bzero(conn->token, strlen(conn->token));
            hfi_free(conn->token);
            conn->token = NULL;
        }
        hfi_ec_call_send(call);
        return;
    }
    call->code = code;
    hfi_error_set(&err, code_status(code, text), code, "%s: %s",
                  conn->conf->hosts[call->host].shown, text);
    if (code == 0 && http == 404) {
        hfi_error_set(&err, HF_VERSION, 404, "%s: no /v3 there: etcd 3.4 or newer is needed",
                      conn->conf->hosts[call->host].shown);
        end(call, EC_REFUSED, NULL, &err);
    } else if (err.status == HF_FULL && strstr(text, "too many requests")) { /* and did nothing */
        err.status = HF_UNAVAILABLE;
        fail(call, &err);
    } else if (err.status == HF_UNAVAILABLE) {
        call->maybe = true; /* "leader changed", "request timed out": it may be done yet */
        fail(call, &err);
    } else {
        end(call, EC_REFUSED, NULL, &err);
    }
}

static void answered(struct ec_call *call)
{
    struct hfi_conn *conn = call->conn;
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
        code = (int)hfi_ec_number(error, "grpc_code");
        if (json_is_string(json_object_get(error, "message")))
            text = json_string_value(json_object_get(error, "message"));
    } else if (json_is_string(error)) {
        code = (int)hfi_ec_number(whole, "code");
        text = json_string_value(error);
    }
    if (error || http == 404) {
        refused(call, http, code, text);
    } else if (http != 200 || !json_is_object(whole)) {
        call->maybe = true;
        hfi_error_set(&err, HF_UNAVAILABLE, (int)http, "%s: an answer that etcd does not give",
                      conn->conf->hosts[call->host].shown);
        fail(call, &err);
    } else {
        conn->failures = 0;
        end(call, EC_ANSWERED, json_is_object(inner) ? inner : whole, NULL);
    }
    json_decref(whole);
}

static hf_status curl_status(CURLcode result)
{
    switch (result) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return HF_DENIED;
    case CURLE_OUT_OF_MEMORY:
        return HF_NO_MEMORY;
    default:
        return HF_UNAVAILABLE;
    }
}

void hfi_ec_call_ended(struct ec_call *call, CURLcode result)
{
    struct hfi_conn *conn = call->conn;
    struct ec_call **at = &conn->calls;
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
    conn->failures++;
    hfi_error_set(&err, curl_status(result), (int)result, "%s: %s",
                  conn->conf->hosts[call->host].shown, curl_easy_strerror(result));
    fail(call, &err);
}

static void end(struct ec_call *call, enum ec_outcome outcome, json_t *reply, const hf_error *err)
{
    call->answer(call, outcome, reply, err);
    hfi_ec_call_free(call);
}

hf_status hfi_ec_status(enum ec_outcome outcome, const hf_error *err)
{
    if (outcome == EC_MAYBE)
        return HF_UNKNOWN;
    return err && err->status != HF_OK ? err->status : HF_UNAVAILABLE;
}

/* ---- blocking ------------------------------------------------------------------------------------------ */

static size_t on_text(char *bytes, size_t size, size_t count, void *arg)
{
    struct ec_text *text = arg;

    if (text->len + size * count > REPLY_MAX)
        return 0;
    hfi_ec_add_bytes(text, bytes, size * count);
    return text->failed ? 0 : size * count;
}

static hf_status ask_once(struct hfi_conn *conn, size_t host, const char *path, const char *body,
                          int64_t limit_ms, json_t **ret_reply, hf_error *err)
{
    CURL *easy = curl_easy_init();
    struct ec_text text = { 0 };
    struct curl_slist *headers;
    char url[URL_ROOM];
    const char *shown = conn->conf->hosts[host].shown;
    hf_status status = HF_OK;
    CURLcode result;
    json_t *reply = NULL, *error;

    if (!easy)
        return hfi_error_memory(err);
    hfi_ec_easy_setup(conn, easy);
    pthread_mutex_lock(&conn->lock);
    headers = hfi_ec_headers(conn);
    pthread_mutex_unlock(&conn->lock);
    snprintf(url, sizeof url, "%s%s", conn->conf->hosts[host].base, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers ? headers : conn->headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_text);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &text);
    result = curl_easy_perform(easy);
    if (result == CURLE_OK && text.len)
        reply = json_loadb(text.bytes, text.len, 0, NULL);
    error = json_object_get(reply, "error");
    if (text.failed)
        status = hfi_error_memory(err);
    else if (result != CURLE_OK)
        status = hfi_error_set(err, curl_status(result), (int)result, "%s: %s", shown,
                               curl_easy_strerror(result));
    else if (json_is_string(error))
        status = hfi_error_set(
            err, code_status((int)hfi_ec_number(reply, "code"), json_string_value(error)),
            (int)hfi_ec_number(reply, "code"), "%s: %s", shown, json_string_value(error));
    else if (!json_is_object(reply))
        status =
            hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: an answer that etcd does not give", shown);
    if (status == HF_OK)
        *ret_reply = reply;
    else
        json_decref(reply);
    hfi_ec_text_done(&text);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    return status;
}

/* A new token, for one who may block. */
static bool renew_token(struct hfi_conn *conn, size_t host, int64_t limit_ms)
{
    struct ec_text body = { 0 };
    json_t *reply = NULL;
    const char *token;
    char *copy = NULL;

    hfi_ec_add_login(&body, conn->conf);
    if (!body.failed && ask_once(conn, host, "/v3/auth/authenticate", body.bytes, limit_ms, &reply,
                                 NULL) == HF_OK) {
        token = json_string_value(json_object_get(reply, "token"));
        copy = token ? hfi_strdup(token) : NULL;
    }
    json_decref(reply);
    hfi_ec_text_done(&body);
    if (!copy)
        return false;
    pthread_mutex_lock(&conn->lock);
    if (conn->token)
        explicit_bzero(conn->token, strlen(conn->token));
    hfi_free(conn->token);
    conn->token = copy;
    conn->tokens++;
    pthread_mutex_unlock(&conn->lock);
    return true;
}

hf_status hfi_ec_ask(struct hfi_conn *conn, size_t host, const char *path, const char *body,
                     int64_t limit_ms, json_t **ret_reply, hf_error *err)
{
    hf_error first;
    hf_status status = ask_once(conn, host, path, body, limit_ms, ret_reply, &first);

    if (status != HF_OK && conn->conf->user && first.native == CODE_UNAUTHENTICATED &&
        renew_token(conn, host, limit_ms))
        return ask_once(conn, host, path, body, limit_ms, ret_reply, err);
    if (status != HF_OK && err)
        *err = first;
    return status;
}
