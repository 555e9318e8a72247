/* SPDX-License-Identifier: MIT */
/*
 * An ensemble of three, of which one is killed or stopped. Two carry on: leases survive, waiters go on,
 * nobody holds together. (cut.c: one that is cut off.)
 */
#include "zk_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS   4
#define TURNS_MAX 20000
#define LONG      "timeout=10s"

/* ---- threads that take turns, and the check of what they saw ------------------------------- */

struct turn {
    uint64_t token;
    int64_t from_ms, to_ms;
};

static struct storm {
    _Atomic bool stop;
    _Atomic unsigned taken[THREADS], next, failed;
    pthread_t threads[THREADS];
    pthread_mutex_t lock;
    size_t count;
    struct turn turns[TURNS_MAX];
    char url[512];
} storm = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *take_turns(void *arg)
{
    unsigned me = storm.next++;
    hf_store *store = open_at(storm.url);
    hf_acquire_request request = waiting_request("storm");

    (void)arg;
    while (!storm.stop) {
        hf_lease *lease = NULL;
        hf_status status = hf_acquire(store, &request, &lease, &contract_error);
        struct turn turn;

        if (status != HF_OK) {
            CHECK(status == HF_UNKNOWN || status == HF_UNAVAILABLE || status == HF_TOO_SHORT);
            storm.failed++;
            nap_ms(5);
            continue;
        }
        turn.from_ms = now_ms();
        turn.token = hf_lease_token(lease);
        nap_ms(1);
        turn.to_ms = now_ms();
        if (hf_lease_state(lease) != HF_STATE_LOST) {
            pthread_mutex_lock(&storm.lock);
            CHECK(storm.count < TURNS_MAX);
            storm.turns[storm.count++] = turn;
            pthread_mutex_unlock(&storm.lock);
        }
        (void)hf_release(lease, &contract_error);
        storm.taken[me]++;
    }
    close_hard(store);
    return NULL;
}

static void storm_start(void)
{
    storm.stop = false;
    storm.next = 0;
    storm.count = 0;
    snprintf(storm.url, sizeof storm.url, "%s", ensemble_url(ensemble, root(LONG)));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&storm.threads[i], NULL, take_turns, NULL) == 0);
}

/* Wait until every thread has taken it `count` more times. */
static void storm_await(unsigned count)
{
    unsigned before[THREADS];

    for (int i = 0; i < THREADS; i++)
        before[i] = storm.taken[i];
    for (int i = 0; i < THREADS; i++)
        AWAIT(storm.taken[i] >= before[i] + count);
}

static int by_token(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    return (x->token > y->token) - (x->token < y->token);
}

/* In the order of tokens, no turn begins before the previous one has ended. */
static void storm_end(void)
{
    int64_t busy_ms = 0;

    storm.stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(storm.threads[i], NULL);
    qsort(storm.turns, storm.count, sizeof *storm.turns, by_token);
    for (size_t i = 0; i < storm.count; i++) {
        const struct turn *turn = &storm.turns[i];

        CHECK(i == 0 || turn[-1].token < turn->token);
        CHECK(turn->from_ms >= busy_ms);
        busy_ms = turn->to_ms;
    }
    print_message("%zu turns, %u refused\n", storm.count, storm.failed);
}

/* ---- cases ------------------------------------------------------------------------------------ */

/* What is done to the server, and undone. */
struct fault {
    struct zk_server *(*choose)(struct ensemble *ensemble);
    void (*begin)(struct zk_server *server);
    void (*end)(struct zk_server *server);
};

/* Turns go on while the fault lasts, and after it. Was the lease of a bystander kept? It may be lost if
 * this machine is so slow that its session could have ended; nothing else may happen to it. */
static bool survives(const struct fault *fault)
{
    hf_store *store = open_at(ensemble_url(ensemble, root(LONG)));
    hf_acquire_request request = mutex_request("kept");
    hf_lease *lease = take(store, &request);
    struct zk_server *server = fault->choose(ensemble);
    bool kept;

    storm_start();
    storm_await(3);
    fault->begin(server);
    storm_await(3);
    AWAIT(hf_lease_state(lease) != HF_STATE_AT_RISK);
    kept = hf_lease_state(lease) == HF_STATE_HELD && hf_renew(lease, 0, &contract_error) == HF_OK;
    fault->end(server);
    storm_await(3);
    storm_end();
    kept = kept && hf_release(lease, &contract_error) == HF_OK;
    close_hard(store);
    return kept;
}

static void once_of_three(const struct fault *fault)
{
    CHECK(survives(fault) || survives(fault) || survives(fault));
}

static void leader_is_killed(void **state)
{
    (void)state;
    once_of_three(&(struct fault){ ensemble_leader, zk_server_kill, zk_server_restart });
}

/* A server that says nothing any more: its clients go to another one in time. */
static void follower_is_stopped(void **state)
{
    (void)state;
    once_of_three(&(struct fault){ ensemble_follower, zk_server_pause, zk_server_continue });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(follower_is_stopped),
        TEST(leader_is_killed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    bed_begin(3, 10, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
