/* SPDX-License-Identifier: MIT */
/*
 * mode=lease on a real server: what the contract suite cannot see from outside. One server for all cases of a
 * program, whose kind is its first argument (postgres, mariadb). A case that breaks the server leaves it whole.
 */
#ifndef TEST_SQL_LEASES_H
#define TEST_SQL_LEASES_H

#include "contract.h"
#include "db.h"
#include "proxy.h"

extern struct db *leases_db;

/* db_url() of `more` ("&op_timeout=900ms") with the id filled in; static, until the next call but three. */
const char *leases_url(const char *id, const char *more);
hf_store *leases_open(const char *more);
hf_store *leases_open_behind(struct proxy *proxy, const char *more);
/* A store that does not answer may keep us a while, and may have work left: that is fine. */
void leases_close(hf_store *store);
/* End all sessions of ours, as an administrator does. */
void leases_end_sessions(void);
/* Another store acquires the name, long before the ttl of a lease that might be left there. */
void leases_gets_free(const char *name);

/* leases_clock.c: servers that are started from here on have a clock that can jump. */
void leases_clock_begin(void);
void leases_clock_end(void);
void leases_clock_jump(int64_t ms);

extern const struct CMUnitTest leases_fault_cases[], leases_heir_cases[], leases_clock_cases[],
    leases_token_cases[], leases_upgrade_cases[], leases_wake_cases[], leases_linger_cases[],
    leases_convert_cases[], leases_size_cases[], leases_churn_cases[];
extern const size_t leases_fault_count, leases_heir_count, leases_clock_count, leases_token_count,
    leases_upgrade_count, leases_wake_count, leases_linger_count, leases_convert_count,
    leases_size_count, leases_churn_count;

#endif
