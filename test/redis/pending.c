/* SPDX-License-Identifier: MIT */
/*
 * Cases that fail today, each with the bug's number in the notes: built, so that they stay
 * alive, but not registered. A fix moves its case to where it belongs.
 */
#include "bed.h"

#define HOUR_MS (INT64_C(3600) * 1000)

/* Bug 1. A renewal that cannot be done while time is left is said: AT_RISK comes before LOST. */
static void risk_is_told(void **state)
{
    hf_request request = with_ttl(mutex_request("n"), 6000);
    hf_store *store = open_direct();
    hf_lease *lease = take(store, &request);
    hf_state now = HF_STATE_HELD;

    (void)state;
    server_kill(server);
    while (now == HF_STATE_HELD) {
        nap_ms(5);
        now = hf_lease_state(lease);
    }
    CHECK(now == HF_STATE_AT_RISK);
    hf_release(lease, NULL);
    close_hard(store);
}

/* Bug 2. A holder that died before the clock went back does not keep the name for an hour. */
static void back_after_a_death(void **state)
{
    hf_store *other = open_direct();
    hf_request request = with_ttl(mutex_request("n"), 1000);
    struct peer holder;
    uint64_t token;

    (void)state;
    peer_start(&holder);
    peer_begin(&holder, 0, &request);
    EXPECT(HF_OK, peer_join(&holder, 0, &token));
    peer_kill(&holder);
    clock_jump_ms(-HOUR_MS);
    gets_free(other, "n", token);
    close_store(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(risk_is_told), TEST_CLOCK(back_after_a_death) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
