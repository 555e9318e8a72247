/* SPDX-License-Identifier: MIT */
/*
 * A barrier and its transitions: pure functions of the contents of its cell. Generations follow
 * each other:
 *
 *              all are here (single)                        an arrival
 *   FILLING --------------------------------------> PASSED ---------------> FILLING of the next
 *    |  |  |   all are here (double)      all left    ^
 *    |  |  +-----------------------> OPEN ------------+
 *    |  | somebody is gone            | somebody is gone            somebody comes
 *    |  +-----------------------------+-----------> BROKEN ---------------> FILLING of the next
 *    +-- a participant that gives up is taken out
 *
 * A waiter knows its generation, and may read the cell late: the cell keeps which of the last 64
 * generations were broken.
 */
#ifndef HFI_BARRIER_PLAN_H
#define HFI_BARRIER_PLAN_H

#include "prim/participants.h"

#define HFI_HERE 'h'
#define HFI_LEFT 'l'

enum hfi_barrier_phase { HFI_FILLING = 'f', HFI_OPEN = 'o', HFI_PASSED = 'p', HFI_BROKEN_UP = 'b' };

struct hfi_barrier {
    uint32_t parties;
    bool twice; /* double barrier */
    enum hfi_barrier_phase phase;
    uint64_t generation; /* from 1; 0: new, nobody has arrived yet */
    uint64_t broken;     /* bit i: generation - 1 - i was broken */
    char gone[HF_PARTICIPANT_MAX + 1];
    struct hfi_participants participants; /* of this generation */
    /* of the generation before, at its end: for a participant that does not know yet whether it was
     * counted */
    struct hfi_participants before;
};

bool hfi_barrier_get(struct hfi_barrier *barrier, const void *bytes, size_t len);
bool hfi_barrier_put(const struct hfi_barrier *barrier, struct hfi_buffer *to);
/* A new barrier, at which nobody has arrived yet. */
void hfi_barrier_new(struct hfi_barrier *barrier, uint32_t parties, bool twice);

/*
 * `who` arrives, with a lease of `token`. HF_OK: it belongs to *ret_generation. HF_MISMATCH: the
 * barrier is in use as another kind, or with another number of parties. HF_BUSY: those inside must
 * leave first.
 */
hf_status hfi_barrier_arrive(struct hfi_barrier *barrier, uint32_t parties, bool twice,
                             const char *who, uint64_t token, uint64_t *ret_generation,
                             bool *ret_changed);
/* `who` gives up: HF_TIMEOUT, or the outcome of its generation if that ended before. */
hf_status hfi_barrier_withdraw(struct hfi_barrier *barrier, const char *who, uint64_t token,
                               uint64_t generation, bool *ret_changed);
/* `who` leaves an open barrier; token 0: any. HF_OK: the caller waits for the end of
 * *ret_generation. HF_BROKEN. */
hf_status hfi_barrier_leave(struct hfi_barrier *barrier, const char *who, uint64_t token,
                            uint64_t *ret_generation, bool *ret_changed);
/* The lease of `who` with `token` is gone. */
void hfi_barrier_break(struct hfi_barrier *barrier, const char *who, uint64_t token,
                       bool *ret_changed);

/* The outcome of that generation: HF_OK, HF_BROKEN; HF_TIMEOUT: none yet. `open`: it is enough that
 * all are inside. */
hf_status hfi_barrier_outcome(const struct hfi_barrier *barrier, uint64_t generation, bool open);

#endif
