/* SPDX-License-Identifier: MIT */
/* A table of aligned columns for people. Cells must be safe for a terminal (quoted) already. */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include "cli.h"

#define GRID_COLUMNS_MAX 10

struct grid {
    size_t columns, rows, room;
    char **cells; /* row by row; the first row is the head */
};

/* Begin with a head; the list ends with NULL. */
void grid_begin(struct grid *grid, ...);
/* Add a row: as many strings as there are columns. They are copied. */
void grid_row(struct grid *grid, ...);
/* Print to stdout and free. On a terminal the last column is cut to its width. */
void grid_end(struct grid *grid, const struct cli *cli);
void grid_drop(struct grid *grid); /* free without printing; does nothing after grid_end() */

/* How many columns `text` takes on a terminal. */
size_t width_of(const char *text);

#endif
