/* SPDX-License-Identifier: MIT */
/* The tools of these tests themselves: a server's life, its clock, and what the proxy does. */
#include "clock.h"
#include "proxy.h"
#include "set.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static redisContext *through(struct proxy *proxy)
{
    struct timeval limit = { .tv_sec = 60 };
    redisContext *c = redisConnectWithTimeout("127.0.0.1", proxy_port(proxy), limit);

    assert_non_null(c);
    assert_int_equal(c->err, 0);
    return c;
}

static void say(redisContext *c, const char *command, const char *want)
{
    redisReply *reply = redisCommand(c, command);

    if (!reply)
        fail_msg("%s: no reply: %s", command, c->errstr);
    assert_string_equal(reply->str, want);
    freeReplyObject(reply);
}

static void kill_and_restart(void **state)
{
    struct server *server = server_start(NULL);

    (void)state;
    server_do(server, "SET k v");
    assert_int_equal(server_do(server, "EXISTS k"), 1);
    server_kill(server);
    server_restart(server);
    assert_int_equal(server_do(server, "EXISTS k"), 0);
    server_free(server);
}

/* With a file it comes back as it was. */
static void restart_with_data(void **state)
{
    struct server *server =
        server_start((const char *[]){ "--appendonly", "yes", "--appendfsync", "always", NULL });

    (void)state;
    server_do(server, "SET k v");
    server_restart(server);
    assert_int_equal(server_do(server, "EXISTS k"), 1);
    server_free(server);
}

static void pause_and_continue(void **state)
{
    struct server *server = server_start(NULL);
    redisContext *c = server_connect(server);
    struct timeval limit = { .tv_usec = 100000 };

    (void)state;
    redisSetTimeout(c, limit);
    server_pause(server);
    assert_null(redisCommand(c, "PING"));
    server_continue(server);
    server_do(server, "PING");
    redisFree(c);
    server_free(server);
}

static long long server_seconds(struct server *server)
{
    redisReply *reply = server_ask(server, "EVAL %s 0", "return redis.call('TIME')[1]");
    long long seconds = atoll(reply->str);

    freeReplyObject(reply);
    return seconds;
}

static void clock_jumps(void **state)
{
    struct server *server = clock_server(NULL);
    long long before = server_seconds(server);

    (void)state;
    clock_jump_ms(server, 3600 * 1000);
    assert_in_range(server_seconds(server) - before, 3600, 3700);
    clock_jump_ms(server, -7200 * 1000);
    assert_in_range(before - server_seconds(server), 3500, 3600);
    /* What expires by the wall clock expires by its jump. */
    server_do(server, "SET k v PX 60000");
    clock_jump_ms(server, 100000);
    assert_int_equal(server_do(server, "EXISTS k"), 0);
    server_free(server);
}

static struct server *server;
static struct proxy *proxy;

static int begin(void **state)
{
    (void)state;
    server = server_start(NULL);
    proxy = proxy_start(server->port);
    return 0;
}

static int end(void **state)
{
    (void)state;
    proxy_stop(proxy);
    server_free(server);
    return 0;
}

static void passes_bytes(void **state)
{
    redisContext *c = through(proxy);
    static char big[300000];

    (void)state;
    say(c, "PING", "PONG");
    memset(big, 'x', sizeof big - 1);
    assert_int_equal(redisAppendCommand(c, "ECHO %s", big), REDIS_OK);
    for (redisReply *reply = NULL;;) {
        assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
        assert_string_equal(reply->str, big);
        freeReplyObject(reply);
        break;
    }
    assert_int_equal(proxy_connections(proxy), 1);
    assert_true(proxy_bytes(proxy, PROXY_DOWN) > (int64_t)sizeof big);
    redisFree(c);
}

static void delays_and_drips(void **state)
{
    redisContext *c = through(proxy);
    int64_t start_ms;

    (void)state;
    say(c, "PING", "PONG");
    proxy_delay(proxy, PROXY_UP, 100);
    proxy_delay(proxy, PROXY_DOWN, 100);
    start_ms = clock_ms();
    say(c, "PING", "PONG");
    assert_true(clock_ms() - start_ms >= 200);
    proxy_heal(proxy);
    proxy_drip(proxy, PROXY_DOWN, 1);
    start_ms = clock_ms();
    say(c, "ECHO abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
    assert_true(clock_ms() - start_ms >= 40);
    redisFree(c);
}

static void cuts_replies(void **state)
{
    (void)state;
    /* ":1\r\n" is four bytes: with three of them it is no reply yet. */
    for (int bytes = 0; bytes <= 3; bytes++) {
        redisContext *c = through(proxy);

        say(c, "PING", "PONG");
        proxy_cut_after(proxy, PROXY_DOWN, bytes);
        assert_null(redisCommand(c, "INCR cut%d", bytes));
        assert_true(proxy_has_cut(proxy));
        assert_int_equal(server_do(server, "EXISTS cut%d", bytes), 1);
        redisFree(c);
    }
}

static void cuts_requests(void **state)
{
    redisContext *c = through(proxy);

    (void)state;
    say(c, "PING", "PONG");
    proxy_cut_after(proxy, PROXY_UP, 10);
    assert_null(redisCommand(c, "INCR cut"));
    assert_int_equal(server_do(server, "EXISTS cut"), 0);
    redisFree(c);
}

static void black_hole_one_way(void **state)
{
    redisContext *c = through(proxy);
    struct timeval limit = { .tv_usec = 100000 };

    (void)state;
    say(c, "PING", "PONG");
    redisSetTimeout(c, limit);
    proxy_block(proxy, PROXY_DOWN, true);
    assert_null(redisCommand(c, "INCR hole"));
    assert_int_equal(server_do(server, "EXISTS hole"), 1);
    assert_true(proxy_held(proxy, PROXY_DOWN) > 0);
    redisFree(c);
}

/* The client has long given up when its bytes are executed. */
static void executes_late(void **state)
{
    redisContext *c = through(proxy);
    redisReply *reply;

    (void)state;
    say(c, "PING", "PONG");
    proxy_block(proxy, PROXY_UP, true);
    redisAppendCommand(c, "INCR late");
    assert_int_equal(redisBufferWrite(c, NULL), REDIS_OK);
    proxy_cut_late(proxy);
    assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_ERR);
    redisFree(c);
    proxy_heal(proxy);
    assert_int_equal(server_do(server, "EXISTS late"), 0);
    proxy_deliver(proxy);
    assert_int_equal(server_do(server, "EXISTS late"), 1);
    c = through(proxy);
    say(c, "PING", "PONG");
    redisFree(c);
}

static void tells_kinds_apart(void **state)
{
    redisContext *calls = through(proxy), *push = through(proxy);
    redisReply *reply = redisCommand(push, "SUBSCRIBE c");

    (void)state;
    assert_non_null(reply);
    freeReplyObject(reply);
    say(calls, "PING", "PONG");
    proxy_choose(proxy, PROXY_PUSH);
    proxy_cut(proxy);
    assert_int_equal(redisGetReply(push, (void **)&reply), REDIS_ERR);
    say(calls, "PING", "PONG");
    redisFree(push);
    redisFree(calls);
}

static void refuses(void **state)
{
    redisContext *c;

    (void)state;
    proxy_refuse(proxy, true);
    c = through(proxy);
    assert_null(redisCommand(c, "PING"));
    redisFree(c);
    proxy_heal(proxy);
    c = through(proxy);
    say(c, "PING", "PONG");
    redisFree(c);
}

static void fails_over(void **state)
{
    struct sentinel_set *set = sentinel_start(1, 1000, NULL);
    struct server *master = sentinel_master(set);

    (void)state;
    assert_ptr_equal(master, set->servers[0]);
    server_kill(master);
    assert_ptr_equal(sentinel_await_other(set, master), set->servers[1]);
    sentinel_free(set);
}

static void moves_slots(void **state)
{
    struct cluster *cluster = cluster_start(NULL);
    unsigned slot;
    size_t from = cluster_owner(cluster, "{a}", &slot), to = (from + 1) % CLUSTER_NODES;

    (void)state;
    server_do(cluster->nodes[from], "SET {a}1 v");
    cluster_move_begin(cluster, slot, from, to);
    cluster_move_keys(cluster, slot, from, to);
    cluster_move_end(cluster, slot, to);
    assert_int_equal(server_do(cluster->nodes[to], "EXISTS {a}1"), 1);
    assert_int_equal(cluster_owner(cluster, "{a}", &slot), to);
    cluster_free(cluster);
}

#define PROXY_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_and_restart),
        cmocka_unit_test(restart_with_data),
        cmocka_unit_test(pause_and_continue),
        cmocka_unit_test(clock_jumps),
        PROXY_TEST(passes_bytes),
        PROXY_TEST(delays_and_drips),
        PROXY_TEST(cuts_replies),
        PROXY_TEST(cuts_requests),
        PROXY_TEST(black_hole_one_way),
        PROXY_TEST(executes_late),
        PROXY_TEST(tells_kinds_apart),
        PROXY_TEST(refuses),
        cmocka_unit_test(fails_over),
        cmocka_unit_test(moves_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
