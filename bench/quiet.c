/* SPDX-License-Identifier: MIT */
/*
 * What two waiting processes do while the name stays held: the next in line, and the one behind it.
 * Two windows of some seconds: in the first the kernel's count of voluntary context switches (each
 * blocking call that returns is one), in the second every system call, by strace(1) if it is there.
 * Calls that follow each other at once are one heartbeat. The worse of the two is reported.
 */
#include "crew.h"
#include "futex.h"
#include "measures.h"
#include "ours.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define WAITERS        2
#define WINDOW_S       6.0
#define WINDOW_QUICK_S 2.0
#define SETTLE_S       1.5 /* after the last has queued; and for strace to attach */
#define QUEUE_WAIT_S   10.0
#define HEARTBEATS     1.0  /* a second, at most */
#define BEAT_S         0.01 /* calls closer together than this are one heartbeat */
#define CALLS_MAX      65536

extern char **environ;

struct scene {
    const char *dir;
    _Atomic uint32_t *held; /* futex */
    pid_t waiters[WAITERS];
    double window_s;
};

/* ---- the scene: one holds, two wait ------------------------------------------- */

static void be_waiter(struct scene *scene)
{
    hf_request request = ours_request(OURS_NAME, 0);
    hf_store *store;

    while (!atomic_load(scene->held))
        futex_wait(scene->held, 0, 1);
    store = ours_open(scene->dir, "store");
    ours_acquire(store, &request);
    bench_die("a waiter got the name while it was held");
}

static void fork_waiters(struct scene *scene)
{
    pid_t parent = getpid();

    for (int i = 0; i < WAITERS; i++) {
        scene->waiters[i] = fork();
        if (scene->waiters[i] < 0)
            bench_die("fork: %s", strerror(errno));
        if (scene->waiters[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent)
                be_waiter(scene);
            _exit(EXIT_INTERNAL);
        }
    }
}

static size_t queued(hf_store *store)
{
    hf_error err;
    hf_view *view;
    size_t count = 0;

    if (hf_inspect(store, OURS_NAME, 0, 0, &view, &err) != HF_OK)
        bench_die("hf_inspect: %s", err.text);
    if (view->count == 1)
        count = view->entries[0].waiter_count;
    hf_view_free(view);
    return count;
}

static void wait_queued(hf_store *store)
{
    int64_t end = bench_ns() + (int64_t)(QUEUE_WAIT_S * 1e9);

    while (queued(store) < WAITERS) {
        if (bench_ns() > end)
            bench_die("the waiters do not show up in the queue");
        bench_sleep(0.01);
    }
    bench_sleep(SETTLE_S);
}

/* ---- context switches ----------------------------------------------------------- */

/* Call `each` with the id of every thread of `pid`; returns the sum. */
static double sum_threads(pid_t pid, double (*each)(pid_t pid, const char *tid, void *arg),
                          void *arg)
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

static double switches_of(pid_t pid, const char *tid, void *arg)
{
    static const char field[] = "voluntary_ctxt_switches:";
    char path[PATH_MAX], line[256];
    double switches = 0;
    FILE *file;

    (void)arg;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, tid);
    file = fopen(path, "re");
    if (!file)
        bench_die("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            switches = strtod(line + strlen(field), NULL);
    fclose(file);
    return switches;
}

static double worst_switches(const struct scene *scene)
{
    double before[WAITERS], worst = 0;

    for (int i = 0; i < WAITERS; i++)
        before[i] = sum_threads(scene->waiters[i], switches_of, NULL);
    bench_sleep(scene->window_s);
    for (int i = 0; i < WAITERS; i++) {
        double grown = sum_threads(scene->waiters[i], switches_of, NULL) - before[i];

        worst = grown > worst ? grown : worst;
    }
    return worst / scene->window_s;
}

/* ---- system calls ------------------------------------------------------------------ */

struct window {
    const char *prefix; /* of strace's files, one per thread */
    double from, to;    /* CLOCK_REALTIME, as strace prints it */
    double *times;      /* of the calls in it, room for CALLS_MAX */
    size_t count;
};

static double realtime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Lines like "1700000000.123456 futex(...". What began before the window is not in it: at the
 * attach every sleeping call is interrupted and begun again. */
static double calls_of(pid_t pid, const char *tid, void *arg)
{
    struct window *window = arg;
    size_t before = window->count;
    char path[PATH_MAX], line[1024], *rest;
    FILE *file;

    (void)pid;
    snprintf(path, sizeof path, "%s.%s", window->prefix, tid);
    file = fopen(path, "re");
    if (!file)
        return 0; /* strace makes it with the first line */
    while (window->count < CALLS_MAX && fgets(line, sizeof line, file)) {
        double at = strtod(line, &rest);

        if (rest[0] == ' ' && rest[1] >= 'a' && rest[1] <= 'z' && at >= window->from &&
            at < window->to)
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

static double beats_in(struct window *window)
{
    double beats = 0, last = 0;

    qsort(window->times, window->count, sizeof *window->times, earlier);
    for (size_t i = 0; i < window->count; i++) {
        beats += window->times[i] - last > BEAT_S;
        last = window->times[i];
    }
    return beats;
}

static pid_t start_strace(const struct scene *scene, const char *prefix)
{
    char pids[WAITERS][16];
    char *argv[] = { (char *)"strace", (char *)"-qq", (char *)"-ff",
                     (char *)"-ttt",   (char *)"-o",  (char *)(uintptr_t)prefix,
                     (char *)"-p",     pids[0],       (char *)"-p",
                     pids[1],          NULL };
    posix_spawn_file_actions_t silent;
    pid_t pid;
    int rc;

    for (int i = 0; i < WAITERS; i++)
        snprintf(pids[i], sizeof pids[i], "%d", (int)scene->waiters[i]);
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawnp(&pid, "strace", &silent, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&silent);
    return rc == 0 ? pid : -1;
}

/* The worst of the waiters, a second each. False: strace is missing, or may not look. */
static bool worst_calls(const struct scene *scene, double *ret_calls, double *ret_beats)
{
    char prefix[PATH_MAX];
    static double times[CALLS_MAX];
    struct window window = { .prefix = prefix, .times = times };
    pid_t strace;

    snprintf(prefix, sizeof prefix, "%s/strace", scene->dir);
    strace = start_strace(scene, prefix);
    if (strace < 0)
        return false;
    bench_sleep(SETTLE_S);
    window.from = realtime();
    window.to = window.from + scene->window_s;
    bench_sleep(scene->window_s);
    if (waitpid(strace, NULL, WNOHANG) != 0)
        return false;
    kill(strace, SIGINT);
    waitpid(strace, NULL, 0);

    *ret_calls = *ret_beats = 0;
    for (int i = 0; i < WAITERS; i++) {
        double calls, beats;

        window.count = 0;
        calls = sum_threads(scene->waiters[i], calls_of, &window);
        beats = beats_in(&window);
        *ret_calls = fmax(*ret_calls, calls / scene->window_s);
        *ret_beats = fmax(*ret_beats, beats / scene->window_s);
    }
    return true;
}

/* ------------------------------------------------------------------------------------- */

void measure_quiet(struct bench *bench)
{
    struct scene scene = { .dir = bench->dir, .held = crew_shared(sizeof(uint32_t)) };
    const struct target target = { AT_MOST, HEARTBEATS, 0, true };
    hf_request request = ours_request(OURS_NAME, 0);
    hf_lease *lease;
    hf_store *store;
    struct row *row;
    double calls, beats;

    scene.window_s = bench->quick ? WINDOW_QUICK_S : WINDOW_S;
    fork_waiters(&scene);
    store = ours_open(bench->dir, "store");
    lease = ours_acquire(store, &request);
    atomic_store(scene.held, 1);
    futex_wake(scene.held, INT_MAX, 1);
    wait_queued(store);
    bench_done(bench, 0.2);

    row = bench_row(bench, UNIT_PER_SECOND, "wake-ups of a waiting process", "");
    row->measured = worst_switches(&scene);
    row->target = target;
    bench_done(bench, 0.4);
    if (worst_calls(&scene, &calls, &beats)) {
        row = bench_row(bench, UNIT_PER_SECOND, "heartbeats of it, by strace(1)", "");
        row->measured = beats;
        row->target = target;
        row = bench_row(bench, UNIT_PER_SECOND, "system calls of these", "");
        row->measured = calls;
    }
    for (int i = 0; i < WAITERS; i++)
        kill(scene.waiters[i], SIGKILL);
    ours_release(lease);
    ours_close(store);
}
