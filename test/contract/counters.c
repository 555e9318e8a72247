/* SPDX-License-Identifier: MIT */
/*
 * Counters: every call counts once, even with concurrent callers; the limits of 64 bits are kept;
 * and a refused call changes nothing.
 */
#include "both.h"

#include "peer.h"

#include <stdio.h>
#include <string.h>

#define THREADS 4
#define PEERS   2
#define COUNTS  40 /* each adds so often */

static int64_t value_of(hf_store *store, const char *name)
{
    int64_t value = 7777;

    EXPECT(HF_OK, hf_counter_get(store, name, HF_CSTRING, &value, &contract_error));
    return value;
}

static int64_t plus(hf_store *store, const char *name, int64_t delta)
{
    int64_t value = 7777;

    EXPECT(HF_OK, hf_counter_add(store, name, HF_CSTRING, delta, &value, &contract_error));
    return value;
}

static void needs_cells(void **state)
{
    hf_status want = has(HF_CAP_CELLS) ? HF_OK : HF_UNSUPPORTED;
    hf_store *store = open_store();
    int64_t value;

    (void)state;
    EXPECT(want, hf_counter_add(store, "n", HF_CSTRING, 1, &value, &contract_error));
    EXPECT(want, hf_counter_get(store, "n", HF_CSTRING, &value, &contract_error));
    EXPECT(want, hf_counter_set(store, "n", HF_CSTRING, 1, &contract_error));
    EXPECT(want, hf_counter_swap(store, "n", HF_CSTRING, 1, 2, &value, &contract_error));
    EXPECT(want, hf_counter_delete(store, "n", HF_CSTRING, &contract_error));
    close_store(store);
}

static void counts(void **state)
{
    hf_store *store, *other;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    other = open_store();
    CHECK(value_of(store, "n") == 0);
    CHECK(plus(store, "n", 0) == 0);
    CHECK(plus(store, "n", 5) == 5);
    CHECK(plus(other, "n", -7) == -2);
    CHECK(plus(store, "n", -1) == -3 && value_of(other, "n") == -3);
    CHECK(value_of(store, "m") == 0);
    EXPECT(HF_OK, hf_counter_add(store, "n", 1, 4, NULL, &contract_error));
    CHECK(value_of(store, "n") == 1);
    EXPECT(HF_OK, hf_counter_set(store, "n", HF_CSTRING, -12, &contract_error));
    CHECK(value_of(other, "n") == -12);
    EXPECT(HF_OK, hf_counter_delete(store, "n", HF_CSTRING, &contract_error));
    EXPECT(HF_OK, hf_counter_delete(store, "n", HF_CSTRING, &contract_error));
    CHECK(value_of(other, "n") == 0);
    CHECK(plus(other, "n", 1) == 1);
    close_store(other);
    close_store(store);
}

static void sets_if(void **state)
{
    hf_store *store;
    int64_t now = 7777;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_CHANGED, hf_counter_swap(store, "n", HF_CSTRING, 1, 2, &now, &contract_error));
    CHECK(now == 0 && strstr(contract_error.text, "it is 0, and not 1"));
    EXPECT(HF_OK,
           hf_counter_swap(store, "n", HF_CSTRING, 0, -5, &now, &contract_error)); /* none is 0 */
    CHECK(now == -5 && value_of(store, "n") == -5);
    EXPECT(HF_CHANGED, hf_counter_swap(store, "n", HF_CSTRING, 5, 9, &now, &contract_error));
    CHECK(now == -5 && value_of(store, "n") == -5);
    EXPECT(HF_OK, hf_counter_swap(store, "n", HF_CSTRING, -5, INT64_MAX, NULL, &contract_error));
    EXPECT(HF_CHANGED,
           hf_counter_swap(store, "n", HF_CSTRING, INT64_MAX - 1, 1, &now, &contract_error));
    CHECK(now == INT64_MAX); /* no double could tell these two apart */
    EXPECT(HF_OK,
           hf_counter_swap(store, "n", HF_CSTRING, INT64_MAX, INT64_MIN, &now, &contract_error));
    CHECK(now == INT64_MIN && value_of(store, "n") == INT64_MIN);
    close_store(store);
}

static void refused_at(hf_store *store, int64_t at, int64_t delta)
{
    int64_t value = 7777;

    EXPECT(HF_OVERFLOW, hf_counter_add(store, "n", HF_CSTRING, delta, &value, &contract_error));
    CHECK(value == 7777 && value_of(store, "n") == at);
}

static void limits_are_limits(void **state)
{
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    CHECK(plus(store, "n", INT64_MAX) == INT64_MAX);
    refused_at(store, INT64_MAX, 1);
    refused_at(store, INT64_MAX, INT64_MAX);
    CHECK(plus(store, "n", INT64_MIN) == -1);
    CHECK(plus(store, "n", -INT64_MAX) == INT64_MIN);
    refused_at(store, INT64_MIN, -1);
    refused_at(store, INT64_MIN, INT64_MIN);
    CHECK(plus(store, "n", INT64_MAX) == -1);
    close_store(store);
}

static void other_kinds_of_cells(void **state)
{
    int64_t value = 7777;
    hf_store *store;
    void *bytes;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_OK, hf_guard_set(store, "thing", HF_CSTRING, 1, "5", 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_add(store, "thing", HF_CSTRING, 1, &value, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_get(store, "thing", HF_CSTRING, &value, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_set(store, "thing", HF_CSTRING, 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_swap(store, "thing", HF_CSTRING, 0, 1, &value, &contract_error));
    EXPECT(HF_MISMATCH, hf_counter_delete(store, "thing", HF_CSTRING, &contract_error));
    CHECK(value == 7777);
    EXPECT(HF_OK, hf_guard_claim(store, "thing", HF_CSTRING, 1, &bytes, NULL, &contract_error));
    CHECK(strcmp(bytes, "5") == 0);
    hf_free(bytes);

    CHECK(plus(store, "n", 3) == 3);
    EXPECT(HF_MISMATCH, hf_guard_set(store, "n", HF_CSTRING, 1, "x", 1, &contract_error));
    EXPECT(HF_MISMATCH, hf_guard_claim(store, "n", HF_CSTRING, 1, NULL, NULL, &contract_error));
    CHECK(value_of(store, "n") == 3);
    close_store(store);
}

static void bad_arguments_are_named(void **state)
{
    static const char name[HF_NAME_MAX + 1] = { 'x' };
    hf_store *store;
    int64_t value = 7777;

    (void)state;
    NEEDS(HF_CAP_CELLS);
    store = open_store();
    EXPECT(HF_INVALID, hf_counter_add(store, NULL, HF_CSTRING, 1, &value, &contract_error));
    CHECK(strncmp(contract_error.text, "name", 4) == 0);
    EXPECT(HF_INVALID, hf_counter_add(store, "", HF_CSTRING, 1, &value, &contract_error));
    EXPECT(HF_INVALID, hf_counter_set(store, name, sizeof name, 1, &contract_error));
    EXPECT(HF_INVALID, hf_counter_get(store, "n", HF_CSTRING, NULL, &contract_error));
    CHECK(strncmp(contract_error.text, "ret_value", 9) == 0);
    EXPECT(HF_INVALID, hf_counter_delete(NULL, "n", HF_CSTRING, &contract_error));
    CHECK(value == 7777);
    EXPECT(HF_OK, hf_counter_add(store, name, sizeof name - 1, 2, &value, &contract_error));
    CHECK(value == 2);
    close_store(store);
    EXPECT(HF_INVALID, hf_counter_add(store, "n", HF_CSTRING, 1, &value, &contract_error));
}

/* ---- many at once ------------------------------------------------------------------------- */

struct adder {
    hf_store *store;
    pthread_t thread;
};

/* Others may change it all the time: then nothing was done, and it is tried again. */
static void *add_many(void *arg)
{
    struct adder *adder = arg;
    hf_status status;

    for (int i = 0; i < COUNTS; i++) {
        do
            status = hf_counter_add(adder->store, "n", HF_CSTRING, i % 2 ? -1 : 3, NULL,
                                    &contract_error);
        while (status == HF_BUSY);
        EXPECT(HF_OK, status);
    }
    return NULL;
}

static void nothing_is_lost(void **state)
{
    struct adder adders[THREADS];
    struct peer peers[PEERS];

    (void)state;
    NEEDS(HF_CAP_CELLS);
    for (int i = 0; i < PEERS; i++)
        peer_start(&peers[i]);
    for (int i = 0; i < THREADS; i++)
        adders[i].store = i % 2 ? adders[0].store : open_store();
    for (int i = 0; i < PEERS; i++)
        peer_add(&peers[i], "n", COUNTS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(adders[i].thread, NULL);
    for (int i = 0; i < PEERS; i++)
        peer_idle(&peers[i]);
    CHECK(value_of(adders[0].store, "n") == THREADS * COUNTS + PEERS * COUNTS);
    for (int i = 0; i < PEERS; i++)
        peer_stop(&peers[i]);
    for (int i = 0; i < THREADS; i += 2)
        close_store(adders[i].store);
}

int contract_counters(void)
{
    const struct CMUnitTest cases[] = {
        CASE(needs_cells),
        CASE(counts),
        CASE(sets_if),
        CASE(limits_are_limits),
        CASE(other_kinds_of_cells),
        CASE(bad_arguments_are_named),
        CASE(nothing_is_lost),
    };

    return cmocka_run_group_tests_name("counters", cases, NULL, NULL);
}
