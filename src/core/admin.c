/* SPDX-License-Identifier: MIT */
/* hf_lease_break(), hf_store_wait(), hf_store_check(): for the administrator of a store. */
#include "core/findings.h"
#include "core/op.h"
#include "core/request.h"
#include "core/store.h"
#include "core/wait.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <stdio.h>

/* ---- break --------------------------------------------------------------------------- */

struct break_job {
    struct hfi_job job;
    unsigned char name[HF_NAME_MAX];
};

static void late_break(struct hfi_job *job)
{
    struct hfi_store *store = job->store;

    hfi_free(hfi_container(job, struct break_job, job));
    hfi_keeper_idle(store);
}

static hf_status break_lease(struct hfi_store *store, const void *name, uint32_t len,
                             uint64_t token, hf_error *err)
{
    struct break_job *brk = hfi_malloc(sizeof *brk);
    struct hfi_name shown = { .bytes = name, .len = len };
    hf_status status;
    bool given_up;

    if (!brk)
        return hfi_error_memory(err);
    memcpy(brk->name, name, len);
    hfi_job_init(&brk->job, store, HFI_OP_BREAK);
    brk->job.late = late_break;
    brk->job.op.u.brk.token = token;
    brk->job.op.u.brk.name.bytes = brk->name;
    brk->job.op.u.brk.name.len = len;
    hfi_hash128(brk->name, len, brk->job.op.u.brk.name.hash);

    hfi_keeper_busy(store); /* for late_break(), which may come any time */
    status = hfi_job_run(&brk->job, &given_up);
    if (given_up)
        return hfi_store_error(store, "break", &shown, HF_UNKNOWN, NULL, err);
    hfi_keeper_idle(store);
    status = status == HF_OK
                 ? hfi_ok(err)
                 : hfi_store_error(store, "break", &shown, status, &brk->job.op.error, err);
    hfi_free(brk);
    return status;
}

hf_status hf_lease_break(hf_store *handle, const void *name, size_t name_len, uint64_t token,
                         hf_error *err)
{
    struct hfi_store *store;
    uint32_t len;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    status = hfi_name_check(name, name_len, &len, err);
    if (status == HF_OK && !(hfi_store_engine(store)->info.caps & HF_CAP_BREAK))
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine cannot break leases");
    if (status == HF_OK && (token == 0 || token >= HFI_TOKEN_LIMIT))
        status = hfi_error_set(err, HF_INVALID, 0, "token: never 0, nor 2^53 or more");
    if (status == HF_OK)
        status = break_lease(store, name, len, token, err);
    hfi_store_leave(store);
    return status;
}

/* ---- wait for a change ------------------------------------------------------------------ */

static void stop_change(struct hfi_wait *wait)
{
    hfi_store_engine(wait->store)->stop_wait(wait->store->conn);
}

static hf_status wait_change(struct hfi_store *store, uint64_t *seq, int64_t wait_ms,
                             hf_cancel *cancel, hf_error *err)
{
    hf_error inner = { .status = HF_OK };
    int64_t until_ms = wait_ms == HF_FOREVER ? HFI_NEVER : hfi_now_ms() + wait_ms;
    hf_status status = HF_OK;
    struct hfi_wait wait;

    hfi_wait_init(&wait, store, NULL, 0);
    wait.stopper = stop_change;
    if (cancel)
        status = hfi_wait_follow(&wait, cancel);
    if (status == HF_INVALID || status == HF_FORKED)
        return hfi_error_set(err, status, 0, "cancel: not a canceller of this process");
    if (status == HF_OK) {
        hfi_wait_list(&wait);
        status =
            hfi_store_engine(store)->wait_change(store->conn, seq, until_ms, &wait.stop, &inner);
        hfi_wait_leave(&wait);
    }
    if (status == HF_OK)
        return hfi_ok(err);
    if (atomic_load(&wait.stop) != HF_OK)
        status = (hf_status)atomic_load(&wait.stop);
    return hfi_store_error(store, "wait for a change", NULL, status,
                           status == inner.status ? &inner : NULL, err);
}

hf_status hf_store_wait(hf_store *handle, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                        hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    if (!seq)
        status = hfi_error_set(err, HF_INVALID, 0, "seq: NULL");
    else if (wait_ms < HF_FOREVER || wait_ms > HF_DURATION_MAX_MS)
        status = hfi_error_set(err, HF_INVALID, 0, "wait_ms: negative, or more than ten years");
    else if (!(hfi_store_engine(store)->info.caps & HF_CAP_WATCH))
        status = hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine does not tell of changes");
    else
        status = wait_change(store, seq, wait_ms, cancel, err);
    hfi_store_leave(store);
    return status;
}

/* ---- doctor -------------------------------------------------------------------------------- */

static void check_secret(const struct hfi_store *store, struct hfi_findings *findings)
{
    char text[HFI_EXPOSED_MAX + 128];

    if (!store->exposed[0])
        return;
    snprintf(text, sizeof text,
             "others than its owner may use the file %s, which has the password: chmod 600",
             store->exposed);
    hfi_findings_add(HF_CHECK_LEVEL_WARNING, "password_file", text, findings);
}

static hf_status check_store(struct hfi_store *store, hf_report **ret_report, hf_error *err)
{
    struct hfi_findings findings = { .failed = false };
    hf_error inner = { .status = HF_OK };
    hf_status status = HF_OK;
    hf_report *report;

    check_secret(store, &findings);
    if (hfi_store_engine(store)->doctor)
        status = hfi_store_engine(store)->doctor(store->conn, hfi_findings_add, &findings, &inner);
    report = hfi_findings_report(&findings);
    if (status != HF_OK) {
        hfi_free(report);
        return hfi_store_error(store, "doctor", NULL, status, &inner, err);
    }
    if (!report)
        return hfi_error_memory(err);
    *ret_report = report;
    return hfi_ok(err);
}

hf_status hf_store_check(hf_store *handle, hf_report **ret_report, hf_error *err)
{
    struct hfi_store *store;
    hf_status status = hfi_store_enter(handle, &store, err);

    if (status != HF_OK)
        return status;
    status = ret_report ? check_store(store, ret_report, err)
                        : hfi_error_set(err, HF_INVALID, 0, "ret_report: NULL");
    hfi_store_leave(store);
    return status;
}
