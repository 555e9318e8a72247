/* SPDX-License-Identifier: MIT */
/* Ops on an engine whose server is the fuzzer: each byte begins one, then all must end. */
#ifndef HOLDFAST_FUZZ_OPS_H
#define HOLDFAST_FUZZ_OPS_H

#include "fuzz.h"

#include "engine/engine.h"

/* `waits`: acquires may wait, and cells are waited for (not on a BLOCKING engine, which would sleep). */
void fuzz_ops(const struct hfi_engine *engine, const char *url, bool waits, struct fuzz_input ops);

#endif
