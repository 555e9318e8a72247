/* SPDX-License-Identifier: MIT */
/*
 * An ensemble of three, of which one is cut off from the others, but not from its clients. They are told
 * before the others let anybody in.
 */
#include "zk_bed.h"

/*
 * A follower that is cut off from its leader answers reads and pings for another sync_limit ticks, much
 * longer than our session lives for the leader. Who holds by it must not believe it.
 */
static bool is_told_in_time(void)
{
    struct zk_server *follower = ensemble_follower(ensemble), *leader = ensemble_leader(ensemble);
    hf_store *store = open_at(zk_url(follower->port, root(SHORT)));
    hf_store *other = open_at(zk_url(leader->port, root(SHORT)));
    hf_acquire_request request = mutex_request("cut"), wait = waiting_request("cut");
    hf_lease *lease = take(store, &request), *next;
    bool tried;

    nap_ms(SHORT_MS);                               /* renewed a few times */
    tried = hf_lease_state(lease) == HF_STATE_HELD; /* else this machine was too slow */
    ensemble_cut(follower, true);
    next = take(other, &wait);
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(hf_lease_token(next) > hf_lease_token(lease));
    ensemble_cut(follower, false);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    (void)hf_release(next, &contract_error);
    close_hard(other);
    close_hard(store);
    return tried;
}

static void minority_is_cut_off(void **state)
{
    (void)state;
    CHECK(is_told_in_time() || is_told_in_time() || is_told_in_time());
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(minority_is_cut_off) };

    bed_begin(3, 10, true); /* a follower goes on for five seconds */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
