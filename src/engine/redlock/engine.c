/* SPDX-License-Identifier: MIT */
/*
 * The redlock engine: its table, opening and closing, and the calls of core. See internal.h for the
 * parts. Event-driven: submit() sends to all nodes, the driver reads and finishes.
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <stdio.h>
#include <string.h>

static hf_status wait_ready(struct redlock_store *store, hf_error *err);
static void destroy(struct redlock_store *store);
static const struct hfi_promises plain_promises;

#define ROUNDS_KEPT 64 /* for use again */
#define SCHEMES     "redlock redlocks"

/* ---- time ------------------------------------------------------------------------------- */

static void heal_due(struct hfi_source *timer, int64_t now_ms)
{
    redlock_heal_tick(hfi_container(timer, struct redlock_store, heal_timer), now_ms);
}

static void waits_due(struct hfi_source *timer, int64_t now_ms)
{
    redlock_waits_tick(hfi_container(timer, struct redlock_store, waits_timer), now_ms);
}

static void notes_due(struct hfi_source *timer, int64_t now_ms)
{
    (void)now_ms;
    redlock_notes_send(hfi_container(timer, struct redlock_store, notes_timer));
}

static hf_status read_conf(struct redlock_store *store, struct hfi_conf *conf, const char *label,
                           hf_error *err);

static bool add_timers(struct redlock_store *store)
{
    static const struct hfi_source_calls heal = { .due = heal_due };
    static const struct hfi_source_calls waits = { .due = waits_due };
    static const struct hfi_source_calls notes = { .due = notes_due };

    hfi_list_init(&store->waits);
    hfi_list_init(&store->noted);
    return hfi_requests_init(&store->rounds, &store->reactor, NULL, sizeof(struct redlock_round),
                             ROUNDS_KEPT) &&
           hfi_source_add(&store->heal_timer, &store->reactor, &heal) &&
           hfi_source_add(&store->waits_timer, &store->reactor, &waits) &&
           hfi_source_add(&store->notes_timer, &store->reactor, &notes);
}

/* ---- open and close -------------------------------------------------------------------- */

static hf_status redlock_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                              hf_error *err)
{
    struct redlock_store *store = self;
    hf_status status;

    status = read_conf(store, conf, host->label, err);
    host->location = store->conf->location;
    if (store->wire->bare)
        host->promises = &plain_promises;
    if (status == HF_OK && host->no_wait)
        status =
            hfi_error_set(err, HF_UNSUPPORTED, 0,
                          "redlock waits for its nodes: a majority of votes is worth something "
                          "only if they are different servers, which opening finds out");
    store->may_start = !host->existing;
    if (status == HF_OK)
        status = hfi_reactor_init(&store->reactor, host, store->wire->ops, err);
    if (status == HF_OK && !add_timers(store))
        status = hfi_error_memory(err);
    if (status == HF_OK)
        status = redlock_nodes_open(store, err);
    if (status == HF_OK)
        status = redlock_heal_open(store, err);
    if (status == HF_OK)
        status = wait_ready(store, err);
    if (status != HF_OK)
        destroy(store);
    return status;
}

/* ---- what the URL says ------------------------------------------------------------------ */

#define HERE       (HFI_FORM_PATH | HFI_FORM_SECRET_ALONE | HFI_FORM_TLS_CHOICE | HFI_FORM_TLS_NAME)
#define AT(member) offsetof(struct redlock_conf, member)
#define NOT_HERE(name)                                            \
    {                                                             \
        name, HFI_PARAM_REFUSED, 0, 0, 0, 0, "is not for redlock" \
    }

static const struct hfi_form forms[] = {
    { "redlock", HFI_PORT, HFI_HOSTS_MAX, HERE, NULL },
    { "redlocks", HFI_PORT, HFI_HOSTS_MAX, HERE | HFI_FORM_TLS, NULL },
    { .scheme = NULL },
};

static const struct hfi_param params[] = {
    REDIS_PARAMS,
    { "even", HFI_PARAM_CHOICE, AT(even), 0, 0, 1, "yes no" },
    { "max_ttl", HFI_PARAM_DURATION, AT(max_ttl_ms), REDLOCK_MAX_TTL_LEAST, HF_DURATION_MAX_MS,
      REDLOCK_MAX_TTL_MS, NULL },
    { "wire", HFI_PARAM_CHOICE, REDIS_AT(wire), 0, 0, HFI_WIRE_NATIVE, "native plain" },
    REDIS_PLAIN_PARAMS,
    NOT_HERE("sync"),
    NOT_HERE("sync_timeout"),
    { .name = NULL },
};

static const struct hfi_conf_type conf_type = { sizeof(struct redlock_conf), forms, params };

static hf_status check_nodes(const struct redlock_conf *redlock, hf_error *err)
{
    const struct hfi_redis_conf *conf = &redlock->redis;

    if (conf->url.host_count < HFI_NODES_MIN || conf->url.host_count > HFI_NODES_MAX)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: redlock needs %d to %d nodes, and there are %zu",
                             HFI_NODES_MIN, HFI_NODES_MAX, conf->url.host_count);
    if (conf->url.host_count % 2 == 0 && redlock->even != 0)
        return hfi_error_set(
            err, HF_CONFIG, 0,
            "store URL: %zu nodes tolerate no more losses than %zu; if it must be so, "
            "say even=yes",
            conf->url.host_count, conf->url.host_count - 1);
    for (size_t i = 0; i < conf->url.host_count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(conf->url.hosts[i].shown, conf->url.hosts[k].shown) == 0)
                return hfi_error_set(err, HF_CONFIG, 0, "store URL: node %s is there twice",
                                     conf->url.hosts[i].shown);
    return HF_OK;
}

/* What has a meaning on one of the wires only. */
static hf_status check_wire(const struct redlock_conf *redlock, hf_error *err)
{
    const struct hfi_conf *url = &redlock->redis.url;
    bool plain = redlock->redis.wire == HFI_WIRE_PLAIN;

    if (plain && hfi_conf_given(url, "max_ttl"))
        return hfi_conf_refuse(url, "max_ttl", "has a meaning with wire=native only", err);
    if (!plain && hfi_conf_given(url, "poll"))
        return hfi_conf_refuse(url, "poll", "has a meaning with wire=plain only", err);
    return HF_OK;
}

hf_status redlock_conf_manage(struct redlock_conf *redlock, hf_error *err)
{
    hf_status status = redlock_conf_finish(redlock, "manage", err);

    if (status == HF_OK && redlock->redis.wire == HFI_WIRE_PLAIN)
        status = hfi_error_set(err, HF_UNSUPPORTED, 0,
                               "redlock with wire=plain has no epochs: there is no state to show, "
                               "and nothing to heal");
    return status;
}

hf_status redlock_conf_finish(struct redlock_conf *redlock, const char *label, hf_error *err)
{
    hf_status status = redis_conf_finish(&redlock->redis, label, err);

    if (status == HF_OK)
        status = check_wire(redlock, err);
    return status == HF_OK ? check_nodes(redlock, err) : status;
}

static hf_status read_conf(struct redlock_store *store, struct hfi_conf *conf, const char *label,
                           hf_error *err)
{
    struct redlock_conf *redlock = (struct redlock_conf *)conf;
    hf_status status;

    store->conf = &redlock->redis;
    store->wire = redlock->redis.wire == HFI_WIRE_PLAIN ? &redlock_plain : &redlock_native;
    store->max_ttl_ms = store->wire->bare ? HF_DURATION_MAX_MS : redlock->max_ttl_ms;
    store->has_epoch = store->wire->bare;
    status = redlock_conf_finish(redlock, label, err);
    if (status != HF_OK)
        return status;

    store->n = (unsigned)store->conf->url.host_count;
    store->need = hfi_majority(store->n);
    store->prefix_len =
        (size_t)snprintf(store->prefix, sizeof store->prefix, "%srl:", store->conf->prefix);
    redis_inbox_name_make(&store->inbox_name, store->prefix);
    return HF_OK;
}

/* Has the node reported its state, or why it cannot? */
static bool looked_at(const struct redlock_node *node)
{
    if (hfi_link_failures(node->link) > 0)
        return true;
    return redlock_node_up(node) && (node->inbox_up || !node->inbox) &&
           (node->view.state != HFI_NODE_UNKNOWN || node->why.status != HF_OK);
}

static bool all_looked_at(const struct redlock_store *store)
{
    for (unsigned i = 0; i < store->n; i++)
        if (!looked_at(&store->nodes[i]))
            return false;
    return true;
}

/* Why the store cannot be opened: a decision that a person must make, else the reason of the first
 * node that has one. `hopeless`: only reasons that waiting does not remove. "Too few nodes answer"
 * is temporary while one of them has not answered yet, and also after that unless each is tried
 * only once. "All are empty" is temporary in any case: the cluster is being made, by us or by another client. */
static const hf_error *why_not(const struct redlock_store *store, bool hopeless)
{
    unsigned bad = 0;
    const hf_error *first = NULL;
    bool once = store->reactor.host->open_once;
    bool passing = hopeless && !once; /* a node that is away may come */
    bool few_pass = hopeless && (!(once && all_looked_at(store)) || redlock_heal_starts(store));

    if (store->stuck.status != HF_OK && (!few_pass || store->stuck.status != HF_UNAVAILABLE))
        return &store->stuck;
    for (unsigned i = 0; i < store->n; i++) {
        const hf_error *why = &store->nodes[i].why;

        if (why->status == HF_OK || (passing && why->status == HF_UNAVAILABLE))
            continue;
        if (!first || first->status == HF_UNAVAILABLE)
            first = why;
        bad++;
        /* Two addresses of one server, a replica: a mistake in the URL, whatever the others say. */
        if (hopeless && why->status == HF_CONFIG)
            return why;
    }
    return hopeless && bad <= store->n - store->need ? NULL : first;
}

/* Ready: a majority is up and in one epoch, and every node that answers soon has been probed, so
 * that a mistake in the list is found now, and the first lease is granted by all of them. */
static bool ready(const struct redlock_store *store, int64_t now_ms, int64_t since_ms)
{
    if (!store->has_epoch || redlock_count(redlock_nodes_voting(store, now_ms)) < store->need)
        return false;
    if (now_ms - since_ms > REDLOCK_SILENT_MS)
        return true;
    return !redlock_heal_busy(store) &&
           all_looked_at(store); /* while it heals, the views are old */
}

static hf_status wait_ready(struct redlock_store *store, hf_error *err)
{
    int64_t until_ms = store->reactor.host->open_deadline_ms, since_ms = hfi_now_ms(),
            now_ms = since_ms;
    const hf_error *why = NULL;

    while (!(why = why_not(store, true)) && !ready(store, now_ms, since_ms) && now_ms < until_ms) {
        int64_t turn_ms = store->has_epoch ? since_ms + REDLOCK_SILENT_MS + 1 : until_ms;

        hfi_reactor_turn(&store->reactor,
                         turn_ms < until_ms && turn_ms > now_ms ? turn_ms : until_ms);
        now_ms = hfi_now_ms();
    }
    if (!why && ready(store, now_ms, since_ms))
        return HF_OK;
    if (!why)
        why = why_not(store, false);
    return why ? hfi_error_set(err, why->status, why->native, "%s", why->text)
               : hfi_error_set(err, HF_UNAVAILABLE, 0, "%u of %u nodes answered in time",
                               redlock_count(redlock_nodes_up(store)), store->n);
}

static void destroy(struct redlock_store *store)
{
    struct hfi_claim_entry *hold;

    store->closing = true;
    if (store->reactor.host) {
        hfi_reactor_enter(&store->reactor);
        redlock_nodes_close(store);
        redlock_heal_close(store);
        hfi_reactor_leave_quietly(&store->reactor, false);
    }
    while ((hold = hfi_claims_any(&store->holds))) {
        hfi_claims_remove(&store->holds, hold); /* its claim may be used for another acquisition
                                                 * now */
        hfi_free(hold);
    }
    hfi_requests_done(&store->rounds);
    hfi_reactor_done(&store->reactor);
    redis_conf_done(store->conf);
}

static void redlock_close(void *self)
{
    struct redlock_store *store = self;

    destroy(store);
}

/* ---- ops --------------------------------------------------------------------------------- */

void redlock_hasten(struct redlock_store *store, int64_t due_ms)
{
    hfi_source_by(&store->waits_timer, due_ms);
}

uint64_t redlock_clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t redlock_proposal(struct redlock_store *store)
{
    uint64_t us = redlock_clock_us();

    if (us <= store->last_proposal) /* the clock was set back, or two in one microsecond */
        us = store->last_proposal + 1;
    store->last_proposal = us;
    return us;
}

/* ---- claims by owner ------------------------------------------------------------------------ */

struct redlock_hold *redlock_hold_new(struct redlock_store *store, struct hfi_claim *claim)
{
    struct redlock_hold *hold = hfi_calloc(1, sizeof *hold);

    if (!hold)
        return NULL;
    hfi_list_init(&hold->noted);
    hfi_claims_add(&store->holds, &hold->entry, claim);
    ((struct redlock_claim *)claim->room)->hold = hold;
    return hold;
}

void redlock_hold_free(struct redlock_store *store, struct redlock_hold *hold)
{
    ((struct redlock_claim *)hold->entry.claim->room)->hold = NULL;
    hfi_list_remove(&hold->noted);
    hfi_claims_remove(&store->holds, &hold->entry);
    hfi_free(hold);
}

struct redlock_hold *redlock_hold_find(struct redlock_store *store, const unsigned char *id)
{
    return (struct redlock_hold *)hfi_claims_find(&store->holds, id);
}

/* ---- the table -------------------------------------------------------------------------------- */

static void redlock_engine_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    struct redlock_store *store = self;
    bool sooner;

    hfi_reactor_enter(&store->reactor);
    sooner = redlock_passed(store, claim, token, tid);
    hfi_reactor_leave_quietly(&store->reactor, sooner);
}

/* Why not. */
static const hf_engine_lack plain_lacks[] = {
    { HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,
      "the other clients of this wire know a key with one holder, and nothing else" },
    { HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_BARGE | HF_CAP_WAITERS | HF_CAP_WANTED,
      "this wire has no queue; clients try again, and the first try after a release wins" },
    { HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_LINGER,
      "the other clients raise no counter when they are granted the name" },
    { HF_CAP_INSPECT | HF_CAP_BREAK,
      "a key of this wire says nothing of its holder but a random id" },
    { HF_CAP_LOCK_DELAY,
      "the end of the keys is the nodes' own and frees the name for the other clients at once" },
    { HF_CAP_PROCESS, "nodes do not see a process end; the ttl frees the name" },
    { HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_COMMIT | HF_CAP_CLOCK |
          HF_CAP_SCRIPTS,
      "nodes do not see each other, and a write that reached a few of them cannot be told from one "
      "that did not; that needs consensus (etcd, ZooKeeper)" },
    { HF_CAP_WATCH, "the other clients do not report changes" },
    { 0, NULL },
};

static const hf_engine_lack lacks[] = {
    { HF_CAP_FIFO, "nodes see requests in different orders; the order is nearly that of arrival" },
    { HF_CAP_PROCESS, "nodes do not see a process end; the ttl frees the name" },
    { HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_COMMIT | HF_CAP_SCRIPTS,
      "nodes do not see each other, and a write that reached a few of them cannot be told from one "
      "that did not; that needs consensus (etcd, ZooKeeper)" },
    { HF_CAP_CLOCK,
      "every node has a clock of its own, and a limit is kept in a cell, of which there are none" },
    { HF_CAP_CONVERT, "a conversion must not be half done, and a majority of nodes may each have "
                      "taken another step" },
    { HF_CAP_RESIZE,
      "each node grants by itself, and nodes with different sizes would let in more than either" },
    { HF_CAP_WATCH, "no node sees all changes" },
    { 0, NULL },
};

/* Every promise that stands on tokens, queues or epochs is gone: other clients know none of these. */
static const struct hfi_promises plain_promises = {
    .name = "redlock-plain",
    .choice = "wire=plain",
    .lacks = plain_lacks,
    .schemes = SCHEMES,
    .default_ttl_ms = REDLOCK_TTL_MS,
    .min_ttl_ms = 1000,
    .tokens = HF_TOKEN_STRENGTH_NONE,
    .caps = HF_CAP_TTL | HF_CAP_DETACHED,
    .on_crash = "freed after the ttl",
    .on_pause = "freed after the ttl; nothing fences: there are no tokens",
    .on_clock_jump = "a node whose clock jumps forward loses its vote early; of a majority: two "
                     "holders, undetected",
    .on_server_loss =
        "a minority costs its votes; a node that comes back without its data votes at "
        "once: start it a ttl later, or two may hold, undetected",
    .on_partition = "the side with a majority of the nodes goes on",
    .fairness = "none: the first request after a release wins",
    .wakeup = "a jittered poll, and the holder's expiry: there is no queue"
};

static const struct hfi_redlock_extension extension = {
    .head = { HFI_REDLOCK_EXTENSION, sizeof extension },
    .get_status = redlock_get_status,
    .join_begin = redlock_join_begin,
    .join_step = redlock_join_step,
    .join_end = redlock_join_end,
};

static const struct hfi_engine redlock = {
    .abi = HFI_ENGINE_ABI,
    HFI_REACTOR_CALLS,
    HFI_STORAGE(struct redlock_store, struct redlock_op, struct redlock_claim),
    .open = redlock_open,
    .close = redlock_close,
    .conf = &conf_type,
    .passed = redlock_engine_passed,
    .modes = (const struct hfi_promises *const[]){ &plain_promises, NULL },
    .admin = &(const struct hfi_admin){ .doctor = redlock_doctor, .extension = &extension.head },
    .promises =
        &(const struct hfi_promises){
            .default_ttl_ms = REDLOCK_TTL_MS,
            .min_ttl_ms = 1000,
            .name = "redlock",
            .lacks = lacks,
            .schemes = SCHEMES,
            .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,
            .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_TTL | HF_CAP_DETACHED |
                    HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE | HF_CAP_LOCK_DELAY | HF_CAP_INSPECT |
                    HF_CAP_WAITERS | HF_CAP_BREAK | HF_CAP_WANTED | HF_CAP_LINGER | HF_CAP_NUMBERED,
            .on_crash = "freed after the ttl",
            .on_pause = "freed after the ttl; the token fences",
            .on_clock_jump = "a node whose clock jumps loses its vote early; of a majority: two "
                             "holders, whose tokens differ and are ordered",
            .on_server_loss = "a minority costs its votes; a node without its data does not vote "
                              "until it is healed",
            .on_partition = "the side with a majority of the nodes goes on",
            .fairness = "nearly the order of arrival; not promised",
            .wakeup = "each node hands over by a message; heartbeats find what was lost" },
};

HFI_ENGINE_ENTRY(redlock)
