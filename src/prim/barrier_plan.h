/* SPDX-License-Identifier: MIT */
/*
 * What a barrier is, and what becomes of it: pure functions of what its cell says. One generation after
 * the other:
 *
 *              all are here (single)                        somebody comes
 *   FILLING --------------------------------------> PASSED ---------------> FILLING of the next
 *    |  |  |   all are here (double)      all left    ^
 *    |  |  +-----------------------> OPEN ------------+
 *    |  | somebody is gone            | somebody is gone            somebody comes
 *    |  +-----------------------------+-----------> BROKEN ---------------> FILLING of the next
 *    +-- who gives up is taken out again
 *
 * A waiter knows its generation, and may look late: the cell keeps, for the last 64 generations, which
 * of them were broken.
 */
#ifndef HFI_BARRIER_PLAN_H
#define HFI_BARRIER_PLAN_H

#include "prim/participants.h"

#define HFI_HERE 'h'
#define HFI_LEFT 'l'

enum hfi_barrier_phase { HFI_FILLING = 'f', HFI_OPEN = 'o', HFI_PASSED = 'p', HFI_BROKEN_UP = 'b' };

struct hfi_barrier {
    uint32_t parties;
    bool twice; /* a double one */
    enum hfi_barrier_phase phase;
    uint64_t generation; /* from 1; 0: new, nobody has come yet */
    uint64_t broken;     /* bit i: generation - 1 - i was */
    char gone[HF_PARTICIPANT_MAX + 1];
    struct hfi_participants participants; /* of this generation */
    struct hfi_participants
        before; /* of the one before, as they were at its end: for who does not know yet
                                   whether it was counted */
};

bool hfi_barrier_get(struct hfi_barrier *barrier, const void *bytes, size_t len);
bool hfi_barrier_put(const struct hfi_barrier *barrier, struct hfi_buffer *to);
/* One that nobody has come to yet. */
void hfi_barrier_new(struct hfi_barrier *barrier, uint32_t parties, bool twice);

/*
 * `who` comes, with a lease of `token`. HF_OK: it is here, in *ret_generation. HF_MISMATCH: others take
 * part in another kind, or in another number. HF_BUSY: those inside must leave first.
 */
hf_status hfi_barrier_arrive(struct hfi_barrier *barrier, uint32_t parties, bool twice,
                             const char *who, uint64_t token, uint64_t *ret_generation,
                             bool *ret_changed);
/* It gives up: HF_TIMEOUT, or how its generation ended before that. */
hf_status hfi_barrier_withdraw(struct hfi_barrier *barrier, const char *who, uint64_t token,
                               uint64_t generation, bool *ret_changed);
/* It leaves an open one; token 0: whichever it has. HF_OK: in *ret_generation, whose end is to be waited
 * for. HF_BROKEN. */
hf_status hfi_barrier_leave(struct hfi_barrier *barrier, const char *who, uint64_t token,
                            uint64_t *ret_generation, bool *ret_changed);
/* The lease of `who` with `token` is gone. */
void hfi_barrier_break(struct hfi_barrier *barrier, const char *who, uint64_t token,
                       bool *ret_changed);

/* How did that generation end, or begin: HF_OK, HF_BROKEN; HF_TIMEOUT: not yet. `open`: it is enough
 * that all are inside. */
hf_status hfi_barrier_outcome(const struct hfi_barrier *barrier, uint64_t generation, bool open);

#endif
