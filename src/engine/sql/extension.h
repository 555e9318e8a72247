/* SPDX-License-Identifier: MIT */
/* What only the SQL engines can do: see struct hfi_extension in engine/engine.h. */
#ifndef HFI_SQL_EXTENSION_H
#define HFI_SQL_EXTENSION_H

#include "engine/engine.h"

#define HFI_SQL_EXTENSION "sql"

/* The statements of hf_sql_lock(), which run in a transaction of the caller's. */
enum hfi_sql_statement {
    HFI_SQL_LOCK,            /* gives a row with a 1: locked until the transaction ends */
    HFI_SQL_LOCK_TRY,        /* likewise; no row, or a 0: it is busy */
    HFI_SQL_LOCK_SHARED,     /* both for a reader */
    HFI_SQL_LOCK_SHARED_TRY, /* */
    HFI_SQL_ROW_KNOWN,       /* gives a row if there is one to lock; "": no row is needed */
    HFI_SQL_ROW_MAKE,        /* makes it, if it is not there */
    HFI_SQL_ROW_MAKE_SHARED, /* likewise, for a reader */
    HFI_SQL_ROW_MAKE_TRY, /* likewise, without a wait for one that holds it; may be several statements */
    HFI_SQL_ROW_MAKE_SHARED_TRY,
    HFI_SQL_STATEMENTS
};

struct hfi_sql_extension {
    struct hfi_extension head;
    /* hf_sql_get_schema(): the statements that make the tables, as the server's own client program reads them; *ret_sql is of
     * hfi_malloc(). Nothing is connected. */
    hf_status (*get_schema)(struct hfi_conf *conf, char **ret_sql, hf_error *err);
    /* One statement of hf_sql_lock(); *ret_sql is of hfi_malloc(). Nothing is connected. HF_UNSUPPORTED: the locks of this mode
     * do not end with a transaction. */
    hf_status (*get_lock)(struct hfi_conf *conf, const struct hfi_name *name,
                          enum hfi_sql_statement which, char **ret_sql, hf_error *err);
};

#endif
