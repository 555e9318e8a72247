/* SPDX-License-Identifier: MIT */
/*
 * A participant of a latch or a barrier holds a lease on a name of its own: that of the latch, a
 * NUL, and its `who`. When that lease is gone, so is its holder. Only a later incarnation of the
 * same `who` ever waits in the queue of such a name.
 */
#ifndef HFI_PARTICIPANT_H
#define HFI_PARTICIPANT_H

#include "prim/participants.h"
#include "prim/task.h"

/* The participant that a call is. */
struct hfi_presence {
    char who[HF_PARTICIPANT_MAX + 1];
    unsigned char name[HF_NAME_MAX];
    uint32_t len;
    hf_event_fn *on_event; /* of its lease; NULL: none */
    void *on_event_arg;
    int64_t ttl_ms; /* 0: the default */
    hf_acquire_request request;
    hf_lease *lease; /* NULL: none */
    uint64_t id;     /* its token, or a random number if the engine has no tokens; never 0 */
};

/* Copy a request, in full size. */
hf_status hfi_party_request(hf_party_request *whole, const hf_party_request *given, hf_error *err);
/* Is this the ttl of a lease in the store of `prim`, or 0? Then it is that of our own. */
hf_status hfi_presence_ttl(struct hfi_presence *presence, const struct hfi_prim *prim,
                           int64_t ttl_ms, hf_error *err);
/* For a call that returns no lease. */
hf_status hfi_party_no_events(const hf_party_request *request, hf_error *err);
/* Can `who` take part in what `prim` is about? */
hf_status hfi_presence_name(struct hfi_presence *presence, const struct hfi_prim *prim,
                            const char *who, hf_error *err);
/* Begin to acquire its lease, which an earlier incarnation may still hold. When `state` is due with HF_OK,
 * hfi_presence_acquired() follows. */
hf_status hfi_presence_acquire(struct hfi_presence *presence, struct hfi_prim_task *task,
                               int state);
void hfi_presence_acquired(struct hfi_presence *presence, struct hfi_prim_task *task);

/* Checks the leases of the other participants: a few each time, then the next ones. Many waiters
 * check, so a few are enough. */
struct hfi_survey {
    uint32_t turn;   /* where the next check begins */
    uint32_t passed; /* participants that this check has passed ... */
    uint32_t asked;  /* ... and asked about */
    struct hfi_participant last;
    unsigned char name[HF_NAME_MAX];
};

/* ASK whether the lease of this one is held. */
enum hfi_verdict hfi_survey_ask(struct hfi_survey *survey, struct hfi_cell_run *run,
                                const struct hfi_participant *participant);
/* Leases are to be checked: ASK about the next participant with `flag`, or WAIT if this check is
 * complete. run->answer is not HFI_IS_GONE. */
enum hfi_verdict hfi_survey_next(struct hfi_survey *survey, struct hfi_cell_run *run,
                                 const struct hfi_participants *participants, char flag);

#endif
