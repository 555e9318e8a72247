/* SPDX-License-Identifier: MIT */
/* See nodes.h. */
#include "nodes.h"
#include "holdfast/primitives.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_ROOM  512
#define TOKEN_END (UINT64_C(1) << 53)
#define PLAIN     "plain"
#define GUARDED   "guarded"

struct server *nodes[NODES];
struct proxy *lines[NODES];

/* What a process has written to its file is there when it was killed: no need to sync. */
static const char *const durable[] = { "--appendonly", "yes", "--appendfsync", "no", NULL };

void nodes_start(void)
{
    for (unsigned i = 0; i < NODES; i++)
        nodes[i] = clock_server(durable);
}

void lines_start(void)
{
    for (unsigned i = 0; i < NODES; i++)
        lines[i] = proxy_start(nodes[i]->port);
}

void nodes_stop(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        proxy_stop(lines[i]);
        server_free(nodes[i]);
        lines[i] = NULL;
        nodes[i] = NULL;
    }
}

int nodes_setup(void **state)
{
    (void)state;
    nodes_start();
    lines_start();
    aim(nodes_url(
        "?prefix=bed:")); /* a cluster apart: that of a case is made as the case wants it */
    return 0;
}

int nodes_teardown(void **state)
{
    contract_teardown(state);
    nodes_stop();
    return 0;
}

static const char *list_url(const uint16_t ports[NODES], const char *rest)
{
    static _Thread_local char texts[4][URL_ROOM];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];
    int len = snprintf(text, URL_ROOM, "redlock://");

    for (unsigned i = 0; i < NODES; i++)
        len += snprintf(text + len, URL_ROOM - (size_t)len, "%s127.0.0.1:%u", i ? "," : "",
                        (unsigned)ports[i]);
    snprintf(text + len, URL_ROOM - (size_t)len, "%s", rest);
    return text;
}

const char *nodes_url(const char *rest)
{
    uint16_t ports[NODES];

    for (unsigned i = 0; i < NODES; i++)
        ports[i] = nodes[i]->port;
    return list_url(ports, rest);
}

const char *lines_url(const char *rest)
{
    uint16_t ports[NODES];

    for (unsigned i = 0; i < NODES; i++)
        ports[i] = proxy_port(lines[i]);
    return list_url(ports, rest);
}

/* ---- nodes ------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void node_restart(unsigned node, bool keep)
{
    char files[SERVER_PATH_ROOM + 32];

    server_kill(nodes[node]);
    if (!keep) {
        snprintf(files, sizeof files, "%s/appendonlydir", nodes[node]->dir);
        nftw(files, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    server_restart(nodes[node]);
}

bool node_votes(unsigned node)
{
    return server_do(nodes[node], "HEXISTS hf:rl:cluster m") == 1;
}

unsigned node_holders(unsigned node, const char *name)
{
    redisReply *reply = server_ask(nodes[node], "HKEYS hf:rl:{%s}", name);
    /* Or a lease that is alone, behind its counter. */
    unsigned count = server_do(nodes[node], "EVAL %s 1 hf:rl:cluster n%s",
                               "local v = redis.call('HGET', KEYS[1], ARGV[1]) "
                               "return v and #v > 9 and "
                               "redis.call('HEXISTS', KEYS[1], string.sub(v, 50, 86)) or 0",
                               name) == 1;

    if (reply->type != REDIS_REPLY_ARRAY)
        give_up("HKEYS: %s", reply->str ? reply->str : "?");
    for (size_t i = 0; i < reply->elements; i++)
        count += reply->element[i]->str[0] == 'h';
    freeReplyObject(reply);
    return count;
}

unsigned nodes_holding(const char *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < NODES; i++)
        count += node_holders(i, name) > 0;
    return count;
}

void await_whole(void)
{
    for (unsigned i = 0; i < NODES; i++)
        AWAIT(node_votes(i));
}

/* ---- clients ------------------------------------------------------------------------------------- */

void client_open(struct client *client, const char *rest)
{
    uint16_t ports[NODES];

    for (unsigned i = 0; i < NODES; i++) {
        client->lines[i] = proxy_start(nodes[i]->port);
        ports[i] = proxy_port(client->lines[i]);
    }
    client->store = open_at(list_url(ports, rest));
    settle(client->store, ALL);
}

void client_reach(struct client *client, unsigned reached)
{
    for (unsigned i = 0; i < NODES; i++) {
        proxy_refuse(client->lines[i], !(reached & NODE(i)));
        if (!(reached & NODE(i)))
            proxy_cut(client->lines[i]);
    }
}

static unsigned granting(const char *name)
{
    unsigned found = 0;

    for (unsigned i = 0; i < NODES; i++)
        if (node_holders(i, name) > 0)
            found |= NODE(i);
    return found;
}

void settle(hf_store *store, unsigned wanted)
{
    static unsigned turn;
    int64_t until_ms = now_ms() + LIMIT_MS;
    unsigned found;

    do {
        char name[32];
        hf_acquire_request request;
        hf_lease *lease;

        snprintf(name, sizeof name, "settle %u", turn++);
        request = with_ttl(waiting_request(name), 3000); /* the shortest max_ttl */
        lease = take(store, &request);
        nap_ms(5); /* a majority is enough for it, and the others come a little later */
        found = granting(name);
        give(lease);
        CHECK(now_ms() < until_ms);
    } while (found != wanted);
}

void client_close(struct client *client)
{
    close_hard(client->store);
    for (unsigned i = 0; i < NODES; i++)
        proxy_stop(client->lines[i]);
}

/* ---- the vault ------------------------------------------------------------------------------------ */

void vault_open(struct vault *vault, struct server *at)
{
    vault->server = at;
    vault->store = open_at(server_url(at, ""));
}

void vault_close(struct vault *vault)
{
    close_store(vault->store);
}

long long vault_plain(struct vault *vault)
{
    redisReply *reply = server_ask(vault->server, "GET " PLAIN);
    long long value = reply->str ? atoll(reply->str) : 0;

    freeReplyObject(reply);
    return value;
}

struct counting count_begin(struct vault *vault, uint64_t token)
{
    struct counting counting = { .token = token };
    void *found = NULL;

    counting.status =
        hf_guard_claim(vault->store, GUARDED, HF_CSTRING, token, &found, NULL, &contract_error);
    CHECK(counting.status == HF_OK || counting.status == HF_FENCED);
    counting.guarded = found ? atoll(found) : 0;
    hf_free(found);
    counting.plain = vault_plain(vault);
    return counting;
}

hf_status count_end(struct vault *vault, struct counting counting)
{
    char text[32];
    hf_status status = counting.status;

    server_do(vault->server, "SET " PLAIN " %lld", counting.plain + 1);
    if (status != HF_OK)
        return status;
    snprintf(text, sizeof text, "%lld", counting.guarded + 1);
    status = hf_guard_set(vault->store, GUARDED, HF_CSTRING, counting.token, text, strlen(text),
                          &contract_error);
    CHECK(status == HF_OK || status == HF_FENCED);
    return status;
}

long long vault_guarded(struct vault *vault)
{
    void *found = NULL;
    long long value;

    EXPECT(HF_OK, hf_guard_claim(vault->store, GUARDED, HF_CSTRING, TOKEN_END - 1, &found, NULL,
                                 &contract_error));
    value = found ? atoll(found) : 0;
    hf_free(found);
    return value;
}
