/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step: HFI_OP_CELLS_COMMIT, one multi. With the lock.
 *
 * cells.c says what a cell is: a node, and a child with a random name, its mark. All nodes are read first, side by side, which gives
 * their versions (mzxid) and marks. If all are as expected, one multi asserts for each item that nothing has happened since, and does
 * what the item says:
 *
 *   LEAVE, 0    create the node and delete it: a multi has no "is not there"
 *   LEAVE       check the mark, check the node's own version
 *   WRITE, 0    create the node, create the mark, set the bytes: the answer to a set has the number of the transaction
 *   WRITE       check the mark, set the bytes at the node's own version
 *   DELETE      delete the mark, delete the node at its own version
 *
 * If the multi fails, something has changed: read again. All cells that it writes have the same version, that of the transaction.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define ITEM_OPS    3
#define LARGE_BYTES (128 * 1024) /* a commit that a server may refuse by closing the connection */

struct commit;

/* One item under way. */
struct part {
    struct commit *commit;
    struct hfi_commit_item *item;
    char path[ZK_PATH_MAX];
    char mark_path[ZK_PATH_MAX + ZK_MARK_LEN + 1];
    char *data; /* mark and bytes */
    int32_t node_version;
    struct Stat stat;
};

struct commit {
    struct hfi_op *op;
    unsigned tries;
    size_t left;      /* reads that were not answered */
    bool away;        /* one of them found no server */
    hf_status status; /* of one that failed otherwise */
    hf_error why;
    size_t bytes; /* of all that is sent */
    int op_count;
    zoo_op_t ops[ITEM_OPS * HF_CELLS_MAX];
    zoo_op_result_t results[ITEM_OPS * HF_CELLS_MAX];
    size_t count;
    struct part parts[];
};

static void read_parts(struct zk_store *store, struct commit *commit);

static void commit_free(struct commit *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        hfi_free(commit->parts[i].data);
    hfi_free(commit);
}

static void commit_end(struct zk_store *store, struct commit *commit, hf_status status,
                       const hf_error *err)
{
    zk_finish(store, commit->op, status, err);
    commit_free(commit);
}

static bool part_init(struct zk_store *store, struct commit *commit, size_t i)
{
    struct part *part = &commit->parts[i];

    part->commit = commit;
    part->item = &commit->op->u.commit->items[i];
    zk_parent_path(store, "cells", &part->item->name, part->path);
    part->data = hfi_malloc(ZK_MARK_LEN + part->item->len + 1);
    if (!part->data)
        return false;
    if (part->item->len > 0)
        memcpy(part->data + ZK_MARK_LEN, part->item->bytes, part->item->len);
    return true;
}

void zk_cells_commit(struct zk_store *store, struct hfi_op *op)
{
    size_t count = op->u.commit->count;
    struct commit *commit = hfi_calloc(1, sizeof *commit + count * sizeof *commit->parts);

    if (!commit) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    commit->op = op;
    commit->count = count;
    for (size_t i = 0; i < count; i++)
        if (!part_init(store, commit, i)) {
            commit_end(store, commit, HF_NO_MEMORY, NULL);
            return;
        }
    read_parts(store, commit);
}

/* ---- reading ------------------------------------------------------------------------------------- */

static void all_read(struct zk_store *store, struct commit *commit);

static void set_mark(struct part *part, const char *mark)
{
    memcpy(part->data, mark, ZK_MARK_LEN);
    snprintf(part->mark_path, sizeof part->mark_path, "%s/%.*s", part->path, ZK_MARK_LEN, mark);
}

static void part_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct part *part = call->data;
    struct commit *commit = part->commit;

    part->item->ret_version = 0;
    if (zk_is_cell(reply)) {
        part->item->ret_version = (uint64_t)reply->stat->mzxid;
        part->node_version = reply->stat->version;
        set_mark(part, reply->text);
    } else if (!zk_is_reply(reply->rc) && reply->rc != ZCLOSING) {
        commit->away = true;
    } else if (reply->rc != ZNONODE) {
        commit->status = zk_not_a_cell(reply, &commit->why);
    }
    if (--commit->left == 0)
        all_read(call->store, commit);
}

static void read_parts(struct zk_store *store, struct commit *commit)
{
    struct zk_call *calls[HF_CELLS_MAX];

    commit->away = false;
    for (size_t i = 0; i < commit->count; i++) {
        calls[i] = zk_call_new(store, part_read, NULL);
        if (!calls[i]) {
            while (i-- > 0)
                hfi_free(calls[i]);
            commit_end(store, commit, HF_NO_MEMORY, NULL);
            return;
        }
        calls[i]->data = &commit->parts[i];
    }
    commit->left = commit->count;
    for (size_t i = 0, count = commit->count; i < count; i++)
        zk_send_get(calls[i], ((struct part *)calls[i]->data)->path, 0);
}

/* ---- the multi ------------------------------------------------------------------------------------- */

static zoo_op_t *next_op(struct commit *commit, const char *path, size_t len)
{
    commit->bytes += strlen(path) + len;
    return &commit->ops[commit->op_count++];
}

static void add_check(struct commit *commit, const char *path, int version)
{
    zoo_check_op_init(next_op(commit, path, 0), path, version);
}

static void add_create(struct zk_store *store, struct commit *commit, const char *path)
{
    zoo_create_op_init(next_op(commit, path, 0), path, "", 0, &store->acl, ZOO_PERSISTENT, NULL, 0);
}

static void add_delete(struct commit *commit, const char *path, int version)
{
    zoo_delete_op_init(next_op(commit, path, 0), path, version);
}

static void add_set(struct commit *commit, struct part *part, int version)
{
    size_t len = ZK_MARK_LEN + part->item->len;

    zoo_set_op_init(next_op(commit, part->path, len), part->path, part->data, (int)len, version,
                    &part->stat);
}

static void add_new(struct zk_store *store, struct commit *commit, struct part *part)
{
    unsigned char bytes[ZK_MARK_LEN / 2];
    char mark[ZK_MARK_LEN + 1];

    add_create(store, commit, part->path);
    if (part->item->action == HF_CELL_ACTION_LEAVE) {
        add_delete(commit, part->path, -1);
        return;
    }
    hfi_random_bytes(bytes, sizeof bytes);
    hfi_hex(bytes, sizeof bytes, mark);
    set_mark(part, mark);
    add_create(store, commit, part->mark_path);
    add_set(commit, part, 0);
}

static void add_part(struct zk_store *store, struct commit *commit, struct part *part)
{
    if (part->item->version == 0) {
        add_new(store, commit, part);
    } else if (part->item->action == HF_CELL_ACTION_DELETE) {
        add_delete(commit, part->mark_path, -1);
        add_delete(commit, part->path, part->node_version);
    } else {
        add_check(commit, part->mark_path, -1);
        if (part->item->action == HF_CELL_ACTION_WRITE)
            add_set(commit, part, part->node_version);
        else
            add_check(commit, part->path, part->node_version);
    }
}

static void done(struct zk_store *store, struct commit *commit)
{
    for (size_t i = 0; i < commit->count; i++) {
        struct part *part = &commit->parts[i];

        if (part->item->action == HF_CELL_ACTION_WRITE)
            part->item->ret_version = (uint64_t)part->stat.mzxid;
        else if (part->item->action == HF_CELL_ACTION_DELETE)
            part->item->ret_version = 0;
    }
    commit_end(store, commit, HF_OK, NULL);
}

static void committed(struct zk_call *call, const struct zk_reply *reply)
{
    struct commit *commit = call->data;
    struct zk_store *store = call->store;
    hf_error err;

    if (reply->rc == ZOK) {
        done(store, commit);
    } else if (!zk_is_reply(reply->rc)) {
        hfi_error_set(&err, HF_UNKNOWN, reply->rc,
                      "the connection was lost; a commit of %zu bytes may be more than the servers "
                      "take (jute.maxbuffer)",
                      commit->bytes);
        commit_end(store, commit, HF_UNKNOWN, commit->bytes >= LARGE_BYTES ? &err : NULL);
    } else if (++commit->tries > ZK_TRIES_MAX || reply->rc == ZNOAUTH) {
        commit_end(store, commit, zk_refusal(reply->rc, "writing the cells", &err), &err);
    } else {
        /* Another client was faster. Or the parent of the cells does not exist yet. */
        if (reply->rc == ZNONODE)
            zk_make_parents(store, commit->parts[0].path);
        read_parts(store, commit);
    }
}

static bool is_worn(const struct part *part)
{
    return part->item->action == HF_CELL_ACTION_WRITE && part->item->version != 0 &&
           part->node_version >= ZK_NODE_VERSION_MAX;
}

static void all_read(struct zk_store *store, struct commit *commit)
{
    struct zk_call *call;
    hf_error err;

    if (commit->status != HF_OK) {
        commit_end(store, commit, commit->status, &commit->why);
        return;
    }
    if (commit->away) {
        zk_park(store, commit->op); /* nothing was done: it begins again */
        commit_free(commit);
        return;
    }
    if (hfi_commit_changed(commit->op->u.commit) < commit->count) {
        commit_end(store, commit, HF_BUSY, NULL);
        return;
    }
    commit->op_count = 0;
    commit->bytes = 0;
    for (size_t i = 0; i < commit->count; i++) {
        if (is_worn(&commit->parts[i])) {
            hfi_error_set(&err, HF_FULL, 0, "a cell was written too often: delete it");
            commit_end(store, commit, HF_FULL, &err);
            return;
        }
        add_part(store, commit, &commit->parts[i]);
    }
    call = zk_call_new(store, committed, NULL);
    if (!call) {
        commit_end(store, commit, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = commit;
    zk_send_multi(call, commit->ops, commit->op_count, commit->results);
}
