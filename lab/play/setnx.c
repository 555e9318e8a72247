/* SPDX-License-Identifier: MIT */
/* SETNX and EXPIRE are two commands, and something can happen in between: a crash, or a pause. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#define TTL_S  1
#define TTL_MS 1000

enum { A, SERVER, B };
enum { SIGNAL_DONE = 1 }; /* B has worked enough */

/* B works until the director has seen what it wants to show. */
static void use_it(struct actor *me)
{
    if (me->lane == B)
        await_signal(me, SIGNAL_DONE);
    else
        work(me, 400);
}

static void begin(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 200); /* so that the picture shows one after the other */
}

/* A is at its pause_point(), or just before it, and cannot come past it. */
static void crash(struct stage *stage)
{
    stage_kill(stage, A);
    stage_step(stage, A, 2, false);
    stage_sleep(stage, 200);
}

static void start_second(struct stage *stage, actor_fn *fn)
{
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
}

static void second_gets_it(struct stage *stage)
{
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 4, false);
    stage_sleep(stage, 400);
}

static void second_ends(struct stage *stage)
{
    stage_signal(stage, SIGNAL_DONE);
    stage_join(stage, B);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void take_in_two_steps(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: setnx-naive */
    while (!redis_ok(me, "SETNX {lock} %s", me->id)) /* 1: no expiry yet */
        again(me, 250);
    note_got(me, 0);
    pause_point(me); /* 2! A crashes here */
    redis_do(me, "EXPIRE {lock} %d", TTL_S);
    use_it(me);
    note(me, EV_LET);
    redis_do(me, "DEL {lock}");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    begin(stage, take_in_two_steps, observe_key);
    crash(stage);
    start_second(stage, take_in_two_steps);
    stage_sleep(stage, 3 * TTL_MS); /* B tries on: the play ends without it */
    stage_step(stage, B, 4, true);
}

/* ---- the repair: whoever finds a lock without an expiry sets one --------------------------------------- */

static void take_and_repair(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: setnx-repair */
    while (!redis_ok(me, "SETNX {lock} %s", me->id)) { /* 1 */
        if (redis_int(me, "TTL {lock}") == -1) {
            redis_do(me, "EXPIRE {lock} %d", TTL_S); /* 3! has its holder crashed? */
            note_step(me, 3, false);
        }
        again(me, 250);
    }
    note_got(me, 0);
    pause_point(me); /* 2: A stops here */
    redis_do(me, "EXPIRE {lock} %d", TTL_S); /* 5: whose lock is it now? */
    note_step(me, me->lane == A ? 5 : 0, true);
    use_it(me);
    note(me, EV_LET);
    redis_do(me, "DEL {lock}");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_repair(struct stage *stage)
{
    begin(stage, take_and_repair, observe_key);
    crash(stage);
    start_second(stage, take_and_repair);
    second_gets_it(stage);
    second_ends(stage);
}

/* The same code; but A has not crashed. It is only slow. */
static void play_slow_repair(struct stage *stage)
{
    begin(stage, take_and_repair, observe_key);
    stage_pause_at(stage, A);
    stage_step(stage, A, 2, false);
    stage_sleep(stage, 200);
    start_second(stage, take_and_repair);
    second_gets_it(stage);
    stage_resume(stage, A);
    stage_join(stage, A);
    second_ends(stage);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void take(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: setnx-ours */
    request.ttl_ms = TTL_MS; /* part of the grant */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1! in one step */
    note_got(me, hf_lease_token(lease));
    pause_point(me); /* 2: A crashes here */
    use_it(me);
    note(me, EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    begin(stage, take, observe_name);
    crash(stage);
    start_second(stage, take);
    second_gets_it(stage);
    second_ends(stage);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    const struct history *history = stage->history;
    int64_t asked_ms = history_first_ms(history, B, EV_ASK);
    int64_t got_ms = history_first_ms(history, B, EV_GOT);
    unsigned holders = history_holders(history);

    verdict->broken = got_ms < 0 || holders > 1;
    if (got_ms < 0)
        verdict_say(verdict,
                    "B tried %u times in %ds and did not get the lock: it has no expiry, and "
                    "nobody deletes it.",
                    "B 重试 %u 次、等了 %ds 也没拿到锁：锁没有过期时间，也没有人会删除它。",
                    history_count(history, B, EV_TRY), 3 * TTL_S);
    else if (holders > 1)
        verdict_say(verdict, "%u clients believed to hold at once, for %.1fs: A was only slow.",
                    "%u 个客户端同时认为自己持有锁，共 %.1fs：A 只是慢，并没有崩溃。", holders,
                    (double)history_overlap_ms(history, 1) / 1000);
    else
        verdict_say(verdict, "B got the lock after %.1fs.", "B 等待 %.1fs 后拿到锁。",
                    (double)(got_ms - asked_ms) / 1000);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note =
            PHRASE("SETNX, then EXPIRE; A crashes in between", "先 SETNX 再 EXPIRE，A 在中间崩溃"),
        .breaks = true,
        .shown = "setnx-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Repaired", "补设过期时间"),
        .note = PHRASE("B sets the expiry that is missing", "B 发现锁没有过期时间，就补上"),
        .shown = "setnx-repair",
        .play = play_repair,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Repaired, but A lives", "补设了，但 A 没有崩溃"),
        .note = PHRASE("the same code; A is only paused", "同样的代码，A 只是停顿"),
        .breaks = true,
        .shown = "setnx-repair",
        .play = play_slow_repair,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("lock and expiry in one step", "加锁与过期时间是一个原子操作"),
        .ours = true,
        .shown = "setnx-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_setnx = {
    .id = "setnx",
    .title = PHRASE("A crash between SETNX and EXPIRE", "SETNX 与 EXPIRE 之间崩溃"),
    .setting = PHRASE("expiry 1s, A stops between its two commands, B wants the lock",
                      "过期时间 1s，A 停在两条命令之间，B 等着加锁"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A sets the lock.", "A 加锁。"),
        PHRASE("A crashes, or pauses, before the next command.", "A 在下一条命令之前崩溃（或停顿）。"),
        PHRASE("Repair: B finds a lock without an expiry and sets one.", "补救：B 发现锁没有过期时间，补上一个。"),
        PHRASE("B gets the lock; in the naive way never.", "B 拿到锁；朴素做法下永远拿不到。"),
        PHRASE("A wakes up, and goes on as a holder.", "A 醒来，以为自己仍持有锁。"),
    },
    .why = PHRASE("Two commands are not one: a crash in between leaves a lock that nothing ends. The repair cannot tell a crashed holder from a slow one; a lock that has its expiry from the first moment needs no repair.",
                  "两条命令不是原子操作：中间崩溃，就会留下一把永不过期的锁。补设过期时间分不清持有者是崩溃了还是只是慢；加锁的同时就带上过期时间，就无需补救。"),
    .ways = ways,
};
