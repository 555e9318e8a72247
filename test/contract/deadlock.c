/* SPDX-License-Identifier: MIT */
/* The group `deadlock`, and what its files share: see deadlock.h. */
#include "deadlock.h"

int deadlock_setup(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=20ms");
    return result;
}

static void count_circle(const hf_deadlock_waiter *links, size_t count, void *arg)
{
    size_t *found = arg;

    (void)links;
    CHECK(count > 0);
    (*found)++;
}

size_t circles(hf_store *store)
{
    size_t count = 0;

    EXPECT(HF_OK, hf_deadlock_list(store, count_circle, &count, &contract_error));
    return count;
}

static void *party_run(void *arg)
{
    struct party *party = arg;
    hf_lease *first = take(party->store, &party->first), *second = NULL;

    pthread_barrier_wait(party->ready);
    party->status = hf_acquire(party->store, &party->second, &second, &party->err);
    if (party->status == HF_OK)
        give(second);
    give(first);
    party->ended = true;
    return NULL;
}

void party_start(struct party *party)
{
    CHECK(pthread_create(&party->thread, NULL, party_run, party) == 0);
}

int contract_deadlock(void)
{
    return deadlock_threads() + deadlock_sessions() + deadlock_quiet();
}
