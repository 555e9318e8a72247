/* SPDX-License-Identifier: MIT */
/* The doctor of mode=row and mode=session: checks what these modes can promise here, and what could
 * end a lease. */
#include "engine/sql/native_lock.h"

#include "engine/kit/report.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>

static void about_mode(const struct hfi_report *report, const struct sql_store *store)
{
    hfi_report(
        report, HF_CHECK_LEVEL_OK, "mode",
        store->conf.mode == SQL_MODE_ROW
            ? "a lease is a locked row, in a transaction that stays open on a connection of its own"
            : "a lease is an advisory lock of a session; many share a connection");
    if (!store->conf.tokens)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "tokens",
                   "none: a holder that was paused while the server dropped its connection is not "
                   "fenced; use tokens=on");
    if (store->conf.pooled)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "pooler",
                   "pooler=session: that it pools by session, and never by transaction, cannot be "
                   "verified; see that its pool_mode is session");
}

/* Rows of name and value: time limits that are set on this server. */
static void about_limits(const struct hfi_report *report, const struct sql_rows *rows)
{
    char text[256];

    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sql_value *name = sql_at(rows, i, 0), *value = sql_at(rows, i, 1);

        snprintf(text, sizeof text,
                 "%.*s is %.*s on this server: connections that hold leases have it switched off",
                 (int)name->len, name->bytes ? (const char *)name->bytes : "", (int)value->len,
                 value->bytes ? (const char *)value->bytes : "");
        hfi_report(report, HF_CHECK_LEVEL_OK, "time limits", "%s", text);
    }
}

/* After how many seconds the server probes a silent host; 0: its operating system decides. */
static void about_hosts(const struct hfi_report *report, int64_t alive_s)
{
    if (alive_s > 0)
        hfi_report(report, HF_CHECK_LEVEL_OK, "keepalive",
                   "a host that vanished is noticed by the server");
    else
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "keepalive",
                   "tcp_keepalive_time is 0: the locks of a host that vanished stay as long as the "
                   "server's system waits, usually two hours; set it to 20");
}

/* Can circles between processes be found (lock_share.c)? A missing table has been reported
 * already. */
static void about_circles(const struct hfi_report *report, struct sql_locks *locks,
                          struct sql_connection *connection, int64_t until_ms)
{
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    char sql[SQL_SQL_ROOM];

    if (!sql_lock_fill(locks, "DELETE FROM {W} WHERE client = 0", NULL, sql, sizeof sql) ||
        sql_text(connection, sql, until_ms, &rows, &trouble) == HF_OK || trouble.no_table) {
        sql_rows_free(&rows);
        return;
    }
    hfi_report(
        report, HF_CHECK_LEVEL_WARNING, "deadlocks",
        "found within a process only: this user may not write to the table lock_waits; GRANT "
        "SELECT, INSERT, DELETE on it");
}

hf_status sql_locks_doctor(struct sql_store *store, hfi_finding_fn *finding, void *arg,
                           hf_error *err)
{
    struct hfi_report report = { .finding = finding, .arg = arg };
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), store->conf.op_ms);
    struct sql_trouble trouble = { .status = HF_OK };
    struct sql_rows rows = { 0 };
    struct sql_connection *connection;
    hf_status status = sql_doctor(store, finding, arg, err);

    if (status == HF_OK)
        status = sql_take_raw(store, until_ms, &connection, err); /* needs no tables */
    if (status != HF_OK)
        return status;
    about_mode(&report, store);
    about_circles(&report, store->locks, connection, until_ms);
    status = sql_text(connection, store->locks->sql->limits, until_ms, &rows, &trouble);
    if (status == HF_OK) {
        about_limits(&report, &rows);
        sql_rows_free(&rows);
        status = sql_text(connection, store->locks->sql->keepalive, until_ms, &rows, &trouble);
    }
    if (status == HF_OK) {
        about_hosts(&report, sql_int(&rows, 0, 0));
        sql_rows_free(&rows);
    }
    sql_give(connection);
    if (status != HF_OK)
        return hfi_error_set(err, status == HF_UNKNOWN ? HF_UNAVAILABLE : status,
                             trouble.error.native, "%s", trouble.error.text);
    return HF_OK;
}

hf_status sql_any_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct sql_store *store = self;

    return store->conf.mode == SQL_MODE_LEASE ? sql_doctor(store, finding, arg, err)
                                              : sql_locks_doctor(store, finding, arg, err);
}
