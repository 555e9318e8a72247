/* SPDX-License-Identifier: MIT */
/* An actor's machine: its wall clock may be wrong. Everything in the process sees that clock, our library too; clocks that count from
 * boot are right, as on a machine whose time was set wrong. */
#ifndef LAB_MACHINE_H
#define LAB_MACHINE_H

#include <stdint.h>

/* From now on the wall clock of this process is off by this time. */
void machine_clock_s(int64_t seconds);
/* Milliseconds since 1970, as this machine thinks. */
int64_t wall_clock_ms(void);

#endif
