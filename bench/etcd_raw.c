/* SPDX-License-Identifier: MIT */
/* See etcd_raw.h. */
#include "etcd_raw.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (4u << 20) /* for /metrics */

struct etcd_raw {
    CURL *easy;
    struct curl_slist *headers;
    char base[64];
    size_t len;
    char reply[ROOM];
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct etcd_raw *raw = arg;
    size_t len = size * count;

    if (raw->len + len >= ROOM)
        return 0;
    memcpy(raw->reply + raw->len, bytes, len);
    raw->len += len;
    return len;
}

struct etcd_raw *etcd_raw_open(const char *base)
{
    struct etcd_raw *raw = calloc(1, sizeof *raw);

    if (!raw || !(raw->easy = curl_easy_init()))
        bench_die("out of memory");
    snprintf(raw->base, sizeof raw->base, "%s", base);
    raw->headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(raw->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(raw->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(raw->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(raw->easy, CURLOPT_WRITEDATA, raw);
    curl_easy_setopt(raw->easy, CURLOPT_HTTPHEADER, raw->headers);
    return raw;
}

void etcd_raw_close(struct etcd_raw *raw)
{
    curl_easy_cleanup(raw->easy);
    curl_slist_free_all(raw->headers);
    free(raw);
}

static const char *perform(struct etcd_raw *raw, const char *path)
{
    char url[128];

    snprintf(url, sizeof url, "%s%s", raw->base, path);
    curl_easy_setopt(raw->easy, CURLOPT_URL, url);
    raw->len = 0;
    if (curl_easy_perform(raw->easy) != CURLE_OK)
        raw->len = 0;
    raw->reply[raw->len] = 0;
    return raw->reply;
}

const char *etcd_raw_try(struct etcd_raw *raw, const char *path, const char *body)
{
    curl_easy_setopt(raw->easy, CURLOPT_POSTFIELDS, body);
    return perform(raw, path);
}

const char *etcd_raw_get(struct etcd_raw *raw, const char *path)
{
    curl_easy_setopt(raw->easy, CURLOPT_HTTPGET, 1L);
    return perform(raw, path);
}

const char *etcd_raw_ask(struct etcd_raw *raw, const char *path, const char *body)
{
    const char *text = etcd_raw_try(raw, path, body);

    if (!*text || strstr(text, "\"error\""))
        bench_die("etcd: %s: %.100s", path, text);
    return text;
}

long long etcd_raw_number(const char *text, const char *key)
{
    char want[64];
    const char *found;

    snprintf(want, sizeof want, "\"%s\":\"", key);
    found = strstr(text, want);
    if (!found)
        bench_die("etcd: no %s in %.200s", key, text);
    return strtoll(found + strlen(want), NULL, 10);
}

long long etcd_raw_lease(struct etcd_raw *raw)
{
    return etcd_raw_number(etcd_raw_ask(raw, "/v3/lease/grant", "{\"TTL\":\"3600\"}"), "ID");
}

/* Keys and values about as long as ours. */
#define KEY "cmF3L2xvY2tzL2JlbmNoLW5hbWUvbS8wMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg=="
#define VALUE                                                                                      \
    "MSAxIDMwIDE3MDAwMDAwMDAwMDAgMDEyMzQ1Njc4OWFiY2RlZiAtIHJvb3RAaG9zdDoxMjM0NSBob2xkZmFzdC1iZW5j" \
    "aA=="

void etcd_raw_pair(struct etcd_raw *raw, long long lease)
{
    char body[1024];
    long long revision;

    snprintf(body, sizeof body,
             "{\"compare\":[{\"key\":\"" KEY "\",\"target\":\"CREATE\",\"create_revision\":\"0\"}],"
             "\"success\":[{\"request_put\":{\"key\":\"" KEY "\",\"value\":\"" VALUE
             "\",\"lease\":\"%lld\"}}]}",
             lease);
    revision = etcd_raw_number(etcd_raw_ask(raw, "/v3/kv/txn", body), "revision");
    snprintf(body, sizeof body,
             "{\"compare\":[{\"key\":\"" KEY
             "\",\"target\":\"CREATE\",\"create_revision\":\"%lld\"}],"
             "\"success\":[{\"request_delete_range\":{\"key\":\"" KEY "\"}}]}",
             revision);
    if (!strstr(etcd_raw_ask(raw, "/v3/kv/txn", body), "\"succeeded\":true"))
        bench_die("etcd: the raw key was not there");
}

void etcd_raw_lock(struct etcd_raw *raw, long long lease, char *ret_key, size_t room)
{
    char body[128];
    const char *text, *key, *end;

    snprintf(body, sizeof body, "{\"name\":\"bG9jaw==\",\"lease\":\"%lld\"}", lease);
    text = etcd_raw_ask(raw, "/v3/lock/lock", body);
    key = strstr(text, "\"key\":\"");
    end = key ? strchr(key + 7, '"') : NULL;
    if (!end || (size_t)(end - key - 7) >= room)
        bench_die("etcd: no key in %.200s", text);
    memcpy(ret_key, key + 7, (size_t)(end - key - 7));
    ret_key[end - key - 7] = 0;
}

void etcd_raw_unlock(struct etcd_raw *raw, const char *key)
{
    char body[256];

    snprintf(body, sizeof body, "{\"key\":\"%.200s\"}", key);
    etcd_raw_ask(raw, "/v3/lock/unlock", body);
}
