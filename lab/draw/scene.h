/* SPDX-License-Identifier: MIT */
/*
 * A timeline, ready to be drawn: what happened in which lane and when. scene_build() makes it of a history; the texts are already in
 * both languages. Times are milliseconds since the begin of the play.
 *
 * What belongs to client 0 (A) is solid and blue, to client 1 (B) hatched and orange, to 2 (C) and 3 (D) as the drawing likes: it must
 * be told apart in black and white.
 */
#ifndef LAB_SCENE_H
#define LAB_SCENE_H

#include "../phrase.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_MAX  9
#define LABEL_ROOM 64

enum lane_kind {
    LANE_END,
    LANE_CLIENT,   /* an actor */
    LANE_SERVER,   /* what a lock server says: who has the lease. An observer asks it */
    LANE_RESOURCE, /* a value that clients read and write */
};

struct lane {
    enum lane_kind kind;
    struct phrase title; /* "client A", "lock server", "resource" */
    struct phrase note;  /* below it, small: "stock"; or empty */
};

#define LANES_END                                     \
    {                                                 \
        .kind = LANE_END, .title = PHRASE(NULL, NULL) \
    }

enum bar_kind {
    BAR_HOLDS,    /* a client believes it holds, and runs */
    BAR_PAUSED,   /* a client is stopped (SIGSTOP), or a server is */
    BAR_WAITS,    /* a client waits or tries: a dotted line rather than a bar */
    BAR_DEAD,     /* killed or crashed: from then on, until it is started again */
    BAR_LEASE,    /* in a server's lane: the lease of `client` */
    BAR_VALUE,    /* in a resource's lane: the value, as label */
    BAR_BAD_VALUE /* the same, after a wrong write was accepted */
};

struct bar {
    enum bar_kind kind;
    int lane, client; /* client: -1 if it belongs to none */
    double from_ms, to_ms;
    char label[LANGS][LABEL_ROOM]; /* may be empty */
};

enum arrow_kind {
    ARROW_ASK,    /* asks for the lock, and is queued or granted */
    ARROW_TRY,    /* tried and refused; thin or dashed */
    ARROW_GRANT,  /* from a server to a client that waited */
    ARROW_LET,    /* gives it back */
    ARROW_READ,   /* dashed */
    ARROW_WRITE,  /* accepted */
    ARROW_WRONG,  /* accepted, and it should not have been: red, an octagon where it arrives */
    ARROW_REFUSED /* a barrier where it would have arrived */
};

struct arrow {
    enum arrow_kind kind;
    int from, to; /* lanes */
    int client;
    double at_ms;
    char label[LANGS][LABEL_ROOM]; /* may be empty */
};

enum mark_kind {
    MARK_EXPIRES, /* a dashed upright: a lease ended by itself */
    MARK_CRASH,   /* killed, crashed */
    MARK_NOTE,    /* something that a director did: "failover", "clock +30s" */
    MARK_LOST     /* a client was told that its lease is over */
};

struct mark {
    enum mark_kind kind;
    int lane;
    double at_ms;
    char label[LANGS][LABEL_ROOM];
};

/* A bracket below a client's lane: "A believes it holds the lock". */
struct belief {
    int lane, client;
    double from_ms, to_ms;
};

/* Two or more believe to hold at once; a ground behind their lanes. `bad`: more than may. */
struct overlap {
    double from_ms, to_ms;
    bool bad;
};

/* A black number: the step of the experiment with that number happened there. */
struct number {
    int step; /* from 1 */
    int lane;
    double at_ms;
    bool bad; /* red */
};

/* In a resource's lane: the highest token that it has seen, from then on. */
struct high {
    double at_ms;
    uint64_t token; /* as drawn: 33 rather than 1731930000000033 */
};

#define SCENE_BARS     160
#define SCENE_ARROWS   240
#define SCENE_MARKS    48
#define SCENE_BELIEFS  48
#define SCENE_OVERLAPS 24
#define SCENE_HIGHS    16
#define SCENE_NUMBERS  12

struct scene {
    double end_ms; /* of the time axis */
    const struct lane *lanes;
    int lane_count;
    size_t bar_count, arrow_count, mark_count, belief_count, overlap_count, number_count,
        high_count;
    struct bar bars[SCENE_BARS];
    struct arrow arrows[SCENE_ARROWS];
    struct mark marks[SCENE_MARKS];
    struct belief beliefs[SCENE_BELIEFS];
    struct overlap overlaps[SCENE_OVERLAPS];
    struct number numbers[SCENE_NUMBERS];
    struct high highs[SCENE_HIGHS];
    int high_lane; /* the resource that has them; -1: none */
};

/* What `history` says, in the lanes of `way`. */
struct history;
struct way;
void scene_build(struct scene *scene, const struct way *way, const struct history *history);

#endif
