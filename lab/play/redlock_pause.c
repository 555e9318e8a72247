/* SPDX-License-Identifier: MIT */
/* A client of Redlock is paused after it has checked its majority, past its lease. */
#include "redlock_sale.h"

/* The pause lasts until B is done: a garbage collection, a page fault, a sleeping laptop. */
static void play(struct stage *stage, actor_fn *fn)
{
    stage_start(stage, SALE_A, fn, NULL);
    stage_pause_at(stage, SALE_A);
    stage_step(stage, SALE_A, 2, false);
    stage_start(stage, SALE_B, fn, NULL);
    stage_await(stage, SALE_B, EV_DONE, 1);
    stage_sleep(stage, 300); /* so that the picture shows the gap */
    stage_resume(stage, SALE_A);
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

const struct experiment experiment_redlock_pause = {
    .id = "redlock-pause",
    .title = PHRASE("A client of Redlock is paused", "Redlock：客户端停顿（STW），醒来时锁已过期"),
    .setting = PHRASE("3 nodes, ttl 3s, SIGSTOP until B is done; two clients sell one piece each from a stock of 20",
                      "3 个节点，过期时间 3s，A 被 SIGSTOP 直到 B 完成；两个客户端各卖出 1 件，库存 20"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .steps = {
        PHRASE("A has all three nodes, and reads the stock.", "A 得到全部三个节点，读取库存。"),
        PHRASE("A is paused. It does not know.", "A 被暂停，自己并不知道。"),
        PHRASE("The leases expire at all nodes. B has a majority.", "锁在所有节点上到期，B 拿到多数派。"),
        PHRASE("B writes and releases.", "B 写回，释放锁。"),
        PHRASE("A wakes up and writes what it worked out before.", "A 醒来，写入之前算好的值。"),
    },
    .why = PHRASE("More nodes do not help against a pause: the check of the validity came before it, and the write after it. The token helps: both majorities share a node, so B's is larger, and the resource refuses the smaller one.",
                  "节点再多也防不住停顿：有效时间在停顿之前检查，写入却在停顿之后。围栏令牌可以：两个多数派必有共同节点，B 的令牌更大，资源拒绝较小的令牌。"),
    .ways = ways,
    .open = nodes_open,
    .close = nodes_close,
};
