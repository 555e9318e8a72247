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
static void minority_is_cut_off(void **state)
{
    struct zk_server *follower = ensemble_follower(ensemble), *leader = ensemble_leader(ensemble);
    hf_store *store = open_at(zk_url(follower->port, root(TIMEOUT)));
    hf_store *other = open_at(zk_url(leader->port, root(TIMEOUT)));
    hf_request request = mutex_request("cut"), wait = waiting_request("cut");
    hf_lease *lease = take(store, &request), *next;
    hf_state seen;

    (void)state;
    nap_ms(TIMEOUT_MS); /* renewed a few times */
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    ensemble_cut(follower, true);
    next = take(other, &wait);
    seen = hf_lease_state(lease);
    CHECK(seen == HF_STATE_LOST);
    CHECK(hf_token(next) > hf_token(lease));
    /* It was the follower's answers that must not be believed: it still gave some. */
    CHECK(zk_srvr(follower, "Received: ") > 0);
    ensemble_cut(follower, false);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(next);
    gets_free(store, "cut", hf_token(next));
    close_store(other);
    close_store(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(minority_is_cut_off) };

    bed_begin(3, 10, true); /* a follower goes on for five seconds */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
