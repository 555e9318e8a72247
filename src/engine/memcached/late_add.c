/* SPDX-License-Identifier: MIT */
/*
 * Adds that may be executed late.
 *
 * When a connection breaks, what we had sent may still be in the server's receive buffer: a server
 * that was stopped reads and executes it when it goes on, perhaps long after we have given up, or
 * have released what an earlier copy got us. Such an item has an owner that no longer exists, and
 * blocks all others. It does no other harm: no claim relies on it.
 *
 * memcached cannot refuse it (a tombstone under the key would block all others as well). Its ttl
 * bounds it, counted from the execution. And as long as this process has the store open we look for
 * it at growing intervals, for MEMCACHED_LATE_ADD_MS, and delete it by its CAS number.
 */
#include "engine/memcached/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <string.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS  2000

struct memcached_late_add {
    struct memcached_late_add *next;
    struct hfi_name name; /* its bytes are our own, behind this */
    unsigned char owner[HFI_OWNER_LEN];
    int64_t until_ms, look_ms, pause_ms;
    bool asking;
};

static void late_add_read(struct memcached_call *call, enum hfi_outcome outcome,
                          const struct memcached_reply *reply);

static void set_time(struct memcached_store *store, const struct memcached_late_add *late)
{
    if (!late->asking && late->look_ms < store->late_add_ms)
        store->late_add_ms = late->look_ms;
}

void memcached_late_add_note(struct memcached_store *store, const struct hfi_name *name,
                             const unsigned char owner[HFI_OWNER_LEN])
{
    struct memcached_late_add *late = store->closing ? NULL : hfi_malloc(sizeof *late + name->len);
    int64_t now_ms = hfi_now_ms();

    if (!late)
        return;
    late->name = *name;
    late->name.bytes = memcpy(late + 1, name->bytes, name->len);
    memcpy(late->owner, owner, HFI_OWNER_LEN);
    late->until_ms = now_ms + MEMCACHED_LATE_ADD_MS;
    late->look_ms = now_ms;
    late->pause_ms = PAUSE_FIRST_MS;
    late->asking = false;
    late->next = store->late_adds;
    store->late_adds = late;
    set_time(store, late);
}

void memcached_late_adds_done(struct memcached_store *store)
{
    struct memcached_late_add *late;

    while ((late = store->late_adds)) {
        store->late_adds = late->next;
        hfi_free(late);
    }
}

static void read_item(struct memcached_store *store, struct memcached_late_add *late)
{
    struct memcached_call *call = memcached_call_new(store, 'l', &late->name, NULL);

    if (!call)
        return; /* at its next turn */
    call->data = late;
    late->asking = true;
    memcached_call_go(call, MEMCACHED_GET, late_add_read);
}

void memcached_late_adds_tick(struct memcached_store *store, int64_t now_ms)
{
    struct memcached_late_add **at = &store->late_adds, *late;

    store->late_add_ms = HFI_NEVER;
    while ((late = *at)) {
        if (!late->asking && late->until_ms <= now_ms) {
            *at = late->next;
            hfi_free(late);
            continue;
        }
        if (!late->asking && late->look_ms <= now_ms) {
            late->look_ms = now_ms + late->pause_ms;
            if (late->pause_ms < PAUSE_LAST_MS)
                late->pause_ms *= 2;
            read_item(store, late);
        }
        set_time(store, late);
        at = &late->next;
    }
}

static void look_later(struct memcached_store *store, struct memcached_late_add *late)
{
    late->asking = false;
    set_time(store, late);
}

/* Deleted, unknown, or the item of another owner: look again in any case, there may be more than
 * one late copy. */
static void late_add_deleted(struct memcached_call *call, enum hfi_outcome outcome,
                             const struct memcached_reply *reply)
{
    (void)outcome;
    (void)reply;
    look_later(call->store, call->data);
}

static void late_add_read(struct memcached_call *call, enum hfi_outcome outcome,
                          const struct memcached_reply *reply)
{
    struct memcached_late_add *late = call->data;
    struct memcached_record record;
    hf_error err;

    if (outcome == HFI_ANSWERED && reply->kind == MEMCACHED_VA && reply->has_cas &&
        memcached_read(reply, &late->name, &record, &err) == HF_OK &&
        memcmp(record.owner, late->owner, HFI_OWNER_LEN) == 0) {
        call->cas = reply->cas;
        memcached_call_go(call, MEMCACHED_DELETE, late_add_deleted);
        return;
    }
    look_later(call->store, late);
}
