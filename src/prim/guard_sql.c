/* SPDX-License-Identifier: MIT */
/*
 * hf_guard_claim_sql(): a token is claimed in the caller's own transaction, on the caller's own
 * connection. We only write the statements; the caller's function runs them, so nothing of any
 * database client is linked here.
 *
 * One row for each guarded resource holds the highest token that was claimed. The claim raises it
 * to ours, unless it is higher, and reads back what is there then: ours, or the token that refuses
 * us. Why that is enough, if everything that the lock protects is written in the transaction that
 * claimed:
 *
 * - the claim locks the row until the transaction ends, so transactions that claim one resource run
 *    one after the other, in some order;
 *  - one with a lower token that comes after one with a higher token sees the higher one and is refused;
 *  - one with a lower token that comes before has ended, with all that it wrote, before the higher one
 *    has its answer; so what the higher one reads after its claim is never overwritten by it.
 *
 * PostgreSQL does it in one statement, without a backslash, which means another name in a session with
 * standard_conforming_strings = off. MySQL has no RETURNING, and the number of changed rows that it
 * reports depends on a flag of the connection (CLIENT_FOUND_ROWS): so there a second statement
 * reads the row, which needs no lock beyond those that we have.
 */
#include "core/request.h"
#include "core/store.h"
#include "holdfast/primitives.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_TABLE "holdfast_guard"
#define TABLE_MAX     128
#define SQL_MAX       (2 * HF_NAME_MAX + TABLE_MAX * 2 + 300)

struct claim {
    char hex[2 * HF_NAME_MAX + 1];
    const char *table;
    uint64_t token;
};

const char *hf_guard_sql_schema(hf_sql_dialect dialect)
{
    switch (dialect) {
    case HF_SQL_DIALECT_POSTGRESQL:
        return "CREATE TABLE " DEFAULT_TABLE " (name bytea PRIMARY KEY, token bigint NOT NULL)";
    case HF_SQL_DIALECT_MYSQL:
        return "CREATE TABLE " DEFAULT_TABLE
               " (name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL) ENGINE=InnoDB";
    }
    return NULL;
}

/* Is this a table name that is safe unquoted? Letters, digits and _, with a dot for
 * schema.table. */
static bool is_table(const char *table)
{
    size_t len = strnlen(table, TABLE_MAX);

    return len > 0 && len < TABLE_MAX &&
           strspn(table, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == len;
}

static hf_status run_one(hf_sql_fn *run, void *arg, const char *sql, int64_t *ret_number,
                         hf_error *err)
{
    if (run(sql, ret_number, arg) == 0)
        return HF_OK;
    return hfi_error_set(err, HF_UNAVAILABLE, 0, "the statement of the claim failed: roll back");
}

static hf_status claim_postgresql(const struct claim *claim, hf_sql_fn *run, void *arg,
                                  int64_t *ret_highest, hf_error *err)
{
    char sql[SQL_MAX];

    snprintf(sql, sizeof sql,
             "INSERT INTO %s AS g (name, token) VALUES (pg_catalog.decode('%s', 'hex'), %" PRIu64
             ")"
             " ON CONFLICT (name) DO UPDATE SET token = GREATEST(g.token, EXCLUDED.token)"
             " RETURNING token",
             claim->table, claim->hex, claim->token);
    return run_one(run, arg, sql, ret_highest, err);
}

static hf_status claim_mysql(const struct claim *claim, hf_sql_fn *run, void *arg,
                             int64_t *ret_highest, hf_error *err)
{
    char sql[SQL_MAX];
    int64_t none = 0;
    hf_status status;

    snprintf(sql, sizeof sql,
             "INSERT INTO %s (name, token) VALUES (X'%s', %" PRIu64 ")"
             " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
             claim->table, claim->hex, claim->token);
    status = run_one(run, arg, sql, &none, err);
    if (status != HF_OK)
        return status;
    snprintf(sql, sizeof sql, "SELECT token FROM %s WHERE name = X'%s' FOR UPDATE", claim->table,
             claim->hex);
    return run_one(run, arg, sql, ret_highest, err);
}

hf_status hf_guard_claim_sql(const hf_guard_sql_request *given, hf_error *err)
{
    hf_guard_sql_request request;
    struct claim claim;
    int64_t highest = 0;
    uint32_t len;
    hf_status status =
        hfi_request_copy(&request, sizeof request, given, offsetof(hf_guard_sql_request, run_arg),
                         "HF_GUARD_SQL_REQUEST_INIT", err);

    if (status == HF_OK)
        status = hfi_name_check(request.name, request.name_len, &len, err);
    if (status != HF_OK)
        return status;
    claim.table = request.table ? request.table : DEFAULT_TABLE;
    claim.token = request.token;
    if (claim.token == 0 || claim.token >= HFI_TOKEN_LIMIT)
        return hfi_error_set(err, HF_INVALID, 0, "token: must be from 1 to 2^53 - 1");
    if (!is_table(claim.table))
        return hfi_error_set(err, HF_INVALID, 0, "table: letters, digits, _ and . only");
    if (!request.run)
        return hfi_error_set(err, HF_INVALID, 0, "run: NULL");
    for (uint32_t i = 0; i < len; i++)
        snprintf(claim.hex + 2 * (size_t)i, 3, "%02x", ((const unsigned char *)request.name)[i]);

    switch (request.dialect) {
    case HF_SQL_DIALECT_POSTGRESQL:
        status = claim_postgresql(&claim, request.run, request.run_arg, &highest, err);
        break;
    case HF_SQL_DIALECT_MYSQL:
        status = claim_mysql(&claim, request.run, request.run_arg, &highest, err);
        break;
    default:
        return hfi_error_set(err, HF_INVALID, 0, "dialect: not an hf_sql_dialect");
    }
    if (status != HF_OK)
        return status;
    if (highest < (int64_t)claim.token)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "the statement of the claim gave no row: roll back");
    if (highest > (int64_t)claim.token)
        return hfi_error_set(err, HF_FENCED, 0,
                             "token %" PRIu64 " is refused: %" PRId64 " has been used", claim.token,
                             highest);
    return hfi_ok(err);
}
