/* SPDX-License-Identifier: MIT */
/* A lease's term. Pure; see term.h for the states. */
#include "core/term.h"

#include "util/clock.h"

#include <assert.h>

static int64_t renewal_due(const struct hfi_term *term);
static int64_t risk_due(const struct hfi_term *term);

static inline int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* No peer chooses a state: the functions below leave LOST out before they look at an answer, and every other change is allowed. */
bool hfi_state_may(hf_state from, hf_state to)
{
    static const bool may[4][4] = {
        [HF_STATE_HELD] = { [HF_STATE_HELD] = true,
                            [HF_STATE_AT_RISK] = true,
                            [HF_STATE_LOST] = true },
        [HF_STATE_AT_RISK] = { [HF_STATE_HELD] = true,
                               [HF_STATE_AT_RISK] = true,
                               [HF_STATE_LOST] = true },
        [HF_STATE_LOST] = { [HF_STATE_LOST] = true },
    };

    return may[from][to];
}

int64_t hfi_valid_until(int64_t sent_ms, int64_t ttl_ms, int64_t guard_ms)
{
    /* Count from the send, not the reply: the server cannot have started its timer
     * before we sent, so we may stop early but never late. Drift is rounded up. */
    int64_t drift_ms;

    ttl_ms = hfi_told_ms(ttl_ms);
    drift_ms = (ttl_ms * HFI_DRIFT_PERCENT + 99) / 100;

    return sent_ms + ttl_ms - drift_ms - guard_ms;
}

void hfi_term_begin(struct hfi_term *term, int64_t sent_ms, int64_t granted_ms)
{
    hfi_term_begin_endless(term, sent_ms);
    term->granted_ms = granted_ms;
    term->retry_ms = 0;

    if (term->max_hold_ms > 0) {
        /* If max_hold is shorter than every ttl, the store keeps the lease longer anyway: no margin
         * is needed. */
        int64_t ttl_ms =
            term->max_hold_ms > term->min_ttl_ms ? term->max_hold_ms : term->min_ttl_ms;

        term->hold_end_ms = sent_ms + term->max_hold_ms;
        term->hold_valid_ms =
            earlier(term->hold_end_ms, hfi_valid_until(sent_ms, ttl_ms, term->guard_ms));
    }
    if (granted_ms > 0)
        term->valid_until_ms = hfi_valid_until(sent_ms, granted_ms, term->guard_ms);
    term->valid_until_ms = earlier(term->valid_until_ms, term->hold_valid_ms);
}

bool hfi_term_worth(const struct hfi_term *term, int64_t min_valid_ms, int64_t now_ms)
{
    if (term->granted_ms > 0 &&
        now_ms >= hfi_valid_until(term->sent_ms, term->granted_ms, term->guard_ms))
        return false;
    return min_valid_ms == 0 || hfi_term_remaining(term, now_ms) >= min_valid_ms;
}

struct hfi_term_step hfi_term_next(const struct hfi_term *term, int64_t now_ms)
{
    int64_t due_ms;

    if (term->state == HF_STATE_LOST)
        return (struct hfi_term_step){ HFI_TERM_SLEEP, HFI_NEVER };
    if (now_ms >= term->valid_until_ms)
        return (struct hfi_term_step){ HFI_TERM_LOST, term->valid_until_ms };

    due_ms = risk_due(term);
    if (now_ms >= due_ms)
        return (struct hfi_term_step){ HFI_TERM_RISK, now_ms };
    if (term->renewing)
        return (struct hfi_term_step){ HFI_TERM_SLEEP, earlier(due_ms, term->valid_until_ms) };
    due_ms = renewal_due(term);
    if (now_ms < due_ms)
        return (struct hfi_term_step){ HFI_TERM_SLEEP, earlier(due_ms, term->valid_until_ms) };
    if (hfi_term_ask(term, term->ttl_ms, now_ms) == 0)
        return (struct hfi_term_step){ HFI_TERM_SLEEP, term->valid_until_ms };
    return (struct hfi_term_step){ HFI_TERM_RENEW, now_ms };
}

/*
 * A third of the ttl after it began, so that two more attempts fit. Near the end
 * of max_hold the last renewal must still ask for at least min_ttl and yet not
 * reach beyond it: it is brought forward to where little more than that is left.
 */
static int64_t renewal_due(const struct hfi_term *term)
{
    int64_t due_ms = term->sent_ms + term->granted_ms / 3;
    int64_t last_ms = HFI_NEVER;

    if (term->granted_ms == 0)
        return HFI_NEVER;
    if (term->doubtful)
        return term->retry_ms;
    if (!term->renew)
        return HFI_NEVER;
    if (term->sent_ms + term->granted_ms >= term->hold_end_ms)
        return HFI_NEVER; /* it extends as far as max_hold allows */

    if (term->hold_end_ms != HFI_NEVER)
        last_ms = term->hold_end_ms - term->min_ttl_ms - term->min_ttl_ms / 8;
    if (last_ms > term->sent_ms)
        due_ms = earlier(due_ms, last_ms);
    return due_ms > term->retry_ms ? due_ms : term->retry_ms;
}

/* The store may answer late, or never, and the engine's own time limit may be longer than the lease. The holder hears of it while there
 * is time. */
static int64_t risk_due(const struct hfi_term *term)
{
    return term->renewing && term->state == HF_STATE_HELD ? term->retry_ms : HFI_NEVER;
}

int64_t hfi_term_ask(const struct hfi_term *term, int64_t ttl_ms, int64_t now_ms)
{
    int64_t left_ms = term->hold_end_ms == HFI_NEVER ? HFI_NEVER : term->hold_end_ms - now_ms;
    int64_t ask_ms = earlier(ttl_ms, left_ms);

    /* This renewal only checks that the lease exists: ask for the time that is left. */
    if (term->doubtful && (!term->renew || ask_ms < term->min_ttl_ms))
        return term->valid_until_ms > now_ms ? term->valid_until_ms - now_ms : 0;
    return ask_ms < term->min_ttl_ms ? 0 : ask_ms;
}

void hfi_term_renewing(struct hfi_term *term, int64_t ttl_ms, int64_t now_ms)
{
    int64_t least_ms = hfi_valid_until(now_ms, ttl_ms, term->guard_ms);

    term->renewing = true;
    term->asked_ms = ttl_ms;
    term->retry_ms =
        now_ms + earlier(earlier(term->granted_ms, ttl_ms) / HFI_RISK_PART, HFI_RISK_MAX_MS);
    term->valid_until_ms = earlier(term->valid_until_ms, least_ms);
}

void hfi_term_risk(struct hfi_term *term)
{
    assert(hfi_state_may(term->state, HF_STATE_AT_RISK));
    term->state = HF_STATE_AT_RISK;
}

bool hfi_term_renewed(struct hfi_term *term, hf_status status, int64_t sent_ms, int64_t granted_ms,
                      int64_t now_ms)
{
    int64_t pause_ms = term->ttl_ms / 20;

    term->renewing = false;
    if (term->state == HF_STATE_LOST)
        return false; /* LOST was reported before; no answer brings the lease back */
    if (status == HF_LOST || status == HF_NOT_FOUND || now_ms >= term->valid_until_ms)
        return true;
    if (status == HF_OK)
        term->doubtful = false;

    if (status != HF_OK) {
        assert(hfi_state_may(term->state, HF_STATE_AT_RISK));
        if (pause_ms < HFI_RETRY_MIN_MS)
            pause_ms = HFI_RETRY_MIN_MS;
        if (pause_ms > HFI_RETRY_MAX_MS)
            pause_ms = HFI_RETRY_MAX_MS;
        /* This renewal may still arrive in the store after later ones, and shorten them. */
        term->unsure_ms = earlier(term->unsure_ms, term->asked_ms);
        term->state = HF_STATE_AT_RISK;
        term->retry_ms = now_ms + pause_ms;
        return false;
    }

    assert(hfi_state_may(term->state, HF_STATE_HELD));
    if (granted_ms > 0)
        granted_ms = earlier(granted_ms, term->unsure_ms);
    term->state = HF_STATE_HELD;
    term->sent_ms = sent_ms;
    term->granted_ms = granted_ms;
    term->retry_ms = 0;
    term->valid_until_ms =
        granted_ms > 0 ? hfi_valid_until(sent_ms, granted_ms, term->guard_ms) : HFI_NEVER;
    term->valid_until_ms = earlier(term->valid_until_ms, term->hold_valid_ms);
    return now_ms >= term->valid_until_ms;
}

bool hfi_term_doubt(struct hfi_term *term, int64_t now_ms)
{
    if (term->state == HF_STATE_LOST)
        return false;
    assert(hfi_state_may(term->state, HF_STATE_AT_RISK));
    term->state = HF_STATE_AT_RISK;
    term->doubtful = true;
    term->retry_ms = now_ms;
    return true;
}

int64_t hfi_term_remaining(const struct hfi_term *term, int64_t now_ms)
{
    if (term->state == HF_STATE_LOST || now_ms >= term->valid_until_ms)
        return 0;
    return term->valid_until_ms == HFI_NEVER ? INT64_MAX : term->valid_until_ms - now_ms;
}
