/* SPDX-License-Identifier: MIT */
/* What the tests of epochs share: looking at nodes and doing things to them, as a healer would that dies in between. */
#ifndef TEST_REDLOCK_HEAL_BED_H
#define TEST_REDLOCK_HEAL_BED_H

#include "nodes.h"

#define SHORT "?max_ttl=3s"
#define ID    16
#define STATE 57                  /* bytes of the field m */
#define HIGH  (UINT64_C(1) << 52) /* a counter that no clock explains */

struct look {
    bool ready;
    /* version, epoch, cluster, n, max_ttl; top and floor come after that */
    unsigned char bytes[STATE];
};

/* A store that is driven all the time, because it holds something. */
struct healer {
    hf_store *store;
    hf_lease *lease;
};

int servers_setup(void **state);
int servers_teardown(void **state);
struct look look_at(unsigned node);
bool all_the_same(void);
double await_same(void);
void set_epoch(unsigned node, double number, const char *id);
void set_marked(unsigned node, const char *marker);
void set_installed(unsigned node, const char *marker);
void raise_counter(unsigned node, const char *name, uint64_t to);
void forget(unsigned node);
struct healer healer_open(const char *own);
void healer_close(struct healer *healer);
uint64_t token_of(hf_store *store, const char *name);

#define SERVERS_TEST(f) cmocka_unit_test_setup_teardown(f, servers_setup, servers_teardown)

#endif
