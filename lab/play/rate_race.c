/* SPDX-License-Identifier: MIT */
/* A rate limit by GET and then INCR: another client comes in between. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#define LIMIT     5
#define BEFORE    4 /* calls that were let in before the play: one is left */
#define WINDOW_MS 60000

enum { A, COUNTER, B };

/* A comes to its pause, B makes its call, then A goes on. */
static void play(struct stage *stage, actor_fn *visit)
{
    stage_value(stage, COUNTER, BEFORE);
    stage_start(stage, A, visit, NULL);
    stage_await_signal(stage, SIGNAL_AT_PAUSE + A);
    stage_sleep(stage, 300); /* so that the picture can be read */
    stage_start(stage, B, visit, NULL);
    stage_join(stage, B);
    stage_sleep(stage, 300);
    stage_signal(stage, SIGNAL_PAUSE_OVER + A);
    stage_join(stage, A);
    stage_sleep(stage, 200);
}

/* `visits`: as the counter says after this call; 0: refused. */
static void note_answer(struct actor *me, int64_t visits)
{
    static const struct phrase in = PHRASE("let in", "放行"), out = PHRASE("refused", "拒绝"),
                               too_many = PHRASE("let in: one too many", "放行：超限");
    bool bad = visits > LIMIT;

    note_event(me, (struct event){ .kind = visits ? EV_WRITE : EV_REFUSED,
                                   .other = COUNTER,
                                   .value = visits,
                                   .text = !visits ? &out
                                           : bad   ? &too_many
                                                   : &in,
                                   .bad = bad });
    note_step(me, me->number == 0 ? 3 : 2, bad);
    if (visits)
        note(me, EV_DONE);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* clang-format off */
/* shown: rate-race-naive */
static int64_t visit_in_two_steps(struct actor *me)
{
    int64_t visits = redis_int(me, "GET {visits}");    /* 1 */

    note_read(me, COUNTER, visits);
    note_step(me, me->number == 0 ? 1 : 0, false);
    if (visits >= LIMIT)
        return 0;
    pause_point(me);                                   /* 2: B comes in between */
    return redis_int(me, "INCR {visits}");             /* 3! what was read is old */
}
/* shown end */

/* shown: rate-race-script */
static const char script[] =
    "local visits = redis.call('INCR', KEYS[1]) "      /* 3! count and compare in one step */
    "if visits == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end "
    "if visits > tonumber(ARGV[2]) then return 0 end "
    "return visits";

static int64_t visit_by_script(struct actor *me)
{
    return redis_int(me, "EVAL %s 1 {visits} %d %d", script, WINDOW_MS, LIMIT);
}
/* shown end */
/* clang-format on */

static void naive(struct actor *me)
{
    note_answer(me, visit_in_two_steps(me));
}

static void scripted(struct actor *me)
{
    note_step(me, me->number == 0 ? 1 : 0, false);
    pause_point(me);
    note_answer(me, visit_by_script(me));
}

static void play_naive(struct stage *stage)
{
    stage_redis(stage, "SET {visits} %d PX %d", BEFORE, WINDOW_MS);
    play(stage, naive);
}

static void play_script(struct stage *stage)
{
    stage_redis(stage, "SET {visits} %d PX %d", BEFORE, WINDOW_MS);
    play(stage, scripted);
}

/* ---- ours --------------------------------------------------------------------------------------------- */

static hf_limit_request the_limit(void)
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;

    limit.name = "visits";
    limit.name_len = HF_CSTRING;
    limit.algorithm = HF_LIMIT_ALGORITHM_SLIDING;
    limit.rate = LIMIT;
    limit.per_ms = WINDOW_MS;
    return limit;
}

static void visit(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_limit_request limit = the_limit();
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    hf_error err;
    hf_status status;

    note_step(me, me->number == 0 ? 1 : 0, false);
    pause_point(me);
    /* clang-format off */
    /* shown: rate-race-ours */
    limit.rate = LIMIT;
    limit.per_ms = WINDOW_MS;
    status = hf_limit_take(store, &limit, &result, &err);  /* 3! one step; HF_BUSY: refused */
    /* shown end */
    /* clang-format on */
    if (status != HF_BUSY)
        must(me, status, &err);
    note_answer(me, status == HF_OK ? LIMIT - (int64_t)result.left : 0);
    ours_close(me, store);
}

static void use_up(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_limit_request limit = the_limit();
    hf_error err;

    limit.permits = BEFORE;
    must(me, hf_limit_take(store, &limit, NULL, &err), &err);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_do(stage, use_up);
    play(stage, visit);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    int let_in = BEFORE + (int)history_count(stage->history, -1, EV_DONE);

    verdict->broken = let_in > LIMIT;
    if (verdict->broken)
        verdict_say(verdict, "The limit is %d, but %d calls were let in.",
                    "上限 %d 次，却放行了 %d 次。", LIMIT, let_in);
    else
        verdict_say(verdict, "The limit is %d, and %d calls were let in.",
                    "上限 %d 次，放行了 %d 次。", LIMIT, let_in);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("counter", "计数器"), PHRASE("limit 5", "上限 5") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("GET, then INCR", "先 GET 再 INCR"),
        .note = PHRASE("two steps", "两步"),
        .breaks = true,
        .shown = "rate-race-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("A script", "Lua 脚本"),
        .note = PHRASE("INCR first, in one step", "先 INCR，一步完成"),
        .shown = "rate-race-script",
        .play = play_script,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("hf_limit_take()", "hf_limit_take()"),
        .ours = true,
        .shown = "rate-race-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_rate_race = {
    .id = "rate-race",
    .title = PHRASE("A rate limit in two steps", "限流：先读后加的竞争"),
    .setting = PHRASE("at most 5 calls a minute, 4 were let in; two clients call at the same time",
                      "每分钟最多 5 次，已放行 4 次；两个客户端同时调用"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A is about to call; in two steps, it has read the counter.", "A 准备调用；两步的做法里，它已读过计数器。"),
        PHRASE("B calls, and is the fifth.", "B 调用，成为第 5 次。"),
        PHRASE("A goes on.", "A 继续。"),
    },
    .why = PHRASE("Between the look at the counter and the step that raises it another client fits, and both see the last free place. A script, or hf_limit_take(), counts and decides in one step on the server.",
                  "读计数器和加一之间，别的客户端可以插进来，两者都以为还剩最后一次。脚本或 hf_limit_take() 在服务器上一步完成计数和判断。"),
    .ways = ways,
};
