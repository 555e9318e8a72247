/* SPDX-License-Identifier: MIT */
/* A node of Redlock is down, another one answers too late: what it was asked for it does all the same, and nobody takes that back. */
#include "../stage/ours.h"
#include "redlock.h"

#define TTL_MS 10000
#define TRIES  6
#define UNLOCK \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

enum { A, NODE_1, NODE_2, NODE_3, B };
enum { READY = 1, GO, OVER };

static const struct phrase left_behind = PHRASE("nobody's lock", "无人持有的锁");

/* Node 3 is down. Node 2 is too slow for A, which gives up; then B comes. */
static void play(struct stage *stage, actor_fn *fn)
{
    node_kill(stage, 2);
    stage_start(stage, A, fn, NULL);
    stage_await_signal(stage, READY);
    node_stop(stage, 1);
    stage_step(stage, NODE_2, 1, false);
    stage_sleep(stage, 150); /* so that the picture can be read */
    stage_signal(stage, GO);
    stage_await(stage, A, EV_GAVE_UP, 1);
    stage_step(stage, A, 2, false);
    stage_sleep(stage, 200);
    node_continue(stage, 1);
    stage_step(stage, NODE_2, 3, stage->way->breaks);
    stage_sleep(stage, 300);
    if (stage->way->breaks)
        stage_note(stage, NODE_2, &left_behind);
    stage_start(stage, B, fn, NULL);
    stage_join(stage, B);
    stage_signal(stage, OVER);
    stage_join(stage, A);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* clang-format off */
/* shown: redlock-down-naive */
static bool take(struct actor *me, bool has[NODES])
{
    int votes = 0;

    for (int i = 0; i < NODES; i++)
        votes += has[i] = node_ok(me, i, "SET {lock} %s NX PX %d", me->id, TTL_MS);  /* 1 */
    return votes > NODES / 2;
}

static void give(struct actor *me, const bool has[NODES])
{
    for (int i = 0; i < NODES; i++)
        if (has[i])  /* 3! no answer is not a no */
            node_ok(me, i, "EVAL %s 1 {lock} %s", UNLOCK, me->id);
}
/* shown end */
/* clang-format on */

static void hold_naively(struct actor *me)
{
    bool has[NODES], got = false;

    if (me->lane == A) {
        note_signal(me, READY);
        await_signal(me, GO);
    }
    note(me, EV_ASK);
    for (int i = 0; i < (me->lane == A ? 1 : TRIES) && !got; i++) {
        got = take(me, has);
        if (!got) {
            give(me, has);
            again(me, 150);
        }
    }
    note_step(me, me->lane == B ? 4 : 0, !got);
    if (got)
        note_got(me, 0);
    else
        note(me, EV_GAVE_UP);
    if (got) {
        work(me, 400);
        note(me, EV_LET);
        give(me, has);
    }
}

static void play_naive(struct stage *stage)
{
    nodes_begin(stage, NODE_1);
    nodes_observe(stage, "lock");
    play(stage, hold_naively);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static void hold(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;
    hf_status status;

    request.wait_ms = me->lane == A ? 0 : TTL_MS / 2; /* A tries once; B must not need an expiry */
    if (me->lane == A) {
        note_signal(me, READY);
        await_signal(me, GO);
    }
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: redlock-down-ours */
    status = hf_acquire(store, &request, &lease, &err);  /* 3! what was not won is given back, */
    if (status == HF_OK) {                               /* also where no answer came */
        note_got(me, hf_lease_token(lease));
        note_step(me, 4, false);
        work(me, 400);
        note(me, EV_LET);
        hf_release(lease, &err);
    }
    /* shown end */
    /* clang-format on */
    if (status != HF_OK)
        note(me, EV_GAVE_UP);
    if (me->lane == A)
        await_signal(me, OVER);
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

static void play_ours(struct stage *stage)
{
    nodes_begin_ours(stage, NODE_1, TTL_MS);
    nodes_observe_ours(stage, "lock");
    play(stage, hold);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

/* Nobody holds when B comes. */
static void judge(struct stage *stage, struct verdict *verdict)
{
    unsigned got = history_count(stage->history, B, EV_GOT);
    unsigned tries = history_count(stage->history, B, EV_TRY);

    if (history_count(stage->history, A, EV_GOT) > 0)
        stage_unclear(stage, "A got the lock, with one node of three");
    verdict->broken = got == 0;
    if (verdict->broken)
        verdict_say(verdict, "Nobody holds the lock, but B did not get it in %u tries.",
                    "没有人持有锁，B 试了 %u 次却拿不到。", tries);
    else
        verdict_say(verdict, "Node 3 is down, and B got the lock: %d of %d nodes are enough.",
                    "节点 3 宕机，B 仍拿到锁：%d / %d 个节点就够。", NODES - 1, NODES);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 1", "节点 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 2", "节点 2"), PHRASE("slow", "迟缓") },
    { LANE_SERVER, PHRASE("node 3", "节点 3"), PHRASE("down", "宕机") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive Redlock", "朴素 Redlock"),
        .note = PHRASE("releases only where it was told yes", "只在加锁成功的节点上释放"),
        .breaks = true,
        .shown = "redlock-down-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast's Redlock", "Holdfast 的 Redlock"),
        .note = PHRASE("gives back at every node, and a late request finds that it is over",
                       "在所有节点上释放，迟到的请求不再生效"),
        .ours = true,
        .shown = "redlock-down-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_redlock_down = {
    .id = "redlock-down",
    .title = PHRASE("Redlock with a node down, and an answer that does not come", "Redlock：一个节点宕机，另一个节点没有应答"),
    .setting = PHRASE("3 nodes, ttl 10s; node 3 is down, node 2 stops for a moment while A asks",
                      "3 个节点，过期时间 10s；节点 3 宕机，A 加锁时节点 2 停顿片刻"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .steps = {
        PHRASE("Node 2 does not answer for a moment.", "节点 2 暂时没有应答。"),
        PHRASE("A has one vote of three. It gives up, and releases.", "A 三票只得一票，放弃并释放。"),
        PHRASE("Node 2 goes on, with all that it was sent: A's lock too.", "节点 2 恢复，照常执行收到的请求，包括 A 的加锁。"),
        PHRASE("B needs nodes 1 and 2.", "B 需要节点 1 和 2。"),
    },
    .why = PHRASE("No answer is not a no: the node may have set the lock, or may do so later, and then nobody gives it back until it expires. With a node down that blocks the majority. So a client that fails must release at all nodes; Holdfast does so until each node has heard it, and leaves a mark that refuses the late request.",
                  "没有应答不等于失败：节点可能已经加锁，也可能稍后才执行，而这把锁只能等到过期。再有一个节点宕机，就凑不成多数派。因此加锁失败时必须在所有节点上释放；Holdfast 会一直通知到每个节点，并留下标记拒绝迟到的请求。"),
    .ways = ways,
    .open = nodes_open,
    .close = nodes_close,
};
