/* SPDX-License-Identifier: MIT */
/* What several agree on, made of leases and cells: four files of cases, one process for each engine. */
#ifndef AGREE_H
#define AGREE_H

#include "contract.h"

int agree_once(void);
int agree_election(void);
int agree_latch(void);
int agree_barrier(void);

#endif
