/* SPDX-License-Identifier: MIT */
/*
 * Does a full store cost more than an empty one? Two stores, one with 10 names held and one with
 * 100,000, in one process; the same with LMDB by hand. Once for the same name again and again, and
 * once for a random fresh name each time. And what a held name costs in memory and on disk.
 */
#include "measures.h"
#include "ours.h"
#include "place.h"
#include "raw_lmdb.h"
#include "rounds.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW        10
#define MANY       100000
#define MANY_QUICK 10000
#define ROUND_S    0.05
#define STRIDE     64

/* One store with its names held, and the same by hand. */
struct shelf {
    hf_store *store;
    hf_acquire_request one;
    struct raw_lmdb raw;
    uint64_t random;
};

static uint64_t next_random(struct shelf *shelf)
{
    shelf->random ^= shelf->random << 13;
    shelf->random ^= shelf->random >> 7;
    shelf->random ^= shelf->random << 17;
    return shelf->random;
}

/* ---- steps ------------------------------------------------------------------------ */

static void step_one(void *arg)
{
    struct shelf *shelf = arg;

    ours_release(ours_acquire(shelf->store, &shelf->one));
}

static void step_fresh(void *arg)
{
    struct shelf *shelf = arg;
    uint64_t name[2] = { next_random(shelf), next_random(shelf) };
    hf_acquire_request request = shelf->one;

    request.name = name;
    request.name_len = sizeof name;
    ours_release(ours_acquire(shelf->store, &request));
}

static void step_raw_one(void *arg)
{
    static const uint64_t key[2] = { UINT64_C(0x5851f42d4c957f2d), 1 };
    struct shelf *shelf = arg;

    raw_put(&shelf->raw, key);
    raw_delete(&shelf->raw, key);
}

static void step_raw_fresh(void *arg)
{
    struct shelf *shelf = arg;
    uint64_t key[2] = { next_random(shelf), next_random(shelf) };

    raw_put(&shelf->raw, key);
    raw_delete(&shelf->raw, key);
}

static double round_one(void *arg, double seconds)
{
    return rounds_loop(step_one, arg, seconds, STRIDE);
}

static double round_fresh(void *arg, double seconds)
{
    return rounds_loop(step_fresh, arg, seconds, STRIDE);
}

static double round_raw_one(void *arg, double seconds)
{
    return rounds_loop(step_raw_one, arg, seconds, STRIDE);
}

static double round_raw_fresh(void *arg, double seconds)
{
    return rounds_loop(step_raw_fresh, arg, seconds, STRIDE);
}

/* ---- filling ------------------------------------------------------------------------ */

static void open_shelf(struct shelf *shelf, const struct bench *bench, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s.mdb", bench->dir, name);
    shelf->raw = raw_open(path, (size_t)256 << 20);
    shelf->store = ours_open(bench->dir, name);
    shelf->one = ours_request(OURS_NAME, 0);
    shelf->random = UINT64_C(88172645463325252);
}

static void fill(struct shelf *shelf, unsigned count)
{
    char name[32];

    for (unsigned i = 0; i < count; i++) {
        hf_acquire_request request;

        snprintf(name, sizeof name, "held-name-%06u", i);
        request = ours_request(name, 0);
        ours_acquire(shelf->store, &request);
    }
}

/* Resident memory in bytes; `field` of /proc/self/status. */
static double resident(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    double kib = -1;

    if (!file)
        bench_die("/proc/self/status: %s", strerror(errno));
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
            kib = strtod(line + strlen(field) + 1, NULL);
    fclose(file);
    if (kib < 0)
        bench_die("/proc/self/status: no %s", field);
    return 1024 * kib;
}

/* Fill the large one, and say what a held name takes. */
static void fill_measured(struct bench *bench, struct shelf *shelf, unsigned count)
{
    char path[PATH_MAX];
    double rss, private, start;
    char what[64];
    struct row *row;

    snprintf(path, sizeof path, "%s/many", bench->dir);
    rss = resident("VmRSS");
    private = resident("RssAnon");
    start = (double)bench_ns();
    fill(shelf, count);
    snprintf(what, sizeof what, "taking %u names, one by one", count);
    row = bench_row(bench, UNIT_PER_SECOND, what, "");
    row->measured = 1e9 * count / ((double)bench_ns() - start);

    row = bench_row(bench, UNIT_BYTES, "memory per held name (RSS)", "");
    row->measured = (resident("VmRSS") - rss) / count;
    row = bench_row(bench, UNIT_BYTES, "of it private (the rest is the mapped file)", "");
    row->measured = (resident("RssAnon") - private) / count;

    raw_fill(&shelf->raw, 0, count);
    row = bench_row(bench, UNIT_BYTES, "disk per held name, all files", "LMDB by hand");
    row->measured = place_bytes(path) / count;
    row->baseline = raw_size(&shelf->raw) / count;
    row->ratio = row->measured / row->baseline;
}

/* ---- comparing ------------------------------------------------------------------------ */

enum { FULL, EMPTY, RAW_FULL, RAW_EMPTY, COUNT };

static void compare(struct bench *bench, const struct rounds *rounds, unsigned count,
                    const char *how)
{
    char what[64];

    snprintf(what, sizeof what, "%s, %u held", how, count);
    rounds_costs(bench, rounds, FULL, what, EMPTY, "the same with 10 held",
                 (struct target){ AT_MOST, 2, 0, false });
    rounds_costs(bench, rounds, RAW_FULL, "  likewise, LMDB by hand", RAW_EMPTY,
                 "the same with 10 records", (struct target){ 0 });
}

void measure_many(struct bench *bench)
{
    static struct rounds rounds;
    static struct shelf few, many;
    const struct contender one[COUNT] = {
        { round_one, &many }, { round_one, &few }, { round_raw_one, &many }, { round_raw_one, &few }
    };
    const struct contender fresh[COUNT] = { { round_fresh, &many },
                                            { round_fresh, &few },
                                            { round_raw_fresh, &many },
                                            { round_raw_fresh, &few } };
    unsigned count = bench->quick ? MANY_QUICK : MANY;

    open_shelf(&few, bench, "few");
    open_shelf(&many, bench, "many");
    fill(&few, FEW);
    raw_fill(&few.raw, 0, FEW);
    fill_measured(bench, &many, count);
    bench_done(bench, 0.1);

    rounds_run(bench, 0.45, ROUND_S, one, COUNT, &rounds);
    compare(bench, &rounds, count, "one name again and again");
    rounds_run(bench, 0.45, ROUND_S, fresh, COUNT, &rounds);
    compare(bench, &rounds, count, "a random fresh name each");
}
