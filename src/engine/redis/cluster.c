/* SPDX-License-Identifier: MIT */
/*
 * redis+cluster: which of many servers gets a command.
 *
 * The map of slots (CLUSTER SLOTS) is read from any node that is up. It is read again when a
 * command was moved, when a server of the map cannot be reached, and when a slot has no server;
 * never more often than once in REFRESH_MIN_MS. We connect to a server when a command must go
 * there.
 *
 *   MOVED      not executed: the slot is noted, and the command goes where it says
 *   ASK        not executed: the command goes there once, behind ASKING
 *   TRYAGAIN   not executed: some keys of the name are here and some there; a moment later
 *   CLUSTERDOWN, LOADING, READONLY   a moment later, for as long as the caller wants to wait
 *
 * A command is redirected at most REDIS_HOPS_MAX times. While a slot is being moved, Redis refuses
 * commands on several keys if one of them does not exist, and a name without waiters has no queue
 * key: so acquire and release of such a name wait (TRYAGAIN) until the slot has moved. Renewals,
 * which use one key, still work.
 *
 * A failover may lose grants: replication is asynchronous, so the new server may not have a grant
 * that the old one answered. When a server that had slots has none any more, every lease is in
 * doubt until a renewal has found it. Moving a slot between live servers loses nothing.
 *
 * Messages of PUBLISH reach every node: the inbox is subscribed at any one that has slots.
 */
#include "engine/redis/address.h"
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

#define SLOTS          16384u
#define NO_NODE        UINT16_MAX
#define NODES_MAX      1024
#define REFRESH_MIN_MS 100
#define KEEP_MS \
    30000              /* how long a server without slots is kept: an ASK may lead there
                              * again */
#define HOPS_AT_ONCE 2 /* further redirections come after a pause */

struct redis_cluster {
    struct redis_store *store;
    struct redis_sent sent;
    struct redis_node *asked; /* the node that was asked for the map; NULL: none */
    struct redis_node *hint;  /* the node to ask next: it is likely to know the new map */
    bool known;               /* there is a map */
    bool look_at_inbox;       /* check that the inbox is at a server of the map */
    int64_t asked_ms;         /* when we asked last */
    int64_t refresh_ms;       /* when to ask again; HFI_NEVER */
    unsigned failures;        /* consecutive maps that were useless, or had a server that is down */
    hf_error why;             /* of the last such */
    uint16_t fresh[SLOTS];    /* the map that is being read */
};

static bool add_seeds(struct redis_store *store);
static struct redis_node *find_or_add(struct redis_store *store, const char *host, size_t len,
                                      uint16_t port);
static struct redis_node *any_up(const struct redis_store *store);
static void refresh(struct redis_store *store, int64_t pause_ms);
static void refresh_after_failure(struct redis_store *store);
static void ask(struct redis_store *store, int64_t now_ms);
static void slots_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void move_inbox(struct redis_store *store, bool must);

static bool is_up(const struct redis_node *node)
{
    return node->link && hfi_link_state(node->link) == HFI_STREAM_UP;
}

/* ---- open and close ---------------------------------------------------------------- */

static hf_status cluster_open(struct redis_store *store, hf_error *err)
{
    store->cluster = hfi_calloc(1, sizeof *store->cluster);
    store->slots = hfi_malloc(SLOTS * sizeof *store->slots);
    if (!store->cluster || !store->slots)
        return hfi_error_memory(err);
    store->cluster->store = store;
    store->cluster->refresh_ms = HFI_NEVER;
    memset(store->slots, 0xff, SLOTS * sizeof *store->slots);
    if (!add_seeds(store) || !redis_inbox_aim(store, &store->conf->url.hosts[0]))
        return hfi_error_memory(err);
    return HF_OK;
}

static void cluster_close(struct redis_store *store)
{
    hfi_free(store->cluster);
    store->cluster = NULL;
    hfi_free(store->slots);
    store->slots = NULL;
}

static bool cluster_ready(const struct redis_store *store)
{
    return store->inbox_up && store->cluster->known && any_up(store);
}

static bool is_hard(const hf_error *why)
{
    return why->status != HF_OK && why->status != HF_UNAVAILABLE;
}

/* Hopeless only if no node is up and every node has a permanent reason. */
static const hf_error *cluster_why(const struct redis_store *store, bool hopeless)
{
    const hf_error *why = NULL;

    if (is_hard(&store->inbox.why))
        return &store->inbox.why;
    if (is_hard(&store->cluster->why))
        return &store->cluster->why;
    for (uint32_t i = 0; i < store->node_count; i++) {
        const struct redis_node *node = store->nodes[i];

        if (!node->link)
            continue;
        if (hopeless && !redis_is_final(store, &node->why))
            return NULL;
        if (node->why.status != HF_OK && (!why || is_hard(&node->why)))
            why = &node->why;
    }
    if (hopeless)
        return why;
    return store->cluster->why.status != HF_OK ? &store->cluster->why
           : why                               ? why
                                               : &store->inbox.why;
}

/* ---- nodes -------------------------------------------------------------------------- */

static struct redis_node *find(struct redis_store *store, const char *host, size_t len,
                               uint16_t port)
{
    for (uint32_t i = 0; i < store->node_count; i++)
        if (store->nodes[i]->link && hfi_address_is(store->nodes[i]->address, host, len, port))
            return store->nodes[i];
    return NULL;
}

static bool add_seeds(struct redis_store *store)
{
    for (size_t i = 0; i < store->conf->url.host_count; i++) {
        const struct hfi_address *seed = &store->conf->url.hosts[i];
        struct redis_node *node = find_or_add(store, seed->host, strlen(seed->host), seed->port);

        if (!node)
            return false;
        hfi_link_keep(node->link, true);
    }
    return true;
}

/* NULL: out of memory, too many, or no host at all. */
static struct redis_node *find_or_add(struct redis_store *store, const char *host, size_t len,
                                      uint16_t port)
{
    struct redis_node *node = find(store, host, len, port);
    struct hfi_address *address;
    uint32_t index;

    if (node)
        return node;
    if (store->node_count >= NODES_MAX)
        return NULL;
    address = hfi_address_new(host, len, port);
    if (!address)
        return NULL;
    index = redis_node_add(store, address);
    hfi_address_free(address);
    if (index == REDIS_NODE_ANY)
        return NULL;
    node = store->nodes[index];
    hfi_link_keep(node->link, false); /* until a command is sent there */
    node->gone = true;                /* until a map has it */
    node->keep_ms = hfi_now_ms() + KEEP_MS;
    return node;
}

/* Any node that is up, not always the first: that one may have an old map. */
static struct redis_node *any_up(const struct redis_store *store)
{
    uint32_t from = store->node_count ? (uint32_t)hfi_random_u64() % store->node_count : 0;

    for (uint32_t i = 0; i < store->node_count; i++) {
        struct redis_node *node = store->nodes[(from + i) % store->node_count];

        if (is_up(node) && hfi_link_usable(node->link))
            return node;
    }
    return NULL;
}

uint32_t redis_cluster_next(const struct redis_store *store, uint32_t from)
{
    for (; from < store->node_count; from++)
        if (store->nodes[from]->link && store->nodes[from]->serves)
            return from;
    return REDIS_NODE_ANY;
}

/* Drop servers that have left the map and have no commands in flight. By the driver. */
static void drop_gone(struct redis_store *store, int64_t now_ms)
{
    for (uint32_t i = 0; i < store->node_count; i++) {
        struct redis_node *node = store->nodes[i];

        if (!node->link || !node->gone || !store->cluster->known || node->keep_ms > now_ms)
            continue;
        if (hfi_link_in_flight(node->link) > 0) {
            node->keep_ms = now_ms + KEEP_MS;
            continue;
        }
        if (store->cluster->hint == node)
            store->cluster->hint = NULL;
        redis_node_drop(node);
    }
}

static void cluster_up(struct redis_node *node)
{
    struct redis_store *store = node->store;

    if (!store->cluster->known || store->cluster->failures > 0)
        refresh(store, 0);
}

static void cluster_down(struct redis_node *node)
{
    if (node->serves || !node->store->cluster->known)
        refresh_after_failure(node->store);
}

/* ---- routes -------------------------------------------------------------------------- */

struct redis_node *redis_cluster_route(struct redis_store *store, const struct redis_call *call)
{
    uint32_t slot = call->command.slot, index = call->node;

    if (store->node_count == 0)
        return NULL; /* being closed */
    if (index == REDIS_NODE_ANY && slot == HFI_SLOT_ANY)
        return any_up(store);
    if (index == REDIS_NODE_ANY)
        index = store->slots[slot] == NO_NODE ? REDIS_NODE_ANY : store->slots[slot];
    if (index == REDIS_NODE_ANY || !store->nodes[index]->link) {
        refresh(store, 0);
        return NULL;
    }
    return store->nodes[index];
}

static void end_lost(struct redis_call *call, const struct redis_node *node)
{
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "redirected %u times, and at last to %s", call->hops - 1,
                  node->address->shown);
    redis_call_end(call, HFI_REFUSED, &err);
}

/* Follow the redirection. false: it names no valid server. */
static bool follow(struct redis_call *call, const struct hfi_reply *reply, bool asking)
{
    struct redis_store *store = call->store;
    struct hfi_redirect to;
    struct redis_node *node;
    const char *here;

    if (!hfi_redirect_parse(reply, &to) || !call->sent_to)
        return false;
    here = call->sent_to->address->host;
    node = to.len ? find_or_add(store, to.host, to.len, to.port)
                  : find_or_add(store, here, strlen(here), to.port);
    if (!node)
        return false;

    call->hops++;
    call->asking = asking;
    if (asking) {
        call->node = node->index;
        node->keep_ms = hfi_now_ms() + KEEP_MS;
    } else {
        call->node = REDIS_NODE_ANY;
        store->slots[to.slot] = (uint16_t)node->index;
        node->gone = false;
        store->cluster->hint = node;
        refresh(store, 0);
    }
    if (call->hops > REDIS_HOPS_MAX)
        end_lost(call, node);
    else if (call->hops <= HOPS_AT_ONCE)
        redis_call_try(store, call);
    else if (!redis_call_later(call, reply))
        end_lost(call, node);
    return true;
}

/* Did a script stop half way because a key is on another node, or the cluster is down? */
static bool stopped_halfway(const struct hfi_reply *reply)
{
    static const char *const words[] = { "access a non local key", "while the cluster is down" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(reply->text, reply->len, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool cluster_refused(struct redis_call *call, const struct hfi_reply *reply)
{
    static const char *const passing[] = { "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN",
                                           "READONLY" };
    bool wait = false;

    if (hfi_reply_is_error(reply, "MOVED"))
        return follow(call, reply, false);
    if (hfi_reply_is_error(reply, "ASK"))
        return follow(call, reply, true);
    if (call->user_script)
        return false; /* a user's script can return this error itself, and has run then */

    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        wait = wait || hfi_reply_is_error(reply, passing[i]);
    if (!wait && call->idempotent && stopped_halfway(reply))
        wait = call->was_sent = call->resent = true;
    if (!wait)
        return false;
    if (!hfi_reply_is_error(reply, "TRYAGAIN"))
        refresh(call->store, 0);
    call->asking = false;
    if (call->command.slot != HFI_SLOT_ANY)
        call->node = REDIS_NODE_ANY;
    return redis_call_later(call, reply);
}

/* ---- the map --------------------------------------------------------------------------- */

/* Read the map again, no earlier than in `pause_ms`. */
static void refresh(struct redis_store *store, int64_t pause_ms)
{
    struct redis_cluster *cluster = store->cluster;
    int64_t at_ms = hfi_now_ms() + pause_ms;

    if (at_ms < cluster->asked_ms + REFRESH_MIN_MS)
        at_ms = cluster->asked_ms + REFRESH_MIN_MS;
    if (at_ms < cluster->refresh_ms)
        cluster->refresh_ms = at_ms;
}

static void refresh_after_failure(struct redis_store *store)
{
    store->cluster->failures++;
    refresh(store, hfi_backoff_ms(store->cluster->failures, (uint32_t)hfi_random_u64()));
}

static void ask(struct redis_store *store, int64_t now_ms)
{
    struct redis_cluster *cluster = store->cluster;
    struct redis_node *node = cluster->hint && is_up(cluster->hint) ? cluster->hint : any_up(store);
    struct hfi_command command;

    cluster->refresh_ms = HFI_NEVER;
    cluster->asked_ms = now_ms;
    cluster->hint = NULL;
    if (!node) {
        (void)add_seeds(store); /* all known nodes are down: start again with those of the URL */
        if (cluster->known)
            refresh_after_failure(store);
        return; /* the first node that comes up triggers the read */
    }
    cluster->asked = node;
    cluster->sent.answered = slots_answered;
    hfi_command_init(&command);
    hfi_command_add_text(&command, "CLUSTER");
    hfi_command_add_text(&command, "SLOTS");
    hfi_link_send(node->link, &command, &cluster->sent);
    hfi_command_done(&command);
}

/* One range of slots: first, last, its master, its replicas. false: it has another form. */
static bool take_range(struct redis_store *store, const struct redis_node *from,
                       const struct hfi_reply *range)
{
    const struct hfi_reply *first = hfi_reply_at(range, 0, HFI_REPLY_INTEGER);
    const struct hfi_reply *last = hfi_reply_at(range, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *master = hfi_reply_at(range, 2, HFI_REPLY_LIST);
    const struct hfi_reply *host = hfi_reply_at(master, 0, HFI_REPLY_TEXT);
    const struct hfi_reply *port = hfi_reply_at(master, 1, HFI_REPLY_INTEGER);
    bool here = !host || host->len == 0 || (host->len == 1 && host->text[0] == '?');
    struct redis_node *node;

    if (!first || !last || first->integer < 0 || last->integer >= SLOTS || !port ||
        port->integer <= 0 || port->integer > UINT16_MAX)
        return false;
    node = find_or_add(store, here ? from->address->host : host->text,
                       here ? strlen(from->address->host) : host->len, (uint16_t)port->integer);
    if (!node)
        return false;
    node->in_map = true;
    for (int64_t slot = first->integer; slot <= last->integer; slot++)
        store->cluster->fresh[slot] = (uint16_t)node->index;
    return true;
}

static bool read_map(struct redis_store *store, const struct redis_node *from,
                     const struct hfi_reply *reply)
{
    bool ok = reply->type == HFI_REPLY_LIST && reply->count > 0;

    memset(store->cluster->fresh, 0xff, sizeof store->cluster->fresh);
    for (uint32_t i = 0; i < store->node_count; i++)
        store->nodes[i]->in_map = false;
    for (size_t i = 0; ok && i < reply->count; i++)
        ok = take_range(store, from, &reply->items[i]);
    return ok;
}

/* Is the map complete, with all its servers up? Otherwise another map may help. */
static bool is_whole(const struct redis_store *store)
{
    for (uint32_t i = 0; i < store->node_count; i++)
        if (store->nodes[i]->link && store->nodes[i]->serves &&
            hfi_link_failures(store->nodes[i]->link) > 0)
            return false;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (store->slots[slot] == NO_NODE)
            return false;
    return true;
}

static void use_map(struct redis_store *store)
{
    struct redis_cluster *cluster = store->cluster;

    for (uint32_t i = 0; i < store->node_count; i++) {
        struct redis_node *node = store->nodes[i];

        if (node->serves && !node->in_map) {
            redis_doubt(store); /* it was replaced: writes that it had not replicated are lost */
            redis_waits_hurry(store);
        }
        if (!node->in_map && !node->gone)
            node->keep_ms = hfi_now_ms() + KEEP_MS;
        node->serves = node->in_map;
        node->gone = !node->in_map;
    }
    memcpy(store->slots, cluster->fresh, sizeof cluster->fresh);
    cluster->known = cluster->look_at_inbox = true;
    cluster->why.status = HF_OK;
    cluster->why.text[0] = 0;
    if (is_whole(store))
        cluster->failures = 0;
    else
        refresh_after_failure(store);
    hfi_requests_unpark(&store->requests, hfi_now_ms());
}

static void slots_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_cluster *cluster = hfi_container(sent, struct redis_cluster, sent);
    struct redis_store *store = cluster->store;
    const struct redis_node *from = cluster->asked;

    (void)maybe;
    cluster->asked = NULL;
    if (!reply) {
        refresh_after_failure(store);
        return;
    }
    if (reply->type != HFI_REPLY_ERROR && read_map(store, from, reply)) {
        use_map(store);
        return;
    }
    if (reply->type == HFI_REPLY_ERROR)
        (void)hfi_reply_status(reply, &cluster->why);
    else
        hfi_error_set(&cluster->why, HF_UNAVAILABLE, 0, "it knows of no slots");
    if (cluster->why.status == HF_CORRUPT)
        cluster->why.status = HF_UNAVAILABLE;
    hfi_error_wrap(&cluster->why, "%s: CLUSTER SLOTS", from->address->shown);
    refresh_after_failure(store);
}

/* ---- the inbox, and time ------------------------------------------------------------------ */

static bool inbox_serves(const struct redis_store *store)
{
    for (uint32_t i = 0; i < store->node_count; i++)
        if (store->nodes[i]->link && store->nodes[i]->serves &&
            hfi_address_same(store->nodes[i]->address, store->inbox.address))
            return true;
    return false;
}

/* Move the inbox before its link is opened again, or when its server has left the cluster and gets
 * no messages any more. */
static void move_inbox(struct redis_store *store, bool must)
{
    const struct redis_node *node = any_up(store);

    if (!node || (must && !node->serves))
        return;
    if (!hfi_address_same(node->address, store->inbox.address))
        (void)redis_inbox_aim(store, node->address);
}

static void cluster_tick(struct redis_store *store, int64_t now_ms)
{
    struct redis_cluster *cluster = store->cluster;

    if (cluster->refresh_ms <= now_ms && !cluster->asked)
        ask(store, now_ms);
    if (hfi_link_opens_again(store->inbox.link, now_ms)) {
        move_inbox(store, false);
        cluster->look_at_inbox = true;
    } else if (cluster->look_at_inbox) {
        if (inbox_serves(store))
            cluster->look_at_inbox = false;
        else
            move_inbox(store, true);
    }
    drop_gone(store, now_ms);
}

static int64_t cluster_next_ms(const struct redis_store *store)
{
    int64_t next_ms = store->cluster->asked ? HFI_NEVER : store->cluster->refresh_ms;

    for (uint32_t i = 0; store->cluster->known && i < store->node_count; i++)
        if (store->nodes[i]->link && store->nodes[i]->gone && store->nodes[i]->keep_ms < next_ms)
            next_ms = store->nodes[i]->keep_ms;
    return next_ms;
}

const struct redis_topology redis_cluster = {
    .open = cluster_open,
    .close = cluster_close,
    .ready = cluster_ready,
    .why = cluster_why,
    .up = cluster_up,
    .down = cluster_down,
    .refused = cluster_refused,
    .tick = cluster_tick,
    .next_ms = cluster_next_ms,
};
