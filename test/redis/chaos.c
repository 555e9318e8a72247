/* SPDX-License-Identifier: MIT */
/* See chaos.h. */
#include "chaos.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct chaos {
    struct server *server;
    struct proxy *proxy;
    uint64_t state;
    pthread_t thread;
    _Atomic bool stop;
    unsigned counts[9];
};

static const char *const names[] = { "cut",    "cut late", "held back", "delayed", "dripping",
                                     "killed", "forgot",   "stopped",   "refused" };
#define KINDS (sizeof names / sizeof *names)

static unsigned below(struct chaos *c, unsigned n)
{
    uint64_t z = c->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}

/* Mostly short; now and then past a ttl of a second. */
static void last(struct chaos *c)
{
    sleep_ms(below(c, 8) ? 1 + below(c, 60) : 600 + below(c, 1000));
}

static void cut_late(struct chaos *c)
{
    proxy_block(c->proxy, PROXY_UP, true);
    sleep_ms(1 + below(c, 20));
    proxy_cut_late(c->proxy);
    proxy_heal(c->proxy);
    last(c);
    proxy_deliver(c->proxy);
}

static void strike(struct chaos *c, unsigned what)
{
    enum proxy_way way = below(c, 2) ? PROXY_UP : PROXY_DOWN;

    proxy_choose(c->proxy, (enum proxy_kind)below(c, 3));
    switch (what) {
    case 0:
        if (below(c, 2)) {
            proxy_cut_after(c->proxy, way, below(c, 400));
            last(c);
        } else {
            proxy_cut(c->proxy);
        }
        break;
    case 1:
        cut_late(c);
        break;
    case 2:
        proxy_block(c->proxy, way, true);
        if (below(c, 3) == 0)
            proxy_block(c->proxy, 1 - way, true);
        last(c);
        break;
    case 3:
        proxy_delay(c->proxy, way, 1 + below(c, 100));
        last(c);
        break;
    case 4:
        proxy_drip(c->proxy, way, 1 + below(c, 20));
        last(c);
        break;
    case 5:
        server_do(c->server, below(c, 2) ? "CLIENT KILL TYPE normal SKIPME yes"
                                         : "CLIENT KILL TYPE pubsub SKIPME yes");
        break;
    case 6:
        server_do(c->server, "SCRIPT FLUSH");
        break;
    case 7:
        server_pause(c->server);
        last(c);
        server_continue(c->server);
        break;
    default:
        proxy_refuse(c->proxy, true);
        proxy_cut(c->proxy);
        last(c);
        break;
    }
    proxy_heal(c->proxy);
}

static void *run(void *arg)
{
    struct chaos *c = arg;

    while (!c->stop) {
        unsigned what = below(c, KINDS);

        sleep_ms(10 + below(c, 150));
        strike(c, what);
        c->counts[what]++;
    }
    return NULL;
}

struct chaos *chaos_start(struct server *server, struct proxy *proxy, uint64_t seed)
{
    struct chaos *c = calloc(1, sizeof *c);

    if (!c)
        give_up("out of memory");
    c->server = server;
    c->proxy = proxy;
    c->state = seed;
    if (pthread_create(&c->thread, NULL, run, c) != 0)
        give_up("chaos: no thread");
    return c;
}

void chaos_stop(struct chaos *c)
{
    c->stop = true;
    pthread_join(c->thread, NULL);
    for (size_t i = 0; i < KINDS; i++)
        fprintf(stderr, "%s%s %u", i ? ", " : "faults: ", names[i], c->counts[i]);
    fputc('\n', stderr);
    free(c);
}
