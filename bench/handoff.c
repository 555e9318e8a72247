/* SPDX-License-Identifier: MIT */
/*
 * Eight processes want one name of the embedded store, again and again. Every release hands it to
 * another process. Against a ticket lock and flock(2), first with no hold time, where only the hand-off
 * counts, then with 1 ms, which is still short for a lock between processes.
 */
#include "contest.h"
#include "crew.h"
#include "measures.h"
#include "ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define PROCESSES    8
#define HOLD_NS      1000000
#define BARE_ROUND_S 0.2
#define HOLD_ROUND_S 0.25 /* long enough for some thirty turns of each */
#define BARE_SHARE   0.35

/* ---- by hand ------------------------------------------------------------------------------- */

struct ticket_holder {
    struct ticket_lock *lock;
    uint32_t ticket;
};

static void *open_ticket(size_t index, void *arg)
{
    struct ticket_holder *holder = calloc(1, sizeof *holder);

    (void)index;
    if (!holder)
        bench_die("out of memory");
    holder->lock = arg;
    return holder;
}

static void take_ticket(void *self)
{
    struct ticket_holder *holder = self;

    holder->ticket = ticket_acquire(holder->lock);
}

static void give_ticket(void *self)
{
    struct ticket_holder *holder = self;

    ticket_release(holder->lock, holder->ticket);
}

static void *open_flock(size_t index, void *path)
{
    int *fd = malloc(sizeof *fd);

    (void)index;
    if (!fd)
        bench_die("out of memory");
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        bench_die("%s: %s", (char *)path, strerror(errno));
    return fd;
}

static void take_flock(void *self)
{
    if (flock(*(const int *)self, LOCK_EX) != 0)
        bench_die("flock: %s", strerror(errno));
}

static void give_flock(void *self)
{
    flock(*(const int *)self, LOCK_UN);
}

/* ---- both ------------------------------------------------------------------------------------- */

enum { OURS, TICKET, FLOCK, COUNT };

static void report(struct bench *bench, const struct contest *contest, const char *what,
                   double rate)
{
    contest_rows(bench, contest, OURS, TICKET, what,
                 &(struct contest_targets){ .rate = rate, .jain = 0.99 });
    contest_compare(bench, contest, OURS, FLOCK, what, &(struct contest_targets){ 0 });
}

void measure_handoff(struct bench *bench)
{
    struct ticket_lock *ticket = crew_shared(sizeof *ticket);
    char path[PATH_MAX], url[PATH_MAX];
    struct contest_side sides[COUNT];
    struct contest *contest;

    ticket_init(ticket, 1);
    snprintf(path, sizeof path, "%s/flock", bench->dir);
    snprintf(url, sizeof url, "file:%s/store", bench->dir);
    if (mkdir(url + strlen("file:"), 0700) != 0)
        bench_die("mkdir: %s", strerror(errno));
    sides[OURS] = contest_ours("", url, HF_FLAG_STRICT);
    sides[TICKET] = (struct contest_side){ "ticket lock on shared futexes", open_ticket,
                                           take_ticket, give_ticket, ticket };
    sides[FLOCK] = (struct contest_side){ "flock(2)", open_flock, take_flock, give_flock, path };
    contest = contest_start(PROCESSES, 1, &(struct contest_server){ 0 }, sides, COUNT);
    contest_run(bench, contest, 0, false, BARE_SHARE, BARE_ROUND_S);
    report(bench, contest, "8 processes, no hold", 0.5);
    contest_run(bench, contest, HOLD_NS, false, 1 - BARE_SHARE, HOLD_ROUND_S);
    report(bench, contest, "8 processes, 1 ms", 0.95);
    contest_end(contest);
}
