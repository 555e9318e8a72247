/* SPDX-License-Identifier: MIT */
/*
 * A primitive that stands on a lease and a cell of the same name: entering the store by the lease, and
 * asking whether it is still held.
 *
 * The rule by which a cell is written under a lease, without any trust in clocks of others: read the
 * cell; then look whether the lease is valid; then swap, at the version that was read. If it was valid at
 * the look, nobody held the name after us when we read, so what we read is ours or older; and if somebody
 * has written since, the swap fails. Tokens, where there are any, are compared besides.
 */
#ifndef HFI_HELD_H
#define HFI_HELD_H

#include "prim/cell_op.h"

struct hfi_held {
    struct hfi_prim prim;
    hf_lease *handle;
    uint64_t token; /* 0: the engine has none */
    unsigned char name[HF_NAME_MAX];
    char label[HF_LABEL_MAX + 1];
    struct hfi_shard *shard; /* counts us, so that the store stays open */
};

/* Find the lease, which may be lost but must be an exclusive one, and keep its store open until
 * hfi_held_leave(). HF_INVALID, HF_FORKED: no such lease. HF_LOST: its store was closed. HF_UNSUPPORTED:
 * shared, or the engine has not all of `caps`. */
hf_status hfi_held_enter(struct hfi_held *held, hf_lease *lease, const char *verb, uint64_t caps,
                         hf_error *err);
void hfi_held_leave(struct hfi_held *held);

/* Is it held at this moment, by our clock? */
bool hfi_held_valid(const struct hfi_held *held);

#endif
