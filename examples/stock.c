/* SPDX-License-Identifier: MIT */
/*
 * A shop: some goods in stock, and buyers on many machines. Buying one is read, think, write; and two who
 * read the same number sell two and take one off. What to do about it, in the order of how much is locked:
 *
 *   naive        nothing. Some of what was sold is still counted as there
 *   optimistic   nothing is locked. Every write changes the version, and is done only if the version is still
 *                the one that was read; else the buyer begins again. (In SQL by hand: UPDATE ... WHERE
 *                version = 17.) Right while buyers seldom meet
 *   pessimistic  locked while it is read and written: in a database by SELECT ... FOR UPDATE in an
 *                open transaction, which is mode=row of the store; elsewhere by an exclusive lock. Nothing is done
 *                twice, but everybody waits for whoever is slow
 *   lease        a lock that ends by itself if its holder dies or hangs. So one may come back
 *                too late, believing that it still holds: the stock itself looks at the token of
 *                each write, and refuses those of former holders
 *
 * For each it prints what was sold, what is left, and how much of what was sold is not missing in
 * stock. The first way is expected to lose some, and is repeated until it has; the others may not.
 *
 *   example-stock [STORE]
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUYERS   4
#define EACH     10  /* that one buys */
#define STOCK    100 /* more than all of them buy */
#define THINK_US 1000
#define WAIT_MS  60000
#define TRIES    50 /* at the naive way: it has lost something by then, or never will */
#define URL_MAX  2048

/* What all processes count into, in memory that they share. */
struct tally {
    _Atomic int there; /* buyers that are ready to begin */
    _Atomic long sold, again;
};

struct shop {
    hf_store *store; /* of the stock */
    hf_store *locks; /* of the lock; may be the same */
    const char *name;
    struct tally *tally;
};

typedef void buy_fn(struct shop *shop);

/* ---- the stock ---------------------------------------------------------------------------------------- */

static long read_stock(const struct shop *shop)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    long stock;

    must(hf_cell_get(shop->store, shop->name, HF_CSTRING, &cell, &err), &err);
    stock = strtol(cell.bytes, NULL, 10); /* there is a NUL behind the bytes */
    hf_free(cell.bytes);
    return stock;
}

static void write_stock(const struct shop *shop, long stock)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    char text[24];
    hf_error err;

    snprintf(text, sizeof text, "%ld", stock);
    request.name = shop->name;
    request.name_len = HF_CSTRING;
    request.bytes = text;
    request.len = strlen(text);
    must(hf_cell_set(shop->store, &request, NULL, &err), &err);
}

/* The price, the address, the payment. */
static void think(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = THINK_US * 1000 }, NULL);
}

static hf_lease *lock(const struct shop *shop, hf_kind kind)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = shop->name;
    request.name_len = HF_CSTRING;
    request.kind = kind;
    request.wait_ms = WAIT_MS;
    must(hf_acquire(shop->locks, &request, &lease, &err), &err);
    return lease;
}

/* ---- four ways to buy one ------------------------------------------------------------------------------- */

static void buy_naively(struct shop *shop)
{
    long stock = read_stock(shop);

    think();
    write_stock(shop, stock - 1);
}

struct decision {
    int calls;
    char text[24];
};

/* Called again, with what is there then, whenever somebody else was quicker. */
static hf_status one_less(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct decision *decision = arg;

    decision->calls++;
    think();
    snprintf(decision->text, sizeof decision->text, "%ld", strtol(old->bytes, NULL, 10) - 1);
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = decision->text;
    change->len = strlen(decision->text);
    return HF_OK;
}

/* hf_cell_update() is the loop around hf_cell_get() and hf_cell_swap(). */
static void buy_optimistically(struct shop *shop)
{
    struct decision decision = { .calls = 0 };
    hf_cell_request request = HF_CELL_REQUEST_INIT;
    hf_error err;

    request.name = shop->name;
    request.name_len = HF_CSTRING;
    request.fn = one_less;
    request.fn_arg = &decision;
    request.wait_ms = WAIT_MS;
    must(hf_cell_update(shop->store, &request, NULL, &err), &err);
    atomic_fetch_add(&shop->tally->again, decision.calls - 1);
}

static void buy_under(struct shop *shop, hf_kind kind)
{
    hf_lease *lease = lock(shop, kind);
    long stock = read_stock(shop);
    hf_error err;

    think();
    write_stock(shop, stock - 1);
    must(hf_release(lease, &err), &err);
}

static void buy_under_row_lock(struct shop *shop)
{
    buy_under(shop, HF_KIND_MUTEX);
}

static void buy_exclusively(struct shop *shop)
{
    buy_under(shop, HF_KIND_EXCLUSIVE);
}

/* Claim before reading, and write with the token. HF_LOST, HF_FENCED: we were too slow, and it is not done. */
static hf_status try_fenced(struct shop *shop, hf_lease *lease, hf_error *err)
{
    uint64_t token;
    char text[24];
    void *found;
    hf_status status = hf_lease_fence(lease, &token, err);

    if (status == HF_OK)
        status = hf_guard_claim(shop->store, shop->name, HF_CSTRING, token, &found, NULL, err);
    if (status != HF_OK)
        return status;
    snprintf(text, sizeof text, "%ld", strtol(found, NULL, 10) - 1);
    hf_free(found);
    think();
    return hf_guard_set(shop->store, shop->name, HF_CSTRING, token, text, strlen(text), err);
}

static void buy_fenced(struct shop *shop)
{
    hf_status status;
    hf_error err;

    for (;;) {
        hf_lease *lease = lock(shop, HF_KIND_MUTEX);

        status = try_fenced(shop, lease, &err);
        hf_release(lease, NULL); /* HF_LOST is no harm: the stock knows what counted */
        if (status != HF_LOST && status != HF_FENCED)
            break;
        atomic_fetch_add(&shop->tally->again, 1);
    }
    must(status, &err);
}

/* ---- many buyers ---------------------------------------------------------------------------------------- */

/* Each is a process with stores of its own. */
static void buyer(const char *url, const char *lock_url, struct shop shop, buy_fn *buy)
{
    hf_error err;

    must(hf_open(url, NULL, &shop.store, &err), &err);
    shop.locks = shop.store;
    if (lock_url)
        must(hf_open(lock_url, NULL, &shop.locks, &err), &err);
    atomic_fetch_add(&shop.tally->there, 1);
    while (atomic_load(&shop.tally->there) < BUYERS)
        think();
    for (int i = 0; i < EACH; i++) {
        buy(&shop);
        atomic_fetch_add(&shop.tally->sold, 1);
    }
    if (lock_url)
        close_store(shop.locks);
    close_store(shop.store);
}

static void let_them_buy(const char *url, const char *lock_url, const struct shop *shop,
                         buy_fn *buy)
{
    int status;

    *shop->tally = (struct tally){ 0 };
    fflush(stdout);
    for (int i = 0; i < BUYERS; i++) {
        pid_t child = fork();

        expect(child >= 0, "a child");
        if (child == 0) {
            buyer(url, lock_url, *shop, buy);
            _exit(0);
        }
    }
    for (int i = 0; i < BUYERS; i++)
        expect(wait(&status) > 0 && status == 0, "a buyer came back");
    expect(atomic_load(&shop->tally->sold) == BUYERS * EACH, "everybody bought");
}

static long report(const struct shop *shop, const char *way, long left)
{
    long sold = atomic_load(&shop->tally->sold), lost = left - (STOCK - sold);

    printf("%-32s %6ld %6ld %6ld %8ld\n", way, sold, left, lost, atomic_load(&shop->tally->again));
    return lost;
}

/* A way to buy with a stock that is a cell. */
static long sell(const char *url, const char *lock_url, struct shop *shop, const char *way,
                 buy_fn *buy)
{
    shop->name = "example/shop/stock";
    write_stock(shop, STOCK);
    let_them_buy(url, lock_url, shop, buy);
    return report(shop, way, read_stock(shop));
}

/* And with a resource that checks tokens. A buyer acquires a lease before all others, and wakes up
 * when they have finished. */
static void sell_fenced(const char *url, struct shop *shop)
{
    hf_lease *lease;
    uint64_t former;
    void *found;
    hf_error err;
    long left;

    shop->name = "example/shop/guarded";
    lease = lock(shop, HF_KIND_MUTEX);
    must(hf_lease_fence(lease, &former, &err), &err);
    must(hf_guard_set(shop->store, shop->name, HF_CSTRING, former, "100", 3, &err), &err);
    must(hf_release(lease, &err), &err);

    let_them_buy(url, NULL, shop, buy_fenced);
    expect(hf_guard_set(shop->store, shop->name, HF_CSTRING, former, "99", 2, &err) == HF_FENCED,
           "a former holder is refused");

    lease = lock(shop, HF_KIND_MUTEX);
    must(hf_lease_fence(lease, &former, &err), &err);
    must(hf_guard_claim(shop->store, shop->name, HF_CSTRING, former, &found, NULL, &err), &err);
    left = strtol(found, NULL, 10);
    hf_free(found);
    must(hf_release(lease, &err), &err);
    expect(report(shop, "lease, with tokens", left) == 0, "none is lost under leases");
    printf("\nand a former holder that comes back late is refused\n");
}

int main(int argc, char **argv)
{
    struct shop shop = { .store = NULL };
    const char *url = argc > 1 ? argv[1] : getenv("HOLDFAST_STORE");
    hf_store_info info = { .size = sizeof info };
    char row_url[URL_MAX];
    long lost = 0;

    needs(url_of(argc, argv), HF_CAP_CELLS);
    shop.store = open_store(argc, argv);
    shop.locks = shop.store;
    shop.tally =
        mmap(NULL, sizeof *shop.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect(shop.tally != MAP_FAILED, "memory");
    expect(hf_store_get(shop.store, &info) == HF_OK, "hf_store_get()");

    printf("%d in stock, %d buyers, %d each\n\n%-32s %6s %6s %6s %8s\n", STOCK, BUYERS, EACH, "",
           "sold", "left", "lost", "again");
    for (int i = 0; i < TRIES && lost == 0; i++)
        lost = sell(url, NULL, &shop, "naive", buy_naively);
    expect(lost > 0, "the naive way loses some");
    expect(sell(url, NULL, &shop, "optimistic, by version", buy_optimistically) == 0,
           "none is lost with versions");
    if (url && (strcmp(info.engine, "postgres") == 0 || strcmp(info.engine, "mariadb") == 0)) {
        snprintf(row_url, sizeof row_url, "%s%cmode=row", url, strchr(url, '?') ? '&' : '?');
        lost = sell(url, row_url, &shop, "pessimistic, SELECT FOR UPDATE", buy_under_row_lock);
    } else if (info.caps & HF_CAP_SHARED) {
        lost = sell(url, NULL, &shop, "pessimistic, an exclusive lock", buy_exclusively);
    } else {
        lost = sell(url, NULL, &shop, "pessimistic, a mutex", buy_under_row_lock);
    }
    expect(lost == 0, "none is lost under a lock");
    if (info.caps & HF_CAP_TOKEN)
        sell_fenced(url, &shop);
    munmap(shop.tally, sizeof *shop.tally);
    close_store(shop.store);
    return 0;
}
