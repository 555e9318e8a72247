/* SPDX-License-Identifier: MIT */
/* The clock of one node jumps, its vote ends early, and two clients have a majority. */
#include "redlock_sale.h"

#define JUMP_MS 60000

static const struct phrase jumped = PHRASE("clock +60s", "时钟 +60s");

/* Node 3 is away when A asks, so that A has the votes of 1 and 2. Then 3 is back, and the clock of 2 jumps. */
static void play(struct stage *stage, actor_fn *fn)
{
    node_kill(stage, 2);
    stage_sleep(stage, 150); /* so that the picture can be read */
    stage_start(stage, SALE_A, fn, NULL);
    stage_await_signal(stage, SIGNAL_AT_PAUSE + SALE_A);
    node_start(stage, 2);
    stage_sleep(stage, 150);
    node_jump(stage, 1, JUMP_MS, &jumped);
    stage_step(stage, SALE_NODE_2, 2, false);
    stage_sleep(stage, 150);
    stage_start(stage, SALE_B, fn, NULL);
    stage_await(stage, SALE_B, EV_DONE, 1);
    stage_sleep(stage, 200);
    stage_signal(stage, SIGNAL_PAUSE_OVER + SALE_A);
    stage_join(stage, -1);
}

static void play_naive(struct stage *stage)
{
    sale_begin(stage);
    play(stage, sell_naively);
}

static void play_ours(struct stage *stage)
{
    sale_begin_ours(stage);
    play(stage, sell_with_token);
}

static const struct way ways[] = {
    {
        .title = PHRASE("Naive Redlock", "朴素 Redlock"),
        .note = PHRASE("a majority, no tokens", "只看多数派，没有令牌"),
        .breaks = true,
        .shown = "redlock-sale-naive",
        .play = play_naive,
        .judge = sale_judge,
        .lanes = sale_lanes,
    },
    {
        .title = PHRASE("Holdfast's Redlock", "Holdfast 的 Redlock"),
        .note = PHRASE("a majority agrees on a token, the resource checks it",
                       "多数派商定围栏令牌，资源检查令牌"),
        .ours = true,
        .shown = "redlock-sale-ours",
        .play = play_ours,
        .judge = sale_judge,
        .lanes = sale_lanes,
    },
    WAYS_END,
};

const struct experiment experiment_redlock_clock = {
    .id = "redlock-clock",
    .title = PHRASE("The clock of a Redlock node jumps", "Redlock：一个节点的时钟发生跳跃"),
    .setting = PHRASE("3 nodes, ttl 3s; node 3 is away when A asks, the clock of node 2 jumps 60s ahead; two clients sell one piece each",
                      "3 个节点，过期时间 3s；A 加锁时节点 3 不在，随后节点 2 的时钟向前跳 60s；两个客户端各卖出 1 件"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .steps = {
        PHRASE("A has the votes of nodes 1 and 2, and reads the stock.", "A 得到节点 1、2 的票，读取库存。"),
        PHRASE("The clock of node 2 jumps: the lock of A expires there at once.", "节点 2 的时钟跳跃：A 的锁在那里提前过期。"),
        PHRASE("B has the votes of nodes 2 and 3, and reads the stock.", "B 得到节点 2、3 的票，读取库存。"),
        PHRASE("B writes and releases.", "B 写回，释放锁。"),
        PHRASE("A writes what it worked out before.", "A 写入之前算好的值。"),
    },
    .why = PHRASE("An expiry is only as good as the clock that counts it: after a jump two clients have a majority each. No lock can prevent that; the token of B is larger, for both majorities share node 2 and its counter, and the resource refuses A's late write.",
                  "过期时间取决于节点的时钟：时钟一跳，两个客户端都拿到多数派。锁本身防不住这件事；但两个多数派共用节点 2 的计数器，B 的围栏令牌必然更大，资源因此拒绝 A 迟到的写入。"),
    .ways = ways,
    .open = nodes_open,
    .close = nodes_close,
};
