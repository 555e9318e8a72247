/* SPDX-License-Identifier: MIT */
/*
 * Epochs, the client's side: finds the epoch of the majority, and heals the cluster when a node has
 * lost its data. heal_plan.c decides the next step from the states of all nodes; this file probes
 * the nodes, takes the step, and probes again. Every step is a compare-and-set at a node, so any
 * number of clients may heal at once, and each may die at any point.
 *
 * With the lock. Nothing waits: rounds are answered by the driver, pauses end in redlock_heal_tick().
 */
#include "engine/redlock/heal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

/* A random part of this passes before a first step, so that not all clients take it at once. It is
 * short, because clients may be short-lived (`holdfast run`), and must heal too if there are no
 * others. */
#define PAUSE_MS 200
#define MARK_MS  20 /* the same before a marker is put: that does no harm, and time counts from it */
#define START_MS 50 /* the same before a start: starters meet at one node */
#define DOUBT_MS \
    300 /* at most one probe in this time because of nodes that answer "another
                           * epoch" */
#define DOUBT_SPREAD  30
#define AGAIN_MS      500  /* after something went wrong, doubling up to ... */
#define AGAIN_MAX_MS  8000 /* ... this */
#define LOST_SURE_MS  1500 /* a start that is under way looks like a loss for a moment */
#define LOST_LOOK_MS  150  /* until then the nodes are probed this often */
#define STEP_MS       20   /* how often we look whether a step has ended */
#define STEPS_AT_ONCE 8    /* a heal needs fewer; then there are pauses between them */

static void look(struct redlock_store *store, uint32_t nodes);
static void told(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                 const struct hfi_reply *reply, const hf_error *err);
static void all_told(struct redlock_round *round);
static void refresh(struct redlock_store *store);
static void decide(struct redlock_store *store);

/* ---- life ------------------------------------------------------------------------------- */

hf_status redlock_heal_open(struct redlock_store *store, hf_error *err)
{
    store->healing = hfi_calloc(1, sizeof *store->healing);
    if (!store->healing)
        return hfi_error_memory(err);
    store->healing->look_ms = HFI_NEVER;
    return HF_OK;
}

void redlock_heal_close(struct redlock_store *store)
{
    hfi_free(store->healing);
    store->healing = NULL;
}

void redlock_heal_node_up(struct redlock_node *node)
{
    node->view.state = HFI_NODE_UNKNOWN;
    if (!node->store->closing)
        look(node->store, 1u << node->index);
}

void redlock_heal_node_down(struct redlock_node *node)
{
    struct redlock_store *store = node->store;

    node->view.state = HFI_NODE_UNKNOWN;
    if (store->closing || !store->healing)
        return;
    refresh(store);
    if (!store->has_epoch)
        decide(store); /* `stuck` names the nodes that do not answer */
}

void redlock_heal_soon(struct redlock_store *store, int64_t from_ms, int64_t spread_ms)
{
    int64_t at_ms = hfi_now_ms() + from_ms;

    if (spread_ms > 0)
        at_ms += (int64_t)(hfi_random_u64() % (uint64_t)(spread_ms + 1));
    if (at_ms < store->healing->look_ms)
        store->healing->look_ms = at_ms;
    hfi_source_by(&store->heal_timer, at_ms);
}

/* Many calls may come at once: the pause is drawn once, not the shortest of many. */
void redlock_heal_doubt(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;
    int64_t now_ms = hfi_now_ms(), from_ms = healing->looked_ms + DOUBT_MS - now_ms;

    if (from_ms < 0)
        from_ms = 0;
    if (store->closing || healing->look_ms <= now_ms + from_ms + DOUBT_SPREAD)
        return;
    redlock_heal_soon(store, from_ms, DOUBT_SPREAD);
}

bool redlock_heal_busy(const struct redlock_store *store)
{
    return store->healing->looks > 0 || store->healing->steps > 0;
}

bool redlock_heal_starts(const struct redlock_store *store)
{
    return store->may_start && store->healing->last == HFI_HEAL_START;
}

/* A silent node keeps its last view: nothing is decided before it has answered. */
static uint32_t answering(const struct redlock_store *store, int64_t now_ms)
{
    uint32_t nodes = redlock_nodes_up(store);

    for (unsigned i = 0; i < store->n; i++)
        if (nodes & 1u << i && redlock_node_silent(&store->nodes[i], now_ms))
            nodes &= ~(1u << i);
    return nodes;
}

void redlock_heal_tick(struct redlock_store *store, int64_t now_ms)
{
    struct redlock_healing *healing = store->healing;
    uint32_t nodes;

    if (store->closing || !healing || healing->look_ms == HFI_NEVER)
        return;
    /* A step ends by itself. A probe need not: one node that does not answer must not prevent us from learning of a new
     * epoch. */
    if (healing->steps || healing->look_ms > now_ms) {
        hfi_source_at(&store->heal_timer,
                      healing->look_ms > now_ms ? healing->look_ms : now_ms + STEP_MS);
        return;
    }
    healing->look_ms = HFI_NEVER;
    healing->looked_ms = now_ms;
    nodes = answering(store, now_ms);
    if (!nodes)
        redlock_heal_soon(store, AGAIN_MS, AGAIN_MS);
    look(store, nodes);
}

/* ---- looking ----------------------------------------------------------------------------- */

static void look(struct redlock_store *store, uint32_t nodes)
{
    struct redlock_round *round;

    if (!nodes)
        return; /* one that comes up is asked then */
    round = redlock_round_new(store, &redlock_script_status, 1, told);
    if (!round) {
        redlock_heal_soon(store, AGAIN_MS, AGAIN_MS);
        return;
    }
    redlock_add_cluster(round);
    round->over = all_told;
    store->healing->looks++;
    redlock_round_send(round, nodes);
}

static void told(struct redlock_round *round, unsigned index, enum hfi_outcome outcome,
                 const struct hfi_reply *reply, const hf_error *err)
{
    struct redlock_store *store = round->store;
    struct redlock_node *node = &store->nodes[index];
    struct redlock_told status = { .view = { .state = HFI_NODE_UNKNOWN } };

    if (outcome == HFI_ANSWERED) {
        if (!redlock_read_status(reply, &status))
            hfi_error_set(&node->why, HF_CORRUPT, 0, "%s: its key '%scluster' is not one of ours",
                          store->conf->url.hosts[index].shown, store->prefix);
        else
            hfi_error_clear(&node->why);
    } else if (redlock_node_up(node)) {
        node->why = *err;
    }
    node->view = status.view;
    refresh(store);
}

static void all_told(struct redlock_round *round)
{
    struct redlock_store *store = round->store;

    store->healing->looks--;
    decide(store);
}

void redlock_heal_views(const struct redlock_store *store,
                        struct hfi_node_view ret_views[HFI_NODES_MAX])
{
    memset(ret_views, 0, HFI_NODES_MAX * sizeof *ret_views);
    for (unsigned i = 0; i < store->n; i++)
        ret_views[i] = store->nodes[i].view;
}

/*
 * Choose the epoch that we use. An epoch of a majority stays valid while enough nodes may still be
 * in it: unreachable nodes do not contradict it, and every command carries it, so a node that has
 * left it refuses.
 */
static void refresh(struct redlock_store *store)
{
    struct hfi_node_view views[HFI_NODES_MAX];
    struct hfi_epoch epoch;
    unsigned may = 0;

    redlock_heal_views(store, views);
    for (unsigned i = 0; i < store->n; i++)
        if (views[i].state == HFI_NODE_READY && views[i].n != store->n)
            views[i].state = HFI_NODE_EMPTY; /* it counts majorities of another set of nodes */
    if (hfi_epoch_current(views, store->n, &epoch)) {
        for (unsigned i = 0; i < store->n; i++)
            if (views[i].state == HFI_NODE_READY && hfi_epoch_compare(&views[i].epoch, &epoch) == 0)
                store->max_ttl_ms = views[i].max_ttl_ms;
        if (store->has_epoch && hfi_epoch_compare(&epoch, &store->epoch) == 0)
            return;
        store->has_epoch = true;
        store->epoch = epoch;
        hfi_error_clear(&store->stuck); /* the reason why there was none is obsolete */
        redlock_waits_restart(store);
        return;
    }
    for (unsigned i = 0; i < store->n; i++)
        may += views[i].state == HFI_NODE_UNKNOWN ||
               (views[i].state == HFI_NODE_READY &&
                hfi_epoch_compare(&views[i].epoch, &store->epoch) == 0);
    if (may < store->need)
        store->has_epoch = false;
}

/* ---- what next ----------------------------------------------------------------------------- */

void redlock_heal_again(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;
    unsigned doublings = healing->failures < 8 ? healing->failures : 8;
    int64_t pause_ms = (int64_t)AGAIN_MS << doublings;

    healing->failures++;
    healing->eager = false;
    if (pause_ms > AGAIN_MAX_MS)
        pause_ms = AGAIN_MAX_MS;
    redlock_heal_soon(store, pause_ms / 2, pause_ms / 2);
}

void redlock_heal_answered(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                           const struct hfi_reply *reply, const hf_error *err)
{
    (void)node, (void)reply, (void)err;
    /* Whatever the answer is, all nodes are probed next. Without an answer not at once. */
    if (outcome != HFI_ANSWERED)
        round->store->healing->eager = false;
}

void redlock_heal_stepped(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;

    if (--healing->steps > 0 || store->closing)
        return;
    if (!healing->eager || healing->streak++ >= STEPS_AT_ONCE)
        redlock_heal_again(store);
    else
        redlock_heal_soon(store, 0, 0);
}

static void step_over(struct redlock_round *round)
{
    redlock_heal_stepped(round->store);
}

struct redlock_round *redlock_heal_round(struct redlock_store *store,
                                         const struct hfi_script *script, redlock_answer_fn *answer)
{
    struct redlock_round *round = redlock_round_new(store, script, 1, answer);

    if (!round)
        return NULL;
    redlock_add_cluster(round);
    round->over = step_over;
    store->healing->steps++;
    return round;
}

/* A fresh marker for each node: no marker is ever sent twice. */
static void mark(struct redlock_store *store, unsigned node)
{
    struct redlock_round *round =
        redlock_heal_round(store, &redlock_script_mark, redlock_heal_answered);
    unsigned char marker[HFI_EPOCH_ID];

    if (!round) {
        redlock_heal_again(store);
        return;
    }
    hfi_random_bytes(marker, sizeof marker);
    redlock_say_mark(&round->command, marker, 0);
    redlock_round_send(round, 1u << node);
}

static void seal(struct redlock_store *store, unsigned node, const struct hfi_epoch *epoch)
{
    struct redlock_round *round =
        redlock_heal_round(store, &redlock_script_seal, redlock_heal_answered);

    if (!round) {
        redlock_heal_again(store);
        return;
    }
    redlock_say_seal(&round->command, &store->nodes[node].view.epoch, epoch);
    redlock_round_send(round, 1u << node);
}

/* `as`: a node in that epoch, or in any epoch of this cluster. */
static void install(struct redlock_store *store, unsigned node, const struct hfi_node_view *as,
                    const struct hfi_epoch *epoch, uint64_t floor)
{
    struct redlock_round *round =
        redlock_heal_round(store, &redlock_script_install, redlock_heal_answered);

    if (!round) {
        redlock_heal_again(store);
        return;
    }
    redlock_say_install(&round->command, store->nodes[node].view.marker, as, epoch, floor);
    redlock_round_send(round, 1u << node);
}

static const struct hfi_node_view *some_ready(const struct hfi_node_view *views, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (views[i].state == HFI_NODE_READY)
            return &views[i];
    return NULL;
}

/* `steps` is raised meanwhile: a round may be over before the next one has been sent. */
static void take_step(struct redlock_store *store, const struct hfi_heal *plan,
                      const struct hfi_node_view *views)
{
    const struct hfi_node_view *as = some_ready(views, store->n);

    store->healing->steps++;
    for (unsigned i = 0; i < store->n; i++) {
        if (!(plan->nodes & 1u << i))
            continue;
        if (plan->step == HFI_HEAL_MARK)
            mark(store, i);
        else if (plan->step == HFI_HEAL_INSTALL && as)
            install(store, i, as, &plan->epoch, plan->floor);
        else if (plan->step == HFI_HEAL_SEAL || plan->step == HFI_HEAL_LIFT)
            seal(store, i, &plan->epoch);
    }
    redlock_heal_stepped(store);
}

/* Is it our turn? Before the first step of a heal there is a random pause, after which all nodes
 * are probed again. */
static bool my_turn(struct redlock_store *store, int64_t pause_ms)
{
    if (store->healing->eager)
        return true;
    store->healing->eager = true;
    redlock_heal_soon(store, 0, pause_ms);
    return false;
}

static void stuck(struct redlock_store *store, const struct hfi_node_view *views,
                  enum hfi_stuck why)
{
    struct redlock_healing *healing = store->healing;
    const hf_error *whys[HFI_NODES_MAX];
    int64_t now_ms = hfi_now_ms();

    for (unsigned i = 0; i < store->n; i++)
        whys[i] = &store->nodes[i].why;
    redlock_stuck_text(store->conf, views, store->n, why, whys, &store->stuck);
    if (why == HFI_STUCK_LOST && !healing->lost_ms)
        healing->lost_ms = now_ms;
    if (why == HFI_STUCK_LOST && now_ms - healing->lost_ms < LOST_SURE_MS) {
        store->stuck.status = HF_UNAVAILABLE;
        redlock_heal_soon(store, LOST_LOOK_MS, LOST_LOOK_MS);
    } else if (why != HFI_STUCK_FEW) { /* a node that comes up is probed then */
        redlock_heal_again(store);     /* a person may have decided */
    }
}

static void decide(struct redlock_store *store)
{
    struct redlock_healing *healing = store->healing;
    struct hfi_node_view views[HFI_NODES_MAX];
    struct hfi_heal plan;

    if (store->closing || healing->looks || healing->steps)
        return;
    redlock_heal_views(store, views);
    hfi_error_clear(&store->stuck);
    plan = hfi_heal_next(views, store->n);
    if (plan.step != HFI_HEAL_STUCK || plan.why != HFI_STUCK_LOST)
        healing->lost_ms = 0;
    if (plan.step != healing->last)
        healing->failures = 0;
    healing->last = plan.step;

    switch (plan.step) {
    case HFI_HEAL_STUCK:
        stuck(store, views, plan.why);
        break;
    case HFI_HEAL_START:
        if (store->may_start)
            hfi_error_set(&store->stuck, HF_UNAVAILABLE, 0,
                          "the %u nodes are empty, and no client has made a cluster of them yet",
                          store->n);
        else
            hfi_error_set(&store->stuck, HF_NOT_FOUND, 0, "no store yet at %s",
                          store->reactor.host->location);
        if (!store->may_start)
            redlock_heal_again(store);
        else if (my_turn(store, START_MS))
            redlock_start(store);
        return;
    case HFI_HEAL_NOTHING:
    case HFI_HEAL_AGE:
        healing->eager = false;
        healing->streak = 0;
        if (plan.step == HFI_HEAL_AGE)
            redlock_heal_soon(store, plan.wait_ms > 0 ? plan.wait_ms : 0, PAUSE_MS);
        break;
    default:
        if (my_turn(store, plan.step == HFI_HEAL_MARK ? MARK_MS : PAUSE_MS))
            take_step(store, &plan, views);
    }
    for (unsigned i = 0; i < store->n;
         i++) /* it is up, but gives no usable answer (LOADING, NOPERM) */
        if (redlock_node_up(&store->nodes[i]) && store->nodes[i].view.state == HFI_NODE_UNKNOWN &&
            healing->look_ms == HFI_NEVER && !healing->steps)
            redlock_heal_again(store);
}
