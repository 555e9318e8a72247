/* SPDX-License-Identifier: MIT */
/*
 * What is held: release, renewal, its end. With the lock.
 *
 * A lease lives as long as the session, so one answer of the leader renews all of them. What core is
 * told lasts no longer than what is certain of the session (trust.h), nor than the ttl that was asked
 * for. When that time has passed without a renewal the node is deleted: nobody else will, while the
 * session lives, and core has called the lease lost before.
 */
#include "engine/zookeeper/internal.h"

#include "util/clock.h"

#include <string.h>

static zk_answer_fn armed, beaten;

void zk_grant_ttl(struct zk_stand *stand, int64_t ttl_ms, int64_t now_ms)
{
    struct hfi_claim *claim = stand->claim;
    int64_t left_ms = zk_trust_left(&stand->conn->trust, now_ms);

    if (left_ms < 1)
        left_ms = 1; /* 0 would mean that it has no end */
    claim->sent_ms = now_ms;
    claim->granted_ttl_ms = ttl_ms > 0 && ttl_ms < left_ms ? ttl_ms : left_ms;
    stand->end_ms = now_ms + claim->granted_ttl_ms;
    if (stand->end_ms < stand->conn->due_ms)
        stand->conn->due_ms = stand->end_ms;
}

/* ---- release ------------------------------------------------------------------------------------ */

void zk_release(struct hfi_conn *conn, struct hfi_op *op)
{
    struct zk_stand *stand = op->claim->engine[ZK_CLAIM_STAND];

    if (!stand) {
        zk_finish(conn, op, HF_LOST, NULL);
        return;
    }
    if (stand->state == ZK_GONE) {
        zk_finish(conn, op, stand->ended, NULL);
        zk_stand_free(stand);
        return;
    }
    stand->release = op;
    if (op->deadline_ms < conn->due_ms)
        conn->due_ms = op->deadline_ms;
    if (stand->state != ZK_LEAVING || (stand->calls == 0 && conn->connected))
        zk_stand_drop(stand);
}

/* ---- renewal ------------------------------------------------------------------------------------- */

static void beaten(struct zk_call *call, const struct zk_reply *reply)
{
    (void)call, (void)reply; /* call.c has drawn its conclusions */
}

void zk_beat(struct hfi_conn *conn)
{
    struct zk_call *call = zk_call_new(conn, beaten, NULL);

    if (call)
        zk_send_sync(call, conn->conf->root);
    else
        conn->beat_ms = hfi_now_ms() + 100;
}

static void renew_item(struct hfi_renewal *item, int64_t now_ms)
{
    struct zk_stand *stand = item->claim->engine[ZK_CLAIM_STAND];

    if (!stand || stand->state != ZK_HELD) {
        item->status = HF_LOST;
        return;
    }
    zk_grant_ttl(stand, item->ttl_ms, now_ms);
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

    op->engine[ZK_OP_SINCE] = (void *)(intptr_t)now_ms; /* NOLINT: a number */
    op->engine[ZK_OP_NEXT] = conn->renewals;
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
        if ((intptr_t)op->engine[ZK_OP_SINCE] > sent_ms) {
            at = (struct hfi_op **)&op->engine[ZK_OP_NEXT];
            continue;
        }
        *at = op->engine[ZK_OP_NEXT];
        renew_all(conn, op);
    }
}

/* ---- in time -------------------------------------------------------------------------------------- */

static void armed(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;

    if (stand->state != ZK_HELD)
        return;
    if (!zk_is_reply(reply->rc)) {
        zk_watch_clear(stand);
        stand->armed = false;
        stand->due_ms = call->conn->due_ms = hfi_now_ms() + ZK_ARM_MS;
        return;
    }
    if (reply->rc == ZNONODE)
        zk_node_event(call->conn, ZOO_DELETED_EVENT, stand->watch_id);
}

/* Held for longer than a moment: be told if somebody breaks it. */
static void arm(struct zk_stand *stand, int64_t now_ms)
{
    struct zk_call *call = NULL;

    if (stand->conn->connected)
        call = zk_call_new(stand->conn, armed, stand);
    if (!call) {
        stand->due_ms = now_ms + ZK_ARM_MS;
        return;
    }
    stand->armed = true;
    stand->due_ms = HFI_NEVER;
    zk_send_get(call, stand->path, zk_watch_set(stand));
}

static void stand_tick(struct zk_stand *stand, int64_t now_ms)
{
    struct hfi_conn *conn = stand->conn;

    if (stand->again_ms <= now_ms) {
        stand->again_ms = HFI_NEVER;
        if (conn->connected)
            zk_stand_resume(stand); /* it may be gone after this */
        return;
    }
    if (stand->state == ZK_HELD && stand->end_ms <= now_ms) {
        stand->lapsed = true;
        zk_stand_drop(stand);
    } else if (stand->state == ZK_HELD && !stand->armed && stand->due_ms <= now_ms) {
        arm(stand, now_ms);
    } else if (stand->op && stand->stop != HF_OK && stand->due_ms <= now_ms) {
        /* Neither in the queue for certain nor out of it. Core releases it by owner. */
        zk_finish(conn, stand->op, HF_UNKNOWN, conn->connected ? NULL : &conn->why);
        stand->op = NULL;
        stand->due_ms = HFI_NEVER;
    } else if (stand->release && stand->release->deadline_ms <= now_ms) {
        zk_finish(conn, stand->release, HF_UNKNOWN, conn->connected ? NULL : &conn->why);
        stand->release = NULL;
    }
}

static int64_t stand_due(const struct zk_stand *stand)
{
    int64_t due_ms = stand->again_ms;

    if (stand->state == ZK_HELD && stand->end_ms < due_ms)
        due_ms = stand->end_ms;
    if ((stand->state == ZK_HELD && !stand->armed) || (stand->op && stand->stop != HF_OK))
        due_ms = stand->due_ms < due_ms ? stand->due_ms : due_ms;
    if (stand->release && stand->release->deadline_ms < due_ms)
        due_ms = stand->release->deadline_ms;
    return due_ms;
}

void zk_stands_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct zk_stand *next;

    if (now_ms < conn->due_ms)
        return;
    for (struct zk_stand *stand = conn->stands; stand; stand = next) {
        next = stand->next;
        stand_tick(stand, now_ms);
    }
    conn->due_ms = HFI_NEVER;
    for (struct zk_stand *stand = conn->stands; stand; stand = stand->next) {
        int64_t due_ms = stand_due(stand);

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
            list = (struct hfi_op **)&op->engine[ZK_OP_NEXT];
            continue;
        }
        *list = op->engine[ZK_OP_NEXT];
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
