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
 *
 * A rule can be *set*. It then counts instead of what requests say, and stays when the limit is idle. When it is unset, the first request
 * of the same algorithm that finds the limit in use brings its own rule. Either way the state is *carried over* from one rule to the
 * next:
 *
 *   All      What is idle under the old rule is idle under the new one. Moments that were told stand, and nobody is granted an earlier
 *            one after the change: the new rule begins behind the last of them.
 *   FIXED    The last window keeps its beginning and what was used in it; how long it is, and what it has room for, says the new rule.
 *   SLIDING  The log stays, and the new rule judges it. What had left the log because of its age is forgotten. What had left it to
 *            make room for reservations is not: nothing is granted within a new period of that.
 *   BUCKET   Permits that are missing stay missing, but no more than the new bucket has; they come back at the new rate. So a larger
 *            burst has more permits at once, and a smaller one fewer. If it is reserved, it is empty at the last moment that was told.
 *
 * After that, moments of FIXED and BUCKET that were told before the change cannot be given back: in the new measure they are worth
 * something else. For that the new rule begins a microsecond behind them, where none of them is recognised.
 */
#ifndef HFI_LIMIT_PLAN_H
#define HFI_LIMIT_PLAN_H

#include "engine/native.h"

#define HFI_LIMIT_HOLD_US     INT64_C(10000000)
#define HFI_LIMIT_WAIT_MAX_US (HF_DURATION_MAX_MS * 1000)

/* The bytes of a state: little-endian, 8 bytes each, but for what is said.
 *
 *   head     "L", how the rule came ('1' with requests, '2' it was set, '3' it was set and then unset), one of "fsb", rate, period,
 *            burst: whose state it is
 *   seen     the store's time when it was written, or a later one
 *   over     from then on it is as though there was no state, but for a rule that was set: the limit is idle
 *   FIXED    used, before: permits of the last window (which ends at `over`), and of the one before
 *   SLIDING  gone: the latest moment that has left the log; total: permits in the log;
 *            then the log, oldest first: moment, permits (4 bytes)
 *   BUCKET   level, in parts; negative: reserved
 */
#define HFI_LIMIT_WAS_SET  '2'
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
/* That of a state, from its head. false: it is none. */
bool hfi_limit_rule_of(const unsigned char *head, struct hfi_limit_rule *ret_rule);
/* The most permits that can be taken at once. */
int64_t hfi_limit_most(const struct hfi_limit_rule *rule);
/* The longest wait that can be computed without overflow. */
int64_t hfi_limit_wait_max(const struct hfi_limit_rule *rule);
/* Room for the bytes of a state of `len` bytes after one more decision. */
size_t hfi_limit_room(const struct hfi_limit_rule *rule, size_t len);

/* Decide. `state` NULL: there is none. `ret_state` has hfi_limit_room(); it is not `state`. */
void hfi_limit_decide(const struct hfi_limit_rule *rule, const struct hfi_limit_ask *ask,
                      int64_t now_us, const unsigned char *state, size_t len,
                      unsigned char *ret_state, struct hfi_limit_answer *ret_answer);

#endif
