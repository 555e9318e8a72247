/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of PostgreSQL: their tables, and which one a URL means. */
#include "engine/postgres/internal.h"

#include "engine/sql/lock_table.h"

#define SQL_CONF_TYPE postgres_conf_type

static hf_status lock_open(struct hfi_conf *conf, struct hfi_host *host,
                           struct hfi_conn **ret_store, hf_error *err);

static const struct hfi_engine tables[2][2] = SQL_LOCK_TABLES(
    "postgres", "postgresql postgres", "after 40 s",
    "the server's own: mostly first come first served, a newcomer may slip in between two holders",
    "the server's own: first come first served");

const struct hfi_engine *postgres_lock_table(const struct hfi_conf *conf)
{
    const struct sql_conf *sql = (const struct sql_conf *)conf;

    if (sql->mode == SQL_MODE_LEASE)
        return NULL;
    return &tables[sql->mode == SQL_MODE_SESSION][sql->tokens];
}

static hf_status lock_open(struct hfi_conf *conf, struct hfi_host *host,
                           struct hfi_conn **ret_store, hf_error *err)
{
    return sql_store_open(&postgres_driver, postgres_lock_table(conf), conf, host, ret_store, err);
}
