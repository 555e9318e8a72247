/* SPDX-License-Identifier: MIT */
/* See trouble.h. */
#include "trouble.h"

#include "server.h"

#include <stdio.h>

#define KINDS_MAX 16

static uint64_t state;

unsigned below(unsigned n)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % n);
}

void trouble_lasts(void)
{
    sleep_ms(below(6) ? 1 + below(80) : 600 + below(1200));
}

/* ---- the network's ----------------------------------------------------------------------- */

static enum proxy_way some_way(void)
{
    return below(2) ? PROXY_UP : PROXY_DOWN;
}

static void cut(void *proxy)
{
    if (below(2)) {
        proxy_cut_after(proxy, some_way(), below(1200));
        trouble_lasts();
    } else {
        proxy_cut(proxy);
    }
}

static void cut_late(void *proxy)
{
    proxy_block(proxy, PROXY_UP, true);
    sleep_ms(1 + below(20));
    proxy_cut_late(proxy);
    proxy_heal(proxy);
    trouble_lasts();
    proxy_deliver(proxy);
}

static void hold_back(void *proxy)
{
    proxy_block(proxy, some_way(), true);
    trouble_lasts();
}

static void delay(void *proxy)
{
    proxy_delay(proxy, some_way(), 1 + below(100));
    trouble_lasts();
}

static void refuse(void *proxy)
{
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    trouble_lasts();
}

static const struct trouble_kind network[] = { { "cut", cut },
                                               { "cut late", cut_late },
                                               { "held back", hold_back },
                                               { "delayed", delay },
                                               { "refused", refuse } };
#define NETWORK (sizeof network / sizeof *network)

void trouble(const struct trouble_kind *kinds, void *server, struct proxy *proxy, unsigned pause_ms,
             uint64_t seed, pid_t child)
{
    unsigned counts[KINDS_MAX] = { 0 }, own = 0;

    while (kinds[own].name)
        own++;
    state = seed;
    while (!has_ended(child)) {
        unsigned what = below(own + (proxy ? (unsigned)NETWORK : 0));

        sleep_ms(20 + below(pause_ms));
        if (!has_ended(child)) {
            if (what < own)
                kinds[what].strike(server);
            else
                network[what - own].strike(proxy);
            if (proxy)
                proxy_heal(proxy);
        }
        counts[what]++;
    }
    for (unsigned i = 0; i < own + (proxy ? (unsigned)NETWORK : 0); i++)
        fprintf(stderr, "%s%s %u",
                i ? ", " : "faults: ", i < own ? kinds[i].name : network[i - own].name, counts[i]);
    fputc('\n', stderr);
}
