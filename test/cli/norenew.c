/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the command by lost.bats: a store that no renewal reaches any
 * more. What is left of a lease only shrinks, from the value of HOLDFAST_TEST_VALID_MS at
 * the first question.
 */
#include "holdfast/holdfast.h"

#include "util/clock.h"

#include <stdlib.h>

int64_t hf_remaining_ms(hf_lease *lease)
{
    static int64_t end_ms;
    int64_t now_ms = hfi_now_ms();

    (void)lease;
    if (end_ms == 0)
        end_ms = now_ms + atoll(getenv("HOLDFAST_TEST_VALID_MS"));
    return end_ms > now_ms ? end_ms - now_ms : 0;
}
