/* SPDX-License-Identifier: MIT */
/*
 * A user of a database outside Holdfast: its own connection, by libpq or libmariadb, on which the
 * statements of hf_guard_claim_sql() run. One thread at a time each.
 */
#ifndef TEST_SQL_USER_H
#define TEST_SQL_USER_H

#include "db.h"

#include <stdint.h>

struct user {
    struct db *db;
    void *conn;
    int fail_at; /* user_run() fails at this statement, counted from 1; 0: never */
    int runs;    /* statements that went through user_run() */
};

/* found_rows: MariaDB tells how many rows were found and not how many were changed. */
struct user *user_open(struct db *db, bool found_rows);
/* PostgreSQL: through another port, that of a pooler. */
struct user *user_open_at(struct db *db, uint16_t port);
void user_close(struct user *user);
/* Must succeed. The first value of the answer as a number; 0: there is none. */
int64_t user_do(struct user *user, const char *sql);
/* An hf_sql_fn; `user` is its argument. */
int user_run(const char *sql, int64_t *ret_number, void *user);
/* Does it wait for a lock, in the server's eyes? MariaDB says only whether anybody does. */
bool user_waits(struct user *user);

#endif
