/* SPDX-License-Identifier: MIT */
/*
 * Sessions: what a waiter holds while it waits. For deadlock detection.
 *
 * A session is a thread, or the scope that a request names, or what another process
 * told about itself (hf_session_get()). Only its process knows what it holds, and tells others when
 * it matters: if a session holds something in a store and makes a request that may have to wait,
 * that request carries a *tag* behind its label. Engines store labels anyway. A lease carries
 * nothing: the tag of the waiter says "that lease is mine". So
 *
 *   - an acquire of a session that holds nothing costs a look at one number;
 *   - a lease that was passed on from thread to thread has no wrong name on it: the
 *     thread that waits names it, and does not pass it on meanwhile;
 *   - a holder that no tag names is assumed to be free to go on.
 *
 * A tag is a byte 0x1f, then letters of base 64:
 *
 *   flags 1 | began 4 | session 6 | number 2 | what it holds: 8 each
 *
 * A request for any one of several names waits for all of them, with the same tag, in which one letter behind `number` says how
 * many they are, less one: only a view with all of them can say that it is stuck. It is written even if the session holds nothing:
 * what stands behind one of these waits must know that the end of another one ends it.
 *
 * `began` is the second in which the wait began, by the wall clock, modulo 2^24. All
 * processes see the same number: so all agree which of several requests is the last.
 */
#ifndef HFI_DEADLOCK_SESSION_H
#define HFI_DEADLOCK_SESSION_H

#include "core/request.h"

#include <pthread.h>
#include <string.h>

#define HFI_HOLDS_MAX   8 /* leases that a tag can name: the latest */
#define HFI_TAG_MAX     (1 + 1 + 4 + 6 + 2 + 1 + 8 * HFI_HOLDS_MAX)
#define HFI_SCOPE_LISTS 32
#define HFI_TAG_MARK    0x1f

struct hfi_lease;
struct hfi_store;

struct hfi_tag {
    uint64_t session; /* 36 bits */
    uint32_t began;   /* 24 bits */
    uint32_t number;  /* 12 bits: which wait of this session */
    bool timed;       /* it has a time limit or a canceller */
    bool barge;       /* it may overtake others */
    /* that many waits have this tag, and all end when one is granted; 0: it is a wait of its own */
    uint32_t any;
    uint32_t count;                /* 0: it holds nothing, and no other process need know of it */
    uint64_t holds[HFI_HOLDS_MAX]; /* hfi_hold_id() */
};

/* Which lease: 48 bits of a hash of the name's hash and the first token of its block. */
uint64_t hfi_hold_id(const uint64_t name_hash[2], uint64_t token);

/* Write the tag behind a label; returns its length. */
size_t hfi_tag_write(const struct hfi_tag *tag, char to[HFI_TAG_MAX]);
/* May the label have a tag? */
static inline bool hfi_tag_maybe(const char *label)
{
    return strchr(label, HFI_TAG_MARK) != NULL;
}
/* Take the tag off a label, in place. false: it has none. */
bool hfi_tag_cut(char *label, struct hfi_tag *ret_tag);

/* ---- what sessions hold ------------------------------------------------------------ */

/* The scopes that hold something through a store. */
struct hfi_scopes {
    pthread_mutex_t lock;
    struct hfi_scope *lists[HFI_SCOPE_LISTS];
};

void hfi_scopes_init(struct hfi_scopes *scopes, bool fresh);
void hfi_scopes_done(struct hfi_scopes *scopes);

/*
 * A request is about to be made. Fills in the tag of its wait, whose count is 0 if
 * the session holds nothing in this store. HF_DEADLOCK: it would wait for itself.
 */
hf_status hfi_session_ask(struct hfi_store *store, const struct hfi_checked_request *checked,
                          bool async, struct hfi_tag *ret_tag, hf_error *err);
/* Is the lease one that a session holds until it releases it? A lease that ends by itself blocks no
 * request for ever. */
static inline bool hfi_session_counts(const hf_acquire_request *request)
{
    return !(request->flags & (HF_FLAG_NO_DEADLOCK_CHECK | HF_FLAG_DETACHED | HF_FLAG_NO_RENEW)) &&
           request->max_hold_ms == 0;
}
/* The lease was granted to this scope, or with 0 to this thread. */
void hfi_session_holds(struct hfi_store *store, uint64_t scope, hf_lease *handle);

#endif
