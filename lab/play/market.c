/* SPDX-License-Identifier: MIT */
/*
 * The market of seed 002 under load: the pieces of all goods are fields of one hash, the money lies in one till. A sale reads
 * what is left, thinks for a millisecond, and writes. All ways do that; they differ in what keeps others away meanwhile.
 *
 * The checker counts in memory that the traders share: each piece has a number, and is marked when it is sold. One that was marked
 * already is sold twice. The till must have the price of every sale.
 */
#include "../stage/measure.h"
#include "../stage/ours.h"
#include "../stage/redis.h"

#include <stdlib.h>
#include <time.h>

#define GOODS    16
#define PIECES   8192 /* of each good */
#define PRICE    5
#define ROUNDS   5
#define ROUND_MS 80
#define THINK_NS 1000000
#define TTL_MS   10000
#define MOST     32 /* traders */
#define POINTS   6

enum { GET_SET, DECR, WATCH, ONE_LOCK, EACH_LOCK, WAYS };

static const int traders[POINTS] = { 1, 2, 4, 8, 16, MOST };

struct market {
    _Atomic bool closed;
    _Atomic int64_t sales, retries, twice;
    _Atomic unsigned char sold[GOODS][PIECES / 8];
};
_Static_assert(sizeof(struct market) <= SHARED_BYTES, "the market fits");

static struct market *market_of(const struct actor *me)
{
    return me->stage->shared;
}

/* Price, purse, address: what a shop looks at before it sells. */
static void think(struct actor *me)
{
    (void)me;
    nanosleep(&(struct timespec){ .tv_nsec = THINK_NS }, NULL);
}

static void count_sale(struct actor *me, int good, int64_t piece)
{
    struct market *market = market_of(me);
    unsigned char bit = (unsigned char)(1U << (piece % 8));

    if (piece < 0 || piece >= PIECES)
        actor_fails(me, "piece %lld of good %d", (long long)piece, good);
    if (atomic_fetch_or(&market->sold[good][piece / 8], bit) & bit)
        atomic_fetch_add(&market->twice, 1);
    atomic_fetch_add(&market->sales, 1);
}

/* ---- without a lock ------------------------------------------------------------------------------------ */

static void sell_by_get_set(struct actor *me, int good)
{
    int64_t left, till;

    /* clang-format off */
    /* shown: market-get-set */
    left = redis_int(me, "HGET {market} %d", good);
    till = redis_int(me, "GET {till}");
    think(me);
    redis_do(me, "HSET {market} %d %lld", good, (long long)left - 1); /* ! others have read the same */
    redis_do(me, "SET {till} %lld", (long long)till + PRICE);
    /* shown end */
    /* clang-format on */
    count_sale(me, good, left - 1);
}

static void sell_by_decr(struct actor *me, int good)
{
    int64_t left;

    /* clang-format off */
    /* shown: market-decr */
    think(me);
    left = redis_int(me, "HINCRBY {market} %d -1", good); /* ! one command reads and writes */
    redis_do(me, "INCRBY {till} %d", PRICE);
    /* shown end */
    /* clang-format on */
    count_sale(me, good, left);
}

/* EXEC answers nil if another client has written what we watch. */
static bool exec(struct actor *me)
{
    redisReply *reply = redis_ask(me, "EXEC");
    bool done = reply->type == REDIS_REPLY_ARRAY;

    freeReplyObject(reply);
    if (!done)
        atomic_fetch_add(&market_of(me)->retries, 1);
    return done;
}

static void sell_by_watch(struct actor *me, int good)
{
    int64_t left;

    /* clang-format off */
    /* shown: market-watch */
    do {
        redis_do(me, "WATCH {market}");
        left = redis_int(me, "HGET {market} %d", good);
        think(me);
        redis_do(me, "MULTI");
        redis_do(me, "HSET {market} %d %lld", good, (long long)left - 1);
        redis_do(me, "INCRBY {till} %d", PRICE);
    } while (!exec(me)); /* ! somebody was faster: everything again */
    /* shown end */
    /* clang-format on */
    count_sale(me, good, left - 1);
}

/* ---- with a lock ------------------------------------------------------------------------------------------ */

static void sell_under_one_lock(struct actor *me, hf_store *store, int good)
{
    hf_acquire_request request = ours_request(me, "market", TTL_MS);
    hf_lease *lease;
    hf_error err;
    int64_t left, till;

    /* clang-format off */
    /* shown: market-one-lock */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* ! name: "market" */
    left = redis_int(me, "HGET {market} %d", good);
    till = redis_int(me, "GET {till}");
    think(me);
    redis_do(me, "HSET {market} %d %lld", good, (long long)left - 1);
    redis_do(me, "SET {till} %lld", (long long)till + PRICE);
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    count_sale(me, good, left - 1);
}

/* The till belongs to all goods, so the lock of one good does not protect it. */
static void sell_under_each_lock(struct actor *me, hf_store *store, int good)
{
    char name[16] = "";
    hf_acquire_request request = ours_request(me, name, TTL_MS);
    hf_lease *lease;
    hf_error err;
    int64_t left;

    snprintf(name, sizeof name, "good-%d", good);
    /* clang-format off */
    /* shown: market-each-lock */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* ! name: "good-7" */
    left = redis_int(me, "HGET {market} %d", good);
    think(me);
    redis_do(me, "HSET {market} %d %lld", good, (long long)left - 1);
    redis_do(me, "INCRBY {till} %d", PRICE); /* shared by all goods: atomic */
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    count_sale(me, good, left - 1);
}

/* ---- a trader ------------------------------------------------------------------------------------------------ */

static void sell(struct actor *me, int way, hf_store *store, int good)
{
    switch (way) {
    case GET_SET:
        sell_by_get_set(me, good);
        break;
    case DECR:
        sell_by_decr(me, good);
        break;
    case WATCH:
        sell_by_watch(me, good);
        break;
    case ONE_LOCK:
        sell_under_one_lock(me, store, good);
        break;
    default:
        sell_under_each_lock(me, store, good);
        break;
    }
}

static void trade(struct actor *me)
{
    int way = *(const int *)me->arg;
    unsigned seed = (unsigned)me->number + 1;
    hf_store *store = NULL;

    if (way == ONE_LOCK || way == EACH_LOCK)
        store = ours_open(me);
    redis_int(me, "GET {till}"); /* connects */
    measure_ready(me);
    while (!atomic_load(&market_of(me)->closed))
        sell(me, way, store, rand_r(&seed) % GOODS);
    if (store)
        ours_close(me, store);
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

/* Of all plays of one way. */
struct tally {
    int64_t sales, retries, twice, off;
};

static void fill(struct stage *stage)
{
    for (int good = 0; good < GOODS; good++)
        stage_redis(stage, "HSET {market} %d %d", good, PIECES);
    stage_redis(stage, "SET {till} 0");
}

static void count_all(struct stage *stage, struct tally *tally)
{
    struct market *market = stage->shared;
    int64_t sales = atomic_load(&market->sales);
    int64_t off = stage_redis(stage, "GET {till}") - sales * PRICE;

    if (sales == 0)
        stage_unclear(stage, "nothing was sold");
    tally->sales += sales;
    tally->retries += atomic_load(&market->retries);
    tally->twice += atomic_load(&market->twice);
    tally->off += off < 0 ? -off : off;
}

/* Some traders sell in one way. The rounds follow each other without a break; the rate of a round is what its own time says. */
static void play(struct stage *stage, int way, int count, struct tally *tally,
                 double ret_rates[ROUNDS], double ret_retries[ROUNDS])
{
    struct market *market = stage->shared;
    int64_t sales, retries, at_ns;

    if (!measure_next(stage, way))
        return;
    fill(stage);
    measure_start(stage, count, trade, &way);
    sales = retries = 0;
    at_ns = history_now_ns();
    for (int round = 0; round < ROUNDS; round++) {
        int64_t sales_now, retries_now, now_ns;

        stage_sleep(stage, ROUND_MS);
        sales_now = atomic_load(&market->sales);
        retries_now = atomic_load(&market->retries);
        now_ns = history_now_ns();
        ret_rates[round] = (double)(sales_now - sales) * 1e9 / (double)(now_ns - at_ns);
        ret_retries[round] =
            (double)(retries_now - retries) / (double)(sales_now > sales ? sales_now - sales : 1);
        sales = sales_now;
        retries = retries_now;
        at_ns = now_ns;
    }
    atomic_store(&market->closed, true);
    stage_join(stage, -1);
    count_all(stage, tally);
}

static void judge(const struct tally *tally, struct verdict *verdict)
{
    verdict->broken = tally->twice > 0 || tally->off > 0;
    if (verdict->broken)
        verdict_say(verdict, "%d sold, %d of them twice; the till is off by %d.",
                    "卖出 %d 件，其中 %d 件重复卖出，货款差 %d。", (int)tally->sales,
                    (int)tally->twice, (int)tally->off);
    else
        verdict_say(verdict, "%d sold, none twice; the money is right.",
                    "卖出 %d 件，没有重复，货款无误。", (int)tally->sales);
}

static void title_lines(struct plot *plot)
{
    static const struct phrase x_title = PHRASE("traders at once", "同时交易的客户端");
    static const struct phrase sales = PHRASE("Sales a second", "每秒成交数");
    static const struct phrase sales_note =
        PHRASE("higher is better, log scale", "越高越好，对数坐标");
    static const struct phrase retries = PHRASE("Retries for each sale", "每次成交的重试次数");
    static const struct phrase retries_note =
        PHRASE("lower is better, log scale", "越低越好，对数坐标");
    static const struct phrase both = PHRASE("both locks", "两种锁");
    static const struct phrase texts[WAYS] = {
        PHRASE("Two read the same number, and both write it minus one. It is wrong, so it has no "
               "curve.",
               "两个客户端读到同一个数，各自减一写回。结果是错的，不画曲线。"),
        PHRASE("One command reads and writes: right and fast, if the whole decision is one number.",
               "一条命令完成读和写：正确而且快，前提是要判断的只有一个数。"),
        PHRASE("The first commit undoes the work of all others, and they start again.",
               "谁先提交，其余的就全部作废重来。"),
        PHRASE("Nothing is thrown away, but goods wait for each other that have nothing in common.",
               "没有白做的工作，但不相干的商品也要互相等待。"),
        PHRASE("Only buyers of the same good wait for each other.",
               "只有买同一件商品的客户端才互相等待。"),
    };

    *plot = (struct plot){ .charts = 2, .x_title = x_title, .points = POINTS };
    for (int i = 0; i < POINTS; i++)
        plot->x[i] = traders[i];
    for (int way = 0; way < WAYS; way++)
        plot->texts[way] = texts[way];
    plot->chart[0].title = sales;
    plot->chart[0].note = sales_note;
    plot->chart[0].logarithmic = true;
    plot->chart[1].title = retries;
    plot->chart[1].note = retries_note;
    plot->chart[1].logarithmic = true;
    plot->chart[1].series_count = 2;
    plot->chart[1].series[0].way = WATCH;
    plot->chart[1].series[1].way = EACH_LOCK;
    plot->chart[1].series[1].title = both;
    snprintf(plot->chart[1].series[1].note[LANG_EN], 96, "none: they wait");
    snprintf(plot->chart[1].series[1].note[LANG_ZH], 96, "不重试，排队等待");
}

/* The line of retries is drawn for WATCH and for the last lock. */
static struct series *retries_of(struct plot *plot, int way)
{
    return way == WATCH       ? &plot->chart[1].series[0]
           : way == EACH_LOCK ? &plot->chart[1].series[1]
                              : NULL;
}

static void measure_at(struct stage *stage, struct plot *plot, int way, int count,
                       struct tally *tally)
{
    struct series *retries = retries_of(plot, way);
    double rates[ROUNDS] = { 0 }, again[ROUNDS] = { 0 };

    play(stage, way, count, tally, rates, again);
    measure_point(&plot->chart[0].series[way - DECR], rates, ROUNDS);
    if (retries)
        measure_point(retries, again, ROUNDS);
}

static void name_lines(struct stage *stage, struct plot *plot)
{
    struct series *retries = retries_of(plot, WATCH);

    for (int way = DECR; way < WAYS; way++) {
        struct series *sales = &plot->chart[0].series[plot->chart[0].series_count++];

        sales->way = way;
        sales->title = stage->experiment->ways[way].title;
        measure_note(sales, "%.0f/s with %d", "%.0f/s（%d 个客户端）", sales->mid[POINTS - 1],
                     MOST);
    }
    retries->title = stage->experiment->ways[WATCH].title;
    measure_note(retries, "%.1f retries for a sale", "每次成交重试 %.1f 次",
                 retries->mid[POINTS - 1]);
}

/* All ways at one point before the next: a machine that is busy for a while is busy for all of them. */
static void measure(struct stage *stage, struct plot *plot, struct verdict verdicts[WAYS_MAX])
{
    struct tally tallies[WAYS] = { { 0 } };
    double rates[ROUNDS], again[ROUNDS];

    title_lines(plot);
    play(stage, GET_SET, MOST, &tallies[GET_SET], rates, again);
    for (int i = 0; i < POINTS && !stage->unclear; i++)
        for (int way = DECR; way < WAYS; way++)
            measure_at(stage, plot, way, traders[i], &tallies[way]);
    name_lines(stage, plot);
    for (int way = 0; way < WAYS; way++)
        judge(&tallies[way], &verdicts[way]);
    snprintf(plot->checked[LANG_EN], sizeof plot->checked[0],
             "Each piece has a number: sold twice is counted, and so is the money in the till.");
    snprintf(plot->checked[LANG_ZH], sizeof plot->checked[0],
             "每件商品都有编号：检查器统计重复卖出的件数，并核对货款。");
}

static const struct way ways[] = {
    {
        .title = PHRASE("GET, SET", "GET、SET"),
        .note = PHRASE("read, think, write", "读取、判断、写回"),
        .breaks = true,
        .shown = "market-get-set",
    },
    {
        .title = PHRASE("DECR", "DECR"),
        .note = PHRASE("one atomic command", "单条原子命令"),
        .shown = "market-decr",
    },
    {
        .title = PHRASE("WATCH", "WATCH"),
        .note =
            PHRASE("optimistic: WATCH, MULTI, EXEC, again", "乐观锁：WATCH、MULTI、EXEC，失败重试"),
        .shown = "market-watch",
    },
    {
        .title = PHRASE("one lock", "一把锁"),
        .note = PHRASE("for the whole market", "锁住整个市场"),
        .ours = true,
        .shown = "market-one-lock",
    },
    {
        .title = PHRASE("a lock for each good", "每件商品一把锁"),
        .note = PHRASE("fine-grained", "细粒度锁"),
        .ours = true,
        .shown = "market-each-lock",
    },
    WAYS_END,
};

const struct experiment experiment_market = {
    .id = "market",
    .title = PHRASE("A market under load: retry, one lock, or a lock for each good",
                    "高并发下的市场：重试、一把锁，还是每件商品一把锁"),
    .setting =
        PHRASE("16 goods, 1 ms of thought for each sale, 5 rounds of 80 ms for each point; "
               "the band is the spread",
               "16 种商品，每次成交含 1 ms 业务处理，每个点 5 轮、每轮 80 ms，色带为波动范围"),
    .needs = NEED_REDIS,
    .why = PHRASE("Without protection two traders sell the same piece. Retries protect as well as "
                  "a lock, but the busier the market, the more work is thrown away; a lock waits "
                  "instead, and the less it covers, the less it costs.",
                  "没有保护，两个客户端会卖出同一件商品（超卖）。重试和锁一样能保证正确，但越繁忙，"
                  "白做的工作越多；锁让人等待，锁的粒度越细，代价越小。"),
    .ways = ways,
    .measure = measure,
};
