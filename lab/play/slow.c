/* SPDX-License-Identifier: MIT */
/* A holder is slower than its lock lasts. Then it releases, and what it deletes is the lock of somebody else. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#include <stdlib.h>

#define TTL_MS   1000
#define LATER_MS 200 /* B comes after A */

enum { A, SERVER, B, C };
enum { SIGNAL_DONE = 1 }; /* + lane: its work has come to its end */

/* How long the work of A and B lasts is the director's choice: so it does not depend on the speed of this machine. */
static void slow_work(struct actor *me)
{
    if (me->lane == C)
        work(me, 800);
    else
        await_signal(me, SIGNAL_DONE + me->lane);
}

static void begin(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, LATER_MS); /* so that the picture shows one after the other */
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
}

static void start_third(struct stage *stage, actor_fn *fn)
{
    stage_sleep(stage, 200);
    stage_start(stage, C, fn, NULL);
    stage_await(stage, C, EV_ASK, 1);
    stage_sleep(stage, 300);
}

/* Its lane has released when it notes DONE. */
static void finish(struct stage *stage, int lane)
{
    stage_signal(stage, SIGNAL_DONE + lane);
    stage_await(stage, lane, EV_DONE, 1);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void use_naively(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: slow-naive */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 200);
    note_got(me, 0);
    slow_work(me); /* 2: the lock expires meanwhile */
    note_step(me, me->lane == A ? 3 : 0, true);
    note(me, EV_LET);
    redis_do(me, "DEL {lock}"); /* 3! whose lock is it? */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    begin(stage, use_naively, observe_key);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, SERVER, 2, true);
    start_third(stage, use_naively);
    finish(stage, A);
    stage_await(stage, C, EV_GOT, 1);
    stage_step(stage, C, 4, true);
    stage_sleep(stage, 500);
    finish(stage, B);
    stage_join(stage, -1);
}

/* ---- compare and delete --------------------------------------------------------------------------------- */

/* clang-format off */
#define COMPARE_AND_DELETE                              \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "    \
    "    return redis.call('DEL', KEYS[1]) "            \
    "end "                                              \
    "return 0"
/* clang-format on */

static void use_comparing(struct actor *me)
{
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: slow-compare */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 200);
    note_got(me, 0);
    slow_work(me); /* 2! the lock expires meanwhile, and nobody tells */
    note_step(me, me->lane == A ? 3 : me->lane == C ? 4 : 0, false);
    note(me, EV_LET);
    /* if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end */
    redis_do(me, "EVAL %s 1 {lock} %s", COMPARE_AND_DELETE, me->id); /* 3: our own, or nothing */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_compare(struct stage *stage)
{
    begin(stage, use_comparing, observe_key);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, SERVER, 2, true);
    start_third(stage, use_comparing);
    finish(stage, A);
    stage_sleep(stage, 300);
    finish(stage, B);
    stage_await(stage, C, EV_GOT, 1);
    stage_step(stage, C, 4, false);
    stage_join(stage, -1);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void use(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: slow-ours */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1: the library renews it */
    note_got(me, hf_lease_token(lease));
    slow_work(me); /* 2: longer than the ttl; the lease lasts */
    note_step(me, me->lane == A ? 3 : 0, false);
    note(me, EV_LET);
    hf_release(lease, &err); /* 3! ends this lease and no other; too late: HF_LOST */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    begin(stage, use, observe_name);
    stage_sleep(stage, TTL_MS - LATER_MS); /* what was the end of the lock in the naive ways */
    stage_step(stage, SERVER, 2, false);
    start_third(stage, use);
    finish(stage, A);
    stage_await(stage, B, EV_GOT, 1);
    stage_sleep(stage, 500);
    finish(stage, B);
    stage_await(stage, C, EV_GOT, 1);
    stage_step(stage, C, 4, false);
    stage_join(stage, -1);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

/* How often a client released, and the server took the lock from another one that still believed to hold it. */
static int count_foreign_deletes(const struct history *history)
{
    bool believes[HISTORY_LANES] = { false };
    int owner = -1, released = -1, found = 0;
    size_t count;
    const struct event **list = history_sorted(history, &count);

    for (size_t i = 0; list && i < count; i++) {
        const struct event *event = list[i];

        if (event->kind == EV_GOT)
            believes[event->lane] = true;
        if (event->kind == EV_LET) {
            believes[event->lane] = false;
            released = owner != event->lane ? event->lane : -1;
        }
        if (event->kind != EV_OWNER)
            continue;
        found += released >= 0 && owner >= 0 && owner != released && believes[owner];
        owner = event->other;
        released = -1;
    }
    free(list);
    return found;
}

/* A client of ours that is told LOST works on here: it does not look. So a lease that ends too early is as bad as two holders. */
static void judge(struct stage *stage, struct verdict *verdict)
{
    unsigned holders = history_holders(stage->history);
    unsigned lost = history_count(stage->history, -1, EV_LOST);
    double seconds = (double)history_overlap_ms(stage->history, 1) / 1000;
    int deleted = count_foreign_deletes(stage->history);

    verdict->broken = holders > 1 || deleted > 0 || lost > 0;
    if (!verdict->broken)
        verdict_say(
            verdict,
            "%u clients held the lock, one after the other; no lock of another was deleted.",
            "%u 个客户端先后持有锁；没有误删别人的锁。", history_count(stage->history, -1, EV_GOT));
    else if (lost > 0)
        verdict_say(verdict, "%u leases ended while their holders worked.",
                    "%u 把锁在业务执行完之前就失效了。", lost);
    else
        verdict_say(verdict,
                    "%u clients believed to hold at once, for %.1fs; locks of others deleted: %d.",
                    "%u 个客户端同时认为自己持有锁，共 %.1fs；误删别人的锁 %d 次。", holders,
                    seconds, deleted);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("slow", "业务慢") },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client C", "客户端 C"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("an expiry, and DEL", "过期时间 + DEL"),
        .breaks = true,
        .shown = "slow-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Compare and delete", "比较后再删除"),
        .note = PHRASE("a script deletes only one's own lock", "Lua 脚本只删自己的锁"),
        .breaks = true,
        .shown = "slow-compare",
        .play = play_compare,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("renewed while held, released by its owner",
                       "持有期间自动续期，只能由持有者释放"),
        .ours = true,
        .shown = "slow-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_slow = {
    .id = "slow",
    .title = PHRASE("A holder is slower than its lock lasts", "业务没执行完，锁先过期了"),
    .setting = PHRASE("ttl 1s, the work of A lasts longer, B and C want the lock",
                      "过期时间 1s，A 的业务耗时更长，B 和 C 等着加锁"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A takes the lock. Its work will last longer than the ttl.", "A 加锁，业务耗时将超过过期时间。"),
        PHRASE("The ttl has passed. Without renewal the lock expires, and B gets it.", "过期时间已到。没有续期，锁就过期，B 拿到锁。"),
        PHRASE("A is done, and releases. A bare DEL deletes the lock of B.", "A 执行完，释放锁。直接 DEL 会误删 B 的锁。"),
        PHRASE("C gets the lock; in the naive way while B is at work.", "C 拿到锁；朴素做法下 B 还在执行。"),
    },
    .why = PHRASE("An expiry ends a lock, but not the work of its holder, and DEL does not ask whose lock it is: one slow client opens the door for all others. Comparing the owner saves the lock of B, but A and B still work at the same time; only renewal keeps the lock as long as the work, and a release that names its own lease ends no other.",
                  "过期时间只能让锁失效，却停不下持有者的业务；DEL 又不问锁是谁的，于是一个慢客户端就会连环误删。释放前比较唯一标识能保住 B 的锁，但 A 和 B 仍在同时执行；只有续期能让锁和业务一样长，而按持有者释放不会动到别人的锁。"),
    .ways = ways,
};
