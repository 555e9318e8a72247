/* SPDX-License-Identifier: MIT */
/*
 * The rules of hand-over (src/engine/kit/handover.h), in tables: what Redis, Redlock, PostgreSQL and MariaDB do with a grant, a message and
 * an answer. That core finds what they hand out worth having is checked for every case.
 */
#include "unit.h"

#include "core/term.h"
#include "engine/kit/handover.h"

#define T0       INT64_C(1000000)
#define GUARD_MS (HFI_GUARD_MS + 2) /* core's, and that of the SQL engines */
#define LATE_MS  40                 /* how much later than the engine core reads the clock */

/* What becomes of a grant: U it is used as it is; R it is renewed first; H a heartbeat finds out what is left of it. `before`: what Redis,
 * SQL and Redlock did, in this order, when each had rules of its own. */
static const struct grant_case {
    bool by_message;
    int64_t left_ms, lasts_ms, ttl_ms, min_valid_ms;
    char then;
    const char *before, *what;
} grants[] = {
    { false, 30000, 30000, 30000, 0, 'U', "UUU", "a whole ttl, at once" },
    { false, 29990, 30000, 30000, 15000, 'U', "UUU",
      "a whole ttl, and a caller that needs half of it" },
    { false, 29990, 30000, 30000, 29300, 'U', "UUU",
      "a whole ttl, and a caller that needs nearly all of it" },
    { false, 29990, 30000, 30000, 29650, 'U', "UUU",
      "a whole ttl, and a caller that needs as much as core leaves of it" },
    { false, 30000, 30000, 30000, 29900, 'U', "UUU", "a whole ttl that cannot be enough" },
    { false, 20000, 30000, 30000, 25000, 'R', "UUR",
      "a whole ttl, answered so late that a renewal helps" },
    { false, 400, 30000, 30000, 0, 'R', "UUR",
      "a whole ttl, answered when nearly nothing is left" },
    { false, -5, 30000, 30000, 0, 'R', "UUR", "a whole ttl, answered when it is over" },
    { true, 9990, 10000, 30000, 0, 'U', "UUU", "a window, after a fresh heartbeat" },
    { true, 6700, 10000, 30000, 0, 'U', "UUU", "a window, just before the next heartbeat" },
    { true, 3400, 10000, 30000, 0, 'U', "UUR", "a window, one heartbeat was lost" },
    { true, 3333, 10000, 30000, 0, 'H', "UUR", "a window, of which a third is left" },
    { true, 2500, 10000, 30000, 0, 'H', "UUR", "a window, of which a quarter is left" },
    { true, 999, 10000, 30000, 0, 'H', "HRR", "a window, of which a tenth is left" },
    { true, -1, 10000, 30000, 0, 'H', "HRR", "a window that is over" },
    { true, 6700, 10000, 30000, 5000, 'U', "RRR", "a window that covers the caller's need" },
    { true, 6700, 10000, 30000, 6450, 'U', "RRR", "a window that covers it by the margin" },
    { true, 6700, 10000, 30000, 6451, 'R', "RRR", "a window that misses it by a millisecond" },
    { true, 9990, 10000, 30000, 20000, 'R', "RRR", "a window, and a need beyond the window" },
    { true, 9990, 10000, 30000, 29650, 'R', "RRR",
      "a window, and a need that a fresh ttl just covers" },
    { true, 9990, 10000, 30000, 29900, 'U', "RRR", "a window, and a need beyond the ttl" },
    { true, 3500, 5000, 5000, 4000, 'R', "UUR",
      "a window as long as the ttl, and a need that a renewal covers" },
    { true, 3500, 5000, 5000, 3000, 'U', "UUR",
      "a window as long as the ttl, and a need that it covers" },
    { true, 1500, 3000, 1000, 0, 'U', "UUU",
      "a window longer than the ttl: a renewal brings less" },
    { true, 900, 3000, 1000, 0, 'H', "UUR", "a window longer than the ttl, nearly over" },
    { false, 990, 1000, 1000, 900, 'U', "UUU", "a ttl of a second" },
};

static char decide(const struct grant_case *c)
{
    int64_t heard_ms = T0 + c->left_ms - c->lasts_ms;

    if (c->by_message)
        switch (hfi_message_judge(HFI_WAITER_QUEUED, heard_ms, 7, 8, c->lasts_ms, T0)) {
        case HFI_MESSAGE_IGNORE:
            return 'I';
        case HFI_MESSAGE_RECHECK:
            return 'H';
        case HFI_MESSAGE_GRANT:
            break;
        }
    return hfi_grant_needs_renewal(c->left_ms, c->lasts_ms, c->ttl_ms, c->min_valid_ms) ? 'R' : 'U';
}

static void every_grant(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof grants / sizeof *grants; i++)
        if (decide(&grants[i]) != grants[i].then)
            fail_msg("%s: %c, not %c (before: %s)", grants[i].what, decide(&grants[i]),
                     grants[i].then, grants[i].before);
}

/* What is used as it is satisfies core, unless a renewal brings no more; and so does what a renewal brings. */
static void core_agrees(int64_t left_ms, int64_t lasts_ms, int64_t ttl_ms, int64_t min_valid_ms)
{
    struct hfi_term term = { .ttl_ms = ttl_ms, .guard_ms = GUARD_MS };
    bool renewed = hfi_grant_needs_renewal(left_ms, lasts_ms, ttl_ms, min_valid_ms);

    if (!hfi_grant_covers(ttl_ms, ttl_ms, min_valid_ms) ||
        left_ms + ttl_ms / 50 + 50 >= ttl_ms) /* as good as a new one */
        return;
    if (renewed)
        hfi_term_begin(&term, T0, ttl_ms);
    else
        hfi_term_begin(&term, T0 + left_ms - lasts_ms, lasts_ms);
    if (!hfi_term_worth(&term, min_valid_ms, T0 + (renewed ? 0 : LATE_MS)))
        fail_msg("core refuses %lld of %lld ms (ttl %lld), %lld are needed%s", (long long)left_ms,
                 (long long)lasts_ms, (long long)ttl_ms, (long long)min_valid_ms,
                 renewed ? ", after a renewal" : "");
}

static void core_agrees_with_all(void **state)
{
    static const int64_t parts[] = { 0, 1, 10, 25, 32, 34, 49, 51, 66, 75, 90, 95, 98, 99, 100 };
    static const int64_t ttls[] = { 1000, 3000, 5000, 10000, 30000, 3600000, HF_DURATION_MAX_MS };
    const size_t n = sizeof parts / sizeof *parts;

    (void)state;
    for (size_t t = 0; t < sizeof ttls / sizeof *ttls; t++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                int64_t ttl_ms = ttls[t];
                int64_t window_ms = hfi_window_ms(ttl_ms, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS);

                core_agrees(window_ms / 100 * parts[i], window_ms, ttl_ms, ttl_ms / 100 * parts[j]);
                core_agrees(ttl_ms / 100 * parts[i], ttl_ms, ttl_ms, ttl_ms / 100 * parts[j]);
            }
}

static void every_message(void **state)
{
    static const struct {
        enum hfi_waiter_state state;
        int64_t age_ms;
        uint64_t floor, token;
        enum hfi_message then;
    } cases[] = {
        { HFI_WAITER_QUEUED, 0, 0, 1, HFI_MESSAGE_GRANT },
        { HFI_WAITER_QUEUED, 6666, 41, 42, HFI_MESSAGE_GRANT },
        { HFI_WAITER_QUEUED, 6667, 41, 42, HFI_MESSAGE_RECHECK },
        { HFI_WAITER_QUEUED, 20000, 41, 42, HFI_MESSAGE_RECHECK },
        { HFI_WAITER_QUEUED, 0, 42, 42, HFI_MESSAGE_IGNORE }, /* granted before "still waiting" */
        { HFI_WAITER_QUEUED, 20000, 43, 42, HFI_MESSAGE_IGNORE },
        { HFI_WAITER_QUEUED, 0, UINT64_MAX, 42, HFI_MESSAGE_IGNORE }, /* Redlock: asked again */
        { HFI_WAITER_ASKING, 100, 0, 1, HFI_MESSAGE_GRANT },          /* it overtook the answer */
        { HFI_WAITER_ASKING, 6667, 0, 1, HFI_MESSAGE_IGNORE },        /* the answer decides */
        { HFI_WAITER_ASKING, 100, 1, 1, HFI_MESSAGE_IGNORE },
        { HFI_WAITER_RESTING, 0, 0, 1, HFI_MESSAGE_IGNORE },
        { HFI_WAITER_CANCELLING, 0, 0, 1, HFI_MESSAGE_IGNORE },
        { HFI_WAITER_CONFIRMING, 0, 0, 1, HFI_MESSAGE_IGNORE },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hfi_message_judge(cases[i].state, T0 - cases[i].age_ms, cases[i].floor,
                                           cases[i].token, 10000, T0),
                         cases[i].then);
}

static void every_window(void **state)
{
    static const struct {
        int64_t ttl_ms, least_ms, most_ms, window_ms;
    } cases[] = {
        { 1000, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS, 3000 },
        { 3000, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS, 3000 },
        { 5000, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS, 5000 },
        { 30000, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS, 10000 },
        { HF_DURATION_MAX_MS, HFI_WINDOW_MIN_MS, HFI_WINDOW_MAX_MS, 10000 },
        { 1000, 5000, 5000, 5000 }, /* SQL: window=5s */
        { 30000, 5000, 5000, 5000 },
        { 2000, HFI_WINDOW_MIN_MS, 2500, 2500 }, /* Redlock: max_ttl less the lock delay */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(hfi_window_ms(cases[i].ttl_ms, cases[i].least_ms, cases[i].most_ms),
                         cases[i].window_ms);
    /* A waiter whose heartbeats are answered is never stale: one lost and one late still reach the server. */
    assert_int_equal(hfi_heartbeat_ms(9000), 3000);
    assert_false(hfi_grant_is_stale(9000 - hfi_heartbeat_ms(9000), 9000));
}

/* Of each letter, what it means to one that asks, is queued, rests, cancels, confirms. */
static void every_answer(void **state)
{
    static const struct {
        char letter;
        enum hfi_waiter_answer means[HFI_WAITER_STATES];
    } cases[] = {
        { 'G',
          { HFI_ANSWER_GRANTED, HFI_ANSWER_GRANTED, HFI_ANSWER_ODD, HFI_ANSWER_GRANTED,
            HFI_ANSWER_ODD } },
        { 'Q',
          { HFI_ANSWER_QUEUED, HFI_ANSWER_QUEUED, HFI_ANSWER_ODD, HFI_ANSWER_ODD,
            HFI_ANSWER_ODD } },
        { 'B', { [HFI_WAITER_ASKING] = HFI_ANSWER_BUSY } },
        { 'M', { [HFI_WAITER_ASKING] = HFI_ANSWER_MISMATCH } },
        { 'F', { [HFI_WAITER_ASKING] = HFI_ANSWER_FULL } },
        { 'N',
          { [HFI_WAITER_ASKING] = HFI_ANSWER_FORGOTTEN,
            [HFI_WAITER_QUEUED] = HFI_ANSWER_FORGOTTEN,
            [HFI_WAITER_CANCELLING] = HFI_ANSWER_LEFT } },
        { 'C', { [HFI_WAITER_CANCELLING] = HFI_ANSWER_LEFT } },
        { '?', { HFI_ANSWER_ODD } },
        { 0, { HFI_ANSWER_ODD } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (enum hfi_waiter_state s = HFI_WAITER_ASKING; s < HFI_WAITER_STATES; s++)
            assert_int_equal(hfi_waiter_answered(s, cases[i].letter), cases[i].means[s]);
}

static void every_transition(void **state)
{
    /* from: asking, queued, resting, cancelling, confirming; to: the same */
    static const char *const may[HFI_WAITER_STATES] = { "yyyyy", "yyyyy", "y--y-", "----y",
                                                        "y-yy-" };

    (void)state;
    for (enum hfi_waiter_state from = HFI_WAITER_ASKING; from < HFI_WAITER_STATES; from++)
        for (enum hfi_waiter_state to = HFI_WAITER_ASKING; to < HFI_WAITER_STATES; to++)
            assert_int_equal(hfi_waiter_may(from, to), may[from][to] == 'y');
}

static void every_mismatch(void **state)
{
    static const struct {
        int64_t mode, capacity;
        const char *text;
    } cases[] = {
        { HFI_MODE_MUTEX, 1, "the name is in use as a mutex" },
        { HFI_MODE_RW, HFI_RW_MAX, "the name is in use as a read-write lock" },
        { HFI_MODE_SEMAPHORE, 3, "the name is in use as a semaphore of 3" },
        { 9, 0, "the name is in use as another kind" },
        { -1, -1, "the name is in use as another kind" },
    };
    hf_error err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(hfi_mismatch_set(&err, cases[i].mode, cases[i].capacity), HF_MISMATCH);
        assert_string_equal(err.text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_grant),    cmocka_unit_test(core_agrees_with_all),
        cmocka_unit_test(every_message),  cmocka_unit_test(every_window),
        cmocka_unit_test(every_answer),   cmocka_unit_test(every_transition),
        cmocka_unit_test(every_mismatch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
