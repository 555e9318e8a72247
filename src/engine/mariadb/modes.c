/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of MariaDB and MySQL: their tables, and which one a URL means. */
#include "engine/mariadb/internal.h"

#include "engine/sql/hold_table.h"

static const struct hfi_promises holds[2][2] = SQL_HOLD_TABLES(
    "mariadb", "mysql mariadb", "after its tcp_keepalive_time",
    "the server's own: first come first served", "the server's own: first come first served");

const struct hfi_promises *maria_hold_promises(const struct sql_conf *conf)
{
    return &holds[conf->mode == SQL_MODE_SESSION][conf->tokens];
}
