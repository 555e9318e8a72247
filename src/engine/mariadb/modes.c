/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of MariaDB and MySQL: what they promise. */
#include "engine/mariadb/internal.h"

#include "engine/sql/lock_table.h"

static const struct hfi_promises locks[2][2] = SQL_LOCK_TABLES(
    "mariadb", "mysql mariadb", "after its tcp_keepalive_time",
    "the server's own: first come first served", "the server's own: first come first served");

const struct hfi_promises *maria_lock_promises(const struct sql_conf *conf)
{
    return &locks[conf->mode == SQL_MODE_SESSION][conf->tokens];
}
