/* SPDX-License-Identifier: MIT */
/* The list of a group's members (members.c): collected from one look at its name, and made one block of memory. Pure. */
#ifndef HFI_PRIM_MEMBERS_H
#define HFI_PRIM_MEMBERS_H

#include "engine/engine.h"
#include "holdfast/primitives.h"

/* Takes the readers of a name; from hfi_malloc(). NULL: out of memory. */
struct hfi_sink *hfi_members_sink_new(void);
/* Free it; of the type of an op's forget(). */
void hfi_members_sink_forget(void *sink, struct hfi_op *op);

/* The members that were found, sorted by token; from hfi_malloc(). NULL: out of memory. */
hf_members *hfi_members_new(const struct hfi_sink *sink);
/* A hash of the tokens: the same members. */
uint64_t hfi_members_digest(const hf_members *members);

#endif
