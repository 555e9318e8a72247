/* SPDX-License-Identifier: MIT */
/* Numbers of a store: see stats.h. */
#include "core/stats.h"

#include "core/observer.h"
#include "core/request.h"
#include "core/store.h"
#include "util/clock.h"

#include <string.h>

/* ---- time ------------------------------------------------------------------------------ */

_Atomic int64_t hfi_stats_ahead_ms;

int64_t hfi_stats_now_anew(void)
{
    int64_t now_ms = hfi_now_ms();

    atomic_store_explicit(&hfi_stats_ahead_ms, now_ms - hfi_stats_coarse_ms(),
                          memory_order_relaxed);
    return now_ms;
}

/* ---- counting ---------------------------------------------------------------------------- */

static inline struct hfi_stats *stats_of(const struct hfi_lease *lease)
{
    return &atomic_load_explicit(&lease->shard, memory_order_relaxed)->stats;
}

/* What is counted of a hold whether it has ended or not. */
static inline void count_grant(struct hfi_stats *stats, const struct hfi_lease *lease)
{
    hfi_histogram_add(&stats->waits, lease->waited_ms);
    stats->handovers += lease->handed;
}

void hfi_stats_hold_ended(struct hfi_lease *lease, hf_loss loss, const char *why, int64_t now_ms)
{
    struct hfi_stats *stats = stats_of(lease);

    count_grant(stats, lease);
    hfi_histogram_add(&stats->holds, now_ms - lease->since_ms);
    if (loss != HF_LOSS_NONE)
        stats->losses[loss]++;
    if (hfi_observed())
        hfi_observe(lease, (hf_observation){ .what = loss ? HF_OBSERVED_LOST : HF_OBSERVED_RELEASED,
                                             .loss = loss,
                                             .text = why,
                                             .waited_ms = lease->waited_ms,
                                             .held_ms = now_ms - lease->since_ms });
}

static enum hfi_failure failure_of(hf_status status)
{
    switch (status) {
    case HF_BUSY:
        return HFI_FAILURE_BUSY;
    case HF_TIMEOUT:
        return HFI_FAILURE_TIMEOUT;
    case HF_CANCELLED:
        return HFI_FAILURE_CANCELLED;
    case HF_DEADLOCK:
        return HFI_FAILURE_DEADLOCK;
    case HF_UNKNOWN:
        return HFI_FAILURE_UNKNOWN;
    default:
        return HFI_FAILURE_OTHER;
    }
}

static void add_one(_Atomic uint64_t *number)
{
    atomic_fetch_add_explicit(number, 1, memory_order_relaxed);
}

void hfi_stats_failed(struct hfi_lease *lease, hf_status status)
{
    add_one(&stats_of(lease)->failures[failure_of(status)]);
    if (hfi_observed())
        hfi_observe(lease, (hf_observation){
                               .what = HF_OBSERVED_FAILED,
                               .status = status,
                               .text = hf_status_text(status),
                               .waited_ms = lease->begun_ms ? hfi_now_ms() - lease->begun_ms : 0 });
}

void hfi_stats_reentered(struct hfi_lease *lease)
{
    add_one(&stats_of(lease)->reentries);
    if (hfi_observed())
        hfi_observe(lease, (hf_observation){ .what = HF_OBSERVED_REENTERED });
}

void hfi_stats_release_unknown(struct hfi_lease *lease)
{
    add_one(&stats_of(lease)->releases_unknown);
}

void hfi_stats_init(struct hfi_shard *shard)
{
    struct hfi_stats *stats = &shard->stats;

    memset(stats, 0, offsetof(struct hfi_stats, failures));
    for (int i = 0; i < HFI_FAILURES; i++)
        atomic_store_explicit(&stats->failures[i], 0, memory_order_relaxed);
    atomic_store_explicit(&stats->reentries, 0, memory_order_relaxed);
    atomic_store_explicit(&stats->releases_unknown, 0, memory_order_relaxed);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void add_histogram(hf_histogram *all, const struct hfi_histogram *part)
{
    all->sum_ms += part->sum_ms;
    for (int i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        all->buckets[i] += part->buckets[i];
        all->count += part->buckets[i];
    }
}

static void add_failures(hf_stats *all, const struct hfi_stats *part)
{
    uint64_t *const of[HFI_FAILURES] = {
        [HFI_FAILURE_BUSY] = &all->busy,           [HFI_FAILURE_TIMEOUT] = &all->timeouts,
        [HFI_FAILURE_CANCELLED] = &all->cancelled, [HFI_FAILURE_DEADLOCK] = &all->deadlocks,
        [HFI_FAILURE_UNKNOWN] = &all->unknown,     [HFI_FAILURE_OTHER] = &all->failed
    };

    for (int i = 0; i < HFI_FAILURES; i++)
        *of[i] += atomic_load_explicit(&part->failures[i], memory_order_relaxed);
    all->reentries += atomic_load_explicit(&part->reentries, memory_order_relaxed);
    all->releases_unknown += atomic_load_explicit(&part->releases_unknown, memory_order_relaxed);
}

static void add_shard(hf_stats *all, struct hfi_shard *shard)
{
    struct hfi_stats stats = { .handovers = 0 };

    pthread_mutex_lock(&shard->lock);
    for (uint32_t b = 0; b < shard->bucket_count; b++)
        for (struct hfi_lease *lease = shard->buckets[b]; lease; lease = lease->next)
            if (atomic_load(&lease->phase) == HFI_HELD && !hfi_lease_lost(lease)) {
                count_grant(&stats, lease);
                all->held++;
            }
    stats.waits.buckets[0] += shard->stats.quick;
    stats.holds.buckets[0] += shard->stats.quick;
    add_histogram(&all->waits, &stats.waits);
    add_histogram(&all->holds, &stats.holds);
    add_histogram(&all->waits, &shard->stats.waits);
    add_histogram(&all->holds, &shard->stats.holds);
    all->handovers += stats.handovers + shard->stats.handovers;
    all->passes += shard->stats.passes;
    all->lingered += shard->stats.lingered;
    all->renewals += shard->stats.renewals;
    all->renewals_failed += shard->stats.renewals_failed;
    for (int i = 0; i < HF_LOSSES_MAX; i++)
        all->losses[i] += shard->stats.losses[i];
    pthread_mutex_unlock(&shard->lock);
    add_failures(all, &shard->stats);
}

hf_status hf_stats_get(hf_store *handle, hf_stats *ret_stats)
{
    hf_stats all = HF_STATS_INIT;
    size_t size = ret_stats ? ret_stats->size : 0;
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, NULL);

    if (status != HF_OK)
        return status;
    if (size < offsetof(hf_stats, busy) || size > HFI_STRUCT_MAX) {
        hfi_store_leave(store);
        return HF_INVALID;
    }
    for (int i = 0; i < HFI_SHARDS; i++)
        add_shard(&all, &store->shards[i]);
    all.granted = all.waits.count;
    all.reconnects = atomic_load_explicit(&store->host.reconnects, memory_order_relaxed);
    all.commands = atomic_load_explicit(&store->host.commands, memory_order_relaxed);
    all.size = size;
    memcpy(ret_stats, &all, size < sizeof all ? size : sizeof all);
    hfi_store_leave(store);
    return HF_OK;
}

/* ---- without a store ------------------------------------------------------------------------ */

int64_t hf_histogram_bound_ms(size_t bucket)
{
    return bucket < HF_HISTOGRAM_BUCKETS - 1 ? INT64_C(1) << bucket : INT64_MAX;
}

int64_t hf_histogram_quantile_ms(const hf_histogram *histogram, double share)
{
    double wanted;
    uint64_t seen = 0;

    if (!histogram || histogram->count == 0)
        return 0;
    share = share > 0 ? (share < 1 ? share : 1) : 0; /* also what is no number */
    wanted = share * (double)histogram->count;
    for (size_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted)
            return hf_histogram_bound_ms(i);
    }
    return INT64_MAX;
}

const char *hf_loss_name(hf_loss loss)
{
    static const char *const names[] = {
        [HF_LOSS_NONE] = "none",           [HF_LOSS_EXPIRED] = "expired",
        [HF_LOSS_MAX_HOLD] = "max_hold",   [HF_LOSS_BROKEN] = "broken",
        [HF_LOSS_FORGOTTEN] = "forgotten", [HF_LOSS_CLOSED] = "closed"
    };

    return (unsigned)loss < sizeof names / sizeof names[0] ? names[loss] : "unknown";
}
