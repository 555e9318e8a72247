/* SPDX-License-Identifier: MIT */
/*
 * Watches. All watches of a store on one member share one exchange, the feed: a watch is begun and ended by a small message
 * on it. Every waiting claim has one, on the one key that it waits for, and so has every waiter for a cell or for any
 * change; the store has one on what it is told (breaks). We choose the ids, and never use one twice: what still comes
 * for a watch that has ended is recognized and left.
 *
 * A feed on which nothing comes may be broken: while there are watches, the server is checked at intervals (also that it
 * has a majority). If the check fails, all feeds end, and every waiter reads its queue and watches another member.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define INBOX_AGAIN_MS  500
#define INBOX_PING_RARE 5 /* without waiters, pings are less frequent by this factor */

static void feed_over(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                      const hf_error *why);
static void feed_message(struct etcd_exchange *exchange, struct etcd_message message);
static void end_all(struct etcd_store *store, size_t host, const hf_error *why);

/* ---- the feed --------------------------------------------------------------------------------------- */

/* The feed of the member in use, to which a message can be added. */
static struct etcd_feed *open_feed(struct etcd_store *store)
{
    static const struct etcd_exchange_calls calls = { .message = feed_message, .over = feed_over };
    struct etcd_feed *feed = &store->members[store->at].feed;
    hf_error why;

    if (feed->exchange.link && feed->token != store->tokens) {
        /* etcd looks at the token for each new watch, and has that of the beginning. */
        hfi_error_set(&why, HF_UNAVAILABLE, 0, "there is a new token");
        etcd_exchange_drop(&feed->exchange);
        end_all(store, store->at, &why);
    }
    if (feed->exchange.link)
        return feed;
    feed->exchange.calls = &calls;
    feed->exchange.method = &etcd_watch_method;
    feed->exchange.token = &store->token;
    feed->exchange.out = &feed->out;
    feed->exchange.lasts = true;
    feed->exchange.until_ms = HFI_NEVER;
    feed->token = store->tokens;
    feed->out.len = 0;
    feed->out.failed = false;
    return feed;
}

/* The message from `begun` on is complete. false: there was no memory for it, and it is not sent. */
static bool send_message(struct etcd_store *store, struct etcd_feed *feed, size_t before,
                         size_t begun)
{
    if (feed->out.failed) {
        feed->out.failed = false;
        feed->out.len = before;
        return false;
    }
    etcd_message_end(&feed->out, begun);
    if (feed->exchange.link)
        etcd_exchange_more(&feed->exchange);
    else
        etcd_link_begin(&store->members[store->at].link, &feed->exchange);
    return true;
}

/* ---- open and close --------------------------------------------------------------------------------- */

static struct hfi_list *list_of(struct etcd_store *store, int64_t id)
{
    return &store->watches[(uint64_t)id % ETCD_WATCH_LISTS];
}

/* A new watch; NULL: out of memory, or no token. `owner`: of its members, only those that tell whose it is. */
static struct etcd_watch *open_watch(struct etcd_store *store, const struct etcd_watch *owner,
                                     const struct etcd_key *key, const struct etcd_key *to,
                                     int64_t start, enum etcd_watched what)
{
    struct etcd_watch *watch;
    struct etcd_feed *feed;
    size_t before, begun;

    if (store->conf->url.user && !store->token)
        return NULL;
    watch = hfi_malloc(sizeof *watch);
    if (!watch)
        return NULL;
    *watch = *owner;
    watch->host = store->at;
    watch->id = ++store->watch_id;
    feed = open_feed(store);
    before = feed->out.len;
    begun = etcd_message_begin(&feed->out);
    etcd_add_watch(&feed->out, watch->id, key, to, start, what);
    if (!send_message(store, feed, before, begun)) {
        hfi_free(watch);
        return NULL;
    }
    hfi_list_append(list_of(store, watch->id), &watch->listed);
    if (store->watch_count++ == 0)
        store->ping_ms = hfi_now_ms() + store->conf->ping_ms;
    return watch;
}

bool etcd_watch_open(struct etcd_store *store, struct etcd_wait *wait, const struct etcd_key *key,
                     const struct etcd_key *to, int64_t start, struct etcd_watch **ret_watch)
{
    struct etcd_watch *watch = open_watch(store, &(struct etcd_watch){ .wait = wait }, key, to,
                                          start, wait ? ETCD_WATCH_DELETES : ETCD_WATCH_PUTS);

    if (watch)
        *ret_watch = watch;
    return watch != NULL;
}

bool etcd_watch_cell(struct etcd_store *store, struct etcd_cell_wait *cell,
                     const struct etcd_key *key, int64_t revision)
{
    struct etcd_watch *watch = open_watch(store, &(struct etcd_watch){ .cell = cell }, key, NULL,
                                          revision + 1, ETCD_WATCH_ALL);

    if (watch)
        cell->watch = watch;
    return watch != NULL;
}

bool etcd_watch_changes(struct etcd_store *store, struct etcd_change *change,
                        const struct etcd_key *key, const struct etcd_key *to, int64_t revision,
                        struct etcd_watch **ret_watch)
{
    struct etcd_watch *watch = open_watch(store, &(struct etcd_watch){ .change = change }, key, to,
                                          revision + 1, ETCD_WATCH_ALL);

    if (watch)
        *ret_watch = watch;
    return watch != NULL;
}

bool etcd_watch_want(struct etcd_store *store, struct etcd_want *want, const struct etcd_key *key,
                     const struct etcd_key *to, struct etcd_watch **ret_watch)
{
    struct etcd_watch *watch =
        open_watch(store, &(struct etcd_watch){ .want = want }, key, to, 0, ETCD_WATCH_ALL);

    if (watch)
        *ret_watch = watch;
    return watch != NULL;
}

static void forget(struct etcd_store *store, struct etcd_watch *watch)
{
    hfi_list_remove(&watch->listed);
    store->watch_count--;
    if (store->handling == watch)
        store->handling = NULL;
    hfi_free(watch);
}

void etcd_watch_close(struct etcd_store *store, struct etcd_watch *watch)
{
    struct etcd_feed *feed = &store->members[watch->host].feed;
    size_t before = feed->out.len, begun;

    if (feed->exchange.link) { /* without memory its events go on to come, and are left */
        begun = etcd_message_begin(&feed->out);
        etcd_add_unwatch(&feed->out, watch->id);
        (void)send_message(store, feed, before, begun);
    }
    forget(store, watch);
}

void etcd_watches_close(struct etcd_store *store)
{
    for (size_t i = 0; store->members && i < store->conf->url.host_count; i++)
        etcd_exchange_drop(&store->members[i].feed.exchange);
    for (size_t i = 0; i < ETCD_WATCH_LISTS; i++)
        while (store->watches[i].next && !hfi_list_empty(&store->watches[i]))
            forget(store, hfi_container(store->watches[i].next, struct etcd_watch, listed));
}

/* ---- what came ------------------------------------------------------------------------------------------ */

/* The watch has ended. */
static void over(struct etcd_store *store, struct etcd_watch *watch, const hf_error *why)
{
    struct etcd_watch owner = *watch;

    forget(store, watch);
    if (owner.wait) {
        etcd_wait_unwatched(store, owner.wait, why);
    } else if (owner.cell) {
        etcd_cell_unwatched(store, owner.cell, why);
    } else if (owner.change) {
        etcd_change_unwatched(store, owner.change, why);
    } else if (owner.want) {
        etcd_want_unwatched(owner.want);
    } else {
        store->inbox = NULL;
        store->inbox_ms = hfi_now_ms() + INBOX_AGAIN_MS;
    }
}

/* The feed of that member has ended, and with it all watches that were on it. New ones may be opened meanwhile. */
static void end_all(struct etcd_store *store, size_t host, const hf_error *why)
{
    int64_t last = store->watch_id;

    for (size_t i = 0; i < ETCD_WATCH_LISTS; i++) {
        struct hfi_list *at = store->watches[i].next;

        while (at != &store->watches[i]) {
            struct etcd_watch *watch = hfi_container(at, struct etcd_watch, listed);

            at = at->next;
            if (watch->host != host || watch->id > last)
                continue;
            over(store, watch, why);
            at = store->watches[i].next; /* others may have been closed: start again */
        }
    }
}

static void feed_over(struct etcd_exchange *exchange, enum etcd_end end, struct etcd_message reply,
                      const hf_error *why)
{
    struct etcd_feed *feed = hfi_container(exchange, struct etcd_feed, exchange);
    size_t host = (size_t)(hfi_container(feed, struct etcd_member, feed) - feed->store->members);
    hf_error ended;

    (void)end, (void)reply;
    hfi_error_set(&ended, HF_UNAVAILABLE, 0, "%s: it ended our watch",
                  feed->store->conf->url.hosts[host].shown);
    if (why && why->native) /* refused: no leader, a token that is not valid any more */
        etcd_host_failed(feed->store, host);
    end_all(feed->store, host, why ? why : &ended);
}

void etcd_watches_host_failed(struct etcd_store *store, size_t host)
{
    hf_error why;

    if (!store->members[host].feed.exchange.link)
        return;
    hfi_error_set(&why, HF_UNAVAILABLE, 0, "%s: watch: no answer in time",
                  store->conf->url.hosts[host].shown);
    etcd_exchange_drop(&store->members[host].feed.exchange);
    end_all(store, host, &why);
}

static void forgotten(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* otherwise it ends with its lease */
}

/* One of our claims was broken, or somebody asks for it. Delete the note that says so. */
static void told(struct etcd_store *store, const struct etcd_key *key,
                 const unsigned char owner[HFI_OWNER_LEN], struct etcd_message note)
{
    struct hfi_claim *claim = etcd_claim_find(store, owner);
    struct etcd_call *call;

    if (claim && note.len > 0 && note.at[0] == ETCD_NOTE_ASKED)
        hfi_reactor_wanted(&store->reactor, claim, HFI_WANTED_ASKED, (const char *)note.at + 1,
                           note.len - 1);
    else if (claim)
        hfi_reactor_lost(&store->reactor, claim, "it was broken");
    call = etcd_call_new(store, &etcd_txn_method, forgotten, NULL);
    if (!call)
        return;
    call->again = true;
    etcd_add_op_delete(&call->body, ETCD_THEN, key);
    etcd_call_send(call);
}

static void event(struct etcd_store *store, struct etcd_watch *watch, struct etcd_message one)
{
    struct etcd_message kv = etcd_part(one, ETCD_EVENT_KV);
    bool deleted = etcd_number(one, ETCD_EVENT_TYPE) == ETCD_EVENT_DELETE;
    struct etcd_wait *wait = watch->wait;
    unsigned char owner[HFI_OWNER_LEN] = { 0 };
    struct etcd_key key;
    bool ours;

    if (!etcd_part(kv, ETCD_KV_KEY).at)
        return;
    if (watch->cell) {
        struct etcd_cell_wait *cell = watch->cell;

        etcd_watch_close(store, watch);
        etcd_cell_changed(store, cell, deleted ? 0 : (uint64_t)etcd_number(kv, ETCD_KV_MODIFIED));
        return;
    }
    if (watch->want) {
        etcd_want_event(store, watch->want, deleted);
        return;
    }
    ours = etcd_kv_key(kv, &key) && etcd_key_place(key.bytes, key.len, owner);
    if (wait && deleted) /* any deleted key of the range was ahead of us */
        etcd_wait_deleted(store, wait, owner, etcd_number(kv, ETCD_KV_MODIFIED));
    else if (!wait && !deleted && ours)
        told(store, &key, owner, etcd_part(kv, ETCD_KV_VALUE));
}

static void ended_by_etcd(struct etcd_store *store, struct etcd_watch *watch, int64_t compacted)
{
    hf_error why;

    if (watch == store->inbox && compacted > 0) {
        store->inbox_rev = compacted; /* notes before this are lost: check each claim */
        store->reactor.doubt = "etcd has forgotten what it had to tell us";
    }
    hfi_error_set(&why, HF_UNAVAILABLE, 0, "%s: it ended our watch",
                  store->conf->url.hosts[watch->host].shown);
    over(store, watch, &why);
}

static void handle(struct etcd_store *store, struct etcd_watch *watch, struct etcd_message message)
{
    struct etcd_message at = message, one;
    int64_t compacted = etcd_number(message, ETCD_WATCH_COMPACTED);
    bool events = etcd_count(message, ETCD_WATCH_EVENTS) > 0;

    if (watch->change && (events || compacted > 0)) {
        /* Compacted: something was, or etcd would not have forgotten it. */
        etcd_change_told(store, watch->change, compacted > 0 ? compacted : etcd_revision(message));
        return;
    }
    if (etcd_number(message, ETCD_WATCH_CANCELED)) {
        ended_by_etcd(store, watch, compacted);
        return;
    }
    if (etcd_number(message, ETCD_WATCH_CREATED)) {
        watch->created = true;
        if (watch->wait)
            etcd_wait_created(store, watch->wait, etcd_revision(message));
        if (watch->change)
            etcd_change_created(watch->change, etcd_revision(message));
        if (watch->want)
            etcd_want_created(store, watch->want);
    }
    if (store->handling == watch && watch == store->inbox && events && etcd_revision(message) > 0)
        store->inbox_rev = etcd_revision(message) + 1;
    while (store->handling == watch && etcd_next(&at, ETCD_WATCH_EVENTS, &one))
        event(store, watch, one);
}

static void feed_message(struct etcd_exchange *exchange, struct etcd_message message)
{
    struct etcd_feed *feed = hfi_container(exchange, struct etcd_feed, exchange);
    struct etcd_store *store = feed->store;
    int64_t id = etcd_number(message, ETCD_WATCH_ID);

    hfi_list_each (struct etcd_watch, watch, list_of(store, id), listed)
        if (watch->id == id && &store->members[watch->host].feed == feed) {
            store->handling = watch;
            handle(store, watch, message);
            store->handling = NULL;
            return;
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

static void pinged(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
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
