/* SPDX-License-Identifier: MIT */
/* What follows from the votes of N nodes: every combination of a few, and the cases worth a name. */
#include "engine/redlock/quorum.h"
#include "unit.h"

#include <string.h>

static struct hfi_ballot_outcome decide(const struct hfi_ballot *ballot, bool waits)
{
    return hfi_ballot_decide(ballot, waits);
}

static void grant(struct hfi_ballot *ballot, unsigned node, uint64_t counter)
{
    hfi_ballot_granted(ballot, node, counter, 0, 1000, 500);
}

/* ---- the cases that have a name --------------------------------------------------------- */

static void majorities(void **state)
{
    static const unsigned need[] = { 1, 2, 2, 3, 3, 4, 4, 5 };

    (void)state;
    for (unsigned n = 1; n <= COUNT(need); n++)
        assert_int_equal(hfi_majority(n), need[n - 1]);
}

static void one_round_trip(void **state)
{
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 5);
    assert_int_equal(decide(&ballot, false).verdict, HFI_BALLOT_FEW);
    for (unsigned i = 0; i < 5; i++)
        hfi_ballot_asked(&ballot, i);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(decide(&ballot, i == 1).verdict, HFI_BALLOT_OPEN);
        grant(&ballot, i + 1, 77);
        grant(&ballot, i + 1, 77); /* a node has one vote, whatever it says */
    }
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.token, 77);
    assert_int_equal(outcome.nodes, 0x0e);
    assert_int_equal(outcome.wrong, 0);
}

static void replies_are_not_nodes(void **state)
{
    struct hfi_ballot ballot;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    for (unsigned i = 0; i < 3; i++)
        hfi_ballot_asked(&ballot, i);
    for (unsigned i = 0; i < 9; i++)
        grant(&ballot, 2, 7);
    assert_int_equal(decide(&ballot, false).verdict, HFI_BALLOT_OPEN);
}

static void write_back_until_one_token(void **state)
{
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    grant(&ballot, 0, 5);
    grant(&ballot, 1, 9);
    hfi_ballot_asked(&ballot, 2);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WRITE);
    assert_int_equal(outcome.token, 9);
    assert_int_equal(outcome.nodes, 1);
    hfi_ballot_writing(&ballot, 0, 9);
    assert_int_equal(decide(&ballot, false).verdict, HFI_BALLOT_OPEN);
    hfi_ballot_wrote(&ballot, 0, 12); /* another client had raised it: no node has 9, so it must be
                                       * 12 */
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WRITE);
    assert_int_equal(outcome.token, 12);
    assert_int_equal(outcome.nodes, 2);
    hfi_ballot_writing(&ballot, 1, 12);
    hfi_ballot_wrote(&ballot, 1, 12);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.token, 12);
    assert_int_equal(outcome.nodes, 3);
}

/* While 9 is being written the third answers with 11: another write-back to the first, and the answer
 * to the first one does not pass for the answer to the second. */
static void two_write_backs_at_one_node(void **state)
{
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    grant(&ballot, 0, 5);
    grant(&ballot, 1, 9);
    hfi_ballot_writing(&ballot, 0, 9);
    grant(&ballot, 2, 11);
    outcome = decide(&ballot, true);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WRITE);
    assert_int_equal(outcome.token, 11);
    assert_int_equal(outcome.nodes, 3);
    hfi_ballot_writing(&ballot, 0, 11);
    hfi_ballot_writing(&ballot, 1, 11);
    hfi_ballot_wrote(&ballot, 0, 9); /* 9 at two nodes, but they are about to say 11 */
    assert_int_equal(decide(&ballot, true).verdict, HFI_BALLOT_OPEN);
    assert_int_equal(ballot.node[0].asked, 11);
    hfi_ballot_wrote(&ballot, 0, 11);
    assert_int_equal(ballot.node[0].asked, 0);
    outcome = decide(&ballot, true);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.token, 11);
}

/* Two nodes agree, but one of them has been asked for what a third said first: its record will not say
 * what would be won, so that a renewal, which counts records that do, would find one node only. */
static void a_third_that_agrees_late(void **state)
{
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    grant(&ballot, 0, 9);
    grant(&ballot, 1, 8);
    hfi_ballot_writing(&ballot, 1, 9);
    grant(&ballot, 2, 8);
    outcome = decide(&ballot, true);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WRITE);
    assert_int_equal(outcome.token, 9);
    assert_int_equal(outcome.nodes, 4);
    hfi_ballot_writing(&ballot, 2, 9);
    assert_int_equal(decide(&ballot, true).verdict, HFI_BALLOT_OPEN);
    hfi_ballot_wrote(&ballot, 1, 9);
    outcome = decide(&ballot, true);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.token, 9);
    assert_int_equal(outcome.nodes, 3);
}

static void a_write_back_that_finds_nothing(void **state)
{
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    grant(&ballot, 0, 5);
    grant(&ballot, 1, 9);
    hfi_ballot_voted(&ballot, 2, HFI_VOTE_SILENT);
    hfi_ballot_writing(&ballot, 0, 9);
    hfi_ballot_wrote(&ballot, 0, 0);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_FEW);
    assert_int_equal(outcome.nodes, 2);
    hfi_ballot_wrote(&ballot, 0, 9); /* late, and of no use any more */
    assert_int_equal(decide(&ballot, false).verdict, HFI_BALLOT_FEW);
}

static void a_second_grant(void **state)
{
    struct hfi_ballot ballot;

    (void)state;
    hfi_ballot_init(&ballot, 3);
    grant(&ballot, 0, 5);
    hfi_ballot_writing(&ballot, 0, 8);
    hfi_ballot_wrote(&ballot, 0, 8);
    hfi_ballot_granted(&ballot, 0, 8, 0, 2000, 700); /* a heartbeat tells the last write-back */
    assert_int_equal(ballot.node[0].granted, 5);
    assert_int_equal(ballot.node[0].written, 8);
    assert_int_equal(ballot.node[0].sent_ms, 2000);
    assert_int_equal(ballot.node[0].held_ms, 700);
    hfi_ballot_granted(&ballot, 0, 11, 0, 3000, 700); /* it had ended there, and was granted
                                                       * again */
    assert_int_equal(ballot.node[0].granted, 11);
    assert_int_equal(ballot.node[0].written, 0);
    hfi_ballot_voted(&ballot, 0, HFI_VOTE_QUEUED);
    hfi_ballot_granted(&ballot, 0, 11, 0, 4000, 700);
    assert_int_equal(ballot.node[0].granted, 11);
    hfi_ballot_writing(&ballot, 0, 12);
    hfi_ballot_asked(&ballot, 0);
    assert_int_equal(ballot.node[0].asked, 0);
    assert_int_equal(ballot.node[0].granted, 0);
}

/* Only a majority counts for the time: the two that end first do not matter, the third does. */
static void valid_until_a_majority_ends(void **state)
{
    static const int64_t sent[] = { 100, 300, 200, 100, 100 }, held[] = { 10, 10, 10, 210, 250 };
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 5);
    for (unsigned i = 0; i < 5; i++)
        hfi_ballot_granted(&ballot, i, 4, 0, sent[i], held[i]);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.sent_ms + outcome.held_ms, 310);
    hfi_ballot_voted(&ballot, 4, HFI_VOTE_SILENT);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.sent_ms, 200);
    assert_int_equal(outcome.held_ms, 10);
}

static void different_slots(void **state)
{
    static const uint64_t choices[] = { 1, 2, 1, 4, 1 };
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    (void)state;
    hfi_ballot_init(&ballot, 5);
    for (unsigned i = 0; i < 5; i++)
        hfi_ballot_granted(&ballot, i, 6, choices[i], 10, 10);
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_WON);
    assert_int_equal(outcome.choice, 1);
    assert_int_equal(outcome.nodes, 0x15);
    assert_int_equal(outcome.wrong, 0x0a);
    hfi_ballot_granted(&ballot, 4, 6, 2, 10, 10); /* other slots: another grant */
    outcome = decide(&ballot, false);
    assert_int_equal(outcome.verdict, HFI_BALLOT_BUSY);
    assert_int_equal(outcome.nodes, 0x1f);
    outcome = decide(&ballot, true);
    assert_int_equal(outcome.verdict, HFI_BALLOT_SPLIT);
    assert_int_equal(outcome.nodes, 0x1f);
}

static struct hfi_ballot votes(unsigned n, const enum hfi_vote *vote)
{
    struct hfi_ballot ballot;

    hfi_ballot_init(&ballot, n);
    for (unsigned i = 0; i < n; i++)
        if (vote[i] == HFI_VOTE_GRANTED)
            grant(&ballot, i, 3);
        else
            hfi_ballot_voted(&ballot, i, vote[i]);
    return ballot;
}

/* One letter for each: the vote (as in the enum: n a G q b k f o s). */
static void expect(const char *letters, bool waits, enum hfi_verdict verdict)
{
    static const char names[] = "naGqbkfos";
    enum hfi_vote vote[HFI_NODES_MAX];
    unsigned n = (unsigned)strlen(letters);
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    for (unsigned i = 0; i < n; i++)
        vote[i] = (enum hfi_vote)(strchr(names, letters[i]) - names);
    ballot = votes(n, vote);
    outcome = decide(&ballot, waits);
    if (outcome.verdict != verdict)
        fail_msg("%s %d: %d instead of %d", letters, waits, outcome.verdict, verdict);
}

static void reasons(void **state)
{
    (void)state;
    expect("GGbbb", false, HFI_BALLOT_BUSY);
    expect("GGqqq", false, HFI_BALLOT_BUSY);
    expect("aabbb", false, HFI_BALLOT_BUSY); /* what is under way does not matter */
    expect("aaabb", false, HFI_BALLOT_OPEN);
    expect("GGbss", false, HFI_BALLOT_BUSY); /* the other client may hold at the two silent nodes */
    expect("Gbsss", false, HFI_BALLOT_FEW);
    expect("GGkkk", false, HFI_BALLOT_KIND);
    expect("GGkkk", true, HFI_BALLOT_KIND);
    expect("GGkkb", false, HFI_BALLOT_BUSY);
    expect("GGkss", false, HFI_BALLOT_BUSY);
    expect("GGkss", true, HFI_BALLOT_FEW);
    expect("GGkkq", true, HFI_BALLOT_SPLIT);
    expect("fffGG", false, HFI_BALLOT_FULL);
    expect("fffqq", true, HFI_BALLOT_FULL);
    expect("ffsGG", false, HFI_BALLOT_FEW);
    expect("ooosG", false, HFI_BALLOT_FEW);
    expect("nnnnn", true, HFI_BALLOT_FEW);
    expect("kkss", false, HFI_BALLOT_KIND); /* even: either is enough alone */
    expect("GGbb", false, HFI_BALLOT_BUSY);
}

static void waiting(void **state)
{
    (void)state;
    expect("qqq", true, HFI_BALLOT_WAITING);
    expect("qqs", true, HFI_BALLOT_WAITING);
    expect("qss", true, HFI_BALLOT_FEW);
    expect("qas", true, HFI_BALLOT_OPEN);
    expect("qaa", true, HFI_BALLOT_OPEN);
    expect("qqa", true, HFI_BALLOT_WAITING); /* one grant is not enough */
    expect("Gqa", true, HFI_BALLOT_OPEN);
    expect("Gqq", true, HFI_BALLOT_SPLIT);
    expect("Gqs", true, HFI_BALLOT_SPLIT);
    expect("Gss", true, HFI_BALLOT_FEW);
    expect("Gqqqa", true, HFI_BALLOT_SPLIT); /* a stopped node does not keep two halves apart */
    expect("GGqqa", true, HFI_BALLOT_OPEN);
    expect("GGGqq", true, HFI_BALLOT_WON);
}

static void tallies(void **state)
{
    (void)state;
    assert_int_equal(hfi_tally(3, 0, 0, 3), HFI_TALLY_OPEN);
    assert_int_equal(hfi_tally(3, 2, 1, 0), HFI_TALLY_YES);
    assert_int_equal(hfi_tally(3, 1, 1, 1), HFI_TALLY_OPEN);
    assert_int_equal(hfi_tally(3, 1, 1, 0), HFI_TALLY_UNKNOWN);
    assert_int_equal(hfi_tally(3, 1, 2, 0), HFI_TALLY_NO);
    assert_int_equal(hfi_tally(4, 2, 1, 0), HFI_TALLY_UNKNOWN);
    assert_int_equal(hfi_tally(4, 2, 2, 0), HFI_TALLY_NO);
    for (unsigned n = 3; n <= 7; n++)
        for (unsigned yes = 0; yes <= n; yes++)
            for (unsigned no = 0; yes + no <= n; no++)
                for (unsigned open = 0; yes + no + open <= n; open++) {
                    enum hfi_tally tally = hfi_tally(n, yes, no, open);

                    assert_int_equal(tally == HFI_TALLY_YES, 2 * yes > n);
                    assert_int_equal(tally == HFI_TALLY_NO, 2 * (n - no) <= n);
                    assert_int_equal(tally == HFI_TALLY_OPEN,
                                     2 * yes <= n && 2 * (n - no) > n && open);
                }
}

/* ---- every combination -------------------------------------------------------------------- */

/* What a node may have said: 8 votes that are no grant, then grants with counters, slots and
 * write-backs, done and under way. */
static struct hfi_ballot_node variant(unsigned number)
{
    struct hfi_ballot_node node = { .vote = (enum hfi_vote)number };

    if (number >= HFI_VOTE_GRANTED)
        node.vote = (enum hfi_vote)(number + 1);
    if (number < HFI_VOTE_SILENT)
        return node;
    number -= HFI_VOTE_SILENT;
    node.vote = HFI_VOTE_GRANTED;
    node.choice = number % 2;
    node.granted = 1 + number / 2 % 2;
    node.written = number / 4 % 4;
    node.asked = number / 16 % 4;
    node.sent_ms = (int64_t)number;
    node.held_ms = 100;
    return node;
}

static unsigned count_of(const struct hfi_ballot *ballot, enum hfi_vote vote)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ballot->n; i++)
        count += ballot->node[i].vote == vote;
    return count;
}

static unsigned witnesses_of(const struct hfi_ballot *ballot, uint64_t choice, uint64_t token)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ballot->n; i++) {
        const struct hfi_ballot_node *at = &ballot->node[i];

        uint64_t says = at->written > at->granted ? at->written : at->granted;

        count += at->vote == HFI_VOTE_GRANTED && at->choice == choice &&
                 (token == 0 || (says == token && at->asked <= token));
    }
    return count;
}

static unsigned size_of(uint32_t nodes)
{
    return (unsigned)__builtin_popcount(nodes);
}

static void check_won(const struct hfi_ballot *ballot, const struct hfi_ballot_outcome *outcome)
{
    unsigned longer = 0;

    assert_true(size_of(outcome->nodes) >= ballot->need);
    assert_int_equal(size_of(outcome->nodes),
                     witnesses_of(ballot, outcome->choice, outcome->token));
    assert_int_equal(size_of(outcome->wrong),
                     count_of(ballot, HFI_VOTE_GRANTED) - witnesses_of(ballot, outcome->choice, 0));
    for (unsigned i = 0; i < ballot->n; i++)
        longer += ballot->node[i].vote == HFI_VOTE_GRANTED &&
                  ballot->node[i].choice == outcome->choice &&
                  ballot->node[i].sent_ms + ballot->node[i].held_ms >=
                      outcome->sent_ms + outcome->held_ms;
    assert_true(longer >= ballot->need);
}

static void check_write(const struct hfi_ballot *ballot, const struct hfi_ballot_outcome *outcome)
{
    for (unsigned i = 0; i < ballot->n; i++) {
        const struct hfi_ballot_node *at = &ballot->node[i];

        if (!(outcome->nodes >> i & 1))
            continue;
        assert_int_equal(at->vote, HFI_VOTE_GRANTED);
        assert_true(witnesses_of(ballot, at->choice, 0) >= ballot->need);
        assert_true(at->granted < outcome->token && at->written < outcome->token);
        assert_true(at->asked != outcome->token);
    }
    assert_true(outcome->nodes != 0);
}

static void check(const struct hfi_ballot *ballot, bool waits)
{
    struct hfi_ballot_outcome outcome = decide(ballot, waits);
    unsigned granted = count_of(ballot, HFI_VOTE_GRANTED);
    unsigned asked = count_of(ballot, HFI_VOTE_ASKED);
    unsigned queued = count_of(ballot, HFI_VOTE_QUEUED);
    bool can_win = false, has_majority = false;

    for (uint64_t choice = 0; choice < 2; choice++) {
        has_majority |= witnesses_of(ballot, choice, 0) >= ballot->need;
        for (uint64_t token = 1; token <= 3; token++)
            can_win |= witnesses_of(ballot, choice, token) >= ballot->need;
    }
    assert_int_equal(outcome.verdict == HFI_BALLOT_WON, can_win);
    switch (outcome.verdict) {
    case HFI_BALLOT_WON:
        check_won(ballot, &outcome);
        break;
    case HFI_BALLOT_WRITE:
        check_write(ballot, &outcome);
        break;
    case HFI_BALLOT_OPEN:
        assert_true(asked || has_majority);
        break;
    case HFI_BALLOT_WAITING:
        assert_true(waits && granted == 0 && queued >= ballot->need);
        break;
    case HFI_BALLOT_SPLIT:
        assert_true(waits && granted > 0 && granted + queued >= ballot->need);
        assert_int_equal(size_of(outcome.nodes), granted);
        break;
    default: /* refused: not for want of patience */
        assert_int_equal(size_of(outcome.nodes), granted);
        assert_false(has_majority);
        assert_true(!waits || granted + queued + asked < ballot->need);
    }
}

static void every_combination(unsigned n, unsigned variants)
{
    unsigned long all = 1;

    for (unsigned i = 0; i < n; i++)
        all *= variants;
    for (unsigned long number = 0; number < all; number++) {
        struct hfi_ballot ballot;
        unsigned long rest = number;

        hfi_ballot_init(&ballot, n);
        for (unsigned i = 0; i < n; i++, rest /= variants)
            ballot.node[i] = variant((unsigned)(rest % variants));
        check(&ballot, false);
        check(&ballot, true);
    }
}

static void every_combination_of_three(void **state)
{
    (void)state;
    every_combination(3, 72);
}

static void every_combination_of_four(void **state)
{
    (void)state;
    every_combination(4, 16);
}

static void every_combination_of_five(void **state)
{
    (void)state;
    every_combination(5, 12);
}

/* What a node says is checked before it is a number of ours. */
static void slots_of_a_node(void **state)
{
    static const struct {
        const char *text;
        uint32_t permits;
        bool fine;
    } cases[] = {
        { "0", 1, true },
        { "0,3", 2, true },
        { "999999999", 1, true },
        { "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 16, true },
        { "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 17, false },
        { "", 0, false },
        { "", 1, false },
        { "0", 2, false },
        { "0,3", 1, false },
        { "3,0", 2, false },
        { "3,3", 2, false },
        { "1000000000", 1, false },
        { "99999999999999999999", 1, false },
        { "-1", 1, false },
        { " 1", 1, false },
        { "1,", 2, false },
        { "1,", 1, false },
        { ",1", 2, false },
        { "1;2", 2, false },
    };
    uint32_t slots[HF_SLOTS_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            hfi_slots_read(cases[i].text, strlen(cases[i].text), cases[i].permits, slots),
            cases[i].fine);
    assert_true(hfi_slots_read("2,17,400", 8, 3, slots));
    assert_true(slots[0] == 2 && slots[1] == 17 && slots[2] == 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(majorities),
        cmocka_unit_test(one_round_trip),
        cmocka_unit_test(replies_are_not_nodes),
        cmocka_unit_test(write_back_until_one_token),
        cmocka_unit_test(two_write_backs_at_one_node),
        cmocka_unit_test(a_third_that_agrees_late),
        cmocka_unit_test(a_write_back_that_finds_nothing),
        cmocka_unit_test(a_second_grant),
        cmocka_unit_test(valid_until_a_majority_ends),
        cmocka_unit_test(different_slots),
        cmocka_unit_test(reasons),
        cmocka_unit_test(waiting),
        cmocka_unit_test(tallies),
        cmocka_unit_test(slots_of_a_node),
        cmocka_unit_test(every_combination_of_three),
        cmocka_unit_test(every_combination_of_four),
        cmocka_unit_test(every_combination_of_five),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
