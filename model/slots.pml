/* SPDX-License-Identifier: MIT
 *
 * Why a semaphore here is slots, each a majority lock, and not a semaphore at each node; and why a read-write lock may be
 * by majority as it is. Five nodes, three clients, capacity two.
 *
 * Unlike in the other models a key stays until its owner leaves: this is about what majorities can do at their best.
 *
 * As it is: two slots, a client tries one of them at a time. RW: one name, clients 1 and 2 read, 3 writes.
 * MUTANT_SEMAPHORE: one name, of which each node gives out two permits. Any two majorities share a node, but three of them
 * need not all share one, and only the third at the same node is refused.
 */
#define N 5
#define CLIENTS 3
#define CAPACITY 2
#define BIT(a) (1 << (a))
#define HAS(set, a) (((set) >> (a)) & 1)
#define SIZE(set) (HAS(set, 1) + HAS(set, 2) + HAS(set, 3))
#define MAJORITY (N / 2 + 1)

typedef name { byte at[N] }; /* who has a key of it, by node: a set of clients */
name slot[2];

#define IDLE 0
#define ASKS 1
#define HOLDS 2
#define LEAVES 3
byte phase[CLIENTS + 1];
byte which[CLIENTS + 1]; /* the slot that a client tries */

#define VOTES(a) \
    (HAS(slot[which[a]].at[0], a) + HAS(slot[which[a]].at[1], a) + HAS(slot[which[a]].at[2], a) + \
     HAS(slot[which[a]].at[3], a) + HAS(slot[which[a]].at[4], a))
#define HOLDERS ((phase[1] == HOLDS) + (phase[2] == HOLDS) + (phase[3] == HOLDS))

#if defined(MUTANT_SEMAPHORE)
#define ROOM(a, set) (SIZE(set) < CAPACITY)
#define SLOTS 1
#define PROMISE (HOLDERS <= CAPACITY)
#elif defined(RW)
#define ROOM(a, set) ((a) == 3 && (set) == 0 || (a) < 3 && !HAS(set, 3))
#define SLOTS 1
#define PROMISE (phase[3] != HOLDS || HOLDERS == 1)
#else
#define ROOM(a, set) ((set) == 0)
#define SLOTS 2
#define PROMISE (HOLDERS <= CAPACITY)
#endif

#define ASK(a, n) \
    :: atomic { phase[a] == ASKS && !HAS(slot[which[a]].at[n], a) && ROOM(a, slot[which[a]].at[n]) -> \
        slot[which[a]].at[n] = slot[which[a]].at[n] | BIT(a); \
        printf("node %d gives slot %d to %d\n", n, which[a], a) }
#define LEAVE(a, n) \
    :: atomic { phase[a] == LEAVES && HAS(slot[which[a]].at[n], a) -> \
        slot[which[a]].at[n] = slot[which[a]].at[n] & (255 - BIT(a)); \
        printf("node %d: %d has left slot %d\n", n, a, which[a]) }
#define CLIENT(a) \
    :: atomic { phase[a] == IDLE -> \
        phase[a] = ASKS; \
        if \
        :: which[a] = 0 \
        :: SLOTS > 1 -> which[a] = 1 \
        fi } \
    :: atomic { phase[a] == ASKS && VOTES(a) >= MAJORITY -> \
        phase[a] = HOLDS; \
        printf("%d holds, slot %d\n", a, which[a]); \
        assert(PROMISE) } \
    :: atomic { phase[a] == ASKS || phase[a] == HOLDS -> phase[a] = LEAVES } /* it failed, or is done */ \
    :: atomic { phase[a] == LEAVES && VOTES(a) == 0 -> phase[a] = IDLE; which[a] = 0 } \
    ASK(a, 0) ASK(a, 1) ASK(a, 2) ASK(a, 3) ASK(a, 4) \
    LEAVE(a, 0) LEAVE(a, 1) LEAVE(a, 2) LEAVE(a, 3) LEAVE(a, 4)

active proctype world()
{
end:
    do
    CLIENT(1)
    CLIENT(2)
    CLIENT(3)
    od
}
