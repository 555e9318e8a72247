/* SPDX-License-Identifier: MIT */
/* A holder of a semaphore works longer than its place lasts: without a refresh, with the refresh of the seeds, and renewed by our library. */
#include "../stage/machine.h"
#include "../stage/ours.h"
#include "../stage/redis.h"
#include "../stage/watch.h"

#define PLACES     2
#define TTL_MS     2500
#define REFRESH_MS 500

enum { A, B, PLACE_1, PLACE_2, C };
enum { OVER = 1 }; /* + lane: the client may leave */

static const struct phrase timed_out = PHRASE("timed out", "名额超时");
static const struct places naive_places = { "owners", PLACE_1, PLACES, &timed_out };
static const struct places our_places = { "shop", PLACE_1, PLACES, NULL };

/* Work for this time; false: the client has no more to do. */
static bool works(struct actor *me, int64_t ms)
{
    return !history_await_signal(me->stage->history, OVER + me->lane, ms);
}

static void leave(struct stage *stage, int lane)
{
    stage_sleep(stage, 400); /* so that the picture can be read */
    stage_signal(stage, OVER + lane);
    stage_join(stage, lane);
}

static void enter(struct stage *stage, actor_fn *fn)
{
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 150);
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_GOT, 1);
    stage_sleep(stage, 300);
    stage_start(stage, C, fn, NULL);
}

/* A and B keep their places for longer than one lasts; then A leaves. */
static void outlast(struct stage *stage)
{
    stage_sleep(stage, TTL_MS);
    stage_step(stage, A, 2, false);
    leave(stage, A);
    stage_await(stage, C, EV_GOT, 1);
    stage_step(stage, C, 3, false);
    leave(stage, B);
    leave(stage, C);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static bool take_place(struct actor *me)
{
    long long now = wall_clock_ms(), ticket;

    redis_do(me, "ZREMRANGEBYSCORE {timeouts} -inf %lld", now - TTL_MS);
    redis_do(me, "ZINTERSTORE {owners} 2 {owners} {timeouts} WEIGHTS 1 0");
    ticket = redis_int(me, "INCR {counter}");
    redis_do(me, "ZADD {timeouts} %lld %s", now, me->id);
    redis_do(me, "ZADD {owners} %lld %s", ticket, me->id);
    if (redis_int(me, "ZRANK {owners} %s", me->id) < PLACES)
        return true;
    redis_do(me, "ZREM {owners} %s", me->id);
    redis_do(me, "ZREM {timeouts} %s", me->id);
    return false;
}

static void give_place(struct actor *me)
{
    redis_do(me, "ZREM {owners} %s", me->id);
    redis_do(me, "ZREM {timeouts} %s", me->id);
}

static void shop_naively(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: semaphore-refresh-naive */
    while (!take_place(me))      /* counter, owners, timeouts */
        again(me, 300);
    note_got(me, 0);
    while (works(me, 500))       /* 2! longer than the place lasts */
        continue;
    note(me, EV_LET);
    give_place(me);
    /* shown end */
    /* clang-format on */
}

static void shop_refreshing(struct actor *me)
{
    bool lost = false;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: semaphore-refresh-seed */
    while (!take_place(me))
        again(me, 300);
    note_got(me, 0);
    while (!lost && works(me, REFRESH_MS))  /* 2! 0: the place is gone, and we learn it here */
        lost = !redis_int(me, "ZADD {timeouts} XX CH %lld %s", wall_clock_ms(), me->id);
    note(me, lost ? EV_LOST : EV_LET);
    give_place(me);
    /* shown end */
    /* clang-format on */
}

static void play_naive(struct stage *stage)
{
    stage_observe_ranks(stage, &naive_places);
    enter(stage, shop_naively);
    stage_await(stage, C, EV_GOT, 1);
    stage_step(stage, C, 3, true);
    leave(stage, A);
    leave(stage, B);
    leave(stage, C);
}

static void play_refreshing(struct stage *stage)
{
    stage_observe_ranks(stage, &naive_places);
    enter(stage, shop_refreshing);
    stage_await(stage, C, EV_TRY, 1);
    outlast(stage);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static void shop(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "shop", TTL_MS);
    hf_lease *lease;
    hf_error err;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: semaphore-refresh-ours */
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = PLACES;
    must(me, hf_acquire(store, &request, &lease, &err), &err);
    note_got(me, 0);
    while (works(me, 500) && hf_lease_state(lease) != HF_STATE_LOST)  /* 2! it is renewed by itself */
        continue;
    note(me, EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_observe_permits(stage, &our_places);
    enter(stage, shop);
    stage_await_queued(stage, C, "shop");
    outlast(stage);
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
    { LANE_CLIENT, PHRASE("client C", "客户端 C"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Without a refresh", "不刷新"),
        .note = PHRASE("a place with a timeout", "名额只有超时时间"),
        .breaks = true,
        .capacity = PLACES,
        .shown = "semaphore-refresh-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("With a refresh", "刷新信号量"),
        .note =
            PHRASE("the client writes a new time, every 0.5s", "客户端每 0.5s 更新一次超时集合"),
        .capacity = PLACES,
        .shown = "semaphore-refresh-seed",
        .play = play_refreshing,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("the library renews, and tells a loss", "库自动续期（看门狗），丢失时通知"),
        .ours = true,
        .capacity = PLACES,
        .shown = "semaphore-refresh-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_semaphore_refresh = {
    .id = "semaphore-refresh",
    .title = PHRASE("A holder of a semaphore works longer than its place lasts", "信号量：干活的时间超过了超时时间"),
    .setting = PHRASE("a shop with 2 places, timeout 2.5s; A and B work longer than that, C waits",
                      "商店有 2 个名额，超时 2.5s；A 和 B 干活更久，C 在等"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A takes a place, then B.", "A 占一个名额，接着是 B。"),
        PHRASE("The timeout is over; with a refresh, A and B still have their places.",
               "超时时间已过；有刷新时，A 和 B 仍占着名额。"),
        PHRASE("C enters: without a refresh while A still works.", "C 进入：不刷新时，A 还在干活。"),
    },
    .why = PHRASE("A timeout is a guess of how long the work takes, and a holder that is slower is not asked. A refresh moves the end while the holder lives; if it comes too late, it says so, and the holder can stop. Holdfast renews in the background and reports a loss.",
                  "超时时间只是对干活时长的猜测，超过了也没人告诉持有者。刷新让活着的持有者推迟过期；刷新晚了会失败，持有者由此得知名额已丢。Holdfast 在后台自动续期，丢失时发出通知。"),
    .ways = ways,
};
