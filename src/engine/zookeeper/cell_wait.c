/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a cell to have another version, by a watch on its node; and the servers' clock. With
 * the lock.
 *
 * The read that returns the version also sets the watch, so no change is missed in between. A watch
 * says only that something happened: the next read tells what. The library sets watches again when
 * it reconnects in the same session. They end with the session; then the wait ends with
 * HF_UNAVAILABLE, and its caller begins again.
 */
#include "engine/zookeeper/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>

struct zk_cell_wait {
    struct zk_cell_wait *next; /* in store->cell_waits, unless it has ended */
    struct hfi_op *op;         /* NULL: it has ended, and a read is still under way */
    uint64_t watch_id;
    bool looking;
    bool again; /* its watch fired during the read */
};

static zk_answer_fn cell_looked, clock_set, clock_made;
static void cell_look(struct zk_store *store, struct zk_cell_wait *wait);

/* ---- waiting ----------------------------------------------------------------------------------- */

static void end_cell_wait(struct zk_store *store, struct zk_cell_wait *wait, hf_status status,
                          const hf_error *err)
{
    struct zk_cell_wait **at = &store->cell_waits;
    struct hfi_op *op = wait->op;

    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    wait->op = NULL;
    if (!wait->looking)
        hfi_free(wait);
    zk_finish(store, op, status, err);
}

void zk_cell_wait(void *self, struct hfi_op *op)
{
    struct zk_store *store = self;
    struct zk_cell_wait *wait;

    if (!store->connected) {
        zk_finish(store, op, HF_UNAVAILABLE, &store->why);
        return;
    }
    wait = hfi_calloc(1, sizeof *wait);
    if (!wait) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->op = op;
    wait->next = store->cell_waits;
    store->cell_waits = wait;
    zk_op(op)->cell_wait = wait;
    cell_look(store, wait);
}

static void cell_look(struct zk_store *store, struct zk_cell_wait *wait)
{
    struct zk_call *call = zk_call_new(store, cell_looked, NULL);
    char path[ZK_PATH_MAX];

    if (!call) {
        end_cell_wait(store, wait, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = wait;
    wait->looking = true;
    wait->again = false;
    wait->watch_id = ++store->last_watch;
    zk_parent_path(store, "cells", &wait->op->u.cell.name, path);
    zk_send_exists(call, path, wait->watch_id);
}

static void cell_looked(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_cell_wait *wait = call->data;
    uint64_t version = reply->rc == ZOK ? (uint64_t)reply->stat->mzxid : 0;
    hf_error err;

    wait->looking = false;
    if (!wait->op) {
        hfi_free(wait);
    } else if (reply->rc != ZOK && reply->rc != ZNONODE) {
        hf_status status = zk_refusal(reply->rc, "reading the cell", &err);

        end_cell_wait(call->store, wait, status, &err);
    } else if (version != wait->op->u.cell.version) {
        wait->op->u.cell.ret_version = version;
        end_cell_wait(call->store, wait, HF_OK, NULL);
    } else if (wait->again) {
        cell_look(call->store, wait);
    }
}

void zk_cell_event(struct zk_store *store, uint64_t watch_id)
{
    struct zk_cell_wait *wait = store->cell_waits;

    while (wait && wait->watch_id != watch_id)
        wait = wait->next;
    if (!wait)
        return; /* the wait has ended */
    if (wait->looking)
        wait->again = true;
    else if (store->connected)
        cell_look(store, wait);
    else
        end_cell_wait(store, wait, HF_UNAVAILABLE, &store->why);
}

void zk_cell_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct zk_store *store = self;
    struct zk_cell_wait *wait = zk_op(op)->cell_wait;

    if (wait)
        end_cell_wait(store, wait, status, NULL);
}

void zk_cells_expire(struct zk_store *store)
{
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the session has expired");
    while (store->cell_waits)
        end_cell_wait(store, store->cell_waits, HF_UNAVAILABLE, &err);
}

/* ---- the clock ---------------------------------------------------------------------------------- */

/*
 * No request returns the time of a server, but the leader stamps every write. So one node is
 * written to, and the answer says when.
 */
static void clock_path(const struct zk_store *store, char ret_path[ZK_PATH_MAX])
{
    snprintf(ret_path, ZK_PATH_MAX, "%s/clock", store->conf->root);
}

static void ask_clock(struct zk_store *store, struct hfi_op *op, size_t tries)
{
    struct zk_call *call = zk_call_new(store, clock_set, NULL);
    char path[ZK_PATH_MAX];

    if (!call) {
        zk_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = op;
    call->index = tries;
    clock_path(store, path);
    zk_send_set(call, path, "", 0);
}

void zk_time(struct zk_store *store, struct hfi_op *op)
{
    ask_clock(store, op, 0);
}

static void clock_told(struct zk_call *call, const struct zk_reply *reply)
{
    struct hfi_op *op = call->data;
    hf_error err;

    if (reply->rc == ZOK &&
        (reply->stat->mtime < 0 || reply->stat->mtime / 1000 >= HFI_TOLD_S_MAX)) {
        hfi_error_set(&err, HF_CORRUPT, 0, "a time that no server has");
        zk_finish(call->store, op, HF_CORRUPT, &err);
    } else if (reply->rc == ZOK) {
        op->u.time.ret_us = reply->stat->mtime * 1000;
        zk_finish(call->store, op, HF_OK, NULL);
    } else {
        hf_status status = zk_refusal(reply->rc, "asking for the time", &err);

        zk_finish(call->store, op, status, &err);
    }
}

static void clock_set(struct zk_call *call, const struct zk_reply *reply)
{
    struct zk_call *make;
    char path[ZK_PATH_MAX];

    if (reply->rc != ZNONODE) {
        clock_told(call, reply);
        return;
    }
    clock_path(call->store, path);
    make = zk_call_new(call->store, clock_made, NULL);
    if (!make) {
        zk_finish(call->store, call->data, HF_NO_MEMORY, NULL);
        return;
    }
    make->data = call->data;
    make->index = call->index + 1;
    zk_make_parents(call->store, path);
    zk_send_create(make, path, "", 0, ZOO_PERSISTENT);
}

static void clock_made(struct zk_call *call, const struct zk_reply *reply)
{
    /* Another client made it; or its parent could not be made, or was deleted again. */
    if (reply->rc == ZNODEEXISTS || (reply->rc == ZNONODE && call->index < ZK_TRIES_MAX))
        ask_clock(call->store, call->data, call->index);
    else
        clock_told(call, reply);
}
