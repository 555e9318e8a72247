/* SPDX-License-Identifier: MIT */
/* Outcomes, parking, and the memory of requests: see request.h. */
#include "engine/kit/request.h"

#include "util/alloc.h"
#include "util/list.h"

hf_status hfi_outcome_status(enum hfi_outcome outcome, const hf_error *err)
{
    if (outcome == HFI_MAYBE)
        return HF_UNKNOWN;
    return err && err->status != HF_OK ? err->status : HF_UNAVAILABLE;
}

hf_status hfi_outcome_read_status(enum hfi_outcome outcome, const hf_error *err)
{
    return outcome == HFI_MAYBE ? HF_UNAVAILABLE : hfi_outcome_status(outcome, err);
}

static void unpark_due(struct hfi_source *unpark, int64_t now_ms)
{
    hfi_requests_unpark(hfi_container(unpark, struct hfi_requests, unpark), now_ms);
}

static struct hfi_request *make(struct hfi_requests *requests)
{
    struct hfi_request *request = hfi_calloc(1, requests->size);

    if (!request || !requests->calls || !requests->calls->make ||
        requests->calls->make(requests, request))
        return request;
    hfi_free(request);
    return NULL;
}

static void unmake(struct hfi_requests *requests, struct hfi_request *request)
{
    if (request && requests->calls && requests->calls->unmake)
        requests->calls->unmake(request);
    hfi_free(request);
}

bool hfi_requests_init(struct hfi_requests *requests, struct hfi_reactor *reactor,
                       const struct hfi_request_calls *calls, size_t size, unsigned pool_max)
{
    static const struct hfi_source_calls source = { .due = unpark_due };

    requests->calls = calls;
    requests->parked_end = &requests->parked;
    requests->size = size;
    requests->pool_max = pool_max;
    requests->reserve = make(requests);
    return requests->reserve && hfi_source_add(&requests->unpark, reactor, &source);
}

void hfi_requests_done(struct hfi_requests *requests)
{
    struct hfi_request *request;

    unmake(requests, requests->reserve);
    while ((request = requests->pool)) {
        requests->pool = request->next;
        unmake(requests, request);
    }
}

/* ---- memory --------------------------------------------------------------------------------------- */

struct hfi_request *hfi_request_new(struct hfi_requests *requests, bool must)
{
    struct hfi_request *request = requests->pool;

    if (request) {
        requests->pool = request->next;
        requests->pool_count--;
    } else {
        request = make(requests);
    }
    if (!request && must) {
        request = requests->reserve;
        requests->reserve = NULL;
    }
    if (request)
        *request = (struct hfi_request){ 0 };
    return request;
}

void hfi_request_free(struct hfi_requests *requests, struct hfi_request *request)
{
    if (!requests->reserve) {
        requests->reserve = request;
        return;
    }
    if (requests->pool_count >= requests->pool_max) {
        unmake(requests, request);
        return;
    }
    request->next = requests->pool;
    requests->pool = request;
    requests->pool_count++;
}

/* ---- parking -------------------------------------------------------------------------------------- */

void hfi_request_park(struct hfi_requests *requests, struct hfi_request *request)
{
    request->next = NULL;
    *requests->parked_end = request;
    requests->parked_end = &request->next;
    hfi_source_by(&requests->unpark, request->give_up_ms);
    if (request->retry_ms)
        hfi_source_by(&requests->unpark, request->retry_ms);
}

void hfi_request_give_up_at(struct hfi_requests *requests, struct hfi_request *request,
                            int64_t give_up_ms)
{
    request->give_up_ms = give_up_ms;
    hfi_source_by(&requests->unpark, give_up_ms);
}

bool hfi_request_unpark(struct hfi_requests *requests, struct hfi_request *request)
{
    struct hfi_request **at = &requests->parked;

    while (*at && *at != request)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = request->next;
    if (!*at)
        requests->parked_end = at;
    return true;
}

void hfi_requests_unpark(struct hfi_requests *requests, int64_t now_ms)
{
    struct hfi_request *request = requests->parked, *next;

    requests->parked = NULL;
    requests->parked_end = &requests->parked;
    hfi_source_at(&requests->unpark, HFI_NEVER);
    for (; request; request = next) {
        next = request->next;
        if (request->retry_ms > now_ms && request->give_up_ms > now_ms)
            hfi_request_park(requests, request);
        else if (request->give_up_ms > now_ms)
            requests->calls->send(request);
        else
            requests->calls->give_up(request);
    }
}

void hfi_requests_give_up(struct hfi_requests *requests)
{
    struct hfi_request *request = requests->parked, *next;

    requests->parked = NULL;
    requests->parked_end = &requests->parked;
    for (; request; request = next) {
        next = request->next;
        requests->calls->give_up(request);
    }
}

struct hfi_request *hfi_requests_pop(struct hfi_requests *requests)
{
    struct hfi_request *request = requests->parked;

    if (!request)
        return NULL;
    requests->parked = request->next;
    if (!request->next)
        requests->parked_end =
            &requests->parked; /* its owner may send again from here, and that request is parked
                                * too */
    return request;
}
