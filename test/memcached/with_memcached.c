/* SPDX-License-Identifier: MIT */
/*
 * with_server memcached [OPTION...] COMMAND...: see test/lib/with_server.c.
 *
 *   -x         at a Unix socket
 *   -o OPTION  one more option for the server (-o -m -o 8)
 *   -q QUERY   more of the URL (poll=5ms)
 *   -f SEED    through a network that is cut at random, and a server that is stopped at random
 */
#include "cache.h"
#include "proxy.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int with_memcached(int argc, char **argv); /* with_server.c calls it */

/* ---- faults ---------------------------------------------------------------------------------- */

#define STOP_MS \
    900 /* shorter than MEMCACHED_LATE_S allows for: longer stops may end leases early */

struct faults {
    struct cache *cache;
    struct proxy *proxy;
    unsigned seed;
    _Atomic bool stop;
    pthread_t thread;
};

static void one_fault(struct faults *faults)
{
    struct proxy *proxy = faults->proxy;

    switch (rand_r(&faults->seed) % 6) {
    case 0:
        proxy_cut(proxy);
        break;
    case 1: /* late: what clients wrote arrives after they have given it up */
        proxy_block(proxy, PROXY_UP, true);
        sleep_ms(20);
        proxy_cut_late(proxy);
        proxy_block(proxy, PROXY_UP, false);
        sleep_ms(rand_r(&faults->seed) % 300);
        proxy_deliver(proxy);
        break;
    case 2:
        proxy_cut_after(proxy, PROXY_DOWN, rand_r(&faults->seed) % 200);
        break;
    case 3:
        proxy_cut_after(proxy, PROXY_UP, rand_r(&faults->seed) % 500);
        break;
    case 4:
        kill(faults->cache->pid, SIGSTOP);
        sleep_ms(rand_r(&faults->seed) % STOP_MS);
        kill(faults->cache->pid, SIGCONT);
        break;
    default:
        proxy_delay(proxy, PROXY_DOWN, rand_r(&faults->seed) % 50);
        sleep_ms(200);
        proxy_heal(proxy);
        break;
    }
}

static void *run_faults(void *arg)
{
    struct faults *faults = arg;

    while (!faults->stop) {
        sleep_ms(50 + rand_r(&faults->seed) % 300);
        one_fault(faults);
    }
    proxy_heal(faults->proxy);
    return NULL;
}

/* ---- the command -------------------------------------------------------------------------------- */

int with_memcached(int argc, char **argv)
{
    const char *options[CACHE_OPTIONS] = { NULL }, *query = NULL, *seed = NULL;
    size_t option_count = 0;
    bool by_socket = false;
    struct cache *cache;
    struct faults faults = { .stop = false };
    char url[512];
    int option, status;

    while ((option = getopt(argc, argv, "+xo:q:f:")) != -1) {
        if (option == 'x')
            by_socket = true;
        else if (option == 'o' && option_count + 1 < CACHE_OPTIONS)
            options[option_count++] = optarg;
        else if (option == 'q')
            query = optarg;
        else if (option == 'f')
            seed = optarg;
        else
            exit(64);
    }
    if (optind >= argc || (seed && by_socket))
        give_up("usage: with_server memcached [-x] [-o OPTION]... [-q QUERY] [-f SEED] COMMAND...");

    cache = by_socket ? cache_start_socket(options) : cache_start(options);
    if (seed)
        faults.proxy = proxy_start(cache->port);
    if (by_socket)
        snprintf(url, sizeof url, "memcached+unix://%s?prefix=hf:{id}:", cache->socket);
    else
        snprintf(url, sizeof url, "memcached://127.0.0.1:%u?prefix=hf:{id}:",
                 (unsigned)(seed ? proxy_port(faults.proxy) : cache->port));
    if (query)
        snprintf(url + strlen(url), sizeof url - strlen(url), "&%s", query);
    setenv("HOLDFAST_TEST_URL", url, 1);
    if (seed) {
        faults.cache = cache;
        faults.seed = (unsigned)strtoul(seed, NULL, 10);
        if (pthread_create(&faults.thread, NULL, run_faults, &faults) != 0)
            give_up("with_server: no thread");
    }
    status = run_command(argv + optind, NULL, NULL);
    if (seed) {
        faults.stop = true;
        pthread_join(faults.thread, NULL);
        proxy_stop(faults.proxy);
    }
    cache_free(cache);
    return status;
}
