/* SPDX-License-Identifier: MIT */
/*
 * Starting a command under a lock from a shell: `holdfast run x -- true` against `flock file true`,
 * and against `true` alone, which is what both cannot avoid. In the embedded store, and on Redis.
 */
#include "measures.h"
#include "redis_server.h"
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

/* A command line; the strings are not written to. */
struct line {
    const char *argv[10];
};

static void run(void *arg)
{
    const struct line *line = arg;
    char *const *argv = (char *const *)(uintptr_t)line->argv;
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

static double round_command(void *arg, double seconds)
{
    return rounds_loop(run, arg, seconds, 1);
}

/* Ours in the store `url`, flock(1) and nothing, in turns. */
enum { OURS, FLOCK, ALONE, COUNT };

static void compare(struct bench *bench, const char *url, struct rounds *ret)
{
    char file[PATH_MAX];
    struct line lines[COUNT] = {
        [OURS] = { { bench->holdfast, "run", "x", "--", "true", NULL } },
        [FLOCK] = { { "flock", file, "true", NULL } },
        [ALONE] = { { "true", NULL } },
    };
    const struct contender contenders[COUNT] = { { round_command, &lines[OURS] },
                                                 { round_command, &lines[FLOCK] },
                                                 { round_command, &lines[ALONE] } };

    if (!bench->holdfast)
        bench_die("there is no holdfast command beside this program");
    setenv("HOLDFAST_STORE", url, 1);
    snprintf(file, sizeof file, "%s/flock", bench->dir);
    rounds_run(bench, 1, ROUND_S, contenders, COUNT, ret);
}

void measure_command(struct bench *bench)
{
    static struct rounds rounds;
    char url[PATH_MAX];

    snprintf(url, sizeof url, "file:%s/store", bench->dir);
    mkdir(url + strlen("file:"), 0700);
    compare(bench, url, &rounds);
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true", FLOCK, "flock file true",
                 (struct target){ AT_MOST, 1, 0, false });
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true", ALONE, "true alone",
                 (struct target){ 0 });
}

void measure_redis_command(struct bench *bench)
{
    static struct rounds rounds;
    struct redis_server *server = redis_server_start(bench);

    compare(bench, server->url, &rounds);
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true, on Redis", FLOCK, "flock file true",
                 (struct target){ 0 });
    rounds_costs(bench, &rounds, OURS, "holdfast run x -- true, on Redis", ALONE, "true alone",
                 (struct target){ AT_MOST, 3000, 0, true });
    redis_server_stop(server);
}
