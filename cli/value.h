/* SPDX-License-Identifier: MIT */
/* Values of cells and guarded resources: any bytes, from the command line or from standard input, and printed. */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include "json.h"

/* A value to write. */
struct content {
    char *bytes;
    size_t len;
};

/* Read `given`, or standard input if it is "-" or NULL. At most one byte more than `most` is read: the library refuses that.
 * EXIT_FINE: free the bytes. */
int value_read(const char *given, size_t most, struct content *ret_value);
/* Its bytes and nothing else; on a terminal escaped, with a line feed. */
void value_print(const void *bytes, size_t len);
/* "value", or beside null "value_hex" if it is not UTF-8. */
void value_to_json(json_t *object, const void *bytes, size_t len);

#endif
