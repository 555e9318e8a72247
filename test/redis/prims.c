/* SPDX-License-Identifier: MIT */
/*
 * Cells, counters and scripts over a network that fails: no change of a cell is missed, nothing is counted or run twice, and
 * what is not known is said.
 */
#include "redis_bed.h"

#include "both_scripts.h"
#include "calls.h"
#include "holdfast/primitives.h"
#include "prim/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 9   /* bytes between two places where the line is cut */
#define END  120 /* all answers of a call are shorter */

/* A wait that is not woken reads again by itself after this at the earliest (prim/cell_run.c). What is to be
 * woken is, long before, on a machine that does not stall: it gets five chances. */
#define LOOK_MS 5000
#define CHANCES 5

static bool not_known(hf_status status)
{
    return status == HF_UNKNOWN || status == HF_UNAVAILABLE;
}

/* ---- waiting for a cell ---------------------------------------------------------------------- */

struct waiting {
    hf_store *store;
    uint64_t version, changed;
    int64_t wait_ms;
    hf_cancel *cancel;
    hf_status status;
    hf_error err;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *wait_for_change(void *arg)
{
    struct waiting *w = arg;

    w->tid = thread_id();
    w->status = call_cell_wait(w->store, "cell", HF_CSTRING, w->version, w->wait_ms, w->cancel,
                               &w->changed, &w->err);
    w->ended = true;
    return NULL;
}

static void begin_waiting(struct waiting *w, hf_store *store, uint64_t version)
{
    *w = (struct waiting){ .store = store, .version = version, .wait_ms = LIMIT_MS };
    CHECK(hf_cancel_open(&w->cancel) == HF_OK);
    CHECK(pthread_create(&w->thread, NULL, wait_for_change, w) == 0);
}

static hf_status join(struct waiting *w)
{
    pthread_join(w->thread, NULL);
    CHECK(hf_cancel_close(w->cancel) == HF_OK);
    return w->status;
}

static uint64_t put(hf_store *store, const char *text)
{
    uint64_t version = 0;

    EXPECT(HF_OK, call_cell_set(store, "cell", HF_CSTRING, text, strlen(text), 0, &version,
                                &contract_error));
    return version;
}

static long long listeners(void)
{
    redisReply *reply = server_ask(server, "PUBSUB NUMSUB hf:{cell}:c");
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

/* The call's line is held up: the message alone says that it changed, and to what. */
static void a_message_is_enough(void **state)
{
    hf_store *through = open_through(), *direct = open_direct();
    struct waiting w;
    uint64_t version;

    (void)state;
    begin_waiting(&w, through, put(direct, "one"));
    AWAIT(listeners() == 1);
    thread_settled(&w.tid, &w.ended);
    proxy_choose(proxy, PROXY_CALLS);
    proxy_block(proxy, PROXY_UP, true);
    version = put(direct, "two");
    EXPECT(HF_OK, join(&w));
    CHECK(w.changed == version);
    proxy_heal(proxy);
    close_store(direct);
    close_store(through);
}

/* It changes after we asked to be told, and before the server heard of that. */
static bool not_missed_while_subscribing(hf_store *direct)
{
    hf_store *through = open_through();
    uint64_t version = put(direct, "before");
    int64_t begun_ms;
    struct waiting w;

    proxy_choose(proxy, PROXY_PUSH);
    proxy_block(proxy, PROXY_UP, true);
    begin_waiting(&w, through, version);
    AWAIT(proxy_held(proxy, PROXY_UP) > 0);
    thread_settled(&w.tid, &w.ended);
    version = put(direct, "between");
    begun_ms = now_ms();
    proxy_heal(proxy);
    EXPECT(HF_OK, join(&w));
    CHECK(w.changed == version);
    close_store(through);
    return now_ms() - begun_ms < LOOK_MS;
}

/* The messages' line is cut, and it changes before there is another one. */
static bool not_missed_while_away(hf_store *direct)
{
    hf_store *through = open_through();
    uint64_t version = put(direct, "before");
    int64_t begun_ms;
    struct waiting w;

    begin_waiting(&w, through, version);
    AWAIT(listeners() == 1);
    thread_settled(&w.tid, &w.ended);
    proxy_choose(proxy, PROXY_PUSH);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    AWAIT(listeners() == 0);
    version = put(direct, "meanwhile");
    begun_ms = now_ms();
    proxy_heal(proxy);
    proxy_refuse(proxy, false);
    EXPECT(HF_OK, join(&w));
    CHECK(w.changed == version);
    close_store(through);
    return now_ms() - begun_ms < LOOK_MS;
}

/* Nobody tells of the end of a ttl. */
static bool not_missed_when_it_ends(hf_store *direct)
{
    uint64_t version, changed = 7;
    int64_t begun_ms = now_ms();

    EXPECT(HF_OK, call_cell_set(direct, "cell", HF_CSTRING, "x", 1, HF_TTL_MIN_MS, &version,
                                &contract_error));
    EXPECT(HF_OK, call_cell_wait(direct, "cell", HF_CSTRING, version, LIMIT_MS, NULL, &changed,
                                 &contract_error));
    CHECK(changed == 0 && now_ms() - begun_ms >= HF_TTL_MIN_MS);
    return now_ms() - begun_ms < LOOK_MS;
}

static void no_change_is_missed(void **state)
{
    hf_store *direct = open_direct();
    int tries = 0;

    (void)state;
    while (!not_missed_while_subscribing(direct))
        CHECK(++tries < CHANCES);
    tries = 0;
    while (!not_missed_while_away(direct))
        CHECK(++tries < CHANCES);
    tries = 0;
    while (!not_missed_when_it_ends(direct))
        CHECK(++tries < CHANCES);
    close_store(direct);
}

/* Cancelled by another thread, while the one that waits drives and nothing is to come from the server. */
static bool ends_at_once(struct waiting *w)
{
    int64_t begun_ms = now_ms();

    CHECK(hf_cancel_fire(w->cancel) == HF_OK);
    EXPECT(HF_CANCELLED, join(w));
    return now_ms() - begun_ms < LOOK_MS;
}

static bool channels_are_left_by_the_last(void)
{
    hf_store *store = open_at(server_url(server, "?ping=60s"));
    hf_store *other = open_at(server_url(server, "?ping=60s"));
    uint64_t version = put(store, "one");
    struct waiting first, second, third;
    bool quick;

    begin_waiting(&first, store, version);
    begin_waiting(&second, store, version);
    begin_waiting(&third, other, version);
    thread_settled(&first.tid, &first.ended);
    thread_settled(&second.tid, &second.ended);
    AWAIT(listeners() == 2); /* one for each store */
    quick = ends_at_once(&first);
    CHECK(listeners() == 2);
    quick = ends_at_once(&second) && quick;
    AWAIT(listeners() == 1);
    put(store, "two");
    EXPECT(HF_OK, join(&third));
    AWAIT(listeners() == 0);
    close_store(other);
    close_store(store);
    return quick;
}

static void channels_are_left(void **state)
{
    int tries = 0;

    (void)state;
    while (!channels_are_left_by_the_last())
        CHECK(++tries < CHANCES);
}

static void no_right_to_listen(void **state)
{
    char url[128];
    hf_store *store;
    struct waiting w;

    (void)state;
    server_do(server, "ACL SETUSER app on >sesame +@all ~* resetchannels &hf:inbox:*");
    snprintf(url, sizeof url, "redis://app:sesame@127.0.0.1:%u", (unsigned)server->port);
    store = open_at(url);
    begin_waiting(&w, store, put(store, "one"));
    CHECK(join(&w) == HF_DENIED && strstr(w.err.text, "SUBSCRIBE"));
    close_store(store);
}

/* ---- the server's clock ------------------------------------------------------------------------ */

static int64_t store_us(hf_store *store)
{
    struct hfi_prim_task task;

    hfi_prim_task_init_act(&task, HFI_ACT_TIME);
    EXPECT(HF_OK, hfi_prim_enter(&task.prim, store, "time", "n", HF_CSTRING, HF_CAP_CLOCK,
                                 &contract_error));
    EXPECT(HF_OK, hfi_prim_task_run(&task, &contract_error));
    return task.action.now_us;
}

static int64_t server_us(void)
{
    redisReply *reply = server_ask(server, "TIME");
    int64_t us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                 strtoll(reply->element[1]->str, NULL, 10);

    freeReplyObject(reply);
    return us;
}

/* It is the server's, and not ours. */
static void whose_clock(void **state)
{
    hf_store *store = open_direct();
    int64_t before, us;

    (void)state;
    clock_jump_ms(server, 3600 * 1000);
    before = server_us();
    us = store_us(store);
    CHECK(before <= us && us <= server_us());
    close_store(store);
}

/* ---- counting ---------------------------------------------------------------------------------- */

static int64_t counted(hf_store *store)
{
    int64_t value = -1;

    EXPECT(HF_OK, hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));
    return value;
}

static hf_status add_one(hf_store *store)
{
    return hf_counter_add(store, "n", HF_CSTRING, 1, NULL, &contract_error);
}

/* The same number, as a script does it. */
static hf_status run_one(hf_store *store)
{
    const char *key = "hf:{n}:c";
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;

    script.text = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    script.text_len = HF_CSTRING;
    script.keys = &key;
    script.key_count = 1;
    script.args = (const char *const[]){ "1" };
    script.arg_count = 1;
    return both_script_run(store, &script, NULL, &contract_error);
}

/* Cut after each byte of what the server says (then it was done) or hears (then perhaps not). */
static void cut_anywhere(hf_status (*once)(hf_store *store), enum proxy_way way)
{
    hf_store *through = open_through(), *direct = open_direct();
    int64_t before = 0, now;
    unsigned unknown = 0;

    for (int64_t at = 1; at < END; at += STEP) {
        hf_status status;

        proxy_choose(proxy, PROXY_CALLS);
        proxy_cut_after(proxy, way, at);
        status = once(through);
        CHECK(status == HF_OK || not_known(status));
        proxy_heal(proxy);
        now = counted(direct);
        CHECK(now == before + 1 || (status != HF_OK && now == before));
        CHECK(status != HF_UNAVAILABLE || now == before); /* that says: it was not done */
        unknown += status == HF_UNKNOWN;
        while (status != HF_OK) { /* until it is connected again */
            before = now;
            status = once(through);
            CHECK(status == HF_OK || not_known(status));
            now = counted(direct);
            CHECK(now == before + 1 || (status != HF_OK && now == before));
        }
        before = now;
    }
    CHECK(unknown > 0);
    close_store(direct);
    close_store(through);
}

static void nothing_is_counted_twice(void **state)
{
    (void)state;
    cut_anywhere(add_one, PROXY_DOWN);
    server_do(server, "FLUSHALL");
    cut_anywhere(add_one, PROXY_UP);
}

static void nothing_is_run_twice(void **state)
{
    (void)state;
    for (int async = 0; async < 2; async++) {
        contract_pumped = async;
        cut_anywhere(run_one, PROXY_DOWN);
        server_do(server, "FLUSHALL");
        cut_anywhere(run_one, PROXY_UP);
        server_do(server, "FLUSHALL");
    }
    contract_pumped = false;
}

static void keys_of_others(void **state)
{
    static const char *const strings[] = { "abc", "007", "1.5", "", "9223372036854775808" };
    hf_store *store = open_direct();
    redisReply *reply;
    int64_t value;

    (void)state;
    EXPECT(HF_OK, hf_counter_add(store, "n", HF_CSTRING, -42, NULL, &contract_error));
    reply = server_ask(server, "GET hf:{n}:c"); /* what the manual says */
    CHECK(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "-42") == 0);
    freeReplyObject(reply);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        server_do(server, "SET hf:{n}:c %s", strings[i]);
        EXPECT(HF_MISMATCH, hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));
        EXPECT(HF_MISMATCH, add_one(store));
        EXPECT(HF_MISMATCH, hf_counter_swap(store, "n", HF_CSTRING, 1, 2, NULL, &contract_error));
    }
    server_do(server, "DEL hf:{n}:c");
    server_do(server, "RPUSH hf:{n}:c x");
    EXPECT(HF_MISMATCH, add_one(store));
    EXPECT(HF_MISMATCH, hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_set(store, "n", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_delete(store, "n", HF_CSTRING, &contract_error));
    CHECK(server_do(server, "LLEN hf:{n}:c") == 1);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_is_enough),  TEST(no_change_is_missed), TEST(channels_are_left),
        TEST(no_right_to_listen),   TEST_CLOCK(whose_clock),   TEST(nothing_is_counted_twice),
        TEST(nothing_is_run_twice), TEST(keys_of_others),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
