/* SPDX-License-Identifier: MIT */
/* A node of Redlock loses its memory, and votes a second time. */
#include "../stage/ours.h"
#include "../stage/watch.h"
#include "redlock.h"

enum { A, NODE_1, NODE_2, NODE_3, B };
enum { READY = 10, GO = 20, OVER = 30 }; /* + lane; OVER: the client may leave */

static const struct phrase empty = PHRASE("back, empty", "重启，数据全丢");
static const struct phrase empty_ours = PHRASE("back, empty: no vote", "重启，数据全丢：不投票");

/* Node 3 is away when A asks, so A has the votes of 1 and 2. Then 3 is back as it was, and 2 loses what it had. */
static void lose_memory(struct stage *stage, actor_fn *fn, const struct phrase *text)
{
    stage_start(stage, B, fn, NULL);
    stage_await_signal(stage, READY + B);
    node_kill(stage, 2);
    stage_sleep(stage, 150); /* so that the picture can be read */
    stage_start(stage, A, fn, NULL);
    stage_await_signal(stage, READY + A);
    stage_signal(stage, GO + A);
    stage_await(stage, A, EV_GOT, 1);
    stage_sleep(stage, 150);
    node_start(stage, 2);
    stage_step(stage, NODE_3, 2, false);
    stage_sleep(stage, 100);
    node_kill(stage, 1);
    stage_sleep(stage, 150);
    node_start_empty(stage, 1, text);
    stage_step(stage, NODE_2, 3, false);
    stage_sleep(stage, 100);
    stage_signal(stage, GO + B);
}

/* The client is there, and asks when the director says so. */
static void note_ready(struct actor *me)
{
    note_signal(me, READY + me->lane);
    await_signal(me, GO + me->lane);
    note(me, EV_ASK);
}

static void leave(struct stage *stage, int lane)
{
    stage_sleep(stage, 700);
    stage_signal(stage, OVER + lane);
    stage_join(stage, lane);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void hold_naively(struct actor *me)
{
    note_ready(me);
    while (!redlock_take(me))
        again(me, 200);
    note_got(me, 0);
    note_step(me, me->lane == A ? 1 : 4, me->lane == B);
    await_signal(me, OVER + me->lane);
    note(me, EV_LET);
    redlock_give(me);
}

static void play_naive(struct stage *stage)
{
    nodes_begin(stage, NODE_1);
    nodes_observe(stage, "lock");
    lose_memory(stage, hold_naively, &empty);
    stage_await(stage, B, EV_GOT, 1);
    leave(stage, A);
    leave(stage, B);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

/* A works until it is told that the lock is lost, B until the director lets it go. */
static void use_lock(struct actor *me)
{
    note_step(me, me->lane == A ? 1 : 5, false);
    if (me->lane == A)
        await(me, A, EV_LOST, 1);
    else
        await_signal(me, OVER + me->lane);
}

static void hold(struct actor *me)
{
    hf_acquire_request request = ours_request(me, "lock", REDLOCK_TTL_MS);
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    /* clang-format off */
    /* shown: redlock-memory-ours */
    store = ours_open(me);                                      /* "redlock://node1,node2,node3" */
    note_ready(me);
    must(me, hf_acquire(store, &request, &lease, &err), &err);  /* 3! an empty node has no vote */
    note_got(me, hf_lease_token(lease));
    use_lock(me);                                               /* 4: HF_EVENT_LOST, and A stops */
    note(me, me->lane == A ? EV_DONE : EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    if (me->lane == A)
        await_signal(me, OVER + A); /* it has other work */
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

static void play_ours(struct stage *stage)
{
    nodes_begin_ours(stage, NODE_1, REDLOCK_TTL_MS);
    nodes_observe_ours(stage, "lock");
    lose_memory(stage, hold, &empty_ours);
    stage_await(stage, A, EV_LOST, 1);
    stage_step(stage, A, 4, false);
    stage_await(stage, B, EV_GOT, 1);
    leave(stage, B);
    stage_signal(stage, OVER + A);
    stage_join(stage, A);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    unsigned holders = history_holders(stage->history);

    verdict->broken = holders > 1;
    if (verdict->broken)
        verdict_say(verdict, "%u clients had a majority at once, for %.1fs.",
                    "%u 个客户端同时拿到过半数节点，持续 %.1fs。", holders,
                    (double)history_overlap_ms(stage->history, 1) / 1000);
    else
        verdict_say(verdict,
                    "Never more than %u holder: A was told that its lock is lost, then B had it.",
                    "同一时刻最多 %u 个持有者：A 先得知锁已丢失，之后 B 才拿到。", holders);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 1", "节点 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 2", "节点 2"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 3", "节点 3"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive Redlock", "朴素 Redlock"),
        .note = PHRASE("every node that answers votes", "能应答的节点都投票"),
        .breaks = true,
        .shown = "redlock-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast's Redlock", "Holdfast 的 Redlock"),
        .note = PHRASE("a node that lost its data does not vote until it is healed",
                       "丢了数据的节点不投票，直到修复完成"),
        .ours = true,
        .shown = "redlock-memory-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_redlock_memory = {
    .id = "redlock-memory",
    .title = PHRASE("A node of Redlock loses its memory", "Redlock 的一个节点丢了数据"),
    .setting = PHRASE("3 nodes, ttl 3s; node 3 is away when A asks, node 2 restarts without its data",
                      "3 个节点，过期时间 3s；A 加锁时节点 3 不在，随后节点 2 重启且数据全丢"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .steps = {
        PHRASE("A has the votes of nodes 1 and 2: a majority.", "A 得到节点 1、2 的票：过半数。"),
        PHRASE("Node 3 is back, with its data. It never heard of A.", "节点 3 恢复，数据还在；它从没听说过 A。"),
        PHRASE("Node 2 restarts, and has forgotten A.", "节点 2 重启，忘记了 A。"),
        PHRASE("Naively B has a majority beside A, of nodes 2 and 3. With Holdfast A is told first that its lock is lost.",
               "朴素做法：B 得到节点 2、3，与 A 同时持有。Holdfast：A 先得知锁已丢失。"),
        PHRASE("B has the lock, alone.", "B 独自持有锁。"),
    },
    .why = PHRASE("Two majorities share a node, and that node must remember: if it forgets, it votes twice. With Holdfast every grant names the epoch that a node keeps with its data: an empty node has none, and votes again only when all that it forgot has ended.",
                  "任意两个多数派必有共同节点，而它必须记得自己投过票：一旦忘记，就会投两次。Holdfast 的节点把纪元与数据存在一起：空节点没有纪元，要等它忘掉的锁全部到期后才重新投票。"),
    .ways = ways,
    .open = nodes_open,
    .close = nodes_close,
};
