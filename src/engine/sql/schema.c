/* SPDX-License-Identifier: MIT */
/*
 * Tables and routines: made on first use, or (create=off, HF_OPEN_FLAG_EXISTING) only looked for.
 * Many clients may open an empty database at once: the driver's `lock` lets one of them create the
 * tables, and the others find them. Routines of an older version are replaced in the same way.
 * hf_sql_get_schema() prints the same statements, for a user that may run them.
 */
#include "engine/sql/internal.h"

#include "util/alloc.h"
#include "util/buffer.h"
#include "util/error.h"

#include <string.h>

struct making {
    struct sql_connection *connection;
    int64_t deadline_ms;
    hf_status status;
    struct sql_trouble trouble;
};

static hf_status run(struct making *m, const char *sql)
{
    struct sql_rows rows = { 0 };

    m->status = sql_text(m->connection, sql, m->deadline_ms, &rows, &m->trouble);
    sql_rows_free(&rows);
    return m->status;
}

static bool make_one(void *arg, const char *sql)
{
    return run(arg, sql) == HF_OK;
}

/* `missing`: something is missing, whatever a probe finds. */
static hf_status make(struct sql_connection *connection, bool missing, int64_t deadline_ms,
                      hf_error *err)
{
    const struct sql_driver *driver = connection->store->driver;
    struct making m = { .connection = connection, .deadline_ms = deadline_ms };
    enum sql_found found = SQL_FOUND_NONE;
    hf_status status;

    status = run(&m, driver->lock);
    if (status == HF_OK)
        status =
            driver->probe(connection, deadline_ms, &found, err); /* another client may have been
                                                                  * faster */
    if (status == HF_OK && (missing || found != SQL_FOUND_ALL) &&
        !driver->schema(connection->store, make_one, &m))
        status = m.status == HF_OK ? HF_NO_MEMORY : m.status;
    if (status == HF_OK && driver->unlock)
        status = run(&m, driver->unlock);
    if (status == HF_OK)
        return HF_OK;

    connection->dead = true; /* close it: that ends an unfinished transaction */
    if (err)
        *err = m.trouble.error;
    hfi_error_set(err, status, m.trouble.error.native, "%s",
                  m.trouble.error.text[0] ? m.trouble.error.text : hf_status_text(status));
    return hfi_error_wrap(err, status == HF_DENIED
                                   ? "creating the tables (`holdfast doctor --sql URL` prints the "
                                     "SQL for a user with the right)"
                                   : "creating the tables");
}

/* Create everything, and probe once more: a probe also checks the server. */
static hf_status make_all(struct sql_connection *connection, bool missing, int64_t deadline_ms,
                          hf_error *err)
{
    enum sql_found found = SQL_FOUND_NONE;
    hf_status status = make(connection, missing, deadline_ms, err);

    if (status == HF_OK)
        status = connection->store->driver->probe(connection, deadline_ms, &found, err);
    if (status == HF_OK && found != SQL_FOUND_ALL)
        status = hfi_error_set(err, HF_VERSION, 0,
                               "the routines are of an older version, and this server does not "
                               "replace them: drop them, and they are created again");
    return status;
}

/* Act on the result of the probe. */
static hf_status complete(struct sql_connection *connection, enum sql_found found, bool missing,
                          int64_t deadline_ms, hf_error *err)
{
    struct sql_store *store = connection->store;

    if (found == SQL_FOUND_ALL)
        return HF_OK;
    if (found == SQL_FOUND_NONE && store->host->existing)
        return hfi_error_set(err, HF_NOT_FOUND, 0, "no store yet at %s", store->location);
    if (store->host->existing)
        return hfi_error_set(err, HF_VERSION, 0,
                             "tables at %s are missing, or the routines are of an older version: "
                             "the first lock creates them again",
                             store->location);
    if (!store->conf.create)
        return hfi_error_set(
            err, HF_CONFIG, 0,
            "%s, and create=off: `holdfast doctor --sql URL` prints the SQL that creates them",
            found == SQL_FOUND_OLD ? "tables are missing, or the routines are of an older version"
                                   : "the tables are not there");
    return make_all(connection, missing, deadline_ms, err);
}

hf_status sql_schema(struct sql_connection *connection, int64_t deadline_ms, hf_error *err)
{
    struct sql_store *store = connection->store;
    enum sql_found found = SQL_FOUND_ALL;
    hf_status status = HF_OK;
    bool missing;

    pthread_mutex_lock(&store->schema_lock);
    missing = atomic_load(&store->ready) < 0; /* a statement found that something is missing: a
                                               * probe does not see everything */
    if (missing) {
        found = SQL_FOUND_NONE;
        atomic_store(&store->ready, 0);
    } else if (atomic_load(&store->ready) == 0) {
        status = store->driver->probe(connection, deadline_ms, &found, err);
    }
    if (status == HF_OK)
        status = complete(connection, found, missing, deadline_ms, err);
    if (status == HF_OK)
        atomic_store_explicit(&store->ready, 1, memory_order_release);
    pthread_mutex_unlock(&store->schema_lock);
    return status;
}

/* ---- the statements, without a connection ------------------------------------------------------------- */

struct printing {
    bool delimits;
    struct hfi_buffer text;
};

static bool add(struct printing *p, const char *text, size_t len)
{
    char *to = hfi_buffer_reserve(&p->text, len);

    if (!to)
        return false;
    memcpy(to, text, len);
    p->text.len += len;
    return true;
}

/* A statement, or several: as they would be sent, each ended by ";\n". */
static bool print_statement(void *arg, const char *sql)
{
    static const char before[] = "DELIMITER //\n", after[] = "\n//\nDELIMITER ;\n";
    struct printing *p = arg;
    size_t len = strlen(sql);

    if (p->delimits && (strstr(sql, "\nBEGIN") || strstr(sql, ": BEGIN")))
        return add(p, before, strlen(before)) && add(p, sql, len) && add(p, after, strlen(after));
    while (len > 0 && (sql[len - 1] == '\n' || sql[len - 1] == ';'))
        len--;
    return add(p, sql, len) && add(p, ";\n", 2);
}

hf_status sql_get_schema(const struct sql_driver *driver, struct hfi_conf *conf, char **ret_sql,
                         hf_error *err)
{
    struct printing p = { .delimits = driver->delimits };
    struct sql_conf *sql = (struct sql_conf *)conf;
    struct sql_store *store = hfi_calloc(1, sizeof *store);
    hf_status status;
    char *text;

    if (!store)
        return hfi_error_memory(err);
    store->driver = driver;
    status = sql_conf_finish(sql, err);
    store->conf = *sql;
    if (status == HF_OK)
        status = driver->parse(store, sql, err);
    if (status == HF_OK) {
        text = driver->schema(store, print_statement, &p)
                   ? hfi_strndup(p.text.bytes + p.text.start, p.text.len)
                   : NULL;
        if (text)
            *ret_sql = text;
        else
            status = hfi_error_memory(err);
    }
    hfi_buffer_done(&p.text);
    driver->free_conf(store);
    hfi_free(store);
    return status;
}
