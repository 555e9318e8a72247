/* SPDX-License-Identifier: MIT */
/*
 * Time for targets with real descriptors (clock_gettime and epoll_wait of this program): it goes on by a little whenever somebody looks, and a
 * sleep takes none. What is ready is seen. One thread.
 */
#ifndef HOLDFAST_FUZZ_FAKE_TIME_H
#define HOLDFAST_FUZZ_FAKE_TIME_H

#include <stdbool.h>
#include <stdint.h>

void fake_time_pass(int64_t ms);
/* Called where nothing is ready, before time passes: true: look again. NULL: nothing to do. */
extern bool (*fake_time_idle)(void);

#endif
