/* SPDX-License-Identifier: MIT */
/* What the files of the verb `cell` share. */
#ifndef CELL_H
#define CELL_H

#include "cli.h"
#include "store.h"

/* A value to write; free() the bytes. */
struct content {
    char *bytes;
    size_t len;
};

/* The value that was given, or standard input if that is "-" or NULL. At most one byte more than a cell may have is read: the
 * library refuses that. EXIT_FINE, or EXIT_NO_INPUT after a message. */
int cell_value(const char *given, struct content *ret_value);

int cell_commit(struct cli *cli, struct cli_store *store);

#endif
