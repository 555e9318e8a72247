/* SPDX-License-Identifier: MIT */
/* The rows of an answer: one piece of memory, the values first and then their bytes; a few values
 * fit into the struct itself. */
#include "engine/sql/internal.h"

#include "util/alloc.h"

bool sql_rows_make(struct sql_rows *rows, uint32_t count, uint32_t columns, size_t bytes,
                   char **ret_data)
{
    size_t values = (size_t)count * columns;

    rows->columns = columns;
    rows->count = count;
    if (values <= SQL_FEW_VALUES && bytes < SQL_FEW_BYTES) {
        rows->values = rows->few;
        rows->memory = NULL;
        *ret_data = rows->few_bytes;
        return true;
    }
    rows->memory = hfi_calloc(1, values * sizeof *rows->values + bytes + 1);
    if (!rows->memory) {
        rows->columns = rows->count = 0;
        return false;
    }
    rows->values = rows->memory;
    *ret_data = (char *)(rows->values + values);
    return true;
}

void sql_rows_free(struct sql_rows *rows)
{
    hfi_free(rows->memory);
    rows->memory = NULL;
    rows->values = NULL;
    rows->columns = rows->count = 0;
}

int64_t sql_int(const struct sql_rows *rows, uint32_t row, uint32_t column)
{
    const struct sql_value *value = sql_at(rows, row, column);

    return value->type == SQL_INT ? value->number : 0;
}

char sql_letter(const struct sql_rows *rows, uint32_t row, uint32_t column)
{
    const struct sql_value *value = sql_at(rows, row, column);

    return (value->type == SQL_TEXT || value->type == SQL_BYTES) && value->len == 1
               ? *(const char *)value->bytes
               : '?';
}
