/* SPDX-License-Identifier: MIT */
/* A server whose wall clock the test can move; see clock_shim.c, which it has preloaded. */
#ifndef TEST_REDIS_CLOCK_H
#define TEST_REDIS_CLOCK_H

#include "server.h"

/* One at a time. Its clock is right at first. */
struct server *clock_server(const char *const *options);
/* Move its clock by so much, forward or back. */
void clock_jump_ms(int64_t ms);

#endif
