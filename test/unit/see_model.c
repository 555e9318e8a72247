/* SPDX-License-Identifier: MIT */
/* The model of see/: states, what counts as a change, hand-overs, waits and holds, at sizes that must not hurt. */
#include "see_views.h"

#include <time.h>

static struct see_model model;
static struct views views;

static int setup(void **state)
{
    (void)state;
    see_model_init(&model);
    views_clear(&views);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    see_model_done(&model);
    views_clear(&views);
    return 0;
}

static void show(int64_t now_ms)
{
    assert_true(see_model_update(&model, &views.view, NULL, now_ms));
    views_clear(&views);
}

static size_t changed_since(uint64_t change)
{
    const struct see_row *row = NULL;
    size_t count = 0;

    while ((row = see_model_changed(&model, row, change)))
        count++;
    return count;
}

static void test_states(void **state)
{
    struct hfi_entry *entry;

    (void)state;
    views_hold(views_name(&views, "held"), 5, "a", 100, -1);
    entry = views_name(&views, "idle");
    views_hold(entry, 6, "a", 100, -1)->idle = true;
    views_wait(views_name(&views, "waiting"), 1, "w", 50);
    entry = views_name(&views, "wanted");
    views_hold(entry, 7, "a", 100, -1);
    views_wait(entry, 1, "w", 50);
    show(NOW);

    assert_int_equal(views_row(&model, "held")->state, SEE_HELD);
    assert_int_equal(views_row(&model, "idle")->state, SEE_IDLE);
    assert_int_equal(views_row(&model, "waiting")->state, SEE_WAITING);
    assert_int_equal(views_row(&model, "wanted")->state, SEE_WANTED);
    assert_int_equal(model.present, 4);
    assert_int_equal(model.waiters, 2);
    assert_int_equal(model.by_state[SEE_WANTED], 1);
    assert_true(model.up);
}

/* Ages grow, answers take some time: that is no change. A renewal is one for details only. */
static void test_nothing_changes(void **state)
{
    uint64_t change, detail;

    (void)state;
    views_hold(views_name(&views, "x"), 5, "a", 1000, 30000);
    show(NOW);
    change = model.change;
    detail = views_row(&model, "x")->detail_change;

    views_hold(views_name(&views, "x"), 5, "a", 1900, 28990);
    show(NOW + 1000);
    assert_int_equal(model.change, change);
    assert_int_equal(views_row(&model, "x")->holders[0].since_ms, NOW - 1000);

    views_hold(views_name(&views, "x"), 5, "a", 11000, 30000);
    show(NOW + 10000);
    assert_int_equal(changed_since(change), 0);
    assert_true(views_row(&model, "x")->detail_change > detail);
    assert_int_equal(views_row(&model, "x")->holders[0].until_ms, NOW + 40000);
}

/* Nobody renews: at risk at half of the ttl, lost at its end, in sight for a minute, then gone. */
static void test_lost(void **state)
{
    uint64_t change;

    (void)state;
    views_hold(views_name(&views, "x"), 5, "a", 0, 30000);
    show(NOW);
    views_hold(views_name(&views, "x"), 5, "a", 14000, 16000);
    show(NOW + 14000);
    assert_int_equal(views_row(&model, "x")->state, SEE_HELD);
    change = model.change;
    views_hold(views_name(&views, "x"), 5, "a", 16000, 14000);
    show(NOW + 16000);
    assert_int_equal(views_row(&model, "x")->state, SEE_AT_RISK);
    assert_int_equal(changed_since(change), 1);

    show(NOW + 30500);
    assert_int_equal(views_row(&model, "x")->state, SEE_LOST);
    assert_true(views_row(&model, "x")->present);
    assert_int_equal(views_row(&model, "x")->lost_at_ms, NOW + 30000);
    assert_string_equal(views_row(&model, "x")->lost.label, "a");
    assert_int_equal(model.total_lost, 1);

    change = model.change;
    show(NOW + 30000 + SEE_LOST_MS + 1);
    assert_false(views_row(&model, "x")->present);
    assert_int_equal(model.present, 0);
    assert_int_equal(changed_since(change), 1);
}

/* Gone while time was left: released. A detached lease has nobody to renew it. */
static void test_not_lost(void **state)
{
    (void)state;
    views_hold(views_name(&views, "x"), 5, "a", 0, 30000);
    show(NOW);
    show(NOW + 1000);
    assert_false(views_row(&model, "x")->present);

    views_hold(views_name(&views, "y"), 6, "a", 0, 30000)->detached = true;
    show(NOW + 2000);
    views_hold(views_name(&views, "y"), 6, "a", 29000, 1000)->detached = true;
    show(NOW + 31000);
    assert_int_equal(views_row(&model, "y")->state, SEE_HELD);
    show(NOW + 32500);
    assert_false(views_row(&model, "y")->present);
    assert_int_equal(model.total_lost, 0);
}

static void test_handover(void **state)
{
    struct hfi_entry *entry;
    uint16_t counts[SEE_INTERVALS];

    (void)state;
    entry = views_name(&views, "x");
    views_hold(entry, 5, "a", 1000, -1);
    views_wait(entry, 9, "b", 800);
    views_wait(entry, 8, "c", 700);
    show(NOW);
    assert_int_equal(model.total_handovers, 0); /* it was there before us */

    entry = views_name(&views, "x");
    views_hold(entry, 9, "b", 200, -1); /* so the hold before took 1800 ms, and this wait 1600 */
    views_wait(entry, 8, "c", 1700);
    show(NOW + 1000);
    assert_int_equal(model.total_handovers, 1);
    assert_in_range(see_histogram_at(&model.waits, 500), 1600, 1791); /* to the end of the bucket */
    assert_in_range(see_histogram_at(&model.holds, 500), 1800, 2047);
    assert_int_equal(views_row(&model, "x")->waiters[0].since_ms, NOW - 700);

    entry = views_name(&views, "x"); /* passed on five times within its process */
    views_hold(entry, 14, "b", 0, -1)->first = 9;
    show(NOW + 2000);
    assert_int_equal(model.total_handovers, 6);
    see_row_handovers(views_row(&model, "x"), NOW + 2000, counts);
    assert_int_equal(counts[SEE_INTERVALS - 1], 6);
    see_row_handovers(views_row(&model, "x"), NOW + 2000 + SEE_INTERVAL_MS, counts);
    assert_int_equal(counts[SEE_INTERVALS - 2], 6);
    assert_int_equal(counts[SEE_INTERVALS - 1], 0);
}

/* Ten holds of a second; then one of a minute is overdue. The past survives that nobody holds it. */
static void test_overdue(void **state)
{
    int64_t now_ms = NOW;
    uint64_t token = 1;

    (void)state;
    for (int i = 0; i < 10; i++) {
        views_hold(views_name(&views, "x"), ++token, "a", 0, -1);
        show(now_ms);
        show(now_ms += 1000);
    }
    assert_true(views_row(&model, "x")->p99_ms >= 1000);
    assert_true(views_row(&model, "x")->p99_ms < 1250);
    views_hold(views_name(&views, "x"), ++token, "a", 500, -1);
    show(now_ms);
    assert_false(views_row(&model, "x")->overdue);
    views_hold(views_name(&views, "x"), token, "a", 60500, -1);
    show(now_ms + 60000);
    assert_true(views_row(&model, "x")->overdue);
}

static void test_order(void **state)
{
    static const char *const wanted[] = { "z-risk", "m-many", "b-few", "a-held", "c-held" };
    const struct see_row **rows;
    struct hfi_entry *entry;

    (void)state;
    views_hold(views_name(&views, "z-risk"), 9, "a", 0, 30000);
    show(NOW);
    views_hold(views_name(&views, "a-held"), 1, "a", 0, -1);
    entry = views_name(&views, "b-few");
    views_hold(entry, 2, "a", 0, -1);
    views_wait(entry, 3, "w", 0);
    views_hold(views_name(&views, "c-held"), 4, "a", 0, -1);
    entry = views_name(&views, "m-many");
    views_hold(entry, 5, "a", 0, -1);
    views_wait(entry, 6, "w", 0);
    views_wait(entry, 7, "w", 0);
    views_hold(views_name(&views, "z-risk"), 9, "a", 20000, 10000);
    show(NOW + 20000);
    rows = see_model_sorted(&model);
    assert_non_null(rows);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        assert_int_equal(rows[i]->name_len, strlen(wanted[i]));
        assert_memory_equal(rows[i]->name, wanted[i], strlen(wanted[i]));
    }
    free(rows);
}

static void test_natural_order(void **state)
{
    static const char *const wanted[] = { "a",     "a-2",    "a-12", "a-102", "a-x", "a1b2",
                                          "a1b10", "a01b11", "a10",  "b",     "b00", "b0000" };
    const struct see_row **rows;

    (void)state;
    for (size_t i = 0; i < COUNT(wanted); i++)
        views_hold(views_name(&views, wanted[(i * 5 + 3) % COUNT(wanted)]), i + 1, "a", 0, -1);
    show(NOW);
    rows = see_model_sorted(&model);
    assert_non_null(rows);
    for (size_t i = 0; i < COUNT(wanted); i++)
        if (rows[i]->name_len != strlen(wanted[i]) ||
            memcmp(rows[i]->name, wanted[i], rows[i]->name_len) != 0)
            fail_msg("%zu: %.*s, not %s", i, (int)rows[i]->name_len, rows[i]->name, wanted[i]);
    free(rows);
}

static void test_away(void **state)
{
    (void)state;
    views_hold(views_name(&views, "x"), 5, "a", 0, -1);
    show(NOW);
    see_model_away(&model, NOW + 3000, "no route", NOW + 4000);
    assert_false(model.up);
    assert_int_equal(model.since_ms, NOW + 3000);
    see_model_away(&model, NOW + 4000, "no route", NOW + 6000);
    assert_int_equal(model.since_ms, NOW + 3000);
    assert_true(views_row(&model, "x")->present);
    see_model_away(&model, NOW + 12000, "no route", NOW + 14000);
    assert_true(model.point_count >= 2);
    assert_true(see_model_point(&model, model.point_count - 1)->away);
    show(NOW + 13000);
    assert_true(model.up);
    assert_int_equal(model.since_ms, NOW + 13000);
}

/* A reader that has missed that a row is gone, and whose past is forgotten, must be told to begin again. */
static void test_forgotten(void **state)
{
    uint64_t change;

    (void)state;
    views_hold(views_name(&views, "x"), 5, "a", 0, -1);
    show(NOW);
    change = model.change;
    show(NOW + 1000);
    assert_int_equal(changed_since(change), 1);
    assert_true(change >= model.forgotten_change);
    show(NOW + 2000 + SEE_REMEMBERED_MS);
    assert_null(views_row(&model, "x"));
    assert_true(change < model.forgotten_change);
    assert_int_equal(model.known, 0);
}

static void test_graph(void **state)
{
    struct see_graph graph;
    struct hfi_entry *entry;

    (void)state;
    entry = views_name(&views, "x");
    views_hold(entry, 5, "a", 1000, -1);
    for (uint64_t i = 0; i < 50; i++)
        views_wait(entry, 100 + i, "w", 800);
    assert_false(see_view_may_lock(&views.view));
    views_wait(views_name(&views, "y"), 5, "a", 10);
    assert_true(see_view_may_lock(&views.view)); /* session 5 holds x and waits for y */
    show(NOW);
    assert_true(see_graph_build(&model, 30, &graph));
    assert_int_equal(graph.edge_count, 30);
    assert_int_equal(graph.node_count, 31);
    assert_int_equal(graph.folded, 20);
    assert_int_equal(graph.nodes[graph.edges[0].to].session, 5);
    see_graph_done(&graph);
}

/* A store that knows neither sessions nor pids: clients with one label are not one client, unless the label has host and pid. */
static void test_graph_of_one_label(void **state)
{
    static const char own[] = "ada@web-1:4711 worker";
    struct see_graph graph;
    struct hfi_entry *entry;

    (void)state;
    entry = views_name(&views, "x");
    *views_hold(entry, 5, "worker", 1000, -1) =
        (hf_holder){ .token = 5, .age_ms = 1000, .ttl_ms = -1, .label = "worker" };
    for (int i = 0; i < 3; i++)
        *views_wait(entry, 0, "worker", 800) =
            (hf_waiter){ .position = 1, .age_ms = 800, .label = "worker" };
    entry = views_name(&views, "y");
    *views_hold(entry, 6, own, 1000, -1) =
        (hf_holder){ .token = 6, .age_ms = 1000, .ttl_ms = -1, .label = own };
    *views_wait(entry, 0, own, 500) = (hf_waiter){ .position = 1, .age_ms = 500, .label = own };
    entry = views_name(&views, "z");
    *views_hold(entry, 7, "worker", 1000, -1) =
        (hf_holder){ .token = 7, .age_ms = 1000, .ttl_ms = -1, .label = "worker" };
    *views_wait(entry, 0, own, 500) = (hf_waiter){ .position = 1, .age_ms = 500, .label = own };
    show(NOW);
    assert_true(see_graph_build(&model, 30, &graph));
    assert_int_equal(graph.edge_count, 5);
    for (size_t i = 0; i < graph.edge_count; i++)
        assert_true(graph.edges[i].from != graph.edges[i].to);
    assert_int_equal(graph.node_count, 7); /* x and its three; y's process, another thread; z */
    for (size_t i = 0; i < graph.node_count; i++)
        assert_true(graph.nodes[i].has_count <= 1);
    see_graph_done(&graph);
}

static void fill_large(int64_t age_ms)
{
    struct hfi_entry *entry;
    char name[32];

    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "name/%05d", i);
        entry = views_name(&views, name);
        views_hold(entry, (uint64_t)i + 1, "worker", age_ms, 30000 - age_ms);
        for (uint64_t w = 0; i == 5000 && w < 1000; w++)
            views_wait(entry, 20000 + w, "waiter", age_ms);
    }
}

/* 10,000 names, 1,000 waiters: linear. The bound is no measurement: quadratic work would take minutes. */
static void test_large(void **state)
{
    clock_t begun;
    uint64_t change;

    (void)state;
    fill_large(0);
    show(NOW);
    assert_int_equal(model.present, 10000);
    assert_int_equal(model.waiters, 1000);
    change = model.change;
    begun = clock();
    for (int i = 1; i <= 20; i++) {
        fill_large(100 * i);
        show(NOW + 100 * i);
    }
    assert_int_equal(model.change, change);
    assert_true(clock() - begun < 60 * CLOCKS_PER_SEC);
    show(NOW + 5000); /* all gone at once */
    assert_int_equal(model.present, 0);
    assert_int_equal(changed_since(change), 10000);
}

static void test_histogram(void **state)
{
    struct see_histogram histogram = { .total = 0 };

    (void)state;
    assert_int_equal(see_histogram_at(&histogram, 500), -1);
    for (int64_t ms = 0; ms < 1000; ms++)
        see_histogram_add(&histogram, ms);
    assert_in_range(see_histogram_at(&histogram, 500), 499, 625);
    assert_in_range(see_histogram_at(&histogram, 990), 989, 1250);
    see_histogram_add(&histogram, INT64_MAX);
    see_histogram_add(&histogram, -5);
    for (int i = 0; i < 200000; i++)
        see_histogram_add(&histogram, 7);
    assert_int_equal(see_histogram_at(&histogram, 500), 7);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_states),    TEST(test_nothing_changes), TEST(test_lost),
        TEST(test_not_lost),  TEST(test_handover),        TEST(test_overdue),
        TEST(test_order),     TEST(test_natural_order),   TEST(test_away),
        TEST(test_forgotten), TEST(test_graph),           TEST(test_graph_of_one_label),
        TEST(test_large),     TEST(test_histogram),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
