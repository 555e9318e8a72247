/* SPDX-License-Identifier: MIT */
/*
 * The decisions of rate limits, without clock, heap or I/O. One decision takes the bytes of a
 * limit's state and the store's time, and gives an answer and the bytes that replace them. An
 * engine that decides by itself (engine/redis/scripts/limit.lua) must decide the same; a test
 * compares answers and bytes.
 *
 * A request that may wait *reserves*: it is served at the first moment `at` that is no earlier than
 * that of any request before it and at which it fits, and is counted there at once. So nobody
 * polls, and waiters are served in the order in which they asked. A request that would be too late
 * is refused at once and reserves nothing.
 *
 *   FIXED    `rate` permits in a window of `period`, which begins with the first request after the
 *            end of the one before it. Reserved windows follow each other without a gap.
 *   SLIDING  never more than `rate` in any half-open interval of length `period`: a log of moments
 *            and permits. Only those within a period before the last moment count for whoever
 *            comes, so `rate` lines are enough, however many have reserved.
 *   BUCKET   `burst` permits at most, `rate` of them come back in a period. Counted in parts of a
 *            permit of which a whole number comes each microsecond, so that nothing drifts; only the
 *            moment that is told is rounded up to a microsecond.
 *
 * Time is that of the store, in microseconds, and never goes back: the state knows the latest time
 * that it was changed at, and an earlier reading counts as that one. So a clock that is set back
 * may stop a limit for that time, but for HFI_LIMIT_HOLD_US at most: beyond that all times in the
 * state move back by the same amount, as though no time had passed. Either way the state's time
 * runs no faster than real time, so two moments of the state are at least as far apart in real
 * time. (A clock that jumps forward ends windows early: nothing here can see that.)
 *
 * When a waiter is cancelled before its moment, its permits are given back in these cases. SLIDING:
 * always, since the remaining grants keep their moments. FIXED: if its window is the last one
 * reserved. BUCKET: if nobody has reserved after it; otherwise the later ones would keep their
 * moments, and the refill until then might exceed `burst`. In all other cases, and when the waiter
 * dies, its permits are lost.
 */
#ifndef HFI_LIMIT_PLAN_H
#define HFI_LIMIT_PLAN_H

#include "engine/native.h"

#define HFI_LIMIT_HOLD_US     INT64_C(10000000)
#define HFI_LIMIT_WAIT_MAX_US (HF_DURATION_MAX_MS * 1000)

/* The bytes of a state: little-endian, 8 bytes each, but for what is said.
 *
 *   head     "L1", one of "fsb", rate, period, burst: whose state it is
 *   seen     the store's time when it was written, or a later one
 *   over     from then on it is as though there was no state: the limit is idle
 *   FIXED    used, before: permits of the last window (which ends at `over`), and of the one before
 *   SLIDING  gone: the latest moment that has left the log; total: permits in the log;
 *            then the log, oldest first: moment, permits (4 bytes)
 *   BUCKET   level, in parts; negative: reserved
 */
#define HFI_LIMIT_SEEN     27
#define HFI_LIMIT_OVER     35
#define HFI_LIMIT_MORE     43
#define HFI_LIMIT_LOG      59
#define HFI_LIMIT_LINE     12
#define HFI_LIMIT_ROOM_MAX (HFI_LIMIT_LOG + HFI_LIMIT_LINE * (HF_LIMIT_SLIDING_MAX + 1))

/* Check and compute the rule of a limit. Returns NULL, or a text that says what is wrong: "rate:
 * ...". */
const char *hfi_limit_rule(hf_limit_algorithm algorithm, int64_t rate, int64_t period_us,
                           int64_t burst, struct hfi_limit_rule *ret_rule);
/* The most permits that can be taken at once. */
int64_t hfi_limit_most(const struct hfi_limit_rule *rule);
/* The longest wait that can be computed without overflow. */
int64_t hfi_limit_wait_max(const struct hfi_limit_rule *rule);
/* Room for the bytes of the state after one more decision. */
size_t hfi_limit_room(const struct hfi_limit_rule *rule);

/* Decide. `state` NULL: there is none. `ret_state` has hfi_limit_room(); it is not `state`. */
void hfi_limit_decide(const struct hfi_limit_rule *rule, const struct hfi_limit_ask *ask,
                      int64_t now_us, const unsigned char *state, size_t len,
                      unsigned char *ret_state, struct hfi_limit_answer *ret_answer);

#endif
