/* SPDX-License-Identifier: MIT */
/*
 * Starting a new cluster: all nodes answer and are empty. Any client may try, but only one
 * succeeds. With the lock; answers come from the driver.
 *
 *   1. draw a fresh id S, and mark one node with its marker of S: the one with the smallest run id, so that
 *      starters meet there and all but one turn back before they have touched another node;
 *   2. mark all others, each with its own marker of S;
 *   3. ask all again: each must be empty and carry its marker of S still;
 *   4. install the epoch of S on all, each by its marker.
 *
 * Why this makes only one cluster. A client that installs has seen, in step 3, S on all nodes after
 * all of them had taken it. For another starter to see its own S' on all, it must have written over
 * S on all, and only after that was REDLOCK_START_STALE_MS old; then no install of S succeeds any
 * more (install compares the marker), and the first one that did keeps the other from seeing all
 * empty. The ages are for progress only: a marker of a starter that died must not be in the way for
 * ever. That neither is left with a part needs that installs arrive before their marker is stale,
 * so a starter that was slow (REDLOCK_START_LIMIT_MS) does not begin with them.
 *
 * Why each node has a marker of its own (hfi_start_marker()). With one marker for all, a mark that
 * arrives late, at a node that lost its data meanwhile, could be the one by which another node was
 * healed: the epoch would seem to be sealed after that loss.
 *
 * A starter that died in step 4 leaves some nodes in the epoch of S and the others empty with S on them. Those
 * were never installed since (install uses the marker up, loss of data loses it, and none is sent twice), so to
 * install them now is what the starter would have done, and anybody does (heal_plan.c).
 */
#include "engine/redlock/heal.h"

#include "util/clock.h"
#include "util/random.h"

#include <string.h>

static void first_marked(struct redlock_store *store);
static void all_marked(struct redlock_store *store);
static void all_confirmed(struct redlock_store *store);

static unsigned meeting_point(const struct redlock_store *store)
{
    unsigned first = 0;

    for (unsigned i = 1; i < store->n; i++)
        if (strcmp(store->nodes[i].run_id, store->nodes[first].run_id) < 0)
            first = i;
    return first;
}

/* Another client is starting it, or something failed: probe again soon. */
static void turn_back(struct redlock_store *store)
{
    store->healing->eager = false;
    if (store->healing->failures < 4) {
        store->healing->failures++;
        redlock_heal_soon(store, 20, 80);
    } else {
        redlock_heal_again(store);
    }
}

/* One round of a stage has ended; after the last one comes the next stage. */
static void stage_over(struct redlock_round *round)
{
    struct redlock_store *store = round->store;

    if (--store->healing->steps == 0 && !store->closing)
        store->healing->then(store);
}

/* ---- marking -------------------------------------------------------------------------------- */

static void marked(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                   const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_healing *healing = round->store->healing;
    const unsigned char *marker = outcome == HFI_ANSWERED ? redlock_read_marker(reply) : NULL;
    unsigned char mine[HFI_EPOCH_ID];

    (void)err;
    hfi_start_marker(healing->start_id, node, mine);
    if (marker && memcmp(marker, mine, HFI_EPOCH_ID) == 0)
        healing->mine |= 1u << node;
}

static void mark(struct redlock_store *store, unsigned node)
{
    struct redlock_round *round = redlock_heal_round(store, &redlock_script_mark, marked);
    unsigned char marker[HFI_EPOCH_ID];

    if (!round)
        return; /* then not all are marked */
    hfi_start_marker(store->healing->start_id, node, marker);
    redlock_say_mark(&round->command, marker, REDLOCK_START_STALE_MS);
    store->healing->sent |= 1u << node;
    round->over = stage_over;
    redlock_round_send(round, 1u << node);
}

/* `steps` is raised meanwhile: a round may be over before the next one has been sent. */
static void mark_some(struct redlock_store *store, uint32_t nodes,
                      void (*then)(struct redlock_store *store))
{
    struct redlock_healing *healing = store->healing;

    healing->then = then;
    healing->steps++;
    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i)
            mark(store, i);
    if (--healing->steps == 0)
        then(store);
}

/* A start of ours that ran out of memory continues where it was: its markers are young, and would
 * block another start. No marker is sent twice for that. */
static bool can_go_on(const struct redlock_store *store)
{
    const struct redlock_healing *healing = store->healing;
    unsigned char mine[HFI_EPOCH_ID];

    if (!healing->sent || hfi_now_ms() - healing->start_ms > REDLOCK_START_LIMIT_MS)
        return false;
    for (unsigned i = 0; i < store->n; i++) {
        const struct hfi_node_view *view = &store->nodes[i].view;

        hfi_start_marker(healing->start_id, i, mine);
        if (healing->sent & 1u << i &&
            (!view->marked || memcmp(view->marker, mine, HFI_EPOCH_ID) != 0))
            return false;
    }
    return true;
}

void redlock_start(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;

    if (can_go_on(store)) {
        healing->mine = healing->sent;
        mark_some(store, redlock_all(store) & ~healing->sent, all_marked);
        return;
    }
    healing->start_ms = hfi_now_ms();
    healing->mine = healing->sent = 0;
    hfi_random_bytes(healing->start_id, sizeof healing->start_id);
    mark_some(store, 1u << meeting_point(store), first_marked);
}

static void first_marked(struct redlock_store *store)
{
    if (store->healing->mine == 0)
        turn_back(store);
    else
        mark_some(store, redlock_all(store) & ~store->healing->mine, all_marked);
}

/* ---- confirming --------------------------------------------------------------------------------- */

static void confirmed(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                      const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_healing *healing = round->store->healing;
    unsigned char mine[HFI_EPOCH_ID];
    struct redlock_told told;

    (void)err;
    hfi_start_marker(healing->start_id, node, mine);
    if (outcome == HFI_ANSWERED && redlock_read_status(reply, &told) &&
        told.view.state == HFI_NODE_EMPTY && told.view.marked &&
        memcmp(told.view.marker, mine, HFI_EPOCH_ID) == 0)
        healing->mine |= 1u << node;
}

static void all_marked(struct redlock_store *store)
{
    struct redlock_round *ask;

    if (store->healing->mine != redlock_all(store)) {
        turn_back(store);
        return;
    }
    store->healing->mine = 0;
    ask = redlock_heal_round(store, &redlock_script_status, confirmed);
    if (!ask) {
        turn_back(store);
        return;
    }
    ask->over = stage_over;
    store->healing->then = all_confirmed;
    redlock_round_send(ask, redlock_all(store));
}

/* ---- installing ----------------------------------------------------------------------------------- */

static void install(struct redlock_store *store, unsigned node, const struct hfi_node_view *as,
                    const struct hfi_epoch *epoch)
{
    struct redlock_round *round =
        redlock_heal_round(store, &redlock_script_install, redlock_heal_answered);
    unsigned char marker[HFI_EPOCH_ID];

    if (!round)
        return; /* any client will complete it */
    hfi_start_marker(store->healing->start_id, node, marker);
    redlock_say_install(&round->command, marker, as, epoch, 0);
    redlock_round_send(round, 1u << node);
}

static void all_confirmed(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;
    struct hfi_node_view as = { .n = store->n, .max_ttl_ms = store->max_ttl_ms };
    struct hfi_epoch epoch;

    if (healing->mine != redlock_all(store) ||
        hfi_now_ms() - healing->start_ms > REDLOCK_START_LIMIT_MS) {
        turn_back(store);
        return;
    }
    hfi_random_bytes(as.cluster, sizeof as.cluster);
    hfi_start_epoch(healing->start_id, &epoch);
    healing->steps++;
    for (unsigned i = 0; i < store->n; i++)
        install(store, i, &as, &epoch);
    redlock_heal_stepped(store);
}
