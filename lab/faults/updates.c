/* SPDX-License-Identifier: MIT */
/*
 * What a lock is for: values that are read and written back. Four of them, each with a ledger (shared.h):
 *
 *   plain     in shared memory, protected by the mutex and by nothing else
 *   guarded   in the vault, behind hf_guard_claim() and hf_guard_set() with the token of the mutex
 *   counter   hf_counter_add() in the store itself, without a lock
 *   cell      hf_cell_swap() in the store itself, without a lock
 */
#include "worker.h"

#include "holdfast/primitives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_ROOM 32

static int64_t number_in(const void *bytes, size_t len)
{
    char text[NUMBER_ROOM];

    snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : 0), (const char *)bytes);
    return strtoll(text, NULL, 10);
}

struct update update_begin(struct worker *w, hf_lease *lease)
{
    struct update update = { .guarded = -1 };
    void *bytes = NULL;
    size_t len = 0;

    if (hf_lease_fence(lease, &update.token, NULL) == HF_OK &&
        hf_guard_claim(w->vault, worker_name(w->shared, "guarded"), HF_CSTRING, update.token,
                       &bytes, &len, NULL) == HF_OK) {
        update.guarded = number_in(bytes, len);
        hf_free(bytes);
    } else if (update.token) {
        atomic_fetch_add(&w->shared->ledgers[LEDGER_GUARDED].refused, 1);
    }
    update.plain = atomic_load(&w->shared->plain); /* not before the claim */
    return update;
}

void update_end(struct worker *w, struct update update)
{
    struct ledger *guarded = &w->shared->ledgers[LEDGER_GUARDED];
    char text[NUMBER_ROOM];
    hf_status status;

    atomic_store(&w->shared->plain, update.plain + 1);
    ledger_note(&w->shared->ledgers[LEDGER_PLAIN], update.plain + 1);
    if (update.guarded < 0)
        return;
    snprintf(text, sizeof text, "%lld", (long long)update.guarded + 1);
    status = hf_guard_set(w->vault, worker_name(w->shared, "guarded"), HF_CSTRING, update.token,
                          text, strlen(text), NULL);
    if (status == HF_OK || (status == HF_FENCED && w->shared->wrong == WRONG_VALIDITY))
        ledger_note(guarded, update.guarded + 1);
    else
        atomic_fetch_add(&guarded->refused, 1);
}

/* A status other than HF_OK: it was not done, or nobody knows (HF_UNKNOWN). Both are no loss. */
static void note_failure(struct ledger *ledger, hf_status status)
{
    if (status == HF_UNKNOWN)
        atomic_fetch_add(&ledger->unknown, 1);
    else
        atomic_fetch_add(&ledger->refused, 1);
    if (status != HF_CHANGED)
        worker_nap_us(5000);
}

static void update_counter(struct worker *w)
{
    struct ledger *ledger = &w->shared->ledgers[LEDGER_COUNTER];
    int64_t value;
    hf_status status =
        hf_counter_add(w->store, worker_name(w->shared, "counter"), HF_CSTRING, 1, &value, NULL);

    if (status == HF_OK)
        ledger_note(ledger, value);
    else
        note_failure(ledger, status);
}

static void update_cell(struct worker *w)
{
    struct ledger *ledger = &w->shared->ledgers[LEDGER_CELL];
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_cell cell = HF_CELL_INIT;
    char text[NUMBER_ROOM];
    int64_t value = 0;
    hf_status status;

    request.name = worker_name(w->shared, "cell");
    request.name_len = HF_CSTRING;
    status = hf_cell_get(w->store, request.name, HF_CSTRING, &cell, NULL);
    if (status == HF_OK) {
        value = number_in(cell.bytes, cell.len);
        request.version = cell.version;
        hf_free(cell.bytes);
    } else if (status != HF_NOT_FOUND) {
        note_failure(ledger, status);
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)value + 1);
    request.bytes = text;
    request.len = strlen(text);
    status = hf_cell_swap(w->store, &request, NULL, NULL);
    if (status == HF_OK)
        ledger_note(ledger, value + 1);
    else
        note_failure(ledger, status);
}

void update_store(struct worker *w)
{
    if (chance(&w->dice, 2))
        update_counter(w);
    else
        update_cell(w);
}
