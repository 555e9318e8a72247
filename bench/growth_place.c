/* SPDX-License-Identifier: MIT */
/* See growth_place.h. */
#include "growth_place.h"

#include "place.h"
#include "redis_server.h"
#include "sql.h"

#include <errno.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- processes -------------------------------------------------------------------------------- */

static double cpu_of(pid_t pid)
{
    struct timespec spent;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0)
        return 0; /* it has just ended */
    return (double)spent.tv_sec + (double)spent.tv_nsec / 1e9;
}

static double anon_of(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = strtod(line + 8, NULL);
    if (file)
        fclose(file);
    return kib * 1024;
}

static double sum(pid_t pid, double (*of)(pid_t pid))
{
    double total = pid > 0 ? of(pid) : 0;
    char path[64];
    FILE *file;
    char children[4096], *at = children, *end;
    long child;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = pid > 0 ? fopen(path, "re") : NULL;
    if (!file || !fgets(children, sizeof children, file))
        children[0] = 0;
    for (; (child = strtol(at, &end, 10)) > 0; at = end)
        total += of((pid_t)child);
    if (file)
        fclose(file);
    return total;
}

double growth_cpu(pid_t pid)
{
    return sum(pid, cpu_of);
}

double growth_anon(pid_t pid)
{
    return sum(pid, anon_of);
}

/* ---- the embedded store: bytes of its files ------------------------------------------------------ */

static void start_embedded(const struct bench *bench, struct growth_place *place, unsigned clients)
{
    static unsigned count;

    (void)clients;
    snprintf(place->url, sizeof place->url, "file:%s/store%u", bench->dir, count++);
    if (mkdir(place->url + strlen("file:"), 0700) != 0)
        bench_die("mkdir: %s", strerror(errno));
}

static void stop_embedded(struct growth_place *place)
{
    place_remove(place->url + strlen("file:"));
}

static double bytes_embedded(struct growth_place *place)
{
    return place_bytes(place->url + strlen("file:"));
}

const struct growth_engine growth_embedded = {
    .name = "embedded",
    .names_max = 1000000,
    .renew_max = 1000000,
    .waiters_max = 10000,
    .clients_max = 2000, /* processes */
    .names_a_second = 60000,
    .start = start_embedded,
    .stop = stop_embedded,
    .bytes = bytes_embedded,
};

/* ---- Redis: what it says that it uses -------------------------------------------------------------- */

static void start_redis(const struct bench *bench, struct growth_place *place, unsigned clients)
{
    struct redis_server *server = redis_server_start(bench);

    (void)clients;
    place->server = server;
    place->pid = server->pid;
    snprintf(place->url, sizeof place->url, "%s", server->url);
}

static void stop_redis(struct growth_place *place)
{
    redis_server_stop(place->server);
}

static double bytes_redis(struct growth_place *place)
{
    const struct redis_server *server = place->server;
    const char *text, *found;
    size_t len;

    text = raw_redis_ask(server->control, &len, (const char *const[]){ "INFO", "memory", NULL });
    found = memmem(text, len, "used_memory:", strlen("used_memory:"));
    return found ? strtod(found + strlen("used_memory:"), NULL) : 0;
}

const struct growth_engine growth_redis = {
    .name = "redis",
    .names_max = 1000000,
    .renew_max = 1000000,
    .waiters_max = 10000,
    .clients_max = 5000,
    .client_processes = 8,
    .names_a_second = 30000,
    .start = start_redis,
    .stop = stop_redis,
    .bytes = bytes_redis,
};

/* ---- PostgreSQL: the size of the database, and the memory of its backends ------------------------------ */

#define CONNECTIONS_EACH 3 /* of a client, at most */

static void start_postgres(const struct bench *bench, struct growth_place *place, unsigned clients)
{
    struct sql_server *server =
        sql_server_start_for(bench, &sql_postgres, 50 + CONNECTIONS_EACH * clients);

    place->server = server;
    place->pid = server->pid;
    snprintf(place->url, sizeof place->url, "%s", server->url);
}

static void stop_postgres(struct growth_place *place)
{
    sql_server_stop(place->server);
}

static double bytes_postgres(struct growth_place *place)
{
    const struct sql_server *server = place->server;
    char where[160];
    PGresult *result;
    double bytes;
    PGconn *db;

    snprintf(where, sizeof where, "host=127.0.0.1 port=%u user=bench dbname=postgres",
             server->port);
    db = PQconnectdb(where);
    result = PQexec(db, "SELECT pg_database_size(current_database())");
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        bench_die("PostgreSQL: %s", PQerrorMessage(db));
    bytes = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    PQfinish(db);
    return bytes;
}

static double memory_postgres(struct growth_place *place)
{
    return growth_anon(place->pid);
}

const struct growth_engine growth_postgres = {
    .name = "postgres",
    .names_max = 100000, /* a million takes minutes to be taken */
    .renew_max = 100000,
    .waiters_max = 10000,
    .clients_max = 500, /* 5 to 9 MB each, in the server */
    .client_processes = 4,
    .names_a_second = 4000,
    .start = start_postgres,
    .stop = stop_postgres,
    .bytes = bytes_postgres,
    .memory = memory_postgres,
};
