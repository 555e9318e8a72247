/* SPDX-License-Identifier: MIT */
/* The group `deadlock`, and what its files share: see deadlock.h. */
#include "deadlock.h"

int deadlock_setup(void **state)
{
    int result = contract_setup(state);

    contract_param("deadlock_check=20ms");
    return result;
}

size_t circles(hf_store *store)
{
    hf_deadlocks *list = NULL;
    size_t count;

    EXPECT(HF_OK, hf_deadlock_list(store, &list, &contract_error));
    count = hf_deadlock_count(list);
    for (size_t i = 0; i < count; i++)
        CHECK(hf_deadlock_item(list, i)->waiter_count > 0);
    CHECK(hf_deadlock_item(list, count) == NULL);
    hf_free(list);
    return count;
}

static void *party_run(void *arg)
{
    struct party *party = arg;
    hf_lease *first = take(party->store, &party->first), *second = NULL;

    party->token = hf_lease_token(first);
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
