/* SPDX-License-Identifier: MIT */
/*
 * Leases as text: hf_lease_export() and hf_lease_adopt(). The text is the owner's id and
 * the token, "<32 hex digits>-<hex token>"; the name is not in it.
 */
#include "core/acquire.h"
#include "core/local_queue.h"
#include "core/op.h"
#include "core/release.h"
#include "core/table.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>

#define OWNER_HEX     (2 * HFI_OWNER_LEN)
#define TOKEN_HEX_MAX 14 /* 2^53 */

_Static_assert(OWNER_HEX + 1 + TOKEN_HEX_MAX + 1 <= HF_LEASE_TEXT_MAX, "it fits");

hf_status hf_lease_export(hf_lease *handle, char ret_text[HF_LEASE_TEXT_MAX])
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status;

    if (!ret_text)
        return HF_INVALID;
    status = hfi_lease_lock(handle, &lease, &next);
    if (status != HF_OK)
        return status;
    if (hfi_lease_lost(lease))
        status = HF_LOST;
    else if (!(lease->claim.flags & HFI_CLAIM_DETACHED))
        status = HF_UNSUPPORTED; /* it ends with this process: nobody could adopt it */
    else {
        hfi_hex(lease->claim.owner, HFI_OWNER_LEN, ret_text);
        snprintf(ret_text + OWNER_HEX, HF_LEASE_TEXT_MAX - OWNER_HEX, "-%" PRIx64,
                 lease->claim.token);
        lease->exported = true; /* from now on it outlives hf_close() */
    }
    hfi_lease_unlock(lease, next);
    return status;
}

/* Take a handle's text apart. false: it is none. */
static bool parse(const char *text, unsigned char owner[HFI_OWNER_LEN], uint64_t *ret_token)
{
    size_t len = text ? strnlen(text, HF_LEASE_TEXT_MAX) : 0;
    uint64_t token = 0;

    if (len < OWNER_HEX + 2 || len > OWNER_HEX + 1 + TOKEN_HEX_MAX || text[OWNER_HEX] != '-' ||
        !hfi_unhex(text, OWNER_HEX, owner, HFI_OWNER_LEN))
        return false;
    for (const char *c = text + OWNER_HEX + 1; *c; c++) {
        if (*c >= '0' && *c <= '9')
            token = token << 4 | (uint64_t)(*c - '0');
        else if (*c >= 'a' && *c <= 'f')
            token = token << 4 | (uint64_t)(*c - 'a' + 10);
        else
            return false;
    }
    *ret_token = token;
    return token < HFI_TOKEN_LIMIT;
}

struct adopt_job {
    struct hfi_job job;
    struct hfi_lease *lease;
};

/* The store has it, and has given it to us. */
static hf_lease *begin(struct hfi_lease *lease)
{
    hf_lease *handle;

    if (lease->term.ttl_ms == 0)
        lease->term.ttl_ms = lease->claim.granted_ttl_ms;
    if (hfi_acquire_granted(lease, 0, false, &handle) == HF_OK)
        return handle;
    return hfi_lease_begin(lease, lease->claim.sent_ms); /* too late: it will be found LOST */
}

/*
 * The answer comes when nobody waits for it any more. If we have it, it stays in
 * the table without anybody knowing its handle, not renewed and not released: it
 * belongs to whoever has its text.
 */
static void late_adopt(struct hfi_job *job)
{
    struct adopt_job *adopt = hfi_container(job, struct adopt_job, job);
    struct hfi_lease *lease = adopt->lease;
    struct hfi_store *store = job->store;
    hf_status status = hfi_op_status(&job->op);

    hfi_free(adopt);
    lease->term.renew = false;
    if (status == HF_OK)
        (void)begin(lease);
    else
        hfi_acquire_failed(lease, HF_NOT_FOUND);
    hfi_keeper_idle(store);
}

static hf_status run(struct hfi_lease *lease, hf_lease **ret_lease, hf_error *err)
{
    struct hfi_store *store = lease->store;
    struct adopt_job *adopt = hfi_malloc(sizeof *adopt);
    bool given_up;
    hf_status status;

    if (!adopt) {
        hfi_acquire_failed(lease, HF_NO_MEMORY);
        return hfi_error_memory(err);
    }
    adopt->lease = lease;
    hfi_job_init(&adopt->job, store, HFI_OP_ADOPT);
    adopt->job.late = late_adopt;
    adopt->job.op.claim = &lease->claim;
    hfi_keeper_busy(store); /* for late_adopt(), which may come any time */
    status = hfi_job_run(&adopt->job, &given_up);
    if (given_up)
        return hfi_store_error(store, "adopt", NULL, HF_UNKNOWN, NULL, err);

    hfi_keeper_idle(store);
    if (status == HF_OK) {
        *ret_lease = begin(lease);
        hfi_ok(err);
    } else {
        hfi_store_error(store, "adopt", &lease->claim.name, status, &adopt->job.op.error, err);
        hfi_acquire_failed(lease, HF_NOT_FOUND);
    }
    hfi_free(adopt);
    return status;
}

static hf_status adopt(hf_store *handle, struct hfi_store *store,
                       const struct hfi_checked_request *checked, const char *text, bool renew,
                       hf_lease **ret_lease, hf_error *err)
{
    struct hfi_lease *lease;
    unsigned char owner[HFI_OWNER_LEN];
    uint64_t token;

    if (!parse(text, owner, &token))
        return hfi_error_set(err, HF_INVALID, 0, "text: not that of a lease");
    if (!hfi_store_start(store, HFI_STARTED_KEEPER))
        return hfi_error_memory(err);
    lease = hfi_lease_new(store, checked);
    if (!lease)
        return hfi_error_memory(err);

    memcpy(lease->claim.owner, owner, sizeof owner);
    lease->claim.token = token;
    lease->claim.tokens = 1;
    lease->term.renew = renew;
    lease->exported = true; /* somebody has its text */
    if (hfi_local_queue_enter(handle, lease, NULL, false, 0, ret_lease) != HFI_ENTRY_GO) {
        hfi_lease_free(lease);
        return hfi_error_set(err, HF_INVALID, 0, "store: it was closed");
    }
    if (!hfi_keeper_reserve(store)) {
        hfi_acquire_failed(lease, HF_NO_MEMORY);
        return hfi_error_memory(err);
    }
    hfi_lease_timed(lease);
    return run(lease, ret_lease, err);
}

static hf_status check_adopt(const struct hfi_engine *engine, const hf_adopt_request *request,
                             struct hfi_checked_request *checked, hf_error *err)
{
    hf_status status = hfi_name_check(request->name, request->name_len, &checked->name_len, err);

    if (status != HF_OK)
        return status;
    if (!(engine->info.caps & HF_CAP_DETACHED))
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "this engine has no detached leases");
    checked->name = request->name;
    checked->ttl_ms = request->ttl_ms;
    return request->ttl_ms != 0 ? hfi_ttl_check(engine, "ttl_ms", request->ttl_ms, err) : HF_OK;
}

hf_status hf_lease_adopt(hf_store *store, const hf_adopt_request *given, hf_lease **ret_lease,
                         hf_error *err)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    struct hfi_checked_request checked = {
        .request = &request, .mode = HFI_MODE_MUTEX, .capacity = 1, .permits = 1
    };
    hf_adopt_request whole;
    struct hfi_store *inner;
    hf_status status = hfi_store_enter(store, &inner, err);

    if (status != HF_OK)
        return status;
    request.flags = HF_FLAG_DETACHED;
    status = hfi_request_copy(&whole, sizeof whole, given, offsetof(hf_adopt_request, ttl_ms),
                              "HF_ADOPT_REQUEST_INIT", err);
    if (status == HF_OK)
        status = check_adopt(hfi_store_engine(inner), &whole, &checked, err);
    if (status == HF_OK && !ret_lease)
        status = hfi_error_set(err, HF_INVALID, 0, "ret_lease: NULL");
    if (status == HF_OK)
        status = adopt(store, inner, &checked, whole.text, whole.renew, ret_lease, err);
    hfi_store_leave(inner);
    return status;
}
