/* SPDX-License-Identifier: MIT */
/*
 * Requests, checked. Pure: reads the request and the engine's table, nothing
 * else. Every refusal names the field, as callers of other languages see only the
 * text. The order of checks is the order of the fields.
 */
#include "core/request.h"

#include "core/lack.h"
#include "util/error.h"

#include <inttypes.h>
#include <string.h>

#define ALL_FLAGS                                                                               \
    (HF_FLAG_BARGE | HF_FLAG_REENTRANT | HF_FLAG_NO_RENEW | HF_FLAG_DETACHED | HF_FLAG_STRICT | \
     HF_FLAG_NO_DEADLOCK_CHECK | HF_FLAG_WATCH | HF_FLAG_NUMBERED)

static hf_status check_kind(const struct hfi_promises *promises, const hf_acquire_request *request,
                            struct hfi_checked_request *checked, hf_error *err);
static hf_status check_flags(const struct hfi_promises *promises, const hf_acquire_request *request,
                             hf_error *err);
static hf_status check_numbered(const struct hfi_promises *promises,
                                const hf_acquire_request *request, hf_error *err);
static hf_status check_times(const struct hfi_promises *promises, const hf_acquire_request *request,
                             struct hfi_checked_request *checked, hf_error *err);
static hf_status choose_ttl(const struct hfi_promises *promises, const hf_acquire_request *request,
                            struct hfi_checked_request *checked, hf_error *err);

static hf_status check_linger(const struct hfi_promises *promises,
                              const hf_acquire_request *request,
                              struct hfi_checked_request *checked, hf_error *err);

static hf_status invalid(hf_error *err, const char *field, const char *wrong)
{
    return hfi_error_set(err, HF_INVALID, 0, "%s: %s", field, wrong);
}

hf_status hfi_request_check(const struct hfi_promises *promises, bool queue,
                            const hf_acquire_request *request, hf_acquire_request *whole,
                            struct hfi_checked_request *ret_checked, hf_error *err)
{
    uint64_t caps = promises->caps;
    hf_status status;

    if (!request)
        return invalid(err, "request", "NULL");
    if (request->size != sizeof *request) {
        if (!hfi_struct_copy(whole, sizeof *whole, request, request->size,
                             offsetof(hf_acquire_request, kind)))
            return invalid(err, "size",
                           "not that of a known hf_acquire_request; use HF_ACQUIRE_REQUEST_INIT");
        request = whole;
    }
    ret_checked->request = request;
    ret_checked->tag = NULL;
    ret_checked->replaced = NULL;
    ret_checked->any = NULL;

    ret_checked->name = request->name;
    ret_checked->name_len = (uint32_t)request->name_len;
    if (!request->name || request->name_len == 0 || request->name_len > HF_NAME_MAX) {
        status = hfi_name_check(request->name, request->name_len, &ret_checked->name_len, err);
        if (status != HF_OK)
            return status;
    }

    status = check_kind(promises, request, ret_checked, err);
    if (status != HF_OK)
        return status;

    status = request->flags ? check_flags(promises, request, err) : HF_OK;
    if (status != HF_OK)
        return status;

    /* The usual request has no flags and no times. */
    ret_checked->ttl_ms = promises->default_ttl_ms;
    if (request->flags || request->wait_ms || request->ttl_ms || request->max_hold_ms ||
        request->min_valid_ms || request->lock_delay_ms || request->min_hold_ms)
        status = check_times(promises, request, ret_checked, err);
    if (status != HF_OK)
        return status;

    /* A lease with a fixed end is not passed on: the next holder would get only the rest of it. */
    ret_checked->renew = ret_checked->ttl_ms > 0 && !(request->flags & HF_FLAG_NO_RENEW);
    ret_checked->pass =
        queue && ret_checked->permits == ret_checked->capacity &&
        ret_checked->mode != HFI_MODE_SEMAPHORE &&
        !(request->flags & (HF_FLAG_STRICT | HF_FLAG_DETACHED | HF_FLAG_NO_RENEW)) &&
        request->max_hold_ms == 0 && request->min_hold_ms == 0;
    if (request->max_hold_ms > 0 && request->ttl_ms == 0 && promises->default_ttl_ms == 0)
        ret_checked->renew = false; /* the ttl *is* max_hold */
    ret_checked->may_linger = false;
    ret_checked->linger_ms = 0;
    return caps & HF_CAP_LINGER || request->linger_ms != 0
               ? check_linger(promises, request, ret_checked, err)
               : HF_OK;
}

hf_status hfi_name_check(const void *name, size_t name_len, uint32_t *ret_len, hf_error *err)
{
    if (!name)
        return invalid(err, "name", "NULL");
    if (name_len == HF_CSTRING)
        name_len = strnlen(name, HF_NAME_MAX + 1);
    if (name_len == 0)
        return invalid(err, "name", "empty");
    if (name_len > HF_NAME_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "name: longer than %d bytes", HF_NAME_MAX);

    *ret_len = (uint32_t)name_len;
    return HF_OK;
}

size_t hfi_label_len(const char *label, size_t most)
{
    size_t len = strnlen(label, most + 1);

    if (len <= most)
        return len;
    len = most;
    while (len > 0 && ((unsigned char)label[len] & 0xc0) == 0x80)
        len--;
    return len;
}

bool hfi_struct_copy(void *whole, size_t whole_size, const void *given, size_t size, size_t least)
{
    if (size < least || size > HFI_STRUCT_MAX)
        return false;
    for (size_t i = whole_size; i < size; i++)
        if (((const char *)given)[i] != 0)
            return false; /* a field of a later version, which we would ignore */
    memset(whole, 0, whole_size);
    memcpy(whole, given, size < whole_size ? size : whole_size);
    return true;
}

hf_status hfi_request_copy(void *whole, size_t whole_size, const void *given, size_t least,
                           const char *init, hf_error *err)
{
    size_t size;

    if (!given)
        return invalid(err, "request", "NULL");
    memcpy(&size, given, sizeof size); /* every such struct begins with it */
    if (!hfi_struct_copy(whole, whole_size, given, size, least))
        return hfi_error_set(err, HF_INVALID, 0, "size: unknown; use %s", init);
    return HF_OK;
}

static hf_status check_kind(const struct hfi_promises *promises, const hf_acquire_request *request,
                            struct hfi_checked_request *checked, hf_error *err)
{
    if (request->kind != HF_KIND_SEMAPHORE && request->capacity != 0)
        return invalid(err, "capacity", "only a semaphore has one");
    if (request->kind != HF_KIND_SEMAPHORE && request->permits != 0)
        return invalid(err, "permits", "only a semaphore has them");

    switch (request->kind) {
    case HF_KIND_MUTEX:
        checked->mode = HFI_MODE_MUTEX;
        checked->capacity = checked->permits = 1;
        return HF_OK;
    case HF_KIND_SHARED:
    case HF_KIND_EXCLUSIVE:
    case HF_KIND_UPGRADEABLE:
        if (!(promises->caps & HF_CAP_SHARED))
            return hfi_unsupported(promises, HF_CAP_SHARED, "kind", err);
        if (request->kind == HF_KIND_UPGRADEABLE && !(promises->caps & HF_CAP_CONVERT))
            return hfi_unsupported(promises, HF_CAP_CONVERT, "kind", err);
        checked->mode = HFI_MODE_RW;
        checked->capacity = HFI_RW_MAX;
        checked->permits = request->kind == HF_KIND_SHARED      ? 1
                           : request->kind == HF_KIND_EXCLUSIVE ? HFI_RW_MAX
                                                                : HFI_RW_UPGRADEABLE;
        return HF_OK;
    case HF_KIND_SEMAPHORE:
        if (!(promises->caps & HF_CAP_SEMAPHORE))
            return hfi_unsupported(promises, HF_CAP_SEMAPHORE, "kind", err);
        if (request->capacity == 0 || request->capacity > HF_CAPACITY_MAX)
            return hfi_error_set(err, HF_INVALID, 0, "capacity: %u, must be 1 to %u",
                                 request->capacity, HF_CAPACITY_MAX);
        if (request->permits > request->capacity)
            return hfi_error_set(err, HF_INVALID, 0, "permits: %u, more than the capacity of %u",
                                 request->permits, request->capacity);
        checked->mode = HFI_MODE_SEMAPHORE;
        checked->capacity = request->capacity;
        checked->permits = request->permits ? request->permits : 1;
        return HF_OK;
    }
    return invalid(err, "kind", "no such kind");
}

static hf_status check_flags(const struct hfi_promises *promises, const hf_acquire_request *request,
                             hf_error *err)
{
    uint64_t caps = promises->caps;

    if (request->flags & ~ALL_FLAGS)
        return hfi_error_set(err, HF_INVALID, 0, "flags: unknown bits 0x%" PRIx64,
                             request->flags & ~ALL_FLAGS);
    if (request->flags & HF_FLAG_BARGE && !(caps & HF_CAP_BARGE))
        return hfi_unsupported(promises, HF_CAP_BARGE, "flags", err);
    if (request->flags & HF_FLAG_DETACHED && !(caps & HF_CAP_DETACHED))
        return hfi_unsupported(promises, HF_CAP_DETACHED, "flags", err);
    if (request->flags & HF_FLAG_WATCH && !(caps & HF_CAP_WANTED))
        return hfi_unsupported(promises, HF_CAP_WANTED, "flags", err);
    if (request->flags & HF_FLAG_WATCH && request->flags & HF_FLAG_DETACHED)
        return invalid(err, "flags",
                       "HF_FLAG_WATCH has no meaning for a lease that outlives the process");
    return request->flags & HF_FLAG_NUMBERED ? check_numbered(promises, request, err) : HF_OK;
}

static hf_status check_numbered(const struct hfi_promises *promises,
                                const hf_acquire_request *request, hf_error *err)
{
    if (request->kind != HF_KIND_SEMAPHORE)
        return invalid(err, "flags", "HF_FLAG_NUMBERED: only a semaphore has numbers");
    if (!(promises->caps & HF_CAP_NUMBERED))
        return hfi_unsupported(promises, HF_CAP_NUMBERED, "flags", err);
    if (request->permits > HF_SLOTS_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "permits: %u, at most %d with HF_FLAG_NUMBERED",
                             request->permits, HF_SLOTS_MAX);
    return HF_OK;
}

static hf_status check_time(hf_error *err, const char *field, int64_t ms)
{
    if (ms < 0)
        return hfi_error_set(err, HF_INVALID, 0, "%s: negative", field);
    if (ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "%s: more than ten years", field);
    return HF_OK;
}

/* Such a lease is one that outlives the process; but only its holder ends it, so nobody may adopt it, or be given it earlier. */
static hf_status check_min_hold(const struct hfi_promises *promises,
                                const hf_acquire_request *request, hf_error *err)
{
    hf_status status = check_time(err, "min_hold_ms", request->min_hold_ms);

    if (status != HF_OK)
        return status;
    if (!(promises->caps & HF_CAP_DETACHED) || !(promises->caps & HF_CAP_TTL))
        return hfi_unsupported(promises, HF_CAP_DETACHED | HF_CAP_TTL, "min_hold_ms", err);
    if (request->max_hold_ms > 0 && request->min_hold_ms > request->max_hold_ms)
        return invalid(err, "min_hold_ms", "more than max_hold_ms");
    if (request->flags & (HF_FLAG_DETACHED | HF_FLAG_WATCH))
        return invalid(err, "min_hold_ms", "not together with HF_FLAG_DETACHED or HF_FLAG_WATCH");
    return HF_OK;
}

static hf_status check_times(const struct hfi_promises *promises, const hf_acquire_request *request,
                             struct hfi_checked_request *checked, hf_error *err)
{
    hf_status status;

    if (request->wait_ms < HF_FOREVER)
        return invalid(err, "wait_ms", "negative and not HF_FOREVER");
    if (request->wait_ms != HF_FOREVER) {
        status = check_time(err, "wait_ms", request->wait_ms);
        if (status != HF_OK)
            return status;
    }
    status = check_time(err, "max_hold_ms", request->max_hold_ms);
    if (status != HF_OK)
        return status;
    status = check_time(err, "min_valid_ms", request->min_valid_ms);
    if (status != HF_OK)
        return status;
    status = check_time(err, "lock_delay_ms", request->lock_delay_ms);
    if (status != HF_OK)
        return status;
    if (request->lock_delay_ms > 0 && !(promises->caps & HF_CAP_LOCK_DELAY))
        return hfi_unsupported(promises, HF_CAP_LOCK_DELAY, "lock_delay_ms", err);
    status = request->min_hold_ms ? check_min_hold(promises, request, err) : HF_OK;
    if (status != HF_OK)
        return status;
    return choose_ttl(promises, request, checked, err);
}

/* A lease that ends by itself, is not to be passed on, or closes the name after a loss does not linger. */
static hf_status check_linger(const struct hfi_promises *promises,
                              const hf_acquire_request *request,
                              struct hfi_checked_request *checked, hf_error *err)
{
    hf_status status;

    if (request->linger_ms == HF_LINGER_NEVER)
        return HF_OK;
    status = check_time(err, "linger_ms", request->linger_ms);
    if (status != HF_OK)
        return status;
    if (request->linger_ms > 0 && !(promises->caps & HF_CAP_LINGER))
        return hfi_unsupported(promises, HF_CAP_LINGER, "linger_ms", err);
    if (request->linger_ms > 0 &&
        (checked->permits != checked->capacity || checked->mode == HFI_MODE_SEMAPHORE))
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "linger_ms: only for exclusive leases");
    if (request->linger_ms > 0 && request->linger_ms > checked->ttl_ms / 2)
        return hfi_error_set(err, HF_INVALID, 0, "linger_ms: %lld, more than half of the ttl, %lld",
                             (long long)request->linger_ms, (long long)checked->ttl_ms);

    checked->may_linger =
        checked->permits == checked->capacity && checked->mode != HFI_MODE_SEMAPHORE &&
        checked->renew && request->max_hold_ms == 0 && request->lock_delay_ms == 0 &&
        request->min_hold_ms == 0 && !(request->flags & (HF_FLAG_STRICT | HF_FLAG_DETACHED));
    checked->linger_ms = checked->may_linger ? request->linger_ms : 0;
    return HF_OK;
}

hf_status hfi_ttl_check(const struct hfi_promises *promises, const char *field, int64_t ttl_ms,
                        hf_error *err)
{
    int64_t least_ms = hfi_ttl_least(promises);
    hf_status status = check_time(err, field, ttl_ms);

    if (status != HF_OK)
        return status;
    if (!(promises->caps & HF_CAP_TTL))
        return hfi_unsupported(promises, HF_CAP_TTL, field, err);
    if (ttl_ms < least_ms)
        return hfi_error_set(err, HF_INVALID, 0, "%s: %lld, the least is %lld", field,
                             (long long)ttl_ms, (long long)least_ms);
    return HF_OK;
}

/* The ttl to ask the store for: never more than max_hold, but never less than the engine's
 * minimum. */
static hf_status choose_ttl(const struct hfi_promises *promises, const hf_acquire_request *request,
                            struct hfi_checked_request *checked, hf_error *err)
{
    int64_t hold_ms = request->max_hold_ms;
    hf_status status;

    checked->ttl_ms = request->ttl_ms ? request->ttl_ms : promises->default_ttl_ms;
    if (request->ttl_ms != 0) {
        status = hfi_ttl_check(promises, "ttl_ms", request->ttl_ms, err);
        if (status != HF_OK)
            return status;
    }
    if (request->flags & HF_FLAG_DETACHED && checked->ttl_ms == 0)
        return invalid(err, "ttl_ms", "a detached lease needs one");
    if (request->min_hold_ms > 0 && checked->ttl_ms < request->min_hold_ms)
        checked->ttl_ms = request->min_hold_ms;
    if (request->min_hold_ms > 0 && checked->ttl_ms < hfi_ttl_least(promises))
        checked->ttl_ms = hfi_ttl_least(promises);
    if (hold_ms == 0)
        return HF_OK;

    if (!(promises->caps & HF_CAP_TTL))
        return hfi_unsupported(promises, HF_CAP_TTL, "max_hold_ms", err);
    if (checked->ttl_ms == 0 || checked->ttl_ms > hold_ms)
        checked->ttl_ms = hold_ms;
    if (checked->ttl_ms < hfi_ttl_least(promises))
        checked->ttl_ms = hfi_ttl_least(promises);
    return HF_OK;
}
