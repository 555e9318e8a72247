/* SPDX-License-Identifier: MIT */
/* MariaDB, for sql.h. */
#include "sql.h"

#include <mariadb/mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE_NAME "WHERE name = 'bench-name-00000'"

struct sql_raw {
    MYSQL *db;
};

static void install(const struct sql_server *server)
{
    char data[80];
    const char *argv[] = {
        "mariadb-install-db", data, "--auth-root-authentication-method=normal", "--skip-test-db",
        "--no-defaults",      NULL
    };

    snprintf(data, sizeof data, "--datadir=%s/data", server->dir);
    sql_become(argv);
}

static void serve(const struct sql_server *server)
{
    const char *mariadbd = sql_program("/usr/sbin", "mariadbd");
    char data[80], port[32], sock[80], pid[80], connections[40];
    const char *argv[] = {
        mariadbd,    "--no-defaults",  data, port, sock, pid, "--bind-address=127.0.0.1",
        connections, "--skip-log-bin", NULL
    };

    snprintf(data, sizeof data, "--datadir=%s/data", server->dir);
    snprintf(port, sizeof port, "--port=%u", server->port);
    snprintf(connections, sizeof connections, "--max-connections=%u", server->connections);
    snprintf(sock, sizeof sock, "--socket=%s/sock", server->dir);
    snprintf(pid, sizeof pid, "--pid-file=%s/pid", server->dir);
    if (mariadbd)
        sql_become(argv);
}

static struct sql_raw *try_open(const struct sql_server *server)
{
    struct sql_raw *raw = calloc(1, sizeof *raw);
    unsigned timeout = 5;

    if (!raw || !(raw->db = mysql_init(NULL)))
        bench_die("out of memory");
    mysql_options(raw->db, MYSQL_OPT_CONNECT_TIMEOUT, &timeout);
    if (mysql_real_connect(raw->db, "127.0.0.1", "root", "", NULL, server->port, NULL,
                           CLIENT_MULTI_STATEMENTS))
        return raw;
    mysql_close(raw->db);
    free(raw);
    return NULL;
}

static void close_raw(struct sql_raw *raw)
{
    mysql_close(raw->db);
    free(raw);
}

/* The number in the first column of the last row, if there is one. */
static double run(struct sql_raw *raw, const char *sql)
{
    double number = 0;
    int more;

    if (mysql_real_query(raw->db, sql, (unsigned long)strlen(sql)) != 0)
        bench_die("MariaDB: %s", mysql_error(raw->db));
    do {
        MYSQL_RES *result = mysql_store_result(raw->db);
        MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;

        if (row && mysql_num_fields(result) > 0 && row[mysql_num_fields(result) - 1])
            number = strtod(row[mysql_num_fields(result) - 1], NULL);
        mysql_free_result(result);
        more = mysql_next_result(raw->db);
    } while (more == 0);
    if (more > 0)
        bench_die("MariaDB: %s", mysql_error(raw->db));
    return number;
}

static void prepare(struct sql_raw *raw)
{
    run(raw, "CREATE DATABASE IF NOT EXISTS bench; USE bench; "
             "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; "
             "CREATE TABLE IF NOT EXISTS raw_lock (name VARBINARY(64) PRIMARY KEY, "
             "owner VARBINARY(16), token BIGINT NOT NULL, until BIGINT NOT NULL) ENGINE=InnoDB; "
             "INSERT IGNORE INTO raw_lock VALUES ('row', NULL, 0, 0)");
}

static void upsert(struct sql_raw *raw)
{
    run(raw, "INSERT INTO raw_lock VALUES ('bench-name-00000', '0123456789abcdef', 1, "
             "UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 + 30000000) ON DUPLICATE KEY UPDATE "
             "owner = IF(until < UNIX_TIMESTAMP(SYSDATE(6)) * 1000000, VALUES(owner), owner), "
             "token = IF(owner = VALUES(owner), token + 1, token), "
             "until = IF(owner = VALUES(owner), VALUES(until), until)");
}

static void clear(struct sql_raw *raw)
{
    run(raw, "UPDATE raw_lock SET owner = NULL, until = 0 " WHERE_NAME
             " AND owner = '0123456789abcdef'");
}

static void session_lock(struct sql_raw *raw)
{
    if (run(raw, "SELECT GET_LOCK('bench', 3600)") != 1)
        bench_die("MariaDB: GET_LOCK");
}

static void session_unlock(struct sql_raw *raw)
{
    run(raw, "SELECT RELEASE_LOCK('bench')");
}

static void row_lock(struct sql_raw *raw)
{
    run(raw, "START TRANSACTION; SELECT token FROM raw_lock WHERE name = 'row' FOR UPDATE");
}

static void row_unlock(struct sql_raw *raw)
{
    run(raw, "COMMIT");
}

static double statements(struct sql_raw *raw)
{
    return run(raw, "SHOW GLOBAL STATUS LIKE 'Questions'");
}

const struct sql_kind sql_mariadb = {
    .name = "MariaDB",
    .url = "mariadb://root@127.0.0.1:",
    .database = "bench",
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
};
