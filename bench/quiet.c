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
#include "redis_server.h"
#include "strace.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WAITERS        2
#define WINDOW_S       6.0
#define WINDOW_QUICK_S 2.0
#define SETTLE_S       1.5 /* after the last has queued; and for strace to attach */
#define QUEUE_WAIT_S   10.0
#define HEARTBEATS     1.0  /* a second, at most */
#define BEAT_S         0.01 /* calls closer together than this are one heartbeat */

struct scene {
    const char *dir; /* for strace's files */
    char url[PATH_MAX];
    _Atomic uint32_t *held; /* futex */
    pid_t waiters[WAITERS];
    double window_s;
};

/* ---- the scene: one holds, two wait ------------------------------------------- */

static void be_waiter(struct scene *scene)
{
    hf_acquire_request request = ours_request(OURS_NAME, 0);
    hf_store *store;

    while (!atomic_load(scene->held))
        futex_wait(scene->held, 0, 1);
    store = ours_open_url(scene->url);
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

    if (hf_store_inspect(store, OURS_NAME, HF_CSTRING, 0, &view, &err) != HF_OK)
        bench_die("hf_store_inspect: %s", err.text);
    if (hf_view_count(view) == 1)
        count = hf_view_entry(view, 0)->waiter_count;
    hf_free(view);
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

static double beats_in(const struct strace_window *window)
{
    double beats = 0, last = 0;

    for (size_t i = 0; i < window->count; i++) {
        beats += window->times[i] - last > BEAT_S;
        last = window->times[i];
    }
    return beats;
}

/* The worst of the waiters, a second each. False: strace is missing, or may not look. */
static bool worst_calls(const struct scene *scene, double *ret_calls, double *ret_beats)
{
    char prefix[PATH_MAX];
    static double times[STRACE_CALLS_MAX];
    struct strace_window window = { .prefix = prefix, .times = times };
    pid_t strace;

    snprintf(prefix, sizeof prefix, "%s/strace", scene->dir);
    strace = strace_start(prefix, scene->waiters, WAITERS);
    if (strace < 0)
        return false;
    bench_sleep(SETTLE_S);
    window.from = strace_now();
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
        calls = strace_calls(scene->waiters[i], &window);
        beats = beats_in(&window);
        *ret_calls = fmax(*ret_calls, calls / scene->window_s);
        *ret_beats = fmax(*ret_beats, beats / scene->window_s);
    }
    return true;
}

/* ------------------------------------------------------------------------------------- */

/* Hold the name and let them queue behind us. */
static hf_lease *hold(struct bench *bench, struct scene *scene, hf_store **ret_store)
{
    hf_acquire_request request = ours_request(OURS_NAME, 0);
    hf_lease *lease;

    scene->dir = bench->dir;
    scene->held = crew_shared(sizeof(uint32_t));
    scene->window_s = bench->quick ? WINDOW_QUICK_S : WINDOW_S;
    fork_waiters(scene);
    *ret_store = ours_open_url(scene->url);
    lease = ours_acquire(*ret_store, &request);
    atomic_store(scene->held, 1);
    futex_wake(scene->held, INT_MAX, 1);
    wait_queued(*ret_store);
    bench_done(bench, 0.2);
    return lease;
}

static void let_go(struct scene *scene, hf_store *store, hf_lease *lease)
{
    for (int i = 0; i < WAITERS; i++)
        kill(scene->waiters[i], SIGKILL);
    ours_release(lease);
    ours_close(store);
}

static void report(struct bench *bench, const char *what, double per_second, struct target target)
{
    struct row *row = bench_row(bench, UNIT_PER_SECOND, what, "");

    row->measured = per_second;
    row->target = target;
}

void measure_quiet(struct bench *bench)
{
    const struct target target = { AT_MOST, HEARTBEATS, 0, true };
    static struct scene scene;
    hf_lease *lease;
    hf_store *store;
    double calls, beats;

    snprintf(scene.url, sizeof scene.url, "file:%s/store", bench->dir);
    mkdir(scene.url + strlen("file:"), 0700);
    lease = hold(bench, &scene, &store);
    report(bench, "wake-ups of a waiting process", worst_switches(&scene), target);
    bench_done(bench, 0.4);
    if (worst_calls(&scene, &calls, &beats)) {
        report(bench, "heartbeats of it, by strace(1)", beats, target);
        report(bench, "system calls of these", calls, (struct target){ 0 });
    }
    let_go(&scene, store, lease);
}

/* A heartbeat is a script call; what else keeps a connection alive is not. The holder renews once in
 * ten seconds, which is in it. */
void measure_redis_quiet(struct bench *bench)
{
    struct redis_server *server = redis_server_start(bench);
    struct redis_work before, after;
    static struct scene scene;
    hf_lease *lease;
    hf_store *store;
    double calls, beats, wakeups;

    snprintf(scene.url, sizeof scene.url, "%s", server->url);
    lease = hold(bench, &scene, &store);
    before = redis_server_work(server);
    wakeups = worst_switches(&scene);
    after = redis_server_work(server);
    report(bench, "heartbeats of a waiting process",
           (after.scripts - before.scripts) / WAITERS / scene.window_s,
           (struct target){ AT_MOST, HEARTBEATS, 0, true });
    report(bench, "all commands of a waiting process",
           (after.commands - before.commands) / WAITERS / scene.window_s, (struct target){ 0 });
    report(bench, "wake-ups of it", wakeups, (struct target){ 0 });
    bench_done(bench, 0.4);
    if (worst_calls(&scene, &calls, &beats))
        report(bench, "system calls of it, by strace(1)", calls, (struct target){ 0 });
    let_go(&scene, store, lease);
    redis_server_stop(server);
}
