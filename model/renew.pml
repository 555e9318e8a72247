/* SPDX-License-Identifier: MIT
 *
 * Renewal, by acquisition 1. A node extends the key if the owner is there, changes nothing else, and tells its
 * counter; the client counts the node if that is not above its token.
 *
 * What a renewal by a majority proves: when it was sent, no acquisition with a larger token was complete. For that one
 * has a witness among those nodes, whose counter was raised above our token then and never goes back; and if the node
 * lost it, it says nothing (KEEPS) until it is installed with a larger one.
 */
#if defined(MUTANT_RENEW_BLIND) || defined(MUTANT_RENEW_CREATES)
#define BELOW(a, n) true
#else
#define BELOW(a, n) (c[n] <= q[a].t)
#endif
#ifdef MUTANT_RENEW_CREATES
#define RENEWS(a, n) (owner[n] == ID(a) || owner[n] == 0)
#define KEY_AFTER(a, n) owner[n] = ID(a)
#else
#define RENEWS(a, n) (owner[n] == ID(a))
#define KEY_AFTER(a, n) skip
#endif
#define RENEW_AT(a, n) \
    :: atomic { q[a].phase == CLAIMED && KEEPS(n) && RENEWS(a, n) && BELOW(a, n) -> \
        KEY_AFTER(a, n); \
        q[a].W = q[a].W | BIT(n); \
        printf("node %d renews %d, counter %d\n", n, a, c[n]) }
#define USE(a) \
    :: atomic { a == 1 && q[a].phase == HOLDS -> \
        q[a].phase = CLAIMED; \
        if \
        :: q[3 - a].phase >= HOLDS -> q[a].saw = q[3 - a].t \
        :: else \
        fi; \
        printf("%d renews token %d, the other has %d\n", a, q[a].t, q[a].saw) } \
    :: atomic { q[a].phase == CLAIMED && COUNT(q[a].W) >= MAJORITY -> \
        printf("%d is renewed\n", a); \
        assert(q[a].saw < q[a].t); \
        q[a].phase = OVER; q[a].W = 0; q[a].saw = 0 } \
    EACH2(RENEW_AT, a)
