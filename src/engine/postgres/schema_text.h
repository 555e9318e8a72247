/* SPDX-License-Identifier: MIT */
/* sql/ *.sql, by sql/embed.cmake. */
#ifndef HFI_PG_SCHEMA_TEXT_H
#define HFI_PG_SCHEMA_TEXT_H

extern const char *const hfi_pg_schema_text[]; /* NULL at the end */

#endif
