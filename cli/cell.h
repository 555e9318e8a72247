/* SPDX-License-Identifier: MIT */
/* What the files of the verb `cell` share. */
#ifndef CELL_H
#define CELL_H

#include "cli.h"
#include "store.h"

int cell_commit(struct cli *cli, struct cli_store *store);

#endif
