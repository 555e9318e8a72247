/* SPDX-License-Identifier: MIT */
/* One step on a cell: see cell_op.h. */
#include "prim/cell_op.h"

#include "core/op.h"
#include "core/request.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/hash.h"

#include <string.h>

/* ---- calls ------------------------------------------------------------------------------------ */

hf_status hfi_prim_unsupported(struct hfi_store *store, const char *verb, hf_error *err)
{
    const hf_engine_info *info = &hfi_store_engine(store)->info;

    return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s: %s: engine %s has no %s",
                         store->host.location, verb, info->name,
                         info->caps & HF_CAP_CELLS ? "clock that all could go by"
                                                   : "cells (bytes with a version), which this "
                                                     "stands on");
}

hf_status hfi_prim_enter(struct hfi_prim *prim, hf_store *store, const char *verb, const void *name,
                         size_t name_len, unsigned caps, hf_error *err)
{
    hf_status status;

    *prim = (struct hfi_prim){ .handle = store, .verb = verb };
    status = hfi_store_enter(store, &prim->store, err);
    if (status != HF_OK)
        return status;
    status = hfi_name_check(name, name_len, &prim->name.len, err);
    if (status == HF_OK && (hfi_store_engine(prim->store)->info.caps & caps) != caps)
        status = hfi_prim_unsupported(prim->store, verb, err);
    if (status != HF_OK) {
        hfi_store_leave(prim->store);
        return status;
    }
    prim->name.bytes = name;
    hfi_hash128(name, prim->name.len, prim->name.hash);
    return HF_OK;
}

void hfi_prim_leave(struct hfi_prim *prim)
{
    hfi_store_leave(prim->store);
}

hf_status hfi_prim_error(const struct hfi_prim *prim, hf_status status, const hf_error *inner,
                         hf_error *err)
{
    return hfi_store_error(prim->store, prim->verb, &prim->name, status, inner, err);
}

/* ---- one op ------------------------------------------------------------------------------------ */

/* It may be finished after we have given it up, so it has all that it needs in itself. */
struct step {
    struct hfi_job job;
    unsigned char name[HF_NAME_MAX];
    char bytes[];
};

static void late_step(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    if (job->op.kind == HFI_OP_CELL_READ && hfi_op_status(&job->op) == HF_OK)
        hfi_free(job->op.u.cell.ret_bytes);
    hfi_free(hfi_container(job, struct step, job));
    hfi_keeper_idle(store);
}

static struct step *step_new(const struct hfi_prim *prim, enum hfi_op_kind kind, size_t room)
{
    struct step *step = hfi_malloc(sizeof *step + room);

    if (!step)
        return NULL;
    hfi_job_init(&step->job, prim->store, kind);
    step->job.late = late_step;
    memset(&step->job.op.u, 0, sizeof step->job.op.u);
    memcpy(step->name, prim->name.bytes, prim->name.len);
    step->job.op.u.cell.name = prim->name;
    step->job.op.u.cell.name.bytes = step->name;
    return step;
}

/* Run it. HF_UNKNOWN with *ret_gone: it has been given up and is not ours any more. */
static hf_status step_run(struct step *step, bool *ret_gone)
{
    struct hfi_store *store = step->job.store;
    hf_status status;

    hfi_keeper_busy(store); /* for late_step(), which may come any time */
    status = hfi_job_run(&step->job, ret_gone);
    if (!*ret_gone)
        hfi_keeper_idle(store);
    return status;
}

/* A read changes nothing: that it did not answer is all that there is to know. */
static hf_status unheard(hf_status status)
{
    return status == HF_UNKNOWN ? HF_UNAVAILABLE : status;
}

static hf_status given_up(hf_status status, hf_error *inner)
{
    return hfi_error_set(inner, status, 0, "the store did not answer in time");
}

hf_status hfi_cell_read(const struct hfi_prim *prim, struct hfi_cell *ret_cell, hf_error *inner)
{
    struct step *step = step_new(prim, HFI_OP_CELL_READ, 0);
    hf_status status;
    bool gone;

    *ret_cell = (struct hfi_cell){ .ttl_ms = -1 };
    if (!step)
        return hfi_error_memory(inner);
    step->job.op.u.cell.ret_ttl_ms = -1;
    status = step_run(step, &gone);
    if (gone)
        return given_up(HF_UNAVAILABLE, inner);
    if (status == HF_OK) {
        ret_cell->bytes = step->job.op.u.cell.ret_bytes;
        ret_cell->len = step->job.op.u.cell.ret_len;
        ret_cell->version = step->job.op.u.cell.ret_version;
        ret_cell->ttl_ms = step->job.op.u.cell.ret_ttl_ms;
    } else if (status == HF_NOT_FOUND) {
        status = HF_OK;
    } else if (inner) {
        *inner = step->job.op.error;
    }
    hfi_free(step);
    return unheard(status);
}

void hfi_cell_forget(struct hfi_cell *cell)
{
    hfi_free(cell->bytes);
    *cell = (struct hfi_cell){ .ttl_ms = -1 };
}

hf_status hfi_cell_swap(const struct hfi_prim *prim, uint64_t version, const void *bytes,
                        size_t len, int64_t ttl_ms, uint64_t *ret_version, hf_error *inner)
{
    struct step *step = step_new(prim, HFI_OP_CELL_SWAP, bytes ? len + 1 : 0);
    hf_status status;
    bool gone;

    if (!step)
        return hfi_error_memory(inner);
    step->job.op.u.cell.version = version;
    step->job.op.u.cell.ttl_ms = ttl_ms;
    if (bytes) {
        memcpy(step->bytes, bytes, len);
        step->job.op.u.cell.bytes = step->bytes;
        step->job.op.u.cell.len = len;
    }
    status = step_run(step, &gone);
    if (gone)
        return given_up(HF_UNKNOWN, inner);
    if (status != HF_OK && inner)
        *inner = step->job.op.error;
    if (status == HF_OK && ret_version)
        *ret_version = step->job.op.u.cell.ret_version;
    hfi_free(step);
    return status;
}

hf_status hfi_store_time(const struct hfi_prim *prim, int64_t *ret_us, hf_error *inner)
{
    struct step *step = step_new(prim, HFI_OP_TIME, 0);
    hf_status status;
    bool gone;

    if (!step)
        return hfi_error_memory(inner);
    step->job.op.u.time.name = prim->name;
    step->job.op.u.time.name.bytes = step->name;
    step->job.op.u.time.ret_us = 0;
    status = step_run(step, &gone);
    if (gone)
        return given_up(HF_UNAVAILABLE, inner);
    if (status == HF_OK)
        *ret_us = step->job.op.u.time.ret_us;
    else if (inner)
        *inner = step->job.op.error;
    hfi_free(step);
    return unheard(status);
}
