/* SPDX-License-Identifier: MIT */
/* Slots: pending calls and leases, by a small number. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static bool add_chunk(struct store *store)
{
    struct slot **chunks = realloc(store->chunks, (store->chunk_count + 1) * sizeof *chunks);
    struct slot *chunk;

    if (!chunks)
        return false;
    store->chunks = chunks;
    chunk = calloc(SLOTS_IN_CHUNK, sizeof *chunk);
    if (!chunk)
        return false;
    for (uint32_t i = SLOTS_IN_CHUNK; i-- > 0;) {
        chunk[i].store = store;
        chunk[i].index = store->chunk_count * SLOTS_IN_CHUNK + i;
        chunk[i].next_free = store->free_slots;
        store->free_slots = &chunk[i];
    }
    chunks[store->chunk_count++] = chunk;
    return true;
}

struct slot *slot_new(struct store *store, enum use use)
{
    struct slot *slot;

    if (!store->free_slots && !add_chunk(store))
        return NULL;
    slot = store->free_slots;
    store->free_slots = slot->next_free;
    slot->use = use;
    slot->generation++;
    slot->result = RESULT_NOTHING;
    slot->op = NULL;
    slot->lease = NULL;
    slot->holds = slot->moving = 0;
    slot->target = NULL;
    slot->ends = slot->replaces = slot->reentrant = slot->early = false;
    slot->parts = NULL;
    slot->part_count = 0;
    slot->fn = NULL;
    slot->written = NULL;
    slot->watch = NULL;
    slot->watched = false;
    return slot;
}

void slot_free(struct slot *slot)
{
    struct store *store = slot->store;

    if (slot->fn && store->env)
        napi_delete_reference(store->env, slot->fn);
    watch_pause(slot);
    free(slot->parts);
    free(slot->written);
    slot->fn = NULL;
    slot->parts = NULL;
    slot->written = NULL;
    slot->lease = NULL;
    slot->use = USE_FREE;
    slot->next_free = store->free_slots;
    store->free_slots = slot;
}

/* A yield or a conversion may be under way: its answer, and events before it, must not find another lease here. */
void slot_unhold(struct slot *slot)
{
    if (slot->holds > 0)
        slot->holds--;
    if (slot->holds > 0)
        return;
    slot->lease = NULL;
    if (slot->moving == 0)
        slot_free(slot);
}

struct slot *slot_at(struct store *store, uint32_t index, enum use use)
{
    struct slot *slot;

    if (index / SLOTS_IN_CHUNK >= store->chunk_count)
        return NULL;
    slot = &store->chunks[index / SLOTS_IN_CHUNK][index % SLOTS_IN_CHUNK];
    return slot->use == use ? slot : NULL;
}

struct slot *slot_of_lease(struct store *store, const hf_lease *lease)
{
    for (uint32_t i = 0; i < store->chunk_count * SLOTS_IN_CHUNK; i++) {
        struct slot *slot = slot_at(store, i, USE_LEASE);

        if (slot && slot->lease == lease)
            return slot;
    }
    return NULL;
}

void slots_end_leases(struct store *store)
{
    for (uint32_t i = 0; i < store->chunk_count * SLOTS_IN_CHUNK; i++) {
        struct slot *slot = slot_at(store, i, USE_LEASE);

        if (!slot || !slot->lease)
            continue;
        watch_pause(slot);
        (void)hf_release(slot->lease, NULL); /* HF_LOST, at once: it only frees the handle */
        slot->lease = NULL;
    }
}

uint32_t slots_used(struct store *store)
{
    uint32_t free_count = 0;

    for (struct slot *slot = store->free_slots; slot; slot = slot->next_free)
        free_count++;
    return store->chunk_count * SLOTS_IN_CHUNK - free_count;
}

void slots_free(struct store *store)
{
    for (uint32_t i = 0; i < store->chunk_count; i++) {
        for (uint32_t k = 0; k < SLOTS_IN_CHUNK; k++) {
            free(store->chunks[i][k].parts);
            free(store->chunks[i][k].written);
        }
        free(store->chunks[i]);
    }
    free(store->chunks);
}
