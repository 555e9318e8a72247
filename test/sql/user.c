/* SPDX-License-Identifier: MIT */
/* See user.h. */
#include "user.h"

#include <libpq-fe.h>
#include <mysql.h>

#include <stdio.h>
#include <stdlib.h>

static PGconn *postgres_dial(uint16_t port)
{
    char text[128];
    PGconn *conn;

    snprintf(text, sizeof text, "host=127.0.0.1 port=%u user=app dbname=test", (unsigned)port);
    conn = PQconnectdb(text);
    if (PQstatus(conn) != CONNECTION_OK)
        give_up("a user's connection: %s", PQerrorMessage(conn));
    return conn;
}

static MYSQL *mariadb_dial(uint16_t port, bool found_rows)
{
    MYSQL *conn = mysql_init(NULL);

    if (!conn || !mysql_real_connect(conn, "127.0.0.1", "app", NULL, "test", port, NULL,
                                     found_rows ? CLIENT_FOUND_ROWS : 0))
        give_up("a user's connection: %s", conn ? mysql_error(conn) : "out of memory");
    return conn;
}

static struct user *dial(struct db *db, uint16_t port, bool found_rows)
{
    struct user *user = calloc(1, sizeof *user);

    if (!user)
        give_up("out of memory");
    user->db = db;
    if (db->kind == DB_POSTGRES)
        user->conn = postgres_dial(port);
    else
        user->conn = mariadb_dial(port, found_rows);
    return user;
}

struct user *user_open(struct db *db, bool found_rows)
{
    return dial(db, db->port, found_rows);
}

struct user *user_open_at(struct db *db, uint16_t port)
{
    return dial(db, port, false);
}

void user_close(struct user *user)
{
    if (user->db->kind == DB_POSTGRES)
        PQfinish(user->conn);
    else
        mysql_close(user->conn);
    free(user);
}

/* ---- statements --------------------------------------------------------------------------------------- */

static int postgres_run(PGconn *conn, const char *sql, int64_t *ret_number)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0)
        *ret_number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

static int mariadb_run(MYSQL *conn, const char *sql, int64_t *ret_number)
{
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (mysql_query(conn, sql) != 0)
        return 1;
    result = mysql_store_result(conn);
    row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        *ret_number = strtoll(row[0], NULL, 10);
    mysql_free_result(result);
    return mysql_errno(conn) != 0;
}

int user_run(const char *sql, int64_t *ret_number, void *arg)
{
    struct user *user = arg;

    if (++user->runs == user->fail_at)
        return 1;
    return user->db->kind == DB_POSTGRES ? postgres_run(user->conn, sql, ret_number)
                                         : mariadb_run(user->conn, sql, ret_number);
}

int64_t user_do(struct user *user, const char *sql)
{
    int64_t number = 0;
    int failed = user->db->kind == DB_POSTGRES ? postgres_run(user->conn, sql, &number)
                                               : mariadb_run(user->conn, sql, &number);

    if (failed)
        give_up("%s: %s", sql,
                user->db->kind == DB_POSTGRES ? PQerrorMessage(user->conn)
                                              : mysql_error(user->conn));
    return number;
}

/* (innodb_trx shows an old state, and frequent queries always see the same one.) */
bool user_waits(struct user *user)
{
    if (user->db->kind == DB_POSTGRES)
        return db_do(user->db,
                     "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND "
                     "wait_event_type = 'Lock'",
                     PQbackendPID(user->conn)) > 0;
    return db_do(user->db, "SELECT variable_value FROM information_schema.global_status WHERE "
                           "variable_name = 'Innodb_row_lock_current_waits'") > 0;
}
