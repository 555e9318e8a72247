/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of PostgreSQL: their tables, and which one a URL means. */
#include "engine/postgres/internal.h"

#include "engine/sql/hold_table.h"

static const struct hfi_promises holds[2][2] = SQL_HOLD_TABLES(
    "postgres", "postgresql postgres", "after 40 s",
    "the server's own: mostly first come first served, a newcomer may slip in between two holders",
    "the server's own: first come first served");

const struct hfi_promises *postgres_hold_promises(const struct sql_conf *conf)
{
    return &holds[conf->mode == SQL_MODE_SESSION][conf->tokens];
}
