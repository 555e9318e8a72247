/* SPDX-License-Identifier: MIT */
/*
 * The line of waiters, and when a waiter looks again. Pure.
 *
 * memcached tells a waiter nothing, so a waiter must look. If all look often, the server is busy with looks; if all look
 * seldom, the name is vacant for long, and the process that released it takes it again. So a waiter takes a *ticket*, a
 * number of a counter beside the lease, and the lease of a holder that waited carries its ticket. The difference says how
 * many are ahead: the next in line looks often, the others rest for as long as those ahead will take.
 *
 * A ticket is advice and no right: whoever finds the name vacant takes it. So a ticket of a dead waiter, a counter that was
 * evicted, and a client that knows no tickets make somebody rest too long or look too often, and no more: a rest is never
 * longer than `poll`, and nothing waits for a number to come up.
 *
 * The other half is the holder. A process that releases and asks again at once would find its own vacancy before any waiter
 * looks. So a process that waited, or whose lease was *marked* by a waiter, keeps the name in its *manners* for a while: it
 * takes a ticket before it asks again, and lets those go first who came in between. A process that nobody waited for has no
 * manners, and its pair of commands stays a pair.
 */
#ifndef MEMCACHED_PACE_H
#define MEMCACHED_PACE_H

#include "engine/engine.h"

#define MEMCACHED_LINE_MAX_AHEAD 4096 /* tickets further apart are of two counters */
#define MEMCACHED_MANNERS        64   /* names; a newer one drives an older one out */
#define MEMCACHED_MANNERS_MS     1000 /* after a release, a name is remembered for this long */

/* What one waiter knows of the line. Zeroed at first. */
struct memcached_pace {
    uint32_t ticket;  /* ours; 0: none */
    uint32_t serving; /* of the last holder seen that had one; 0: none seen */
    uint64_t holder;  /* which lease was there at the last look; 0: none seen */
    uint64_t marked;  /* which lease we have marked */
    int64_t since_us; /* when we saw it first */
    int64_t turn_us;  /* from one holder to the next; 0: not known */
    /* turns are counted from this ticket on: our last one, or the first that we saw */
    uint32_t first;
    bool guesses;                /* the first that we saw */
    int64_t first_us, ticket_us; /* when it was given out or seen; when ours was */
    bool asked;                  /* for a ticket: once, whatever the answer was */
};

/* What a look has found. */
struct memcached_seen {
    uint64_t holder; /* tells one lease from the next; not 0 */
    uint64_t cas;    /* which version of it, for a mark */
    uint32_t ticket; /* of the holder; 0: it asked without one */
    bool marked;
};

enum memcached_step { MEMCACHED_TAKE_TICKET, MEMCACHED_MARK, MEMCACHED_REST };

/* Another owner has it: note what was seen, and say what to do next. */
void memcached_pace_saw(struct memcached_pace *pace, const struct memcached_seen *seen,
                        int64_t now_us);
enum memcached_step memcached_pace_step(const struct memcached_pace *pace,
                                        const struct memcached_seen *seen);
/* The counter has given us this one; 0: it has not. */
void memcached_pace_ticket(struct memcached_pace *pace, uint32_t ticket, int64_t now_us);
/* How many are in line before us, as far as known. */
uint32_t memcached_pace_ahead(const struct memcached_pace *pace);
/* How long to rest; `chance` is random. */
int64_t memcached_pace_rest_us(const struct memcached_pace *pace, int64_t poll_us, int64_t now_us,
                               uint64_t chance);

/* Names that this process has lately released while others waited. */
struct memcached_manner {
    uint64_t hash[2];
    uint32_t serving; /* the ticket that it held with; 0: none */
    bool wanted;      /* its lease was marked: somebody waits that the tickets do not tell of */
    int64_t ticket_us, until_ms;
};

struct memcached_manners {
    struct memcached_manner names[MEMCACHED_MANNERS];
};

void memcached_manners_note(struct memcached_manners *manners, const uint64_t hash[2],
                            const struct memcached_pace *pace, bool wanted, int64_t now_ms);
/* Is the name known? Then the waiter begins with what is known of its line. */
bool memcached_manners_recall(const struct memcached_manners *manners, const uint64_t hash[2],
                              int64_t now_ms, int64_t now_us, struct memcached_pace *ret_pace,
                              bool *ret_wanted);
/* The waiter has its ticket. Has anybody come since we released it? If not, the name is forgotten. */
bool memcached_manners_yield(struct memcached_manners *manners, const uint64_t hash[2],
                             struct memcached_pace *pace, bool wanted);

#endif
