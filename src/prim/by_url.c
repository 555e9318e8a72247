/* SPDX-License-Identifier: MIT */
/* hf_sql_get_schema(), hf_redlock_*(): calls that only one kind of engine has, for the store of a URL. On the calling thread. */
#include "core/by_url.h"
#include "engine/redlock/extension.h"
#include "engine/sql/extension.h"
#include "util/error.h"

#include <inttypes.h>

/* ---- SQL --------------------------------------------------------------------------------------- */

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

/* ---- Redlock ----------------------------------------------------------------------------------- */

hf_status hf_redlock_get_status(const char *url, hf_redlock_status **ret_status, hf_error *err)
{
    const struct hfi_redlock_extension *redlock;
    struct hfi_redlock_status *whole = NULL;
    struct hfi_by_url at;
    hf_status status;

    if (!ret_status)
        return hfi_error_set(err, HF_INVALID, 0, "ret_status: NULL");
    *ret_status = NULL;
    status = hfi_by_url_open(&at, url, HFI_REDLOCK_EXTENSION, sizeof *redlock, err);
    if (status != HF_OK)
        return status;
    redlock = at.extension;
    status = redlock->get_status(at.conf, &whole, err);
    if (whole)
        *ret_status = &whole->status;
    return hfi_by_url_close(&at, status, err);
}

const hf_redlock_node *hf_redlock_get_node(const hf_redlock_status *status, size_t index)
{
    const struct hfi_redlock_status *whole = (const void *)status;

    return status && index < whole->count ? &whole->nodes[index] : NULL;
}

static void ignore(hf_check_level level, const char *topic, const char *text, void *arg)
{
    (void)level, (void)topic, (void)text, (void)arg;
}

hf_status hf_redlock_join(const char *url, const char *node, uint64_t flags, hf_redlock_fn *told,
                          void *arg, hf_error *err)
{
    const struct hfi_redlock_extension *redlock;
    struct hfi_by_url at;
    hf_status status;

    if (flags & ~HF_REDLOCK_JOIN_FLAG_FORCE)
        return hfi_error_set(err, HF_INVALID, 0, "flags: unknown bits 0x%" PRIx64,
                             flags & ~HF_REDLOCK_JOIN_FLAG_FORCE);
    status = hfi_by_url_open(&at, url, HFI_REDLOCK_EXTENSION, sizeof *redlock, err);
    if (status != HF_OK)
        return status;
    redlock = at.extension;
    status = redlock->join(at.conf, node, flags & HF_REDLOCK_JOIN_FLAG_FORCE, told ? told : ignore,
                           arg, err);
    return hfi_by_url_close(&at, status, err);
}
