/* SPDX-License-Identifier: MIT */
/*
 * The judge sees all states at the same time, and checks:
 *
 *  - a client that is awake and whose own decisions say "held" is a holder at the
 *    server, so nobody who conflicts with it is;
 *  - clients that say "held" do not conflict with each other;
 *  - a user is told of a lease only if its first renewal can be answered in time, and if it is good for
 *    as long as the user needs, where a renewal could bring that;
 *  - a client that was not asleep reports LOST when its validity ends, not later;
 *  - an owner that has ended at the server never holds again;
 *  - tokens of a name grow with every grant and every further block, and with every user that has all there is;
 *  - a lease that was broken or forgotten by the server is excused from the first two, until its client knows, and no
 *    longer than a grant can last; tokens are never excused for those that come after it;
 *  - when the faults stop everybody comes to rest, and nothing stays held.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

void sim_wrong(struct sim *sim, const char *format, ...)
{
    va_list args;

    if (sim->verdict[0])
        return;
    va_start(args, format);
    vsnprintf(sim->verdict, sizeof sim->verdict, format, args);
    va_end(args);
}

static struct sim_grant *find_grant(struct sim *sim, const unsigned char *owner)
{
    for (unsigned i = 0; i < SIM_KNOWN_MAX && i < sim->grants; i++)
        if (memcmp(sim->known[i].owner, owner, HFI_OWNER_LEN) == 0)
            return &sim->known[i];
    return NULL;
}

void sim_judge_grant(struct sim *sim, const unsigned char *owner, const struct mem_reply *reply)
{
    struct sim_grant *grant = find_grant(sim, owner);
    /* A late copy, granted by a server that has lost its data. */
    bool again = grant && grant->forgotten && (grant->ended || grant->token != reply->token);

    if (grant && !again) {
        if (grant->ended)
            sim_wrong(sim, "an owner that had ended was granted again");
        if (grant->token != reply->token)
            sim_wrong(sim, "one grant was told with two tokens");
        return; /* reported again */
    }
    if (!grant)
        grant = &sim->known[sim->grants++ % SIM_KNOWN_MAX];
    if (reply->token <= sim->last_token)
        sim_wrong(sim, "token %llu came after %llu", (unsigned long long)reply->token,
                  (unsigned long long)sim->last_token);
    *grant = (struct sim_grant){ .token = reply->token,
                                 .granted_ns = sim->now_ns,
                                 .forgotten = again,
                                 .overridden_ns = again ? grant->overridden_ns : 0 };
    memcpy(grant->owner, owner, HFI_OWNER_LEN);
    sim->last_token = reply->token + reply->tokens - 1;
}

void sim_judge_refill(struct sim *sim, const struct mem_reply *reply)
{
    if (reply->token <= sim->last_token)
        sim_wrong(sim, "the block of %llu came after %llu", (unsigned long long)reply->token,
                  (unsigned long long)sim->last_token);
    sim->last_token = reply->token + reply->tokens - 1;
}

/* After a loss of data a client may still know the first grant of a late copy, with its token: it is not judged. */
void sim_judge_used(struct sim *sim, const struct sim_client *client)
{
    const struct sim_grant *grant = find_grant(sim, client->ask.owner);
    uint64_t *used = &sim->used_token[client->ask.name[0]];

    if (client->ask.permits != sim->capacity ||
        (grant && (grant->overridden_ns || grant->forgotten)))
        return;
    if (client->token <= *used)
        sim_wrong(sim, "client %d holds with token %llu after %llu", client->number,
                  (unsigned long long)client->token, (unsigned long long)*used);
    *used = client->token;
}

const struct sim_grant *sim_judge_known(struct sim *sim, const unsigned char *owner)
{
    return find_grant(sim, owner);
}

void sim_judge_override(struct sim *sim, const unsigned char *owner)
{
    struct sim_grant *grant = owner ? find_grant(sim, owner) : NULL;

    if (grant)
        grant->overridden_ns = sim->now_ns;
    for (unsigned i = 0; !owner && i < SIM_KNOWN_MAX && i < sim->grants; i++) {
        sim->known[i].forgotten = true;
        if (!sim->known[i].ended)
            sim->known[i].overridden_ns = sim->now_ns;
    }
}

void sim_judge_told(struct sim *sim, const struct sim_client *client)
{
    struct sim_grant *grant = find_grant(sim, client->ask.owner);

    if (grant)
        grant->told = true;
}

void sim_judge_waits(struct sim *sim, const struct sim_client *client, int64_t served_ns)
{
    struct sim_grant *grant = find_grant(sim, client->ask.owner);

    if (grant && grant->overridden_ns && served_ns > grant->overridden_ns &&
        served_ns > grant->granted_ns)
        grant->told = true;
}

void sim_judge_end(struct sim *sim, const unsigned char *owner)
{
    struct sim_grant *grant = find_grant(sim, owner);

    if (grant)
        grant->ended = true;
}

void sim_judge_lost(struct sim *sim, const struct sim_client *client, int64_t now_ms,
                    int64_t valid_until_ms)
{
    bool slept = client->paused_until_ns + 2 * SIM_NS_PER_MS >= sim->now_ns;

    if (!slept && now_ms > valid_until_ms + 2)
        sim_wrong(sim, "client %d learned %lld ms too late that its lease had ended",
                  client->number, (long long)(now_ms - valid_until_ms));
}

void sim_judge_taken(struct sim *sim, const struct sim_client *client, bool confirmed,
                     int64_t now_ms)
{
    const struct hfi_term *term = &client->term;

    if (confirmed || term->max_hold_ms > 0)
        return;
    if (hfi_term_remaining(term, now_ms) < sim->ttl_ms / 4)
        sim_wrong(sim, "client %d is told of a lease of which only %lld ms are left",
                  client->number, (long long)hfi_term_remaining(term, now_ms));
    if (client->min_valid_ms <= term->ttl_ms - term->ttl_ms / 25 - 60 &&
        !hfi_term_worth(term, client->min_valid_ms, now_ms))
        sim_wrong(sim, "client %d needs %lld ms, and is told of a lease that has %lld",
                  client->number, (long long)client->min_valid_ms,
                  (long long)hfi_term_remaining(term, now_ms));
}

static bool holds(const struct sim *sim, int name, const unsigned char *owner)
{
    return mem_server_holds(sim->server, &(unsigned char){ (unsigned char)name }, 1, owner);
}

/* Its client cannot know, and what it was granted is not over. */
static bool is_excused(const struct sim *sim, const struct sim_grant *grant)
{
    int64_t longest_ms = (sim->ttl_ms + 1000) * 102 / 100;

    return grant && grant->overridden_ns && !grant->told &&
           sim->now_ns <= grant->overridden_ns + longest_ms * SIM_NS_PER_MS;
}

/* A renewal that is not confirmed makes the lease AT_RISK, whatever the time limit of a request is. */
static void judge_risk(struct sim *sim, const struct sim_client *client)
{
    const struct hfi_term *term = &client->term;
    int64_t now_ms = sim_local_ms(sim, client), late_ms = now_ms - client->renewal_sent_ms;
    bool slept = client->paused_until_ns + 2 * SIM_NS_PER_MS >= sim->now_ns;

    if (client->phase != SIM_HELD || !client->renewal || term->state != HF_STATE_HELD || slept ||
        now_ms <= client->since_ms + 2)
        return;
    if (late_ms > term->granted_ms / 6 + 2)
        sim_wrong(sim, "client %d says held, and its renewal was not confirmed for %lld ms of %lld",
                  client->number, (long long)late_ms, (long long)term->granted_ms);
}

static void judge_client(struct sim *sim, const struct sim_client *client,
                         uint64_t taken[SIM_NAMES_MAX])
{
    const struct sim_grant *grant = find_grant(sim, client->ask.owner);
    int name = client->ask.name[0];

    if (client->paused_until_ns > sim->now_ns || !sim_client_says_held(sim, client) ||
        is_excused(sim, grant))
        return;
    taken[name] += client->ask.permits;
    if (grant && grant->told)
        sim_wrong(sim, "client %d says held after it was told that it is not", client->number);
    if (!holds(sim, name, client->ask.owner))
        sim_wrong(sim, "client %d says held for %lld ms more, the server does not", client->number,
                  (long long)hfi_term_remaining(&client->term, sim_local_ms(sim, client)));
}

void sim_judge(struct sim *sim)
{
    uint64_t taken[SIM_NAMES_MAX] = { 0 };

    for (int i = 0; i < sim->client_count; i++) {
        judge_client(sim, &sim->clients[i], taken);
        judge_risk(sim, &sim->clients[i]);
    }
    for (int name = 0; name < sim->name_count; name++) {
        if (taken[name] > sim->capacity)
            sim_wrong(sim, "%llu permits of %u are held", (unsigned long long)taken[name],
                      sim->capacity);
        for (unsigned i = 0; i < SIM_KNOWN_MAX && i < sim->grants; i++)
            if (sim->known[i].ended && holds(sim, name, sim->known[i].owner))
                sim_wrong(sim, "an owner that had ended holds again");
    }
}

void sim_judge_rest(struct sim *sim)
{
    for (int i = 0; i < sim->client_count; i++)
        if (sim->clients[i].phase != SIM_IDLE)
            sim_wrong(sim, "client %d never came to rest (phase %d)", i, sim->clients[i].phase);
    if (mem_server_next_ms(sim->server) != HFI_NEVER)
        sim_wrong(sim, "something stayed held at the server");
}
