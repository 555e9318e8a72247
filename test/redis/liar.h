/* SPDX-License-Identifier: MIT */
/*
 * A server that says it is the only node of a cluster and answers every script with the same error:
 * what a client does with redirections that lead nowhere.
 */
#ifndef TEST_REDIS_LIAR_H
#define TEST_REDIS_LIAR_H

#include <stdint.h>

struct liar;

/* `error` with a %u for its own port: "MOVED 1 127.0.0.1:%u". */
struct liar *liar_start(const char *error);
uint16_t liar_port(const struct liar *liar);
unsigned liar_scripts(struct liar *liar); /* how many calls came so far */
void liar_stop(struct liar *liar);

#endif
