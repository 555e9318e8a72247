/* SPDX-License-Identifier: MIT */
/* What the server's settings mean for the promises of a lock. */
#include "engine/mariadb/internal.h"

#include "engine/kit/report.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE_ENOUGH 20 /* connections that can still be made */

struct checkup {
    struct hfi_report report;
    struct sql_rows settings, status; /* name, value */
    struct sql_rows rights;           /* this user, and one that matters here */
};

/* Names that only one of MariaDB and MySQL knows are simply not answered. */
static const char settings[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version','innodb_flush_log_at_trx_commit',"
    "'sync_binlog','log_bin','binlog_format','wsrep_on',"
    "'max_connections','rpl_semi_sync_master_enabled','rpl_semi_sync_source_enabled')";
static const char states[] =
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected','Slaves_connected',"
    "'Replicas_connected','Rpl_semi_sync_master_clients','Rpl_semi_sync_source_clients',"
    "'Slaves_running')";

/* The value of a setting; "" if the server has none of that name. */
static const char *value_of(const struct sql_rows *rows, const char *name)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sql_value *key = sql_at(rows, i, 0), *value = sql_at(rows, i, 1);

        if (key->bytes && key->len == strlen(name) && strcasecmp(key->bytes, name) == 0)
            return value->bytes ? value->bytes : "";
    }
    return "";
}

static bool is_on(const struct sql_rows *rows, const char *name)
{
    const char *value = value_of(rows, name);

    return strcasecmp(value, "ON") == 0 || strcmp(value, "1") == 0;
}

static long number_of(const struct sql_rows *rows, const char *first, const char *second)
{
    const char *value = value_of(rows, first);

    return strtol(*value ? value : value_of(rows, second), NULL, 10);
}

static void check_disk(const struct checkup *r)
{
    if (strcmp(value_of(&r->settings, "innodb_flush_log_at_trx_commit"), "1") != 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "innodb_flush_log_at_trx_commit",
                   "%s: a crash forgets the last grants, and their tokens; SET GLOBAL "
                   "innodb_flush_log_at_trx_commit = 1",
                   value_of(&r->settings, "innodb_flush_log_at_trx_commit"));
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "innodb_flush_log_at_trx_commit",
                   "a grant is on the disk before any client hears of it");
    if (!is_on(&r->settings, "log_bin"))
        return;
    if (strcmp(value_of(&r->settings, "binlog_format"), "STATEMENT") == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "binlog_format",
                   "STATEMENT: InnoDB refuses our statements; SET GLOBAL binlog_format = ROW");
    if (number_of(&r->settings, "sync_binlog", "") != 1)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "sync_binlog",
            "not 1: after a crash replicas and this server may differ; SET GLOBAL sync_binlog = 1");
}

static void check_replicas(const struct checkup *r)
{
    long count = number_of(&r->status, "Slaves_connected", "Replicas_connected");
    long semi =
        is_on(&r->settings, "rpl_semi_sync_master_enabled") ||
                is_on(&r->settings, "rpl_semi_sync_source_enabled")
            ? number_of(&r->status, "Rpl_semi_sync_master_clients", "Rpl_semi_sync_source_clients")
            : 0;

    if (is_on(&r->settings, "wsrep_on"))
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                   "a Galera cluster: name one node in the URLs of all clients; a waiter at "
                   "another one is "
                   "woken by its next heartbeat only");
    else if (count == 0)
        hfi_report(&r->report, HFI_CHECK_NOTE, "replication",
                   "no replica: if this server fails, locks wait until it is back");
    else if (semi == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                   "%ld replica%s, none semi-synchronous: one that takes over may lack the last "
                   "grants, and "
                   "two may hold one lock; SET GLOBAL rpl_semi_sync_master_enabled = 1, and "
                   "rpl_semi_sync_slave_enabled = 1 there",
                   count, count == 1 ? "" : "s");
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "replication",
                   "%ld of %ld replica%s semi-synchronous: grants wait for one of them (or for its "
                   "timeout)",
                   semi, count, count == 1 ? "" : "s");
    /* One that is read only was refused when the connection was made. */
    if (number_of(&r->status, "Slaves_running", "") > 0)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "read_only",
            "this server copies another one and can be written to: a lock that is taken here "
            "may end the replication; SET GLOBAL read_only = ON");
}

static hf_status ask(struct sql_connection *connection, const char *sql, int64_t deadline_ms,
                     struct sql_rows *ret_rows, hf_error *err)
{
    struct sql_trouble trouble = { .status = HF_OK };
    hf_status status = sql_text(connection, sql, deadline_ms, ret_rows, &trouble);

    if (status != HF_OK)
        return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    if (!sql_fits(ret_rows, "bb", 0, UINT32_MAX))
        return sql_odd(connection, "settings", ret_rows, err);
    return HF_OK;
}

/* This user as information_schema writes it. */
#define GRANTEE                                                         \
    "CONCAT('\\'', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '\\'@\\''," \
    " SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '\\'')"

/* The rights of this user that matter here. An administrator sees the privileges of all users, so ours alone
 * are asked for. */
static hf_status read_rights(struct sql_connection *connection, int64_t deadline_ms,
                             struct sql_rows *ret_rows, hf_error *err)
{
    return ask(connection,
               "SELECT CURRENT_USER(), PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES "
               "WHERE PRIVILEGE_TYPE IN ('SUPER', 'READ_ONLY ADMIN', 'READ ONLY ADMIN', "
               "'CONNECTION_ADMIN')"
               " AND GRANTEE = " GRANTEE,
               deadline_ms, ret_rows, err);
}

static bool has_right(const struct checkup *r, const char *name)
{
    for (uint32_t i = 0; i < r->rights.count; i++) {
        const struct sql_value *right = sql_at(&r->rights, i, 1);

        if (right->len == strlen(name) && memcmp(right->bytes, name, right->len) == 0)
            return true;
    }
    return false;
}

/* Does read_only not hold for this user? SUPER alone passes it before MariaDB 10.11, and on MySQL. */
static bool passes_read_only(const struct checkup *r)
{
    const char *version = value_of(&r->settings, "version");
    char *rest = NULL;
    long major = strtol(version, &rest, 10), minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
    bool super_is_less = strstr(version, "MariaDB") && (major > 10 || (major == 10 && minor >= 11));

    return has_right(r, "READ_ONLY ADMIN") || has_right(r, "READ ONLY ADMIN") ||
           has_right(r, "CONNECTION_ADMIN") || (has_right(r, "SUPER") && !super_is_less);
}

/* A server that becomes a replica refuses the statements of other users at once; of this one only new
 * connections are refused. */
static void check_passing(const struct checkup *r)
{
    if (passes_read_only(r) && number_of(&r->status, "Slaves_connected", "Replicas_connected") > 0)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "user",
            "this account may write to a replica: connections that are open when this server "
            "becomes one go on granting locks; use an account without READ_ONLY ADMIN and "
            "SUPER");
}

static bool is_local(const struct maria_conf *conf)
{
    char host[256];

    snprintf(host, sizeof host, "%s", conf->host ? conf->host : "");
    return conf->socket || ((!conf->host || hfi_is_local(&(struct hfi_address){ .host = host })) &&
                            !conf->file && !conf->group);
}

/* An option file may set another list of plugins (restricted-auth), which the library does not
 * report. */
static void check_access(const struct checkup *r, struct sql_connection *connection, bool admin)
{
    const struct maria_conf *conf = connection->store->native;
    struct maria_connection *native = connection->native;
    bool password = conf->password && *conf->password;

    hfi_report_access(&r->report,
                      &(struct hfi_access){ .user = conf->user,
                                            .proof = password     ? "a password"
                                                     : conf->cert ? "a certificate"
                                                                  : NULL,
                                            .admin = admin,
                                            .local = is_local(conf),
                                            .tls = mysql_get_ssl_cipher(&native->mysql) != NULL,
                                            .verified = conf->tls == MARIA_TLS_VERIFY,
                                            .tls_how = "tls=on" });
    if (password && maria_trusts(conf))
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "password",
                   "it goes to this server alone: verified TLS, or a socket of this machine");
    else if (password)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_OK, "password",
            "only a challenge is answered: it is never sent, also if the server asks for it%s",
            conf->file || conf->group ? " (unless the option file says restricted-auth)" : "");
}

/* What a role may do is not seen here: for a user with one nothing is said. */
hf_status maria_may_make(struct sql_connection *connection, int64_t deadline_ms, char *ret_lack,
                         size_t room, hf_error *err)
{
    static const char question[] =
        "SELECT DATABASE(), p.r FROM (SELECT 'CREATE' r UNION ALL SELECT 'CREATE ROUTINE'"
        " UNION ALL SELECT 'ALTER ROUTINE') p"
        " WHERE COALESCE(CURRENT_ROLE(), 'NONE') = 'NONE' AND NOT EXISTS"
        " (SELECT 1 FROM information_schema.USER_PRIVILEGES"
        " WHERE PRIVILEGE_TYPE = p.r AND GRANTEE = " GRANTEE ")"
        " AND NOT EXISTS (SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES"
        " WHERE PRIVILEGE_TYPE = p.r AND DATABASE() LIKE TABLE_SCHEMA AND GRANTEE = " GRANTEE ")";
    struct sql_rows rows = { 0 };
    hf_status status = ask(connection, question, deadline_ms, &rows, err);

    if (status != HF_OK)
        return status;
    ret_lack[0] = 0;
    if (rows.count > 0) {
        const struct sql_value *database = sql_at(&rows, 0, 0), *right = sql_at(&rows, 0, 1);

        snprintf(ret_lack, room, "no %.*s on the database %.*s", (int)right->len,
                 right->bytes ? (const char *)right->bytes : "", (int)database->len,
                 database->bytes ? (const char *)database->bytes : "");
    }
    sql_rows_free(&rows);
    return HF_OK;
}

hf_status maria_doctor(struct sql_connection *connection, int64_t deadline_ms,
                       hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct checkup r = { .report = { .finding = finding, .arg = arg } };
    long left;
    hf_status status = ask(connection, settings, deadline_ms, &r.settings, err);

    if (status == HF_OK)
        status = ask(connection, states, deadline_ms, &r.status, err);
    if (status == HF_OK)
        status = read_rights(connection, deadline_ms, &r.rights, err);
    if (status == HF_OK) {
        hfi_report(&r.report, HF_CHECK_LEVEL_OK, "server", "%s%s",
                   strstr(value_of(&r.settings, "version"), "MariaDB") ? "" : "MySQL (untested) ",
                   value_of(&r.settings, "version"));
        check_disk(&r);
        check_replicas(&r);
        check_access(&r, connection, has_right(&r, "SUPER"));
        check_passing(&r);
        left = number_of(&r.settings, "max_connections", "") -
               number_of(&r.status, "Threads_connected", "");
        hfi_report(&r.report, left < FREE_ENOUGH ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK,
                   "connections",
                   "%ld more can be made; a process takes up to %u, and one to listen", left,
                   (unsigned)connection->store->conf.connections);
    }
    sql_rows_free(&r.settings);
    sql_rows_free(&r.status);
    sql_rows_free(&r.rights);
    return status;
}
