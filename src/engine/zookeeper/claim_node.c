/* SPDX-License-Identifier: MIT */
/*
 * A claim's node: made, found again after a lost connection, deleted. With the lock; claim_node.h draws the
 * states. Every function here may be called at any time, whatever is under way: an answer that is
 * out of date is recognized by the state of the claim node, and ignored.
 *
 * A create whose answer was lost: the node is searched by owner, which is part of its name, after a
 * sync. The sync waits until everything that the leader had before has arrived at the server which
 * we ask. A node that is not found then is made again. What is still under way on the old connection is refused
 * by the leader if it comes from another server than the session's, and otherwise may make a second node: twin.c.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/handover.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static zk_answer_fn node_created, parent_made, node_found, node_found_stat, node_deleted;

#define BIT(state) (1u << (state))

/* Allowed transitions: from the state of a row to these. */
static const unsigned transitions[] = {
    [ZK_PARKED] = BIT(ZK_PARKED) | BIT(ZK_CREATING) | BIT(ZK_LEAVING) | BIT(ZK_FREED),
    [ZK_CREATING] = BIT(ZK_PARKED) | BIT(ZK_CREATING) | BIT(ZK_FINDING) | BIT(ZK_LOOKING) |
                    BIT(ZK_WATCHING) | BIT(ZK_CONFIRMING) | BIT(ZK_HELD) | BIT(ZK_LEAVING) |
                    BIT(ZK_FREED),
    [ZK_FINDING] = BIT(ZK_PARKED) | BIT(ZK_CREATING) | BIT(ZK_FINDING) | BIT(ZK_LOOKING) |
                   BIT(ZK_LEAVING) | BIT(ZK_FREED),
    [ZK_LOOKING] = BIT(ZK_PARKED) | BIT(ZK_CREATING) | BIT(ZK_LOOKING) | BIT(ZK_WATCHING) |
                   BIT(ZK_CONFIRMING) | BIT(ZK_HELD) | BIT(ZK_LEAVING) | BIT(ZK_FREED),
    [ZK_WATCHING] = BIT(ZK_PARKED) | BIT(ZK_LOOKING) | BIT(ZK_CONFIRMING) | BIT(ZK_HELD) |
                    BIT(ZK_LEAVING) | BIT(ZK_FREED),
    [ZK_CONFIRMING] =
        BIT(ZK_PARKED) | BIT(ZK_CONFIRMING) | BIT(ZK_HELD) | BIT(ZK_LEAVING) | BIT(ZK_FREED),
    [ZK_HELD] = BIT(ZK_LEAVING) | BIT(ZK_GONE) | BIT(ZK_FREED),
    [ZK_LEAVING] = BIT(ZK_LEAVING) | BIT(ZK_GONE) | BIT(ZK_FREED),
    [ZK_GONE] = BIT(ZK_FREED),
    [ZK_FREED] = 0,
};

void zk_claim_node_enter(struct zk_claim_node *node, enum zk_state state)
{
    /* Answers are taken in some states only; the fuzz target zookeeper_engine asks for them in any order. */
    assert(transitions[node->state] & BIT(state));
    node->state = state;
}

/* ---- paths ------------------------------------------------------------------------------- */

void zk_parent_path(const struct zk_store *store, const char *kind, const struct hfi_name *name,
                    char *ret_path)
{
    char escaped[ZK_NAME_MAX + 1];

    zk_escape(name->bytes, name->len, escaped);
    snprintf(ret_path, ZK_PATH_MAX, "%s/%s/%s", store->conf->root, kind, escaped);
}

/* The parent of its node; `ret_path` has room for ZK_PATH_MAX. */
static const char *parent_of(const struct zk_claim_node *node, char *ret_path)
{
    memcpy(ret_path, node->path, node->parent_len);
    ret_path[node->parent_len] = 0;
    return ret_path;
}

static void set_prefix(struct zk_claim_node *node)
{
    char prefix[ZK_PREFIX_LEN + 1];

    zk_node_prefix(node->claim, prefix);
    snprintf(node->path + node->parent_len, 1 + ZK_NODE_MAX, "/%s", prefix);
}

static void answer_ignored(struct zk_call *call, const struct zk_reply *reply)
{
    (void)call, (void)reply;
}

void zk_make_parents(struct zk_store *store, const char *path)
{
    char part[ZK_PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        struct zk_call *call = zk_call_new(store, answer_ignored, NULL);

        if (!call)
            return; /* the request that needs the parent fails, and is tried again */
        *slash = 0;
        zk_send_create(call, part, "", 0, ZOO_CONTAINER);
        *slash = '/';
    }
}

/* ---- beginning ------------------------------------------------------------------------------ */

void zk_acquire(void *self, struct hfi_op *op)
{
    struct zk_store *store = self;
    char parent[ZK_PATH_MAX];
    struct zk_claim_node *node;
    size_t len;

    if (store->denied) {
        zk_finish(store, op, HF_DENIED, &store->why);
        return;
    }
    zk_parent_path(store, "locks", &op->claim->name, parent);
    len = strlen(parent);
    node = hfi_calloc(1, sizeof *node + len + 1 + ZK_NODE_MAX);
    if (!node) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    node->store = store;
    node->claim = op->claim;
    node->op = op;
    node->due_ms = node->end_ms = node->again_ms = node->twin_ms = HFI_NEVER;
    node->parent_len = len;
    node->watcher.node = node->line.watcher.node = node;
    memcpy(node->path, parent, len);
    set_prefix(node);
    hfi_list_append(&store->claim_nodes, &node->listed);
    zk_op(op)->node = node;
    zk_claim(op->claim)->node = node;

    /* The store was not driven for so long that the session may have ended: reconnecting tells. */
    if (store->connected && hfi_grant_is_stale(zk_validity_left(&store->validity, hfi_now_ms()),
                                               store->validity.timeout_ms))
        zk_session_drop(store);
    if (store->connected)
        zk_claim_node_restart(node);
}

int zk_claim_node_data(const struct zk_claim_node *node, char ret_bytes[ZK_DATA_MAX])
{
    const char *label = node->claim->label ? node->claim->label : node->store->reactor.host->label;
    struct zk_node_data data = { .timeout_ms = node->store->validity.timeout_ms,
                                 .tries = node->op && !node->op->may_wait,
                                 .watched = (node->claim->flags & HFI_CLAIM_WATCHED) != 0 };

    snprintf(data.label, sizeof data.label, "%s", label ? label : "");
    return zk_node_data_write(&data, ret_bytes);
}

/* Create and the list of children are sent together, and are answered in one round trip. */
void zk_claim_node_restart(struct zk_claim_node *node)
{
    char data[ZK_DATA_MAX], parent[ZK_PATH_MAX];
    struct zk_store *store = node->store;
    struct zk_call *make = NULL, *create, *look;
    int len = zk_claim_node_data(node, data);
    bool no_parent = node->presence == ZK_NO_PARENT;

    zk_claim_node_enter(node, ZK_CREATING);
    node->presence = ZK_NO_NODE;
    node->deleted = false;
    node->czxid = 0; /* that of a node before is not the token of the next one */
    zk_watch_clear(&node->watcher);
    set_prefix(node);
    parent_of(node, parent);
    if (++node->tries > ZK_TRIES_MAX) {
        hf_error err;

        hfi_error_set(&err, HF_UNAVAILABLE, 0, "the parents of its node vanish again and again");
        zk_claim_node_end(node, HF_UNAVAILABLE, &err);
        return;
    }
    if (no_parent) {
        if (node->tries > 2)
            zk_make_parents(store, parent);
        make = zk_call_new(store, parent_made, node);
        if (make)
            zk_send_create(make, parent, "", 0, ZOO_CONTAINER);
    }
    create = zk_call_new(store, node_created, node);
    look = create ? zk_call_new(store, zk_looked, node) : NULL;
    if (!create) {
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
        return;
    }
    node->presence = ZK_NODE_CREATING;
    zk_send_create(create, node->path, data, len, ZOO_EPHEMERAL_SEQUENTIAL);
    if (look)
        zk_send_children(look, parent, 0);
    else
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
}

static void end_by(struct zk_claim_node *node, int64_t due_ms)
{
    if (due_ms < node->due_ms)
        node->due_ms = due_ms;
    if (due_ms < node->store->due_ms)
        node->store->due_ms = due_ms;
}

/* End the acquire with this status, unless it has one already: when its node is deleted. The connection may be lost before that, for ever: so
 * it has a time limit, too. */
static void stop_acquire(struct zk_claim_node *node, hf_status status, const hf_error *err)
{
    int64_t due_ms = hfi_now_ms() + ZK_STOP_MS;

    if (node->stop != HF_OK)
        return;
    node->stop = status;
    node->error.text[0] = 0;
    if (err)
        node->error = *err;
    if (node->op && !node->op->may_wait && node->op->deadline_ms > due_ms)
        due_ms = node->op->deadline_ms;
    end_by(node, due_ms);
}

/* The number of the transaction that made the node: its token. */
static void take_number(struct zk_claim_node *node, const struct Stat *stat)
{
    hf_error err;

    node->czxid = (uint64_t)stat->czxid;
    if (node->czxid == 0) {
        hfi_error_set(&err, HF_CORRUPT, 0, "the server says that transaction 0 made our node");
        stop_acquire(node, HF_CORRUPT, &err);
    } else if (node->czxid >= HFI_TOKEN_LIMIT) {
        hfi_error_set(&err, HF_FULL, 0, "the server's transaction numbers have reached 2^53");
        stop_acquire(node, HF_FULL, &err);
    }
}

static void stop_refused(struct zk_claim_node *node, int rc, const char *what)
{
    hf_error err;

    stop_acquire(node, zk_refusal(rc, what, &err), &err);
}

static void parent_made(struct zk_call *call, const struct zk_reply *reply)
{
    /* NODEEXISTS: another client made it. NONODE: the create that follows says so too. */
    if (zk_is_reply(reply->rc) && reply->rc != ZOK && reply->rc != ZNODEEXISTS &&
        reply->rc != ZNONODE)
        stop_refused(call->node, reply->rc, "making the lock's node");
}

static void node_created(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (!zk_is_reply(reply->rc)) {
        node->presence = ZK_NODE_UNSURE;
        zk_twin_expect(node);
    } else if (reply->rc == ZNONODE) {
        node->presence = ZK_NO_PARENT;
    } else if (reply->rc != ZOK) {
        node->presence = ZK_NO_NODE;
        stop_refused(node, reply->rc, "making our node");
    } else {
        node->presence = ZK_NODE_MADE;
        snprintf(node->path, node->parent_len + 1 + ZK_NODE_MAX, "%s", reply->text);
        take_number(node, reply->stat);
    }
    if (node->state == ZK_LEAVING)
        zk_claim_node_drop(node); /* the acquire was cancelled */
}

/* ---- after a lost connection ---------------------------------------------------------------- */

void zk_claim_node_later(struct zk_claim_node *node)
{
    node->again_ms = hfi_now_ms() + ZK_AGAIN_MS;
    if (node->again_ms < node->store->due_ms)
        node->store->due_ms = node->again_ms;
}

/* Is there a node of ours? */
static void find_node(struct zk_claim_node *node)
{
    struct zk_call *sync = zk_call_new(node->store, answer_ignored, NULL), *look = NULL;
    char parent[ZK_PATH_MAX];

    if (node->state != ZK_LEAVING)
        zk_claim_node_enter(node, ZK_FINDING);
    if (sync)
        look = zk_call_new(node->store, node_found, node);
    if (!look) {
        hfi_free(sync);
        zk_claim_node_later(node);
        return;
    }
    parent_of(node, parent);
    zk_send_sync(sync, parent);
    zk_send_children(look, parent, 0);
}

static void node_not_found(struct zk_claim_node *node)
{
    node->presence = ZK_NO_NODE;
    if (node->state == ZK_LEAVING)
        zk_claim_node_drop(node);
    else if (node->state == ZK_FINDING)
        zk_claim_node_restart(node);
}

static void node_found(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;
    struct zk_store *store = call->store;
    struct zk_call *next;
    size_t count = 0, i = 0;

    if (!zk_is_reply(reply->rc) || node->state == ZK_FREED || node->presence != ZK_NODE_UNSURE)
        return;
    if (reply->rc == ZNONODE) {
        node_not_found(node);
        return;
    }
    if (reply->rc != ZOK || !zk_members(store, reply->list, &count)) {
        zk_claim_node_later(node);
        return;
    }
    while (i < count && memcmp(store->members[i].owner, node->claim->owner, HFI_OWNER_LEN) != 0)
        i++;
    if (i == count) {
        node_not_found(node);
        return;
    }
    snprintf(node->path + node->parent_len, 1 + ZK_NODE_MAX, "/%s", store->members[i].node);
    node->presence = ZK_NODE_MADE;
    if (node->state == ZK_LEAVING) {
        zk_claim_node_drop(node);
        return;
    }
    next = zk_call_new(store, node_found_stat, node);
    if (next)
        zk_send_exists(next, node->path, 0);
    else
        zk_claim_node_end(node, HF_NO_MEMORY, NULL);
}

static void node_found_stat(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (!zk_is_reply(reply->rc) || node->state != ZK_FINDING)
        return;
    if (reply->rc != ZOK) {
        zk_claim_node_restart(node);
        return;
    }
    take_number(node, reply->stat);
    if (node->stop != HF_OK)
        zk_claim_node_drop(node);
    else
        zk_look(node, false);
}

void zk_claim_node_resume(struct zk_claim_node *node)
{
    if (node->op && node->stop != HF_OK)
        zk_claim_node_enter(node, ZK_LEAVING);
    switch (node->state) {
    case ZK_PARKED:
    case ZK_CREATING:
    case ZK_FINDING:
    case ZK_LOOKING:
    case ZK_WATCHING:
        if (node->presence == ZK_NODE_CREATING)
            return; /* its answer comes */
        if (node->presence == ZK_NODE_MADE && !node->czxid)
            node->presence = ZK_NODE_UNSURE; /* found, but its transaction number is not read yet */
        if (node->presence == ZK_NODE_UNSURE)
            find_node(node);
        else if (node->presence == ZK_NODE_MADE)
            zk_look(node, node->watch == ZK_WATCH_LIST);
        else
            zk_claim_node_restart(node);
        return;
    case ZK_CONFIRMING:
        zk_granted(node);
        return;
    case ZK_HELD:
        if (node->tells)
            zk_tell(node);
        zk_wanted_look(node);
        return;
    case ZK_LEAVING:
        zk_claim_node_drop(node);
        return;
    case ZK_GONE:
    case ZK_FREED:
        return;
    }
}

void zk_claim_node_expire(struct zk_claim_node *node)
{
    zk_watch_clear(&node->watcher);
    zk_wanted_end(node);
    node->presence = ZK_NO_NODE;
    node->kind = ZK_KIND_UNCHECKED;
    node->deleted = node->tells = false;
    node->czxid = 0;
    node->tries = 0;
    switch (node->state) {
    case ZK_HELD:
        hfi_reactor_lost(&node->store->reactor, node->claim,
                         "the session with ZooKeeper has expired");
        zk_claim_node_gone(node, HF_LOST);
        return;
    case ZK_LEAVING:
        zk_claim_node_drop(node);
        return;
    case ZK_GONE:
    case ZK_FREED:
        return;
    default:
        zk_claim_node_enter(node, ZK_PARKED); /* it joins the queue again, at the end, in the new
                                               * session */
    }
}

/* ---- ending --------------------------------------------------------------------------------- */

void zk_claim_node_end(struct zk_claim_node *node, hf_status status, const hf_error *err)
{
    stop_acquire(node, status, err);
    zk_claim_node_drop(node);
}

void zk_claim_node_gone(struct zk_claim_node *node, hf_status how)
{
    struct zk_store *store = node->store;

    zk_claim_node_enter(node, ZK_GONE);
    node->ended = node->lapsed ? HF_LOST : how;
    node->presence = ZK_NO_NODE;
    if (node->op) {
        zk_finish(store, node->op, node->stop != HF_OK ? node->stop : HF_CANCELLED,
                  node->error.text[0] ? &node->error : NULL);
        node->op = NULL;
    } else if (node->release) {
        zk_finish(store, node->release, node->ended, NULL);
        node->release = NULL;
    } else {
        return; /* a release will come, and gets `ended` */
    }
    zk_claim_node_free(node);
}

void zk_claim_node_drop(struct zk_claim_node *node)
{
    struct zk_call *call;

    zk_watch_clear(&node->watcher);
    zk_wanted_end(node);
    zk_claim_node_enter(node, ZK_LEAVING);
    if (node->presence == ZK_NODE_CREATING)
        return; /* the answer will say whether there is a node to delete */
    if (node->presence == ZK_NO_NODE || node->presence == ZK_NO_PARENT) {
        zk_claim_node_gone(node, node->deleted ? HF_OK : HF_LOST);
        return;
    }
    if (!node->store->connected)
        return; /* deleted when it is connected again */
    if (node->presence == ZK_NODE_UNSURE) {
        find_node(node);
        return;
    }
    call = zk_call_new(node->store, node_deleted, node);
    if (call)
        zk_send_delete(call, node->path);
    else
        zk_claim_node_later(node);
}

static void node_deleted(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_claim_node *node = call->node;

    if (node->state != ZK_LEAVING)
        return;
    if (!zk_is_reply(reply->rc)) {
        node->deleted = true;
        return;
    }
    if (reply->rc == ZOK || reply->rc == ZNONODE) {
        zk_claim_node_gone(node, reply->rc == ZOK || node->deleted ? HF_OK : HF_LOST);
        return;
    }
    if (node->release) {
        hf_error err;

        zk_finish(call->store, node->release, zk_refusal(reply->rc, "deleting our node", &err),
                  &err);
        node->release = NULL;
    }
}

void zk_claim_node_free(struct zk_claim_node *node)
{
    zk_watch_clear(&node->watcher);
    zk_wanted_end(node);
    hfi_list_remove(&node->listed);
    zk_claim(node->claim)->node = NULL;
    node->claim = NULL;
    zk_claim_node_enter(node, ZK_FREED);
    if (node->doubted)
        zk_twin_keep(node);
    else if (node->calls == 0)
        hfi_free(node);
}

void zk_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct zk_store *store = self;
    struct zk_claim_node *node = zk_op(op)->node;

    bool stops;

    if (!node || node->op != op)
        return;
    stops = node->stop == HF_OK; /* else it ends already */
    stop_acquire(node, status, status == HF_DENIED ? &store->why : NULL);
    end_by(node, hfi_now_ms() + ZK_STOP_MS);
    if (stops)
        zk_claim_node_drop(node);
}

/* ---- watches -------------------------------------------------------------------------------- */

uint64_t zk_watch_set(struct zk_watcher *watcher)
{
    struct zk_store *store = watcher->node->store;
    struct zk_watcher **at;

    zk_watch_clear(watcher);
    watcher->id = ++store->last_watch;
    at = &store->watchers[watcher->id % ZK_BUCKETS];
    watcher->next = *at;
    *at = watcher;
    return watcher->id;
}

void zk_watch_clear(struct zk_watcher *watcher)
{
    struct zk_watcher **at = &watcher->node->store->watchers[watcher->id % ZK_BUCKETS];

    if (!watcher->id)
        return;
    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    watcher->id = 0;
}
