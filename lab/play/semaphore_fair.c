/* SPDX-License-Identifier: MIT */
/* The fair semaphore: a counter gives the order, but it is taken in one step and used in another. */
#include "../stage/machine.h"
#include "../stage/ours.h"
#include "../stage/redis.h"
#include "../stage/watch.h"

#define PLACES 2
#define TTL_MS 30000

#define UNLOCK \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

enum { A, PLACE_1, PLACE_2, B, C };
enum { OVER = 1 }; /* + lane: the client may leave */

static const struct phrase pushed_out = PHRASE("C is pushed out", "C 被挤掉");
static const struct places naive_places = { "owners", PLACE_1, PLACES, &pushed_out };
static const struct places our_places = { "shop", PLACE_1, PLACES, NULL };

static void use_shop(struct actor *me)
{
    note_step(me,
              me->lane == C   ? 3
              : me->lane == A ? 4
                              : 1,
              me->lane == A && me->stage->way->breaks);
    await_signal(me, OVER + me->lane);
}

static void leave(struct stage *stage, int lane)
{
    stage_sleep(stage, 500); /* so that the picture can be read */
    stage_signal(stage, OVER + lane);
    stage_join(stage, lane);
}

/* B has a place, A is between its two steps, and C comes. */
static void enter(struct stage *stage, actor_fn *fn)
{
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_GOT, 1);
    stage_sleep(stage, 200);
    stage_start(stage, A, fn, NULL);
    stage_await_signal(stage, SIGNAL_AT_PAUSE + A);
    stage_step(stage, A, 2, false);
    stage_sleep(stage, 300);
    stage_start(stage, C, fn, NULL);
}

static void resume(struct stage *stage)
{
    stage_sleep(stage, 400);
    stage_signal(stage, SIGNAL_PAUSE_OVER + A);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* clang-format off */
/* shown: semaphore-fair-naive */
static bool take_place(struct actor *me)
{
    long long now = wall_clock_ms(), ticket;

    redis_do(me, "ZREMRANGEBYSCORE {timeouts} -inf %lld", now - TTL_MS);
    redis_do(me, "ZINTERSTORE {owners} 2 {owners} {timeouts} WEIGHTS 1 0");
    ticket = redis_int(me, "INCR {counter}");                  /* 2 A takes its ticket ... */
    pause_point(me);                                           /* 3 C comes in between */
    redis_do(me, "ZADD {owners} %lld %s", ticket, me->id);     /* 4! ... and is still before C */
    redis_do(me, "ZADD {timeouts} %lld %s", now, me->id);
    if (redis_int(me, "ZRANK {owners} %s", me->id) < PLACES)
        return true;
    redis_do(me, "ZREM {owners} %s", me->id);
    redis_do(me, "ZREM {timeouts} %s", me->id);
    return false;
}
/* shown end */

/* shown: semaphore-fair-locked */
static bool take_place_locked(struct actor *me)
{
    bool taken = false;

    if (redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) {
        taken = take_place(me);                                /* 3! nobody comes in between */
        redis_do(me, "EVAL %s 1 {lock} %s", UNLOCK, me->id);   /* if it is still ours */
    }
    return taken;
}
/* shown end */
/* clang-format on */

static void shop_in_steps(struct actor *me, bool (*take)(struct actor *me))
{
    note(me, EV_ASK);
    while (!take(me))
        again(me, 150);
    note_got(me, 0);
    use_shop(me);
    note(me, EV_LET);
    redis_do(me, "ZREM {owners} %s", me->id);
    redis_do(me, "ZREM {timeouts} %s", me->id);
}

static void shop_naively(struct actor *me)
{
    shop_in_steps(me, take_place);
}

static void shop_locked(struct actor *me)
{
    shop_in_steps(me, take_place_locked);
}

static void play_naive(struct stage *stage)
{
    stage_observe_ranks(stage, &naive_places);
    enter(stage, shop_naively);
    stage_await(stage, C, EV_GOT, 1);
    resume(stage);
    stage_await(stage, A, EV_GOT, 1);
    leave(stage, C);
    leave(stage, B);
    leave(stage, A);
}

static void play_locked(struct stage *stage)
{
    stage_observe_ranks(stage, &naive_places);
    enter(stage, shop_locked);
    stage_await(stage, C, EV_TRY, 1);
    resume(stage);
    stage_await(stage, A, EV_GOT, 1);
    leave(stage, B);
    stage_await(stage, C, EV_GOT, 1);
    leave(stage, A);
    leave(stage, C);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static void shop(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "shop", TTL_MS);
    hf_lease *lease;
    hf_error err;

    pause_point(me); /* there is nothing to come in between */
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: semaphore-fair-ours */
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = PLACES;
    must(me, hf_acquire(store, &request, &lease, &err), &err);  /* 4! one step on the server */
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
    stage_observe_permits(stage, &our_places);
    enter(stage, shop);
    stage_await(stage, C, EV_GOT, 1);
    resume(stage);
    stage_await_queued(stage, A, "shop");
    leave(stage, B);
    stage_await(stage, A, EV_GOT, 1);
    leave(stage, C);
    leave(stage, A);
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
    { LANE_SERVER, PHRASE("semaphore", "信号量"), PHRASE("place 1", "名额 1") },
    { LANE_SERVER, PHRASE("semaphore", "信号量"), PHRASE("place 2", "名额 2") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client C", "客户端 C"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Fair semaphore", "公平信号量"),
        .note = PHRASE("counter, owners, timeouts: three keys, many steps",
                       "计数器、持有者集合、超时集合，分多步执行"),
        .breaks = true,
        .capacity = PLACES,
        .shown = "semaphore-fair-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("With a lock around it", "外面再加一把锁"),
        .note = PHRASE("the seed's remedy: a client at a time", "一次只让一个客户端获取信号量"),
        .capacity = PLACES,
        .shown = "semaphore-fair-locked",
        .play = play_locked,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("one step on the server, in order of arrival", "服务器一步完成，先来先得"),
        .ours = true,
        .capacity = PLACES,
        .shown = "semaphore-fair-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_semaphore_fair = {
    .id = "semaphore-fair",
    .title = PHRASE("The fair semaphore, and the race between its steps", "公平信号量的竞争条件"),
    .setting = PHRASE("a shop with 2 places, three clients; A is slow between taking its ticket and using it",
                      "商店有 2 个名额，三个客户端；A 取号之后、登记之前慢了一步"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("B takes a place. One is left.", "B 占一个名额，还剩一个。"),
        PHRASE("A is on its way: in steps, it has its ticket, and no place yet.",
               "A 正要进入：分步的做法里，它已取号，尚未登记。"),
        PHRASE("C enters.", "C 进入。"),
        PHRASE("A enters: naively beside C, for its ticket is the lower one.",
               "A 进入：朴素做法下它的号更小，与 C 同时占用。"),
    },
    .why = PHRASE("The ticket decides, but it is drawn in one step and written down in another: a client that comes in between sees a free place that is already spoken for. A lock around all steps closes the gap at the price of a second lock; Holdfast does it in one step on the server.",
                  "名次由取到的号决定，但取号和登记是两步：插在中间的客户端看到的空位其实已有人排在前面。外面加锁可以消除竞争，代价是多一把锁；Holdfast 在服务器上一步完成。"),
    .ways = ways,
};
