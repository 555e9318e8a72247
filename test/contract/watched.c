/* SPDX-License-Identifier: MIT */
/* See watched.h. */
#include "watched.h"

#include <poll.h>
#include <stdio.h>

static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    struct told *told = arg;

    CHECK(text != NULL);
    told->thread = pthread_self();
    told->lease = lease;
    told->begun = true;
    if (told->slow)
        nap_ms(100);
    if (told->release && event == HF_EVENT_WANTED)
        told->released = hf_release(lease, NULL);
    told->total++; /* first: tests wait for one of the others, and look at this one then */
    told->wanted += event == HF_EVENT_WANTED;
    told->unwanted += event == HF_EVENT_UNWANTED;
    told->lost += event == HF_EVENT_LOST;
    if (event == HF_EVENT_ASKED)
        snprintf(told->text, sizeof told->text, "%s", text);
    told->asked += event == HF_EVENT_ASKED;
    told->ended = true;
}

hf_acquire_request watched(const char *name, struct told *told)
{
    hf_acquire_request request = mutex_request(name);

    request.flags = HF_FLAG_WATCH;
    request.on_event = on_event;
    request.on_event_arg = told;
    return request;
}

bool readable(hf_lease *lease)
{
    struct pollfd fd = { .fd = hf_lease_fd(lease), .events = POLLIN };

    CHECK(fd.fd >= 0);
    return poll(&fd, 1, 0) == 1;
}

hf_lease_info lease_info(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    EXPECT(HF_OK, hf_lease_get(lease, &info));
    return info;
}

void waiter_start(struct waiter *waiter, hf_store *store, hf_acquire_request request)
{
    waiter->store = store;
    EXPECT(HF_OK, hf_cancel_open(&waiter->cancel));
    request.cancel = waiter->cancel;
    request.wait_ms = LIMIT_MS;
    attempt_start(&waiter->attempt, store, &request);
}

void waiter_cancel(struct waiter *waiter)
{
    EXPECT(HF_OK, hf_cancel_fire(waiter->cancel));
    EXPECT(HF_CANCELLED, attempt_join(&waiter->attempt));
    EXPECT(HF_OK, hf_cancel_close(waiter->cancel));
}

void waiter_granted(struct waiter *waiter)
{
    EXPECT(HF_OK, attempt_join(&waiter->attempt));
    give(waiter->attempt.lease);
    EXPECT(HF_OK, hf_cancel_close(waiter->cancel));
}

static void *yielder_run(void *arg)
{
    struct attempt *attempt = arg;

    attempt->tid = thread_id();
    attempt->status = hf_yield(&attempt->lease, attempt->request.wait_ms, &contract_error);
    attempt->ended = true;
    return NULL;
}

void yielder_start(struct attempt *attempt, hf_lease *lease, int64_t wait_ms)
{
    *attempt = (struct attempt){ .lease = lease, .request = { .wait_ms = wait_ms } };
    CHECK(pthread_create(&attempt->thread, NULL, yielder_run, attempt) == 0);
}
