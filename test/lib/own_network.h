/* SPDX-License-Identifier: MIT */
/*
 * A network of our own, with a loopback interface and nothing else: other users of this machine reach no server in it, whatever address the
 * server listens on, and no server reaches anything outside of it.
 */
#ifndef TEST_OWN_NETWORK_H
#define TEST_OWN_NETWORK_H

#include <stdbool.h>

/* Move this process, and what it starts from now on, into a network of its own. Call it before there is a second thread. false: this machine
 * does not permit it (in most containers). A child has tried it first, so that nothing has changed then. */
bool own_network(void);

/* The same, once: not if we are in such a network already, and if it is not permitted a line on stderr says what is open to others. For what starts
 * servers of tests. */
void close_to_others(void);
bool closed_to_others(void); /* it was permitted */

#endif
