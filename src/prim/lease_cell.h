/* SPDX-License-Identifier: MIT */
/*
 * A primitive built on a lease and a cell of the same name: entering the store by the lease, and
 * asking whether the lease is still held.
 *
 * The rule by which a cell is written under a lease, without trust in other clocks: read the cell;
 * then check that the lease is valid; then swap, at the version that was read. If the lease was
 * valid at that check, nobody held the name after us when we read, so what we read is ours or
 * older. If another process has written since, the swap fails. Tokens, if the engine has them, are
 * compared too.
 */
#ifndef HFI_LEASE_CELL_H
#define HFI_LEASE_CELL_H

#include "prim/prim.h"

struct hfi_lease_cell {
    hf_lease *lease;
    uint64_t token; /* 0: the engine has none */
    unsigned char name[HF_NAME_MAX];
    char label[HF_LABEL_MAX + 1];
};

/* Find the lease, which may be lost but must be an exclusive one, and enter its store for `prim`, whose name is that of the
 * lease. HF_INVALID, HF_FORKED: no such lease. HF_LOST: its store was closed. HF_UNSUPPORTED: the
 * lease is shared, or the engine lacks some of `caps`. */
hf_status hfi_lease_cell_enter(struct hfi_lease_cell *cell, struct hfi_prim *prim, hf_lease *lease,
                               const char *verb, uint64_t caps, hf_error *err);
/* Likewise, of a lease that may be a shared one; the engine may have no cells. */
hf_status hfi_lease_cell_enter_shared(struct hfi_lease_cell *cell, struct hfi_prim *prim,
                                      hf_lease *lease, const char *verb, hf_error *err);
/* Likewise, for a call that has entered the store and acquired this lease. */
hf_status hfi_lease_cell_take(struct hfi_lease_cell *cell, struct hfi_prim *prim, hf_lease *lease,
                              hf_error *err);

/* From now on its release goes to the store: it is not passed on, and does not linger. */
void hfi_lease_cell_pin(const struct hfi_lease_cell *cell);

/* Is the lease valid now, by our clock? */
bool hfi_lease_cell_valid(const struct hfi_lease_cell *cell);

#endif
