/* SPDX-License-Identifier: MIT */
/* The rules of hand-over. Pure; handover.h has the arguments. */
#include "engine/kit/handover.h"

#include "util/error.h"

#define MARGIN_PART 50 /* of the grant: 2 % */
#define MARGIN_MS   50

bool hfi_waiter_may(enum hfi_waiter_state from, enum hfi_waiter_state to)
{
    static const bool may[HFI_WAITER_STATES][HFI_WAITER_STATES] = {
        [HFI_WAITER_ASKING] = { [HFI_WAITER_ASKING] = true, /* again, under another number */
                                [HFI_WAITER_QUEUED] = true,
                                [HFI_WAITER_RESTING] = true,
                                [HFI_WAITER_CANCELLING] = true,
                                [HFI_WAITER_CONFIRMING] = true },
        [HFI_WAITER_QUEUED] = { [HFI_WAITER_ASKING] = true,
                                [HFI_WAITER_QUEUED] = true, /* a heartbeat was answered */
                                [HFI_WAITER_RESTING] = true,
                                [HFI_WAITER_CANCELLING] = true,
                                [HFI_WAITER_CONFIRMING] = true },
        [HFI_WAITER_RESTING] = { [HFI_WAITER_ASKING] = true, [HFI_WAITER_CANCELLING] = true },
        [HFI_WAITER_CANCELLING] = { [HFI_WAITER_CONFIRMING] = true },
        [HFI_WAITER_CONFIRMING] = { [HFI_WAITER_ASKING] = true,
                                    [HFI_WAITER_RESTING] = true,
                                    [HFI_WAITER_CANCELLING] = true },
    };

    return may[from][to];
}

enum hfi_waiter_answer hfi_waiter_answered(enum hfi_waiter_state state, char letter)
{
    if (letter == 'G' && state <= HFI_WAITER_CANCELLING && state != HFI_WAITER_RESTING)
        return HFI_ANSWER_GRANTED;
    switch (state) {
    case HFI_WAITER_ASKING:
        return letter == 'Q'   ? HFI_ANSWER_QUEUED
               : letter == 'B' ? HFI_ANSWER_BUSY
               : letter == 'M' ? HFI_ANSWER_MISMATCH
               : letter == 'F' ? HFI_ANSWER_FULL
               : letter == 'N' ? HFI_ANSWER_FORGOTTEN /* what it would replace is not there */
                               : HFI_ANSWER_ODD;
    case HFI_WAITER_QUEUED:
        return letter == 'Q'   ? HFI_ANSWER_QUEUED
               : letter == 'N' ? HFI_ANSWER_FORGOTTEN
                               : HFI_ANSWER_ODD;
    case HFI_WAITER_CANCELLING:
        return letter == 'C' || letter == 'N' ? HFI_ANSWER_LEFT : HFI_ANSWER_ODD;
    default:
        return HFI_ANSWER_ODD;
    }
}

int64_t hfi_window_ms(int64_t ttl_ms, int64_t least_ms, int64_t most_ms)
{
    int64_t window_ms = ttl_ms < least_ms ? least_ms : ttl_ms;

    return window_ms > most_ms ? most_ms : window_ms;
}

bool hfi_grant_is_stale(int64_t left_ms, int64_t lasts_ms)
{
    return left_ms <= lasts_ms / 3;
}

static int64_t margin_ms(int64_t lasts_ms)
{
    return lasts_ms / MARGIN_PART + MARGIN_MS;
}

bool hfi_grant_covers(int64_t left_ms, int64_t lasts_ms, int64_t min_valid_ms)
{
    return min_valid_ms <= 0 || left_ms - margin_ms(lasts_ms) >= min_valid_ms;
}

bool hfi_grant_needs_renewal(int64_t left_ms, int64_t lasts_ms, int64_t ttl_ms,
                             int64_t min_valid_ms)
{
    if (left_ms + margin_ms(ttl_ms) >= ttl_ms)
        return false;
    if (hfi_grant_is_stale(left_ms, lasts_ms))
        return true;
    return !hfi_grant_covers(left_ms, lasts_ms, min_valid_ms) &&
           min_valid_ms <= ttl_ms - ttl_ms / 100;
}

enum hfi_message hfi_message_judge(enum hfi_waiter_state state, int64_t heard_ms, uint64_t floor,
                                   uint64_t token, int64_t window_ms, int64_t now_ms)
{
    if ((state != HFI_WAITER_ASKING && state != HFI_WAITER_QUEUED) || token <= floor)
        return HFI_MESSAGE_IGNORE;
    if (!hfi_grant_is_stale(heard_ms + window_ms - now_ms, window_ms))
        return HFI_MESSAGE_GRANT;
    return state == HFI_WAITER_QUEUED ? HFI_MESSAGE_RECHECK : HFI_MESSAGE_IGNORE;
}
