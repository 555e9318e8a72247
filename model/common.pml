/* SPDX-License-Identifier: MIT
 *
 * What the three models share: nodes, acquisitions, the rule for the token, and what must hold.
 *
 * A model is one process that chooses one step after the other, each of them atomic: what a node does with one
 * message (a script there is atomic too), or what a client does by itself. All that is global is the state, so spin
 * sees every order of steps. Three things are done to keep it small, each of which only adds runs or leaves all of
 * them; README.md argues them at length:
 *
 *   - A request that was once sent may arrive at any time after, any number of times, or never. So none is stored:
 *     a step at a node needs only that the client has got far enough to send that message.
 *   - A reply arrives in the step that makes it, or never. A client keeps the maximum t of what it heard and the nodes
 *     that said exactly t; the order in which replies came leaves no trace in that, so a late reply is a reply that
 *     counted at once. (SLOTS in token.pml keeps them on their way instead: the same result, more states.)
 *   - Two acquisitions are followed, and all others are `stranger`: a counter rises on a node whose key is free. What
 *     is promised is about pairs, and another's key on a node only keeps things from happening.
 */
#ifndef N
#define N 3
#endif
#ifndef K
#define K 4 /* the last value of a counter: 2^53 - 1 in life */
#endif
#define A 2 /* acquisitions, 1 and 2; owner 0: the key is free */

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#if N == 3
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define EACH(do_) do_(0) do_(1) do_(2)
#define EACH2(do_, x) do_(x, 0) do_(x, 1) do_(x, 2)
#else
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4))
#define EACH(do_) do_(0) do_(1) do_(2) do_(3) do_(4)
#define EACH2(do_, x) do_(x, 0) do_(x, 1) do_(x, 2) do_(x, 3) do_(x, 4)
#endif

#ifdef MUTANT_MINORITY
#define MAJORITY (N / 2)
#else
#define MAJORITY (N / 2 + 1)
#endif

/* An owner id means one acquisition. */
#ifdef MUTANT_OWNER_TWICE
#define ID(a) 1
#else
#define ID(a) (a)
#endif

/* A node, for one name. */
byte c[N];     /* the counter */
byte owner[N]; /* who has the key, 0: nobody */

/*
 *  IDLE --begin--> ASKS --complete--> HOLDS --claim--> CLAIMED --read--> READ --write--> OVER
 *
 * An acquisition that fails stays in ASKS: its release is an expiry that comes soon.
 */
#define IDLE 0
#define ASKS 1
#define HOLDS 2
#define CLAIMED 3
#define READ 4
#define OVER 5

typedef acquisition {
    byte phase;
    byte t;     /* the largest counter it heard; once complete: its token */
    byte W;     /* the nodes that said exactly t while it owned the key there: its witnesses */
    byte after; /* the largest token that was complete when it began */
    byte saw    /* the resource's version that it read; in a renewal: the largest token when it was sent */
};
acquisition q[A + 1];
byte v; /* scratch within a step, 0 between steps */

/* What a client does with a counter that a node told it, in answer to an acquire or to a write-back. A larger one than
 * t makes the nodes heard so far no witnesses: they have to be written back to. */
inline hear(a, n, told)
{
    if
#if defined(MUTANT_NO_WRITE_BACK)
    :: told > q[a].t -> q[a].t = told; q[a].W = q[a].W | BIT(n)
    :: told <= q[a].t -> q[a].W = q[a].W | BIT(n)
#elif defined(MUTANT_COUNT_REPLIES)
    :: told > q[a].t -> q[a].t = told; q[a].W = 1
    :: told == q[a].t && q[a].W < MAJORITY -> q[a].W = q[a].W + 1
#else
    :: told > q[a].t -> q[a].t = told; q[a].W = BIT(n)
    :: told == q[a].t -> q[a].W = q[a].W | BIT(n)
#endif
    :: else
    fi
}

#ifdef MUTANT_COUNT_REPLIES
#define COMPLETE(a) (q[a].W >= MAJORITY)
#else
#define COMPLETE(a) (COUNT(q[a].W) >= MAJORITY)
#endif

/* A grant raises the counter, to whatever is proposed. The last value is never given out twice: a node at its end
 * refuses. */
#ifdef MUTANT_SATURATE
#define CAN_RISE(n) true
#else
#define CAN_RISE(n) (c[n] < K)
#endif
inline rise(n)
{
    if
    :: c[n] < K -> c[n] = c[n] + 1
    :: else
    fi;
    do
    :: c[n] < K -> c[n] = c[n] + 1
    :: break
    od
}

/* The same for a write-back, up to what the client has heard: it may be an old one, of when t was smaller. */
inline lift(n, limit)
{
    do
    :: c[n] < limit -> c[n] = c[n] + 1
    :: break
    od
}

inline begin(a)
{
    q[a].phase = ASKS;
    if
    :: q[3 - a].phase >= HOLDS -> q[a].after = q[3 - a].t
    :: else
    fi;
    printf("%d begins, after token %d\n", a, q[a].after)
}

/*
 * Order: an acquisition that began after another was complete has a larger token.
 * Uniqueness: no two complete acquisitions have the same.
 */
inline complete(a)
{
    q[a].phase = HOLDS;
    q[a].W = 0;
    printf("%d is complete with token %d\n", a, q[a].t);
    assert(q[a].t > q[a].after);
    assert(q[3 - a].phase < HOLDS || q[a].t != q[3 - a].t);
#ifdef MUTANT_PLAIN
    /* What a lock without tokens would have to promise. */
    assert(q[3 - a].phase < HOLDS || q[3 - a].phase == OVER)
#endif
}
