/* SPDX-License-Identifier: MIT */
/*
 * A lease belongs to the process that took it. A child, however it was made, neither
 * keeps it after its parent's death nor ends it while the parent lives, and may
 * open a store of its own at any time.
 */
#include "embedded.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- ways to make a child; each returns its pid --------------------------------------- */

typedef pid_t make_child(bool lives);

static char *const long_sleep[] = { "sleep", "1000", NULL };
static char *const no_sleep[] = { "sleep", "0", NULL };

static pid_t by_fork(bool lives)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (!lives)
        _exit(0);
    for (;;)
        pause();
}

static pid_t by_fork_exec(bool lives)
{
    pid_t pid = fork();

    if (pid == 0) {
        execvp("sleep", lives ? long_sleep : no_sleep);
        _exit(1);
    }
    return pid;
}

static pid_t by_vfork(bool lives)
{
    char *const *args = lives ? long_sleep : no_sleep;
    pid_t pid = vfork(); /* NOLINT: that it is vfork is the point */

    if (pid == 0) {
        execvp("sleep", args);
        _exit(1);
    }
    return pid;
}

static pid_t by_spawn(bool lives)
{
    pid_t pid;

    if (posix_spawnp(&pid, "sleep", NULL, NULL, lives ? long_sleep : no_sleep, environ) != 0)
        return -1;
    return pid;
}

/* No libc around it: no pthread_atfork handler runs. */
static pid_t by_clone(bool lives)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid != 0)
        return pid;
    if (!lives)
        syscall(SYS_exit_group, 0);
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
}

static make_child *const ways[] = { by_fork, by_fork_exec, by_vfork, by_spawn, by_clone };
#define WAYS (sizeof ways / sizeof ways[0])

/* ask.number: which way; ask.flags: does the child live on? */
static void do_make_child(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self;
    answer->number = ways[ask->number](ask->flags != 0);
    answer->status = answer->number > 0 ? HF_OK : HF_INTERNAL;
    if (answer->status == HF_OK && !ask->flags)
        waitpid((pid_t)answer->number, NULL, 0);
}

/* ---- tests ------------------------------------------------------------------------------- */

/* So that orphans come to us and can be ended. */
static int adopt_orphans(void **state)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return place_setup(state);
}

static void child_does_not_keep(void **state)
{
    (void)state;
    for (size_t way = 0; way < WAYS; way++) {
        struct actor *holder = actor_start(), *waiter = actor_start();
        struct answer child;

        take(holder, mutex("n"));
        child = actor_do(holder, do_make_child, (struct ask){ .number = way, .flags = 1 });
        OK(child);
        wait_for(waiter, mutex("n"));
        actor_kill(holder);
        granted(waiter);
        assert_int_equal(kill((pid_t)child.number, 0), 0); /* the child still lives */
        give(waiter, 0);
        kill((pid_t)child.number, SIGKILL);
        waitpid((pid_t)child.number, NULL, 0);
    }
}

static void child_does_not_free(void **state)
{
    (void)state;
    for (size_t way = 0; way < WAYS; way++) {
        struct actor *holder = actor_start(), *late = actor_start(), *waiter = actor_start();

        take(holder, mutex("n"));
        wait_for(waiter, mutex("n"));
        OK(actor_do(holder, do_make_child, (struct ask){ .number = way, .flags = 0 }));
        assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
        assert_false(actor_answered_within(waiter, 2 * HEARTBEAT_MS));
        assert_int_equal(actor_do(holder, do_state, lease_number(0)).number, HF_STATE_HELD);
        give(holder, 0);
        granted(waiter);
        give(waiter, 0);
    }
}

/* The child closes what it can find, as careful daemons do: its copies are not the parent's. */
static void do_child_closes_everything(struct self *self, const struct ask *ask,
                                       struct answer *answer)
{
    pid_t pid = fork();

    (void)self, (void)ask;
    if (pid == 0) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    answer->status = pid > 0 ? HF_OK : HF_INTERNAL;
}

static void child_that_closes_everything(void **state)
{
    struct actor *holder = actor_start(), *late = actor_start();

    (void)state;
    take(holder, mutex("n"));
    OK(actor_do(holder, do_child_closes_everything, (struct ask){ 0 }));
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
    give(holder, 0);
}

/* A child opens the store for itself: it is somebody else, and its end is its own. */
static void do_child_with_a_store(struct self *self, const struct ask *ask, struct answer *answer)
{
    pid_t pid = fork();
    int status;

    (void)ask;
    if (pid == 0) {
        struct self child = { 0 };
        struct answer inner = { 0 };

        do_acquire(self, &(struct ask){ .name = "x", .lease = 1 }, &inner);
        if (inner.status != HF_FORKED)
            _exit(1);
        if (hf_release(self->leases[0], NULL) != HF_FORKED)
            _exit(2);
        do_open(&child, &(struct ask){ 0 }, &inner);
        if (inner.status != HF_OK)
            _exit(3);
        do_acquire(&child, &(struct ask){ .name = "n" }, &inner);
        if (inner.status != HF_BUSY) /* the parent has it */
            _exit(4);
        do_acquire(&child, &(struct ask){ .name = "mine" }, &inner);
        if (inner.status != HF_OK)
            _exit(5);
        if (hf_close(self->store, HF_CLOSE_FLAG_RELEASE) != HF_FORKED)
            _exit(6);
        _exit(0); /* without a release */
    }
    waitpid(pid, &status, 0);
    answer->number = WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static void child_with_a_store_of_its_own(void **state)
{
    struct actor *holder = actor_start(), *late = actor_start();

    (void)state;
    take(holder, mutex("n"));
    assert_int_equal(actor_do(holder, do_child_with_a_store, (struct ask){ 0 }).number, 0);
    assert_int_equal(try_it(late, mutex("n")), HF_BUSY);
    assert_int_equal(try_it(late, mutex("mine")), HF_OK);
    give(holder, 0);
    assert_int_equal(try_it(late, mutex("n")), HF_OK);
}

/* ---- fork while other threads are inside the library ----------------------------------------- */

static _Atomic int stop;

static void *open_and_close(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        hf_store *store;

        if (hf_open(place_url, NULL, &store, NULL) == HF_OK)
            hf_close(store, HF_CLOSE_FLAG_RELEASE);
    }
    return NULL;
}

static void *acquire_and_release(void *arg)
{
    struct self *self = arg;

    while (!atomic_load(&stop)) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
        hf_lease *lease;

        request.name = "busy";
        request.name_len = HF_CSTRING;
        request.wait_ms = HF_FOREVER;
        if (hf_acquire(self->store, &request, &lease, NULL) == HF_OK)
            hf_release(lease, NULL);
    }
    return NULL;
}

/* Every child opens the store, takes a lease and keeps it until it is told to go. */
static int child_of_a_busy_process(int go)
{
    struct self self = { 0 };
    struct answer answer = { 0 };
    char byte;

    do_open(&self, &(struct ask){ 0 }, &answer);
    if (answer.status != HF_OK)
        return 1;
    do_acquire(&self, &(struct ask){ .name = "child", .kind = HF_KIND_SHARED, .wait_ms = LIMIT_MS },
               &answer);
    if (answer.status != HF_OK)
        return 2;
    return read(go, &byte, 1) == 0 ? 0 : 3;
}

/* ask.number: 0: threads open and close stores; 1: threads take and release. */
static void do_fork_while_busy(struct self *self, const struct ask *ask, struct answer *answer)
{
    enum { CHILDREN = 40, THREADS = 3 };
    pthread_t threads[THREADS];
    pid_t pids[CHILDREN];
    int go[2];

    if (pipe(go) != 0)
        return;
    if (ask->number == 0)
        hf_close(self->store, 0), self->store = NULL;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask->number ? acquire_and_release : open_and_close, self);
    for (int i = 0; i < CHILDREN; i++) {
        usleep((useconds_t)(i * 53 % 700));
        pids[i] = fork();
        if (pids[i] == 0) {
            close(go[1]);
            _exit(child_of_a_busy_process(go[0]));
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, 0);
    close(go[1]);
    close(go[0]);
    for (int i = 0; i < CHILDREN; i++) {
        int status;

        waitpid(pids[i], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            answer->number = answer->number ? answer->number : status;
    }
}

static void fork_while_threads_open(void **state)
{
    struct actor *actor;

    (void)state;
    if (sanitized())
        skip();
    actor = actor_start();
    assert_int_equal(actor_do(actor, do_fork_while_busy, (struct ask){ .number = 0 }).number, 0);
}

static void fork_while_threads_acquire(void **state)
{
    struct actor *actor;

    (void)state;
    if (sanitized())
        skip();
    actor = actor_start();
    assert_int_equal(actor_do(actor, do_fork_while_busy, (struct ask){ .number = 1 }).number, 0);
}

/* A child that was forked while `init` was locked, and never uses the store, blocks nobody. */
static void do_leave_silent_children(struct self *self, const struct ask *ask,
                                     struct answer *answer)
{
    pid_t actor = getpid();
    pthread_t thread;

    (void)ask, (void)answer;
    hf_close(self->store, 0);
    self->store = NULL;
    pthread_create(&thread, NULL, open_and_close, NULL);
    for (int i = 0; i < 100; i++) {
        usleep((useconds_t)(i * 53 % 700));
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != actor)
                _exit(0); /* it was killed before the line above could tell */
            for (;;)
                pause();
        }
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    atomic_store(&stop, 0);
}

static void silent_children(void **state)
{
    struct actor *actor = actor_start(), *newcomer = actor_start_raw();

    (void)state;
    actor_do(actor, do_leave_silent_children, (struct ask){ 0 });
    OK(actor_do(newcomer, do_open, (struct ask){ .wait_ms = LIMIT_MS }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(child_does_not_keep, adopt_orphans, place_teardown),
        TEST(child_does_not_free),
        TEST(child_that_closes_everything),
        TEST(child_with_a_store_of_its_own),
        TEST(fork_while_threads_open),
        TEST(fork_while_threads_acquire),
        TEST(silent_children),
    };

    return cmocka_run_group_tests_name("children", tests, NULL, NULL);
}
