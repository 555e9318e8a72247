/* SPDX-License-Identifier: MIT */
/*
 * Torture: many processes acquire and hold leases, and are killed, stopped and continued at random,
 * for a bounded time; then a checker reads the history that they wrote.
 *
 *   torture [-s SECONDS] [-p PROCESSES] [-t THREADS] [-r SEED] [-q] [-c N] [-o] [-m] [-i] [-T TTL_MS] [URL]
 *
 * -q: nobody is killed or stopped; -c: that happens N times less often. -o: order is not checked
 * (with a failing network the store may pass over a waiter). -m: mutexes only, and neither order
 * nor tokens are checked, for stores that have nothing else. -i: tokens of leases that do not
 * exclude one another may tie (Redlock). -T: all leases have this ttl, for stores in which they do
 * not end with their process. URL '': what HOLDFAST_TEST_URL says. The seed decides what is tried,
 * not how it interleaves: repeat a failed run with its seed until it fails again. Exit status 0: no
 * rule was broken, no process was stuck, and nothing is left over.
 */
#include "torture.h"
#include "checker.h"

#include "engine/lmdb/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 24
#define ROUNDS_MAX    10 /* of tormenting, if nothing is acquired */
#define STUCK_NS \
    (INT64_C(40) * 1000000000) /* no waiter waits that long unless it was
                                                  * forgotten */

struct process {
    pid_t pid;
    uint32_t lane;
    uint32_t incarnation;
    bool stopped;
    int64_t continue_ns;
};

static struct torture torture;
static struct process processes[PROCESSES_MAX + 1]; /* the last one: the observer */
static unsigned process_count;
static unsigned bad, kills, stops, calm = 1;
static char place[256];

/* ---- processes --------------------------------------------------------------------------- */

static void start(struct process *p)
{
    pid_t director = getpid();

    p->incarnation++;
    p->stopped = false;
    p->pid = fork();
    if (p->pid < 0) {
        perror("fork");
        exit(2);
    }
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != director)
            _exit(2);
        exit(p == &processes[process_count] ? observer_main(&torture, p->lane)
                                            : worker_main(&torture, p->lane, p->incarnation));
    }
}

/* Its threads were alive until `at_ns` at least. */
static void note_death(const struct process *p, int64_t at_ns)
{
    for (unsigned i = 0; i < torture.threads; i++)
        history_add(torture.history, p->lane + i,
                    (struct event){ .kind = EV_DEAD, .at_ns = at_ns });
}

static void judge_end(const struct process *p, int status, bool killed)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return;
    printf("process %d ended by itself: wait status %#x\n", (int)p->pid, (unsigned)status);
    bad++;
}

static void kill_one(struct process *p)
{
    int64_t at_ns = history_now_ns();
    int status;

    kill(p->pid, SIGKILL);
    waitpid(p->pid, &status, 0);
    judge_end(p, status, true);
    note_death(p, at_ns);
    kills++;
}

static void stop_one(struct process *p, struct rng *rng)
{
    kill(p->pid, SIGSTOP);
    p->stopped = true;
    /* Mostly for a moment; now and then past a ttl. */
    p->continue_ns =
        history_now_ns() + (rng_below(rng, 10) ? (int64_t)rng_below(rng, 100) : 1500) * 1000000;
    stops++;
}

/* Replace the workers that ended by themselves (some do, without a release). */
static void replace_ended(void)
{
    for (unsigned i = 0; i < process_count; i++) {
        struct process *p = &processes[i];
        int status;

        if (waitpid(p->pid, &status, WNOHANG) != p->pid)
            continue;
        judge_end(p, status, false);
        /* It has noted how long it held the lease; other threads of it may have held leases too. */
        note_death(p, 0);
        start(p);
    }
}

/* ---- nobody is stuck ------------------------------------------------------------------------- */

static uint64_t progress_seen[LANES_MAX];
static int64_t progress_ns[LANES_MAX];

static void look_for_stuck(int64_t now_ns)
{
    for (uint32_t i = 0; i < torture.history->lanes; i++) {
        struct lane *lane = &torture.history->lane[i];
        uint64_t progress = atomic_load(&lane->progress);

        if (progress != progress_seen[i] || progress_ns[i] == 0) {
            progress_seen[i] = progress;
            progress_ns[i] = now_ns;
        } else if (now_ns - progress_ns[i] > STUCK_NS) {
            int doing = atomic_load(&lane->doing);

            printf("lane %u (thread %d) is stuck, waiting for '%s'\n", i, atomic_load(&lane->tid),
                   doing ? locks[doing - 1].name : "-");
            bad++;
            progress_ns[i] = now_ns;
        }
    }
}

static void torment(int64_t until_ns, bool quiet)
{
    struct rng rng = { .state = torture.seed ^ 0x7077e };

    while (history_now_ns() < until_ns && !atomic_load(&torture.history->stop) && bad == 0) {
        struct process *p = &processes[rng_below(&rng, process_count)];
        unsigned what = rng_below(&rng, 100 * calm);

        usleep(1000 + rng_below(&rng, 8000));
        replace_ended();
        for (unsigned i = 0; i < process_count; i++)
            if (processes[i].stopped && history_now_ns() >= processes[i].continue_ns) {
                kill(processes[i].pid, SIGCONT);
                processes[i].stopped = false;
            }
        if (!quiet && what < 20) {
            kill_one(p);
            start(p);
        } else if (!quiet && what < 45 && !p->stopped) {
            stop_one(p, &rng);
        }
        look_for_stuck(history_now_ns());
    }
}

static bool anything_acquired(void)
{
    for (unsigned i = 0; i < torture.history->lanes; i++) {
        const struct lane *lane = &torture.history->lane[i];
        uint32_t count = atomic_load(&lane->count);

        for (uint32_t e = 0; e < count; e++)
            if (lane->events[e].kind == EV_GOT)
                return true;
    }
    return false;
}

/* Tell all workers to end; the waiters get their leases, since the holders release. */
static void finish(void)
{
    int64_t until_ns = history_now_ns() + STUCK_NS;
    unsigned left = process_count + 1;

    atomic_store(&torture.history->stop, 1);
    for (unsigned i = 0; i < process_count; i++)
        kill(processes[i].pid, SIGCONT);
    while (left > 0 && history_now_ns() < until_ns) {
        for (unsigned i = 0; i <= process_count; i++) {
            int status;

            if (processes[i].pid == 0 ||
                waitpid(processes[i].pid, &status, WNOHANG) != processes[i].pid)
                continue;
            judge_end(&processes[i], status, false);
            processes[i].pid = 0;
            left--;
        }
        usleep(2000);
    }
    for (unsigned i = 0; i <= process_count; i++) {
        if (processes[i].pid == 0)
            continue;
        printf("process %d does not come to its end", (int)processes[i].pid);
        for (unsigned t = 0; t < torture.threads && i < process_count; t++) {
            struct lane *lane = &torture.history->lane[processes[i].lane + t];
            int doing = atomic_load(&lane->doing);

            printf("; thread %d %s%s", atomic_load(&lane->tid),
                   doing ? "waits for " : "does nothing", doing ? locks[doing - 1].name : "");
        }
        putchar('\n');
        bad++;
        if (getenv("TORTURE_KEEP_STUCK"))
            pause();
        kill(processes[i].pid, SIGKILL);
        waitpid(processes[i].pid, NULL, 0);
    }
}

/* For stores without inspection: count the names that cannot be acquired. */
static size_t count_taken(hf_store *store, int64_t until_ns)
{
    size_t taken = 0;

    for (unsigned i = 0; i < lock_count; i++) {
        hf_acquire_request request = { .size = sizeof request,
                                       .name = locks[i].name,
                                       .name_len = HF_CSTRING };
        hf_lease *lease;

        request.wait_ms = 1 + (until_ns - history_now_ns()) / 1000000;
        if (request.wait_ms > 0 && hf_acquire(store, &request, &lease, NULL) == HF_OK)
            hf_release(lease, NULL);
        else
            taken++;
    }
    return taken;
}

/* In any store, everything that dead processes held or waited for ends with its ttl. */
static void look_for_leases(void)
{
    int64_t until_ns = history_now_ns() + STUCK_NS;
    size_t left = 1;
    hf_store *store;
    hf_error err;

    while (hf_open(torture.url, NULL, &store, &err) != HF_OK)
        if (history_now_ns() > until_ns) {
            printf("at the end: %s\n", err.text);
            bad++;
            return;
        }
    while (left > 0 && history_now_ns() < until_ns) {
        hf_view *view;
        hf_status status;

        usleep(20000);
        status = hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &err);
        if (status == HF_UNSUPPORTED)
            left = count_taken(store, until_ns);
        if (status != HF_OK)
            continue;
        left = hf_view_count(view);
        hf_free(view);
    }
    if (left > 0) {
        printf("at the end %zu names are still held or waited for\n", left);
        bad++;
    }
    hf_close(store, 0);
}

/* ---- nothing is left over ------------------------------------------------------------------------ */

static void look_for_remains(void)
{
    char path[sizeof place + 16];
    struct lmdb_header *header;
    hf_store *store;
    hf_view *view;
    hf_error err;
    unsigned live = 0, records = 0;
    struct stat st;
    int fd;

    if (hf_open(torture.url, NULL, &store, &err) != HF_OK ||
        hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &err) != HF_OK) {
        printf("at the end: %s\n", err.text);
        bad++;
        return;
    }
    for (size_t i = 0; i < hf_view_count(view); i++) {
        printf("left over: '%.*s' with %zu holders and %zu waiters\n",
               (int)hf_view_entry(view, i)->name_len, (const char *)hf_view_entry(view, i)->name,
               hf_view_entry(view, i)->holder_count, hf_view_entry(view, i)->waiter_count);
        bad++;
    }
    hf_free(view);

    /* Every process's slot is free again but our own; ours has no record in the store. */
    snprintf(path, sizeof path, "%s/control", place);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        header = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        for (uint32_t i = 0; header != MAP_FAILED && i < header->slot_high; i++) {
            const struct lmdb_slot *slot =
                (const struct lmdb_slot *)(const void *)((const char *)header +
                                                         (size_t)LMDB_PAGE * (1 + i));

            if (slot->state == LMDB_SLOT_LIVE) {
                live++;
                records += slot->records;
            }
        }
        close(fd);
        if (header == MAP_FAILED || live != 1 || records != 0) {
            printf("left over: %u slots, %u records\n", live, records);
            bad++;
        }
    }
    hf_close(store, 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* The URL that the test's setup made; {id} in it is for the contract suite. */
static const char *url_of_environment(void)
{
    static char url[512];
    const char *text = getenv("HOLDFAST_TEST_URL"), *id = text ? strstr(text, "{id}") : NULL;

    if (!text)
        exit(64);
    if (!id)
        return text;
    snprintf(url, sizeof url, "%.*storture%s", (int)(id - text), text, id + 4);
    return url;
}

int main(int argc, char **argv)
{
    static char url[300];
    const char *tmp = getenv("TMPDIR"), *seconds_text = getenv("TORTURE_SECONDS");
    unsigned seconds = seconds_text ? (unsigned)atoi(seconds_text) : 20;
    struct verdict verdict;
    bool quiet = false, ordered = true, ties = false;
    int option;

    process_count = 10;
    torture.threads = 2;
    torture.seed = (uint64_t)history_now_ns() % 1000000;
    while ((option = getopt(argc, argv, "s:p:t:r:qc:omiT:")) != -1) {
        if (option == 's')
            seconds = (unsigned)atoi(optarg);
        else if (option == 'p')
            process_count = (unsigned)atoi(optarg);
        else if (option == 't')
            torture.threads = (unsigned)atoi(optarg);
        else if (option == 'r')
            torture.seed = strtoull(optarg, NULL, 10);
        else if (option == 'q')
            quiet = true;
        else if (option == 'c')
            calm = (unsigned)atoi(optarg);
        else if (option == 'o')
            ordered = false;
        else if (option == 'm')
            torture.mutexes = true;
        else if (option == 'i')
            ties = true;
        else if (option == 'T')
            torture.ttl_ms = atoi(optarg);
        else
            return 64;
    }
    if (calm < 1 || process_count < 1 || process_count > PROCESSES_MAX || torture.threads < 1 ||
        torture.threads > 8 || process_count * torture.threads + 1 > LANES_MAX)
        return 64;

    snprintf(place, sizeof place, "%s/holdfast-torture-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(place))
        return 2;
    snprintf(url, sizeof url, "file:%s", place);
    torture.url = optind < argc ? argv[optind] : url;
    if (!torture.url[0])
        torture.url = url_of_environment();
    torture.suicide = !quiet;
    torture.history = history_new();
    if (!torture.history) {
        perror("history");
        return 2;
    }
    torture.history->tokenless = torture.mutexes;
    torture.history->ties = ties;
    torture.history->lanes = process_count * torture.threads + 1;
    for (unsigned i = 0; i < lock_count; i++)
        torture.history->capacities[i] = torture.mutexes                   ? 1
                                         : locks[i].kind == HF_KIND_SHARED ? UINT32_MAX
                                                                           : locks[i].capacity;
    printf("seed %llu: %u processes of %u threads, %u s\n", (unsigned long long)torture.seed,
           process_count, torture.threads, seconds);
    fflush(stdout);

    for (unsigned i = 0; i <= process_count; i++) {
        processes[i].lane = i * torture.threads;
        start(&processes[i]);
    }
    /* On a busy machine a server that is stopped and killed may grant nothing for some seconds. */
    for (unsigned round = 0; round < ROUNDS_MAX && (round == 0 || !anything_acquired()); round++)
        torment(history_now_ns() + (int64_t)seconds * 1000000000, quiet);
    finish();
    if (optind == argc)
        look_for_remains();
    else
        look_for_leases();

    verdict = check_history(torture.history, stdout);
    if (!ordered)
        verdict.order = 0;
    bad += violations(&verdict);
    printf("%u leases (%u of them shared with others), %u tokens compared, %u looks at queues; "
           "killed %u times, stopped %u times\n",
           verdict.leases, verdict.overlaps, verdict.compared, verdict.looks, kills, stops);
    if (verdict.leases == 0) {
        printf("nothing was ever acquired\n");
        bad++;
    }
    nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf(bad ? "%u violations\n" : "no violation\n", bad);
    return bad ? 1 : 0;
}
