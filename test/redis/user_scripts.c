/* SPDX-License-Identifier: MIT */
/* Scripts of the user's: their values and faults, what the server keeps of them, and how one that does not end is killed. Every
 * case runs in both forms of the calls. */
#include "redis_bed.h"

#include "both_scripts.h"
#include "core/store.h"
#include "holdfast/primitives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hf_status run(hf_store *store, const char *text, hf_value **ret_value)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;

    script.text = text;
    script.text_len = HF_CSTRING;
    return both_script_run(store, &script, ret_value, &contract_error);
}

static void values_of_every_kind(void **state)
{
    hf_store *store = open_direct();
    const hf_value *inner;
    hf_value *value = NULL;
    size_t len = 9;

    (void)state;
    EXPECT(HF_OK, run(store,
                      "return { 7, 'a\\0b', false, { ok = 'FINE' }, redis.pcall('NONE'), "
                      "{ -1, { } }, '' }",
                      &value));
    CHECK(hf_value_get_kind(value) == HF_VALUE_KIND_LIST && hf_value_get_count(value) == 7);
    CHECK(hf_value_get_integer(hf_value_get_item(value, 0)) == 7);
    CHECK(memcmp(hf_value_get_bytes(hf_value_get_item(value, 1), &len), "a\0b", 4) == 0 &&
          len == 3);
    CHECK(hf_value_get_kind(hf_value_get_item(value, 2)) == HF_VALUE_KIND_NIL);
    CHECK(hf_value_get_kind(hf_value_get_item(value, 3)) == HF_VALUE_KIND_STATE);
    CHECK(strcmp(hf_value_get_bytes(hf_value_get_item(value, 3), NULL), "FINE") == 0);
    CHECK(hf_value_get_kind(hf_value_get_item(value, 4)) == HF_VALUE_KIND_ERROR);
    CHECK(strstr(hf_value_get_bytes(hf_value_get_item(value, 4), NULL), "command"));
    inner = hf_value_get_item(value, 5);
    CHECK(hf_value_get_integer(hf_value_get_item(inner, 0)) == -1 &&
          hf_value_get_count(inner) == 2);
    CHECK(hf_value_get_kind(hf_value_get_item(inner, 1)) == HF_VALUE_KIND_LIST);
    CHECK(hf_value_get_bytes(hf_value_get_item(value, 6), &len) && len == 0);
    CHECK(!hf_value_get_item(value, 7) && hf_value_get_kind(NULL) == HF_VALUE_KIND_NIL);
    hf_free(value);
    hf_free(NULL);

    EXPECT(HF_OK, run(store, "return redis.call('SET', 'k', 'v')", &value));
    CHECK(hf_value_get_kind(value) == HF_VALUE_KIND_STATE);
    hf_free(value);
    close_store(store);
}

static void fails(hf_store *store, const char *text, const char *words)
{
    hf_value *value = NULL;

    EXPECT(HF_INVALID, run(store, text, &value));
    if (value || !strstr(contract_error.text, words))
        fail_msg("no '%s' in: %s", words, contract_error.text);
}

static void a_script_at_fault(void **state)
{
    const char *const keys[] = { "k", NULL };
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_store *store = open_direct();

    (void)state;
    fails(store, "this is no Lua", "compiling");
    fails(store, "return redis.call('SET', 'half', '1') and nil + 1", "arithmetic");
    CHECK(server_do(server, "EXISTS half") == 1); /* as the header says: what it wrote stays */
    fails(store, "return redis.error_reply('OOPS my own words')", "OOPS my own words");
    fails(store, "return redis.error_reply('NOSCRIPT my own words')", "my own words");
    fails(store, "return redis.call('INCR', 'half', 'x')", "Wrong number of args");
    fails(store, "redis.call('RPUSH', 'list', 'x') return redis.call('GET', 'list')", "WRONGTYPE");
    EXPECT(HF_INVALID, both_script_run(store, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, both_script_run(store, &script, NULL, &contract_error));
    script.text = "return 1";
    script.text_len = HF_CSTRING;
    script.keys = keys;
    script.key_count = 2;
    EXPECT(HF_INVALID, both_script_run(store, &script, NULL, &contract_error));
    CHECK(strncmp(contract_error.text, "keys", 4) == 0);
    script.key_count = 1;
    script.text_len = HF_SCRIPT_MAX + 1;
    EXPECT(HF_INVALID, both_script_run(store, &script, NULL, &contract_error));
    close_store(store);
}

/* An answer that begins as the server's own "later" is an answer: it has run, once. */
static void words_of_ones_own(void **state)
{
    static const char *const words[] = { "NOSCRIPT", "TRYAGAIN", "LOADING", "READONLY", "BUSY" };
    hf_store *store = open_direct();
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(text, sizeof text, "redis.call('INCR', 'n') return redis.error_reply('%s x')",
                 words[i]);
        EXPECT(HF_INVALID, run(store, text, NULL));
        EXPECT(HF_INVALID, run(store, text, NULL)); /* by its sha now */
        CHECK(server_do(server, "INCRBY n 0") == 2 * (long long)i + 2);
    }
    close_store(store);
}

static void what_the_server_has(void **state)
{
    static const char text[] = "return 'x'";
    hf_store *store = open_direct();
    bool there = false;

    (void)state;
    EXPECT(HF_OK, both_script_exists(store, text, HF_CSTRING, &there, &contract_error));
    CHECK(!there);
    EXPECT(HF_OK, run(store, text, NULL));
    EXPECT(HF_OK, both_script_exists(store, text, HF_CSTRING, &there, &contract_error));
    CHECK(there);
    EXPECT(HF_OK, both_script_exists(store, "acaaa3d79b7da51baa8f7dd44e04f6c4bd0c78ea", HF_CSTRING,
                                     &there, &contract_error));
    CHECK(!there);
    EXPECT(HF_OK, both_script_flush(store, &contract_error));
    EXPECT(HF_OK, both_script_exists(store, text, sizeof text - 1, &there, &contract_error));
    CHECK(!there);
    EXPECT(HF_OK, run(store, text, NULL)); /* NOSCRIPT, so whole */
    server_do(server, "SCRIPT FLUSH");
    EXPECT(HF_OK, run(store, text, NULL));
    EXPECT(HF_INVALID, both_script_exists(store, NULL, HF_CSTRING, &there, &contract_error));
    EXPECT(HF_INVALID, both_script_exists(store, text, HF_CSTRING, NULL, &contract_error));
    close_store(store);
}

static hf_status run_sha(hf_store *store, const char *sha1, uint64_t flags, hf_value **ret_value)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;

    script.sha1 = sha1;
    script.flags = flags;
    return both_script_run(store, &script, ret_value, &contract_error);
}

/* SCRIPT LOAD, and from then on by the SHA-1 alone. */
static void by_its_sha(void **state)
{
    static const char text[] = "redis.call('INCR', 'n') return 'x'";
    char sha1[HF_SCRIPT_SHA1_LEN + 1] = "", upper[HF_SCRIPT_SHA1_LEN + 1];
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_store *store = open_direct();
    hf_value *value = NULL;

    (void)state;
    EXPECT(HF_OK, both_script_load(store, text, HF_CSTRING, sha1, &contract_error));
    CHECK(strlen(sha1) == HF_SCRIPT_SHA1_LEN);
    CHECK(server_do(server, "EXISTS n") == 0); /* it has not run */
    EXPECT(HF_OK, run_sha(store, sha1, 0, &value));
    CHECK(strcmp(hf_value_get_bytes(value, NULL), "x") == 0);
    hf_free(value);
    for (size_t i = 0; i <= HF_SCRIPT_SHA1_LEN; i++)
        upper[i] = sha1[i] >= 'a' ? (char)(sha1[i] - 'a' + 'A') : sha1[i];
    EXPECT(HF_OK, run_sha(store, upper, 0, NULL));
    CHECK(server_do(server, "INCRBY n 0") == 2);
    EXPECT(HF_OK, both_script_flush(store, &contract_error));
    EXPECT(HF_NOT_FOUND, run_sha(store, sha1, 0, NULL));
    CHECK(strstr(contract_error.text, "NOSCRIPT"));
    CHECK(server_do(server, "INCRBY n 0") == 2);
    EXPECT(HF_OK, both_script_load(store, text, sizeof text - 1, NULL, &contract_error));
    EXPECT(HF_OK, run_sha(store, sha1, 0, NULL));

    EXPECT(HF_INVALID, both_script_load(store, "no Lua", HF_CSTRING, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "compiling"));
    EXPECT(HF_INVALID, both_script_load(store, NULL, 0, NULL, &contract_error));
    EXPECT(HF_INVALID, both_script_load(store, "", HF_CSTRING, NULL, &contract_error));
    EXPECT(HF_INVALID, run_sha(store, "e4c38c", 0, NULL));
    CHECK(strstr(contract_error.text, "sha1: "));
    EXPECT(HF_INVALID, run_sha(store, sha1, 2, NULL));
    CHECK(strstr(contract_error.text, "flags: "));
    script.text = text;
    script.text_len = HF_CSTRING;
    script.sha1 = sha1;
    EXPECT(HF_INVALID, both_script_run(store, &script, NULL, &contract_error));
    CHECK(server_do(server, "INCRBY n 0") == 3);
    close_store(store);
}

/* One question for several, by text and by SHA-1. */
static void several_at_once(void **state)
{
    static const char one[] = "return 1", two[] = "return 2";
    char sha1[HF_SCRIPT_SHA1_LEN + 1];
    const char *const texts[] = { one, sha1, two, "return 1 or", sha1 };
    const size_t lens[] = { 8, HF_SCRIPT_SHA1_LEN, 8, 8, HF_SCRIPT_SHA1_LEN };
    hf_store *store = open_direct();
    bool there[5] = { false };

    (void)state;
    EXPECT(HF_OK, both_script_load(store, one, HF_CSTRING, sha1, &contract_error));
    EXPECT(HF_OK, both_script_exists_each(store, texts, NULL, 5, there, &contract_error));
    CHECK(there[0] && there[1] && !there[2] && !there[3] && there[4]);
    EXPECT(HF_OK, both_script_exists_each(store, texts, lens, 5, there, &contract_error));
    CHECK(there[0] && there[1] && !there[2] && there[3] && there[4]);
    EXPECT(HF_INVALID, both_script_exists_each(store, texts, lens, 0, there, &contract_error));
    EXPECT(HF_INVALID, both_script_exists_each(store, texts, lens, HF_SCRIPT_EXISTS_MAX + 1, there,
                                               &contract_error));
    CHECK(strstr(contract_error.text, "count: "));
    EXPECT(HF_INVALID, both_script_exists_each(store, texts, lens, 5, NULL, &contract_error));
    EXPECT(HF_INVALID, both_script_exists_each(store, NULL, NULL, 1, there, &contract_error));
    close_store(store);
}

/* The server itself refuses its writes. */
static void read_only(void **state)
{
    static const char writes[] = "return redis.call('SET', 'k', 'v')";
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_store *store = open_direct();
    hf_value *value = NULL;
    char sha1[HF_SCRIPT_SHA1_LEN + 1];

    (void)state;
    script.flags = HF_SCRIPT_FLAG_READ_ONLY;
    script.text = "return redis.call('EXISTS', 'k')";
    script.text_len = HF_CSTRING;
    for (int i = 0; i < 2; i++) { /* whole, and by its SHA-1 */
        EXPECT(HF_OK, both_script_run(store, &script, &value, &contract_error));
        CHECK(hf_value_get_kind(value) == HF_VALUE_KIND_INTEGER);
        hf_free(value);
    }
    script.text = writes;
    EXPECT(HF_INVALID, both_script_run(store, &script, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "read-only"));
    EXPECT(HF_OK, both_script_load(store, writes, HF_CSTRING, sha1, &contract_error));
    EXPECT(HF_INVALID, run_sha(store, sha1, HF_SCRIPT_FLAG_READ_ONLY, NULL));
    CHECK(server_do(server, "EXISTS k") == 0);
    EXPECT(HF_OK, run_sha(store, sha1, 0, NULL));
    CHECK(server_do(server, "EXISTS k") == 1);
    close_store(store);
}

struct runner {
    hf_store *store;
    const char *text;
    hf_status status;
    pthread_t thread;
};

static void *run_there(void *arg)
{
    struct runner *runner = arg;

    runner->status = run(runner->store, runner->text, NULL);
    return NULL;
}

static bool is_busy(void)
{
    redisReply *reply = server_ask(server, "PING");
    bool busy = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY", 4) == 0;

    freeReplyObject(reply);
    return busy;
}

static void start(struct runner *runner, hf_store *store, const char *text)
{
    *runner = (struct runner){ .store = store, .text = text };
    CHECK(pthread_create(&runner->thread, NULL, run_there, runner) == 0);
    AWAIT(is_busy());
}

static hf_status ended(struct runner *runner)
{
    pthread_join(runner->thread, NULL);
    return runner->status;
}

/* While the server answers BUSY to all else, and the store's own line is stuck behind the script. */
static void a_busy_server(void **state)
{
    static const char forever[] = "while true do end";
    char url[128];
    hf_store *store, *other;
    struct runner runner;
    int64_t value;

    (void)state;
    server_do(server, "CONFIG SET lua-time-limit 50");
    server_do(server, "CONFIG SET requirepass sesame"); /* a new connection must log in, too */
    server_login(server, "default", "sesame");
    snprintf(url, sizeof url, "redis://:sesame@127.0.0.1:%u?op_timeout=60s",
             (unsigned)server->port);
    store = open_at(url);
    other = open_at(url);
    start(&runner, store, forever);
    EXPECT(HF_UNAVAILABLE, run(other, "return 1", NULL));
    CHECK(strstr(contract_error.text, "BUSY") && strstr(contract_error.text, "killed"));
    EXPECT(HF_UNAVAILABLE, hf_counter_get(other, "n", HF_CSTRING, &value, &contract_error));
    EXPECT(HF_OK, both_script_kill(store, url, LIMIT_MS, &contract_error));
    EXPECT(HF_CANCELLED, ended(&runner));
    EXPECT(HF_OK, hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));

    /* And where the result comes from another store. */
    start(&runner, store, forever);
    EXPECT(HF_OK, both_script_kill(other, url, 60000, &contract_error));
    EXPECT(HF_CANCELLED, ended(&runner));
    EXPECT(HF_NOT_FOUND, both_script_kill(other, url, 0, &contract_error));
    EXPECT(HF_INVALID, both_script_kill(other, url, -1, &contract_error));
    EXPECT(HF_INVALID, both_script_kill(other, NULL, 0, &contract_error));
    EXPECT(HF_UNSUPPORTED, both_script_kill(other, "file:/tmp", 0, &contract_error));
    close_store(other);
    close_store(store);
}

/* It has written: Redis does not kill it. When the server is gone nobody knows how it ended. */
static void one_that_cannot_be_killed(void **state)
{
    hf_store *store = open_at(server_url(server, "?op_timeout=60s"));
    struct runner runner;

    (void)state;
    server_do(server, "CONFIG SET lua-time-limit 50");
    start(&runner, store, "redis.call('SET', 'k', 'v') while true do end");
    EXPECT(HF_IN_USE, both_script_kill(store, server_url(server, ""), LIMIT_MS, &contract_error));
    CHECK(strstr(contract_error.text, "UNKILLABLE"));
    CHECK(is_busy());
    server_kill(server);
    EXPECT(HF_UNKNOWN, ended(&runner));
    server_restart(server);
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
}

/* What the caller gave is the caller's again as soon as the asynchronous call has begun, also while no server is there. */
static void inputs_are_copied(void **state)
{
    char text[] = "return { KEYS[1], ARGV[1] }", key[] = "k", arg[] = "a";
    const char *const keys[] = { key }, *const args[] = { arg };
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    struct both run = { .done = false }, exists = { .done = false };
    hf_store *store = open_direct();

    (void)state;
    script.text = text;
    script.text_len = HF_CSTRING;
    script.keys = keys;
    script.args = args;
    script.key_count = script.arg_count = 1;
    server_pause(server);
    EXPECT(HF_OK, hf_script_run_async(store, &script, both_done, &run, NULL, &contract_error));
    EXPECT(HF_OK, hf_script_exists_async(store, text, HF_CSTRING, both_done, &exists, NULL,
                                         &contract_error));
    memset(text, '?', sizeof text - 1);
    key[0] = arg[0] = '?';
    server_continue(server);
    EXPECT(HF_OK, both_end(store, HF_OK, &run, &contract_error));
    EXPECT(HF_OK, both_end(store, HF_OK, &exists, &contract_error));
    CHECK(exists.result.number <= 1);
    CHECK(strcmp(hf_value_get_bytes(hf_value_get_item(run.result.value, 0), NULL), "k") == 0);
    CHECK(strcmp(hf_value_get_bytes(hf_value_get_item(run.result.value, 1), NULL), "a") == 0);
    hf_free(run.result.value);
    EXPECT(HF_INVALID, hf_script_flush_async(store, NULL, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID,
           hf_script_kill_async(store, "redis://127.0.0.1", 0, NULL, NULL, NULL, &contract_error));
    close_store(store);
}

/* Any other call is given up after HFI_CALL_LIMIT_MS; a script may be slow, and only op_timeout ends it. */
static void a_slow_server(void **state)
{
    struct timespec longer = { .tv_sec = HFI_CALL_LIMIT_MS / 1000 + 1 };
    hf_store *store = NULL;
    struct runner runner = { .text = "return 1" };
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    struct both both = { .done = false };

    (void)state;
    if (contract_pumped)
        return; /* both forms are here */
    store = runner.store = open_at(server_url(server, "?op_timeout=120s"));
    script.text = "return 2";
    script.text_len = HF_CSTRING;
    server_pause(server);
    CHECK(pthread_create(&runner.thread, NULL, run_there, &runner) == 0);
    EXPECT(HF_OK, hf_script_run_async(store, &script, both_done, &both, NULL, &contract_error));
    nanosleep(&longer, NULL);
    server_continue(server);
    EXPECT(HF_OK, ended(&runner));
    EXPECT(HF_OK, both_end(store, HF_OK, &both, &contract_error));
    CHECK(hf_value_get_integer(both.result.value) == 2);
    hf_free(both.result.value);
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(values_of_every_kind), TEST(a_script_at_fault), TEST(words_of_ones_own),
        TEST(what_the_server_has),  TEST(a_busy_server),     TEST(one_that_cannot_be_killed),
        TEST(inputs_are_copied),    TEST(a_slow_server),     TEST(by_its_sha),
        TEST(several_at_once),      TEST(read_only),
    };
    int failed;

    bed_main(argc, argv);
    failed = BED_RUN(tests);
    contract_pumped = true;
    return failed + BED_RUN(tests);
}
