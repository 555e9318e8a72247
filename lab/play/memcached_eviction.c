/* SPDX-License-Identifier: MIT */
/*
 * A cache forgets what it needs room for, also a lock that is held. The lock is in memcached, the stock in Redis. While A works, others fill the
 * cache until the lock of A is gone.
 *
 * Holdfast on memcached loses the lock as well. Its holder is told, but only by the next renewal: until then there are two. So a lock
 * there is advisory. What protects data is a lock in a store that does not forget, and a token that the resource checks.
 */
#include "../run.h"
#include "../stage/ours.h"
#include "../stage/redis.h"

#include "../../test/memcached/cache.h"

#include <stdlib.h>
#include <string.h>

#define TTL_MS  9000 /* renewed every 3 s: that is when its holder notices */
#define STOCK   20
#define BATCH   500
#define BATCHES 2000 /* far more than fits */

#define SIGNAL_GO INT64_C(1)

enum { A, SERVER, B, STOCK_LANE };

static struct cache *cache;

static void open_both(struct stage *stage)
{
    static const char *const options[] = { "-m", "2", NULL };

    run_open_redis(stage);
    cache = cache_start(options);
    snprintf(stage->server, sizeof stage->server, "memcached, 2 MB");
}

static void close_both(struct stage *stage)
{
    cache_free(cache);
    run_close_redis(stage);
    stage->server[0] = 0;
}

/* ---- the cache ------------------------------------------------------------------------------------------ */

/* "me" tells of an item without making it young again, as a look at its value would. */
static bool is_there(const char *key)
{
    char text[64];

    snprintf(text, sizeof text, "me %s\r\n", key);
    return strncmp(cache_say(cache, text, 1), "ME", 2) == 0;
}

/* Who stored it last; kept by the clients themselves, because "me" does not tell the value. */
static _Atomic int *owner_of(const struct stage *stage)
{
    return stage->shared;
}

static int observe_item(struct actor *me, uint64_t *ret_token)
{
    *ret_token = 0;
    return is_there(me->arg) ? atomic_load(owner_of(me->stage)) : -1;
}

/* memcached keeps items of about the same size together, and evicts among these. A page of this many bytes is as large as the lock. */
static int page_bytes(const char *key)
{
    enum { HEADER = 48 + 8 + 2 + sizeof "page-0000000" }; /* of an item, and of its key */
    char text[64];
    const char *size;
    int bytes;

    snprintf(text, sizeof text, "me %s\r\n", key);
    size = strstr(cache_say(cache, text, 1), "size=");
    bytes = size ? (int)strtol(size + strlen("size="), NULL, 10) - HEADER : 1;
    return bytes > 1 ? bytes : 1;
}

/* Others store what they need, until there is no room left for the lock. */
static void fill_cache(struct stage *stage, const char *key)
{
    static char batch[BATCH * 500];
    int bytes = page_bytes(key), number = 0;

    for (int i = 0; i < BATCHES && is_there(key) && !stage->unclear; i++) {
        size_t len = 0;

        for (int k = 0; k < BATCH; k++)
            len += (size_t)snprintf(batch + len, sizeof batch - len,
                                    "ms page-%07d %d q\r\n%0*d\r\n", number++, bytes, bytes, 0);
        snprintf(batch + len, sizeof batch - len, "mn\r\n");
        (void)cache_say(cache, batch, 1);
    }
    if (is_there(key))
        stage_unclear(stage, "memcached has evicted nothing");
}

/* ---- naive ------------------------------------------------------------------------------------------------ */

/* B works for a moment, A until the director has seen what it waits for. */
static void work_on(struct actor *me)
{
    work(me, 300);
    if (me->number == 0)
        await_signal(me, SIGNAL_GO);
}

/* "add" stores a key that is not there, and nothing else. */
static bool cache_add(struct actor *me, const char *key, const char *value, int seconds)
{
    char text[128];
    bool stored;

    snprintf(text, sizeof text, "add %s 0 %d %zu\r\n%s\r\n", key, seconds, strlen(value), value);
    stored = strncmp(cache_say(cache, text, 1), "STORED", 6) == 0;
    if (stored)
        atomic_store(owner_of(me->stage), me->lane);
    return stored;
}

static void cache_delete(struct actor *me, const char *key)
{
    char text[64];

    (void)me;
    snprintf(text, sizeof text, "delete %s\r\n", key);
    (void)cache_say(cache, text, 1);
}

static void sell_naively(struct actor *me)
{
    int64_t stock;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: memcached-eviction-naive */
    while (!cache_add(me, "lock", me->id, 30))              /* 3: is the key there? */
        again(me, 100);
    note_got(me, 0);
    stock = redis_int(me, "GET {stock}");
    note_read(me, STOCK_LANE, stock);
    note_step(me, me->number == 0 ? 1 : 3, false);
    work_on(me);                                            /* 2: the cache is full */
    redis_do(me, "SET {stock} %lld", (long long)stock - 1); /* 4! the lock is long gone */
    note_write(me, STOCK_LANE, stock - 1, 0);
    note_step(me, me->number == 0 ? 4 : 0, me->number == 0);
    note(me, EV_LET);
    cache_delete(me, "lock");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    cache_say(cache, "flush_all\r\n", 1);
    stage_redis(stage, "SET {stock} %d", STOCK);
    stage_value(stage, STOCK_LANE, STOCK);
    stage_observe(stage, SERVER, observe_item, (void *)(uintptr_t) "lock");
    stage_start(stage, A, sell_naively, NULL);
    stage_await(stage, A, EV_READ, 1);
    stage_await(stage, SERVER, EV_OWNER, 1);
    stage_sleep(stage, 300); /* so that the picture shows it */
    stage_step(stage, SERVER, 2, false);
    fill_cache(stage, "lock");
    stage_await(stage, SERVER, EV_OWNER, 2);
    stage_start(stage, B, sell_naively, NULL);
    stage_await(stage, B, EV_DONE, 1);
    stage_sleep(stage, 300);
    stage_signal(stage, SIGNAL_GO);
    stage_join(stage, -1);
}

/* ---- ours, on memcached --------------------------------------------------------------------------------------- */

/* Its key there. */
#define OUR_KEY "hf:l:lock"

static void note_owner(struct actor *me)
{
    atomic_store(owner_of(me->stage), me->lane);
    note_got(me, 0);
}

/* A lease that is lost has nothing to write, and the client starts again. */
static void note_outcome(struct actor *me, bool held, int64_t value)
{
    note_step(me, me->number == 0 ? 4 : 0, false);
    if (!held)
        return;
    note_write(me, STOCK_LANE, value, 0);
    note(me, EV_LET);
}

static void sell_advised(struct actor *me)
{
    hf_store *store = ours_open_at(me, cache_url(cache->port, ""));
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;
    int64_t stock;
    bool held;

    do {
        note(me, EV_ASK);
        /* clang-format off */
        /* shown: memcached-eviction-advisory */
        must(me, hf_acquire(store, &request, &lease, &err), &err); /* 3: is the key there? */
        note_owner(me);
        stock = redis_int(me, "GET {stock}");
        note_read(me, STOCK_LANE, stock);
        note_step(me, me->number == 0 ? 1 : 3, false);
        work_on(me);                                        /* 2: the cache is full */
        held = hf_lease_state(lease) == HF_STATE_HELD;      /* 4! told by a renewal, every 3 s */
        if (held)
            redis_do(me, "SET {stock} %lld", (long long)stock - 1);
        note_outcome(me, held, stock - 1);
        hf_release(lease, &err);
        /* shown end */
        /* clang-format on */
    } while (!held);
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_advised(struct stage *stage)
{
    cache_say(cache, "flush_all\r\n", 1);
    stage_redis(stage, "SET {stock} %d", STOCK);
    stage_value(stage, STOCK_LANE, STOCK);
    stage_observe(stage, SERVER, observe_item, (void *)(uintptr_t)OUR_KEY);
    stage_start(stage, A, sell_advised, NULL);
    stage_await(stage, A, EV_READ, 1);
    stage_await(stage, SERVER, EV_OWNER, 1);
    stage_sleep(stage, 300);
    stage_step(stage, SERVER, 2, false);
    fill_cache(stage, OUR_KEY);
    stage_await(stage, SERVER, EV_OWNER, 2);
    stage_start(stage, B, sell_advised, NULL);
    stage_await(stage, B, EV_DONE, 1);
    stage_await(stage, A, EV_LOST, 1);
    stage_sleep(stage, 200);
    stage_signal(stage, SIGNAL_GO);
    stage_join(stage, -1);
}

/* ---- ours, where nothing is evicted ------------------------------------------------------------------------------ */

static void sell(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;
    uint64_t token;
    int64_t stock;
    void *bytes;
    size_t len;
    char text[32];

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: memcached-eviction-ours */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 3: B waits here */
    token = hf_lease_token(lease);
    note_got(me, token);
    must(me, hf_guard_claim(store, "stock", HF_CSTRING, token, &bytes, &len, &err), &err); /* 1 */
    stock = guard_number(bytes);
    note_claim(me, STOCK_LANE, token, stock);
    note_step(me, me->number == 0 ? 1 : 0, false);
    work_on(me); /* 2: others store as much as before */
    len = guard_text(text, stock - 1);
    must(me, hf_guard_set(store, "stock", HF_CSTRING, token, text, len, &err), &err); /* 4! */
    note_write(me, STOCK_LANE, stock - 1, token);
    note_step(me, me->number == 0 ? 4 : 0, false);
    note(me, EV_LET);
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void fill_stock(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_error err;

    must(me, hf_guard_set(store, "stock", HF_CSTRING, 1, "20", 2, &err), &err);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_do(stage, fill_stock);
    stage_value(stage, STOCK_LANE, STOCK);
    stage_observe(stage, SERVER, observe_name, (void *)(uintptr_t) "lock");
    stage_start(stage, A, sell, NULL);
    stage_await(stage, A, EV_CLAIM, 1);
    stage_await(stage, SERVER, EV_OWNER, 1);
    stage_sleep(stage, 300);
    stage_step(stage, SERVER, 2, false);
    stage_redis(stage, "EVAL %s 0", "for i = 1, 50000 do redis.call('SET', 'page-' .. i, 0) end");
    stage_start(stage, B, sell, NULL);
    stage_await(stage, B, EV_ASK, 1);
    stage_step(stage, B, 3, false);
    stage_sleep(stage, 600); /* so that the picture shows that it waits */
    stage_signal(stage, SIGNAL_GO);
    stage_join(stage, -1);
}

/* ---- the checker -------------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    int sold = (int)history_count(stage->history, -1, EV_DONE);
    int left = (int)history_last_value(stage->history, STOCK_LANE, STOCK);
    double both = (double)history_overlap_ms(stage->history, 1) / 1000;

    verdict->broken = history_holders(stage->history) > 1 || STOCK - sold != left;
    if (STOCK - sold != left)
        verdict_say(verdict,
                    "Two held the lock for %.1fs. %d sold, but the stock went from %d to %d.",
                    "两个客户端同时持有锁 %.1fs。卖出 %d 件，库存却从 %d 变成 %d。", both, sold,
                    STOCK, left);
    else if (verdict->broken)
        verdict_say(verdict,
                    "Two held the lock for %.1fs: the next renewal told A, which was too late. It "
                    "had not written yet: %d sold, %d left.",
                    "两个客户端同时持有锁 %.1fs：A "
                    "到下次续期才得知，已经太晚。好在它还没写入：卖出 %d 件，剩 %d 件。",
                    both, sold, left);
    else
        verdict_say(verdict, "One held the lock at a time. %d sold, the stock went from %d to %d.",
                    "同一时刻只有一个持有者。卖出 %d 件，库存从 %d 变成 %d。", sold, STOCK, left);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("memcached", "memcached"), PHRASE("lock", "锁") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("Redis", "Redis"), PHRASE("stock", "库存") },
    LANES_END,
};

static const struct lane lanes_ours[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("Redis", "Redis"), PHRASE("lock", "锁") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("Redis", "Redis"), PHRASE("stock", "库存") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("add on memcached", "memcached 的 add"),
        .lapse = PHRASE("evicted", "被淘汰"),
        .breaks = true,
        .shown = "memcached-eviction-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast on memcached", "Holdfast，仍用 memcached"),
        .note = PHRASE("advisory: told, but too late", "仅供参考：会得知，但太晚"),
        .lapse = PHRASE("evicted", "被淘汰"),
        .breaks = true,
        .ours = true,
        .shown = "memcached-eviction-advisory",
        .play = play_advised,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast on Redis, with a token", "Holdfast，用 Redis 加围栏令牌"),
        .note = PHRASE("a store that does not forget, and a resource that checks",
                       "不淘汰的存储，会检查令牌的资源"),
        .ours = true,
        .shown = "memcached-eviction-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes_ours,
    },
    WAYS_END,
};

const struct experiment experiment_memcached_eviction = {
    .id = "memcached-eviction",
    .title = PHRASE("A cache forgets a lock that is held", "缓存淘汰了正被持有的锁"),
    .setting = PHRASE("others fill the cache; two clients sell one piece each from a stock of 20",
                      "缓存被其他数据写满；两个客户端各卖出 1 件，库存 20"),
    .needs = NEED_REDIS | NEED_MEMCACHED,
    .own_servers = true,
    .steps = {
        PHRASE("A gets the lock and reads the stock.", "A 拿到锁，读取库存。"),
        PHRASE("Others store pages, more than the cache has room for.", "其他数据大量写入，超出缓存容量。"),
        PHRASE("B wants the lock.", "B 来加锁。"),
        PHRASE("A is done, and writes.", "A 完成工作，写回。"),
    },
    .why = PHRASE("A cache may drop any item to make room. Then the lock is free, and its holder does not know. memcached has no tokens, so nothing refuses the late write: use such a lock to save work, and one with tokens to protect data.",
                  "缓存可以随时淘汰任何数据来腾出空间，锁就没了，只有持有者还以为自己拿着它。memcached 也没有围栏令牌，迟到的写入无人拒绝：这种锁只能用来避免重复工作，保护数据要用带令牌的锁。"),
    .ways = ways,
    .open = open_both,
    .close = close_both,
};
