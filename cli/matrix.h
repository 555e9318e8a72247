/* SPDX-License-Identifier: MIT */
/* What can be done with an engine, in the words of users: the rows of `holdfast engines --matrix`. */
#ifndef CLI_MATRIX_H
#define CLI_MATRIX_H

#include "table.h"

struct ability {
    uint64_t cap;   /* the HF_CAP_* that this row is; 0: it is made of others */
    uint64_t needs; /* all of these, and `cap` */
    const char *key, *title;
};
extern const struct ability abilities[];
extern const size_t ability_count;

int print_matrix(struct cli *cli);

#endif
