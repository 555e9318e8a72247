/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of MariaDB and MySQL: their tables, and which one a URL means. */
#include "engine/mariadb/internal.h"

#include "engine/sql/lock_table.h"

#define SQL_CONF_TYPE maria_conf_type

static hf_status lock_open(struct hfi_conf *conf, struct hfi_host *host,
                           struct hfi_conn **ret_store, hf_error *err);

static const struct hfi_engine tables[2][2] = SQL_LOCK_TABLES(
    "mariadb", "mysql mariadb", "after its tcp_keepalive_time",
    "the server's own: first come first served", "the server's own: first come first served");

const struct hfi_engine *maria_lock_table(const struct hfi_conf *conf)
{
    const struct sql_conf *sql = (const struct sql_conf *)conf;

    if (sql->mode == SQL_MODE_LEASE)
        return NULL;
    return &tables[sql->mode == SQL_MODE_SESSION][sql->tokens];
}

static hf_status lock_open(struct hfi_conf *conf, struct hfi_host *host,
                           struct hfi_conn **ret_store, hf_error *err)
{
    return sql_store_open(&maria_driver, maria_lock_table(conf), conf, host, ret_store, err);
}
