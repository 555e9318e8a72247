/* SPDX-License-Identifier: MIT */
/*
 * sync=N: a lease is worth as much as the replicas that have it. Fewer of them, and it is rolled
 * back and not returned; enough, and it survives the loss of the master.
 */
#include "redis_bed.h"
#include "set.h"

static struct sentinel_set *set;

static int setup_sentinel(void **state)
{
    (void)state;
    set = sentinel_start(2, 1000, NULL);
    aim(sentinel_url(set, ""));
    return 0;
}

static int teardown_sentinel(void **state)
{
    contract_teardown(state);
    sentinel_free(set);
    set = NULL;
    return 0;
}

/* With sync= no lease is returned that the replicas do not have. */
static void sync_is_kept(void **state)
{
    hf_store *store = open_at(sentinel_url(set, "?sync=2&sync_timeout=300ms"));
    hf_store *other = open_at(sentinel_url(set, ""));
    hf_acquire_request request = with_ttl(mutex_request("n"), 200000);
    hf_lease *lease = NULL;
    hf_status status;

    (void)state;
    give(take(store, &request));
    server_pause(set->servers[2]);
    status = hf_acquire(store, &request, &lease, &contract_error);
    if (status == HF_OK)
        fail_msg("granted with one replica instead of two");
    /* And what the master granted is rolled back, not left to its ttl. */
    AWAIT(count_holders(other, "n") == 0);
    gets_free(other, "n", 0);
    server_continue(set->servers[2]);
    AWAIT(hf_acquire(store, &request, &lease, &contract_error) == HF_OK);
    give(lease);
    close_store(store);
    close_store(other);
}

/* What was granted under sync= is still held after the master is gone. */
static void sync_survives(void **state)
{
    hf_store *store = open_at(sentinel_url(set, "?sync=2")),
             *other = open_at(sentinel_url(set, ""));
    hf_acquire_request request = with_ttl(mutex_request("n"), 30000), trying = mutex_request("n");
    hf_lease *lease = take(store, &request);
    struct server *old = sentinel_master(set);

    (void)state;
    server_kill(old);
    sentinel_await_other(set, old);
    AWAIT(probe(other, &trying) == HF_BUSY);
    /* One replica is left: a renewal that is not confirmed by two says so. */
    CHECK(hf_lease_state(lease) != HF_STATE_LOST);
    hf_release(lease, &contract_error);
    AWAIT(count_holders(other, "n") == 0);
    close_hard(store);
    close_store(other);
}

/* The master forgets its scripts. Then the answer that counts replicas must not come before that of the write it is about. */
static void sync_without_scripts(void **state)
{
    hf_store *store = open_at(sentinel_url(set, "?sync=2"));
    hf_acquire_request request = with_ttl(mutex_request("n"), 30000);
    struct server *master = sentinel_master(set);
    hf_lease *lease;

    (void)state;
    give(take(store, &request)); /* now the scripts are known to be there */
    for (int i = 0; i < 5; i++) {
        server_do(master, "SCRIPT FLUSH");
        lease = take(store, &request);
        server_do(master, "SCRIPT FLUSH");
        EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
        give(lease);
    }
    close_store(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sync_is_kept, setup_sentinel, teardown_sentinel),
        cmocka_unit_test_setup_teardown(sync_survives, setup_sentinel, teardown_sentinel),
        cmocka_unit_test_setup_teardown(sync_without_scripts, setup_sentinel, teardown_sentinel),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
