/* SPDX-License-Identifier: MIT */
/*
 * A claim's node: made, found again after a lost connection, deleted. With the lock; internal.h draws the
 * states. Every function here may be called at any time, whatever is under way: an answer that comes
 * to a stand which has gone on meanwhile is told by its state, and ignored.
 *
 * The create whose answer was lost. Its node is looked for by owner, which is part of its name, after
 * a sync: that waits until everything that the leader had before has arrived at the server which we ask.
 * A copy that is still under way on the old connection is refused by the leader from the moment on at
 * which the session has moved, which was before we were connected again. So what is not found then
 * will never be there, and it is made again.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/handover.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static zk_answer_fn created, parent_made, found, found_stat, deleted;

/* ---- paths ------------------------------------------------------------------------------- */

void zk_parent_path(const struct hfi_conn *conn, const char *kind, const struct hfi_name *name,
                    char *ret_path)
{
    char escaped[ZK_NAME_MAX + 1];

    zk_escape(name->bytes, name->len, escaped);
    snprintf(ret_path, ZK_PATH_MAX, "%s/%s/%s", conn->conf->root, kind, escaped);
}

/* The parent of a stand's node; `ret_path` has room for ZK_PATH_MAX. */
static const char *parent_of(const struct zk_stand *stand, char *ret_path)
{
    memcpy(ret_path, stand->path, stand->parent_len);
    ret_path[stand->parent_len] = 0;
    return ret_path;
}

static void set_prefix(struct zk_stand *stand)
{
    char prefix[ZK_PREFIX_LEN + 1];

    zk_node_prefix(stand->claim, prefix);
    snprintf(stand->path + stand->parent_len, 1 + ZK_NODE_MAX, "/%s", prefix);
}

static void ignored(struct zk_call *call, const struct zk_reply *reply)
{
    (void)call, (void)reply;
}

void zk_make_parents(struct hfi_conn *conn, const char *path)
{
    char part[ZK_PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct zk_call *call = zk_call_new(conn, ignored, NULL);

        if (!call)
            return; /* what needs it fails, and tries again */
        *slash = 0;
        zk_send_create(call, part, "", 0, ZOO_CONTAINER);
        *slash = '/';
    }
}

/* ---- beginning ------------------------------------------------------------------------------ */

void zk_acquire(struct hfi_conn *conn, struct hfi_op *op)
{
    char parent[ZK_PATH_MAX];
    struct zk_stand *stand;
    size_t len;

    if (conn->denied) {
        zk_finish(conn, op, HF_DENIED, &conn->why);
        return;
    }
    zk_parent_path(conn, "locks", &op->claim->name, parent);
    len = strlen(parent);
    stand = hfi_calloc(1, sizeof *stand + len + 1 + ZK_NODE_MAX);
    if (!stand) {
        zk_finish(conn, op, HF_NO_MEMORY, NULL);
        return;
    }
    stand->conn = conn;
    stand->claim = op->claim;
    stand->op = op;
    stand->due_ms = stand->end_ms = stand->again_ms = HFI_NEVER;
    stand->parent_len = len;
    memcpy(stand->path, parent, len);
    set_prefix(stand);
    stand->next = conn->stands;
    if (stand->next)
        stand->next->prev = stand;
    conn->stands = stand;
    op->engine[ZK_OP_STAND] = stand;
    op->claim->engine[ZK_CLAIM_STAND] = stand;

    /* Nobody drove the store for so long that the session may be over: connecting anew asks for it. */
    if (conn->connected &&
        hfi_grant_is_stale(zk_trust_left(&conn->trust, hfi_now_ms()), conn->trust.timeout_ms))
        zk_session_drop(conn);
    if (conn->connected)
        zk_stand_restart(stand);
}

/* The node's data: "1 <session timeout>\n<label>". */
static int node_data(const struct zk_stand *stand, char *data, size_t size)
{
    const char *label = stand->claim->label ? stand->claim->label : stand->conn->host->label;

    return snprintf(data, size, "1 %lld\n%.*s", (long long)stand->conn->trust.timeout_ms,
                    HF_LABEL_MAX, label ? label : "");
}

/* Create and look leave together, and are answered in one round trip. */
void zk_stand_restart(struct zk_stand *stand)
{
    char data[64 + HF_LABEL_MAX + 1], parent[ZK_PATH_MAX];
    struct hfi_conn *conn = stand->conn;
    struct zk_call *make = NULL, *create, *look;
    int len = node_data(stand, data, sizeof data);

    stand->state = ZK_CREATING;
    stand->made = stand->unsure = stand->unsure_gone = stand->head = false;
    zk_watch_clear(stand);
    set_prefix(stand);
    parent_of(stand, parent);
    if (++stand->tries > ZK_TRIES_MAX) {
        hf_error err;

        hfi_error_set(&err, HF_UNAVAILABLE, 0, "the parents of its node vanish again and again");
        zk_stand_end(stand, HF_UNAVAILABLE, &err);
        return;
    }
    if (stand->no_parent) {
        if (stand->tries > 2)
            zk_make_parents(conn, parent);
        make = zk_call_new(conn, parent_made, stand);
        if (make)
            zk_send_create(make, parent, "", 0, ZOO_CONTAINER);
    }
    stand->no_parent = false;
    create = zk_call_new(conn, created, stand);
    look = create ? zk_call_new(conn, zk_looked, stand) : NULL;
    if (!create) {
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
        return;
    }
    stand->creating = true;
    zk_send_create(create, stand->path, data, len, ZOO_EPHEMERAL_SEQUENTIAL);
    if (look)
        zk_send_children(look, parent, 0);
    else
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
}

/* The acquire is to end with this, unless something else ended it before. */
static void stop(struct zk_stand *stand, hf_status status, const hf_error *err)
{
    if (stand->stop != HF_OK)
        return;
    stand->stop = status;
    stand->error.text[0] = 0;
    if (err)
        stand->error = *err;
}

static void refused(struct zk_stand *stand, int rc, const char *what)
{
    hf_error err;

    stop(stand, zk_refusal(rc, what, &err), &err);
}

static void parent_made(struct zk_call *call, const struct zk_reply *reply)
{
    /* NODEEXISTS: somebody else made it. NONODE: the create behind us says so too. */
    if (zk_is_reply(reply->rc) && reply->rc != ZOK && reply->rc != ZNODEEXISTS &&
        reply->rc != ZNONODE)
        refused(call->stand, reply->rc, "making the lock's node");
}

static void created(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;

    stand->creating = false;
    if (!zk_is_reply(reply->rc)) {
        stand->unsure = true;
    } else if (reply->rc == ZNONODE) {
        stand->no_parent = true;
    } else if (reply->rc != ZOK) {
        refused(stand, reply->rc, "making our node");
    } else {
        stand->made = true;
        stand->czxid = (uint64_t)reply->stat->czxid;
        snprintf(stand->path, stand->parent_len + 1 + ZK_NODE_MAX, "%s", reply->text);
        if (stand->czxid >= HFI_TOKEN_LIMIT) {
            hf_error err;

            hfi_error_set(&err, HF_FULL, 0, "the server's transaction numbers have reached 2^53");
            stop(stand, HF_FULL, &err);
        }
    }
    if (stand->state == ZK_LEAVING)
        zk_stand_drop(stand); /* nobody wants it any more */
}

/* ---- after a lost connection ---------------------------------------------------------------- */

/* Out of memory: go on in a moment. */
static void again(struct zk_stand *stand)
{
    stand->again_ms = hfi_now_ms() + ZK_AGAIN_MS;
    if (stand->again_ms < stand->conn->due_ms)
        stand->conn->due_ms = stand->again_ms;
}

/* Is there a node of ours? */
static void find(struct zk_stand *stand)
{
    struct zk_call *sync = zk_call_new(stand->conn, ignored, NULL), *look = NULL;
    char parent[ZK_PATH_MAX];

    if (stand->state != ZK_LEAVING)
        stand->state = ZK_FINDING;
    if (sync)
        look = zk_call_new(stand->conn, found, stand);
    if (!look) {
        hfi_free(sync);
        again(stand);
        return;
    }
    parent_of(stand, parent);
    zk_send_sync(sync, parent);
    zk_send_children(look, parent, 0);
}

static void not_there(struct zk_stand *stand)
{
    stand->unsure = false;
    if (stand->state == ZK_LEAVING)
        zk_stand_drop(stand);
    else if (stand->state == ZK_FINDING)
        zk_stand_restart(stand);
}

static void found(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;
    struct hfi_conn *conn = call->conn;
    struct zk_call *next;
    size_t count = 0, i = 0;

    if (!zk_is_reply(reply->rc) || stand->dead || !stand->unsure)
        return;
    if (reply->rc == ZNONODE) {
        not_there(stand);
        return;
    }
    if (reply->rc != ZOK || !zk_members(conn, reply->list, &count)) {
        again(stand);
        return;
    }
    while (i < count && memcmp(conn->members[i].owner, stand->claim->owner, HFI_OWNER_LEN) != 0)
        i++;
    if (i == count) {
        not_there(stand);
        return;
    }
    snprintf(stand->path + stand->parent_len, 1 + ZK_NODE_MAX, "/%s", conn->members[i].node);
    stand->unsure = false;
    stand->made = true;
    if (stand->state == ZK_LEAVING) {
        zk_stand_drop(stand);
        return;
    }
    next = zk_call_new(conn, found_stat, stand);
    if (next)
        zk_send_exists(next, stand->path, 0);
    else
        zk_stand_end(stand, HF_NO_MEMORY, NULL);
}

static void found_stat(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;

    if (!zk_is_reply(reply->rc) || stand->state != ZK_FINDING)
        return;
    if (reply->rc != ZOK) {
        zk_stand_restart(stand);
        return;
    }
    stand->czxid = (uint64_t)reply->stat->czxid;
    zk_look(stand, false);
}

void zk_stand_resume(struct zk_stand *stand)
{
    if (stand->op && stand->stop != HF_OK)
        stand->state = ZK_LEAVING;
    switch (stand->state) {
    case ZK_PARKED:
    case ZK_CREATING:
    case ZK_FINDING:
    case ZK_LOOKING:
    case ZK_WATCHING:
        if (stand->made && !stand->czxid)
            stand->unsure = true; /* found, but not yet asked for its number */
        if (stand->unsure)
            find(stand);
        else if (stand->made)
            zk_look(stand, stand->head);
        else
            zk_stand_restart(stand);
        return;
    case ZK_CONFIRMING:
        zk_granted(stand);
        return;
    case ZK_HELD:
        if (stand->tells)
            zk_tell(stand);
        return;
    case ZK_LEAVING:
        zk_stand_drop(stand);
        return;
    case ZK_GONE:
        return;
    }
}

void zk_stand_expire(struct zk_stand *stand)
{
    zk_watch_clear(stand);
    stand->made = stand->unsure = stand->unsure_gone = stand->accepted = false;
    stand->mismatched = stand->no_parent = stand->armed = stand->tells = false;
    stand->czxid = 0;
    stand->tries = 0;
    switch (stand->state) {
    case ZK_HELD:
        zk_lost(stand->conn, stand->claim, "the session with ZooKeeper has expired");
        stand->state = ZK_GONE;
        stand->ended = HF_LOST;
        return;
    case ZK_LEAVING:
        zk_stand_drop(stand);
        return;
    case ZK_GONE:
        return;
    default:
        stand->state = ZK_PARKED; /* in the queue of the new session, at its end */
    }
}

/* ---- ending --------------------------------------------------------------------------------- */

void zk_stand_end(struct zk_stand *stand, hf_status status, const hf_error *err)
{
    stop(stand, status, err);
    zk_stand_drop(stand);
}

/* Its node is certainly not there any more. Tell whoever waits for that. */
static void gone(struct zk_stand *stand, hf_status how)
{
    struct hfi_conn *conn = stand->conn;

    stand->state = ZK_GONE;
    stand->ended = stand->lapsed ? HF_LOST : how;
    stand->made = stand->unsure = false;
    if (stand->op) {
        zk_finish(conn, stand->op, stand->stop != HF_OK ? stand->stop : HF_CANCELLED,
                  stand->error.text[0] ? &stand->error : NULL);
        stand->op = NULL;
    } else if (stand->release) {
        zk_finish(conn, stand->release, stand->ended, NULL);
        stand->release = NULL;
    } else {
        return; /* somebody will release it, and be told */
    }
    zk_stand_free(stand);
}

void zk_stand_drop(struct zk_stand *stand)
{
    struct zk_call *call;

    zk_watch_clear(stand);
    stand->state = ZK_LEAVING;
    if (stand->creating)
        return; /* what there is to delete is known when it is answered */
    if (!stand->made && !stand->unsure) {
        gone(stand, stand->unsure_gone ? HF_OK : HF_LOST);
        return;
    }
    if (!stand->conn->connected)
        return; /* when it is again */
    if (!stand->made) {
        find(stand);
        return;
    }
    call = zk_call_new(stand->conn, deleted, stand);
    if (call)
        zk_send_delete(call, stand->path);
    else
        again(stand);
}

static void deleted(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_stand *stand = call->stand;

    if (stand->state != ZK_LEAVING)
        return;
    if (!zk_is_reply(reply->rc)) {
        stand->unsure_gone = true;
        return;
    }
    if (reply->rc == ZOK || reply->rc == ZNONODE) {
        gone(stand, reply->rc == ZOK || stand->unsure_gone ? HF_OK : HF_LOST);
        return;
    }
    if (stand->release) {
        hf_error err;

        zk_finish(call->conn, stand->release, zk_refusal(reply->rc, "deleting our node", &err),
                  &err);
        stand->release = NULL;
    }
}

void zk_stand_free(struct zk_stand *stand)
{
    struct hfi_conn *conn = stand->conn;

    zk_watch_clear(stand);
    if (stand->prev)
        stand->prev->next = stand->next;
    else
        conn->stands = stand->next;
    if (stand->next)
        stand->next->prev = stand->prev;
    if (stand->claim)
        stand->claim->engine[ZK_CLAIM_STAND] = NULL;
    stand->claim = NULL;
    stand->dead = true;
    if (stand->calls == 0)
        hfi_free(stand);
}

void zk_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    struct zk_stand *stand = op->engine[ZK_OP_STAND];

    if (!stand || stand->op != op || stand->stop != HF_OK)
        return;
    stop(stand, status, NULL);
    stand->due_ms = hfi_now_ms() + ZK_STOP_MS;
    if (stand->due_ms < conn->due_ms)
        conn->due_ms = stand->due_ms;
    zk_stand_drop(stand);
}

/* ---- watches -------------------------------------------------------------------------------- */

uint64_t zk_watch_set(struct zk_stand *stand)
{
    struct hfi_conn *conn = stand->conn;
    struct zk_stand **at;

    zk_watch_clear(stand);
    stand->watch_id = ++conn->last_watch;
    at = &conn->watches[stand->watch_id % ZK_BUCKETS];
    stand->next_watch = *at;
    *at = stand;
    return stand->watch_id;
}

void zk_watch_clear(struct zk_stand *stand)
{
    struct zk_stand **at = &stand->conn->watches[stand->watch_id % ZK_BUCKETS];

    if (!stand->watch_id)
        return;
    while (*at != stand)
        at = &(*at)->next_watch;
    *at = stand->next_watch;
    stand->watch_id = 0;
}
