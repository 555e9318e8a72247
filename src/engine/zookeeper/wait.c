/* SPDX-License-Identifier: MIT */
/*
 * The members before us: looking at them, watching one, being granted. With the lock. queue.h decides.
 *
 * No member is ever put in before us, so what we have seen once is an upper bound of what is before us:
 * if only one member blocked us and that one has gone, we hold, and need not look again.
 *
 * Of the waiters for some of a semaphore's permits only the first watches the list of children (`head`),
 * for any holder that goes may make room. Each of the others watches the waiter before it. A claim that
 * is granted some of several permits while others wait writes its node once more (zk_tell()): that is
 * the event by which the next waiter learns that it is the first now. If the node was written before the
 * watch was set, its version says so.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/handover.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static zk_answer_fn watched, told;

/* Look at the list of children. `watch`: and be told when it changes. */
void zk_look(struct zk_stand *stand, bool watch)
{
    struct zk_call *call = zk_call_new(stand->conn, zk_looked, stand);
    char parent[ZK_PATH_MAX];

    if (!call) {
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
        return;
    }
    memcpy(parent, stand->path, stand->parent_len);
    parent[stand->parent_len] = 0;
    stand->state = ZK_LOOKING;
    stand->head = watch;
    zk_send_children(call, parent, watch ? zk_watch_set(stand) : 0);
}

/* Wait for whoever is in our way. */
static void await(struct zk_stand *stand, const struct zk_position *position, bool watches)
{
    char path[ZK_PATH_MAX];
    struct zk_call *call;

    stand->accepted = true;
    stand->blocker = position->blocker;
    stand->once = position->once;
    if (!position->watch) {
        if (watches && stand->watch_id)
            stand->state = ZK_WATCHING; /* this look has set the watch */
        else
            zk_look(stand, true);
        return;
    }
    call = zk_call_new(stand->conn, watched, stand);
    if (!call) {
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
        return;
    }
    stand->state = ZK_WATCHING;
    stand->head = false;
    snprintf(path, sizeof path, "%.*s/%s", (int)stand->parent_len, stand->path, position->watch);
    /* Not exists(): that leaves a watch behind also on what has gone. */
    zk_send_get(call, path, zk_watch_set(stand));
}

static void decide(struct zk_stand *stand, const struct zk_position *position, bool watches)
{
    hf_error err;

    switch (position->answer) {
    case ZK_HOLDS:
        stand->tells = position->tells;
        zk_granted(stand);
        return;
    case ZK_MISMATCH:
        if (!stand->accepted) {
            /* The first may be somebody who is about to be told the same. */
            if (stand->mismatched)
                zk_stand_end(stand, HF_MISMATCH, NULL);
            else
                zk_look(stand, false);
            stand->mismatched = true;
            return;
        } /* fall through */
    case ZK_WAITS:
        if (!stand->op->may_wait)
            zk_stand_end(stand, HF_BUSY, NULL);
        else
            await(stand, position, watches);
        return;
    case ZK_ABSENT: /* somebody has deleted it */
        zk_stand_restart(stand);
        return;
    case ZK_UNORDERED:
        hfi_error_set(&err, HF_FULL, 0,
                      "a lease has been held for so long that the order of others cannot be told");
        zk_stand_end(stand, HF_FULL, &err);
    }
}

void zk_looked(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;
    struct hfi_conn *conn = call->conn;
    struct zk_position position;
    size_t count = 0;
    hf_error err;

    if (!zk_is_reply(reply->rc) || !(stand->state == ZK_CREATING || stand->state == ZK_LOOKING) ||
        !stand->op)
        return;
    if (stand->stop != HF_OK)
        zk_stand_drop(stand); /* create was refused */
    else if (!stand->made)
        zk_stand_restart(stand); /* without a parent */
    else if (reply->rc == ZNONODE)
        zk_stand_restart(stand); /* somebody has deleted all */
    else if (reply->rc != ZOK)
        zk_stand_end(stand, zk_refusal(reply->rc, "looking at the queue", &err), &err);
    else if (!zk_members(conn, reply->list, &count))
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
    else {
        position = zk_queue_find(conn->members, count, stand->claim->owner);
        decide(stand, &position, call->watches);
    }
}

/* Whom we watch, or the list, has changed. */
static void departed(struct zk_stand *stand)
{
    if (stand->once)
        zk_granted(stand);
    else
        zk_look(stand, false);
}

/* The answer to setting a watch on who is before us. */
static void watched(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;
    hf_error err;

    if (!zk_is_reply(reply->rc) || stand->state != ZK_WATCHING || !stand->op || stand->head)
        return;
    if (reply->rc == ZNONODE)
        departed(stand);
    else if (reply->rc != ZOK)
        zk_stand_end(stand, zk_refusal(reply->rc, "watching who is before us", &err), &err);
    else if (!stand->blocker && reply->stat->version > 0)
        zk_look(stand, true); /* it holds, and has told so before we watched */
}

void zk_node_event(struct hfi_conn *conn, int type, uint64_t watch_id)
{
    struct zk_stand *stand = conn->watches[watch_id % ZK_BUCKETS];

    while (stand && stand->watch_id != watch_id)
        stand = stand->next_watch;
    if (!stand) {
        zk_cell_event(conn, watch_id);
        return;
    }
    zk_watch_clear(stand);
    if (stand->state == ZK_HELD && type == ZOO_DELETED_EVENT) {
        zk_lost(conn, stand->claim, "its node in ZooKeeper was deleted");
        stand->state = ZK_GONE;
        stand->made = false;
        stand->ended = HF_LOST;
    } else if (stand->state == ZK_HELD) {
        stand->armed = false; /* written: watch it again */
        stand->due_ms = hfi_now_ms();
        conn->due_ms = stand->due_ms;
    } else if (!conn->connected) {
        return; /* it looks again when it is */
    } else if (stand->state == ZK_WATCHING && type == ZOO_DELETED_EVENT && !stand->head) {
        departed(stand);
    } else if (stand->state == ZK_WATCHING) {
        /* The list has changed, or the waiter before us holds now. A blocker that was written is still there. */
        zk_look(stand, !stand->blocker);
    }
}

/* ---- granted ---------------------------------------------------------------------------------- */

static void told(struct zk_call *call, const struct zk_reply *reply)
{
    if (zk_is_reply(reply->rc))
        call->stand->tells = false; /* else after the connection is back */
}

void zk_tell(struct zk_stand *stand)
{
    struct zk_call *call = zk_call_new(stand->conn, told, stand);
    char data[64 + HF_LABEL_MAX + 1];
    const char *label = stand->claim->label ? stand->claim->label : stand->conn->host->label;
    int len = snprintf(data, sizeof data, "1 %lld\n%.*s", (long long)stand->conn->trust.timeout_ms,
                       HF_LABEL_MAX, label ? label : "");

    if (call)
        zk_send_set(call, stand->path, data, len);
}

/* Is enough of the session certain for the caller, and for the first renewal? A third is right here too: ZK_BEATS heartbeats in a
 * timeout, and the lag of trust.h, leave a half of it, and a connection without an answer for a third is dropped anyway. */
static bool is_worth(const struct zk_stand *stand, int64_t now_ms)
{
    const struct zk_trust *trust = &stand->conn->trust;
    int64_t left_ms = zk_trust_left(trust, now_ms);

    if (stand->refreshed)
        return left_ms > 0;
    return !hfi_grant_needs_renewal(left_ms, trust->timeout_ms, trust->timeout_ms,
                                    stand->claim->min_valid_ms);
}

void zk_granted(struct zk_stand *stand)
{
    struct hfi_conn *conn = stand->conn;
    struct hfi_claim *claim = stand->claim;
    int64_t now_ms = hfi_now_ms();

    zk_watch_clear(stand);
    if (!conn->connected || !is_worth(stand, now_ms)) {
        /* Connecting anew goes to the leader: afterwards the whole timeout is certain. */
        stand->state = ZK_CONFIRMING;
        stand->refreshed = true;
        zk_session_drop(conn);
        return;
    }
    claim->token = stand->czxid;
    claim->tokens = 1;
    stand->state = ZK_HELD;
    zk_grant_ttl(stand, claim->ttl_ms, now_ms);
    stand->due_ms = now_ms + ZK_ARM_MS;
    if (stand->due_ms < conn->due_ms)
        conn->due_ms = stand->due_ms;
    if (stand->tells)
        zk_tell(stand);
    zk_finish(conn, stand->op, HF_OK, NULL);
    stand->op = NULL;
}
