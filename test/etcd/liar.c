/* SPDX-License-Identifier: MIT */
/*
 * A server that plays a script instead of being etcd (liar_server.h): answers of the wrong shape, cut anywhere, without a
 * status, compressed, of a huge length; HTTP/2 that is none; streams and connections that end early. Whatever it says, we
 * end with a status that fits, in bounded time, and believe nothing.
 */
#include "contract.h"
#include "liar_server.h"
#include "server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX   8
#define QUERY       "?connect_timeout=500ms&op_timeout=250ms&ping=200ms"
#define BYTES(text) .bytes = text, .len = sizeof(text) - 1

static uint16_t port;

/* ---- good answers ------------------------------------------------------------------------------ */

/* header { revision: 7, raft_term: 2 } */
#define HEADER "\x0a\x04\x18\x07\x20\x02"
/* ID 99, TTL 30 */
#define GRANTED HEADER "\x10\x63\x18\x1e"
/* succeeded, and a put */
#define PUT HEADER "\x10\x01\x1a\x02\x12\x00"

static const struct liar_rule grant = { "LeaseGrant", BYTES(GRANTED) };
static const struct liar_rule range = { "KV/Range", BYTES(HEADER) };
static const struct liar_rule put = { "KV/Txn", BYTES(PUT) };

/* These first, then what makes an open and a lease possible. */
static void say(const struct liar_rule *list)
{
    struct liar_rule all[RULES_MAX + 3];
    size_t count = 0;

    for (; list && list[count].path && count < RULES_MAX; count++)
        all[count] = list[count];
    all[count++] = grant;
    all[count++] = range;
    all[count] = (struct liar_rule){ .path = NULL };
    liar_say(all);
}

static void say_one(const char *path, const struct liar_rule *rule)
{
    struct liar_rule list[2] = { *rule, { .path = NULL } };

    list[0].path = path;
    say(list);
}

static hf_status open_at(const char *host, const char *query, int64_t wait_ms, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    char url[128];

    options.open_wait_ms = wait_ms;
    snprintf(url, sizeof url, "etcd://%s:%u/x%s", host, (unsigned)port, query);
    return hf_open(url, &options, ret_store, &contract_error);
}

static hf_status open_it(int64_t wait_ms, hf_store **ret_store)
{
    return open_at("127.0.0.1", QUERY, wait_ms, ret_store);
}

/* ---- names ------------------------------------------------------------------------------------- */

static atomic_int lookups;

/* Seen from the library, which asks. A name is known at the fourth lookup only. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
    struct sockaddr_in *to = (struct sockaddr_in *)(info + 1);

    (void)hints;
    if (!info)
        return EAI_MEMORY;
    if (strcmp(node, "127.0.0.1") != 0 &&
        (strcmp(node, "late.test") != 0 || atomic_fetch_add(&lookups, 1) < 3)) {
        free(info);
        return EAI_AGAIN;
    }
    to->sin_family = AF_INET;
    to->sin_port = htons(service ? (uint16_t)atoi(service) : port);
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info->ai_family = AF_INET;
    info->ai_socktype = SOCK_STREAM;
    info->ai_protocol = IPPROTO_TCP;
    info->ai_addr = (struct sockaddr *)to;
    info->ai_addrlen = sizeof *to;
    *ret = info;
    return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *info)
{
    free(info);
}

static void name_known_later(void **state)
{
    hf_store *store = NULL;

    (void)state;
    say(NULL);
    EXPECT(HF_OK, open_at("late.test", QUERY, LIMIT_MS, &store));
    CHECK(atomic_load(&lookups) == 4);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

/* ---- nonsense ------------------------------------------------------------------------------------ */

#define SETTINGS "\0\0\0\4\0\0\0\0\0"

/* What no server should say, as soon as somebody connects. */
static const struct liar_rule not_http2[] = {
    { .way = LIAR_CLOSE },
    { .way = LIAR_NOT_H2, BYTES("") },
    { .way = LIAR_NOT_H2, BYTES("lol\r\n\r\n") },
    { .way = LIAR_NOT_H2, BYTES("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") },
    { .way = LIAR_NOT_H2, BYTES("\0\0\0") }, /* half a frame */
    { .way = LIAR_NOT_H2,
      BYTES("\0\0\x08\6\0\0\0\0\0"
            "12345678") }, /* PING before SETTINGS */
    { .way = LIAR_NOT_H2,
      BYTES("\0\0\5\4\0\0\0\0\0"
            "12345") },                                        /* SETTINGS of five bytes */
    { .way = LIAR_NOT_H2, BYTES("\xff\xff\xff\4\0\0\0\0\0") }, /* of 16 MiB */
    { .way = LIAR_NOT_H2, BYTES("\0\0\6\4\0\0\0\0\0\0\4\xff\xff\xff\xff") }, /* a window of 4 GiB */
    { .way = LIAR_NOT_H2, BYTES(SETTINGS) },                                 /* and the end */
};

/* What no server should answer. */
static const struct liar_rule nonsense[] = {
    { .way = LIAR_CLOSE },
    { .way = LIAR_SILENCE },
    { .way = LIAR_RESET, .error = 0 },
    { .way = LIAR_RESET, .error = 2 /* INTERNAL_ERROR */ },
    { .way = LIAR_RESET, .error = 7 /* REFUSED_STREAM */ },
    { .way = LIAR_GOAWAY, .error = 0 },
    { .way = LIAR_GOAWAY, .error = 11 /* ENHANCE_YOUR_CALM */ },
    { BYTES(HEADER), .status = "" },                           /* no trailers */
    { BYTES(HEADER), .status = "x" },                          /* no status in them */
    { .status = "" },                                          /* nothing but headers */
    { .status = "0" },                                         /* OK, but no message */
    { BYTES(HEADER), .prefix = "\1\0\0\0\6" },                 /* compressed */
    { BYTES(HEADER), .prefix = "\0\xff\xff\xff\xff" },         /* 4 GiB follow */
    { BYTES(HEADER), .prefix = "\0\1\0\0\1" },                 /* 16 MiB and a byte */
    { BYTES(HEADER), .prefix = "\0\0\0\0\7" },                 /* one more than there is */
    { BYTES(HEADER), .prefix = "\0\0\0\0\5" },                 /* one less */
    { BYTES(HEADER), .prefix = "\0\0\0\0\0" },                 /* more messages than one */
    { BYTES("\x0a\x04\x18\x07\x20") },                         /* a message that is cut */
    { BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") }, /* a length of 2^64 - 1 */
    { BYTES("\x0a\x00\x0a\x00") },                             /* two headers */
    { BYTES("\x08\x01") },                                     /* a number for a header */
    { BYTES("<html>sign in</html>"), .type = "text/html" },
    { BYTES("<html>sign in</html>"), .type = "text/html", .status = "" },
    { .http = "500", .status = "" },
    { .http = "302", .status = "" },
    { .status = "14", .text = "etcdserver: no leader" },
    { .status = "99", .text = "%zz%0a%" },
    { .way = LIAR_FRAMES, BYTES("\0\0\1\1\4\0\0\0\1\xff") },         /* HPACK: no such header */
    { .way = LIAR_FRAMES, BYTES("\0\0\3\1\4\0\0\0\1\x3f\xff\xff") }, /* a table that never ends */
    { .way = LIAR_FRAMES, BYTES("\0\0\1\1\0\0\0\0\1\x88") },         /* headers go on, and do not */
    { .way = LIAR_FRAMES, BYTES("\0\0\1\0\0\0\0\0\0x") },            /* data of no stream */
    { .way = LIAR_FRAMES, BYTES("\0\0\4\x08\0\0\0\0\0\x7f\xff\xff\xff") }, /* a window too large */
    { .way = LIAR_FRAMES, BYTES("\0\0\5\5\4\0\0\0\1\0\0\0\2\x88") },       /* a push */
    { .way = LIAR_FRAMES,
      BYTES("\0\0\1\1\4\0\0\0\1\x88"
            "\0\0\0\1\5\0\0\0\1") }, /* empty trailers */
};
#define NONSENSE (sizeof nonsense / sizeof *nonsense)

static void opening(void **state)
{
    hf_store *store = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof not_http2 / sizeof *not_http2; i++) {
        say_one(not_http2[i].way == LIAR_CLOSE ? "" : "connected", &not_http2[i]);
        EXPECT(HF_UNAVAILABLE, open_it(100, &store));
        CHECK(strstr(contract_error.text, "127.0.0.1") != NULL);
    }
    for (size_t i = 0; i < NONSENSE; i++) {
        say_one("etcdserverpb", &nonsense[i]);
        EXPECT(HF_UNAVAILABLE, open_it(100, &store));
        CHECK(strstr(contract_error.text, "127.0.0.1") != NULL);
    }
    say_one("KV", &(struct liar_rule){ .http = "404", .status = "" });
    EXPECT(HF_VERSION, open_it(300, &store));
    say_one("KV", &(struct liar_rule){ .status = "12", .text = "unknown service" });
    EXPECT(HF_VERSION, open_it(300, &store));
    say_one("KV", &(struct liar_rule){ .status = "7", .text = "etcdserver: permission%20denied" });
    EXPECT(HF_DENIED, open_it(300, &store));
    CHECK(strstr(contract_error.text, "permission denied") != NULL);
}

/* An answer that comes byte by byte is one; one that is cut anywhere is none. */
static void cut_and_dripped(void **state)
{
    hf_store *store = NULL;
    long whole;

    (void)state;
    say(NULL);
    liar_cut(-1, 1);
    EXPECT(HF_OK, open_it(LIMIT_MS, &store));
    whole = liar_written();
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    for (long after = 0; after < whole; after++) {
        liar_cut(after, 0);
        EXPECT(HF_UNAVAILABLE, open_it(30, &store));
    }
    liar_cut(-1, 0);
}

/* ---- acquiring ------------------------------------------------------------------------------------- */

#define OP "\x1a" /* a response of a transaction */
static const struct liar_rule wrong_shapes[] = {
    { BYTES("") },
    { BYTES("\x10\x01") },               /* succeeded, nothing else */
    { BYTES(HEADER "\x10\x01") },        /* no responses */
    { BYTES(HEADER OP "\x02\x12\x00") }, /* a put, but not succeeded */
    { BYTES("\x0a\x0b\x18\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            "\x10\x01" OP "\x02\x12\x00" OP "\x02\x0a\x00") }, /* revision -3 */
    { BYTES("\x0a\x09\x18\x81\x80\x80\x80\x80\x80\x80\x10"
            "\x10\x01" OP "\x02\x12\x00") },                /* 2^53 */
    { BYTES(HEADER "\x10\x01" OP "\x02\x0a\x00") },         /* a range where a put must be */
    { BYTES(HEADER "\x10\x01" OP "\x02\x12\x01") },         /* the put is cut */
    { BYTES(HEADER "\x10\x01" OP "\x04\x12\x00\x12\x00") }, /* two puts in one */
};

/* The transaction of an acquire is answered so. Nothing is granted on such a word. */
static void acquire_with(const struct liar_rule *reply)
{
    hf_acquire_request request = mutex_request("n");
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_status status;

    say_one("KV/Txn", reply);
    EXPECT(HF_OK, open_it(LIMIT_MS, &store));
    request.wait_ms = 200;
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status != HF_OK && lease == NULL);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

static void acquiring(void **state)
{
    (void)state;
    for (size_t i = 0; i < NONSENSE; i += 2) /* each costs a second: the others are for watches */
        acquire_with(&nonsense[i]);
    for (size_t i = 0; i < sizeof wrong_shapes / sizeof *wrong_shapes; i++)
        acquire_with(&wrong_shapes[i]);
}

static hf_status try_once(hf_store *store)
{
    hf_acquire_request request = mutex_request("n");
    hf_lease *lease = NULL;
    hf_status status = hf_acquire(store, &request, &lease, &contract_error);

    if (status == HF_OK)
        (void)hf_release(lease, &contract_error);
    return status;
}

/* The right answer is believed; and cut anywhere, it is not. */
static void cut_grant(void **state)
{
    hf_store *store = NULL;
    long opened, whole;

    (void)state;
    say_one("KV/Txn", &put);
    EXPECT(HF_OK, open_it(LIMIT_MS, &store));
    opened = liar_written();
    EXPECT(HF_OK, try_once(store));
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);

    say_one("KV/Txn", &put);
    EXPECT(HF_OK, open_it(LIMIT_MS, &store));
    say_one("KV/Txn", &(struct liar_rule){ .way = LIAR_SILENCE });
    EXPECT(HF_UNKNOWN, try_once(store)); /* the lease is there now; only the transaction is left */
    whole = liar_written() + 64;
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);

    for (long after = opened + 1; after < whole; after += 7) {
        hf_status status;
        unsigned before;

        say_one("KV/Txn", &put);
        liar_cut(-1, 0);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        liar_cut(after, 0);
        before = liar_requests();
        status = try_once(store);
        CHECK(status == HF_OK || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
        CHECK(liar_requests() > before);
        liar_cut(-1, 0);
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
}

/* GOAWAY: a request that the server says it has not begun is repeated, and so is a refused stream. Nothing is unknown. */
static void not_executed(void **state)
{
    static const struct liar_rule ways[] = { { .way = LIAR_GOAWAY, .error = 0 },
                                             { .way = LIAR_RESET, .error = 7 } };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct liar_rule list[3] = { ways[i], put, { .path = NULL } };
        hf_acquire_request request = mutex_request("n");
        hf_store *store = NULL;
        hf_lease *lease = NULL;

        say(NULL);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        list[0].path = "KV/Txn";
        list[0].times = 1;
        say(list);
        EXPECT(HF_OK, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(hf_lease_token(lease) == 7);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
        list[0].times = 0; /* always */
        say(NULL);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        say(list);
        EXPECT(HF_UNAVAILABLE, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
}

/* A grant of a lease that is none, and a list that is none. */
static void others(void **state)
{
    static const char *const paths[] = { "LeaseGrant", "KV/Range" };

    (void)state;
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 2; i < NONSENSE; i += 5) {
            hf_acquire_request request = mutex_request("n");
            struct liar_rule list[3] = { nonsense[i], wrong_shapes[0], { .path = NULL } };
            hf_store *store = NULL;
            hf_lease *lease = NULL;
            hf_view *view = NULL;
            hf_status status;

            say(NULL);
            EXPECT(HF_OK, open_it(LIMIT_MS, &store));
            list[0].path = paths[p];
            list[1].path = "KV/Txn";
            say(list);
            request.wait_ms = 100;
            CHECK(hf_acquire(store, &request, &lease, &contract_error) != HF_OK);
            status = hf_store_inspect(store, "n", 1, 0, &view, &contract_error);
            CHECK(p == 0 ? status == HF_OK : status == HF_UNAVAILABLE);
            hf_free(view);
            CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
        }
}

/* Pages that say that there is more, but not where; and one that comes again. Its key is x/locks/none, which is no claim. */
static void pages(void **state)
{
    static const struct liar_rule replies[] = {
        { BYTES(HEADER "\x18\x01") },
        { BYTES(HEADER "\x18\x01\x12\x00") },
        { BYTES(HEADER "\x18\x01\x12\x0e\x0a\x0cx/locks/none") },
    };

    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        hf_store *store = NULL;
        hf_view *view = NULL;

        say(NULL);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        say_one("KV/Range", &replies[i]);
        EXPECT(HF_CORRUPT,
               hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
        CHECK(view == NULL);
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
}

/* ---- watching --------------------------------------------------------------------------------------- */

/* kv { key: "x/locks/n/m/zz", create_revision: 3 } is ahead of kv { create_revision: 7 } */
static const char busy[] = HEADER "\x10\x01" OP "\x02\x12\x00" OP "\x1a"
                                  "\x0a\x18"
                                  "\x12\x02\x10\x07"
                                  "\x12\x12\x0a\x0ex/locks/n/m/zz\x10\x03";
static const char still[] = HEADER "\x12\x02\x10\x07"
                                   "\x12\x12\x0a\x0ex/locks/n/m/zz\x10\x03";
static const char alone[] = HEADER "\x12\x02\x10\x07";

/* Its transactions queue a claim behind another one. */
#define QUEUED                                                      \
    { "KV/Txn", .bytes = "\x10\x00", .len = 2, .times = 1 },        \
    {                                                               \
        "KV/Txn", .bytes = busy, .len = sizeof busy - 1, .times = 1 \
    }

/* A waiter whose watch is answered with nonsense reads its queue again: it is granted by what is there, and by nothing else. */
static void watching(void **state)
{
    (void)state;
    for (size_t i = 1; i < NONSENSE; i += 2) {
        struct liar_rule list[] = { grant,
                                    nonsense[i],
                                    QUEUED,
                                    put,
                                    { "KV/Range", .bytes = still, .len = sizeof still - 1,
                                      .times = 2 },
                                    { "KV/Range", .bytes = alone, .len = sizeof alone - 1 },
                                    { .path = NULL } };
        hf_acquire_request request = waiting_request("n");
        hf_store *store = NULL;
        hf_lease *lease = NULL;

        if (nonsense[i].way == LIAR_SILENCE || nonsense[i].way == LIAR_CLOSE)
            continue; /* nothing comes, or everything ends: other tests */
        say(NULL);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        list[1].path = "Watch/Watch";
        liar_say(list);
        EXPECT(HF_OK, hf_acquire(store, &request, &lease, &contract_error));
        CHECK(hf_lease_token(lease) == 7);
        EXPECT(HF_OK, hf_release(lease, &contract_error));
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
}

/* Say that both watches (of the store and of the waiter: ids 1 and 2) are there, until the waiter has no doubts and is quiet. */
static void confirm_watches(void)
{
    /* header { revision: 7 }, watch_id, created */
    static const char created[] = "\0\0\0\0\x0a" HEADER "\x10\x01\x18\x01"
                                  "\0\0\0\0\x0a" HEADER "\x10\x02\x18\x01";
    unsigned quiet = 0;

    for (unsigned seen = liar_requests(); quiet < 10; nap_ms(50)) {
        bool open = liar_more(created, sizeof created - 1);

        quiet = open && seen == liar_requests() ? quiet + 1 : 0;
        seen = liar_requests();
    }
}

/*
 * etcd tells of a change a moment before it can be read: the look after the event may find the queue of before, and no
 * further event comes. Such an answer is known by its revision. Nothing else would wake the waiter: its watch is old enough to
 * be trusted.
 */
static void old_look_after_an_event(void **state)
{
    /* header { revision: 9 }, watch_id 1 and 2, events { DELETE, kv { key, mod_revision: 9 } } */
#define EVENT                  \
    "\x5a\x16\x08\x01\x12\x12" \
    "\x0a\x0ex/locks/n/m/zz\x18\x09"
    static const char event[] = "\0\0\0\0\x20\x0a\x04\x18\x09\x20\x02\x10\x01" EVENT
                                "\0\0\0\0\x20\x0a\x04\x18\x09\x20\x02\x10\x02" EVENT;
    static const char free_now[] = "\x0a\x04\x18\x09\x20\x02\x12\x02\x10\x07";
    struct liar_rule wait[] = { grant,
                                { "Watch/Watch", .way = LIAR_LASTS },
                                QUEUED,
                                put,
                                { "KV/Range", .bytes = still, .len = sizeof still - 1 },
                                { .path = NULL } };
    struct liar_rule late[] = { { "KV/Range", .bytes = still, .len = sizeof still - 1, .times = 1 },
                                { "KV/Range", BYTES(free_now) },
                                grant,
                                put,
                                { .path = NULL } };
    hf_acquire_request request = waiting_request("n");
    struct attempt waiter = { 0 };
    hf_store *store = NULL;

    (void)state;
    say(NULL);
    EXPECT(HF_OK, open_at("127.0.0.1", "?ping=10m&op_timeout=30s", LIMIT_MS, &store));
    liar_say(wait);
    attempt_start(&waiter, store, &request);
    confirm_watches();
    CHECK(!atomic_load(&waiter.ended));
    liar_say(late);
    CHECK(liar_more(event, sizeof event - 1));
    EXPECT(HF_OK, attempt_join(&waiter));
    CHECK(hf_lease_token(waiter.lease) == 7);
    EXPECT(HF_OK, hf_release(waiter.lease, &contract_error));
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opening),
                                        cmocka_unit_test(cut_and_dripped),
                                        cmocka_unit_test(acquiring),
                                        cmocka_unit_test(cut_grant),
                                        cmocka_unit_test(not_executed),
                                        cmocka_unit_test(others),
                                        cmocka_unit_test(pages),
                                        cmocka_unit_test(watching),
                                        cmocka_unit_test(name_known_later),
                                        cmocka_unit_test(old_look_after_an_event) };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    port = liar_start();
    contract_alone = false;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
