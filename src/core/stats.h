/* SPDX-License-Identifier: MIT */
/*
 * Numbers of a store (hf_stats_get()), kept by shard. What a hold has been is counted when it ends, under the lock of its shard, which
 * is taken for that anyway; leases that are held are added by the reader. So a grant, which has no lock, counts nothing. What has
 * no lock at hand is atomic, and rare.
 */
#ifndef HFI_STATS_H
#define HFI_STATS_H

#include "holdfast/observe.h"

#include <stdatomic.h>
#include <time.h>

struct hfi_lease;
struct hfi_shard;

/* As hf_histogram, without the number that is the sum of the others. */
struct hfi_histogram {
    uint64_t sum_ms;
    uint64_t buckets[HF_HISTOGRAM_BUCKETS];
};

enum hfi_failure {
    HFI_FAILURE_BUSY,
    HFI_FAILURE_TIMEOUT,
    HFI_FAILURE_CANCELLED,
    HFI_FAILURE_DEADLOCK,
    HFI_FAILURE_UNKNOWN,
    HFI_FAILURE_OTHER,
    HFI_FAILURES
};

struct hfi_stats {
    /* With the lock of the shard. Most holds did not wait and lasted for less than a millisecond: these are one number, in a cache line
     * that is written anyway. The reader adds them to the first buckets. */
    uint64_t quick, lingered;
    struct hfi_histogram waits, holds;
    uint64_t handovers, passes, renewals, renewals_failed;
    uint64_t losses[HF_LOSSES_MAX];
    /* Any thread. */
    _Atomic uint64_t failures[HFI_FAILURES], reentries, releases_unknown;
};

static inline unsigned hfi_histogram_bucket(int64_t ms)
{
    unsigned bucket = ms <= 0 ? 0 : 64 - (unsigned)__builtin_clzll((unsigned long long)ms);

    return bucket < HF_HISTOGRAM_BUCKETS ? bucket : HF_HISTOGRAM_BUCKETS - 1;
}

static inline void hfi_histogram_add(struct hfi_histogram *histogram, int64_t ms)
{
    histogram->buckets[hfi_histogram_bucket(ms)]++;
    histogram->sum_ms += ms > 0 ? (uint64_t)ms : 0;
}

/* A wait in ms, which fits into a slot: 49 days at most. */
static inline uint32_t hfi_stats_waited(int64_t from_ms, int64_t now_ms)
{
    int64_t ms = now_ms - from_ms;

    return ms <= 0 ? 0 : ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* The present hold ends: by a release, by passing it on, or by a loss (`loss`, `why`). With the lock. */
void hfi_stats_hold_ended(struct hfi_lease *lease, hf_loss loss, const char *why, int64_t now_ms);
/*
 * A time for that where none is at hand: at most a tick of the kernel late, and not before since_ms. CLOCK_BOOTTIME has no coarse form, and
 * to read it would cost a fiftieth of an embedded pair. So: the coarse clock, and how far CLOCK_BOOTTIME is ahead of it, which changes
 * when the machine sleeps. 0: not known yet.
 */
#define HFI_TICK_MS 20 /* longer than a tick */
extern _Atomic int64_t hfi_stats_ahead_ms __attribute__((visibility("hidden")));
int64_t hfi_stats_now_anew(void);

static inline int64_t hfi_stats_coarse_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t hfi_stats_now(int64_t since_ms)
{
    int64_t now_ms =
        hfi_stats_coarse_ms() + atomic_load_explicit(&hfi_stats_ahead_ms, memory_order_relaxed);

    if (__builtin_expect(now_ms < since_ms - HFI_TICK_MS, 0)) /* the first, or the machine slept */
        now_ms = hfi_stats_now_anew();
    return now_ms < since_ms ? since_ms : now_ms;
}
/* A request with this slot has failed. Any thread. */
void hfi_stats_failed(struct hfi_lease *lease, hf_status status);
/* A request with this slot has re-entered what its thread holds. Any thread. */
void hfi_stats_reentered(struct hfi_lease *lease);
/* A release was not confirmed. Any thread. */
void hfi_stats_release_unknown(struct hfi_lease *lease);
/* Of a new store. With the lock. */
void hfi_stats_init(struct hfi_shard *shard);

#endif
