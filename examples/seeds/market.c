/* SPDX-License-Identifier: MIT */
/*
 * The market of the seed, on Redis: one sorted set of offers ("GOOD.SELLER" by price), and a hash for each trader (its
 * funds, and the goods that it owns). Five sellers list goods while five buyers buy them, in four ways:
 *
 *   none     read, work, write, as if nobody else were there
 *   watch    WATCH what was read, and write by MULTI and EXEC; nothing is written if it has changed, so try again
 *   coarse   one lock of Holdfast around the whole market
 *   fine     one lock for each good
 *
 *   example-seeds-market redis://HOST:PORT [--ms N] [--work US]
 *
 * What it shows is what the seed says. An EXEC fails if anything in the market has changed since the WATCH, also another good,
 * so the more others do the more is done in vain. A coarse lock does nothing in vain, but one buyer works at a time. Under
 * fine locks those that want different goods do not notice each other.
 *
 * `work` is what a buyer does between reading and writing: deciding, paying, the way to a server that is not on this machine.
 * With --work 0 a sale is a few commands over loopback, and the processors of this one machine are what is short: how much
 * the ways differ then depends on the machine. That is why the default is a millisecond, in all four ways alike.
 *
 * Sales a second are printed and prove nothing by themselves. What is checked are counts: how often a WATCH failed, how often
 * a lock was taken when it was asked for, how many were at work at once, and that nothing is sold twice and no money is lost.
 */
#include <holdfast/holdfast.h>

#include "../example.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SELLERS   5
#define BUYERS    5
#define TRADERS   (SELLERS + BUYERS) /* processes */
#define STOCK     256                /* goods that are listed before it begins */
#define GOODS     (1 << 20)          /* that are told apart; after that a seller stops */
#define FUNDS     1000000000
#define PRICE_MAX 20
#define LIMIT_MS  60000 /* what is to be seen is seen by then, or never will be */

enum way { NONE, WATCH, COARSE, FINE, WAYS };
static const char *const way_names[WAYS] = { "none", "watch", "coarse", "fine" };

/* What all processes count into, in memory that they share. */
struct tally {
    _Atomic int go, stop;
    _Atomic long next_good;
    _Atomic long sales, listed, again; /* again: an EXEC that failed, of a sale */
    _Atomic long sold_twice;
    _Atomic long locks, waits;         /* waits: somebody was inside when the lock was asked for */
    _Atomic long working, working_max; /* buyers between reading and writing, in any protection */
    _Atomic int inside;                /* the coarse lock */
    _Atomic unsigned char inside_good[GOODS], sold[GOODS];
};

struct trader {
    redisContext *redis;
    hf_store *store;
    struct tally *tally;
    enum way way;
    int id; /* sellers come first */
    unsigned seed;
    long work_us;
};

struct offer {
    char member[64]; /* of the sorted set */
    long good, seller, price;
};

/* ---- Redis ------------------------------------------------------------------------------------------------ */

static redisReply *checked(redisContext *redis, redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "redis: %s\n", reply ? reply->str : redis->errstr);
        exit(1);
    }
    return reply;
}

#define ask(trader, ...) checked((trader)->redis, redisCommand((trader)->redis, __VA_ARGS__))

static void tell(struct trader *trader, const char *command)
{
    freeReplyObject(ask(trader, command));
}

/* A number, also one that is kept as text; -1: there is none. */
static long number_of(redisReply *reply)
{
    long number = reply->type == REDIS_REPLY_INTEGER  ? (long)reply->integer
                  : reply->type == REDIS_REPLY_STRING ? strtol(reply->str, NULL, 10)
                                                      : -1;

    freeReplyObject(reply);
    return number;
}

static redisContext *connect_to(const char *url)
{
    char host[128];
    const char *at = url + strlen("redis://");
    size_t len = strcspn(at, ":/?");
    redisContext *redis;

    expect(strncmp(url, "redis://", strlen("redis://")) == 0 && len > 0 && len < sizeof host,
           "a URL redis://HOST:PORT");
    memcpy(host, at, len);
    host[len] = 0;
    redis = redisConnect(host, at[len] == ':' ? (int)strtol(at + len + 1, NULL, 10) : 6379);
    expect(redis && !redis->err, "a connection to Redis");
    return redis;
}

/* MULTI, the commands, EXEC in one round trip; false: a key that was watched has changed, and nothing was done. */
static bool exec(struct trader *trader, int commands)
{
    redisReply *reply = NULL;
    bool done;

    redisAppendCommand(trader->redis, "EXEC");
    for (int i = 0; i < commands + 2; i++) { /* OK, QUEUED ..., the answer of EXEC */
        if (i > 0)
            freeReplyObject(reply);
        reply = NULL;
        (void)redisGetReply(trader->redis, (void **)&reply);
        checked(trader->redis, reply);
    }
    done = reply && reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return done;
}

/* ---- the lock ----------------------------------------------------------------------------------------------- */

/* Those who look after themselves get NULL. */
static hf_lease *lock(struct trader *trader, long good)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    struct tally *tally = trader->tally;
    hf_lease *lease;
    hf_error err;
    char name[64];

    if (trader->way < COARSE)
        return NULL;
    snprintf(name, sizeof name, trader->way == COARSE ? "market" : "market/%ld", good);
    request.name = name;
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    atomic_fetch_add(&tally->locks, 1);
    if (trader->way == COARSE ? atomic_load(&tally->inside) : tally->inside_good[good])
        atomic_fetch_add(&tally->waits, 1);
    must(hf_acquire(trader->store, &request, &lease, &err), &err);
    if (trader->way == COARSE)
        atomic_store(&tally->inside, 1);
    else
        atomic_store(&tally->inside_good[good], 1);
    return lease;
}

static void unlock(struct trader *trader, long good, hf_lease *lease)
{
    hf_error err;

    if (!lease)
        return;
    if (trader->way == COARSE)
        atomic_store(&trader->tally->inside, 0);
    else
        atomic_store(&trader->tally->inside_good[good], 0);
    must(hf_release(lease, &err), &err);
}

/* ---- buying ---------------------------------------------------------------------------------------------------- */

/* What the buyer does between reading and writing. */
static void work(struct trader *trader)
{
    struct tally *tally = trader->tally;
    long now = atomic_fetch_add(&tally->working, 1) + 1;
    long most = atomic_load(&tally->working_max);

    while (now > most && !atomic_compare_exchange_weak(&tally->working_max, &most, now))
        ;
    if (trader->work_us > 0)
        nanosleep(&(struct timespec){ .tv_sec = trader->work_us / 1000000,
                                      .tv_nsec = trader->work_us % 1000000 * 1000 },
                  NULL);
    atomic_fetch_sub(&tally->working, 1);
}

static bool pick(struct trader *trader, struct offer *offer)
{
    redisReply *reply = ask(trader, "ZRANDMEMBER market");
    bool found = reply->type == REDIS_REPLY_STRING;
    char *end;

    if (found) {
        snprintf(offer->member, sizeof offer->member, "%s", reply->str);
        offer->good = strtol(reply->str, &end, 10);
        expect(*end == '.', "an offer");
        offer->seller = strtol(end + 1, NULL, 10);
    }
    freeReplyObject(reply);
    return found;
}

enum outcome { SOLD, GONE, FAILED };

/* One attempt, whatever protects it. GONE: it is not in the market any more. */
static enum outcome buy(struct trader *trader, struct offer *offer)
{
    long funds;

    if (trader->way == WATCH)
        freeReplyObject(ask(trader, "WATCH market trader:%d", trader->id));
    offer->price = number_of(ask(trader, "ZSCORE market %s", offer->member));
    funds = number_of(ask(trader, "HGET trader:%d funds", trader->id));
    if (offer->price < 0 || funds < offer->price) {
        if (trader->way == WATCH)
            tell(trader, "UNWATCH");
        return GONE;
    }
    work(trader);
    redisAppendCommand(trader->redis, "MULTI");
    redisAppendCommand(trader->redis, "ZREM market %s", offer->member);
    redisAppendCommand(trader->redis, "HINCRBY trader:%ld funds %ld", offer->seller, offer->price);
    redisAppendCommand(trader->redis, "HINCRBY trader:%d funds %ld", trader->id, -offer->price);
    redisAppendCommand(trader->redis, "HSET trader:%d good:%ld 1", trader->id, offer->good);
    return exec(trader, 4) ? SOLD : FAILED;
}

static void buy_one(struct trader *trader)
{
    struct tally *tally = trader->tally;
    enum outcome outcome;
    struct offer offer;
    hf_lease *lease;

    if (!pick(trader, &offer)) {
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL); /* sold out */
        return;
    }
    lease = lock(trader, offer.good);
    while ((outcome = buy(trader, &offer)) == FAILED && !atomic_load(&tally->stop))
        atomic_fetch_add(&tally->again, 1);
    unlock(trader, offer.good, lease);
    if (outcome != SOLD)
        return;
    atomic_fetch_add(&tally->sales, 1);
    if (atomic_exchange(&tally->sold[offer.good], 1))
        atomic_fetch_add(&tally->sold_twice, 1);
}

/* ---- selling ------------------------------------------------------------------------------------------------------ */

/* A good of the seller's goes from its hash into the market. */
static bool list(struct trader *trader, long good, long price)
{
    if (trader->way == WATCH)
        freeReplyObject(ask(trader, "WATCH trader:%d", trader->id));
    expect(number_of(ask(trader, "HEXISTS trader:%d good:%ld", trader->id, good)) == 1,
           "a seller has what it lists");
    redisAppendCommand(trader->redis, "MULTI");
    redisAppendCommand(trader->redis, "HDEL trader:%d good:%ld", trader->id, good);
    redisAppendCommand(trader->redis, "ZADD market %ld %ld.%d", price, good, trader->id);
    return exec(trader, 2);
}

static void list_one(struct trader *trader)
{
    long good = atomic_fetch_add(&trader->tally->next_good, 1);
    hf_lease *lease;

    if (good >= GOODS)
        return;
    freeReplyObject(ask(trader, "HSET trader:%d good:%ld 1", trader->id, good));
    lease = lock(trader, good);
    while (!list(trader, good, 1 + rand_r(&trader->seed) % PRICE_MAX))
        ; /* a sale has changed the seller's funds */
    unlock(trader, good, lease);
    atomic_fetch_add(&trader->tally->listed, 1);
    if (trader->work_us > 0) /* the next one is made, which concerns nobody else */
        nanosleep(&(struct timespec){ .tv_nsec = trader->work_us * 1000 % 1000000000 }, NULL);
}

/* ---- one way, by all processes ---------------------------------------------------------------------------------------- */

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

static int trade(struct trader *trader, const char *url)
{
    struct tally *tally = trader->tally;
    hf_error err;

    trader->redis = connect_to(url);
    must(hf_open(url, NULL, &trader->store, &err), &err);
    atomic_fetch_add(&tally->go, 1);
    while (atomic_load(&tally->go) < TRADERS)
        nap(); /* begin together */
    while (!atomic_load(&tally->stop)) {
        if (trader->id < SELLERS)
            list_one(trader);
        else
            buy_one(trader);
    }
    close_store(trader->store);
    redisFree(trader->redis);
    return 0;
}

static void set_up(struct trader *trader)
{
    tell(trader, "DEL market");
    for (int i = 0; i < TRADERS; i++) {
        freeReplyObject(ask(trader, "DEL trader:%d", i));
        freeReplyObject(ask(trader, "HSET trader:%d funds %d", i, FUNDS));
    }
    for (int i = 0; i < STOCK; i++)
        freeReplyObject(ask(trader, "ZADD market %d %d.%d", 1 + i % PRICE_MAX, i, i % SELLERS));
    atomic_store(&trader->tally->next_good, STOCK);
}

static long money_off(struct trader *trader)
{
    long off = -(long)TRADERS * FUNDS;

    for (int i = 0; i < TRADERS; i++)
        off += number_of(ask(trader, "HGET trader:%d funds", i));
    return off;
}

/* Has it been seen what this way is known for? */
static bool is_shown(const struct tally *tally, enum way way)
{
    switch (way) {
    case NONE:
        return tally->sold_twice > 0;
    case WATCH:
        return tally->again > 0 && tally->sales > 0;
    case COARSE:
        return tally->waits > 0 && tally->sales > 0;
    default:
        return tally->working_max > 1 && tally->sales > 0;
    }
}

static struct tally *run_way(const char *url, enum way way, int64_t ms, long work_us,
                             double *ret_per_second, long *ret_money)
{
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct trader trader = { .tally = tally, .way = way, .work_us = work_us };
    pid_t children[TRADERS];
    int64_t begun_ms;
    int status;

    expect(tally != MAP_FAILED, "shared memory");
    trader.redis = connect_to(url);
    set_up(&trader);
    for (int i = 0; i < TRADERS; i++) {
        children[i] = fork();
        expect(children[i] >= 0, "a child");
        trader.id = i;
        trader.seed = (unsigned)i + 1;
        if (children[i] == 0)
            exit(trade(&trader, url));
    }
    while (atomic_load(&tally->go) < TRADERS)
        nap();
    begun_ms = now_ms();
    while (now_ms() - begun_ms < ms ||
           (work_us > 0 && !is_shown(tally, way) && now_ms() - begun_ms < LIMIT_MS))
        nap();
    atomic_store(&tally->stop, 1);
    *ret_per_second = (double)tally->sales * 1000 / (double)(now_ms() - begun_ms);
    for (int i = 0; i < TRADERS; i++)
        expect(waitpid(children[i], &status, 0) == children[i] && status == 0,
               "a child did as it should");
    *ret_money = money_off(&trader);
    redisFree(trader.redis);
    return tally;
}

/* ---- what it shows ------------------------------------------------------------------------------------------------------ */

static void print_way(enum way way, const struct tally *tally, double per_second, long money)
{
    if (way == NONE)
        printf("%-7s %8s %7s %7s %12s %14s %8s %11s %6s\n", "way", "sales/s", "sales", "listed",
               "EXEC failed", "lock was taken", "at work", "sold twice", "money");
    printf("%-7s %8.0f %7ld %7ld %12ld %13.0f%% %8ld %11ld %6ld\n", way_names[way], per_second,
           tally->sales, tally->listed, tally->again,
           tally->locks ? 100.0 * (double)tally->waits / (double)tally->locks : 0.0,
           tally->working_max, tally->sold_twice, money);
}

/* Only counts: how long something takes depends on what else this machine does. */
static void check(struct tally *const tallies[WAYS])
{
    const struct tally *watch = tallies[WATCH], *coarse = tallies[COARSE], *fine = tallies[FINE];

    expect(tallies[NONE]->sold_twice > 0, "without protection something is sold twice");
    expect(watch->again > watch->sales, "more attempts of WATCH fail than succeed");
    expect(coarse->working_max == 1, "under one lock one buyer works at a time");
    expect(fine->working_max > 1, "under fine locks several work at once");
    expect((double)coarse->waits / (double)coarse->locks >
               (double)fine->waits / (double)fine->locks,
           "the coarse lock is waited for more often than the fine ones");
}

int main(int argc, char **argv)
{
    struct tally *tallies[WAYS];
    const char *url = NULL;
    long work_us = 1000, money;
    int64_t ms = 500;
    double per_second;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ms") == 0 && i + 1 < argc)
            ms = strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--work") == 0 && i + 1 < argc)
            work_us = strtol(argv[++i], NULL, 10);
        else
            url = argv[i];
    }
    expect(url != NULL, "the URL of a Redis that may be written to");
    for (int way = 0; way < WAYS; way++) {
        tallies[way] = run_way(url, (enum way)way, ms, work_us, &per_second, &money);
        print_way((enum way)way, tallies[way], per_second, money);
        expect(way == NONE || tallies[way]->sold_twice == 0, "nothing is sold twice");
        expect(money == 0, "no money is lost or made");
    }
    if (work_us > 0)
        check(tallies);
    return 0;
}
