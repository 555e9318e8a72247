/* SPDX-License-Identifier: MIT */
/* The plan to heal a cluster: what is stuck, what comes first, and that it comes to an end. */
#include "engine/redlock/quorum.h"
#include "unit.h"

#include <string.h>

#define MAX_TTL_MS 1000

static void set_id(unsigned char *id, unsigned char mark)
{
    memset(id, mark, HFI_EPOCH_ID);
}

static struct hfi_epoch epoch_of(uint64_t number, unsigned char mark)
{
    struct hfi_epoch epoch = { .number = number };

    set_id(epoch.id, mark);
    return epoch;
}

static struct hfi_node_view ready(uint64_t number, unsigned char mark, uint64_t top, unsigned n)
{
    struct hfi_node_view view = { .state = HFI_NODE_READY,
                                  .epoch = epoch_of(number, mark),
                                  .n = n,
                                  .max_ttl_ms = MAX_TTL_MS,
                                  .top = top };

    set_id(view.cluster, 'c');
    return view;
}

static struct hfi_node_view empty(unsigned char mark, int64_t age_ms)
{
    struct hfi_node_view view = { .state = HFI_NODE_EMPTY, .marked = mark != 0, .age_ms = age_ms };

    set_id(view.marker, mark);
    return view;
}

static struct hfi_node_view unknown(void)
{
    return (struct hfi_node_view){ .state = HFI_NODE_UNKNOWN };
}

static void expect(const struct hfi_node_view *nodes, unsigned n, enum hfi_heal_step step,
                   uint32_t at, uint64_t number, unsigned char mark)
{
    struct hfi_heal heal = hfi_heal_next(nodes, n);
    struct hfi_epoch epoch = epoch_of(number, mark);

    assert_int_equal(heal.step, step);
    assert_int_equal(heal.nodes, at);
    if (number)
        assert_int_equal(hfi_epoch_compare(&heal.epoch, &epoch), 0);
}

static void expect_stuck(const struct hfi_node_view *nodes, unsigned n, enum hfi_stuck why)
{
    struct hfi_heal heal = hfi_heal_next(nodes, n);

    assert_int_equal(heal.step, HFI_HEAL_STUCK);
    assert_int_equal(heal.why, why);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static void epochs_are_compared_whole(void **state)
{
    struct hfi_epoch a = epoch_of(5, 'a'), b = epoch_of(5, 'b'), c = epoch_of(6, 'a');

    (void)state;
    assert_int_equal(hfi_epoch_compare(&a, &a), 0);
    assert_int_equal(hfi_epoch_compare(&a, &b), -1);
    assert_int_equal(hfi_epoch_compare(&b, &a), 1);
    assert_int_equal(hfi_epoch_compare(&b, &c), -1);
    assert_int_equal(hfi_epoch_compare(&c, &b), 1);
    a.id[HFI_EPOCH_ID - 1] = 0xff; /* bytes, not chars with a sign */
    b = epoch_of(5, 'a');
    assert_int_equal(hfi_epoch_compare(&a, &b), 1);
}

static void the_epoch_of_a_majority(void **state)
{
    struct hfi_node_view nodes[] = { ready(5, 'a', 0, 5), ready(5, 'b', 0, 5), ready(6, 'x', 0, 5),
                                     empty('m', 0), unknown() };
    struct hfi_epoch epoch = epoch_of(1, 'z'), expected = epoch_of(5, 'b');

    (void)state;
    assert_false(hfi_epoch_current(nodes, 5, &epoch));
    nodes[3] = ready(5, 'b', 0, 5);
    assert_false(hfi_epoch_current(nodes, 5, &epoch));
    assert_int_equal(epoch.number, 1); /* set only on success */
    nodes[4] = ready(5, 'b', 0, 5);
    assert_true(hfi_epoch_current(nodes, 5, &epoch));
    assert_int_equal(hfi_epoch_compare(&epoch, &expected), 0);
}

/* ---- a start, and where a person must look --------------------------------------------------- */

static void all_empty_is_a_start(void **state)
{
    struct hfi_node_view nodes[] = { empty(0, 0), empty('o', 5000), empty(0, 0) };

    (void)state;
    expect(nodes, 3, HFI_HEAL_START, 7, 0, 0);
    nodes[1] = unknown();
    expect_stuck(nodes, 3, HFI_STUCK_FEW);
}

static struct hfi_node_view started(const unsigned char *start_id, unsigned node)
{
    struct hfi_node_view view = { .state = HFI_NODE_EMPTY, .marked = true };

    hfi_start_marker(start_id, node, view.marker);
    return view;
}

/* The starter died after the first install: a node that still carries its marker has never
 * voted. */
static void a_start_is_carried_on(void **state)
{
    unsigned char id[HFI_EPOCH_ID];
    struct hfi_node_view nodes[3] = { ready(1, 's', 0, 3) };

    (void)state;
    set_id(id, 's');
    hfi_start_epoch(id, &nodes[0].epoch);
    assert_int_equal(nodes[0].epoch.number, 1);
    nodes[1] = started(id, 1);
    nodes[2] = started(id, 2);
    assert_int_not_equal(memcmp(nodes[1].marker, nodes[2].marker, HFI_EPOCH_ID), 0);
    assert_int_not_equal(memcmp(nodes[1].marker, nodes[0].epoch.id, HFI_EPOCH_ID), 0);
    expect(nodes, 3, HFI_HEAL_INSTALL, 2, 0, 0);
    nodes[1] = empty('t', 0); /* taken by another start meanwhile */
    expect(nodes, 3, HFI_HEAL_INSTALL, 4, 0, 0);
    nodes[2] = empty(0, 0);
    expect_stuck(nodes, 3, HFI_STUCK_LOST);
    nodes[2] = started(id, 2);
    nodes[0].epoch.number = 2; /* not a first epoch: that is a loss of two */
    expect_stuck(nodes, 3, HFI_STUCK_LOST);
}

/* With a majority there the rest is healed like any other loss: by a seal of its own. */
static void the_rest_of_a_start_is_sealed_for(void **state)
{
    unsigned char id[HFI_EPOCH_ID];
    struct hfi_node_view nodes[3] = { ready(1, 's', 0, 3), ready(1, 's', 0, 3) };
    struct hfi_heal heal;

    (void)state;
    set_id(id, 's');
    hfi_start_epoch(id, &nodes[0].epoch);
    hfi_start_epoch(id, &nodes[1].epoch);
    nodes[2] = started(id, 2);
    nodes[2].age_ms = MAX_TTL_MS;
    heal = hfi_heal_next(nodes, 3);
    assert_int_equal(heal.step, HFI_HEAL_SEAL);
    assert_int_equal(heal.epoch.number, 2);
    assert_memory_equal(heal.epoch.id, nodes[2].marker, HFI_EPOCH_ID);
}

static void too_few_are_left(void **state)
{
    struct hfi_node_view nodes[] = { ready(2, 'a', 0, 5), ready(2, 'a', 0, 5), unknown(),
                                     empty('m', 9999), unknown() };

    (void)state;
    expect_stuck(nodes, 5, HFI_STUCK_FEW);
    nodes[2] = empty('k', 9999);
    expect_stuck(nodes, 5, HFI_STUCK_FEW);
    nodes[4] = empty(0, 0);
    expect_stuck(nodes, 5, HFI_STUCK_LOST);
}

static void nodes_that_do_not_belong_together(void **state)
{
    struct hfi_node_view nodes[] = { ready(2, 'a', 0, 3), ready(2, 'a', 0, 3),
                                     ready(9, 'b', 0, 3) };

    (void)state;
    set_id(nodes[2].cluster, 'd');
    expect_stuck(nodes, 3, HFI_STUCK_CLUSTERS);
    nodes[2] = ready(2, 'a', 0, 5);
    expect_stuck(nodes, 3, HFI_STUCK_COUNT);
    nodes[2].state = HFI_NODE_EMPTY;
    expect(nodes, 3, HFI_HEAL_MARK, 4, 0, 0);
}

/* ---- one loss, step by step --------------------------------------------------------------------- */

static void a_loss_is_healed(void **state)
{
    struct hfi_node_view nodes[] = { ready(4, 'a', 70, 3), empty(0, 0), ready(4, 'a', 90, 3) };
    struct hfi_heal heal;

    (void)state;
    expect(nodes, 3, HFI_HEAL_MARK, 2, 0, 0);
    nodes[1] = empty('m', 400);
    heal = hfi_heal_next(nodes, 3);
    assert_int_equal(heal.step, HFI_HEAL_AGE);
    assert_int_equal(heal.wait_ms, MAX_TTL_MS - 400);
    nodes[1] = empty('m', MAX_TTL_MS - 1);
    expect(nodes, 3, HFI_HEAL_AGE, 2, 0, 0);
    nodes[1] = empty('m', MAX_TTL_MS);
    expect(nodes, 3, HFI_HEAL_SEAL, 5, 5, 'm');
    nodes[0] = ready(5, 'm', 71, 3); /* the healer died here: another goes on with the same epoch */
    expect(nodes, 3, HFI_HEAL_SEAL, 4, 5, 'm');
    nodes[2] = ready(5, 'm', 95, 3);
    heal = hfi_heal_next(nodes, 3);
    assert_int_equal(heal.step, HFI_HEAL_INSTALL);
    assert_int_equal(heal.nodes, 2);
    assert_int_equal(heal.floor, 96);
    nodes[1] = ready(5, 'm', 96, 3);
    expect(nodes, 3, HFI_HEAL_NOTHING, 0, 0, 0);
}

/* Two of five; the lower number first, each with an epoch of its own. */
static void two_losses(void **state)
{
    struct hfi_node_view nodes[] = { ready(4, 'a', 1, 5), empty('m', 5000), ready(4, 'a', 1, 5),
                                     empty('k', 5000), ready(4, 'a', 1, 5) };

    (void)state;
    expect(nodes, 5, HFI_HEAL_SEAL, 0x15, 5, 'm');
    nodes[0] = nodes[2] = nodes[4] = ready(5, 'm', 1, 5);
    expect(nodes, 5, HFI_HEAL_INSTALL, 2, 5, 'm');
    nodes[1] = ready(5, 'm', 2, 5);
    expect(nodes, 5, HFI_HEAL_SEAL, 0x17, 6, 'k');
    nodes[0] = ready(6, 'k', 1, 5);
    nodes[2] = unknown();
    expect(nodes, 5, HFI_HEAL_SEAL, 0x12, 6, 'k');
    nodes[1] = nodes[4] = ready(6, 'k', 2, 5);
    expect(nodes, 5, HFI_HEAL_INSTALL, 8, 6, 'k');
}

/* Sealed for a node that nobody reaches any more: the others must meet in one epoch. */
static void laggards_are_lifted(void **state)
{
    struct hfi_node_view nodes[] = { ready(4, 'a', 1, 3), unknown(), ready(5, 'm', 1, 3) };

    (void)state;
    expect(nodes, 3, HFI_HEAL_LIFT, 1, 5, 'm');
    nodes[1] = empty(0, 0); /* ... before anything else */
    expect(nodes, 3, HFI_HEAL_LIFT, 1, 5, 'm');
    nodes[1] = empty('k', 5000); /* but a seal for it lifts them as well */
    expect(nodes, 3, HFI_HEAL_SEAL, 5, 6, 'k');
    nodes[0] = ready(5, 'b', 1, 3); /* same number: the ids decide, and nobody goes back */
    nodes[1] = unknown();
    expect(nodes, 3, HFI_HEAL_LIFT, 1, 5, 'm');
}

/* ---- to the end ------------------------------------------------------------------------------------ */

static void carry_out(struct hfi_node_view *nodes, unsigned n, const struct hfi_heal *heal,
                      unsigned char *fresh)
{
    for (unsigned i = 0; i < n; i++) {
        if (!(heal->nodes >> i & 1))
            continue;
        switch (heal->step) {
        case HFI_HEAL_MARK:
            nodes[i] = empty(++*fresh, 0);
            break;
        case HFI_HEAL_AGE:
            nodes[i].age_ms += heal->wait_ms;
            break;
        case HFI_HEAL_SEAL:
        case HFI_HEAL_LIFT:
            assert_int_equal(nodes[i].state, HFI_NODE_READY);
            assert_int_equal(hfi_epoch_compare(&heal->epoch, &nodes[i].epoch), 1);
            nodes[i].epoch = heal->epoch;
            break;
        default:
            assert_int_equal(heal->step, HFI_HEAL_INSTALL);
            assert_int_equal(nodes[i].state, HFI_NODE_EMPTY);
            nodes[i] = ready(heal->epoch.number, heal->epoch.id[0], heal->floor, n);
        }
    }
}

/* From any state with an intact majority all that answer are READY in one epoch after a few steps. An install
 * comes only when a majority of all n is in its epoch, and with a floor above all of them. */
static void it_comes_to_an_end(void **state)
{
    uint64_t random = 88172645463325252U;

    (void)state;
    for (unsigned run = 0; run < 20000; run++) {
        unsigned n = 3 + (unsigned)(unit_random(&random) >> 32) % 5, steps = 0, intact = 0;
        struct hfi_node_view nodes[7];
        unsigned char fresh = 'p';
        struct hfi_heal heal;

        for (unsigned i = 0; i < n; i++) {
            uint64_t drawn = unit_random(&random) >> 20;

            nodes[i] = ready(2 + drawn % 3, (unsigned char)('a' + drawn / 3 % 3), drawn % 50, n);
            if (intact + (n - i - 1) >= hfi_majority(n) && drawn / 64 % 2)
                nodes[i] = drawn / 128 % 3 == 0   ? unknown()
                           : drawn / 128 % 3 == 1 ? empty(0, 0)
                                                  : empty((unsigned char)('a' + i % 3), 5000);
            intact += nodes[i].state == HFI_NODE_READY;
        }
        while ((heal = hfi_heal_next(nodes, n)).step != HFI_HEAL_NOTHING) {
            struct hfi_epoch current;

            assert_true(heal.step != HFI_HEAL_STUCK && steps++ < 60);
            if (heal.step == HFI_HEAL_INSTALL) {
                assert_true(hfi_epoch_current(nodes, n, &current));
                assert_int_equal(hfi_epoch_compare(&current, &heal.epoch), 0);
                for (unsigned i = 0; i < n; i++)
                    assert_true(nodes[i].state != HFI_NODE_READY || nodes[i].top < heal.floor);
            }
            carry_out(nodes, n, &heal, &fresh);
        }
        for (unsigned i = 0; i < n; i++)
            assert_true(nodes[i].state != HFI_NODE_EMPTY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_are_compared_whole),
        cmocka_unit_test(the_epoch_of_a_majority),
        cmocka_unit_test(all_empty_is_a_start),
        cmocka_unit_test(a_start_is_carried_on),
        cmocka_unit_test(the_rest_of_a_start_is_sealed_for),
        cmocka_unit_test(too_few_are_left),
        cmocka_unit_test(nodes_that_do_not_belong_together),
        cmocka_unit_test(a_loss_is_healed),
        cmocka_unit_test(two_losses),
        cmocka_unit_test(laggards_are_lifted),
        cmocka_unit_test(it_comes_to_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
