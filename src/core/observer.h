/* SPDX-License-Identifier: MIT */
/* The observer of all stores (hf_observer_set()): while there is none, an event is one load. */
#ifndef HFI_OBSERVER_H
#define HFI_OBSERVER_H

#include "holdfast/observe.h"

#include <stdatomic.h>

struct hfi_host;
struct hfi_lease;

extern _Atomic bool hfi_observer_on __attribute__((visibility("hidden"))); /* no engine looks */

static inline bool hfi_observed(void)
{
    return __builtin_expect(atomic_load_explicit(&hfi_observer_on, memory_order_relaxed), 0);
}

/* A request begins: its slot gets an id. By its owner. */
void hfi_observe_begin(struct hfi_lease *lease);
/* Something has happened to a slot. `event` has what belongs to the event alone: what, status, loss, text, held_ms, local. Any
 * locks of core may be held. */
void hfi_observe(const struct hfi_lease *lease, hf_observation event);
/* host->reconnected() */
void hfi_observe_reconnected(struct hfi_host *host);

#endif
