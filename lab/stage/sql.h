/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL server of the lab, and the client of the naive ways: libpq, one statement at a time. An error, or no answer, ends the
 * actor (actor_fails()), but for sql_try().
 *
 *   postgres.c   the server; sql_open() and sql_close() are `open` and `close` of an experiment
 *   sql.c        the client
 */
#ifndef LAB_SQL_H
#define LAB_SQL_H

#include "stage.h"

/* Start one in a directory of its own, with the user "postgres", who needs no password: it listens on a socket in that directory only, into which
 * nobody else can look. stage->url is its URL. */
void sql_open(struct stage *stage);
void sql_close(struct stage *stage);

/* The first value of the answer as a number; 0: there is none. */
int64_t sql_int(struct actor *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first `count` values of the first row, as numbers. */
void sql_row(struct actor *me, int64_t *ret_values, int count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* How many rows were inserted, changed or deleted. */
int64_t sql_do(struct actor *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* false: the server says that it failed, and sql_state() says why: a code of five characters. */
bool sql_try(struct actor *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sql_state(void);
/* For hf_guard_claim_sql(): one statement on the connection of this process. `arg` is the actor. */
int sql_run(const char *sql, int64_t *ret_number, void *arg);
/* The director's own statements; an error makes the stage unclear. The first value as a number. */
int64_t stage_sql(struct stage *stage, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- between the two files ---- */

/* Can one log in? Then this is what the server calls itself. */
bool sql_answers(const char *url, char *ret_name, size_t room);
void sql_hang_up(void); /* the connection of this process */

#endif
