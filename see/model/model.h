/* SPDX-License-Identifier: MIT */
/*
 * What is known of one store, for `holdfast top` and `holdfast serve`: rows (one for each name) with their
 * holders, waiters and states; hand-overs, waits and holds that were seen; circles; findings of the doctor.
 *
 * Pure: no clock, no store, no thread. The source (source.h) feeds a model with views under its lock; readers look
 * at it under the same lock. All times are ms of CLOCK_REALTIME and points in time, not ages: so nothing changes
 * while nobody does anything. A model sees what views show: a lease that came and went between two views is not
 * counted, and a wait is measured only if a view has shown the waiter.
 */
#ifndef SEE_MODEL_H
#define SEE_MODEL_H

#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEE_INTERVALS     24                         /* of a row's hand-overs */
#define SEE_INTERVAL_MS   5000                       /* ... each, and one point of history */
#define SEE_POINTS        (900000 / SEE_INTERVAL_MS) /* history: 15 minutes */
#define SEE_LOST_MS       60000                      /* a lost lease stays in sight for this long */
#define SEE_REMEMBERED_MS 900000 /* a name that nobody holds: how long its past is remembered */
#define SEE_REMEMBERED    20000  /* ... and of how many names */
#define SEE_BUCKETS       128
#define SEE_JUDGED        8 /* holds that must have been seen before an age is judged by them */

/* In the order of trouble. A row with an overdue age (row->overdue) comes behind SEE_LOST. */
enum see_state {
    SEE_DEADLOCK, /* in a circle */
    SEE_AT_RISK,  /* the renewal of a holder is late */
    SEE_LOST, /* a lease ran out under its holder, within the last minute, and nobody has it since */
    SEE_WANTED, /* held, and somebody waits */
    SEE_HELD,
    SEE_WAITING, /* nobody holds it, somebody waits: it is closed by a lock delay, or about to be granted */
    SEE_IDLE, /* all its leases linger unused; or nobody holds it, and it is closed */
    SEE_STATES
};

/* A histogram of durations in ms: four buckets for each power of two. */
struct see_histogram {
    uint32_t total;
    uint16_t counts[SEE_BUCKETS];
};

struct see_holder {
    uint64_t token, first, session;
    int64_t since_ms;
    int64_t until_ms; /* -1: no ttl. As seen last: a renewal moves it */
    int64_t ttl_ms;   /* the largest time left that was seen; -1: no ttl */
    int64_t pid;      /* 0: not known */
    uint32_t permits;
    uint32_t slot_count;
    uint32_t slots[HF_SLOTS_MAX];
    bool detached, lingers, idle, watched;
    bool at_risk;
    char label[HF_LABEL_MAX + 1]; /* any bytes but NUL: escape it */
};

struct see_waiter {
    uint32_t position, permits;
    hf_kind kind;
    int64_t since_ms, pid;
    uint64_t session;
    char label[HF_LABEL_MAX + 1];
};

/*
 * `change` grows when something changes that a list shows (holders, the number of waiters, state, overdue, hand-overs);
 * `detail_change` also when a lease was renewed or the queue changed. The until_ms of a row whose state is not
 * SEE_AT_RISK is for details only: renewals do not move `change`.
 */
struct see_row {
    uint64_t id; /* of this name, never used again in this model */
    uint64_t change, detail_change;
    /* false: nobody holds it or waits for it any more; the past of the name is remembered */
    bool present;
    enum see_state state;
    bool overdue; /* held longer than 99 of 100 holds that were seen of this name */

    hf_kind kind;
    uint32_t capacity, taken;
    int64_t closed_until_ms;    /* 0: open */
    struct see_holder *holders; /* by token */
    struct see_waiter *waiters; /* in order of the queue */
    size_t holder_count, waiter_count;

    int64_t lost_at_ms;     /* 0: none */
    struct see_holder lost; /* the last one that was lost, if lost_at_ms */

    int64_t p50_ms, p99_ms; /* of the holds that were seen; -1: fewer than SEE_JUDGED */

    /* For the model alone. */
    struct see_histogram holds;
    int64_t seen_ms; /* the last view with it */
    uint64_t round;  /* of that view */
    uint64_t hash;
    int64_t interval; /* of the newest count */
    uint16_t handovers[SEE_INTERVALS];
    struct see_row *hash_next, *older, *newer; /* by change */
    size_t name_len;
    unsigned char name[];
};

struct see_point {
    int64_t at_ms;
    uint32_t handovers;
    int64_t wait_p50_ms, wait_p99_ms, hold_p50_ms, hold_p99_ms; /* -1: none was seen */
    bool away; /* for a part of it, so that it shows less than there was */
};

/* A member of a circle: it waits for `name`, which the next member has; the last waits for what the first has. */
struct see_link {
    /* of its lease of what the member before waits for; 0: it is ahead in the queue */
    uint64_t token;
    uint64_t session;
    int64_t since_ms, pid;
    char label[HF_LABEL_MAX + 1];
    size_t name_len;
    unsigned char name[HF_NAME_MAX];
};

/* The library ends a circle after about a second: member 0 gets HF_DEADLOCK. One that is older than SEE_STUCK_MS has
 * members that look for deadlocks later (deadlock_check=): do not wait for that. Members that never look are in no circle: the
 * store does not know their sessions. */
#define SEE_STUCK_MS 10000
struct see_circle {
    int64_t since_ms; /* when the last of them began to wait */
    size_t count;
    struct see_link *links;
};

struct see_finding {
    hf_check_level level;
    bool note; /* no fault: the level is HF_CHECK_LEVEL_OK */
    char topic[64], text[512];
};

struct see_model {
    uint64_t change; /* the largest of all rows, and of what follows */
    /* a reader that knows less than this has missed rows that are gone: begin again */
    uint64_t forgotten_change;

    /* The store. */
    bool tried;          /* it has answered or failed, or there is none: since_ms is true */
    bool up;             /* the last look was answered */
    bool looked;         /* there has been an answer at all */
    bool absent;         /* it is up, but there is no store yet */
    int64_t since_ms;    /* since when it is up or away */
    int64_t next_try_ms; /* if away; 0: now */
    int64_t asked_ms;    /* an answer is due since then; 0: none is */
    int64_t looked_ms;   /* the last answer: what rows show was true then */
    char text[512];      /* if away: why; if absent: where it would be */
    int64_t latency_us;  /* of one round trip; -1: not known */
    uint64_t state_change;
    bool waiters_tracked;

    /* Rows. */
    size_t present, by_state[SEE_STATES], waiters;
    size_t known; /* also those that are not present */
    /* counts up when a row becomes present or ceases to be: as long as it is the same, so are the
     * names, and the rows stay where they are */
    uint64_t present_change;
    struct see_row *oldest, *newest; /* by change */

    /* Circles and findings. */
    struct see_circle *circles;
    size_t circle_count;
    uint64_t circle_change;
    struct see_finding *findings;
    size_t finding_count;
    int64_t checked_ms; /* 0: never */
    uint64_t finding_change;

    /* History: a ring; see_model_point() reads it. */
    struct see_point points[SEE_POINTS];
    size_t point_count, point_next;
    uint64_t points_made; /* ever */
    /* What was seen in the last half to whole minute; since the model began. */
    struct see_histogram waits, holds;
    uint64_t total_handovers, total_lost;

    /* For the model alone. */
    struct see_histogram point_waits, point_holds, half_waits, half_holds;
    int64_t first_ms, point_ms, half_ms;
    uint32_t point_handovers;
    bool point_away;
    uint64_t next_id, round;
    struct see_row **buckets;
    size_t bucket_count;
    struct see_holder *spare; /* holders of a view, sorted */
    size_t spare_size;
};

void see_model_init(struct see_model *model);
void see_model_done(struct see_model *model);

/*
 * What the store says now. `deadlocks`: NULL if there are none. Cheap if nothing has changed: one look-up and a comparison
 * for each name. false: out of memory; the model is consistent, and knows less than the view.
 */
bool see_model_update(struct see_model *model, const hf_view *view, const hf_deadlocks *deadlocks,
                      int64_t now_ms);
/* There is no store yet at `where`: as an empty view. */
void see_model_absent(struct see_model *model, const char *where, int64_t now_ms);
/* It does not answer: the rows stay as they were. `text`: why. next_try_ms: 0: right now. */
void see_model_away(struct see_model *model, int64_t now_ms, const char *text, int64_t next_try_ms);
/* An answer is due from now_ms on, which may be later than now: the library waits for one that does not come for some seconds. An
 * earlier question that is open counts. Each answer ends it: an update, a latency. */
void see_model_asked(struct see_model *model, int64_t now_ms);
/* Is it up, as far as one can tell at now_ms? Not if an answer is overdue by SEE_LATE_MS. *ret_since_ms: since when it is or is not. */
#define SEE_LATE_MS 3000
bool see_model_is_up(const struct see_model *model, int64_t now_ms, int64_t *ret_since_ms);
void see_model_latency(struct see_model *model, int64_t latency_us);
bool see_model_check(struct see_model *model, const hf_report *report, int64_t now_ms);
/* Does a view have a session that holds something and waits for something? Only then a circle is possible. */
bool see_view_may_lock(const hf_view *view);

/* ---- reading ---------------------------------------------------------------------------- */

/* Present rows and rows whose past is remembered; NULL: none. */
struct see_row *see_model_find(const struct see_model *model, const void *name, size_t len);
/*
 * Rows that changed after `change`, the newest first: begin with NULL, go on with what came last. NULL: no more. A row
 * that is not present is gone. Only if change >= model->forgotten_change; else read all (change 0) and take it as new.
 */
const struct see_row *see_model_changed(const struct see_model *model, const struct see_row *last,
                                        uint64_t change);
/* All present rows, model->present of them: an array to free(). NULL: no memory. */
const struct see_row **see_model_rows(const struct see_model *model);
/* Likewise, in the order of trouble, then of waiters, then of names. */
const struct see_row **see_model_sorted(const struct see_model *model);
/* The same order, for qsort(3) over pointers to rows. */
int see_row_compare(const void *a, const void *b);
int see_name_compare(const struct see_row *a, const struct see_row *b); /* by bytes */
int see_name_natural(const struct see_row *a,
                     const struct see_row *b); /* "job-9" before "job-10" */
/* "deadlock", "at_risk", "lost", "wanted", "held", "waiting", "idle" */
const char *see_state_word(enum see_state state);
/* Counts of the last SEE_INTERVALS intervals, the oldest first; the last one is the one of now_ms. */
void see_row_handovers(const struct see_row *row, int64_t now_ms,
                       uint16_t ret_counts[SEE_INTERVALS]);
/* The holder that a line shows: the one at risk, else the longest; NULL: none. */
const struct see_holder *see_row_holder(const struct see_row *row);
/* The circle that the row is in; NULL: none. */
const struct see_circle *see_row_circle(const struct see_model *model, const struct see_row *row);
/* The point `index` of point_count, the oldest first. */
const struct see_point *see_model_point(const struct see_model *model, size_t index);
/* Hand-overs a second, of the newest points that span at least ten seconds; -1: not known yet. */
double see_model_rate(const struct see_model *model, int64_t now_ms);

void see_histogram_add(struct see_histogram *histogram, int64_t ms);
/* -1: empty. per_mille: 500 is the median. An upper bound, at most a quarter too large. */
int64_t see_histogram_at(const struct see_histogram *histogram, unsigned per_mille);

/* ---- the wait-for graph: graph.c ---------------------------------------------------------- */

/* A client: a session; or, where the engine knows none, a process, by its pid and label. If these do not tell processes
 * apart, every lease and every request is a client of its own, and `row` is set. */
struct see_node {
    uint64_t session;
    int64_t pid;
    const char *label; /* in the model: valid under its lock */
    const struct see_row *row;
    uint64_t token; /* with `row`: of the lease; 0: it waits, since ... */
    int64_t since_ms;
    size_t has_count; /* names that it holds, of those in the graph */
    struct see_has {
        const struct see_row *row;
        uint64_t token;
    } * has;
    int circle; /* -1: none */
};

struct see_edge { /* nodes[from] waits for nodes[to], which has `row` */
    size_t from, to;
    const struct see_row *row;
    int64_t since_ms;
    int circle; /* -1: not a part of one */
};

struct see_graph {
    struct see_node *nodes;
    size_t node_count;
    struct see_edge *edges;
    size_t edge_count;
    size_t folded; /* waiters that are left out */
};

#define SEE_GRAPH_WAITERS 30 /* beyond the circles */
/* Circles first; then the waiters of the longest queues, up to `most`. It points into the model: use it under the lock.
 * false: out of memory. see_graph_done() accepts one of zeros. */
bool see_graph_build(const struct see_model *model, size_t most, struct see_graph *ret_graph);
void see_graph_done(struct see_graph *graph);

#endif
