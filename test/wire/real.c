/* SPDX-License-Identifier: MIT */
/*
 * Links to real servers: plain, by a Unix socket, with passwords and rights.
 */
#include "bed.h"
#include "redis_server.h"

#include "util/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD "s3kr3t/%@:x" /* every byte that means something in a URL */
#define ENCODED  "s3kr3t%2F%25%40%3Ax"

/* `form` with the port in place of PORT. */
static const char *url_of(const char *form, unsigned port)
{
    static char url[512];
    const char *at = strstr(form, "PORT");

    snprintf(url, sizeof url, "%.*s%u%s", (int)(at - form), form, port, at + 4);
    return url;
}

static void plain(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;
    struct call set, get, list;
    const struct hfi_server *facts;

    (void)state;
    bed_init(&bed, server_url(server, "/3"), false);
    bed_open_up(&bed);
    facts = hfi_link_server(bed.link);
    assert_int_equal(strlen(facts->run_id), 40);
    assert_int_equal(strlen(facts->replid), 40);
    assert_true(facts->major >= 6);
    assert_true(facts->client_id > 0);
    assert_false(facts->is_replica || facts->is_cluster || facts->loading);

    CALL(&bed, &set, "SET", "a", "1");
    CALL(&bed, &get, "GET", "a");
    CALL(&bed, &list, "MGET", "a", "b");
    assert_int_equal(hfi_link_in_flight(bed.link), 3);
    bed_until_answered(&bed, &list);
    assert_int_equal(set.type, HFI_REPLY_STATE);
    assert_string_equal(get.text, "1");
    assert_int_equal(list.count, 2);
    assert_int_equal(hfi_link_in_flight(bed.link), 0);

    /* In database 3, under our name. */
    assert_int_equal(server_do(server, "EXISTS a"), 0);
    server_do(server, "SELECT 3");
    assert_int_equal(server_do(server, "EXISTS a"), 1);
    {
        redisReply *reply = server_ask(server, "CLIENT LIST");

        assert_non_null(strstr(reply->str, "name=holdfast:wire_test "));
        freeReplyObject(reply);
    }

    server_kill(server);
    bed_until_down(&bed);
    assert_int_equal(bed.status, HF_UNAVAILABLE);
    bed_open_down(&bed, HF_UNAVAILABLE, "Connection refused");
    server_restart(server);
    bed_open_up(&bed);
    bed_done(&bed);
    server_free(server);
}

/* The driver's fast way: sleep in recv(2). */
static void read_waits(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;
    struct call call;

    (void)state;
    bed_init(&bed, server_url(server, ""), false);
    bed_open_up(&bed);
    for (int i = 0; i < 1000; i++) {
        CALL(&bed, &call, "INCR", "n");
        while (call.answers == 0) {
            hfi_stream_read(&hfi_link_stream(bed.link)->source, true);
            hfi_stream_ready(&hfi_link_stream(bed.link)->source, -1, 0, 0);
        }
        assert_int_equal(call.integer, i + 1);
    }
    bed_done(&bed);
    server_free(server);
}

static void by_socket(void **state)
{
    struct server *server = server_start((const char *[]){ "--requirepass", PASSWORD, NULL });
    char url[300];
    struct bed bed;
    struct call call;

    (void)state;
    setenv("WIRE_SECRET", PASSWORD, 1);
    snprintf(url, sizeof url, "redis+unix://%s?password_env=WIRE_SECRET&db=1", server->socket);
    bed_init(&bed, url, false);
    bed_open_up(&bed);
    CALL(&bed, &call, "PING");
    bed_until_answered(&bed, &call);
    assert_string_equal(call.text, "PONG");
    bed_done(&bed);
    server_free(server);

    snprintf(url, sizeof url, "redis+unix:///nonexistent/socket");
    bed_init(&bed, url, false);
    bed_open_down(&bed, HF_UNAVAILABLE, "/nonexistent/socket: No such file");
    bed_done(&bed);
}

static void passwords(void **state)
{
    static const struct {
        const char *url;
        hf_status status;
        const char *why;
    } cases[] = {
        { "redis://:" ENCODED "@127.0.0.1:PORT", HF_OK, "" },
        { "redis://default:" ENCODED "@127.0.0.1:PORT/5", HF_OK, "" },
        { "redis://127.0.0.1:PORT", HF_DENIED, "NOAUTH" },
        { "redis://:s3kr3t@127.0.0.1:PORT", HF_DENIED, "WRONGPASS" },
        { "redis://nobody:" ENCODED "@127.0.0.1:PORT", HF_DENIED, "WRONGPASS" },
        { "redis://:" ENCODED "@127.0.0.1:PORT/16", HF_CONFIG, "SELECT 16: ERR DB index" },
        { "redis://limited:pw@127.0.0.1:PORT", HF_OK, "" },
        { "redis://noinfo:pw@127.0.0.1:PORT", HF_DENIED, "INFO: NOPERM" },
        { "redis://noselect:pw@127.0.0.1:PORT/2", HF_DENIED, "SELECT: NOPERM" },
        { "redis://off:pw@127.0.0.1:PORT", HF_DENIED, "WRONGPASS" },
        { "redis://nopass:@127.0.0.1:PORT", HF_OK, "" },
    };
    struct server *server = server_start((const char *[]){ "--requirepass", PASSWORD, NULL });

    (void)state;
    server_login(server, "default", PASSWORD);
    server_do(server, "ACL SETUSER limited on >pw +info +get ~*");
    server_do(server, "ACL SETUSER noinfo on >pw +@all -info ~*");
    server_do(server, "ACL SETUSER noselect on >pw +@all -select ~*");
    server_do(server, "ACL SETUSER off off >pw +@all ~*");
    server_do(server, "ACL SETUSER nopass on nopass +@all ~*");
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bed bed;

        bed_init(&bed, url_of(cases[i].url, server->port), i % 2 == 1);
        if (cases[i].status == HF_OK)
            bed_open_up(&bed);
        else
            bed_open_down(&bed, cases[i].status, cases[i].why);
        assert_null(strstr(bed.why, "s3kr3t"));
        bed_done(&bed);
    }
    server_free(server);
}

/* A password for a server that has none. */
static void needless_password(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;

    (void)state;
    bed_init(&bed, url_of("redis://:hidden@127.0.0.1:PORT", server->port), false);
    bed_open_down(&bed, HF_DENIED, "AUTH");
    assert_null(strstr(bed.why, "hidden"));
    bed_done(&bed);
    server_free(server);
}

static void drive_for(struct bed *bed, int64_t ms)
{
    int64_t until_ms = hfi_now_ms() + ms;

    while (hfi_now_ms() < until_ms)
        bed_drive(bed, 100);
}

static void subscriber(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;
    struct call first, second;

    (void)state;
    bed_init(&bed, server_url(server, "?ping=1s"), true);
    bed_open_up(&bed);
    call_subscribe(&bed, &first, "one");
    hfi_link_unsubscribe(bed.link, "none", 4);
    call_subscribe(&bed, &second, "two");
    bed_until_answered(&bed, &first);
    bed_until_answered(&bed, &second);
    assert_int_equal(first.count, 3);
    assert_int_equal(server_do(server, "PUBLISH one hello"), 1);
    while (bed.messages < 1)
        bed_drive(&bed, 1000);
    assert_string_equal(bed.channel, "one");
    assert_string_equal(bed.payload, "hello");

    /* Pings are answered, with subscriptions and without. */
    drive_for(&bed, 2500);
    hfi_link_unsubscribe(bed.link, "one", 3);
    hfi_link_unsubscribe(bed.link, "two", 3);
    hfi_link_flush(bed.link);
    drive_for(&bed, 2500);
    assert_int_equal(bed.downs, 0);
    assert_int_equal(server_do(server, "PUBLISH one hello"), 0);

    /* A server that stopped: two pings, then down. */
    server_pause(server);
    bed_until_down(&bed);
    assert_non_null(strstr(bed.why, "no answer to 2 pings"));
    server_continue(server);
    bed_open_up(&bed);
    bed_done(&bed);
    server_free(server);
}

static void no_channel_rights(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;
    struct call bad, good;

    (void)state;
    server_do(server, "ACL SETUSER u on >pw +@all ~* resetchannels &good");
    bed_init(&bed, url_of("redis://u:pw@127.0.0.1:PORT", server->port), true);
    bed_open_up(&bed);
    call_subscribe(&bed, &bad, "bad");
    call_subscribe(&bed, &good, "good");
    bed_until_answered(&bed, &good);
    assert_int_equal(bad.type, HFI_REPLY_ERROR);
    assert_non_null(strstr(bad.text, "NOPERM"));
    assert_int_equal(good.type, HFI_REPLY_LIST);
    bed_done(&bed);
    server_free(server);
}

/* More than a socket takes at once: the rest goes when it can. */
static void large(void **state)
{
    struct server *server = server_start(NULL);
    size_t size = 24 << 20;
    char *value = malloc(size + 1);
    struct bed bed;
    struct call set, get;

    (void)state;
    memset(value, 'v', size);
    value[size] = 0;
    bed_init(&bed, server_url(server, "?op_timeout=1m"), false);
    bed_open_up(&bed);
    CALL(&bed, &set, "SET", "big", value);
    CALL(&bed, &get, "STRLEN", "big");
    bed_until_answered(&bed, &get);
    assert_int_equal(get.integer, size);
    CALL(&bed, &get, "GET", "big");
    bed_until_answered(&bed, &get);
    assert_int_equal(get.type, HFI_REPLY_TEXT);

    /* And once all has gone nobody is woken for nothing. */
    assert_int_equal(poll(&(struct pollfd){ .fd = bed.reactor.epoll_fd, .events = POLLIN }, 1, 0),
                     0);
    bed_done(&bed);
    free(value);
    server_free(server);
}

static void op_limit(void **state)
{
    struct server *server = server_start(NULL);
    struct bed bed;
    struct call call;

    (void)state;
    bed_init(&bed, server_url(server, "?op_timeout=200ms"), false);
    bed_open_up(&bed);
    server_pause(server);
    CALL(&bed, &call, "PING");
    bed_until_down(&bed);
    assert_true(call.none && call.maybe);
    assert_int_equal(call.answers, 1);
    assert_non_null(strstr(bed.why, "no reply within 200 ms"));
    server_continue(server);
    bed_done(&bed);
    server_free(server);
}

/* ---- threads ------------------------------------------------------------------------------------- */

/* Many send, one drives and sleeps in recv(2) without the lock meanwhile. */
enum { SENDERS = 4, ROUNDS = 2000 };
static struct bed shared;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic bool stop;

static void wake(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    call_note(sent, reply, maybe);
    pthread_cond_broadcast(&changed);
}

static void *sender(void *argument)
{
    const char *key = argument;

    for (int i = 0; i < ROUNDS; i++) {
        struct call call = { .sent.answered = wake };
        struct hfi_command command;

        hfi_command_init(&command);
        hfi_command_add_text(&command, "INCR");
        hfi_command_add_text(&command, key);
        pthread_mutex_lock(&lock);
        hfi_link_send(shared.link, &command, &call.sent);
        hfi_link_flush(shared.link);
        while (call.answers == 0)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        hfi_command_done(&command);
        assert_false(call.none);
        assert_int_equal(call.integer, i + 1);
    }
    return NULL;
}

static void *driver(void *argument)
{
    (void)argument;
    while (!stop) {
        hfi_stream_read(&hfi_link_stream(shared.link)->source, true);
        pthread_mutex_lock(&lock);
        hfi_stream_ready(&hfi_link_stream(shared.link)->source, -1, 0, hfi_now_ms());
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void threads(void **state)
{
    static char *const keys[SENDERS] = { "a", "b", "c", "d" };
    struct server *server = server_start(NULL);
    pthread_t senders[SENDERS], drives;

    (void)state;
    bed_init(&shared, server_url(server, "?op_timeout=1m"), false);
    bed_open_up(&shared);
    assert_int_equal(pthread_create(&drives, NULL, driver, NULL), 0);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&senders[i], NULL, sender, keys[i]), 0);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    stop = true;
    pthread_join(drives, NULL);
    bed_done(&shared);
    server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(read_waits),
        cmocka_unit_test(by_socket),
        cmocka_unit_test(passwords),
        cmocka_unit_test(needless_password),
        cmocka_unit_test(subscriber),
        cmocka_unit_test(no_channel_rights),
        cmocka_unit_test(large),
        cmocka_unit_test(op_limit),
        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
