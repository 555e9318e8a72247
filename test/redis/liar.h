/* SPDX-License-Identifier: MIT */
/*
 * Servers that do not tell the truth: a node that says it is the whole of a cluster and answers every
 * script with the same error, or with a reply of any shape, and a sentinel that names whom it is told to.
 */
#ifndef TEST_REDIS_LIAR_H
#define TEST_REDIS_LIAR_H

#include <stdint.h>

struct liar;

/* `error` with a %u for its own port: "MOVED 1 127.0.0.1:%u". */
struct liar *liar_start(const char *error);
/* Whole replies, as they are on the wire: to the next script, and to every one behind it. They must stay. */
void liar_says(struct liar *liar, const char *next, const char *later);
/* A sentinel that has seen the failover number `epoch`, and whose master is at this port. */
struct liar *liar_sentinel(uint16_t master, unsigned epoch);
void liar_names(struct liar *liar, uint16_t master); /* from now on */
uint16_t liar_port(const struct liar *liar);
unsigned liar_scripts(struct liar *liar); /* how many calls came so far */
void liar_stop(struct liar *liar);

#endif
