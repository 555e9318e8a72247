/* SPDX-License-Identifier: MIT */
/*
 * A computation in rounds, by several processes that wait for each other after each (a barrier), and one
 * that waits until all have counted down (a latch). Each works on what the others left in the round before.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PARTIES 3
#define ROUNDS  5

/* Each adds up what all had after the round before: after n rounds everybody has PARTIES to the n. */
static int work(int argc, char **argv, int number, _Atomic long (*values)[PARTIES])
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    hf_store *store = open_store(argc, argv);
    char who[16];
    hf_error err;

    snprintf(who, sizeof who, "worker %d", number);
    request.name = "example/round";
    request.name_len = HF_CSTRING;
    request.parties = PARTIES;
    request.who = who;
    request.wait_ms = 60000;
    for (int round = 1; round <= ROUNDS; round++) {
        long sum = 0;

        for (int i = 0; i < PARTIES; i++)
            sum += values[round - 1][i];
        values[round][number] = sum;
        must(hf_barrier_wait(store, &request, &err), &err);
    }
    /* Again, if its outcome were HF_UNKNOWN: each counts once, however often it says so. */
    must(hf_latch_count_down(store, "example/done", HF_CSTRING, who, NULL, &err), &err);
    must(hf_latch_count_down(store, "example/done", HF_CSTRING, who, NULL, &err), &err);
    close_store(store);
    return 0;
}

int main(int argc, char **argv)
{
    _Atomic long(*values)[PARTIES] =
        mmap(NULL, sizeof(long) * PARTIES * (ROUNDS + 1), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    hf_party_request request = HF_PARTY_REQUEST_INIT;
    hf_store *store;
    hf_error err;
    long expected = 1;
    int status;

    needs(url_of(argc, argv), HF_CAP_CELLS);
    expect(values != MAP_FAILED, "shared memory");
    store = open_store(argc, argv);
    must(hf_latch_create(store, "example/done", HF_CSTRING, PARTIES, &err), &err);
    close_store(store); /* handles do not survive a fork */
    for (int i = 0; i < PARTIES; i++)
        values[0][i] = 1;
    for (int i = 0; i < PARTIES; i++) {
        pid_t child = fork();

        expect(child >= 0, "a child");
        if (child == 0)
            exit(work(argc, argv, i, values));
    }

    store = open_store(argc, argv);
    request.name = "example/done";
    request.name_len = HF_CSTRING;
    request.wait_ms = 60000;
    must(hf_latch_wait(store, &request, &err), &err);
    for (int round = 0; round < ROUNDS; round++)
        expected *= PARTIES;
    for (int i = 0; i < PARTIES; i++) {
        printf("worker %d: %ld\n", i, (long)values[ROUNDS][i]);
        expect(values[ROUNDS][i] == expected, "nobody began a round before all had ended the last");
    }
    for (int i = 0; i < PARTIES; i++)
        expect(wait(&status) > 0 && status == 0, "a child did as it should");
    must(hf_latch_delete(store, "example/done", HF_CSTRING, &err), &err);
    close_store(store);
    return 0;
}
