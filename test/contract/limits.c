/* SPDX-License-Identifier: MIT */
/*
 * Rate limits: trying, waiting, order, giving up, and that no number of processes gets more than is
 * promised. What is refused and what waits is decided by periods of an hour, so that no case needs
 * the machine to be quick; only what must come true has short ones.
 */
#include "both.h"

#include "calls.h"
#include "peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOUR_MS  3600000
#define NEEDED   (HF_CAP_CELLS | HF_CAP_CLOCK)
#define WAITERS  3
#define ORDER_MS 40
#define PEERS    4
#define TAKES    15

static const hf_limit_algorithm algorithms[] = { HF_LIMIT_ALGORITHM_FIXED,
                                                 HF_LIMIT_ALGORITHM_SLIDING,
                                                 HF_LIMIT_ALGORITHM_BUCKET };

static hf_limit_request limit_of(hf_limit_algorithm algorithm, uint32_t rate, int64_t per_ms)
{
    static const char *const names[] = { "fixed", "sliding", "bucket" };
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;

    limit.name = names[algorithm];
    limit.name_len = HF_CSTRING;
    limit.algorithm = algorithm;
    limit.rate = rate;
    limit.per_ms = per_ms;
    return limit;
}

static hf_status take_some(hf_store *store, const hf_limit_request *limit, uint32_t permits,
                           hf_limit_result *ret_result)
{
    hf_limit_request some = *limit;

    some.permits = permits;
    *ret_result = (hf_limit_result)HF_LIMIT_RESULT_INIT;
    return hf_limit_take(store, &some, ret_result, &contract_error);
}

static hf_limit_result look_at(hf_store *store, const hf_limit_request *limit)
{
    hf_limit_result result = HF_LIMIT_RESULT_INIT;

    EXPECT(HF_OK, hf_limit_get(store, limit, &result, &contract_error));
    return result;
}

/* ---- without waiting ------------------------------------------------------------------------------ */

static void needs_a_clock(void **state)
{
    hf_store *store = open_store();
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 1, HOUR_MS);
    hf_status want = has(NEEDED) ? HF_OK : HF_UNSUPPORTED;

    (void)state;
    EXPECT(want, hf_limit_get(store, &limit, NULL, &contract_error));
    EXPECT(want, hf_limit_take(store, &limit, NULL, &contract_error));
    EXPECT(want, hf_limit_set(store, &limit, NULL, &contract_error));
    close_store(store);
}

static void so_many_and_no_more(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store(), *other = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 5, HOUR_MS);
        hf_limit_result result;

        CHECK(look_at(store, &limit).left == 5 && look_at(store, &limit).refill_ms == 0);
        EXPECT(HF_OK, take_some(store, &limit, 0, &result));
        CHECK(result.left == 4 && result.retry_ms == 0 && result.waited_ms == 0);
        CHECK(result.at_us > 0 && result.refill_ms > 0 && result.refill_ms <= HOUR_MS);
        EXPECT(HF_OK, take_some(other, &limit, 3, &result));
        CHECK(result.left == 1);
        EXPECT(HF_BUSY, take_some(store, &limit, 2, &result)); /* all or none */
        CHECK(result.left == 1 && result.retry_ms > 0 && result.retry_ms <= HOUR_MS);
        EXPECT(HF_OK, take_some(store, &limit, 1, &result));
        EXPECT(HF_BUSY, take_some(other, &limit, 1, &result));
        CHECK(result.left == 0 && result.at_us == 0);
        CHECK(strstr(contract_error.text, limit.name));
        CHECK(look_at(other, &limit).left == 0);
        close_store(store);
        close_store(other);
    }
}

static void names_are_apart(void **state)
{
    hf_store *store;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 1, HOUR_MS);
    hf_limit_result result;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    EXPECT(HF_BUSY, take_some(store, &limit, 1, &result));
    limit.name = "f\0x";
    limit.name_len = 3;
    EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    EXPECT(HF_BUSY, take_some(store, &limit, 1, &result));
    close_store(store);
}

static void a_burst(void **state)
{
    hf_store *store;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_BUCKET, 2, HOUR_MS);
    hf_limit_result result;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    limit.burst = 10;
    EXPECT(HF_OK, take_some(store, &limit, 10, &result));
    EXPECT(HF_BUSY, take_some(store, &limit, 1, &result));
    CHECK(result.refill_ms > 4 * HOUR_MS && result.refill_ms <= 5 * HOUR_MS);
    CHECK(result.retry_ms <= HOUR_MS / 2);
    close_store(store);
}

static void of_another_kind(void **state)
{
    hf_store *store;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 5, HOUR_MS), other = limit;
    hf_limit_result result;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    other.rate = 6;
    EXPECT(HF_MISMATCH, take_some(store, &other, 1, &result));
    EXPECT(HF_MISMATCH, hf_limit_get(store, &other, &result, &contract_error));
    other = limit;
    other.per_ms++;
    EXPECT(HF_MISMATCH, take_some(store, &other, 1, &result));
    other = limit;
    other.algorithm = HF_LIMIT_ALGORITHM_SLIDING;
    EXPECT(HF_MISMATCH, take_some(store, &other, 1, &result));
    CHECK(look_at(store, &limit).left == 4);
    EXPECT(HF_MISMATCH, hf_guard_claim(store, limit.name, HF_CSTRING, 1, NULL, NULL,
                                       &contract_error)); /* nor a cell */
    EXPECT(HF_OK, hf_latch_create(store, "gate", HF_CSTRING, 1, &contract_error));
    other = limit;
    other.name = "gate";
    other.name_len = HF_CSTRING;
    EXPECT(HF_MISMATCH, take_some(store, &other, 1, &result)); /* a latch begins with "L1" too */
    EXPECT(HF_MISMATCH, call_latch_wait(store, limit.name, HF_CSTRING, 0, NULL, &contract_error));

    limit.name = "short";
    limit.name_len = HF_CSTRING;
    limit.per_ms = 1; /* when it has run out it may become another */
    other = limit;
    other.rate = 3;
    EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    AWAIT(take_some(store, &other, 1, &result) == HF_OK);
    close_store(store);
}

static void expect_invalid(hf_store *store, hf_limit_request limit, const char *field)
{
    EXPECT(HF_INVALID, hf_limit_take(store, &limit, NULL, &contract_error));
    CHECK(strncmp(contract_error.text, field, strlen(field)) == 0);
}

static void bad_arguments_are_named(void **state)
{
    hf_store *store;
    hf_limit_request good = limit_of(HF_LIMIT_ALGORITHM_FIXED, 5, HOUR_MS), limit;
    hf_limit_result result = { 0 };

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    expect_invalid(store, (limit = good, limit.size = 3, limit), "size");
    expect_invalid(store, (limit = good, limit.rate = 0, limit), "rate");
    expect_invalid(store, (limit = good, limit.per_ms = 0, limit), "per_ms");
    expect_invalid(store, (limit = good, limit.per_ms = HF_DURATION_MAX_MS + 1, limit), "per_ms");
    expect_invalid(store, (limit = good, limit.burst = 5, limit), "burst");
    expect_invalid(store, (limit = good, limit.permits = 6, limit), "permits");
    expect_invalid(store, (limit = good, limit.wait_ms = -2, limit), "wait_ms");
    expect_invalid(store, (limit = good, limit.algorithm = (hf_limit_algorithm)3, limit),
                   "algorithm");
    expect_invalid(store, (limit = good, limit.cancel = (hf_cancel *)(intptr_t)8, limit), "cancel");
    expect_invalid(store, (limit = good, limit.name = NULL, limit), "name");
    limit = limit_of(HF_LIMIT_ALGORITHM_SLIDING, HF_LIMIT_SLIDING_MAX + 1, HOUR_MS);
    expect_invalid(store, limit, "rate");
    EXPECT(HF_INVALID, hf_limit_take(store, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_limit_take(store, &good, &result, &contract_error)); /* no size */
    EXPECT(HF_INVALID, hf_limit_take(NULL, &good, NULL, &contract_error));
    CHECK(look_at(store, &good).left == 5);
    close_store(store);
}

/* The largest log there can be goes into the store and out again. */
static void a_full_log(void **state)
{
    hf_store *store;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_SLIDING, HF_LIMIT_SLIDING_MAX, HOUR_MS);
    hf_limit_result result;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (int i = 0; i < 50; i++)
        EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    EXPECT(HF_OK, take_some(store, &limit, HF_LIMIT_SLIDING_MAX - 50, &result));
    EXPECT(HF_BUSY, take_some(store, &limit, 1, &result));
    close_store(store);
}

/* ---- waiting ---------------------------------------------------------------------------------------- */

static void at_the_moment(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 2, 60);
        hf_limit_result first, last;
        int64_t begun_ms = now_ms();

        limit.wait_ms = HF_FOREVER;
        EXPECT(HF_OK, take_some(store, &limit, 2, &first));
        EXPECT(HF_OK, take_some(store, &limit, 2, &last));
        CHECK(last.at_us - first.at_us >= 60000);
        CHECK((now_ms() - begun_ms + 1) * 1000 >= last.at_us - first.at_us); /* never before it */
        close_store(store);
    }
}

/* A request that would be too late is refused at once, and nothing is reserved for it. */
static void too_late_is_told_at_once(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 2, HOUR_MS);
        hf_limit_result first, second;

        EXPECT(HF_OK, take_some(store, &limit, 2, &first));
        limit.wait_ms = HOUR_MS / 4;
        EXPECT(HF_TIMEOUT, take_some(store, &limit, 2, &first));
        CHECK(first.retry_ms > limit.wait_ms && first.retry_ms <= HOUR_MS);
        EXPECT(HF_TIMEOUT, take_some(store, &limit, 2, &second));
        CHECK(second.retry_ms <= first.retry_ms && second.refill_ms <= first.refill_ms);
        close_store(store);
    }
}

struct waiter {
    hf_store *store;
    hf_limit_request limit;
    hf_limit_result result;
    hf_status status;
    _Atomic int tid;
    _Atomic bool ended;
    pthread_t thread;
};

static void *wait_main(void *arg)
{
    struct waiter *waiter = arg;

    waiter->tid = thread_id();
    waiter->status = hf_limit_take(waiter->store, &waiter->limit, &waiter->result, NULL);
    waiter->ended = true;
    return NULL;
}

/* Start it, and wait until it sleeps. */
static void waiter_start(struct waiter *waiter, hf_store *store, const hf_limit_request *limit)
{
    *waiter = (struct waiter){ .store = store, .limit = *limit, .result = HF_LIMIT_RESULT_INIT };
    CHECK(pthread_create(&waiter->thread, NULL, wait_main, waiter) == 0);
    thread_settled(&waiter->tid, &waiter->ended);
}

static hf_status waiter_join(struct waiter *waiter)
{
    CHECK(pthread_join(waiter->thread, NULL) == 0);
    return waiter->status;
}

/* When `permits` could be had now, at the latest. */
static int64_t retry_ms(hf_store *store, hf_limit_request limit)
{
    hf_limit_result result;

    limit.wait_ms = 0;
    limit.cancel = NULL;
    EXPECT(HF_BUSY, take_some(store, &limit, 2, &result));
    return result.retry_ms;
}

static void cancelled_and_given_back(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 2, HOUR_MS);
        hf_limit_result result;
        struct waiter waiter;
        int64_t before_ms;

        EXPECT(HF_OK, take_some(store, &limit, 2, &result));
        before_ms = retry_ms(store, limit);
        EXPECT(HF_OK, hf_cancel_open(&limit.cancel));
        limit.wait_ms = HF_FOREVER;
        limit.permits = 2;
        waiter_start(&waiter, store, &limit);
        AWAIT(retry_ms(store, limit) > HOUR_MS); /* it has reserved */
        EXPECT(HF_IN_USE, hf_close(store, 0));
        EXPECT(HF_OK, hf_cancel_fire(limit.cancel));
        EXPECT(HF_CANCELLED, waiter_join(&waiter));
        CHECK(retry_ms(store, limit) <= before_ms);
        EXPECT(HF_CANCELLED, take_some(store, &limit, 2, &result)); /* fired already */
        CHECK(retry_ms(store, limit) <= before_ms);
        EXPECT(HF_OK, hf_cancel_close(limit.cancel));
        close_store(store);
    }
}

static void closing_ends_it(void **state)
{
    hf_store *store, *other;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_BUCKET, 1, HOUR_MS);
    hf_limit_result result;
    struct waiter waiter;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    other = open_store();
    EXPECT(HF_OK, take_some(store, &limit, 1, &result));
    limit.wait_ms = 2 * HOUR_MS;
    waiter_start(&waiter, store, &limit);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    EXPECT(HF_CANCELLED, waiter_join(&waiter));
    limit.wait_ms = 0;
    EXPECT(HF_BUSY, take_some(other, &limit, 1, &result));
    CHECK(result.retry_ms <= HOUR_MS); /* given back */
    close_store(other);
}

/* false: a waiter was overtaken. It may have been asleep before it had reserved, where that takes several round trips. */
static bool served_in_order(hf_limit_algorithm algorithm)
{
    hf_store *stores[2] = { open_store(), open_store() };
    hf_limit_request limit = limit_of(algorithm, 1, ORDER_MS), try = limit;
    hf_limit_result result;
    struct waiter waiters[WAITERS];
    bool in_order = true;
    int64_t last_us;

    limit.wait_ms = HF_FOREVER;
    EXPECT(HF_OK, take_some(stores[0], &limit, 1, &result));
    last_us = result.at_us;
    for (int w = 0; w < WAITERS; w++)
        waiter_start(&waiters[w], stores[w % 2], &limit);
    if (hf_limit_take(stores[0], &try, &result, NULL) == HF_OK)
        in_order = result.at_us >
                   last_us + (WAITERS - 1) * INT64_C(1000) * ORDER_MS; /* after all of them */
    for (int w = 0; w < WAITERS; w++) {
        EXPECT(HF_OK, waiter_join(&waiters[w]));
        in_order = in_order && waiters[w].result.at_us >= last_us + 1000 * ORDER_MS;
        last_us = waiters[w].result.at_us;
    }
    close_store(stores[0]);
    close_store(stores[1]);
    return in_order;
}

/* First come, first served, and a call that does not wait never gets in between. A stall may excuse an attempt, but not all. */
static void in_order(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        int attempt = 0;

        while (attempt < 5 && !served_in_order(algorithms[i]))
            attempt++;
        CHECK(attempt < 5);
    }
}

/* ---- a rule that is set -------------------------------------------------------------------------------- */

static hf_limit_result set_rule(hf_store *store, hf_limit_request limit, uint32_t rate,
                                int64_t per_ms)
{
    hf_limit_result result = HF_LIMIT_RESULT_INIT;

    limit.rate = rate;
    limit.per_ms = per_ms;
    EXPECT(HF_OK, hf_limit_set(store, &limit, &result, &contract_error));
    return result;
}

/* More, fewer, and as before: what was used stays used. */
static void a_rule_is_set(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store(), *other = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 5, HOUR_MS), any = { 0 };
        hf_limit_result result;

        any = limit;
        any.rate = 0;
        EXPECT(HF_NOT_FOUND, hf_limit_get(store, &any, NULL, &contract_error));
        EXPECT(HF_OK, take_some(store, &limit, 4, &result));
        CHECK(result.rate == 5 && result.per_ms == HOUR_MS && !result.is_set);
        result = set_rule(other, limit, 8, HOUR_MS);
        CHECK(result.left == 4 && result.rate == 8 && result.is_set);
        result = set_rule(other, limit, 8, HOUR_MS); /* once more is the same */
        CHECK(result.left == 4 && result.refill_ms > 0);
        EXPECT(HF_OK, take_some(store, &limit, 4, &result));
        CHECK(result.left == 0 && result.rate == 8 && result.is_set);
        EXPECT(HF_BUSY, take_some(store, &limit, 1, &result));
        CHECK(result.rate == 8 && result.is_set);
        CHECK(look_at(other, &any).left == 0 && look_at(other, &any).rate == 8);

        result = set_rule(store, limit, 3, HOUR_MS);
        CHECK(result.left == 0 && result.rate == 3);
        EXPECT(HF_MISMATCH, take_some(other, &limit, 4, &result));
        CHECK(strstr(contract_error.text, "permits"));
        result = set_rule(store, limit, 20, HOUR_MS);
        /* A bucket of 3 had no more than 3 that were missing. */
        CHECK(result.left == (algorithms[i] == HF_LIMIT_ALGORITHM_BUCKET ? 17 : 12));

        EXPECT(HF_OK, hf_limit_set(other, &any, NULL, &contract_error));
        EXPECT(HF_BUSY, take_some(store, &limit, 5, &result));
        CHECK(result.rate == 5 && !result.is_set);
        close_store(store);
        close_store(other);
    }
}

/* Also of a limit that nobody has used, or that is idle again. */
static void a_rule_stays(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 5, HOUR_MS), other = limit;
        hf_limit_result result = set_rule(store, limit, 2, 1);

        CHECK(result.left == 2 && result.refill_ms == 0);
        EXPECT(HF_OK, take_some(store, &limit, 2, &result));
        AWAIT(look_at(store, &limit).left == 2);
        result = look_at(store, &limit);
        CHECK(result.rate == 2 && result.per_ms == 1 && result.algorithm == algorithms[i]);
        CHECK(result.is_set && result.refill_ms == 0);
        other.algorithm = algorithms[(i + 1) % 3];
        EXPECT(HF_MISMATCH, take_some(store, &other, 1, &result));
        EXPECT(HF_MISMATCH, hf_limit_set(store, &other, NULL, &contract_error));
        other.rate = 0;
        EXPECT(HF_OK, hf_limit_set(store, &other, NULL, &contract_error)); /* whatever it is */
        EXPECT(HF_NOT_FOUND, hf_limit_get(store, &other, NULL, &contract_error));
        CHECK(look_at(store, &limit).left == 5);
        close_store(store);
    }
}

/* A call waits for its moment: it keeps it, and those that come after the change stand behind it. */
static void a_rule_for_waiters(void **state)
{
    (void)state;
    NEEDS(NEEDED);
    for (size_t i = 0; i < 3; i++) {
        hf_store *store = open_store();
        hf_limit_request limit = limit_of(algorithms[i], 2, 60);
        hf_limit_result result;
        struct waiter waiter;
        int64_t first_us;

        EXPECT(HF_OK, take_some(store, &limit, 2, &result));
        first_us = result.at_us;
        limit.wait_ms = HF_FOREVER;
        limit.permits = 2;
        waiter_start(&waiter, store, &limit);
        set_rule(store, limit, 200, 100);
        EXPECT(HF_OK, take_some(store, &limit, 1, &result));
        EXPECT(HF_OK, waiter_join(&waiter));
        CHECK(waiter.result.at_us >= first_us + 60000 && result.at_us >= waiter.result.at_us);
        close_store(store);
    }
}

static void a_rule_must_be_one(void **state)
{
    hf_store *store;
    hf_limit_request limit = limit_of(HF_LIMIT_ALGORITHM_FIXED, 5, HOUR_MS), bad;
    hf_limit_result result = { 0 };

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    bad = limit;
    bad.per_ms = 0;
    EXPECT(HF_INVALID, hf_limit_set(store, &bad, NULL, &contract_error));
    bad = limit;
    bad.burst = 3;
    EXPECT(HF_INVALID, hf_limit_set(store, &bad, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_limit_set(store, &limit, &result, &contract_error)); /* no size */
    EXPECT(HF_INVALID, hf_limit_set(store, NULL, NULL, &contract_error));
    EXPECT(HF_OK, hf_latch_create(store, "fixed", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_limit_set(store, &limit, NULL, &contract_error));
    limit.rate = 0;
    EXPECT(HF_MISMATCH, hf_limit_set(store, &limit, NULL, &contract_error));
    EXPECT(HF_MISMATCH, hf_limit_get(store, &limit, NULL, &contract_error));
    close_store(store);
}

/* ---- many processes --------------------------------------------------------------------------------- */

struct grant {
    int64_t at_us;
    uint32_t permits;
};

static int by_time(const void *a, const void *b)
{
    const struct grant *one = a, *two = b;

    return one->at_us < two->at_us ? -1 : one->at_us > two->at_us;
}

static size_t read_grants(const char *path, struct grant *grants, size_t room)
{
    FILE *file = fopen(path, "r");
    size_t count = 0;

    CHECK(file);
    while (count < room &&
           fscanf(file, "%" SCNd64 " %" SCNu32, &grants[count].at_us, &grants[count].permits) == 2)
        count++;
    fclose(file);
    qsort(grants, count, sizeof *grants, by_time);
    return count;
}

static void check_fixed(const struct grant *grants, size_t count, const hf_limit_request *limit)
{
    int64_t begin_us = 0, used = 0;

    for (size_t i = 0; i < count; i++) {
        if (grants[i].at_us >= begin_us + limit->per_ms * 1000) {
            begin_us = grants[i].at_us;
            used = 0;
        }
        used += grants[i].permits;
        CHECK(used <= limit->rate);
    }
}

/* From each grant on: within a period (SLIDING), or to each later one (BUCKET; rounded moments may be a
 * microsecond further apart). */
static void check_from_each(const struct grant *grants, size_t count, const hf_limit_request *limit)
{
    int64_t per_us = limit->per_ms * 1000;

    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;

        for (size_t j = i; j < count; j++) {
            int64_t apart_us = grants[j].at_us - grants[i].at_us;

            sum += grants[j].permits;
            if (limit->algorithm == HF_LIMIT_ALGORITHM_BUCKET)
                CHECK((sum - limit->burst) * per_us <= limit->rate * (apart_us + 1));
            else if (apart_us < per_us)
                CHECK(sum <= limit->rate);
        }
    }
}

static void never_over_it(void **state)
{
    char path[] = "/tmp/holdfast-limits-XXXXXX";
    struct grant grants[PEERS * TAKES];
    struct peer peers[PEERS];

    (void)state;
    NEEDS(NEEDED);
    close(mkstemp(path));
    for (int p = 0; p < PEERS; p++)
        peer_start(&peers[p]);
    for (size_t i = 0; i < 3; i++) {
        hf_limit_request limit = limit_of(algorithms[i], 24, 50);
        size_t count;

        limit.burst = limit.algorithm == HF_LIMIT_ALGORITHM_BUCKET ? 5 : 0;
        CHECK(truncate(path, 0) == 0);
        for (int p = 0; p < PEERS; p++)
            peer_limit(&peers[p], &limit, TAKES, path);
        for (int p = 0; p < PEERS; p++)
            peer_idle(&peers[p]);
        count = read_grants(path, grants, PEERS * TAKES);
        CHECK(count > PEERS * TAKES / 2); /* all waiting calls get it */
        if (limit.algorithm == HF_LIMIT_ALGORITHM_FIXED)
            check_fixed(grants, count, &limit);
        else
            check_from_each(grants, count, &limit);
    }
    for (int p = 0; p < PEERS; p++)
        peer_stop(&peers[p]);
    unlink(path);
}

int contract_limits(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_a_clock),
        CASE(so_many_and_no_more),
        CASE(names_are_apart),
        CASE(a_burst),
        CASE(of_another_kind),
        CASE(bad_arguments_are_named),
        CASE(a_full_log),
        CASE(at_the_moment),
        CASE(too_late_is_told_at_once),
        CASE(cancelled_and_given_back),
        CASE(closing_ends_it),
        CASE(in_order),
        CASE(a_rule_is_set),
        CASE(a_rule_stays),
        CASE(a_rule_for_waiters),
        CASE(a_rule_must_be_one),
        CASE(never_over_it),
    };

    return cmocka_run_group_tests_name("limits", cases, NULL, NULL);
}
