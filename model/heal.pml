/* SPDX-License-Identifier: MIT
 *
 * Nodes lose their data and are healed, while clients go on.
 *
 * A node that lost its data has no epoch (UNINIT) and has no vote. What lost data can take along differs: all, or the
 * counters alone while the lock's key survives. Losses come at any time and at any node, also during a heal, up to
 * LOSSES in a run; more at once than a minority leave no majority to seal, and nothing moves.
 *
 * A client is bound to the epoch with which it began: every acquire and write-back carries it. One that meets another
 * drops everything and starts again with a new owner id, and is a new acquisition to this model; the old one never
 * completes.
 */
#include "common.pml"

#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef HEALERS
#define HEALERS 2
#endif

#ifndef NUMBERS
#define NUMBERS LOSSES /* how high epochs go */
#endif

/* An epoch is a pair, number and id, compared whole. The id is the marker of the loss that it heals. */
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
byte losses;
byte lost; /* how many different nodes did */
byte markers; /* how many there were: the next is fresh */

typedef healer {
    byte z;      /* the empty node */
    byte m;      /* its marker, 0: not yet */
    byte number; /* of the epoch to seal at, 0: not yet */
    byte S;      /* nodes seen sealed, and their counters read */
    byte f       /* the largest of those */
};
healer h[HEALERS + 1];

#define OPEN (q[1].phase < HOLDS || q[2].phase < HOLDS) /* else nothing is left to go wrong */
#define TARGET(i) EPOCH(h[i].number, h[i].m)

/* ---- clients, as in token.pml, with the epoch ---- */

#define ACQUIRE(a, n) \
    :: atomic { q[a].phase == ASKS && epoch[n] == e[a] && owner[n] == 0 && c[n] < K -> \
        owner[n] = a; \
        rise(n); \
        printf("node %d grants to %d: %d\n", n, a, c[n]); \
        if \
        :: hear(a, n, c[n]) \
        :: true \
        fi }
#define WRITE_BACK(a, n) \
    :: atomic { q[a].phase == ASKS && epoch[n] == e[a] && owner[n] == a -> \
        lift(n, q[a].t); \
        printf("node %d is written to by %d: %d\n", n, a, c[n]); \
        if \
        :: hear(a, n, c[n]) \
        :: true \
        fi }
/* A client may have learnt of the epoch long before it begins. */
#define LEARN(a, n) \
    :: atomic { OPEN && q[a].phase == IDLE && epoch[n] != UNINIT && epoch[n] != e[a] -> e[a] = epoch[n] }
#define CLIENT(a) \
    :: atomic { q[a].phase == IDLE && (a == 1 || q[1].phase != IDLE) -> \
        begin(a); \
        printf("%d has epoch %d.%d\n", a, NUMBER(e[a]), e[a] & 7) } \
    :: atomic { q[a].phase == ASKS && COMPLETE(a) -> complete(a) }
#if defined(MUTANT_KEEP_REPLIES)
#define MEET(a, n) \
    :: atomic { q[a].phase == ASKS && epoch[n] != UNINIT && epoch[n] != e[a] -> \
        e[a] = epoch[n]; \
        printf("%d goes on in epoch %d.%d\n", a, NUMBER(e[a]), e[a] & 7) }
#elif defined(KEEP_ID)
#define MEET(a, n) \
    :: atomic { q[a].phase == ASKS && epoch[n] != UNINIT && epoch[n] != e[a] -> \
        e[a] = epoch[n]; q[a].t = 0; q[a].W = 0; \
        printf("%d starts again in epoch %d.%d, with its old id\n", a, NUMBER(e[a]), e[a] & 7) }
#else
#define MEET(a, n)
#endif

#define EXPIRE(n) \
    :: atomic { OPEN && owner[n] != 0 -> printf("node %d: key of %d is gone\n", n, owner[n]); owner[n] = 0 }
#define STRANGER(n) \
    :: atomic { OPEN && epoch[n] != UNINIT && owner[n] == 0 && c[n] < K -> \
        rise(n); \
        printf("node %d: strangers, %d\n", n, c[n]) }

/* ---- losses ---- */

#ifdef MUTANT_LOSS_VOTES
#define FORGET(n) c[n] = 0
#else
#define FORGET(n) c[n] = 0; epoch[n] = UNINIT; marker[n] = 0
#endif
/* Nodes are alike, so the first to lose its data may be called 0, and the next other one 1. */
#define NAMED(n) (n <= lost)
#define LOSE(n) \
    :: atomic { OPEN && losses < LOSSES && NAMED(n) -> \
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
        printf("node %d loses its data; key of %d survives\n", n, owner[n]) }

/* ---- heal ---- */

/* Which number is free: one above that of some node, seen at some time, perhaps long before the rest. (A real healer
 * asks all and takes the largest.) A healer that starts over starts here. */
#define LOOK(i, n) \
    :: atomic { OPEN && epoch[n] != UNINIT && NUMBER(epoch[n]) < NUMBERS && \
            (h[i].m != 0 || h[i].number != NUMBER(epoch[n]) + 1) -> \
        h[i].number = NUMBER(epoch[n]) + 1; \
        h[i].z = 0; h[i].m = 0; h[i].S = 0; h[i].f = 0 }

/* 1. A fresh marker on the empty node, or the one that is there. */
#define MARK(i, n) \
    :: atomic { OPEN && h[i].number != 0 && h[i].m == 0 && epoch[n] == UNINIT -> \
        if \
        :: marker[n] == 0 -> markers++; marker[n] = markers \
        :: else \
        fi; \
        h[i].z = n; h[i].m = marker[n]; \
        printf("healer %d: node %d has marker %d\n", i, n, h[i].m) }

/* 2. Seal an intact node. Compare-and-set: what it has must be older by number. Also how a laggard is lifted later. */
#ifdef MUTANT_NO_SEAL
#define SEAL(i, n)
#define SEALED(i, n) (epoch[n] != UNINIT)
#define INSTALLED(i) EPOCH(h[i].number - 1, 0)
#else
#define SEAL(i, n) \
    :: atomic { OPEN && h[i].m != 0 && epoch[n] != UNINIT && NUMBER(epoch[n]) < h[i].number -> \
        epoch[n] = TARGET(i); \
        printf("healer %d: node %d sealed at %d.%d\n", i, n, h[i].number, h[i].m) }
#define SEALED(i, n) (epoch[n] == TARGET(i))
#define INSTALLED(i) TARGET(i)
#endif

/* 3. Read its counter after that. For an install that can no longer happen there is no point in it. */
#ifdef MUTANT_NO_MARKER
#define MARKED(i) true
#define POINT(i) true
#define FORGOTTEN(i) skip
#else
#define MARKED(i) (marker[h[i].z] == h[i].m)
#define POINT(i) (epoch[h[i].z] == UNINIT && MARKED(i))
#define FORGOTTEN(i) h[i].S = 0; h[i].f = 0
#endif
#define ASK(i, n) \
    :: atomic { OPEN && h[i].m != 0 && POINT(i) && SEALED(i, n) && !HAS(h[i].S, n) && n != h[i].z -> \
        h[i].S = h[i].S | BIT(n); \
        if \
        :: c[n] > h[i].f -> h[i].f = c[n] \
        :: else \
        fi; \
        printf("healer %d: node %d has counter %d\n", i, n, c[n]) }

/* 4. Install, on a node that is still empty and still has that marker. The healer may do so again, however late. */
#ifdef MUTANT_SEAL_INTACT
#define INTACT ((epoch[0] != UNINIT) + (epoch[1] != UNINIT) + (epoch[2] != UNINIT) + (epoch[3] != UNINIT) + (epoch[4] != UNINIT))
#define ENOUGH(i) (COUNT(h[i].S) >= INTACT / 2 + 1)
#else
#define ENOUGH(i) (COUNT(h[i].S) >= MAJORITY)
#endif
#ifdef NO_PLUS_ONE
#define FLOOR(i) (h[i].f)
#else
#define FLOOR(i) (h[i].f + 1)
#endif
#define INSTALL(i) \
    :: atomic { OPEN && h[i].m != 0 && ENOUGH(i) && FLOOR(i) <= K && epoch[h[i].z] == UNINIT && MARKED(i) -> \
        epoch[h[i].z] = INSTALLED(i); \
        c[h[i].z] = FLOOR(i); \
        marker[h[i].z] = 0; \
        printf("healer %d: node %d installed at %d.%d with %d\n", i, h[i].z, h[i].number, h[i].m, c[h[i].z]); \
        FORGOTTEN(i) }

#define ALL(a) \
    CLIENT(a) \
    EACH2(ACQUIRE, a) \
    EACH2(WRITE_BACK, a) \
    EACH2(LEARN, a) \
    EACH2(MEET, a)
#define HEAL(i) \
    EACH2(LOOK, i) \
    EACH2(MARK, i) \
    EACH2(SEAL, i) \
    EACH2(ASK, i) \
    INSTALL(i)

active proctype world()
{
end:
    do
    ALL(1)
    ALL(2)
    HEAL(1)
#if HEALERS > 1
    HEAL(2)
#endif
    EACH(EXPIRE)
#ifndef QUIET
    EACH(STRANGER)
#endif
    EACH(LOSE)
    od
}
