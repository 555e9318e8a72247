/* SPDX-License-Identifier: MIT */
/* Checks whether this server can keep our promises. */
#include "engine/sql/internal.h"

#include "engine/kit/report.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DOCTOR_MS  5000
#define CLOCK_NEAR 1000 /* ms */

/* Tokens come from the server's clock, and leases are timed by it alone. */
static void check_clock(struct sql_store *store, const struct hfi_report *r, int64_t deadline_ms)
{
    struct sql_request request = { .call = SQL_TIME, .deadline_ms = deadline_ms, .again = true };
    struct timespec t;
    int64_t ours_ms, theirs_ms;

    if (sql_call(store, &request) != HF_OK) {
        hfi_report(r, HF_CHECK_LEVEL_BAD, "clock", "%s", request.trouble.error.text);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &t);
    ours_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    theirs_ms = sql_int(&request.rows, 0, 0) / 1000;
    sql_rows_free(&request.rows);
    if (llabs(ours_ms - theirs_ms) > CLOCK_NEAR)
        hfi_report(r, HF_CHECK_LEVEL_WARNING, "clock",
                   "the server's clock is %lld ms %s ours: no harm to locks, but one of them is "
                   "wrong; keep "
                   "both by NTP",
                   (long long)llabs(ours_ms - theirs_ms),
                   theirs_ms > ours_ms ? "ahead of" : "behind");
    else
        hfi_report(r, HF_CHECK_LEVEL_OK, "clock", "the server's clock agrees with ours");
}

static const char *const found_text[] = {
    [SQL_FOUND_NONE] = "not created yet",
    [SQL_FOUND_OLD] = "of an older version, or some are missing",
};

/* Are the tables there, and if not: will the first lock make them, or be refused? */
static hf_status check_tables(struct sql_store *store, const struct hfi_report *r,
                              struct sql_connection *connection, enum sql_found found,
                              int64_t deadline_ms, hf_error *err)
{
    const struct sql_conf *conf = &store->conf;
    const char *dot = conf->schema[0] ? "." : "";
    char lack[SQL_LACK_ROOM] = "";
    hf_status status = HF_OK;

    if (found == SQL_FOUND_ALL) {
        hfi_report(r, HF_CHECK_LEVEL_OK, "tables", "%s%s%s... are there", conf->schema, dot,
                   conf->prefix);
        return HF_OK;
    }
    if (conf->create)
        status = store->driver->may_make(connection, deadline_ms, lack, sizeof lack, err);
    if (status != HF_OK)
        return status;
    if (!conf->create)
        hfi_report(r, HF_CHECK_LEVEL_BAD, "tables",
                   "%s%s%s... are %s, and create=off: run the SQL that `holdfast doctor --sql URL` "
                   "prints",
                   conf->schema, dot, conf->prefix, found_text[found]);
    else if (lack[0])
        hfi_report(r, HF_CHECK_LEVEL_BAD, "tables",
                   "%s%s%s... are %s, and this user may not create them (%s): let a user with the "
                   "right run the SQL that `holdfast doctor --sql URL` prints",
                   conf->schema, dot, conf->prefix, found_text[found], lack);
    else
        hfi_report(
            r, HF_CHECK_LEVEL_WARNING, "tables",
            "%s%s%s... are %s: the first lock creates them, or the SQL that `holdfast doctor "
            "--sql URL` prints",
            conf->schema, dot, conf->prefix, found_text[found]);
    return HF_OK;
}

hf_status sql_doctor(struct sql_store *store, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    const struct hfi_report r = { .finding = finding, .arg = arg };
    int64_t deadline_ms = hfi_now_ms() + DOCTOR_MS;
    struct sql_connection *connection;
    enum sql_found found = SQL_FOUND_ALL;
    hf_status status = sql_take(store, deadline_ms, &connection, err);

    if ((status == HF_NOT_FOUND || status == HF_VERSION) && store->host->existing) {
        status = sql_take_raw(store, deadline_ms, &connection, err);
        if (status == HF_OK &&
            (status = store->driver->probe(connection, deadline_ms, &found, err)) != HF_OK)
            sql_give(connection);
    }
    if (status != HF_OK)
        return status;
    status = check_tables(store, &r, connection, found, deadline_ms, err);
    if (status == HF_OK && store->driver->doctor)
        status = store->driver->doctor(connection, deadline_ms, finding, arg, err);
    sql_give(connection);
    if (status == HF_OK && found == SQL_FOUND_ALL) /* a routine of ours reads it */
        check_clock(store, &r, deadline_ms);
    return status;
}
