/* SPDX-License-Identifier: MIT */
/*
 * First come, first served, between processes; a hand-off wakes the winner and nobody
 * else; a stream of readers does not starve a writer; and a waiter does nothing.
 */
#include "embedded.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void fifo_between_processes(void **state)
{
    enum { LONG = 20 };
    struct actor *holder = actor_start(), *waiters[LONG];
    uint64_t last = take(holder, mutex("n"));

    (void)state;
    for (int i = 0; i < LONG; i++)
        wait_for(waiters[i] = actor_start(), mutex("n"));
    give(holder, 0);
    for (int i = 0; i < LONG; i++) {
        uint64_t token = granted(waiters[i]);

        assert_true(token > last);
        last = token;
        for (int j = i + 1; j < LONG; j++)
            assert_false(actor_answered(waiters[j]));
        give(waiters[i], 0);
    }
}

/* A request that comes while others wait queues behind them, even if permits are free. */
static void nobody_overtakes(void **state)
{
    struct actor *a = actor_start(), *big = actor_start(), *late = actor_start();

    (void)state;
    take(a, permits_of("s", 3, 1));
    wait_for(big, permits_of("s", 3, 3));
    assert_int_equal(try_it(late, permits_of("s", 3, 1)), HF_BUSY);
    wait_for(late, permits_of("s", 3, 1));
    give(a, 0);
    granted(big);
    assert_false(actor_answered(late));
    give(big, 0);
    granted(late);
}

/* ---- only the winner is woken ------------------------------------------------------- */

/* How often the threads of it went to sleep: each time somebody woke them before that. */
static int64_t sleeps_of(pid_t pid)
{
    char path[64], line[256];
    struct dirent *entry;
    int64_t sum = 0;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        FILE *file;

        snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", (int)pid, entry->d_name);
        file = entry->d_name[0] != '.' ? fopen(path, "re") : NULL;
        if (!file)
            continue;
        while (fgets(line, sizeof line, file))
            if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                sum += strtoll(line + 24, NULL, 10);
        fclose(file);
    }
    closedir(dir);
    return sum;
}

enum { TURNS = 40, LOSERS = 4 };

/* Forty turns pass before those at the end of the queue: they may sleep on. */
static void only_the_winner(bool by_death)
{
    struct actor *turns[TURNS], *losers[LOSERS];
    int64_t before[LOSERS], start;

    take(turns[0] = actor_start(), mutex("n"));
    for (int i = 1; i < TURNS; i++)
        wait_for(turns[i] = actor_start(), mutex("n"));
    for (int i = 0; i < LOSERS; i++)
        wait_for(losers[i] = actor_start(), mutex("n"));
    for (int i = 0; i < LOSERS; i++)
        AWAIT(asleep(losers[i]->pid));
    start = now_ms();
    for (int i = 0; i < LOSERS; i++)
        before[i] = sleeps_of(losers[i]->pid);

    for (int i = 0; i < TURNS - 1; i++) {
        if (by_death)
            actor_kill(turns[i]);
        else
            give(turns[i], 0);
        granted(turns[i + 1]);
    }
    for (int i = 0; i < LOSERS; i++) {
        int64_t woken = sleeps_of(losers[i]->pid) - before[i];
        int64_t beats = (now_ms() - start) / HEARTBEAT_MS + 1;

        if (woken > 2 * beats + TURNS / 4)
            fail_msg("%lld times woken during %d turns of others", (long long)woken, TURNS - 1);
    }
}

static void release_wakes_the_winner_alone(void **state)
{
    (void)state;
    only_the_winner(false);
}

static void death_wakes_the_winner_alone(void **state)
{
    (void)state;
    only_the_winner(true);
}

/* ---- writers ------------------------------------------------------------------------------ */

static void do_read_for_ever(struct self *self, const struct ask *ask, struct answer *answer)
{
    struct answer ignored;

    (void)answer;
    for (;;) {
        do_acquire(self, ask, &ignored);
        usleep(1000);
        do_release(self, ask, &ignored);
    }
}

/* Readers overlap all the time: without the queue the name would never be free for a writer. */
static void writer_does_not_starve(void **state)
{
    enum { READERS = 6 };
    struct actor *author = actor_start();
    struct actor *readers[READERS];

    (void)state;
    for (int i = 0; i < READERS; i++)
        actor_begin(readers[i] = actor_start(), do_read_for_ever, reader("rw"));
    for (int i = 0; i < 20; i++) {
        take(author, writer("rw"));
        assert_int_equal(holders_of("rw"), 1);
        give(author, 0);
    }
}

/* ---- who waits does nothing ------------------------------------------------------------------ */

/* System calls of `pid` and all its threads during `seconds`, as strace sees them. */
static int64_t count_calls(pid_t pid, int seconds)
{
    char trace[sizeof place + 32], target[32], line[1024];
    int64_t calls = 0;
    pid_t tracer;
    FILE *file;

    snprintf(trace, sizeof trace, "%s.strace", place);
    snprintf(target, sizeof target, "%d", (int)pid);
    tracer = fork();
    if (tracer == 0) {
        int null = open("/dev/null", O_WRONLY);

        dup2(null, 2);
        execlp("strace", "strace", "-f", "-qq", "-o", trace, "-p", target, (char *)NULL);
        _exit(127);
    }
    AWAIT(status_field(pid, "TracerPid") == tracer || waitpid(tracer, NULL, WNOHANG) == tracer);
    assert_int_equal(status_field(pid, "TracerPid"), tracer);
    nap_ms(seconds * INT64_C(1000));
    kill(tracer, SIGINT);
    waitpid(tracer, NULL, 0);

    file = fopen(trace, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        /* The end of a call is a line of its own if another thread spoke in between. */
        if (strstr(line, " resumed>") || strstr(line, "restart_syscall"))
            continue;
        print_message("  %s", line);
        calls++;
    }
    fclose(file);
    unlink(trace);
    return calls;
}

static void waiting_makes_no_calls(void **state)
{
    enum { SECONDS = 6 };
    struct actor *holder = actor_start(), *first = actor_start(), *second = actor_start();
    int64_t calls;

    (void)state;
    take(holder, mutex("n"));
    wait_for(first, mutex("n"));
    wait_for(second, mutex("n"));
    observer_quit();
    /* When tracing begins every thread is seen in the call it sleeps in: up to one for each. */
    for (int i = 0; i < 2; i++) {
        pid_t pid = i ? second->pid : first->pid;

        calls = count_calls(pid, SECONDS);
        if (calls > status_field(pid, "Threads") + 2 * SECONDS)
            fail_msg("%lld system calls in %d s of waiting", (long long)calls, SECONDS);
    }
    give(holder, 0);
    granted(first);
}

/* Nor does a holder. */
static void holding_makes_no_calls(void **state)
{
    enum { SECONDS = 4 };
    struct actor *holder = actor_start();
    int64_t calls;

    (void)state;
    take(holder, mutex("n"));
    nap_ms(HEARTBEAT_MS); /* what was begun has ended */
    calls = count_calls(holder->pid, SECONDS);
    if (calls > status_field(holder->pid, "Threads") + SECONDS)
        fail_msg("%lld system calls in %d s of holding", (long long)calls, SECONDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fifo_between_processes),         TEST(nobody_overtakes),
        TEST(release_wakes_the_winner_alone), TEST(death_wakes_the_winner_alone),
        TEST(writer_does_not_starve),         TEST(waiting_makes_no_calls),
        TEST(holding_makes_no_calls),
    };

    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
