/* SPDX-License-Identifier: MIT */
/*
 * Real PostgreSQL and MariaDB servers for tests: started, killed, stopped, continued and started again
 * by the test that owns them, each in a directory of its own in /dev/shm (or TMPDIR), as a user
 * without rights (when we are root: postgres, mysql or nobody).
 *
 *   db.c         a server's life
 *   db_data.c    its data directory: made once per build folder and version, then copied
 *   db_speak.c   SQL as the administrator, URLs
 *   pooler.c     pgbouncer in front of it
 *
 * A guardian process ends the server and removes the directory when the test is gone, however that
 * happened, also if the server is stopped just then. Whatever goes wrong here ends the program with
 * the server's log on stderr; no call returns an error. Main thread only, but for db_do() and db_text().
 *
 * The server has a database "test", which belongs to the user "app", and the users "app", "locked"
 * (MariaDB: with the password DB_SECRET; PostgreSQL: app itself has it) and "few", who has no rights.
 */
#ifndef TEST_SQL_DB_H
#define TEST_SQL_DB_H

#include "server.h"

#define DB_OPTIONS 32
#define DB_SECRET  "sesame"

enum db_kind { DB_POSTGRES, DB_MARIADB };

struct db_wish {
    bool password, tls;  /* TLS: with a client certificate, and nothing without */
    bool by_socket;      /* db_url() goes through the unix socket */
    bool few;            /* db_url() is the user "few"'s */
    const char *pooling; /* PostgreSQL: a pgbouncer in front: "transaction", "session" */
    /* "name=value" of the server's configuration; NULL at the end */
    const char *options[DB_OPTIONS];
};

struct db {
    enum db_kind kind;
    struct db_wish wish;
    char dir[64];     /* data/ socket or .s.PGSQL.PORT, log, certificates */
    char socket[128]; /* PostgreSQL: its directory */
    uint16_t port, pooler_port;
    pid_t pid, pooler; /* 0: not running */
    int leash;         /* when all processes that have it are gone, the guardian cleans up */
    void *admin;       /* PGconn, MYSQL */
};

/* Start one and wait until it answers. `wish` may be NULL; its strings must live as long as the server. */
struct db *db_start(enum db_kind kind, const struct db_wish *wish);
/* A clean shutdown that does not wait for transactions. */
void db_stop(struct db *db);
/* SIGKILL to it and to all its processes, and wait for their end. */
void db_kill(struct db *db);
/* Start it again after one of these, on the same port and data. Waits until it answers. */
void db_restart(struct db *db);
/* SIGSTOP to it and all its processes; SIGCONT. */
void db_pause(struct db *db);
void db_continue(struct db *db);
/* Kill it and remove its directory. NULL is fine. */
void db_free(struct db *db);

/* SQL as the administrator, in the database "test", on a connection that is made again if it was lost.
 * One that fails ends the program. The first value of the answer as a number (0: there is none). Any
 * thread, one at a time. */
long long db_do(struct db *db, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first value as text; "" if there is none. */
void db_text(struct db *db, char *ret_text, size_t room, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Run the statements of a file, as the administrator. */
void db_run_file(struct db *db, const char *path);
/* The URL as the wish wants it, with "?prefix=hf{id}_" and `more` ("&mode=row") behind it; static, good
 * until the next call but three. db_url_of: for another user. */
const char *db_url(const struct db *db, const char *more);

/* ---- among themselves ---- */

const char *db_program(enum db_kind kind, const char *name); /* its path; static */
/* Run a program to its end, as the unprivileged user, its output in `log`. false: it failed. */
bool db_run(enum db_kind kind, char *const *args, const char *log, const char *input);
/* Between fork() and exec(): give up root's rights. */
void db_drop_rights(enum db_kind kind);
void db_own(enum db_kind kind, const char *path); /* chown to the unprivileged user */
bool db_answers(struct db *db);                   /* the administrator can log in */
void db_hang_up(struct db *db);
void db_data_copy(struct db *db); /* DIR/data, from the template */
void pooler_start(struct db *db);
void pooler_stop(struct db *db);

#endif
