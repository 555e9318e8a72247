/* SPDX-License-Identifier: MIT */
/*
 * Rate limits on Redis. limit.lua decides what limit_plan.c decides: random requests of all kinds go
 * to both, with a clock that is stopped between them and jumps, also back; answers and the
 * resulting bytes must be the same. Then what only a real server can show: its clock, expiry, a
 * broken connection.
 */
#include "redis_bed.h"

#include "prim/limit_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0   INT64_C(1800000000000000)
#define RUNS 60
#define ASKS 60

/* ---- the script and the plan ------------------------------------------------------------------ */

struct pair {
    redisContext *redis;
    char sha[64];
    uint64_t random;
    struct hfi_limit_rule rule;
    int64_t now;
    unsigned char state[HFI_LIMIT_ROOM_MAX], room[HFI_LIMIT_ROOM_MAX];
    size_t len;
    int64_t reserved[ASKS], permits[ASKS]; /* to be given back */
    size_t count;
    size_t said[HFI_LIMIT_CORRUPT + 1], carried;
};

static int64_t below(struct pair *pair, int64_t end)
{
    pair->random = pair->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((pair->random >> 20) % (uint64_t)end);
}

/* `from`, which must be there, becomes `to`. */
static void replace(char *text, size_t room, const char *from, const char *to)
{
    char *at = strstr(text, from), rest[16384];

    CHECK(at && strlen(text) + strlen(to) < room && strlen(at) < sizeof rest);
    strcpy(rest, at + strlen(from));
    strcpy(at, to);
    strcat(at, rest);
}

/* With our clock, and without an expiry by the server's. */
static void load_script(struct pair *pair)
{
    static char text[24576];
    char path[512];
    redisReply *reply;
    FILE *file;
    size_t len;

    snprintf(path, sizeof path, "%s/src/engine/redis/scripts/limit.lua", getenv("HOLDFAST_SOURCE"));
    file = fopen(path, "r");
    CHECK(file);
    len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = 0;
    replace(text, sizeof text, "call('TIME')", "call('HMGET', 'clock', 's', 'u')");
    replace(text, sizeof text, ", 'PX', life", "");
    reply = redisCommand(pair->redis, "SCRIPT LOAD %s", text);
    CHECK(reply && reply->type == REDIS_REPLY_STRING);
    snprintf(pair->sha, sizeof pair->sha, "%s", reply->str);
    freeReplyObject(reply);
}

static void set_clock(struct pair *pair)
{
    freeReplyObject(redisCommand(pair->redis, "HSET clock s %lld u %lld",
                                 (long long)(pair->now / 1000000),
                                 (long long)(pair->now % 1000000)));
}

static redisReply *ask_script(struct pair *pair, const struct hfi_limit_ask *ask)
{
    const struct hfi_limit_rule *rule = &pair->rule;
    static const char acts[] = { [HFI_LIMIT_TAKE] = 't',
                                 [HFI_LIMIT_LOOK] = 'l',
                                 [HFI_LIMIT_BACK] = 'b',
                                 [HFI_LIMIT_SET] = 's',
                                 [HFI_LIMIT_UNSET] = 'u' };
    const int64_t numbers[] = { ask->permits,
                                ask->act == HFI_LIMIT_BACK ? ask->at_us : ask->wait_us,
                                rule->rate,
                                rule->period_us,
                                rule->burst * rule->unit,
                                rule->unit,
                                rule->speed };
    char question[2 + sizeof numbers];
    redisReply *reply;

    question[0] = acts[ask->act];
    question[1] = (char)rule->head[2];
    memcpy(question + 2, numbers, sizeof numbers); /* the tests run where bytes are in that order */
    reply = redisCommand(pair->redis, "EVALSHA %s 1 limit %b %b", pair->sha, rule->head,
                         sizeof rule->head, question, sizeof question);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        fprintf(stderr, "%s\n", reply ? reply->str : pair->redis->errstr);
    CHECK(reply && reply->type == REDIS_REPLY_STRING && reply->len > 0);
    return reply;
}

static void same_bytes(struct pair *pair)
{
    redisReply *reply = redisCommand(pair->redis, "GET limit");

    CHECK(reply && (pair->len ? reply->type == REDIS_REPLY_STRING && reply->len == pair->len &&
                                    memcmp(reply->str, pair->state, pair->len) == 0
                              : reply->type == REDIS_REPLY_NIL));
    freeReplyObject(reply);
}

/* Ask both, and compare. */
static struct hfi_limit_answer ask_both(struct pair *pair, const struct hfi_limit_ask *ask)
{
    static const char letters[] = {
        [HFI_LIMIT_GRANTED] = 'G',  [HFI_LIMIT_REFUSED] = 'R', [HFI_LIMIT_SEEN_IT] = 'L',
        [HFI_LIMIT_RETURNED] = 'B', [HFI_LIMIT_KEPT] = 'K',    [HFI_LIMIT_OPENED] = 'U',
        [HFI_LIMIT_NONE] = 'N',     [HFI_LIMIT_MANY] = 'P',    [HFI_LIMIT_MISMATCH] = 'M',
        [HFI_LIMIT_VERSION] = 'V'
    };
    struct hfi_limit_answer answer;
    redisReply *reply;

    hfi_limit_decide(&pair->rule, ask, pair->now, pair->len ? pair->state : NULL, pair->len,
                     pair->room, &answer);
    if (answer.len > 0) {
        memcpy(pair->state, pair->room, answer.len);
        pair->len = answer.len;
    }
    CHECK(answer.said < HFI_LIMIT_CORRUPT);
    pair->said[answer.said]++;

    set_clock(pair);
    reply = ask_script(pair, ask);
    CHECK(reply->str[0] == letters[answer.said]);
    if (answer.said <= HFI_LIMIT_SEEN_IT) {
        int64_t numbers[4];

        CHECK(reply->len == 1 + sizeof numbers + (answer.head[0] ? sizeof answer.head : 0));
        CHECK(!answer.head[0] ||
              memcmp(reply->str + 1 + sizeof numbers, answer.head, sizeof answer.head) == 0);
        memcpy(numbers, reply->str + 1, sizeof numbers);
        CHECK(numbers[0] == answer.wait_us && numbers[1] == answer.left);
        CHECK(numbers[2] == answer.refill_us);
        CHECK(answer.said == HFI_LIMIT_SEEN_IT || numbers[3] == answer.at_us);
        pair->carried +=
            answer.said == HFI_LIMIT_SEEN_IT && ask->act == HFI_LIMIT_SET && answer.refill_us > 0;
    }
    freeReplyObject(reply);
    same_bytes(pair);
    return answer;
}

/* Of this algorithm; -1: of any. */
static void random_rule(struct pair *pair, int of)
{
    static const int64_t periods[] = { 1000, 1001, 60000, 1000000, 60000000, 86400000000 };
    static const int64_t rates[] = { 1, 2, 3, 7, 10, 100, 1000, 4096 };
    hf_limit_algorithm algorithm = (hf_limit_algorithm)(of < 0 ? below(pair, 3) : of);
    int64_t rate = rates[below(pair, sizeof rates / sizeof *rates)];
    int64_t period = periods[below(pair, sizeof periods / sizeof *periods)];
    int64_t burst = algorithm == HF_LIMIT_ALGORITHM_BUCKET ? below(pair, 20) : 0;

    if (algorithm == HF_LIMIT_ALGORITHM_BUCKET && below(pair, 3) == 0)
        rate = 999999937; /* a prime: parts are as many as they can be */
    CHECK(!hfi_limit_rule(algorithm, rate, period, burst, &pair->rule) ||
          !hfi_limit_rule(algorithm, rate, 1001, burst, &pair->rule));
}

static void pass(struct pair *pair)
{
    int64_t period = pair->rule.period_us, dice = below(pair, 12);

    if (dice < 3)
        return;
    if (dice < 7)
        pair->now += below(pair, 1 + period / (pair->rule.rate < 50 ? pair->rule.rate : 50));
    else if (dice < 9)
        pair->now += below(pair, 2 * period);
    else if (dice < 10)
        pair->now -= below(pair, 2 * HFI_LIMIT_HOLD_US);
    else if (pair->count > 0) {
        int64_t edge = pair->reserved[below(pair, (int64_t)pair->count)] + below(pair, 3) - 1 +
                       (below(pair, 2) ? period : 0);

        if (edge > pair->now)
            pair->now = edge;
    }
}

static struct hfi_limit_ask random_ask(struct pair *pair)
{
    struct hfi_limit_ask ask = { .permits = 1 };
    int64_t most = hfi_limit_most(&pair->rule);
    size_t which;

    if (below(pair, 8) == 0) {
        ask.act = HFI_LIMIT_LOOK;
        ask.permits = 0;
        return ask;
    }
    if (pair->count > 0 && below(pair, 4) == 0) {
        which = below(pair, 2) ? pair->count - 1 : (size_t)below(pair, (int64_t)pair->count);
        ask.act = HFI_LIMIT_BACK;
        ask.permits = pair->permits[which];
        ask.at_us = pair->reserved[which];
        return ask;
    }
    if (below(pair, 2))
        ask.permits = 1 + below(pair, most);
    if (below(pair, 3))
        ask.wait_us =
            below(pair, 2) ? hfi_limit_wait_max(&pair->rule) : below(pair, pair->rule.period_us);
    return ask;
}

/* Set the rule, unset it, or look at whatever is there. */
static void change_rule(struct pair *pair)
{
    struct hfi_limit_rule rule = pair->rule;
    struct hfi_limit_ask ask = { .act = HFI_LIMIT_SET };

    random_rule(pair, below(pair, 8) ? (int)rule.algorithm : -1);
    if (below(pair, 3) == 0) {
        ask.act = below(pair, 2) ? HFI_LIMIT_UNSET : HFI_LIMIT_LOOK;
        pair->rule = (struct hfi_limit_rule){ .rate = 0 };
    }
    ask_both(pair, &ask);
    pair->rule = rule;
}

static void compare(uint64_t seed)
{
    static struct pair pair;

    pair = (struct pair){ .redis = server_connect(server), .random = seed };
    printf("seed %llu\n", (unsigned long long)pair.random);
    load_script(&pair);
    for (int run = 0; run < RUNS; run++) {
        pair.now = T0;
        pair.len = pair.count = 0;
        freeReplyObject(redisCommand(pair.redis, "DEL limit"));
        pair.rule = (struct hfi_limit_rule){ .rate = 0 };
        ask_both(&pair, &(struct hfi_limit_ask){ .act = HFI_LIMIT_LOOK }); /* there is nothing */
        random_rule(&pair, -1);
        for (int i = 0; i < ASKS; i++) {
            struct hfi_limit_ask ask = random_ask(&pair);
            struct hfi_limit_rule rule = pair.rule;
            struct hfi_limit_answer answer;

            pass(&pair);
            if (below(&pair, 12) == 0)
                change_rule(&pair);
            if (below(&pair, 30) == 0)
                random_rule(&pair,
                            -1); /* for this one only, and its state stays if it was let in */
            if (ask.permits > hfi_limit_most(&pair.rule))
                ask.permits = hfi_limit_most(&pair.rule);
            answer = ask_both(&pair, &ask);
            if (answer.said == HFI_LIMIT_GRANTED) {
                pair.reserved[pair.count] = answer.at_us;
                pair.permits[pair.count++] = ask.permits;
            } else {
                pair.rule = rule;
            }
        }
    }
    for (int said = 0; said < HFI_LIMIT_VERSION; said++)
        CHECK(pair.said[said] > 5);
    CHECK(pair.carried > RUNS / 2);
    redisFree(pair.redis);
}

static void lua_decides_as_c_does(void **state)
{
    (void)state;
    compare((uint64_t)now_ms());
}

/* Permits come back that were reserved by a rule of before, with a larger bucket: the script took them, and the bucket had more than its burst. */
static void more_than_a_bucket_comes_back(void **state)
{
    (void)state;
    compare(3651598);
}

/* ---- through the library ----------------------------------------------------------------------- */

static hf_limit_request limit_of(hf_limit_algorithm algorithm, uint32_t rate, int64_t per_ms)
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;

    limit.name = "limit";
    limit.name_len = HF_CSTRING;
    limit.algorithm = algorithm;
    limit.rate = rate;
    limit.per_ms = per_ms;
    return limit;
}

static void it_expires(void **state)
{
    hf_store *store = open_direct();

    (void)state;
    for (int algorithm = 0; algorithm < 3; algorithm++) {
        hf_limit_request limit = limit_of((hf_limit_algorithm)algorithm, 3, 60000);
        hf_limit_result result = HF_LIMIT_RESULT_INIT;
        long long left;

        limit.permits = 3;
        EXPECT(HF_OK, hf_limit_take(store, &limit, &result, &contract_error));
        left = server_do(server, "PTTL hf:{limit}:c");
        CHECK(left > 0 && left <= 60001);
        server_do(server, "PEXPIRE hf:{limit}:c 1");
        AWAIT(server_do(server, "EXISTS hf:{limit}:c") == 0);
    }
    CHECK(server_do(server, "DBSIZE") == 0);
    close_store(store);
}

/* With a rule that was set it stays, and without it expires again. */
static void a_rule_does_not_expire(void **state)
{
    hf_store *store = open_direct();

    (void)state;
    for (int algorithm = 0; algorithm < 3; algorithm++) {
        hf_limit_request limit = limit_of((hf_limit_algorithm)algorithm, 3, 60000);
        hf_limit_request rule = limit_of((hf_limit_algorithm)algorithm, 2, 60000);

        EXPECT(HF_OK, hf_limit_take(store, &limit, NULL, &contract_error));
        EXPECT(HF_OK, hf_limit_set(store, &rule, NULL, &contract_error));
        CHECK(server_do(server, "PTTL hf:{limit}:c") == -1);
        EXPECT(HF_OK, hf_limit_take(store, &limit, NULL, &contract_error));
        EXPECT(HF_BUSY, hf_limit_take(store, &limit, NULL, &contract_error));
        CHECK(server_do(server, "PTTL hf:{limit}:c") == -1);
        rule.rate = 0;
        EXPECT(HF_OK, hf_limit_set(store, &rule, NULL, &contract_error));
        CHECK(server_do(server, "PTTL hf:{limit}:c") > 0);
        EXPECT(HF_OK, hf_limit_take(store, &limit, NULL, &contract_error));
        CHECK(server_do(server, "PTTL hf:{limit}:c") > 0);
        server_do(server, "DEL hf:{limit}:c");
    }
    close_store(store);
}

/* Cut after each byte: it was set, or not, and set once more it is set. */
static void setting_is_cut(void **state)
{
    hf_store *through = open_through(), *direct = open_direct();
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_BUCKET, 1000, 3600000);
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    uint32_t was = 1000, unknown = 0;

    (void)state;
    EXPECT(HF_OK, hf_limit_set(through, &limit, NULL, &contract_error));
    for (int64_t at = 1; at < 700; at += 29) {
        hf_status status;

        limit.rate++;
        proxy_cut_after(proxy, at % 2 ? PROXY_UP : PROXY_DOWN, at);
        status = hf_limit_set(through, &limit, NULL, &contract_error);
        CHECK(status == HF_OK || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
        unknown += status == HF_UNKNOWN;
        proxy_heal(proxy);
        EXPECT(HF_OK, hf_limit_get(direct, &limit, &result, &contract_error));
        CHECK(result.is_set && (result.rate == limit.rate || result.rate == was));
        CHECK(status == HF_UNKNOWN || (result.rate == limit.rate) == (status == HF_OK));
        EXPECT(HF_OK, hf_limit_set(direct, &limit, &result, &contract_error));
        CHECK(result.rate == limit.rate);
        was = limit.rate;
    }
    CHECK(unknown > 0);
    close_store(direct);
    close_store(through);
}

static void something_else_is_there(void **state)
{
    hf_store *store = open_direct();
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 3, 60000);

    (void)state;
    server_do(server, "HSET hf:{limit}:c n 1 v x");
    EXPECT(HF_MISMATCH, hf_limit_take(store, &limit, NULL, &contract_error));
    server_do(server, "SET hf:{limit}:c 17");
    EXPECT(HF_MISMATCH, hf_limit_take(store, &limit, NULL, &contract_error));
    server_do(server, "SET hf:{limit}:c L2");
    EXPECT(HF_CORRUPT, hf_limit_take(store, &limit, NULL, &contract_error));
    server_do(server, "SET hf:{limit}:c L4");
    EXPECT(HF_VERSION, hf_limit_take(store, &limit, NULL, &contract_error));
    server_do(server, "SET hf:{limit}:c L1");
    EXPECT(HF_CORRUPT, hf_limit_take(store, &limit, NULL, &contract_error));
    server_do(server, "DEL hf:{limit}:c");
    EXPECT(HF_OK, hf_limit_take(store, &limit, NULL, &contract_error));
    EXPECT(HF_MISMATCH, hf_guard_claim(store, "limit", HF_CSTRING, 1, NULL, NULL, &contract_error));
    close_store(store);
}

/* Cut after each byte of a call or an answer: what was refused or unknown has taken one at most. */
static void cut_anywhere(enum proxy_way way)
{
    hf_store *through = open_through(), *direct = open_direct();
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 1000, 3600000);
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    uint64_t least = 0, most = 0, unknown = 0;

    EXPECT(HF_OK, hf_limit_take(through, &limit, &result, &contract_error));
    least = most = 1;
    for (int64_t at = 1; at < 400; at += 13) {
        hf_status status;

        proxy_cut_after(proxy, way, at);
        status = hf_limit_take(through, &limit, &result, &contract_error);
        CHECK(status == HF_OK || status == HF_UNKNOWN || status == HF_UNAVAILABLE);
        least += status == HF_OK;
        most += status != HF_UNAVAILABLE;
        unknown += status != HF_OK;
        proxy_heal(proxy);
        EXPECT(HF_OK, hf_limit_get(direct, &limit, &result, &contract_error));
        CHECK(1000 - result.left >= least && 1000 - result.left <= most);
        least = most = 1000 - result.left;
    }
    CHECK(unknown > 0);
    close_store(direct);
    close_store(through);
}

static void calls_are_cut(void **state)
{
    (void)state;
    cut_anywhere(PROXY_UP);
}

static void answers_are_cut(void **state)
{
    (void)state;
    cut_anywhere(PROXY_DOWN);
}

/* The server's clock is set back by an hour: neither more than the limit, nor blocked for ever. */
static void clock_set_back(void **state)
{
    hf_store *store = open_direct();
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_SLIDING, 2, 60000);
    hf_limit_result result = HF_LIMIT_RESULT_INIT;

    (void)state;
    for (int64_t back_ms = 5000; back_ms <= 3600000; back_ms *= 720) {
        EXPECT(HF_OK, hf_limit_take(store, &limit, &result, &contract_error));
        clock_jump_ms(server, -back_ms);
        EXPECT(HF_OK, hf_limit_take(store, &limit, &result, &contract_error));
        CHECK(result.left == 0 && result.refill_ms <= 60000);
        EXPECT(HF_BUSY, hf_limit_take(store, &limit, &result, &contract_error));
        CHECK(result.retry_ms <= 60000);
        clock_jump_ms(server, 60000 + back_ms);
        EXPECT(HF_OK, hf_limit_get(store, &limit, &result, &contract_error));
        CHECK(result.left == 2);
    }
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(lua_decides_as_c_does),
        TEST(more_than_a_bucket_comes_back),
        TEST(a_rule_does_not_expire),
        TEST(setting_is_cut),
        TEST(it_expires),
        TEST(something_else_is_there),
        TEST(calls_are_cut),
        TEST(answers_are_cut),
        TEST_CLOCK(clock_set_back),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
