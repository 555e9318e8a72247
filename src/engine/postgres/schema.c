/* SPDX-License-Identifier: MIT */
/*
 * The schema: sql/ *.sql in the order of their names, `@names` and the like becoming "schema"."holdfast_names".
 * All of it is made in one transaction, and of things that may be there already; a lock of this
 * database that belongs to the transaction lets one client make them, and the others find them.
 *
 * Functions of an older version are replaced, so that all clients, also those of the older version, call the same
 * ones: their parameters and answers are the same. The last function carries the version as its comment.
 */
#include "engine/postgres/internal.h"

#include "engine/postgres/schema_text.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void postgres_name(const struct sql_store *store, const char *what, char *ret_name, size_t size)
{
    snprintf(ret_name, size, "\"%s\".\"%s%s\"", store->conf.schema, store->conf.prefix, what);
}

/* The text with our names in it; `size` is known to be enough. */
static void fill_in(const struct sql_store *store, const char *text, char *to)
{
    char what[64], name[POSTGRES_NAME_MAX];
    size_t len;

    while (*text) {
        if (*text != '@') {
            *to++ = *text++;
            continue;
        }
        for (len = 0; len < sizeof what - 1 &&
                      (isalnum((unsigned char)text[len + 1]) || text[len + 1] == '_');
             len++)
            what[len] = text[len + 1];
        what[len] = 0;
        text += len + 1;
        if (strcmp(what, "prefix") == 0)
            snprintf(name, sizeof name, "%s", store->conf.prefix);
        else if (strcmp(what, "schema") == 0)
            snprintf(name, sizeof name, "\"%s\"", store->conf.schema);
        else if (strcmp(what, "version") == 0)
            snprintf(name, sizeof name, "%d", POSTGRES_VERSION);
        else
            postgres_name(store, what, name, sizeof name);
        len = strlen(name);
        memcpy(to, name, len);
        to += len;
    }
    *to = 0;
}

static size_t room_for(const char *text)
{
    size_t size = strlen(text) + 1;

    for (; *text; text++)
        size += *text == '@' ? POSTGRES_NAME_MAX : 0;
    return size;
}

bool postgres_schema(struct sql_store *store, bool (*emit)(void *arg, const char *sql), void *arg)
{
    bool ok = true;

    for (size_t i = 0; postgres_schema_text[i] && ok; i++) {
        char *sql = hfi_malloc(room_for(postgres_schema_text[i]));

        if (!sql)
            return false;
        fill_in(store, postgres_schema_text[i], sql);
        ok = emit(arg, sql);
        hfi_free(sql);
    }
    return ok;
}

/* The comment of the last function that is made has the version of all of them. Tables, and what is
 * dropped with them, may have been removed since. */
hf_status postgres_probe(struct sql_connection *connection, int64_t deadline_ms,
                         enum sql_found *ret_found, hf_error *err)
{
    static const char *const tables[] = { "names",      "holders",   "waiters",  "clients",
                                          "mail",       "cells",     "watchers", "lock_rows",
                                          "lock_names", "lock_waits" };
    struct sql_rows rows = { 0 };
    struct sql_trouble trouble = { .status = HF_OK };
    char name[POSTGRES_NAME_MAX], sql[13 * (POSTGRES_NAME_MAX + 64)];
    int len;
    hf_status status;

    postgres_name(connection->store, "names", name, sizeof name);
    len = snprintf(sql, sizeof sql, "SELECT CASE WHEN to_regclass('%s') IS NULL THEN 'N'", name);
    postgres_name(connection->store, "token_1", name, sizeof name);
    len += snprintf(sql + len, sizeof sql - (size_t)len,
                    " WHEN substring(obj_description(to_regprocedure('%s(bytea,int8)'), 'pg_proc')"
                    " from '^version ([0-9]{1,9})$')::int >= %d",
                    name, POSTGRES_VERSION);
    postgres_name(connection->store, "turn_1", name, sizeof name);
    len += snprintf(sql + len, sizeof sql - (size_t)len, " AND to_regproc('%s') IS NOT NULL", name);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        postgres_name(connection->store, tables[i], name, sizeof name);
        len += snprintf(sql + len, sizeof sql - (size_t)len, " AND to_regclass('%s') IS NOT NULL",
                        name);
    }
    snprintf(sql + len, sizeof sql - (size_t)len, " THEN 'A' ELSE 'O' END");
    status = sql_text(connection, sql, deadline_ms, &rows, &trouble);
    if (status != HF_OK)
        return hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    if (!sql_fits(&rows, "l", 1, 1))
        return sql_odd(connection, "are the tables there", &rows, err);
    *ret_found = sql_letter(&rows, 0, 0) == 'A'   ? SQL_FOUND_ALL
                 : sql_letter(&rows, 0, 0) == 'O' ? SQL_FOUND_OLD
                                                  : SQL_FOUND_NONE;
    sql_rows_free(&rows);
    return HF_OK;
}

/*
 * A lost connection of ours may still be active on the server: end it, and wait until it is gone.
 * Its number may have been reused, so the start time must be the same.
 */
hf_status postgres_wait_until_gone(struct sql_store *store, int64_t server_id, int64_t since,
                                   int64_t deadline_ms, hf_error *err)
{
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_connection *connection;
    char sql[384];
    hf_status status = sql_take_raw(store, deadline_ms, &connection, err);

    if (status != HF_OK)
        return status;
    snprintf(sql, sizeof sql,
             "SELECT pg_terminate_backend(pid, 500) FROM pg_stat_get_activity(%lld)"
             " WHERE (extract(epoch FROM backend_start) * 1000000)::int8 = %lld",
             (long long)server_id, (long long)since);
    for (bool there = true; status == HF_OK && there;) {
        struct sql_rows rows = { 0 };

        status = sql_text(connection, sql, deadline_ms, &rows, &trouble);
        there = rows.count > 0;
        sql_rows_free(&rows);
        if (status == HF_OK && there && hfi_now_ms() >= deadline_ms)
            status = trouble.status =
                hfi_error_set(&trouble.error, HF_UNAVAILABLE, 0, "a lost connection does not end");
    }
    if (status != HF_OK)
        hfi_error_set(err, status, trouble.error.native, "%s", trouble.error.text);
    sql_give(connection);
    return status;
}
