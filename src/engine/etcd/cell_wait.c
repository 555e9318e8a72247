/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a cell to have another version: it is read, and if it still has the known version, a
 * stream reports changes after the revision of that read. So no change is missed. A stream that
 * ends early is HF_UNAVAILABLE, and core begins again. With the lock.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/error.h"

static void end_cell_wait(struct etcd_store *store, struct etcd_cell_wait *cell, hf_status status,
                          const hf_error *err)
{
    struct hfi_op *op = cell->op;

    store->cell_waits--;
    if (cell->call)
        cell->call->data = NULL; /* it brings its answer to nobody */
    hfi_free(cell);
    etcd_finish(store, op, status, err);
}

void etcd_cell_changed(struct etcd_store *store, struct etcd_cell_wait *cell, uint64_t version)
{
    cell->watch = NULL;
    cell->op->u.cell.ret_version = version;
    end_cell_wait(store, cell, HF_OK, NULL);
}

void etcd_cell_unwatched(struct etcd_store *store, struct etcd_cell_wait *cell, const hf_error *why)
{
    cell->watch = NULL;
    end_cell_wait(store, cell, HF_UNAVAILABLE, why);
}

void etcd_cell_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct etcd_store *store = self;
    struct etcd_cell_wait *cell = etcd_op(op)->cell_wait;

    if (!cell)
        return; /* finished meanwhile */
    if (cell->watch)
        etcd_watch_close(store, cell->watch);
    cell->watch = NULL;
    end_cell_wait(store, cell, status, NULL);
}

static void cell_version_read(struct etcd_call *call, enum hfi_outcome outcome,
                              struct etcd_message reply, const hf_error *err)
{
    struct etcd_cell_wait *cell = call->data;
    struct etcd_store *store = call->store;
    uint64_t version = (uint64_t)etcd_number(etcd_part(reply, ETCD_RANGE_KVS), ETCD_KV_MODIFIED);
    struct etcd_key key;

    if (!cell)
        return; /* cancelled */
    cell->call = NULL;
    if (outcome != HFI_ANSWERED) {
        end_cell_wait(store, cell, hfi_outcome_read_status(outcome, err), err);
        return;
    }
    if (version != cell->op->u.cell.version) {
        etcd_cell_changed(store, cell, version);
        return;
    }
    etcd_cell_key(store->conf->prefix, &cell->op->u.cell.name, &key);
    if (!etcd_watch_cell(store, cell, &key, etcd_revision(reply)))
        end_cell_wait(store, cell, HF_UNAVAILABLE, NULL);
}

void etcd_cell_wait(void *self, struct hfi_op *op)
{
    struct etcd_store *store = self;
    struct etcd_cell_wait *cell = hfi_calloc(1, sizeof *cell);
    struct etcd_key key;

    if (!cell) {
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    cell->call = etcd_call_new(store, &etcd_range_method, cell_version_read, NULL);
    if (!cell->call) {
        hfi_free(cell);
        etcd_finish(store, op, HF_NO_MEMORY, NULL);
        return;
    }
    cell->op = op;
    cell->call->data = cell;
    cell->call->again = true;
    etcd_op(op)->cell_wait = cell;
    store->cell_waits++;
    etcd_cell_key(store->conf->prefix, &op->u.cell.name, &key);
    etcd_add_range(&cell->call->body, &(struct etcd_range){ .key = &key, .keys_only = true });
    etcd_call_send(cell->call);
}
