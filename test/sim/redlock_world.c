/* SPDX-License-Identifier: MIT */
/* Virtual time, chance, the network and the faults of the Redlock simulation: one heap of events, one seed. */
#include "redlock.h"

#include <stdlib.h>
#include <string.h>

#define FAULTS_END_US INT64_C(2000000)
#define REST_END_US   INT64_C(120000000)
#define FAULTS        RL_ACTORS /* the "actor" whose timer brings the next fault */

static const bool mutant_storm[] = {
#define STORM(name, storm, seed, text) storm,
    RL_MUTANTS(STORM)
#undef STORM
};

static void set_up(struct rl_world *world, uint64_t seed, enum rl_mutant mutant);
static void add_event(struct rl_world *world, struct rl_event event);
static struct rl_event next_event(struct rl_world *world);
static void deliver(struct rl_world *world, struct rl_event event);
static void fault(struct rl_world *world);
static void calm_down(struct rl_world *world);

/* ---- a schedule -------------------------------------------------------------------- */

static bool at_rest(struct rl_world *world)
{
    bool lost = true;

    if (!world->calm)
        return false;
    for (unsigned i = 0; i < world->healer_count; i++)
        lost = lost && world->healer[i].stuck != HFI_STUCK_NO &&
               world->healer[i].stuck != HFI_STUCK_FEW;
    world->excused = world->excused || lost;
    if (world->excused)
        return true;
    for (unsigned i = 0; i < world->client_count; i++)
        if (!world->client[i].won_in_calm || world->client[i].phase != RL_IDLE)
            return false;
    return true;
}

static unsigned *timer_of(struct rl_world *world, unsigned actor)
{
    return actor < RL_CLIENTS ? &world->client[actor].timer
                              : &world->healer[actor - RL_CLIENTS].timer;
}

static void carry_out(struct rl_world *world, struct rl_event event)
{
    struct rl_client *client = event.what < RL_CLIENTS ? &world->client[event.what] : NULL;

    if (client && client->paused_until_us > world->now_us) {
        /* It sleeps through this, and reads what has come before it looks at the clock. */
        event.at_us = client->paused_until_us + !event.message;
        add_event(world, event);
        return;
    }
    if (event.message)
        deliver(world, event);
    else if (event.what == FAULTS)
        fault(world);
    else if (event.timer != *timer_of(world, event.what))
        return;
    else if (client)
        rl_client_step(world, client);
    else
        rl_healer_step(world, event.what - RL_CLIENTS);
}

bool rl_run(struct rl_world *world, uint64_t seed, enum rl_mutant mutant)
{
    set_up(world, seed, mutant);
    while (!world->verdict[0] && world->now_us < REST_END_US && !at_rest(world)) {
        struct rl_event event = next_event(world);

        world->now_us = event.at_us > world->now_us ? event.at_us : world->now_us;
        if (!world->calm && world->now_us >= FAULTS_END_US)
            calm_down(world);
        carry_out(world, event);
        world->steps++;
        rl_judge(world);
    }
    if (!world->verdict[0])
        rl_judge_rest(world);
    while (world->event_count)
        free(next_event(world).message);
    free(world->events);
    world->events = NULL;
    return !world->verdict[0];
}

/* A storm makes old and new messages meet: small counters, a name that all want at once, nodes that
 * lose their data and are healed at once (so only tokens exclude) while clients sleep or cannot
 * reach them. */
static void choose_weather(struct rl_world *world, bool storm)
{
    bool bad_net = storm || rl_chance(world, 60), bad_nodes = storm || rl_chance(world, 60);

    world->weather = (struct rl_weather){
        .lose = bad_net ? (unsigned)rl_roll(world, 4) * 5 : 0,
        .repeat = bad_net ? (unsigned)rl_roll(world, 4) * (storm ? 15 : 10) : 0,
        .late = (bad_net ? (unsigned)rl_roll(world, 4) * 10 : 0) + (storm ? 20 : 0),
        .late_ms = 1 + (int64_t)rl_roll(world, (uint64_t)world->ttl_ms * (storm ? 10 : 4)),
        .near_us = 1000 + (int64_t)rl_roll(world, 3) * (storm ? 2000 : 8000),
        .cut = bad_net ? 2 : 0,
        .crash = bad_nodes && !storm,
        .loss = bad_nodes && (storm || rl_chance(world, 70)) ? 4 : 0,
        .stop = bad_nodes,
        .jump = rl_chance(world, 25) ? 2 : 0,
        .pause = storm || rl_chance(world, 50) ? 2 : 0,
        .death = rl_chance(world, 30),
        .healer = rl_chance(world, 50),
        .every_ms = 10 + (int64_t)rl_roll(world, storm ? 80 : 200),
        .while_ms = world->ttl_ms * (storm ? 1 + (int64_t)rl_roll(world, 6) : 2),
    };
}

static void set_up_clocks(struct rl_world *world)
{
    for (unsigned i = 0; i < world->n; i++) {
        world->node[i].offset_us = 1000000000 + (int64_t)rl_roll(world, 2000000);
        world->node[i].ppm = (int64_t)rl_roll(world, 19800) - 9900;
    }
    for (unsigned i = 0; i < world->client_count; i++) {
        struct rl_client *client = &world->client[i];

        client->number = i;
        client->offset_us = (int64_t)rl_roll(world, 1000000000);
        client->ppm = (int64_t)rl_roll(world, 19800) - 9900;
        client->wall_us = 1000000000 + (int64_t)rl_roll(world, 2000000);
        if (rl_chance(world, 10)) /* far ahead: more than nodes believe */
            client->wall_us += 100000000;
        rl_set_timer(world, i, (int64_t)rl_roll(world, 100000));
    }
}

static void set_up(struct rl_world *world, uint64_t seed, enum rl_mutant mutant)
{
    static const uint32_t capacities[] = { 1, 1000, 3 };
    struct hfi_epoch epoch = { .number = 1 };
    bool empty, storm;

    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->mutant = mutant;
    world->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 8; i++)
        (void)rl_roll(world, 2);
    storm = rl_chance(world, 60);
    if (mutant != RL_SOUND) /* in the weather that shows it, to save time */
        storm = mutant_storm[mutant];
    world->n = rl_chance(world, storm ? 70 : 50) && mutant != RL_SEAL_FEW ? 3 : 5;
    world->client_count = 2 + (unsigned)rl_roll(world, storm ? 3 : RL_CLIENTS - 1);
    world->healer_count = storm ? RL_HEALERS : 1 + (unsigned)rl_roll(world, RL_HEALERS);
    world->mode = storm ? RL_MUTEX : (enum rl_mode)rl_roll(world, 3);
    world->capacity = capacities[world->mode];
    world->ttl_ms = storm ? 40 : 100 + (int64_t)rl_roll(world, 3) * 100;
    world->window_ms = storm ? 30 : 40 + world->ttl_ms / 4;
    world->max_ttl_ms = storm ? 2 : world->ttl_ms + world->ttl_ms / 10;
    world->proposals = !storm && rl_chance(world, 60);
    world->loose = storm || rl_chance(world, 20);
    world->beat_ms = world->window_ms / 3;
    world->hold_ms = storm ? 8 : world->ttl_ms;
    world->waiting = storm && rl_chance(world, 60) ? 20 : 75;
    world->patient = storm ? 10 : 0;
    if (storm)
        world->beat_ms += (int64_t)rl_roll(world, 20) * world->window_ms / 3;
    world->by_counter = mutant == RL_SOUND && seed % 2 == 0;
    world->stale = mutant == RL_SOUND ? storm && seed % 10 == 0 : mutant == RL_NUMBER_ONLY;
    choose_weather(world, storm);
    if (mutant == RL_LATE_YIELD) {
        world->mode = RL_MUTEX;
        world->capacity = 1;
        world->n = 3;
        world->loose = false;
        world->weather = (struct rl_weather){
            .late = 30, .late_ms = world->ttl_ms, .near_us = 3000, .every_ms = 100
        };
    }
    set_up_clocks(world);
    rl_random_id(world, epoch.id);
    empty = rl_chance(world, 10);
    for (unsigned i = 0; i < world->n && !empty; i++)
        rl_node_install(world, i, &epoch, 0);
    for (unsigned i = 0; i < world->healer_count; i++)
        rl_set_timer(world, RL_CLIENTS + i, (int64_t)rl_roll(world, 100000));
    add_event(world, (struct rl_event){ .at_us = 0, .what = FAULTS });
}

/* ---- chance and time ------------------------------------------------------------------ */

uint64_t rl_roll(struct rl_world *world, uint64_t sides)
{
    world->random ^= world->random >> 12;
    world->random ^= world->random << 25;
    world->random ^= world->random >> 27;
    return sides ? (world->random * UINT64_C(2685821657736338717) >> 16) % sides : 0;
}

bool rl_chance(struct rl_world *world, unsigned percent)
{
    return rl_roll(world, 100) < percent;
}

void rl_random_id(struct rl_world *world, unsigned char *ret_id)
{
    for (int i = 0; i < HFI_EPOCH_ID; i++)
        ret_id[i] = (unsigned char)rl_roll(world, 256);
}

static int64_t clock_ms(const struct rl_world *world, int64_t offset_us, int64_t ppm)
{
    return (offset_us + world->now_us + world->now_us * ppm / 1000000) / 1000;
}

int64_t rl_node_ms(const struct rl_world *world, unsigned node)
{
    return clock_ms(world, world->node[node].offset_us, world->node[node].ppm);
}

int64_t rl_client_ms(const struct rl_world *world, const struct rl_client *client)
{
    return clock_ms(world, client->offset_us, client->ppm);
}

void rl_set_timer(struct rl_world *world, unsigned actor, int64_t after_us)
{
    add_event(world, (struct rl_event){ .at_us = world->now_us + after_us,
                                        .what = actor,
                                        .timer = ++*timer_of(world, actor) });
}

/* ---- the network ------------------------------------------------------------------------ */

static bool at_resource(const struct rl_message *m)
{
    return m->verb == RL_CLAIM || m->verb == RL_STORE;
}

/* Most probes are quick, or nothing would ever be healed. */
static bool brief_look(struct rl_world *world, const struct rl_message *m)
{
    return world->stale ? m->actor != RL_CLIENTS : !rl_chance(world, 20);
}

static void post(struct rl_world *world, const struct rl_message *m, bool late)
{
    struct rl_message *copy = malloc(sizeof *copy);
    int64_t takes_us = (int64_t)rl_roll(world, (uint64_t)world->weather.near_us);

    if (!copy)
        abort();
    *copy = *m;
    if (!world->calm && (m->verb != RL_STATUS || !brief_look(world, m)) &&
        (late || rl_chance(world, world->weather.late))) {
        takes_us += (int64_t)rl_roll(world, (uint64_t)world->weather.late_ms * 1000);
        world->faults[RL_FAULT_LATE]++;
    }
    add_event(world, (struct rl_event){ .at_us = world->now_us + takes_us,
                                        .message = copy,
                                        .what = m->reply ? m->actor : FAULTS });
}

/* A second copy of a request is one that was sent again. These are never sent again: a marker means
 * one claim; a yield may take back a later grant; a store adds one. Nor is an acquire, whose
 * attempt would be granted twice; but that does no harm to tokens, so some schedules do it. */
static bool sent_once(const struct rl_world *world, const struct rl_message *m)
{
    return (!m->reply && (m->verb == RL_MARK || (m->verb == RL_BEAT && m->yields) ||
                          (m->verb == RL_ACQUIRE && !world->loose))) ||
           at_resource(m);
}

void rl_send(struct rl_world *world, const struct rl_message *m)
{
    bool cut = !at_resource(m) && world->cut_us[m->actor][m->node] > world->now_us;

    if (m->reply && m->verb == RL_RELEASE)
        return; /* nobody waits for it */
    if (cut || (!world->calm && rl_chance(world, world->weather.lose)))
        world->faults[RL_FAULT_LOST]++;
    else
        post(world, m, false);
    if (!world->calm && !cut && !sent_once(world, m) && rl_chance(world, world->weather.repeat)) {
        world->faults[RL_FAULT_REPEATED]++;
        post(world, m, rl_chance(world, 50));
    }
}

/* A stopped node executes later what has arrived meanwhile, in the order of each connection. */
static void deliver(struct rl_world *world, struct rl_event event)
{
    struct rl_message m = *event.message;

    if (m.reply && m.actor < RL_CLIENTS)
        rl_client_message(world, &world->client[m.actor], &m);
    else if (m.reply)
        rl_healer_message(world, m.actor - RL_CLIENTS, &m);
    else if (at_resource(&m)) {
        rl_resource_call(world, &m);
        rl_send(world, &m);
    } else if (world->node[m.node].down_until_us > world->now_us)
        world->faults[RL_FAULT_LOST]++;
    else if (world->node[m.node].stopped_until_us > world->now_us) {
        event.at_us = world->node[m.node].stopped_until_us + (int64_t)rl_roll(world, 2000);
        add_event(world, event);
        return;
    } else {
        rl_node_call(world, &m);
        rl_send(world, &m);
    }
    free(event.message);
}

/* ---- faults ------------------------------------------------------------------------------ */

static int64_t for_a_while_us(struct rl_world *world)
{
    return (int64_t)rl_roll(world, (uint64_t)world->weather.while_ms * 1000);
}

static void crash(struct rl_world *world, unsigned node)
{
    world->node[node].down_until_us = world->now_us + for_a_while_us(world) / 4;
    world->faults[RL_FAULT_CRASH]++;
}

/* A client that has half of the votes does not learn that a node has lost its data. */
static void not_to_hear(struct rl_world *world, unsigned node)
{
    for (unsigned i = 0; i < world->client_count; i++) {
        struct rl_client *client = &world->client[i];

        if (client->phase != RL_ASKING || client->ballot.node[node].vote != HFI_VOTE_GRANTED ||
            rl_chance(world, 30))
            continue;
        if (rl_chance(world, 50))
            client->paused_until_us = world->now_us + for_a_while_us(world);
        world->cut_us[i][node] = world->now_us + 2 * for_a_while_us(world);
    }
}

/* Keep a majority intact: without one nothing can continue, and nothing is tested. */
static void lose(struct rl_world *world, unsigned node)
{
    unsigned intact = 0;

    for (unsigned i = 0; i < world->n; i++)
        intact += world->node[i].ready && i != node;
    if (intact < hfi_majority(world->n))
        return;
    not_to_hear(world, node);
    rl_node_lose(world, node);
    world->node[node].down_until_us = world->now_us + (int64_t)rl_roll(world, 20000);
    world->faults[RL_FAULT_LOSS]++;
}

static void inject(struct rl_world *world, enum rl_fault kind)
{
    unsigned node = (unsigned)rl_roll(world, world->n);
    struct rl_client *client = &world->client[rl_roll(world, world->client_count)];
    int64_t until_us = world->now_us + for_a_while_us(world);

    world->faults[kind] += kind != RL_FAULT_CRASH && kind != RL_FAULT_LOSS;
    switch (kind) {
    case RL_FAULT_CUT:
        world->cut_us[rl_chance(world, 80) ? client->number : rl_roll(world, RL_ACTORS)][node] =
            until_us;
        break;
    case RL_FAULT_CRASH:
        crash(world, node);
        break;
    case RL_FAULT_LOSS:
        lose(world, world->stale ? 0 : node);
        break;
    case RL_FAULT_STOP:
        world->node[node].stopped_until_us = until_us;
        break;
    case RL_FAULT_JUMP:
        world->node[node].offset_us +=
            (int64_t)rl_roll(world, (uint64_t)world->ttl_ms * 6000) - world->ttl_ms * 1000;
        world->loose = true;
        break;
    case RL_FAULT_PAUSE:
        client->paused_until_us = until_us;
        break;
    case RL_FAULT_DEATH:
        rl_client_die(world, client);
        break;
    default:
        rl_healer_die(world, (unsigned)rl_roll(world, world->healer_count));
    }
}

static void fault(struct rl_world *world)
{
    const struct rl_weather *w = &world->weather;
    const unsigned weights[RL_FAULT_COUNT] = {
        [RL_FAULT_CUT] = w->cut,     [RL_FAULT_CRASH] = w->crash,  [RL_FAULT_LOSS] = w->loss,
        [RL_FAULT_STOP] = w->stop,   [RL_FAULT_JUMP] = w->jump,    [RL_FAULT_PAUSE] = w->pause,
        [RL_FAULT_DEATH] = w->death, [RL_FAULT_HEALER] = w->healer
    };
    unsigned all = 0, kind = 0;
    uint64_t drawn;

    if (world->calm)
        return;
    for (unsigned i = 0; i < RL_FAULT_COUNT; i++)
        all += weights[i];
    for (drawn = rl_roll(world, all); all && drawn >= weights[kind]; kind++)
        drawn -= weights[kind];
    if (all)
        inject(world, (enum rl_fault)kind);
    add_event(world,
              (struct rl_event){ .at_us = world->now_us + 1000 +
                                          (int64_t)rl_roll(world, (uint64_t)w->every_ms * 2000),
                                 .what = FAULTS });
}

/* From here on there are no faults. */
static void calm_down(struct rl_world *world)
{
    world->calm = true;
    world->patient = 0;
    world->beat_ms = world->window_ms / 3;
    memset(world->cut_us, 0, sizeof world->cut_us);
    for (unsigned i = 0; i < world->n; i++)
        world->node[i].down_until_us = world->node[i].stopped_until_us = 0;
    for (unsigned i = 0; i < world->client_count; i++) {
        world->client[i].paused_until_us = 0;
        world->client[i].waits = true;
        world->client[i].give_up_ms = INT64_MAX;
    }
}

/* ---- the heap of events -------------------------------------------------------------------- */

static bool before(const struct rl_event *a, const struct rl_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(struct rl_event *a, struct rl_event *b)
{
    struct rl_event kept = *a;

    *a = *b;
    *b = kept;
}

static void add_event(struct rl_world *world, struct rl_event event)
{
    size_t at = world->event_count++;

    if (at == world->event_room) {
        world->event_room = world->event_room ? 2 * world->event_room : 64;
        world->events = realloc(world->events, world->event_room * sizeof event);
        if (!world->events)
            abort();
    }
    event.order = ++world->event_order;
    world->events[at] = event;
    for (; at && before(&world->events[at], &world->events[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&world->events[at], &world->events[(at - 1) / 2]);
}

static struct rl_event next_event(struct rl_world *world)
{
    struct rl_event first = world->events[0];
    size_t at = 0, child;

    world->events[0] = world->events[--world->event_count];
    while ((child = 2 * at + 1) < world->event_count) {
        if (child + 1 < world->event_count &&
            before(&world->events[child + 1], &world->events[child]))
            child++;
        if (!before(&world->events[child], &world->events[at]))
            break;
        swap(&world->events[child], &world->events[at]);
        at = child;
    }
    return first;
}
