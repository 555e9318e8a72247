/* SPDX-License-Identifier: MIT */
/* See etcd_raw.h. */
#include "etcd_raw.h"

#include "../test/etcd/grpc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KV(method)   "/etcdserverpb.KV/" method
#define LOCK(method) "/v3lockpb.Lock/" method

struct etcd_raw {
    struct grpc *raw;
    struct etcd_text body;
};

struct etcd_raw *etcd_raw_try_open(uint16_t port)
{
    struct etcd_raw *raw = calloc(1, sizeof *raw);

    if (!raw)
        bench_die("out of memory");
    raw->raw = grpc_open(port, NULL);
    if (raw->raw)
        return raw;
    free(raw);
    return NULL;
}

struct etcd_raw *etcd_raw_open(uint16_t port)
{
    struct etcd_raw *raw = etcd_raw_try_open(port);

    if (!raw)
        bench_die("etcd: cannot be reached");
    return raw;
}

void etcd_raw_close(struct etcd_raw *raw)
{
    if (!raw)
        return;
    grpc_close(raw->raw);
    etcd_text_done(&raw->body);
    free(raw);
}

/* Send what was put into raw->body; an error ends the measurement. */
static struct etcd_message ask(struct etcd_raw *raw, const char *path)
{
    struct etcd_message reply = { NULL, 0 };
    const char *text;
    int code = grpc_ask(raw->raw, path, &raw->body, NULL, &reply, &text);

    if (code != 0)
        bench_die("etcd: %s: %d %s", path, code, text);
    raw->body.len = 0;
    return reply;
}

bool etcd_raw_answers(struct etcd_raw *raw)
{
    struct etcd_message reply;
    const char *text;

    raw->body.len = 0;
    etcd_put_bytes(&raw->body, 1, "a", 1);
    if (grpc_ask(raw->raw, KV("Range"), &raw->body, NULL, &reply, &text) != 0)
        return false;
    raw->body.len = 0;
    return true;
}

char *etcd_raw_metrics(uint16_t port)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char *text = NULL, bytes[16384];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ssize_t got;

    if (fd < 0 || !out || connect(fd, (struct sockaddr *)&to, sizeof to) != 0 ||
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
        bench_die("etcd: no metrics");
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        fwrite(bytes, 1, (size_t)got, out);
    fclose(out);
    close(fd);
    return text;
}

long long etcd_raw_lease(struct etcd_raw *raw)
{
    etcd_put_number(&raw->body, 1, 3600);
    return etcd_number(ask(raw, "/etcdserverpb.Lease/LeaseGrant"), 2);
}

/* Keys and values about as long as ours. */
#define KEY   "raw/locks/bench-name/m/0123456789abcdef0123456789abcdef"
#define VALUE "1 1 30 1700000000000 0123456789abcdef - root@host:12345 holdfast-bench"

static void put_text(struct etcd_text *body, unsigned field, const char *text)
{
    etcd_put_bytes(body, field, text, strlen(text));
}

/* If the key was created at that revision */
static void put_compare(struct etcd_text *body, int64_t revision)
{
    size_t begun = etcd_put_begin(body, 1);

    etcd_put_number(body, 2, 1);
    put_text(body, 3, KEY);
    etcd_put_number(body, 5, revision);
    etcd_put_end(body, begun);
}

void etcd_raw_pair(struct etcd_raw *raw, long long lease)
{
    int64_t revision;
    size_t op, begun;

    put_compare(&raw->body, 0);
    op = etcd_put_begin(&raw->body, 2);
    begun = etcd_put_begin(&raw->body, 2);
    put_text(&raw->body, 1, KEY);
    put_text(&raw->body, 2, VALUE);
    etcd_put_number(&raw->body, 3, lease);
    etcd_put_end(&raw->body, begun);
    etcd_put_end(&raw->body, op);
    revision = etcd_number(etcd_part(ask(raw, KV("Txn")), 1), 3);
    put_compare(&raw->body, revision);
    op = etcd_put_begin(&raw->body, 2);
    begun = etcd_put_begin(&raw->body, 3);
    put_text(&raw->body, 1, KEY);
    etcd_put_end(&raw->body, begun);
    etcd_put_end(&raw->body, op);
    if (etcd_number(ask(raw, KV("Txn")), 2) != 1)
        bench_die("etcd: the raw key was not there");
}

void etcd_raw_lock(struct etcd_raw *raw, long long lease, char ret_key[ETCD_RAW_KEY])
{
    struct etcd_message key;

    put_text(&raw->body, 1, "lock");
    etcd_put_number(&raw->body, 2, lease);
    key = etcd_part(ask(raw, LOCK("Lock")), 2);
    if (!key.at || key.len >= ETCD_RAW_KEY)
        bench_die("etcd: no key");
    memcpy(ret_key, key.at, key.len);
    ret_key[key.len] = 0;
}

void etcd_raw_unlock(struct etcd_raw *raw, const char *key)
{
    put_text(&raw->body, 1, key);
    ask(raw, LOCK("Unlock"));
}
