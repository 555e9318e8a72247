/* SPDX-License-Identifier: MIT */
/*
 * The servers of a store: opening and closing, the link to each of them and the inbox, which has a link of its own.
 * Here a store has one server; sentinel.c and cluster.c (struct redis_topology) choose that server,
 * or one of several.
 */
#include "engine/redis/address.h"
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

#define FIRST_LOOK_MS 100

static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void hush(struct redis_store *store);
static void node_up(struct hfi_link *link);
static void node_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_up(struct hfi_link *link);
static void inbox_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len);

static const struct hfi_link_owner node_owner = { .up = node_up, .down = node_down };
static const struct hfi_link_owner inbox_owner = { .up = inbox_up,
                                                   .down = inbox_down,
                                                   .message = inbox_message };

/* Point a node to a server. By the driver, or before there is one. false: out of memory, and
 * nothing has changed. */
static bool aim(struct redis_node *node, const struct hfi_address *address)
{
    struct redis_store *store = node->store;
    bool is_inbox = node == &store->inbox;
    struct hfi_address *copy = hfi_address_copy(address);
    struct hfi_link *link = copy ? hfi_link_new(store->conf, copy, is_inbox, &store->reactor,
                                                is_inbox ? &inbox_owner : &node_owner, node)
                                 : NULL;

    if (!link) {
        hfi_address_free(copy);
        return false;
    }
    redis_node_drop(node);
    if (!is_inbox && node != &store->sync)
        hfi_link_sleep_here(link);
    node->link = link;
    node->address = copy;
    hfi_link_keep(link, true);
    return true;
}

void redis_node_drop(struct redis_node *node)
{
    if (node->link)
        hfi_link_close(node->link); /* first: the answers of its commands may use the node */
    hfi_link_free(node->link);
    hfi_address_free(node->address);
    node->link = NULL;
    node->address = NULL;
    if (node == &node->store->inbox)
        hush(node->store);
}

uint32_t redis_node_add(struct redis_store *store, const struct hfi_address *address)
{
    struct redis_node *node;

    for (uint32_t i = 0; i < store->node_count; i++)
        if (!store->nodes[i]->link) {
            *store->nodes[i] = (struct redis_node){ .store = store, .index = i };
            return aim(store->nodes[i], address) ? i : REDIS_NODE_ANY;
        }
    if (store->node_count == store->node_room) {
        uint32_t room = store->node_room ? 2 * store->node_room : 4;
        struct redis_node **nodes = hfi_realloc(store->nodes, room * sizeof *nodes);

        if (!nodes)
            return REDIS_NODE_ANY;
        store->nodes = nodes;
        store->node_room = room;
    }
    node = hfi_calloc(1, sizeof *node);
    if (!node)
        return REDIS_NODE_ANY;
    node->store = store;
    node->index = store->node_count;
    if (!aim(node, address)) {
        hfi_free(node);
        return REDIS_NODE_ANY;
    }
    store->nodes[store->node_count] = node;
    return store->node_count++;
}

bool redis_inbox_aim(struct redis_store *store, const struct hfi_address *address)
{
    store->inbox.store = store;
    return aim(&store->inbox, address);
}

/* The node itself comes last: without memory it keeps its old address, and the next attempt sees
 * that. */
bool redis_master_aim(struct redis_store *store, const struct hfi_address *address)
{
    store->sync.store = store;
    if (!redis_inbox_aim(store, address) || (store->conf->sync > 0 && !aim(&store->sync, address)))
        return false;
    return store->node_count > 0 ? aim(store->nodes[0], address)
                                 : redis_node_add(store, address) != REDIS_NODE_ANY;
}

/* ---- links come and go ------------------------------------------------------------------------ */

static void note_down(struct redis_node *node, hf_status status, const char *why)
{
    hfi_error_set(&node->why, status, 0, "%s", why);
    if (node->store->topology->down)
        node->store->topology->down(node);
    if (hfi_link_failures(node->link) == 1 && node->store->requests.parked)
        hfi_requests_unpark(&node->store->requests,
                            hfi_now_ms()); /* fail_fast calls waited only for this */
}

void redis_doubt(struct redis_store *store)
{
    store->reactor.doubt = "the server, or its data, is another one now";
}

static void node_up(struct hfi_link *link)
{
    struct redis_node *node = hfi_link_data(link);
    struct redis_store *store = node->store;
    const struct hfi_server *server = hfi_link_server(link);

    if (server->is_replica && !store->slots) { /* in a cluster it says where its master is */
        hfi_link_unusable(link, HF_UNAVAILABLE, "it is a replica, and locks need its master");
        return;
    }
    if (store->slots && !server->is_cluster) {
        hfi_link_unusable(link, HF_CONFIG, "it is no node of a cluster: use redis://");
        return;
    }
    if (node->was_up &&
        (strcmp(node->run_id, server->run_id) != 0 || strcmp(node->replid, server->replid) != 0))
        redis_doubt(store);
    snprintf(node->run_id, sizeof node->run_id, "%s", server->run_id);
    snprintf(node->replid, sizeof node->replid, "%s", server->replid);
    node->was_up = true;
    node->scripts = (struct hfi_script_set){ 0 };
    hfi_link_settled(link);
    node->why.status = HF_OK;
    node->why.text[0] = 0;
    if (store->topology->up)
        store->topology->up(node);
    redis_identity_up(node);
    hfi_requests_unpark(&store->requests, hfi_now_ms());
}

static void node_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct redis_node *node = hfi_link_data(link);

    redis_changes_down(node->store);
    note_down(node, status, why);
}

static void inbox_up(struct hfi_link *link)
{
    struct redis_node *node = hfi_link_data(link);
    struct redis_store *store = node->store;

    store->inbox_sent.answered = inbox_answered;
    hfi_link_subscribe(link, store->inbox_name.text, store->inbox_name.len, &store->inbox_sent);
}

static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_store *store = hfi_container(sent, struct redis_store, inbox_sent);
    hf_error err;

    (void)maybe;
    if (!reply)
        return; /* the link is going down */
    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &err);
        hfi_link_unusable(store->inbox.link, err.status, "SUBSCRIBE %s: %s", store->inbox_name.text,
                          err.text);
        return;
    }
    store->inbox_up = true;
    hfi_reactor_hears(&store->reactor, store->wire == &redis_native);
    hfi_link_settled(store->inbox.link);
    store->inbox.why.status = HF_OK;
    store->inbox.why.text[0] = 0;
    redis_waits_hurry(store); /* grants may have been published while nobody listened */
    redis_channels_up(store);
    redis_changes_up(store);
}

/* Nothing is subscribed any more: subscriptions end with the connection. */
static void hush(struct redis_store *store)
{
    store->inbox_up = false;
    hfi_reactor_hears(&store->reactor, false);
    hfi_list_each (struct redis_wait, wait, &store->waits, listed)
        wait->listens = false;
    redis_channels_down(store);
    redis_changes_down(store);
}

static void inbox_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct redis_node *node = hfi_link_data(link);

    hush(node->store);
    note_down(node, status, why);
}

static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len)
{
    struct redis_node *node = hfi_link_data(link);
    struct redis_store *store = node->store;

    if (redis_inbox_name_is(&store->inbox_name, channel, channel_len))
        redis_message(store, payload, len);
    else if (redis_change_message(store, channel, channel_len))
        return;
    else if (store->wire->heard)
        store->wire->heard(store, channel, channel_len);
    else
        redis_channel_message(store, channel, channel_len, payload, len);
}

/* ---- one server -------------------------------------------------------------------------- */

static hf_status single_open(struct redis_store *store, hf_error *err)
{
    return redis_master_aim(store, &store->conf->url.hosts[0]) ? HF_OK : hfi_error_memory(err);
}

static bool single_ready(const struct redis_store *store)
{
    return store->inbox_up && hfi_link_state(store->nodes[0]->link) == HFI_STREAM_UP &&
           (!store->sync.link || hfi_link_state(store->sync.link) == HFI_STREAM_UP);
}

static const hf_error *single_why(const struct redis_store *store, bool hopeless)
{
    const struct redis_node *both[2] = { store->nodes[0], &store->inbox };

    for (int i = 0; i < 2; i++)
        if (hopeless ? redis_is_final(store, &both[i]->why) : both[i]->why.status != HF_OK)
            return &both[i]->why;
    return NULL;
}

const struct redis_topology redis_single = {
    .open = single_open,
    .ready = single_ready,
    .why = single_why,
};

/* ---- time ------------------------------------------------------------------------------------ */

static void topology_due(struct hfi_source *timer, int64_t now_ms)
{
    struct redis_store *store = hfi_container(timer, struct redis_store, topology_timer);

    store->topology->tick(store, now_ms);
}

static int64_t topology_next_ms(const struct hfi_source *timer)
{
    const struct redis_store *store = hfi_container(timer, struct redis_store, topology_timer);

    return store->topology->next_ms(store);
}

/* Before those of the nodes: it may give a node another address instead of opening it. */
static bool add_topology_timer(struct redis_store *store)
{
    static const struct hfi_source_calls calls = { .due = topology_due,
                                                   .next_ms = topology_next_ms };

    return !store->topology->tick ||
           hfi_source_add(&store->topology_timer, &store->reactor, &calls);
}

/* ---- opening and closing the store ----------------------------------------------------------- */

/* Until the store has been ready once, after an open that did not wait: calls hear what open() would have said. */
static void first_look_due(struct hfi_source *timer, int64_t now_ms)
{
    struct redis_store *store = hfi_container(timer, struct redis_store, first_look);

    bool ready = store->topology->ready(store);

    hfi_source_at(timer, ready ? HFI_NEVER : now_ms + FIRST_LOOK_MS);
    if (!ready && store->topology->why(store, true))
        hfi_requests_give_up(&store->requests);
}

static bool begin_first_look(struct redis_store *store)
{
    static const struct hfi_source_calls calls = { .due = first_look_due };

    if (!hfi_source_add(&store->first_look, &store->reactor, &calls))
        return false;
    hfi_source_at(&store->first_look, hfi_now_ms() + FIRST_LOOK_MS);
    return true;
}

hf_status redis_servers_open(struct redis_store *store, hf_error *err)
{
    int64_t until_ms = store->reactor.host->open_deadline_ms;
    const struct redis_topology *topology =
        store->conf->topology == REDIS_TOPOLOGY_SENTINEL  ? &redis_sentinel
        : store->conf->topology == REDIS_TOPOLOGY_CLUSTER ? &redis_cluster
                                                          : &redis_single;
    const hf_error *why = NULL;
    hf_status status;

    store->topology = topology;
    status = add_topology_timer(store) ? topology->open(store, err) : hfi_error_memory(err);
    if (status == HF_OK && store->reactor.host->no_wait) {
        if (begin_first_look(store))
            return HF_OK;
        status = hfi_error_memory(err);
    }
    if (status == HF_OK)
        while (!topology->ready(store) && !(why = topology->why(store, true)) &&
               hfi_now_ms() < until_ms)
            hfi_reactor_turn(&store->reactor, until_ms);
    if (status == HF_OK && topology->ready(store))
        return HF_OK;

    if (status == HF_OK) {
        if (!why)
            why = topology->why(store, false);
        status = why && why->status != HF_OK
                     ? hfi_error_set(err, why->status, why->native, "%s", why->text)
                     : hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                                     store->conf->url.hosts[0].shown);
    }
    hfi_reactor_enter(&store->reactor);
    store->closing = true;
    redis_servers_close(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    return status;
}

void redis_servers_close(struct redis_store *store)
{
    for (uint32_t i = 0; i < store->node_count; i++)
        redis_node_drop(store->nodes[i]); /* close all before any is freed: answers may use other
                                           * nodes */
    for (uint32_t i = 0; i < store->node_count; i++)
        hfi_free(store->nodes[i]);
    hfi_free(store->nodes);
    store->nodes = NULL;
    store->node_count = 0;
    store->sync.store = store->inbox.store = store;
    redis_node_drop(&store->sync);
    redis_node_drop(&store->inbox);

    redis_calls_end_parked(store);
    hfi_source_remove(&store->first_look);
    hfi_source_remove(&store->topology_timer);
    if (store->topology->close)
        store->topology->close(store);
}
