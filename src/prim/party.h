/* SPDX-License-Identifier: MIT */
/*
 * Who takes part in a latch or a barrier holds a lease on a name of its own: that of the latch, a NUL, and
 * who it is. When that lease is gone, so is who held it. Nobody waits in the queue of such a name but
 * another life of the same `who`.
 */
#ifndef HFI_PARTY_H
#define HFI_PARTY_H

#include "prim/members.h"
#include "prim/vigil.h"

struct hfi_party {
    const char *who;
    unsigned char name[HF_NAME_MAX];
    uint32_t len;
    hf_lease *lease; /* NULL: none */
    uint64_t id;     /* its token, or a number by chance where the engine has none; never 0 */
};

/* A request, whole. */
hf_status hfi_party_request(hf_party_request *whole, const hf_party_request *given, hf_error *err);
/* Can this be somebody who takes part in what `prim` is about? */
hf_status hfi_party_name(struct hfi_party *party, const struct hfi_prim *prim, const char *who,
                         hf_error *err);
/* Acquire its lease: of an earlier life of it, it may have to wait for the end. */
hf_status hfi_party_enter(struct hfi_party *party, hf_store *store, int64_t until_ms,
                          hf_cancel *cancel, hf_error *err);

/* Is the lease of this one there? */
hf_status hfi_party_lives(const struct hfi_prim *prim, const struct hfi_member *member,
                          bool *ret_lives, hf_error *inner);
/* Of the members with `flag`, look at the leases of a few, the next ones at each call: *ret_gone is one
 * whose lease is gone, or NULL. `turn` is where to begin, and moves on. */
hf_status hfi_party_gone(const struct hfi_prim *prim, const struct hfi_members *members, char flag,
                         uint32_t *turn, const struct hfi_member **ret_gone, hf_error *inner);

#endif
