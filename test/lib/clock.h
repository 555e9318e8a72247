/* SPDX-License-Identifier: MIT */
/* Servers whose wall clocks the test can move; see clock_shim.c, which they have preloaded. */
#ifndef TEST_REDIS_CLOCK_H
#define TEST_REDIS_CLOCK_H

#include "server.h"

/* Its clock is right at first. A restart leaves it where it was. */
struct server *clock_server(const char *const *options);
/* Move its clock by so much, forward or back. */
void clock_jump_ms(struct server *server, int64_t ms);

#endif
