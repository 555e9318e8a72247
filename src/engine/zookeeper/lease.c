/* SPDX-License-Identifier: MIT */
/*
 * Held leases: release, renewal, expiry. With the lock.
 *
 * A lease lives as long as the session, so one answer of the leader renews all of them. The
 * validity that core gets ends no later than the session can be relied on (validity.h), and no
 * later than the ttl that was asked for. When that time has passed without a renewal we delete the
 * node: core has declared the lease lost before that, and nobody else deletes the node while the
 * session lives.
 */
#include "engine/zookeeper/internal.h"

#include "util/clock.h"

#include <string.h>

static zk_answer_fn own_watch_set, heartbeat_answered;

void zk_grant_ttl(struct zk_claim_node *node, int64_t ttl_ms, int64_t now_ms)
{
    struct hfi_claim *claim = node->claim;
    int64_t left_ms = zk_validity_left(&node->store->validity, now_ms);

    if (left_ms < 1)
        left_ms = 1; /* 0 would mean that it has no end */
    claim->sent_ms = now_ms;
    claim->granted_ttl_ms = ttl_ms > 0 && ttl_ms < left_ms ? ttl_ms : left_ms;
    node->end_ms = now_ms + claim->granted_ttl_ms;
    if (node->end_ms < node->store->due_ms)
        node->store->due_ms = node->end_ms;
}

/* ---- release ------------------------------------------------------------------------------------ */

void zk_release(void *self, struct hfi_op *op)
{
    struct zk_store *store = self;
    struct zk_claim_node *node = zk_claim(op->claim)->node;

    if (!node) {
        zk_finish(store, op, HF_LOST, NULL);
        return;
    }
    if (node->state == ZK_GONE) {
        zk_finish(store, op, node->ended, NULL);
        zk_claim_node_free(node);
        return;
    }
    node->release = op;
    if (node->state != ZK_LEAVING || (node->calls == 0 && store->connected))
        zk_claim_node_drop(node);
}

/* It goes on leaving; the next release hears how that ended. */
void zk_release_late(void *self, struct hfi_op *op, hf_status status)
{
    struct zk_store *store = self;
    struct zk_claim_node *node = zk_claim(op->claim)->node;

    (void)status;
    if (!node || node->release != op)
        return; /* it has ended */
    node->release = NULL;
    zk_finish(store, op, HF_UNKNOWN, store->connected ? NULL : &store->why);
}

/* ---- renewal ------------------------------------------------------------------------------------- */

static void heartbeat_answered(struct zk_call *call, const struct zk_reply *reply)
{
    if (zk_is_reply(reply->rc)) /* call.c has used the answer already */
        zk_wanted_repeat(call->store);
}

void zk_beat(struct zk_store *store)
{
    struct zk_call *call = zk_call_new(store, heartbeat_answered, NULL);

    if (call)
        zk_send_sync(call, store->conf->root);
    else
        store->beat_ms = hfi_now_ms() + 100;
}

static void renew_item(struct hfi_renewal *item, int64_t now_ms)
{
    struct zk_claim_node *node = zk_claim(item->claim)->node;

    if (!node || node->state != ZK_HELD) {
        item->status = HF_LOST;
        return;
    }
    zk_grant_ttl(node, item->ttl_ms, now_ms);
    item->others_wait = node->line.wanted;
    item->status = HF_OK;
}

static void renew_all(struct zk_store *store, struct hfi_op *op)
{
    int64_t now_ms = hfi_now_ms();

    for (size_t i = 0; i < op->u.renew.count; i++)
        renew_item(&op->u.renew.items[i], now_ms);
    zk_finish(store, op, HF_OK, NULL);
}

void zk_renew(void *self, struct hfi_op *op)
{
    struct zk_store *store = self;
    int64_t now_ms = hfi_now_ms();

    zk_op(op)->since_ms = now_ms;
    zk_op(op)->next = store->renewals;
    store->renewals = op;
    if (store->connected)
        zk_beat(store);
}

void zk_renew_late(void *self, struct hfi_op *op, hf_status status)
{
    struct zk_store *store = self;

    (void)status;
    if (!zk_op_take(&store->renewals, op))
        return; /* it has ended */
    for (size_t i = 0; i < op->u.renew.count; i++)
        op->u.renew.items[i].status = HF_UNAVAILABLE;
    zk_finish(store, op, HF_UNAVAILABLE, store->connected ? NULL : &store->why);
}

/* The leader has answered what was sent at sent_ms: renewals that were asked for before are done. */
void zk_renewals_confirmed(struct zk_store *store, int64_t sent_ms)
{
    struct hfi_op **at = &store->renewals, *op;

    while ((op = *at)) {
        if (zk_op(op)->since_ms > sent_ms) {
            at = &zk_op(op)->next;
            continue;
        }
        *at = zk_op(op)->next;
        renew_all(store, op);
    }
}

/* ---- in time -------------------------------------------------------------------------------------- */

static void own_watch_set(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (node->state != ZK_HELD)
        return;
    if (!zk_is_reply(reply->rc)) {
        zk_watch_clear(&node->watcher);
        node->watch = ZK_WATCH_NONE;
        node->due_ms = call->store->due_ms = hfi_now_ms() + ZK_ARM_MS;
        return;
    }
    if (reply->rc == ZNONODE)
        zk_node_event(call->store, ZOO_DELETED_EVENT, node->watcher.id);
    else if (reply->rc == ZOK)
        zk_wanted_asked(node, reply);
}

/* Held for longer than a moment: watch the node, to notice if the lease is broken. */
static void watch_own_node(struct zk_claim_node *node, int64_t now_ms)
{
    struct zk_call *call = NULL;

    if (node->store->connected)
        call = zk_call_new(node->store, own_watch_set, node);
    if (!call) {
        node->due_ms = now_ms + ZK_ARM_MS;
        return;
    }
    node->watch = ZK_WATCH_OWN;
    node->due_ms = HFI_NEVER;
    zk_send_get(call, node->path, zk_watch_set(&node->watcher));
}

static void claim_node_tick(struct zk_claim_node *node, int64_t now_ms)
{
    struct zk_store *store = node->store;

    zk_twin_tick(node, now_ms);
    if (node->again_ms <= now_ms) {
        node->again_ms = HFI_NEVER;
        if (store->connected)
            zk_claim_node_resume(node); /* it may be gone after this */
        return;
    }
    if (node->state == ZK_HELD && node->end_ms <= now_ms) {
        node->lapsed = true;
        zk_claim_node_drop(node);
    } else if (node->state == ZK_HELD && node->watch != ZK_WATCH_OWN && node->due_ms <= now_ms) {
        watch_own_node(node, now_ms);
    } else if (node->op && node->stop != HF_OK && node->due_ms <= now_ms) {
        /* We do not know whether it is in the queue. Core releases it by owner. */
        zk_finish(store, node->op, HF_UNKNOWN, store->connected ? NULL : &store->why);
        node->op = NULL;
        node->due_ms = HFI_NEVER;
    }
}

static int64_t claim_node_due(const struct zk_claim_node *node)
{
    int64_t due_ms = node->again_ms < node->twin_ms ? node->again_ms : node->twin_ms;

    if (node->state == ZK_HELD && node->end_ms < due_ms)
        due_ms = node->end_ms;
    if ((node->state == ZK_HELD && node->watch != ZK_WATCH_OWN) ||
        (node->op && node->stop != HF_OK))
        due_ms = node->due_ms < due_ms ? node->due_ms : due_ms;
    return due_ms;
}

void zk_claim_nodes_tick(struct zk_store *store, int64_t now_ms)
{
    if (now_ms < store->due_ms)
        return;
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed)
        claim_node_tick(node, now_ms);
    hfi_list_each (struct zk_claim_node, node, &store->twins, listed)
        zk_twin_tick(node, now_ms);
    store->due_ms = HFI_NEVER;
    hfi_list_each (struct zk_claim_node, node, &store->twins, listed)
        if (node->twin_ms < store->due_ms)
            store->due_ms = node->twin_ms;
    hfi_list_each (struct zk_claim_node, node, &store->claim_nodes, listed) {
        int64_t due_ms = claim_node_due(node);

        if (due_ms < store->due_ms)
            store->due_ms = due_ms;
    }
}
