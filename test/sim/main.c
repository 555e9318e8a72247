/* SPDX-License-Identifier: MIT */
/*
 * Runs schedules until the time is up. SIM_SEED=n runs that one schedule; a failing seed is
 * printed. SIM_SECONDS and SIM_SCHEDULES bound the run (12 s, 40,000 schedules). A mutant must
 * fail, however long a slow machine takes for that: then the exit status is 0.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text && text[0] ? strtoul(text, NULL, 10) : otherwise;
}

static int report(const struct sim *sim)
{
    fprintf(stderr, "SIM_SEED=%llu: %s\n", (unsigned long long)sim->seed, sim->verdict);
    if (MUTANT == SIM_SOUND)
        return 1;
    printf("mutant %d was caught\n", MUTANT);
    return 0;
}

int main(void)
{
    static struct sim sim;
    unsigned long seconds = number_from("SIM_SECONDS", 12);
    unsigned long most = number_from("SIM_SCHEDULES", 40000), run;
    unsigned long grants = 0, losses = 0, again = 0;
    time_t until = time(NULL) + (time_t)seconds;

    if (getenv("SIM_SEED")) {
        if (!sim_run(&sim, number_from("SIM_SEED", 1)))
            return report(&sim);
        printf("nothing was wrong\n");
        return MUTANT != SIM_SOUND;
    }
    for (run = 1; run <= most && (MUTANT != SIM_SOUND || time(NULL) <= until); run++) {
        if (!sim_run(&sim, run))
            return report(&sim);
        grants += sim.grants;
        for (int i = 0; i < sim.client_count; i++) {
            losses += sim.clients[i].lost;
            again += sim.clients[i].taken_again;
        }
    }
    printf("%lu schedules, %lu grants, %lu of them lost, %lu idle leases taken again\n", run - 1,
           grants, losses, again);
    if (MUTANT != SIM_SOUND) {
        fprintf(stderr, "mutant %d was NOT caught\n", MUTANT);
        return 1;
    }
    if (grants == 0 || losses == 0 || again == 0) {
        fprintf(stderr, "the schedules tested nothing\n");
        return 1;
    }
    return 0;
}
