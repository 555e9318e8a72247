/* SPDX-License-Identifier: MIT */
/*
 * The servers of a store: opening and closing, the link to each of them and the inbox, which has a link of its own.
 * One store is one server here; sentinel.c and cluster.c (struct redis_topology) say which, and which of several.
 */
#include "engine/redis/address.h"
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void hush(struct hfi_conn *conn);
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

/* Lead a node to a server, or to another one. By the driver, or before there is one. false: out of
 * memory, and it is as it was. */
static bool aim(struct redis_node *node, const struct hfi_address *address)
{
    struct hfi_conn *conn = node->conn;
    bool is_inbox = node == &conn->inbox;
    struct hfi_address *copy = hfi_address_copy(address);
    struct hfi_link *link = copy ? hfi_link_new(conn->conf, copy, is_inbox, &conn->reactor,
                                                is_inbox ? &inbox_owner : &node_owner, node)
                                 : NULL;

    if (!link) {
        hfi_address_free(copy);
        return false;
    }
    redis_node_drop(node);
    if (!is_inbox && node != &conn->sync)
        hfi_link_sleep_here(link);
    node->link = link;
    node->address = copy;
    hfi_link_keep(link, true);
    return true;
}

void redis_node_drop(struct redis_node *node)
{
    if (node->link)
        hfi_link_close(node->link); /* first: what it answers may look at the node */
    hfi_link_free(node->link);
    hfi_address_free(node->address);
    node->link = NULL;
    node->address = NULL;
    if (node == &node->conn->inbox)
        hush(node->conn);
}

uint32_t redis_node_add(struct hfi_conn *conn, const struct hfi_address *address)
{
    struct redis_node *node;

    for (uint32_t i = 0; i < conn->node_count; i++)
        if (!conn->nodes[i]->link) {
            *conn->nodes[i] = (struct redis_node){ .conn = conn, .index = i };
            return aim(conn->nodes[i], address) ? i : REDIS_NODE_ANY;
        }
    if (conn->node_count == conn->node_room) {
        uint32_t room = conn->node_room ? 2 * conn->node_room : 4;
        struct redis_node **nodes = hfi_realloc(conn->nodes, room * sizeof *nodes);

        if (!nodes)
            return REDIS_NODE_ANY;
        conn->nodes = nodes;
        conn->node_room = room;
    }
    node = hfi_calloc(1, sizeof *node);
    if (!node)
        return REDIS_NODE_ANY;
    node->conn = conn;
    node->index = conn->node_count;
    if (!aim(node, address)) {
        hfi_free(node);
        return REDIS_NODE_ANY;
    }
    conn->nodes[conn->node_count] = node;
    return conn->node_count++;
}

bool redis_inbox_aim(struct hfi_conn *conn, const struct hfi_address *address)
{
    conn->inbox.conn = conn;
    return aim(&conn->inbox, address);
}

/* The node itself is the last: if memory ends before, it is still where it was, and who asks again
 * sees that. */
bool redis_master_aim(struct hfi_conn *conn, const struct hfi_address *address)
{
    conn->sync.conn = conn;
    if (!redis_inbox_aim(conn, address) || (conn->conf->sync > 0 && !aim(&conn->sync, address)))
        return false;
    return conn->node_count > 0 ? aim(conn->nodes[0], address)
                                : redis_node_add(conn, address) != REDIS_NODE_ANY;
}

/* ---- links come and go ------------------------------------------------------------------------ */

static void note_down(struct redis_node *node, hf_status status, const char *why)
{
    hfi_error_set(&node->why, status, 0, "%s", why);
    if (node->conn->topology->down)
        node->conn->topology->down(node);
    if (hfi_link_failures(node->link) == 1 && node->conn->requests.parked)
        hfi_requests_unpark(&node->conn->requests,
                            hfi_now_ms()); /* who is in haste waited for this only */
}

void redis_doubt(struct hfi_conn *conn)
{
    conn->reactor.doubt = "the server, or its data, is another one now";
}

static void node_up(struct hfi_link *link)
{
    struct redis_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;
    const struct hfi_server *server = hfi_link_server(link);

    if (server->is_replica && !conn->slots) { /* in a cluster it says where its master is */
        hfi_link_unusable(link, HF_UNAVAILABLE, "it is a replica, and locks need its master");
        return;
    }
    if (conn->slots && !server->is_cluster) {
        hfi_link_unusable(link, HF_CONFIG, "it is no node of a cluster: use redis://");
        return;
    }
    if (node->was_up &&
        (strcmp(node->run_id, server->run_id) != 0 || strcmp(node->replid, server->replid) != 0))
        redis_doubt(conn);
    snprintf(node->run_id, sizeof node->run_id, "%s", server->run_id);
    snprintf(node->replid, sizeof node->replid, "%s", server->replid);
    node->was_up = true;
    redis_scripts_forget(node);
    hfi_link_settled(link);
    node->why.status = HF_OK;
    node->why.text[0] = 0;
    if (conn->topology->up)
        conn->topology->up(node);
    hfi_requests_unpark(&conn->requests, hfi_now_ms());
}

static void node_down(struct hfi_link *link, hf_status status, const char *why)
{
    note_down(hfi_link_data(link), status, why);
}

static void inbox_up(struct hfi_link *link)
{
    struct redis_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;

    conn->inbox_sent.answered = inbox_answered;
    hfi_link_subscribe(link, conn->inbox_name, conn->inbox_len, &conn->inbox_sent);
}

static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct hfi_conn *conn =
        (struct hfi_conn *)((char *)sent - offsetof(struct hfi_conn, inbox_sent));
    hf_error err;

    (void)maybe;
    if (!reply)
        return; /* the link is going down */
    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &err);
        hfi_link_unusable(conn->inbox.link, err.status, "SUBSCRIBE %s: %s", conn->inbox_name,
                          err.text);
        return;
    }
    conn->inbox_up = true;
    hfi_link_settled(conn->inbox.link);
    conn->inbox.why.status = HF_OK;
    conn->inbox.why.text[0] = 0;
    redis_waits_hurry(conn); /* grants may have been published to nobody */
    redis_channels_up(conn);
}

/* Nothing is subscribed any more: subscriptions end with the line. */
static void hush(struct hfi_conn *conn)
{
    conn->inbox_up = false;
    for (struct redis_wait *wait = conn->waits; wait; wait = wait->next)
        wait->listens = false;
    redis_channels_down(conn);
}

static void inbox_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct redis_node *node = hfi_link_data(link);

    hush(node->conn);
    note_down(node, status, why);
}

static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len)
{
    struct redis_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;

    if (channel_len == conn->inbox_len && memcmp(channel, conn->inbox_name, channel_len) == 0)
        redis_message(conn, payload, len);
    else if (conn->wire->heard)
        conn->wire->heard(conn, channel, channel_len);
    else
        redis_channel_message(conn, channel, channel_len, payload, len);
}

/* ---- one server -------------------------------------------------------------------------- */

static hf_status single_open(struct hfi_conn *conn, hf_error *err)
{
    return redis_master_aim(conn, &conn->conf->url.hosts[0]) ? HF_OK : hfi_error_memory(err);
}

static bool single_ready(const struct hfi_conn *conn)
{
    return conn->inbox_up && hfi_link_state(conn->nodes[0]->link) == HFI_STREAM_UP &&
           (!conn->sync.link || hfi_link_state(conn->sync.link) == HFI_STREAM_UP);
}

static const hf_error *single_why(const struct hfi_conn *conn, bool hopeless)
{
    const struct redis_node *both[2] = { conn->nodes[0], &conn->inbox };

    for (int i = 0; i < 2; i++)
        if (hopeless ? redis_is_final(conn, &both[i]->why) : both[i]->why.status != HF_OK)
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
    struct hfi_conn *conn = hfi_container(timer, struct hfi_conn, topology_timer);

    conn->topology->tick(conn, now_ms);
}

static int64_t topology_next_ms(const struct hfi_source *timer)
{
    const struct hfi_conn *conn = hfi_container(timer, struct hfi_conn, topology_timer);

    return conn->topology->next_ms(conn);
}

/* Before any node's: it may lead one elsewhere instead of opening it. */
static bool add_topology_timer(struct hfi_conn *conn)
{
    static const struct hfi_source_calls calls = { .due = topology_due,
                                                   .next_ms = topology_next_ms };

    return !conn->topology->tick || hfi_source_add(&conn->topology_timer, &conn->reactor, &calls);
}

/* ---- opening and closing the store ----------------------------------------------------------- */

hf_status redis_servers_open(struct hfi_conn *conn, hf_error *err)
{
    int64_t until_ms = conn->reactor.host->open_deadline_ms;
    const struct redis_topology *topology =
        conn->conf->topology == REDIS_TOPOLOGY_SENTINEL  ? &redis_sentinel
        : conn->conf->topology == REDIS_TOPOLOGY_CLUSTER ? &redis_cluster
                                                         : &redis_single;
    const hf_error *why = NULL;
    hf_status status;

    conn->topology = topology;
    status = add_topology_timer(conn) ? topology->open(conn, err) : hfi_error_memory(err);
    if (status == HF_OK)
        while (!topology->ready(conn) && !(why = topology->why(conn, true)) &&
               hfi_now_ms() < until_ms)
            hfi_reactor_turn(&conn->reactor, until_ms);
    if (status == HF_OK && topology->ready(conn))
        return HF_OK;

    if (status == HF_OK) {
        if (!why)
            why = topology->why(conn, false);
        status = why && why->status != HF_OK
                     ? hfi_error_set(err, why->status, why->native, "%s", why->text)
                     : hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                                     conn->conf->url.hosts[0].shown);
    }
    hfi_reactor_enter(&conn->reactor);
    conn->closing = true;
    redis_servers_close(conn);
    hfi_reactor_leave_quietly(&conn->reactor, false);
    return status;
}

void redis_servers_close(struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        redis_node_drop(conn->nodes[i]); /* all, before any is gone: answers may look at others */
    for (uint32_t i = 0; i < conn->node_count; i++)
        hfi_free(conn->nodes[i]);
    hfi_free(conn->nodes);
    conn->nodes = NULL;
    conn->node_count = 0;
    conn->sync.conn = conn->inbox.conn = conn;
    redis_node_drop(&conn->sync);
    redis_node_drop(&conn->inbox);

    redis_calls_end_parked(conn);
    hfi_source_remove(&conn->topology_timer);
    if (conn->topology->close)
        conn->topology->close(conn);
}
