/* SPDX-License-Identifier: MIT */
/*
 * A healer of the simulation: probe all nodes, let hfi_heal_next() decide, do that, probe again.
 * Between two probes it remembers only the marker of a start that it has under way. Markers are
 * drawn anew for every request, and such requests are never sent twice.
 */
#include "redlock.h"

#include <string.h>

static struct rl_message request(struct rl_world *world, unsigned number, unsigned node,
                                 enum rl_verb verb)
{
    return (struct rl_message){ .verb = verb,
                                .node = node,
                                .actor = RL_CLIENTS + number,
                                .number = ++world->healer[number].requests };
}

static void look(struct rl_world *world, unsigned number)
{
    struct rl_healer *healer = &world->healer[number];

    healer->viewing = true;
    healer->round = healer->requests + 1;
    memset(healer->view, 0, sizeof healer->view);
    healer->took = 0;
    for (unsigned i = 0; i < world->n; i++) {
        struct rl_message m = request(world, number, i, RL_STATUS);

        rl_send(world, &m);
    }
}

/* ---- steps -------------------------------------------------------------------------------- */

static void install(struct rl_world *world, unsigned number, unsigned node,
                    const struct hfi_epoch *epoch, uint64_t floor, const unsigned char *cluster)
{
    struct rl_message m = request(world, number, node, RL_INSTALL);

    m.epoch = *epoch;
    m.floor = floor;
    memcpy(m.marker, world->healer[number].view[node].marker, HFI_EPOCH_ID);
    memcpy(m.view.cluster, cluster, HFI_EPOCH_ID);
    rl_send(world, &m);
}

/* A young marker is never removed: otherwise two starting healers would take nodes from each other
 * for ever. */
static bool all_old(const struct rl_world *world, const struct rl_healer *healer, int64_t old_ms)
{
    for (unsigned i = 0; i < world->n; i++)
        if (healer->view[i].marked && healer->view[i].age_ms <= old_ms)
            return false;
    return true;
}

static void start_marker(const struct rl_world *world, const struct rl_healer *healer,
                         unsigned node, unsigned char *ret_marker)
{
    hfi_start_marker(healer->marker, world->mutant == RL_ONE_MARKER ? 0 : node, ret_marker);
}

static bool all_mine(const struct rl_world *world, const struct rl_healer *healer)
{
    unsigned char marker[HFI_EPOCH_ID];

    for (unsigned i = 0; i < world->n; i++) {
        start_marker(world, healer, i, marker);
        if (!healer->view[i].marked || memcmp(healer->view[i].marker, marker, HFI_EPOCH_ID) != 0)
            return false;
    }
    return true;
}

/* Claim all; the next look confirms that all still carry it; then install. */
static void start(struct rl_world *world, unsigned number)
{
    struct rl_healer *healer = &world->healer[number];
    struct hfi_epoch epoch;
    int64_t old_ms = 4 * world->window_ms;

    if (all_mine(world, healer)) {
        hfi_start_epoch(healer->marker, &epoch);
        for (unsigned i = 0; i < world->n; i++)
            install(world, number, i, &epoch, 0, epoch.id);
        return;
    }
    if (!all_old(world, healer, old_ms))
        return;
    rl_random_id(world, healer->marker);
    for (unsigned i = 0; i < world->n; i++) {
        struct rl_message m = request(world, number, i, RL_MARK);

        m.overwrite_ms = old_ms;
        start_marker(world, healer, i, m.marker);
        rl_send(world, &m);
    }
}

static void mark(struct rl_world *world, unsigned number, unsigned node)
{
    struct rl_message m = request(world, number, node, RL_MARK);

    rl_random_id(world, m.marker);
    rl_send(world, &m);
}

static void seal(struct rl_world *world, unsigned number, unsigned node,
                 const struct hfi_epoch *epoch)
{
    struct rl_message m = request(world, number, node, RL_SEAL);

    m.epoch = world->healer[number].view[node].epoch;
    m.next = *epoch;
    rl_send(world, &m);
}

/* ---- mutants of the plan --------------------------------------------------------------------- */

/* Install what the planner wants to seal for: at the highest epoch there is. */
static struct hfi_heal without_seal(const struct rl_world *world, const struct hfi_node_view *view,
                                    struct hfi_heal heal)
{
    struct hfi_heal copy = { .step = HFI_HEAL_INSTALL };
    unsigned sealed = 0, ready = 0;

    for (unsigned i = 0; i < world->n; i++) {
        ready += view[i].state == HFI_NODE_READY;
        sealed += view[i].state == HFI_NODE_READY && !(heal.nodes >> i & 1);
        if (view[i].state == HFI_NODE_EMPTY && view[i].marked && !copy.nodes &&
            view[i].age_ms >= world->max_ttl_ms)
            copy.nodes = UINT32_C(1) << i;
        if (view[i].state != HFI_NODE_READY ||
            (world->mutant == RL_SEAL_FEW && heal.nodes >> i & 1))
            continue;
        if (hfi_epoch_compare(&view[i].epoch, &copy.epoch) > 0)
            copy.epoch = view[i].epoch;
        if (view[i].top >= copy.floor)
            copy.floor = view[i].top + 1;
    }
    if (world->mutant == RL_SEAL_FEW && 2 * sealed <= ready)
        return heal;
    return copy.nodes ? copy : heal;
}

static struct hfi_heal plan(const struct rl_world *world, const struct rl_healer *healer)
{
    struct hfi_node_view view[RL_NODES];
    struct hfi_heal heal;

    memcpy(view, healer->view, sizeof view);
    for (unsigned i = 0; i < world->n && world->mutant == RL_BORN_OLD; i++)
        view[i].age_ms = world->max_ttl_ms;
    heal = hfi_heal_next(view, world->n);
    if ((world->mutant == RL_NO_SEAL || world->mutant == RL_SEAL_FEW) && heal.step == HFI_HEAL_SEAL)
        heal = without_seal(world, view, heal);
    return heal;
}

/* ---- one round ----------------------------------------------------------------------------------- */

static void act(struct rl_world *world, unsigned number)
{
    struct rl_healer *healer = &world->healer[number];
    struct hfi_heal heal = plan(world, healer);
    unsigned char cluster[HFI_EPOCH_ID] = { 0 };

    healer->viewing = false;
    healer->stuck = heal.step == HFI_HEAL_STUCK ? heal.why : HFI_STUCK_NO;
    healer->round = healer->requests + 1;
    healer->took = 0;
    for (unsigned i = 0; i < world->n; i++)
        if (healer->view[i].state == HFI_NODE_READY)
            memcpy(cluster, healer->view[i].cluster, HFI_EPOCH_ID);
    if (heal.step == HFI_HEAL_START)
        start(world, number);
    for (unsigned i = 0; i < world->n; i++) {
        if (!(heal.nodes >> i & 1))
            continue;
        if (heal.step == HFI_HEAL_MARK)
            mark(world, number, i);
        else if (heal.step == HFI_HEAL_SEAL || heal.step == HFI_HEAL_LIFT)
            seal(world, number, i, &heal.epoch);
        else if (heal.step == HFI_HEAL_INSTALL)
            install(world, number, i, &heal.epoch, heal.floor, cluster);
    }
}

void rl_healer_step(struct rl_world *world, unsigned number)
{
    struct rl_healer *healer = &world->healer[number];
    int64_t times = 1;

    /* Some probe for a long time, and act on old information. */
    if (!world->calm && (world->stale ? number == 0 : !rl_chance(world, 85)))
        times = world->stale ? 16 : 8;
    if (healer->viewing)
        act(world, number);
    else
        look(world, number);
    rl_set_timer(world, RL_CLIENTS + number,
                 times * world->window_ms * 500 +
                     (int64_t)rl_roll(world, (uint64_t)world->window_ms * 1000));
}

void rl_healer_message(struct rl_world *world, unsigned number, const struct rl_message *m)
{
    struct rl_healer *healer = &world->healer[number];
    unsigned heard = 0;

    if (m->number < healer->round)
        return;
    if (m->verb == RL_STATUS && healer->viewing) {
        healer->view[m->node] = m->view;
        for (unsigned i = 0; i < world->n; i++)
            heard += healer->view[i].state != HFI_NODE_UNKNOWN;
    }
    /* All have answered: no need to wait for the timer. */
    if (heard == world->n ||
        (!healer->viewing && ++healer->took == healer->requests + 1 - healer->round))
        rl_healer_step(world, number);
}

void rl_healer_die(struct rl_world *world, unsigned number)
{
    unsigned requests = world->healer[number].requests;

    world->healer[number] = (struct rl_healer){ .requests = requests,
                                                .round = requests + 1,
                                                .timer = world->healer[number].timer };
}
