/* SPDX-License-Identifier: MIT */
/*
 * A contest: workers that all want one name, again and again, on one server, by two or more ways
 * (sides) in alternating rounds. One form for every engine: hand-offs a second, waits at p50 and p99,
 * Jain's fairness, starved workers, and what an acquisition costs in commands and in bytes.
 *
 * Start it before this process opens a store or a thread: it forks.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "bench.h"
#include "ours.h"

#define CONTEST_SIDES_MAX 6

/* One way to take the name. `open` runs once in each worker; what it returns is `self`. */
struct contest_side {
    const char *name; /* the raw ones: what they are; ours: which way of ours, "": the only one */
    void *(*open)(size_t index, void *arg);
    void (*acquire)(void *self);
    void (*release)(void *self);
    void *arg;
};

/* Ours, through one store for each process. */
struct contest_side contest_ours(const char *name, const char *url, uint64_t flags);
/* The same with any request; its name may be NULL: the usual one. */
struct contest_side contest_ours_as(const char *name, const char *url,
                                    const hf_acquire_request *request);

/* Where the work is counted. */
struct contest_server {
    double (*commands)(void *server); /* so far, of all clients; NULL: it cannot say */
    void *server;
    const char *word;  /* "commands", "requests", ...; NULL: no such row */
    uint16_t ports[5]; /* whose bytes are counted; the first 0 ends the list */
    double by_hand; /* commands of a step by hand, where the server cannot tell them from those that
                        * scripts call; 0: it can */
};

struct contest;

struct contest *contest_start(size_t processes, size_t threads, const struct contest_server *server,
                              const struct contest_side *sides, size_t count);
/* A holder is busy for `hold_ns`, or sleeps. What was measured before is forgotten. */
void contest_run(struct bench *bench, struct contest *contest, int64_t hold_ns, bool sleeps,
                 double share, double round_s);
void contest_end(struct contest *contest);

/* 0: none. */
struct contest_targets {
    double rate, rate_aim; /* at least, as a ratio */
    double hand_offs;      /* at least, a second, to another process */
    double jain;           /* at least */
    double p99;            /* at most, as a ratio */
    double spread;         /* at most: p99 / p50 */
    double commands;       /* at most, each */
};

/* All rows of `side`, against `base`. `what` begins the first: "16 processes, 1 ms". */
void contest_rows(struct bench *bench, const struct contest *contest, size_t side, size_t base,
                  const char *what, const struct contest_targets *targets);
/* Only the rate, p99 and fairness: against one more `base`. */
void contest_compare(struct bench *bench, const struct contest *contest, size_t side, size_t base,
                     const char *what, const struct contest_targets *targets);
/* Commands of an acquisition: the median. Settable where only the caller can count them. */
double contest_commands(const struct contest *contest, size_t side);
void contest_set_commands(struct contest *contest, size_t side, double each);
/* One round of one side alone; returns its steps. */
uint64_t contest_count(struct contest *contest, size_t side, int64_t hold_ns, double seconds);
/* A row that compares the commands of an acquisition in a larger contest with a smaller one's. */
void contest_growth(struct bench *bench, const struct contest_server *server, const char *what,
                    double large, const char *against, double small, double at_most);

#endif
