/* SPDX-License-Identifier: MIT */
/*
 * WANTED: the holder of a WATCHED claim learns that others wait behind it. With the lock. Other claims have nothing of this.
 *
 *   granted --> the list is read, with a watch on it <------------------------------+
 *                 |                                                                 |
 *                 +-- nobody waits: core is told, if that is news                   +-- an event: the list has changed, or
 *                 |                                                                 |   the waiter has gone
 *                 +-- the first waiter is read -- it waits: core is told. Its node -+
 *                                         |       is watched instead of the list, if it waits for as long as we hold
 *                                         +------ it was a try: not counted, and the list is read again
 *
 * `line.watcher` is the watch that counts; an answer that belongs to another one is out of date. All of this is advice. A
 * reading whose answer was lost is made again when the store is connected again.
 */
#include "engine/zookeeper/internal.h"

#include <stdio.h>
#include <string.h>

static zk_answer_fn line_read, waiter_read;

static bool is_watched(const struct zk_claim_node *node)
{
    return node->state == ZK_HELD && node->claim->flags & HFI_CLAIM_WATCHED;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void say(struct zk_claim_node *node, bool wanted)
{
    if (node->line.wanted == wanted)
        return;
    node->line.wanted = wanted;
    hfi_reactor_wanted(&node->store->reactor, node->claim, wanted ? HFI_WANTED_YES : HFI_WANTED_NO,
                       "", 0);
}

void zk_wanted_look(struct zk_claim_node *node)
{
    struct zk_store *store = node->store;
    char parent[ZK_PATH_MAX];
    struct zk_call *call;

    if (!is_watched(node))
        return;
    store->listens = true;
    if (!store->connected)
        return; /* when it is connected again */
    call = zk_call_new(store, line_read, node);
    if (!call) {
        zk_claim_node_later(node);
        return;
    }
    snprintf(parent, sizeof parent, "%.*s", (int)node->parent_len, node->path);
    call->line_id = zk_watch_set(&node->line.watcher);
    zk_send_children(call, parent, call->line_id);
}

static void read_waiter(struct zk_claim_node *node, const struct zk_waiter *waiter)
{
    struct zk_call *call = zk_call_new(node->store, waiter_read, node);
    char path[ZK_PATH_MAX];

    if (!call) {
        zk_claim_node_later(node);
        return;
    }
    snprintf(path, sizeof path, "%.*s/%s", (int)node->parent_len, node->path, waiter->node);
    if (waiter->stays)
        zk_watch_set(&node->line.watcher);
    call->line_id = node->line.watcher.id;
    call->sequence = waiter->sequence;
    zk_send_get(call, path, waiter->stays ? call->line_id : 0);
}

static bool is_current(const struct zk_call *call, const struct zk_reply *reply)
{
    return zk_is_reply(reply->rc) && is_watched(call->node) &&
           call->line_id == call->node->line.watcher.id;
}

static void line_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    struct zk_store *store = call->store;
    const struct zk_line *line = &node->line;
    struct zk_waiter waiter;
    size_t count = 0;

    if (!is_current(call, reply) || reply->rc != ZOK)
        return; /* if our node has gone, the watch on it says so */
    if (!zk_members(store, reply->list, &count))
        zk_claim_node_later(node);
    else if (zk_queue_waiter(store->members, count, node->claim->owner,
                             line->skips ? &line->skipped : NULL, &waiter))
        read_waiter(node, &waiter);
    else
        say(node, false);
}

static void waiter_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    struct zk_node_data data;

    if (!is_current(call, reply))
        return;
    if (reply->rc == ZOK && !(zk_node_data_read(reply->text, reply->len, &data) && data.tries)) {
        say(node, true);
        return;
    }
    if (reply->rc == ZOK) {
        node->line.skips = true;
        node->line.skipped = call->sequence;
    }
    if (reply->rc == ZOK || reply->rc == ZNONODE)
        zk_wanted_look(node);
}

/* ---- from elsewhere ------------------------------------------------------------------------------ */

void zk_wanted_event(struct zk_claim_node *node)
{
    zk_watch_clear(&node->line.watcher);
    zk_wanted_look(node);
}

void zk_wanted_end(struct zk_claim_node *node)
{
    zk_watch_clear(&node->line.watcher);
    node->line.wanted = node->line.skips = false;
}

/* While the store is not connected nobody knows, and core takes that for no. */
void zk_wanted_tick(struct zk_store *store)
{
    if (!store->listens || store->reactor.hears == store->connected)
        return;
    hfi_reactor_hears(&store->reactor, store->connected);
    if (store->connected)
        return;
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        if (node->state == ZK_HELD)
            node->line.wanted = false;
}

/* There may have been no memory to tell it. */
void zk_wanted_repeat(struct zk_store *store)
{
    if (!store->listens)
        return;
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        if (is_watched(node) && node->line.wanted)
            hfi_reactor_wanted(&store->reactor, node->claim, HFI_WANTED_YES, "", 0);
}

/* A node is read when its watch is set, and then after each write of it: so a text is told once. */
void zk_wanted_asked(struct zk_claim_node *node, const struct zk_reply *reply)
{
    struct zk_node_data data;

    if (is_watched(node) && zk_node_data_read(reply->text, reply->len, &data) && data.asked)
        hfi_reactor_wanted(&node->store->reactor, node->claim, HFI_WANTED_ASKED, data.text,
                           strlen(data.text));
}
