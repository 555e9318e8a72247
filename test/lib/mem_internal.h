/* SPDX-License-Identifier: MIT */
/*
 * Shared by the test engines: the servers of this process and their connections.
 * One mutex (mem_lock) guards all of it; the condition mem_changed is signalled
 * whenever anything in any server has changed.
 */
#ifndef MEM_INTERNAL_H
#define MEM_INTERNAL_H

#include "mem_cells.h"
#include "mem_engine.h"

#include <pthread.h>

struct mem_conf { /* what the URL says: memevent:NAME?call=2s */
    struct hfi_conf url;
    int64_t call_ms;
    int64_t late_ms; /* late=, memblock: the delay of its answers */
};
extern const struct hfi_conf_type mem_conf_type;

struct mem_world; /* one server, its network and its connections */

/* What connections of both kinds have in common. */
struct mem_store {
    struct mem_store *next;
    struct mem_world *world;
    struct hfi_host *host;
    uint64_t session;
    int64_t call_ms;
    bool bare;    /* give no tokens away */
    bool watches; /* it has had a WATCHED claim: pushes about it are heard */
    bool hears;   /* core knows that */

    /* A push about `owner` has come. Called with mem_lock held. */
    void (*on_push)(struct mem_store *store, const unsigned char owner[HFI_OWNER_LEN],
                    const struct mem_reply *reply);
    /* The answer to request number `id` of this connection has come. Likewise. NULL: none expected. */
    void (*on_reply)(struct mem_store *store, uint64_t id, const struct mem_reply *replies,
                     size_t count);
    /* The connection was cut, or mended. Likewise. */
    void (*on_cut)(struct mem_store *store);
    /* Something in the server has changed. Likewise. NULL: the store is told by mem_changed. */
    void (*on_change)(struct mem_store *store);
};

struct mem_claim {          /* claim->room; under mem_lock */
    struct hfi_claim *next; /* in the list of held ones of its store */
    bool lost;              /* memblock: the listener has to tell core */
};

static inline struct mem_claim *mem_claim_of(struct hfi_claim *claim)
{
    return (struct mem_claim *)(void *)claim->room;
}

extern pthread_mutex_t mem_lock;
extern pthread_cond_t mem_changed;

/* Attach a store, made by the caller, to the server that the URL names. */
hf_status mem_conn_open(struct mem_store *store, struct hfi_conf *conf, struct hfi_host *host,
                        hf_error *err);
/* Detach it; replies and pushes that are still on their way to it are dropped. */
void mem_conn_close(struct mem_store *store);

/* With mem_lock held: */
struct mem_server *mem_conn_server(struct mem_store *store);
struct mem_cells *mem_conn_cells(struct mem_store *store);
/* Send `count` requests as one message through the faulty network. false: the connection is cut. */
bool mem_conn_send(struct mem_store *store, uint64_t id, const struct mem_request *requests,
                   size_t count, int64_t now_ms);
/* Deliver what is due, and let the server do what is due. */
void mem_world_pump(struct mem_world *world, int64_t now_ms);
int64_t mem_world_next_ms(const struct mem_world *world);
/* Tell everybody that something has changed. */
void mem_world_changed(struct mem_world *world);
/* Core uncorks: see mem_doubt(). Without the lock. */
void mem_world_uncorked(struct mem_world *world);
bool mem_world_is_cut(const struct mem_world *world);

/* A request about the claim. */
void mem_request_fill(struct mem_store *store, const struct hfi_claim *claim, enum mem_verb verb,
                      int64_t ttl_ms, bool may_wait, struct mem_request *ret_request);
/* A request about the cell of `op`, or the time; `owner` is its own. */
void mem_request_fill_cell(struct mem_store *store, const struct hfi_op *op, enum mem_verb verb,
                           const unsigned char owner[HFI_OWNER_LEN],
                           struct mem_request *ret_request);
/* A request about a name: BREAK, RESIZE, ASK. */
void mem_request_fill_named(const struct hfi_op *op, struct mem_request *ret_request);
/* With mem_lock held, which is dropped in between: tell core whether it would hear a push. */
void mem_tell_hears(struct mem_store *store);
/* Copy the server's answer into the op. Returns the status to finish it with. */
hf_status mem_cell_fill(struct hfi_op *op, const struct mem_reply *reply);
/* LIST, LOOK: do it. `whole`: a page has entries, else bare names. Returns what to finish it with. */
hf_status mem_inspect(struct mem_store *store, struct hfi_op *op, bool whole);
/* MEM_VERBS: no such kind. */
enum mem_verb mem_verb_of(enum hfi_op_kind kind);
/* Copy the answer to an acquire or a renewal into the claim. */
void mem_claim_fill(struct mem_store *store, struct hfi_claim *claim, const struct mem_reply *reply,
                    int64_t sent_ms);

/* The parts of the contract that do not depend on the kind of engine. */
void mem_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid);
/* A wait for a change, with mem_lock held: has the number changed? It is put into the op. */
bool mem_change_seen(struct mem_store *store, struct hfi_op *op);
hf_status mem_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err);
/* Wait on mem_changed, at most until until_ms (hfi_now_ms() time). */
void mem_cond_wait(int64_t until_ms);

extern const struct hfi_engine mem_event_engine, mem_bare_engine, mem_block_engine;
hfi_engine_entry_fn hfi_engine_entry_memory; /* test/engine/memory */

#endif
