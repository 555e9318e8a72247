/* SPDX-License-Identifier: MIT */
/* Two clients and two locks, taken in opposite orders: each has one, and waits for the other's. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#define TTL_MS 1500

enum { A, GOODS, MONEY, B };

static const char *const names[] = { [GOODS] = "goods", [MONEY] = "money" };

/* A: first the goods, then the money; B the other way round. */
struct order {
    int first, second;
};

static struct order order_of(const struct actor *me)
{
    return me->lane == A ? (struct order){ GOODS, MONEY } : (struct order){ MONEY, GOODS };
}

/* Both go on when both have their first lock: then it happens in every run. */
static void meet(struct actor *me)
{
    await(me, A, EV_GOT, 1);
    await(me, B, EV_GOT, 1);
    work(me, me->lane == A ? 300 : 500);
}

static void begin(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, GOODS, observe, (void *)(uintptr_t)names[GOODS]);
    stage_observe(stage, MONEY, observe, (void *)(uintptr_t)names[MONEY]);
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_start(stage, B, fn, NULL);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void trade_naively(struct actor *me)
{
    struct order order = order_of(me);
    const char *first = names[order.first], *second = names[order.second];

    note_lock(me, EV_ASK, order.first, 0);
    /* clang-format off */
    /* shown: deadlock-naive */
    while (!redis_ok(me, "SET {%s} %s NX PX %d", first, me->id, TTL_MS))    /* 1 */
        again_at(me, order.first, 500);
    note_lock(me, EV_GOT, order.first, 0);
    meet(me); /* 2: each has its first lock */
    note_lock(me, EV_ASK, order.second, 0);
    note_step(me, me->lane == B ? 3 : 0, true);
    while (!redis_ok(me, "SET {%s} %s NX PX %d", second, me->id, TTL_MS)) { /* 3! */
        redis_do(me, "PEXPIRE {%s} %d", first, TTL_MS); /* the watchdog: we still need it */
        again_at(me, order.second, 500);
    }
    note_lock(me, EV_GOT, order.second, 0);
    work(me, 600);
    note_lock(me, EV_LET, order.second, 0);
    note_lock(me, EV_LET, order.first, 0);
    redis_do(me, "DEL {%s} {%s}", second, first);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    begin(stage, trade_naively, observe_key);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 2, false);
    stage_await(stage, B, EV_ASK, 2);
    stage_sleep(stage, 2 * TTL_MS); /* they wait on: the play ends without them */
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void trade(struct actor *me)
{
    struct order order = order_of(me);
    hf_store *store = ours_open(me);
    hf_acquire_request first = ours_request(me, names[order.first], TTL_MS);
    hf_acquire_request second = ours_request(me, names[order.second], TTL_MS);
    hf_lease *one, *two;
    hf_error err;
    hf_status status;

    note_lock(me, EV_ASK, order.first, 0);
    /* clang-format off */
    /* shown: deadlock-ours */
    must(me, hf_acquire(store, &first, &one, &err), &err); /* 1 */
    note_lock(me, EV_GOT, order.first, hf_lease_token(one));
    meet(me); /* 2: each has its first lock */
    note_lock(me, EV_ASK, order.second, 0);
    note_step(me, me->lane == B ? 3 : 0, false);
    while ((status = hf_acquire(store, &second, &two, &err)) == HF_DEADLOCK) { /* 4! one is told */
        note_lock(me, EV_LET, order.first, 0);
        note_lock(me, EV_GAVE_UP, order.second, 0);
        note_step(me, 4, false);
        hf_release(one, &err); /* and gives way */
        note_lock(me, EV_ASK, order.first, 0);
        must(me, hf_acquire(store, &first, &one, &err), &err);
        note_lock(me, EV_GOT, order.first, hf_lease_token(one));
        note_lock(me, EV_ASK, order.second, 0);
    }
    must(me, status, &err);
    note_lock(me, EV_GOT, order.second, hf_lease_token(two));
    note_step(me, 5, false);
    work(me, 600);
    note_lock(me, EV_LET, order.second, 0);
    note_lock(me, EV_LET, order.first, 0);
    hf_release(two, &err);
    hf_release(one, &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    begin(stage, trade, observe_name);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 2, false);
    stage_join(stage, -1);
}

/* ---- ours, without the circle ------------------------------------------------------------------------------ */

static void trade_all(struct actor *me)
{
    struct order order = order_of(me);
    hf_store *store = ours_open(me);
    hf_acquire_request both[2] = { ours_request(me, names[order.first], TTL_MS),
                                   ours_request(me, names[order.second], TTL_MS) };
    hf_lease *leases[2];
    hf_error err;

    note_lock(me, EV_ASK, order.first, 0);
    note_lock(me, EV_ASK, order.second, 0);
    /* clang-format off */
    /* shown: deadlock-all */
    must(me, hf_acquire_all(store, both, 2, leases, &err), &err); /* 5! in one order for all */
    note_lock(me, EV_GOT, order.first, hf_lease_token(leases[0]));
    note_lock(me, EV_GOT, order.second, hf_lease_token(leases[1]));
    note_step(me, me->lane == A ? 5 : 0, false);
    work(me, 1000);
    note_lock(me, EV_LET, order.first, 0);
    note_lock(me, EV_LET, order.second, 0);
    hf_release_all(leases, 2, &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_all(struct stage *stage)
{
    stage_observe(stage, GOODS, observe_name, (void *)(uintptr_t)names[GOODS]);
    stage_observe(stage, MONEY, observe_name, (void *)(uintptr_t)names[MONEY]);
    stage_start(stage, A, trade_all, NULL);
    stage_await(stage, A, EV_GOT, 2);
    stage_sleep(stage, 200);
    stage_start(stage, B, trade_all, NULL);
    stage_join(stage, -1);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    const struct history *history = stage->history;
    unsigned done = history_count(history, -1, EV_DONE);

    verdict->broken = done < 2;
    if (verdict->broken)
        verdict_say(
            verdict,
            "%u of 2 clients finished: each waits for the other, and the watchdogs keep it so.",
            "%u / 2 个客户端完成：互相等待，看门狗又让锁一直不过期。", done);
    else
        verdict_say(verdict, "%u of 2 clients finished; deadlocks reported: %u.",
                    "%u / 2 个客户端完成；检测到死锁 %u 次。", done,
                    history_count(history, -1, EV_GAVE_UP));
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("goods, then money", "先商品，后账户") },
    { LANE_SERVER, PHRASE("lock \"goods\"", "锁“商品”"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("lock \"money\"", "锁“账户”"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE("money, then goods", "先账户，后商品") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("locks that are renewed, and tried again", "锁由看门狗续期，失败就重试"),
        .breaks = true,
        .capacity = 2, /* there are two locks */
        .shown = "deadlock-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("the circle is found across machines", "跨机器检测死锁"),
        .ours = true,
        .capacity = 2,
        .shown = "deadlock-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast, all at once", "Holdfast，一次加多把锁"),
        .note = PHRASE("one call takes both, in one order", "一次调用，按统一的顺序加锁"),
        .ours = true,
        .capacity = 2,
        .shown = "deadlock-all",
        .play = play_all,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_deadlock = {
    .id = "deadlock",
    .title = PHRASE("Two clients wait for each other", "两个客户端互相等待：死锁"),
    .setting = PHRASE("ttl 1.5s and renewed; two processes take two locks in opposite orders",
                      "过期时间 1.5s 并续期；两个进程以相反的顺序加两把锁"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A locks the goods.", "A 锁住商品。"),
        PHRASE("B locks the money.", "B 锁住账户。"),
        PHRASE("Each wants the lock of the other: a circle.", "双方都想要对方的锁：形成环路。"),
        PHRASE("Holdfast tells one of them: HF_DEADLOCK. It gives its lock back.", "Holdfast 告诉其中一个：HF_DEADLOCK，它让出自己的锁。"),
        PHRASE("One client has both locks, and goes on.", "一方拿到两把锁，继续执行。"),
    },
    .why = PHRASE("An expiry does not help here: both clients are alive, and renew what they have. The waiters in the store tell who waits for whom; Holdfast looks for a circle in them and tells exactly one client of it, on whichever machine it runs.",
                  "过期时间在这里没有用：两个客户端都活着，都在续期。存储里的等待者说明了谁在等谁；Holdfast 在其中寻找环路，并且只通知其中一个客户端，不管它在哪台机器上。"),
    .ways = ways,
};
