/* SPDX-License-Identifier: MIT */
/*
 * What all requests to etcd have in common: the handle of libcurl, the headers with a user's token,
 * the meaning of failures. And a blocking request.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* gRPC's codes, as the gateway passes them on */
enum {
    CODE_INVALID = 3,
    CODE_NOT_FOUND = 5,
    CODE_DENIED = 7,
    CODE_EXHAUSTED = 8,
    CODE_PRECONDITION = 9,
    CODE_RANGE = 11,
    CODE_UNIMPLEMENTED = 12
};

/* ---- a handle ------------------------------------------------------------------------------------------- */

void etcd_easy_setup(struct etcd_store *store, CURL *easy)
{
    const struct etcd_conf *conf = store->conf;

    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* ignore the environment */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, conf->url.tls.on ? "https" : "http");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)conf->connect_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (!conf->url.tls.on)
        return;
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, conf->url.tls.verify ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, conf->url.tls.verify ? 2L : 0L);
    if (conf->url.tls.ca)
        curl_easy_setopt(easy, CURLOPT_CAINFO, conf->url.tls.ca);
    if (conf->url.tls.cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, conf->url.tls.cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, conf->url.tls.key);
    }
}

struct curl_slist *etcd_headers(struct etcd_store *store)
{
    struct curl_slist *list, *more;
    char line[1024];

    if (!store->token ||
        snprintf(line, sizeof line, "Authorization: %s", store->token) >= (int)sizeof line)
        return NULL;
    list = curl_slist_append(NULL, "Content-Type: application/json");
    more = list ? curl_slist_append(list, line) : NULL;
    explicit_bzero(line, sizeof line);
    if (more)
        return more;
    curl_slist_free_all(list);
    return NULL;
}

/* ---- what went wrong ------------------------------------------------------------------------------------ */

hf_status etcd_code_status(int code, const char *text)
{
    switch (code) {
    case CODE_DENIED:
    case ETCD_CODE_UNAUTHENTICATED:
        return HF_DENIED;
    case CODE_INVALID: /* etcd's answer to a wrong password, and to a missing user */
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

hf_status etcd_curl_status(CURLcode result)
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

/* ---- blocking ------------------------------------------------------------------------------------------ */

size_t etcd_on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct etcd_text *text = arg;

    if (text->len + size * count > ETCD_REPLY_MAX)
        return 0;
    etcd_add_bytes(text, bytes, size * count);
    return text->failed ? 0 : size * count;
}

static hf_status ask_once(struct etcd_store *store, size_t host, const char *path, const char *body,
                          int64_t limit_ms, json_t **ret_reply, hf_error *err)
{
    CURL *easy = curl_easy_init();
    struct etcd_text text = { 0 };
    struct curl_slist *headers;
    char url[ETCD_URL_ROOM];
    const char *shown = store->conf->url.hosts[host].shown;
    hf_status status = HF_OK;
    CURLcode result;
    json_t *reply = NULL, *error;

    if (!easy)
        return hfi_error_memory(err);
    etcd_easy_setup(store, easy);
    hfi_reactor_enter(&store->reactor);
    headers = etcd_headers(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    etcd_conf_address(store->conf, host, path, url, sizeof url);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers ? headers : store->headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, etcd_on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &text);
    result = curl_easy_perform(easy);
    if (result == CURLE_OK && text.len)
        reply = json_loadb(text.bytes, text.len, 0, NULL);
    error = json_object_get(reply, "error");
    if (text.failed)
        status = hfi_error_memory(err);
    else if (result != CURLE_OK)
        status = hfi_error_set(err, etcd_curl_status(result), (int)result, "%s: %s", shown,
                               curl_easy_strerror(result));
    else if (json_is_string(error))
        status = hfi_error_set(
            err, etcd_code_status((int)etcd_read_number(reply, "code"), json_string_value(error)),
            (int)etcd_read_number(reply, "code"), "%s: %s", shown, json_string_value(error));
    else if (!json_is_object(reply))
        status =
            hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: an answer that etcd does not give", shown);
    if (status == HF_OK)
        *ret_reply = reply;
    else
        json_decref(reply);
    etcd_text_done(&text);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    return status;
}

/* Request a new token; blocks. */
static bool renew_token(struct etcd_store *store, size_t host, int64_t limit_ms)
{
    struct etcd_text body = { 0 };
    json_t *reply = NULL;
    const char *token;
    char *copy = NULL;

    etcd_add_login(&body, store->conf);
    if (!body.failed && ask_once(store, host, "/v3/auth/authenticate", body.bytes, limit_ms, &reply,
                                 NULL) == HF_OK) {
        token = json_string_value(json_object_get(reply, "token"));
        copy = token ? hfi_strdup(token) : NULL;
    }
    json_decref(reply);
    etcd_text_done(&body);
    if (!copy)
        return false;
    hfi_reactor_enter(&store->reactor);
    if (store->token)
        explicit_bzero(store->token, strlen(store->token));
    hfi_free(store->token);
    store->token = copy;
    store->tokens++;
    etcd_calls_authenticated(store);
    hfi_reactor_leave_quietly(&store->reactor, true);
    return true;
}

hf_status etcd_ask(struct etcd_store *store, size_t host, const char *path, const char *body,
                   int64_t limit_ms, json_t **ret_reply, hf_error *err)
{
    hf_error first;
    hf_status status = ask_once(store, host, path, body, limit_ms, ret_reply, &first);

    if (status != HF_OK && store->conf->url.user && first.native == ETCD_CODE_UNAUTHENTICATED &&
        renew_token(store, host, limit_ms))
        return ask_once(store, host, path, body, limit_ms, ret_reply, err);
    if (status != HF_OK && err)
        *err = first;
    return status;
}
