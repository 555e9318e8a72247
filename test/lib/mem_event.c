/* SPDX-License-Identifier: MIT */
/*
 * The event-driven test engines, memevent: and membare:, in the shape that a
 * network client has: submit() sends, what comes back is put into the inbox and
 * makes the descriptor readable, process() takes it from there.
 *
 * A *call* is one op under way. An acquire that the server has queued, or a wait for
 * a cell, asks again every BEAT_MS, which keeps its place and finds a grant (or a new
 * version) whose message was lost.
 * A call that hears nothing for call_ms ends with HF_UNKNOWN.
 *
 * All state is under mem_lock. process() finishes one thing at a time with the
 * lock dropped and keeps nothing across it, so callbacks may do what they like.
 */
#include "mem_internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BEAT_MS 250

struct call {
    struct call *next;
    struct hfi_op *op;
    uint64_t id;
    int64_t sent_ms;
    int64_t answer_by_ms; /* HFI_NEVER: queued, and the last beat was answered */
    int64_t beat_ms;      /* HFI_NEVER: not queued */
    hf_status cancel;     /* HF_OK: nobody asked */
    enum mem_verb verb;
    unsigned char owner[HFI_OWNER_LEN]; /* of a cell's: who is told */
};

/* A message that has come and waits for process(). */
struct letter {
    struct letter *next;
    bool is_push;
    uint64_t id;
    unsigned char owner[HFI_OWNER_LEN];
    size_t count;
    struct mem_reply replies[];
};

struct event_conn {
    struct hfi_conn base;
    int fd;
    uint64_t last_id;
    struct call *calls;
    struct hfi_claim *held; /* a list by mem_claim.next */
    struct letter *inbox, **inbox_end;
};

static void on_push(struct hfi_conn *conn, const unsigned char *owner,
                    const struct mem_reply *reply);
static void on_reply(struct hfi_conn *conn, uint64_t id, const struct mem_reply *replies,
                     size_t count);
static void ring(struct hfi_conn *conn);
static bool send_call(struct event_conn *conn, struct call *call, enum mem_verb verb,
                      int64_t now_ms);
static hf_status take_in(struct event_conn *conn, struct call *call,
                         const struct mem_reply *replies, bool *ret_finished);
static void end_call(struct event_conn *conn, struct call *call, hf_status status);
static void forget_claim(struct event_conn *conn, const struct hfi_claim *claim);

/* ---- open and close --------------------------------------------------------- */

static hf_status event_open(struct hfi_conf *conf, struct hfi_host *host,
                            struct hfi_conn **ret_conn, hf_error *err)
{
    struct event_conn *conn = hfi_calloc(1, sizeof *conn);
    hf_status status;

    if (!conn)
        return hfi_error_memory(err);
    conn->inbox_end = &conn->inbox;
    conn->base.on_push = on_push;
    conn->base.on_reply = on_reply;
    conn->base.on_cut = ring;
    conn->base.bare = strcmp(conf->scheme, "membare") == 0;
    conn->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (conn->fd < 0) {
        hfi_free(conn);
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "eventfd");
    }

    status = mem_conn_open(&conn->base, conf, host, err);
    if (status != HF_OK) {
        close(conn->fd);
        hfi_free(conn);
        return status;
    }
    *ret_conn = &conn->base;
    return HF_OK;
}

static void event_close(struct hfi_conn *base)
{
    struct event_conn *conn = (struct event_conn *)base;
    struct letter *letter;

    mem_conn_close(base);
    /* Core must not close under an op or a lease, but a detached one may be left alone. */
    for (struct hfi_claim *claim = conn->held; claim; claim = mem_claim_of(claim)->next)
        if (!(claim->flags & HFI_CLAIM_DETACHED))
            abort();
    if (conn->calls)
        abort();
    while ((letter = conn->inbox)) {
        conn->inbox = letter->next;
        free(letter);
    }
    close(conn->fd);
    hfi_free(conn);
}

/* ---- sending ------------------------------------------------------------------ */

static void event_submit(struct hfi_conn *base, struct hfi_op *op)
{
    struct event_conn *conn = (struct event_conn *)base;
    enum mem_verb verb = mem_verb_of(op->kind);
    struct call *call = hfi_calloc(1, sizeof *call);
    bool sent;

    if (op->kind == HFI_OP_RELEASE) { /* whatever becomes of it, the holder is not to be told */
        pthread_mutex_lock(&mem_lock);
        forget_claim(conn, op->claim);
        pthread_mutex_unlock(&mem_lock);
    }
    if (!call || verb == MEM_VERBS) {
        hf_status status = call ? HF_UNSUPPORTED : HF_NO_MEMORY;
        hfi_free(call);
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
        hfi_op_finish(op, status);
        return;
    }

    pthread_mutex_lock(&mem_lock);
    *call = (struct call){ .next = conn->calls, .op = op, .id = ++conn->last_id, .verb = verb };
    if (verb >= MEM_CELL_READ)
        hfi_random_bytes(call->owner, sizeof call->owner);
    call->sent_ms = hfi_now_ms();
    call->answer_by_ms = call->sent_ms + base->call_ms;
    call->beat_ms = HFI_NEVER;
    conn->calls = call;
    sent = send_call(conn, call, verb, call->sent_ms);
    if (!sent) {
        end_call(conn, call, HF_UNAVAILABLE);
        return;
    }
    pthread_mutex_unlock(&mem_lock);
    base->host->wake(base->host);
}

/* Send what the call is about. false: the line is cut, or no memory for a large one. */
static bool send_call(struct event_conn *conn, struct call *call, enum mem_verb verb,
                      int64_t now_ms)
{
    struct hfi_op *op = call->op;
    size_t count = op->kind == HFI_OP_RENEW ? op->u.renew.count : 1;
    struct mem_request *requests = calloc(count, sizeof *requests);
    bool sent;

    if (!requests)
        abort();
    for (size_t i = 0; i < count && op->kind == HFI_OP_RENEW; i++)
        mem_request_fill(&conn->base, op->u.renew.items[i].claim, verb, op->u.renew.items[i].ttl_ms,
                         false, &requests[i]);
    if (op->kind == HFI_OP_INSPECT)
        requests[0].verb = verb;
    else if (verb >= MEM_CELL_READ)
        mem_request_fill_cell(&conn->base, op, verb, call->owner, &requests[0]);
    else if (op->kind == HFI_OP_BREAK) {
        requests[0].verb = verb;
        requests[0].name_len = op->u.brk.name.len;
        memcpy(requests[0].name, op->u.brk.name.bytes, op->u.brk.name.len);
        requests[0].token = op->u.brk.token;
    } else if (op->kind != HFI_OP_RENEW)
        mem_request_fill(&conn->base, op->claim, verb, op->claim->ttl_ms, op->may_wait,
                         &requests[0]);
    sent = mem_conn_send(&conn->base, call->id, requests, count, now_ms);
    free(requests);
    return sent;
}

static void event_cancel(struct hfi_conn *base, struct hfi_op *op, hf_status status)
{
    struct event_conn *conn = (struct event_conn *)base;
    int64_t now_ms = hfi_now_ms();
    struct call *call;

    pthread_mutex_lock(&mem_lock);
    for (call = conn->calls; call && call->op != op; call = call->next)
        ;
    if (call && op->kind == HFI_OP_CELL_WAIT) {
        end_call(conn, call, status); /* nothing is to be undone; on this thread, whoever drives */
        return;
    } else if (call && op->kind == HFI_OP_ACQUIRE && call->cancel == HF_OK) {
        call->cancel = status;
        call->beat_ms = HFI_NEVER;
        call->answer_by_ms = now_ms + base->call_ms;
        if (!send_call(conn, call, MEM_CANCEL, now_ms))
            call->answer_by_ms = now_ms;
    }
    pthread_mutex_unlock(&mem_lock);
    base->host->wake(base->host);
}

/* ---- receiving: into the inbox, with mem_lock held ---------------------------- */

static void ring(struct hfi_conn *base)
{
    uint64_t one = 1;

    if (write(((struct event_conn *)base)->fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

static void put_letter(struct event_conn *conn, const struct letter *head,
                       const struct mem_reply *replies)
{
    struct letter *letter = malloc(sizeof *letter + head->count * sizeof *replies);

    if (!letter)
        abort();
    letter->next = NULL;
    letter->is_push = head->is_push;
    letter->id = head->id;
    letter->count = head->count;
    memcpy(letter->owner, head->owner, HFI_OWNER_LEN);
    memcpy(letter->replies, replies, head->count * sizeof *replies);
    *conn->inbox_end = letter;
    conn->inbox_end = &letter->next;
    ring(&conn->base);
}

static void on_push(struct hfi_conn *base, const unsigned char *owner,
                    const struct mem_reply *reply)
{
    struct letter head = { .is_push = true, .count = 1 };

    memcpy(head.owner, owner, HFI_OWNER_LEN);
    put_letter((struct event_conn *)base, &head, reply);
}

static void on_reply(struct hfi_conn *base, uint64_t id, const struct mem_reply *replies,
                     size_t count)
{
    struct letter head = { .id = id, .count = count };

    put_letter((struct event_conn *)base, &head, replies);
}

/* ---- being driven ---------------------------------------------------------------- */

static int event_fd(struct hfi_conn *base)
{
    return ((struct event_conn *)base)->fd;
}

static int event_timeout_ms(struct hfi_conn *base, int64_t now_ms)
{
    struct event_conn *conn = (struct event_conn *)base;
    int64_t next_ms;

    pthread_mutex_lock(&mem_lock);
    next_ms = conn->inbox ? 0 : mem_world_next_ms(base->world);
    for (struct call *call = conn->calls; call; call = call->next) {
        next_ms = call->beat_ms < next_ms ? call->beat_ms : next_ms;
        next_ms = call->answer_by_ms < next_ms ? call->answer_by_ms : next_ms;
    }
    pthread_mutex_unlock(&mem_lock);
    if (next_ms == HFI_NEVER)
        return -1;
    if (next_ms <= now_ms)
        return 0;
    return next_ms - now_ms > 60000 ? 60000 : (int)(next_ms - now_ms);
}

static bool is_for(const struct call *call, const struct letter *letter)
{
    const unsigned char *owner = call->op->kind == HFI_OP_ACQUIRE     ? call->op->claim->owner
                                 : call->op->kind == HFI_OP_CELL_WAIT ? call->owner
                                                                      : NULL;

    if (letter->is_push)
        return owner && memcmp(owner, letter->owner, HFI_OWNER_LEN) == 0;
    return call->id == letter->id;
}

/* The lock is held before and after, and dropped for what core does. */
static void open_letter(struct event_conn *conn, struct letter *letter)
{
    struct call *call = conn->calls;
    struct hfi_claim *claim = conn->held;
    hf_status status;
    bool finished;

    if (letter->is_push && letter->replies[0].status == HF_LOST) {
        while (claim && memcmp(claim->owner, letter->owner, HFI_OWNER_LEN) != 0)
            claim = mem_claim_of(claim)->next;
        if (claim) {
            pthread_mutex_unlock(&mem_lock);
            conn->base.host->lost(conn->base.host, claim, letter->owner, "the server ended it");
            pthread_mutex_lock(&mem_lock);
        }
        return;
    }

    while (call && !is_for(call, letter))
        call = call->next;
    if (!call)
        return; /* late, or a second copy */
    status = take_in(conn, call, letter->replies, &finished);
    if (finished) {
        end_call(conn, call, status);
        pthread_mutex_lock(&mem_lock);
    }
}

/* The first call that can hope for no answer any more. */
static struct call *overdue(struct event_conn *conn, int64_t now_ms)
{
    struct call *call = conn->calls;

    while (call && call->answer_by_ms > now_ms && !mem_world_is_cut(conn->base.world))
        call = call->next;
    return call;
}

static void event_process(struct hfi_conn *base, int64_t now_ms)
{
    struct event_conn *conn = (struct event_conn *)base;
    struct letter *letter, *last;
    struct call *call;
    uint64_t rung;

    pthread_mutex_lock(&mem_lock);
    if (read(conn->fd, &rung, sizeof rung) < 0)
        rung = 0;
    for (call = conn->calls; call; call = call->next)
        if (call->beat_ms <= now_ms) {
            call->beat_ms = now_ms + BEAT_MS;
            if (call->answer_by_ms == HFI_NEVER)
                call->answer_by_ms = now_ms + base->call_ms;
            (void)send_call(conn, call, call->verb, now_ms);
        }
    mem_world_pump(base->world, now_ms);

    /* Only what is here now: callbacks may cause more for ever. */
    last = conn->inbox ? (struct letter *)((char *)conn->inbox_end - offsetof(struct letter, next))
                       : NULL;
    while (last && (letter = conn->inbox)) {
        conn->inbox = letter->next;
        if (!conn->inbox)
            conn->inbox_end = &conn->inbox;
        if (letter == last)
            last = NULL;
        open_letter(conn, letter);
        free(letter);
    }
    while ((call = overdue(conn, now_ms))) {
        end_call(conn, call, HF_UNKNOWN);
        pthread_mutex_lock(&mem_lock);
    }
    if (conn->inbox)
        ring(base);
    pthread_mutex_unlock(&mem_lock);
}

/* ---- answers ------------------------------------------------------------------------ */

static void remember_claim(struct event_conn *conn, struct hfi_claim *claim)
{
    mem_claim_of(claim)->next = conn->held;
    conn->held = claim;
}

static void forget_claim(struct event_conn *conn, const struct hfi_claim *claim)
{
    struct hfi_claim *before = NULL, *at = conn->held;

    while (at && at != claim) {
        before = at;
        at = mem_claim_of(at)->next;
    }
    if (!at)
        return;
    if (before)
        mem_claim_of(before)->next = mem_claim_of(at)->next;
    else
        conn->held = mem_claim_of(at)->next;
}

static hf_status take_in_acquire(struct event_conn *conn, struct call *call,
                                 const struct mem_reply *reply, bool *ret_finished)
{
    bool was_queued = call->beat_ms != HFI_NEVER || call->cancel != HF_OK;

    if (reply->status == HF_OK && reply->queued) {
        *ret_finished = false; /* also if it crossed with our cancel, which will be answered */
        if (call->cancel == HF_OK) {
            call->answer_by_ms = HFI_NEVER;
            call->beat_ms = hfi_now_ms() + BEAT_MS;
        }
        return HF_OK;
    }
    switch (reply->status) {
    case HF_OK:
        /* A grant by hand-off began when the server made it, by a clock that is ours too. */
        mem_claim_fill(&conn->base, call->op->claim, reply,
                       was_queued ? reply->granted_ms : call->sent_ms);
        remember_claim(conn, call->op->claim);
        return HF_OK;
    case HF_CANCELLED:
        return call->cancel != HF_OK ? call->cancel : HF_UNKNOWN;
    case HF_LOST:
        return HF_UNKNOWN; /* the server gave us up while we were silent */
    default:
        return reply->status;
    }
}

/* Make of the server's answer what the op is finished with. */
static hf_status take_in(struct event_conn *conn, struct call *call,
                         const struct mem_reply *replies, bool *ret_finished)
{
    struct hfi_op *op = call->op;
    struct hfi_renewal *item;

    *ret_finished = true;
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        return take_in_acquire(conn, call, replies, ret_finished);
    case HFI_OP_RENEW:
        for (size_t i = 0; i < op->u.renew.count; i++) {
            item = &op->u.renew.items[i];
            item->status = replies[i].status;
            if (item->status == HF_OK) {
                item->claim->granted_ttl_ms = replies[i].ttl_ms;
                item->claim->sent_ms = call->sent_ms;
            }
        }
        return HF_OK;
    case HFI_OP_ADOPT:
        if (replies->status == HF_OK) {
            op->claim->mode = replies->mode;
            op->claim->capacity = replies->capacity;
            op->claim->permits = replies->permits;
            mem_claim_fill(&conn->base, op->claim, replies, call->sent_ms);
            remember_claim(conn, op->claim);
        }
        return replies->status;
    case HFI_OP_INSPECT:
        return mem_server_inspect(mem_conn_server(&conn->base), op->u.inspect.pattern,
                                  op->u.inspect.len, op->u.inspect.glob, op->u.inspect.sink,
                                  hfi_now_ms())
                   ? HF_OK
                   : HF_NO_MEMORY;
    case HFI_OP_CELL_WAIT:
        if (replies->queued) {
            *ret_finished = false;
            if (call->cancel == HF_OK) {
                call->answer_by_ms = HFI_NEVER;
                call->beat_ms = hfi_now_ms() + BEAT_MS;
            }
            return HF_OK;
        }
        return mem_cell_fill(op, replies);
    case HFI_OP_CELL_READ:
    case HFI_OP_CELL_SWAP:
    case HFI_OP_TIME:
        return mem_cell_fill(op, replies);
    default:
        return replies->status;
    }
}

/* Finish the op of a call and free the call. Drops mem_lock. */
static void end_call(struct event_conn *conn, struct call *call, hf_status status)
{
    struct call **at = &conn->calls;
    struct hfi_op *op = call->op;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&mem_lock);

    hfi_free(call);
    if (status != HF_OK)
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    if (op->kind == HFI_OP_RENEW && status != HF_OK)
        for (size_t i = 0; i < op->u.renew.count; i++)
            op->u.renew.items[i].status = status;
    hfi_op_finish(op, status);
}

/* ---- the tables ---------------------------------------------------------------------- */

static const struct hfi_drive event_drive = {
    .kind = HFI_EVENT, .fd = event_fd, .timeout_ms = event_timeout_ms, .process = event_process
};
static const struct hfi_admin event_admin = { .doctor = mem_doctor };

#define EVENT_CALLS                                                                \
    .abi = HFI_ENGINE_ABI, .drive = &event_drive, .admin = &event_admin,           \
    HFI_ROOMS(char, struct mem_claim), .conf = &mem_conf_type, .open = event_open, \
    .close = event_close, .submit = event_submit, .cancel = event_cancel

#define PROMISES                                                                                   \
    .default_ttl_ms = 30000, .min_ttl_ms = 1000, .guard_ms = 2, .on_crash = "freed after the ttl", \
    .on_pause = "freed after the ttl", .on_clock_jump = "unaffected",                              \
    .on_server_loss = "everything is lost", .on_partition = "as the test says",                    \
    .fairness = "FIFO", .wakeup = "event"

const struct hfi_engine mem_event_engine = {
    EVENT_CALLS,
    .promises =
        &(const struct hfi_promises){ PROMISES, .name = "memevent", .schemes = "memevent",
                                      .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
                                      .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT |
                                              HF_CAP_FIFO | HF_CAP_TTL | HF_CAP_DETACHED |
                                              HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                                              HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS |
                                              HF_CAP_BREAK | HF_CAP_WATCH | HF_CAP_CELLS |
                                              HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_CLOCK },
    .passed = mem_passed,
    .wait_change = mem_wait_change,
    .stop_wait = mem_stop_wait,
};

const struct hfi_engine mem_bare_engine = {
    EVENT_CALLS,
    .promises = &(const struct hfi_promises){ PROMISES, .name = "membare", .schemes = "membare",
                                              .tokens = HF_TOKEN_STRENGTH_NONE,
                                              .caps = HF_CAP_TTL | HF_CAP_CELLS },
};
