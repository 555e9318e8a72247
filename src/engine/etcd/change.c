/* SPDX-License-Identifier: MIT */
/*
 * Waiting for any change of a claim: a watch on all of them, on a connection and a multi handle of the
 * waiting thread's own. The change number is etcd's revision, so nothing is missed between calls.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS      1000 /* so long one sleeps at most without a look at *stop */
#define CATCH_UP_MS  500  /* etcd tells of the past a little later */
#define AGAIN_MS     200
#define CALL_MS      5000
#define FAILURES_MAX 10

/* In store->changes while it waits; under the lock. */
struct etcd_change {
    struct etcd_change *next;
    CURLM *multi;
};

struct stream {
    struct etcd_text body, input;
    CURL *easy;
    struct curl_slist *headers;
    bool created, ended;
    int64_t revision, changed; /* at its creation; of the first event, or 0 */
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct stream *stream = arg;

    etcd_add_bytes(&stream->input, bytes, size * count);
    return stream->input.failed ? 0 : size * count;
}

static bool stream_open(struct etcd_store *store, CURLM *multi, struct stream *stream,
                        int64_t start)
{
    struct etcd_key from, to;
    char url[512];

    stream->easy = curl_easy_init();
    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add(&stream->body, "{\"create_request\":{");
    etcd_add_key(&stream->body, "key", &from);
    etcd_add(&stream->body, ",");
    etcd_add_key(&stream->body, "range_end", &to);
    etcd_add(&stream->body, ",\"start_revision\":\"");
    etcd_add_number(&stream->body, start);
    etcd_add(&stream->body, "\"}}");
    if (!stream->easy || stream->body.failed)
        return false;
    etcd_easy_setup(store, stream->easy);
    hfi_reactor_enter(&store->reactor);
    stream->headers = etcd_headers(store);
    etcd_conf_address(store->conf, store->at, "/v3/watch", url, sizeof url);
    hfi_reactor_leave_quietly(&store->reactor, false);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(stream->easy, CURLOPT_URL, url);
    curl_easy_setopt(stream->easy, CURLOPT_HTTPHEADER,
                     stream->headers ? stream->headers : store->headers);
    curl_easy_setopt(stream->easy, CURLOPT_POSTFIELDS, stream->body.bytes);
    curl_easy_setopt(stream->easy, CURLOPT_POSTFIELDSIZE, (long)stream->body.len);
    return curl_multi_add_handle(multi, stream->easy) == CURLM_OK;
}

static void stream_close(CURLM *multi, struct stream *stream)
{
    if (stream->easy) {
        curl_multi_remove_handle(multi, stream->easy);
        curl_easy_cleanup(stream->easy);
    }
    curl_slist_free_all(stream->headers);
    etcd_text_done(&stream->body);
    etcd_text_done(&stream->input);
}

/* Whole lines of what came. */
static void read_lines(struct stream *stream)
{
    char *end;

    while (stream->input.len > 0 && (end = memchr(stream->input.bytes, '\n', stream->input.len))) {
        size_t len = (size_t)(end - stream->input.bytes);
        json_t *message = json_loadb(stream->input.bytes, len, 0, NULL);
        const json_t *result = json_object_get(message, "result");
        int64_t compacted = etcd_read_number(result, "compact_revision");

        stream->input.len -= len + 1;
        memmove(stream->input.bytes, end + 1, stream->input.len);
        if (json_is_true(json_object_get(result, "created"))) {
            stream->created = true;
            stream->revision = etcd_revision(result);
        }
        if (json_array_size(json_object_get(result, "events")) > 0)
            stream->changed = etcd_revision(result);
        else if (compacted > 0)
            stream->changed = compacted; /* something was, or etcd would not have forgotten it */
        else if (!result || json_is_true(json_object_get(result, "canceled")))
            stream->ended = true;
        json_decref(message);
    }
}

static int sleep_ms(int64_t until_ms)
{
    int64_t left_ms = until_ms - hfi_now_ms();

    return (int)(left_ms < 0 ? 0 : left_ms < LOOK_MS ? left_ms : LOOK_MS);
}

/* One stream, until it ended, told of a change, or there is no more time or wish. */
static bool watch_once(struct etcd_store *store, CURLM *multi, int64_t *revision, int64_t until_ms,
                       const _Atomic int *stop)
{
    struct stream stream = { .ended = false };
    int64_t least_ms = hfi_now_ms() + CALL_MS;
    int running = 1, left;
    bool late = false;

    if (!stream_open(store, multi, &stream, *revision + 1))
        stream.ended = true;
    while (!stream.ended && stream.changed == 0 && !(stop && atomic_load(stop))) {
        /* Until it is created, and has caught up with what it missed, the question is open. */
        int64_t end_ms = !stream.created || late ? least_ms : until_ms;

        if (end_ms < until_ms)
            end_ms = until_ms;
        if (hfi_now_ms() >= end_ms)
            break;
        curl_multi_perform(multi, &running);
        read_lines(&stream);
        if (stream.created && !late && stream.revision > *revision) {
            late = true;
            least_ms = hfi_now_ms() + CATCH_UP_MS;
        }
        if (curl_multi_info_read(multi, &left))
            stream.ended = true;
        if (!stream.ended && stream.changed == 0)
            curl_multi_poll(multi, NULL, 0, sleep_ms(end_ms), NULL);
    }
    if (stream.changed > 0)
        *revision = stream.changed;
    stream_close(multi, &stream);
    return !stream.ended;
}

static hf_status current(struct etcd_store *store, int64_t *ret_revision, hf_error *err)
{
    struct etcd_text body = { 0 };
    struct etcd_key from, to;
    hf_status status = HF_UNAVAILABLE;
    json_t *reply = NULL;
    size_t at;

    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add(&body, "{");
    etcd_add_key(&body, "key", &from);
    etcd_add(&body, ",\"count_only\":true}");
    if (body.failed)
        return hfi_error_memory(err);
    hfi_reactor_enter(&store->reactor);
    at = store->at;
    hfi_reactor_leave_quietly(&store->reactor, false);
    for (size_t i = 0; i < store->conf->url.host_count && status == HF_UNAVAILABLE; i++)
        status = etcd_ask(store, (at + i) % store->conf->url.host_count, "/v3/kv/range", body.bytes,
                          store->conf->op_ms, &reply, err);
    if (status == HF_OK)
        *ret_revision = etcd_revision(reply);
    json_decref(reply);
    etcd_text_done(&body);
    return status;
}

static void enlist(struct etcd_store *store, struct etcd_change *change, bool in)
{
    struct etcd_change **at = &store->changes;

    hfi_reactor_enter(&store->reactor);
    if (in) {
        change->next = store->changes;
        store->changes = change;
    } else {
        while (*at != change)
            at = &(*at)->next;
        *at = change->next;
    }
    hfi_reactor_leave_quietly(&store->reactor, false);
}

hf_status etcd_wait_change(void *self, uint64_t *seq, int64_t until_ms, const _Atomic int *stop,
                           hf_error *err)
{
    struct etcd_store *store = self;
    struct etcd_change change = { .multi = NULL };
    int64_t seen = (int64_t)*seq, revision;
    unsigned failures = 0;
    hf_status status = HF_OK;

    if (seen == 0)
        status = current(store, &seen, err);
    if (status != HF_OK)
        return status;
    revision = seen;
    change.multi = etcd_multi_new();
    if (!change.multi)
        return hfi_error_memory(err);
    enlist(store, &change, true);
    do {
        if (watch_once(store, change.multi, &revision, until_ms, stop)) {
            failures = 0;
        } else if (++failures > FAILURES_MAX) {
            status = hfi_error_set(err, HF_UNAVAILABLE, 0, "etcd ends our watch");
        } else {
            int64_t pause = current(store, &(int64_t){ 0 }, err) == HF_OK ? 0 : AGAIN_MS;

            curl_multi_poll(change.multi, NULL, 0, (int)pause, NULL);
        }
    } while (status == HF_OK && revision == seen && hfi_now_ms() < until_ms &&
             !(stop && atomic_load(stop)));
    enlist(store, &change, false);
    curl_multi_cleanup(change.multi);
    *seq = (uint64_t)revision;
    if (status != HF_OK || revision != seen)
        return status;
    if (stop && atomic_load(stop))
        return hfi_error_set(err, HF_CANCELLED, 0, "%s", hf_status_text(HF_CANCELLED));
    return hfi_error_set(err, HF_TIMEOUT, 0, "nothing changed");
}

void etcd_stop_wait(void *self)
{
    struct etcd_store *store = self;

    hfi_reactor_enter(&store->reactor);
    for (struct etcd_change *change = store->changes; change; change = change->next)
        curl_multi_wakeup(change->multi);
    hfi_reactor_leave_quietly(&store->reactor, false);
}
