/* SPDX-License-Identifier: MIT */
/* The lab's history and what is concluded from it: beliefs that overlap, leases that expired, writes that were late. */
#include "lab.h"
#include "stage/history.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* After those: */
#include <cmocka.h>

enum { A, SERVER, B, STOCK };

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("server", "服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("resource", "资源"), PHRASE(NULL, NULL) },
    LANES_END,
};
static const struct way way = { .title = PHRASE("Naive", "朴素做法"), .lanes = lanes };

static struct history *history;
static struct scene *scene;

static int setup(void **state)
{
    (void)state;
    history = history_new();
    scene = calloc(1, sizeof *scene);
    return history && scene ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    history_free(history);
    free(scene);
    return 0;
}

/* An event at a time of our own: milliseconds since the begin. */
static void at(int64_t ms, struct event event)
{
    struct event *last;

    history_add(history, event);
    last = &history->events[atomic_load(&history->count) - 1];
    last->at_ns = history->begin_ns + ms * 1000000;
}

static void simply(int64_t ms, int lane, enum event_kind kind)
{
    at(ms, (struct event){ .lane = (int16_t)lane, .other = -1, .kind = (uint8_t)kind });
}

static void owner(int64_t ms, int who)
{
    at(ms, (struct event){ .lane = SERVER, .other = (int16_t)who, .kind = EV_OWNER });
}

static void value(int64_t ms, int lane, enum event_kind kind, int64_t number, uint64_t token)
{
    at(ms, (struct event){ .lane = (int16_t)lane,
                           .other = STOCK,
                           .kind = (uint8_t)kind,
                           .value = number,
                           .token = token });
}

static const struct mark *mark_of(enum mark_kind kind)
{
    for (size_t i = 0; i < scene->mark_count; i++)
        if (scene->marks[i].kind == kind)
            return &scene->marks[i];
    return NULL;
}

static unsigned arrows(enum arrow_kind kind)
{
    unsigned count = 0;

    for (size_t i = 0; i < scene->arrow_count; i++)
        count += scene->arrows[i].kind == kind;
    return count;
}

/* ---- beliefs -------------------------------------------------------------------------------- */

static void test_one_after_the_other(void **state)
{
    (void)state;
    simply(0, A, EV_GOT);
    simply(100, A, EV_LET);
    simply(100, B, EV_GOT);
    simply(200, B, EV_LET);
    assert_int_equal(history_holders(history), 1);
    assert_int_equal(history_overlap_ms(history, 1), 0);
}

static void test_overlap(void **state)
{
    (void)state;
    simply(0, A, EV_GOT);
    simply(50, A, EV_GOT); /* reentry: it believes once */
    simply(100, B, EV_GOT);
    simply(130, A, EV_LET);
    simply(200, B, EV_LET);
    assert_int_equal(history_holders(history), 2);
    assert_int_equal(history_overlap_ms(history, 1), 30);
    assert_int_equal(history_overlap_ms(history, 2), 0);
    scene_build(scene, &way, history);
    assert_int_equal(scene->overlap_count, 1);
    assert_true(scene->overlaps[0].from_ms == 100 && scene->overlaps[0].to_ms == 130);
    assert_true(scene->overlaps[0].bad);
}

/* Killed, or told that it is lost: it believes no more. */
static void test_belief_ends(void **state)
{
    (void)state;
    simply(0, A, EV_GOT);
    simply(100, A, EV_KILLED);
    simply(110, B, EV_GOT);
    simply(200, B, EV_LOST);
    simply(210, A, EV_STARTED);
    simply(220, A, EV_GOT);
    simply(300, A, EV_LET);
    assert_int_equal(history_holders(history), 1);
    scene_build(scene, &way, history);
    assert_int_equal(scene->overlap_count, 0);
    assert_int_equal(scene->belief_count, 3);
    assert_non_null(mark_of(MARK_CRASH));
    assert_non_null(mark_of(MARK_LOST));
}

/* ---- leases ---------------------------------------------------------------------------------- */

static void test_expires(void **state)
{
    (void)state;
    simply(0, A, EV_GOT);
    owner(5, A);
    owner(1000, -1);
    simply(2000, A, EV_LET);
    scene_build(scene, &way, history);
    assert_non_null(mark_of(MARK_EXPIRES));
    assert_true(mark_of(MARK_EXPIRES)->at_ms == 1000);
}

static void test_released(void **state)
{
    (void)state;
    simply(0, A, EV_GOT);
    owner(5, A);
    simply(1000, A, EV_LET);
    owner(1003, -1);
    scene_build(scene, &way, history);
    assert_null(mark_of(MARK_EXPIRES));
    assert_null(mark_of(MARK_NOTE));
}

/* B's lease vanishes when A releases: it was A that deleted it. */
static void test_deleted_by_a_stranger(void **state)
{
    (void)state;
    simply(0, B, EV_GOT);
    owner(5, B);
    simply(500, A, EV_LET);
    owner(503, -1);
    simply(900, B, EV_LET);
    scene_build(scene, &way, history);
    assert_null(mark_of(MARK_EXPIRES));
    assert_non_null(mark_of(MARK_NOTE));
    assert_string_equal(mark_of(MARK_NOTE)->label[LANG_EN], "deleted by A");
}

/* ---- reads and writes --------------------------------------------------------------------------- */

/* One that holds and waits for another lock: its bar ends; and what it gives back first, while it holds the other, has not expired. */
static void test_two_locks(void **state)
{
    static const struct lane two[] = {
        { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("goods", "商品"), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("money", "账户"), PHRASE(NULL, NULL) },
        LANES_END,
    };
    static const struct way with_two = { .title = PHRASE("Naive", "朴素做法"), .lanes = two };
    enum { GOODS = 1, MONEY };

    (void)state;
    at(10, (struct event){ .kind = EV_ASK, .lane = A, .other = GOODS });
    at(11, (struct event){ .kind = EV_GOT, .lane = A, .other = GOODS });
    at(12, (struct event){ .kind = EV_OWNER, .lane = GOODS, .other = A });
    at(200, (struct event){ .kind = EV_ASK, .lane = A, .other = MONEY });
    at(500, (struct event){ .kind = EV_GOT, .lane = A, .other = MONEY });
    at(501, (struct event){ .kind = EV_OWNER, .lane = MONEY, .other = A });
    at(700, (struct event){ .kind = EV_LET, .lane = A, .other = GOODS });
    at(701, (struct event){ .kind = EV_OWNER, .lane = GOODS, .other = -1 });
    at(800, (struct event){ .kind = EV_LET, .lane = A, .other = MONEY });
    at(801, (struct event){ .kind = EV_OWNER, .lane = MONEY, .other = -1 });
    scene_build(scene, &with_two, history);
    assert_int_equal(scene->belief_count, 0); /* "the lock" would be the wrong word */
    assert_int_equal(scene->mark_count, 0);
    assert_int_equal(scene->arrow_count,
                     5); /* two asked, one granted late, two given back; each to one server */
    for (size_t i = 0; i < scene->arrow_count; i++)
        assert_true(scene->arrows[i].from != scene->arrows[i].to);
    assert_int_equal(scene->bars[0].kind, BAR_HOLDS);
    assert_int_equal((int)scene->bars[0].to_ms, 200);
    assert_int_equal(scene->bars[1].kind, BAR_WAITS);
    assert_int_equal(scene->bars[3].kind, BAR_HOLDS); /* after the lease of the goods */
    assert_int_equal((int)scene->bars[3].from_ms, 500);
    assert_int_equal((int)scene->bars[3].to_ms, 800);
}

static void test_late_write(void **state)
{
    (void)state;
    at(0, (struct event){ .lane = STOCK, .other = -1, .kind = EV_VALUE, .value = 20 });
    value(10, A, EV_READ, 20, 0);
    value(20, B, EV_READ, 20, 0);
    value(30, B, EV_WRITE, 19, 0);
    value(40, A, EV_WRITE, 19, 0);
    scene_build(scene, &way, history);
    assert_int_equal(arrows(ARROW_WRITE), 1);
    assert_int_equal(arrows(ARROW_WRONG), 1);
    assert_int_equal(history_last_value(history, STOCK, -1), 19);
}

static void test_right_writes(void **state)
{
    (void)state;
    value(10, A, EV_READ, 20, 0);
    value(20, A, EV_WRITE, 19, 0);
    value(30, B, EV_READ, 19, 0);
    value(40, B, EV_WRITE, 18, 0);
    value(50, B, EV_WRITE, 17, 0); /* its own write is no stranger's */
    scene_build(scene, &way, history);
    assert_int_equal(arrows(ARROW_WRONG), 0);
    assert_int_equal(arrows(ARROW_WRITE), 3);
}

/* Tokens are numbered from 33 in their order, and the resource remembers the highest. */
static void test_tokens(void **state)
{
    (void)state;
    value(10, A, EV_CLAIM, 20, 7000001);
    value(20, B, EV_CLAIM, 20, 7000065);
    value(30, B, EV_WRITE, 19, 7000065);
    value(40, A, EV_REFUSED, 0, 7000001);
    scene_build(scene, &way, history);
    assert_int_equal(scene->high_count, 2);
    assert_int_equal(scene->highs[0].token, 33);
    assert_int_equal(scene->highs[1].token, 34);
    assert_int_equal(arrows(ARROW_REFUSED), 1);
    assert_string_equal(scene->arrows[scene->arrow_count - 1].label[LANG_EN], "refused: 33 < 34");
}

/* ---- the history itself ------------------------------------------------------------------------------ */

static void test_full(void **state)
{
    (void)state;
    for (unsigned i = 0; i < HISTORY_EVENTS + 100; i++)
        history_add(history, (struct event){ .lane = A, .other = -1, .kind = EV_TRY });
    assert_int_equal(history_count(history, A, EV_TRY), HISTORY_EVENTS);
    scene_build(scene, &way, history); /* more than it has room for */
    assert_true(scene->arrow_count <= SCENE_ARROWS);
}

/* An event of another process wakes us; one that does not come is given up. */
static void test_await(void **state)
{
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        history_await_signal(history, 1, 30000);
        history_add(history, (struct event){ .lane = B, .other = -1, .kind = EV_GOT });
        _exit(0);
    }
    assert_false(history_await(history, B, EV_GOT, 1, 20));
    history_add(history, (struct event){ .lane = -1, .other = -1, .kind = EV_SIGNAL, .value = 1 });
    assert_true(history_await(history, B, EV_GOT, 1, 30000));
    assert_int_equal(waitpid(child, NULL, 0), child);
    history_stop(history);
    assert_false(history_await(history, B, EV_GOT, 2, 30000)); /* at once */
}

/* A process that was killed in the middle of an event leaves none. */
static void test_half_an_event(void **state)
{
    size_t count;
    const struct event **list;

    (void)state;
    simply(0, A, EV_GOT);
    atomic_fetch_add(&history->count, 1); /* taken, never written */
    simply(10, A, EV_LET);
    list = history_sorted(history, &count);
    assert_int_equal(count, 2);
    free(list);
}

/* ---- several servers ------------------------------------------------------------------------ */

enum { PLACE_1 = 1, PLACE_2, C };

static const struct lane place_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("place 1", "名额 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("place 2", "名额 2"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static void takes_place(int64_t ms, int place, int who, const struct phrase *why)
{
    at(ms, (struct event){
               .lane = (int16_t)place, .other = (int16_t)who, .kind = EV_OWNER, .text = why });
}

/* The lanes of a semaphore's places are one server: an arrow goes to a free place, and later to the client's own. */
static void test_places(void **state)
{
    static const struct phrase stolen = PHRASE("stolen", "被偷走");
    const struct way semaphore = { .lanes = place_lanes, .capacity = 2 };

    (void)state;
    takes_place(0, PLACE_1, C, NULL);
    simply(10, A, EV_ASK);
    simply(11, A, EV_GOT);
    takes_place(15, PLACE_2, A, NULL);
    takes_place(100, PLACE_2, C, &stolen);
    simply(300, A, EV_LET);
    scene_build(scene, &semaphore, history);
    assert_int_equal(arrows(ARROW_ASK), 1);
    assert_int_equal(scene->arrows[0].to, PLACE_2);
    assert_null(mark_of(MARK_EXPIRES));
    assert_string_equal(mark_of(MARK_NOTE)->label[LANG_EN], "stolen");
}

/* A client that says which server it uses asks no other; what a dead server had is not called expired. */
static void test_uses(void **state)
{
    const struct way pair = { .lanes = place_lanes };

    (void)state;
    at(0, (struct event){ .lane = A, .other = PLACE_2, .kind = EV_USES });
    simply(10, A, EV_ASK);
    simply(11, A, EV_GOT);
    takes_place(15, PLACE_2, A, NULL);
    simply(50, PLACE_2, EV_KILLED);
    takes_place(51, PLACE_2, -1, NULL);
    simply(200, C, EV_ASK); /* it has said nothing: both */
    scene_build(scene, &pair, history);
    assert_int_equal(arrows(ARROW_ASK), 3);
    assert_int_equal(scene->arrows[0].to, PLACE_2);
    assert_null(mark_of(MARK_EXPIRES));
}

/* A write that its client calls wrong, in its own words. */
static void test_called_wrong(void **state)
{
    static const struct phrase sixth = PHRASE("the sixth", "第六次");

    (void)state;
    value(0, A, EV_WRITE, 5, 0);
    at(10,
       (struct event){
           .lane = A, .other = STOCK, .kind = EV_WRITE, .value = 6, .text = &sixth, .bad = true });
    scene_build(scene, &way, history);
    assert_int_equal(arrows(ARROW_WRITE), 1);
    assert_int_equal(arrows(ARROW_WRONG), 1);
    assert_string_equal(scene->arrows[1].label[LANG_EN], "the sixth");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overlap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_belief_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expires, setup, teardown),
        cmocka_unit_test_setup_teardown(test_released, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_by_a_stranger, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_locks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_right_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full, setup, teardown),
        cmocka_unit_test_setup_teardown(test_await, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_an_event, setup, teardown),
        cmocka_unit_test_setup_teardown(test_places, setup, teardown),
        cmocka_unit_test_setup_teardown(test_uses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_called_wrong, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
