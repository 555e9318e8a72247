/* SPDX-License-Identifier: MIT */
/* A counting semaphore by timestamps, and a machine whose clock is behind: its entry sorts before those of the holders. */
#include "../stage/machine.h"
#include "../stage/ours.h"
#include "../stage/redis.h"
#include "../stage/watch.h"

#define PLACES   2
#define TTL_MS   30000
#define BEHIND_S 10

enum { A, B, PLACE_1, PLACE_2, C };
enum { OVER = 1 }; /* + lane: the client may leave */

static const struct phrase slow_clock = PHRASE("its clock is 10s behind", "这台机器的时钟慢 10s");
static const struct phrase stolen = PHRASE("B's place is stolen", "B 的名额被偷走");
static const struct places places = { "shop", PLACE_1, PLACES, &stolen };

/* A client of the shop stays until the director lets it go. */
static void use_shop(struct actor *me)
{
    note_step(me, me->lane == C ? 3 : me->lane == A ? 1 : 0, false);
    await_signal(me, OVER + me->lane);
}

static void set_clock(struct actor *me)
{
    if (me->lane != C)
        return;
    machine_clock_s(-BEHIND_S);
    note_text(me, &slow_clock);
    note_step(me, 2, false);
}

/* A and B have the two places when C comes. */
static void enter(struct stage *stage, actor_fn *fn)
{
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_sleep(stage, 300); /* so that the picture can be read */
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_GOT, 1);
    stage_sleep(stage, 500);
    stage_start(stage, C, fn, NULL);
}

static void leave(struct stage *stage, int lane)
{
    stage_sleep(stage, 700);
    stage_signal(stage, OVER + lane);
    stage_join(stage, lane);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* clang-format off */
/* shown: semaphore-clock-naive */
static bool take_place(struct actor *me)
{
    long long now = wall_clock_ms();                        /* 2 of this machine */

    redis_do(me, "ZREMRANGEBYSCORE {shop} -inf %lld", now - TTL_MS);
    redis_do(me, "ZADD {shop} %lld %s", now, me->id);
    if (redis_int(me, "ZRANK {shop} %s", me->id) < PLACES)  /* 3! the earliest ones win */
        return true;
    redis_do(me, "ZREM {shop} %s", me->id);
    return false;
}
/* shown end */
/* clang-format on */

static void shop_naively(struct actor *me)
{
    set_clock(me);
    note(me, EV_ASK);
    while (!take_place(me))
        again(me, 200);
    note_got(me, 0);
    use_shop(me);
    note(me, EV_LET);
    redis_do(me, "ZREM {shop} %s", me->id);
}

static void play_naive(struct stage *stage)
{
    stage_observe_ranks(stage, &places);
    enter(stage, shop_naively);
    stage_await(stage, C, EV_GOT, 1);
    stage_sleep(stage, 400);
    stage_step(stage, B, 4, true);
    leave(stage, B);
    leave(stage, A);
    leave(stage, C);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static void shop(struct actor *me)
{
    hf_store *store;
    hf_acquire_request request = ours_request(me, "shop", TTL_MS);
    hf_lease *lease;
    hf_error err;

    set_clock(me);
    store = ours_open(me);
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: semaphore-clock-ours */
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = PLACES;
    must(me, hf_acquire(store, &request, &lease, &err), &err);  /* 3! only the server's clock counts */
    note_got(me, 0);
    use_shop(me);
    note(me, EV_LET);
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_observe_permits(stage, &places);
    enter(stage, shop);
    stage_await_queued(stage, C, "shop");
    leave(stage, A);
    stage_await(stage, C, EV_GOT, 1);
    leave(stage, B);
    leave(stage, C);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    unsigned holders = history_holders(stage->history);
    long long over_ms = (long long)history_overlap_ms(stage->history, PLACES);

    verdict->broken = holders > PLACES;
    if (verdict->broken)
        verdict_say(verdict, "%d places, but %u clients were in the shop at once, for %.1fs.",
                    "名额只有 %d 个，却有 %u 个客户端同时在商店里，持续 %.1fs。", PLACES, holders,
                    (double)over_ms / 1000);
    else
        verdict_say(verdict, "%d places, and never more than %u clients in the shop.",
                    "名额 %d 个，商店里同时最多 %u 个客户端。", PLACES, holders);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("semaphore", "信号量"), PHRASE("place 1", "名额 1") },
    { LANE_SERVER, PHRASE("semaphore", "信号量"), PHRASE("place 2", "名额 2") },
    { LANE_CLIENT, PHRASE("client C", "客户端 C"), PHRASE("clock 10s behind", "时钟慢 10s") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("a sorted set with each client's own time as score",
                       "有序集合，分值是各客户端自己的时间戳"),
        .breaks = true,
        .capacity = PLACES,
        .shown = "semaphore-clock-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("the server keeps the queue, by its own clock",
                       "由服务器排队，只看服务器的时钟"),
        .ours = true,
        .capacity = PLACES,
        .shown = "semaphore-clock-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_semaphore_clock = {
    .id = "semaphore-clock",
    .title = PHRASE("A semaphore by timestamps, and a clock that is behind",
                    "用时间戳做计数信号量，遇上慢时钟"),
    .setting = PHRASE("a shop with 2 places, timeout 30s, three clients; the clock of C is 10s behind",
                      "商店有 2 个名额，超时 30s，三个客户端；C 的时钟慢 10s"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A and B take the two places.", "A 和 B 占满两个名额。"),
        PHRASE("C comes. Its machine's clock is behind.", "C 到来，它的机器时钟偏慢。"),
        PHRASE("C enters: naively at once, with Holdfast when a place is free.",
               "C 进入：朴素做法立刻成功；Holdfast 等到有名额才放行。"),
        PHRASE("B works on, and does not know that its place is gone.", "B 继续工作，不知道名额已被偷走。"),
    },
    .why = PHRASE("The earliest timestamps win, and each machine writes its own time: a clock that is behind sorts before holders that came long ago. Holdfast never compares clients' clocks: one step on the server counts the holders, and a lease ends by the server's clock.",
                  "排名靠前者得到名额，而时间戳由各台机器自己写：时钟慢的机器总排在早已持有的客户端前面。Holdfast 不比较客户端的时钟：持有者由服务器一步数清，租约也按服务器的时钟到期。"),
    .ways = ways,
};
