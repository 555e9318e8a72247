/* SPDX-License-Identifier: MIT */
/*
 * The runtime of an event-driven engine: one lock, one epoll, times, and ops that are finished when the lock is
 * dropped. The engine's store begins with a struct hfi_reactor, and its table says HFI_REACTOR_CALLS.
 *
 * The reactor's lock protects everything of the engine: it is held between hfi_reactor_enter() and
 * hfi_reactor_leave(), and in every call of a source except `read`. Core is called without the
 * lock: hfi_reactor_leave() finishes the ops, and reports the losses and doubts, that were
 * collected before.
 *
 * One thread at a time drives (turn, process). A *source* has the descriptors, a time, and bytes
 * that wait to be written. Sources register these, so that the reactor need not ask each of them
 * for work.
 */
#ifndef HFI_KIT_REACTOR_H
#define HFI_KIT_REACTOR_H

#include "engine/engine.h"
#include "util/list.h"

#include <pthread.h>

#define HFI_REACTOR_SLICE_MS 20 /* the longest sleep in a source's read() */

struct hfi_reactor;
struct hfi_source;

/* The calls of one kind of source. With the lock, on the thread that drives, unless stated
 * otherwise. Each may be NULL. */
struct hfi_source_calls {
    /* One of its descriptors has events (see epoll(7)); fd -1, events 0: read() has slept on it. */
    void (*ready)(struct hfi_source *source, int fd, uint32_t events, int64_t now_ms);
    /* Without the lock, before ready(): read what has arrived. `wait`: sleep for it,
     * HFI_REACTOR_SLICE_MS at most. false: nothing has, and ready() need not be called. */
    bool (*read)(struct hfi_source *source, bool wait);
    /* Its time has come (hfi_source_at()), and is HFI_NEVER again; it may set another. */
    void (*due)(struct hfi_source *source, int64_t now_ms);
    /* Instead of hfi_source_at(), for a time that is computed from many: the latest time at which
     * due() must be called. due() is called after every other event too. Any thread. */
    int64_t (*next_ms)(const struct hfi_source *source);
    /* hfi_source_dirty() was called, and the lock is about to be dropped: write. Any thread. May finish ops. */
    void (*flush)(struct hfi_source *source);
    /* The driver or a caller's loop is about to sleep: register what to watch. */
    void (*prepare)(struct hfi_source *source, int64_t now_ms);
};

/*
 * A source; embedded. Added and removed by the thread that drives, or while no thread drives; any
 * thread may make the other calls.
 */
struct hfi_source {
    const struct hfi_source_calls *calls;
    struct hfi_reactor *reactor; /* NULL: not added */
    uint32_t slot;
    bool dirty;
    struct hfi_source *next_dirty;
    int64_t due_ms;

    /* Set by the engine. */
    unsigned awaited; /* answers under way on it */
    bool sleeps;  /* answers come soon, and read() can sleep: the driver does so if no other source
                 * expects any */
    bool listens; /* while it has a time, it counts as a listener: see `listeners` */
    bool exact;   /* its time is exact to the millisecond; others may be late by a slice */
};

/* What an engine does with one kind of op. With the lock; the op ends with hfi_reactor_finish(), at once or later. */
struct hfi_op_calls {
    void (*begin)(void *store, struct hfi_op *op); /* NULL: HF_UNSUPPORTED */
    /* End it early. Core asks for that (engine.h); and of an op that may not wait the reactor does, with HF_TIMEOUT, as soon
     * as its deadline has passed. It may come more than once. NULL: the op never waits, and each of its requests has a time limit. */
    void (*cancel)(void *store, struct hfi_op *op, hf_status status);
};

/* Embedded in the store, first. */
struct hfi_reactor {
    pthread_mutex_t lock;
    struct hfi_host *host;
    const struct hfi_op_calls *ops; /* HFI_OP_KINDS of them */
    bool begun;
    int epoll_fd, kick_fd;
    struct hfi_source **sources; /* by slot; NULL: free */
    uint32_t source_count, source_room;
    unsigned askers, preparers; /* sources with next_ms(), with prepare() */
    struct hfi_source *dirty;
    int64_t soonest_ms;                /* no hfi_source_at() is earlier */
    bool napping;                      /* the driver is in epoll_wait(), or about to be ... */
    int64_t nap_until_ms;              /* ... until then */
    int64_t told_ms;                   /* the last answer of timeout_ms(); INT64_MIN: none yet */
    unsigned corked;                   /* > 0: a thread will flush later */
    unsigned yields_off, yields_pause; /* turns without a yield: now, and after the next slow one */
    int64_t looked_ms;                 /* when the driver last asked epoll */
    /* waiters for a message, which must be noticed soon even while the driver sleeps in read() of
     * another source. Set by the engine */
    unsigned listeners;
    struct hfi_list limited; /* ops that may not wait, by deadline_ms */
    int64_t limit_ms;        /* none of them is earlier */
    struct hfi_op *done, **done_end;
    struct hfi_news *news, **news_end; /* of claims, for core */
    bool hears, told_hears;            /* hfi_reactor_hears(), and what core was told of it */
    /* why every lease is in doubt, until core has been told; static text. Set by the engine */
    const char *doubt;
};

/* The first member of the engine's struct in op->room. */
struct hfi_reactor_op {
    struct hfi_op *next;
    struct hfi_list limited; /* in `limited` of the reactor; zeroed: it never was */
    hf_status status;
};

/* `host` and `ops` NULL: for a reactor outside a store, on which no op is finished. */
hf_status hfi_reactor_init(struct hfi_reactor *reactor, struct hfi_host *host,
                           const struct hfi_op_calls *ops, hf_error *err);
void hfi_reactor_done(struct hfi_reactor *reactor); /* also after a failed init, or none (zeroed) */

void hfi_reactor_enter(struct hfi_reactor *reactor);
/* Flush unless corked, drop the lock, and report to core what was collected. */
void hfi_reactor_leave(struct hfi_reactor *reactor);
/* Drop the lock without calling core, which may hold locks of its own here. Only host->wake() is
 * called, and only if `sooner` is set and a time limit is earlier now. Output waits for the next
 * hfi_reactor_leave(). */
void hfi_reactor_leave_quietly(struct hfi_reactor *reactor, bool sooner);

/* Finish `op` when the lock is dropped. `err` NULL: the status' own text. */
void hfi_reactor_finish(struct hfi_reactor *reactor, struct hfi_op *op, hf_status status,
                        const hf_error *err);
/* Tell core, when the lock is dropped, that a claim is lost. `why` is static. */
void hfi_reactor_lost(struct hfi_reactor *reactor, struct hfi_claim *claim, const char *why);
/* ... that somebody wants what a claim holds. `text` is copied, and cut to HF_LABEL_MAX. */
void hfi_reactor_wanted(struct hfi_reactor *reactor, struct hfi_claim *claim, enum hfi_wanted what,
                        const char *text, size_t len);
/* ... that the line on which that is heard is up, or down. */
void hfi_reactor_hears(struct hfi_reactor *reactor, bool on);

/* ---- sources ------------------------------------------------------------------------------------------ */

/* false: out of memory, and it is not added. The members that the engine sets stay as they are. */
bool hfi_source_add(struct hfi_source *source, struct hfi_reactor *reactor,
                    const struct hfi_source_calls *calls);
/* Its descriptors stay watched until they are closed or hfi_source_unwatch() is called. Does
 * nothing if it is not added. */
void hfi_source_remove(struct hfi_source *source);

/* Watch a descriptor of it for EPOLL* events, instead of those before. false: errno says why. */
bool hfi_source_watch(struct hfi_source *source, int fd, uint32_t events);
void hfi_source_unwatch(struct hfi_source *source, int fd);

/* Call due() then; HFI_NEVER: not. */
void hfi_source_at(struct hfi_source *source, int64_t due_ms);
/* The same, unless it has an earlier time. */
void hfi_source_by(struct hfi_source *source, int64_t due_ms);
/* Call flush() before the lock is dropped, once nobody corks. */
void hfi_source_dirty(struct hfi_source *source);

/* ---- being driven. Without the lock. ------------------------------------------------------------------- */

/* For the table of an engine whose store begins with a struct hfi_reactor. */
#define HFI_REACTOR_CALLS \
    .drive = &hfi_reactor_drive, .submit = hfi_reactor_submit, .cancel = hfi_reactor_cancel
extern const struct hfi_drive hfi_reactor_drive;
void hfi_reactor_submit(void *store, struct hfi_op *op);
void hfi_reactor_cancel(void *store, struct hfi_op *op, hf_status status);

/* Wait for something to do, at most until until_ms, and do it: for the engine itself, while it opens. */
void hfi_reactor_turn(struct hfi_reactor *reactor, int64_t until_ms);

#endif
