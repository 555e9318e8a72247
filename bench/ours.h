/* SPDX-License-Identifier: MIT */
/* Holdfast's side of the loops: the public API, with every status checked. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "holdfast/holdfast.h"

#define OURS_NAME "bench-name-00000" /* 16 bytes; see RAW_VALUE */

/* Open an embedded store in `dir`/`name`, which is made if it is not there. */
hf_store *ours_open(const char *dir, const char *name);
/* Any store; the process may open more than one. */
hf_store *ours_open_url(const char *url);
void ours_close(hf_store *store);
/* A request for `name`, a mutex, waiting for ever. */
hf_acquire_request ours_request(const char *name, uint64_t flags);
hf_lease *ours_acquire(hf_store *store, const hf_acquire_request *request);
void ours_release(hf_lease *lease);

#endif
