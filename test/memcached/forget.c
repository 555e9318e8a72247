/* SPDX-License-Identifier: MIT */
/*
 * A cache forgets: by eviction, by flush_all, by a restart, when it has no memory. A holder notices
 * at its next renewal, and never touches the lease of a later holder.
 */
#include "memcached_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY_RENEWAL "when it was renewed" /* of core's words */

/* A lease with a ttl of `ttl_ms`, with `loss` told. */
static hf_lease *held(struct loss *loss, int64_t ttl_ms)
{
    hf_acquire_request request = with_ttl(mutex_request("job"), ttl_ms);

    request.on_event = note_loss;
    request.on_event_arg = loss;
    return take(store, &request);
}

/* It is told by the renewal that comes by itself, and not by the end of its validity. */
static void is_noticed(hf_lease *lease, struct loss *loss)
{
    await_lost(lease);
    AWAIT(loss->calls == 1);
    if (!strstr(loss->why, BY_RENEWAL))
        fail_msg("lost for another reason: %s", loss->why);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
}

static void flush_is_noticed(void **state)
{
    struct loss loss = { .calls = 0 };
    hf_lease *lease = held(&loss, 6000), *next;
    hf_acquire_request trying = mutex_request("job");

    (void)state;
    assert_string_equal(cache_say(cache, "flush_all\r\n", 1), "OK\r\n");
    AWAIT(!is_there("job"));
    next = take(other, &trying); /* the red cell of the promise table */
    is_noticed(lease, &loss);
    EXPECT(HF_BUSY, probe(store, &trying));
    CHECK(hf_lease_state(next) == HF_STATE_HELD);
    EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    give(next);
}

/* Fill it with items of the size of a lease, until the lease has made room for them. */
static void evict(void)
{
    enum { BATCH = 500 };
    static char batch[BATCH * 400];
    size_t number = 0;

    while (is_there("job")) {
        size_t len = 0;

        CHECK(number < 2000000);
        for (int i = 0; i < BATCH; i++)
            len += (size_t)sprintf(batch + len, "ms filler-%zu 120 q\r\n%0120d\r\n", number++, 0);
        sprintf(batch + len, "mn\r\n");
        (void)cache_say(cache, batch, 1);
    }
    CHECK(cache_stat(cache, "evictions") > 0);
}

static void eviction_is_noticed(void **state)
{
    struct loss loss = { .calls = 0 };
    /* Long enough that it is not renewed, and so made young again, before it is evicted. */
    hf_lease *lease = held(&loss, 45000);
    hf_acquire_request trying = mutex_request("job");

    (void)state;
    evict();
    EXPECT(HF_OK, probe(other, &trying));
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    is_noticed(lease, &loss);
}

static int setup_small(void **state)
{
    static const char *const options[] = { "-m", "2", NULL };

    (void)state;
    return bed_setup_with(options);
}

/* With items of all sizes that leases may have, until there is no room for any of them. */
static void fill(void)
{
    enum { SMALLEST = 60, LARGEST = 400, STEP = 4, ROUND = (LARGEST - SMALLEST) / STEP };
    static char batch[ROUND * (LARGEST + 64)];
    unsigned refused = 0;

    for (size_t number = 0; refused < ROUND; number++) {
        const char *said;
        size_t len = 0;

        CHECK(number < 100000);
        for (int i = 0; i < ROUND; i++)
            len += (size_t)sprintf(batch + len, "ms filler-%zu-%d %d\r\n%0*d\r\n", number, i,
                                   SMALLEST + i * STEP, SMALLEST + i * STEP, 0);
        said = cache_say(cache, batch, ROUND);
        for (refused = 0; (said = strstr(said, "SERVER_ERROR")); said++)
            refused++;
    }
}

/* Without eviction a full server refuses; and what it could not renew it has deleted. */
static void full_without_eviction(void **state)
{
    struct loss loss = { .calls = 0 };
    hf_lease *lease = held(&loss, LONG_MS), *another = NULL;
    hf_acquire_request request = mutex_request("another");
    hf_status status;

    (void)state;
    fill();
    EXPECT(HF_FULL, hf_acquire(store, &request, &another, &contract_error));
    CHECK(strstr(contract_error.text, "out of memory") != NULL);
    status = hf_renew(lease, 0, &contract_error);
    EXPECT(HF_LOST, status);
    CHECK(!is_there("job"));
    is_noticed(lease, &loss);
}

static int setup_full(void **state)
{
    static const char *const options[] = { "-m", "2", "-M", NULL };

    (void)state;
    return bed_setup_with(options);
}

/*
 * A restarted server counts its CAS numbers from the beginning: the other's lease gets the number
 * that ours had. Nothing of ours may go by that number.
 */
static void restart_is_noticed(void **state)
{
    hf_acquire_request trying = with_ttl(mutex_request("job"), LONG_MS), request = trying;
    hf_lease *lease, *next;
    long long before, after;
    char item[200];

    (void)state;
    request.flags = HF_FLAG_NO_RENEW; /* or a renewal would notice first */
    lease = take(store, &request);
    snprintf(item, sizeof item, "%s", cache_say(cache, "mg hf:l:job c\r\n", 1));
    before = atoll(item + 4);
    cache_restart(cache);
    AWAIT(hf_acquire(other, &trying, &next, &contract_error) == HF_OK);
    for (;;) { /* until it has the number that ours had */
        snprintf(item, sizeof item, "%s", cache_say(cache, "mg hf:l:job c\r\n", 1));
        after = atoll(item + 4);
        CHECK(before > 0 && after > 0 && after <= before);
        if (after == before)
            break;
        EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    }
    settle();
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(is_there("job"));
    EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    give(next);
}

/* The same for a renewal; and core is told to look before the ttl says so. */
static void restart_is_doubted(void **state)
{
    struct loss loss = { .calls = 0 };
    hf_lease *lease = held(&loss, LONG_MS), *next = NULL;
    hf_acquire_request trying = mutex_request("job");

    (void)state;
    cache_restart(cache);
    AWAIT(hf_acquire(other, &trying, &next, &contract_error) == HF_OK);
    is_noticed(lease, &loss); /* long before a third of LONG_MS: by host->doubt */
    CHECK(is_there("job"));
    EXPECT(HF_OK, hf_renew(next, 0, &contract_error));
    give(next);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(flush_is_noticed),
        cmocka_unit_test_setup_teardown(eviction_is_noticed, setup_small, bed_teardown),
        cmocka_unit_test_setup_teardown(full_without_eviction, setup_full, bed_teardown),
        TEST(restart_is_noticed),
        TEST(restart_is_doubted),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
