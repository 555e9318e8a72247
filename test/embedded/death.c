/* SPDX-License-Identifier: MIT */
/*
 * The death of a process frees what it held, at once, however it dies; and the next waiter learns
 * of it by an event. Polling once a second would also find a death: so the time from death to grant
 * is compared with that second.
 */
#include "embedded.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ways to die ------------------------------------------------------------------ */

static void do_crash(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask, (void)answer;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void do_exit(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask, (void)answer;
    exit(0);
}

static void do_exit_at_once(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask, (void)answer;
    _exit(0);
}

static void do_exec(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask, (void)answer;
    execlp("sleep", "sleep", "1000", (char *)NULL);
}

static void dies_by(actor_fn *way)
{
    struct actor *holder = actor_start(), *waiter = actor_start(), *late = actor_start();
    uint64_t first = take(holder, mutex("n")), second;

    wait_for(waiter, mutex("n"));
    actor_begin(holder, way, (struct ask){ 0 });
    second = granted(waiter);
    assert_true(second > first);
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
    give(waiter, 0);
    assert_int_equal(try_it(late, mutex("n")), HF_OK);
}

static void crash(void **state)
{
    (void)state;
    dies_by(do_crash);
}

static void exit_without_release(void **state)
{
    (void)state;
    dies_by(do_exit);
    dies_by(do_exit_at_once);
}

/* Another program in the same process knows nothing of leases: they have ended. */
static void exec_without_release(void **state)
{
    (void)state;
    dies_by(do_exec);
}

/* Also for a process that did not wait for it. */
static void killed_holder_is_no_holder(void **state)
{
    struct actor *late = actor_start();

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct actor *holder = actor_start();

        take(holder, mutex("n"));
        assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
        actor_kill(holder);
        assert_int_equal(holders_of("n"), 0);
        assert_int_equal(try_it(late, mutex("n")), HF_OK);
    }
}

/* ---- by an event and not by a look ---------------------------------------------------- */

#define ROUNDS 15

/* The waiter has just looked when the holder dies, so a look would come a whole heartbeat later. */
static void killed_holder_wakes_by_event(void **state)
{
    struct actor *waiter = actor_start();
    int64_t took_ms[ROUNDS];

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct actor *holder = actor_start();
        int64_t killed_ns;

        take(holder, mutex("n"));
        wait_for(waiter, mutex("n"));
        killed_ns = now_ns();
        actor_kill(holder);

        struct answer answer = actor_answer(waiter);

        OK(answer);
        took_ms[i] = (answer.done_ns - killed_ns) / 1000000;
        give(waiter, 0);
    }
    if (median(took_ms, ROUNDS) >= HEARTBEAT_MS / 2)
        fail_msg("median %lld ms from death to grant", (long long)took_ms[ROUNDS / 2]);
}

/* The parent of the dead has not waited for it: a zombie holds nothing. */
static void zombie_holds_nothing(void **state)
{
    struct actor *holder = actor_start(), *waiter = actor_start();

    (void)state;
    take(holder, mutex("n"));
    wait_for(waiter, mutex("n"));
    actor_signal(holder, SIGKILL);
    granted(waiter);
    actor_wait_end(holder);
}

/* More processes than one waiter can watch have come and gone, and most still live. */
static void watches_are_not_used_up(void **state)
{
    enum { MANY = 64 + ROUNDS + 5 };
    struct actor *waiter = actor_start(), *holders[MANY];
    int64_t took_ms[ROUNDS];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        holders[i] = actor_start();
        take(holders[i], mutex("n"));
        wait_for(waiter, mutex("n"));
        give(holders[i], 0);
        granted(waiter);
        give(waiter, 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct actor *holder = holders[MANY - 1 - i];
        int64_t killed_ns;

        take(holder, mutex("n"));
        wait_for(waiter, mutex("n"));
        killed_ns = now_ns();
        actor_kill(holder);

        struct answer answer = actor_answer(waiter);

        OK(answer);
        took_ms[i] = (answer.done_ns - killed_ns) / 1000000;
        give(waiter, 0);
    }
    if (median(took_ms, ROUNDS) >= HEARTBEAT_MS / 2)
        fail_msg("median %lld ms from death to grant", (long long)took_ms[ROUNDS / 2]);
}

/* ---- deaths in the queue ----------------------------------------------------------------- */

static void waiter_in_the_middle(void **state)
{
    struct actor *holder = actor_start(), *waiters[5];

    (void)state;
    take(holder, mutex("n"));
    for (int i = 0; i < 5; i++)
        wait_for(waiters[i] = actor_start(), mutex("n"));
    actor_kill(waiters[2]);
    assert_int_equal(waiters_of("n"), 4);

    give(holder, 0);
    granted(waiters[0]);
    give(waiters[0], 0);
    granted(waiters[1]);
    assert_false(actor_answered(waiters[3]));
    give(waiters[1], 0);
    granted(waiters[3]);
    assert_false(actor_answered(waiters[4]));
    actor_kill(waiters[3]);
    granted(waiters[4]);
}

static void first_waiter(void **state)
{
    struct actor *holder = actor_start(), *first = actor_start(), *second = actor_start();

    (void)state;
    take(holder, mutex("n"));
    wait_for(first, mutex("n"));
    wait_for(second, mutex("n"));
    actor_kill(first);
    assert_false(actor_answered(second));
    give(holder, 0);
    granted(second);
}

/* A grant goes to a waiter that died unnoticed while everybody was stopped. */
static void grant_to_a_dead_waiter(void **state)
{
    struct actor *holder = actor_start(), *first = actor_start(), *second = actor_start();

    (void)state;
    take(holder, mutex("n"));
    wait_for(first, mutex("n"));
    wait_for(second, mutex("n"));
    observer_quit();
    actor_stop(second);
    actor_kill(first);
    give(holder, 0);
    actor_continue(second);
    granted(second);
}

/* The holder and all waiters before the last one die at the same moment. */
static void chain_of_deaths(void **state)
{
    enum { LONG = 12 };
    struct actor *chain[LONG];

    (void)state;
    for (int round = 0; round < 3; round++) {
        take(chain[0] = actor_start(), mutex("n"));
        for (int i = 1; i < LONG; i++)
            wait_for(chain[i] = actor_start(), mutex("n"));
        /* From the front, from the back, or all but the middle one. */
        for (int i = 0; i < LONG - 1; i++)
            actor_signal(chain[round == 1 ? LONG - 2 - i : i], SIGKILL);
        granted(chain[LONG - 1]);
        for (int i = 0; i < LONG - 1; i++)
            actor_wait_end(chain[i]);
        give(chain[LONG - 1], 0);
    }
}

/* A queue in which several processes have several threads... here: several leases of one actor are
 * not possible while it waits, so the same process is ahead twice, as holder and as waiter. */
static void one_process_holds_two_that_are_waited_for(void **state)
{
    struct actor *holder = actor_start(), *a = actor_start(), *b = actor_start();
    struct ask second = mutex("m");

    (void)state;
    second.lease = 1;
    take(holder, mutex("n"));
    take(holder, second);
    wait_for(a, mutex("n"));
    wait_for(b, mutex("m"));
    actor_kill(holder);
    granted(a);
    granted(b);
}

/* ---- semaphores and readers ----------------------------------------------------------------- */

/*
 * The first waiter must notice the death of every holder, also of one that was granted after this
 * one had begun to wait. All other processes that could tell are gone by then.
 */
static void death_of_a_holder_from_the_queue(void **state)
{
    struct actor *a = actor_start(), *b = actor_start(), *w[5];
    struct ask ask = permits_of("s", 2, 1);

    (void)state;
    take(a, ask);
    take(b, ask);
    for (int i = 1; i <= 4; i++)
        wait_for(w[i] = actor_start(), ask);
    give(a, 0);
    granted(w[1]);
    give(b, 0);
    granted(w[2]);
    give(w[2], 0);
    granted(w[3]);
    actor_quit(a);
    actor_quit(b);
    actor_quit(w[2]);
    observer_quit();
    actor_kill(w[1]);
    granted(w[4]);
}

static void death_of_a_reader_from_the_queue(void **state)
{
    struct actor *first = actor_start(), *readers[3], *last = actor_start();

    (void)state;
    take(first, writer("rw"));
    for (int i = 0; i < 3; i++)
        wait_for(readers[i] = actor_start(), reader("rw"));
    wait_for(last, writer("rw"));
    give(first, 0);
    for (int i = 0; i < 3; i++)
        granted(readers[i]);
    observer_quit();
    actor_quit(first);
    give(readers[2], 0); /* the only one ahead of the writer */
    actor_quit(readers[2]);
    give(readers[1], 0);
    actor_quit(readers[1]);
    assert_false(actor_answered(last));
    actor_kill(readers[0]);
    granted(last);
}

static void death_of_one_who_barged(void **state)
{
    struct actor *first = actor_start(), *barger = actor_start(), *last = actor_start();
    struct ask ask = reader("rw");

    (void)state;
    take(first, ask);
    wait_for(last, writer("rw"));
    ask.flags = HF_FLAG_BARGE;
    take(barger, ask);
    observer_quit();
    give(first, 0);
    actor_quit(first);
    assert_false(actor_answered(last));
    actor_kill(barger);
    granted(last);
}

/* A large request at the head is not overtaken, and is granted when the holders that block it
 * die. */
static void large_request_after_deaths(void **state)
{
    struct actor *small[3], *large = actor_start(), *behind = actor_start();

    (void)state;
    for (int i = 0; i < 3; i++)
        take(small[i] = actor_start(), permits_of("s", 3, 1));
    wait_for(large, permits_of("s", 3, 3));
    wait_for(behind, permits_of("s", 3, 1));
    actor_kill(small[1]);
    actor_kill(small[0]);
    assert_false(actor_answered(behind));
    actor_kill(small[2]);
    granted(large);
    assert_false(actor_answered(behind));
    actor_kill(large);
    granted(behind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(crash),
        TEST(exit_without_release),
        TEST(exec_without_release),
        TEST(killed_holder_is_no_holder),
        TEST(killed_holder_wakes_by_event),
        TEST(zombie_holds_nothing),
        TEST(watches_are_not_used_up),
        TEST(waiter_in_the_middle),
        TEST(first_waiter),
        TEST(grant_to_a_dead_waiter),
        TEST(chain_of_deaths),
        TEST(one_process_holds_two_that_are_waited_for),
        TEST(death_of_a_holder_from_the_queue),
        TEST(death_of_a_reader_from_the_queue),
        TEST(death_of_one_who_barged),
        TEST(large_request_after_deaths),
    };

    return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
