/* SPDX-License-Identifier: MIT */
/* order() takes a lock and calls pay(), which takes the same lock: the lock must know its holder, and count. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#include <stdlib.h>
#include <string.h>

#define TTL_MS  1200
#define LOOK_MS 3000 /* how long we look at clients that wait without an end */

enum { A, SERVER, B };
enum {
    SIGNAL_PREPARED = 1, /* + lane */
    SIGNAL_COUNT = 100   /* + what is counted in pay(), and after it */
};

/* clang-format off */
#define DELETE_OWN \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
#define RENEW_OWN \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
/* clang-format on */

/* What order() does before it calls pay(); the director says how long. */
static void prepare(struct actor *me)
{
    await_signal(me, SIGNAL_PREPARED + me->lane);
}

/* What pay() does, and order() after it; B is quicker. */
static void charge(struct actor *me)
{
    work(me, me->lane == A ? 400 : 150);
}

static void ship(struct actor *me)
{
    work(me, me->lane == A ? 250 : 50);
}

static void begin(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 300); /* so that the picture shows one after the other */
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
    stage_step(stage, B, 2, false);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

static void unlock_plain(struct actor *me)
{
    redis_do(me, "EVAL %s 1 {lock} %s", DELETE_OWN, me->id);
}

/* clang-format off */
/* shown: reentrant-naive */
static void lock_plain(struct actor *me)
{
    note(me, EV_ASK);
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) { /* 3! it waits for itself */
        redis_do(me, "EVAL %s 1 {lock} %s %d", RENEW_OWN, me->id, TTL_MS); /* the watchdog */
        again(me, 250);
    }
    note_got(me, 0);
}
/* shown end */
/* clang-format on */

static void order_naively(struct actor *me)
{
    /* clang-format off */
    /* shown: reentrant-naive */
    lock_plain(me); /* 1 */
    prepare(me);
    note_step(me, me->lane == A ? 3 : 0, true);
    lock_plain(me); /* 3: in pay() */
    charge(me);
    unlock_plain(me);
    ship(me);
    note(me, EV_LET);
    unlock_plain(me);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    begin(stage, order_naively, observe_key);
    stage_sleep(stage, 300);
    stage_signal(stage, SIGNAL_PREPARED + A);
    stage_sleep(stage, LOOK_MS); /* they wait on: the play ends without them */
}

/* ---- counted in the thread ---------------------------------------------------------------------------------- */

/* clang-format off */
/* shown: reentrant-local */
static _Thread_local int count; /* of the lock, in this thread */

static void lock_counted(struct actor *me)
{
    if (count++ > 0)
        return; /* 3! we have it: does the server say so too? */
    note(me, EV_ASK);
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 250);
    note_got(me, 0);
}

static void unlock_counted(struct actor *me)
{
    if (--count == 0)
        redis_do(me, "EVAL %s 1 {lock} %s", DELETE_OWN, me->id);
}
/* shown end */
/* clang-format on */

static void order_counting(struct actor *me)
{
    lock_counted(me);
    prepare(me);
    note_step(me, me->lane == A ? 3 : 0, true);
    lock_counted(me); /* pay() */
    charge(me);
    unlock_counted(me);
    note_step(me, me->lane == A ? 4 : 0, false);
    ship(me);
    note_step(me, me->lane == A ? 5 : 0, false);
    note(me, EV_LET);
    unlock_counted(me);
    note(me, EV_DONE);
}

/* order() of A is slow: B has the lock before pay() begins. */
static void play_local(struct stage *stage)
{
    begin(stage, order_counting, observe_key);
    stage_await(stage, B, EV_GOT, 1);
    stage_sleep(stage, 200);
    stage_signal(stage, SIGNAL_PREPARED + A);
    stage_await(stage, A, EV_DONE, 1);
    stage_signal(stage, SIGNAL_PREPARED + B);
    stage_join(stage, -1);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void note_count(struct actor *me, int64_t number)
{
    static const struct phrase counts[] = { PHRASE("count 0", "计数 0"),
                                            PHRASE("count 1", "计数 1"),
                                            PHRASE("count 2", "计数 2") };

    if (me->lane == A && number >= 0 && number <= 2) {
        note_text(me, &counts[number]);
        note_signal(me, SIGNAL_COUNT + number);
    }
}

static int64_t holds_of(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    return hf_lease_get(lease, &info) == HF_OK ? (int64_t)info.holds : -1;
}

static void order(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease, *again;
    hf_error err;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: reentrant-ours */
    request.flags = HF_FLAG_REENTRANT;
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1 */
    note_got(me, hf_lease_token(lease));
    prepare(me); /* longer than the ttl: the library renews */
    must(me, hf_acquire(store, &request, &again, &err), &err); /* 3! pay(): the same lease, count 2 */
    note_step(me, me->lane == A ? 3 : 0, false);
    note_count(me, holds_of(lease));
    charge(me);
    hf_release(again, &err); /* 4: count 1 */
    note_step(me, me->lane == A ? 4 : 0, false);
    note_count(me, holds_of(lease));
    ship(me);
    note_step(me, me->lane == A ? 5 : 0, false);
    note(me, EV_LET);
    hf_release(lease, &err); /* 5: given back */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_slow_order(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    begin(stage, fn, observe);
    stage_sleep(stage, TTL_MS + 200); /* B would have it now, if nobody renewed */
    stage_signal(stage, SIGNAL_PREPARED + A);
    stage_await(stage, B, EV_GOT, 1);
    stage_signal(stage, SIGNAL_PREPARED + B);
    stage_join(stage, -1);
}

static void play_ours(struct stage *stage)
{
    play_slow_order(stage, order, observe_name);
}

/* ---- ours, counted in the store as Redisson does --------------------------------------------------------------- */

/* The lock is a hash {owner: count}. The owner is an id of our library's: each client says here which is its own. */
struct owners {
    char of[B + 1][64];
};

/* The count, and our own id while we hold it. */
static int64_t read_hash(struct actor *me)
{
    struct owners *owners = me->stage->shared;
    redisReply *reply = redis_ask(me, "HGETALL {lock}");
    int64_t number = 0;

    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2) {
        snprintf(owners->of[me->lane], sizeof owners->of[0], "%s", reply->element[0]->str);
        number = strtoll(reply->element[1]->str, NULL, 10);
    }
    freeReplyObject(reply);
    return number;
}

static int observe_hash(struct actor *me, uint64_t *ret_token)
{
    const struct owners *owners = me->stage->shared;
    redisReply *reply = redis_try(me, "HKEYS {lock}");
    int owner = reply && reply->type == REDIS_REPLY_ARRAY ? -1 : -2;

    *ret_token = 0;
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 1) {
        owner = -2; /* until its client has said so */
        for (int lane = A; lane <= B; lane++)
            if (strcmp(owners->of[lane], reply->element[0]->str) == 0)
                owner = lane;
    }
    if (reply)
        freeReplyObject(reply);
    return owner;
}

static void order_in_store(struct actor *me)
{
    char url[512], name[64];
    hf_store *store;
    hf_acquire_request request;
    hf_lease *lease, *again;
    hf_error err;

    snprintf(url, sizeof url, "%s%cwire=redisson", me->stage->url,
             strchr(me->stage->url, '?') ? '&' : '?');
    snprintf(name, sizeof name, "%slock", me->stage->prefix); /* the key itself */
    request = ours_request(me, name, TTL_MS);
    note(me, EV_ASK);
    store = ours_open_at(me, url);
    /* clang-format off */
    /* shown: reentrant-store */
    /* store: redis://...?wire=redisson, a hash { owner: count } */
    request.flags = HF_FLAG_REENTRANT;
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1: HINCRBY lock OWNER 1 */
    note_got(me, 0);
    note_count(me, read_hash(me));
    prepare(me);
    must(me, hf_acquire(store, &request, &again, &err), &err); /* 3! pay(): the server counts 2 */
    note_step(me, me->lane == A ? 3 : 0, false);
    note_count(me, read_hash(me));
    charge(me);
    hf_release(again, &err); /* 4: count 1 */
    note_step(me, me->lane == A ? 4 : 0, false);
    note_count(me, read_hash(me));
    ship(me);
    note_step(me, me->lane == A ? 5 : 0, false);
    note(me, EV_LET);
    hf_release(lease, &err); /* 5: HDEL, and a message to those that wait */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_store(struct stage *stage)
{
    play_slow_order(stage, order_in_store, observe_hash);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    const struct history *history = stage->history;
    unsigned done = history_count(history, -1, EV_DONE), holders = history_holders(history);

    verdict->broken = done < 2 || holders > 1;
    if (done < 2)
        verdict_say(
            verdict,
            "%u of 2 orders came to their end: A has waited for itself for %.1fs, and B for A.",
            "%u / 2 个订单完成：A 等自己释放锁已 %.1fs，B 又在等 A。", done,
            (double)LOOK_MS / 1000);
    else if (verdict->broken)
        verdict_say(verdict,
                    "%u clients believed to hold at once, for %.1fs: A came in again by a count of "
                    "its own.",
                    "%u 个客户端同时认为自己持有锁，共 %.1fs：A 只凭本地计数就重入了。", holders,
                    (double)history_overlap_ms(history, 1) / 1000);
    else
        verdict_say(verdict, "%u of 2 orders came to their end; at most %u client held the lock.",
                    "%u / 2 个订单完成；同一时刻最多 %u 个客户端持有锁。", done, holders);
}

/* Ours must have counted too. */
static void judge_counts(struct stage *stage, struct verdict *verdict)
{
    judge(stage, verdict);
    if (verdict->broken || history_await_signal(stage->history, SIGNAL_COUNT + 2, 0))
        return;
    verdict->broken = true;
    verdict_say(verdict, "The lock was not taken twice%s.", "锁没有被重入%s。", "");
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("order() > pay()", "order() > pay()") },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("SET NX does not know its holder", "SET NX 不认识持有者，不可重入"),
        .breaks = true,
        .shown = "reentrant-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Counted in the thread", "ThreadLocal 计数"),
        .note = PHRASE("nobody renews, and nobody asks the server", "不续期，也不问服务器"),
        .breaks = true,
        .shown = "reentrant-local",
        .play = play_local,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("counts locally, over a lease that is renewed", "本地计数，锁自动续期"),
        .ours = true,
        .shown = "reentrant-ours",
        .play = play_ours,
        .judge = judge_counts,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast, wire=redisson", "Holdfast，wire=redisson"),
        .note = PHRASE("counts in the store, together with Redisson's clients",
                       "在 Redis Hash 中计数，与 Redisson 互通"),
        .ours = true,
        .shown = "reentrant-store",
        .play = play_store,
        .judge = judge_counts,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_reentrant = {
    .id = "reentrant",
    .title = PHRASE("A lock is taken again by its holder", "持有者再次加锁：可重入"),
    .setting = PHRASE("ttl 1.2s; order() takes the lock and calls pay(), which takes it too; B waits",
                      "过期时间 1.2s；order() 加锁后调用 pay()，pay() 又加同一把锁；B 在等待"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A: order() takes the lock.", "A：order() 加锁。"),
        PHRASE("B wants the lock.", "B 请求加锁。"),
        PHRASE("A: pay(), called by order(), takes the same lock.", "A：order() 调用的 pay() 又加同一把锁。"),
        PHRASE("pay() unlocks: the lock must stay.", "pay() 解锁：锁还不能释放。"),
        PHRASE("order() unlocks: now B may have it.", "order() 解锁：现在才轮到 B。"),
    },
    .why = PHRASE("A lock that does not know its holder makes the holder wait for itself. A count in the thread lets it in, but says nothing about the lock on the server, which may be over; Holdfast counts over a lease that it renews and watches, or, with wire=redisson, in the server's own hash.",
                  "锁不认识持有者，持有者就会等自己，形成死锁。ThreadLocal 计数能重入，却不知道服务器上的锁可能已经过期；Holdfast 在自动续期的锁上计数，或者用 wire=redisson 直接在 Redis Hash 里计数。"),
    .ways = ways,
};
