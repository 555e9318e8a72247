/* SPDX-License-Identifier: MIT */
/* What the server's settings mean for the promises of a lock. */
#include "engine/postgres/internal.h"

#include "engine/kit/report.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* What is asked for, column by column. */
enum { VERSION, FSYNC, COMMIT, PAGES, STANDBYS, SYNC, NAMES, LEFT, BACKEND, SUPERUSER };
static const char shape[] = "bbbbiibiib";

static const char question[] =
    "SELECT current_setting('server_version'), current_setting('fsync'),"
    " current_setting('synchronous_commit'), current_setting('full_page_writes'),"
    " (SELECT count(*) FROM pg_stat_get_wal_senders()),"
    " (SELECT count(*) FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum')),"
    " current_setting('synchronous_standby_names') <> '',"
    " current_setting('max_connections')::int8 - (SELECT count(*) FROM pg_stat_get_activity(NULL)),"
    " pg_backend_pid()::int8, current_setting('is_superuser')";

static const char *text(const struct sql_rows *rows, int column, char *buf, size_t size)
{
    const struct sql_value *value = sql_at(rows, 0, (uint32_t)column);

    snprintf(buf, size, "%.*s", (int)value->len, value->len ? (const char *)value->bytes : "");
    return buf;
}

static bool is(const struct sql_rows *rows, int column, const char *word)
{
    char buf[64];

    return strcmp(text(rows, column, buf, sizeof buf), word) == 0;
}

static void check_disk(const struct hfi_report *r, const struct sql_rows *rows)
{
    if (is(rows, FSYNC, "off"))
        hfi_report(
            r, HF_CHECK_LEVEL_BAD, "fsync",
            "off: after a power cut the database may be damaged, and tokens may come again; ALTER "
            "SYSTEM SET fsync = on");
    else if (is(rows, PAGES, "off"))
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "full_page_writes",
            "off: safe only where the disk writes whole pages; ALTER SYSTEM SET full_page_writes = "
            "on");
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "fsync", "on");
    if (is(rows, COMMIT, "off"))
        hfi_report(r, HF_CHECK_LEVEL_WARNING, "synchronous_commit",
                   "off: a crash of the server forgets the last grants, and their tokens; ALTER "
                   "SYSTEM SET "
                   "synchronous_commit = on");
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "synchronous_commit",
                   "a grant is on the disk before any client hears of it");
}

static void check_standbys(const struct hfi_report *r, const struct sql_rows *rows)
{
    long long count = sql_int(rows, 0, STANDBYS), sync = sql_int(rows, 0, SYNC);

    if (count == 0)
        hfi_report(r, HFI_CHECK_NOTE, "replication",
                   "no standby: if this server fails, locks wait until it is back");
    else if (sync == 0)
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "replication",
            "%lld standby%s, none synchronous: one that takes over may lack the last grants, and "
            "two may hold one lock; ALTER SYSTEM SET synchronous_standby_names = '*'",
            count, count == 1 ? "" : "s");
    else if (is(rows, COMMIT, "off") || is(rows, COMMIT, "local"))
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "replication",
            "%lld synchronous standby%s, but synchronous_commit does not wait; ALTER SYSTEM SET "
            "synchronous_commit = on",
            sync, sync == 1 ? "" : "s");
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "replication", "%lld of %lld standby%s %s every grant",
                   sync, count, count == 1 ? "" : "s", sync == 1 ? "has" : "have");
}

/* The value of an option of this connection; "" if it has none. */
static const char *option(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        if (strcmp(o->keyword, keyword) == 0 && o->val)
            return o->val;
    return "";
}

static bool is_local(PGconn *pg)
{
    char *host = PQhost(pg);

    return !host || *host == '/' || hfi_is_local(&(struct hfi_address){ .host = host });
}

/* Is the server certainly the intended one, before it gets a password? */
static bool is_certain(PGconn *pg, const PQconninfoOption *options, bool verified)
{
    const char *methods = option(options, "require_auth"); /* of libpq 16 */

    return is_local(pg) || verified || (*methods && !strstr(methods, "password")) ||
           (PQsslInUse(pg) && strcmp(option(options, "channel_binding"), "require") == 0);
}

static void check_access(const struct hfi_report *r, PGconn *pg, bool superuser)
{
    PQconninfoOption *options = PQconninfo(pg);
    bool tls = PQsslInUse(pg), password = PQconnectionUsedPassword(pg);
    bool verified = tls && *option(options, "sslmode") == 'v'; /* verify-ca, verify-full */

    hfi_report_access(r, &(struct hfi_access){ .user = PQuser(pg),
                                               .proof = password ? "a password"
                                                        : tls && *option(options, "sslcert")
                                                            ? "a certificate"
                                                            : NULL,
                                               .admin = superuser,
                                               .local = is_local(pg),
                                               .tls = tls,
                                               .verified = verified,
                                               .tls_how = "sslmode=verify-full" });
    if (password && is_certain(pg, options, verified))
        hfi_report(r, HF_CHECK_LEVEL_OK, "password",
                   "it goes to this server alone, or only as the answer to a challenge");
    else if (password)
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "password",
            "any server at this address can ask for it in clear text, and libpq sends it: use "
            "sslmode=verify-full (with libpq 16 or later require_auth=scram-sha-256 helps too)");
    PQconninfoFree(options);
}

/* Roles that use these tables and may not end each other's naps. */
static void check_ringing(const struct hfi_report *r, struct sql_connection *connection,
                          int64_t deadline_ms)
{
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[512], clients[POSTGRES_NAME_MAX], may[POSTGRES_NAME_MAX], role[64];

    if (connection->store->conf.mode != SQL_MODE_LEASE)
        return;
    postgres_name(connection->store, "clients", clients, sizeof clients);
    postgres_name(connection->store, "may_ring_1", may, sizeof may);
    snprintf(sql, sizeof sql,
             "SELECT c.role::text FROM %s c WHERE c.role IS NOT NULL AND NOT %s(c.role) LIMIT 1",
             clients, may);
    if (postgres_text(connection, sql, deadline_ms, &rows, &trouble) != SQL_DONE)
        return; /* there are no tables yet */
    if (rows.count > 0 && sql_fits(&rows, "b", 1, 1))
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "wake-up",
            "this role may not end statements of the role %s: its clients are woken by NOTIFY, "
            "which costs one transaction in every client; GRANT one role to the other, or "
            "pg_signal_backend",
            text(&rows, 0, role, sizeof role));
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "wake-up", "a waiter is woken alone");
    sql_rows_free(&rows);
}

/* ---- rights ------------------------------------------------------------------------------------ */

/* From PostgreSQL 15 on an ordinary user may not create anything in the schema public. What is replaced must be the user's own. */
hf_status postgres_may_make(struct sql_connection *connection, int64_t deadline_ms, char *ret_lack,
                            size_t room, hf_error *err)
{
    const struct sql_store *store = connection->store;
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[6 * POSTGRES_NAME_MAX + 512], names[POSTGRES_NAME_MAX];
    hf_status status;

    postgres_name(store, "names", names, sizeof names);
    snprintf(sql, sizeof sql,
             "SELECT CASE WHEN to_regnamespace('\"%s\"') IS NULL THEN 'S'"
             " WHEN NOT (has_schema_privilege(to_regnamespace('\"%s\"'), 'USAGE')"
             " AND has_schema_privilege(to_regnamespace('\"%s\"'), 'CREATE')) THEN 'C'"
             " WHEN EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('%s')"
             " AND NOT pg_has_role(relowner, 'USAGE')) THEN 'O' ELSE 'Y' END",
             store->conf.schema, store->conf.schema, store->conf.schema, names);
    status = sql_text(connection, sql, deadline_ms, &rows, &trouble);
    if (status == HF_OK && !sql_fits(&rows, "l", 1, 1))
        return sql_odd(connection, "may this user create the tables", &rows, err);
    if (status != HF_OK)
        return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    switch (sql_letter(&rows, 0, 0)) {
    case 'S':
        snprintf(ret_lack, room, "there is no schema %s", store->conf.schema);
        break;
    case 'C':
        snprintf(ret_lack, room, "no CREATE on the schema %s", store->conf.schema);
        break;
    case 'O':
        snprintf(ret_lack, room, "those that are there belong to another role");
        break;
    default:
        ret_lack[0] = 0;
    }
    sql_rows_free(&rows);
    return HF_OK;
}

/* The rights that locks need on tables that are there. */
static void check_rights(const struct hfi_report *r, struct sql_connection *connection,
                         int64_t deadline_ms)
{
    static const char needed[] =
        "('names', 'SELECT INSERT UPDATE DELETE'), ('holders', 'SELECT INSERT UPDATE DELETE'),"
        " ('waiters', 'SELECT INSERT UPDATE DELETE'), ('clients', 'SELECT INSERT UPDATE DELETE'),"
        " ('mail', 'SELECT INSERT UPDATE DELETE')";
    static const char needed_by_modes[] =
        "('lock_names', 'SELECT INSERT'), ('lock_rows', 'SELECT INSERT UPDATE'),"
        " ('lock_waits', 'SELECT INSERT DELETE')";
    const struct sql_store *store = connection->store;
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[2 * POSTGRES_NAME_MAX + 1024], what[POSTGRES_NAME_MAX], how[32];

    snprintf(sql, sizeof sql,
             "SELECT at::text, \"right\" FROM (VALUES %s) n(name, rights),"
             " LATERAL to_regclass('\"%s\".\"%s' || name || '\"') at,"
             " LATERAL regexp_split_to_table(rights, ' ') \"right\""
             " WHERE at IS NOT NULL AND NOT has_table_privilege(at, \"right\") LIMIT 1",
             store->conf.mode == SQL_MODE_LEASE ? needed : needed_by_modes, store->conf.schema,
             store->conf.prefix);
    if (sql_text(connection, sql, deadline_ms, &rows, &trouble) != HF_OK) {
        hfi_report(r, HF_CHECK_LEVEL_WARNING, "rights", "not known (%s)", trouble.error.text);
        return;
    }
    if (rows.count > 0 && sql_fits(&rows, "bb", 1, 1))
        hfi_report(r, HF_CHECK_LEVEL_BAD, "rights",
                   "this user may not do all that locks need: %s on %s is missing (GRANT; the list "
                   "is in holdfast-engines(7))",
                   text(&rows, 1, how, sizeof how), text(&rows, 0, what, sizeof what));
    sql_rows_free(&rows);
}

hf_status postgres_doctor(struct sql_connection *connection, int64_t deadline_ms,
                          hfi_finding_fn *finding, void *arg, hf_error *err)
{
    const struct hfi_report r = { .finding = finding, .arg = arg };
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char version[64];
    hf_status status = sql_text(connection, question, deadline_ms, &rows, &trouble);

    if (status == HF_OK && !sql_fits(&rows, shape, 1, 1))
        status = sql_odd(connection, "settings", &rows, &trouble.error);
    if (status != HF_OK) {
        sql_rows_free(&rows);
        return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    }
    hfi_report(&r, HF_CHECK_LEVEL_OK, "server", "PostgreSQL %s",
               text(&rows, VERSION, version, sizeof version));
    check_disk(&r, &rows);
    check_standbys(&r, &rows);
    check_access(&r, connection->native, is(&rows, SUPERUSER, "on"));
    if (PQbackendPID(connection->native) != (int)sql_int(&rows, 0, BACKEND))
        hfi_report(&r, HF_CHECK_LEVEL_WARNING, "pooler",
                   "there is a pooler between us and the server: it must pool whole sessions, not "
                   "transactions (pool_mode = session)");
    else
        hfi_report(&r, HF_CHECK_LEVEL_OK, "pooler", "none: the connection is the server's own");
    hfi_report(&r, sql_int(&rows, 0, LEFT) < 20 ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK,
               "connections", "%lld more can be made; a process takes up to %u, and one to listen",
               (long long)sql_int(&rows, 0, LEFT), (unsigned)connection->store->conf.connections);
    sql_rows_free(&rows);
    check_rights(&r, connection, deadline_ms);
    check_ringing(&r, connection, deadline_ms);
    return HF_OK;
}
