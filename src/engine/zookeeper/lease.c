/* SPDX-License-Identifier: MIT */
/*
 * What is held: release, renewal, its end. With the lock.
 *
 * A lease lives as long as the session, so one answer of the leader renews all of them. What core is
 * told lasts no longer than what is certain of the session (validity.h), nor than the ttl that was asked
 * for. When that time has passed without a renewal the node is deleted: nobody else will, while the
 * session lives, and core has called the lease lost before.
 */
#include "engine/zookeeper/internal.h"

#include "util/clock.h"

#include <string.h>

static zk_answer_fn own_watch_set, heartbeat_answered;

void zk_grant_ttl(struct zk_claim_node *node, int64_t ttl_ms, int64_t now_ms)
{
    struct hfi_claim *claim = node->claim;
    int64_t left_ms = zk_validity_left(&node->conn->validity, now_ms);

    if (left_ms < 1)
        left_ms = 1; /* 0 would mean that it has no end */
    claim->sent_ms = now_ms;
    claim->granted_ttl_ms = ttl_ms > 0 && ttl_ms < left_ms ? ttl_ms : left_ms;
    node->end_ms = now_ms + claim->granted_ttl_ms;
    if (node->end_ms < node->conn->due_ms)
        node->conn->due_ms = node->end_ms;
}

/* ---- release ------------------------------------------------------------------------------------ */

void zk_release(struct hfi_conn *conn, struct hfi_op *op)
{
    struct zk_claim_node *node = zk_claim(op->claim)->node;

    if (!node) {
        zk_finish(conn, op, HF_LOST, NULL);
        return;
    }
    if (node->state == ZK_GONE) {
        zk_finish(conn, op, node->ended, NULL);
        zk_claim_node_free(node);
        return;
    }
    node->release = op;
    if (op->deadline_ms < conn->due_ms)
        conn->due_ms = op->deadline_ms;
    if (node->state != ZK_LEAVING || (node->calls == 0 && conn->connected))
        zk_claim_node_drop(node);
}

/* ---- renewal ------------------------------------------------------------------------------------- */

static void heartbeat_answered(struct zk_call *call, const struct zk_reply *reply)
{
    (void)call, (void)reply; /* call.c has drawn its conclusions */
}

void zk_beat(struct hfi_conn *conn)
{
    struct zk_call *call = zk_call_new(conn, heartbeat_answered, NULL);

    if (call)
        zk_send_sync(call, conn->conf->root);
    else
        conn->beat_ms = hfi_now_ms() + 100;
}

static void renew_item(struct hfi_renewal *item, int64_t now_ms)
{
    struct zk_claim_node *node = zk_claim(item->claim)->node;

    if (!node || node->state != ZK_HELD) {
        item->status = HF_LOST;
        return;
    }
    zk_grant_ttl(node, item->ttl_ms, now_ms);
    item->status = HF_OK;
}

static void renew_all(struct hfi_conn *conn, struct hfi_op *op)
{
    int64_t now_ms = hfi_now_ms();

    for (size_t i = 0; i < op->u.renew.count; i++)
        renew_item(&op->u.renew.items[i], now_ms);
    zk_finish(conn, op, HF_OK, NULL);
}

void zk_renew(struct hfi_conn *conn, struct hfi_op *op)
{
    int64_t now_ms = hfi_now_ms();

    zk_op(op)->since_ms = now_ms;
    zk_op(op)->next = conn->renewals;
    conn->renewals = op;
    if (op->deadline_ms < conn->op_due_ms)
        conn->op_due_ms = op->deadline_ms;
    if (conn->connected)
        zk_beat(conn);
}

/* The leader has answered what was sent at sent_ms: renewals that were asked for before are done. */
void zk_renewals_confirmed(struct hfi_conn *conn, int64_t sent_ms)
{
    struct hfi_op **at = &conn->renewals, *op;

    while ((op = *at)) {
        if (zk_op(op)->since_ms > sent_ms) {
            at = &zk_op(op)->next;
            continue;
        }
        *at = zk_op(op)->next;
        renew_all(conn, op);
    }
}

/* ---- in time -------------------------------------------------------------------------------------- */

static void own_watch_set(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (node->state != ZK_HELD)
        return;
    if (!zk_is_reply(reply->rc)) {
        zk_watch_clear(node);
        node->watch = ZK_WATCH_NONE;
        node->due_ms = call->conn->due_ms = hfi_now_ms() + ZK_ARM_MS;
        return;
    }
    if (reply->rc == ZNONODE)
        zk_node_event(call->conn, ZOO_DELETED_EVENT, node->watch_id);
}

/* Held for longer than a moment: be told if somebody breaks it. */
static void watch_own_node(struct zk_claim_node *node, int64_t now_ms)
{
    struct zk_call *call = NULL;

    if (node->conn->connected)
        call = zk_call_new(node->conn, own_watch_set, node);
    if (!call) {
        node->due_ms = now_ms + ZK_ARM_MS;
        return;
    }
    node->watch = ZK_WATCH_OWN;
    node->due_ms = HFI_NEVER;
    zk_send_get(call, node->path, zk_watch_set(node));
}

static void claim_node_tick(struct zk_claim_node *node, int64_t now_ms)
{
    struct hfi_conn *conn = node->conn;

    if (node->again_ms <= now_ms) {
        node->again_ms = HFI_NEVER;
        if (conn->connected)
            zk_claim_node_resume(node); /* it may be gone after this */
        return;
    }
    if (node->state == ZK_HELD && node->end_ms <= now_ms) {
        node->lapsed = true;
        zk_claim_node_drop(node);
    } else if (node->state == ZK_HELD && node->watch != ZK_WATCH_OWN && node->due_ms <= now_ms) {
        watch_own_node(node, now_ms);
    } else if (node->op && node->stop != HF_OK && node->due_ms <= now_ms) {
        /* Neither in the queue for certain nor out of it. Core releases it by owner. */
        zk_finish(conn, node->op, HF_UNKNOWN, conn->connected ? NULL : &conn->why);
        node->op = NULL;
        node->due_ms = HFI_NEVER;
    } else if (node->release && node->release->deadline_ms <= now_ms) {
        zk_finish(conn, node->release, HF_UNKNOWN, conn->connected ? NULL : &conn->why);
        node->release = NULL;
    }
}

static int64_t claim_node_due(const struct zk_claim_node *node)
{
    int64_t due_ms = node->again_ms;

    if (node->state == ZK_HELD && node->end_ms < due_ms)
        due_ms = node->end_ms;
    if ((node->state == ZK_HELD && node->watch != ZK_WATCH_OWN) ||
        (node->op && node->stop != HF_OK))
        due_ms = node->due_ms < due_ms ? node->due_ms : due_ms;
    if (node->release && node->release->deadline_ms < due_ms)
        due_ms = node->release->deadline_ms;
    return due_ms;
}

void zk_claim_nodes_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct hfi_list *at, *next;

    if (now_ms < conn->due_ms)
        return;
    for (at = conn->claim_nodes.next; at != &conn->claim_nodes; at = next) {
        next = at->next;
        claim_node_tick(hfi_container(at, struct zk_claim_node, listed), now_ms);
    }
    conn->due_ms = HFI_NEVER;
    for (at = conn->claim_nodes.next; at != &conn->claim_nodes; at = at->next) {
        int64_t due_ms = claim_node_due(hfi_container(at, struct zk_claim_node, listed));

        if (due_ms < conn->due_ms)
            conn->due_ms = due_ms;
    }
}

/* End what has waited for a connection, or for the leader, for long enough. */
static void ops_tick(struct hfi_conn *conn, struct hfi_op **list, int64_t now_ms)
{
    struct hfi_op *op;

    while ((op = *list)) {
        if (op->deadline_ms > now_ms) {
            if (op->deadline_ms < conn->op_due_ms)
                conn->op_due_ms = op->deadline_ms;
            list = &zk_op(op)->next;
            continue;
        }
        *list = zk_op(op)->next;
        if (op->kind == HFI_OP_RENEW)
            for (size_t i = 0; i < op->u.renew.count; i++)
                op->u.renew.items[i].status = HF_UNAVAILABLE;
        zk_finish(conn, op, HF_UNAVAILABLE, conn->connected ? NULL : &conn->why);
    }
}

void zk_ops_tick(struct hfi_conn *conn, int64_t now_ms)
{
    if (now_ms < conn->op_due_ms)
        return;
    conn->op_due_ms = HFI_NEVER;
    ops_tick(conn, &conn->renewals, now_ms);
    ops_tick(conn, &conn->parked, now_ms);
}
