/* SPDX-License-Identifier: MIT */
/*
 * The test bed of the Redis engine: for every case a fresh server and a proxy before it.
 */
#ifndef TEST_REDIS_BED_H
#define TEST_REDIS_BED_H

#include "bed.h"
#include "redis_server.h"

extern struct server *server;
extern struct proxy *proxy;

int bed_setup(void **state);
int bed_setup_clock(void **state); /* the server's clock can be moved */
int bed_teardown(void **state);
#define TEST(f)       cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)
#define TEST_CLOCK(f) cmocka_unit_test_setup_teardown(f, bed_setup_clock, bed_teardown)

hf_store *open_direct(void);
hf_store *open_through(void); /* the proxy */
/* Peers, and open_store(), use this from now on. */
void aim(const char *url);

#endif
