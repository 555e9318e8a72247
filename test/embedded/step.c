/* SPDX-License-Identifier: MIT */
/*
 * kill -9 at any instant, and not by luck: a victim is run one instruction (or one system
 * call) at a time under ptrace and killed after the n-th, for many n, while it takes,
 * releases, queues, opens, closes, or clears up after another dead process. Whatever it
 * left behind: nobody is stuck, what it held is free, and tokens grow.
 */
#include "embedded.h"

#include "engine/lmdb/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the knife -------------------------------------------------------------------------- */

/* The victim signals itself before and after what it is to be killed in; only its tracer sees that. */
static void do_marked(struct self *self, const struct ask *ask, struct answer *answer, actor_fn *fn)
{
    raise(SIGUSR1);
    fn(self, ask, answer);
    raise(SIGUSR1);
}

#define MARKED(name)                                                                           \
    static void marked_##name(struct self *self, const struct ask *ask, struct answer *answer) \
    {                                                                                          \
        do_marked(self, ask, answer, do_##name);                                               \
    }
MARKED(acquire)
MARKED(release)
MARKED(resize)
MARKED(open)
MARKED(close)

enum knife { BY_INSTRUCTION, BY_CALL };

static int next_stop(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    if (!WIFSTOPPED(status))
        fail_msg("the victim died by itself: wait status %#x", (unsigned)status);
    return WSTOPSIG(status);
}

/*
 * Let the victim begin, and kill it after `steps`. Only its main thread is stepped: the others run
 * freely. -1: killed. Else it finished before that, after the returned number of steps, and lives.
 */
static long kill_after(struct actor *victim, actor_fn *fn, struct ask ask, enum knife knife,
                       long steps)
{
    int request = knife == BY_CALL ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
    pid_t pid = victim->pid;
    int status;

    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
        fail_msg("ptrace: %s", strerror(errno));
    actor_begin(victim, fn, ask);
    assert_int_equal(next_stop(pid), SIGUSR1);
    for (long i = 0; i < steps; i++) {
        assert_int_equal(ptrace((enum __ptrace_request)request, pid, NULL, NULL), 0);
        if (next_stop(pid) == SIGUSR1) {
            assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
            return i;
        }
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    do
        assert_int_equal(waitpid(pid, &status, __WALL), pid);
    while (!WIFSIGNALED(status));
    actor_gone(victim);
    return -1;
}

/* ---- the sweep ------------------------------------------------------------------------------ */

#define POINTS_MAX 100
#define STEPS_MAX  150000

struct scene {
    /* Before: set up all actors; *ret_victim is about to run `fn`. */
    void (*set)(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask);
    /* After: the victim was killed, or lives and is through. */
    void (*look)(struct actor *victim, bool killed);
};

/* -1: killed; else the number of steps after which it had finished. */
static long one(const struct scene *scene, enum knife knife, long steps)
{
    struct actor *victim;
    struct ask ask;
    actor_fn *fn;
    long through;

    scene->set(&victim, &fn, &ask);
    through = kill_after(victim, fn, ask, knife, steps);
    if (through >= 0)
        actor_answer(victim);
    scene->look(victim, through < 0);
    return through;
}

/*
 * First every system call, each at its beginning and its end; then instructions at equal distances,
 * as many as fit into STEPS_MAX steps all together.
 */
static void sweep(const struct scene *scene)
{
    int64_t start = now_ms();
    long calls = 0, length, points, kills = 0;

    while (one(scene, BY_CALL, ++calls) < 0)
        kills++;
    length = one(scene, BY_INSTRUCTION, LONG_MAX);
    points = STEPS_MAX / length < POINTS_MAX ? 2 * STEPS_MAX / length : POINTS_MAX;
    for (long i = 0; i < points; i++)
        kills += one(scene, BY_INSTRUCTION, 1 + length * i / points) < 0;
    print_message("  %ld call boundaries, %ld instructions; killed %ld times in %lld ms\n",
                  calls - 1, length, kills, (long long)(now_ms() - start));
}

static struct actor *keeper, *waiter; /* live through a sweep */
static uint64_t last;
static int64_t late_ms; /* longest from kill to grant */

static int begin(void **state)
{
    place_setup(state);
    keeper = actor_start();
    waiter = actor_start();
    last = 0;
    late_ms = 0;
    return 0;
}

static void grew(uint64_t token)
{
    assert_true(token > last);
    last = token;
}

static void free_for_the_keeper(const char *name)
{
    struct ask ask = mutex(name);
    struct answer answer;

    ask.wait_ms = 0;
    answer = actor_do(keeper, do_acquire, ask);
    OK(answer);
    grew(answer.token);
    give(keeper, 0);
}

/* ---- taking a free name ---------------------------------------------------------------------- */

/* One that has done it before: what a process does only once is not swept again and again. */
static struct actor *practised(void)
{
    struct actor *actor = actor_start();

    grew(take(actor, mutex("other")));
    assert_int_equal(try_it(actor, mutex("other")), HF_BUSY);
    give(actor, 0);
    return actor;
}

static void set_taking(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    *ret_victim = practised();
    *ret_fn = marked_acquire;
    *ret_ask = mutex("n");
}

static void look_taking(struct actor *victim, bool killed)
{
    if (!killed) {
        assert_int_equal(try_it(keeper, mutex("n")), HF_BUSY);
        actor_kill(victim);
    }
    free_for_the_keeper("n");
}

static void killed_while_taking(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_taking, look_taking });
}

/* ---- releasing while somebody waits: he gets it, and by an event ---------------------------------- */

static int64_t released_ns;

static void set_releasing(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    *ret_victim = practised();
    grew(take(*ret_victim, mutex("n")));
    wait_for(waiter, mutex("n"));
    *ret_fn = marked_release;
    *ret_ask = lease_number(0);
}

static void look_releasing(struct actor *victim, bool killed)
{
    struct answer answer;
    int64_t took_ms;

    released_ns = now_ns();
    answer = actor_answer(waiter);
    OK(answer);
    grew(answer.token);
    took_ms = (answer.done_ns - released_ns) / 1000000;
    if (took_ms > late_ms)
        late_ms = took_ms;
    give(waiter, 0);
    if (!killed)
        actor_kill(victim);
    free_for_the_keeper("n");
}

static void killed_while_releasing(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_releasing, look_releasing });
    /* Stepping takes long, so a periodic check cannot come at that moment every time: an event
     * does. */
    print_message("  longest from kill to grant: %lld ms\n", (long long)late_ms);
}

/* Between the commit and the wake-up of the winner lies one system call. Killed right at it, many
 * times: the winner wakes because of the death and not because its heartbeat comes. */
static void killed_before_the_wake_up(void **state)
{
    enum { ROUNDS = 9 };
    int64_t took_ms[ROUNDS];
    long calls = 0;
    bool killed = true;

    (void)state;
    /* The first call that a releaser makes is the wake-up, if it has nothing else to do: find it. */
    for (int i = 0; i < ROUNDS; i++) {
        struct actor *victim;
        struct ask ask;
        actor_fn *fn;

        set_releasing(&victim, &fn, &ask);
        killed = kill_after(victim, fn, ask, BY_CALL, 1) < 0;
        if (!killed)
            actor_answer(victim);
        calls += killed;
        released_ns = now_ns();

        struct answer answer = actor_answer(waiter);

        OK(answer);
        took_ms[i] = (answer.done_ns - released_ns) / 1000000;
        give(waiter, 0);
        if (!killed)
            actor_kill(victim);
    }
    assert_true(calls > 0);
    if (median(took_ms, ROUNDS) >= HEARTBEAT_MS / 2)
        fail_msg("median %lld ms from death to grant", (long long)took_ms[ROUNDS / 2]);
}

/* ---- queueing ----------------------------------------------------------------------------------------- */

static void set_queueing(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    *ret_victim = practised();
    grew(take(keeper, mutex("n")));
    *ret_fn = marked_acquire;
    *ret_ask = mutex("n");
    ret_ask->wait_ms = 1; /* and leaves the queue again */
}

static void look_queueing(struct actor *victim, bool killed)
{
    wait_for(waiter, mutex("n"));
    give(keeper, 0);
    grew(granted(waiter));
    give(waiter, 0);
    if (!killed)
        actor_kill(victim);
    free_for_the_keeper("n");
}

static void killed_while_queueing(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_queueing, look_queueing });
}

/* ---- opening and closing ---------------------------------------------------------------------------------- */

static void set_opening(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    *ret_victim = actor_start_raw();
    *ret_fn = marked_open;
    *ret_ask = (struct ask){ 0 };
}

static void look_opening(struct actor *victim, bool killed)
{
    if (!killed)
        actor_kill(victim);
    free_for_the_keeper("n");
    actor_quit(actor_start());
}

static void killed_while_opening(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_opening, look_opening });
}

/* The very first process of a store, or of a boot: nobody else is there, and all files are to be made. */
static void look_making(struct actor *victim, bool killed)
{
    struct actor *next;

    if (!killed)
        actor_kill(victim);
    next = actor_start();
    grew(take(next, mutex("n")));
    actor_quit(next);
    unlink(in_place("control"));
    unlink(in_place(lease_file()));
}

static void killed_while_making(void **state)
{
    (void)state;
    actor_quit(keeper);
    actor_quit(waiter);
    unlink(in_place("control"));
    sweep(&(struct scene){ set_opening, look_making });
}

static void set_closing(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    *ret_victim = actor_start();
    take(*ret_victim, mutex("n"));
    give(*ret_victim, 0);
    *ret_fn = marked_close;
    *ret_ask = (struct ask){ 0 };
}

static void killed_while_closing(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_closing, look_opening });
}

/* ---- clearing up after the dead ------------------------------------------------------------------------------ */

/* Somebody died with two names; the victim finds that out when it wants one of them. */
static void set_clearing(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    struct actor *dead = actor_start();
    struct ask second = mutex("m");

    *ret_victim = practised();
    second.lease = 1;
    take(dead, mutex("n"));
    grew(take(dead, second));
    actor_kill(dead);
    *ret_fn = marked_acquire;
    *ret_ask = mutex("n");
}

static void look_clearing(struct actor *victim, bool killed)
{
    if (!killed)
        actor_kill(victim);
    free_for_the_keeper("m");
    free_for_the_keeper("n");
}

static void killed_while_clearing(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_clearing, look_clearing });
}

/* ---- rebuilding ------------------------------------------------------------------------------------------------- */

/* The file is damaged, the victim is the first to notice. The keeper holds: that must stay so. */
static void set_rebuilding(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    static const char zeros[16 * LMDB_PAGE];

    *ret_victim = actor_start_raw();
    grew(take(keeper, mutex("held")));
    actor_stop(keeper);
    actor_stop(waiter);
    scribble(lease_file(), 0, zeros, sizeof zeros);
    *ret_fn = marked_open;
    *ret_ask = (struct ask){ 0 };
}

static void look_rebuilding(struct actor *victim, bool killed)
{
    hf_status status;

    if (!killed)
        actor_kill(victim);
    actor_continue(waiter);
    status = try_it(waiter, mutex("held"));
    if (status != HF_BUSY && status != HF_UNAVAILABLE)
        fail_msg("a held name: %s", hf_status_name(status));
    actor_continue(keeper);
    assert_int_equal(actor_do(keeper, do_state, lease_number(0)).number, HF_STATE_HELD);
    AWAIT(try_it(waiter, mutex("held")) == HF_BUSY);
    give(keeper, 0);
    AWAIT(try_it(waiter, mutex("held")) == HF_OK);
}

static void killed_while_rebuilding(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_rebuilding, look_rebuilding });
}

/* Every step is two changes between director and victim: on one processor they cost a third. */
static void stay_on_one_processor(void)
{
    cpu_set_t all, one_of_them;

    CPU_ZERO(&one_of_them);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one_of_them) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one_of_them);
    sched_setaffinity(0, sizeof one_of_them, &one_of_them);
}

/* ---- setting a size: the durable file and the lease file agree, whatever was done of it ------------- */

/* The last record of the file `sizes`, as sizes.c has it. */
static uint32_t size_on_disk(void)
{
    unsigned char bytes[1 << 16];
    uint32_t head[3] = { 0 }, capacity = 0;
    int fd = open(in_place("sizes"), O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;

    assert_true(len >= 0 && len < (ssize_t)sizeof bytes);
    for (ssize_t at = 0; at + (ssize_t)sizeof head <= len; at += (ssize_t)sizeof head + head[2]) {
        memcpy(head, bytes + at, sizeof head);
        capacity = head[1];
    }
    if (fd >= 0)
        close(fd);
    return capacity;
}

static void set_resizing(struct actor **ret_victim, actor_fn **ret_fn, struct ask *ret_ask)
{
    struct ask ask = permits_of("n", 1, 1);

    OK(actor_do(keeper, do_resize, ask));
    *ret_victim = practised();
    grew(take(keeper, ask));
    wait_for(waiter, ask);
    *ret_fn = marked_resize;
    *ret_ask = permits_of("n", 2, 1);
}

static void look_resizing(struct actor *victim, bool killed)
{
    struct answer answer = actor_do(keeper, do_size, mutex("n"));

    OK(answer);
    assert_true(answer.number == 1 || answer.number == 2);
    assert_int_equal(answer.number, size_on_disk());
    if (!killed) {
        assert_int_equal(answer.number, 2);
        actor_kill(victim);
    }
    if (answer.number == 1)
        give(keeper, 0);
    answer = actor_answer(waiter); /* by the new size, or by the release */
    OK(answer);
    grew(answer.token);
    give(waiter, 0);
    if (actor_do(keeper, do_count_holders, mutex("n")).number > 0)
        give(keeper, 0);
}

static void killed_while_resizing(void **state)
{
    (void)state;
    sweep(&(struct scene){ set_resizing, look_resizing });
}

int main(void)
{
#define SCENE(function) cmocka_unit_test_setup_teardown(function, begin, place_teardown)
    const struct CMUnitTest tests[] = {
        SCENE(killed_while_taking),       SCENE(killed_while_releasing),
        SCENE(killed_before_the_wake_up), SCENE(killed_while_queueing),
        SCENE(killed_while_opening),      SCENE(killed_while_making),
        SCENE(killed_while_closing),      SCENE(killed_while_clearing),
        SCENE(killed_while_rebuilding),   SCENE(killed_while_resizing),
    };

    stay_on_one_processor();
    return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
