/* SPDX-License-Identifier: MIT */
/* Sentinel sets and clusters; see set.h. Set up by raw commands, waiting for what they answer. */
#include "set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX SERVER_OPTIONS

/* ---- small steps ----------------------------------------------------------------------- */

static void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        give_up("out of memory");
    return memory;
}

/* Poll until the reply of `command` contains `text`. */
static void await_text(struct server *server, const char *command, const char *text)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;;) {
        redisReply *reply = server_ask(server, command, NULL);
        bool found = reply->str && strstr(reply->str, text);

        freeReplyObject(reply);
        if (found)
            return;
        if (clock_ms() > until_ms)
            give_up("port %u: %s never says %s", (unsigned)server->port, command, text);
        sleep_ms(5);
    }
}

/* `options` and then the given ones, into `ret`. */
static void join(const char **ret, const char *const *options, const char *const *more)
{
    size_t n = 0;

    for (size_t i = 0; options && options[i]; i++)
        ret[n++] = options[i];
    for (size_t i = 0; more[i]; i++)
        ret[n++] = more[i];
    ret[n] = NULL;
}

/* ---- sentinel ----------------------------------------------------------------------------- */

/* A sentinel writes into its configuration, and so needs one. */
static struct server *start_sentinel(uint16_t master, int64_t down_ms)
{
    const char *tmp = getenv("TMPDIR");
    char path[SERVER_PATH_ROOM];
    const char *options[] = { path,        "--sentinel", "--port", "{port}",       "--bind",
                              "127.0.0.1", "--dir",      "{dir}",  "--unixsocket", "{dir}/socket",
                              "--logfile", "{dir}/log",  NULL };
    FILE *file;
    int fd;

    snprintf(path, sizeof path, "%s/holdfast-sentinel-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(path);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        give_up("sentinel: no temporary file");
    fprintf(file,
            "sentinel monitor mymaster 127.0.0.1 %u 2\n"
            "sentinel down-after-milliseconds mymaster %lld\n"
            "sentinel failover-timeout mymaster 6000\n"
            "sentinel parallel-syncs mymaster 3\n",
            (unsigned)master, (long long)down_ms);
    fclose(file);
    return server_start(options);
}

struct sentinel_set *sentinel_start(size_t replicas, int64_t down_ms, const char *const *options)
{
    struct sentinel_set *set = must_alloc(sizeof *set);
    const char *joined[OPTIONS_MAX];
    char port[16], count[128];

    if (replicas > REPLICAS_MAX)
        give_up("too many replicas");
    set->servers[set->server_count++] = server_start(options);
    snprintf(port, sizeof port, "%u", (unsigned)set->servers[0]->port);
    for (size_t i = 0; i < replicas; i++) {
        join(joined, options,
             (const char *[]){ "--replicaof", "127.0.0.1", port, "--repl-diskless-sync-delay", "0",
                               NULL });
        set->servers[set->server_count++] = server_start(joined);
    }
    server_do(set->servers[0], "CONFIG SET repl-diskless-sync-delay 0");
    for (size_t i = 1; i < set->server_count; i++)
        await_text(set->servers[i], "INFO replication", "master_link_status:up");
    for (size_t i = 0; i < SENTINELS; i++)
        set->sentinels[i] = start_sentinel(set->servers[0]->port, down_ms);
    for (size_t i = 0; i < SENTINELS; i++) {
        snprintf(count, sizeof count, "status=ok,address=127.0.0.1:%s,slaves=%zu,sentinels=%d",
                 port, replicas, SENTINELS);
        await_text(set->sentinels[i], "INFO sentinel", count);
    }
    return set;
}

void sentinel_free(struct sentinel_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < SENTINELS; i++) {
        unlink(set->sentinels[i]->options[0]);
        server_free(set->sentinels[i]);
    }
    for (size_t i = 0; i < set->server_count; i++)
        server_free(set->servers[i]);
    free(set);
}

const char *sentinel_url(const struct sentinel_set *set, const char *rest)
{
    static char text[512];

    snprintf(text, sizeof text,
             "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u/mymaster%s",
             (unsigned)set->sentinels[0]->port, (unsigned)set->sentinels[1]->port,
             (unsigned)set->sentinels[2]->port, rest);
    return text;
}

struct server *sentinel_master(struct sentinel_set *set)
{
    redisReply *reply = server_ask(set->sentinels[0], "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
    int port =
        reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 ? atoi(reply->element[1]->str) : 0;

    freeReplyObject(reply);
    for (size_t i = 0; i < set->server_count; i++)
        if (set->servers[i]->port == port)
            return set->servers[i];
    give_up("the sentinels know no master");
}

/* A sentinel that did not get the processor for two seconds does nothing for thirty ("tilt"), and one that began a
 * failover in vain rests for twelve. On a busy machine several of these follow each other. */
#define FAILOVER_LIMIT_MS (4 * SERVER_LIMIT_MS)

static void no_failover(const struct sentinel_set *set)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        redisReply *reply = server_ask(set->sentinels[i], "INFO sentinel");

        fprintf(stderr, "sentinel %zu: %s\n", i, reply->str);
        freeReplyObject(reply);
    }
    give_up("no failover within %d s", FAILOVER_LIMIT_MS / 1000);
}

struct server *sentinel_await_other(struct sentinel_set *set, const struct server *old)
{
    int64_t until_ms = clock_ms() + FAILOVER_LIMIT_MS;
    struct server *master;

    while ((master = sentinel_master(set)) == old) {
        if (clock_ms() > until_ms)
            no_failover(set);
        sleep_ms(20);
    }
    await_text(master, "INFO replication", "role:master");
    return master;
}

/* ---- cluster --------------------------------------------------------------------------------- */

static void learn_id(struct server *node, char ret_id[48])
{
    redisReply *reply = server_ask(node, "CLUSTER MYID");

    snprintf(ret_id, 48, "%s", reply->str);
    freeReplyObject(reply);
}

struct cluster *cluster_start(const char *const *options)
{
    struct cluster *cluster = must_alloc(sizeof *cluster);
    const char *joined[OPTIONS_MAX];
    char bus[16], first_bus[16] = "";

    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        unsigned first = i * CLUSTER_SLOTS / CLUSTER_NODES;
        unsigned last = (i + 1) * CLUSTER_SLOTS / CLUSTER_NODES - 1;

        snprintf(bus, sizeof bus, "%u", (unsigned)free_port());
        join(joined, options,
             (const char *[]){ "--cluster-enabled", "yes", "--cluster-port", bus,
                               "--cluster-node-timeout", "5000", "--cluster-config-file",
                               "nodes.conf", NULL });
        cluster->nodes[i] = server_start(joined);
        server_do(cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
        server_do(cluster->nodes[i], "CLUSTER ADDSLOTSRANGE %u %u", first, last);
        learn_id(cluster->nodes[i], cluster->ids[i]);
        if (i > 0)
            server_do(cluster->nodes[i], "CLUSTER MEET 127.0.0.1 %u %s",
                      (unsigned)cluster->nodes[0]->port, first_bus);
        else
            memcpy(first_bus, bus, sizeof bus);
    }
    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        await_text(cluster->nodes[i], "CLUSTER INFO", "cluster_state:ok");
        await_text(cluster->nodes[i], "CLUSTER INFO", "cluster_known_nodes:3");
    }
    return cluster;
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        server_free(cluster->nodes[i]);
    free(cluster);
}

const char *cluster_url(const struct cluster *cluster, const char *rest)
{
    static char text[512];

    snprintf(text, sizeof text, "redis+cluster://127.0.0.1:%u,127.0.0.1:%u%s",
             (unsigned)cluster->nodes[0]->port, (unsigned)cluster->nodes[1]->port, rest);
    return text;
}

struct server *cluster_replica(struct cluster *cluster, size_t of, int64_t down_ms)
{
    char bus[16], first_bus[16] = "";
    struct server *replica;

    snprintf(bus, sizeof bus, "%u", (unsigned)free_port());
    for (size_t i = 0; cluster->nodes[of]->options[i]; i++)
        if (strcmp(cluster->nodes[of]->options[i], "--cluster-port") == 0)
            snprintf(first_bus, sizeof first_bus, "%s", cluster->nodes[of]->options[i + 1]);
    server_do(cluster->nodes[of], "CONFIG SET repl-diskless-sync-delay 0");
    replica = server_start((const char *[]){ "--cluster-enabled", "yes", "--cluster-port", bus,
                                             "--cluster-config-file", "nodes.conf", NULL });
    server_do(replica, "CLUSTER MEET 127.0.0.1 %u %s", (unsigned)cluster->nodes[of]->port,
              first_bus);
    await_text(replica, "CLUSTER INFO", "cluster_known_nodes:4");
    await_text(replica, "CLUSTER NODES", cluster->ids[of]);
    server_do(replica, "CLUSTER REPLICATE %s", cluster->ids[of]);
    await_text(replica, "INFO replication", "master_link_status:up");
    server_do(replica, "CONFIG SET cluster-node-timeout %lld", (long long)down_ms);
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        await_text(cluster->nodes[i], "CLUSTER INFO", "cluster_known_nodes:4");
        await_text(cluster->nodes[i], "CLUSTER NODES", "slave");
        server_do(cluster->nodes[i], "CONFIG SET cluster-node-timeout %lld", (long long)down_ms);
    }
    return replica;
}

size_t cluster_owner(struct cluster *cluster, const char *key, unsigned *ret_slot)
{
    unsigned slot = (unsigned)server_do(cluster->nodes[0], "CLUSTER KEYSLOT %s", key);
    redisReply *reply = server_ask(cluster->nodes[0], "CLUSTER SLOTS");
    size_t owner = CLUSTER_NODES;

    for (size_t i = 0; i < reply->elements; i++) {
        redisReply *range = reply->element[i];

        if (slot < range->element[0]->integer || slot > range->element[1]->integer)
            continue;
        for (size_t n = 0; n < CLUSTER_NODES; n++)
            if (cluster->nodes[n]->port == range->element[2]->element[1]->integer)
                owner = n;
    }
    freeReplyObject(reply);
    if (owner == CLUSTER_NODES)
        give_up("nobody serves slot %u", slot);
    *ret_slot = slot;
    return owner;
}

void cluster_move_begin(struct cluster *cluster, unsigned slot, size_t from, size_t to)
{
    server_do(cluster->nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, cluster->ids[from]);
    server_do(cluster->nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, cluster->ids[to]);
}

void cluster_move_key(struct cluster *cluster, size_t from, size_t to, const char *key)
{
    server_do(cluster->nodes[from], "MIGRATE 127.0.0.1 %u %s 0 10000",
              (unsigned)cluster->nodes[to]->port, key);
}

void cluster_move_keys(struct cluster *cluster, unsigned slot, size_t from, size_t to)
{
    for (;;) {
        redisReply *keys = server_ask(cluster->nodes[from], "CLUSTER GETKEYSINSLOT %u 100", slot);
        size_t count = keys->elements;

        for (size_t i = 0; i < count; i++)
            server_do(cluster->nodes[from], "MIGRATE 127.0.0.1 %u %b 0 10000",
                      (unsigned)cluster->nodes[to]->port, keys->element[i]->str,
                      keys->element[i]->len);
        freeReplyObject(keys);
        if (count == 0)
            return;
    }
}

void cluster_move_end(struct cluster *cluster, unsigned slot, size_t to)
{
    /* The new owner first: were it the other way round, the slot would have none in between. */
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        size_t node = (to + i) % CLUSTER_NODES;

        server_do(cluster->nodes[node], "CLUSTER SETSLOT %u NODE %s", slot, cluster->ids[to]);
    }
}
