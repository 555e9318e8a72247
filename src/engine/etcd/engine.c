/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine: its table, opening and closing, and what comes in from core. See internal.h for the
 * parts. Event-driven: submit() sends, the driver reads and finishes.
 */
#include "engine/etcd/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"
#include "util/url.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_LIMIT_MS 5000

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err);
static hf_status greet(struct hfi_conn *conn, hf_error *err);
static void destroy(struct hfi_conn *conn);

/* ---- open and close ---------------------------------------------------------------------------------- */

static hf_status etcd_open(struct hfi_conf *conf, struct hfi_host *host, struct hfi_conn **ret_conn,
                           hf_error *err)
{
    struct hfi_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->epoll_fd = conn->kick_fd = -1;
    conn->conf = (struct etcd_conf *)conf;
    status = etcd_conf_finish(conn->conf, err);
    host->location = conn->conf->location;
    if (status == HF_OK)
        status = init(conn, host, err);
    if (status == HF_OK)
        status = greet(conn, err);
    if (status != HF_OK) {
        destroy(conn);
        return status;
    }
    *ret_conn = conn;
    return HF_OK;
}

static hf_status init(struct hfi_conn *conn, struct hfi_host *host, hf_error *err)
{
    unsigned char id[ETCD_STORE_HEX / 2];

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return hfi_error_memory(err);
    pthread_mutex_init(&conn->lock, NULL);
    conn->host = host;
    conn->told_ms = INT64_MIN;
    conn->done_end = &conn->done;
    conn->expiry_ms = conn->inbox_ms = HFI_NEVER;
    hfi_random_bytes(id, sizeof id);
    hfi_hex(id, sizeof id, conn->store);
    conn->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!conn->headers)
        return hfi_error_memory(err);
    return etcd_drive_open(conn, err);
}

struct greeting {
    bool answered;
    hf_status status;
    hf_error *err;
};

static void greeted(struct etcd_call *call, enum etcd_outcome outcome, json_t *reply,
                    const hf_error *err)
{
    struct greeting *greeting = call->data;

    (void)reply;
    if (!greeting)
        return;
    greeting->answered = true;
    greeting->status = HF_OK;
    if (outcome == ETCD_ANSWERED)
        return;
    greeting->status = outcome == ETCD_MAYBE ? HF_UNAVAILABLE : etcd_status(outcome, err);
    hfi_error_set(greeting->err, greeting->status, err ? err->native : 0, "%s",
                  err ? err->text : "no answer");
}

/* Is it etcd, does it let us in, and does it have a leader? A read of what is ours says all of it. */
static hf_status greet(struct hfi_conn *conn, hf_error *err)
{
    struct greeting greeting = { .err = err };
    int64_t until_ms = conn->host->open_deadline_ms;
    struct etcd_key from, to;
    struct etcd_call *call;

    if (until_ms <= 0 || until_ms == HFI_NEVER)
        until_ms = hfi_now_ms() + OPEN_LIMIT_MS;
    pthread_mutex_lock(&conn->lock);
    call = etcd_call_new(conn, "/v3/kv/range", greeted, NULL);
    if (!call) {
        pthread_mutex_unlock(&conn->lock);
        return hfi_error_memory(err);
    }
    call->data = &greeting;
    call->again = true;
    call->until_ms = until_ms;
    etcd_area_range(conn->conf->prefix, ETCD_LOCKS, NULL, &from, &to);
    etcd_add(&call->body, "{");
    etcd_add_key(&call->body, "key", &from);
    etcd_add(&call->body, ",");
    etcd_add_key(&call->body, "range_end", &to);
    etcd_add(&call->body, ",\"count_only\":true}");
    etcd_call_send(call);
    etcd_pump(conn);
    while (!greeting.answered)
        etcd_drive_alone(conn, until_ms);
    pthread_mutex_unlock(&conn->lock);
    return greeting.status;
}

static void destroy(struct hfi_conn *conn)
{
    while (conn->watches)
        etcd_watch_close(conn, conn->watches);
    if (conn->multis[ETCD_CALLS].handle)
        etcd_calls_close(conn);
    etcd_drive_close(conn);
    while (conn->losses) {
        struct etcd_loss *loss = conn->losses;

        conn->losses = loss->next;
        hfi_free(loss);
    }
    if (conn->token)
        explicit_bzero(conn->token, strlen(conn->token));
    hfi_free(conn->token);
    curl_slist_free_all(conn->headers);
    hfi_free(conn);
}

static void etcd_close(struct hfi_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->claims = NULL; /* core has taken them back */
    etcd_leases_close(conn);
    pthread_mutex_unlock(&conn->lock);
    destroy(conn);
}

/* ---- ops ---------------------------------------------------------------------------------------------- */

static void submit(struct hfi_conn *conn, struct hfi_op *op)
{
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        etcd_acquire(conn, op);
        return;
    case HFI_OP_RELEASE:
        etcd_release(conn, op);
        return;
    case HFI_OP_RENEW:
        etcd_renew(conn, op);
        return;
    case HFI_OP_ADOPT:
        etcd_adopt(conn, op);
        return;
    case HFI_OP_INSPECT:
        etcd_inspect(conn, op);
        return;
    case HFI_OP_BREAK:
        etcd_break(conn, op);
        return;
    case HFI_OP_CELL_READ:
        etcd_cell_read(conn, op);
        return;
    case HFI_OP_CELL_SWAP:
        etcd_cell_swap(conn, op);
        return;
    case HFI_OP_CELL_WAIT:
        etcd_cell_wait(conn, op);
        return;
    default:
        break;
    }
    etcd_finish(conn, op, HF_UNSUPPORTED, NULL);
}

static void etcd_submit(struct hfi_conn *conn, struct hfi_op *op)
{
    pthread_mutex_lock(&conn->lock);
    submit(conn, op);
    etcd_leave(conn);
}

static void etcd_engine_cancel(struct hfi_conn *conn, struct hfi_op *op, hf_status status)
{
    pthread_mutex_lock(&conn->lock);
    if (op->kind == HFI_OP_CELL_WAIT)
        etcd_cell_cancel(conn, op, status);
    else
        etcd_cancel(conn, op, status);
    etcd_leave(conn);
}

void etcd_finish(struct hfi_conn *conn, struct hfi_op *op, hf_status status, const hf_error *err)
{
    if (status != HF_OK) {
        if (err && err->text[0])
            hfi_error_set(&op->error, status, err->native, "%s", err->text);
        else
            hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    }
    op->engine[ETCD_OP_WAIT] = NULL;
    op->engine[ETCD_OP_NEXT] = NULL;
    op->engine[ETCD_OP_STATUS] = (void *)(intptr_t)status;
    *conn->done_end = op;
    conn->done_end = (struct hfi_op **)&op->engine[ETCD_OP_NEXT];
}

void etcd_lost(struct hfi_conn *conn, struct hfi_claim *claim, const char *why)
{
    struct etcd_loss *loss = hfi_malloc(sizeof *loss);

    if (!loss)
        return; /* the next renewal will find out */
    loss->claim = claim;
    memcpy(loss->owner, claim->owner, HFI_OWNER_LEN);
    loss->why = why;
    loss->next = conn->losses;
    conn->losses = loss;
}

void etcd_leave(struct hfi_conn *conn)
{
    struct hfi_host *host = conn->host;
    struct etcd_loss *loss, *after;
    struct hfi_op *op, *next;
    bool doubt, wake;

    etcd_pump(conn);
    op = conn->done;
    loss = conn->losses;
    doubt = conn->doubt;
    conn->done = NULL;
    conn->done_end = &conn->done;
    conn->losses = NULL;
    conn->doubt = false;
    wake = etcd_hurry(conn);
    pthread_mutex_unlock(&conn->lock);

    if (wake)
        host->wake(host);
    if (doubt && host->doubt)
        host->doubt(host, "etcd has forgotten what it had to tell us");
    for (; loss; loss = after) {
        after = loss->next;
        host->lost(host, loss->claim, loss->owner, loss->why);
        hfi_free(loss);
    }
    for (; op; op = next) {
        next = op->engine[ETCD_OP_NEXT];
        hfi_op_finish(op, (hf_status)(intptr_t)op->engine[ETCD_OP_STATUS]);
    }
}

/* ---- claims --------------------------------------------------------------------------------------------- */

void etcd_place_get(struct hfi_conn *conn, struct hfi_claim *claim)
{
    uint64_t slot = 0;

    while (slot < ETCD_SLOTS && conn->slots[slot / 8] & 1u << slot % 8)
        slot++;
    if (slot < ETCD_SLOTS)
        conn->slots[slot / 8] |= (unsigned char)(1u << slot % 8);
    else
        slot = ETCD_SLOTS + conn->more_slots++;
    claim->engine[ETCD_CLAIM_STORE] = (void *)(uintptr_t)strtoull(conn->store, NULL, 16);
    claim->engine[ETCD_CLAIM_SLOT] = (void *)(uintptr_t)slot;
}

void etcd_place_drop(struct hfi_conn *conn, struct hfi_claim *claim)
{
    uint64_t slot = (uintptr_t)claim->engine[ETCD_CLAIM_SLOT];

    if ((uintptr_t)claim->engine[ETCD_CLAIM_STORE] == strtoull(conn->store, NULL, 16) &&
        slot < ETCD_SLOTS)
        conn->slots[slot / 8] &= (unsigned char)~(1u << slot % 8);
    claim->engine[ETCD_CLAIM_STORE] = NULL;
}

void etcd_claim_at(struct hfi_claim *claim, const struct etcd_record *record)
{
    uint64_t halves[2] = { 0, 0 };

    for (size_t i = 0; i < HFI_OWNER_LEN; i++)
        halves[i / 8] = halves[i / 8] << 8 | record->place[i];
    claim->engine[ETCD_CLAIM_STORE] = (void *)(uintptr_t)halves[0];
    claim->engine[ETCD_CLAIM_SLOT] = (void *)(uintptr_t)halves[1];
}

struct etcd_lease *etcd_claim_lease(const struct hfi_claim *claim)
{
    return claim->engine[ETCD_CLAIM_LEASE];
}

void etcd_claim_set_lease(struct hfi_claim *claim, struct etcd_lease *lease)
{
    claim->engine[ETCD_CLAIM_LEASE] = lease;
}

void etcd_claim_add(struct hfi_conn *conn, struct hfi_claim *claim)
{
    int64_t end_ms = claim->sent_ms + claim->granted_ttl_ms;

    claim->engine[ETCD_CLAIM_FLAGS] = (void *)(uintptr_t)ETCD_FLAG_LISTED;
    claim->engine[ETCD_CLAIM_PREV] = NULL;
    claim->engine[ETCD_CLAIM_NEXT] = conn->claims;
    if (conn->claims)
        conn->claims->engine[ETCD_CLAIM_PREV] = claim;
    conn->claims = claim;
    if (!(claim->flags & HFI_CLAIM_DETACHED) && end_ms < conn->expiry_ms)
        conn->expiry_ms = end_ms;
}

void etcd_claim_remove(struct hfi_conn *conn, struct hfi_claim *claim)
{
    struct hfi_claim *next = claim->engine[ETCD_CLAIM_NEXT], *prev = claim->engine[ETCD_CLAIM_PREV];

    if (!((uintptr_t)claim->engine[ETCD_CLAIM_FLAGS] & ETCD_FLAG_LISTED))
        return;
    claim->engine[ETCD_CLAIM_FLAGS] = NULL;
    if (prev)
        prev->engine[ETCD_CLAIM_NEXT] = next;
    else
        conn->claims = next;
    if (next)
        next->engine[ETCD_CLAIM_PREV] = prev;
}

struct hfi_claim *etcd_claim_find(struct hfi_conn *conn, const unsigned char *owner)
{
    struct hfi_claim *claim = conn->claims;

    while (claim && memcmp(claim->owner, owner, HFI_OWNER_LEN) != 0)
        claim = claim->engine[ETCD_CLAIM_NEXT];
    return claim;
}

/* ---- the table -------------------------------------------------------------------------------------------- */

static const struct hfi_engine engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = HFI_EVENT,
    .default_ttl_ms = ETCD_TTL_MS,
    .min_ttl_ms = 1000,
    .info = { .name = "etcd",
              .schemes = "etcd etcds",
              .available = 1,
              .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                      HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_WAITERS |
                      HF_CAP_BREAK | HF_CAP_WATCH | HF_CAP_CELLS | HF_CAP_CELL_TTL |
                      HF_CAP_CELL_WATCH,
              .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
              .on_crash = "freed after the ttl",
              .on_pause = "freed after the ttl; the token fences",
              .on_clock_jump = "no effect: etcd counts with a clock that does not jump",
              .on_server_loss =
                  "goes on while a majority lives; a restored backup forgets leases and "
                  "lets tokens go back",
              .on_partition =
                  "unavailable on the minority's side; LOST by our own clock before the lease ends",
              .fairness = "first come, first served",
              .wakeup = "an event on the one claim ahead" },
    .open = etcd_open,
    .close = etcd_close,
    .conf = &etcd_conf_type,
    .submit = etcd_submit,
    .cancel = etcd_engine_cancel,
    .fd = etcd_fd,
    .timeout_ms = etcd_timeout_ms,
    .process = etcd_process,
    .turn = etcd_turn,
    .kick = etcd_kick,
    .wait_change = etcd_wait_change,
    .stop_wait = etcd_stop_wait,
    .doctor = etcd_doctor,
};

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &engine;
}
