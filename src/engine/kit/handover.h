/* SPDX-License-Identifier: MIT */
/*
 * Hand-over: the rules of a queue that a server keeps (Redis, Redlock, PostgreSQL, MariaDB). Pure functions: no clock,
 * no I/O, no lock, no heap. test/unit/handover.c has the table of cases, test/sim plays them among faults.
 *
 * When a lease ends, the server grants the name to the next waiter for the claim window and sends a message. The
 * winner must use the grant, renew it or give it back within the window: a waiter that died keeps the name idle
 * no longer than that. A waiter keeps its place by heartbeats, three in a window.
 *
 * The winner does not know when the message was sent. It counts from heard_ms, the local send of the last request that the
 * server answered with "still waiting". The server made the grant after it had read that request, and it read the
 * request after the send: so the waiter may stop early but never late.
 *
 * Safety does not depend on any threshold below. Core believes a grant until from + granted ttl, less the drift of clocks, and
 * never longer (core/term.h). The thresholds decide when one more round trip is cheaper than a lease that ends at once.
 *
 *              acquire                   message, or a heartbeat that finds itself granted
 *   ASKING ----------------> QUEUED -----------------------------------------------> CONFIRMING
 *     | ^ ^                    | |                                                      |   ^
 *     | | | forgotten          | | cancel                  granted before it            |   |
 *     | | +--------------------+ +-----------> CANCELLING ------------------------------|---+
 *     | |                                          |                                    |
 *     | +--- RESTING <-- not reachable             +--> left the queue                  |
 *     +--> granted, refused       ^                                                     |
 *     ^                           +-----------------------------------------------------+
 *     +-----------------------------------------------------------------  it has lapsed
 */
#ifndef HFI_KIT_HANDOVER_H
#define HFI_KIT_HANDOVER_H

#include "engine/engine.h"

/* ---- a waiter's states ---------------------------------------------------------------------- */

enum hfi_waiter_state {
    HFI_WAITER_ASKING,     /* the acquire is under way */
    HFI_WAITER_QUEUED,     /* the server has queued it */
    HFI_WAITER_RESTING,    /* the server is not reachable: it will be asked again */
    HFI_WAITER_CANCELLING, /* it is being taken out of the queue */
    HFI_WAITER_CONFIRMING, /* it was granted for too short a time and is being renewed */
};
#define HFI_WAITER_STATES 5

/* May a waiter go from one state to the other? For asserts. */
bool hfi_waiter_may(enum hfi_waiter_state from, enum hfi_waiter_state to);

/* What the server answered: to an acquire (ASKING), a heartbeat (QUEUED) or a cancel (CANCELLING). */
enum hfi_waiter_answer {
    HFI_ANSWER_ODD,       /* not an answer of our scripts or routines */
    HFI_ANSWER_GRANTED,   /* G */
    HFI_ANSWER_QUEUED,    /* Q: it waits; every earlier grant has a token up to the one in the
                        * answer */
    HFI_ANSWER_BUSY,      /* B: busy, and not queued */
    HFI_ANSWER_MISMATCH,  /* M: the name is in use as another kind */
    HFI_ANSWER_FULL,      /* F: the name has no token left */
    HFI_ANSWER_FORGOTTEN, /* N to a heartbeat: the server does not know it (any more) */
    HFI_ANSWER_LEFT       /* C, N to a cancel: it is not in the queue and holds nothing */
};

enum hfi_waiter_answer hfi_waiter_answered(enum hfi_waiter_state state, char letter);

/* ---- times ------------------------------------------------------------------------------------- */

#define HFI_WINDOW_MIN_MS 3000
#define HFI_WINDOW_MAX_MS 10000
#define HFI_RECHECK_MS \
    5 /* after a time that the server named, so that its clock has passed it too */

/*
 * The claim window of a lease of ttl_ms: the ttl, but at least least_ms and at most most_ms. If
 * least_ms is above most_ms, most_ms wins: on Redlock no grant may outlive the time that healing
 * waits.
 *
 * Not less than 3 s: a winner that is swapped out, or whose network drops packets for a second, still gets its turn. Not more than 10 s:
 * that is how long a winner that died keeps a name idle.
 */
int64_t hfi_window_ms(int64_t ttl_ms, int64_t least_ms, int64_t most_ms);

/* The interval between two heartbeats of a waiter: a third of the window, so that one may be lost
 * and the next be late. */
static inline int64_t hfi_heartbeat_ms(int64_t window_ms)
{
    return window_ms / 3;
}

/* ---- what a grant is worth -------------------------------------------------------------------- */

/*
 * A grant of lasts_ms, of which left_ms are certain: is it nearly over? The limit is a third.
 *
 * A waiter whose heartbeats are answered has at least two thirds of the window left, less a round trip: a third means that a
 * heartbeat went unanswered or that this process was stopped. And a lease is renewed in the background at intervals of a third: with
 * less, one renewal that is lost or late ends it. So the ordinary hand-over costs no extra round
 * trip, and a caller never gets a lease that ends before its first renewal can be answered.
 */
bool hfi_grant_is_stale(int64_t left_ms, int64_t lasts_ms);

/*
 * Will core find at least min_valid_ms of validity left? Core subtracts the clock drift (1 % of
 * lasts_ms) and a guard of a few milliseconds, and reads the clock a moment after the engine. 2 %
 * and 50 ms are enough for both; a factor of min_valid_ms would not be: the drift is a part of
 * lasts_ms, however small min_valid_ms is.
 */
bool hfi_grant_covers(int64_t left_ms, int64_t lasts_ms, int64_t min_valid_ms);

/*
 * Must a grant be renewed, for ttl_ms, before the acquire ends? Yes if it is stale or does not
 * cover min_valid_ms; but only if a renewal can bring more. It cannot if what is left is the ttl
 * except for that same margin, or if no grant of ttl_ms covers min_valid_ms (core then says
 * HF_TOO_SHORT). A renewal costs a round trip, which only those acquires pay that would otherwise
 * fail or soon be lost.
 */
bool hfi_grant_needs_renewal(int64_t left_ms, int64_t lasts_ms, int64_t ttl_ms,
                             int64_t min_valid_ms);

/* ---- messages ---------------------------------------------------------------------------------- */

enum hfi_message {
    HFI_MESSAGE_IGNORE,  /* the grant has ended, or an answer that is under way will decide */
    HFI_MESSAGE_RECHECK, /* too old to be relied on: send a heartbeat at once to find out whether
                          * the grant still holds */
    HFI_MESSAGE_GRANT
};

/*
 * A message to a waiter in `state`: token was granted to it for window_ms. heard_ms: see above; while ASKING, the send of the first copy
 * of the acquire. floor: the highest token that the last "still waiting" named.
 *
 * - A message grants only to a waiter that is ASKING or QUEUED. While a cancel or a confirmation is
 *   under way, its answer says the same with more precision.
 * - A token up to the floor belongs to a grant from before "still waiting", so heard_ms is no bound for it: the waiter was granted, its
 *   message was late, the window passed, another held, and a late copy of the acquire queued the
 *   waiter again. Accepting it as a grant would let two hold. (This is the only rule here on which
 *   safety depends.)
 * - A stale grant is not relied on. A heartbeat is the better way to ask: it costs the same round
 *   trip as a renewal, and if the connection fails (old messages come over bad connections), the
 *   waiter is still in the queue, whereas a renewal without an answer ends the acquire with
 *   HF_UNKNOWN. While ASKING, the answer to the acquire decides.
 */
enum hfi_message hfi_message_judge(enum hfi_waiter_state state, int64_t heard_ms, uint64_t floor,
                                   uint64_t token, int64_t window_ms, int64_t now_ms);

#endif
