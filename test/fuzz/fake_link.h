/* SPDX-License-Identifier: MIT */
/* See fake_link.c. */
#ifndef HOLDFAST_FUZZ_FAKE_LINK_H
#define HOLDFAST_FUZZ_FAKE_LINK_H

#include "fuzz.h"

/* What all links are answered with, until the end. */
void fake_link_begin(struct fuzz_input replies);
void fake_link_end(void);

#endif
