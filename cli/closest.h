/* SPDX-License-Identifier: MIT */
/* "Did you mean ...?", for the command and for the programs that it executes. */
#ifndef CLI_CLOSEST_H
#define CLI_CLOSEST_H

#include <stddef.h>

/* The candidate closest to `word`, or NULL if none is close. */
const char *closest(const char *word, const char *const *candidates, size_t count);

#endif
