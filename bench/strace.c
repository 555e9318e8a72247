/* SPDX-License-Identifier: MIT */
/* See strace.h. */
#include "strace.h"

#include "bench.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

double sum_threads(pid_t pid, double (*each)(pid_t pid, const char *tid, void *arg), void *arg)
{
    char pattern[64];
    double sum = 0;
    glob_t tasks;

    snprintf(pattern, sizeof pattern, "/proc/%d/task/*", (int)pid);
    if (glob(pattern, 0, NULL, &tasks) != 0)
        bench_die("%s: nothing there", pattern);
    for (size_t i = 0; i < tasks.gl_pathc; i++)
        sum += each(pid, strrchr(tasks.gl_pathv[i], '/') + 1, arg);
    globfree(&tasks);
    return sum;
}

double strace_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Lines like "1700000000.123456 futex(...". What began before the window is not in it: at the
 * attach every sleeping call is interrupted and begun again. */
static double calls_of(pid_t pid, const char *tid, void *arg)
{
    struct strace_window *window = arg;
    size_t before = window->count;
    char path[PATH_MAX], line[1024], *rest;
    FILE *file;

    (void)pid;
    snprintf(path, sizeof path, "%s.%s", window->prefix, tid);
    file = fopen(path, "re");
    if (!file)
        return 0; /* strace makes it with the first line */
    while (window->count < STRACE_CALLS_MAX && window->mark_count < STRACE_CALLS_MAX &&
           fgets(line, sizeof line, file)) {
        double at = strtod(line, &rest);

        if (rest[0] != ' ' || rest[1] < 'a' || rest[1] > 'z' || at < window->from ||
            at >= window->to)
            continue;
        if (window->mark && strncmp(rest + 1, window->mark, strlen(window->mark)) == 0)
            window->marks[window->mark_count++] = at;
        else
            window->times[window->count++] = at;
    }
    fclose(file);
    return (double)(window->count - before);
}

static int earlier(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double strace_calls(pid_t pid, struct strace_window *window)
{
    double calls = sum_threads(pid, calls_of, window);

    qsort(window->times, window->count, sizeof *window->times, earlier);
    if (window->marks)
        qsort(window->marks, window->mark_count, sizeof *window->marks, earlier);
    return calls;
}

double strace_between(const struct strace_window *window, double q)
{
    static double steps[STRACE_CALLS_MAX];
    size_t count = 0, call = 0;

    for (size_t i = 0; i + 1 < window->mark_count; i++) {
        while (call < window->count && window->times[call] < window->marks[i])
            call++;
        steps[count] = 0;
        for (; call < window->count && window->times[call] < window->marks[i + 1]; call++)
            steps[count]++;
        count++;
    }
    if (count == 0)
        return NAN;
    qsort(steps, count, sizeof *steps, earlier);
    return steps[(size_t)(q * (double)(count - 1))];
}

pid_t strace_start(const char *prefix, const pid_t *pids, size_t count)
{
    char numbers[STRACE_PIDS_MAX][16];
    char *argv[7 + 2 * STRACE_PIDS_MAX] = { (char *)"strace", (char *)"-qq",
                                            (char *)"-ff",    (char *)"-ttt",
                                            (char *)"-o",     (char *)(uintptr_t)prefix };
    posix_spawn_file_actions_t silent;
    size_t used = 6;
    pid_t pid;
    int rc;

    for (size_t i = 0; i < count && i < STRACE_PIDS_MAX; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%d", (int)pids[i]);
        argv[used++] = (char *)"-p";
        argv[used++] = numbers[i];
    }
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, "strace", &silent, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&silent);
    return rc == 0 ? pid : -1;
}
