/* SPDX-License-Identifier: MIT */
/*
 * A lease's term: how long it is valid, and what must be done now. Pure: no clock, no lock, no
 * heap. All times are hfi_now_ms() times.
 *
 *             a renewal failed, or
 *             was not answered for long       validity ended,
 *          +------------------> AT_RISK ----- or the store said so
 *          |                     |    |              |
 *   grant -+-> HELD <------------+    |              v
 *               |     renewed         +-----------> LOST (for ever)
 *               +-------------------------------------^
 */
#ifndef HFI_TERM_H
#define HFI_TERM_H

#include "engine/engine.h"

#define HFI_DRIFT_PERCENT 1  /* how much faster than ours a server's clock may run */
#define HFI_GUARD_MS      2  /* subtracted from every validity; engines may add to it */
#define HFI_RETRY_MIN_MS  50 /* between failed renewals ... */
#define HFI_RETRY_MAX_MS  1000
/* A renewal that is not confirmed for a sixth of the ttl makes the lease AT_RISK: it was sent after a third, so half of the ttl is
 * left. However long the ttl is, it does not take longer than HFI_RISK_MAX_MS. */
#define HFI_RISK_PART   6
#define HFI_RISK_MAX_MS 5000

struct hfi_term {
    hf_state state;
    bool renew;    /* renewed by itself */
    bool renewing; /* a renewal is under way: do not begin another */
    bool doubtful; /* the store may have forgotten it: check by a renewal, even if `renew` is
                   * false */

    /* Set once, before the grant. */
    int64_t ttl_ms;      /* what a renewal asks for; 0: there is no ttl */
    int64_t min_ttl_ms;  /* the engine's minimum */
    int64_t guard_ms;    /* HFI_GUARD_MS and the engine's */
    int64_t max_hold_ms; /* 0: no limit */

    /* Set by the grant and by every renewal. */
    int64_t sent_ms, granted_ms; /* when the ttl was asked for, and the ttl that was granted; 0: no
                                  * end */
    int64_t hold_end_ms, hold_valid_ms; /* max_hold: where it ends in the store, and for us */
    int64_t valid_until_ms;             /* HFI_NEVER: no end */
    /* after a failed renewal: not before this; while one is under way: then it is AT_RISK */
    int64_t retry_ms;
    int64_t asked_ms;  /* what the renewal that is under way asks for */
    int64_t unsure_ms; /* the shortest ttl of a renewal whose outcome is unknown; HFI_NEVER: none */
};

enum hfi_term_what { HFI_TERM_SLEEP, HFI_TERM_RENEW, HFI_TERM_RISK, HFI_TERM_LOST };

struct hfi_term_step {
    enum hfi_term_what what;
    int64_t at_ms; /* SLEEP: decide again then; HFI_NEVER: never */
};

/* May a lease go from one state to the other? */
bool hfi_state_may(hf_state from, hf_state to);

/* The end of validity of a ttl that was asked for at sent_ms: never later than the end in the
 * store. */
int64_t hfi_valid_until(int64_t sent_ms, int64_t ttl_ms, int64_t guard_ms);

/* The store granted it. granted_ms 0: without end. */
void hfi_term_begin(struct hfi_term *term, int64_t sent_ms, int64_t granted_ms);
/* Likewise, if there is neither ttl nor max_hold. */
static inline void hfi_term_begin_endless(struct hfi_term *term, int64_t sent_ms)
{
    term->state = HF_STATE_HELD;
    term->renewing = term->doubtful = false;
    term->unsure_ms = HFI_NEVER;
    term->sent_ms = sent_ms;
    term->granted_ms = 0;
    term->hold_end_ms = HFI_NEVER;
    term->hold_valid_ms = HFI_NEVER;
    term->valid_until_ms = HFI_NEVER;
}

/* Does the grant have min_valid_ms of validity left? One that has ended never does. */
bool hfi_term_worth(const struct hfi_term *term, int64_t min_valid_ms, int64_t now_ms);

/* Decide what a held lease needs at now_ms. */
struct hfi_term_step hfi_term_next(const struct hfi_term *term, int64_t now_ms);

/* The ttl that a renewal sent at now_ms may ask for, if `ttl_ms` is wanted; 0: none, max_hold is near. */
int64_t hfi_term_ask(const struct hfi_term *term, int64_t ttl_ms, int64_t now_ms);

/* A renewal for ttl_ms is about to be sent. It may shorten the lease, even if its answer never
 * comes: from now on the shorter time counts. */
void hfi_term_renewing(struct hfi_term *term, int64_t ttl_ms, int64_t now_ms);

/* HFI_TERM_RISK: it is AT_RISK until the renewal that is under way is answered. */
void hfi_term_risk(struct hfi_term *term);

/* It was answered, at now_ms. HF_OK: the store gave granted_ms from sent_ms on. The answer says
 * whether the lease is LOST now. */
bool hfi_term_renewed(struct hfi_term *term, hf_status status, int64_t sent_ms, int64_t granted_ms,
                      int64_t now_ms);

/* The store may have forgotten it: AT_RISK until a renewal has been answered. false: it is LOST. */
bool hfi_term_doubt(struct hfi_term *term, int64_t now_ms);

/* Validity left; INT64_MAX: no limit; 0: lost. */
int64_t hfi_term_remaining(const struct hfi_term *term, int64_t now_ms);

#endif
