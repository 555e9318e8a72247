/* SPDX-License-Identifier: MIT */
/*
 * The guard: a resource that refuses old tokens. That claiming, reading and writing are one step
 * each is shown without any lock: threads draw tokens and race, and every write that was accepted
 * must have counted on what the one before it left.
 */
#include "both.h"

#include "contract.h"
#include "holdfast/primitives.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_END (UINT64_C(1) << 53)
#define RACERS    4
#define DRAWS     60 /* tokens drawn by each */
#define HOLDERS   3
#define TURNS     10

static hf_status claim(hf_store *store, uint64_t token, char **ret_text)
{
    void *bytes = NULL;
    size_t len = 0;
    hf_status status =
        hf_guard_claim(store, "thing", HF_CSTRING, token, &bytes, &len, &contract_error);

    if (status == HF_OK)
        CHECK(!bytes ? len == 0 : strlen(bytes) == len);
    *ret_text = bytes;
    return status;
}

static hf_status put(hf_store *store, uint64_t token, const char *text)
{
    return hf_guard_set(store, "thing", HF_CSTRING, token, text, strlen(text), &contract_error);
}

/* What is there, for a token that must be accepted. NULL: nothing was ever written. */
static void expect_text(hf_store *store, uint64_t token, const char *text)
{
    char *found;

    EXPECT(HF_OK, claim(store, token, &found));
    CHECK(text ? found && strcmp(found, text) == 0 : !found);
    hf_free(found);
}

static void needs_cells(void **state)
{
    hf_store *store = open_store();
    char *found = NULL;

    (void)state;
    EXPECT(has(HF_CAP_CELLS) ? HF_OK : HF_UNSUPPORTED, claim(store, 1, &found));
    EXPECT(has(HF_CAP_CELLS) ? HF_OK : HF_UNSUPPORTED, put(store, 1, "one"));
    close_store(store);
}

static void lower_tokens_are_refused(void **state)
{
    hf_store *store;
    char *found = NULL;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    expect_text(store, 5, NULL);
    EXPECT(HF_OK, put(store, 5, "five"));
    EXPECT(HF_OK, put(store, 5, "five again"));
    EXPECT(HF_FENCED, put(store, 4, "four"));
    CHECK(strstr(contract_error.text, "thing") && strchr(contract_error.text, '4'));
    EXPECT(HF_FENCED, claim(store, 4, &found));
    CHECK(!found);
    expect_text(store, 5, "five again");
    EXPECT(HF_OK, put(store, 9, "nine")); /* a write is a claim, too */
    EXPECT(HF_FENCED, put(store, 5, "five, late"));
    EXPECT(HF_FENCED, claim(store, 8, &found));
    close_store(store);

    store = open_store();
    EXPECT(HF_FENCED, put(store, 8, "eight, at another handle"));
    expect_text(store, TOKEN_END - 1, "nine");
    EXPECT(HF_FENCED, put(store, TOKEN_END - 2, "nearly"));
    close_store(store);
}

/* The rule "claim before reading" works only if a claim alone shuts older writers out. */
static void a_claim_shuts_older_writers_out(void **state)
{
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, put(store, 10, "by ten"));
    EXPECT(HF_OK, hf_guard_claim(store, "thing", 5, 11, NULL, NULL, &contract_error));
    EXPECT(HF_FENCED, put(store, 10, "by ten, late"));
    expect_text(store, 11, "by ten");
    EXPECT(HF_OK, put(store, 11, "by eleven"));
    expect_text(store, 11, "by eleven");
    close_store(store);
}

static void any_bytes(void **state)
{
    char *large, *found = NULL;
    hf_store *store;
    size_t len;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, put(store, 1, ""));
    expect_text(store, 2, ""); /* empty is not the same as never written */
    EXPECT(HF_OK, hf_guard_set(store, "thing", HF_CSTRING, 2, "a\0b", 3, &contract_error));
    EXPECT(HF_OK,
           hf_guard_claim(store, "thing", HF_CSTRING, 3, (void **)&found, &len, &contract_error));
    CHECK(len == 3 && memcmp(found, "a\0b", 4) == 0);
    hf_free(found);

    large = malloc(HF_GUARD_MAX + 1);
    memset(large, 0xfe, HF_GUARD_MAX + 1);
    EXPECT(HF_INVALID,
           hf_guard_set(store, "thing", HF_CSTRING, 3, large, HF_GUARD_MAX + 1, &contract_error));
    EXPECT(HF_OK,
           hf_guard_set(store, "thing", HF_CSTRING, 3, large, HF_GUARD_MAX, &contract_error));
    EXPECT(HF_OK,
           hf_guard_claim(store, "thing", HF_CSTRING, 4, (void **)&found, &len, &contract_error));
    CHECK(len == HF_GUARD_MAX && memcmp(found, large, len) == 0);
    hf_free(found);
    free(large);
    close_store(store);
}

static void bad_arguments_are_named(void **state)
{
    static const char name[HF_NAME_MAX + 1] = { 'x' };
    hf_store *store;
    char *found = NULL;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_INVALID, claim(store, 0, &found));
    CHECK(strncmp(contract_error.text, "token", 5) == 0);
    EXPECT(HF_INVALID, put(store, TOKEN_END, "x"));
    EXPECT(HF_INVALID, hf_guard_set(store, "thing", HF_CSTRING, 1, NULL, 1, &contract_error));
    CHECK(strncmp(contract_error.text, "bytes", 5) == 0);
    EXPECT(HF_INVALID, hf_guard_set(store, NULL, HF_CSTRING, 1, "x", 1, &contract_error));
    EXPECT(HF_INVALID, hf_guard_set(store, name, sizeof name, 1, "x", 1, &contract_error));
    EXPECT(HF_INVALID, hf_guard_set(NULL, "thing", HF_CSTRING, 1, "x", 1, &contract_error));
    hf_free(NULL);
    expect_text(store, 1, NULL); /* nothing of all this has been there */
    close_store(store);
}

/* ---- tokens of leases ------------------------------------------------------------------------------ */

static void fence_of(hf_store *store, const hf_acquire_request *request, hf_status want)
{
    uint64_t token = 0;
    hf_lease *lease = take(store, request);

    EXPECT(has(HF_CAP_TOKEN) ? want : HF_UNSUPPORTED,
           hf_lease_fence(lease, &token, &contract_error));
    CHECK(token == (has(HF_CAP_TOKEN) && want == HF_OK ? hf_lease_token(lease) : 0));
    give(lease);
    EXPECT(HF_INVALID, hf_lease_fence(lease, &token, &contract_error));
    CHECK(strstr(contract_error.text, "ended") != NULL);
}

static void shared_tokens_are_no_fence(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("mutex");

    (void)state;
    fence_of(store, &request, HF_OK);
    if (has(HF_CAP_SHARED)) {
        request = mutex_request("readers and a writer");
        request.kind = HF_KIND_SHARED;
        fence_of(store, &request, HF_UNSUPPORTED);
        request.kind = HF_KIND_EXCLUSIVE;
        fence_of(store, &request, HF_OK);
    }
    if (has(HF_CAP_SEMAPHORE)) {
        request = mutex_request("permits");
        request.kind = HF_KIND_SEMAPHORE;
        request.capacity = 2;
        fence_of(store, &request, HF_UNSUPPORTED);
        request.permits = 2; /* no other holder, unless the size is set meanwhile */
        fence_of(store, &request, has(HF_CAP_RESIZE) ? HF_UNSUPPORTED : HF_OK);
    }
    close_store(store);
}

static void a_lost_lease_has_no_fence(void **state)
{
    hf_acquire_request request = mutex_request("short");
    hf_store *store;
    hf_lease *lease;
    uint64_t token = 0;

    (void)state;
    NEEDS(HF_CAP_TTL | HF_CAP_TOKEN);
    store = open_store();
    request.ttl_ms = contract_info.min_ttl_ms;
    request.flags = HF_FLAG_NO_RENEW;
    lease = take_short(store, &request);
    await_lost(lease);
    EXPECT(HF_LOST, hf_lease_fence(lease, &token, &contract_error));
    CHECK(token == 0 && strstr(contract_error.text, "the lease is lost: ")); /* and why */
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* ---- one step --------------------------------------------------------------------------------------- */

struct race {
    _Atomic uint64_t drawn, written;
};

struct racer {
    struct race *race;
    hf_store *store;
    uint64_t refused;
    pthread_t thread;
};

/* Count one up under a token. false: refused. */
static bool count_up(hf_store *store, uint64_t token)
{
    char *found = NULL, text[32];
    hf_status status = claim(store, token, &found);

    if (status == HF_OK) {
        snprintf(text, sizeof text, "%llu", (found ? strtoull(found, NULL, 10) : 0) + 1);
        status = put(store, token, text);
    }
    hf_free(found);
    CHECK(status == HF_OK || status == HF_FENCED);
    return status == HF_OK;
}

static void *race(void *arg)
{
    struct racer *racer = arg;

    for (int i = 0; i < DRAWS; i++) {
        if (count_up(racer->store, atomic_fetch_add(&racer->race->drawn, 1) + 1))
            atomic_fetch_add(&racer->race->written, 1);
        else
            racer->refused++;
    }
    return NULL;
}

static void no_update_is_lost_without_any_lock(void **state)
{
    struct race all = { 0 };
    struct racer racers[RACERS];
    char text[32];
    uint64_t refused = 0;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){ .race = &all, .store = open_store() };
        CHECK(pthread_create(&racers[i].thread, NULL, race, &racers[i]) == 0);
    }
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        refused += racers[i].refused;
    }
    CHECK(all.written + refused == (uint64_t)RACERS * DRAWS);
    snprintf(text, sizeof text, "%" PRIu64, all.written);
    expect_text(racers[0].store, RACERS * DRAWS + 1, text);
    for (int i = 0; i < RACERS; i++)
        close_store(racers[i].store);
}

static void *hold_and_count(void *arg)
{
    struct racer *racer = arg;
    hf_acquire_request request = waiting_request("lock of the thing");

    for (int i = 0; i < TURNS; i++) {
        hf_lease *lease = take(racer->store, &request);
        uint64_t token;

        EXPECT(HF_OK, hf_lease_fence(lease, &token, &contract_error));
        CHECK(count_up(racer->store, token)); /* holders come in the order of their tokens */
        give(lease);
    }
    return NULL;
}

static void holders_are_accepted_in_turn(void **state)
{
    struct racer racers[HOLDERS];
    char text[32];

    (void)state;
    NEEDS(HF_CAP_CELLS | HF_CAP_TOKEN);
    for (int i = 0; i < HOLDERS; i++) {
        racers[i] = (struct racer){ .store = i == 1 ? racers[0].store : open_store() };
        CHECK(pthread_create(&racers[i].thread, NULL, hold_and_count, &racers[i]) == 0);
    }
    for (int i = 0; i < HOLDERS; i++)
        pthread_join(racers[i].thread, NULL);
    snprintf(text, sizeof text, "%d", HOLDERS * TURNS);
    expect_text(racers[0].store, TOKEN_END - 1, text);
    close_store(racers[0].store);
    close_store(racers[2].store);
}

int contract_guard(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(lower_tokens_are_refused),
        CASE(a_claim_shuts_older_writers_out),
        CASE(any_bytes),
        CASE(bad_arguments_are_named),
        CASE(shared_tokens_are_no_fence),
        CASE(a_lost_lease_has_no_fence),
        CASE(no_update_is_lost_without_any_lock),
        CASE(holders_are_accepted_in_turn),
    };

    return cmocka_run_group_tests_name("guard", cases, NULL, NULL);
}
