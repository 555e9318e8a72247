/* SPDX-License-Identifier: MIT */
/*
 * silent [CASE]: a server that takes what it is sent and says nothing. On the real server of HOLDFAST_TEST_URL, through a proxy
 * that lets nothing pass: the connection is up, and nobody hangs up. A call that does not wait ends all the same, in either
 * form, and what it may have left in the store is given back as soon as the server speaks again.
 */
#include "contract.h"

#include "proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_MS \
    25000 /* a call that has a limit of 5 s, and 2 s for its end: on a busy machine, too */
#define LOST     10 /* leases: a release that waits for the server takes 5 s for each */
#define SHORT_MS 2000

static struct proxy *proxy;
static hf_store *through, *direct;

static hf_store *open_through(const char *more)
{
    const char *url = contract_url(), *at = url_port(url);
    hf_store *store = NULL;
    char text[700];

    snprintf(text, sizeof text, "%.*s%u%s%s", (int)(at - url), url, (unsigned)proxy_port(proxy),
             at + strspn(at, "0123456789"), more);
    EXPECT(HF_OK, hf_open(text, NULL, &store, &contract_error));
    return store;
}

static int begin(void)
{
    proxy = proxy_start((uint16_t)atoi(url_port(contract_url())));
    through = open_through("");
    direct = open_store();
    return 0;
}

static int setup(void **state)
{
    int status = contract_setup(state);

    return status == 0 ? begin() : status;
}

/* An answer may take longer than any case waits for it. ZooKeeper has no such limit. */
static int setup_patient(void **state)
{
    int status = contract_setup(state);

    if (status == 0 && strcmp(contract_info.engine, "zookeeper") != 0)
        contract_param("op_timeout=50s");
    return status == 0 ? begin() : status;
}

static int teardown(void **state)
{
    proxy_heal(proxy);
    (void)hf_close(through, HF_CLOSE_FLAG_RELEASE);
    (void)hf_close(direct, HF_CLOSE_FLAG_RELEASE);
    proxy_stop(proxy);
    return contract_teardown(state);
}

static void silence(bool on)
{
    proxy_block(proxy, PROXY_UP, on);
    proxy_block(proxy, PROXY_DOWN, on);
}

/* ---- asynchronous calls ----------------------------------------------------------------------------- */

struct got {
    int calls;
    hf_status status;
    hf_lease *lease;
};

static void on_got(const hf_result *result, void *arg)
{
    struct got *got = arg;

    got->calls++;
    got->status = result->status;
    got->lease = result->lease;
}

/* Pump `through` until it is done. */
static hf_status await_within(struct got *got, int64_t limit_ms)
{
    int64_t until_ms = now_ms() + limit_ms;

    while (got->calls == 0) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(through));
        nap_ms(1);
    }
    CHECK(got->calls == 1);
    CHECK((got->lease != NULL) == (got->status == HF_OK));
    return got->status;
}

static bool is_away(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

/* The connection has been used. */
static void warm_up(void)
{
    hf_acquire_request request = mutex_request("warm");

    give(take(through, &request));
}

/* Nothing of the calls before is left: the name is granted to who waits for it, and again to ours. */
static void check_free(const char *name)
{
    hf_acquire_request request = waiting_request(name);

    EXPECT(HF_OK, probe(direct, &request));
    EXPECT(HF_OK, probe(through, &request));
    AWAIT(count_holders(direct, name) == 0 && count_waiters(direct, name) == 0);
}

static void asynchronous_try_ends(void **state)
{
    hf_acquire_request request = mutex_request("job");
    struct got got = { 0 };

    (void)state;
    warm_up();
    silence(true);
    EXPECT(HF_OK, hf_acquire_async(through, &request, on_got, &got, NULL, &contract_error));
    CHECK(is_away(await_within(&got, CALL_MS)));
    silence(false);
    check_free("job");
}

/* Its request has arrived, and only the answer has not: so the name is taken until the server hears of the end. */
static void asynchronous_try_without_its_answer_ends(void **state)
{
    hf_acquire_request request = mutex_request("job");
    struct got got = { 0 };

    (void)state;
    warm_up();
    proxy_block(proxy, PROXY_DOWN, true);
    EXPECT(HF_OK, hf_acquire_async(through, &request, on_got, &got, NULL, &contract_error));
    CHECK(is_away(await_within(&got, CALL_MS)));
    silence(false);
    check_free("job");
}

/* Many at once, and new ones while the first are on their way: each ends, and each name is free then. */
static void many_asynchronous_tries_end(void **state)
{
    struct got got[8] = { { 0 } };
    char name[16];

    (void)state;
    warm_up();
    silence(true);
    for (int i = 0; i < 8; i++) {
        hf_acquire_request request = mutex_request(name);

        snprintf(name, sizeof name, "job-%d", i);
        EXPECT(HF_OK, hf_acquire_async(through, &request, on_got, &got[i], NULL, &contract_error));
        for (int64_t until_ms = now_ms() + 100; now_ms() < until_ms; nap_ms(1))
            EXPECT(HF_OK, hf_store_process(through));
    }
    for (int i = 0; i < 8; i++)
        CHECK(is_away(await_within(&got[i], CALL_MS)));
    silence(false);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "job-%d", i);
        check_free(name);
    }
}

/* Release, renewal, break and inspection: each has a limit too. */
static void other_asynchronous_calls_end(void **state)
{
    hf_acquire_request request = mutex_request("job"), other = mutex_request("other");
    struct got renewed = { 0 }, released = { 0 }, broken = { 0 }, seen = { 0 };
    hf_lease *lease, *second;

    (void)state;
    request.ttl_ms = other.ttl_ms = has(HF_CAP_TTL) ? 10000 : 0;
    lease = take(through, &request);
    second = take(through, &other);
    silence(true);
    EXPECT(HF_OK, hf_renew_async(lease, 0, on_got, &renewed, NULL, &contract_error));
    EXPECT(HF_OK, hf_release_async(second, on_got, &released, NULL, &contract_error));
    if (has(HF_CAP_BREAK))
        EXPECT(HF_OK,
               hf_lease_break_async(through, "none", 4, 1, on_got, &broken, NULL, &contract_error));
    if (has(HF_CAP_INSPECT))
        EXPECT(HF_OK,
               hf_store_inspect_async(through, "job", 3, 0, on_got, &seen, NULL, &contract_error));
    CHECK(await_within(&renewed, CALL_MS) != HF_OK);
    CHECK(await_within(&released, CALL_MS) != HF_OK);
    if (has(HF_CAP_BREAK))
        CHECK(is_away(await_within(&broken, CALL_MS)));
    if (has(HF_CAP_INSPECT))
        CHECK(is_away(await_within(&seen, CALL_MS)));
    silence(false);
    (void)hf_release(lease, NULL);
    check_free("job");
    check_free("other");
}

/* ---- a lease that was lost meanwhile ----------------------------------------------------------------- */

static void take_and_lose(hf_lease *leases[LOST])
{
    char name[16];

    for (int i = 0; i < LOST; i++) {
        hf_acquire_request request = mutex_request(name);

        snprintf(name, sizeof name, "job-%d", i);
        request.ttl_ms = 4 * SHORT_MS;
        request.flags = HF_FLAG_NO_RENEW;
        leases[i] = take_short(through, &request);
    }
    silence(true);
    for (int i = 0; i < LOST; i++)
        await_lost(leases[i]);
}

static void check_all_free(void)
{
    char name[16];

    silence(false);
    for (int i = 0; i < LOST; i++) {
        snprintf(name, sizeof name, "job-%d", i);
        check_free(name);
    }
}

/* There is nothing to give back, so nobody waits for the server. */
static void lost_leases_are_released_without_it(void **state)
{
    hf_lease *leases[LOST];
    int64_t since_ms;

    (void)state;
    NEEDS(HF_CAP_TTL);
    take_and_lose(leases);
    since_ms = now_ms();
    for (int i = 0; i < LOST; i++) {
        EXPECT(HF_LOST, hf_release(leases[i], &contract_error));
        EXPECT(HF_INVALID, hf_release(leases[i], &contract_error));
    }
    CHECK(now_ms() - since_ms < CALL_MS);
    check_all_free();
}

static void lost_leases_are_released_in_a_loop_without_it(void **state)
{
    struct got got[LOST] = { { 0 } };
    hf_lease *leases[LOST];
    int64_t since_ms;

    (void)state;
    NEEDS(HF_CAP_TTL);
    take_and_lose(leases);
    since_ms = now_ms();
    for (int i = 0; i < LOST; i++) { /* one after the other */
        EXPECT(HF_OK, hf_release_async(leases[i], on_got, &got[i], NULL, &contract_error));
        EXPECT(HF_LOST, await_within(&got[i], CALL_MS));
    }
    CHECK(now_ms() - since_ms < CALL_MS);
    check_all_free();
}

/* What is still under way in the background does not keep the store open for ever. */
static void closed_after_such_a_release(void **state)
{
    hf_lease *leases[LOST];
    int64_t since_ms;

    (void)state;
    NEEDS(HF_CAP_TTL);
    take_and_lose(leases);
    for (int i = 0; i < LOST; i++)
        EXPECT(HF_LOST, hf_release(leases[i], &contract_error));
    since_ms = now_ms();
    EXPECT(HF_OK, hf_close(through, 0));
    CHECK(now_ms() - since_ms < CALL_MS);
    silence(false);
    through = open_through("");
    check_all_free();
}

/* ---- cancelled ---------------------------------------------------------------------------------------- */

static void cancelled_acquire_ends(void **state)
{
    hf_acquire_request request = waiting_request("job");
    struct attempt attempt;
    int64_t fired_ms;
    hf_status status;

    (void)state;
    warm_up();
    EXPECT(HF_OK, hf_cancel_open(&request.cancel));
    silence(true);
    attempt_start(&attempt, through, &request);
    attempt_settled(&attempt);
    fired_ms = now_ms();
    EXPECT(HF_OK, hf_cancel_fire(request.cancel));
    status = attempt_join(&attempt);
    CHECK(attempt.ended_ms - fired_ms < CALL_MS);
    CHECK(status == HF_CANCELLED || status == HF_UNKNOWN);
    EXPECT(HF_OK, hf_cancel_close(request.cancel));
    silence(false);
    check_free("job");
}

static void cancelled_asynchronous_acquire_ends(void **state)
{
    hf_acquire_request request = waiting_request("job");
    struct got got = { 0 };
    hf_status status;
    hf_op *op;

    (void)state;
    warm_up();
    silence(true);
    EXPECT(HF_OK, hf_acquire_async(through, &request, on_got, &got, &op, &contract_error));
    nap_ms(100); /* a worker has begun it, or not yet */
    EXPECT(HF_OK, hf_op_cancel(op));
    status = await_within(&got, CALL_MS);
    CHECK(status == HF_CANCELLED || status == HF_UNKNOWN);
    silence(false);
    check_free("job");
}

#define TEST(function)    cmocka_unit_test_setup_teardown(function, setup, teardown)
#define PATIENT(function) cmocka_unit_test_setup_teardown(function, setup_patient, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        TEST(asynchronous_try_ends),
        TEST(asynchronous_try_without_its_answer_ends),
        TEST(many_asynchronous_tries_end),
        TEST(other_asynchronous_calls_end),
        TEST(lost_leases_are_released_without_it),
        TEST(lost_leases_are_released_in_a_loop_without_it),
        TEST(closed_after_such_a_release),
        PATIENT(cancelled_acquire_ends),
        PATIENT(cancelled_asynchronous_acquire_ends),
    };
    const char *url = getenv("HOLDFAST_TEST_URL");

    if (!url) {
        fprintf(stderr, "silent: no HOLDFAST_TEST_URL\n");
        return 64;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin(url, true);
    return cmocka_run_group_tests_name("silent", cases, NULL, NULL) ? 1 : 0;
}
