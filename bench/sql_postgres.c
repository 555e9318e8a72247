/* SPDX-License-Identifier: MIT */
/* PostgreSQL, for sql.h. */
#include "sql.h"

#include <errno.h>
#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAMS "/usr/lib/postgresql/*/bin"

struct sql_raw {
    PGconn *db;
};

static void install(const struct sql_server *server)
{
    const char *initdb = sql_program(PROGRAMS, "initdb");
    char data[80];
    const char *argv[] = { initdb,  "-D", data,   "-U",         "bench", "-A",
                           "trust", "-E", "UTF8", "--locale=C", NULL };

    snprintf(data, sizeof data, "%s/data", server->dir);
    if (initdb)
        sql_become(argv);
}

static void serve(const struct sql_server *server)
{
    const char *postgres = sql_program(PROGRAMS, "postgres");
    char data[80], port[16], connections[40];
    const char *argv[] = { postgres,
                           "-D",
                           data,
                           "-p",
                           port,
                           "-h",
                           "127.0.0.1",
                           "-k",
                           "",
                           "-c",
                           connections,
                           "-c",
                           "dynamic_shared_memory_type=mmap",
                           "-c",
                           "shared_preload_libraries=pg_stat_statements",
                           NULL };

    snprintf(data, sizeof data, "%s/data", server->dir);
    snprintf(port, sizeof port, "%u", server->port);
    snprintf(connections, sizeof connections, "max_connections=%u", server->connections);
    if (postgres)
        sql_become(argv);
}

static struct sql_raw *try_open(const struct sql_server *server)
{
    struct sql_raw *raw = calloc(1, sizeof *raw);
    char where[160];

    if (!raw)
        bench_die("out of memory");
    snprintf(where, sizeof where, "host=127.0.0.1 port=%u user=bench dbname=postgres",
             server->port);
    raw->db = PQconnectdb(where);
    if (PQstatus(raw->db) == CONNECTION_OK)
        return raw;
    PQfinish(raw->db);
    free(raw);
    return NULL;
}

static void close_raw(struct sql_raw *raw)
{
    PQfinish(raw->db);
    free(raw);
}

static PGresult *must(struct sql_raw *raw, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(raw->db));
    return result;
}

static void run(struct sql_raw *raw, const char *sql)
{
    PQclear(must(raw, PQexec(raw->db, sql)));
}

static void quiet(void *arg, const char *text)
{
    (void)arg, (void)text;
}

static void prepare(struct sql_raw *raw)
{
    PQsetNoticeProcessor(raw->db, quiet, NULL);
    run(raw, "ALTER SYSTEM SET pg_stat_statements.track = 'none'");
    run(raw, "SELECT pg_reload_conf()");
    run(raw, "SELECT pg_advisory_lock(1); "
             "CREATE TABLE IF NOT EXISTS raw_lock (name text PRIMARY KEY, owner text, "
             "token bigint NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 50); "
             "INSERT INTO raw_lock VALUES ('row', NULL, 0, '-infinity') ON CONFLICT DO NOTHING; "
             "SELECT pg_advisory_unlock(1)");
    PQclear(must(raw, PQprepare(raw->db, "upsert",
                                "INSERT INTO raw_lock AS l VALUES ($1, $2, 1, "
                                "clock_timestamp() + interval '30 s') ON CONFLICT (name) DO UPDATE "
                                "SET owner = EXCLUDED.owner, token = l.token + 1, "
                                "until = EXCLUDED.until WHERE l.until < clock_timestamp() "
                                "RETURNING token",
                                0, NULL)));
    PQclear(must(raw, PQprepare(raw->db, "clear",
                                "UPDATE raw_lock SET owner = NULL, until = '-infinity' "
                                "WHERE name = $1 AND owner = $2",
                                0, NULL)));
    PQclear(must(raw, PQprepare(raw->db, "lock", "SELECT pg_advisory_lock(2)", 0, NULL)));
    PQclear(must(raw, PQprepare(raw->db, "unlock", "SELECT pg_advisory_unlock(2)", 0, NULL)));
}

static void upsert(struct sql_raw *raw)
{
    static const char *const values[] = { "bench-name-00000", "0123456789abcdef" };
    PGresult *result = must(raw, PQexecPrepared(raw->db, "upsert", 2, values, NULL, NULL, 0));

    if (PQntuples(result) != 1)
        bench_die("PostgreSQL: the raw lock is taken");
    PQclear(result);
}

static void clear(struct sql_raw *raw)
{
    static const char *const values[] = { "bench-name-00000", "0123456789abcdef" };

    PQclear(must(raw, PQexecPrepared(raw->db, "clear", 2, values, NULL, NULL, 0)));
}

static void session_lock(struct sql_raw *raw)
{
    PQclear(must(raw, PQexecPrepared(raw->db, "lock", 0, NULL, NULL, NULL, 0)));
}

static void session_unlock(struct sql_raw *raw)
{
    PQclear(must(raw, PQexecPrepared(raw->db, "unlock", 0, NULL, NULL, NULL, 0)));
}

static void row_lock(struct sql_raw *raw)
{
    run(raw, "BEGIN; SELECT token FROM raw_lock WHERE name = 'row' FOR UPDATE");
}

static void row_unlock(struct sql_raw *raw)
{
    run(raw, "COMMIT");
}

/* The extension counts at once, but costs something: only from the first time on that somebody asks. */
static double statements(struct sql_raw *raw)
{
    PGresult *result;
    double count;

    run(raw, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    run(raw, "ALTER SYSTEM SET pg_stat_statements.track = 'top'");
    run(raw, "SELECT pg_reload_conf()");
    bench_sleep(0.2);
    result = must(raw, PQexec(raw->db, "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements"));
    count = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    return count;
}

static double number(struct sql_raw *raw, const char *sql)
{
    PGresult *result = must(raw, PQexec(raw->db, sql));
    double value = strtod(PQgetvalue(result, 0, 0), NULL);

    PQclear(result);
    return value;
}

/*
 * A backend counts for itself, and tells what it has counted at most once a second, and when it ends. A
 * transaction in which a backend only reads what was NOTIFYed is one of them.
 */
static double transactions(struct sql_raw *raw)
{
    do
        bench_sleep(0.2);
    while (number(raw,
                  "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                  "AND pid <> pg_backend_pid()") > 0);
    return number(raw, "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database");
}

static void listen(struct sql_raw *raw)
{
    run(raw, "LISTEN bench");
}

static void ring(struct sql_raw *raw)
{
    run(raw, "UPDATE raw_lock SET token = token + 1 WHERE name = 'row'; NOTIFY bench, 'x'");
}

static void hear(struct sql_raw *raw)
{
    struct pollfd fd = { .fd = PQsocket(raw->db), .events = POLLIN };
    PGnotify *note;

    while (!(note = PQnotifies(raw->db))) {
        if (poll(&fd, 1, -1) < 0 && errno != EINTR)
            bench_die("poll: %s", strerror(errno));
        if (!PQconsumeInput(raw->db))
            bench_die("PostgreSQL: %s", PQerrorMessage(raw->db));
    }
    PQfreemem(note);
}

const struct sql_kind sql_postgres = {
    .name = "PostgreSQL",
    .url = "postgresql://bench@127.0.0.1:",
    .database = "postgres",
    .install = install,
    .serve = serve,
    .try_open = try_open,
    .close = close_raw,
    .prepare = prepare,
    .upsert = upsert,
    .clear = clear,
    .session_lock = session_lock,
    .session_unlock = session_unlock,
    .row_lock = row_lock,
    .row_unlock = row_unlock,
    .statements = statements,
    .transactions = transactions,
    .listen = listen,
    .ring = ring,
    .hear = hear,
};
