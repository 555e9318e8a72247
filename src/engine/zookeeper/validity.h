/* SPDX-License-Identifier: MIT */
/*
 * How long a session certainly lives, by our own clock. Pure.
 *
 * The leader ends a session when it has not heard of it for the timeout. It hears of it in two
 * ways:
 *
 *   - our connecting (a new session, or the old one taken up again) goes to the leader itself;
 *   - everything else only reaches the server that we are connected to. A follower tells the leader
 *     which sessions were heard of when the leader asks, every half tick; so what was sent at s
 *     counts from the next such exchange on, later than s, and only if there was one.
 *
 * A follower that is cut off from the leader still answers reads for a while, but the leader does
 * not learn of our requests then. So only answers that need the leader (writes and sync) prove
 * anything. A request that was sent at c and answered has passed the same connection from the
 * follower to the leader, in order, as all exchanges before it. If a request was sent at s and
 * answered, and c - s is at least half a tick, there was an exchange in between, and the leader has
 * counted from s or later.
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
/* The time until which the session certainly lives. */
int64_t zk_validity_until(const struct zk_validity *validity);
/* The validity that a lease can get at now_ms. 1 % of the time since base_ms is subtracted for
 * clock drift: core subtracts it only from the validity that we return. May be negative. */
int64_t zk_validity_left(const struct zk_validity *validity, int64_t now_ms);

#endif
