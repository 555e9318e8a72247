/* SPDX-License-Identifier: MIT */
/* SQL as the administrator, through the unix socket, and the URLs for others; see db.h. */
#include "db.h"

#include <libpq-fe.h>
#include <mysql.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 3 /* a test may have had the connection ended */

struct answer {
    char *text;
    size_t room;
    const char *trouble;
};

/* ---- PostgreSQL ----------------------------------------------------------------------------------- */

static void *postgres_dial(const struct db *db, const char *database)
{
    char text[256];
    PGconn *conn;

    snprintf(text, sizeof text, "host=%s port=%u user=postgres dbname=%s", db->socket,
             (unsigned)db->port, database);
    conn = PQconnectdb(text);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    return NULL;
}

/* false: the connection is gone. */
static bool postgres_run(PGconn *conn, const char *sql, struct answer *answer)
{
    static _Thread_local char words[512];
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
        snprintf(answer->text, answer->room, "%s", PQgetvalue(result, 0, 0));
    else if (PQresultStatus(result) != PGRES_TUPLES_OK &&
             PQresultStatus(result) != PGRES_COMMAND_OK) {
        snprintf(words, sizeof words, "%s", PQerrorMessage(conn));
        answer->trouble = words;
    }
    PQclear(result);
    return PQstatus(conn) == CONNECTION_OK;
}

/* ---- MariaDB --------------------------------------------------------------------------------------- */

static void *mariadb_dial(const struct db *db, const char *database)
{
    MYSQL *conn = mysql_init(NULL);

    if (conn && mysql_real_connect(conn, NULL, "root", NULL, database, 0, db->socket,
                                   CLIENT_MULTI_STATEMENTS))
        return conn;
    if (conn)
        mysql_close(conn);
    return NULL;
}

static bool mariadb_run(MYSQL *conn, const char *sql, struct answer *answer)
{
    static _Thread_local char words[512];
    int more = mysql_query(conn, sql);

    while (more == 0) {
        MYSQL_RES *result = mysql_store_result(conn);
        MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;

        if (row)
            snprintf(answer->text, answer->room, "%s", row[0] ? row[0] : "");
        mysql_free_result(result);
        more = mysql_next_result(conn);
    }
    if (mysql_errno(conn) == 0)
        return true;
    snprintf(words, sizeof words, "%s", mysql_error(conn));
    answer->trouble = words;
    return mysql_errno(conn) < 2000 && mysql_errno(conn) != 1927 && mysql_errno(conn) != 1053;
}

/* ---- both ------------------------------------------------------------------------------------------ */

static void *dial(const struct db *db, const char *database)
{
    return db->kind == DB_POSTGRES ? postgres_dial(db, database) : mariadb_dial(db, database);
}

void db_hang_up(struct db *db)
{
    if (db->admin && db->kind == DB_POSTGRES)
        PQfinish(db->admin);
    else if (db->admin)
        mysql_close(db->admin);
    db->admin = NULL;
}

bool db_answers(struct db *db)
{
    db_hang_up(db);
    db->admin = dial(db, "test");
    return db->admin != NULL;
}

static void ask(struct db *db, const char *sql, struct answer *answer)
{
    for (int i = 0; i < TRIES; i++) {
        bool kept = false;

        answer->text[0] = 0;
        answer->trouble = "no connection";
        if (!db->admin)
            db->admin = dial(db, "test");
        if (db->admin) {
            answer->trouble = NULL;
            kept = db->kind == DB_POSTGRES ? postgres_run(db->admin, sql, answer)
                                           : mariadb_run(db->admin, sql, answer);
        }
        if (!answer->trouble)
            return;
        if (kept)
            break;
        db_hang_up(db);
    }
    give_up("%.200s: %s", sql, answer->trouble);
}

static char *format_sql(const char *format, va_list args)
{
    char *sql;

    if (vasprintf(&sql, format, args) < 0)
        give_up("out of memory");
    return sql;
}

long long db_do(struct db *db, const char *format, ...)
{
    char text[64], *sql;
    struct answer answer = { .text = text, .room = sizeof text };
    va_list args;

    va_start(args, format);
    sql = format_sql(format, args);
    va_end(args);
    ask(db, sql, &answer);
    free(sql);
    return text[0] == 't' ? 1 : atoll(text); /* PostgreSQL's true */
}

void db_text(struct db *db, char *ret_text, size_t room, const char *format, ...)
{
    struct answer answer = { .text = ret_text, .room = room };
    va_list args;
    char *sql;

    va_start(args, format);
    sql = format_sql(format, args);
    va_end(args);
    ask(db, sql, &answer);
    free(sql);
}

void db_run_file(struct db *db, const char *path)
{
    FILE *file = fopen(path, "r");
    char *sql = NULL, text[64];
    struct answer answer = { .text = text, .room = sizeof text };
    size_t room = 0;

    if (!file || getdelim(&sql, &room, 0, file) < 0)
        give_up("%s cannot be read", path);
    fclose(file);
    ask(db, sql, &answer);
    free(sql);
}

/* ---- URLs ------------------------------------------------------------------------------------------ */

static void postgres_url(const struct db *db, char *url, size_t room)
{
    const struct db_wish *wish = &db->wish;
    const char *user = wish->few ? "few" : "app", *secret = wish->password ? ":" DB_SECRET : "";
    unsigned port = db->pooler_port ? db->pooler_port : db->port;
    int n;

    if (wish->by_socket)
        n = snprintf(url, room, "postgresql://%s%s@/test?host=%s&port=%u&prefix=hf{id}_", user,
                     secret, db->socket, port);
    else
        n = snprintf(url, room, "postgresql://%s%s@127.0.0.1:%u/test?prefix=hf{id}_", user, secret,
                     port);
    if (wish->tls)
        snprintf(url + n, room - (size_t)n,
                 "&sslmode=verify-full&sslrootcert=%s/ca.pem&sslcert=%s/app.pem&sslkey=%s/app.key",
                 db->dir, db->dir, db->dir);
}

static void mariadb_url(const struct db *db, char *url, size_t room)
{
    const struct db_wish *wish = &db->wish;
    const char *user = "app";
    int n;

    if (wish->few)
        user = "few";
    else if (wish->tls)
        user = "tls:" DB_SECRET;
    else if (wish->password)
        user = "locked:" DB_SECRET;
    if (wish->by_socket)
        n = snprintf(url, room, "mariadb://%s@localhost/test?socket=%s&prefix=hf{id}_", user,
                     db->socket);
    else
        n = snprintf(url, room, "mariadb://%s@127.0.0.1:%u/test?prefix=hf{id}_", user,
                     (unsigned)db->port);
    if (wish->tls)
        snprintf(url + n, room - (size_t)n, "&ca=%s/ca.pem&cert=%s/app.pem&key=%s/app.key", db->dir,
                 db->dir, db->dir);
}

const char *db_url(const struct db *db, const char *more)
{
    static _Thread_local char texts[4][1024];
    static _Thread_local unsigned turn;
    char *url = texts[turn++ % 4];
    size_t len;

    if (db->kind == DB_POSTGRES)
        postgres_url(db, url, sizeof texts[0]);
    else
        mariadb_url(db, url, sizeof texts[0]);
    len = strlen(url);
    snprintf(url + len, sizeof texts[0] - len, "%s", more);
    return url;
}
