/* SPDX-License-Identifier: MIT */
/* What only the SQL engines can do: see struct hfi_extension in engine/engine.h. */
#ifndef HFI_SQL_EXTENSION_H
#define HFI_SQL_EXTENSION_H

#include "engine/engine.h"

#define HFI_SQL_EXTENSION "sql"

struct hfi_sql_extension {
    struct hfi_extension head;
    /* hf_sql_get_schema(): the statements that make the tables, as the server's own client program reads them; *ret_sql is of
     * hfi_malloc(). Nothing is connected. */
    hf_status (*get_schema)(struct hfi_conf *conf, char **ret_sql, hf_error *err);
};

#endif
