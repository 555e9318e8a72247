/* SPDX-License-Identifier: MIT */
/* A holder crashes. Who ends its lock? */
#include "../stage/ours.h"
#include "../stage/redis.h"

#define LONG_MS 4000 /* an expiry that is longer than any job */
#define TTL_MS  1000 /* of ours: renewed, so it may be shorter than a job */
#define JOB_MS  1300 /* what A has done of it when it crashes */
#define LOOK_MS 3500 /* how long we look at clients that wait without an end */

enum { A, SERVER, B };

/* A long job for A, which never comes to its end; a short one for B. */
static void job(struct actor *me)
{
    if (me->lane == A)
        await_signal(me, -1);
    else
        work(me, 600);
}

static void play(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 300); /* so that the picture shows one after the other */
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
    stage_step(stage, B, 2, false);
    stage_sleep(stage, JOB_MS - 300);
    stage_kill(stage, A);
    stage_step(stage, A, 3, false);
}

static void second_gets_it(struct stage *stage)
{
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 4, false);
    stage_join(stage, B);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void run_naively(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: crash-naive */
    while (!redis_ok(me, "SETNX {lock} %s", me->id)) /* 1 */
        again(me, 250); /* 2: B */
    note_got(me, 0);
    job(me); /* 3: A crashes */
    note(me, EV_LET);
    redis_do(me, "DEL {lock}"); /* 4! nobody else will do it */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    play(stage, run_naively, observe_key);
    stage_sleep(stage, LOOK_MS); /* B tries on: the play ends without it */
    stage_step(stage, B, 4, true);
}

/* ---- an expiry that is long enough ----------------------------------------------------------------------- */

static void run_with_expiry(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: crash-expiry */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, LONG_MS)) /* 1 */
        again(me, 250); /* 2: B */
    note_got(me, 0);
    job(me); /* 3: A crashes */
    note(me, EV_LET);
    redis_do(me, "DEL {lock}"); /* 4: or LONG_MS is over */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_expiry(struct stage *stage)
{
    play(stage, run_with_expiry, observe_key);
    second_gets_it(stage);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void run(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: crash-ours */
    request.ttl_ms = TTL_MS; /* renewed as long as we live */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1 */
    note_got(me, hf_lease_token(lease));
    job(me); /* 3! A crashes: nobody renews its lease any more */
    note(me, EV_LET);
    hf_release(lease, &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    play(stage, run, observe_name);
    second_gets_it(stage);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    const struct history *history = stage->history;
    int64_t crashed_ms = history_first_ms(history, A, EV_KILLED);
    int64_t got_ms = history_first_ms(history, B, EV_GOT);

    verdict->broken = got_ms < 0 || got_ms < crashed_ms;
    if (got_ms < 0)
        verdict_say(verdict,
                    "A is dead, and %.1fs later the lock is still its own: B has tried %u times.",
                    "A 崩溃 %.1fs 后，锁仍归它所有：B 重试 %u 次都失败。", (double)LOOK_MS / 1000,
                    history_count(history, B, EV_TRY));
    else if (verdict->broken)
        verdict_say(verdict, "B got the lock at %.1fs, while A held it.",
                    "A 还持有锁，B 就在 %.1fs 时拿到了锁。", (double)got_ms / 1000);
    else
        verdict_say(verdict, "B got the lock %.1fs after the crash of A.",
                    "A 崩溃 %.1fs 后，B 拿到锁。", (double)(got_ms - crashed_ms) / 1000);
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
        .note = PHRASE("SETNX, without an expiry", "SETNX，没有过期时间"),
        .breaks = true,
        .shown = "crash-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("A long expiry", "过期时间设得很长"),
        .note = PHRASE("longer than any job, so all wait for it", "比任何业务都长，别人只能白等"),
        .shown = "crash-expiry",
        .play = play_expiry,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("a short lease, renewed while its holder lives", "过期时间短，活着就续期"),
        .ours = true,
        .shown = "crash-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_crash = {
    .id = "crash",
    .title = PHRASE("The holder of a lock crashes", "持有锁的客户端崩溃"),
    .setting = PHRASE("A is killed 1.3s into its job; expiry: none, 4s, 1s and renewed",
                      "A 执行 1.3s 后被杀死；过期时间：无、4s、1s 并续期"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A takes the lock and begins a long job.", "A 加锁，开始执行很长的业务。"),
        PHRASE("B wants the lock.", "B 请求加锁。"),
        PHRASE("A crashes: it will never release.", "A 崩溃，再也不会释放锁。"),
        PHRASE("B gets the lock; in the naive way never.", "B 拿到锁；朴素做法下永远拿不到。"),
    },
    .why = PHRASE("A lock without an expiry outlives its holder for ever; an expiry that is longer than every job makes all others wait that long after a crash. A short lease that its holder renews ends soon after the holder, however long the job is.",
                  "没有过期时间，持有者崩溃后锁永远不会释放；过期时间比所有业务都长，崩溃后别人就要白等那么久。过期时间短、由持有者不断续期，那么无论业务多长，持有者崩溃后锁很快就会释放。"),
    .ways = ways,
};
