/* SPDX-License-Identifier: MIT */
/*
 * Starting a command under a lock from a shell: `holdfast run x -- true` against `flock file true`,
 * and against `true` alone, which is what both cannot avoid.
 */
#include "measures.h"
#include "rounds.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ROUND_S 0.1

extern char **environ;

static void run(char *const argv[])
{
    pid_t pid;
    int status, rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

    if (rc != 0)
        bench_die("%s: %s", argv[0], strerror(rc));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            bench_die("waitpid: %s", strerror(errno));
    if (status != 0)
        bench_die("%s ended with wait status %#x", argv[0], (unsigned)status);
}

static void step(void *arg)
{
    char **argv = arg;

    run(argv);
}

static double round_command(void *arg, double seconds)
{
    return rounds_loop(step, arg, seconds, 1);
}

void measure_command(struct bench *bench)
{
    enum { OURS, FLOCK, ALONE, COUNT };
    static struct rounds rounds;
    char file[PATH_MAX], url[PATH_MAX];
    char *ours[] = { (char *)(uintptr_t)bench->holdfast,
                     (char *)"run",
                     (char *)"x",
                     (char *)"--",
                     (char *)"true",
                     NULL };
    char *flock[] = { (char *)"flock", file, (char *)"true", NULL };
    char *alone[] = { (char *)"true", NULL };
    const struct contender contenders[COUNT] = { { round_command, ours },
                                                 { round_command, flock },
                                                 { round_command, alone } };

    if (!bench->holdfast)
        bench_die("there is no holdfast command beside this program");
    snprintf(file, sizeof file, "%s/flock", bench->dir);
    snprintf(url, sizeof url, "file:%s/store", bench->dir);
    mkdir(url + strlen("file:"), 0700);
    setenv("HOLDFAST_STORE", url, 1);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true", FLOCK, "flock file true",
                 (struct target){ AT_MOST, 1.5, 0, false });
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true", ALONE, "true alone",
                 (struct target){ 0 });
}
