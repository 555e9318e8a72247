/* SPDX-License-Identifier: MIT */
/* hf_stats for lib/stats.js. Numbers are JavaScript's: they stay exact up to 2^53. */
#include "internal.h"

#include <holdfast/observe.h>

#include <string.h>

static void put_count(napi_env env, napi_value object, const char *name, uint64_t number)
{
    put(env, object, name, make_number(env, (double)number));
}

static napi_value make_buckets(napi_env env, const hf_histogram *histogram)
{
    napi_value list;

    if (napi_create_array_with_length(env, HF_HISTOGRAM_BUCKETS, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++)
        napi_set_element(env, list, i, make_number(env, (double)histogram->buckets[i]));
    return list;
}

/* What the constructor of Histogram wants. */
static napi_value make_histogram(napi_env env, const hf_histogram *histogram)
{
    napi_value object;

    if (napi_create_object(env, &object) != napi_ok)
        return NULL;
    put_count(env, object, "count", histogram->count);
    put_count(env, object, "sum", histogram->sum_ms);
    put(env, object, "buckets", make_buckets(env, histogram));
    return object;
}

/* Reasons are appended only: those that the library does not know come last, and all have one name. */
static napi_value make_losses(napi_env env, const hf_stats *stats)
{
    napi_value object;

    if (napi_create_object(env, &object) != napi_ok)
        return NULL;
    for (int i = HF_LOSS_NONE + 1; i < HF_LOSSES_MAX; i++) {
        const char *name = hf_loss_name((hf_loss)i);

        if (strcmp(name, "unknown") == 0)
            break;
        put_count(env, object, strcmp(name, "max_hold") == 0 ? "maxHold" : name, stats->losses[i]);
    }
    return object;
}

/* stats(store): undefined if it is closed. */
napi_value store_stats(napi_env env, napi_callback_info info)
{
    hf_stats s = HF_STATS_INIT;
    napi_value argument, object;
    struct store *store;
    size_t count = 1;

    if (napi_get_cb_info(env, info, &count, &argument, NULL, NULL) != napi_ok || count != 1)
        return NULL;
    store = store_arg(env, argument);
    if (!store->handle || hf_stats_get(store->handle, &s) != HF_OK ||
        napi_create_object(env, &object) != napi_ok)
        return NULL;
    put_count(env, object, "granted", s.granted);
    put_count(env, object, "busy", s.busy);
    put_count(env, object, "timeouts", s.timeouts);
    put_count(env, object, "cancelled", s.cancelled);
    put_count(env, object, "deadlocks", s.deadlocks);
    put_count(env, object, "unknown", s.unknown);
    put_count(env, object, "failed", s.failed);
    put_count(env, object, "reentries", s.reentries);
    put_count(env, object, "handovers", s.handovers);
    put_count(env, object, "passes", s.passes);
    put_count(env, object, "lingered", s.lingered);
    put(env, object, "waits", make_histogram(env, &s.waits));
    put_count(env, object, "held", s.held);
    put(env, object, "holds", make_histogram(env, &s.holds));
    put_count(env, object, "renewals", s.renewals);
    put_count(env, object, "renewalsFailed", s.renewals_failed);
    put(env, object, "losses", make_losses(env, &s));
    put_count(env, object, "releasesUnknown", s.releases_unknown);
    put_count(env, object, "reconnects", s.reconnects);
    put_count(env, object, "commands", s.commands);
    return object;
}

/* quantile(buckets, share) in ms */
napi_value quantile(napi_env env, napi_callback_info info)
{
    hf_histogram histogram = { 0 };
    napi_value value[2], item;
    size_t count = 2;
    double number = 0;

    if (napi_get_cb_info(env, info, &count, value, NULL, NULL) != napi_ok || count != 2)
        return NULL;
    for (uint32_t i = 0; i < HF_HISTOGRAM_BUCKETS; i++) {
        if (napi_get_element(env, value[0], i, &item) != napi_ok ||
            napi_get_value_double(env, item, &number) != napi_ok)
            return NULL;
        histogram.buckets[i] = (uint64_t)number;
        histogram.count += histogram.buckets[i];
    }
    if (napi_get_value_double(env, value[1], &number) != napi_ok)
        return NULL;
    return make_number(env, (double)hf_histogram_quantile_ms(&histogram, number));
}

/* The upper bounds of all buckets but the last one, which has none. */
napi_value make_bounds(napi_env env)
{
    napi_value list;

    if (napi_create_array_with_length(env, HF_HISTOGRAM_BUCKETS, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; i + 1 < HF_HISTOGRAM_BUCKETS; i++)
        napi_set_element(env, list, i, make_number(env, (double)hf_histogram_bound_ms(i)));
    return list;
}
