/* SPDX-License-Identifier: MIT */
/*
 * Processes of another PID namespace that share the directory: their leases exclude ours
 * and ours theirs, queues are common, and their death is noticed, though not by a pidfd.
 */
#include "embedded.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* An actor in a PID namespace of its own, where it is process 1. Later ones are ours again. */
static struct actor *foreigner(void)
{
    int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    struct actor *actor;

    assert_true(own >= 0);
    if (unshare(CLONE_NEWPID) != 0)
        skip_for("PID namespaces are not permitted here");
    actor = actor_start_raw();
    assert_int_equal(setns(own, CLONE_NEWPID), 0);
    close(own);
    return actor;
}

static void open_store(struct actor *actor)
{
    OK(actor_do(actor, do_open, (struct ask){ 0 }));
}

static void do_pid(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask;
    answer->number = getpid();
}

static void exclusion_both_ways(void **state)
{
    struct actor *ours = actor_start(), *ours2 = actor_start(), *theirs;
    uint64_t token, next;

    (void)state;
    theirs = foreigner();
    assert_int_equal(actor_do(theirs, do_pid, (struct ask){ 0 }).number, 1);
    open_store(theirs);

    token = take(ours, mutex("n"));
    assert_int_equal(try_it(theirs, mutex("n")), HF_BUSY);
    wait_for(theirs, mutex("n"));
    wait_for(ours2, mutex("n"));
    give(ours, 0);
    next = granted(theirs);
    assert_true(next > token);
    assert_int_equal(try_it(ours, mutex("n")), HF_BUSY);
    assert_false(actor_answered(ours2));
    give(theirs, 0);
    assert_true(granted(ours2) > next);
}

static void their_death_is_noticed(void **state)
{
    struct actor *ours = actor_start(), *late = actor_start(), *theirs;

    (void)state;
    theirs = foreigner();
    open_store(theirs);
    take(theirs, mutex("n"));
    wait_for(ours, mutex("n"));
    actor_kill(theirs);
    granted(ours);
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
}

static void our_death_is_noticed_there(void **state)
{
    struct actor *ours = actor_start(), *theirs;

    (void)state;
    theirs = foreigner();
    open_store(theirs);
    take(ours, mutex("n"));
    wait_for(theirs, mutex("n"));
    actor_kill(ours);
    granted(theirs);
}

/* Their stopped process keeps what it holds, though its pid means somebody else here, or nobody. */
static void their_stopped_holder_keeps(void **state)
{
    struct actor *ours = actor_start(), *theirs;

    (void)state;
    theirs = foreigner();
    open_store(theirs);
    take(theirs, mutex("n"));
    actor_stop(theirs);
    wait_for(ours, mutex("n"));
    assert_false(actor_answered_within(ours, 3 * HEARTBEAT_MS));
    actor_continue(theirs);
    give(theirs, 0);
    granted(ours);
}

/* Two namespaces, the same pid in both: they are two. */
static void the_same_pid_twice(void **state)
{
    struct actor *ours = actor_start(), *theirs, *others;

    (void)state;
    theirs = foreigner();
    others = foreigner();
    assert_int_equal(actor_do(theirs, do_pid, (struct ask){ 0 }).number, 1);
    assert_int_equal(actor_do(others, do_pid, (struct ask){ 0 }).number, 1);
    open_store(theirs);
    open_store(others);
    take(theirs, mutex("n"));
    wait_for(others, mutex("n"));
    wait_for(ours, mutex("n"));
    actor_kill(theirs);
    granted(others);
    actor_kill(others);
    granted(ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(exclusion_both_ways),        TEST(their_death_is_noticed),
        TEST(our_death_is_noticed_there), TEST(their_stopped_holder_keeps),
        TEST(the_same_pid_twice),
    };

    return embedded_result(cmocka_run_group_tests_name("namespace", tests, NULL, NULL));
}
