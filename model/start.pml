/* SPDX-License-Identifier: MIT
 *
 * The start of a fresh cluster: all nodes are empty, and two clients begin to set it up at once. Meanwhile others already
 * use what is there, and a node may lose its data.
 *
 * 1. Claim all N nodes with a fresh marker; a claim takes an empty node over from another starter, and is sent once.
 * 2. When all N said yes, ask all N again: do they still carry mine?
 * 3. When all N said yes, initialise each that is empty and carries mine, which consumes it.
 *
 * Why the second round: if both starters got through it, then at one node one of them was confirmed before the other's
 * claim, and at no node the other way round (it would have to be both before and after the end of its first round). So
 * one of them, say P, was confirmed everywhere before Q claimed. Q's claims found all N empty and took P's markers, so P
 * initialised none of them, and will not.
 */
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef STARTERS
#define STARTERS 2
#endif
#include "epoch.pml"

#define FORGOTTEN(n)
#define EVERY ((1 << N) - 1)

typedef starter {
    byte claimed;  /* the nodes that said yes in the first round */
    byte confirmed /* and in the second */
};
starter s[STARTERS + 1];

/* The epoch's id is the start's: what a node said in another start counts for nothing. */
#if defined(MUTANT_NAIVE_START) || defined(MUTANT_START_ONE_ID)
#define BORN(i) EPOCH(1, 0)
#else
#define BORN(i) EPOCH(1, i)
#endif

#ifdef MUTANT_CLAIM_AGAIN
#define SENT(i, n) false
#else
#define SENT(i, n) HAS(s[i].claimed, n)
#endif
#define CLAIM(i, n) \
    :: atomic { OPEN && epoch[n] == UNINIT && !SENT(i, n) -> \
        marker[n] = i; \
        s[i].claimed = s[i].claimed | BIT(n); \
        printf("starter %d claims node %d\n", i, n) }
#define CONFIRM(i, n) \
    :: atomic { OPEN && s[i].claimed == EVERY && !HAS(s[i].confirmed, n) && epoch[n] == UNINIT && marker[n] == i -> \
        s[i].confirmed = s[i].confirmed | BIT(n); \
        printf("starter %d confirms node %d\n", i, n) }

#if defined(MUTANT_NAIVE_START)
#define SURE(i, n) true
#elif defined(MUTANT_START_UNCONFIRMED)
#define SURE(i, n) (s[i].claimed == EVERY && marker[n] == i)
#elif defined(MUTANT_START_NO_MARKER)
#define SURE(i, n) (s[i].confirmed == EVERY)
#else
#define SURE(i, n) (s[i].confirmed == EVERY && marker[n] == i)
#endif
#define AGREES(m, n) (epoch[m] == UNINIT || epoch[m] == epoch[n])
/* It may arrive late, and again. All nodes that are set up belong to one start. */
#define INITIALISE(i, n) \
    :: atomic { OPEN && epoch[n] == UNINIT && SURE(i, n) -> \
        epoch[n] = BORN(i); \
        c[n] = 0; \
        marker[n] = 0; \
        printf("starter %d initialises node %d\n", i, n); \
        assert(AGREES(0, n) && AGREES(1, n) && AGREES(2, n)) }

#define ALL(a) \
    CLIENT(a) \
    EACH2(ACQUIRE, a) \
    EACH2(WRITE_BACK, a)
#define START(i) \
    EACH2(CLAIM, i) \
    EACH2(CONFIRM, i) \
    EACH2(INITIALISE, i)

active proctype world()
{
    d_step {
        e[1] = UNINIT; e[2] = UNINIT;
        epoch[0] = UNINIT; epoch[1] = UNINIT; epoch[2] = UNINIT
    }
end:
    do
    START(1)
    START(2)
#if STARTERS > 2
    START(3)
#endif
    ALL(1)
    ALL(2)
    EACH(EXPIRE)
    EACH(STRANGER)
    EACH(LOSE)
    od
}
