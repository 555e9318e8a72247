/* SPDX-License-Identifier: MIT */
/* The primary dies after it has granted the lock, and before the replica has heard of it. */
#include "../stage/nodes.h"
#include "../stage/ours.h"
#include "../stage/pair.h"
#include "../stage/redis.h"
#include "../stage/watch.h"

#define TTL_MS 10000

enum { A, PRIMARY, REPLICA, B };
enum { NODE_1 = 1, NODE_3 = 3, LAST }; /* lanes of the third way; B is the last */
enum { OVER = 1 };                     /* + lane: the client may leave */

static const struct phrase promoted = PHRASE("promoted", "升为主节点");
static const struct phrase rejoined = PHRASE("back, as a replica", "恢复，成为从节点");

/* A client works until the director lets it go. */
static void use_lock(struct actor *me)
{
    note_step(me, me->lane == A ? 1 : 4, me->lane != A && me->stage->way->breaks);
    await_signal(me, OVER + me->lane);
    work(me, 400);
}

static void leave(struct stage *stage, int lane)
{
    stage_sleep(stage, 300); /* so that the picture can be read */
    stage_signal(stage, OVER + lane);
    stage_join(stage, lane);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* The server that A asked may be dead by then. */
static void give_naively(struct actor *me)
{
    redisReply *reply;

    note(me, EV_LET);
    reply = redis_try(me, "DEL {lock}");
    if (reply)
        freeReplyObject(reply);
}

static void hold_naively(struct actor *me)
{
    /* clang-format off */
    /* shown: failover-naive */
    use_primary(me);                            /* the one that the sentinel names */
    note(me, EV_ASK);
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS))
        again(me, 200);                         /* 1! "OK" comes before a replica has it */
    note_got(me, 0);
    use_lock(me);
    give_naively(me);
    /* shown end */
    /* clang-format on */
}

static void play_naive(struct stage *stage)
{
    pair_begin(stage, PRIMARY, "");
    pair_observe(stage, "lock");
    stage_sleep(stage, 150);
    pair_lag(stage);
    stage_sleep(stage, 150);
    stage_start(stage, A, hold_naively, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_sleep(stage, 300);
    pair_kill_primary(stage);
    stage_step(stage, PRIMARY, 2, false);
    pair_promote(stage, &promoted);
    stage_step(stage, REPLICA, 3, false);
    stage_sleep(stage, 200);
    stage_start(stage, B, hold_naively, NULL);
    stage_await(stage, B, EV_GOT, 1);
    leave(stage, A);
    leave(stage, B);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static void hold_with_sync(struct actor *me)
{
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_store *store;
    hf_lease *lease;
    hf_error err;
    hf_status status;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: failover-sync */
    store = ours_open(me);                      /* "redis+sentinel://sentinel/shop?sync=1" */
    while ((status = hf_acquire(store, &request, &lease, &err)) == HF_UNAVAILABLE)
        again(me, 300);                         /* 1! no replica has it: it is not granted */
    must(me, status, &err);
    note_got(me, hf_lease_token(lease));
    use_lock(me);
    note(me, EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

static void hold_by_majority(struct actor *me)
{
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_store *store;
    hf_lease *lease;
    hf_error err;

    /* clang-format off */
    /* shown: failover-redlock */
    store = ours_open(me);              /* "redlock://node1,node2,node3" */
    note(me, EV_ASK);
    must(me, hf_acquire(store, &request, &lease, &err), &err);
    note_got(me, hf_lease_token(lease));
    use_lock(me);                       /* 1! two nodes of three know it */
    note(me, EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

/* A is not granted what only the primary has, and waits until the new one and its replica can confirm it. */
static void play_sync(struct stage *stage)
{
    pair_begin(stage, PRIMARY, "?sync=1");
    pair_observe_ours(stage, "lock");
    stage_sleep(stage, 150);
    pair_lag(stage);
    stage_sleep(stage, 150);
    pair_uses(stage, A, PRIMARY);
    stage_start(stage, A, hold_with_sync, NULL);
    stage_await(stage, PRIMARY, EV_OWNER, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 300);
    pair_kill_primary(stage);
    stage_step(stage, PRIMARY, 2, false);
    pair_promote(stage, &promoted);
    stage_step(stage, REPLICA, 3, false);
    pair_uses(stage, A, REPLICA);
    pair_uses(stage, B, REPLICA);
    pair_rejoin(stage, &rejoined);
    stage_start(stage, B, hold_with_sync, NULL);
    stage_await_queued(stage, B, "lock");
    stage_sleep(stage, 300);
    stage_signal(stage, OVER + A); /* whoever of them is first */
    stage_signal(stage, OVER + B);
    stage_join(stage, -1);
}

static void play_redlock(struct stage *stage)
{
    nodes_begin_ours(stage, NODE_1, TTL_MS);
    nodes_observe_ours(stage, "lock");
    stage_sleep(stage, 150);
    stage_start(stage, A, hold_by_majority, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_sleep(stage, 300);
    node_kill(stage, 0);
    stage_step(stage, NODE_1, 2, false);
    stage_sleep(stage, 300);
    stage_start(stage, LAST, hold_by_majority, NULL);
    stage_await_queued(stage, LAST, "lock");
    leave(stage, A);
    stage_await(stage, LAST, EV_GOT, 1);
    leave(stage, LAST);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    unsigned holders = history_holders(stage->history);

    verdict->broken = holders > 1;
    if (verdict->broken)
        verdict_say(verdict, "%u clients held the lock at once, for %.1fs.",
                    "%u 个客户端同时持有锁，持续 %.1fs。", holders,
                    (double)history_overlap_ms(stage->history, 1) / 1000);
    else
        verdict_say(verdict, "%u clients had the lock, one after the other.",
                    "%u 个客户端先后拿到锁，没有同时持有。",
                    history_count(stage->history, -1, EV_GOT));
}

static const struct lane pair_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("server 1", "服务器 1"), PHRASE("primary", "主节点") },
    { LANE_SERVER, PHRASE("server 2", "服务器 2"), PHRASE("its replica", "从节点") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct lane node_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 1", "节点 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 2", "节点 2"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 3", "节点 3"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("SET NX at the primary", "在主节点上 SET NX"),
        .breaks = true,
        .shown = "failover-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = pair_lanes,
    },
    {
        .title = PHRASE("Holdfast, sync=1", "Holdfast，sync=1"),
        .note = PHRASE("a grant counts when the replica has it", "从节点确认后才算加锁成功"),
        .ours = true,
        .shown = "failover-sync",
        .play = play_sync,
        .judge = judge,
        .lanes = pair_lanes,
    },
    {
        .title = PHRASE("Holdfast, Redlock", "Holdfast，Redlock"),
        .note = PHRASE("a majority of independent nodes", "独立节点的多数派"),
        .ours = true,
        .shown = "failover-redlock",
        .play = play_redlock,
        .judge = judge,
        .lanes = node_lanes,
    },
    WAYS_END,
};

static void close_both(struct stage *stage)
{
    pair_end();
    nodes_close(stage);
}

const struct experiment experiment_failover = {
    .id = "failover",
    .title = PHRASE("A replica is promoted before it has the lock", "主从切换：从节点还没有那把锁"),
    .setting = PHRASE("ttl 10s; replication lags for a moment, the primary is killed, the sentinel promotes the replica",
                      "过期时间 10s；主从复制稍有延迟，主节点崩溃，哨兵把从节点升为主节点"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .steps = {
        PHRASE("A asks for the lock.", "A 请求加锁。"),
        PHRASE("The primary dies. The replica has not heard of the lock.", "主节点崩溃，这把锁还没复制到从节点。"),
        PHRASE("The replica becomes the primary.", "从节点升为主节点。"),
        PHRASE("B gets the lock: naively beside A.", "B 拿到锁：朴素做法下 A 也还持有。"),
    },
    .why = PHRASE("Replication is asynchronous: the primary says OK before a replica has the lock, and a failover forgets it. With sync=1 a grant that no replica has confirmed is not given out; Redlock needs no replica, for a majority of nodes remembers.",
                  "主从复制是异步的：主节点先答复成功，锁还没到从节点，切换后这把锁就丢了。sync=1 时，没有从节点确认就不算加锁成功；Redlock 不靠从节点，由多数派节点记住锁。"),
    .ways = ways,
    .open = nodes_open,
    .close = close_both,
};
