/* SPDX-License-Identifier: MIT */
/*
 * What no client can expect: an administrator breaks a lease, or the server loses its data and goes on. Then exclusion ends
 * before the client knows, and only tokens protect: the server keeps their counter, and nothing that it gave away before,
 * used or not, is ever given again.
 */
#include "sim.h"

#include <string.h>

static void break_lease(struct sim *sim, const struct sim_client *client)
{
    const struct sim_grant *grant = sim_judge_known(sim, client->ask.owner);
    struct mem_request request = client->ask;

    if (!grant || !mem_server_holds(sim->server, request.name, request.name_len, request.owner))
        return;
    request.verb = MEM_BREAK;
    request.token = grant->token;
    sim_judge_override(sim, request.owner);
    if (MUTANT == SIM_BREAK_FREES_BLOCK)
        mem_server_set_token(sim->server, grant->token + 1);
    (void)mem_server_call(sim->server, &request, sim_server_ms(sim)); /* tells the holder */
}

static void lose_data(struct sim *sim)
{
    sim_judge_override(sim, NULL);
    mem_server_forget(sim->server);
    mem_server_forget_ended(sim->server);
    if (MUTANT == SIM_LOSS_FREES_TOKENS)
        mem_server_set_token(sim->server, 1);
}

void sim_disaster(struct sim *sim)
{
    if (sim_roll(sim, 10000) < sim->weather.breaks)
        break_lease(sim, &sim->clients[sim_roll(sim, (uint64_t)sim->client_count)]);
    if (sim_roll(sim, 10000) < sim->weather.losses)
        lose_data(sim);
}
