/* SPDX-License-Identifier: MIT */
/* hf_stats for StoreStats.java, which reads the numbers in the order in which they are written here. */
#include "binding.h"

#include <holdfast/observe.h>

#include <string.h>

static void write_histogram(struct out *out, const hf_histogram *histogram)
{
    out_number(out, (int64_t)histogram->count);
    out_number(out, (int64_t)histogram->sum_ms);
    out_number(out, HF_HISTOGRAM_BUCKETS);
    for (int i = 0; i < HF_HISTOGRAM_BUCKETS; i++)
        out_number(out, (int64_t)histogram->buckets[i]);
}

/* Reasons are appended only: those that the library does not know come last, and all have one name. */
static int count_reasons(void)
{
    int end = HF_LOSS_NONE + 1;

    while (end < HF_LOSSES_MAX && strcmp(hf_loss_name((hf_loss)end), "unknown") != 0)
        end++;
    return end - (HF_LOSS_NONE + 1);
}

static void write_losses(struct out *out, const hf_stats *stats)
{
    int count = count_reasons();

    out_number(out, count);
    for (int i = HF_LOSS_NONE + 1; i <= HF_LOSS_NONE + count; i++) {
        out_text(out, hf_loss_name((hf_loss)i));
        out_number(out, (int64_t)stats->losses[i]);
    }
}

static void write_stats(struct out *out, const hf_stats *stats)
{
    out_number(out, (int64_t)stats->granted);
    out_number(out, (int64_t)stats->busy);
    out_number(out, (int64_t)stats->timeouts);
    out_number(out, (int64_t)stats->cancelled);
    out_number(out, (int64_t)stats->deadlocks);
    out_number(out, (int64_t)stats->unknown);
    out_number(out, (int64_t)stats->failed);
    out_number(out, (int64_t)stats->reentries);
    out_number(out, (int64_t)stats->handovers);
    out_number(out, (int64_t)stats->passes);
    out_number(out, (int64_t)stats->lingered);
    write_histogram(out, &stats->waits);
    out_number(out, (int64_t)stats->held);
    write_histogram(out, &stats->holds);
    out_number(out, (int64_t)stats->renewals);
    out_number(out, (int64_t)stats->renewals_failed);
    write_losses(out, stats);
    out_number(out, (int64_t)stats->releases_unknown);
    out_number(out, (int64_t)stats->reconnects);
    out_number(out, (int64_t)stats->commands);
}

hf_status stats_get(hf_store *store, struct out *out)
{
    hf_stats stats = HF_STATS_INIT;
    hf_status status = hf_stats_get(store, &stats);

    if (status == HF_OK)
        write_stats(out, &stats);
    return status;
}

jlong stats_bound(JNIEnv *env, jclass self, jint bucket)
{
    (void)env;
    (void)self;
    return hf_histogram_bound_ms((size_t)bucket);
}

jlong stats_quantile(JNIEnv *env, jclass self, jlongArray buckets, jdouble share)
{
    hf_histogram histogram = { 0 };
    jlong numbers[HF_HISTOGRAM_BUCKETS] = { 0 };
    jsize count = (*env)->GetArrayLength(env, buckets);

    (void)self;
    if (count > HF_HISTOGRAM_BUCKETS)
        count = HF_HISTOGRAM_BUCKETS;
    (*env)->GetLongArrayRegion(env, buckets, 0, count, numbers);
    for (int i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        histogram.buckets[i] = (uint64_t)numbers[i];
        histogram.count += histogram.buckets[i];
    }
    return hf_histogram_quantile_ms(&histogram, share);
}
