/* SPDX-License-Identifier: MIT */
/*
 * See crew.h. The memory that all share is one struct; `phase` is the futex on which the
 * parked workers sleep. Counters are read while the workers run: a round's rate is the difference
 * of two readings, so that neither the start nor the end of a round is in it.
 */
#include "crew.h"

#include "futex.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SETTLE_MAX_S 0.02  /* after the start of a round, before the first reading */
#define LOOK_S       0.001 /* how often we look whether all are parked */

/* A cache line each: counting does not slow the others. */
struct line {
    _Atomic uint64_t steps;
    char pad[56];
};

struct crew {
    struct line lines[CREW_MAX];
    _Atomic uint32_t parked;

    /* Written between rounds only. */
    _Atomic uint32_t phase; /* futex: one up begins a round */
    _Atomic int stop;
    enum crew_kind kind;
    pid_t parent;
    size_t size;    /* workers */
    size_t threads; /* of each process */
    crew_step_fn *step;
    int64_t hold_ns;
    crew_enter_fn *enter;
    void *arg;
    union {
        pid_t pid;
        pthread_t thread;
    } workers[CREW_MAX];
    struct post {
        struct crew *crew;
        size_t index;
    } posts[CREW_MAX];
};

void *crew_shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        bench_die("mmap: %s", strerror(errno));
    return memory;
}

void crew_hold(int64_t hold_ns)
{
    int64_t end = bench_ns() + hold_ns;

    while (hold_ns > 0 && bench_ns() < end)
        ;
}

/* ---- a worker ------------------------------------------------------------------ */

static void *work(void *arg)
{
    const struct post *post = arg;
    struct crew *crew = post->crew;
    _Atomic uint64_t *steps = &crew->lines[post->index].steps;
    void *self = crew->enter(post->index, crew->arg);
    uint32_t phase = 0;

    for (;;) {
        atomic_fetch_add(&crew->parked, 1);
        while (atomic_load(&crew->phase) == phase)
            futex_wait(&crew->phase, phase, 1);
        phase++;
        if (!crew->step)
            return NULL;
        while (!atomic_load_explicit(&crew->stop, memory_order_relaxed)) {
            crew->step(self, crew->hold_ns);
            atomic_store_explicit(steps, atomic_load_explicit(steps, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
        }
    }
}

/* ---- the one who leads ----------------------------------------------------------- */

static void look_for_dead(struct crew *crew)
{
    int status;

    if (crew->kind != CREW_PROCESSES)
        return;
    for (size_t i = 0; i < crew->size / crew->threads; i++)
        if (waitpid(crew->workers[i].pid, &status, WNOHANG) != 0)
            bench_die("worker %zu ended with wait status %#x", i, (unsigned)status);
}

static void wait_parked(struct crew *crew)
{
    while (atomic_load(&crew->parked) < crew->size) {
        look_for_dead(crew);
        bench_sleep(LOOK_S);
    }
}

static pthread_t start_thread(struct post *post)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, work, post);

    if (rc != 0)
        bench_die("pthread_create: %s", strerror(rc));
    return thread;
}

/* A process of the crew, with its workers. */
static void be_process(struct crew *crew, size_t process)
{
    struct post *posts = &crew->posts[process * crew->threads];
    pthread_t threads[CREW_MAX] = { 0 };

    for (size_t i = 1; i < crew->threads; i++)
        threads[i] = start_thread(&posts[i]);
    work(&posts[0]);
    for (size_t i = 1; i < crew->threads; i++)
        pthread_join(threads[i], NULL);
}

static struct crew *make(enum crew_kind kind, size_t size, size_t threads, crew_enter_fn *enter,
                         void *arg)
{
    struct crew *crew = crew_shared(sizeof *crew);

    if (size > CREW_MAX)
        bench_die("a crew of more than %d", CREW_MAX);
    crew->kind = kind;
    crew->size = size;
    crew->threads = threads;
    crew->enter = enter;
    crew->arg = arg;
    crew->parent = getpid();
    for (size_t i = 0; i < size; i++)
        crew->posts[i] = (struct post){ crew, i };
    return crew;
}

struct crew *crew_start_groups(size_t processes, size_t threads, crew_enter_fn *enter, void *arg)
{
    struct crew *crew = make(CREW_PROCESSES, processes * threads, threads, enter, arg);

    for (size_t i = 0; i < processes; i++) {
        pid_t pid =
            fork(); /* not into the crew's memory, where parent and child would both write */

        if (pid < 0)
            bench_die("fork: %s", strerror(errno));
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == crew->parent)
                be_process(crew, i);
            _exit(0);
        }
        crew->workers[i].pid = pid;
    }
    wait_parked(crew);
    return crew;
}

struct crew *crew_start(enum crew_kind kind, size_t size, crew_enter_fn *enter, void *arg)
{
    struct crew *crew;

    if (kind == CREW_PROCESSES)
        return crew_start_groups(size, 1, enter, arg);
    crew = make(kind, size, 1, enter, arg);
    for (size_t i = 0; i < size; i++)
        crew->workers[i].thread = start_thread(&crew->posts[i]);
    wait_parked(crew);
    return crew;
}

static void begin(struct crew *crew, crew_step_fn *step, int64_t hold_ns)
{
    crew->step = step;
    crew->hold_ns = hold_ns;
    atomic_store(&crew->stop, 0);
    atomic_store(&crew->parked, 0);
    atomic_fetch_add(&crew->phase, 1);
    futex_wake(&crew->phase, INT_MAX, 1);
}

static int64_t read_steps(struct crew *crew, uint64_t steps[CREW_MAX])
{
    for (size_t i = 0; i < crew->size; i++)
        steps[i] = atomic_load(&crew->lines[i].steps);
    return bench_ns();
}

double crew_round(struct crew *crew, crew_step_fn *step, int64_t hold_ns, double seconds,
                  struct crew_share *ret_share)
{
    double settle_s = seconds / 10 < SETTLE_MAX_S ? seconds / 10 : SETTLE_MAX_S;
    uint64_t first[CREW_MAX] = { 0 }, last[CREW_MAX] = { 0 }, sum = 0;
    int64_t start, end;

    begin(crew, step, hold_ns);
    bench_sleep(settle_s);
    start = read_steps(crew, first);
    bench_sleep(seconds - settle_s);
    end = read_steps(crew, last);
    atomic_store(&crew->stop, 1);
    wait_parked(crew);

    *ret_share = (struct crew_share){ 0 };
    for (size_t i = 0; i < crew->size; i++) {
        last[i] -= first[i];
        sum += last[i];
        ret_share->starved += last[i] == 0;
    }
    ret_share->jain = stats_jain(last, crew->size);
    return (double)sum * 1e9 / (double)(end - start);
}

uint64_t crew_steps(const struct crew *crew)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < crew->size; i++)
        sum += atomic_load(&crew->lines[i].steps);
    return sum;
}

void crew_end(struct crew *crew)
{
    begin(crew, NULL, 0);
    for (size_t i = 0; i < crew->size / crew->threads; i++) {
        if (crew->kind == CREW_THREADS)
            pthread_join(crew->workers[i].thread, NULL);
        else
            waitpid(crew->workers[i].pid, NULL, 0);
    }
    munmap(crew, sizeof *crew);
}

/* ---- as a contender ---------------------------------------------------------------- */

double team_round(void *arg, double seconds)
{
    struct team *team = arg;
    struct crew_share share;
    double rate = crew_round(team->crew, team->step, team->hold_ns, seconds, &share);

    if (team->rounds < sizeof team->jain / sizeof *team->jain)
        team->jain[team->rounds++] = share.jain;
    return rate;
}

/* Without the round that warmed up. */
double team_jain(const struct team *team)
{
    return team->rounds > 1 ? stats_median(team->jain + 1, team->rounds - 1) : 0;
}
