/* SPDX-License-Identifier: MIT */
/*
 * Until when a session certainly lives, by our own clock. Pure.
 *
 * The leader ends a session when it has not heard of it for the timeout. What it hears:
 *
 *   - our connecting (a new session, or the old one taken up again) goes to the leader itself;
 *   - everything else only reaches the server that we are connected to. A follower tells the leader
 *     which sessions were heard of when the leader asks, every half tick; so what was sent at s
 *     counts from the next such exchange on, later than s, and only if there was one.
 *
 * A follower that is cut off from the leader goes on answering reads for a while, and nothing that it
 * hears counts any more. So only answers that need the leader (writes and sync) say anything. One that
 * was sent at c and answered has passed the same connection from the follower to the leader, in order,
 * as all exchanges before it. If a request was sent at s and answered, and c - s is at least half a
 * tick, there was an exchange in between, and the leader has counted from s or later.
 *
 * We do not know the server's tick; a timeout is at least two of them (minSessionTimeout), so half a
 * tick is at most a quarter of the timeout. That is the lag.
 */
#ifndef ZK_VALIDITY_H
#define ZK_VALIDITY_H

#include <stdint.h>

#define ZK_VALIDITY_LAG  4  /* the timeout's part that must lie between two requests */
#define ZK_VALIDITY_KEPT 16 /* requests that are remembered */

struct zk_validity {
    int64_t timeout_ms;                /* as negotiated */
    int64_t base_ms;                   /* the leader counts from here, or from later */
    int64_t sent_ms[ZK_VALIDITY_KEPT]; /* answered by the leader, oldest first */
    unsigned count;
};

/* Connected: the handshake was sent at sent_ms, or later. */
void zk_validity_begin(struct zk_validity *validity, int64_t sent_ms, int64_t timeout_ms);
/* Something that needs the leader was sent at sent_ms, and has been answered. */
void zk_validity_confirm(struct zk_validity *validity, int64_t sent_ms);
/* The session lives until then at least. */
int64_t zk_validity_until(const struct zk_validity *validity);
/* For how long a lease can be given at now_ms; 1 % of what has passed since the base is kept back,
 * for clocks that run apart: core takes it off what we give only. May be negative. */
int64_t zk_validity_left(const struct zk_validity *validity, int64_t now_ms);

#endif
