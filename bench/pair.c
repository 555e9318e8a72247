/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name that nobody else wants. Against what the store is made
 * of, and against the two locks that people would use instead. LMDB is faster if the tree is never
 * empty, because it then need not create its root again: one other record makes the harder
 * yardstick.
 */
#include "measures.h"
#include "ours.h"
#include "raw_lmdb.h"
#include "rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#define ROUND_S 0.05
#define STRIDE  64

struct pair {
    hf_store *store;
    hf_acquire_request request;
    struct raw_lmdb raw, empty;
    int fd;
    pthread_mutex_t mutex;
};

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static void step_raw(void *arg)
{
    static const uint64_t key[2] = { UINT64_C(0x5851f42d4c957f2d), 1 };
    struct raw_lmdb *raw = arg;

    raw_put(raw, key);
    raw_delete(raw, key);
}

static void step_flock(void *arg)
{
    struct pair *pair = arg;

    if (flock(pair->fd, LOCK_EX) != 0 || flock(pair->fd, LOCK_UN) != 0)
        bench_die("flock: %s", strerror(errno));
}

static void step_mutex(void *arg)
{
    struct pair *pair = arg;

    if (pthread_mutex_lock(&pair->mutex) != 0 || pthread_mutex_unlock(&pair->mutex) != 0)
        bench_die("a robust mutex failed");
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

static double round_flock(void *arg, double seconds)
{
    return rounds_loop(step_flock, arg, seconds, STRIDE);
}

static double round_mutex(void *arg, double seconds)
{
    return rounds_loop(step_mutex, arg, seconds, STRIDE);
}

static void make_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

void measure_pair(struct bench *bench)
{
    enum { OURS, RAW, EMPTY, FLOCK, MUTEX, COUNT };
    static struct rounds rounds;
    static struct pair pair;
    const struct contender contenders[COUNT] = { { round_ours, &pair },
                                                 { round_raw, &pair.raw },
                                                 { round_raw, &pair.empty },
                                                 { round_flock, &pair },
                                                 { round_mutex, &pair } };
    char path[PATH_MAX];

    pair.store = ours_open(bench->dir, "store");
    pair.request = ours_request(OURS_NAME, 0);
    snprintf(path, sizeof path, "%s/raw.mdb", bench->dir);
    pair.raw = raw_open(path, 16 << 20);
    raw_fill(&pair.raw, 0, 1);
    snprintf(path, sizeof path, "%s/empty.mdb", bench->dir);
    pair.empty = raw_open(path, 16 << 20);
    snprintf(path, sizeof path, "%s/flock", bench->dir);
    pair.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (pair.fd < 0)
        bench_die("%s: %s", path, strerror(errno));
    make_mutex(&pair.mutex);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release", RAW, "LMDB put+delete, by hand",
                 (struct target){ AT_LEAST, 0.5, 0.8, false });
    rounds_rates(bench, &rounds, OURS, "acquire+release", EMPTY, "  likewise, in an empty tree",
                 (struct target){ 0 });
    rounds_rates(bench, &rounds, OURS, "acquire+release", FLOCK, "flock(2) pair",
                 (struct target){ 0 });
    rounds_rates(bench, &rounds, OURS, "acquire+release", MUTEX, "robust shared mutex pair",
                 (struct target){ 0 });
    ours_close(pair.store);
}
