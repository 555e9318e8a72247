/* SPDX-License-Identifier: MIT */
/*
 * A market: traders with funds, goods that they own, list at a price and buy from each other. Every
 * trader's funds and every good is a cell of the store, and several processes buy and sell at once, in
 * four ways:
 *
 *   none     read, think, write. Others do the same meanwhile
 *   cells    no lock: each write only if the cell is as it was read (WATCH, in the words of Redis), and
 *            what was paid in vain is paid back
 *   coarse   one lock around the whole market
 *   fine     one lock for each good; funds, which goods share, are changed by hf_cell_update()
 *
 * For each it counts what must not happen, how many worked at once, and how many sales a second there were. Between reading
 * and writing lies some work, in all four ways alike: without it a sale is a few commands, the processors are what is short,
 * and a lock around everything costs little more than one for each good. (examples/seeds/market.c has it as on Redis alone.)
 *
 *   sold twice    two paid for the same offer
 *   listed twice  one good was offered twice at a time
 *   money         what the funds of all traders are off from what they bought and sold for
 *
 *   example-market [STORE] [--ms N] [--svg FILE]     N: how long each way is given
 *
 * The first way is expected to fail, and goes on until it has. The others may not.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 5
#define TRADERS   4
#define GOODS     24
#define FUNDS     100000
#define PRICE_MAX 20
#define OFFERS    65536 /* of one good that are told apart; after that a process stops early */
#define WORK_US   500   /* between reading and writing */
#define LIMIT_MS  60000 /* what is to be seen is seen by then, or never will be */

enum way { NONE, CELLS, COARSE, FINE, WAYS };
static const char *const way_names[WAYS] = { "none", "cells", "coarse", "fine" };

/* What all processes count into, in memory that they share. */
struct tally {
    _Atomic int go, stop;
    _Atomic long sales, again; /* again: an attempt that somebody else's write undid */
    _Atomic long sold_twice, listed_twice;
    _Atomic long working, working_max; /* between reading and writing */
    _Atomic long earned[TRADERS];      /* by sales, less what was spent on others */
    _Atomic unsigned char sold[GOODS][OFFERS], listed[GOODS][OFFERS];
};

/* A good: whose it is, and at which price it is offered (0: it is not). Every change of hands and every
 * offer raises the serial, which so names one offer. */
struct good {
    long owner, price, serial;
};

struct trading {
    hf_store *store;
    enum way way;
    struct tally *tally;
    unsigned seed;
    int full; /* there are no more offers to tell apart */
};

struct result {
    double per_second;
    long sales, again, working_max, sold_twice, listed_twice, money;
};

/* ---- cells ------------------------------------------------------------------------------------------ */

static const char *name_of(const char *what, int number)
{
    static char names[4][32];
    static int next;
    char *name = names[next++ % 4];

    snprintf(name, sizeof names[0], "market/%s/%d", what, number);
    return name;
}

static void put(hf_store *store, const char *name, const char *text)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_error err;

    request.name = name;
    request.name_len = HF_CSTRING;
    request.bytes = text;
    request.len = strlen(text);
    must(hf_cell_set(store, &request, NULL, &err), &err);
}

static uint64_t get_good(hf_store *store, int number, struct good *good)
{
    hf_cell cell = HF_CELL_INIT;
    uint64_t version;
    char *at;
    hf_error err;

    must(hf_cell_get(store, name_of("good", number), HF_CSTRING, &cell, &err), &err);
    good->owner = strtol(cell.bytes, &at, 10);
    good->price = strtol(at, &at, 10);
    good->serial = strtol(at, &at, 10);
    expect(good->owner >= 0 && good->owner < TRADERS && *at == 0, "a good");
    version = cell.version;
    hf_free(cell.bytes);
    return version;
}

static char *good_text(const struct good *good, char text[64])
{
    snprintf(text, 64, "%ld %ld %ld", good->owner, good->price, good->serial);
    return text;
}

static long get_funds(hf_store *store, long trader)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    long funds;

    must(hf_cell_get(store, name_of("funds", (int)trader), HF_CSTRING, &cell, &err), &err);
    funds = strtol(cell.bytes, NULL, 10);
    hf_free(cell.bytes);
    return funds;
}

static void put_funds(hf_store *store, long trader, long funds)
{
    char text[32];

    snprintf(text, sizeof text, "%ld", funds);
    put(store, name_of("funds", (int)trader), text);
}

struct payment {
    long amount;
    char text[32];
};

static hf_status pay_in(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct payment *payment = arg;
    long funds = strtol(old->bytes, NULL, 10) + payment->amount;

    if (funds < 0)
        return HF_NOT_FOUND;
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = payment->text;
    change->len = (size_t)snprintf(payment->text, sizeof payment->text, "%ld", funds);
    return HF_OK;
}

/* Add to a trader's funds in one step, also while others do. 0: the funds are too small. */
static int add_funds(hf_store *store, long trader, long amount)
{
    struct payment payment = { .amount = amount };
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_status status;
    hf_error err;

    request.name = name_of("funds", (int)trader);
    request.name_len = HF_CSTRING;
    request.fn = pay_in;
    request.fn_arg = &payment;
    request.wait_ms = HF_FOREVER;
    status = hf_cell_update(store, &request, NULL, &err);
    if (status != HF_NOT_FOUND)
        must(status, &err);
    return status == HF_OK;
}

/* ---- counting --------------------------------------------------------------------------------------- */

static void count(struct trading *trading, _Atomic unsigned char *offers, long serial,
                  _Atomic long *twice)
{
    trading->full |= serial >= OFFERS - 1;
    if (serial < OFFERS && atomic_exchange(&offers[serial], 1) != 0)
        atomic_fetch_add(twice, 1);
}

static void count_sale(struct trading *trading, int number, const struct good *offer, long buyer)
{
    struct tally *tally = trading->tally;

    atomic_fetch_add(&tally->sales, 1);
    atomic_fetch_add(&tally->earned[offer->owner], offer->price);
    atomic_fetch_sub(&tally->earned[buyer], offer->price);
    count(trading, tally->sold[number], offer->serial, &tally->sold_twice);
}

static void count_offer(struct trading *trading, int number, const struct good *before)
{
    struct tally *tally = trading->tally;

    count(trading, tally->listed[number], before->serial, &tally->listed_twice);
}

/* ---- the four ways ------------------------------------------------------------------------------------ */

static void work(const struct trading *trading)
{
    struct timespec pause = { .tv_nsec = WORK_US * 1000 };
    struct tally *tally = trading->tally;
    long now = atomic_fetch_add(&tally->working, 1) + 1;
    long most = atomic_load(&tally->working_max);

    while (now > most && !atomic_compare_exchange_weak(&tally->working_max, &most, now))
        ;
    nanosleep(&pause, NULL);
    atomic_fetch_sub(&tally->working, 1);
}

/* List it if it is not, else buy it: by reading and writing, as if nobody else were there. */
static void trade_plainly(struct trading *trading, int number, long buyer, long price)
{
    hf_store *store = trading->store;
    struct good good, next;
    long funds;
    char text[64];

    get_good(store, number, &good);
    next = (struct good){ .owner = good.owner, .price = price, .serial = good.serial + 1 };
    if (good.price > 0) {
        if (good.owner == buyer)
            return;
        next.owner = buyer;
        next.price = 0;
        if (trading->way == FINE) {
            if (!add_funds(store, buyer, -good.price))
                return;
            add_funds(store, good.owner, good.price);
        } else {
            funds = get_funds(store, buyer);
            if (trading->way == NONE)
                work(trading);
            if (funds < good.price)
                return;
            put_funds(store, buyer, funds - good.price);
            put_funds(store, good.owner, get_funds(store, good.owner) + good.price);
        }
    }
    work(trading);
    put(store, name_of("good", number), good_text(&next, text));
    if (good.price > 0)
        count_sale(trading, number, &good, buyer);
    else
        count_offer(trading, number, &good);
}

/* The same without a lock. The good changes hands only if it is as it was read; a buyer that paid
 * and was too late gets the money back. */
static void trade_by_cells(struct trading *trading, int number, long buyer, long price)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_store *store = trading->store;
    struct good good, next;
    uint64_t version = get_good(store, number, &good);
    hf_status status;
    char text[64];
    hf_error err;

    next = (struct good){ .owner = good.owner, .price = price, .serial = good.serial + 1 };
    if (good.price > 0) {
        next.owner = buyer;
        next.price = 0;
        if (good.owner == buyer || !add_funds(store, buyer, -good.price))
            return;
    }
    work(trading);
    good_text(&next, text);
    request.name = name_of("good", number);
    request.name_len = HF_CSTRING;
    request.version = version;
    request.bytes = text;
    request.len = strlen(text);
    status = hf_cell_swap(store, &request, NULL, &err);
    if (status != HF_CHANGED)
        must(status, &err);
    else
        atomic_fetch_add(&trading->tally->again, 1);
    if (good.price > 0)
        add_funds(store, status == HF_OK ? good.owner : buyer, good.price);
    if (status != HF_OK)
        return;
    if (good.price > 0)
        count_sale(trading, number, &good, buyer);
    else
        count_offer(trading, number, &good);
}

static void trade_under_lock(struct trading *trading, int number, long buyer, long price)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = trading->way == COARSE ? "market" : name_of("lock", number);
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    must(hf_acquire(trading->store, &request, &lease, &err), &err);
    trade_plainly(trading, number, buyer, price);
    must(hf_release(lease, &err), &err);
}

static void trade(struct trading *trading)
{
    int number = rand_r(&trading->seed) % GOODS;
    long buyer = rand_r(&trading->seed) % TRADERS;
    long price = 1 + rand_r(&trading->seed) % PRICE_MAX;

    if (trading->way == NONE)
        trade_plainly(trading, number, buyer, price);
    else if (trading->way == CELLS)
        trade_by_cells(trading, number, buyer, price);
    else
        trade_under_lock(trading, number, buyer, price);
}

/* ---- one way, by all processes ---------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int trader_process(const char *url, enum way way, struct tally *tally, unsigned seed)
{
    struct trading trading = { .way = way, .tally = tally, .seed = seed };
    hf_error err;

    must(hf_open(url, NULL, &trading.store, &err), &err);
    atomic_fetch_add(&tally->go, 1);
    while (atomic_load(&tally->go) < PROCESSES)
        nap(); /* begin together, or the first has gone before the last comes */
    while (!atomic_load(&tally->stop) && !trading.full)
        trade(&trading);
    close_store(trading.store);
    return 0;
}

static void set_up(hf_store *store)
{
    char text[64];

    for (int i = 0; i < TRADERS; i++)
        put_funds(store, i, FUNDS);
    for (int i = 0; i < GOODS; i++)
        put(store, name_of("good", i), good_text(&(struct good){ i % TRADERS, 0, 0 }, text));
}

static long money(hf_store *store, const struct tally *tally)
{
    long off = 0;

    for (int i = 0; i < TRADERS; i++)
        off += labs(get_funds(store, i) - FUNDS - tally->earned[i]);
    return off;
}

static int has_failed(const struct tally *tally)
{
    return atomic_load(&tally->sold_twice) + atomic_load(&tally->listed_twice) > 0;
}

/* The first way must fail, and under fine locks several must be seen at work. */
static int is_shown(const struct tally *tally, enum way way)
{
    return way == NONE ? has_failed(tally) : way == FINE ? atomic_load(&tally->working_max) > 1 : 1;
}

/* Run it for this time, and until it has shown what it is to show. */
static double run_for(struct tally *tally, enum way way, int64_t ms)
{
    int64_t begun_ms;

    while (atomic_load(&tally->go) < PROCESSES)
        nap();
    begun_ms = now_ms();
    while (now_ms() - begun_ms < ms || (!is_shown(tally, way) && now_ms() - begun_ms < LIMIT_MS) ||
           (atomic_load(&tally->sales) == 0 && now_ms() - begun_ms < LIMIT_MS))
        nap();
    atomic_store(&tally->stop, 1);
    return (double)(now_ms() - begun_ms) / 1000;
}

static struct result run_way(const char *url, enum way way, int64_t ms)
{
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct result result;
    pid_t children[PROCESSES];
    hf_store *store;
    hf_error err;
    double seconds;
    int status;

    expect(tally != MAP_FAILED, "shared memory");
    must(hf_open(url, NULL, &store, &err), &err);
    set_up(store);
    close_store(store); /* handles do not survive a fork */
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        expect(children[i] >= 0, "a child");
        if (children[i] == 0)
            exit(trader_process(url, way, tally, i + 1));
    }
    seconds = run_for(tally, way, ms);
    for (int i = 0; i < PROCESSES; i++)
        expect(waitpid(children[i], &status, 0) == children[i] && status == 0,
               "a child did as it should");

    must(hf_open(url, NULL, &store, &err), &err);
    result = (struct result){ .per_second = (double)tally->sales / seconds,
                              .sales = tally->sales,
                              .again = tally->again,
                              .working_max = tally->working_max,
                              .sold_twice = tally->sold_twice,
                              .listed_twice = tally->listed_twice,
                              .money = money(store, tally) };
    close_store(store);
    munmap(tally, sizeof *tally);
    return result;
}

/* ---- showing it -------------------------------------------------------------------------------------------- */

static void print_table(const struct result *results)
{
    printf("%-8s %10s %8s %8s %8s %12s %14s %8s\n", "way", "sales/s", "sales", "again", "at work",
           "sold twice", "listed twice", "money");
    for (int way = 0; way < WAYS; way++)
        printf("%-8s %10.0f %8ld %8ld %8ld %12ld %14ld %8ld\n", way_names[way],
               results[way].per_second, results[way].sales, results[way].again,
               results[way].working_max, results[way].sold_twice, results[way].listed_twice,
               results[way].money);
}

/* A bar for each way; red where something happened that must not. */
static void draw(const char *path, const struct result *results)
{
    FILE *file = fopen(path, "w");
    double most = 1;

    expect(file != NULL, "the file for the picture");
    for (int way = 0; way < WAYS; way++)
        most = results[way].per_second > most ? results[way].per_second : most;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"14\">\n",
            60 + WAYS * 50);
    fprintf(file, "<text x=\"20\" y=\"30\" font-size=\"18\">Sales a second, and what went wrong"
                  "</text>\n");
    for (int way = 0; way < WAYS; way++) {
        const struct result *r = &results[way];
        int bad = r->sold_twice + r->listed_twice > 0 || r->money != 0;
        int y = 50 + way * 50;

        fprintf(file, "<text x=\"20\" y=\"%d\">%s</text>\n", y + 20, way_names[way]);
        fprintf(file, "<rect x=\"90\" y=\"%d\" width=\"%.0f\" height=\"28\" fill=\"%s\"/>\n", y,
                1 + 330 * r->per_second / most, bad ? "#c0392b" : "#2e7d32");
        fprintf(file, "<text x=\"430\" y=\"%d\">%.0f/s", y + 14, r->per_second);
        fprintf(file,
                "<tspan x=\"430\" dy=\"16\" font-size=\"11\">sold twice %ld, listed twice "
                "%ld, money %ld</tspan></text>\n",
                r->sold_twice, r->listed_twice, r->money);
    }
    fprintf(file, "</svg>\n");
    expect(fclose(file) == 0, "the picture is written");
}

int main(int argc, char **argv)
{
    struct result results[WAYS];
    const char *url = NULL, *svg = NULL;
    int64_t ms = 300;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            svg = argv[++i];
        else if (strcmp(argv[i], "--ms") == 0 && i + 1 < argc)
            ms = strtol(argv[++i], NULL, 10);
        else
            url = argv[i];
    }
    needs(url, HF_CAP_CELLS);
    for (int way = 0; way < WAYS; way++)
        results[way] = run_way(url, (enum way)way, ms);
    print_table(results);
    if (svg)
        draw(svg, results);

    expect(results[NONE].sold_twice + results[NONE].listed_twice > 0,
           "without protection something goes wrong");
    for (int way = CELLS; way < WAYS; way++) {
        expect(results[way].sold_twice == 0, "nothing is sold twice");
        expect(results[way].listed_twice == 0, "nothing is listed twice");
        expect(results[way].money == 0, "no money is lost or made, nor paid for nothing");
        expect(results[way].sales > 0, "something is sold");
    }
    expect(results[COARSE].working_max == 1, "under one lock one works at a time");
    expect(results[FINE].working_max > 1, "under fine locks several work at once");
    return 0;
}
