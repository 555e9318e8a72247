/* SPDX-License-Identifier: MIT */
/* See heal_bed.h. */
#include "heal_bed.h"

#include <string.h>

int servers_setup(void **state)
{
    (void)state;
    nodes_start();
    aim(nodes_url("?prefix=bed:"));
    return 0;
}

int servers_teardown(void **state)
{
    contract_teardown(state);
    for (unsigned i = 0; i < NODES; i++) {
        server_free(nodes[i]);
        nodes[i] = NULL;
    }
    return 0;
}

/* ---- looking at nodes, and doing things to them -------------------------------------------- */

struct look look_at(unsigned node)
{
    redisReply *reply = server_ask(nodes[node], "HGET hf:rl:cluster m");
    struct look look = { .ready = reply->type == REDIS_REPLY_STRING };

    if (look.ready) {
        CHECK(reply->len == STATE + 16);
        memcpy(look.bytes, reply->str, STATE);
    }
    freeReplyObject(reply);
    return look;
}

static double epoch_number(const struct look *look)
{
    double number;

    memcpy(&number, look->bytes + 1, sizeof number);
    return number;
}

bool all_the_same(void)
{
    struct look first = look_at(0);

    for (unsigned i = 0; i < NODES; i++) {
        struct look other = look_at(i);

        if (!other.ready || memcmp(first.bytes, other.bytes, STATE) != 0)
            return false;
    }
    return true;
}

double await_same(void)
{
    struct look look;

    AWAIT(all_the_same());
    look = look_at(0);
    return epoch_number(&look);
}

/* The node as a healer leaves it: in an epoch that another one began ... */
void set_epoch(unsigned node, double number, const char *id)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster %f %b",
              "local m = redis.call('HGET', KEYS[1], 'm'); "
              "redis.call('HSET', KEYS[1], 'm', '\\3' .. struct.pack('<d', ARGV[1] + 0) .. "
              "ARGV[2] .. string.sub(m, 26)); return 1",
              number, id, (size_t)ID);
}

/* ... or empty, with a marker that has been there for a minute; with `cluster`: just installed by it. */
void set_marked(unsigned node, const char *marker)
{
    server_do(
        nodes[node], "EVAL %s 1 hf:rl:cluster %b",
        "local t = redis.call('TIME'); redis.call('DEL', KEYS[1]); "
        "redis.call('HSET', KEYS[1], 'k', ARGV[1] .. struct.pack('<d', t[1] * 1000 - 60000)); "
        "return 1",
        marker, (size_t)ID);
}

void set_installed(unsigned node, const char *marker)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster %b",
              "redis.call('DEL', KEYS[1]); "
              "redis.call('HSET', KEYS[1], 'm', '\\3' .. struct.pack('<d', 1) .. ARGV[1] .. "
              "'just one cluster' .. struct.pack('<dddd', 5, 3000, 0, 0)); "
              "return 1",
              marker, (size_t)ID);
}

void raise_counter(unsigned node, const char *name, uint64_t to)
{
    server_do(nodes[node], "EVAL %s 1 hf:rl:cluster n%s %s",
              "local c, m = struct.pack('<d', ARGV[2] + 0), redis.call('HGET', KEYS[1], 'm') "
              "redis.call('HSET', KEYS[1], ARGV[1], c, 'm', string.sub(m, 1, 57) .. c .. "
              "string.sub(m, 66)); return 1",
              name, "4503599627370496");
    CHECK(to == HIGH);
}

void forget(unsigned node)
{
    server_do(nodes[node], "FLUSHALL");
}

struct healer healer_open(const char *own)
{
    struct healer healer = { .store = open_at(nodes_url(SHORT)) };
    hf_acquire_request request = with_ttl(waiting_request(own), 3000);

    healer.lease = take(healer.store, &request);
    return healer;
}

void healer_close(struct healer *healer)
{
    hf_release(healer->lease, NULL); /* it may be lost */
    close_hard(healer->store);
}

uint64_t token_of(hf_store *store, const char *name)
{
    hf_acquire_request request = with_ttl(waiting_request(name), 3000);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);

    give(lease);
    return token;
}
