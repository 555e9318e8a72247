/* SPDX-License-Identifier: MIT */
/* The doctor of mode=row and mode=session: what these modes can promise here, and what could end a lease. */
#include "engine/sql/hold.h"

#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>

struct report {
    hf_finding_fn *finding;
    void *arg;
};

static void say(const struct report *report, hf_level level, const char *topic, const char *text)
{
    report->finding(level, topic, text, report->arg);
}

static void about_mode(const struct report *report, const struct hfi_conn *conn)
{
    say(report, HF_FINE, "mode",
        conn->conf.mode == SQ_MODE_ROW
            ? "a lease is a locked row, in a transaction that stays open on a connection of its own"
            : "a lease is an advisory lock of a session; many share a connection");
    if (!conn->conf.tokens)
        say(report, HF_WARNING, "tokens",
            "none: who was paused while the server gave up its connection is not fenced; "
            "tokens=on");
    if (conn->conf.pooled)
        say(report, HF_WARNING, "pooler",
            "pooler=session: that it pools by session, and never by transaction, cannot be "
            "verified");
}

/* Rows of name and value: time limits that are on for others. */
static void about_limits(const struct report *report, const struct sq_rows *rows)
{
    char text[256];

    for (uint32_t i = 0; i < rows->count; i++) {
        const struct sq_value *name = sq_at(rows, i, 0), *value = sq_at(rows, i, 1);

        snprintf(text, sizeof text,
                 "%.*s is %.*s on this server: connections that hold leases have it switched off",
                 (int)name->len, name->bytes ? (const char *)name->bytes : "", (int)value->len,
                 value->bytes ? (const char *)value->bytes : "");
        say(report, HF_FINE, "time limits", text);
    }
}

/* After how long the server looks whether a silent host is still there; 0: its system decides. */
static void about_hosts(const struct report *report, int64_t alive_s)
{
    if (alive_s > 0)
        say(report, HF_FINE, "keepalive", "a host that vanished is noticed by the server");
    else
        say(report, HF_WARNING, "keepalive",
            "tcp_keepalive_time is 0: the locks of a host that vanished stay as long as the "
            "server's system waits, usually two hours; set it to 20");
}

/* hold_tell.c. If the table is not there, what was said of the tables says so. */
static void about_circles(const struct report *report, struct sq_hold *hold, struct sq_link *link,
                          int64_t until_ms)
{
    struct sq_trouble trouble = { .status = HF_OK };
    struct sq_rows rows = { 0 };
    char sql[SQ_SQL_ROOM];

    if (!hfi_sq_hold_fill(hold, "DELETE FROM {W} WHERE client = 0", NULL, sql, sizeof sql) ||
        hfi_sq_text(link, sql, until_ms, &rows, &trouble) == HF_OK || trouble.no_table) {
        hfi_sq_rows_free(&rows);
        return;
    }
    say(report, HF_WARNING, "deadlocks",
        "found within a process only: this user may not write to the table lock_waits");
}

hf_status hfi_sq_hold_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg,
                             hf_error *err)
{
    struct report report = { finding, arg };
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), conn->conf.op_ms);
    struct sq_trouble trouble = { .status = HF_OK };
    struct sq_rows rows = { 0 };
    struct sq_link *link;
    hf_status status = hfi_sq_doctor(conn, finding, arg, err);

    if (status == HF_OK)
        status = hfi_sq_take_raw(conn, until_ms, &link, err); /* needs no tables */
    if (status != HF_OK)
        return status;
    about_mode(&report, conn);
    about_circles(&report, conn->hold, link, until_ms);
    status = hfi_sq_text(link, conn->hold->words->limits, until_ms, &rows, &trouble);
    if (status == HF_OK) {
        about_limits(&report, &rows);
        hfi_sq_rows_free(&rows);
        status = hfi_sq_text(link, conn->hold->words->keepalive, until_ms, &rows, &trouble);
    }
    if (status == HF_OK) {
        about_hosts(&report, hfi_sq_int(&rows, 0, 0));
        hfi_sq_rows_free(&rows);
    }
    hfi_sq_give(link);
    if (status != HF_OK)
        return hfi_error_set(err, status == HF_UNKNOWN ? HF_UNAVAILABLE : status,
                             trouble.error.native, "%s", trouble.error.text);
    return HF_OK;
}
