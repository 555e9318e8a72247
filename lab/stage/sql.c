/* SPDX-License-Identifier: MIT */
/* The client of the naive ways; see sql.h. A process has one connection, which the first statement opens. */
#include "sql.h"

#include <libpq-fe.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SQL_ROOM 1024

static struct {
    PGconn *conn;
    pid_t pid; /* a forked child must not touch the connection of its parent */
    char state[8], trouble[200];
} client;

static void keep_trouble(const char *text)
{
    snprintf(client.trouble, sizeof client.trouble, "%.*s", (int)strcspn(text, "\n"), text);
}

/* What is dropped if it exists does not always exist. */
static void ignore_notice(void *arg, const char *text)
{
    (void)arg, (void)text;
}

/* false: it cannot be reached. */
static bool connect_to(const char *url)
{
    if (client.conn && client.pid == getpid())
        return true;
    client.conn = PQconnectdb(url);
    client.pid = getpid();
    PQsetNoticeProcessor(client.conn, ignore_notice, NULL);
    if (PQstatus(client.conn) == CONNECTION_OK)
        return true;
    keep_trouble(PQerrorMessage(client.conn));
    PQfinish(client.conn);
    client.conn = NULL;
    return false;
}

void sql_hang_up(void)
{
    if (client.conn && client.pid == getpid())
        PQfinish(client.conn);
    client.conn = NULL;
}

bool sql_answers(const char *url, char *ret_name, size_t room)
{
    int version;

    if (!connect_to(url))
        return false;
    version = PQserverVersion(client.conn);
    snprintf(ret_name, room, "PostgreSQL %d.%d", version / 10000, version % 10000);
    sql_hang_up();
    return true;
}

/* One statement. NULL: it failed; client.state and client.trouble say why. */
static PGresult *ask(const char *url, const char *sql)
{
    PGresult *result;
    const char *state;

    client.state[0] = 0;
    if (!connect_to(url))
        return NULL;
    result = PQexec(client.conn, sql);
    if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
        return result;
    state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(client.state, sizeof client.state, "%s", state ? state : "");
    keep_trouble(PQerrorMessage(client.conn));
    PQclear(result);
    return NULL;
}

static int64_t first_number(const PGresult *result)
{
    return PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
}

static PGresult *must_ask(struct actor *me, const char *format, va_list args)
{
    char sql[SQL_ROOM];
    PGresult *result;

    vsnprintf(sql, sizeof sql, format, args);
    result = ask(me->stage->url, sql);
    if (!result)
        actor_fails(me, "%s: %s", sql, client.trouble);
    return result;
}

int64_t sql_int(struct actor *me, const char *format, ...)
{
    PGresult *result;
    int64_t number;
    va_list args;

    va_start(args, format);
    result = must_ask(me, format, args);
    va_end(args);
    number = first_number(result);
    PQclear(result);
    return number;
}

void sql_row(struct actor *me, int64_t *ret_values, int count, const char *format, ...)
{
    PGresult *result;
    va_list args;

    va_start(args, format);
    result = must_ask(me, format, args);
    va_end(args);
    if (PQntuples(result) == 0 || PQnfields(result) < count)
        actor_fails(me, "%s: no such row", format);
    for (int i = 0; i < count; i++)
        ret_values[i] = strtoll(PQgetvalue(result, 0, i), NULL, 10);
    PQclear(result);
}

int64_t sql_do(struct actor *me, const char *format, ...)
{
    PGresult *result;
    int64_t rows;
    va_list args;

    va_start(args, format);
    result = must_ask(me, format, args);
    va_end(args);
    rows = strtoll(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return rows;
}

/* Without a code there was no answer, and whether it was done is not known. */
bool sql_try(struct actor *me, const char *format, ...)
{
    char sql[SQL_ROOM];
    PGresult *result;
    va_list args;

    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    result = ask(me->stage->url, sql);
    if (!result && !client.state[0])
        actor_fails(me, "%s: %s", sql, client.trouble);
    if (result)
        PQclear(result);
    return result != NULL;
}

const char *sql_state(void)
{
    return client.state;
}

int sql_run(const char *sql, int64_t *ret_number, void *arg)
{
    struct actor *me = arg;
    PGresult *result = ask(me->stage->url, sql);

    if (!result)
        return 1;
    if (PQntuples(result) > 0)
        *ret_number = first_number(result);
    PQclear(result);
    return 0;
}

int64_t stage_sql(struct stage *stage, const char *format, ...)
{
    char sql[SQL_ROOM];
    PGresult *result;
    int64_t number = 0;
    va_list args;

    if (stage->unclear)
        return 0;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    result = ask(stage->url, sql);
    if (!result) {
        stage_unclear(stage, "%s: %s", sql, client.trouble);
        return 0;
    }
    number = first_number(result);
    PQclear(result);
    return number;
}
