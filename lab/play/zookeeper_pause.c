/* SPDX-License-Identifier: MIT */
/*
 * An ephemeral node is a lock that ends with its holder's session. A holder that is paused sends no pings: its session expires, the node
 * vanishes, and the next client gets in, while the first one does not know. The lock is in ZooKeeper, the stock in Redis.
 */
#include "../run.h"
#include "../stage/ours.h"
#include "../stage/redis.h"
#include "../stage/zk.h"

#include "../../test/zookeeper/zk_server.h"

#define TICK_MS     500
#define SESSION_MS  3000
#define OUR_SESSION "?timeout=3s"
#define STOCK       20

enum { A, SERVER, B, STOCK_LANE };

static struct ensemble *zookeeper;

static void open_both(struct stage *stage)
{
    run_open_redis(stage);
    zookeeper = ensemble_start(1, TICK_MS, 5, false);
    snprintf(stage->server, sizeof stage->server, "ZooKeeper");
}

static void close_both(struct stage *stage)
{
    ensemble_free(zookeeper);
    run_close_redis(stage);
    stage->server[0] = 0;
}

static void connect_me(struct actor *me)
{
    zk_connect(me, zookeeper->servers[0].port, SESSION_MS);
}

static hf_store *open_zookeeper(struct actor *me)
{
    return ours_open_at(me, ensemble_url(zookeeper, OUR_SESSION));
}

/* The pause lasts until B is done, so the session of A is over. */
static void play(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_value(stage, STOCK_LANE, STOCK);
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_pause_at(stage, A);
    stage_step(stage, A, 2, false);
    stage_await(stage, SERVER, EV_OWNER, 1);
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, SERVER, 3, false);
    stage_await(stage, B, EV_DONE, 1);
    stage_sleep(stage, 300); /* so that the picture shows the gap */
    stage_resume(stage, A);
    stage_join(stage, -1);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void sell_naively(struct actor *me)
{
    int64_t stock;

    connect_me(me);
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: zookeeper-pause-naive */
    while (!zk_create(me, "/lock", me->id))                 /* 1: ephemeral, ends with the session */
        again(me, 100);
    note_got(me, 0);
    stock = redis_int(me, "GET {stock}");
    note_read(me, STOCK_LANE, stock);
    note_step(me, me->number == 0 ? 1 : 0, false);
    zk_work(me, 400);
    pause_point(me);                                        /* 2: A stops here, and sends no pings */
    redis_do(me, "SET {stock} %lld", (long long)stock - 1); /* 5! the session is over */
    note_write(me, STOCK_LANE, stock - 1, 0);
    note_step(me, me->number == 0 ? 5 : 4, me->number == 0);
    note(me, EV_LET);
    zk_delete(me, "/lock");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static int observe_node(struct actor *me, uint64_t *ret_token)
{
    static bool connected;
    char value[8];
    int len;

    if (!connected)
        connect_me(me);
    connected = true;
    *ret_token = 0;
    len = zk_get(me, "/lock", value, (int)sizeof value);
    return len < 0 ? -1 : lane_of_id(me->stage, value, (size_t)len);
}

static void play_naive(struct stage *stage)
{
    stage_redis(stage, "SET {stock} %d", STOCK);
    play(stage, sell_naively, observe_node);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

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
    hf_store *locks = open_zookeeper(me), *goods = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", SESSION_MS);
    hf_lease *lease;
    hf_error err;
    uint64_t token;
    int64_t stock;
    void *bytes;
    size_t len;
    char text[32];
    hf_status status;

    /* clang-format off */
    /* shown: zookeeper-pause-ours */
    do {
        note(me, EV_ASK);
        must(me, hf_acquire(locks, &request, &lease, &err), &err); /* 1: in ZooKeeper */
        token = hf_lease_token(lease); /* the transaction that made our node: czxid */
        note_got(me, token);
        must(me, hf_guard_claim(goods, "stock", HF_CSTRING, token, &bytes, &len, &err), &err);
        stock = guard_number(bytes);
        note_claim(me, STOCK_LANE, token, stock);
        note_step(me, me->number == 0 ? 1 : 0, false);
        work(me, 400);
        pause_point(me); /* 2: A stops here, once */
        len = guard_text(text, stock - 1);
        status = hf_guard_set(goods, "stock", HF_CSTRING, token, text, len, &err); /* 5! in Redis */
        note_outcome(me, status, token, stock - 1);
        note(me, EV_LET);
        hf_release(lease, &err);
    } while (status == HF_FENCED); /* A has slept too long: again, with a new lease */
    /* shown end */
    /* clang-format on */
    must(me, status, &err);
    note(me, EV_DONE);
    ours_close(me, locks);
    ours_close(me, goods);
}

static int observe_lock(struct actor *me, uint64_t *ret_token)
{
    return ours_observe(me, ensemble_url(zookeeper, OUR_SESSION), ret_token);
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
    play(stage, sell, observe_lock);
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
    { LANE_SERVER, PHRASE("ZooKeeper", "ZooKeeper"), PHRASE("lock", "锁") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("Redis", "Redis"), PHRASE("stock", "库存") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("an ephemeral node, nothing else", "只有临时节点"),
        .lapse = PHRASE("session expires", "会话过期"),
        .breaks = true,
        .shown = "zookeeper-pause-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("With fencing", "使用围栏令牌"),
        .note = PHRASE("the token is the node's czxid, the resource checks it",
                       "令牌是节点的 czxid，资源会检查它"),
        .lapse = PHRASE("session expires", "会话过期"),
        .ours = true,
        .shown = "zookeeper-pause-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_zookeeper_pause = {
    .id = "zookeeper-pause",
    .title = PHRASE("ZooKeeper: the session of a paused holder expires",
                    "ZooKeeper：持有者暂停，会话过期"),
    .setting = PHRASE("session 3s, SIGSTOP until B is done, two clients sell one piece each from a stock of 20",
                      "会话超时 3s，A 被 SIGSTOP 直到 B 完成，两个客户端各卖出 1 件，库存 20"),
    .needs = NEED_REDIS | NEED_ZOOKEEPER,
    .own_servers = true,
    .steps = {
        PHRASE("A creates the node and reads the stock.", "A 创建节点，读取库存。"),
        PHRASE("A is paused, and sends no pings.", "A 被暂停，不再发送心跳。"),
        PHRASE("Its session expires, the node vanishes, B gets in.", "会话过期，节点消失，B 拿到锁。"),
        PHRASE("B reads, sells, writes, releases.", "B 读取、卖出、写回、释放锁。"),
        PHRASE("A wakes up and writes what it worked out before.", "A 醒来，写入之前算好的值。"),
    },
    .why = PHRASE("ZooKeeper knows that the session is over, but the process that was paused does not, and the resource does not ask ZooKeeper. The number of the transaction that made the node only grows; a resource that keeps the largest one it has seen refuses the late write.",
                  "ZooKeeper 知道会话已过期，被暂停的进程却不知道，资源也不会去问 ZooKeeper。创建节点的事务编号只增不减，用它做围栏令牌；资源记住见过的最大令牌，就能拒绝迟到的写入。"),
    .ways = ways,
    .open = open_both,
    .close = close_both,
};
