/* SPDX-License-Identifier: MIT
 *
 * The fencing token by majority max-register, on nodes that keep their data.
 *
 * Time does not exist here: a key may expire at any moment, whatever its ttl. That is more than any clock could do
 * wrong, so what holds here holds whatever the clocks of nodes and clients do, and however long a client is stopped.
 *
 * Two configurations: as it is, two acquisitions up to a resource that checks their tokens; with RENEW, one of them
 * renews instead.
 */
#include "common.pml"

byte top;      /* the resource: the largest token it has seen */
byte version;  /* and how often it was written */
byte accepted; /* the last token it accepted, kept for the assertion alone */

#if defined(RENEW) && !defined(MUTANT_RENEW_CREATES) /* there, to blame that alone, none arrives late */
#define SENDS(a) (q[a].phase >= ASKS) /* a late acquire still arrives when all is over */
#else
/* Once it is complete, an acquire of it that arrives late is a stranger's. */
#define SENDS(a) (q[a].phase == ASKS)
#endif

#ifdef SLOTS
/* Replies on their way: a set of values for each acquisition and node. */
typedef row { byte r[N] };
row way[A + 1];
#define REPLY(a, n) way[a].r[n] = way[a].r[n] | BIT(c[n])
#define RECEIVE(a, n) \
    :: atomic { q[a].phase == ASKS && way[a].r[n] -> \
        v = 1; \
        do :: v < K -> v++ :: break od; \
        if \
        :: HAS(way[a].r[n], v) -> hear(a, n, v) \
        :: else \
        fi; \
        v = 0 }
#else
#define REPLY(a, n) \
    if \
    :: q[a].phase == ASKS -> hear(a, n, c[n]) \
    :: true /* lost */ \
    fi
#endif

/* acquire: if the key is free, take it and raise the counter. Asked again by who has it: see below. */
#define ACQUIRE(a, n) \
    :: atomic { SENDS(a) && owner[n] == 0 && CAN_RISE(n) -> \
        owner[n] = ID(a); \
        rise(n); \
        printf("node %d grants to %d: %d\n", n, a, c[n]); \
        REPLY(a, n) }

/* write back: if owner, c = max(c, t); return c. With a t that changes nothing it is also the answer to an acquire that
 * comes again while the key is there. */
#ifdef MUTANT_WB_ANYONE
#define MAY_WRITE(a, n) (q[a].t > 0)
#else
#define MAY_WRITE(a, n) (owner[n] == ID(a))
#endif
#if defined(MUTANT_NO_WRITE_BACK)
#define WRITE_BACK(a, n)
#elif defined(MUTANT_WB_DEAF)
/* The answer is taken as a yes to the t that was sent, whatever counter it brings. */
#define WRITE_BACK(a, n) \
    :: atomic { SENDS(a) && MAY_WRITE(a, n) && q[a].t > 0 -> \
        lift(n, q[a].t); \
        printf("node %d is written to by %d: %d\n", n, a, c[n]); \
        if \
        :: c[n] >= q[a].t && q[a].phase == ASKS -> q[a].W = q[a].W | BIT(n) \
        :: true \
        fi }
#else
#define WRITE_BACK(a, n) \
    :: atomic { SENDS(a) && MAY_WRITE(a, n) -> \
        lift(n, q[a].t); \
        printf("node %d is written to by %d: %d\n", n, a, c[n]); \
        REPLY(a, n) }
#endif

/* Expiry, and release: by the owner, after use or after a failed attempt, or by force. */
#define EXPIRE(n) :: atomic { owner[n] != 0 -> printf("node %d: key of %d is gone\n", n, owner[n]); owner[n] = 0 }
#define STRANGER(n) \
    :: atomic { owner[n] == 0 && c[n] < K -> rise(n); printf("node %d: strangers, %d\n", n, c[n]) }

/* Acquisition 1 begins first: they are alike, so that is no loss. */
#define CLIENT(a) \
    :: atomic { q[a].phase == IDLE && (a == 1 || q[1].phase != IDLE) -> begin(a) } \
    :: atomic { q[a].phase == ASKS && COMPLETE(a) -> complete(a) }

/*
 * The resource, read-modify-write under a token. It refuses a token below the largest it has seen. Claim, then read,
 * then write: the claim keeps smaller ones out from before the read on.
 */
#ifdef MUTANT_UNCHECKED
#define FITS(a) true
#else
#define FITS(a) (q[a].t >= top)
#endif
inline present(a)
{
    assert(q[a].t >= accepted);
    accepted = q[a].t;
    top = q[a].t
}
inline read(a)
{
    q[a].saw = version;
    printf("%d reads version %d\n", a, version)
}
inline write(a)
{
    present(a);
    printf("%d writes, having read version %d of %d\n", a, q[a].saw, version);
    assert(version == q[a].saw); /* no update is lost */
    version = version + 1
}

#if defined(RENEW)
#define KEEPS(n) true
#include "renew.pml"
#elif defined(MUTANT_READ_FIRST)
#define USE(a) \
    :: atomic { q[a].phase == HOLDS -> read(a); q[a].phase = CLAIMED } \
    :: atomic { q[a].phase == CLAIMED && FITS(a) -> present(a); q[a].phase = READ } \
    :: atomic { q[a].phase == READ && FITS(a) -> write(a); q[a].phase = OVER }
#else
#define USE(a) \
    :: atomic { q[a].phase == HOLDS && FITS(a) -> present(a); q[a].phase = CLAIMED } \
    :: atomic { q[a].phase == CLAIMED -> read(a); q[a].phase = READ } \
    :: atomic { q[a].phase == READ && FITS(a) -> write(a); q[a].phase = OVER }
#endif

#define ALL(a) \
    CLIENT(a) \
    USE(a) \
    EACH2(ACQUIRE, a) \
    EACH2(WRITE_BACK, a)

active proctype world()
{
end:
    do
    ALL(1)
    ALL(2)
    EACH(EXPIRE)
    EACH(STRANGER)
#ifdef SLOTS
    EACH2(RECEIVE, 1)
    EACH2(RECEIVE, 2)
#endif
    od
}
