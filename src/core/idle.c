/* SPDX-License-Identifier: MIT */
/*
 * Idle leases: see idle.h. Taking one is on the fast way of callers: one lock, one look at the clock, no allocation. Ending one
 * runs on whatever thread has the reason: the one that drives the store, the keeper, a caller.
 */
#include "core/idle.h"

#include "core/adapt.h"
#include "core/call.h"
#include "core/local_queue.h"
#include "core/observer.h"
#include "core/table.h"
#include "core/thread.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <assert.h>
#include <unistd.h>

#define NOTE_MS 1000 /* idle for that time, or for half of its own: others are told */
/* A lingering claim is renewed for this long only, unless one hold lasts: a process that dies costs no more. */
#define SHORT_TTL_MS      3000
#define SHORT_TTL_LINGERS 4

/* What a request asks of an idle lease, and what its holder brings along. */
struct taker {
    enum hfi_mode mode;
    int64_t ttl_ms, min_valid_ms, linger_ms;
    unsigned flags; /* of its claim */
    bool passable;  /* not one of those that never share a claim, or not with one that lingers */
    bool reentrant, scoped, in_loop, watch, unchecked;
    bool begins; /* the request has not been observed yet */
    uint64_t id; /* else what the observer knows it by */
    uint64_t scope;
    hf_event_fn *fn;
    void *arg;
};

static void arrange_look(struct hfi_lease *lease, int64_t now_ms);
static void ask_for_tokens(struct hfi_lease *lease, int64_t now_ms);

/* ---- tokens ---------------------------------------------------------------------------- */

static bool has_token(const struct hfi_lease *lease)
{
    return lease->token < lease->linger.last || lease->linger.more > 0;
}

void hfi_idle_next_token(struct hfi_lease *lease)
{
    struct hfi_linger *linger = &lease->linger;

    /* All callers ask before, under the same lock; blocks of a store are checked (take_block). */
    assert(has_token(lease));
    if (lease->token < linger->last) {
        lease->token++;
    } else {
        lease->token = linger->next;
        linger->last = linger->next + (linger->more - 1);
        linger->size = linger->more;
        linger->more = 0;
    }
    linger->takes++;
    if (!atomic_load_explicit(&lease->wanted, memory_order_relaxed))
        lease->passes = 0; /* only passes that overtake others are counted */
}

bool hfi_idle_may_pass(const struct hfi_lease *lease, uint32_t limit)
{
    return has_token(lease) &&
           (lease->passes < limit || !atomic_load_explicit(&lease->wanted, memory_order_relaxed));
}

/* Half of the block is used, and there is none behind it. */
static bool runs_out(const struct hfi_lease *lease)
{
    const struct hfi_linger *linger = &lease->linger;

    return linger->more == 0 && !linger->refill && linger->last - lease->token <= linger->size / 2;
}

static void ask_for_tokens(struct hfi_lease *lease, int64_t now_ms)
{
    lease->linger.refill = true;
    if (!lease->term.renewing) /* else its answer sets the timer */
        hfi_keeper_arm(lease->store, &lease->timer, now_ms);
}

void hfi_idle_granted(struct hfi_lease *lease)
{
    struct hfi_linger *linger = &lease->linger;

    linger->last = lease->claim.token + (lease->claim.tokens - 1);
    linger->size = lease->claim.tokens;
    linger->takes = 1;
    linger->waited_ns = hfi_now_ns() - linger->from_ns;
    linger->from_ns += linger->waited_ns;
}

/* The second block, as the store says. What it says is checked: tokens only grow. */
static void take_block(struct hfi_lease *lease, const struct hfi_renewal *item)
{
    struct hfi_linger *linger = &lease->linger;

    if (item->status != HF_OK || linger->more > 0 || item->tokens == 0 ||
        item->tokens > item->tokens_wanted || item->token <= linger->last ||
        item->token >= HFI_TOKEN_LIMIT - item->tokens)
        return;
    linger->next = item->token;
    linger->more = item->tokens;
    if (linger->block < HFI_BLOCK_MAX)
        linger->block *= 2;
}

/* ---- requests ------------------------------------------------------------------------ */

void hfi_idle_choose(const struct hfi_store *store, struct hfi_checked_request *checked)
{
    int64_t most_ms = checked->ttl_ms / 2;

    if (checked->request->linger_ms == 0 && checked->may_linger && store->linger_ms > 0)
        checked->linger_ms = store->linger_ms < most_ms ? store->linger_ms : most_ms;
}

void hfi_idle_prepare(struct hfi_lease *lease, int64_t linger_ms)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    struct hfi_linger *linger = &lease->linger;

    pthread_mutex_lock(&shard->lock);
    linger->ms = hfi_adapt_linger(lease->store, lease->claim.name.hash, linger_ms, hfi_now_ms());
    pthread_mutex_unlock(&shard->lock);
    if (linger->ms == 0)
        return;
    linger->block = HFI_BLOCK_FIRST;
    linger->more = 0;
    linger->noted = false;
    lease->claim.flags |= HFI_CLAIM_LINGERS | HFI_CLAIM_WATCHED;
    lease->claim.tokens_wanted = HFI_BLOCK_FIRST;
}

static struct hfi_lease *find(const struct hfi_shard *shard, const struct hfi_name *name)
{
    struct hfi_lease *lease = hfi_table_chain(shard, name->hash);

    while (lease && !(atomic_load_explicit(&lease->phase, memory_order_relaxed) == HFI_IDLE &&
                      hfi_table_same(&lease->claim.name, name)))
        lease = lease->next;
    return lease;
}

/* May this request have it? Then only a token may be missing. */
static bool fits(const struct hfi_lease *idle, const struct taker *taker, int64_t now_ms)
{
    const unsigned soft = HFI_CLAIM_WATCHED | HFI_CLAIM_LINGERS; /* an idle claim has both */
    int64_t least_ms = taker->min_valid_ms > 0 ? taker->min_valid_ms : 1;

    return taker->passable && idle->claim.mode == taker->mode &&
           idle->claim.ttl_ms == taker->ttl_ms &&
           (idle->claim.flags & ~soft) == (taker->flags & ~soft) &&
           !atomic_load_explicit(&idle->wanted, memory_order_relaxed) &&
           hfi_term_remaining(&idle->term, now_ms) >= least_ms;
}

/* IDLE becomes HELD, without a holder yet. */
static void wake(struct hfi_lease *idle)
{
    atomic_load_explicit(&idle->shard, memory_order_relaxed)->idles--;
    idle->parts |= HFI_PART_HANDLE;
    atomic_store_explicit(&idle->phase, HFI_HELD, memory_order_relaxed);
}

/* The numbers of a hold that begins with an idle lease. */
static void count_taken(struct hfi_lease *idle, const struct taker *taker)
{
    atomic_load_explicit(&idle->shard, memory_order_relaxed)->stats.lingered++;
    if (!hfi_observed())
        return;
    idle->id = taker->id;
    if (taker->begins)
        hfi_observe_begin(idle);
    hfi_observe(idle, (hf_observation){ .what = HF_OBSERVED_GRANTED, .local = true });
}

static hf_lease *take(struct hfi_lease *idle, const struct taker *taker, int64_t now_ms)
{
    struct hfi_store *store = idle->store;

    wake(idle);
    hfi_idle_next_token(idle);
    idle->reentrant = taker->reentrant;
    idle->scoped = taker->scoped;
    idle->scope = taker->scope;
    idle->in_loop = taker->in_loop;
    idle->watch = taker->watch;
    idle->unchecked = taker->unchecked;
    idle->since_ms = idle->granted_ms = now_ms;
    idle->linger.ms = taker->linger_ms > 0
                          ? hfi_adapt_linger(store, idle->claim.name.hash, taker->linger_ms, now_ms)
                          : 0;
    hfi_events_begin(&idle->events, taker->fn, taker->arg);
    hfi_lease_fresh(idle);
    count_taken(idle, taker);
    if (idle->linger.noted)
        hfi_store_engine(store)->passed(store->opened, &idle->claim, idle->token, hfi_thread_tid());
    idle->linger.noted = false;
    if (runs_out(idle))
        ask_for_tokens(idle, now_ms);
    else if (idle->term.renewing)
        hfi_idle_arm(idle, hfi_term_next(&idle->term, now_ms).at_ms); /* it may be at risk */
    return hfi_slot_publish(&idle->slot, HFI_KIND_LEASE);
}

bool hfi_idle_acquire(hf_store *handle, struct hfi_store *store,
                      const struct hfi_checked_request *checked, hf_lease **ret_lease)
{
    const hf_acquire_request *request = checked->request;
    struct hfi_name name = { .bytes = checked->name, .len = checked->name_len };
    struct hfi_shard *shard;
    struct hfi_lease *idle;
    int64_t now_ms;
    bool taken;
    struct taker taker = {
        .mode = checked->mode,
        .ttl_ms = checked->ttl_ms,
        .min_valid_ms = request->min_valid_ms,
        .linger_ms = checked->linger_ms,
        .flags = request->flags & HF_FLAG_BARGE ? HFI_CLAIM_BARGE : 0,
        .passable = true,
        .reentrant = request->flags & HF_FLAG_REENTRANT,
        .scoped = request->scope != 0,
        .watch = request->flags & HF_FLAG_WATCH,
        .unchecked = request->flags & HF_FLAG_NO_DEADLOCK_CHECK,
        .begins = true,
        .scope = request->scope ? request->scope : hfi_thread_id(),
        .fn = request->on_event,
        .arg = request->on_event_arg,
    };

    if (request->cancel ||
        (request->on_event && !(atomic_load(&store->started) & HFI_STARTED_NOTIFY)))
        return false;
    hfi_hash128(name.bytes, name.len, name.hash);
    shard = hfi_store_shard(store, name.hash);
    pthread_mutex_lock(&shard->lock);
    idle = shard->idles > 0 && hfi_slot_is(&store->slot, handle) ? find(shard, &name) : NULL;
    now_ms = idle ? hfi_now_ms() : 0;
    taken = idle && fits(idle, &taker, now_ms) && has_token(idle);
    if (taken)
        *ret_lease = take(idle, &taker, now_ms);
    pthread_mutex_unlock(&shard->lock);
    if (taken && store->detector.able && hfi_session_counts(request))
        hfi_session_holds(store, request->scope, *ret_lease);
    return taken;
}

enum hfi_idle_entrance hfi_idle_enter(struct hfi_shard *shard, struct hfi_lease *lease,
                                      int64_t min_valid_ms, hf_lease **ret_lease,
                                      struct hfi_lease **ret_idle, struct hfi_idle_end *ret_end)
{
    struct hfi_lease *idle = find(shard, &lease->claim.name);
    int64_t now_ms = idle ? hfi_now_ms() : 0;
    struct taker taker = {
        .mode = lease->claim.mode,
        .ttl_ms = lease->claim.ttl_ms,
        .min_valid_ms = min_valid_ms,
        .linger_ms = lease->linger.ms,
        .flags = lease->claim.flags,
        .passable = (lease->pass || lease->linger.ms > 0) && lease->claim.lock_delay_ms == 0,
        .reentrant = lease->reentrant,
        .scoped = lease->scoped,
        .in_loop = lease->in_loop,
        .watch = lease->watch,
        .unchecked = lease->unchecked,
        .scope = lease->scope,
        .id = lease->id,
        .fn = lease->events.fn,
        .arg = lease->events.arg,
    };

    if (!idle)
        return HFI_IDLE_NONE;
    if (!fits(idle, &taker, now_ms)) {
        hfi_idle_end(idle, ret_end);
        return HFI_IDLE_NONE;
    }
    if (has_token(idle)) {
        *ret_lease = take(idle, &taker, now_ms);
        return HFI_IDLE_TAKEN;
    }
    if (!idle->linger.refill)
        ask_for_tokens(idle, now_ms);
    *ret_idle = idle;
    return HFI_IDLE_WAIT;
}

/* ---- going idle, and ending ----------------------------------------------------------- */

static bool may_linger(const struct hfi_lease *lease)
{
    struct hfi_store *store = lease->store;

    return lease->linger.ms > 0 && lease->claim.flags & HFI_CLAIM_LINGERS &&
           lease->term.state == HF_STATE_HELD && !lease->term.doubtful && !lease->orphan &&
           lease->term.ttl_ms == lease->claim.ttl_ms &&
           !atomic_load_explicit(&lease->wanted, memory_order_relaxed) &&
           !atomic_load_explicit(&lease->gone, memory_order_relaxed) &&
           (lease->named_by == 0 || lease->named_by == hfi_thread_id()) &&
           atomic_load(&store->hears) && !atomic_load(&store->closing.on);
}

bool hfi_idle_begin(struct hfi_lease *lease)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);
    bool waits = !hfi_list_empty(&lease->queue);
    int64_t now_ms;

    if (!may_linger(lease) || (waits && (has_token(lease) || !lease->pass)))
        return false;
    now_ms = hfi_now_ms();
    if (hfi_term_remaining(&lease->term, now_ms) == 0)
        return false;
    hfi_stats_hold_released(lease, now_ms);
    lease->id = 0;
    lease->waited_ms = 0;
    lease->handed = false;
    hfi_slot_retire(&lease->slot);
    (void)hfi_lease_drop(lease, HFI_PART_HANDLE);
    atomic_store_explicit(&lease->phase, HFI_IDLE, memory_order_relaxed);
    shard->idles++;
    lease->passes = 0;
    lease->linger.since_ms = now_ms;
    hfi_events_begin(&lease->events, NULL, NULL);
    lease->watch = false;
    if (lease->fd >= 0)
        close(lease->fd);
    lease->fd = -1;
    if (runs_out(lease) || (waits && !lease->linger.refill))
        ask_for_tokens(lease, now_ms);
    else
        arrange_look(lease, now_ms);
    return true;
}

void hfi_idle_end(struct hfi_lease *lease, struct hfi_idle_end *ret_end)
{
    struct hfi_shard *shard = atomic_load_explicit(&lease->shard, memory_order_relaxed);

    shard->idles--;
    atomic_store_explicit(&lease->phase, HFI_ENDING, memory_order_relaxed);
    hfi_table_unlink(shard, lease);
    if (lease->timed)
        hfi_keeper_forget(lease->store, &lease->timer);
    lease->timed = false;
    /* From now on it is not counted in its shard, for nobody holds it, but hf_close() waits for it as for what is settled. */
    hfi_keeper_busy(lease->store);
    hfi_shard_leave(shard);
    ret_end->lease = lease;
    ret_end->go = hfi_list_empty(&lease->queue) ? NULL : hfi_local_queue_hand_on(lease);
}

void hfi_idle_recalled(struct hfi_lease *lease)
{
    const struct hfi_linger *linger = &lease->linger;
    int64_t now_ns = hfi_now_ns();
    struct hfi_adapt_use use = { linger->takes, linger->waited_ns, now_ns - linger->from_ns };

    hfi_adapt_recalled(lease->store, lease->claim.name.hash, &use, now_ns / 1000000);
}

void hfi_idle_finish(struct hfi_idle_end *end)
{
    if (end->lease)
        hfi_settle_now(end->lease);
    if (end->passed)
        hfi_wait_tell(end->passed, HFI_WAIT_PASSED);
    if (end->go)
        hfi_wait_tell(end->go, HFI_WAIT_GO);
}

/* ---- time ------------------------------------------------------------------------------- */

void hfi_idle_arm(struct hfi_lease *lease, int64_t at_ms)
{
    if (at_ms > lease->linger.look_ms)
        at_ms = lease->linger.look_ms;
    if (lease->linger.refill && !lease->term.renewing)
        at_ms = 0; /* it is due, and the keeper has not come to it yet */
    if (at_ms != HFI_NEVER)
        hfi_keeper_arm(lease->store, &lease->timer, at_ms);
}

/* When the keeper must look at an IDLE lease: half way, to tell the store that it is idle, and at the end. */
static int64_t look_at(const struct hfi_lease *lease)
{
    const struct hfi_linger *linger = &lease->linger;
    int64_t note_ms = (linger->ms + 1) / 2 < NOTE_MS ? (linger->ms + 1) / 2 : NOTE_MS;

    return linger->since_ms + (linger->noted ? linger->ms : note_ms);
}

/* The timer is set once, and not anew with each release: when it fires, the keeper finds out whether it is time. */
static void arrange_look(struct hfi_lease *lease, int64_t now_ms)
{
    int64_t at_ms = look_at(lease);

    if (lease->linger.look_ms <= at_ms)
        return;
    lease->linger.look_ms = at_ms;
    hfi_idle_arm(lease, hfi_term_next(&lease->term, now_ms).at_ms);
}

bool hfi_idle_due(struct hfi_lease *lease, int64_t now_ms, struct hfi_idle_end *ret_end)
{
    struct hfi_linger *linger = &lease->linger;
    struct hfi_store *store = lease->store;

    if (hfi_term_remaining(&lease->term, now_ms) == 0 ||
        (now_ms >= linger->since_ms + linger->ms && hfi_list_empty(&lease->queue))) {
        hfi_idle_end(lease, ret_end);
        return true;
    }
    if (!linger->noted && now_ms >= look_at(lease) && hfi_store_engine(store)->passed) {
        hfi_store_engine(store)->passed(store->opened, &lease->claim, lease->token, 0);
        linger->noted = true;
    }
    linger->look_ms = look_at(lease) > now_ms ? look_at(lease) : now_ms + linger->ms;
    return false;
}

int64_t hfi_idle_ttl(const struct hfi_lease *lease, int64_t now_ms)
{
    const struct hfi_term *term = &lease->term;
    int64_t ttl_ms = SHORT_TTL_LINGERS * lease->linger.ms;
    bool held = atomic_load_explicit(&lease->phase, memory_order_relaxed) == HFI_HELD;

    if (!(lease->claim.flags & HFI_CLAIM_LINGERS) ||
        (held && (lease->linger.ms == 0 || lease->since_ms < term->sent_ms)))
        return term->ttl_ms;
    if (ttl_ms < SHORT_TTL_MS)
        ttl_ms = SHORT_TTL_MS;
    if (ttl_ms < term->min_ttl_ms)
        ttl_ms = term->min_ttl_ms;
    /* A holder keeps the time that it has: it may rely on that (min_valid_ms). */
    if (held && ttl_ms < term->sent_ms + term->granted_ms - now_ms)
        ttl_ms = term->sent_ms + term->granted_ms - now_ms;
    return ttl_ms < term->ttl_ms ? ttl_ms : term->ttl_ms;
}

uint32_t hfi_idle_tokens(const struct hfi_lease *lease)
{
    return lease->linger.refill ? lease->linger.block : 0;
}

void hfi_idle_renewed(struct hfi_lease *lease, const struct hfi_renewal *item, bool lost,
                      int64_t now_ms, struct hfi_idle_end *ret_end)
{
    if (item->tokens_wanted > 0) {
        lease->linger.refill = false;
        take_block(lease, item);
    }
    if (atomic_load_explicit(&lease->phase, memory_order_relaxed) != HFI_IDLE)
        return;
    if (atomic_load_explicit(&lease->wanted, memory_order_relaxed))
        hfi_idle_recalled(lease);
    else if (!lost && lease->term.state == HF_STATE_HELD) {
        if (hfi_list_empty(&lease->queue)) {
            hfi_idle_arm(lease,
                         lease->linger.refill ? now_ms : hfi_term_next(&lease->term, now_ms).at_ms);
            return;
        }
        if (has_token(lease)) {
            wake(lease);
            ret_end->passed = hfi_local_queue_pass(lease, false);
            if (ret_end->passed) {
                hfi_idle_arm(lease, hfi_term_next(&lease->term, now_ms).at_ms);
                return;
            }
            lease->parts &= ~HFI_PART_HANDLE;
            atomic_load_explicit(&lease->shard, memory_order_relaxed)->idles++;
        }
    }
    hfi_idle_end(lease, ret_end);
}

/* ---- all of a store ------------------------------------------------------------------ */

/* How many there are. */
static uint32_t count(struct hfi_shard *shard)
{
    uint32_t idles;

    pthread_mutex_lock(&shard->lock);
    idles = shard->idles;
    pthread_mutex_unlock(&shard->lock);
    return idles;
}

/* Take one out; `counted`: it is counted in its shard again. false: there is none. *at: where to look first, and next time: what was
 * looked at is not looked at again for each of many. */
static bool end_one(struct hfi_shard *shard, bool counted, uint32_t *at, bool *ret_sole,
                    struct hfi_idle_end *ret_end)
{
    *ret_end = (struct hfi_idle_end){ NULL, NULL, NULL };
    pthread_mutex_lock(&shard->lock);
    for (uint32_t b = 0; b < shard->bucket_count && shard->idles > 0 && !ret_end->lease; b++) {
        struct hfi_lease *lease = shard->buckets[*at % shard->bucket_count];

        while (lease && atomic_load_explicit(&lease->phase, memory_order_relaxed) != HFI_IDLE)
            lease = lease->next;
        if (!lease) {
            ++*at;
            continue;
        }
        hfi_idle_end(lease, ret_end);
        *ret_sole = lease->parts == HFI_PART_CLAIM;
        shard->entered += counted;
    }
    pthread_mutex_unlock(&shard->lock);
    return ret_end->lease != NULL;
}

void hfi_idle_end_all(struct hfi_store *store)
{
    const struct hfi_drive *drive = hfi_store_engine(store)->drive;
    struct hfi_idle_end end;
    bool sole;

    if (drive->cork)
        drive->cork(store->opened, true);
    for (int i = 0; i < HFI_SHARDS; i++)
        for (uint32_t at = 0; end_one(&store->shards[i], false, &at, &sole, &end);)
            hfi_idle_finish(&end);
    if (drive->cork)
        drive->cork(store->opened, false);
}

hf_status hf_idle_release(hf_store *handle, hf_error *err)
{
    struct hfi_store *store;
    struct hfi_idle_end end;
    hf_status status = hfi_store_enter(handle, &store, err), one;
    bool sole = false;
    uint32_t at = 0;

    if (status != HF_OK)
        return status;
    hfi_ok(err);
    for (int i = 0; i < HFI_SHARDS; i++)
        /* Other threads may use the store: not those that become idle meanwhile. */
        for (uint32_t left = count(&store->shards[i]);
             left > 0 && end_one(&store->shards[i], true, &at, &sole, &end); left--) {
            hfi_keeper_idle(store); /* this thread waits for it */
            one = hfi_release_claim(end.lease, sole, end.go, status == HF_OK ? err : NULL);
            if (status == HF_OK && one != HF_LOST)
                status = one;
        }
    if (status == HF_OK)
        hfi_ok(err);
    hfi_store_leave(store);
    return status;
}
