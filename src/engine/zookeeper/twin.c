/* SPDX-License-Identifier: MIT */
/*
 * A second node of a claim, which nobody knows of. With the lock.
 *
 * A create whose answer was lost is looked for, behind a sync, when the session is connected again; if it is not there the claim makes
 * another node. But the first create may still be executed. A server that gets the connection of a session anew closes the old
 * one. What it had read from the old one before is under way in another of its threads, and may come behind everything that
 * the new connection has sent; the leader refuses it only if it comes from another server. (Seen on ZooKeeper 3.8 when a server was
 * stopped and went on: 7 of the first 1,000 creates came behind the sync.) Then the claim has a *twin*, which no release deletes and
 * which holds the name for as long as our session lives. And if the twin were taken for the claim's own node, a claim
 * could hold by the older of its two nodes with the token of the younger, and those between them would get smaller tokens.
 *
 * So a claim's own node is the one whose name it knows; any other with its owner is left out of the queue, and deleted.
 * After a create in doubt we look for twins, less and less often, until ZK_TWIN_MS after the last reconnect, and
 * after the claim has gone. A twin that comes even later stays until the session ends.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <stdio.h>
#include <string.h>

#define FIRST_MS 50
#define LAST_MS  2000

static zk_answer_fn twins_listed, twin_deleted;

static void look_by(struct zk_claim_node *node, int64_t at_ms)
{
    node->twin_ms = at_ms;
    if (at_ms < node->store->due_ms)
        node->store->due_ms = at_ms;
}

static void begin(struct zk_claim_node *node, int64_t now_ms)
{
    node->twin_pause_ms = FIRST_MS;
    node->twin_until_ms = now_ms + ZK_TWIN_MS;
    look_by(node, now_ms);
}

void zk_twin_expect(struct zk_claim_node *node)
{
    node->doubted = true; /* it begins when the session is connected again */
}

void zk_twins_connected(struct zk_store *store)
{
    int64_t now_ms = hfi_now_ms();

    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        if (node->doubted)
            begin(node, now_ms);
    hfi_list_each (struct zk_claim_node, node, &store->twins, listed)
        begin(node, now_ms);
}

void zk_twin_keep(struct zk_claim_node *node)
{
    hfi_list_append(&node->store->twins, &node->listed);
    begin(node, hfi_now_ms());
}

static void forget(struct zk_claim_node *node)
{
    node->doubted = false;
    node->twin_ms = HFI_NEVER;
    if (node->state != ZK_FREED)
        return;
    hfi_list_remove(&node->listed);
    if (node->calls == 0)
        hfi_free(node);
}

void zk_twins_forget(struct zk_store *store)
{
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        forget(node);
    hfi_list_each (struct zk_claim_node, node, &store->twins, listed)
        forget(node);
}

/* ---- looking ------------------------------------------------------------------------------------ */

void zk_twin_tick(struct zk_claim_node *node, int64_t now_ms)
{
    struct zk_store *store = node->store;
    char parent[ZK_PATH_MAX];
    struct zk_call *call;

    if (node->twin_ms > now_ms)
        return;
    if (now_ms >= node->twin_until_ms) {
        forget(node);
        return;
    }
    node->twin_ms = HFI_NEVER;
    if (!store->connected)
        return;
    call = zk_call_new(store, twins_listed, node);
    if (call) {
        snprintf(parent, sizeof parent, "%.*s", (int)node->parent_len, node->path);
        zk_send_children(call, parent, 0);
    }
    look_by(node, now_ms + node->twin_pause_ms);
    node->twin_pause_ms = node->twin_pause_ms < LAST_MS / 2 ? 2 * node->twin_pause_ms : LAST_MS;
}

static void twin_deleted(struct zk_call *call, const struct zk_reply *reply)
{
    (void)call, (void)reply; /* if it is still there, the next look finds it */
}

static void delete_twin(struct zk_claim_node *node, const char *name)
{
    struct zk_call *call = zk_call_new(node->store, twin_deleted, NULL);
    char path[ZK_PATH_MAX + ZK_NODE_MAX];

    if (!call)
        return;
    snprintf(path, sizeof path, "%.*s/%s", (int)node->parent_len, node->path, name);
    zk_send_delete(call, path);
}

/* Its name, also if it has gone. */
static const char *own_name(const struct zk_claim_node *node)
{
    return node->path + node->parent_len + 1;
}

size_t zk_twins_out(struct zk_claim_node *node, size_t count)
{
    struct zk_member *members = node->store->members;
    size_t others = zk_queue_twins(members, count, own_name(node));

    for (size_t i = others; i < count; i++)
        delete_twin(node, members[i].node);
    return others;
}

static void twins_listed(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    size_t count = 0;

    if (reply->rc != ZOK || node->presence == ZK_NODE_CREATING || node->presence == ZK_NODE_UNSURE)
        return; /* there is another look to come */
    if (zk_members(call->store, reply->list, &count))
        (void)zk_twins_out(node, count);
}
