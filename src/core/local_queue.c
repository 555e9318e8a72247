/* SPDX-License-Identifier: MIT */
/* The local queue: see local_queue.h. Runs on the threads of callers. */
#include "core/local_queue.h"

#include "core/idle.h"
#include "core/observer.h"
#include "core/table.h"
#include "core/thread.h"
#include "util/clock.h"

#include <unistd.h>

static bool is_good(const struct hfi_lease *held);
static bool is_ours(const struct hfi_lease *held, const struct hfi_lease *lease);
static bool is_equal(const struct hfi_lease *held, const struct hfi_lease *lease);
static enum hfi_entrance re_enter(struct hfi_lease *held, struct hfi_lease *lease,
                                  hf_lease **ret_again);

/* ---- coming in --------------------------------------------------------------- */

/* The slot behind which this request would queue, or with *ret_ours the lease that it re-enters. */
static struct hfi_lease *find(struct hfi_shard *shard, const struct hfi_lease *lease,
                              bool *ret_ours)
{
    struct hfi_lease *held = hfi_table_chain(shard, lease->claim.name.hash);
    struct hfi_lease *equal = NULL;

    for (; held; held = held->next) {
        if (!hfi_table_same(&held->claim.name, &lease->claim.name))
            continue;
        if (lease->reentrant && is_ours(held, lease)) {
            *ret_ours = true;
            return held;
        }
        if (!equal && is_equal(held, lease))
            equal = held;
    }
    return equal;
}

enum hfi_entrance hfi_local_queue_enter(hf_store *handle, struct hfi_lease *lease,
                                        struct hfi_wait *wait, bool fresh, int64_t min_valid_ms,
                                        hf_lease **ret_again)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    enum hfi_entrance entry = HFI_ENTRY_GO;
    struct hfi_idle_end end = { NULL, NULL, NULL };
    struct hfi_lease *held = NULL;
    bool ours = false;

    pthread_mutex_lock(&shard->lock);
    if (!hfi_slot_is(&lease->store->slot, handle)) {
        pthread_mutex_unlock(&shard->lock);
        return HFI_ENTRY_CLOSED;
    }

    if ((lease->pass || lease->reentrant) && !(lease->claim.flags & HFI_CLAIM_REPLACES))
        held = find(shard, lease, &ours);
    if (shard->idles > 0 && !ours)
        switch (hfi_idle_enter(shard, lease, min_valid_ms, ret_again, &held, &end)) {
        case HFI_IDLE_NONE:
            held = held == end.lease ? NULL : held; /* nobody may queue there any more */
            break;
        case HFI_IDLE_TAKEN:
            entry = HFI_ENTRY_TAKEN;
            break;
        case HFI_IDLE_WAIT:
            entry = wait ? HFI_ENTRY_QUEUED : HFI_ENTRY_SOON;
            break;
        }
    if (entry != HFI_ENTRY_GO)
        ;
    else if (ours)
        entry = re_enter(held, lease, ret_again);
    else if (held && !wait && atomic_load(&held->phase) == HFI_HELD)
        entry = is_good(held) ? HFI_ENTRY_BUSY : HFI_ENTRY_GO;
    else if (held && wait)
        entry = HFI_ENTRY_QUEUED;

    if (entry == HFI_ENTRY_QUEUED) {
        if (fresh)
            hfi_wait_init(wait, lease->store, lease, min_valid_ms);
        hfi_list_append(&held->queue, &wait->queued);
        if (lease->begun_ms == 0)
            lease->begun_ms = hfi_now_ms();
        if (held->watch && atomic_load(&held->phase) == HFI_HELD)
            hfi_lease_note(held);
        shard->entered++;
    } else if (entry == HFI_ENTRY_GO) {
        atomic_store_explicit(&lease->phase, HFI_GOING, memory_order_relaxed);
        hfi_table_link(shard, lease);
        shard->entered++;
    }
    pthread_mutex_unlock(&shard->lock);
    if (__builtin_expect(end.lease != NULL, 0))
        hfi_idle_finish(&end);
    return entry;
}

/* The keeper may not have noticed yet that it ended. */
static bool is_good(const struct hfi_lease *held)
{
    if (held->term.valid_until_ms == HFI_NEVER)
        return !hfi_lease_lost(held);
    return hfi_term_remaining(&held->term, hfi_now_ms()) > 0;
}

static bool is_ours(const struct hfi_lease *held, const struct hfi_lease *lease)
{
    return held->reentrant && atomic_load(&held->phase) == HFI_HELD &&
           held->scope == lease->scope && held->scoped == lease->scoped && is_good(held);
}

/* A claim that is watched serves a holder that did not ask for that too. */
static bool is_equal(const struct hfi_lease *held, const struct hfi_lease *lease)
{
    const struct hfi_claim *a = &held->claim, *b = &lease->claim;

    return held->pass && lease->pass && a->mode == b->mode && a->ttl_ms == b->ttl_ms &&
           a->lock_delay_ms == b->lock_delay_ms &&
           (a->flags & ~HFI_CLAIM_WATCHED) == (b->flags & ~HFI_CLAIM_WATCHED) &&
           (a->flags | b->flags) == a->flags;
}

/* MISMATCH: the slot of the request is of no more use, and takes what is held to the text. The capacity is that of the request
 * by which it is held: what the store has may have been set since, and only the store knows. */
static enum hfi_entrance re_enter(struct hfi_lease *held, struct hfi_lease *lease,
                                  hf_lease **ret_again)
{
    if (held->claim.mode != lease->claim.mode || held->claim.capacity != lease->claim.capacity ||
        held->claim.permits < lease->claim.permits || held->holds == UINT32_MAX ||
        held->converting || lease->claim.flags & ~held->claim.flags & HFI_CLAIM_NUMBERED) {
        lease->claim.mode = held->claim.mode;
        lease->claim.capacity = held->claim.capacity;
        lease->claim.permits = held->claim.permits;
        lease->claim.flags = held->claim.flags;
        return HFI_ENTRY_MISMATCH;
    }

    held->holds++;
    atomic_store(&held->claim.holds, held->holds);
    *ret_again = (hf_lease *)(uintptr_t)atomic_load_explicit(&held->slot.handle, /* NOLINT */
                                                             memory_order_relaxed);
    if (!hfi_store_promises(held->store)->counts)
        return HFI_ENTRY_AGAIN;
    atomic_load_explicit(&held->shard, memory_order_relaxed)->entered++;
    return HFI_ENTRY_COUNT;
}

/* It leaves the queue before its turn. The holder learns that nobody waits any more. */
static void take_out(struct hfi_wait *wait)
{
    struct hfi_list *next = wait->queued.next;
    struct hfi_lease *held;

    hfi_list_remove(&wait->queued);
    if (!hfi_list_empty(next))
        return;
    held = hfi_container(next, struct hfi_lease, queue); /* it was the only one */
    if (held->watch && atomic_load(&held->phase) == HFI_HELD)
        hfi_lease_note(held);
}

bool hfi_local_queue_leave(struct hfi_wait *wait)
{
    struct hfi_shard *shard = wait->shard;
    bool queued;

    pthread_mutex_lock(&shard->lock);
    queued = !hfi_list_empty(&wait->queued);
    if (queued)
        take_out(wait);
    pthread_mutex_unlock(&shard->lock);
    return queued;
}

bool hfi_local_queue_surface(struct hfi_wait *wait)
{
    struct hfi_shard *shard = wait->shard;
    struct hfi_lease *lease = wait->lease;
    bool queued;

    pthread_mutex_lock(&shard->lock);
    queued = !hfi_list_empty(&wait->queued);
    if (queued) {
        take_out(wait);
        lease->pass = false;
        atomic_store_explicit(&lease->phase, HFI_GOING, memory_order_relaxed);
        hfi_table_link(shard, lease);
    }
    pthread_mutex_unlock(&shard->lock);
    return queued;
}

/* ---- passing on --------------------------------------------------------------- */

/* Set the new holder: what belongs to the holder and not to the claim. The label in the store stays
 * that of the thread that acquired the claim, and engine->passed() names the current thread. */
static void take_over(struct hfi_lease *lease, const struct hfi_wait *wait, int64_t now_ms)
{
    const struct hfi_lease *from = wait->lease;

    lease->reentrant = from->reentrant;
    lease->scoped = from->scoped;
    lease->scope = from->scope;
    hfi_events_begin(&lease->events, from->events.fn, from->events.arg);
    lease->in_loop = from->in_loop;
    lease->linger.ms = from->linger.ms;
    lease->watch = from->watch;
    lease->unchecked = from->unchecked;
    hfi_lease_fresh(lease);
    lease->since_ms = now_ms;
    lease->waited_ms = hfi_stats_waited(from->begun_ms, now_ms);
    lease->handed = false;
    lease->id = from->id;
    atomic_load_explicit(&lease->shard, memory_order_relaxed)->stats.passes++;
    if (hfi_observed())
        hfi_observe(lease, (hf_observation){ .what = HF_OBSERVED_GRANTED,
                                             .waited_ms = lease->waited_ms,
                                             .local = true });
    if (lease->fd >= 0)
        close(lease->fd);
    lease->fd = -1;
}

struct hfi_wait *hfi_local_queue_pass(struct hfi_lease *lease, bool released)
{
    struct hfi_store *store = lease->store;
    const struct hfi_engine *engine = hfi_store_engine(store);
    struct hfi_wait *wait;
    int64_t least_ms, now_ms;

    if (hfi_list_empty(&lease->queue) || !lease->pass || lease->term.state != HF_STATE_HELD ||
        !(lease->claim.flags & HFI_CLAIM_LINGERS
              ? hfi_idle_may_pass(lease, store->pass_limit)
              : hfi_local_queue_may_pass(lease->passes, lease->claim.tokens, store->pass_limit)))
        return NULL;
    if (lease->named_by && lease->named_by != hfi_thread_id())
        return NULL; /* a tag in the store may name it as held by its present session */

    now_ms = hfi_now_ms();
    if (lease->claim.flags & HFI_CLAIM_LINGERS && !atomic_load(&lease->wanted))
        lease->granted_ms = now_ms; /* nobody is overtaken */
    if (store->pass_ms > 0 && now_ms - lease->granted_ms >= store->pass_ms)
        return NULL; /* other processes have waited for long enough */
    wait = hfi_container(lease->queue.next, struct hfi_wait, queued);
    if (lease->term.valid_until_ms != HFI_NEVER) {
        least_ms = wait->min_valid_ms > 0 ? wait->min_valid_ms : 1;
        if (hfi_term_remaining(&lease->term, now_ms) < least_ms)
            return NULL;
    }

    hfi_list_remove(&wait->queued);
    if (released)
        hfi_stats_hold_ended(lease, HF_LOSS_NONE, "", now_ms);
    lease->passes++;
    if (lease->claim.flags & HFI_CLAIM_LINGERS)
        hfi_idle_next_token(lease);
    else
        lease->token++;
    take_over(lease, wait, now_ms);
    if (engine->passed && hfi_store_promises(store)->caps & HF_CAP_PASS)
        engine->passed(store->opened, &lease->claim, lease->token, wait->tid);
    wait->passed = hfi_slot_publish(&lease->slot, HFI_KIND_LEASE);
    if (lease->watch)
        hfi_lease_note(lease); /* others wait behind it */
    return wait;
}

struct hfi_wait *hfi_local_queue_hand_on(struct hfi_lease *lease)
{
    struct hfi_list *node = hfi_list_pop(&lease->queue);
    struct hfi_wait *wait;
    struct hfi_lease *promoted;

    if (!node)
        return NULL;
    wait = hfi_container(node, struct hfi_wait, queued);
    promoted = wait->lease;
    promoted->hot = true;
    if (lease->claim.flags & HFI_CLAIM_WATCHED && !promoted->listens) { /* for those behind it */
        promoted->claim.flags |= HFI_CLAIM_WATCHED;
        promoted->listens = true;
        atomic_fetch_add(&lease->store->listens,
                         1); /* `lease` is counted too, so it is not the first */
    }
    hfi_list_move(&promoted->queue, &lease->queue);
    atomic_store_explicit(&promoted->phase, HFI_GOING, memory_order_relaxed);
    hfi_table_link(atomic_load_explicit(&promoted->shard, memory_order_relaxed), promoted);
    return wait;
}
