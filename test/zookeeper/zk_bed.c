/* SPDX-License-Identifier: MIT */
/* See zk_bed.h. */
#include "zk_bed.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

struct ensemble *ensemble;
struct proxy *proxy;
static char place[64];

#if defined(__SANITIZE_ADDRESS__)
/* The library loses what it has read of an answer when the connection ends in the middle of it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libzookeeper_st";
}
#endif

void bed_begin(int servers, int sync_limit, bool cuttable)
{
    bed_open_wait_ms = LIMIT_MS;
    ensemble = ensemble_start(servers, TICK_MS, sync_limit, cuttable);
    contract_begin(zk_url(ensemble->servers[0].port, "/begin"), true);
}

int bed_setup(void **state)
{
    static unsigned number;

    (void)state;
    snprintf(place, sizeof place, "/case%u", ++number);
    proxy = proxy_start(ensemble->servers[0].port);
    return 0;
}

int bed_teardown(void **state)
{
    (void)state;
    proxy_stop(proxy);
    proxy = NULL;
    return 0;
}

const char *root(const char *query)
{
    static char rooms[4][128];
    static size_t next;
    char *text = rooms[next++ % 4];

    snprintf(text, sizeof rooms[0], "%s%s%s", place, query[0] ? "?" : "", query);
    return text;
}

hf_store *open_direct(void)
{
    return open_at(zk_url(ensemble->servers[0].port, root(TIMEOUT)));
}

hf_store *open_through(void)
{
    return open_at(zk_url(proxy_port(proxy), root(TIMEOUT)));
}

hf_acquire_request kind_request(const char *name, hf_kind kind, uint32_t capacity, int64_t wait_ms)
{
    hf_acquire_request request = mutex_request(name);

    request.kind = kind;
    request.capacity = capacity;
    request.wait_ms = wait_ms;
    return request;
}

/* ---- a session of our own ---------------------------------------------------------------- */

struct answer {
    bool done;
    int rc, count;
    char first[256]; /* a child */
};

static void ignore(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)state, (void)path, (void)context;
}

static void quiet(const char *message)
{
    (void)message;
}

static void counted(int rc, const struct String_vector *list, const void *data)
{
    struct answer *answer = (struct answer *)(uintptr_t)data;

    answer->done = true;
    answer->rc = rc;
    answer->count = rc == ZOK ? list->count : -1;
    if (answer->count > 0)
        snprintf(answer->first, sizeof answer->first, "%s", list->data[0]);
}

static void made(int rc, const char *path, const void *data)
{
    struct answer *answer = (struct answer *)(uintptr_t)data;

    (void)path;
    answer->done = true;
    answer->rc = rc;
}

/* The children of `path`; with `bytes`: make a node there, which stays. */
static struct answer ask_nodes(const char *host, const char *path, const char *bytes)
{
    struct answer answer = { .done = false };
    zhandle_t *zh;

    zh = zookeeper_init2(host, ignore, 10000, NULL, NULL, ZOO_NO_LOG_CLIENTENV, quiet);
    CHECK(zh);
    if (bytes)
        CHECK(zoo_acreate(zh, path, bytes, (int)strlen(bytes), &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE,
                          made, &answer) == ZOK);
    else
        CHECK(zoo_aget_children(zh, path, 0, counted, &answer) == ZOK);
    while (!answer.done) {
        struct timeval nap;
        struct pollfd fd;
        int interest;

        zookeeper_interest(zh, &fd.fd, &interest, &nap);
        fd.events = (short)(POLLIN | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
        poll(&fd, 1, 50);
        zookeeper_process(zh, (fd.revents & POLLOUT ? ZOOKEEPER_WRITE : 0) |
                                  (fd.revents & POLLIN ? ZOOKEEPER_READ : 0));
    }
    zookeeper_close(zh);
    return answer;
}

static struct answer ask_until(const char *path, const char *bytes)
{
    int64_t until_ms = now_ms() + LIMIT_MS;
    struct answer answer;
    char host[64];

    snprintf(host, sizeof host, "127.0.0.1:%u", (unsigned)ensemble->servers[0].port);
    do /* a busy server may drop a connection that it has just taken */
        answer = ask_nodes(host, path, bytes);
    while (answer.rc == ZCONNECTIONLOSS && now_ms() < until_ms);
    return answer;
}

int nodes_of(const char *name)
{
    struct answer answer;
    char path[256];

    snprintf(path, sizeof path, "%s/locks/%s", place, name);
    answer = ask_until(path, NULL);
    CHECK(answer.rc == ZOK || answer.rc == ZNONODE);
    return answer.count;
}

void queue_node(const char *name, const char *bytes)
{
    char path[256];

    snprintf(path, sizeof path, "%s/locks/%s/m-00000001-00000001-0123456789abcdef0123456789abcdef-",
             place, name);
    CHECK(ask_until(path, bytes).rc == ZOK);
}

void twin_node(const char *name)
{
    struct answer answer;
    char path[600];

    snprintf(path, sizeof path, "%s/locks/%s", place, name);
    answer = ask_until(path, NULL);
    CHECK(answer.rc == ZOK && answer.count == 1);
    /* Its name without the sequence, which the server appends anew. */
    snprintf(path, sizeof path, "%s/locks/%s/%.*s", place, name,
             (int)(strrchr(answer.first, '-') + 1 - answer.first), answer.first);
    CHECK(ask_until(path, "1 10000\ntwin").rc == ZOK);
}
