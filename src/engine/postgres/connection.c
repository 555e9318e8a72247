/* SPDX-License-Identifier: MIT */
/*
 * Opens, prepares and closes a connection. Nothing here blocks longer than its deadline, except the
 * lookup of host names, which libpq does itself.
 */
#include "engine/postgres/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GREET_TRIES 10

static hf_status greet(struct sql_connection *connection, int64_t deadline_ms, hf_error *err);

bool postgres_poll(PGconn *pg, bool write, int fd, int64_t until_ms)
{
    struct pollfd at[2] = { { .fd = PQsocket(pg), .events = write ? POLLIN | POLLOUT : POLLIN },
                            { .fd = fd, .events = POLLIN } };

    for (;;) {
        int slice_ms = sql_slice_ms(until_ms), rc = poll(at, fd >= 0 ? 2 : 1, slice_ms);

        if (rc > 0)
            return true;
        if (rc == 0 && slice_ms == 0)
            return false;
    }
}

/* ---- connecting ------------------------------------------------------------------------------------ */

/* Was the login refused, or was the server not reached? libpq reports that only as text. */
static hf_status judge(const char *words)
{
    static const char *const later[] = { "starting up",
                                         "shutting down",
                                         "recovery",
                                         "too many",
                                         "remaining connection slots",
                                         "not read-write",
                                         "read-only",
                                         "not yet accepting" };
    static const char *const never[] = {
        "authentication failed", "pg_hba.conf", "does not exist", "permission denied",
        "certificate",           "no password", "not permitted",  "SSL",
    };

    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strstr(words, later[i]))
            return HF_UNAVAILABLE;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(words, never[i]))
            return HF_DENIED;
    return HF_UNAVAILABLE;
}

static void be_quiet(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static PGconn *start(const struct postgres_conf *conf, unsigned host)
{
    const char *keys[POSTGRES_KEYWORDS_MAX + 4], *values[POSTGRES_KEYWORDS_MAX + 4];
    const char *const own[][2] = { { "host", conf->host[host] },
                                   { "hostaddr", conf->hostaddr[host] },
                                   { "port", conf->port[host] } };
    unsigned n = 0;

    for (unsigned i = 0; i < conf->count; i++) {
        if (strcmp(conf->keys[i], "host") == 0 || strcmp(conf->keys[i], "hostaddr") == 0 ||
            strcmp(conf->keys[i], "port") == 0)
            continue;
        keys[n] = conf->keys[i];
        values[n++] = conf->values[i];
    }
    for (unsigned i = 0; i < 3; i++)
        if (own[i][1] && *own[i][1]) {
            keys[n] = own[i][0];
            values[n++] = own[i][1];
        }
    keys[n] = values[n] = NULL;
    return PQconnectStartParams(keys, values, 0);
}

static hf_status connect_one(struct sql_store *store, unsigned host, int64_t deadline_ms,
                             PGconn **ret_pg, hf_error *err)
{
    PGconn *pg = start(store->native, host);
    PostgresPollingStatusType want = PGRES_POLLING_WRITING;
    char words[HF_ERROR_TEXT_MAX];
    hf_status status = HF_OK;

    if (!pg)
        return hfi_error_memory(err);
    PQsetNoticeReceiver(pg, be_quiet, NULL);
    while (PQstatus(pg) != CONNECTION_BAD && want != PGRES_POLLING_OK &&
           want != PGRES_POLLING_FAILED) {
        if (!postgres_poll(pg, want == PGRES_POLLING_WRITING, -1, deadline_ms)) {
            status = hfi_error_set(err, HF_UNAVAILABLE, 0, "the server does not answer");
            break;
        }
        want = PQconnectPoll(pg);
    }
    if (status == HF_OK && want != PGRES_POLLING_OK) {
        postgres_words(store, PQerrorMessage(pg), words, sizeof words);
        status = hfi_error_set(err, judge(words), 0, "%s", words);
    }
    if (status != HF_OK) {
        PQfinish(pg);
        return status;
    }
    *ret_pg = pg;
    return HF_OK;
}

/* Try the hosts in turn, beginning with the one that answered last; each gets its share of the
 * time. */
static hf_status connect_any(struct sql_store *store, int64_t deadline_ms, PGconn **ret_pg,
                             hf_error *err)
{
    struct postgres_conf *conf = store->native;
    unsigned first = atomic_load(&conf->last);
    hf_status status = HF_UNAVAILABLE;

    for (unsigned i = 0; i < conf->hosts; i++) {
        unsigned host = (first + i) % conf->hosts;
        int64_t now_ms = hfi_now_ms();
        int64_t share_ms = (deadline_ms - now_ms) / (int64_t)(conf->hosts - i);

        status = connect_one(store, host, now_ms + (share_ms > 0 ? share_ms : 0), ret_pg, err);
        if (status == HF_OK) {
            atomic_store(&conf->last, host);
            return HF_OK;
        }
    }
    return status;
}

hf_status postgres_open(struct sql_store *store, int64_t deadline_ms,
                        struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *connection = hfi_calloc(1, sizeof(struct postgres_connection));
    PGconn *pg = NULL;
    hf_status status;

    if (!connection)
        return hfi_error_memory(err);
    connection->store = store;
    status = connect_any(store, deadline_ms, &pg, err);
    if (status == HF_OK) {
        connection->native = pg;
        PQsetnonblocking(pg, 1);
        status = greet(connection, deadline_ms, err);
    }
    if (status != HF_OK) {
        postgres_close(connection);
        return status;
    }
    *ret_connection = connection;
    return HF_OK;
}

/*
 * The session, as we need it, whatever the role's or the database's defaults are. enable_seqscan:
 * plans are made while the tables are empty, and are kept. synchronous_commit stays as the operator
 * chose it.
 */
static const char session[] =
    "SET statement_timeout = 0; SET lock_timeout = 0;"
    "SET default_transaction_isolation = 'read committed';"
    "SET default_transaction_read_only = off;"
    "SET idle_in_transaction_session_timeout = 0; SET idle_session_timeout = 0;"
    "SET search_path = pg_catalog, pg_temp; SET client_min_messages = error;"
    "SET standard_conforming_strings = on; SET bytea_output = 'hex';"
    "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan;"
    "SELECT pid::int8, (extract(epoch FROM backend_start) * 1000000)::int8, pg_is_in_recovery(),"
    " (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::int8"
    " FROM pg_stat_get_activity(pg_backend_pid())";

/* Another server, or the same after a restart: it may lack the last commits. */
static void meet(struct sql_store *store, int64_t born)
{
    struct postgres_conf *conf = store->native;
    int64_t before = atomic_exchange(&conf->born, born);

    if (before != 0 && before != born && store->conf.mode == SQL_MODE_LEASE && store->host->doubt)
        store->host->doubt(store->host, "the server is another one now, or was restarted");
}

static hf_status greet(struct sql_connection *connection, int64_t deadline_ms, hf_error *err)
{
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble = { .status = HF_OK };
    enum sql_outcome outcome = SQL_REFUSED;
    hf_status status = HF_OK;

    if (PQserverVersion(connection->native) < 140000)
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "the server is PostgreSQL %d: 14 or newer is needed",
                             PQserverVersion(connection->native) / 10000);
    /* A role's statement_timeout of a few ms may end the very statement that removes it. */
    for (int i = 0; i < GREET_TRIES && outcome == SQL_REFUSED && !connection->dead; i++)
        outcome = postgres_text(connection, session, deadline_ms, &rows, &trouble);
    if (outcome != SQL_DONE)
        return hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
    if (!sql_fits(&rows, "itlt", 1, 1))
        return sql_odd(connection, "greeting", &rows, err);
    connection->server_id = sql_int(&rows, 0, 0);
    connection->since = sql_int(&rows, 0, 1);
    if (sql_letter(&rows, 0, 2) == 't')
        status = hfi_error_set(err, HF_UNAVAILABLE, 0,
                               "the server is a standby, on which nothing can be locked");
    if (status == HF_OK)
        meet(connection->store, sql_int(&rows, 0, 3));
    sql_rows_free(&rows);
    return status;
}

/* ---- the end ---------------------------------------------------------------------------------------- */

void postgres_close(struct sql_connection *connection)
{
    if (connection->native)
        PQfinish(connection->native);
    hfi_free(connection);
}

/* In a forked child. libpq's memory is not freed: that would send a goodbye to the server. */
void postgres_abandon(struct sql_connection *connection)
{
    int fd = connection->native ? PQsocket(connection->native) : -1;

    if (fd >= 0)
        close(fd);
}

int postgres_fd(struct sql_connection *connection)
{
    return PQsocket(connection->native);
}

/* An idle connection is readable only if its server is going away. */
bool postgres_alive(struct sql_connection *connection)
{
    PGconn *pg = connection->native;
    struct pollfd at = { .fd = PQsocket(pg), .events = POLLIN };

    if (connection->dead || PQstatus(pg) != CONNECTION_OK)
        return false;
    for (int i = 0; i < 3; i++) { /* first the server's last message, then the end */
        if (poll(&at, 1, 0) <= 0)
            return true;
        if (!PQconsumeInput(pg) || PQstatus(pg) != CONNECTION_OK)
            return false;
    }
    return false;
}
