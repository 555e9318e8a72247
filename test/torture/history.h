/* SPDX-License-Identifier: MIT */
/*
 * The history of a torture run: what every thread asked for, got and gave back, and
 * when. It is a file that all processes have mapped: so it keeps what a process wrote before it was
 * killed.
 *
 * A lane is the log of one thread at a time; the thread that takes the place of a killed one
 * goes on in its lane. An event counts from the moment the lane's count covers it.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include "holdfast/holdfast.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_MAX   64
#define LANE_EVENTS 200000
#define NAMES_MAX   32

enum event_kind {
    EV_ASK = 1, /* about to acquire: number, name, kind, permits, flags, ttl */
    EV_GOT,     /* acquired: token; at at_ns it certainly held */
    EV_NOT,     /* not acquired: status */
    EV_STILL,   /* at at_ns it certainly still held (a ttl that had not passed) */
    EV_LOST,    /* the ttl had passed: nothing is certain since the last GOT or STILL */
    EV_LETTING, /* about to release: until at_ns it certainly held, if it has no ttl */
    EV_LET,     /* released: status */
    EV_DEAD,    /* the lane's thread was alive until at_ns, and is dead: all it had ends */
    EV_SEEN     /* an observer saw request `seen_lane`, `number` waiting; at_ns is after that look.
                 * Of one look (`look`) in the order of the queue. */
};

struct event {
    int64_t at_ns;
    uint64_t token;
    /* of the request in its lane, from 1; a lane has several at once if it nests */
    uint32_t number;
    uint32_t look;
    uint32_t permits;
    uint32_t flags; /* HF_FLAG_STRICT, HF_FLAG_BARGE */
    uint8_t kind;   /* enum event_kind */
    uint8_t name;   /* index */
    uint8_t lock;   /* hf_kind */
    uint8_t status;
    uint8_t ttl; /* 1: the lease has one */
    uint8_t seen_lane;
    uint8_t pad[2];
};

struct lane {
    _Atomic uint32_t count;
    _Atomic uint32_t number;   /* of the last request */
    _Atomic uint64_t progress; /* raised whenever a request has ended */
    _Atomic int32_t tid;
    _Atomic int32_t doing; /* index of the name being waited for + 1; for people */
    struct event events[LANE_EVENTS];
};

struct history {
    _Atomic int stop; /* finish the current request, and end */
    bool tokenless;   /* the store has no tokens and no order: only exclusion and loss are
                       * checked */
    uint32_t lanes;
    uint32_t capacities[NAMES_MAX]; /* 0: no such name */
    bool ties;    /* leases that do not exclude one another may have the same token */
    bool doubles; /* clocks are wrong: two may hold what only one should (tokens are still right) */
    bool tell_doubles; /* ... and the checker reports them all the same */
    struct lane lane[LANES_MAX];
};

/* A fresh one, in a file without a name. NULL: errno says why. */
struct history *history_new(void);
/* Append; false: the lane is full. */
bool history_add(struct history *history, uint32_t lane, struct event event);
int64_t history_now_ns(void);

#endif
