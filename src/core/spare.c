/* SPDX-License-Identifier: MIT */
/* The end of a thread that has spare slots: see spare.h. */
#include "core/spare.h"

#include "core/call.h"

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static bool end_key_ok;

static void give_all(struct hfi_table *table, struct hfi_spares *spares)
{
    while (spares->count > 0)
        hfi_slot_give(table, spares->slots[--spares->count]);
}

static void on_thread_end(void *arg)
{
    (void)arg;
    give_all(&hfi_leases, &hfi_self.leases);
    give_all(&hfi_calls, &hfi_self.calls);
    hfi_self.watched = false;
}

static void make_end_key(void)
{
    end_key_ok = pthread_key_create(&end_key, on_thread_end) == 0;
}

bool hfi_spare_watch(void)
{
    pthread_once(&end_once, make_end_key);
    if (end_key_ok && pthread_setspecific(end_key, &hfi_self) == 0)
        hfi_self.watched = true;
    return hfi_self.watched;
}
