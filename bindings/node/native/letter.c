/* SPDX-License-Identifier: MIT */
/*
 * What other threads have to tell: events of leases that were acquired in the blocking form (the embedded store), and what hf_close()
 * ends, which runs on a thread of libuv's pool. A letter is a copy of all that the callback was told; the environment's thread delivers it.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct letter {
    struct letter *next;
    struct slot *slot;
    uint32_t generation;
    hf_event event; /* 0: an answer */
    char text[HF_LABEL_MAX + 1];
    hf_result result;
    hf_error error;
    hf_limit_result limit;
    hf_once_mark mark;
    hf_lease *leases[HF_ACQUIRE_ALL_MAX];
    uint64_t versions[HF_CELLS_MAX];
};

static void post(struct letter *letter)
{
    struct store *store = letter->slot->store;

    pthread_mutex_lock(&store->lock);
    *store->letters_end = letter;
    store->letters_end = &letter->next;
    pthread_mutex_unlock(&store->lock);
    uv_async_send(&store->async);
}

/* Without memory an event is not told; the state of the lease still says it. */
void letter_event(struct slot *slot, hf_event event, const char *text)
{
    struct letter *letter = calloc(1, sizeof *letter);

    if (!letter)
        return;
    letter->slot = slot;
    letter->generation = slot->generation;
    letter->event = event;
    if (text)
        strncpy(letter->text, text, sizeof letter->text - 1);
    post(letter);
}

void letter_answer(struct slot *slot, const hf_result *result)
{
    struct letter *letter = calloc(1, sizeof *letter);
    hf_result *copy;

    if (!letter)
        abort(); /* a promise that never ends would be worse */
    copy = &letter->result;
    letter->slot = slot;
    letter->generation = slot->generation;
    *copy = *result;
    if (result->error)
        letter->error = *result->error;
    copy->error = &letter->error;
    if (result->limit) {
        letter->limit = *result->limit;
        copy->limit = &letter->limit;
    }
    if (result->mark) {
        letter->mark = *result->mark;
        copy->mark = &letter->mark;
    }
    if (result->leases) {
        memcpy(letter->leases, result->leases, result->count * sizeof *result->leases);
        copy->leases = letter->leases;
    }
    if (result->versions) {
        memcpy(letter->versions, result->versions, result->count * sizeof *result->versions);
        copy->versions = letter->versions;
    }
    post(letter);
}

static struct letter *take_all(struct store *store)
{
    struct letter *first;

    pthread_mutex_lock(&store->lock);
    first = store->letters;
    store->letters = NULL;
    store->letters_end = &store->letters;
    pthread_mutex_unlock(&store->lock);
    return first;
}

void letters_deliver(struct store *store)
{
    struct letter *letter, *next;

    for (letter = take_all(store); letter; letter = next) {
        next = letter->next;
        if (letter->event == 0)
            deliver_result(letter->slot, &letter->result);
        else if (letter->slot->generation == letter->generation && letter->slot->use == USE_LEASE)
            deliver_event(letter->slot, letter->event, letter->text);
        free(letter);
    }
}

void letters_drop(struct store *store)
{
    struct letter *letter, *next;

    for (letter = take_all(store); letter; letter = next) {
        next = letter->next;
        if (letter->event == 0)
            result_free(&letter->result);
        free(letter);
    }
}
