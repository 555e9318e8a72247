/* SPDX-License-Identifier: MIT */
/*
 * The server's clock jumps. The engine measures by the server's time alone, so a jump forward
 * ends leases before their time: that breaks exclusion, and nothing on one server can prevent it.
 * What is promised even then: the next holder's token is larger, and the old one is told as
 * soon as it asks. A jump back ends nothing early, tokens still grow, and a dead holder keeps nothing
 * for longer than its ttl.
 */
#include "redis_bed.h"

#define HOUR_MS (INT64_C(3600) * 1000)

static void forward(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), 60000), trying = mutex_request("n");
    hf_lease *lease = take(store, &request), *his;
    uint64_t token = hf_lease_token(lease);

    (void)state;
    EXPECT(HF_BUSY, probe(other, &trying));
    clock_jump_ms(server, HOUR_MS);
    his = take(other, &trying);
    CHECK(hf_lease_token(his) > token);
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    EXPECT(HF_OK, hf_renew(his, 0, &contract_error));
    give(his);
    close_store(store);
    close_store(other);
}

/* Not even its own waiters know better; they all get their turn, with tokens that grow. */
static void forward_and_back(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request waiting = waiting_request("n");
    uint64_t token = 0;

    (void)state;
    for (int i = 0; i < 6; i++) {
        hf_lease *lease = take(i % 2 ? store : other, &waiting);
        struct attempt attempt;

        CHECK(hf_lease_token(lease) > token);
        token = hf_lease_token(lease);
        attempt_start(&attempt, i % 2 ? other : store, &waiting);
        AWAIT(count_waiters(store, "n") == 1);
        clock_jump_ms(server, i % 2 ? -HOUR_MS : HOUR_MS);
        hf_release(lease, NULL);
        EXPECT(HF_OK, attempt_join(&attempt));
        CHECK(hf_lease_token(attempt.lease) > token);
        token = hf_lease_token(attempt.lease);
        give(attempt.lease);
    }
    close_store(store);
    close_store(other);
}

static void back(void **state)
{
    hf_store *store = open_direct(), *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), 3000), trying = mutex_request("n");
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);
    int64_t until_ms = now_ms() + 4000;

    (void)state;
    clock_jump_ms(server, -HOUR_MS);
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    while (now_ms() < until_ms) {
        CHECK(probe(other, &trying) == HF_BUSY || hf_lease_state(lease) == HF_STATE_LOST);
        nap_ms(50);
    }
    give(lease);
    CHECK(gets_free(other, "n", token) > token);
    close_store(store);
    close_store(other);
}

/* The holder is cut off for good, and its lease has as long as the server's clock went back more by the
 * clock. A name is free again when its holder may not use it any more: for one that asks now and
 * then, for one that waits, and for one that waits behind a dead waiter. */
static void back_after_a_death(void **state)
{
    static const char *const names[] = { "tried", "waited", "queued", "many" };
    hf_store *store = open_through(), *gone = open_through(), *other = open_direct();
    hf_acquire_request trying, waiting = waiting_request("waited"), queued;
    hf_lease *lease;
    struct attempt attempt;
    uint64_t tokens[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        hf_acquire_request request =
            i < 3 ? mutex_request(names[i]) : with_ttl(semaphore_request(names[i], 2), 1000);

        request.ttl_ms = 1000;
        tokens[i] = hf_lease_token(take(store, &request));
    }
    queued = with_ttl(waiting_request("queued"), 1000);
    attempt_start(&attempt, gone, &queued);
    AWAIT(count_waiters(other, "queued") == 1);
    proxy_refuse(proxy, true);
    proxy_cut(proxy);
    clock_jump_ms(server, -HOUR_MS);
    trying = mutex_request("tried");
    AWAIT(probe(other, &trying) == HF_OK);
    lease = take(other, &waiting);
    CHECK(hf_lease_token(lease) > tokens[1]);
    give(lease);
    trying = semaphore_request("many", 2);
    trying.permits = 2;
    AWAIT(probe(other, &trying) == HF_OK);
    waiting = waiting_request("queued");
    lease = take(other, &waiting);
    CHECK(hf_lease_token(lease) > tokens[2]);
    give(lease);
    proxy_heal(proxy);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_hard(store);
    close_hard(gone);
    close_store(other);
}

/* A name that was idle for long has forgotten its last token, but not that time went on. */
static void idle_names(void **state)
{
    hf_store *store = open_direct();
    uint64_t token = gets_free(store, "n", 0);

    (void)state;
    clock_jump_ms(server, 25 * HOUR_MS);
    AWAIT(server_do(server, "DBSIZE") == 0);
    gets_free(store, "n", token);
    close_store(store);
}

/* ---- tokens follow the clock, and do not run ahead of it ------------------------------------------ */

struct hammer {
    hf_store *store;
    int64_t until_ms;
    uint64_t highest;
    pthread_t thread;
};

static void *hammer_run(void *arg)
{
    struct hammer *hammer = arg;
    hf_acquire_request request = waiting_request("n");

    while (now_ms() < hammer->until_ms) {
        hf_lease *lease = take(hammer->store, &request);

        hammer->highest = hf_lease_token(lease);
        give(lease);
    }
    return NULL;
}

/* Two processes' worth of threads want one name, with blocks of 1001 tokens for each that goes to the store. Then the
 * server loses everything: what it gives next is larger than all before. */
static void tokens_after_a_loss(void **state)
{
    hf_store *stores[2] = { open_at(server_url(server, "?cohort=1000&cohort_time=0s")),
                            open_at(server_url(server, "?cohort=1000&cohort_time=0s")) };
    struct hammer hammers[4];
    uint64_t highest = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        hammers[i] = (struct hammer){ .store = stores[i % 2], .until_ms = now_ms() + 2000 };
        pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(hammers[i].thread, NULL);
        if (hammers[i].highest > highest)
            highest = hammers[i].highest;
    }
    server_do(server, "FLUSHALL");
    nap_ms(2); /* more than tokens may be ahead of the clock */
    (void)gets_free(stores[0], "n", highest);
    close_store(stores[0]);
    close_store(stores[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CLOCK(forward),    TEST_CLOCK(forward_and_back),
        TEST_CLOCK(back),       TEST_CLOCK(back_after_a_death),
        TEST_CLOCK(idle_names), TEST(tokens_after_a_loss),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
