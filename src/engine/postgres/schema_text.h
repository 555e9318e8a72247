/* SPDX-License-Identifier: MIT */
/* sql/ *.sql, by sql/embed.cmake. */
#ifndef POSTGRES_SCHEMA_TEXT_H
#define POSTGRES_SCHEMA_TEXT_H

extern const char *const postgres_schema_text[]; /* NULL at the end */

#endif
