/* SPDX-License-Identifier: MIT */
/*
 * The greeting, against servers that play a script: cut and split at every byte, closed at every
 * step, refused for every reason, and never with a password in what we say about it.
 */
#include "bed.h"
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET  "S3KR3T"
#define HELLO   "*4\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:77\r\n"
#define MASTER  "$14\r\nrole:master\r\nX\r\n"
#define LOADED  "$9\r\nloading:0\r\n"
#define UNKNOWN "-ERR unknown command 'AUTH', with args beginning with: '" SECRET "' \r\n"

static const char *url_of(const struct fake *fake, const char *rest)
{
    static char url[200];

    snprintf(url, sizeof url, "redis://127.0.0.1:%u%s", fake_port(fake), rest);
    return url;
}

static void good(void **state)
{
    static const struct fake_step steps[] = { GREET, END };
    struct fake *fake = fake_start(steps);
    struct bed bed;
    const struct hfi_server *server;

    (void)state;
    bed_init(&bed, url_of(fake, ""), false);
    assert_int_equal(hfi_link_state(bed.link), HFI_STREAM_IDLE);
    bed_open_up(&bed);
    server = hfi_link_server(bed.link);
    assert_string_equal(server->run_id, "0123456789abcdef0123456789abcdef01234567");
    assert_string_equal(server->replid, "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb");
    assert_string_equal(server->version, "7.0.15");
    assert_int_equal(server->major, 7);
    assert_int_equal(server->minor, 0);
    assert_int_equal(server->client_id, 77);
    hfi_link_close(bed.link);
    assert_int_equal(bed.downs, 0);
    bed_open_up(&bed); /* and again */
    assert_int_equal(fake_connections(fake), 2);
    bed_done(&bed);
    fake_stop(fake);
}

/* What we say, byte by byte. */
static void our_words(void **state)
{
    static const struct fake_step steps[] = { HEAR(7), END };
    static const char *const expected =
        "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$6\r\n" SECRET "\r\n"
        "*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n"
        "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$18\r\nholdfast:wire_test\r\n"
        "*2\r\n$6\r\nSELECT\r\n$1\r\n9\r\n"
        "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
        "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"
        "*2\r\n$4\r\nINFO\r\n$11\r\npersistence\r\n";
    struct fake *fake = fake_start(steps);
    char url[200];
    struct bed bed;

    (void)state;
    snprintf(url, sizeof url, "redis://u:" SECRET "@127.0.0.1:%u/9?connect_timeout=1m",
             fake_port(fake));
    bed_init(&bed, url, false);
    bed_open(&bed);
    while (strlen(fake_heard(fake)) < strlen(expected))
        bed_drive(&bed, 10);
    assert_string_equal(fake_heard(fake), expected);
    bed_done(&bed);
    fake_stop(fake);
}

static void in_drips(void **state)
{
    struct fake_step steps[] = { HEAR(GREETING_COMMANDS), { .kind = FAKE_DRIP }, END };
    struct fake *fake;
    struct bed bed;

    (void)state;
    steps[1].text = greeting_replies;
    fake = fake_start(steps);
    bed_init(&bed, url_of(fake, "?connect_timeout=1m"), true);
    bed_open_up(&bed);
    bed_done(&bed);
    fake_stop(fake);
}

/* The first n bytes, then the end, in good order or by a reset. */
static void cut_at_every_byte(void **state)
{
    size_t len = strlen(greeting_replies);

    (void)state;
    for (size_t n = 0; n < len; n++) {
        struct fake_step steps[] = { HEAR(GREETING_COMMANDS),
                                     { .kind = FAKE_SAY, .text = greeting_replies, .len = n },
                                     { .kind = n % 3 ? FAKE_CLOSE : FAKE_RESET } };
        struct fake *fake;
        struct bed bed;

        if (n == 0)
            steps[1].kind = FAKE_CLOSE;
        fake = fake_start(steps);
        bed_init(&bed, url_of(fake, "?connect_timeout=1m"), false);
        bed_open_down(&bed, HF_UNAVAILABLE, "127.0.0.1:");
        bed_done(&bed);
        fake_stop(fake);
    }
}

static void silent(void **state)
{
    static const struct fake_step steps[] = { END };
    struct fake *fake = fake_start(steps);
    struct bed bed;

    (void)state;
    bed_init(&bed, url_of(fake, "?connect_timeout=2s"), false);
    bed_open_down(&bed, HF_UNAVAILABLE, "no answer to the greeting within 2000 ms");
    bed_done(&bed);
    fake_stop(fake);
}

/* What servers may answer to AUTH (with a password), HELLO, SETNAME, INFO server, replication,
 * persistence. */
static void answers(void **state)
{
    static const struct {
        const char *auth, *hello, *name, *version, *more, *replication, *persistence;
        hf_status status;
        const char *why;
    } cases[] = {
        { "+OK\r\n", HELLO, "+OK\r\n", "6.2.0", "", MASTER, LOADED, HF_OK, "" },
        /* Not needed. */
        { "+OK\r\n", "-ERR unknown command 'HELLO'\r\n", "+OK\r\n", "6.2.14", "", MASTER, LOADED,
          HF_OK, "" },
        { "+OK\r\n", HELLO, "-NOPERM no\r\n", "7.4.1", "", MASTER, LOADED, HF_OK, "" },
        { "+OK\r\n", ":1\r\n", "*0\r\n", "7.4.1", "", "$0\r\n\r\n", "$0\r\n\r\n", HF_OK, "" },
        /* Too old, or something else. */
        { "+OK\r\n", HELLO, "+OK\r\n", "6.0.16", "", MASTER, LOADED, HF_VERSION,
          "Redis 6.0.16 is too old: 6.2 or newer is needed" },
        { "+OK\r\n", HELLO, "+OK\r\n", "5.0.3", "", MASTER, LOADED, HF_VERSION, "5.0.3" },
        { "+OK\r\n", HELLO, "+OK\r\n", "x", "", MASTER, LOADED, HF_VERSION, "Redis x" },
        { "+OK\r\n", HELLO, "+OK\r\n", "99999.99999", "", MASTER, LOADED, HF_OK, "" },
        { "+OK\r\n", HELLO, "+OK\r\n", NULL, "$5\r\nother\r\n", MASTER, LOADED, HF_VERSION,
          "no run_id" },
        { "+OK\r\n", HELLO, "+OK\r\n", NULL, "$19\r\nredis_version:7.0.0\r\n", MASTER, LOADED,
          HF_VERSION, "no run_id" },
        { "+OK\r\n", HELLO, "+OK\r\n", NULL, "$10\r\nrun_id:abc\r\n", MASTER, LOADED, HF_VERSION,
          "or redis_version" },
        { "+OK\r\n", HELLO, "+OK\r\n", NULL, ":1\r\n", MASTER, LOADED, HF_UNAVAILABLE, "INFO" },
        /* Refused. */
        { "-WRONGPASS invalid username-password pair\r\n", "-NOAUTH x\r\n", "-NOAUTH x\r\n", NULL,
          "-NOAUTH x\r\n", "-NOAUTH x\r\n", "-NOAUTH x\r\n", HF_DENIED, "AUTH: WRONGPASS" },
        { UNKNOWN, HELLO, "+OK\r\n", "7.0.0", "", MASTER, LOADED, HF_DENIED, "AUTH" },
        { "-ERR wrong number of arguments for 'auth' command: " SECRET "\r\n", HELLO, "+OK\r\n",
          "5.0.0", "", MASTER, LOADED, HF_DENIED, "AUTH" },
        { "+OK\r\n", "-NOAUTH HELLO must be called with the client already authenticated\r\n",
          "-NOAUTH x\r\n", NULL, "-NOAUTH x\r\n", "", "", HF_DENIED, "NOAUTH" },
        { "+OK\r\n", HELLO, "+OK\r\n", NULL, "-NOPERM this user may not\r\n", "", "", HF_DENIED,
          "INFO: NOPERM this user may not" },
        { "+OK\r\n", HELLO, "+OK\r\n", "7.0.0", "", "-NOPERM this user may not\r\n", "", HF_DENIED,
          "INFO: NOPERM" },
        { "-DENIED Redis is running in protected mode\r\n", "", "", NULL, "", "", "", HF_DENIED,
          "protected mode" },
        { "-ERR max number of clients reached\r\n", "", "", NULL, "", "", "", HF_UNAVAILABLE,
          "max number of clients" },
        { "-LOADING Redis is loading\r\n", "", "", NULL, "", "", "", HF_UNAVAILABLE, "LOADING" },
        { "+OK\r\n", "-LOADING Redis is loading\r\n", "", NULL, "", "", "", HF_UNAVAILABLE,
          "HELLO: LOADING" },
        { "+OK\r\n", HELLO, "+OK\r\n", "7.0.0", "", MASTER, "-LOADING Redis is loading\r\n",
          HF_UNAVAILABLE, "INFO: LOADING" },
        { "HTTP/1.1 400 Bad Request\r\n", "", "", NULL, "", "", "", HF_UNAVAILABLE,
          "not a reply of Redis" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char said[2000], url[200];
        struct fake_step steps[] = { HEAR(GREETING_COMMANDS + 1), { .kind = FAKE_SAY }, END };
        struct fake *fake;
        struct bed bed;

        snprintf(said, sizeof said, "%s%s%s%s%s%s", cases[i].auth, cases[i].hello, cases[i].name,
                 cases[i].version ? info_server(cases[i].version, cases[i].more) : cases[i].more,
                 cases[i].replication, cases[i].persistence);
        steps[1].text = said;
        fake = fake_start(steps);
        snprintf(url, sizeof url, "redis://:" SECRET "@127.0.0.1:%u?connect_timeout=1m",
                 fake_port(fake));
        bed_init(&bed, url, false);
        if (cases[i].status == HF_OK)
            bed_open_up(&bed);
        else
            bed_open_down(&bed, cases[i].status, cases[i].why);
        assert_null(strstr(bed.why, SECRET));
        bed_done(&bed);
        fake_stop(fake);
    }
}

static void kinds_of_servers(void **state)
{
    static const struct {
        const char *version, *more, *replication, *persistence;
        const char *shown;
        bool valkey, replica, cluster, loading;
    } cases[] = {
        { "7.2.4", "server_name:valkey\r\nvalkey_version:8.0.1\r\n", MASTER, LOADED, "8.0.1", true,
          false, false, false },
        { "7.2.4", "server_name:valkey\r\n", MASTER, LOADED, "7.2.4", true, false, false, false },
        { "7.0.0", "", "$12\r\nrole:slave\r\n\r\n", "$11\r\nloading:1\r\n\r\n", "7.0.0", false,
          true, false, true },
        { "7.0.0", "", "$13\r\n\nrole:replica\r\n", LOADED, "7.0.0", false, true, false, false },
        { "7.0.0", "xrole:slave\r\nloading:1\r\n", MASTER, LOADED, "7.0.0", false, false, false,
          false },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char said[2000];
        struct fake_step steps[] = { HEAR(GREETING_COMMANDS), { .kind = FAKE_SAY }, END };
        const struct hfi_server *server;
        struct fake *fake;
        struct bed bed;

        snprintf(said, sizeof said, "%s%s%s%s%s", HELLO, "+OK\r\n",
                 info_server(cases[i].version, cases[i].more), cases[i].replication,
                 cases[i].persistence);
        steps[1].text = said;
        fake = fake_start(steps);
        bed_init(&bed, url_of(fake, "?connect_timeout=1m"), false);
        bed_open_up(&bed);
        server = hfi_link_server(bed.link);
        assert_string_equal(server->version, cases[i].shown);
        assert_int_equal(server->major, 7);
        assert_int_equal(server->is_valkey, cases[i].valkey);
        assert_int_equal(server->is_replica, cases[i].replica);
        assert_int_equal(server->is_cluster, cases[i].cluster);
        assert_int_equal(server->loading, cases[i].loading);
        bed_done(&bed);
        fake_stop(fake);
    }
}

/* A sentinel is asked for less, as another user. */
static void sentinel(void **state)
{
    static const struct fake_step steps[] = { HEAR(4),        SAY("+OK\r\n"),       SAY(HELLO),
                                              SAY("+OK\r\n"), { .kind = FAKE_SAY }, END };
    struct fake_step mine[COUNT(steps)];
    struct fake *fake;
    char url[200];
    struct bed bed;

    (void)state;
    memcpy(mine, steps, sizeof mine);
    mine[4].text = info_server("7.0.15", "");
    fake = fake_start(mine);
    setenv("WIRE_SECRET", "other", 1);
    snprintf(url, sizeof url,
             "redis+sentinel://u:" SECRET "@127.0.0.1:%u/m/3?sentinel_user=s&"
             "sentinel_password_env=WIRE_SECRET&connect_timeout=1m",
             fake_port(fake));
    bed_init(&bed, url, false);
    hfi_link_to_sentinel(bed.link);
    bed_open_up(&bed);
    assert_non_null(strstr(fake_heard(fake), "AUTH\r\n$1\r\ns\r\n$5\r\nother\r\n"));
    assert_null(strstr(fake_heard(fake), SECRET));
    assert_null(strstr(fake_heard(fake), "SELECT"));
    bed_done(&bed);
    fake_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(our_words),
        cmocka_unit_test(in_drips),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(silent),
        cmocka_unit_test(answers),
        cmocka_unit_test(kinds_of_servers),
        cmocka_unit_test(sentinel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
