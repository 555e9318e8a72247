/* SPDX-License-Identifier: MIT */
/*
 * Streams. The gateway takes one watch per connection (over HTTP/1.1 it reads the whole request
 * before it answers, so none can be added or cancelled later): every waiting claim has its own,
 * on the one key that it waits for, and so has every waiter for a cell or for any change; the store has one on
 * what it is told (breaks). What comes is lines of JSON.
 *
 * A silent stream may be broken: while there are streams, the server is checked at intervals (also
 * that it has a majority). If the check fails, all streams to it are closed, and every waiter reads
 * its queue and watches another endpoint.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_LEN    (16u << 20)
#define INBOX_AGAIN_MS  500
#define INBOX_PING_RARE 5 /* without waiters, pings are less frequent by this factor */

static void free_watch(struct etcd_watch *watch);

/* ---- open and close --------------------------------------------------------------------------------- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct etcd_watch *watch = arg;

    if (watch->input.len + size * count > LINE_MAX_LEN)
        return 0;
    etcd_add_bytes(&watch->input, bytes, size * count);
    watch->touched = true;
    return watch->input.failed ? 0 : size * count;
}

/* `filter`: events to leave out ("NOPUT"); NULL: none. */
static void write_request(struct etcd_text *body, const struct etcd_key *key,
                          const struct etcd_key *to, int64_t start, const char *filter)
{
    etcd_add(body, "{\"create_request\":{");
    etcd_add_key(body, "key", key);
    if (to) {
        etcd_add(body, ",");
        etcd_add_key(body, "range_end", to);
    }
    if (start > 0) {
        etcd_add(body, ",\"start_revision\":\"");
        etcd_add_number(body, start);
        etcd_add(body, "\"");
    }
    if (filter) {
        etcd_add(body, ",\"filters\":[\"");
        etcd_add(body, filter);
        etcd_add(body, "\"]");
    }
    etcd_add(body, "}}");
}

/* A new watch that is not sent yet; NULL: out of memory, or too many. */
static struct etcd_watch *new_watch(struct etcd_store *store)
{
    struct etcd_watch *watch;

    if (store->watch_count >= ETCD_WATCHES_MAX || (store->conf->url.user && !store->token))
        return NULL;
    watch = hfi_calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->store = store;
    watch->host = store->at;
    watch->easy = curl_easy_init();
    return watch;
}

/* Send its request. false: out of memory, and it is freed. */
static bool begin(struct etcd_store *store, struct etcd_watch *watch)
{
    char url[512];

    if (!watch->easy || watch->body.failed) {
        free_watch(watch);
        return false;
    }
    etcd_easy_setup(store, watch->easy);
    etcd_track(&store->multis[ETCD_STREAMS], watch->easy);
    watch->headers = etcd_headers(store);
    etcd_conf_address(store->conf, watch->host, "/v3/watch", url, sizeof url);
    curl_easy_setopt(watch->easy, CURLOPT_PRIVATE, watch);
    curl_easy_setopt(watch->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(watch->easy, CURLOPT_WRITEDATA, watch);
    curl_easy_setopt(watch->easy, CURLOPT_URL, url);
    curl_easy_setopt(watch->easy, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(watch->easy, CURLOPT_HTTPHEADER,
                     watch->headers ? watch->headers : store->headers);
    curl_easy_setopt(watch->easy, CURLOPT_POSTFIELDS, watch->body.bytes);
    curl_easy_setopt(watch->easy, CURLOPT_POSTFIELDSIZE, (long)watch->body.len);
    if (curl_multi_add_handle(store->multis[ETCD_STREAMS].handle, watch->easy) != CURLM_OK) {
        free_watch(watch);
        return false;
    }
    watch->next = store->watches;
    if (store->watches)
        store->watches->prev = watch;
    store->watches = watch;
    if (store->watch_count++ == 0)
        store->ping_ms = hfi_now_ms() + store->conf->ping_ms;
    etcd_started(store);
    return true;
}

bool etcd_watch_open(struct etcd_store *store, struct etcd_wait *wait, const struct etcd_key *key,
                     const struct etcd_key *to, int64_t start, struct etcd_watch **ret_watch)
{
    struct etcd_watch *watch = new_watch(store);

    if (!watch)
        return false;
    watch->wait = wait;
    write_request(&watch->body, key, to, start, wait ? "NOPUT" : "NODELETE");
    if (!begin(store, watch))
        return false;
    *ret_watch = watch;
    return true;
}

bool etcd_watch_cell(struct etcd_store *store, struct etcd_cell_wait *cell,
                     const struct etcd_key *key, int64_t revision)
{
    struct etcd_watch *watch = new_watch(store);

    if (!watch)
        return false;
    watch->cell = cell;
    write_request(&watch->body, key, NULL, revision + 1, NULL);
    if (!begin(store, watch))
        return false;
    cell->watch = watch;
    return true;
}

bool etcd_watch_changes(struct etcd_store *store, struct etcd_change *change,
                        const struct etcd_key *key, const struct etcd_key *to, int64_t revision,
                        struct etcd_watch **ret_watch)
{
    struct etcd_watch *watch = new_watch(store);

    if (!watch)
        return false;
    watch->change = change;
    write_request(&watch->body, key, to, revision + 1, NULL);
    if (!begin(store, watch))
        return false;
    *ret_watch = watch;
    return true;
}

static void free_watch(struct etcd_watch *watch)
{
    if (watch->easy)
        curl_easy_cleanup(watch->easy);
    curl_slist_free_all(watch->headers);
    etcd_text_done(&watch->body);
    etcd_text_done(&watch->input);
    hfi_free(watch);
}

void etcd_watch_close(struct etcd_store *store, struct etcd_watch *watch)
{
    if (!watch->ended)
        curl_multi_remove_handle(store->multis[ETCD_STREAMS].handle, watch->easy);
    if (watch->prev)
        watch->prev->next = watch->next;
    else
        store->watches = watch->next;
    if (watch->next)
        watch->next->prev = watch->prev;
    store->watch_count--;
    if (store->handling == watch)
        store->handling = NULL;
    free_watch(watch);
}

void etcd_watch_ended(struct etcd_watch *watch, CURLcode result)
{
    watch->ended = watch->touched = true;
    hfi_error_set(&watch->why, HF_UNAVAILABLE, (int)result, "%s: watch: %s",
                  watch->store->conf->url.hosts[watch->host].shown, curl_easy_strerror(result));
}

/* ---- what came ------------------------------------------------------------------------------------------ */

/* The watch has ended. */
static void over(struct etcd_store *store, struct etcd_watch *watch)
{
    struct etcd_wait *wait = watch->wait;
    struct etcd_cell_wait *cell = watch->cell;
    struct etcd_change *change = watch->change;
    hf_error why = watch->why;

    etcd_watch_close(store, watch);
    if (wait) {
        etcd_wait_unwatched(store, wait, &why);
        return;
    }
    if (cell) {
        etcd_cell_unwatched(store, cell, &why);
        return;
    }
    if (change) {
        etcd_change_unwatched(store, change, &why);
        return;
    }
    store->inbox = NULL;
    store->inbox_ms = hfi_now_ms() + INBOX_AGAIN_MS;
}

static void forgotten(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                      const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* otherwise it ends with its lease */
}

/* One of our claims was broken. Delete the note that says so. */
static void told(struct etcd_store *store, const struct etcd_key *key,
                 const unsigned char owner[HFI_OWNER_LEN])
{
    struct hfi_claim *claim = etcd_claim_find(store, owner);
    struct etcd_call *call;

    if (claim)
        hfi_reactor_lost(&store->reactor, claim, "it was broken");
    call = etcd_call_new(store, "/v3/kv/txn", forgotten, NULL);
    if (!call)
        return;
    call->again = true;
    etcd_add(&call->body, "{\"success\":[");
    etcd_add_delete(&call->body, key);
    etcd_add(&call->body, "]}");
    etcd_call_send(call);
}

static void event(struct etcd_store *store, struct etcd_watch *watch, const json_t *one)
{
    const json_t *kv = json_object_get(one, "kv"), *key = json_object_get(kv, "key");
    bool deleted = json_is_string(json_object_get(one, "type")) &&
                   strcmp(json_string_value(json_object_get(one, "type")), "DELETE") == 0;
    struct etcd_wait *wait = watch->wait;
    unsigned char owner[HFI_OWNER_LEN] = { 0 };
    struct etcd_key bytes;
    bool ours;

    if (!json_is_string(key))
        return;
    if (watch->cell) {
        struct etcd_cell_wait *cell = watch->cell;

        etcd_watch_close(store, watch);
        etcd_cell_changed(store, cell,
                          deleted ? 0 : (uint64_t)etcd_read_number(kv, "mod_revision"));
        return;
    }
    bytes.len = etcd_unbase64(json_string_value(key), json_string_length(key), bytes.bytes,
                              sizeof bytes.bytes);
    ours = bytes.len != SIZE_MAX && etcd_key_place(bytes.bytes, bytes.len, owner);
    if (wait && deleted) /* any deleted key of the range was ahead of us */
        etcd_wait_deleted(store, wait, owner);
    else if (!wait && !deleted && ours)
        told(store, &bytes, owner);
}

static void line(struct etcd_store *store, struct etcd_watch *watch, const json_t *message)
{
    const json_t *result = json_object_get(message, "result");
    const json_t *events = json_object_get(result, "events");
    int64_t compacted = etcd_read_number(result, "compact_revision");

    if (watch->change && (json_array_size(events) > 0 || compacted > 0)) {
        /* Compacted: something was, or etcd would not have forgotten it. */
        etcd_change_told(store, watch->change, compacted > 0 ? compacted : etcd_revision(result));
        return;
    }
    if (!json_is_object(result) || json_is_true(json_object_get(result, "canceled"))) {
        if (watch == store->inbox && compacted > 0) {
            store->inbox_rev = compacted; /* notes before this are lost: check each claim */
            store->reactor.doubt = "etcd has forgotten what it had to tell us";
        }
        hfi_error_set(&watch->why, HF_UNAVAILABLE, 0, "%s: it ended our watch",
                      store->conf->url.hosts[watch->host].shown);
        over(store, watch);
        return;
    }
    if (json_is_true(json_object_get(result, "created"))) {
        watch->created = true;
        if (watch->wait)
            etcd_wait_created(store, watch->wait, etcd_revision(result));
        if (watch->change)
            etcd_change_created(watch->change, etcd_revision(result));
    }
    if (watch == store->inbox && json_array_size(events) > 0 && etcd_revision(result) > 0)
        store->inbox_rev = etcd_revision(result) + 1;
    for (size_t i = 0; i < json_array_size(events) && store->handling == watch; i++)
        event(store, watch, json_array_get(events, i));
}

/* Handle all complete lines. */
static void handle(struct etcd_store *store, struct etcd_watch *watch)
{
    char *end;

    store->handling = watch;
    while (store->handling == watch && watch->input.len > 0 &&
           (end = memchr(watch->input.bytes, '\n', watch->input.len))) {
        size_t len = (size_t)(end - watch->input.bytes);
        json_t *message = json_loadb(watch->input.bytes, len, 0, NULL);

        watch->input.len -= len + 1;
        memmove(watch->input.bytes, end + 1, watch->input.len);
        line(store, watch, message);
        json_decref(message);
    }
    if (store->handling == watch && watch->ended)
        over(store, watch);
    store->handling = NULL;
}

void etcd_watches_work(struct etcd_store *store)
{
    struct etcd_watch *watch = store->watches;

    while (watch) {
        if (!watch->touched) {
            watch = watch->next;
            continue;
        }
        watch->touched = false;
        handle(store, watch);
        watch = store->watches; /* any watch may have been closed: start again */
    }
}

void etcd_watches_host_failed(struct etcd_store *store, size_t host)
{
    for (struct etcd_watch *watch = store->watches; watch; watch = watch->next)
        if (watch->host == host && !watch->ended) {
            curl_multi_remove_handle(store->multis[ETCD_STREAMS].handle, watch->easy);
            etcd_watch_ended(watch, CURLE_OPERATION_TIMEDOUT);
            etcd_started(store); /* to be worked on */
        }
}

/* ---- the inbox, and pings ---------------------------------------------------------------------------------- */

void etcd_inbox_want(struct etcd_store *store, int64_t revision)
{
    if (store->inbox_rev)
        return;
    store->inbox_rev = revision;
    store->inbox_ms = 0;
}

static void pinged(struct etcd_call *call, enum hfi_outcome outcome, json_t *reply,
                   const hf_error *err)
{
    struct etcd_store *store = call->store;
    bool waiters =
        !hfi_list_empty(&store->waits) || store->cell_waits > 0 || !hfi_list_empty(&store->changes);

    (void)reply, (void)err;
    store->pinging = false;
    store->ping_ms = hfi_now_ms() + store->conf->ping_ms * (waiters ? 1 : INBOX_PING_RARE);
    if (outcome == HFI_ANSWERED || outcome == HFI_REFUSED)
        return;
    for (size_t i = 0; i < store->conf->url.host_count; i++)
        etcd_watches_host_failed(store, i);
}

static void ping(struct etcd_store *store)
{
    struct etcd_call *call = etcd_call_probe(store, pinged);

    if (!call) {
        store->ping_ms = hfi_now_ms() + store->conf->ping_ms;
        return;
    }
    store->pinging = true;
    etcd_call_send(call);
}

int64_t etcd_watches_next_ms(const struct etcd_store *store)
{
    int64_t next = store->watch_count > 0 && !store->pinging ? store->ping_ms : HFI_NEVER;

    for (const struct etcd_watch *watch = store->watches; watch; watch = watch->next)
        if (watch->touched)
            return 0;
    return store->inbox_ms < next ? store->inbox_ms : next;
}

void etcd_watches_tick(struct etcd_store *store, int64_t now_ms)
{
    struct etcd_key from, to;

    if (store->inbox_ms <= now_ms && !store->inbox && !store->closing) {
        etcd_area_range(store->conf->prefix, ETCD_TOLD, store->id, &from, &to);
        store->inbox_ms = HFI_NEVER;
        if (!etcd_watch_open(store, NULL, &from, &to, store->inbox_rev, &store->inbox))
            store->inbox_ms = now_ms + INBOX_AGAIN_MS;
    }
    if (store->watch_count > 0 && !store->pinging && store->ping_ms <= now_ms)
        ping(store);
}
