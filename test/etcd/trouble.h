/* SPDX-License-Identifier: MIT */
/*
 * Random faults, for as long as a test runs. One server behind a proxy: connections cut, some with
 * late delivery; bytes held back, also for longer than a ttl of a second; delays; the server
 * stopped and continued, killed and restarted. Three servers: members stopped, killed and
 * restarted, one at a time. None of it loses data: exclusion and tokens must hold through all of it.
 */
#ifndef TEST_ETCD_TROUBLE_H
#define TEST_ETCD_TROUBLE_H

#include "cluster.h"
#include "proxy.h"

#include <sys/types.h>

/* In the calling thread, which owns the servers, until this child has ended. `proxy` NULL: none. */
void trouble(struct etcd_cluster *cluster, struct proxy *proxy, uint64_t seed, pid_t child);

#endif
