/* SPDX-License-Identifier: MIT */
/*
 * The optimistic lock: a stock of goods in a cell, sold by several at once without any lock.
 *
 * Read, think, write: two buyers who read the same number sell two things and take one off. With a
 * version the second writer learns that another write came first, and begins again; nobody ever
 * waits for anybody. hf_cell_update() is that loop.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <sys/wait.h>
#include <unistd.h>

#define STOCK  20
#define BUYERS 3

static long read_stock(hf_store *store, uint64_t *ret_version)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    long stock;

    must(hf_cell_get(store, "example/stock", HF_CSTRING, &cell, &err), &err);
    stock = strtol(cell.bytes, NULL, 10); /* there is a NUL behind the bytes */
    *ret_version = cell.version;
    hf_free(cell.bytes);
    return stock;
}

static void set_stock(hf_store *store, long stock)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    char text[24];
    hf_error err;

    snprintf(text, sizeof text, "%ld", stock);
    request.name = "example/stock";
    request.name_len = HF_CSTRING;
    request.bytes = text;
    request.len = strlen(text);
    must(hf_cell_set(store, &request, NULL, &err), &err);
}

/* Step by step, what two buyers do at the same moment. */
static void naive(hf_store *store)
{
    uint64_t version;
    long seen_by_one, seen_by_other;

    set_stock(store, STOCK);
    seen_by_one = read_stock(store, &version);
    seen_by_other = read_stock(store, &version);
    set_stock(store, seen_by_one - 1);
    set_stock(store, seen_by_other - 1);
    printf("without versions: two sold, %ld of %d left\n", read_stock(store, &version), STOCK);
    expect(read_stock(store, &version) == STOCK - 1, "an update is lost");
}

static hf_status swap(hf_store *store, uint64_t version, long stock, hf_error *err)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    char text[24];

    snprintf(text, sizeof text, "%ld", stock);
    request.name = "example/stock";
    request.name_len = HF_CSTRING;
    request.version = version;
    request.bytes = text;
    request.len = strlen(text);
    return hf_cell_swap(store, &request, NULL, err);
}

static void with_versions(hf_store *store)
{
    uint64_t one, other;
    long seen_by_one, seen_by_other;
    hf_status status;
    hf_error err;

    set_stock(store, STOCK);
    seen_by_one = read_stock(store, &one);
    seen_by_other = read_stock(store, &other);
    must(swap(store, one, seen_by_one - 1, &err), &err);
    status = swap(store, other, seen_by_other - 1, &err);
    printf("with versions: the second is told: %s\n", err.text);
    expect(status == HF_CHANGED, "the second buyer is refused");
    seen_by_other = read_stock(store, &other);
    must(swap(store, other, seen_by_other - 1, &err), &err);
    printf("it begins again: two sold, %ld of %d left\n", read_stock(store, &one), STOCK);
    expect(read_stock(store, &one) == STOCK - 2, "no update is lost");
}

/* May be called several times; only the last time counts. */
static hf_status buy_one(const hf_cell *old, hf_cell_change *change, void *arg)
{
    char *text = arg;
    long stock = old->bytes ? strtol(old->bytes, NULL, 10) : 0;

    if (stock == 0)
        return HF_NOT_FOUND; /* sold out: ends the update, and nothing is written */
    snprintf(text, 24, "%ld", stock - 1);
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = text;
    change->len = strlen(text);
    return HF_OK;
}

/* Buy until it is sold out; how many did we get? */
static int buy_all(hf_store *store)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_status status;
    hf_error err;
    char text[24];
    int bought = 0;

    request.name = "example/stock";
    request.name_len = HF_CSTRING;
    request.fn = buy_one;
    request.fn_arg = text;
    request.wait_ms = HF_FOREVER;
    while ((status = hf_cell_update(store, &request, NULL, &err)) == HF_OK)
        bought++;
    expect(status == HF_NOT_FOUND, "the end is that it is sold out");
    return bought;
}

static void many_buyers(int argc, char **argv, hf_store *store)
{
    uint64_t version;
    int sold = 0, status;

    set_stock(store, STOCK);
    fflush(stdout);
    for (int i = 0; i < BUYERS; i++) {
        pid_t child = fork();

        expect(child >= 0, "a child");
        if (child == 0) {
            hf_store *own = open_store(argc, argv); /* not the parent's */
            int bought = buy_all(own);

            close_store(own);
            _exit(bought);
        }
    }
    for (int i = 0; i < BUYERS; i++) {
        expect(wait(&status) > 0 && WIFEXITED(status), "a buyer came back");
        sold += WEXITSTATUS(status);
    }
    printf("%d processes bought %d of %d, %ld left\n", BUYERS, sold, STOCK,
           read_stock(store, &version));
    expect(sold == STOCK && read_stock(store, &version) == 0, "each was sold once");
}

int main(int argc, char **argv)
{
    hf_store *store;

    needs(url_of(argc, argv), HF_CAP_CELLS);
    store = open_store(argc, argv);
    naive(store);
    with_versions(store);
    many_buyers(argc, argv, store);
    close_store(store);
    return 0;
}
