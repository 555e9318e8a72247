/* SPDX-License-Identifier: MIT */
/*
 * What becomes of latches and barriers, without a store. The barrier is also walked at random by parties
 * that come, give up, leave, die and come back, each with what it was told checked against the others'.
 */
#include "prim/barrier_plan.h"
#include "prim/latch_plan.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static bool changed;

/* ---- latches --------------------------------------------------------------------------------------- */

static struct hfi_latch latch;

static void new_latch(uint32_t count)
{
    memset(&latch, 0, sizeof latch);
    latch.count = count;
}

static void counts_each_once(void **state)
{
    (void)state;
    new_latch(2);
    assert_int_equal(hfi_latch_down(&latch, "a", &changed), HF_OK);
    assert_true(changed);
    assert_int_equal(hfi_latch_down(&latch, "a", &changed), HF_OK);
    assert_false(changed);
    assert_int_equal(hfi_latch_left(&latch), 1);
    assert_int_equal(hfi_latch_down(&latch, "b", &changed), HF_OK);
    assert_int_equal(hfi_latch_left(&latch), 0);
    assert_int_equal(hfi_latch_down(&latch, "c", &changed), HF_OK); /* late */
    assert_false(changed);
    hfi_latch_break(&latch, "a", 0, &changed); /* too late for that too */
    assert_false(changed);
}

static void breaks_by_who_joined(void **state)
{
    (void)state;
    new_latch(2);
    assert_int_equal(hfi_latch_join(&latch, "a", 5, &changed), HF_OK);
    assert_int_equal(hfi_latch_left(&latch), 2);
    assert_int_equal(hfi_latch_join(&latch, "a", 6, &changed), HF_OK); /* it came back */
    assert_true(changed);
    hfi_latch_break(&latch, "a", 5, &changed); /* that was its earlier life */
    assert_false(changed);
    assert_int_equal(hfi_latch_down(&latch, "a", &changed), HF_OK);
    hfi_latch_break(&latch, "a", 6, &changed); /* it has done its part */
    assert_false(changed);
    assert_int_equal(hfi_latch_join(&latch, "b", 7, &changed), HF_OK);
    hfi_latch_break(&latch, "nobody", 7, &changed);
    assert_false(changed);
    hfi_latch_break(&latch, "b", 7, &changed);
    assert_true(changed);
    assert_string_equal(latch.broken, "b");
    assert_int_equal(hfi_latch_down(&latch, "b", &changed), HF_BROKEN);
    assert_int_equal(hfi_latch_join(&latch, "c", 8, &changed), HF_BROKEN);
}

static void has_a_bound(void **state)
{
    char who[16];

    (void)state;
    new_latch(HF_PARTICIPANTS_MAX);
    for (int i = 0; i < HF_PARTICIPANTS_MAX; i++) {
        snprintf(who, sizeof who, "%d", i);
        assert_int_equal(hfi_latch_join(&latch, who, 1, &changed), HF_OK);
    }
    assert_int_equal(hfi_latch_join(&latch, "more", 1, &changed), HF_FULL);
    assert_int_equal(hfi_latch_down(&latch, "more", &changed), HF_FULL);
    assert_int_equal(hfi_latch_down(&latch, "0", &changed), HF_OK);
}

/* Every record is read as it was written, and nothing that is cut off or longer is one. */
static void records_are_whole(void **state)
{
    static struct hfi_latch read_latch;
    static struct hfi_barrier barrier, read_barrier;
    struct hfi_buffer bytes = { 0 };
    uint64_t generation;

    (void)state;
    new_latch(3);
    hfi_latch_join(&latch, "a b", 7, &changed);
    hfi_latch_down(&latch, "c", &changed);
    assert_true(hfi_latch_put(&latch, &bytes));
    assert_true(hfi_latch_get(&read_latch, bytes.bytes, bytes.len));
    assert_memory_equal(&read_latch.participants.items[0].who, "a b", 4);
    assert_int_equal(read_latch.participants.count, 2);
    for (size_t len = 0; len < bytes.len; len++)
        assert_false(hfi_latch_get(&read_latch, bytes.bytes, len));
    assert_true(hfi_put_bytes(&bytes, "x", 1));
    assert_false(hfi_latch_get(&read_latch, bytes.bytes, bytes.len));
    hfi_buffer_done(&bytes);

    hfi_barrier_new(&barrier, 3, true);
    hfi_barrier_arrive(&barrier, 3, true, "a", 9, &generation, &changed);
    barrier.broken = UINT64_C(0xfedcba9876543210);
    assert_true(hfi_barrier_put(&barrier, &bytes));
    assert_true(hfi_barrier_get(&read_barrier, bytes.bytes, bytes.len));
    assert_true(read_barrier.broken == barrier.broken && read_barrier.twice);
    assert_int_equal(read_barrier.participants.items[0].token, 9);
    for (size_t len = 0; len < bytes.len; len++)
        assert_false(hfi_barrier_get(&read_barrier, bytes.bytes, len));
    assert_false(hfi_latch_get(&read_latch, bytes.bytes, bytes.len));
    hfi_buffer_done(&bytes);
}

/* ---- barriers ---------------------------------------------------------------------------------------- */

static struct hfi_barrier barrier;
static uint64_t generation;

/* As many as may take part, with names as long as may be, fit into a cell. */
static void the_largest_fits(void **state)
{
    char who[HF_PARTICIPANT_MAX + 1];
    struct hfi_buffer bytes = { 0 };

    (void)state;
    hfi_barrier_new(&barrier, HF_PARTICIPANTS_MAX, true);
    for (int i = 0; i < HF_PARTICIPANTS_MAX; i++) {
        snprintf(who, sizeof who, "%0*d", HF_PARTICIPANT_MAX, i);
        assert_int_equal(
            hfi_barrier_arrive(&barrier, HF_PARTICIPANTS_MAX, true, who, 1, &generation, &changed),
            HF_OK);
    }
    assert_int_equal(barrier.phase, HFI_OPEN);
    barrier.before = barrier.participants;
    assert_true(hfi_barrier_put(&barrier, &bytes));
    assert_true(bytes.len <= HF_CELL_MAX);
    hfi_buffer_done(&bytes);
}

/* Who lost the answer finds out, although the others are in the next generation already. */
static void who_does_not_know_finds_out(void **state)
{
    (void)state;
    hfi_barrier_new(&barrier, 2, true);
    hfi_barrier_arrive(&barrier, 2, true, "a", 1, &generation, &changed);
    hfi_barrier_arrive(&barrier, 2, true, "b", 2, &generation, &changed);
    hfi_barrier_leave(&barrier, "a", 1, &generation, &changed);
    hfi_barrier_leave(&barrier, "b", 2, &generation, &changed);
    assert_int_equal(hfi_barrier_arrive(&barrier, 2, true, "a", 3, &generation, &changed), HF_OK);
    assert_int_equal(generation, 2);
    assert_int_equal(hfi_barrier_leave(&barrier, "b", 2, &generation, &changed), HF_OK);
    assert_int_equal(generation, 1);
    assert_int_equal(hfi_barrier_leave(&barrier, "b", 9, &generation, &changed), HF_BROKEN);
    assert_int_equal(hfi_barrier_arrive(&barrier, 2, true, "b", 2, &generation, &changed), HF_OK);
    assert_false(changed);
    assert_int_equal(generation, 1);
    hfi_barrier_break(&barrier, "a", 3, &changed);
    hfi_barrier_arrive(&barrier, 2, true, "c", 4, &generation, &changed);
    assert_int_equal(hfi_barrier_leave(&barrier, "a", 3, &generation, &changed), HF_BROKEN);
}

static hf_status come(const char *who, uint64_t token)
{
    return hfi_barrier_arrive(&barrier, 2, barrier.twice, who, token, &generation, &changed);
}

static void generations_follow_each_other(void **state)
{
    (void)state;
    hfi_barrier_new(&barrier, 2, false);
    assert_int_equal(come("a", 1), HF_OK);
    assert_int_equal(generation, 1);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true), HF_TIMEOUT);
    assert_int_equal(come("a", 1), HF_OK); /* the same, asked again */
    assert_false(changed);
    assert_int_equal(come("b", 2), HF_OK);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true), HF_OK);
    assert_int_equal(come("b", 2), HF_OK); /* and again: it does not count for the next */
    assert_int_equal(generation, 1);
    assert_int_equal(come("a", 3), HF_OK);
    assert_int_equal(generation, 2);
    hfi_barrier_break(&barrier, "a", 1, &changed); /* an earlier life */
    assert_false(changed);
    hfi_barrier_break(&barrier, "a", 3, &changed);
    assert_true(changed);
    assert_int_equal(hfi_barrier_outcome(&barrier, 2, true), HF_BROKEN);
    assert_string_equal(barrier.gone, "a");
    assert_int_equal(come("a", 4), HF_OK);
    assert_int_equal(come("b", 5), HF_OK);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true),
                     HF_OK); /* a late reader still learns the outcome */
    assert_int_equal(hfi_barrier_outcome(&barrier, 2, true), HF_BROKEN);
    assert_int_equal(hfi_barrier_outcome(&barrier, 3, true), HF_OK);
    for (uint64_t token = 6; token < 6 + 2 * 64; token++)
        assert_int_equal(come(token % 2 ? "a" : "b", token), HF_OK);
    assert_int_equal(hfi_barrier_outcome(&barrier, 3, true), HF_OK);
    assert_int_equal(hfi_barrier_outcome(&barrier, 2, true), HF_BROKEN); /* too long ago */
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true), HF_BROKEN);
}

static void who_gives_up_has_not_come(void **state)
{
    (void)state;
    hfi_barrier_new(&barrier, 2, false);
    come("a", 1);
    assert_int_equal(hfi_barrier_withdraw(&barrier, "a", 1, 1, &changed), HF_TIMEOUT);
    assert_true(changed);
    come("b", 2);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true), HF_TIMEOUT);
    come("c", 3);
    assert_int_equal(hfi_barrier_withdraw(&barrier, "b", 2, 1, &changed), HF_OK); /* too late */
    assert_false(changed);
    come("a", 4);
    assert_int_equal(come("a", 5), HF_OK); /* its lease was lost: so was its generation */
    assert_int_equal(hfi_barrier_outcome(&barrier, 2, true), HF_BROKEN);
    assert_int_equal(generation, 3);
    assert_int_equal(hfi_barrier_withdraw(&barrier, "a", 4, 2, &changed), HF_BROKEN);
    assert_int_equal(hfi_barrier_arrive(&barrier, 3, false, "d", 6, &generation, &changed),
                     HF_MISMATCH);
    assert_int_equal(hfi_barrier_arrive(&barrier, 2, true, "d", 6, &generation, &changed),
                     HF_MISMATCH);
    hfi_barrier_withdraw(&barrier, "a", 5, 3, &changed);
    assert_int_equal(hfi_barrier_arrive(&barrier, 3, true, "d", 6, &generation, &changed), HF_OK);
}

static void double_ones_leave_together(void **state)
{
    (void)state;
    hfi_barrier_new(&barrier, 2, true);
    come("a", 1);
    come("b", 2);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, true), HF_OK); /* inside */
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, false), HF_TIMEOUT);
    assert_int_equal(come("c", 3), HF_BUSY);
    assert_int_equal(hfi_barrier_leave(&barrier, "a", 1, &generation, &changed), HF_OK);
    assert_int_equal(hfi_barrier_leave(&barrier, "a", 1, &generation, &changed), HF_OK);
    assert_false(changed);
    hfi_barrier_break(&barrier, "a", 1, &changed); /* it has left, and may die */
    assert_false(changed);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, false), HF_TIMEOUT);
    assert_int_equal(hfi_barrier_leave(&barrier, "b", 2, &generation, &changed), HF_OK);
    assert_int_equal(hfi_barrier_outcome(&barrier, 1, false), HF_OK);

    come("a", 4);
    come("b", 5);
    hfi_barrier_leave(&barrier, "a", 4, &generation, &changed);
    hfi_barrier_break(&barrier, "b", 5, &changed);
    assert_int_equal(hfi_barrier_outcome(&barrier, 2, false), HF_BROKEN);
    assert_int_equal(hfi_barrier_leave(&barrier, "b", 5, &generation, &changed), HF_BROKEN);
    come("a", 6);
    assert_int_equal(hfi_barrier_leave(&barrier, "b", 5, &generation, &changed), HF_BROKEN);
}

/* ---- a walk at random ----------------------------------------------------------------------------------- */

#define WALKERS 4
#define PARTIES 3
#define STEPS   20000
#define ENDED   (STEPS + 2)

/* What each walker believes: which generation it is in, and whether it is inside or leaving. */
static struct {
    enum { AWAY, WAITING, INSIDE, LEAVING } where;
    uint64_t token, generation;
} walkers[WALKERS];
static int told[ENDED]; /* how each generation ended, as the first one was told: 1 + status */
static int counted[ENDED];
static uint64_t seed;

static void learn(int i, hf_status status)
{
    uint64_t g = walkers[i].generation;

    assert_true(told[g] == 0 || told[g] == 1 + (int)status); /* all of one are told the same */
    told[g] = 1 + (int)status;
    counted[g] += status == HF_OK;
    walkers[i].where = AWAY;
}

static void look(int i)
{
    bool leaving = walkers[i].where == LEAVING;
    hf_status status;

    if (walkers[i].where == INSIDE || walkers[i].where == AWAY)
        return;
    status = hfi_barrier_outcome(&barrier, walkers[i].generation, !leaving);
    if (status == HF_OK && barrier.twice && !leaving)
        walkers[i].where = INSIDE;
    else if (status != HF_TIMEOUT)
        learn(i, status);
}

static void walk_one(int i, uint64_t *tokens)
{
    char who[] = { (char)('a' + i), 0 };
    hf_status status;

    look(i);
    if (walkers[i].where == AWAY) {
        walkers[i].token = ++*tokens;
        status = hfi_barrier_arrive(&barrier, PARTIES, barrier.twice, who, walkers[i].token,
                                    &walkers[i].generation, &changed);
        assert_true(status == HF_OK || status == HF_BUSY);
        if (status == HF_OK)
            walkers[i].where = WAITING;
    } else if (walkers[i].where == INSIDE) {
        assert_int_equal(barrier.participants.count, PARTIES);
        status =
            hfi_barrier_leave(&barrier, who, walkers[i].token, &walkers[i].generation, &changed);
        assert_true(status == HF_OK || status == HF_BROKEN);
        walkers[i].where = LEAVING;
        if (status == HF_BROKEN)
            walkers[i].where = AWAY;
    } else if (walkers[i].where == WAITING && unit_random(&seed) % 4 == 0) { /* gives up */
        status =
            hfi_barrier_withdraw(&barrier, who, walkers[i].token, walkers[i].generation, &changed);
        assert_true(status == HF_TIMEOUT); /* we have just looked */
        walkers[i].where = AWAY;
    } else if (unit_random(&seed) % 8 == 0) { /* dies, and somebody sees it */
        hfi_barrier_break(&barrier, who, walkers[i].token, &changed);
        if (walkers[i].where != LEAVING)
            assert_true(changed);
        walkers[i].where = AWAY;
    }
    assert_true(barrier.participants.count <= PARTIES);
}

static void walk(bool twice)
{
    uint64_t tokens = 0;
    int passed = 0, broke = 0;

    seed = twice ? 7 : 3;
    memset(walkers, 0, sizeof walkers);
    memset(told, 0, sizeof told);
    memset(counted, 0, sizeof counted);
    hfi_barrier_new(&barrier, PARTIES, twice);
    for (int step = 0; step < STEPS; step++)
        walk_one((int)(unit_random(&seed) % WALKERS), &tokens);
    for (int g = 0; g < ENDED; g++) {
        assert_true(counted[g] <= PARTIES); /* never more than were asked for */
        passed += told[g] == 1 + HF_OK;
        broke += told[g] == 1 + HF_BROKEN;
    }
    assert_true(passed > 50 && broke > 50);
}

static void all_of_a_generation_are_told_the_same(void **state)
{
    (void)state;
    walk(false);
    walk(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_each_once),
        cmocka_unit_test(breaks_by_who_joined),
        cmocka_unit_test(has_a_bound),
        cmocka_unit_test(records_are_whole),
        cmocka_unit_test(the_largest_fits),
        cmocka_unit_test(who_does_not_know_finds_out),
        cmocka_unit_test(generations_follow_each_other),
        cmocka_unit_test(who_gives_up_has_not_come),
        cmocka_unit_test(double_ones_leave_together),
        cmocka_unit_test(all_of_a_generation_are_told_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
