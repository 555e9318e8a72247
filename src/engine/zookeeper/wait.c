/* SPDX-License-Identifier: MIT */
/*
 * Reads the queue, watches a member before us, and grants. With the lock. queue.h decides.
 *
 * No member ever joins before us, so the members before us can only become fewer: if only one
 * member blocked us and that one has gone, we hold, and need not read the queue again.
 *
 * Of the waiters for some of a semaphore's permits only the first watches the list of children
 * (`head`), since any holder that leaves may free enough permits. Each of the others watches the
 * waiter before it. A claim that is granted some of several permits while others wait writes its
 * node once more (zk_tell()): that is the event by which the next waiter learns that it is the
 * first now. If the node was written before the watch was set, its version says so.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/handover.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static zk_answer_fn watch_set, waiter_told;

/* Read the list of children. `watch`: and watch it for changes. */
void zk_look(struct zk_claim_node *node, bool watch)
{
    struct zk_call *call = zk_call_new(node->store, zk_looked, node);
    char parent[ZK_PATH_MAX];

    if (!call) {
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
        return;
    }
    memcpy(parent, node->path, node->parent_len);
    parent[node->parent_len] = 0;
    zk_claim_node_enter(node, ZK_LOOKING);
    node->watch = watch ? ZK_WATCH_LIST : ZK_WATCH_NONE;
    zk_send_children(call, parent, watch ? zk_watch_set(&node->watcher) : 0);
}

/* Watch what blocks us. */
static void wait_for(struct zk_claim_node *node, const struct zk_position *position, bool watches)
{
    char path[ZK_PATH_MAX];
    struct zk_call *call;

    node->kind = ZK_KIND_ACCEPTED;
    if (position->watch == ZK_WATCH_LIST) {
        if (watches && node->watcher.id)
            zk_claim_node_enter(node, ZK_WATCHING); /* reading the list has set the watch */
        else
            zk_look(node, true);
        return;
    }
    call = zk_call_new(node->store, watch_set, node);
    if (!call) {
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
        return;
    }
    zk_claim_node_enter(node, ZK_WATCHING);
    node->watch = position->watch;
    snprintf(path, sizeof path, "%.*s/%s", (int)node->parent_len, node->path, position->node);
    /* Not exists(): that would leave a watch even on a node that has gone. */
    zk_send_get(call, path, zk_watch_set(&node->watcher));
}

static void decide(struct zk_claim_node *node, const struct zk_position *position, bool watches)
{
    hf_error err;

    switch (position->answer) {
    case ZK_HOLDS:
        node->tells = position->tells;
        node->line.wanted = position->wanted && node->claim->flags & HFI_CLAIM_WATCHED;
        zk_granted(node);
        return;
    case ZK_MISMATCH:
        if (node->kind == ZK_KIND_UNCHECKED) {
            node->kind = ZK_KIND_DOUBTED;
            zk_look(node, false);
            return;
        }
        if (node->kind == ZK_KIND_DOUBTED) {
            (void)hfi_mismatch_set(&err, position->first.mode, position->first.capacity);
            zk_claim_node_end(node, HF_MISMATCH, &err);
            return;
        } /* fall through */
    case ZK_WAITS:
        if (!node->op->may_wait)
            zk_claim_node_end(node, HF_BUSY, NULL);
        else {
            node->op->ret_queued = true;
            wait_for(node, position, watches);
        }
        return;
    case ZK_ABSENT: /* another client has deleted our node */
        zk_claim_node_restart(node);
        return;
    case ZK_UNORDERED:
        hfi_error_set(&err, HF_FULL, 0,
                      "a lease has been held too long: the order of the queue is not known");
        zk_claim_node_end(node, HF_FULL, &err);
    }
}

void zk_looked(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    struct zk_store *store = call->store;
    struct zk_position position;
    size_t count = 0;
    hf_error err;

    if (!zk_is_reply(reply->rc) || !(node->state == ZK_CREATING || node->state == ZK_LOOKING) ||
        !node->op)
        return;
    if (node->stop != HF_OK)
        zk_claim_node_drop(node); /* create was refused */
    else if (node->presence == ZK_NODE_CREATING || node->presence == ZK_NODE_UNSURE)
        return; /* it could not be sent: its answer says so, and after that it is looked for */
    else if (node->presence != ZK_NODE_MADE)
        zk_claim_node_restart(node); /* without a parent */
    else if (reply->rc == ZNONODE)
        zk_claim_node_restart(node); /* another client has deleted the parent */
    else if (reply->rc != ZOK)
        zk_claim_node_end(node, zk_refusal(reply->rc, "reading the queue", &err), &err);
    else if (!zk_members(store, reply->list, &count))
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
    else {
        count = zk_twins_out(node, count);
        position = zk_queue_find(store->members, count, node->claim->owner);
        decide(node, &position, call->watches);
    }
}

/* The node that we watch has gone. A WATCHED claim reads the queue before its grant, which says whether others wait. */
static void departed(struct zk_claim_node *node)
{
    if (node->watch == ZK_WATCH_LAST && !(node->claim->flags & HFI_CLAIM_WATCHED))
        zk_granted(node);
    else
        zk_look(node, false);
}

/* The answer to setting a watch on a node before us. */
static void watch_set(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    hf_error err;

    if (!zk_is_reply(reply->rc) || node->state != ZK_WATCHING || !node->op ||
        node->watch == ZK_WATCH_LIST)
        return;
    if (reply->rc == ZNONODE)
        departed(node);
    else if (reply->rc != ZOK)
        zk_claim_node_end(node, zk_refusal(reply->rc, "watching the member before us", &err), &err);
    else if (node->watch == ZK_WATCH_WAITER && reply->stat->version > 0)
        zk_look(node, true); /* it holds, and wrote its node before we set the watch */
}

void zk_node_event(struct zk_store *store, int type, uint64_t watch_id)
{
    struct zk_watcher *watcher = store->watchers[watch_id % ZK_BUCKETS];
    struct zk_claim_node *node;

    while (watcher && watcher->id != watch_id)
        watcher = watcher->next;
    if (!watcher) {
        zk_cell_event(store, watch_id);
        return;
    }
    node = watcher->node;
    if (watcher == &node->line.watcher) {
        zk_wanted_event(node);
        return;
    }
    zk_watch_clear(watcher);
    if (node->state == ZK_HELD && type == ZOO_DELETED_EVENT) {
        hfi_reactor_lost(&store->reactor, node->claim, "its node in ZooKeeper was deleted");
        zk_claim_node_gone(node, HF_LOST);
    } else if (node->state == ZK_HELD) {
        node->watch = ZK_WATCH_NONE; /* written: watch it again */
        node->due_ms = hfi_now_ms();
        store->due_ms = node->due_ms;
    } else if (!store->connected) {
        return; /* it reads the queue again when it is connected */
    } else if (node->state == ZK_WATCHING && type == ZOO_DELETED_EVENT &&
               node->watch != ZK_WATCH_LIST) {
        departed(node);
    } else if (node->state == ZK_WATCHING) {
        /* The list has changed, or the waiter before us holds now. A blocker that was only written
         * to still exists. */
        zk_look(node, node->watch == ZK_WATCH_LIST || node->watch == ZK_WATCH_WAITER);
    }
}

/* ---- granted ---------------------------------------------------------------------------------- */

static void waiter_told(struct zk_call *call, const struct zk_reply *reply)
{
    if (zk_is_reply(reply->rc))
        call->node->tells = false; /* else after the connection is back */
}

void zk_tell(struct zk_claim_node *node)
{
    struct zk_call *call = zk_call_new(node->store, waiter_told, node);
    char data[ZK_DATA_MAX];
    int len = zk_claim_node_data(node, data);

    if (call)
        zk_send_set(call, node->path, data, len);
}

/* Is the remaining validity of the session enough for the caller, and for the first renewal? A
 * third of the timeout is right here too: ZK_BEATS heartbeats in a timeout and the lag of
 * validity.h leave half of it, and a connection without an answer for a third is dropped anyway. */
static bool is_worth(const struct zk_claim_node *node, int64_t now_ms)
{
    const struct zk_validity *validity = &node->store->validity;
    int64_t left_ms = zk_validity_left(validity, now_ms);

    if (node->refreshed)
        return left_ms > 0;
    return !hfi_grant_needs_renewal(left_ms, validity->timeout_ms, validity->timeout_ms,
                                    node->claim->min_valid_ms);
}

void zk_granted(struct zk_claim_node *node)
{
    struct zk_store *store = node->store;
    struct hfi_claim *claim = node->claim;
    int64_t now_ms = hfi_now_ms();

    zk_watch_clear(&node->watcher);
    if (!store->connected || !is_worth(node, now_ms)) {
        /* Reconnecting involves the leader: after that the whole timeout is certain. */
        zk_claim_node_enter(node, ZK_CONFIRMING);
        node->refreshed = true;
        zk_session_drop(store);
        return;
    }
    claim->token = node->czxid;
    claim->tokens = 1;
    claim->others_wait = node->line.wanted;
    zk_claim_node_enter(node, ZK_HELD);
    node->watch = ZK_WATCH_NONE;
    zk_grant_ttl(node, claim->ttl_ms, now_ms);
    node->due_ms = now_ms + ZK_ARM_MS;
    if (node->due_ms < store->due_ms)
        store->due_ms = node->due_ms;
    if (node->tells)
        zk_tell(node);
    zk_finish(store, node->op, HF_OK, NULL);
    node->op = NULL;
    zk_wanted_look(node);
}
