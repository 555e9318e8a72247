/* SPDX-License-Identifier: MIT */
/* Notes of local passes, for inspection and break: which token of its block a lease is held with now, and in which thread. They are
 * sent a moment later, many in one round. Under the reactor's lock. */
#include "engine/redlock/internal.h"

#include "util/clock.h"

bool redlock_passed(struct redlock_store *store, struct hfi_claim *claim, uint64_t token,
                    int64_t tid)
{
    struct redlock_hold *hold = redlock_hold_of(claim);

    if (!hold)
        return false;
    hold->token_now = token;
    hold->tid = tid;
    if (!hfi_list_empty(&hold->noted))
        return false;
    hfi_list_append(&store->noted, &hold->noted);
    if (store->notes_timer.due_ms != HFI_NEVER)
        return false;
    hfi_source_at(&store->notes_timer, hfi_now_ms() + REDLOCK_NOTE_MS);
    return true;
}

static void noted(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                  const struct hfi_reply *reply, const hf_error *err)
{
    (void)round;
    (void)node;
    (void)outcome;
    (void)reply;
    (void)err; /* a note for inspection only: the outcome does not matter */
}

static void send_notes(struct redlock_store *store, struct redlock_hold *const some[], size_t count)
{
    struct redlock_round *round =
        redlock_round_new(store, &redlock_script_note, (uint32_t)count + 1, noted);

    if (!round)
        return;
    redlock_add_cluster(round);
    for (size_t i = 0; i < count; i++)
        redlock_add_name(round, &some[i]->entry.claim->name);
    for (size_t i = 0; i < count; i++) {
        const struct hfi_name *name = &some[i]->entry.claim->name;

        some[i]->full = redlock_all(store); /* it will have a record with that note */
        hfi_command_add(&round->command, name->bytes, name->len);
        redis_add_owner(&round->command, some[i]->entry.owner);
        hfi_command_add_number(&round->command, (int64_t)some[i]->token_now);
        hfi_command_add_number(&round->command, some[i]->tid);
    }
    redlock_round_send(round, redlock_nodes_voting(store, hfi_now_ms()));
}

void redlock_notes_send(struct redlock_store *store)
{
    struct redlock_hold *some[REDLOCK_BATCH];
    struct hfi_list *node;
    size_t count = 0;

    hfi_source_at(&store->notes_timer, HFI_NEVER);
    while ((node = hfi_list_pop(&store->noted))) {
        some[count++] = hfi_container(node, struct redlock_hold, noted);
        if (count == REDLOCK_BATCH) {
            send_notes(store, some, count);
            count = 0;
        }
    }
    if (count)
        send_notes(store, some, count);
}
