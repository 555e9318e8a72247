/* SPDX-License-Identifier: MIT */
/*
 * Run schedules of the Redlock simulation until the time is up, then its mutants, each until it is caught.
 * SIM_SEED=n runs that one schedule, SIM_MUTANT=n that one mutant; a failing seed is printed.
 * SIM_SECONDS and SIM_SCHEDULES bound the run. A mutant must be caught, however long a slow machine takes.
 */
#include "redlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUTANT_SCHEDULES 50000

static const struct {
    unsigned long seed;
    const char *text;
} mutants[] = {
#define ROW(name, storm, seed, text) { seed, text },
    RL_MUTANTS(ROW)
#undef ROW
};

static const char *const fault_text[] = {
#define TEXT(name, text) text,
    RL_FAULTS(TEXT)
#undef TEXT
};

static struct rl_world world;
static unsigned long steps, wins, excused, faults[RL_FAULT_COUNT];

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text && text[0] ? strtoul(text, NULL, 10) : otherwise;
}

static bool run(unsigned long seed, enum rl_mutant mutant)
{
    bool sound = rl_run(&world, seed, mutant);

    if (!sound)
        printf("SIM_SEED=%lu: %s\n", seed, world.verdict);
    if (mutant == RL_SOUND) {
        steps += world.steps;
        wins += world.wins;
        excused += world.excused;
        for (unsigned i = 0; i < RL_FAULT_COUNT; i++)
            faults[i] += world.faults[i];
    }
    return sound;
}

static bool run_sound(void)
{
    unsigned long most = number_from("SIM_SCHEDULES", 20000), seed;
    time_t until = time(NULL) + (time_t)number_from("SIM_SECONDS", 5);

    for (seed = 1; seed <= most && time(NULL) <= until; seed++)
        if (!run(seed, RL_SOUND))
            return false;
    printf("%lu schedules, %lu steps, %lu acquisitions, %lu schedules without a majority\n",
           seed - 1, steps, wins, excused);
    for (unsigned i = 0; i < RL_FAULT_COUNT; i++)
        printf("%s%lu %s", i ? ", " : "injected: ", faults[i], fault_text[i]);
    printf("\n");
    return wins > 0 && excused < seed / 10;
}

static bool catch_mutant(unsigned mutant, unsigned long most)
{
    printf("mutant %u (%s): ", mutant, mutants[mutant].text);
    fflush(stdout);
    if (!run(mutants[mutant].seed, (enum rl_mutant)mutant))
        return true;
    for (unsigned long seed = 1; seed <= most; seed++)
        if (!run(seed, (enum rl_mutant)mutant))
            return true;
    printf("NOT CAUGHT\n");
    return false;
}

static bool run_mutants(unsigned first, unsigned last)
{
    unsigned long most = number_from("SIM_SCHEDULES", MUTANT_SCHEDULES);
    unsigned caught = 0;

    for (unsigned mutant = first; mutant <= last; mutant++)
        caught += catch_mutant(mutant, most);
    printf("%u of %u mutants caught\n", caught, last - first + 1);
    return caught == last - first + 1;
}

int main(void)
{
    unsigned long mutant = number_from("SIM_MUTANT", RL_SOUND);

    if (mutant >= RL_MUTANT_COUNT)
        return 2;
    if (getenv("SIM_SEED")) {
        if (!run(number_from("SIM_SEED", 1), (enum rl_mutant)mutant))
            return 1;
        printf("nothing was wrong\n");
        return 0;
    }
    if (mutant)
        return run_mutants((unsigned)mutant, (unsigned)mutant) ? 0 : 1;
    if (!run_sound())
        return 1;
    return run_mutants(RL_SOUND + 1, RL_MUTANT_COUNT - 1) ? 0 : 1;
}
