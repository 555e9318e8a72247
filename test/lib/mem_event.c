/* SPDX-License-Identifier: MIT */
/*
 * The event-driven test engines, memevent: and membare:, shaped like a network client: submit()
 * sends; an answer is put into the inbox and makes the descriptor readable; process() takes it from
 * there.
 *
 * A *call* is one op under way. An acquire that the server has queued, or a wait for
 * a cell, asks again every BEAT_MS, which keeps its place and finds a grant (or a new
 * version) whose message was lost.
 * A call without an answer for call_ms ends with HF_UNKNOWN.
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
    hf_status cancel;     /* HF_OK: not cancelled */
    enum mem_verb verb;
    unsigned char owner[HFI_OWNER_LEN]; /* of a cell's wait: where the push goes */
};

/* A message that has arrived and waits for process(). */
struct letter {
    struct letter *next;
    bool is_push;
    uint64_t id;
    unsigned char owner[HFI_OWNER_LEN];
    size_t count;
    struct mem_reply replies[];
};

struct event_store {
    struct mem_store base;
    int fd;
    uint64_t last_id;
    struct call *calls;
    struct hfi_claim *held; /* a list by mem_claim.next */
    struct letter *inbox, **inbox_end;
};

static void on_push(struct mem_store *store, const unsigned char *owner,
                    const struct mem_reply *reply);
static void on_reply(struct mem_store *store, uint64_t id, const struct mem_reply *replies,
                     size_t count);
static void ring(struct mem_store *store);
static void on_change(struct mem_store *store);
static bool send_call(struct event_store *store, struct call *call, enum mem_verb verb,
                      int64_t now_ms);
static hf_status take_in(struct event_store *store, struct call *call,
                         const struct mem_reply *replies, bool *ret_finished);
static void end_call(struct event_store *store, struct call *call, hf_status status);
static void forget_claim(struct event_store *store, const struct hfi_claim *claim);

/* ---- open and close --------------------------------------------------------- */

static hf_status event_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct event_store *store = self;
    hf_status status;

    store->inbox_end = &store->inbox;
    store->base.on_push = on_push;
    store->base.on_reply = on_reply;
    store->base.on_cut = ring;
    store->base.on_change = on_change;
    store->base.bare = strcmp(conf->scheme, "membare") == 0;
    store->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->fd < 0) {
        return hfi_error_set(err, HF_UNAVAILABLE, 0, "eventfd");
    }

    status = mem_conn_open(&store->base, conf, host, err);
    if (status != HF_OK) {
        close(store->fd);
        return status;
    }
    return HF_OK;
}

static void event_close(void *self)
{
    struct event_store *store = self;
    struct letter *letter;

    mem_conn_close(&store->base);
    /* Core must not close under an op or a lease, but a detached one may be left alone. */
    for (struct hfi_claim *claim = store->held; claim; claim = mem_claim_of(claim)->next)
        if (!(claim->flags & HFI_CLAIM_DETACHED))
            abort();
    if (store->calls)
        abort();
    while ((letter = store->inbox)) {
        store->inbox = letter->next;
        free(letter);
    }
    close(store->fd);
}

/* ---- sending ------------------------------------------------------------------ */

/* Nothing is sent: the number is looked at here, and again whenever something has changed. */
static void change_wait(struct event_store *store, struct call *call, struct hfi_op *op)
{
    pthread_mutex_lock(&mem_lock);
    *call = (struct call){
        .next = store->calls, .op = op, .answer_by_ms = HFI_NEVER, .beat_ms = HFI_NEVER
    };
    store->calls = call;
    mem_world_pump(store->base.world, hfi_now_ms());
    if (mem_change_seen(&store->base, op)) {
        end_call(store, call, HF_OK);
        return;
    }
    pthread_mutex_unlock(&mem_lock);
}

static void event_submit(void *self, struct hfi_op *op)
{
    struct event_store *store = self;
    enum mem_verb verb = mem_verb_of(op->kind);
    struct call *call = hfi_calloc(1, sizeof *call);
    bool sent;

    if (op->kind == HFI_OP_RELEASE) { /* whatever happens, core must not be told of a loss any
                                       * more */
        pthread_mutex_lock(&mem_lock);
        forget_claim(store, op->claim);
        pthread_mutex_unlock(&mem_lock);
    }
    if (call && op->kind == HFI_OP_CHANGE_WAIT) {
        change_wait(store, call, op);
        return;
    }
    if (!call || verb == MEM_VERBS) {
        hf_status status = call ? HF_UNSUPPORTED : HF_NO_MEMORY;
        hfi_free(call);
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
        hfi_op_finish(op, status);
        return;
    }

    pthread_mutex_lock(&mem_lock);
    if (verb == MEM_ACQUIRE && op->claim->flags & HFI_CLAIM_WATCHED) {
        store->base.watches = true;
        mem_tell_hears(&store->base);
    }
    *call = (struct call){ .next = store->calls, .op = op, .id = ++store->last_id, .verb = verb };
    if (verb >= MEM_CELL_READ)
        hfi_random_bytes(call->owner, sizeof call->owner);
    call->sent_ms = hfi_now_ms();
    call->answer_by_ms = call->sent_ms + store->base.call_ms;
    call->beat_ms = HFI_NEVER;
    store->calls = call;
    sent = send_call(store, call, verb, call->sent_ms);
    if (!sent) {
        end_call(store, call, HF_UNAVAILABLE);
        return;
    }
    pthread_mutex_unlock(&mem_lock);
    store->base.host->wake(store->base.host);
}

/* Send the request of the call. false: the connection is cut, or there is no memory for a large
 * one. */
static bool send_call(struct event_store *store, struct call *call, enum mem_verb verb,
                      int64_t now_ms)
{
    struct hfi_op *op = call->op;
    size_t count = op->kind == HFI_OP_RENEW ? op->u.renew.count : 1;
    struct mem_request *requests = calloc(count, sizeof *requests);
    bool sent;

    if (!requests)
        abort();
    for (size_t i = 0; i < count && op->kind == HFI_OP_RENEW; i++)
        mem_request_fill(&store->base, op->u.renew.items[i].claim, verb,
                         op->u.renew.items[i].ttl_ms, false, &requests[i]);
    for (size_t i = 0; i < count && op->kind == HFI_OP_RENEW; i++)
        requests[i].tokens_wanted = op->u.renew.items[i].tokens_wanted;
    if (op->kind == HFI_OP_LIST || op->kind == HFI_OP_LOOK)
        requests[0].verb = verb;
    else if (verb >= MEM_CELL_READ)
        mem_request_fill_cell(&store->base, op, verb, call->owner, &requests[0]);
    else if (op->kind == HFI_OP_BREAK || op->kind == HFI_OP_RESIZE || op->kind == HFI_OP_ASK)
        mem_request_fill_named(op, &requests[0]);
    else if (op->kind != HFI_OP_RENEW)
        mem_request_fill(&store->base, op->claim, verb, op->claim->ttl_ms, op->may_wait,
                         &requests[0]);
    sent = mem_conn_send(&store->base, call->id, requests, count, now_ms);
    free(requests);
    return sent;
}

static void event_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct event_store *store = self;
    int64_t now_ms = hfi_now_ms();
    struct call *call;

    pthread_mutex_lock(&mem_lock);
    for (call = store->calls; call && call->op != op; call = call->next)
        ;
    if (call && (op->kind == HFI_OP_CELL_WAIT || op->kind == HFI_OP_CHANGE_WAIT)) {
        end_call(store, call, status); /* nothing is to be undone: end it on this thread */
        return;
    } else if (call && op->kind == HFI_OP_ACQUIRE && call->cancel == HF_OK) {
        call->cancel = status;
        call->beat_ms = HFI_NEVER;
        call->answer_by_ms = now_ms + store->base.call_ms;
        if (!send_call(store, call, MEM_CANCEL, now_ms))
            call->answer_by_ms = now_ms;
    }
    pthread_mutex_unlock(&mem_lock);
    store->base.host->wake(store->base.host);
}

/* ---- receiving: into the inbox, with mem_lock held ---------------------------- */

static void ring(struct mem_store *base)
{
    uint64_t one = 1;

    if (write(((struct event_store *)base)->fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

/* Those that wait for it look at the number in process(). */
static void on_change(struct mem_store *base)
{
    for (const struct call *call = ((struct event_store *)base)->calls; call; call = call->next)
        if (call->op->kind == HFI_OP_CHANGE_WAIT)
            ring(base);
}

static void put_letter(struct event_store *store, const struct letter *head,
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
    *store->inbox_end = letter;
    store->inbox_end = &letter->next;
    ring(&store->base);
}

static void on_push(struct mem_store *base, const unsigned char *owner,
                    const struct mem_reply *reply)
{
    struct letter head = { .is_push = true, .count = 1 };

    memcpy(head.owner, owner, HFI_OWNER_LEN);
    put_letter((struct event_store *)base, &head, reply);
}

static void on_reply(struct mem_store *base, uint64_t id, const struct mem_reply *replies,
                     size_t count)
{
    struct letter head = { .id = id, .count = count };

    put_letter((struct event_store *)base, &head, replies);
}

/* ---- being driven ---------------------------------------------------------------- */

static int event_fd(void *self)
{
    struct mem_store *base = self;

    return ((struct event_store *)base)->fd;
}

static int event_timeout_ms(void *self, int64_t now_ms)
{
    struct event_store *store = self;
    int64_t next_ms;

    pthread_mutex_lock(&mem_lock);
    next_ms = store->inbox ? 0 : mem_world_next_ms(store->base.world);
    for (struct call *call = store->calls; call; call = call->next) {
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

/* The claim that the push is about, held or about to be: a message may overtake the grant. NULL: none of ours. */
static struct hfi_claim *claim_of(struct event_store *store, const struct letter *letter)
{
    struct hfi_claim *claim = store->held;

    while (claim && memcmp(claim->owner, letter->owner, HFI_OWNER_LEN) != 0)
        claim = mem_claim_of(claim)->next;
    for (const struct call *call = store->calls; call && !claim; call = call->next)
        if (call->op->kind == HFI_OP_ACQUIRE && is_for(call, letter))
            claim = call->op->claim;
    return claim;
}

/* The lock is held before and after, and dropped for what core does. */
static void open_letter(struct event_store *store, struct letter *letter)
{
    struct call *call = store->calls;
    const struct mem_reply *push = &letter->replies[0];
    struct hfi_host *host = store->base.host;
    struct hfi_claim *claim;
    hf_status status;
    bool finished;

    if (letter->is_push && (push->status == HF_LOST || push->is_wanted)) {
        claim = claim_of(store, letter);
        if (!claim)
            return;
        pthread_mutex_unlock(&mem_lock);
        if (push->is_wanted)
            host->wanted(host, claim, letter->owner, push->wanted, push->text);
        else
            host->lost(host, claim, letter->owner, "the server ended it");
        pthread_mutex_lock(&mem_lock);
        return;
    }

    while (call && !is_for(call, letter))
        call = call->next;
    if (!call)
        return; /* late, or a second copy */
    status = take_in(store, call, letter->replies, &finished);
    if (finished) {
        end_call(store, call, status);
        pthread_mutex_lock(&mem_lock);
    }
}

/* The first call whose answer is overdue. */
static struct call *overdue(struct event_store *store, int64_t now_ms)
{
    struct call *call = store->calls;

    while (call && (call->op->kind == HFI_OP_CHANGE_WAIT ||
                    (call->answer_by_ms > now_ms && !mem_world_is_cut(store->base.world))))
        call = call->next;
    return call;
}

/* The first wait for a change that has one. */
static struct call *changed(struct event_store *store)
{
    struct call *call = store->calls;

    while (call &&
           (call->op->kind != HFI_OP_CHANGE_WAIT || !mem_change_seen(&store->base, call->op)))
        call = call->next;
    return call;
}

static void event_process(void *self, int64_t now_ms)
{
    struct event_store *store = self;
    struct letter *letter, *last;
    struct call *call;
    uint64_t rung;

    pthread_mutex_lock(&mem_lock);
    if (read(store->fd, &rung, sizeof rung) < 0)
        rung = 0;
    for (call = store->calls; call; call = call->next)
        if (call->beat_ms <= now_ms) {
            call->beat_ms = now_ms + BEAT_MS;
            if (call->answer_by_ms == HFI_NEVER)
                call->answer_by_ms = now_ms + store->base.call_ms;
            (void)send_call(store, call, call->verb, now_ms);
        }
    mem_world_pump(store->base.world, now_ms);
    mem_tell_hears(&store->base);

    /* Only what is in the inbox now: callbacks may add more for ever. */
    last = store->inbox
               ? (struct letter *)((char *)store->inbox_end - offsetof(struct letter, next))
               : NULL;
    while (last && (letter = store->inbox)) {
        store->inbox = letter->next;
        if (!store->inbox)
            store->inbox_end = &store->inbox;
        if (letter == last)
            last = NULL;
        open_letter(store, letter);
        free(letter);
    }
    while ((call = changed(store))) {
        end_call(store, call, HF_OK);
        pthread_mutex_lock(&mem_lock);
    }
    while ((call = overdue(store, now_ms))) {
        end_call(store, call, HF_UNKNOWN);
        pthread_mutex_lock(&mem_lock);
    }
    if (store->inbox)
        ring(&store->base);
    pthread_mutex_unlock(&mem_lock);
}

/* ---- answers ------------------------------------------------------------------------ */

static void remember_claim(struct event_store *store, struct hfi_claim *claim)
{
    mem_claim_of(claim)->next = store->held;
    store->held = claim;
}

static void forget_claim(struct event_store *store, const struct hfi_claim *claim)
{
    struct hfi_claim *before = NULL, *at = store->held;

    while (at && at != claim) {
        before = at;
        at = mem_claim_of(at)->next;
    }
    if (!at)
        return;
    if (before)
        mem_claim_of(before)->next = mem_claim_of(at)->next;
    else
        store->held = mem_claim_of(at)->next;
}

static hf_status take_in_acquire(struct event_store *store, struct call *call,
                                 const struct mem_reply *reply, bool *ret_finished)
{
    bool was_queued = call->beat_ms != HFI_NEVER || call->cancel != HF_OK;

    if (reply->status == HF_OK && reply->queued) {
        call->op->ret_queued = true;
        *ret_finished = false; /* also if our cancel is under way: that will be answered */
        if (call->cancel == HF_OK) {
            call->answer_by_ms = HFI_NEVER;
            call->beat_ms = hfi_now_ms() + BEAT_MS;
        }
        return HF_OK;
    }
    switch (reply->status) {
    case HF_OK:
        /* A grant by hand-off counts from the server's time of the grant: server and client share a
         * clock here. */
        mem_claim_fill(&store->base, call->op->claim, reply,
                       was_queued ? reply->granted_ms : call->sent_ms);
        remember_claim(store, call->op->claim);
        return HF_OK;
    case HF_CANCELLED:
        return call->cancel != HF_OK ? call->cancel : HF_UNKNOWN;
    case HF_LOST:
        return HF_UNKNOWN; /* the server dropped us while we were silent */
    case HF_NOT_FOUND:
        return HF_LOST; /* there is nothing to replace */
    case HF_MISMATCH:
        return hfi_mismatch_set(&call->op->error, reply->mode, reply->capacity);
    default:
        call->op->ret_lingers = reply->lingers;
        return reply->status;
    }
}

/* The status of the op for the server's answer. */
static hf_status take_in(struct event_store *store, struct call *call,
                         const struct mem_reply *replies, bool *ret_finished)
{
    struct hfi_op *op = call->op;
    struct hfi_renewal *item;

    *ret_finished = true;
    switch (op->kind) {
    case HFI_OP_ACQUIRE:
        return take_in_acquire(store, call, replies, ret_finished);
    case HFI_OP_RENEW:
        for (size_t i = 0; i < op->u.renew.count; i++) {
            item = &op->u.renew.items[i];
            item->status = replies[i].status;
            if (item->status == HF_OK) {
                item->claim->granted_ttl_ms = replies[i].ttl_ms;
                item->claim->sent_ms = call->sent_ms;
                item->others_wait = replies[i].others_wait;
                item->token = replies[i].token;
                item->tokens = replies[i].tokens;
            }
        }
        return HF_OK;
    case HFI_OP_ADOPT:
        if (replies->status == HF_OK) {
            op->claim->mode = replies->mode;
            op->claim->capacity = replies->capacity;
            op->claim->permits = replies->permits;
            mem_claim_fill(&store->base, op->claim, replies, call->sent_ms);
            remember_claim(store, op->claim);
        }
        return replies->status;
    case HFI_OP_LIST:
    case HFI_OP_LOOK:
        return mem_inspect(&store->base, op, false);
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
    case HFI_OP_CELLS_COMMIT:
    case HFI_OP_TIME:
        return mem_cell_fill(op, replies);
    case HFI_OP_RESIZE:
        return replies->status == HF_MISMATCH
                   ? hfi_mismatch_set(&op->error, replies->mode, replies->capacity)
                   : replies->status;
    default:
        return replies->status;
    }
}

/* Finish the op of a call and free the call. Drops mem_lock. */
static void end_call(struct event_store *store, struct call *call, hf_status status)
{
    struct call **at = &store->calls;
    struct hfi_op *op = call->op;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    pthread_mutex_unlock(&mem_lock);

    hfi_free(call);
    if (status != HF_OK && !op->error.text[0])
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    if (op->kind == HFI_OP_RENEW && status != HF_OK)
        for (size_t i = 0; i < op->u.renew.count; i++)
            op->u.renew.items[i].status = status;
    hfi_op_finish(op, status);
}

/* ---- the tables ---------------------------------------------------------------------- */

/* Nothing is held back: this is where a test steps in. */
static void event_cork(void *self, bool on)
{
    if (!on)
        mem_world_uncorked(((struct event_store *)self)->base.world);
}

static const struct hfi_drive event_drive = { .kind = HFI_EVENT,
                                              .fd = event_fd,
                                              .timeout_ms = event_timeout_ms,
                                              .process = event_process,
                                              .cork = event_cork };
static const struct hfi_admin event_admin = { .doctor = mem_doctor };

#define EVENT_CALLS                                                                  \
    .abi = HFI_ENGINE_ABI, .drive = &event_drive, .admin = &event_admin,             \
    HFI_STORAGE(struct event_store, char, struct mem_claim), .conf = &mem_conf_type, \
    .open = event_open, .close = event_close, .submit = event_submit, .cancel = event_cancel

#define PROMISES                                                                                   \
    .default_ttl_ms = 30000, .min_ttl_ms = 1000, .guard_ms = 2, .on_crash = "freed after the ttl", \
    .on_pause = "freed after the ttl", .on_clock_jump = "unaffected",                              \
    .on_server_loss = "everything is lost", .on_partition = "as the test says",                    \
    .fairness = "FIFO", .wakeup = "event"

static const hf_engine_lack lacks[] = {
    { HF_CAP_PROCESS | HF_CAP_SCRIPTS, "as on Redis" },
    { 0, NULL },
};

static const hf_engine_lack bare_lacks[] = {
    { HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE |
          HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_PROCESS | HF_CAP_DETACHED | HF_CAP_TOKEN |
          HF_CAP_PASS | HF_CAP_BARGE | HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS |
          HF_CAP_BREAK | HF_CAP_WATCH | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_CLOCK |
          HF_CAP_SCRIPTS | HF_CAP_WANTED | HF_CAP_LINGER | HF_CAP_COMMIT,
      "this one is bare" },
    { 0, NULL },
};

const struct hfi_engine mem_event_engine = {
    EVENT_CALLS,
    .promises =
        &(const struct hfi_promises){
            PROMISES, .name = "memevent", .lacks = lacks, .schemes = "memevent",
            .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                    HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK |
                    HF_CAP_WATCH | HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH |
                    HF_CAP_CLOCK | HF_CAP_WANTED | HF_CAP_LINGER | HF_CAP_COMMIT | HF_CAP_CONVERT |
                    HF_CAP_NUMBERED | HF_CAP_RESIZE },
    .passed = mem_passed,
};

const struct hfi_engine mem_bare_engine = {
    EVENT_CALLS,
    .promises =
        &(const struct hfi_promises){ PROMISES, .name = "membare", .lacks = bare_lacks,
                                      .schemes = "membare", .tokens = HF_TOKEN_STRENGTH_NONE,
                                      .caps = HF_CAP_TTL | HF_CAP_CELLS },
};
