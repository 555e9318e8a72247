/* SPDX-License-Identifier: MIT */
/*
 * Random faults, for as long as a test runs: the server stopped and continued, killed and started again, its
 * sessions ended by the administrator; and of the network between: connections cut, some with late delivery, bytes
 * held back, also for longer than a ttl of a second, delays. None of it loses what was committed: exclusion and
 * tokens must hold through all of it.
 */
#ifndef TEST_SQL_DB_TROUBLE_H
#define TEST_SQL_DB_TROUBLE_H

#include "db.h"
#include "proxy.h"

#include <sys/types.h>

/* In the calling thread, which owns the server, until this child has ended. */
void db_trouble(struct db *db, struct proxy *proxy, uint64_t seed, pid_t child);
/* All sessions of our users, as an administrator ends them. */
void trouble_end_sessions(struct db *db);

#endif
