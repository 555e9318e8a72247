/* SPDX-License-Identifier: MIT */
/*
 * What an event-driven engine on links needs around them: one lock, one epoll, being driven
 * by whoever waits, and ops that are finished when the lock is dropped.
 *
 * Everything of the engine is under pump->lock, but for reading from sockets, which the one
 * thread that drives does without it. Core is called (ops finished, losses and doubts told)
 * with the lock dropped: whoever leaves with hfi_pump_leave() does what is due.
 */
#ifndef HFI_REDIS_PUMP_H
#define HFI_REDIS_PUMP_H

#include "engine/engine.h"

#include <pthread.h>

struct hfi_link;
struct hfi_pump;

/* The engine's side. With the lock. */
struct hfi_pump_owner {
    void (*flush)(struct hfi_pump *pump);                /* write what waits on all links */
    void (*tick)(struct hfi_pump *pump, int64_t now_ms); /* do what is due. By the driver */
    int64_t (*next_ms)(struct hfi_pump *pump);           /* when that is; HFI_NEVER */
    /* May be NULL. The link to read from if everything that we wait for comes from there; NULL: ask
     * epoll. `ret_listens`: messages may come on others, and matter. */
    struct hfi_link *(*busy)(struct hfi_pump *pump, bool *ret_listens);
};

struct hfi_loss;

/* Embedded in the engine's conn. */
struct hfi_pump {
    pthread_mutex_t lock;
    struct hfi_host *host;
    const struct hfi_pump_owner *owner;
    int epoll_fd, kick_fd;
    bool napping;         /* the driver is in epoll_wait(), or about to be ... */
    int64_t nap_until_ms; /* ... until then */
    int64_t told_ms;      /* what timeout_ms() last said; INT64_MIN: nobody asked */
    unsigned corked;      /* somebody is at work and will flush */
    bool looping;         /* ... and it is the caller's loop that runs its callbacks */
    int64_t looked_ms;    /* when the driver last asked epoll */
    struct hfi_op *done, **done_end;
    struct hfi_loss *losses;
    const char *doubt; /* why every lease is in doubt, until core has been told; static */
};

/* op->engine[]: the first two are the pump's. */
enum { HFI_PUMP_NEXT, HFI_PUMP_STATUS, HFI_PUMP_FREE };

hf_status hfi_pump_init(struct hfi_pump *pump, struct hfi_host *host,
                        const struct hfi_pump_owner *owner, hf_error *err);
void hfi_pump_done(struct hfi_pump *pump); /* also after a failed init */

void hfi_pump_enter(struct hfi_pump *pump);
/* Flush unless corked, drop the lock, tell core what is due. */
void hfi_pump_leave(struct hfi_pump *pump);
/* Drop the lock and call nothing of core, which may hold locks of its own here, but wake; that only if
 * something has become due `sooner`. */
void hfi_pump_slip(struct hfi_pump *pump, bool sooner);
/* Finish `op` when the lock is dropped. `err` NULL: the status' own text. */
void hfi_pump_finish(struct hfi_pump *pump, struct hfi_op *op, hf_status status,
                     const hf_error *err);
/* Tell core, when the lock is dropped, that a claim is lost. `why` is static. */
void hfi_pump_lost(struct hfi_pump *pump, struct hfi_claim *claim, const char *why);

/* The calls of struct hfi_engine, without the lock. */
int hfi_pump_timeout_ms(struct hfi_pump *pump, int64_t now_ms);
void hfi_pump_turn(struct hfi_pump *pump, int64_t until_ms); /* waits */
void hfi_pump_process(struct hfi_pump *pump);                /* does not */
void hfi_pump_kick(struct hfi_pump *pump);
void hfi_pump_cork(struct hfi_pump *pump, bool on);

#endif
