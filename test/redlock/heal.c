/* SPDX-License-Identifier: MIT */
/*
 * Epochs on real servers: starting a cluster, nodes that come back with their data and without, healers that die anywhere. What
 * a healer leaves behind when it dies is written by hand here, state by state; that no state is forgotten is the
 * simulator's business (test/sim/redlock_main.c). heal_join.c has what only a person can decide.
 */
#include "heal_bed.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACERS  8
#define HEALERS 4

/* ---- in processes of their own ------------------------------------------------------------------ */

/* Waits for the end of `gate`, opens, acquires once, and with `stays` holds on until it is killed. */
static pid_t spawn(const int gate[2], int number, bool stays)
{
    hf_acquire_request request;
    char own[32], byte;
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_error err;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(gate[1]);
    while (read(gate[0], &byte, 1) > 0)
        ;
    snprintf(own, sizeof own, "own %d", number);
    request = with_ttl(waiting_request(own), 3000);
    if (hf_open(nodes_url(SHORT), NULL, &store, &err) != HF_OK ||
        hf_acquire(store, &request, &lease, &err) != HF_OK) {
        fprintf(stderr, "process %d: %s\n", number, err.text);
        _exit(1);
    }
    while (stays)
        pause();
    hf_release(lease, NULL);
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
    _exit(0);
}

static void start_raced_by_many(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        pid_t racers[RACERS];
        int gate[2], status;

        for (unsigned i = 0; i < NODES; i++)
            forget(i);
        CHECK(pipe(gate) == 0);
        for (int i = 0; i < RACERS; i++)
            racers[i] = spawn(gate, i, false);
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < RACERS; i++) {
            CHECK(waitpid(racers[i], &status, 0) == racers[i]);
            CHECK(status == 0);
        }
        CHECK(await_same() == 1); /* one start, and nobody healed anything */
    }
}

/*
 * Two starters, each of which reaches other nodes at once and the rest late: without the question whether all
 * carry the marker still, each would begin a cluster of its own.
 */
static void *start_slowly(void *arg)
{
    const char *url = arg;
    hf_store *store = open_at(url);

    close_store(store);
    return NULL;
}

static void start_with_slow_lines(void **state)
{
    struct proxy *slow[2][NODES];
    pthread_t threads[2];
    char urls[2][512];

    (void)state;
    for (int side = 0; side < 2; side++) {
        int len = snprintf(urls[side], sizeof urls[side], "redlock://");

        for (unsigned i = 0; i < NODES; i++) {
            slow[side][i] = proxy_start(nodes[i]->port);
            if (i < 2 ? side == 0 : side == 1)
                proxy_delay(slow[side][i], PROXY_UP, 100);
            len += snprintf(urls[side] + len, sizeof urls[side] - (size_t)len, "%s127.0.0.1:%u",
                            i ? "," : "", (unsigned)proxy_port(slow[side][i]));
        }
        snprintf(urls[side] + len, sizeof urls[side] - (size_t)len, SHORT);
    }
    for (int side = 0; side < 2; side++)
        CHECK(pthread_create(&threads[side], NULL, start_slowly, urls[side]) == 0);
    for (int side = 0; side < 2; side++)
        CHECK(pthread_join(threads[side], NULL) == 0);
    CHECK(await_same() == 1);
    for (int side = 0; side < 2; side++)
        for (unsigned i = 0; i < NODES; i++)
            proxy_stop(slow[side][i]);
}

/* Two nodes are emptied again and again under clients that are killed while they heal. */
static void healers_that_are_killed(void **state)
{
    pid_t healers[HEALERS];
    int gate[2], status;
    struct healer last;

    (void)state;
    CHECK(pipe(gate) == 0);
    last = healer_open("last");
    AWAIT(all_the_same());
    healer_close(&last);
    for (int i = 0; i < HEALERS; i++)
        healers[i] = spawn(gate, i, true);
    close(gate[0]);
    close(gate[1]);
    forget(1);
    forget(3);
    nap_ms(2900); /* just before they may heal: from now on one dies every few milliseconds */
    for (int i = 0; i < HEALERS; i++) {
        nap_ms(rand() % 100);
        kill(healers[i], SIGKILL);
        CHECK(waitpid(healers[i], &status, 0) == healers[i]);
    }
    last = healer_open("last");
    CHECK(await_same() >= 2);
    healer_close(&last);
}

/* ---- loss and return -------------------------------------------------------------------------------- */

static void with_its_data_it_votes_again(void **state)
{
    struct healer healer = healer_open("own");

    (void)state;
    AWAIT(all_the_same());
    for (unsigned i = 0; i < NODES; i++) {
        node_restart(i, true);
        token_of(healer.store, "name");
    }
    CHECK(await_same() == 1); /* nothing had to be healed */
    healer_close(&healer);
}

/*
 * All nodes lose their data, two at a time, and in the end those vote that have nothing but what they were
 * installed with. The counter is far ahead of every clock: only the floor can have told them.
 */
static void tokens_survive_all_nodes(void **state)
{
    struct healer healers[HEALERS];
    uint64_t before;

    (void)state;
    for (int i = 0; i < HEALERS; i++) {
        char own[32];

        snprintf(own, sizeof own, "own %d", i);
        healers[i] = healer_open(own);
    }
    AWAIT(all_the_same());
    for (unsigned i = 0; i < NODES; i++)
        raise_counter(i, "name", HIGH);
    before = token_of(healers[0].store, "name");
    CHECK(before > HIGH);
    node_restart(0, false);
    forget(1); /* without the connection noticing */
    CHECK(await_same() >= 2);
    node_restart(2, false);
    node_restart(3, false);
    CHECK(await_same() >= 3);
    server_kill(nodes[4]); /* the last that remembers */
    CHECK(token_of(healers[1].store, "name") > before);
    for (int i = 0; i < HEALERS; i++)
        healer_close(&healers[i]);
}

/* ---- what a dead healer leaves ------------------------------------------------------------------------ */

static void another_goes_on(void **state)
{
    static const char x[] = "marker x........", y[] = "marker y........";
    struct healer healer = healer_open("own");

    (void)state;
    AWAIT(all_the_same());
    healer_close(&healer);

    set_marked(4, x); /* one of four is sealed */
    set_epoch(0, 2, x);
    healer = healer_open("own");
    CHECK(await_same() == 2);
    healer_close(&healer);

    set_marked(4, y); /* all are sealed, nothing is installed */
    for (unsigned i = 0; i < 4; i++)
        set_epoch(i, 3, y);
    healer = healer_open("own");
    CHECK(await_same() == 3);
    healer_close(&healer);

    set_marked(3, x); /* two losses, and one of three is sealed for the first */
    set_marked(4, y);
    set_epoch(1, 4, x);
    healer = healer_open("own");
    CHECK(await_same() >= 4);
    healer_close(&healer);

    for (unsigned i = 0; i < 4; i++) /* one was not there when the others were sealed */
        set_epoch(i, 9, x);
    healer = healer_open("own");
    CHECK(await_same() == 9);
    healer_close(&healer);
}

static void another_finishes_a_start(void **state)
{
    static const char m[] = "marker m........", other[] = "marker of others";
    struct healer healer;
    struct look look;

    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        set_marked(i, m);
    set_installed(2, m);
    healer = healer_open("own");
    CHECK(await_same() == 1);
    look = look_at(0);
    CHECK(memcmp(look.bytes + 9, m, ID) == 0); /* that start, and no other */
    healer_close(&healer);

    for (unsigned i = 0; i < NODES; i++) /* it died before it could install anything */
        set_marked(i, i < 3 ? m : other);
    healer = healer_open("own");
    CHECK(await_same() == 1);
    look = look_at(0);
    CHECK(memcmp(look.bytes + 9, m, ID) != 0);
    healer_close(&healer);

    for (unsigned i = 0; i < NODES;
         i++) /* its marker is on one node only that is not installed: not its start */
        set_marked(i, i == 1 ? m : other);
    set_installed(2, m);
    EXPECT(HF_CORRUPT, hf_open(nodes_url(SHORT), NULL, &healer.store, &contract_error));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(start_raced_by_many),      SERVERS_TEST(start_with_slow_lines),
        SERVERS_TEST(healers_that_are_killed),  SERVERS_TEST(with_its_data_it_votes_again),
        SERVERS_TEST(tokens_survive_all_nodes), SERVERS_TEST(another_goes_on),
        SERVERS_TEST(another_finishes_a_start),
    };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
