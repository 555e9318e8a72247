/* SPDX-License-Identifier: MIT */
/*
 * The observer: see observer.h. Events come from any thread, with any locks of core held. The callback runs under a lock for readers,
 * so hf_observer_set() knows when the old one is not called any more. glibc's lock lets a reader in while a writer waits, so an
 * event within an event could not stop either.
 */
#include "core/observer.h"

#include "core/request.h"
#include "core/store.h"

#include <pthread.h>

_Atomic bool hfi_observer_on;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static hf_observer observer; /* on_event NULL: there is none */
static _Atomic uint64_t last_id;

hf_status hf_observer_set(const hf_observer *given)
{
    hf_observer whole = HF_OBSERVER_INIT;

    if (given &&
        (!hfi_struct_copy(&whole, sizeof whole, given, given->size, offsetof(hf_observer, arg)) ||
         !whole.on_event))
        return HF_INVALID;
    pthread_rwlock_wrlock(&lock);
    observer = whole;
    atomic_store(&hfi_observer_on, given != NULL);
    pthread_rwlock_unlock(&lock);
    return HF_OK;
}

static void tell(hf_observation *event, struct hfi_store *store)
{
    event->size = sizeof *event;
    event->store = (hf_store *)(uintptr_t)atomic_load(&store->slot.handle); /* NOLINT */
    event->location = store->host.location;
    if (!event->text)
        event->text = "";
    pthread_rwlock_rdlock(&lock);
    if (observer.on_event)
        observer.on_event(event, observer.arg);
    pthread_rwlock_unlock(&lock);
}

void hfi_observe_begin(struct hfi_lease *lease)
{
    lease->id = atomic_fetch_add(&last_id, 1) + 1;
    hfi_observe(lease, (hf_observation){ .what = HF_OBSERVED_BEGIN });
}

void hfi_observe(const struct hfi_lease *lease, hf_observation event)
{
    const struct hfi_claim *claim = &lease->claim;

    event.name = claim->name.bytes;
    event.name_len = claim->name.len;
    event.kind = hfi_shown_kind(claim->mode, claim->permits);
    event.id = lease->id;
    if (event.what != HF_OBSERVED_BEGIN && event.what != HF_OBSERVED_FAILED)
        event.token = lease->token;
    tell(&event, lease->store);
}

void hfi_observe_reconnected(struct hfi_host *host)
{
    struct hfi_store *store = hfi_container(host, struct hfi_store, host);
    hf_observation event = { .what = HF_OBSERVED_RECONNECTED };

    atomic_fetch_add_explicit(&host->reconnects, 1, memory_order_relaxed);
    if (hfi_observed())
        tell(&event, store);
}
