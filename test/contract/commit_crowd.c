/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step, and several clients at once. That it is one step is judged by an invariant: money moves between
 * accounts, each a cell, and a reader that reads them one by one and then asserts all their versions in one step never finds another
 * sum.
 */
#include "commit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ACCOUNTS  4
#define PAYERS    3
#define TRANSFERS 8 /* by each of them */
#define FUNDS     100

static const char *const accounts[ACCOUNTS] = { "ada", "ben", "cleo", "dan" };

/* ---- the invariant -------------------------------------------------------------------------------- */

/* What the accounts have, read one after the other. */
static void look(hf_store *store, int64_t funds[ACCOUNTS], uint64_t versions[ACCOUNTS])
{
    for (int i = 0; i < ACCOUNTS; i++) {
        hf_cell cell = HF_CELL_INIT;

        EXPECT(HF_OK, hf_cell_get(store, accounts[i], HF_CSTRING, &cell, &contract_error));
        funds[i] = strtoll(cell.bytes, NULL, 10);
        versions[i] = cell.version;
        hf_free(cell.bytes);
    }
}

struct payer {
    hf_store *store;
    pthread_t thread;
    int number;
    _Atomic bool ended;
};

/* One unit from one account to the next two, until it is done. */
static void pay(struct payer *payer, int round)
{
    int from = (payer->number + round) % ACCOUNTS;
    int64_t funds[ACCOUNTS];
    uint64_t versions[ACCOUNTS];
    hf_cell_item items[3];
    char texts[3][24];
    hf_status status;

    do {
        look(payer->store, funds, versions);
        for (int i = 0; i < 3; i++) {
            int at = (from + i) % ACCOUNTS;

            snprintf(texts[i], sizeof texts[i], "%" PRId64, funds[at] + (i == 0 ? -2 : 1));
            items[i] = WRITE(accounts[at], versions[at], texts[i]);
        }
        status = hf_cells_commit(payer->store, items, 3, NULL, NULL, &contract_error);
    } while (status == HF_CHANGED);
    EXPECT(HF_OK, status);
}

static void *payer_run(void *arg)
{
    struct payer *payer = arg;

    for (int i = 0; i < TRANSFERS; i++)
        pay(payer, i);
    payer->ended = true;
    return NULL;
}

static int64_t sum(const int64_t funds[ACCOUNTS])
{
    int64_t all = 0;

    for (int i = 0; i < ACCOUNTS; i++)
        all += funds[i];
    return all;
}

/* Whatever was read: if all versions are still there together, it was there together. */
static bool reads_together(hf_store *store)
{
    int64_t funds[ACCOUNTS];
    uint64_t versions[ACCOUNTS];
    hf_cell_item items[ACCOUNTS];
    hf_status status;

    look(store, funds, versions);
    for (int i = 0; i < ACCOUNTS; i++)
        items[i] = ASSERT(accounts[i], versions[i]);
    status = hf_cells_commit(store, items, ACCOUNTS, NULL, NULL, &contract_error);
    if (status == HF_CHANGED)
        return false;
    EXPECT(HF_OK, status);
    CHECK(sum(funds) == ACCOUNTS * FUNDS);
    return true;
}

void the_sum_is_never_broken(void **state)
{
    struct payer payers[PAYERS];
    hf_cell_item items[ACCOUNTS];
    int64_t funds[ACCOUNTS];
    uint64_t versions[ACCOUNTS];
    hf_store *store;
    bool going = true;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    for (int i = 0; i < ACCOUNTS; i++)
        items[i] = WRITE(accounts[i], 0, "100");
    EXPECT(HF_OK, hf_cells_commit(store, items, ACCOUNTS, NULL, NULL, &contract_error));
    for (int i = 0; i < PAYERS; i++) {
        payers[i] = (struct payer){ .store = open_store(), .number = i };
        CHECK(pthread_create(&payers[i].thread, NULL, payer_run, &payers[i]) == 0);
    }
    while (going) {
        (void)reads_together(store);
        going = false;
        for (int i = 0; i < PAYERS; i++)
            going = going || !payers[i].ended;
    }
    for (int i = 0; i < PAYERS; i++) {
        CHECK(pthread_join(payers[i].thread, NULL) == 0);
        close_store(payers[i].store);
    }
    CHECK(reads_together(store));
    look(store, funds, versions);
    /* Each of the PAYERS * TRANSFERS payments was made exactly once. */
    for (int i = 0; i < ACCOUNTS; i++) {
        int64_t want = FUNDS;

        for (int payer = 0; payer < PAYERS; payer++)
            for (int round = 0; round < TRANSFERS; round++) {
                int step = (i - payer - round + ACCOUNTS * TRANSFERS) % ACCOUNTS;

                want += step == 0 ? -2 : step < 3 ? 1 : 0;
            }
        CHECK(funds[i] == want);
    }
    close_store(store);
}

/* ---- long lists ------------------------------------------------------------------------------------------- */

#define COLD 40

static char cold_names[COLD][8];
static uint64_t cold_versions[COLD];

/* Add one to the first and the last cell of a long list, whose others are only asserted: the more there is to look at between the
 * first comparison and the last write, the more would go wrong. */
static hf_status add_one(hf_store *store)
{
    hf_cell_item items[COLD + 2];
    char texts[2][24];
    hf_cell cell = HF_CELL_INIT;

    for (int i = 0; i < COLD; i++)
        items[i] = ASSERT(cold_names[i], cold_versions[i]);
    for (int i = 0; i < 2; i++) {
        EXPECT(HF_OK, hf_cell_get(store, i ? "z" : "a", HF_CSTRING, &cell, &contract_error));
        snprintf(texts[i], sizeof texts[i], "%d", atoi(cell.bytes) + 1);
        items[COLD + i] = WRITE(i ? "z" : "a", cell.version, texts[i]);
        hf_free(cell.bytes);
    }
    return hf_cells_commit(store, items, COLD + 2, NULL, NULL, &contract_error);
}

static void *adder_run(void *arg)
{
    struct payer *payer = arg;
    hf_status status;

    for (int i = 0; i < TRANSFERS; i++) {
        while ((status = add_one(payer->store)) == HF_CHANGED)
            ;
        EXPECT(HF_OK, status);
    }
    return NULL;
}

void no_write_of_a_long_list_is_lost(void **state)
{
    hf_cell_item items[COLD + 2];
    uint64_t versions[COLD + 2];
    struct payer payers[PAYERS];
    hf_store *store;
    char text[24];

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    for (int i = 0; i < COLD; i++) {
        snprintf(cold_names[i], sizeof cold_names[i], "m%d", i);
        items[i] = WRITE(cold_names[i], 0, "x");
    }
    items[COLD] = WRITE("a", 0, "0");
    items[COLD + 1] = WRITE("z", 0, "0");
    EXPECT(HF_OK, hf_cells_commit(store, items, COLD + 2, versions, NULL, &contract_error));
    memcpy(cold_versions, versions, sizeof cold_versions);
    for (int i = 0; i < PAYERS; i++) {
        payers[i] = (struct payer){ .store = open_store(), .number = i };
        CHECK(pthread_create(&payers[i].thread, NULL, adder_run, &payers[i]) == 0);
    }
    for (int i = 0; i < PAYERS; i++) {
        CHECK(pthread_join(payers[i].thread, NULL) == 0);
        close_store(payers[i].store);
    }
    snprintf(text, sizeof text, "%d", PAYERS * TRANSFERS);
    expect_text(store, "a", text);
    expect_text(store, "z", text);
    close_store(store);
}

/* ---- a write that depends on what it only asserts -------------------------------------------------------- */

#define ROUNDS 20

static const char *const switches[2] = { "left switch", "right switch" };

/* Two clients, each with a switch: it may be turned on only while the other one is off. */
struct client {
    hf_store *store;
    pthread_barrier_t *together;
    int number;
    bool on; /* it was turned on in this round */
    pthread_t thread;
};

static void turn_on(struct client *client)
{
    uint64_t versions[2];
    hf_status status;

    versions[0] = expect_text(client->store, switches[0], "off");
    versions[1] = expect_text(client->store, switches[1], "off");
    pthread_barrier_wait(client->together);
    status = COMMIT(client->store, NULL, NULL,
                    WRITE(switches[client->number], versions[client->number], "on"),
                    ASSERT(switches[!client->number], versions[!client->number]));
    CHECK(status == HF_OK || status == HF_CHANGED);
    client->on = status == HF_OK;
    pthread_barrier_wait(client->together);
}

static void *client_run(void *arg)
{
    struct client *client = arg;

    for (int i = 0; i < ROUNDS; i++) {
        turn_on(client);
        if (client->on)
            EXPECT(HF_OK, COMMIT(client->store, NULL, NULL,
                                 WRITE(switches[client->number], HF_CELL_ANY, "off")));
        pthread_barrier_wait(client->together);
    }
    return NULL;
}

void one_of_two_is_on(void **state)
{
    struct client clients[2];
    pthread_barrier_t together;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    CHECK(pthread_barrier_init(&together, NULL, 3) == 0);
    EXPECT(HF_OK,
           COMMIT(store, NULL, NULL, WRITE(switches[0], 0, "off"), WRITE(switches[1], 0, "off")));
    for (int i = 0; i < 2; i++) {
        clients[i] = (struct client){ .store = open_store(), .together = &together, .number = i };
        CHECK(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]) == 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&together); /* both have seen both off */
        pthread_barrier_wait(&together); /* both have tried */
        CHECK(!clients[0].on || !clients[1].on);
        CHECK(clients[0].on || clients[1].on);
        pthread_barrier_wait(&together); /* all is off again */
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(clients[i].thread, NULL) == 0);
        close_store(clients[i].store);
    }
    CHECK(pthread_barrier_destroy(&together) == 0);
    close_store(store);
}

/* ---- the same, without versions ---------------------------------------------------------------------- */

static void *scribbler_run(void *arg)
{
    struct payer *payer = arg;
    char text[24];

    for (int i = 0; i < TRANSFERS; i++) {
        snprintf(text, sizeof text, "%d-%d", payer->number, i);
        EXPECT(HF_OK, COMMIT(payer->store, NULL, NULL, WRITE("left", HF_CELL_ANY, text),
                             WRITE("right", HF_CELL_ANY, text)));
    }
    payer->ended = true;
    return NULL;
}

/* Both always have the same text, whoever wrote it. */
void any_version_is_one_step_too(void **state)
{
    struct payer payers[PAYERS];
    hf_cell left = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_COMMIT);
    store = open_store();
    for (int i = 0; i < PAYERS; i++) {
        payers[i] = (struct payer){ .store = open_store(), .number = i };
        CHECK(pthread_create(&payers[i].thread, NULL, scribbler_run, &payers[i]) == 0);
    }
    for (int i = 0; i < PAYERS; i++) {
        CHECK(pthread_join(payers[i].thread, NULL) == 0);
        close_store(payers[i].store);
    }
    EXPECT(HF_OK, hf_cell_get(store, "left", HF_CSTRING, &left, &contract_error));
    expect_text(store, "right", left.bytes);
    hf_free(left.bytes);
    close_store(store);
}
