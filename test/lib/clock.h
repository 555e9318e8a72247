/* SPDX-License-Identifier: MIT */
/*
 * Servers whose wall clocks the test can move: they have clock_shim.c preloaded, which reads how far the clock is off from a
 * mapped file in the server's directory.
 */
#ifndef TEST_CLOCK_H
#define TEST_CLOCK_H

#include <stdint.h>

#define CLOCK_VARIABLE "HOLDFAST_TEST_CLOCK" /* in the server's environment: the path of the file */

/* "LD_PRELOAD=PATH", for that environment. CLOCK_SHIM is a path, or the name of a file beside this program. Static. */
const char *clock_preload(void);
/* DIR/clock, mapped: microseconds, 0 at first. munmap() it. */
_Atomic int64_t *clock_make(const char *dir);
/* A copy of the shim, in a directory of its own below /tmp, for a server that runs as another user: that user may be unable to
 * read what was built, and from /dev/shm nothing may be executed in some containers. Its path; static. The copy goes when the
 * program exits. */
const char *clock_copy_shim(void);

#endif
