/* SPDX-License-Identifier: MIT
 *
 * Nodes lose their data and are healed, while clients go on.
 *
 * A node that lost its data has no epoch (UNINIT) and has no vote. Losses come at any time and at any node, also during
 * a heal, up to LOSSES in a run; more at once than a minority leave no majority to seal, and nothing moves.
 *
 * Healers work by themselves and may stop for ever anywhere: nothing makes them go on.
 */
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef HEALERS
#define HEALERS 2
#endif

#ifndef NUMBERS
#define NUMBERS LOSSES /* how high epochs go */
#endif

#include "epoch.pml"

byte markers; /* how many there were: the next is fresh */

typedef healer {
    byte z;      /* the empty node */
    byte m;      /* its marker, 0: not yet */
    byte number; /* of the epoch to seal at, 0: not yet */
    byte S;      /* nodes seen sealed, and their counters read */
    byte f       /* the largest of those */
};
healer h[HEALERS + 1];

#define TARGET(i) EPOCH(h[i].number, h[i].m)

/* ---- clients that do not start again ---- */

#if defined(MUTANT_KEEP_REPLIES)
#define MEET(a, n) \
    :: atomic { q[a].phase == ASKS && e[a] != UNINIT && epoch[n] != UNINIT && epoch[n] != e[a] -> \
        e[a] = epoch[n]; \
        printf("%d goes on in epoch %d.%d\n", a, NUMBER(e[a]), e[a] & 7) }
#elif defined(KEEP_ID)
#define MEET(a, n) \
    :: atomic { q[a].phase == ASKS && e[a] != UNINIT && epoch[n] != UNINIT && epoch[n] != e[a] -> \
        e[a] = epoch[n]; q[a].t = 0; q[a].W = 0; \
        printf("%d starts again in epoch %d.%d, with its old id\n", a, NUMBER(e[a]), e[a] & 7) }
#else
#define MEET(a, n)
#endif

/* ---- heal ---- */

/* 1. A fresh marker on the empty node, or the one that is there. A healer that starts over starts here. The second is
 * the one that began later: they are alike. */
#ifdef MUTANT_MARKER_AGAIN
#define FRESH(n) marker[n] = 1
#else
#define FRESH(n) markers++; marker[n] = markers /* each is sent once */
#endif
#define MARK(i, n) \
    :: atomic { OPEN && epoch[n] == UNINIT && (marker[n] == 0 || marker[n] != h[i].m) && (i == 1 || h[1].m != 0) -> \
        if \
        :: marker[n] == 0 -> FRESH(n) \
        :: else \
        fi; \
        h[i].z = n; h[i].m = marker[n]; h[i].number = 0; h[i].S = 0; h[i].f = 0; \
        printf("healer %d: node %d has marker %d\n", i, n, h[i].m) }

/* 2. Seal an intact node. Compare-and-set: what it has must be older by number. Also how a laggard is lifted later.
 *
 * The number is one above what the healer saw on some node at some time, perhaps long before: that can be any, and is
 * chosen when it first matters. (A real healer asks all and takes the largest.) */
inline choose_number(i, least)
{
    if
    :: h[i].number == 0 ->
        h[i].number = least;
        do
        :: h[i].number < NUMBERS -> h[i].number++
        :: break
        od
    :: else
    fi
}
#ifdef MUTANT_NO_SEAL
#define SEAL(i, n)
#define SEALED(i, n) (epoch[n] != UNINIT)
#define INSTALLED(i) 0
#else
#define SEAL(i, n) \
    :: atomic { OPEN && h[i].m != 0 && epoch[n] != UNINIT && \
            (h[i].number == 0 && NUMBER(epoch[n]) < NUMBERS || NUMBER(epoch[n]) < h[i].number) -> \
        choose_number(i, NUMBER(epoch[n]) + 1); \
        epoch[n] = TARGET(i); \
        printf("healer %d: node %d sealed at %d.%d\n", i, n, h[i].number, h[i].m) }
#ifdef MUTANT_EPOCH_NUMBER
#define IS_MINE(i, n) (NUMBER(epoch[n]) > 0)
#else
#define IS_MINE(i, n) ((epoch[n] & 7) == h[i].m)
#endif
/* Sealed by me, or by another for the same loss. */
#define SEALED(i, n) (epoch[n] != UNINIT && IS_MINE(i, n) && (h[i].number == 0 || epoch[n] == TARGET(i)))
#define INSTALLED(i) TARGET(i)
#endif

/* 3. Read its counter after that. For an install that can no longer happen there is no point in it. */
#ifdef MUTANT_NO_MARKER
#define MARKED(i) true
#define POINT(i) true
#define FORGOTTEN(n)
#else
#define MARKED(i) (marker[h[i].z] == h[i].m)
#define POINT(i) (epoch[h[i].z] == UNINIT && MARKED(i))
#define FORGOTTEN_BY(i, n) if :: h[i].z == n -> h[i].S = 0; h[i].f = 0 :: else fi
#if HEALERS > 1
#define FORGOTTEN(n) FORGOTTEN_BY(1, n); FORGOTTEN_BY(2, n);
#else
#define FORGOTTEN(n) FORGOTTEN_BY(1, n);
#endif
#endif
#define ASK(i, n) \
    :: atomic { OPEN && h[i].m != 0 && POINT(i) && SEALED(i, n) && !HAS(h[i].S, n) && n != h[i].z -> \
        h[i].number = NUMBER(epoch[n]); \
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
        FORGOTTEN(h[i].z) }

/* Renewal needs no epoch: a counter that is not above the token says enough. */
#ifdef RENEW
#ifdef MUTANT_RENEW_UNINIT
#define KEEPS(n) true
#else
#define KEEPS(n) (epoch[n] != UNINIT)
#endif
#include "renew.pml"
#else
#define USE(a)
#endif

#define ALL(a) \
    CLIENT(a) \
    USE(a) \
    EACH2(ACQUIRE, a) \
    EACH2(WRITE_BACK, a) \
    EACH2(MEET, a)
#define HEAL(i) \
    EACH2(MARK, i) \
    EACH2(SEAL, i) \
    EACH2(ASK, i) \
    INSTALL(i)

active proctype world()
{
    d_step {
        e[1] = UNINIT; e[2] = UNINIT;
#ifdef AGAIN
        /* A shorter way into the second loss: node 0 was healed, to epoch 1.1, by another; healer 1 was about to, has
         * all that it needs for it, and does not know. */
        losses = 1; lost = 1; markers = 1;
        epoch[0] = EPOCH(1, 1); epoch[1] = EPOCH(1, 1); epoch[2] = EPOCH(1, 1);
        c[0] = 1;
        h[1].z = 0; h[1].m = 1; h[1].number = 1; h[1].S = BIT(1) | BIT(2)
#elif N == 5
        /* Five nodes are many: begin where two of them granted to 1, told it, and then lost their data. */
        losses = 2; lost = 2;
        epoch[0] = UNINIT; epoch[1] = UNINIT;
        q[1].phase = ASKS; e[1] = 0; q[1].t = K; q[1].W = BIT(0) | BIT(1)
#endif
    }
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
