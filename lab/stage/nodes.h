/* SPDX-License-Identifier: MIT */
/*
 * The nodes of Redlock: independent Redis servers that an experiment kills, empties and whose clocks it moves; and one more server, with what the
 * lock protects: that is stage->redis, which redis_*() calls of actors reach. Each play has new nodes. Their lanes are next to each
 * other.
 */
#ifndef LAB_NODES_H
#define LAB_NODES_H

#include "stage.h"

#define NODES 3

struct nodes {
    struct server *node[NODES];
    int first_lane;
    char url[256];          /* redlock://..., also stage->url during a play */
    char resource_url[160]; /* redis://... */
};

/* For `open` and `close` of an experiment. */
void nodes_open(struct stage *stage);
void nodes_close(struct stage *stage);
struct nodes *nodes_of(const struct stage *stage);

/* At the begin of a play: new nodes, drawn from this lane on. `ours`: they are made a cluster of Holdfast, whose leases last at most max_ttl_ms. The play's
 * time begins when this returns. */
void nodes_begin(struct stage *stage, int first_lane);
void nodes_begin_ours(struct stage *stage, int first_lane, int max_ttl_ms);
/* Who has a vote of each node: of a string `name`, or of our mutex `name`. */
void nodes_observe(struct stage *stage, const char *name);
void nodes_observe_ours(struct stage *stage, const char *name);

/* SIGKILL. Start it again: with what it had on its disk, or empty. Move its clock forward. They are noted in its lane. */
void node_kill(struct stage *stage, int node);
void node_start(struct stage *stage, int node);
void node_start_empty(struct stage *stage, int node, const struct phrase *text);
void node_jump(struct stage *stage, int node, int64_t ms, const struct phrase *text);

/* SIGSTOP: it does not answer, and goes on later with all that it was sent. */
void node_stop(struct stage *stage, int node);
void node_continue(struct stage *stage, int node);

/* For actors: a command of a naive client to one node; "OK" or a number above 0. false: no, or no answer within NODE_LIMIT_MS. */
#define NODE_LIMIT_MS 200
bool node_ok(struct actor *me, int node, const char *format, ...);

#endif
