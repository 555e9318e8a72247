/* SPDX-License-Identifier: MIT */
/* `holdfast top --once`: what there is now, and out. */
#ifndef TOP_ONCE_H
#define TOP_ONCE_H

#include "model/source.h"

struct once {
    struct see_source **sources;
    size_t count;
    const char *glob; /* NULL: all */
    bool json, utf8;
    int cols;
};
/* The exit code: 69 if a store does not answer. */
int once_print(const struct once *once);

#endif
