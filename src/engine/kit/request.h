/* SPDX-License-Identifier: MIT */
/*
 * One request under way to a server: its possible outcomes, the list where it waits while it cannot
 * be sent, and its memory. The engine knows its contents and what an answer means. With the lock.
 */
#ifndef HFI_KIT_REQUEST_H
#define HFI_KIT_REQUEST_H

#include "engine/kit/reactor.h"

/* The outcome of a request. */
enum hfi_outcome {
    HFI_ANSWERED, /* there is an answer, and it is not an error */
    HFI_REFUSED,  /* the server refused it and did nothing: `err` says why */
    HFI_UNSENT,   /* it was never sent: `err` says why */
    HFI_MAYBE     /* it may have been executed, or may still be: `err` says what happened */
};

/* The status for an op whose request ended without an answer: UNKNOWN, or what `err` says, or UNAVAILABLE. */
hf_status hfi_outcome_status(enum hfi_outcome outcome, const hf_error *err);
/* The same for a request that changes nothing: never UNKNOWN, for it can simply be made again. */
hf_status hfi_outcome_read_status(enum hfi_outcome outcome, const hf_error *err);

/* Embedded in the engine's, first. */
struct hfi_request {
    struct hfi_request *next; /* parked, or in the pool */
    int64_t give_up_ms;       /* parked no longer than this */
    int64_t retry_ms;         /* parked: not sent before; 0: as soon as it can be */
};

struct hfi_requests;

struct hfi_request_calls {
    /* Both or neither: what a request keeps from one use to the next, beyond bytes. Its memory is new, and zero. false:
     * out of memory. */
    bool (*make)(struct hfi_requests *requests, struct hfi_request *request);
    void (*unmake)(struct hfi_request *request);
    void (*send)(struct hfi_request *request);    /* try again; it may be parked again */
    void (*give_up)(struct hfi_request *request); /* its time is up, and it was not sent */
};

/* The requests of a store. */
struct hfi_requests {
    const struct hfi_request_calls *calls;
    struct hfi_request *parked, **parked_end; /* in the order in which they are to be sent */
    struct hfi_source unpark;
    size_t size; /* of the engine's struct */
    struct hfi_request *pool;
    unsigned pool_count, pool_max;
    struct hfi_request *reserve; /* so that a release can be sent without memory; NULL: in use */
};

/* false: out of memory; hfi_requests_done() all the same. */
bool hfi_requests_init(struct hfi_requests *requests, struct hfi_reactor *reactor,
                       const struct hfi_request_calls *calls, size_t size, unsigned pool_max);
void hfi_requests_done(struct hfi_requests *requests); /* none is under way; zeroed is fine */

/* Memory for a request. Only its struct hfi_request is cleared; the rest is as its last user left
 * it. `must`: use the reserve if there is no other. NULL: none. */
struct hfi_request *hfi_request_new(struct hfi_requests *requests, bool must);
void hfi_request_free(struct hfi_requests *requests, struct hfi_request *request);

/* Parked or not, give it up then. */
void hfi_request_give_up_at(struct hfi_requests *requests, struct hfi_request *request,
                            int64_t give_up_ms);
/* Keep it until hfi_requests_unpark(), its retry_ms or its give_up_ms. */
void hfi_request_park(struct hfi_requests *requests, struct hfi_request *request);
/* Take it back; false: it is not parked. */
bool hfi_request_unpark(struct hfi_requests *requests, struct hfi_request *request);
/* A connection is up, or has gone: try all that are parked. */
void hfi_requests_unpark(struct hfi_requests *requests, int64_t now_ms);
/* No connection will be up: give_up() for all that are parked now. */
void hfi_requests_give_up(struct hfi_requests *requests);
/* The first parked one, taken out; NULL: none. */
struct hfi_request *hfi_requests_pop(struct hfi_requests *requests);

#endif
