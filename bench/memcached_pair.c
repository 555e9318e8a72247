/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on a memcached of the bench's own; against the same two
 * commands by hand: an add that returns the CAS number, and a delete by that number, over one
 * blocking socket.
 */
#include "cost.h"
#include "measures.h"
#include "memcached_server.h"
#include "rounds.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUND_S 0.1
#define STRIDE  16

struct pair {
    hf_store *store;
    hf_acquire_request request;
    int fd;
    char add[512];
    size_t add_len;
};

/* ---- by hand --------------------------------------------------------------------------------- */

static void exchange(int fd, const char *bytes, size_t len, char said[MEMCACHED_LINE])
{
    memcached_ask(fd, bytes, len, said);
    if (strncmp(said, "HD", 2) != 0)
        bench_die("our memcached: %s", said);
}

static void step_raw(void *arg)
{
    struct pair *pair = arg;
    char said[MEMCACHED_LINE], command[128];
    int len;

    exchange(pair->fd, pair->add, pair->add_len, said);
    len = snprintf(command, sizeof command, "md bench-name-raw00 C%.*s\r\n",
                   (int)strcspn(said + 4, "\r "), said + 4);
    exchange(pair->fd, command, (size_t)len, said);
}

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

void measure_memcached_pair(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    static struct rounds rounds;
    static struct pair pair;
    const struct contender contenders[COUNT] = { { round_ours, &pair }, { round_raw, &pair } };
    struct memcached_server *server = memcached_server_start(bench);
    const struct contest_server counted = memcached_server_counted(server);

    pair.fd = memcached_connect(server->port);
    pair.store = ours_open_url(server->url);
    pair.request = ours_request(OURS_NAME, 0);
    /* A value as long as ours is. */
    pair.add_len = (size_t)snprintf(pair.add, sizeof pair.add,
                                    "ms bench-name-raw00 120 ME T32 c\r\n%0120d\r\n", 0);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release", RAW, "an add and a CAS-delete, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    cost_rows(bench, &counted, step_ours, step_raw, &pair, "an add and a CAS-delete, by hand", 2,
              0);
    ours_close(pair.store);
    close(pair.fd);
    memcached_server_stop(server);
}
