/* SPDX-License-Identifier: MIT */
/* See raw_zk.h. */
#include "raw_zk.h"

#include "bench.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

/* As long as a server allows by default. Nobody drives the session between two rounds, while others are measured. */
#define SESSION_MS 40000
#define PARENT     "/raw"
#define PREFIX     PARENT "/bench-name-raw00-0123456789abcdef0-"

struct raw_zk {
    zhandle_t *zh;
    bool done, event;
    int rc;
    char path[256];   /* our node */
    char before[256]; /* the node before ours; "": none */
};

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct raw_zk *zk = context;

    (void)zh, (void)state, (void)path;
    if (type == ZOO_DELETED_EVENT)
        zk->event = true;
}

static void quiet(const char *message)
{
    (void)message;
}

static struct raw_zk *mine(const void *data)
{
    return (struct raw_zk *)(uintptr_t)data;
}

static void answered(struct raw_zk *zk, int rc)
{
    zk->rc = rc;
    zk->done = true;
}

static void on_void(int rc, const void *data)
{
    answered(mine(data), rc);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    answered(mine(data), rc);
}

static void on_string(int rc, const char *path, const void *data)
{
    if (rc == ZOK)
        snprintf(mine(data)->path, sizeof mine(data)->path, "%s", path);
    answered(mine(data), rc);
}

/* Whose sequence is the next smaller one? The last ten digits of each name. */
static void on_list(int rc, const struct String_vector *list, const void *data)
{
    struct raw_zk *zk = mine(data);
    long us = strtol(zk->path + strlen(zk->path) - 10, NULL, 10), best = -1;

    zk->before[0] = 0;
    for (int i = 0; rc == ZOK && i < list->count; i++) {
        long one = strtol(list->data[i] + strlen(list->data[i]) - 10, NULL, 10);

        if (one < us && one > best) {
            best = one;
            snprintf(zk->before, sizeof zk->before, PARENT "/%s", list->data[i]);
        }
    }
    answered(zk, rc);
}

static void drive(struct raw_zk *zk, const bool *until)
{
    while (!*until) {
        struct timeval nap;
        struct pollfd fd;
        int interest, events = 0;

        zookeeper_interest(zk->zh, &fd.fd, &interest, &nap);
        fd.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                            (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
        if (poll(&fd, 1, (int)(nap.tv_sec * 1000 + nap.tv_usec / 1000)) > 0)
            events = (fd.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
                     (fd.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
        zookeeper_process(zk->zh, events);
    }
}

static void finish(struct raw_zk *zk, int sent)
{
    if (sent != ZOK)
        bench_die("ZooKeeper by hand: %s", zerror(sent));
    drive(zk, &zk->done);
    zk->done = false;
}

static void must(const struct raw_zk *zk)
{
    if (zk->rc != ZOK)
        bench_die("ZooKeeper by hand: %s", zerror(zk->rc));
}

struct raw_zk *raw_zk_open(const char *host)
{
    struct raw_zk *zk = calloc(1, sizeof *zk);

    if (!zk)
        bench_die("out of memory");
    zk->zh = zookeeper_init2(host, on_event, SESSION_MS, NULL, zk, ZOO_NO_LOG_CLIENTENV, quiet);
    if (!zk->zh)
        bench_die("ZooKeeper by hand: no handle");
    zoo_set_servers_resolution_delay(zk->zh, -1);
    finish(zk,
           zoo_acreate(zk->zh, PARENT, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_string, zk));
    if (zk->rc != ZNODEEXISTS)
        must(zk);
    return zk;
}

void raw_zk_close(struct raw_zk *zk)
{
    zookeeper_close(zk->zh);
    free(zk);
}

static void create(struct raw_zk *zk)
{
    finish(zk, zoo_acreate(zk->zh, PREFIX, "a label as ours has it", 22, &ZOO_OPEN_ACL_UNSAFE,
                           ZOO_EPHEMERAL_SEQUENTIAL, on_string, zk));
    must(zk);
}

void raw_zk_pair(struct raw_zk *zk)
{
    create(zk);
    raw_zk_unlock(zk);
}

void raw_zk_lock(struct raw_zk *zk)
{
    create(zk);
    for (;;) {
        finish(zk, zoo_aget_children(zk->zh, PARENT, 0, on_list, zk));
        must(zk);
        if (!zk->before[0])
            return;
        zk->event = false;
        finish(zk, zoo_awexists(zk->zh, zk->before, on_event, zk, on_stat, zk));
        if (zk->rc == ZOK)
            drive(zk, &zk->event);
        else if (zk->rc != ZNONODE)
            must(zk);
    }
}

void raw_zk_unlock(struct raw_zk *zk)
{
    finish(zk, zoo_adelete(zk->zh, zk->path, -1, on_void, zk));
    must(zk);
}
