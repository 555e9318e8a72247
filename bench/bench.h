/* SPDX-License-Identifier: MIT */
/*
 * What a measurement sees of the bench.
 *
 * Each measurement is a function that runs in a process of its own (isolate.c): it may
 * fork, start threads and leak; a crash or a hang of it is reported and the others still
 * run. It adds rows to its report, which lies in memory shared with the main process.
 * An error is bench_die(): there is nothing to clean up. What it needs and this machine does not
 * have is bench_skip(): said, and no failure.
 *
 * A new one: a file with its function, a line in measures.c.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROWS_MAX      192
#define EXIT_INTERNAL 70

/* ---- what is reported ------------------------------------------------------ */

enum sense { NO_TARGET, AT_LEAST, AT_MOST };

struct target {
    enum sense sense;
    double value;
    double aim;       /* better than the target; 0: none */
    bool on_measured; /* of the measured value; else of the ratio */
};

/* The units that numbers are printed in. */
enum unit { UNIT_PER_SECOND, UNIT_MICROSECONDS, UNIT_BYTES, UNIT_PLAIN };

/* A measured value, and what it was measured against in the same run. */
struct row {
    char what[72];    /* of ours */
    char against[48]; /* the baseline; "": none */
    enum unit unit;
    double measured, baseline; /* medians over the rounds */
    double ratio, low, high;   /* of the per-round ratios: median and quartiles; NAN: none */
    unsigned rounds;
    struct target target;
    const char *axis; /* of a curve: what grows; NULL: no point of a curve */
    double at;        /* there */
};

/* Of one measurement. Written by its process, read by the main one. */
struct report {
    struct row rows[ROWS_MAX];
    size_t count;
    _Atomic int permille; /* how far it is */
    _Atomic int failed;
    char error[256];   /* set once `failed` is 2 */
    char skipped[128]; /* why it was not done; "": it was */
    double seconds;    /* that it took */
};

/* Is the target met? 1, 0, or -1: there is none. */
int row_met(const struct row *row);

/* ---- measurements ----------------------------------------------------------- */

struct bench {
    const char *dir;      /* an empty directory of this measurement's own */
    const char *holdfast; /* the command; NULL: not found */
    double seconds;       /* to be spent on timed rounds */
    bool quick;           /* is there a way with smaller numbers? take it */
    unsigned most;        /* --growth: the last point of each curve; 0: as far as the engine gets */
    double done;          /* share of the work that is behind us, for the progress bar */
    struct report *report;
};

#define GROWTH "growth" /* the group that only --growth, or its name, chooses */

struct measure {
    const char *group; /* the engine it is about */
    const char *name;
    const char *about; /* one line */
    void (*run)(struct bench *bench);
    double patience_s; /* beyond bench->seconds, before it is taken to hang; 0: a minute */
};

extern const struct measure measures[]; /* ends with a NULL name */

/* The caller fills in what is there; `what` and `against` are cut if they are too long. */
struct row *bench_row(struct bench *bench, enum unit unit, const char *what, const char *against);
void bench_done(struct bench *bench, double share); /* of the whole, now behind us */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);
__attribute__((noreturn)) void bench_skip(const struct bench *bench, const char *why);

/* CLOCK_MONOTONIC: no measurement spans a suspend. */
int64_t bench_ns(void);
void bench_sleep(double seconds);

#endif
