/* SPDX-License-Identifier: MIT */
/*
 * Lease slots: allocating, freeing and finding them by handle, and the two main transitions:
 * granted and lost. Any thread.
 *
 * Taking and freeing a slot is on the path of every acquire and release: only long names and labels
 * are allocated, and members that did not change are not cleared.
 */
#include "core/idle.h"
#include "core/local_queue.h"
#include "core/observer.h"
#include "core/op.h"
#include "core/owner.h"
#include "core/spare.h"
#include "core/table.h"
#include "core/thread.h"
#include "deadlock/session.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/process.h"

#include <assert.h>
#include <unistd.h>

_Static_assert(sizeof(struct hfi_lease) <= 1024, "100,000 of them should be cheap");

#define SLOT_SIZE ((sizeof(struct hfi_lease) + 63) / 64 * 64)

struct hfi_table hfi_leases = { .slot_size = SLOT_SIZE, .kind = HFI_KIND_LEASE };

static struct hfi_lease *take_slot(void);
static bool set_texts(struct hfi_lease *lease, const struct hfi_checked_request *checked);
static char *tagged(const char *label, const struct hfi_tag *tag);

/* ---- making -------------------------------------------------------------------- */

/* What a grant must have left, or the engine renews it before it finishes the acquire. A lease that is handed over may begin with a part of its ttl,
 * because its first renewal brings the rest. Where no renewal is certain to come, most of the ttl must be there from the beginning. */
static int64_t least_valid_ms(const struct hfi_checked_request *checked, bool detached)
{
    int64_t asked_ms = checked->request->min_valid_ms;
    int64_t most_ms = checked->ttl_ms - checked->ttl_ms / 4;

    return (checked->renew && !detached) || asked_ms > most_ms ? asked_ms : most_ms;
}

static void set_claim(struct hfi_claim *claim, const struct hfi_checked_request *checked,
                      const struct hfi_engine *engine)
{
    /* With min_hold_ms it must not end with the process either. */
    bool detached = checked->request->flags & HF_FLAG_DETACHED || checked->request->min_hold_ms > 0;

    hfi_hash128(checked->name, checked->name_len, claim->name.hash);
    hfi_owner_new(claim->owner, detached);
    claim->mode = checked->mode;
    claim->capacity = checked->capacity;
    claim->permits = checked->permits;
    claim->flags = (checked->request->flags & HF_FLAG_BARGE ? HFI_CLAIM_BARGE : 0) |
                   (detached ? HFI_CLAIM_DETACHED : 0) |
                   (checked->request->flags & HF_FLAG_WATCH ? HFI_CLAIM_WATCHED : 0) |
                   (checked->replaced ? HFI_CLAIM_REPLACES : 0) |
                   (checked->request->flags & HF_FLAG_NUMBERED ? HFI_CLAIM_NUMBERED : 0);
    if (checked->replaced)
        memcpy(claim->replaced, checked->replaced->owner, HFI_OWNER_LEN);
    claim->tokens_wanted = 1;
    claim->ttl_ms = checked->ttl_ms;
    claim->lock_delay_ms = checked->request->lock_delay_ms;
    claim->min_valid_ms = least_valid_ms(checked, detached);
    claim->token = 0;
    claim->tokens = 0;
    if (claim->flags & HFI_CLAIM_NUMBERED)
        memset(claim->slots, 0, sizeof claim->slots);
    claim->granted_ttl_ms = 0;
    claim->sent_ms = 0;
    claim->others_wait = false;
    hfi_room_zero(claim->room, engine->claim_size);
}

static void set_term(struct hfi_term *term, const struct hfi_checked_request *checked,
                     const struct hfi_promises *promises)
{
    term->renew = checked->renew;
    term->ttl_ms = checked->ttl_ms;
    term->min_ttl_ms = hfi_ttl_least(promises);
    term->guard_ms = HFI_GUARD_MS + promises->guard_ms;
    term->max_hold_ms = checked->request->max_hold_ms;
}

struct hfi_lease *hfi_lease_new(struct hfi_store *store, const struct hfi_checked_request *checked)
{
    const hf_acquire_request *request = checked->request;
    struct hfi_lease *lease = take_slot();

    if (!lease)
        return NULL;

    lease->store = store;
    lease->parts = HFI_PART_HANDLE | HFI_PART_CLAIM;
    lease->pass = checked->pass && !checked->replaced;
    lease->reentrant = request->flags & HF_FLAG_REENTRANT;
    lease->scoped = request->scope != 0;
    lease->in_loop = false;
    atomic_store_explicit(&lease->wanted, false, memory_order_relaxed);
    lease->heard = false;
    lease->begun_ms = 0;
    lease->waited_ms = 0;
    lease->min_valid_ms = request->min_valid_ms;
    lease->handed = false;
    lease->id = 0;
    lease->linger.ms = 0;
    lease->linger.look_ms = HFI_NEVER;
    lease->linger.refill = false;
    lease->converting = false;
    lease->passes = 0;
    lease->min_hold_ms = request->min_hold_ms;
    lease->stay_ms = 0;
    lease->watch = request->flags & HF_FLAG_WATCH;
    lease->unchecked = request->flags & HF_FLAG_NO_DEADLOCK_CHECK;
    hfi_events_begin(&lease->events, request->on_event, request->on_event_arg);
    hfi_lease_fresh(lease);
    lease->scope = request->scope;
    if (lease->reentrant && !lease->scoped)
        lease->scope = hfi_thread_id();

    set_claim(&lease->claim, checked, hfi_store_engine(store));
    lease->replaces = checked->replaced ? checked->replaced->handle : NULL;
    set_term(&lease->term, checked, hfi_store_promises(store));
    atomic_store_explicit(&lease->shard, hfi_store_shard(store, lease->claim.name.hash),
                          memory_order_relaxed);
    if (!set_texts(lease, checked)) {
        hfi_lease_free(lease);
        return NULL;
    }
    if (checked->linger_ms > 0)
        hfi_idle_prepare(lease, checked->linger_ms);
    if (lease->claim.flags & HFI_CLAIM_WATCHED) {
        lease->listens = true;
        if (atomic_fetch_add(&store->listens, 1) == 0)
            hfi_drive_listen(store);
    }
    return lease;
}

/* The name, and a label if there is one. false: out of memory. */
static bool set_texts(struct hfi_lease *lease, const struct hfi_checked_request *checked)
{
    unsigned char *name = lease->short_name;
    const char *label = checked->request->label;

    lease->claim.label = NULL;
    if (checked->name_len > HFI_SHORT_NAME) {
        lease->long_name = name = hfi_malloc(checked->name_len);
        if (!name)
            return false;
    }
    memcpy(name, checked->name, checked->name_len);
    lease->claim.name.bytes = name;
    lease->claim.name.len = checked->name_len;

    if (checked->tag && (checked->tag->count > 0 || checked->tag->any > 0))
        lease->label = tagged(label ? label : lease->store->label, checked->tag);
    else if (label)
        lease->label = hfi_strndup(label, hfi_label_len(label, HF_LABEL_MAX));
    else
        return true;
    lease->claim.label = lease->label;
    return lease->label != NULL;
}

/* The label, cut so that the tag fits behind it. NULL: out of memory. */
static char *tagged(const char *label, const struct hfi_tag *tag)
{
    char text[HF_LABEL_MAX + 1], tag_text[HFI_TAG_MAX];
    size_t tag_len = hfi_tag_write(tag, tag_text);
    size_t len = hfi_label_len(label, HF_LABEL_MAX - tag_len);

    memcpy(text, label, len);
    memcpy(text + len, tag_text, tag_len);
    return hfi_strndup(text, len + tag_len);
}

/* ---- slots ------------------------------------------------------------------------- */

static struct hfi_lease *take_slot(void)
{
    struct hfi_lease *lease = hfi_spare_take(&hfi_leases, &hfi_self.leases);
    uint64_t process = hfi_process_id();

    if (!lease || hfi_slot_ours(&lease->slot, process))
        return lease;

    if (hfi_slot_ours(&lease->slot, 0)) {
        lease->fd = -1;
        hfi_list_init(&lease->queue);
        hfi_list_init(&lease->events.notice);
        hfi_list_init(&lease->settling);
        lease->timer.fire = hfi_renew_due;
        lease->timer.early = true;
    }
    hfi_slot_own(&lease->slot, process);
    return lease;
}

void hfi_lease_free(struct hfi_lease *lease)
{
    if (lease->label)
        hfi_free(lease->label);
    if (lease->long_name)
        hfi_free(lease->long_name);
    if (lease->why_copy)
        hfi_free(lease->why_copy);
    if (lease->events.asked)
        hfi_free(lease->events.asked);
    if (lease->events.early)
        hfi_free(lease->events.early);
    if (lease->fd >= 0)
        close(lease->fd);
    hfi_lease_deafen(lease);
    lease->label = NULL;
    lease->long_name = NULL;
    lease->why_copy = NULL;
    lease->events.asked = lease->events.early = NULL;
    lease->fd = -1;
    lease->hot = false;
    lease->exported = false;
    lease->orphan = false;
    /* Who has the last part has taken the others away before, whatever the store has said. */
    assert(!lease->link && !lease->timed && lease->timer.place == 0);
    assert(hfi_list_empty(&lease->queue) && hfi_list_empty(&lease->settling));
    assert(hfi_list_empty(&lease->events.notice));
    atomic_store_explicit(&lease->gone, 0, memory_order_relaxed);
    atomic_store_explicit(&lease->phase, HFI_FREE, memory_order_relaxed);

    hfi_spare_give(&hfi_leases, &hfi_self.leases, lease);
}

void hfi_lease_deafen(struct hfi_lease *lease)
{
    if (lease->listens)
        atomic_fetch_sub(&lease->store->listens, 1);
    lease->listens = false;
}

void hfi_lease_uncount(struct hfi_lease *lease)
{
    hfi_shard_leave(atomic_load_explicit(&lease->shard, memory_order_relaxed));
}

void hfi_lease_leave(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    hfi_lease_free(lease);
    hfi_shard_leave(shard);
}

/* ---- finding ----------------------------------------------------------------------- */

hf_status hfi_lease_lock(hf_lease *handle, struct hfi_lease **ret_lease, struct hfi_wait **ret_next)
{
    struct hfi_lease *lease = hfi_slot_find(&hfi_leases, handle);
    struct hfi_shard *shard;

    if (!lease)
        return HF_INVALID;
    if (!hfi_slot_ours(&lease->slot, hfi_process_id()))
        return HF_FORKED;

    /* Between the lookup and the lock the lease may end, and its slot may begin another one, even
     * in another shard. Shards are never freed, so checking again is enough. */
    shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    pthread_mutex_lock(&shard->lock);
    if (!hfi_slot_is(&lease->slot, handle)) {
        pthread_mutex_unlock(&shard->lock);
        return HF_INVALID;
    }

    *ret_lease = lease;
    *ret_next = lease->term.valid_until_ms == HFI_NEVER ? NULL : hfi_lease_expire(lease);
    return HF_OK;
}

void hfi_lease_unlock(struct hfi_lease *lease, struct hfi_wait *next)
{
    pthread_mutex_unlock(&atomic_load_explicit(&lease->shard, memory_order_relaxed)->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
}

hf_status hfi_lease_refuse(hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0, "lease: %s",
                         status == HF_INVALID ? "no such handle, or it has ended"
                                              : hf_status_text(status));
}

hf_status hfi_lease_enter_store(hf_lease *handle, struct hfi_store **ret_store,
                                struct hfi_shard **ret_shard, hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    hf_status status = hfi_lease_lock(handle, &lease, &next);

    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (lease->orphan) {
        status = hfi_error_set(err, HF_LOST, 0, "%s: %s", hf_status_text(HF_LOST), lease->why);
    } else {
        *ret_store = lease->store;
        *ret_shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
        (*ret_shard)->entered++;
    }
    hfi_lease_unlock(lease, next);
    return status;
}

bool hfi_lease_overlaps(const struct hfi_lease *lease)
{
    const struct hfi_claim *claim = &lease->claim;

    return claim->permits < claim->capacity ||
           (claim->mode == HFI_MODE_SEMAPHORE &&
            (lease->orphan || hfi_store_promises(lease->store)->caps & HF_CAP_RESIZE));
}

/* ---- granted, and lost --------------------------------------------------------------- */

void hfi_lease_timed(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    pthread_mutex_lock(&shard->lock);
    lease->timed = true;
    pthread_mutex_unlock(&shard->lock);
}

hf_lease *hfi_lease_begin(struct hfi_lease *lease, int64_t since_ms)
{
    struct hfi_wait *next = NULL;
    bool watch = lease->watch;
    hf_lease *handle;

    lease->token = lease->claim.token;
    if (lease->claim.flags & HFI_CLAIM_LINGERS)
        hfi_idle_granted(lease);
    if (lease->claim.others_wait)
        atomic_store_explicit(&lease->wanted, true, memory_order_relaxed);
    lease->since_ms = lease->granted_ms = since_ms;
    if (lease->begun_ms > 0)
        lease->waited_ms = hfi_stats_waited(lease->begun_ms, since_ms);
    if (hfi_observed()) /* before anything else can happen to it */
        hfi_observe(lease,
                    (hf_observation){ .what = HF_OBSERVED_GRANTED, .waited_ms = lease->waited_ms });
    handle = hfi_slot_publish(&lease->slot, HFI_KIND_LEASE);

    /* The store may have reported already that it is gone: either we see that here, or
     * hfi_lease_gone() sees that it is held. */
    atomic_store(&lease->phase, HFI_HELD);
    hfi_closing_tell(lease->store); /* likewise: it is to be lost */
    if (atomic_load(&lease->gone) && hfi_lease_lock(handle, &lease, &next) == HF_OK) {
        if (!next)
            next = hfi_lease_lose(lease, HF_LOSS_BROKEN,
                                  "it ended in the store as soon as it was granted");
        hfi_lease_unlock(lease, next);
    } else if (watch && hfi_lease_lock(handle, &lease, &next) == HF_OK) {
        hfi_lease_note(lease); /* others wait behind it */
        hfi_lease_note_early(lease);
        hfi_lease_unlock(lease, next);
    }
    return handle;
}

struct hfi_wait *hfi_lease_expire(struct hfi_lease *lease)
{
    int64_t now_ms = lease->looked_ms = hfi_now_ms();

    if (hfi_lease_lost(lease) || hfi_term_remaining(&lease->term, now_ms) > 0)
        return NULL;
    if (now_ms >= lease->term.hold_valid_ms)
        return hfi_lease_lose(lease, HF_LOSS_MAX_HOLD,
                              "it was held for as long as max_hold allows");
    return hfi_lease_lose(lease, HF_LOSS_EXPIRED,
                          lease->term.renew ? "its validity ended before it could be renewed"
                                            : "its validity ended");
}

struct hfi_wait *hfi_lease_lose(struct hfi_lease *lease, hf_loss loss, const char *why)
{
    if (hfi_lease_lost(lease))
        return NULL;
    assert(hfi_state_may(lease->term.state, HF_STATE_LOST));
    lease->term.state = HF_STATE_LOST;
    lease->pass = false;
    lease->why = why;
    hfi_stats_hold_ended(lease, loss, why, hfi_now_ms());
    hfi_lease_note(lease);
    return hfi_local_queue_hand_on(lease);
}

void hfi_lease_lose_replaced(struct hfi_lease *lease)
{
    struct hfi_lease *old;
    struct hfi_wait *next;

    if (!lease->replaces || hfi_lease_lock(lease->replaces, &old, &next) != HF_OK)
        return;
    if (!next)
        next = hfi_lease_lose(old, HF_LOSS_FORGOTTEN,
                              "it may have been converted, and the answer did not come");
    hfi_lease_unlock(old, next);
}

/* The store has it no more. With the lock. Returns likewise; `end` is finished without the lock. */
static struct hfi_wait *gone(struct hfi_lease *lease, const char *why, struct hfi_idle_end *end)
{
    /* The counterpart of hfi_lease_begin(): set the mark first, then read the phase. */
    atomic_store(&lease->gone, 1);
    if (atomic_load(&lease->phase) == HFI_IDLE) {
        hfi_idle_end(lease, end);
    } else if (atomic_load(&lease->phase) == HFI_HELD && !hfi_lease_lost(lease)) {
        lease->why_copy = hfi_strndup(why, strnlen(why, HFI_WHY_MAX - 1));
        return hfi_lease_lose(lease, HF_LOSS_BROKEN,
                              lease->why_copy ? lease->why_copy : "the store ended it");
    }
    return NULL;
}

/* Is this the claim that a break with `token` ended? It may have been passed on here since the store was asked, with the next tokens of its
 * block. */
static bool had_token(const struct hfi_lease *lease, uint64_t token)
{
    const struct hfi_claim *claim = &lease->claim;

    return token == lease->token ||
           (token < lease->token && token >= claim->token && token - claim->token < claim->tokens);
}

void hfi_lease_broken(struct hfi_store *store, const struct hfi_name *name, uint64_t token)
{
    struct hfi_shard *shard = hfi_store_shard(store, name->hash);
    struct hfi_wait *next = NULL;
    struct hfi_idle_end end = { NULL, NULL, NULL };

    pthread_mutex_lock(&shard->lock);
    for (struct hfi_lease *lease = hfi_table_chain(shard, name->hash); lease; lease = lease->next) {
        int phase = atomic_load(&lease->phase);

        if ((phase == HFI_HELD || phase == HFI_IDLE) && had_token(lease, token) &&
            hfi_table_same(&lease->claim.name, name)) {
            next = gone(lease, "it was broken", &end);
            break;
        }
    }
    pthread_mutex_unlock(&shard->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    hfi_idle_finish(&end);
}

void hfi_lease_gone(struct hfi_host *host, struct hfi_claim *claim,
                    const unsigned char owner[HFI_OWNER_LEN], const char *why)
{
    struct hfi_lease *lease = hfi_container(claim, struct hfi_lease, claim);
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_wait *next = NULL;
    struct hfi_idle_end end = { NULL, NULL, NULL };
    int phase;

    (void)host;
    pthread_mutex_lock(&shard->lock);
    phase = atomic_load(&lease->phase);
    if ((phase == HFI_GOING || phase == HFI_HELD || phase == HFI_IDLE) &&
        atomic_load_explicit(&lease->shard, memory_order_relaxed) == shard &&
        memcmp(lease->claim.owner, owner, HFI_OWNER_LEN) == 0)
        next = gone(lease, why, &end);
    pthread_mutex_unlock(&shard->lock);
    if (next)
        hfi_wait_tell(next, HFI_WAIT_GO);
    hfi_idle_finish(&end);
}

/* With the shard's lock. */
static void doubt_shard(struct hfi_store *store, struct hfi_shard *shard, int64_t now_ms)
{
    for (uint32_t b = 0; b < shard->bucket_count; b++)
        for (struct hfi_lease *lease = shard->buckets[b]; lease; lease = lease->next)
            if (atomic_load(&lease->phase) == HFI_HELD && lease->timed &&
                lease->term.granted_ms > 0 && hfi_term_doubt(&lease->term, now_ms)) {
                hfi_lease_note(lease);
                hfi_keeper_arm(store, &lease->timer, now_ms);
            }
}

void hfi_lease_doubt(struct hfi_host *host, const char *why)
{
    struct hfi_store *store = hfi_container(host, struct hfi_store, host);
    int64_t now_ms = hfi_now_ms();

    (void)why; /* the answer to the renewal will tell whether the lease is lost */
    for (int i = 0; i < HFI_SHARDS; i++) {
        pthread_mutex_lock(&store->shards[i].lock);
        doubt_shard(store, &store->shards[i], now_ms);
        pthread_mutex_unlock(&store->shards[i].lock);
    }
    hfi_idle_end_all(store); /* last: what is in doubt does not become idle any more */
}
