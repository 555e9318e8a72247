/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine: its table, opening and closing, and the calls of core. See internal.h for the
 * parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_LIMIT_MS 5000

static hf_status init(struct etcd_store *store, struct hfi_host *host, hf_error *err);
static hf_status greet(struct etcd_store *store, hf_error *err);
static void destroy(struct etcd_store *store);
static const struct hfi_op_calls ops[HFI_OP_KINDS];

/* ---- open and close ---------------------------------------------------------------------------------- */

static hf_status etcd_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct etcd_store *store = self;
    hf_status status;

    store->conf = (struct etcd_conf *)conf;
    status = etcd_conf_finish(store->conf, err);
    host->location = store->conf->location;
    if (status == HF_OK)
        status = init(store, host, err);
    if (status == HF_OK && !host->no_wait)
        status = greet(store, err);
    if (status != HF_OK)
        destroy(store);
    return status;
}

static hf_status init(struct etcd_store *store, struct hfi_host *host, hf_error *err)
{
    unsigned char id[ETCD_STORE_HEX / 2];
    hf_status status;

    hfi_random_bytes(id, sizeof id);
    hfi_hex(id, sizeof id, store->id);
    status = store->conf->url.tls.on ? hfi_tls_context_new(&store->conf->url.tls, &store->tls, err)
                                     : HF_OK;
    if (status == HF_OK && store->tls && !store->tls->offer(store->tls, "h2"))
        status = hfi_error_memory(err);
    if (status == HF_OK)
        status = hfi_reactor_init(&store->reactor, host, ops, err);
    return status == HF_OK ? etcd_drive_open(store, err) : status;
}

struct greeting {
    bool answered;
    hf_status status;
    hf_error *err;
};

static void greeted(struct etcd_call *call, enum hfi_outcome outcome, struct etcd_message reply,
                    const hf_error *err)
{
    struct greeting *greeting = call->data;

    (void)reply;
    if (!greeting)
        return;
    greeting->answered = true;
    greeting->status = HF_OK;
    if (outcome == HFI_ANSWERED)
        return;
    greeting->status = hfi_outcome_read_status(outcome, err);
    hfi_error_set(greeting->err, greeting->status, err ? err->native : 0, "%s",
                  err ? err->text : "no answer");
}

/* Is it etcd, does it accept our user, and does it have a leader? One read of our keys answers all
 * of it. */
static hf_status greet(struct etcd_store *store, hf_error *err)
{
    struct greeting greeting = { .err = err };
    int64_t until_ms = store->reactor.host->open_deadline_ms;
    struct etcd_key from, to;
    struct etcd_call *call;

    if (until_ms <= 0 || until_ms == HFI_NEVER)
        until_ms = hfi_now_ms() + OPEN_LIMIT_MS;
    hfi_reactor_enter(&store->reactor);
    call = etcd_call_new(store, &etcd_range_method, greeted, NULL);
    if (!call) {
        hfi_reactor_leave(&store->reactor);
        return hfi_error_memory(err);
    }
    call->data = &greeting;
    call->again = true;
    call->request.give_up_ms = until_ms;
    etcd_area_range(store->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add_range(&call->body,
                   &(struct etcd_range){ .key = &from, .to = &to, .count_only = true });
    etcd_call_send(call);
    hfi_reactor_leave(&store->reactor);
    while (!greeting.answered)
        hfi_reactor_turn(&store->reactor, until_ms);
    return greeting.status;
}

static void destroy(struct etcd_store *store)
{
    etcd_drive_close(store);
    hfi_reactor_done(&store->reactor);
    if (store->token)
        explicit_bzero(store->token, strlen(store->token));
    hfi_free(store->token);
    hfi_tls_context_free(store->tls);
}

static void etcd_close(void *self)
{
    struct etcd_store *store = self;

    hfi_reactor_enter(&store->reactor);
    etcd_wants_close(store);
    hfi_list_init(&store->claims); /* core owns the claims again */
    etcd_leases_close(store);
    hfi_reactor_leave_quietly(&store->reactor, false);
    destroy(store);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

static const struct hfi_op_calls ops[HFI_OP_KINDS] = {
    [HFI_OP_ACQUIRE] = { etcd_acquire, etcd_cancel },
    [HFI_OP_RELEASE] = { etcd_release, NULL },
    [HFI_OP_RENEW] = { etcd_renew, NULL },
    [HFI_OP_ADOPT] = { etcd_adopt, NULL },
    [HFI_OP_LIST] = { etcd_list, NULL },
    [HFI_OP_LOOK] = { etcd_look, NULL },
    [HFI_OP_BREAK] = { etcd_break, NULL },
    [HFI_OP_ASK] = { etcd_ask_holders, NULL },
    [HFI_OP_CELL_READ] = { etcd_cell_read, NULL },
    [HFI_OP_CELL_SWAP] = { etcd_cell_swap, NULL },
    [HFI_OP_CELLS_COMMIT] = { etcd_cells_commit, NULL },
    [HFI_OP_CELL_WAIT] = { etcd_cell_wait, etcd_cell_cancel },
    [HFI_OP_CHANGE_WAIT] = { etcd_change_wait, etcd_change_cancel },
};

void etcd_finish(struct etcd_store *store, struct hfi_op *op, hf_status status, const hf_error *err)
{
    etcd_op(op)->wait = NULL;
    etcd_op(op)->cell_wait = NULL;
    etcd_op(op)->change = NULL;
    hfi_reactor_finish(&store->reactor, op, status, err);
}

/* ---- claims --------------------------------------------------------------------------------------------- */

void etcd_slot_take(struct etcd_store *store, struct hfi_claim *claim)
{
    uint64_t slot = 0;

    while (slot < ETCD_SLOTS && store->slots[slot / 8] & 1u << slot % 8)
        slot++;
    if (slot < ETCD_SLOTS)
        store->slots[slot / 8] |= (unsigned char)(1u << slot % 8);
    else
        slot = ETCD_SLOTS + store->more_slots++;
    etcd_claim(claim)->store = strtoull(store->id, NULL, 16);
    etcd_claim(claim)->slot = slot;
}

void etcd_slot_drop(struct etcd_store *store, struct hfi_claim *claim)
{
    uint64_t slot = etcd_claim(claim)->slot;

    if (etcd_claim(claim)->store == strtoull(store->id, NULL, 16) && slot < ETCD_SLOTS)
        store->slots[slot / 8] &= (unsigned char)~(1u << slot % 8);
    etcd_claim(claim)->store = 0;
}

void etcd_claim_at(struct hfi_claim *claim, const struct etcd_record *record)
{
    uint64_t halves[2] = { 0, 0 };

    for (size_t i = 0; i < HFI_OWNER_LEN; i++)
        halves[i / 8] = halves[i / 8] << 8 | record->place[i];
    etcd_claim(claim)->store = halves[0];
    etcd_claim(claim)->slot = halves[1];
}

struct hfi_claim *etcd_claim_listed(const struct hfi_list *listed)
{
    return hfi_container(hfi_container(listed, struct etcd_claim, listed), struct hfi_claim, room);
}

void etcd_claim_add(struct etcd_store *store, struct hfi_claim *claim)
{
    int64_t end_ms = claim->sent_ms + claim->granted_ttl_ms;

    etcd_claim(claim)->held = true;
    etcd_claim(claim)->lapsed = false;
    hfi_list_append(&store->claims, &etcd_claim(claim)->listed);
    if (!(claim->flags & HFI_CLAIM_DETACHED) && end_ms < store->expiry_ms)
        store->expiry_ms = end_ms;
}

void etcd_claim_remove(struct etcd_store *store, struct hfi_claim *claim)
{
    if (!etcd_claim(claim)->held)
        return;
    etcd_want_end(store, claim);
    etcd_claim(claim)->held = etcd_claim(claim)->lapsed = false;
    hfi_list_remove(&etcd_claim(claim)->listed);
}

struct hfi_claim *etcd_claim_find(struct etcd_store *store, const unsigned char *owner)
{
    for (const struct hfi_list *at = store->claims.next; at != &store->claims; at = at->next)
        if (memcmp(etcd_claim_listed(at)->owner, owner, HFI_OWNER_LEN) == 0)
            return etcd_claim_listed(at);
    return NULL;
}

/* ---- the table -------------------------------------------------------------------------------------------- */

/* Why not. */
static const hf_engine_lack lacks[] = {
    { HF_CAP_PROCESS, "etcd does not see a process end; the ttl frees the name" },
    { HF_CAP_PASS | HF_CAP_LINGER,
      "a token is the revision of its grant; etcd gives no blocks of tokens" },
    { HF_CAP_CONVERT, "what a claim takes is written in its key, and the claims behind it have "
                      "counted it; it cannot grow" },
    { HF_CAP_NUMBERED, "a grant writes nothing (a claim sees for itself that it fits), so no step "
                       "could give out a number" },
    { HF_CAP_RESIZE, "a claim sees for itself that it fits, and two that count with different "
                     "sizes would both be right" },
    { HF_CAP_BARGE, "a holder knows that it holds because no claim can be put before its own" },
    { HF_CAP_LOCK_DELAY, "a key ends with its lease of etcd, and one that only keeps the name "
                         "closed would look like one that holds it" },
    { HF_CAP_CLOCK, "the only time that etcd reports is the rest of a lease, in whole seconds, "
                    "which starts again under a new leader" },
    { HF_CAP_SCRIPTS, "etcd has no scripts" },
    { 0, NULL },
};

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    HFI_REACTOR_CALLS,
    HFI_STORAGE(struct etcd_store, struct etcd_op, struct etcd_claim),
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = ETCD_TTL_MS,
            .min_ttl_ms = 1000,
            .name = "etcd",
            .lacks = lacks,
            .schemes = "etcd etcds",
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_WAITERS |
                    HF_CAP_BREAK | HF_CAP_WATCH | HF_CAP_CELLS | HF_CAP_CELL_TTL |
                    HF_CAP_CELL_WATCH | HF_CAP_WANTED | HF_CAP_COMMIT,
            .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
            .on_crash = "freed after the ttl",
            .on_pause = "freed after the ttl; the token fences",
            .on_clock_jump = "no effect: etcd counts with a clock that does not jump",
            .on_server_loss =
                "goes on while a majority lives; a restored backup forgets leases and "
                "lets tokens go back; before 3.4.31 and 3.5.13 a leader that was stopped may end "
                "leases",
            .on_partition = "unavailable on the minority's side; LOST by the client's own clock "
                            "before the lease ends",
            .fairness = "first come, first served",
            .wakeup = "an event on the one claim ahead" },
    .open = etcd_open,
    .close = etcd_close,
    .conf = &etcd_conf_type,
    .admin = &(const struct hfi_admin){ .doctor = etcd_doctor },
};

HFI_ENGINE_ENTRY(engine)
