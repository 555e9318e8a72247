/* SPDX-License-Identifier: MIT */
/*
 * A counter in the embedded store: each addition is a transaction that is on the disk when the call
 * returns. Against eight bytes that are written and synced by hand, in the same directory; and the same
 * in memory, where a sync costs nothing: what is left there is our own work.
 */
#include "holdfast/primitives.h"
#include "measures.h"
#include "ours.h"
#include "place.h"
#include "rounds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_S 0.2
#define STRIDE  4

struct place_of {
    hf_store *store;
    int fd;
    uint64_t number;
};

static void step_ours(void *arg)
{
    const struct place_of *place = arg;
    hf_error err;

    if (hf_counter_add(place->store, OURS_NAME, HF_CSTRING, 1, NULL, &err) != HF_OK)
        bench_die("hf_counter_add: %s", err.text);
}

static void step_raw(void *arg)
{
    struct place_of *place = arg;

    place->number++;
    if (pwrite(place->fd, &place->number, sizeof place->number, 0) !=
            (ssize_t)sizeof place->number ||
        fdatasync(place->fd) != 0)
        bench_die("a number, by hand: %s", strerror(errno));
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

static void enter(struct place_of *place, const char *dir)
{
    char path[PATH_MAX];

    place->store = ours_open(dir, "store");
    snprintf(path, sizeof path, "%s/number", dir);
    place->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (place->fd < 0)
        bench_die("%s: %s", path, strerror(errno));
}

static void leave(struct place_of *place)
{
    ours_close(place->store);
    close(place->fd);
}

void measure_prims_embedded(struct bench *bench)
{
    enum { DISK, RAW_DISK, MEMORY, RAW_MEMORY };
    static struct rounds rounds;
    static struct place_of disk, memory;
    const struct contender contenders[] = {
        { round_ours, &disk }, { round_raw, &disk }, { round_ours, &memory }, { round_raw, &memory }
    };
    char dir[] = "/dev/shm/holdfast-bench-XXXXXX";
    bool has_memory = mkdtemp(dir) != NULL;

    enter(&disk, bench->dir);
    if (has_memory)
        enter(&memory, dir);
    rounds_run(bench, 1, ROUND_S, contenders, has_memory ? 4 : 2, &rounds);
    rounds_rates(bench, &rounds, DISK, "counter add, embedded, synced", RAW_DISK,
                 "pwrite + fdatasync, by hand", (struct target){ 0 });
    if (has_memory) {
        rounds_rates(bench, &rounds, MEMORY, "the same in /dev/shm", RAW_MEMORY,
                     "pwrite + fdatasync, by hand", (struct target){ 0 });
        leave(&memory);
        place_remove(dir);
    }
    leave(&disk);
}
