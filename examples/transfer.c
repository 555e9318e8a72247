/* SPDX-License-Identifier: MIT */
/*
 * Several cells in one step: money moves between accounts, and the sum of all accounts stays what it was.
 *
 * Two writes, one after the other, are two steps: whoever looks between them finds that money is missing, and a process that dies
 * there has destroyed it. hf_cells_commit() does both or none, and only if neither account has changed since it was read: what
 * WATCH, MULTI and EXEC do in Redis, on every engine with transactions. A list that only asserts versions says that what was read
 * one by one was there together.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <sys/wait.h>
#include <unistd.h>

#define ACCOUNTS 3
#define FUNDS    100
#define PAYERS   3
#define PAYMENTS 20

static const char *const names[ACCOUNTS] = { "example/ada", "example/ben", "example/cleo" };

static long read_account(hf_store *store, int account, uint64_t *ret_version)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    long funds;

    must(hf_cell_get(store, names[account], HF_CSTRING, &cell, &err), &err);
    funds = strtol(cell.bytes, NULL, 10);
    *ret_version = cell.version;
    hf_free(cell.bytes);
    return funds;
}

/* An item that writes `funds`, or with a negative number only asserts the version. */
static hf_cell_item item(int account, uint64_t version, long funds, char text[24])
{
    hf_cell_item item = HF_CELL_ITEM_INIT;

    snprintf(text, 24, "%ld", funds);
    item.name = names[account];
    item.name_len = HF_CSTRING;
    item.version = version;
    item.action = funds < 0 ? HF_CELL_ACTION_LEAVE : HF_CELL_ACTION_WRITE;
    item.bytes = text;
    item.len = strlen(text);
    return item;
}

static void open_accounts(hf_store *store)
{
    hf_cell_item items[ACCOUNTS];
    char texts[ACCOUNTS][24];
    hf_error err;

    for (int i = 0; i < ACCOUNTS; i++)
        items[i] = item(i, HF_CELL_ANY, FUNDS, texts[i]);
    must(hf_cells_commit(store, items, ACCOUNTS, NULL, NULL, &err), &err);
}

/* The sum at one moment: read them all, and again if one has changed before all were read. */
static long read_sum(hf_store *store)
{
    hf_cell_item items[ACCOUNTS];
    char texts[ACCOUNTS][24];
    uint64_t version;
    hf_status status;
    hf_error err;
    long sum;

    do {
        sum = 0;
        for (int i = 0; i < ACCOUNTS; i++) {
            sum += read_account(store, i, &version);
            items[i] = item(i, version, -1, texts[i]);
        }
        status = hf_cells_commit(store, items, ACCOUNTS, NULL, NULL, &err);
    } while (status == HF_CHANGED);
    must(status, &err);
    return sum;
}

/* Step by step, what a reader sees between two writes. */
static void naive(hf_store *store)
{
    hf_cell_item one;
    char text[24];
    uint64_t version;
    hf_error err;
    long funds;

    open_accounts(store);
    funds = read_account(store, 0, &version);
    one = item(0, version, funds - 10, text);
    must(hf_cells_commit(store, &one, 1, NULL, NULL, &err), &err);
    printf("two steps: between them there are %ld of %d\n", read_sum(store), ACCOUNTS * FUNDS);
    expect(read_sum(store) == ACCOUNTS * FUNDS - 10, "money is missing for a while");
    funds = read_account(store, 1, &version);
    one = item(1, version, funds + 10, text);
    must(hf_cells_commit(store, &one, 1, NULL, NULL, &err), &err);
}

/* HF_CHANGED: somebody else used one of the accounts, and nothing was done. */
static hf_status try_to_pay(hf_store *store, int from, int to, long amount, hf_error *err)
{
    uint64_t from_version, to_version;
    long from_funds = read_account(store, from, &from_version);
    long to_funds = read_account(store, to, &to_version);
    hf_cell_item items[2];
    char texts[2][24];

    if (from_funds < amount)
        return HF_NOT_FOUND;
    items[0] = item(from, from_version, from_funds - amount, texts[0]);
    items[1] = item(to, to_version, to_funds + amount, texts[1]);
    return hf_cells_commit(store, items, 2, NULL, NULL, err);
}

static void one_step(hf_store *store)
{
    hf_cell_item stale;
    uint64_t version;
    size_t index = 9;
    char text[24];
    hf_status status;
    hf_error err;

    open_accounts(store);
    (void)read_account(store, 1, &version);
    must(try_to_pay(store, 0, 1, 10, &err), &err);
    stale = item(1, version, 0, text);
    status = hf_cells_commit(store, &stale, 1, NULL, &index, &err);
    printf("one step: there are %ld of %d; an old version is refused: %s\n", read_sum(store),
           ACCOUNTS * FUNDS, err.text);
    expect(status == HF_CHANGED && index == 0, "a stale write is refused");
    expect(read_sum(store) == ACCOUNTS * FUNDS, "nothing is missing");
}

static void pay_often(hf_store *store, int number)
{
    hf_status status;
    hf_error err;

    for (int i = 0; i < PAYMENTS; i++) {
        do
            status =
                try_to_pay(store, (number + i) % ACCOUNTS, (number + i + 1) % ACCOUNTS, 7, &err);
        while (status == HF_CHANGED);
        expect(status == HF_OK || status == HF_NOT_FOUND, "paid, or not enough there");
    }
}

static void many_payers(int argc, char **argv, hf_store *store)
{
    int left = PAYERS, status, looks = 0;

    open_accounts(store);
    fflush(stdout);
    for (int i = 0; i < PAYERS; i++) {
        pid_t child = fork();

        expect(child >= 0, "a child");
        if (child == 0) {
            hf_store *own = open_store(argc, argv); /* not the parent's */

            pay_often(own, i);
            close_store(own);
            _exit(0);
        }
    }
    while (left > 0) {
        pid_t ended = waitpid(-1, &status, WNOHANG);

        expect(ended >= 0 && (ended == 0 || status == 0), "a payer came back");
        left -= ended > 0;
        expect(read_sum(store) == ACCOUNTS * FUNDS, "nothing is ever missing");
        looks++;
    }
    printf("%d processes paid %d times each; the sum was right whenever we looked\n", PAYERS,
           PAYMENTS);
    expect(looks > 0, "we looked");
}

int main(int argc, char **argv)
{
    hf_store *store;

    needs(url_of(argc, argv), HF_CAP_COMMIT);
    store = open_store(argc, argv);
    naive(store);
    one_step(store);
    many_payers(argc, argv, store);
    close_store(store);
    return 0;
}
