/* SPDX-License-Identifier: MIT
 *
 * What heal.pml and start.pml share: epochs, and clients that carry one. The steps are those of token.pml.
 *
 * A client is bound to the epoch with which it began: every acquire and write-back carries it, and a node that has
 * another refuses. One that meets another drops everything and starts again with a new owner id, and is a new
 * acquisition to these models; the old one never completes.
 */
#include "common.pml"

/* An epoch is a pair, number and id, compared whole. UNINIT: the node is empty and has no vote. */
#define UNINIT 255
#define NUMBER(e) ((e) >> 3)
#ifdef MUTANT_EPOCH_NUMBER
#define EPOCH(number, id) ((number) << 3)
#else
#define EPOCH(number, id) (((number) << 3) | (id))
#endif

byte epoch[N];
byte marker[N]; /* on an empty node; 0: none */
byte e[A + 1];  /* the epoch that an acquisition carries */

#ifdef RENEW
#define OPEN (q[1].phase != OVER)
#define SENDS(a) (q[a].phase >= ASKS) /* a late acquire still arrives when all is over */
#else
#define OPEN (q[1].phase < HOLDS || q[2].phase < HOLDS) /* else nothing is left to go wrong */
#define SENDS(a) (q[a].phase == ASKS)
#endif

/* Which epoch a client has, learnt who knows when, is chosen when a node first serves it: before that it makes no
 * difference. */
#define HEARS(a, n) \
    if \
    :: q[a].phase == ASKS -> hear(a, n, c[n]) \
    :: true /* lost */ \
    fi
#define ACQUIRE(a, n) \
    :: atomic { OPEN && SENDS(a) && epoch[n] != UNINIT && (e[a] == UNINIT || epoch[n] == e[a]) && \
            owner[n] == 0 && c[n] < K -> \
        e[a] = epoch[n]; \
        owner[n] = a; \
        rise(n); \
        printf("node %d, epoch %d.%d, grants to %d: %d\n", n, NUMBER(e[a]), e[a] & 7, a, c[n]); \
        HEARS(a, n) }
#define WRITE_BACK(a, n) \
    :: atomic { OPEN && SENDS(a) && epoch[n] == e[a] && epoch[n] != UNINIT && owner[n] == a -> \
        lift(n, q[a].t); \
        printf("node %d is written to by %d: %d\n", n, a, c[n]); \
        HEARS(a, n) }
#ifdef RENEW
#define DONE_WITH(a) skip
#else
#define DONE_WITH(a) e[a] = UNINIT
#endif
#define CLIENT(a) \
    :: atomic { OPEN && q[a].phase == IDLE && (a == 1 || q[1].phase != IDLE) -> begin(a) } \
    :: atomic { OPEN && q[a].phase == ASKS && COMPLETE(a) -> complete(a); DONE_WITH(a) }

#define EXPIRE(n) \
    :: atomic { OPEN && owner[n] != 0 -> printf("node %d: key of %d is gone\n", n, owner[n]); owner[n] = 0 }
#define STRANGER(n) \
    :: atomic { OPEN && epoch[n] != UNINIT && owner[n] == 0 && c[n] < K -> \
        rise(n); \
        printf("node %d: strangers, %d\n", n, c[n]) }

/* What lost data can take along differs: all, or the counters alone while the lock's key survives. Nodes are alike, so
 * the first to lose its data may be called 0, and the next other one 1. */
byte losses;
byte lost; /* how many different nodes did */
#ifdef MUTANT_LOSS_VOTES
#define FORGET(n) c[n] = 0
#else
#define FORGET(n) c[n] = 0; epoch[n] = UNINIT; marker[n] = 0
#endif
#define LOSE(n) \
    :: atomic { OPEN && losses < LOSSES && n <= lost -> \
        losses++; \
        if \
        :: n == lost -> lost++ \
        :: else \
        fi; \
        FORGET(n); \
        if \
        :: owner[n] = 0 \
        :: owner[n] != 0 \
        fi; \
        FORGOTTEN(n) \
        printf("node %d loses its data; key of %d survives\n", n, owner[n]) }
