/* SPDX-License-Identifier: MIT */
/* hf_sql_get_schema(): a call that only the SQL engines have, for the store of a URL. On the calling thread; it does not block. */
#include "core/by_url.h"
#include "engine/sql/extension.h"
#include "util/error.h"

hf_status hf_sql_get_schema(const char *url, char **ret_sql, hf_error *err)
{
    const struct hfi_sql_extension *sql;
    struct hfi_by_url at;
    hf_status status;

    if (!ret_sql)
        return hfi_error_set(err, HF_INVALID, 0, "ret_sql: NULL");
    status = hfi_by_url_open(&at, url, HFI_SQL_EXTENSION, sizeof *sql, err);
    if (status != HF_OK)
        return status;
    sql = at.extension;
    return hfi_by_url_close(&at, sql->get_schema(at.conf, ret_sql, err), err);
}
