/* SPDX-License-Identifier: MIT */
/*
 * etcd's leases. Claims of a store with the same ttl share one, and one keepalive renews it for all
 * of them; a detached claim has a lease of its own, because another process must be able to adopt
 * it.
 *
 * When can a keepalive be trusted? In etcd 3.4 a leader that has been replaced and does not know it
 * yet may answer it, while the new leader counts from an earlier time. So a keepalive counts only
 * after a linearizable read, sent after its answer, has returned with the same term: then the
 * leader that answered was still the leader. It counts from its own send.
 *
 * Retiring. A late copy of an acquire would create a key that nobody knows, and the shared lease
 * would keep it alive for as long as others use it. So such a lease gets no new claims, its claims
 * move to another one, and it is revoked: a copy that comes later is refused, and a key that came
 * earlier is gone.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <string.h>

#define SIXTHS         6
#define KEEP_AGAIN_MS  1000 /* after a keepalive that failed */
#define CLOSE_LIMIT_MS 500

static void grant(struct etcd_store *store, struct etcd_lease *lease);

int64_t etcd_seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

int64_t etcd_lease_left_ms(const struct etcd_lease *lease, int64_t now_ms)
{
    return lease->state == ETCD_LEASE_LIVE ? lease->base_ms + lease->granted_ms - now_ms : 0;
}

/* ---- getting and giving back ------------------------------------------------------------------------ */

static void answered_nothing(struct etcd_call *call, enum hfi_outcome outcome,
                             struct etcd_message reply, const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err; /* otherwise it ends with its ttl */
}

static void revoke(struct etcd_store *store, const struct etcd_lease *lease)
{
    struct etcd_call *call = etcd_call_new(store, &etcd_revoke_method, answered_nothing, NULL);

    if (!call)
        return;
    call->again = true;
    etcd_add_id(&call->body, lease->id);
    etcd_call_send(call);
}

static void free_lease(struct etcd_store *store, struct etcd_lease *lease)
{
    struct etcd_lease **at = &store->leases;

    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    hfi_free(lease);
}

void etcd_lease_drop(struct etcd_store *store, struct etcd_lease *lease)
{
    if (!lease || --lease->refs > 0)
        return;
    if (!lease->own && !lease->retiring && lease->state == ETCD_LEASE_LIVE)
        return; /* for the next one */
    if (lease->state == ETCD_LEASE_LIVE && !store->closing && !lease->spare)
        revoke(store, lease);
    free_lease(store, lease);
}

static struct etcd_lease *new_lease(struct etcd_store *store, int64_t ttl_s, bool own)
{
    struct etcd_lease *lease = hfi_calloc(1, sizeof *lease);

    if (!lease)
        return NULL;
    lease->ttl_s = ttl_s;
    lease->own = own;
    lease->refs = 1;
    lease->keep_ms = HFI_NEVER;
    lease->next = store->leases;
    store->leases = lease;
    return lease;
}

struct etcd_lease *etcd_lease_get(struct etcd_store *store, int64_t ttl_ms, bool own)
{
    int64_t ttl_s = etcd_seconds(ttl_ms), now_ms = hfi_now_ms();
    struct etcd_lease *lease = store->leases, *next;

    for (; lease; lease = next) {
        next = lease->next;
        if (lease->state == ETCD_LEASE_LIVE && !lease->own && !lease->busy &&
            etcd_lease_left_ms(lease, now_ms) <= 0) {
            lease->retiring = true; /* it has probably ended */
            if (lease->refs == 0)
                free_lease(store, lease);
            continue;
        }
        if (!own && !lease->own && !lease->retiring && lease->state != ETCD_LEASE_GONE &&
            lease->ttl_s == ttl_s) {
            lease->refs++;
            return lease;
        }
    }
    return new_lease(store, ttl_s, own);
}

struct etcd_lease *etcd_lease_known(struct etcd_store *store, int64_t id, int64_t ttl_s)
{
    struct etcd_lease *lease = new_lease(store, ttl_s, true);

    if (!lease)
        return NULL;
    lease->id = id;
    lease->state = ETCD_LEASE_LIVE; /* a keepalive will tell its ttl */
    return lease;
}

/* ---- who waits for it -------------------------------------------------------------------------------- */

static void tell(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                 const hf_error *err)
{
    struct etcd_ask *ask = lease->asks, *next;

    lease->asks = NULL; /* callbacks may ask again: those are not answered in this loop */
    for (; ask; ask = next) {
        next = ask->next;
        ask->ready(store, lease, status, err, ask->data);
    }
}

void etcd_lease_ready(struct etcd_store *store, struct etcd_lease *lease, int sixths,
                      struct etcd_ask *ask)
{
    if (lease->state == ETCD_LEASE_GONE) {
        ask->ready(store, lease, HF_LOST, NULL, ask->data);
        return;
    }
    if (lease->state == ETCD_LEASE_LIVE && lease->granted_ms > 0 &&
        etcd_lease_left_ms(lease, hfi_now_ms()) >= lease->granted_ms * sixths / SIXTHS) {
        ask->ready(store, lease, HF_OK, NULL, ask->data);
        return;
    }
    ask->next = lease->asks;
    lease->asks = ask;
    if (lease->state == ETCD_LEASE_NEW)
        grant(store, lease);
    else
        etcd_lease_keep(store, lease);
}

void etcd_lease_unask(struct etcd_lease *lease, const struct etcd_ask *ask)
{
    for (struct etcd_ask **at = &lease->asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            return;
        }
}

void etcd_lease_gone(struct etcd_store *store, struct etcd_lease *lease, const char *why)
{
    if (lease->state == ETCD_LEASE_GONE)
        return;
    lease->state = ETCD_LEASE_GONE;
    lease->keep_ms = HFI_NEVER;
    for (const struct hfi_list *at = store->claims.next; at != &store->claims; at = at->next)
        if (etcd_claim(etcd_claim_listed(at))->lease == lease)
            hfi_reactor_lost(&store->reactor, etcd_claim_listed(at), why);
    tell(store, lease, HF_LOST, NULL);
    etcd_waits_lease_gone(store, lease);
}

/* ---- grant --------------------------------------------------------------------------------------------- */

static void granted(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_lease *lease = call->data;
    int64_t id = etcd_number(reply, ETCD_LEASE_ID), ttl_ms = etcd_ttl_ms(reply);
    hf_error odd;

    lease->busy = false;
    if (outcome == HFI_ANSWERED && id != 0 && ttl_ms > 0) {
        lease->id = id;
        lease->granted_ms = ttl_ms;
        lease->base_ms = call->sent_ms;
        lease->keep_ms = lease->base_ms + lease->granted_ms / 3;
        lease->state = ETCD_LEASE_LIVE;
        tell(store, lease, HF_OK, NULL);
    } else {
        lease->state = ETCD_LEASE_GONE; /* if it was granted, it has no keys and ends by itself */
        hfi_error_set(&odd, HF_CORRUPT, 0, "an unexpected answer");
        if (outcome == HFI_ANSWERED)
            tell(store, lease, HF_CORRUPT, &odd);
        else
            tell(store, lease, hfi_outcome_read_status(outcome, err), err);
    }
    etcd_lease_drop(store, lease);
}

static void grant(struct etcd_store *store, struct etcd_lease *lease)
{
    struct etcd_call *call;

    if (lease->busy)
        return;
    lease->busy = true;
    lease->refs++;
    call = etcd_call_new(store, &etcd_grant_method, granted, NULL);
    if (!call) {
        lease->busy = false;
        lease->state = ETCD_LEASE_GONE;
        tell(store, lease, HF_NO_MEMORY, NULL);
        etcd_lease_drop(store, lease);
        return;
    }
    call->data = lease;
    call->again = true;
    etcd_add_id(&call->body, lease->ttl_s);
    etcd_call_send(call);
}

/* ---- keep alive -------------------------------------------------------------------------------------------- */

static void not_kept(struct etcd_store *store, struct etcd_lease *lease, hf_status status,
                     const hf_error *err)
{
    int64_t pause_ms = lease->granted_ms / 10;

    lease->busy = lease->again = false;
    lease->keep_ms = hfi_now_ms() + (pause_ms < KEEP_AGAIN_MS ? pause_ms : KEEP_AGAIN_MS);
    tell(store, lease, status, err);
    etcd_lease_drop(store, lease);
}

static void confirmed(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                      const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_lease *lease = call->data;
    hf_error changed;

    if (outcome != HFI_ANSWERED) {
        not_kept(store, lease,
                 outcome == HFI_REFUSED ? hfi_outcome_status(outcome, err) : HF_UNAVAILABLE, err);
        return;
    }
    if (etcd_term(reply) != lease->term) {
        bool once = lease->again;

        lease->busy = false;
        lease->again = true;
        if (!once) {
            etcd_lease_keep(store, lease);
            etcd_lease_drop(store, lease);
            return;
        }
        hfi_error_set(&changed, HF_UNAVAILABLE, 0, "etcd changes its leader");
        not_kept(store, lease, HF_UNAVAILABLE, &changed);
        return;
    }
    lease->busy = lease->again = false;
    lease->base_ms = lease->sent_ms;
    lease->granted_ms = lease->heard_ms;
    lease->keep_ms = lease->base_ms + lease->granted_ms / 3;
    tell(store, lease, HF_OK, NULL);
    etcd_lease_drop(store, lease);
}

static void kept(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                 const hf_error *err)
{
    struct etcd_store *store = call->store;
    struct etcd_lease *lease = call->data;
    struct etcd_call *next;

    if (outcome != HFI_ANSWERED) {
        not_kept(store, lease,
                 outcome == HFI_REFUSED ? hfi_outcome_status(outcome, err) : HF_UNAVAILABLE, err);
        return;
    }
    if (etcd_number(reply, ETCD_LEASE_TTL) <= 0) {
        lease->busy = false;
        etcd_lease_gone(store, lease, "etcd has ended its lease");
        etcd_lease_drop(store, lease);
        return;
    }
    lease->sent_ms = call->sent_ms;
    lease->heard_ms = etcd_ttl_ms(reply);
    lease->term = etcd_term(reply);
    next = etcd_call_probe(store, confirmed);
    if (!next) {
        not_kept(store, lease, HF_NO_MEMORY, NULL);
        return;
    }
    next->data = lease;
    etcd_call_send(next);
}

void etcd_lease_keep(struct etcd_store *store, struct etcd_lease *lease)
{
    struct etcd_call *call;

    if (lease->busy || lease->state != ETCD_LEASE_LIVE)
        return;
    lease->busy = true;
    lease->refs++;
    call = etcd_call_new(store, &etcd_keep_method, kept, NULL);
    if (!call) {
        not_kept(store, lease, HF_NO_MEMORY, NULL);
        return;
    }
    call->data = lease;
    call->again = true; /* a late copy only extends it */
    etcd_add_id(&call->body, lease->id);
    etcd_call_send(call);
}

/* ---- time --------------------------------------------------------------------------------------------------- */

int64_t etcd_leases_next_ms(const struct etcd_store *store)
{
    int64_t next = HFI_NEVER;

    for (const struct etcd_lease *lease = store->leases; lease; lease = lease->next)
        if (lease->waits > 0 && !lease->busy && lease->keep_ms < next)
            next = lease->keep_ms;
    return next;
}

void etcd_leases_tick(struct etcd_store *store, int64_t now_ms)
{
    for (struct etcd_lease *lease = store->leases; lease; lease = lease->next)
        if (lease->waits > 0 && !lease->busy && lease->keep_ms <= now_ms)
            etcd_lease_keep(store, lease); /* only sends: the list does not change */
}

void etcd_leases_close(struct etcd_store *store)
{
    int64_t until_ms = hfi_now_ms() + CLOSE_LIMIT_MS;

    store->closing = true;
    for (struct etcd_lease *lease = store->leases; lease; lease = lease->next)
        if (!lease->own && lease->state == ETCD_LEASE_LIVE && store->failures == 0)
            revoke(store, lease);
    while ((!hfi_list_empty(&store->calls) || store->requests.parked) && store->failures == 0 &&
           hfi_now_ms() < until_ms) {
        hfi_reactor_leave(&store->reactor);
        hfi_reactor_turn(&store->reactor, until_ms);
        hfi_reactor_enter(&store->reactor);
    }
    while (store->leases) {
        struct etcd_lease *lease = store->leases;

        store->leases = lease->next;
        hfi_free(lease);
    }
}
