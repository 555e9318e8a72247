/* SPDX-License-Identifier: MIT */
/*
 * Tables and routines: made on first use, or (create=off, HF_OPEN_EXISTING) only looked for. Many clients may come to an
 * empty database at once: the driver's `lock` lets one of them make it, and the others find it made.
 */
#include "engine/sql/sq.h"

#include "util/error.h"

struct making {
    struct sq_link *link;
    int64_t deadline_ms;
    hf_status status;
    struct sq_trouble trouble;
};

static hf_status run(struct making *m, const char *sql)
{
    struct sq_rows rows = { 0 };

    m->status = hfi_sq_text(m->link, sql, m->deadline_ms, &rows, &m->trouble);
    hfi_sq_rows_free(&rows);
    return m->status;
}

static bool make_one(void *arg, const char *sql)
{
    return run(arg, sql) == HF_OK;
}

/* `missing`: something is, whatever a probe finds. */
static hf_status make(struct sq_link *link, bool missing, int64_t deadline_ms, hf_error *err)
{
    const struct sq_driver *driver = link->conn->driver;
    struct making m = { .link = link, .deadline_ms = deadline_ms };
    bool made = false;
    hf_status status;

    status = run(&m, driver->lock);
    if (status == HF_OK) {
        status = driver->probe(link, deadline_ms, err); /* somebody may have been faster */
        made = status == HF_OK && !missing;
        if (status == HF_NOT_FOUND)
            status = HF_OK;
    }
    if (status == HF_OK && !made && !driver->schema(link->conn, make_one, &m))
        status = m.status == HF_OK ? HF_NO_MEMORY : m.status;
    if (status == HF_OK && driver->unlock)
        status = run(&m, driver->unlock);
    if (status == HF_OK)
        return HF_OK;

    link->dead = true; /* whatever it was in the middle of ends with it */
    if (err)
        *err = m.trouble.error;
    hfi_error_set(err, status, m.trouble.error.native, "%s",
                  m.trouble.error.text[0] ? m.trouble.error.text : hf_status_text(status));
    return hfi_error_wrap(err, status == HF_DENIED
                                   ? "making the tables (`holdfast doctor --sql URL` prints what "
                                     "somebody with the right can run)"
                                   : "making the tables");
}

hf_status hfi_sq_schema(struct sq_link *link, int64_t deadline_ms, hf_error *err)
{
    struct hfi_conn *conn = link->conn;
    hf_status status = HF_OK;
    bool missing;

    pthread_mutex_lock(&conn->schema_lock);
    missing = atomic_load(&conn->ready) < 0; /* a statement has met it: a probe does not see all */
    if (missing) {
        status = HF_NOT_FOUND;
        atomic_store(&conn->ready, 0);
    } else if (atomic_load(&conn->ready) == 0) {
        status = conn->driver->probe(link, deadline_ms, err);
    }
    if (status == HF_NOT_FOUND && conn->host->existing)
        status = hfi_error_set(err, HF_NOT_FOUND, 0, "no store yet at %s", conn->location);
    else if (status == HF_NOT_FOUND && !conn->conf.create)
        status = hfi_error_set(err, HF_CONFIG, 0,
                               "the tables are not there, and create=off: `holdfast doctor --sql "
                               "URL` prints the SQL that makes them");
    else if (status == HF_NOT_FOUND && (status = make(link, missing, deadline_ms, err)) == HF_OK)
        status = conn->driver->probe(link, deadline_ms, err); /* it also looks at the server */
    if (status == HF_OK)
        atomic_store_explicit(&conn->ready, 1, memory_order_release);
    pthread_mutex_unlock(&conn->schema_lock);
    return status;
}
