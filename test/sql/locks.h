/* SPDX-License-Identifier: MIT */
/*
 * mode=row and mode=session on a real server: what the contract suite cannot see from outside. One server for
 * all cases of a program, whose kind is its first argument (postgres, mariadb); every case runs in both modes.
 * A case that breaks the server leaves it whole.
 */
#ifndef TEST_SQL_LOCKS_H
#define TEST_SQL_LOCKS_H

#include "contract.h"
#include "db.h"

extern struct db *locks_db;

/* "mode=row&connections=5", one store of it. */
hf_store *locks_open(const char *mode, const char *more);
/* The same, with the status that opening gave instead of a check. */
hf_status locks_try_open(const char *url, hf_store **ret_store);
/* db_url() of `more` with the id filled in. */
const char *locks_url(const char *mode, const char *more);
/* How many sessions of ours the server has; how many of them wait for a lock. */
long long locks_sessions(void);
long long locks_waiting(void);
/* End all sessions of ours that hold something, as an administrator does. */
void locks_end_sessions(void);

/* locks_wait.c, locks_circle.c, locks_loss.c */
extern const struct CMUnitTest locks_wait_cases[], locks_circle_cases[], locks_loss_cases[];
extern const size_t locks_wait_count, locks_circle_count, locks_loss_count;

/* Run `body` in both modes. */
#define BOTH_MODES(body) \
    do {                 \
        body("row");     \
        body("session"); \
    } while (0)

#endif
