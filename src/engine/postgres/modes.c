/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of PostgreSQL: what they promise. */
#include "engine/postgres/internal.h"

#include "engine/sql/lock_table.h"

static const struct hfi_promises locks[2][2] = SQL_LOCK_TABLES(
    "postgres", "postgresql postgres", "after 40 s",
    "the server's own: mostly first come first served, a newcomer may slip in between two holders",
    "the server's own: first come first served");

const struct hfi_promises *postgres_lock_promises(const struct sql_conf *conf)
{
    return &locks[conf->mode == SQL_MODE_SESSION][conf->tokens];
}
