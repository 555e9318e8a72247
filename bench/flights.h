/* SPDX-License-Identifier: MIT */
/* One thread that drives a store with its own event loop, with acquisitions in flight: each is
 * acquired, released and begun again. A contender of rounds_run(). */
#ifndef BENCH_FLIGHTS_H
#define BENCH_FLIGHTS_H

#include "ours.h"

#include <stddef.h>

struct flights;

/* `count` acquisitions of names of their own, or all of the same. */
struct flights *flights_new(hf_store *store, size_t count, int one_name);
void flights_free(struct flights *flights);
double flights_round(void *flights, double seconds); /* pairs a second */
/* Wait for something to do, and do it. */
void flights_drive(hf_store *store);

#endif
