/* SPDX-License-Identifier: MIT */
/* A process is paused past its lease: between its last look at the lock and its write. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#include <inttypes.h>
#include <stdlib.h>

#define TTL_MS 1500
#define STOCK  20

enum { A, SERVER, B, STOCK_LANE };

/* The pause comes between read and write of A, and lasts until B is done: a garbage collection, a page fault, a sleeping laptop. */
static void play(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_value(stage, STOCK_LANE, STOCK);
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_pause_at(stage, A);
    stage_step(stage, A, 2, false);
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, SERVER, 3, false);
    stage_await(stage, B, EV_DONE, 1);
    stage_sleep(stage, 400); /* so that the picture shows the gap */
    stage_resume(stage, A);
    stage_join(stage, -1);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void sell_naively(struct actor *me)
{
    int64_t stock;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: pause-naive */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 200);
    note_got(me, 0);
    stock = redis_int(me, "GET {stock}");
    note_read(me, STOCK_LANE, stock);
    note_step(me, me->number == 0 ? 1 : 0, false);
    work(me, 600);
    pause_point(me); /* 2: A stops here */
    redis_do(me, "SET {stock} %d", (int)stock - 1); /* 5! nobody asks who holds the lock */
    note_write(me, STOCK_LANE, stock - 1, 0);
    note_step(me, me->number == 0 ? 5 : 4, me->number == 0);
    note(me, EV_LET);
    redis_do(me, "DEL {lock}");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    stage_redis(stage, "SET {stock} %d", STOCK);
    play(stage, sell_naively, observe_key);
}

/* ---- all that a client can do by itself ------------------------------------------------------------------ */

/* clang-format off */
#define RENEW_OWN \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
#define DELETE_OWN \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
/* clang-format on */

static void sell_carefully(struct actor *me)
{
    int64_t stock;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: pause-careful */
    do {
        while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
            again(me, 200);
        note_got(me, 0);
        stock = redis_int(me, "GET {stock}");
        note_read(me, STOCK_LANE, stock);
        note_step(me, me->number == 0 ? 1 : 0, false);
        work(me, 600);
    } while (!redis_ok(me, "EVAL %s 1 {lock} %s %d", RENEW_OWN, me->id, TTL_MS)); /* still ours */
    pause_point(me); /* 2: A stops here */
    redis_do(me, "SET {stock} %d", (int)stock - 1); /* 5! the answer is old by now */
    note_write(me, STOCK_LANE, stock - 1, 0);
    note_step(me, me->number == 0 ? 5 : 4, me->number == 0);
    note(me, EV_LET);
    redis_do(me, "EVAL %s 1 {lock} %s", DELETE_OWN, me->id);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_careful(struct stage *stage)
{
    stage_redis(stage, "SET {stock} %d", STOCK);
    play(stage, sell_carefully, observe_key);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

/* The bytes of a guard end with a NUL. */
static int64_t number_of(void *bytes)
{
    int64_t number = bytes ? strtoll(bytes, NULL, 10) : 0;

    hf_free(bytes);
    return number;
}

static size_t print_number(char text[32], int64_t number)
{
    return (size_t)snprintf(text, 32, "%" PRId64, number);
}

static void note_outcome(struct actor *me, hf_status status, uint64_t token, int64_t stock)
{
    if (status == HF_FENCED)
        note_refused(me, STOCK_LANE, token, 0);
    else
        note_write(me, STOCK_LANE, stock, token);
    note_step(me, me->number == 0 ? 5 : 4, false);
}

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
    hf_status status;

    /* clang-format off */
    /* shown: pause-ours */
    do {
        note(me, EV_ASK);
        must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1 */
        token = hf_lease_token(lease);
        note_got(me, token);
        must(me, hf_guard_claim(store, "stock", HF_CSTRING, token, &bytes, &len, &err), &err);
        stock = number_of(bytes);
        note_claim(me, STOCK_LANE, token, stock);
        note_step(me, me->number == 0 ? 1 : 0, false);
        work(me, 600);
        pause_point(me); /* 2: A stops here, once */
        len = print_number(text, stock - 1);
        status = hf_guard_set(store, "stock", HF_CSTRING, token, text, len, &err); /* 5! */
        note_outcome(me, status, token, stock - 1);
        note(me, EV_LET);
        hf_release(lease, &err);
    } while (status == HF_FENCED); /* A has slept too long: again, with a new lease */
    /* shown end */
    /* clang-format on */
    must(me, status, &err);
    note(me, EV_DONE);
    ours_close(me, store);
}

static void fill(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_error err;

    must(me, hf_guard_set(store, "stock", HF_CSTRING, 1, "20", 2, &err), &err);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_do(stage, fill);
    play(stage, sell, observe_name);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    int sold = (int)history_count(stage->history, -1, EV_DONE);
    int left = (int)history_last_value(stage->history, STOCK_LANE, STOCK);

    verdict->broken = STOCK - sold != left;
    if (verdict->broken)
        verdict_say(verdict, "%d sold, but the stock went from %d to %d: an update is lost.",
                    "卖出 %d 件，库存却从 %d 变成 %d：丢失了一次更新。", sold, STOCK, left);
    else
        verdict_say(verdict, "%d sold, the stock went from %d to %d: no update is lost.",
                    "卖出 %d 件，库存从 %d 变成 %d：没有丢失更新。", sold, STOCK, left);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("resource", "资源"), PHRASE("stock", "库存") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("a lock with an expiry, nothing else", "只有带过期时间的锁"),
        .breaks = true,
        .shown = "pause-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("With every care", "客户端能做的都做了"),
        .note = PHRASE("renewed and checked just before the write, deleted by owner",
                       "写入前续期并检查持有者，只删自己的锁"),
        .breaks = true,
        .shown = "pause-careful",
        .play = play_careful,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("With fencing", "使用围栏令牌"),
        .note = PHRASE("every grant has a token, the resource checks it",
                       "每次加锁都有围栏令牌，资源会检查它"),
        .ours = true,
        .shown = "pause-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_pause = {
    .id = "pause",
    .title = PHRASE("A process is paused past its lease", "进程暂停，醒来时锁已过期"),
    .setting = PHRASE("ttl 1.5s, SIGSTOP until B is done, two clients sell one piece each from a stock of 20",
                      "过期时间 1.5s，A 被 SIGSTOP 直到 B 完成，两个客户端各卖出 1 件，库存 20"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A gets the lock and reads the stock.", "A 拿到锁，读取库存。"),
        PHRASE("A is paused. It does not know.", "A 被暂停，自己并不知道。"),
        PHRASE("The lease expires. B, which waits, gets the lock.", "锁到期，等待中的 B 拿到锁。"),
        PHRASE("B reads, sells, writes, releases.", "B 读取、卖出、写回、释放锁。"),
        PHRASE("A wakes up and writes what it worked out before.", "A 醒来，写入之前算好的值。"),
    },
    .why = PHRASE("No lock can stop a process that wakes up too late: between its last look at the lease and its write there is always a gap. Each grant has a larger token than all before; a resource that keeps the largest one it has seen refuses the late write.",
                  "任何锁都拦不住醒来太晚的进程：最后一次检查锁与写入之间总有空隙。每次加锁的围栏令牌都比之前的大；资源记住见过的最大令牌，就能拒绝迟到的写入。"),
    .ways = ways,
};
