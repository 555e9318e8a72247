/* SPDX-License-Identifier: MIT */
/*
 * late [CASE]: a store that is opened without waiting (HF_OPEN_FLAG_NO_WAIT), and its server, that of
 * HOLDFAST_TEST_URL, which comes later or never: behind a proxy that lets nobody through at first.
 */
#include "contract.h"

#include "proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct proxy *proxy;
static unsigned port; /* the proxy's, also when it has gone */

static hf_status open_now(const char *more, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    const char *at = url_port(contract_url());
    char url[700];

    snprintf(url, sizeof url, "%.*s%u%s%s", (int)(at - contract_url()), contract_url(), port,
             at + strspn(at, "0123456789"), more);
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    return hf_open(url, &options, ret_store, &contract_error);
}

/* NULL: this engine refuses the flag, and says so. */
static hf_store *open_late(void)
{
    hf_store *store = NULL;
    hf_status status = open_now("", &store);

    if (status == HF_UNSUPPORTED) {
        CHECK(!store && strstr(contract_error.text, "open"));
        return NULL;
    }
    EXPECT(HF_OK, status);
    return store;
}

static hf_acquire_request waiting(int64_t wait_ms)
{
    hf_acquire_request request = mutex_request("late");

    request.wait_ms = wait_ms;
    return request;
}

static int setup(void **state)
{
    if (contract_setup(state) != 0)
        return -1;
    if (strcmp(contract_info.engine, "zookeeper") != 0)
        contract_param("op_timeout=1s"); /* then it is away */
    proxy = proxy_start((uint16_t)atoi(url_port(contract_url())));
    port = proxy_port(proxy);
    proxy_refuse(proxy, true);
    return 0;
}

static int teardown(void **state)
{
    proxy_stop(proxy);
    return contract_teardown(state);
}

/* ---- it comes ------------------------------------------------------------------------------------- */

static void acquire_waits_for_it(void **state)
{
    hf_acquire_request request = waiting(HF_FOREVER);
    hf_store *store = open_late();
    struct attempt attempt;

    (void)state;
    if (!store)
        return;
    attempt_start(&attempt, store, &request);
    nap_ms(1500); /* more than op_timeout */
    CHECK(!attempt.ended);
    proxy_refuse(proxy, false);
    EXPECT(HF_OK, attempt_join(&attempt));
    CHECK(hf_lease_state(attempt.lease) == HF_STATE_HELD);
    EXPECT(HF_OK, hf_renew(attempt.lease, 0, &contract_error));
    give(attempt.lease);
    close_store(store);
}

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

static void asynchronous_form_waits_for_it(void **state)
{
    hf_acquire_request request = waiting(HF_FOREVER);
    hf_store *store = open_late();
    struct got got = { 0 };

    (void)state;
    if (!store)
        return;
    EXPECT(HF_OK, hf_acquire_async(store, &request, on_got, &got, NULL, &contract_error));
    for (int i = 0; i < 100; i++) {
        EXPECT(HF_OK, hf_store_process(store));
        nap_ms(1);
    }
    CHECK(got.calls == 0);
    proxy_refuse(proxy, false);
    for (int64_t until_ms = now_ms() + LIMIT_MS; got.calls == 0; nap_ms(1)) {
        CHECK(now_ms() < until_ms);
        EXPECT(HF_OK, hf_store_process(store));
    }
    EXPECT(HF_OK, got.status);
    give(got.lease);
    close_store(store);
}

/* ---- it never comes --------------------------------------------------------------------------------- */

static void end_calls(void)
{
    hf_acquire_request try = mutex_request("late"), wait = waiting(300);
    hf_store *store = open_late();
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    hf_status status;

    if (!store)
        return;
    EXPECT(HF_UNAVAILABLE, hf_acquire(store, &try, &lease, &contract_error));
    status = hf_acquire(store, &wait, &lease, &contract_error);
    CHECK(status == HF_TIMEOUT || status == HF_UNAVAILABLE);
    if (contract_info.caps & HF_CAP_INSPECT)
        EXPECT(HF_UNAVAILABLE, hf_store_inspect(store, "late", 4, 0, &view, &contract_error));
    CHECK(!lease && !view);
    close_store(store);
}

static void hangs_up(void **state)
{
    (void)state;
    end_calls();
}

static void stays_silent(void **state)
{
    (void)state;
    proxy_refuse(proxy, false);
    proxy_block(proxy, PROXY_UP, true);
    proxy_block(proxy, PROXY_DOWN, true);
    end_calls();
}

static void nobody_listens(void **state)
{
    (void)state;
    proxy_stop(proxy);
    proxy = NULL;
    end_calls();
}

static void closed_while_waiting_for_it(void **state)
{
    hf_acquire_request request = waiting(HF_FOREVER);
    hf_store *store = open_late();
    struct attempt attempt;

    (void)state;
    if (!store)
        return;
    attempt_start(&attempt, store, &request);
    attempt_settled(&attempt);
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    EXPECT(HF_CANCELLED, attempt_join(&attempt));
}

/* ---- what is refused at once -------------------------------------------------------------------------- */

static void bad_url(void **state)
{
    hf_store *store = NULL;

    (void)state;
    EXPECT(HF_CONFIG,
           open_now(strchr(contract_url(), '?') ? "&nonsense=1" : "?nonsense=1", &store));
    CHECK(!store);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        TEST(acquire_waits_for_it),
        TEST(asynchronous_form_waits_for_it),
        TEST(hangs_up),
        TEST(stays_silent),
        TEST(nobody_listens),
        TEST(closed_while_waiting_for_it),
        TEST(bad_url),
    };
    const char *url = getenv("HOLDFAST_TEST_URL");

    if (!url) {
        fprintf(stderr, "late: no HOLDFAST_TEST_URL\n");
        return 64;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    contract_begin(url, true);
    return cmocka_run_group_tests_name("late", cases, NULL, NULL) ? 1 : 0;
}
