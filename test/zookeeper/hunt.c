/* SPDX-License-Identifier: MIT */
/*
 * Hunts names that stand free while somebody waits. Processes wait for a few names, and try them in an event loop with cancels,
 * while their server is killed, started again and stopped. Then it is left alone: from then on every name must be granted
 * again and again, and no try may take longer than an op that does not wait may take. At the end nobody asks any more, and nothing
 * may be left in any queue while the sessions of all live.
 */
#include "contract.h"
#include "loop.h"
#include "zk_server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS   500
#define NAMES     4
#define PROCESSES 3
#define WAITERS   2 /* threads of each that wait */
#define FLIGHT    8 /* asynchronous calls under way in each */
#define STRIKES   8
#define STRIKE_MS 1500 /* at most, between two of them */
#define WAIT_MS   8000
#define TRY_MS    25000 /* 5 s, and 1.5 s for its end, and a busy machine */
#define FREE_MS \
    30000 /* the session of a client that found no server ends after 4 s, and tries after 6.5 s */
#define ROUNDS 3 /* so often each name is granted at the end */

struct shared {
    _Atomic bool stop, leave;
    _Atomic unsigned long grants[NAMES];
    _Atomic int64_t longest_try_ms;
};

static struct shared *shared;
static char url[200];

static void name_of(unsigned number, char ret_name[16])
{
    snprintf(ret_name, 16, "name-%u", number);
}

static unsigned draw(unsigned *seed, unsigned n)
{
    return (unsigned)rand_r(seed) % n;
}

/* ---- one process --------------------------------------------------------------------------------------- */

struct flight {
    hf_op *op;
    unsigned name;
    bool busy, tries;
    int64_t since_ms;
};

static void note_try(int64_t took_ms)
{
    int64_t longest_ms = atomic_load(&shared->longest_try_ms);

    while (took_ms > longest_ms &&
           !atomic_compare_exchange_weak(&shared->longest_try_ms, &longest_ms, took_ms))
        ;
}

static void on_released(const hf_result *result, void *arg)
{
    (void)result, (void)arg;
}

static void on_answer(const hf_result *result, void *arg)
{
    struct flight *flight = arg;

    flight->busy = false;
    if (flight->tries)
        note_try(now_ms() - flight->since_ms);
    if (result->status != HF_OK)
        return;
    atomic_fetch_add(&shared->grants[flight->name], 1);
    EXPECT(HF_OK, hf_release_async(result->lease, on_released, NULL, NULL, &contract_error));
}

static void fly(hf_store *store, struct flight *flight, unsigned *seed)
{
    hf_acquire_request request;
    char name[16];

    flight->name = draw(seed, NAMES);
    flight->tries = draw(seed, 3) > 0;
    flight->since_ms = now_ms();
    flight->busy = true;
    name_of(flight->name, name);
    request = mutex_request(name);
    request.flags = HF_FLAG_STRICT;
    if (!flight->tries)
        request.wait_ms = 100 + draw(seed, WAIT_MS);
    EXPECT(HF_OK,
           hf_acquire_async(store, &request, on_answer, flight, &flight->op, &contract_error));
    if (draw(seed, 4) == 0)
        (void)hf_op_cancel(flight->op);
}

struct waiter {
    hf_store *store;
    unsigned seed;
};

static void *wait_on(void *arg)
{
    struct waiter *waiter = arg;
    char name[16];

    while (!atomic_load(&shared->stop)) {
        unsigned number = draw(&waiter->seed, NAMES);
        hf_acquire_request request;
        hf_lease *lease = NULL;

        name_of(number, name);
        request = mutex_request(name);
        request.flags = HF_FLAG_STRICT;
        request.wait_ms = WAIT_MS;
        if (hf_acquire(waiter->store, &request, &lease, NULL) != HF_OK)
            continue;
        atomic_fetch_add(&shared->grants[number], 1);
        (void)hf_release(lease, NULL);
    }
    return NULL;
}

static bool in_flight(const struct flight *flights)
{
    for (int i = 0; i < FLIGHT; i++)
        if (flights[i].busy)
            return true;
    return false;
}

static void child(unsigned number)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct flight flights[FLIGHT] = { { 0 } };
    struct waiter waiters[WAITERS];
    pthread_t threads[WAITERS];
    unsigned seed = number + 1;
    hf_store *store = NULL, *loop = NULL;

    contract_alone = true;
    options.flags = HF_OPEN_FLAG_NO_WAIT;
    EXPECT(HF_OK, hf_open(url, &options, &store, &contract_error));
    EXPECT(HF_OK, hf_open(url, &options, &loop, &contract_error));
    for (unsigned i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){ store, seed * 100 + i };
        CHECK(pthread_create(&threads[i], NULL, wait_on, &waiters[i]) == 0);
    }
    while (!atomic_load(&shared->stop) || in_flight(flights)) {
        for (int i = 0; i < FLIGHT; i++) {
            struct flight *flight = &flights[i];

            if (!flight->busy && !atomic_load(&shared->stop))
                fly(loop, flight, &seed);
            CHECK(!flight->busy || !flight->tries || now_ms() - flight->since_ms < TRY_MS);
        }
        loop_turn(loop, 20);
    }
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    while (!atomic_load(&shared->leave))
        loop_turn(loop, 20);
    (void)hf_close(loop, HF_CLOSE_FLAG_RELEASE);
    (void)hf_close(store, HF_CLOSE_FLAG_RELEASE);
    _exit(0);
}

/* ---- strikes, and the judge -------------------------------------------------------------------------------- */

static void strike(struct zk_server *server, unsigned *seed)
{
    nap_ms(draw(seed, STRIKE_MS));
    if (draw(seed, 2) == 0) {
        zk_server_pause(server);
        nap_ms(draw(seed, 4000));
        zk_server_continue(server);
    } else {
        zk_server_kill(server);
        zk_server_restart(server);
    }
}

static void check_children(const pid_t *children, bool gone)
{
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        pid_t ended = waitpid(children[i], &status, gone ? 0 : WNOHANG);

        CHECK(ended == (gone ? children[i] : 0));
        CHECK(!gone || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
}

static void judge(const pid_t *children)
{
    for (int round = 0; round < ROUNDS; round++) {
        unsigned long seen[NAMES];
        int64_t since_ms = now_ms();

        for (unsigned i = 0; i < NAMES; i++)
            seen[i] = atomic_load(&shared->grants[i]);
        for (unsigned i = 0; i < NAMES; i++)
            while (atomic_load(&shared->grants[i]) < seen[i] + 5) {
                CHECK(now_ms() - since_ms < FREE_MS);
                check_children(children, false);
                nap_ms(5);
            }
        printf("round %d: every name was granted within %lld ms\n", round,
               (long long)(now_ms() - since_ms));
    }
}

static void check_nothing_left(void)
{
    hf_store *store = NULL;
    char name[16];

    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    for (unsigned i = 0; i < NAMES; i++) {
        name_of(i, name);
        AWAIT(count_holders(store, name) == 0 && count_waiters(store, name) == 0);
    }
    close_store(store);
}

static void names_that_stand_free(void **state)
{
    const char *seed_text = getenv("HUNT_SEED");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)now_ms();
    struct ensemble *ensemble = ensemble_start(1, TICK_MS, 5, false);
    pid_t children[PROCESSES];

    (void)state;
    printf("HUNT_SEED=%u\n", seed);
    fflush(stdout);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    snprintf(url, sizeof url, "%s", zk_url(ensemble->servers[0].port, "/hunt?timeout=4s"));
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0)
            child(seed + i);
    }
    for (int i = 0; i < STRIKES; i++) {
        strike(&ensemble->servers[0], &seed);
        check_children(children, false);
    }
    judge(children);
    printf("the longest try: %lld ms\n", (long long)atomic_load(&shared->longest_try_ms));
    atomic_store(&shared->stop, true);
    check_nothing_left();
    atomic_store(&shared->leave, true);
    check_children(children, true);
    munmap(shared, sizeof *shared);
    ensemble_free(ensemble);
}

int main(void)
{
    const struct CMUnitTest cases[] = { cmocka_unit_test(names_that_stand_free) };

    return cmocka_run_group_tests_name("hunt", cases, NULL, NULL) ? 1 : 0;
}
