/* SPDX-License-Identifier: MIT */
/*
 * The line of waiters on memcached, in virtual time: processes that take one name again and again, with the decisions of
 * engine/memcached/pace.c, on a server that is a few variables. What is checked is what the engine says of its waiting:
 * everybody gets its share, looks are few, and dead waiters, a lost counter and a lost lease hold nobody up.
 */
#include "unit.h"

#include "engine/memcached/pace.h"

#include <stdio.h>
#include <string.h>

#define PROCS   64
#define TRIP_US 150 /* a command and its reply */
#define POLL_US 100000
#define SECOND  INT64_C(1000000)

static const uint64_t NAME[2] = { 7, 8 };

enum doing { BEGINNING, ADDING, LOOKING, TICKETING, MARKING, RESTING, HOLDING, RELEASING, DEAD };

struct proc {
    enum doing doing;
    int64_t at_us; /* when the command arrives at the server, or the rest or hold is over */
    struct memcached_pace pace;
    struct memcached_seen seen;
    struct memcached_manners manners;
    bool wanted, yields, rude;
    long got;
};

static struct world {
    struct proc procs[PROCS];
    int count, holder; /* -1: vacant */
    uint64_t lease;
    uint32_t ticket, counter;
    bool marked;
    int64_t now_us, hold_us, vacant_us, vacant_since_us;
    long commands, turns;
    uint64_t random;
} world;

static void go(struct proc *proc, enum doing doing, int64_t in_us)
{
    proc->doing = doing;
    proc->at_us = world.now_us + in_us;
}

static void command(struct proc *proc, enum doing doing)
{
    world.commands++;
    go(proc, doing, TRIP_US / 2 + (int64_t)(unit_random(&world.random) % TRIP_US));
}

static void rest(struct proc *proc)
{
    go(proc, RESTING,
       memcached_pace_rest_us(&proc->pace, POLL_US, world.now_us, unit_random(&world.random)));
}

static void begin(struct proc *proc)
{
    memset(&proc->pace, 0, sizeof proc->pace);
    proc->yields =
        !proc->rude && memcached_manners_recall(&proc->manners, NAME, world.now_us / 1000,
                                                world.now_us, &proc->pace, &proc->wanted);
    command(proc, proc->yields ? TICKETING : ADDING);
}

static void next_step(struct proc *proc)
{
    switch (memcached_pace_step(&proc->pace, &proc->seen)) {
    case MEMCACHED_TAKE_TICKET:
        command(proc, TICKETING);
        break;
    case MEMCACHED_MARK:
        proc->pace.marked = proc->seen.holder;
        command(proc, MARKING);
        break;
    case MEMCACHED_REST:
        rest(proc);
        break;
    }
}

static void looked(struct proc *proc)
{
    if (world.holder < 0) {
        command(proc, ADDING);
        return;
    }
    proc->seen = (struct memcached_seen){ .holder = world.lease,
                                          .ticket = world.ticket,
                                          .marked = world.marked };
    memcached_pace_saw(&proc->pace, &proc->seen, world.now_us);
    next_step(proc);
}

static void added(struct proc *proc)
{
    if (world.holder >= 0) {
        command(proc, LOOKING);
        return;
    }
    world.vacant_us += world.now_us - world.vacant_since_us;
    world.holder = (int)(proc - world.procs);
    world.lease++;
    world.turns++;
    world.ticket = proc->pace.ticket;
    world.marked = false;
    proc->got++;
    go(proc, HOLDING, world.hold_us);
}

static void ticketed(struct proc *proc)
{
    bool yields = proc->yields;

    memcached_pace_ticket(&proc->pace, ++world.counter, world.now_us);
    proc->yields = false;
    if (!yields)
        next_step(proc);
    else if (memcached_manners_yield(&proc->manners, NAME, &proc->pace, proc->wanted))
        rest(proc);
    else
        command(proc, ADDING);
}

static void released(struct proc *proc)
{
    if (world.holder == (int)(proc - world.procs)) {
        if (proc->pace.ticket || world.marked)
            memcached_manners_note(&proc->manners, NAME, &proc->pace, world.marked,
                                   world.now_us / 1000);
        world.commands += world.marked ? 2 : 0; /* the number is another one: look, and again */
        world.holder = -1;
        world.vacant_since_us = world.now_us;
    }
    go(proc, BEGINNING, 20);
}

static void step(struct proc *proc)
{
    switch (proc->doing) {
    case BEGINNING:
        begin(proc);
        break;
    case ADDING:
        added(proc);
        break;
    case TICKETING:
        ticketed(proc);
        break;
    case MARKING:
        world.marked = world.holder >= 0;
        rest(proc);
        break;
    case RESTING:
        command(proc, LOOKING);
        break;
    case LOOKING:
        looked(proc);
        break;
    case HOLDING:
        command(proc, RELEASING);
        break;
    case RELEASING:
        released(proc);
        break;
    case DEAD:
        break;
    }
}

static void start(int count, int64_t hold_us)
{
    memset(&world, 0, sizeof world);
    world.holder = -1;
    world.count = count;
    world.hold_us = hold_us;
    world.random = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < count; i++)
        world.procs[i].at_us = i * 37;
}

static void forget(void)
{
    world.commands = world.turns = world.vacant_us = 0;
    world.vacant_since_us = world.now_us;
    for (int i = 0; i < world.count; i++)
        world.procs[i].got = 0;
}

static void run(int64_t for_us)
{
    int64_t until_us = world.now_us + for_us;

    for (;;) {
        struct proc *first = NULL;

        for (int i = 0; i < world.count; i++)
            if (world.procs[i].doing != DEAD && (!first || world.procs[i].at_us < first->at_us))
                first = &world.procs[i];
        if (!first || first->at_us > until_us)
            break;
        world.now_us = first->at_us;
        step(first);
    }
    world.now_us = until_us;
}

static double jain(void)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < world.count; i++) {
        sum += (double)world.procs[i].got;
        squares += (double)world.procs[i].got * (double)world.procs[i].got;
    }
    return squares > 0 ? sum * sum / (squares * world.count) : 0;
}

static long least(void)
{
    long least = world.procs[0].got;

    for (int i = 1; i < world.count; i++)
        if (world.procs[i].got < least)
            least = world.procs[i].got;
    return least;
}

static void show(const char *what)
{
    printf("%s: %d processes, hold %g ms: %ld turns, %.1f commands each, Jain %.3f, least %ld, "
           "vacant %.2f ms\n",
           what, world.count, (double)world.hold_us / 1000, world.turns,
           (double)world.commands / (double)(world.turns ? world.turns : 1), jain(), least(),
           (double)world.vacant_us / 1000 / (double)(world.turns ? world.turns : 1));
}

/* ---- the tests --------------------------------------------------------------------------------- */

static void everybody_gets_its_share(void **state)
{
    static const struct {
        int count;
        int64_t hold_us;
        double commands;
    } cases[] = { { 2, 1000, 8 },    { 4, 1000, 10 },   { 16, 1000, 12 },
                  { 64, 1000, 16 },  { 16, 50, 12 },    { 16, 200, 12 },
                  { 16, 10000, 20 }, { 64, 10000, 40 }, { 4, 50000, 20 } };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        start(cases[i].count, cases[i].hold_us);
        run(SECOND);
        forget();
        run(cases[i].hold_us < 5000 ? 4 * SECOND : 100 * SECOND);
        show("share");
        assert_true(jain() > 0.97);
        assert_true(least() > 0);
        assert_true((double)world.commands / (double)world.turns < cases[i].commands);
        assert_true(world.vacant_us / world.turns < 1000 + cases[i].hold_us / 8);
    }
}

/* A process that waits dies, with its ticket. The others go on as before. */
static void the_dead_hold_nobody_up(void **state)
{
    (void)state;
    start(64, 1000);
    run(SECOND);
    for (int i = 16; i < 64; i++)
        if (world.holder != i)
            world.procs[i].doing = DEAD;
    forget();
    run(4 * SECOND);
    world.count = 16;
    show("48 died");
    assert_true(world.turns > 4 * 400 && jain() > 0.97 && least() > 0);
}

/* Eviction, a flush, a restart: the counter begins again, the lease may be gone, and with it who held it. */
static void forgotten_numbers_hold_nobody_up(void **state)
{
    (void)state;
    start(16, 1000);
    world.counter = 1000000;
    run(SECOND);
    forget();
    for (int i = 0; i < 40; i++) {
        world.counter = i % 2 ? 0 : world.counter / 2;
        world.holder = i % 3 ? world.holder : -1;
        run(SECOND / 10);
    }
    show("40 losses");
    assert_true(world.turns > 4 * 350 && jain() > 0.9 && least() > 0);
}

/* A name that is free again costs two commands a turn. */
static void alone_again(void **state)
{
    (void)state;
    start(16, 1000);
    run(SECOND);
    for (int i = 1; i < 16; i++)
        if (world.holder != i)
            world.procs[i].doing = DEAD;
        else
            world.procs[i].rude = true;
    run(SECOND);
    for (int i = 1; i < 16; i++)
        world.procs[i].doing = DEAD;
    world.holder = world.holder > 0 ? -1 : world.holder;
    run(SECOND);
    forget();
    run(4 * SECOND);
    world.count = 1;
    show("alone");
    assert_true(world.commands <= 2 * (world.turns + 1));
}

/* Numbers wrap around, and 0 is no number. */
static void tickets_wrap(void **state)
{
    struct memcached_pace pace = { .ticket = 3, .serving = UINT32_MAX - 1 };

    (void)state;
    assert_int_equal(memcached_pace_ahead(&pace), 4);
    pace.serving = 3;
    assert_int_equal(memcached_pace_ahead(&pace), 0);
    pace.serving = 4;
    assert_int_equal(memcached_pace_ahead(&pace), 0);
    pace.serving = 0;
    assert_int_equal(memcached_pace_ahead(&pace), 0);
    pace = (struct memcached_pace){ .ticket = 1000000, .serving = 1 };
    assert_int_equal(memcached_pace_ahead(&pace), 0);
}

/* Whatever is known and whatever the chance, nobody rests longer than `poll`. */
static void rests_are_bounded(void **state)
{
    uint64_t seed = 5;

    (void)state;
    for (int i = 0; i < UNIT_ROUNDS(100000); i++) {
        struct memcached_pace pace = { .ticket = (uint32_t)(unit_random(&seed) % 5000),
                                       .serving = (uint32_t)(unit_random(&seed) % 5000),
                                       .turn_us = (int64_t)(unit_random(&seed) % (100 * SECOND)),
                                       .since_us = (int64_t)(unit_random(&seed) % SECOND) };
        int64_t poll_us = 1000 * (1 + (int64_t)(unit_random(&seed) % 1000));
        int64_t rest_us = memcached_pace_rest_us(
            &pace, poll_us, SECOND + (int64_t)(unit_random(&seed) % (1000 * SECOND)),
            unit_random(&seed));

        assert_true(rest_us >= 1000 && rest_us <= poll_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_its_share),
        cmocka_unit_test(the_dead_hold_nobody_up),
        cmocka_unit_test(forgotten_numbers_hold_nobody_up),
        cmocka_unit_test(alone_again),
        cmocka_unit_test(tickets_wrap),
        cmocka_unit_test(rests_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
