/* SPDX-License-Identifier: MIT */
/* Virtual time, chance and the network: one heap of events, one seed. See sim.h. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS_END_NS (20000 * SIM_NS_PER_MS)
#define REST_END_NS   (200000 * SIM_NS_PER_MS)

static void set_up(struct sim *sim, uint64_t seed);
static void tear_down(struct sim *sim);
static void add_event(struct sim *sim, struct sim_event event);
static struct sim_event next_event(struct sim *sim);
static void serve(struct sim *sim, const struct sim_message *message);
static void on_push(void *arg, uint64_t session, const unsigned char *owner,
                    const struct mem_reply *reply);

/* ---- a schedule -------------------------------------------------------------------- */

static bool at_rest(const struct sim *sim)
{
    for (int i = 0; i < sim->client_count; i++)
        if (sim->clients[i].phase != SIM_IDLE)
            return false;
    return sim->calm && mem_server_next_ms(sim->server) == HFI_NEVER;
}

static void carry_out(struct sim *sim, struct sim_event event)
{
    struct sim_client *client = event.client >= 0 ? &sim->clients[event.client] : NULL;

    if (client && client->paused_until_ns > sim->now_ns) {
        event.at_ns = client->paused_until_ns; /* it sleeps through this */
        add_event(sim, event);
        return;
    }
    if (event.message && event.message->to_server)
        serve(sim, event.message);
    else if (event.message)
        sim_client_message(sim, client, event.message);
    else if (client && event.timer == client->timer)
        sim_client_step(sim, client);
    if (client && !sim->calm && sim_roll(sim, 1000) < sim->weather.pause)
        client->paused_until_ns =
            sim->now_ns + (int64_t)sim_roll(sim, (uint64_t)sim->weather.pause_ms) * SIM_NS_PER_MS;
    if (!sim->calm)
        sim_disaster(sim);
    free(event.message);
}

bool sim_run(struct sim *sim, uint64_t seed)
{
    int64_t due_ns, due_ms;

    set_up(sim, seed);
    while (!sim->verdict[0] && sim->now_ns < REST_END_NS && !at_rest(sim)) {
        /* The server's own timers are events too. */
        due_ms = mem_server_next_ms(sim->server);
        due_ns = due_ms == HFI_NEVER ? INT64_MAX : due_ms * SIM_NS_PER_MS;
        if (sim->event_count && sim->events[0].at_ns <= due_ns) {
            struct sim_event event = next_event(sim);

            sim->now_ns = event.at_ns > sim->now_ns ? event.at_ns : sim->now_ns;
            mem_server_tick(sim->server, sim_server_ms(sim));
            carry_out(sim, event);
        } else if (due_ns != INT64_MAX) {
            sim->now_ns = due_ns > sim->now_ns ? due_ns : sim->now_ns;
            mem_server_tick(sim->server, sim_server_ms(sim));
        } else
            break;
        sim->calm = sim->now_ns >= FAULTS_END_NS;
        sim_judge(sim);
    }
    if (!sim->verdict[0])
        sim_judge_rest(sim);
    tear_down(sim);
    return !sim->verdict[0];
}

static void choose_weather(struct sim *sim)
{
    static const int64_t ttls[] = { 1000, 1500, 3000, 10000 };

    sim->ttl_ms = ttls[sim_roll(sim, 4)];
    sim->weather = (struct sim_weather){
        .lose = (unsigned)sim_roll(sim, 4) * 8,
        .repeat = (unsigned)sim_roll(sim, 3) * 10,
        .late = (unsigned)sim_roll(sim, 4) * 10,
        .late_ms = (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms * 2) + 1,
        .near_ms = (int64_t)sim_roll(sim, 3) * 20 + 1,
        .pause = (unsigned)sim_roll(sim, 3) * 10,
        .pause_ms = (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms * 2) + 1,
        .breaks = sim_chance(sim, 30) ? (unsigned)sim_roll(sim, 200) : 0,
        .losses = sim_chance(sim, 20) ? (unsigned)sim_roll(sim, 60) : 0,
    };
}

static void set_up(struct sim *sim, uint64_t seed)
{
    static const uint32_t capacities[] = { 1, HFI_RW_MAX, 3 };

    memset(sim, 0, sizeof *sim);
    sim->seed = seed;
    sim->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 8; i++)
        (void)sim_roll(sim, 2);
    sim->server = mem_server_new(on_push, sim);
    choose_weather(sim);
    sim->mode = (enum hfi_mode)sim_roll(sim, 3);
    sim->capacity = capacities[sim->mode];
    sim->name_count = 1 + (int)sim_roll(sim, SIM_NAMES_MAX);
    sim->client_count = 2 + (int)sim_roll(sim, SIM_CLIENTS_MAX - 1);
    for (int i = 0; i < sim->client_count; i++) {
        struct sim_client *client = &sim->clients[i];

        client->number = i;
        client->offset_ms = (int64_t)sim_roll(sim, 1000000);
        /* Most clocks are good; some are as bad as we promise to tolerate: the server's may be up
         * to 1 % faster than ours. */
        client->ppm = sim_chance(sim, 50) ? (int64_t)sim_roll(sim, 200) - 100
                                          : (int64_t)sim_roll(sim, 19900) - 9900;
        client->next_ms = client->offset_ms + (int64_t)sim_roll(sim, 500);
        sim_set_timer(sim, client, client->next_ms);
    }
}

static void tear_down(struct sim *sim)
{
    for (size_t i = 0; i < sim->event_count; i++)
        free(sim->events[i].message);
    free(sim->events);
    mem_server_free(sim->server);
}

/* ---- chance and time ------------------------------------------------------------------ */

uint64_t sim_roll(struct sim *sim, uint64_t sides)
{
    sim->random ^= sim->random >> 12;
    sim->random ^= sim->random << 25;
    sim->random ^= sim->random >> 27;
    return sides ? (sim->random * UINT64_C(2685821657736338717) >> 16) % sides : 0;
}

bool sim_chance(struct sim *sim, unsigned percent)
{
    return sim_roll(sim, 100) < percent;
}

static int64_t local_ms_at(const struct sim_client *client, int64_t at_ns)
{
    /* ns * ppm would overflow after two hours; a schedule is shorter. */
    return client->offset_ms + (at_ns + at_ns / 1000000 * client->ppm) / SIM_NS_PER_MS;
}

int64_t sim_local_ms(const struct sim *sim, const struct sim_client *client)
{
    return local_ms_at(client, sim->now_ns);
}

int64_t sim_server_ms(const struct sim *sim)
{
    return sim->now_ns / SIM_NS_PER_MS;
}

void sim_set_timer(struct sim *sim, struct sim_client *client, int64_t local_ms)
{
    double rate = 1.0 + (double)client->ppm / 1e6;
    int64_t at_ns = (int64_t)((double)(local_ms - client->offset_ms) * 1e6 / rate);

    if (at_ns < sim->now_ns)
        at_ns = sim->now_ns;
    while (local_ms_at(client, at_ns) < local_ms)
        at_ns += SIM_NS_PER_MS / 10;
    add_event(sim, (struct sim_event){
                       .at_ns = at_ns, .client = client->number, .timer = ++client->timer });
}

/* ---- the network ------------------------------------------------------------------------ */

static void post_one(struct sim *sim, const struct sim_message *message)
{
    const struct sim_weather *w = &sim->weather;
    struct sim_message *copy = malloc(sizeof *copy);
    int64_t takes_ns = (int64_t)sim_roll(sim, (uint64_t)w->near_ms * SIM_NS_PER_MS);

    if (!copy)
        abort();
    *copy = *message;
    if (!sim->calm && sim_chance(sim, w->late))
        takes_ns += (int64_t)sim_roll(sim, (uint64_t)w->late_ms) * SIM_NS_PER_MS;
    add_event(sim, (struct sim_event){ .at_ns = sim->now_ns + takes_ns,
                                       .message = copy,
                                       .client = message->to_server ? -1 : message->client });
}

static void post(struct sim *sim, const struct sim_message *message)
{
    if (sim->calm || !sim_chance(sim, sim->weather.lose))
        post_one(sim, message);
    /* An engine may ask again for a grant or a release, but a renewal it sends once: a second copy
     * of a shorter one could arrive after a longer one was answered. */
    if (!sim->calm && !(message->to_server && message->request.verb == MEM_RENEW) &&
        sim_chance(sim, sim->weather.repeat))
        post_one(sim, message);
}

void sim_send(struct sim *sim, struct sim_client *client, const struct mem_request *request,
              unsigned renewal)
{
    struct sim_message message = {
        .to_server = true,
        .client = client->number,
        .renewal = renewal,
        .sent_ms = sim_local_ms(sim, client),
        .request = *request,
    };

    post(sim, &message);
}

/* Call the server. The mutants here are servers that no engine may use. */
static struct mem_reply call_server(struct sim *sim, const struct mem_request *request)
{
    struct mem_request again = *request;
    struct mem_reply reply;

    if (MUTANT == SIM_NO_MEMORY)
        mem_server_forget_ended(sim->server);
    reply = mem_server_call(sim->server, request, sim_server_ms(sim));
    if (MUTANT == SIM_RENEW_RECREATES && request->verb == MEM_RENEW && reply.status == HF_LOST) {
        again.verb = MEM_ACQUIRE;
        again.may_wait = false;
        mem_server_forget_ended(sim->server);
        reply = mem_server_call(sim->server, &again, sim_server_ms(sim));
    }
    if (MUTANT == SIM_RELEASE_BY_NAME && request->verb == MEM_RELEASE && reply.status == HF_LOST)
        for (int i = 0; i < sim->client_count; i++) {
            memcpy(again.owner, sim->clients[i].ask.owner, HFI_OWNER_LEN);
            if (mem_server_holds(sim->server, again.name, again.name_len, again.owner))
                reply = mem_server_call(sim->server, &again, sim_server_ms(sim));
        }
    return reply;
}

static void told_grant(struct sim *sim, const unsigned char *owner, struct mem_reply *reply)
{
    if (MUTANT == SIM_TOKENS_TIE && reply->token > 1)
        reply->token--;
    sim_judge_grant(sim, owner, reply);
}

/* As engines answer: the grant may be an old one, and the answer says what is left of it. */
static void grant_answered(struct sim *sim, const unsigned char *owner, struct mem_reply *reply)
{
    told_grant(sim, owner, reply);
    reply->ttl_ms -= sim_server_ms(sim) - reply->granted_ms;
}

static void serve(struct sim *sim, const struct sim_message *message)
{
    struct sim_message answer = *message;

    answer.to_server = false;
    answer.served_ns = sim->now_ns;
    answer.reply = call_server(sim, &message->request);
    if (message->request.verb == MEM_ACQUIRE && answer.reply.status == HF_OK &&
        !answer.reply.queued)
        grant_answered(sim, message->request.owner, &answer.reply);
    if (message->request.verb == MEM_RELEASE && answer.reply.status == HF_OK)
        sim_judge_end(sim, message->request.owner);
    if (message->request.verb == MEM_RENEW && message->request.tokens_wanted > 0 &&
        answer.reply.status == HF_OK && answer.reply.tokens > 0) {
        if (MUTANT == SIM_REFILL_AGAIN && answer.reply.token > answer.reply.tokens)
            answer.reply.token -= answer.reply.tokens;
        sim_judge_refill(sim, &answer.reply);
    }
    post(sim, &answer);
}

static void on_push(void *arg, uint64_t session, const unsigned char *owner,
                    const struct mem_reply *reply)
{
    struct sim *sim = arg;
    struct sim_message message = { .push = true, .client = (int)session, .reply = *reply };

    memcpy(message.request.owner, owner, HFI_OWNER_LEN);
    if (reply->is_wanted)
        ;
    else if (reply->status == HF_OK)
        told_grant(sim, owner, &message.reply);
    else
        sim_judge_end(sim, owner);
    post(sim, &message);
}

/* ---- the heap of events -------------------------------------------------------------------- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct sim_event *a, struct sim_event *b)
{
    struct sim_event kept = *a;

    *a = *b;
    *b = kept;
}

static void add_event(struct sim *sim, struct sim_event event)
{
    size_t at = sim->event_count++;

    if (at == sim->event_room) {
        sim->event_room = sim->event_room ? 2 * sim->event_room : 64;
        sim->events = realloc(sim->events, sim->event_room * sizeof event);
        if (!sim->events)
            abort();
    }
    event.order = ++sim->event_order;
    sim->events[at] = event;
    for (; at && before(&sim->events[at], &sim->events[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&sim->events[at], &sim->events[(at - 1) / 2]);
}

static struct sim_event next_event(struct sim *sim)
{
    struct sim_event first = sim->events[0];
    size_t at = 0, child;

    sim->events[0] = sim->events[--sim->event_count];
    while ((child = 2 * at + 1) < sim->event_count) {
        if (child + 1 < sim->event_count && before(&sim->events[child + 1], &sim->events[child]))
            child++;
        if (!before(&sim->events[child], &sim->events[at]))
            break;
        swap(&sim->events[child], &sim->events[at]);
        at = child;
    }
    return first;
}
