/* SPDX-License-Identifier: MIT */
/*
 * A lease slot: one claim on the store, and its current holder in this process.
 *
 * The claim stays in its slot for as long as the engine may use it. When a lease is passed to
 * another local thread, the slot gets a new handle and a new holder, and the claim stays where it
 * is. The phases of a slot:
 *
 *            queue: its turn             granted              release, close
 *   FREE --------------------> GOING ------------> HELD -------------------> ENDING
 *     ^                          |                |  ^  \                       ^ |
 *     |                          | failed         +--+   +<--> IDLE ------------+ |
 *     |                          |     passed on: new handle     idle.h           |
 *     +--------------------------+------------------------------------------------+
 *                                                    when no part is left
 *
 * A slot is freed when none of its parts is left: the caller's handle, the claim in the store, a
 * renewal that is under way. (An event that is still to be told is no part: hf_release() takes it back, or waits until LOST has
 * been told before it drops the claim.) Everything is under the lock of the slot's shard, except what the owner of a
 * GOING slot writes before the lease is published.
 */
#ifndef HFI_LEASE_H
#define HFI_LEASE_H

#include "core/handle.h"
#include "core/heap.h"
#include "core/linger.h"
#include "core/notify.h"
#include "core/term.h"
#include "holdfast/observe.h"
#include "util/list.h"

#include <string.h>

struct hfi_shard;
struct hfi_store;
struct hfi_wait;
struct hfi_checked_request;

enum hfi_phase { HFI_FREE, HFI_GOING, HFI_HELD, HFI_IDLE, HFI_ENDING };

/* What hf_lease_wanted() and hf_yield() read without a lock. WANTED: others wait, in the store or here. */
enum hfi_level { HFI_LEVEL_QUIET, HFI_LEVEL_WANTED, HFI_LEVEL_UNWATCHED, HFI_LEVEL_LOST };

#define HFI_PART_HANDLE  1u
#define HFI_PART_CLAIM   2u
#define HFI_PART_RENEWAL 4u

#define HFI_SHORT_NAME 64
#define HFI_WHY_MAX    120
#define HFI_NAMED_ANY  UINT64_MAX /* not one thread alone */

/* `struct hfi_lease` is the slot behind an hf_lease handle. In a free slot the members marked * are
 * as they were when it was new: NULL, empty, -1 or false. */
struct hfi_lease {
    struct hfi_slot slot;
    /* its lock guards the slot; set before the handle is published */
    _Atomic(struct hfi_shard *) shard;
    struct hfi_store *store;

    struct hfi_lease *next, **link; /* in the shard's table; link NULL*: not in it */
    _Atomic int phase;              /* enum hfi_phase */
    _Atomic int gone;               /* * the store reported its end, perhaps before the grant */
    /* others wait for the claim, as far as the store has told us: core/wanted.c */
    _Atomic bool wanted;
    _Atomic unsigned char level; /* enum hfi_level */
    unsigned parts;              /* HFI_PART_* */
    bool pass;                   /* may be passed on locally */
    bool hot;                    /* * local waiters were seen: a block of tokens pays off */
    bool timed;                  /* * has a place for its timer at the keeper */
    bool listens;                /* * counted in store->listens */
    bool heard;    /* others wait: host->wanted() has said so since the last renewal was sent */
    bool exported; /* * detached, and its handle was exported */
    bool orphan;   /* * its store was closed */
    bool reentrant, scoped; /* scoped: `scope` was given, else it is a thread's id */
    bool in_loop;   /* acquired asynchronously: its callback comes from hf_store_process() */
    bool watch;     /* HF_FLAG_WATCH, of the holder */
    bool unchecked; /* HF_FLAG_NO_DEADLOCK_CHECK, likewise */
    bool handed;    /* the store granted it after a wait in its queue */
    /* hf_convert() is under way: another claim may have taken its place in the store */
    bool converting;
    bool changed;   /* since the last hf_lease_get(): its descriptor is readable */
    hf_state noted; /* the state of which its holder has been told, or will be */
    uint32_t holds, passes;
    uint64_t named_by; /* the thread whose waits named it, HFI_NAMED_ANY, 0: see session.h */
    uint64_t scope;
    uint64_t token;
    int64_t since_ms; /* held since */
    union {
        /* before the grant: its request began to wait then; 0: it has not waited */
        int64_t begun_ms;
        int64_t looked_ms; /* held: when hfi_lease_expire() read the clock last */
    };
    uint64_t id;         /* for the observer; 0: there was none when it began */
    int64_t granted_ms;  /* the store granted the claim then: the present hold may be a later one */
    int64_t min_hold_ms; /* 0: none; else ... */
    int64_t stay_ms;     /* ... the name stays held until then: its claim is not released before */
    struct hfi_term term;
    struct hfi_linger linger;

    uint32_t waited_ms;   /* how long its holder has waited for it */
    uint32_t asks;        /* how often its holder was asked for it ... */
    int64_t asked_ms;     /* ... and when it was told so last; 0: never */
    int64_t min_valid_ms; /* of the request; that of the claim may be more */
    int fd;               /* * for hf_lease_fd() */
    struct hfi_events events;
    struct hfi_list queue;  /* * local waiters (struct hfi_wait), in order */
    struct hfi_timer timer; /* * */

    struct hfi_list settling; /* * in the keeper's list of claims to release */
    int64_t settle_ms;        /* not before */
    uint32_t settle_tries;

    hf_lease *replaces; /* HFI_CLAIM_REPLACES: the lease whose place the claim takes */
    struct hfi_claim claim;
    const char *why;          /* how it was lost, or why it is at risk */
    char *why_copy;           /* * a copy of the engine's text */
    char *label;              /* * */
    unsigned char *long_name; /* * */
    unsigned char short_name[HFI_SHORT_NAME];
};

extern struct hfi_table hfi_leases;

/* A slot for a checked request, not in any table yet. NULL: out of memory. */
struct hfi_lease *hfi_lease_new(struct hfi_store *store, const struct hfi_checked_request *checked);
/* Give the slot back; no part is left and it is in no list. */
void hfi_lease_free(struct hfi_lease *lease);
/* Likewise for a slot that is counted in its shard. */
void hfi_lease_leave(struct hfi_lease *lease);
/* The slot no longer keeps the store open. */
void hfi_lease_uncount(struct hfi_lease *lease);

/*
 * Find the lease of a handle and lock its shard. HF_INVALID, HF_FORKED: nothing
 * is locked. A lease whose validity has ended is marked LOST here, so that no call
 * sees it held; *ret_next is then the local waiter to be woken after unlocking.
 */
hf_status hfi_lease_lock(hf_lease *handle, struct hfi_lease **ret_lease,
                         struct hfi_wait **ret_next);
void hfi_lease_unlock(struct hfi_lease *lease, struct hfi_wait *next);
/* Why there is no lease to lock: fill in err. Returns status, which is not HF_OK. */
hf_status hfi_lease_refuse(hf_status status, hf_error *err);

/* The store of a lease, which stays open until hfi_shard_leave(). Not HF_OK: no such lease, or its store was closed. */
hf_status hfi_lease_enter_store(hf_lease *handle, struct hfi_store **ret_store,
                                struct hfi_shard **ret_shard, hf_error *err);

/* Its timer has a place from now on. An old timer of the slot may be firing at this moment. */
void hfi_lease_timed(struct hfi_lease *lease);

/* The store granted the claim: the slot becomes a lease. Its owner calls this, without the lock. */
hf_lease *hfi_lease_begin(struct hfi_lease *lease, int64_t since_ms);

/* It is lost; `why` is a literal. With the lock. Returns the local waiter that goes to the store now, or
 * NULL. */
struct hfi_wait *hfi_lease_lose(struct hfi_lease *lease, hf_loss loss, const char *why);

/* The claim in this slot may have taken the place of another lease, and is not to be used: that one is lost before this one is
 * released. Without the lock. */
void hfi_lease_lose_replaced(struct hfi_lease *lease);

/* Read the clock, and lose the lease if its validity has ended. With the lock; returns likewise. */
struct hfi_wait *hfi_lease_expire(struct hfi_lease *lease);

/* A holder begins: what belongs to the hold and not to the claim. By its owner, or with the lock. */
static inline void hfi_lease_fresh(struct hfi_lease *lease)
{
    atomic_store_explicit(&lease->level, lease->watch ? HFI_LEVEL_QUIET : HFI_LEVEL_UNWATCHED,
                          memory_order_relaxed);
    lease->noted = HF_STATE_HELD;
    lease->changed = false;
    lease->asks = 0;
    lease->asked_ms = 0;
    lease->holds = 1;
    atomic_store_explicit(&lease->claim.holds, 1, memory_order_relaxed);
    lease->named_by = 0;
}

/* The keeper need not drive for its sake any more. */
void hfi_lease_deafen(struct hfi_lease *lease);

/* Drop these parts, with the lock; true: none is left, and the caller frees the slot after
 * unlocking. */
static inline bool hfi_lease_drop(struct hfi_lease *lease, unsigned parts)
{
    lease->parts &= ~parts;
    return lease->parts == 0;
}

static inline bool hfi_lease_lost(const struct hfi_lease *lease)
{
    return lease->term.state == HF_STATE_LOST;
}

/* May others hold the name at the same time? A semaphore whose size can be set is never all ours. With the lock. */
bool hfi_lease_overlaps(const struct hfi_lease *lease);

/* Must its claim stay in the store for now? */
static inline bool hfi_lease_stays(const struct hfi_lease *lease, int64_t now_ms)
{
    return lease->stay_ms > now_ms && !atomic_load_explicit(&lease->gone, memory_order_relaxed);
}

/* The store has ended the lease of `name` with `token`, as a call of this process asked: if it is ours, it is lost now, and not only when the
 * store's message comes. Without locks. */
void hfi_lease_broken(struct hfi_store *store, const struct hfi_name *name, uint64_t token);
/* host->lost() */
struct hfi_host;
void hfi_lease_gone(struct hfi_host *host, struct hfi_claim *claim,
                    const unsigned char owner[HFI_OWNER_LEN], const char *why);
/* host->wanted(), host->hears(): wanted.c */
void hfi_lease_wanted(struct hfi_host *host, struct hfi_claim *claim,
                      const unsigned char owner[HFI_OWNER_LEN], enum hfi_wanted what,
                      const char *text);
void hfi_store_hears(struct hfi_host *host, bool on);
/* host->doubt() */
void hfi_lease_doubt(struct hfi_host *host, const char *why);

#endif
