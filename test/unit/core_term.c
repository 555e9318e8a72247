/* SPDX-License-Identifier: MIT */
/* A lease's term: validity, renewal, max_hold, and the states, all without a clock. */
#include "unit.h"

#include "core/term.h"

#define T0 INT64_C(1000000)

static struct hfi_term term_of(int64_t ttl_ms, int64_t max_hold_ms, bool renew)
{
    struct hfi_term term = { .renew = renew,
                             .ttl_ms = ttl_ms,
                             .min_ttl_ms = 1000,
                             .guard_ms = 2,
                             .max_hold_ms = max_hold_ms };

    hfi_term_begin(&term, T0, ttl_ms);
    return term;
}

static void lost_is_for_ever(void **state)
{
    (void)state;
    for (hf_state from = HF_STATE_HELD; from <= HF_STATE_LOST; from++)
        for (hf_state to = HF_STATE_HELD; to <= HF_STATE_LOST; to++)
            assert_int_equal(hfi_state_may(from, to), from != HF_STATE_LOST || to == from);
}

static void validity_counts_from_the_send(void **state)
{
    (void)state;
    assert_int_equal(hfi_valid_until(T0, 30000, 2), T0 + 30000 - 300 - 2);
    assert_int_equal(hfi_valid_until(T0, 1000, 2), T0 + 1000 - 10 - 2);
    assert_int_equal(hfi_valid_until(T0, 1001, 2), T0 + 1001 - 11 - 2); /* drift is rounded up */
    assert_true(hfi_valid_until(T0, HF_DURATION_MAX_MS, 2) > T0);
}

static void no_ttl_never_ends(void **state)
{
    struct hfi_term term = term_of(0, 0, true), endless = term;

    (void)state;
    assert_int_equal(hfi_term_next(&term, T0 + HF_DURATION_MAX_MS).what, HFI_TERM_SLEEP);
    assert_true(hfi_term_next(&term, T0).at_ms == HFI_NEVER);
    assert_true(hfi_term_remaining(&term, T0) == INT64_MAX);
    hfi_term_begin_endless(&endless, T0); /* the short way says the same */
    assert_memory_equal(&term, &endless, sizeof term);
}

static void renewed_at_a_third_and_lost_at_the_end(void **state)
{
    struct hfi_term term = term_of(3000, 0, true);
    int64_t end_ms = T0 + 3000 - 30 - 2;

    (void)state;
    assert_int_equal(hfi_term_next(&term, T0).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, T0).at_ms, T0 + 1000);
    assert_int_equal(hfi_term_next(&term, T0 + 999).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, T0 + 1000).what, HFI_TERM_RENEW);
    assert_int_equal(hfi_term_next(&term, end_ms - 1).what, HFI_TERM_RENEW);
    assert_int_equal(hfi_term_next(&term, end_ms).what, HFI_TERM_LOST);
}

static void while_renewing_only_the_end_counts(void **state)
{
    struct hfi_term term = term_of(3000, 0, true);
    int64_t end_ms = T0 + 3000 - 30 - 2;

    (void)state;
    hfi_term_renewing(&term, 3000, T0 + 1000);
    hfi_term_risk(&term);
    assert_int_equal(hfi_term_next(&term, T0 + 1500).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, T0 + 1500).at_ms, end_ms);
    assert_int_equal(hfi_term_next(&term, end_ms).what, HFI_TERM_LOST);
    /* Too late an answer brings it back no more. */
    assert_true(hfi_term_renewed(&term, HF_OK, T0 + 1000, 3000, end_ms));
}

/* An answer that does not come is a risk after a sixth of the ttl, and not only when the request is given up. */
static void an_unconfirmed_renewal_is_a_risk(void **state)
{
    struct hfi_term term = term_of(6000, 0, true), shorter, longest;

    (void)state;
    hfi_term_renewing(&term, 6000, T0 + 2000);
    assert_int_equal(hfi_term_next(&term, T0 + 2000).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, T0 + 2000).at_ms, T0 + 3000);
    assert_int_equal(hfi_term_next(&term, T0 + 3000).what, HFI_TERM_RISK);
    hfi_term_risk(&term);
    assert_int_equal(term.state, HF_STATE_AT_RISK);
    assert_int_equal(hfi_term_next(&term, T0 + 3000).at_ms, term.valid_until_ms);
    assert_false(hfi_term_renewed(&term, HF_OK, T0 + 2000, 6000, T0 + 3500));
    assert_int_equal(term.state, HF_STATE_HELD);
    assert_int_equal(hfi_term_next(&term, T0 + 3500).at_ms, T0 + 4000);

    shorter = term_of(6000, 0, false); /* a renewal of the user's, for less */
    hfi_term_renewing(&shorter, 600, T0);
    assert_int_equal(hfi_term_next(&shorter, T0).at_ms, T0 + 100);

    longest = term_of(HF_DURATION_MAX_MS, 0, true);
    hfi_term_renewing(&longest, HF_DURATION_MAX_MS, T0 + 1000);
    assert_int_equal(hfi_term_next(&longest, T0 + 1000).at_ms, T0 + 1000 + HFI_RISK_MAX_MS);

    term = term_of(30, 0, true); /* lost is lost, if the keeper comes late */
    hfi_term_renewing(&term, 30, T0 + 10);
    assert_int_equal(hfi_term_next(&term, T0 + 28).what, HFI_TERM_LOST);
}

static void not_renewed_unless_asked_for(void **state)
{
    struct hfi_term term = term_of(3000, 0, false);

    (void)state;
    assert_int_equal(hfi_term_next(&term, T0 + 2000).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, T0 + 2968).what, HFI_TERM_LOST);
}

static void a_renewal_moves_the_end(void **state)
{
    struct hfi_term term = term_of(3000, 0, true);

    (void)state;
    hfi_term_renewing(&term, 3000, T0 + 1000);
    assert_false(hfi_term_renewed(&term, HF_OK, T0 + 1001, 3000, T0 + 1010));
    assert_int_equal(term.state, HF_STATE_HELD);
    assert_int_equal(term.valid_until_ms, T0 + 1001 + 2968);
    assert_int_equal(hfi_term_next(&term, T0 + 1010).at_ms, T0 + 1001 + 1000);
}

static void a_failed_renewal_is_a_risk_and_tried_again(void **state)
{
    static const hf_status unsure[] = { HF_UNKNOWN, HF_UNAVAILABLE, HF_NO_MEMORY, HF_DENIED };
    struct hfi_term term = term_of(3000, 0, true);

    (void)state;
    for (size_t i = 0; i < COUNT(unsure); i++) {
        hfi_term_renewing(&term, 3000, T0 + 1000);
        assert_false(hfi_term_renewed(&term, unsure[i], 0, 0, T0 + 1100));
        assert_int_equal(term.state, HF_STATE_AT_RISK);
        assert_int_equal(term.valid_until_ms, T0 + 2968);
        assert_int_equal(hfi_term_next(&term, T0 + 1100).what, HFI_TERM_SLEEP);
        assert_int_equal(hfi_term_next(&term, T0 + 1100).at_ms, T0 + 1100 + 150);
        assert_int_equal(hfi_term_next(&term, T0 + 1250).what, HFI_TERM_RENEW);
    }
    hfi_term_renewing(&term, 3000, T0 + 1250);
    assert_false(hfi_term_renewed(&term, HF_OK, T0 + 1250, 3000, T0 + 1260));
    assert_int_equal(term.state, HF_STATE_HELD);
}

static void the_store_says_lost(void **state)
{
    struct hfi_term term = term_of(3000, 0, true);

    (void)state;
    hfi_term_renewing(&term, 3000, T0 + 1000);
    assert_true(hfi_term_renewed(&term, HF_LOST, 0, 0, T0 + 1001));
    term.state = HF_STATE_LOST;
    assert_false(hfi_term_renewed(&term, HF_OK, T0 + 1002, 3000, T0 + 1002)); /* told before */
    assert_int_equal(term.state, HF_STATE_LOST);
    assert_int_equal(hfi_term_remaining(&term, T0 + 1002), 0);
}

/* hf_renew() with a shorter ttl: it may have arrived although no answer came. */
static void a_shorter_ttl_counts_from_the_send(void **state)
{
    struct hfi_term term = term_of(30000, 0, true);

    (void)state;
    hfi_term_renewing(&term, 1000, T0 + 100);
    assert_int_equal(term.valid_until_ms, T0 + 100 + 988);
    assert_false(hfi_term_renewed(&term, HF_UNKNOWN, 0, 0, T0 + 200));
    assert_int_equal(term.valid_until_ms, T0 + 100 + 988);
}

/* And it may still arrive after a longer one has been answered. */
static void a_lost_shorter_ttl_is_never_forgotten(void **state)
{
    struct hfi_term term = term_of(30000, 0, true);

    (void)state;
    hfi_term_renewing(&term, 1000, T0 + 100);
    assert_false(hfi_term_renewed(&term, HF_UNKNOWN, 0, 0, T0 + 200));
    hfi_term_renewing(&term, 30000, T0 + 300);
    assert_false(hfi_term_renewed(&term, HF_OK, T0 + 300, 30000, T0 + 310));
    assert_int_equal(term.valid_until_ms, T0 + 300 + 988);
    assert_int_equal(hfi_term_next(&term, T0 + 310).at_ms, T0 + 300 + 333);
}

/* Renewing as the steps say, the store's end never goes beyond max_hold, and comes close to it. */
static void max_hold_is_reached_and_not_passed(void **state)
{
    static const struct {
        int64_t ttl_ms, hold_ms;
    } rows[] = {
        { 1000, 3000 }, { 1000, 1900 }, { 1000, 10000 }, { 3000, 5000 }, { 30000, 60000 }
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hfi_term term = term_of(rows[i].ttl_ms, rows[i].hold_ms, true);
        int64_t now_ms = T0, store_end_ms = T0 + rows[i].ttl_ms, hold_end_ms = T0 + rows[i].hold_ms;
        struct hfi_term_step step;

        while ((step = hfi_term_next(&term, now_ms)).what != HFI_TERM_LOST) {
            if (step.what == HFI_TERM_SLEEP) {
                now_ms = step.at_ms;
                continue;
            }
            int64_t ask_ms = hfi_term_ask(&term, term.ttl_ms, now_ms);

            assert_true(ask_ms >= term.min_ttl_ms);
            hfi_term_renewing(&term, ask_ms, now_ms);
            store_end_ms = now_ms + ask_ms;
            assert_true(store_end_ms <= hold_end_ms);
            assert_false(hfi_term_renewed(&term, HF_OK, now_ms, ask_ms, now_ms + 1));
        }
        assert_true(now_ms <= store_end_ms);
        assert_true(now_ms >= hold_end_ms - rows[i].hold_ms / 100 - term.min_ttl_ms / 8 - 20);
    }
}

static void max_hold_alone_is_the_ttl(void **state)
{
    struct hfi_term term = {
        .ttl_ms = 5000, .min_ttl_ms = 1000, .guard_ms = 2, .max_hold_ms = 5000
    };

    (void)state;
    hfi_term_begin(&term, T0, 5000);
    assert_int_equal(hfi_term_next(&term, T0).at_ms, T0 + 5000 - 50 - 2);
    assert_int_equal(hfi_term_next(&term, T0 + 4948).what, HFI_TERM_LOST);

    /* Shorter than any ttl: the store keeps it longer, so it is held to its last millisecond. */
    term.max_hold_ms = 5;
    hfi_term_begin(&term, T0, 1000);
    assert_int_equal(term.valid_until_ms, T0 + 5);
}

/* The server may have forgotten it: at risk, and asked at once, whether it renews itself or not. */
static void doubt_asks_at_once(void **state)
{
    struct hfi_term term = term_of(3000, 0, true), still = term_of(3000, 0, false);
    int64_t now_ms = T0 + 100, end_ms = T0 + 3000 - 30 - 2;

    (void)state;
    assert_true(hfi_term_doubt(&term, now_ms));
    assert_int_equal(term.state, HF_STATE_AT_RISK);
    assert_int_equal(hfi_term_next(&term, now_ms).what, HFI_TERM_RENEW);
    assert_int_equal(hfi_term_ask(&term, 3000, now_ms), 3000);
    hfi_term_renewing(&term, 3000, now_ms);
    assert_int_equal(hfi_term_next(&term, now_ms).what, HFI_TERM_SLEEP);
    assert_false(hfi_term_renewed(&term, HF_OK, now_ms, 3000, now_ms + 1));
    assert_int_equal(term.state, HF_STATE_HELD);
    assert_int_equal(hfi_term_next(&term, now_ms + 999).what, HFI_TERM_SLEEP);

    /* One that is not to be renewed is asked for what it has, and gets no more. */
    assert_true(hfi_term_doubt(&still, now_ms));
    assert_int_equal(hfi_term_next(&still, now_ms).what, HFI_TERM_RENEW);
    assert_int_equal(hfi_term_ask(&still, 3000, now_ms), end_ms - now_ms);
    hfi_term_renewing(&still, end_ms - now_ms, now_ms);
    assert_false(hfi_term_renewed(&still, HF_OK, now_ms, end_ms - now_ms, now_ms + 1));
    assert_true(still.valid_until_ms <= end_ms);
    assert_int_equal(hfi_term_next(&still, now_ms + 1).what, HFI_TERM_SLEEP);
    assert_true(hfi_term_next(&still, now_ms + 1).at_ms == still.valid_until_ms);
}

/* Unanswered, the doubt stays, and is asked again; an answer ends it one way or the other. */
static void doubt_ends_with_an_answer(void **state)
{
    struct hfi_term term = term_of(30000, 0, true);
    int64_t now_ms = T0 + 100;

    (void)state;
    assert_true(hfi_term_doubt(&term, now_ms));
    hfi_term_renewing(&term, 30000, now_ms);
    assert_false(hfi_term_renewed(&term, HF_UNKNOWN, 0, 0, now_ms + 10));
    assert_int_equal(term.state, HF_STATE_AT_RISK);
    assert_int_equal(hfi_term_next(&term, now_ms + 10).what, HFI_TERM_SLEEP);
    assert_int_equal(hfi_term_next(&term, term.retry_ms).what, HFI_TERM_RENEW);
    hfi_term_renewing(&term, 30000, term.retry_ms);
    assert_true(hfi_term_renewed(&term, HF_LOST, 0, 0, term.retry_ms + 1));

    term.state = HF_STATE_LOST;
    assert_false(hfi_term_doubt(&term, now_ms)); /* lost is for ever */
}

static void worth_having(void **state)
{
    struct hfi_term term = term_of(1000, 0, true), endless = term_of(0, 0, true);

    (void)state;
    assert_true(hfi_term_worth(&term, 0, T0 + 987));
    assert_false(hfi_term_worth(&term, 0, T0 + 988)); /* never a lease that has ended */
    assert_true(hfi_term_worth(&term, 900, T0 + 88));
    assert_false(hfi_term_worth(&term, 900, T0 + 89));
    assert_true(hfi_term_worth(&endless, HF_DURATION_MAX_MS, T0));
}

/* What a server says may be any number: nothing overflows (UBSan looks), and nothing lasts longer than ten years. */
static void extreme_ttls(void **state)
{
    static const int64_t told[] = { INT64_MIN,
                                    INT64_MIN + 1,
                                    -1,
                                    0,
                                    1,
                                    HF_DURATION_MAX_MS - 1,
                                    HF_DURATION_MAX_MS,
                                    HF_DURATION_MAX_MS + 1,
                                    INT64_MAX / 2,
                                    INT64_MAX - 1,
                                    INT64_MAX };

    (void)state;
    for (size_t i = 0; i < COUNT(told); i++) {
        int64_t until_ms = hfi_valid_until(1000000, told[i], 100);

        assert_true(until_ms >= 1000000 - 100);
        assert_true(until_ms <= 1000000 + HF_DURATION_MAX_MS);
        assert_true(hfi_told_ms(told[i]) >= 0 && hfi_told_ms(told[i]) <= HF_DURATION_MAX_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_ttls),
        cmocka_unit_test(lost_is_for_ever),
        cmocka_unit_test(validity_counts_from_the_send),
        cmocka_unit_test(no_ttl_never_ends),
        cmocka_unit_test(renewed_at_a_third_and_lost_at_the_end),
        cmocka_unit_test(while_renewing_only_the_end_counts),
        cmocka_unit_test(an_unconfirmed_renewal_is_a_risk),
        cmocka_unit_test(not_renewed_unless_asked_for),
        cmocka_unit_test(a_renewal_moves_the_end),
        cmocka_unit_test(a_failed_renewal_is_a_risk_and_tried_again),
        cmocka_unit_test(the_store_says_lost),
        cmocka_unit_test(a_shorter_ttl_counts_from_the_send),
        cmocka_unit_test(a_lost_shorter_ttl_is_never_forgotten),
        cmocka_unit_test(max_hold_is_reached_and_not_passed),
        cmocka_unit_test(max_hold_alone_is_the_ttl),
        cmocka_unit_test(doubt_asks_at_once),
        cmocka_unit_test(doubt_ends_with_an_answer),
        cmocka_unit_test(worth_having),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
