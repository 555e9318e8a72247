/* SPDX-License-Identifier: MIT */
/*
 * Holdfast: what a store has done in this process, as numbers (hf_stats_get()) and as it happens (hf_observer_set()). For
 * metrics, traces and logs: docs/observe.md maps them to Prometheus and OpenTelemetry. The conventions are those of holdfast.h.
 *
 * Counting takes no lock of its own, and uses the times that a call has read anyway. Durations are in milliseconds. Only the end of
 * a hold without a ttl (embedded store) is read from the kernel's coarse clock, so such a hold may be reported too short by one
 * tick of that clock (1 to 10 ms).
 */
#ifndef HOLDFAST_OBSERVE_H
#define HOLDFAST_OBSERVE_H

#include <holdfast/holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- histograms -------------------------------------------------------------- */

#define HF_HISTOGRAM_BUCKETS 30

/* Durations in ms. buckets[0] counts those below 1 ms, buckets[i] those of at least 2^(i-1) and less than 2^i ms, and the last one
 * all longer ones. The buckets are not cumulative; `count` is their sum. */
typedef struct hf_histogram {
    uint64_t count;
    uint64_t sum_ms;
    uint64_t buckets[HF_HISTOGRAM_BUCKETS];
} hf_histogram;

/* Blocks: no. Callbacks: none. After fork: works.
 * The upper bound of a bucket: 1, 2, 4, ... ms; INT64_MAX for the last bucket and beyond. */
HF_API HF_USE int64_t hf_histogram_bound_ms(size_t bucket);
/* Blocks: no. Callbacks: none. After fork: works.
 * A quantile: the bound below which the given share of the durations lies (0.5: the median). It is at most twice the true value,
 * or 1 ms. 0: there are no durations, or `histogram` is NULL. A share below 0 counts as 0, one above 1 as 1. */
HF_API HF_USE int64_t hf_histogram_quantile_ms(const hf_histogram *histogram, double share);

/* ---- numbers ------------------------------------------------------------------- */

/* Why a lease was lost. Append only. */
typedef enum hf_loss {
    HF_LOSS_NONE,     /* it was not lost */
    HF_LOSS_EXPIRED,  /* its validity ended, and no renewal was confirmed before */
    HF_LOSS_MAX_HOLD, /* it was held for as long as max_hold_ms allows */
    HF_LOSS_BROKEN, /* the store said that it has ended: by hf_lease_break(), with its session, or before the local clock said so */
    HF_LOSS_FORGOTTEN, /* the store did not have it any more when it was renewed or converted */
    HF_LOSS_CLOSED     /* hf_close() with HF_CLOSE_FLAG_RELEASE */
} hf_loss;
#define HF_LOSSES_MAX 8

/* Blocks: no. Callbacks: none. After fork: works.
 * "expired". Never NULL, also for other numbers. */
HF_API HF_USE const char *hf_loss_name(hf_loss loss);

/*
 * What this process has done with a store since hf_open(). Every number but `held` only grows. Each request is one acquisition,
 * also each name of hf_acquire_all() and hf_acquire_any(); a request that was refused before it began (HF_INVALID, HF_UNSUPPORTED,
 * HF_DEADLOCK at once, HF_CANCELLED by a canceller that was fired before) is none.
 */
typedef struct hf_stats {
    size_t size;
    /* Acquisitions by their outcome. */
    uint64_t granted;   /* also by adoption, by conversion, and again by hf_yield() */
    uint64_t busy;      /* HF_BUSY */
    uint64_t timeouts;  /* HF_TIMEOUT */
    uint64_t cancelled; /* HF_CANCELLED */
    uint64_t deadlocks; /* HF_DEADLOCK */
    uint64_t unknown;   /* HF_UNKNOWN: settled in the background */
    uint64_t failed;    /* any other status */
    uint64_t reentries; /* one hold more of what was held; not in `granted` */
    /* How the granted ones were granted. The rest found the name free in the store. */
    uint64_t handovers; /* by the store, after a wait there (not in mode=row and mode=session) */
    uint64_t passes;    /* by a thread of this process that released it */
    uint64_t lingered;  /* it had stayed with the process: linger_ms */
    hf_histogram waits; /* of granted acquisitions; its count is `granted` */
    /* Holds. */
    uint64_t held;                      /* now */
    hf_histogram holds;                 /* of those that have ended, lost ones too */
    uint64_t renewals, renewals_failed; /* of leases; a failed one was refused, or not confirmed */
    uint64_t losses[HF_LOSSES_MAX];     /* by hf_loss */
    uint64_t releases_unknown;          /* HF_UNKNOWN, HF_UNAVAILABLE: settled in the background */
    /* The connection. An embedded store has none, and PostgreSQL and MariaDB count none: 0. */
    uint64_t reconnects; /* connections that were made again after they had been lost */
    uint64_t commands;   /* requests that were sent to servers, heartbeats and greetings too */
    uint64_t reserved[16];
} hf_stats;
#define HF_STATS_INIT HF_INIT(hf_stats)

/* Blocks: no. Callbacks: none. After fork: HF_FORKED.
 * The numbers of this store. They are read one after the other while other threads go on, so they
 * may not add up exactly. The call visits every lease that is held. HF_INVALID: no such store, or
 * ret_stats->size is not that of an hf_stats. */
HF_API HF_USE hf_status hf_stats_get(hf_store *store, hf_stats *ret_stats);

/* ---- events ------------------------------------------------------------------------- */

/* What has happened. One acquisition is BEGIN and then one of GRANTED, REENTERED, FAILED; one that was GRANTED ends with RELEASED or
 * LOST, and not with both. Append only. */
typedef enum hf_observed {
    HF_OBSERVED_BEGIN = 1,  /* a request has begun */
    HF_OBSERVED_GRANTED,    /* `token`, `waited_ms`, `local` */
    HF_OBSERVED_REENTERED,  /* one hold more of what is held; its release is not an event */
    HF_OBSERVED_FAILED,     /* `status`, `waited_ms` */
    HF_OBSERVED_WANTED,     /* HF_FLAG_WATCH: others wait for it ... */
    HF_OBSERVED_UNWANTED,   /* ... and no longer */
    HF_OBSERVED_AT_RISK,    /* a renewal was not confirmed; `text` ... */
    HF_OBSERVED_HELD,       /* ... and the next one was */
    HF_OBSERVED_LOST,       /* `loss`, `text`, `held_ms` */
    HF_OBSERVED_RELEASED,   /* its holder gave it back, or passed it on: `held_ms` */
    HF_OBSERVED_RECONNECTED /* a connection is up again; `name` is NULL */
} hf_observed;

/* It lives until the callback returns. Fields that the event does not have are zero. */
typedef struct hf_observation {
    size_t size; /* set by the library */
    hf_observed what;
    hf_store *store;
    const char *location; /* of the store, without secrets */
    const void *name;     /* any bytes */
    size_t name_len;
    hf_kind kind;
    /* One for each acquisition, from BEGIN to RELEASED or LOST. 0: it began before the observer was set */
    uint64_t id;
    uint64_t token;
    hf_status status;
    hf_loss loss;
    const char *text; /* for people; "" if there is none */
    int64_t waited_ms;
    int64_t held_ms;
    bool local; /* GRANTED: by a thread of this process, or it had stayed here (linger_ms) */
} hf_observation;

/* Called for every event, on the thread on which it happens: that of a caller, or one of the
 * library. Several threads may call it at once. The events of one acquisition come in their order.
 * Locks of the store may be held: the callback must not block, and must not call this library,
 * except hf_status_name(), hf_status_text(), hf_loss_name() and the hf_histogram_*() calls. Copy
 * what you need and hand it to another thread. */
typedef void hf_observer_fn(const hf_observation *observation, void *arg);

typedef struct hf_observer {
    size_t size;
    hf_observer_fn *on_event;
    void *arg;
} hf_observer;
#define HF_OBSERVER_INIT HF_INIT(hf_observer)

/* Blocks: for a callback of the old observer that runs. Callbacks: none. After fork: works.
 * Observe all stores of this process, open ones and later ones. The struct is copied. NULL: stop
 * observing. There is one observer: a new one replaces the old one, which is not called any more
 * after this call has returned. Without an observer an event costs one load. Do not call it from
 * within the callback. HF_INVALID: on_event is NULL, or the size is not that of an hf_observer. */
HF_API HF_USE hf_status hf_observer_set(const hf_observer *observer);

#ifdef __cplusplus
}
#endif
#endif
