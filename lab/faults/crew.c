/* SPDX-License-Identifier: MIT */
/* The workers; see crew.h. */
#include "crew.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_US      200
#define INSIDE_POLLS 2000
#define MS           INT64_C(1000000)

extern char **environ;

static void start(struct crew *crew, unsigned worker)
{
    pid_t parent = getpid(), pid;
    char lane[16], fd[16];
    char *args[] = { (char *)"holdfast-faults", (char *)"--worker", lane, fd, NULL };

    snprintf(lane, sizeof lane, "%u", worker);
    snprintf(fd, sizeof fd, "%d", crew->fd);
    pid = fork();
    if (pid == 0) { /* only what is allowed in a program with threads */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && fcntl(crew->fd, F_SETFD, 0) == 0 &&
            (crew->far_net < 0 || worker % 2 == 0 || setns(crew->far_net, CLONE_NEWNET) == 0))
            execve("/proc/self/exe", args, crew->env ? crew->env : environ);
        _exit(127);
    }
    if (pid < 0) {
        perror("fork");
        exit(70);
    }
    crew->pids[worker] = pid;
}

void crew_start(struct crew *crew)
{
    for (unsigned i = 0; i < WORKERS; i++)
        start(crew, i);
}

bool crew_opened(const struct crew *crew, int64_t wait_ms)
{
    int64_t until_ns = history_now_ns() + wait_ms * MS;

    while (atomic_load(&crew->shared->opened) < WORKERS) {
        if (history_now_ns() > until_ns || atomic_load(&crew->shared->refused))
            return false;
        usleep(POLL_US);
    }
    return true;
}

static void note_death(struct crew *crew, unsigned worker, int64_t at_ns)
{
    history_add(&crew->shared->history, worker, (struct event){ .kind = EV_DEAD, .at_ns = at_ns });
    atomic_store(&crew->shared->inside[worker], 0);
}

void crew_kill(struct crew *crew, unsigned worker)
{
    int64_t at_ns = history_now_ns();

    kill(crew->pids[worker], SIGKILL);
    waitpid(crew->pids[worker], NULL, 0);
    note_death(crew, worker, at_ns);
    start(crew, worker);
}

void crew_stop(struct crew *crew, unsigned worker)
{
    int status;

    kill(crew->pids[worker], SIGSTOP);
    waitpid(crew->pids[worker], &status, WUNTRACED);
}

void crew_continue(struct crew *crew, unsigned worker)
{
    atomic_store(&crew->shared->continued_ns[worker], history_now_ns());
    kill(crew->pids[worker], SIGCONT);
}

void crew_tend(struct crew *crew)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        int status;

        if (waitpid(crew->pids[i], &status, WNOHANG) != crew->pids[i])
            continue;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            crew->pids[i] = 0; /* the log is full */
        if (crew->pids[i] == 0)
            continue;
        fprintf(stderr, "faults: a worker ended by itself: wait status %#x\n", (unsigned)status);
        crew->died++;
        note_death(crew, i, 0);
        start(crew, i);
    }
}

int crew_inside(const struct crew *crew, uint64_t *dice)
{
    unsigned first = chance(dice, WORKERS);

    for (unsigned poll = 0; poll < INSIDE_POLLS; poll++) {
        for (unsigned i = 0; i < WORKERS; i++)
            if (atomic_load(&crew->shared->inside[(first + i) % WORKERS]))
                return (int)((first + i) % WORKERS);
        usleep(POLL_US);
    }
    return -1;
}

/* ---- the end ------------------------------------------------------------------------------------ */

/* Faults are over: each worker must come to another answer. */
static void await_progress(const struct crew *crew, int64_t until_ns, bool hung[WORKERS])
{
    uint64_t before[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++)
        before[i] = atomic_load(&crew->shared->history.lane[i].progress);
    for (unsigned i = 0; i < WORKERS; i++) {
        while (crew->pids[i] && !atomic_load(&crew->shared->history.stop) &&
               atomic_load(&crew->shared->history.lane[i].progress) <= before[i] + 1 &&
               history_now_ns() < until_ns)
            usleep(POLL_US);
        hung[i] = crew->pids[i] && !atomic_load(&crew->shared->history.stop) &&
                  atomic_load(&crew->shared->history.lane[i].progress) <= before[i] + 1;
    }
}

static bool ends(pid_t pid, int64_t until_ns)
{
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (history_now_ns() > until_ns)
            return false;
        usleep(POLL_US);
    }
    return true;
}

unsigned crew_end(struct crew *crew, int64_t wait_ms)
{
    bool hung[WORKERS] = { false };
    unsigned count = 0;
    int64_t until_ns;

    await_progress(crew, history_now_ns() + wait_ms * MS, hung);
    atomic_store(&crew->shared->history.stop, 1);
    until_ns = history_now_ns() + wait_ms * MS;
    for (unsigned i = 0; i < WORKERS; i++) {
        if (crew->pids[i] == 0)
            continue;
        if (!ends(crew->pids[i], until_ns)) {
            hung[i] = true;
            kill(crew->pids[i], SIGKILL);
            waitpid(crew->pids[i], NULL, 0);
        }
        crew->pids[i] = 0;
        count += hung[i];
    }
    return count;
}
