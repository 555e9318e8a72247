/* SPDX-License-Identifier: MIT */
/*
 * Epochs, the client's side: which one a majority of the nodes is in, and making the cluster whole again
 * when a node has lost its data. What to do next is decided by heal_plan.c from what all nodes say of
 * themselves; here it is asked for, done, and asked for again. Every step is a compare-and-set at a node, so
 * any number of clients may be at it at once and each may die at any point.
 *
 * With the lock. Nothing waits: rounds are answered by the driver, pauses end in redlock_heal_tick().
 */
#include "engine/redlock/heal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

/* Before a first step a random part of this passes, so that not all clients take it at once. Not long, for many a
 * client lives for a moment only (`holdfast run`), and if there are no others they must heal too. */
#define PAUSE_MS      200
#define MARK_MS       20 /* the same before a marker is put: that does no harm, and time counts from it */
#define START_MS      50  /* the same before a start: starters meet at one node */
#define DOUBT_MS      300 /* no more looks than one in so long for nodes that say "another epoch" */
#define DOUBT_SPREAD  30
#define AGAIN_MS      500  /* after something went wrong, doubling up to ... */
#define AGAIN_MAX_MS  8000 /* ... this */
#define LOST_SURE_MS  1500 /* a start that is under way looks like a loss for a moment */
#define LOST_LOOK_MS  150  /* until then it is looked at so often */
#define STEPS_AT_ONCE 8    /* a heal needs fewer; then there are pauses between them */

static void look(struct hfi_conn *conn, uint32_t nodes);
static void told(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                 const struct hfi_reply *reply, const hf_error *err);
static void all_told(struct redlock_round *round);
static void refresh(struct hfi_conn *conn);
static void decide(struct hfi_conn *conn);

/* ---- life ------------------------------------------------------------------------------- */

hf_status redlock_heal_open(struct hfi_conn *conn, hf_error *err)
{
    conn->healing = hfi_calloc(1, sizeof *conn->healing);
    if (!conn->healing)
        return hfi_error_memory(err);
    conn->healing->look_ms = HFI_NEVER;
    return HF_OK;
}

void redlock_heal_close(struct hfi_conn *conn)
{
    hfi_free(conn->healing);
    conn->healing = NULL;
}

void redlock_heal_node_up(struct redlock_node *node)
{
    node->view.state = HFI_NODE_UNKNOWN;
    if (!node->conn->closing)
        look(node->conn, 1u << node->index);
}

void redlock_heal_node_down(struct redlock_node *node)
{
    struct hfi_conn *conn = node->conn;

    node->view.state = HFI_NODE_UNKNOWN;
    if (conn->closing || !conn->healing)
        return;
    refresh(conn);
    if (!conn->has_epoch)
        decide(conn); /* `stuck` names who does not answer */
}

void redlock_heal_soon(struct hfi_conn *conn, int64_t from_ms, int64_t spread_ms)
{
    int64_t at_ms = hfi_now_ms() + from_ms;

    if (spread_ms > 0)
        at_ms += (int64_t)(hfi_random_u64() % (uint64_t)(spread_ms + 1));
    if (at_ms < conn->healing->look_ms)
        conn->healing->look_ms = at_ms;
}

/* Many may call in one moment: the pause is drawn once, not the shortest of many. */
void redlock_heal_doubt(struct hfi_conn *conn)
{
    struct redlock_healing *healing = conn->healing;
    int64_t now_ms = hfi_now_ms(), from_ms = healing->looked_ms + DOUBT_MS - now_ms;

    if (from_ms < 0)
        from_ms = 0;
    if (conn->closing || healing->look_ms <= now_ms + from_ms + DOUBT_SPREAD)
        return;
    redlock_heal_soon(conn, from_ms, DOUBT_SPREAD);
}

bool redlock_heal_busy(const struct hfi_conn *conn)
{
    return conn->healing->looks > 0 || conn->healing->steps > 0;
}

int64_t redlock_heal_next_ms(const struct hfi_conn *conn)
{
    const struct redlock_healing *healing = conn->healing;

    /* A step ends by itself, and then this is asked again. Not so a look: one node that does not answer must not
     * keep us from hearing of a new epoch. */
    return !healing || healing->steps ? HFI_NEVER : healing->look_ms;
}

/* A silent one stays as we know it: nothing is decided before it has answered what it owes. */
static uint32_t answering(const struct hfi_conn *conn, int64_t now_ms)
{
    uint32_t nodes = redlock_nodes_up(conn);

    for (unsigned i = 0; i < conn->n; i++)
        if (nodes & 1u << i && redlock_node_silent(&conn->nodes[i], now_ms))
            nodes &= ~(1u << i);
    return nodes;
}

void redlock_heal_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct redlock_healing *healing = conn->healing;
    uint32_t nodes;

    if (conn->closing || redlock_heal_next_ms(conn) > now_ms)
        return;
    healing->look_ms = HFI_NEVER;
    healing->looked_ms = now_ms;
    nodes = answering(conn, now_ms);
    if (!nodes)
        redlock_heal_soon(conn, AGAIN_MS, AGAIN_MS);
    look(conn, nodes);
}

/* ---- looking ----------------------------------------------------------------------------- */

static void look(struct hfi_conn *conn, uint32_t nodes)
{
    struct redlock_round *round;

    if (!nodes)
        return; /* one that comes up is asked then */
    round = redlock_round_new(conn, &redlock_script_status, 1, told);
    if (!round) {
        redlock_heal_soon(conn, AGAIN_MS, AGAIN_MS);
        return;
    }
    redlock_add_cluster(round);
    round->over = all_told;
    conn->healing->looks++;
    redlock_round_send(round, nodes);
}

static void told(struct redlock_round *round, unsigned index, enum hfi_outcome outcome,
                 const struct hfi_reply *reply, const hf_error *err)
{
    struct hfi_conn *conn = round->conn;
    struct redlock_node *node = &conn->nodes[index];
    struct redlock_told status = { .view = { .state = HFI_NODE_UNKNOWN } };

    if (outcome == HFI_ANSWERED) {
        if (!redlock_read_status(reply, &status))
            hfi_error_set(&node->why, HF_CORRUPT, 0, "%s: its key '%scluster' is not one of ours",
                          conn->conf->url.hosts[index].shown, conn->prefix);
        else
            hfi_error_clear(&node->why);
    } else if (redlock_node_up(node)) {
        node->why = *err;
    }
    node->view = status.view;
    refresh(conn);
}

static void all_told(struct redlock_round *round)
{
    struct hfi_conn *conn = round->conn;

    conn->healing->looks--;
    decide(conn);
}

void redlock_heal_views(const struct hfi_conn *conn, struct hfi_node_view ret_views[HFI_NODES_MAX])
{
    memset(ret_views, 0, HFI_NODES_MAX * sizeof *ret_views);
    for (unsigned i = 0; i < conn->n; i++)
        ret_views[i] = conn->nodes[i].view;
}

/*
 * The epoch that we use. One that a majority was in stays ours while enough nodes may still be in it: nodes
 * that cannot be reached say nothing against it, and every command carries it, so a node that has left it refuses.
 */
static void refresh(struct hfi_conn *conn)
{
    struct hfi_node_view views[HFI_NODES_MAX];
    struct hfi_epoch epoch;
    unsigned may = 0;

    redlock_heal_views(conn, views);
    for (unsigned i = 0; i < conn->n; i++)
        if (views[i].state == HFI_NODE_READY && views[i].n != conn->n)
            views[i].state = HFI_NODE_EMPTY; /* its majorities are not ours */
    if (hfi_epoch_current(views, conn->n, &epoch)) {
        for (unsigned i = 0; i < conn->n; i++)
            if (views[i].state == HFI_NODE_READY && hfi_epoch_compare(&views[i].epoch, &epoch) == 0)
                conn->max_ttl_ms = views[i].max_ttl_ms;
        if (conn->has_epoch && hfi_epoch_compare(&epoch, &conn->epoch) == 0)
            return;
        conn->has_epoch = true;
        conn->epoch = epoch;
        hfi_error_clear(&conn->stuck); /* why there was none is of no interest any more */
        redlock_waits_restart(conn);
        return;
    }
    for (unsigned i = 0; i < conn->n; i++)
        may += views[i].state == HFI_NODE_UNKNOWN ||
               (views[i].state == HFI_NODE_READY &&
                hfi_epoch_compare(&views[i].epoch, &conn->epoch) == 0);
    if (may < conn->need)
        conn->has_epoch = false;
}

/* ---- what next ----------------------------------------------------------------------------- */

void redlock_heal_again(struct hfi_conn *conn)
{
    struct redlock_healing *healing = conn->healing;
    unsigned doublings = healing->failures < 8 ? healing->failures : 8;
    int64_t pause_ms = (int64_t)AGAIN_MS << doublings;

    healing->failures++;
    healing->eager = false;
    if (pause_ms > AGAIN_MAX_MS)
        pause_ms = AGAIN_MAX_MS;
    redlock_heal_soon(conn, pause_ms / 2, pause_ms / 2);
}

void redlock_heal_answered(struct redlock_round *round, unsigned node, enum hfi_outcome outcome,
                           const struct hfi_reply *reply, const hf_error *err)
{
    (void)node, (void)reply, (void)err;
    /* Whatever it says, all are looked at next. Without an answer that must not be at once. */
    if (outcome != HFI_ANSWERED)
        round->conn->healing->eager = false;
}

void redlock_heal_stepped(struct hfi_conn *conn)
{
    struct redlock_healing *healing = conn->healing;

    if (--healing->steps > 0 || conn->closing)
        return;
    if (!healing->eager || healing->streak++ >= STEPS_AT_ONCE)
        redlock_heal_again(conn);
    else
        redlock_heal_soon(conn, 0, 0);
}

static void step_over(struct redlock_round *round)
{
    redlock_heal_stepped(round->conn);
}

struct redlock_round *redlock_heal_round(struct hfi_conn *conn, const struct hfi_script *script,
                                         redlock_answer_fn *answer)
{
    struct redlock_round *round = redlock_round_new(conn, script, 1, answer);

    if (!round)
        return NULL;
    redlock_add_cluster(round);
    round->over = step_over;
    conn->healing->steps++;
    return round;
}

/* A fresh marker for each node: no marker is ever sent twice. */
static void mark(struct hfi_conn *conn, unsigned node)
{
    struct redlock_round *round =
        redlock_heal_round(conn, &redlock_script_mark, redlock_heal_answered);
    unsigned char marker[HFI_EPOCH_ID];

    if (!round) {
        redlock_heal_again(conn);
        return;
    }
    hfi_random_bytes(marker, sizeof marker);
    redlock_say_mark(&round->command, marker, 0);
    redlock_round_send(round, 1u << node);
}

static void seal(struct hfi_conn *conn, unsigned node, const struct hfi_epoch *epoch)
{
    struct redlock_round *round =
        redlock_heal_round(conn, &redlock_script_seal, redlock_heal_answered);

    if (!round) {
        redlock_heal_again(conn);
        return;
    }
    redlock_say_seal(&round->command, &conn->nodes[node].view.epoch, epoch);
    redlock_round_send(round, 1u << node);
}

/* `as`: one that is in that epoch, or in any of this cluster. */
static void install(struct hfi_conn *conn, unsigned node, const struct hfi_node_view *as,
                    const struct hfi_epoch *epoch, uint64_t floor)
{
    struct redlock_round *round =
        redlock_heal_round(conn, &redlock_script_install, redlock_heal_answered);

    if (!round) {
        redlock_heal_again(conn);
        return;
    }
    redlock_say_install(&round->command, conn->nodes[node].view.marker, as, epoch, floor);
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
static void take_step(struct hfi_conn *conn, const struct hfi_heal *plan,
                      const struct hfi_node_view *views)
{
    const struct hfi_node_view *as = some_ready(views, conn->n);

    conn->healing->steps++;
    for (unsigned i = 0; i < conn->n; i++) {
        if (!(plan->nodes & 1u << i))
            continue;
        if (plan->step == HFI_HEAL_MARK)
            mark(conn, i);
        else if (plan->step == HFI_HEAL_INSTALL && as)
            install(conn, i, as, &plan->epoch, plan->floor);
        else if (plan->step == HFI_HEAL_SEAL || plan->step == HFI_HEAL_LIFT)
            seal(conn, i, &plan->epoch);
    }
    redlock_heal_stepped(conn);
}

/* Is it our turn? Before the first step of a heal there is a random pause, after which all is looked at again. */
static bool my_turn(struct hfi_conn *conn, int64_t pause_ms)
{
    if (conn->healing->eager)
        return true;
    conn->healing->eager = true;
    redlock_heal_soon(conn, 0, pause_ms);
    return false;
}

static void stuck(struct hfi_conn *conn, const struct hfi_node_view *views, enum hfi_stuck why)
{
    struct redlock_healing *healing = conn->healing;
    const hf_error *whys[HFI_NODES_MAX];
    int64_t now_ms = hfi_now_ms();

    for (unsigned i = 0; i < conn->n; i++)
        whys[i] = &conn->nodes[i].why;
    redlock_stuck_text(conn->conf, views, conn->n, why, whys, &conn->stuck);
    if (why == HFI_STUCK_LOST && !healing->lost_ms)
        healing->lost_ms = now_ms;
    if (why == HFI_STUCK_LOST && now_ms - healing->lost_ms < LOST_SURE_MS) {
        conn->stuck.status = HF_UNAVAILABLE;
        redlock_heal_soon(conn, LOST_LOOK_MS, LOST_LOOK_MS);
    } else if (why != HFI_STUCK_FEW) { /* then one that comes up is asked */
        redlock_heal_again(conn);      /* somebody may decide */
    }
}

static void decide(struct hfi_conn *conn)
{
    struct redlock_healing *healing = conn->healing;
    struct hfi_node_view views[HFI_NODES_MAX];
    struct hfi_heal plan;

    if (conn->closing || healing->looks || healing->steps)
        return;
    redlock_heal_views(conn, views);
    hfi_error_clear(&conn->stuck);
    plan = hfi_heal_next(views, conn->n);
    if (plan.step != HFI_HEAL_STUCK || plan.why != HFI_STUCK_LOST)
        healing->lost_ms = 0;
    if (plan.step != healing->last)
        healing->failures = 0;
    healing->last = plan.step;

    switch (plan.step) {
    case HFI_HEAL_STUCK:
        stuck(conn, views, plan.why);
        break;
    case HFI_HEAL_START:
        if (conn->may_start)
            hfi_error_set(&conn->stuck, HF_UNAVAILABLE, 0,
                          "the %u nodes are empty, and no client has made a cluster of them yet",
                          conn->n);
        else
            hfi_error_set(&conn->stuck, HF_NOT_FOUND, 0, "no store yet at %s",
                          conn->reactor.host->location);
        if (!conn->may_start)
            redlock_heal_again(conn);
        else if (my_turn(conn, START_MS))
            redlock_start(conn);
        return;
    case HFI_HEAL_NOTHING:
    case HFI_HEAL_AGE:
        healing->eager = false;
        healing->streak = 0;
        if (plan.step == HFI_HEAL_AGE)
            redlock_heal_soon(conn, plan.wait_ms > 0 ? plan.wait_ms : 0, PAUSE_MS);
        break;
    default:
        if (my_turn(conn, plan.step == HFI_HEAL_MARK ? MARK_MS : PAUSE_MS))
            take_step(conn, &plan, views);
    }
    for (unsigned i = 0; i < conn->n;
         i++) /* it is there, but says nothing of use (LOADING, NOPERM) */
        if (redlock_node_up(&conn->nodes[i]) && conn->nodes[i].view.state == HFI_NODE_UNKNOWN &&
            healing->look_ms == HFI_NEVER && !healing->steps)
            redlock_heal_again(conn);
}
