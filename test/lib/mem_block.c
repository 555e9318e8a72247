/* SPDX-License-Identifier: MIT */
/*
 * The blocking test engine, memblock:, shaped like a client of a SQL server: submit() runs on the
 * caller's thread until the op is finished. An acquire that must wait sleeps on mem_changed until
 * its grant is pushed, its deadline passes or cancel() asks it to stop.
 *
 * Losses come to a listener thread, as LISTEN/NOTIFY would bring them.
 */
#include "mem_internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An acquire that sleeps in submit(); on its thread's stack. */
struct sleeper {
    struct sleeper *next;
    struct hfi_op *op;
    hf_status cancel; /* HF_OK: not cancelled */
    bool pushed;
    struct mem_reply grant;
};

/* What the listener has to tell core about a claim. */
struct note {
    struct note *next;
    unsigned char owner[HFI_OWNER_LEN];
    enum hfi_wanted wanted;
    char text[HF_LABEL_MAX + 1];
};

struct block_store {
    struct mem_store base;
    struct sleeper *sleepers;
    struct hfi_claim *held; /* a list by mem_claim.next */
    struct note *notes, **notes_end;
    int64_t late_ms; /* delay of an acquire before it reaches the server */
    pthread_t listener;
    bool stop;
};

static void on_push(struct mem_store *base, const unsigned char *owner,
                    const struct mem_reply *reply);
static void *listen_thread(void *arg);
static struct note *take_note(struct block_store *store);
static hf_status acquire(struct block_store *store, struct hfi_op *op);
static hf_status release(struct block_store *store, struct hfi_op *op);
static hf_status adopt(struct block_store *store, struct hfi_op *op);
static hf_status renew(struct block_store *store, struct hfi_op *op);
static hf_status ask_about(struct block_store *store, struct hfi_op *op);
static hf_status cell_op(struct block_store *store, struct hfi_op *op);
static hf_status change_wait(struct block_store *store, struct hfi_op *op);
static struct hfi_claim **find_held(struct block_store *store, const struct hfi_claim *claim);

static hf_status block_open(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    struct block_store *store = self;
    sigset_t all, before;
    hf_status status;

    store->base.on_push = on_push;
    store->notes_end = &store->notes;
    store->late_ms = ((struct mem_conf *)conf)->late_ms;
    status = mem_conn_open(&store->base, conf, host, err);
    if (status != HF_OK) {
        return status;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&store->listener, NULL, listen_thread, store) != 0)
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return HF_OK;
}

static void block_close(void *self)
{
    struct block_store *store = self;

    pthread_mutex_lock(&mem_lock);
    store->stop = true;
    pthread_cond_broadcast(&mem_changed);
    pthread_mutex_unlock(&mem_lock);
    pthread_join(store->listener, NULL);
    while (store->notes)
        free(take_note(store));
    mem_conn_close(&store->base);
    /* Core must not close under an op or a lease, but a detached one may be left alone. */
    for (struct hfi_claim *claim = store->held; claim; claim = mem_claim_of(claim)->next)
        if (!(claim->flags & HFI_CLAIM_DETACHED))
            abort();
    if (store->sleepers)
        abort();
}

static void nap_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

static void block_submit(void *self, struct hfi_op *op)
{
    struct block_store *store = self;
    hf_status status = HF_UNSUPPORTED;

    if (op->kind == HFI_OP_ACQUIRE && store->late_ms)
        nap_ms(store->late_ms);
    pthread_mutex_lock(&mem_lock);
    mem_world_pump(store->base.world, hfi_now_ms());
    if (mem_world_is_cut(store->base.world))
        status = HF_UNAVAILABLE;
    else if (op->kind == HFI_OP_ACQUIRE)
        status = acquire(store, op);
    else if (op->kind == HFI_OP_RELEASE)
        status = release(store, op);
    else if (op->kind == HFI_OP_ADOPT)
        status = adopt(store, op);
    else if (op->kind == HFI_OP_RENEW)
        status = renew(store, op);
    else if (op->kind == HFI_OP_BREAK || op->kind == HFI_OP_RESIZE || op->kind == HFI_OP_ASK)
        status = ask_about(store, op);
    else if (op->kind == HFI_OP_LIST || op->kind == HFI_OP_LOOK)
        status = mem_inspect(&store->base, op, true);
    else if (op->kind == HFI_OP_CHANGE_WAIT)
        status = change_wait(store, op);
    else if (mem_verb_of(op->kind) != MEM_VERBS)
        status = cell_op(store, op);
    mem_world_changed(store->base.world);
    pthread_mutex_unlock(&mem_lock);

    if (status != HF_OK && !op->error.text[0])
        hfi_error_set(&op->error, status, 0, "%s", hf_status_text(status));
    hfi_op_finish(op, status);
}

static void block_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct block_store *store = self;

    pthread_mutex_lock(&mem_lock);
    for (struct sleeper *s = store->sleepers; s; s = s->next)
        if (s->op == op && s->cancel == HF_OK)
            s->cancel = status;
    pthread_cond_broadcast(&mem_changed);
    pthread_mutex_unlock(&mem_lock);
}

/* ---- the ops, with mem_lock held ------------------------------------------------ */

static struct mem_reply ask(struct block_store *store, const struct hfi_claim *claim,
                            enum mem_verb verb, int64_t ttl_ms, bool may_wait)
{
    struct mem_request request;

    mem_request_fill(&store->base, claim, verb, ttl_ms, may_wait, &request);
    return mem_server_call(mem_conn_server(&store->base), &request, hfi_now_ms());
}

static void remember(struct block_store *store, struct hfi_claim *claim)
{
    mem_claim_of(claim)->next = store->held;
    mem_claim_of(claim)->lost = false;
    store->held = claim;
}

/* Sleep until the grant is pushed (HF_OK), or the wait fails. */
static hf_status sleep_for_grant(struct block_store *store, struct sleeper *self)
{
    struct hfi_op *op = self->op;
    struct sleeper **at;
    int64_t now_ms, next_ms;

    self->next = store->sleepers;
    store->sleepers = self;
    self->cancel = (hf_status)atomic_load(&op->stop); /* cancel() may have come before us */
    while (!self->pushed && self->cancel == HF_OK) {
        now_ms = hfi_now_ms();
        if (now_ms >= op->deadline_ms) {
            self->cancel = HF_TIMEOUT;
            break;
        }
        /* Every second: a silent waiter counts as dead. */
        next_ms = mem_world_next_ms(store->base.world);
        next_ms = next_ms < now_ms + 1000 ? next_ms : now_ms + 1000;
        mem_cond_wait(next_ms < op->deadline_ms ? next_ms : op->deadline_ms);
        (void)ask(store, op->claim, MEM_ACQUIRE, op->claim->ttl_ms, true);
        mem_world_pump(store->base.world, hfi_now_ms());
    }
    for (at = &store->sleepers; *at != self; at = &(*at)->next)
        ;
    *at = self->next;
    if (!self->pushed)
        self->grant = ask(store, op->claim, MEM_CANCEL, 0, false);
    return self->grant.status == HF_CANCELLED ? self->cancel : self->grant.status;
}

static hf_status acquire(struct block_store *store, struct hfi_op *op)
{
    struct sleeper self = { .op = op };
    int64_t sent_ms = hfi_now_ms();
    hf_status status;

    store->base.watches |= (op->claim->flags & HFI_CLAIM_WATCHED) != 0;
    self.grant = ask(store, op->claim, MEM_ACQUIRE, op->claim->ttl_ms, op->may_wait);
    status = self.grant.status;
    if (status == HF_OK && self.grant.queued) {
        op->ret_queued = true;
        status = sleep_for_grant(store, &self);
        sent_ms = self.grant.granted_ms;
    }
    if (status == HF_OK) {
        mem_claim_fill(&store->base, op->claim, &self.grant, sent_ms);
        remember(store, op->claim);
    }
    op->ret_lingers = self.grant.lingers;
    if (status == HF_MISMATCH)
        (void)hfi_mismatch_set(&op->error, self.grant.mode, self.grant.capacity);
    return status == HF_LOST ? HF_UNKNOWN : status == HF_NOT_FOUND ? HF_LOST : status;
}

static hf_status release(struct block_store *store, struct hfi_op *op)
{
    struct hfi_claim **at = find_held(store, op->claim);

    if (at)
        *at = mem_claim_of(*at)->next;
    return ask(store, op->claim, MEM_RELEASE, 0, false).status;
}

static hf_status adopt(struct block_store *store, struct hfi_op *op)
{
    int64_t sent_ms = hfi_now_ms();
    struct mem_reply reply = ask(store, op->claim, MEM_ADOPT, op->claim->ttl_ms, false);

    if (reply.status != HF_OK)
        return reply.status;
    op->claim->mode = reply.mode;
    op->claim->capacity = reply.capacity;
    op->claim->permits = reply.permits;
    mem_claim_fill(&store->base, op->claim, &reply, sent_ms);
    remember(store, op->claim);
    return HF_OK;
}

static struct mem_reply ask_renewal(struct block_store *store, const struct hfi_renewal *item)
{
    struct mem_request request;

    mem_request_fill(&store->base, item->claim, MEM_RENEW, item->ttl_ms, false, &request);
    request.tokens_wanted = item->tokens_wanted;
    return mem_server_call(mem_conn_server(&store->base), &request, hfi_now_ms());
}

static hf_status renew(struct block_store *store, struct hfi_op *op)
{
    int64_t sent_ms = hfi_now_ms();

    for (size_t i = 0; i < op->u.renew.count; i++) {
        struct hfi_renewal *item = &op->u.renew.items[i];
        struct mem_reply reply = ask_renewal(store, item);

        item->status = reply.status;
        if (reply.status != HF_OK)
            continue;
        item->claim->granted_ttl_ms = reply.ttl_ms;
        item->claim->sent_ms = sent_ms;
        item->others_wait = reply.others_wait;
        item->token = reply.token;
        item->tokens = reply.tokens;
    }
    return HF_OK;
}

/* BREAK, RESIZE, ASK. */
static hf_status ask_about(struct block_store *store, struct hfi_op *op)
{
    struct mem_request request;
    struct mem_reply reply;

    mem_request_fill_named(op, &request);
    reply = mem_server_call(mem_conn_server(&store->base), &request, hfi_now_ms());
    if (reply.status == HF_MISMATCH)
        return hfi_mismatch_set(&op->error, reply.mode, reply.capacity);
    return reply.status;
}

static hf_status change_wait(struct block_store *store, struct hfi_op *op)
{
    struct sleeper self = { .op = op, .next = store->sleepers };
    struct sleeper **at;
    int64_t next_ms;
    bool seen;

    store->sleepers = &self;
    self.cancel = (hf_status)atomic_load(&op->stop); /* cancel() may have been here before us */
    while (!(seen = mem_change_seen(&store->base, op)) && self.cancel == HF_OK) {
        if (hfi_now_ms() >= op->deadline_ms) {
            self.cancel = HF_TIMEOUT;
            break;
        }
        next_ms = mem_world_next_ms(store->base.world);
        mem_cond_wait(next_ms < op->deadline_ms ? next_ms : op->deadline_ms);
        mem_world_pump(store->base.world, hfi_now_ms());
    }
    for (at = &store->sleepers; *at != &self; at = &(*at)->next)
        ;
    *at = self.next;
    return seen ? HF_OK : self.cancel;
}

/*
 * The cell is read whenever anything changes: mem_changed is the event of this engine. Nobody
 * receives the server's push; the wait only has to be registered again.
 */
static hf_status cell_op(struct block_store *store, struct hfi_op *op)
{
    struct sleeper self = { .op = op, .next = store->sleepers };
    struct mem_request request;
    struct mem_reply reply;
    struct sleeper **at;
    unsigned char owner[HFI_OWNER_LEN];
    int64_t next_ms;

    hfi_random_bytes(owner, sizeof owner);
    mem_request_fill_cell(&store->base, op, mem_verb_of(op->kind), owner, &request);
    store->sleepers = &self;
    self.cancel = (hf_status)atomic_load(&op->stop); /* cancel() may have come before us */
    for (;;) {
        if (mem_world_is_cut(store->base.world))
            self.cancel = HF_UNAVAILABLE;
        else
            reply = mem_cells_call(mem_conn_cells(&store->base), &request, hfi_now_ms());
        if (self.cancel != HF_OK || !reply.queued)
            break;
        if (hfi_now_ms() >= op->deadline_ms) {
            self.cancel = HF_TIMEOUT;
            break;
        }
        next_ms = mem_world_next_ms(store->base.world);
        mem_cond_wait(next_ms < op->deadline_ms ? next_ms : op->deadline_ms);
        mem_world_pump(store->base.world, hfi_now_ms());
    }
    for (at = &store->sleepers; *at != &self; at = &(*at)->next)
        ;
    *at = self.next;
    return self.cancel != HF_OK ? self.cancel : mem_cell_fill(op, &reply);
}

/* ---- what the server says unasked ------------------------------------------------ */

static void put_note(struct block_store *store, const unsigned char *owner,
                     const struct mem_reply *reply)
{
    struct note *note = calloc(1, sizeof *note);

    if (!note)
        abort();
    memcpy(note->owner, owner, HFI_OWNER_LEN);
    note->wanted = reply->wanted;
    memcpy(note->text, reply->text, sizeof note->text);
    *store->notes_end = note;
    store->notes_end = &note->next;
    pthread_cond_broadcast(&mem_changed);
}

static struct note *take_note(struct block_store *store)
{
    struct note *note = store->notes;

    store->notes = note->next;
    if (!store->notes)
        store->notes_end = &store->notes;
    return note;
}

/* Drops mem_lock while core is told. */
static void tell_note(struct block_store *store)
{
    struct note *note = take_note(store);
    struct hfi_claim *claim = store->held;
    struct hfi_host *host = store->base.host;

    while (claim && memcmp(claim->owner, note->owner, HFI_OWNER_LEN) != 0)
        claim = mem_claim_of(claim)->next;
    for (struct sleeper *s = store->sleepers; s && !claim;
         s = s->next) /* its grant is on its way */
        if (s->op->claim && memcmp(s->op->claim->owner, note->owner, HFI_OWNER_LEN) == 0)
            claim = s->op->claim;
    pthread_mutex_unlock(&mem_lock);
    if (claim)
        host->wanted(host, claim, note->owner, note->wanted, note->text);
    free(note);
    pthread_mutex_lock(&mem_lock);
}

static void on_push(struct mem_store *base, const unsigned char *owner,
                    const struct mem_reply *reply)
{
    struct block_store *store = (struct block_store *)base;

    if (reply->is_wanted) {
        put_note(store, owner, reply);
        return;
    }
    for (struct sleeper *s = store->sleepers; s; s = s->next)
        if (reply->status != HF_LOST && s->op->claim &&
            memcmp(s->op->claim->owner, owner, HFI_OWNER_LEN) == 0) {
            s->pushed = true;
            s->grant = *reply;
        }
    for (struct hfi_claim *c = store->held; c; c = mem_claim_of(c)->next)
        if (reply->status == HF_LOST && memcmp(c->owner, owner, HFI_OWNER_LEN) == 0)
            mem_claim_of(c)->lost = true;
    pthread_cond_broadcast(&mem_changed);
}

static void *listen_thread(void *arg)
{
    struct block_store *store = arg;
    struct hfi_host *host = store->base.host;
    unsigned char owner[HFI_OWNER_LEN];

    pthread_mutex_lock(&mem_lock);
    while (!store->stop) {
        struct hfi_claim *claim = store->held;

        mem_tell_hears(&store->base);
        if (store->notes) {
            tell_note(store);
            continue;
        }
        while (claim && !mem_claim_of(claim)->lost)
            claim = mem_claim_of(claim)->next;
        if (!claim) {
            mem_cond_wait(mem_world_next_ms(store->base.world));
            mem_world_pump(store->base.world, hfi_now_ms());
            continue;
        }
        mem_claim_of(claim)->lost = false;
        memcpy(owner, claim->owner, HFI_OWNER_LEN);
        pthread_mutex_unlock(&mem_lock);
        host->lost(host, claim, owner, "the server ended it");
        pthread_mutex_lock(&mem_lock);
    }
    pthread_mutex_unlock(&mem_lock);
    return NULL;
}

/* Where the claim hangs in the list of held ones, or NULL. */
static struct hfi_claim **find_held(struct block_store *store, const struct hfi_claim *claim)
{
    struct hfi_claim **at = &store->held;

    while (*at && *at != claim)
        at = &mem_claim_of(*at)->next;
    return *at ? at : NULL;
}

static const hf_engine_lack lacks[] = {
    { HF_CAP_PROCESS | HF_CAP_SCRIPTS | HF_CAP_PASS | HF_CAP_BARGE | HF_CAP_LOCK_DELAY,
      "as on a server that has little" },
    { 0, NULL },
};

const struct hfi_engine mem_block_engine = {
    .abi = HFI_ENGINE_ABI,
    .drive = &(const struct hfi_drive){ .kind = HFI_BLOCKING },
    HFI_STORAGE(struct block_store, char, struct mem_claim),
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = 30000,
            .min_ttl_ms = 1000,
            .guard_ms = 2,
            .name = "memblock",
            .lacks = lacks,
            .schemes = "memblock",
            .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                    HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_INSPECT | HF_CAP_WAITERS |
                    HF_CAP_BREAK | HF_CAP_WATCH | HF_CAP_CELLS | HF_CAP_COMMIT | HF_CAP_CELL_TTL |
                    HF_CAP_CELL_WATCH | HF_CAP_CLOCK | HF_CAP_WANTED | HF_CAP_LINGER |
                    HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,
            .on_crash = "freed after the ttl",
            .on_pause = "freed after the ttl",
            .on_clock_jump = "unaffected",
            .on_server_loss = "everything is lost",
            .on_partition = "as the test says",
            .fairness = "FIFO",
            .wakeup = "event" },
    .open = block_open,
    .close = block_close,
    .passed = mem_passed,
    .conf = &mem_conf_type,
    .submit = block_submit,
    .cancel = block_cancel,
    .admin = &(const struct hfi_admin){ .doctor = mem_doctor },
};
