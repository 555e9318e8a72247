/* SPDX-License-Identifier: MIT */
/*
 * What happens in a store, as spans and numbers. The observer is called under locks and must not block: it copies what it needs into a
 * ring, and the main thread writes it out, as an exporter of OpenTelemetry does. A span is the wait for a lease ("acquire") or its
 * hold ("hold"), in the form of OTLP's JSON: one line each. docs/observe.md says what is what.
 */
#include "example.h"

#include <holdfast/observe.h>

#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#define RING 256

struct note {
    hf_observation seen; /* without its pointers */
    char name[64];
    char text[128];
    int64_t at_ns; /* CLOCK_REALTIME */
};

static struct {
    pthread_mutex_t lock;
    struct note of[RING];
    size_t count;
    size_t dropped; /* never wait for the exporter: count what it was too slow for */
} ring = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_event(const hf_observation *seen, void *arg)
{
    struct timespec now;
    struct note *note;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&ring.lock);
    if (ring.count < RING) {
        note = &ring.of[ring.count++];
        note->seen = *seen;
        note->at_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        snprintf(note->name, sizeof note->name, "%.*s", seen->name ? (int)seen->name_len : 0,
                 seen->name ? (const char *)seen->name : "");
        snprintf(note->text, sizeof note->text, "%s", seen->text);
    } else {
        ring.dropped++;
    }
    pthread_mutex_unlock(&ring.lock);
}

/* A span ends now and began `ms` ago. The names here are plain; a name is any bytes, and a program that has others must escape them. */
static void print_span(const struct note *note, const char *span, int64_t ms, const char *status)
{
    printf("{\"name\":\"%s\",\"spanId\":\"%016" PRIx64 "\",\"startTimeUnixNano\":\"%" PRId64
           "\",\"endTimeUnixNano\":\"%" PRId64 "\",\"attributes\":{\"holdfast.name\":\"%s\","
           "\"holdfast.token\":\"%" PRIu64 "\",\"holdfast.outcome\":\"%s\"}}\n",
           span, note->seen.id * 2 + (span[0] == 'h'), note->at_ns - ms * 1000000, note->at_ns,
           note->name, note->seen.token, status);
}

static size_t export_all(void)
{
    size_t spans = 0;

    pthread_mutex_lock(&ring.lock);
    for (size_t i = 0; i < ring.count; i++) {
        const struct note *note = &ring.of[i];
        const hf_observation *seen = &note->seen;

        spans++;
        if (seen->what == HF_OBSERVED_GRANTED)
            print_span(note, "acquire", seen->waited_ms, "granted");
        else if (seen->what == HF_OBSERVED_FAILED)
            print_span(note, "acquire", seen->waited_ms, hf_status_name(seen->status));
        else if (seen->what == HF_OBSERVED_RELEASED)
            print_span(note, "hold", seen->held_ms, "released");
        else if (seen->what == HF_OBSERVED_LOST)
            print_span(note, "hold", seen->held_ms, hf_loss_name(seen->loss));
        else
            spans--; /* begin, wanted, at risk, ...: logs, if one wants them */
    }
    ring.count = 0;
    pthread_mutex_unlock(&ring.lock);
    return spans;
}

static hf_acquire_request request_for(const char *name)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    return request;
}

int main(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv), *other = open_store(argc, argv);
    hf_acquire_request request = request_for("example/observe");
    hf_observer observer = HF_OBSERVER_INIT;
    hf_stats stats = HF_STATS_INIT;
    hf_lease *lease, *second;
    hf_error err;

    observer.on_event = on_event;
    expect(hf_observer_set(&observer) == HF_OK, "an observer");
    must(hf_acquire(store, &request, &lease, &err), &err);
    expect(hf_acquire(other, &request, &second, &err) == HF_BUSY, "it is taken");
    must(hf_release(lease, &err), &err);
    expect(export_all() == 3, "two attempts and a hold");
    expect(hf_observer_set(NULL) == HF_OK, "none any more");

    expect(hf_stats_get(store, &stats) == HF_OK, "numbers");
    printf("granted %" PRIu64 ", held for less than %" PRId64 " ms (99 %%)\n", stats.granted,
           hf_histogram_quantile_ms(&stats.holds, 0.99));
    expect(stats.granted == 1 && stats.holds.count == 1, "one of each");
    expect(hf_stats_get(other, &stats) == HF_OK, "numbers");
    expect(stats.granted == 0 && stats.busy == 1, "and a refusal by the other store handle");
    close_store(other);
    close_store(store);
    return 0;
}
