/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session of PostgreSQL: their tables, and which one a URL means. */
#include "engine/postgres/pg.h"

#include "engine/sql/hold_table.h"

static hf_status hold_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                           hf_error *err);

static const struct hfi_engine tables[2][2] = SQ_HOLD_TABLES(
    "postgres", "postgresql postgres", "after 40 s",
    "the server's own: mostly first come first served, a newcomer may slip in between two holders",
    "the server's own: first come first served");

const struct hfi_engine *hfi_pg_hold_table(const struct hfi_url *url)
{
    enum sq_mode mode;

    if (!hfi_sq_conf_mode(url, &mode) || mode == SQ_MODE_LEASE)
        return NULL;
    return &tables[mode == SQ_MODE_SESSION][hfi_sq_conf_tokens(url)];
}

static hf_status hold_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                           hf_error *err)
{
    return hfi_sq_open(&hfi_pg_driver, hfi_pg_hold_table(url), url, host, ret_conn, err);
}
