/* SPDX-License-Identifier: MIT */
/* Bad input: each field by itself, refused with HF_INVALID and a text that names it. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

static char long_name[HF_NAME_MAX + 2];

struct bad_request {
    const char *field; /* that the text must name */
    hf_acquire_request request;
    uint64_t caps; /* without these it is HF_UNSUPPORTED before anything else */
};

#define GOOD  .size = sizeof(hf_acquire_request), .name = "good", .name_len = HF_CSTRING
#define SLOTS GOOD, .kind = HF_KIND_SEMAPHORE

/* capabilities, field, request */
#define BAD(caps, field, ...)        \
    {                                \
        field, { __VA_ARGS__ }, caps \
    }
#define SIZED .size = sizeof(hf_acquire_request)

static const struct bad_request bad_requests[] = {
    BAD(0, "size", .size = 0, .name = "good"),
    BAD(0, "size", .size = 7, .name = "good"),
    BAD(0, "name", SIZED),
    BAD(0, "name", SIZED, .name = "good"), /* 0 is a length too: an empty slice */
    BAD(0, "name", SIZED, .name = "", .name_len = HF_CSTRING),
    BAD(0, "name", SIZED, .name = NULL, .name_len = 3),
    BAD(0, "name", SIZED, .name = long_name, .name_len = HF_NAME_MAX + 1),
    BAD(0, "name", SIZED, .name = long_name, .name_len = HF_CSTRING),
    BAD(0, "name", SIZED, .name = "good", .name_len = HF_CSTRING - 1),
    BAD(0, "kind", GOOD, .kind = (hf_kind)5),
    BAD(0, "kind", GOOD, .kind = (hf_kind)-1),
    BAD(HF_CAP_SEMAPHORE, "capacity", SLOTS),
    BAD(HF_CAP_SEMAPHORE, "capacity", SLOTS, .capacity = HF_CAPACITY_MAX + 1),
    BAD(HF_CAP_SEMAPHORE, "capacity", SLOTS, .capacity = UINT32_MAX),
    BAD(0, "capacity", GOOD, .capacity = 2),
    BAD(HF_CAP_SHARED, "capacity", GOOD, .kind = HF_KIND_SHARED, .capacity = 2),
    BAD(HF_CAP_SEMAPHORE, "permits", SLOTS, .capacity = 2, .permits = 3),
    BAD(HF_CAP_SEMAPHORE, "permits", SLOTS, .capacity = 2, .permits = UINT32_MAX),
    BAD(0, "permits", GOOD, .permits = 2),
    BAD(HF_CAP_SHARED, "permits", GOOD, .kind = HF_KIND_EXCLUSIVE, .permits = 2),
    BAD(0, "flags", GOOD, .flags = 1u << 7),
    BAD(0, "flags", GOOD, .flags = UINT64_C(1) << 63),
    BAD(0, "wait_ms", GOOD, .wait_ms = -2),
    BAD(0, "wait_ms", GOOD, .wait_ms = INT64_MIN),
    BAD(0, "wait_ms", GOOD, .wait_ms = HF_DURATION_MAX_MS + 1),
    BAD(0, "wait_ms", GOOD, .wait_ms = INT64_MAX),
    BAD(HF_CAP_TTL, "ttl_ms", GOOD, .ttl_ms = -1),
    BAD(HF_CAP_TTL, "ttl_ms", GOOD, .ttl_ms = 1),
    BAD(HF_CAP_TTL, "ttl_ms", GOOD, .ttl_ms = HF_TTL_MIN_MS - 1),
    BAD(HF_CAP_TTL, "ttl_ms", GOOD, .ttl_ms = HF_DURATION_MAX_MS + 1),
    BAD(HF_CAP_TTL, "ttl_ms", GOOD, .ttl_ms = INT64_MAX),
    BAD(0, "max_hold_ms", GOOD, .max_hold_ms = -1),
    BAD(0, "max_hold_ms", GOOD, .max_hold_ms = HF_DURATION_MAX_MS + 1),
    BAD(0, "min_valid_ms", GOOD, .min_valid_ms = -1),
    BAD(0, "min_valid_ms", GOOD, .min_valid_ms = HF_DURATION_MAX_MS + 1),
    BAD(0, "lock_delay_ms", GOOD, .lock_delay_ms = -1),
    BAD(0, "lock_delay_ms", GOOD, .lock_delay_ms = HF_DURATION_MAX_MS + 1),
    BAD(0, "linger_ms", GOOD, .linger_ms = -2),
    BAD(HF_CAP_LINGER, "linger_ms", GOOD, .linger_ms = HF_DURATION_MAX_MS),
    BAD(0, "cancel", GOOD, .cancel = (hf_cancel *)&long_name),
};

static void each_field(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request good = mutex_request("good");

    (void)state;
    memset(long_name, 'l', HF_NAME_MAX + 1);
    for (size_t i = 0; i < sizeof bad_requests / sizeof *bad_requests; i++) {
        const struct bad_request *bad = &bad_requests[i];
        hf_lease *lease = NULL;
        hf_op *op = NULL;
        hf_error err;
        hf_status status;

        if (!has(bad->caps))
            continue;
        status = hf_acquire(store, &bad->request, &lease, &err);
        if (status != HF_INVALID || !strstr(err.text, bad->field) || err.status != HF_INVALID)
            fprintf(stderr, "row %zu (%s): %s: %s\n", i, bad->field, hf_status_name(status),
                    err.text);
        EXPECT(HF_INVALID, status);
        CHECK(err.status == HF_INVALID);
        CHECK(strstr(err.text, bad->field) != NULL);
        CHECK(lease == NULL);
        EXPECT(HF_INVALID, hf_acquire(store, &bad->request, &lease, NULL));
        EXPECT(HF_INVALID, hf_acquire_async(store, &bad->request, NULL, NULL, &op, &err));
        CHECK(op == NULL);
        EXPECT(HF_OK, probe(store, &good)); /* nothing was acquired */
    }
    close_store(store);
}

static void missing_arguments(void **state)
{
    hf_store *store = open_store(), *none = NULL;
    hf_acquire_request good = mutex_request("good");
    hf_lease *lease = NULL;
    hf_view *view = NULL;

    (void)state;
    EXPECT(HF_INVALID, hf_open(contract_url(), NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_acquire(store, NULL, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_acquire(store, &good, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_acquire(NULL, &good, &lease, &contract_error));
    EXPECT(HF_INVALID, hf_acquire_async(store, &good, NULL, NULL, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_store_get(store, NULL));
    EXPECT(HF_INVALID, hf_store_get(store, &(hf_store_info){ .size = 1 }));
    EXPECT(HF_INVALID, hf_cancel_open(NULL));
    if (has(HF_CAP_INSPECT)) {
        EXPECT(HF_INVALID,
               hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, NULL, &contract_error));
        EXPECT(HF_INVALID, hf_store_inspect(store, NULL, 0, 0, &view, &contract_error));
        EXPECT(HF_INVALID, hf_store_inspect(store, "x", 1, 1u << 7, &view, &contract_error));
        EXPECT(HF_INVALID,
               hf_store_inspect(store, long_name, HF_NAME_MAX + 1, 0, &view, &contract_error));
    }
    if (has(HF_CAP_BREAK)) {
        EXPECT(HF_INVALID, hf_lease_break(store, NULL, HF_CSTRING, 1, &contract_error));
        EXPECT(HF_INVALID, hf_lease_break(store, long_name, HF_NAME_MAX + 1, 1, &contract_error));
    }
    if (has(HF_CAP_WATCH)) {
        uint64_t seq = 0;

        EXPECT(HF_INVALID, hf_store_wait(store, NULL, 1, NULL, &contract_error));
        EXPECT(HF_INVALID, hf_store_wait(store, &seq, -2, NULL, &contract_error));
        CHECK(strstr(contract_error.text, "not HF_FOREVER")); /* which is negative too */
    }
    EXPECT(HF_INVALID, hf_store_check(store, NULL, &contract_error));
    CHECK(lease == NULL && view == NULL && none == NULL);
    close_store(store);
}

static void bad_options(void **state)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    (void)state;
    options.open_wait_ms = -1;
    EXPECT(HF_INVALID, hf_open(contract_url(), &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "open_wait_ms") != NULL);
    options.open_wait_ms = HF_DURATION_MAX_MS + 1;
    EXPECT(HF_INVALID, hf_open(contract_url(), &options, &store, &contract_error));
    options.open_wait_ms = 0;
    options.flags = (uint64_t)HF_OPEN_FLAG_NO_WAIT << 1;
    EXPECT(HF_INVALID, hf_open(contract_url(), &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "flags") != NULL);
    options.flags = HF_OPEN_FLAG_ONCE | HF_OPEN_FLAG_NO_WAIT;
    EXPECT(HF_INVALID, hf_open(contract_url(), &options, &store, &contract_error));
    options.flags = 0;
    options.size = 3;
    EXPECT(HF_INVALID, hf_open(contract_url(), &options, &store, &contract_error));
    CHECK(strstr(contract_error.text, "size") != NULL);
    CHECK(store == NULL);
}

/* It serves as any other, also without a server that could be waited for; or the engine says that it must wait. */
static void opened_without_waiting(void **state)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_acquire_request request = mutex_request("no wait");
    hf_store *store = NULL;
    hf_status status;

    (void)state;
    request.wait_ms = LIMIT_MS;
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    status = hf_open(contract_url(), &options, &store, &contract_error);
    if (status == HF_UNSUPPORTED) {
        CHECK(!store && strstr(contract_error.text, "opening"));
        return;
    }
    EXPECT(HF_OK, status);
    give(take(store, &request));
    close_store(store);
}

static void bad_urls(void **state)
{
    char url[600];
    hf_store *store = NULL;

    (void)state;
    EXPECT(HF_CONFIG, hf_open("no-such-engine:x", NULL, &store, &contract_error));
    CHECK(strstr(contract_error.text, "no-such-engine") != NULL);
    EXPECT(HF_CONFIG, hf_open("no colon", NULL, &store, &contract_error));
    EXPECT(HF_CONFIG, hf_open(":", NULL, &store, &contract_error));
    EXPECT(HF_CONFIG, hf_open("../../evil:x", NULL, &store, &contract_error));

    snprintf(url, sizeof url, "%s%cno-such-thing=1", contract_url(),
             strchr(contract_url(), '?') ? '&' : '?');
    EXPECT(HF_CONFIG, hf_open(url, NULL, &store, &contract_error));
    CHECK(strstr(contract_error.text, "no-such-thing") != NULL);
    snprintf(url + 500, 32, "%zu", strlen(contract_url()) + 1); /* the byte is named too */
    CHECK(strstr(contract_error.text, url + 500) != NULL);
    CHECK(store == NULL);
}

/* A struct of an older or a newer program: what is known is used, what is not must be zero. */
static void sizes_of_other_versions(void **state)
{
    hf_store *store = open_store();
    struct {
        hf_acquire_request request;
        uint64_t later[4];
    } newer = { .request = { .size = sizeof newer, .name = "size", .name_len = HF_CSTRING } };
    hf_lease *lease = NULL;
    hf_store_info info = HF_STORE_INFO_INIT;

    (void)state;
    EXPECT(HF_OK, hf_acquire(store, &newer.request, &lease, &contract_error));
    give(lease);
    newer.later[1] = 1;
    lease = NULL;
    EXPECT(HF_INVALID, hf_acquire(store, &newer.request, &lease, &contract_error));
    CHECK(lease == NULL);
    info.size = offsetof(hf_store_info, min_ttl_ms);
    info.min_ttl_ms = -77;
    EXPECT(HF_OK, hf_store_get(store, &info));
    CHECK(info.min_ttl_ms == -77 && info.engine != NULL);
    close_store(store);
}

int contract_input(void)
{
    const struct CMUnitTest cases[] = {
        CASE(each_field), CASE(missing_arguments),      CASE(bad_options),
        CASE(bad_urls),   CASE(opened_without_waiting), CASE(sizes_of_other_versions),
    };

    return cmocka_run_group_tests_name("input", cases, NULL, NULL);
}
