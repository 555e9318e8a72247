/* SPDX-License-Identifier: MIT */
/*
 * Cases that fail today, each with the bug's number in the notes: built, so that they stay
 * alive, but not registered. A fix moves its case to where it belongs.
 */
#include "redis_bed.h"

#define HOUR_MS (INT64_C(3600) * 1000)

/* Bug 2. A holder that died before the clock went back does not keep the name for an hour. */
static void back_after_a_death(void **state)
{
    hf_store *other = open_direct();
    hf_acquire_request request = with_ttl(mutex_request("n"), 1000);
    struct peer holder;
    uint64_t token;

    (void)state;
    peer_start(&holder);
    peer_begin(&holder, 0, &request);
    EXPECT(HF_OK, peer_join(&holder, 0, &token));
    peer_kill(&holder);
    clock_jump_ms(server, -HOUR_MS);
    gets_free(other, "n", token);
    close_store(other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST_CLOCK(back_after_a_death) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
