/* SPDX-License-Identifier: MIT */
/*
 * Cells: bytes and a version, read and compare-and-swap. With the lock.
 *
 * A cell's version is the number of the transaction that wrote it last (mzxid): it only grows, even
 * if the cell is deleted and made again. The server swaps by the node's own version, which starts
 * again with each node; so each cell has a child, its mark, with a random name; the bytes of the
 * cell begin with that name. Swapping is: read, compare, then in one transaction check that the
 * mark is there and write if the node's version is still the one read. A cell that was deleted and
 * made again has another mark.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

/* One swap under way. */
struct swap {
    struct hfi_op *op;
    char path[ZK_PATH_MAX];
    char mark_path[ZK_PATH_MAX + ZK_MARK_LEN + 1];
    char mark[ZK_MARK_LEN + 1];
    char *data; /* mark and bytes */
    unsigned tries;
    struct zk_call *reader; /* allocated beforehand: after a cell is made, its version must be
                             * read */
    struct Stat stat;
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
};

static zk_answer_fn cell_read, swap_read, swapped, made_read;
static void swap_begin(struct zk_store *store, struct swap *swap);

bool zk_is_cell(const struct zk_reply *reply)
{
    return reply->rc == ZOK && reply->text && reply->len >= ZK_MARK_LEN;
}

hf_status zk_not_a_cell(const struct zk_reply *reply, hf_error *ret_err)
{
    return reply->rc == ZOK ? hfi_error_set(ret_err, HF_CORRUPT, 0, "the node is not a cell")
                            : zk_refusal(reply->rc, "reading the cell", ret_err);
}

static void finish_odd(struct zk_store *store, struct hfi_op *op, const struct zk_reply *reply)
{
    hf_error err;
    hf_status status = zk_not_a_cell(reply, &err);

    zk_finish(store, op, status, &err);
}

/* ---- read ------------------------------------------------------------------------------------ */

void zk_cell_read(struct zk_store *store, struct hfi_op *op)
{
    struct zk_call *call = zk_call_new(store, cell_read, NULL);
    char path[ZK_PATH_MAX];

    if (!call) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = op;
    zk_parent_path(store, "cells", &op->u.cell.name, path);
    zk_send_get(call, path, 0);
}

static void cell_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct hfi_op *op = call->data;
    size_t len;

    if (reply->rc == ZNONODE) {
        zk_finish(call->store, op, HF_NOT_FOUND, NULL);
        return;
    }
    if (!zk_is_reply(reply->rc) && reply->rc != ZCLOSING) {
        zk_park(call->store, op);
        return;
    }
    if (!zk_is_cell(reply)) {
        finish_odd(call->store, op, reply);
        return;
    }
    len = (size_t)reply->len - ZK_MARK_LEN;
    op->u.cell.ret_bytes = hfi_malloc(len ? len : 1);
    if (!op->u.cell.ret_bytes) {
        zk_finish(call->store, op, HF_NO_MEMORY, NULL);
        return;
    }
    memcpy(op->u.cell.ret_bytes, reply->text + ZK_MARK_LEN, len);
    op->u.cell.ret_len = len;
    op->u.cell.ret_version = (uint64_t)reply->stat->mzxid;
    op->u.cell.ret_ttl_ms = -1;
    zk_finish(call->store, op, HF_OK, NULL);
}

/* ---- swap ------------------------------------------------------------------------------------ */

static void swap_end(struct zk_store *store, struct swap *swap, hf_status status,
                     const hf_error *err)
{
    zk_finish(store, swap->op, status, err);
    hfi_free(swap->reader);
    hfi_free(swap->data);
    hfi_free(swap);
}

void zk_cell_swap(struct zk_store *store, struct hfi_op *op)
{
    struct swap *swap = hfi_calloc(1, sizeof *swap);

    if (!swap) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    swap->op = op;
    swap->data = hfi_malloc(ZK_MARK_LEN + op->u.cell.len + 1);
    if (!swap->data) {
        swap_end(store, swap, HF_NO_MEMORY, NULL);
        return;
    }
    if (op->u.cell.len > 0)
        memcpy(swap->data + ZK_MARK_LEN, op->u.cell.bytes, op->u.cell.len);
    zk_parent_path(store, "cells", &op->u.cell.name, swap->path);
    swap_begin(store, swap);
}

static void swap_begin(struct zk_store *store, struct swap *swap)
{
    struct zk_call *call = zk_call_new(store, swap_read, NULL);

    if (!call) {
        swap_end(store, swap, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = swap;
    zk_send_get(call, swap->path, 0);
}

static void set_mark(struct swap *swap, const char *mark)
{
    memcpy(swap->mark, mark, ZK_MARK_LEN);
    memcpy(swap->data, mark, ZK_MARK_LEN);
    snprintf(swap->mark_path, sizeof swap->mark_path, "%s/%s", swap->path, swap->mark);
}

static void send_swap(struct zk_store *store, struct swap *swap)
{
    struct zk_call *call = zk_call_new(store, swapped, NULL);

    if (!call) {
        swap_end(store, swap, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = swap;
    zk_send_multi(call, swap->ops, 2, swap->results);
}

static void send_create(struct zk_store *store, struct swap *swap)
{
    unsigned char bytes[ZK_MARK_LEN / 2];
    char mark[ZK_MARK_LEN + 1];

    if (!swap->reader)
        swap->reader = zk_call_new(store, made_read, NULL);
    if (!swap->reader) {
        swap_end(store, swap, HF_NO_MEMORY, NULL);
        return;
    }
    hfi_random_bytes(bytes, sizeof bytes);
    hfi_hex(bytes, sizeof bytes, mark);
    set_mark(swap, mark);
    zoo_create_op_init(&swap->ops[0], swap->path, swap->data,
                       (int)(ZK_MARK_LEN + swap->op->u.cell.len), &store->acl, ZOO_PERSISTENT, NULL,
                       0);
    zoo_create_op_init(&swap->ops[1], swap->mark_path, "", 0, &store->acl, ZOO_PERSISTENT, NULL, 0);
    send_swap(store, swap);
}

static void swap_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct swap *swap = call->data;
    struct hfi_op *op = swap->op;
    uint64_t version = reply->rc == ZOK ? (uint64_t)reply->stat->mzxid : 0;
    hf_error err;

    if (reply->rc != ZNONODE && !zk_is_cell(reply)) {
        if (!zk_is_reply(reply->rc) && reply->rc != ZCLOSING)
            zk_park(call->store, op);
        else
            finish_odd(call->store, op, reply);
        hfi_free(swap->reader);
        hfi_free(swap->data);
        hfi_free(swap);
        return;
    }
    if (version != op->u.cell.version) {
        op->u.cell.ret_version = version;
        swap_end(call->store, swap, HF_BUSY, NULL);
        return;
    }
    if (version == 0 && !op->u.cell.bytes) {
        swap_end(call->store, swap, HF_OK, NULL); /* there is no cell */
        return;
    }
    if (version == 0) {
        send_create(call->store, swap);
        return;
    }
    if (reply->stat->version >= ZK_NODE_VERSION_MAX && op->u.cell.bytes) {
        hfi_error_set(&err, HF_FULL, 0, "the cell was written too often: delete it");
        swap_end(call->store, swap, HF_FULL, &err);
        return;
    }
    set_mark(swap, reply->text);
    if (op->u.cell.bytes) {
        zoo_check_op_init(&swap->ops[0], swap->mark_path, -1);
        zoo_set_op_init(&swap->ops[1], swap->path, swap->data, (int)(ZK_MARK_LEN + op->u.cell.len),
                        reply->stat->version, &swap->stat);
    } else {
        zoo_delete_op_init(&swap->ops[0], swap->mark_path, -1);
        zoo_delete_op_init(&swap->ops[1], swap->path, reply->stat->version);
    }
    send_swap(call->store, swap);
}

/* A cell was made. Its version is the number of that transaction, which the answer does not
 * contain. */
static void read_made(struct swap *swap)
{
    struct zk_call *call = swap->reader;

    swap->reader = NULL;
    call->data = swap;
    zk_send_get(call, swap->path, 0);
}

static void made_read(struct zk_call *call, const struct zk_reply *reply)
{
    struct swap *swap = call->data;
    bool ours = zk_is_cell(reply) && memcmp(reply->text, swap->mark, ZK_MARK_LEN) == 0;

    /* Overwritten meanwhile: it was still made by that transaction. Deleted meanwhile: any version
     * that no cell has now is as good as the one that ours had. */
    if (zk_is_reply(reply->rc)) {
        swap->op->u.cell.ret_version = ours ? (uint64_t)reply->stat->czxid : 1;
        swap_end(call->store, swap, HF_OK, NULL);
    } else {
        swap_end(call->store, swap, HF_UNKNOWN, NULL);
    }
}

static void swapped(struct zk_call *call, const struct zk_reply *reply)
{
    struct swap *swap = call->data;
    struct zk_store *store = call->store;
    hf_error err;

    if (!zk_is_reply(reply->rc)) {
        swap_end(store, swap, HF_UNKNOWN, NULL);
    } else if (reply->rc == ZOK && swap->op->u.cell.version == 0) {
        read_made(swap);
    } else if (reply->rc == ZOK) {
        swap->op->u.cell.ret_version =
            swap->op->u.cell.bytes ? (uint64_t)swap->stat.mzxid : swap->op->u.cell.version;
        swap_end(store, swap, HF_OK, NULL);
    } else if (++swap->tries > ZK_TRIES_MAX || reply->rc == ZNOAUTH) {
        swap_end(store, swap, zk_refusal(reply->rc, "writing the cell", &err), &err);
    } else {
        /* Another client was faster: read again. Or the parent of the cells does not exist yet. */
        if (reply->rc == ZNONODE && swap->op->u.cell.version == 0)
            zk_make_parents(store, swap->path);
        swap_begin(store, swap);
    }
}
