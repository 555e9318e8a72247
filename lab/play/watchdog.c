/* SPDX-License-Identifier: MIT */
/* A watchdog renews the lock of a long job. It must know whose lock it renews, and tell the job when it cannot. */
#include "../stage/ours.h"
#include "../stage/redis.h"

#include <pthread.h>

#define TTL_MS   1000
#define PIECES_A 4
#define PIECES_B 2
#define PIECE_MS 500
#define PAUSE_AT 3 /* A has done so many pieces then, and that took longer than the ttl */

enum { A, SERVER, B, PROGRESS };
enum {
    SIGNAL_GO_ON = 1, /* B, after its first piece */
    SIGNAL_RENEWED
};

/* clang-format off */
#define COMPARE_AND_DELETE \
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
/* clang-format on */

/* ---- the job: pieces of work, and a note of how many are done ------------------------------------------------- */

static int pieces(const struct actor *me)
{
    return me->lane == A ? PIECES_A : PIECES_B;
}

static int64_t read_progress(struct actor *me)
{
    int64_t done = redis_int(me, "GET {progress}");

    note_read(me, PROGRESS, done);
    return done;
}

static void do_piece(struct actor *me, int64_t done)
{
    work(me, me->lane == A ? PIECE_MS : PIECE_MS * 3 / 5);
    redis_do(me, "SET {progress} %lld", (long long)done);
    note_write(me, PROGRESS, done, 0);
}

/* Before the piece with this index: A is held up in the middle of its job, B after its first piece. */
static void hold_up(struct actor *me, int piece)
{
    if (me->lane == A && piece == PAUSE_AT)
        pause_point(me);
    if (me->lane == B && piece == 1)
        await_signal(me, SIGNAL_GO_ON);
}

static void begin(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_redis(stage, "SET {progress} 0");
    stage_value(stage, PROGRESS, 0);
    stage_observe(stage, SERVER, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_sleep(stage, 200); /* so that the picture shows one after the other */
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
}

/* The whole process of A stops, its watchdog too, until B has the lock and has done a piece. */
static void pause_first(struct stage *stage)
{
    stage_sleep(stage, TTL_MS - 200);
    stage_step(stage, SERVER, 2, false);
    stage_pause_at(stage, A);
    stage_step(stage, A, 3, false);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 4, false);
    stage_await(stage, B, EV_WRITE, 1);
}

/* ---- without a watchdog ------------------------------------------------------------------------------------- */

static void work_alone(struct actor *me)
{
    int64_t done;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: watchdog-none */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 250);
    note_got(me, 0);
    done = read_progress(me);
    for (int i = 0; i < pieces(me); i++) {
        hold_up(me, i);
        do_piece(me, ++done); /* 4! the lock is over: B works too */
    }
    note(me, EV_LET);
    redis_do(me, "EVAL %s 1 {lock} %s", COMPARE_AND_DELETE, me->id);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

/* Nobody is paused. A only waits until B has begun: a machine can be so slow that B comes too late to show it. */
static void play_none(struct stage *stage)
{
    begin(stage, work_alone, observe_key);
    stage_await(stage, B, EV_GOT, 1);
    stage_step(stage, B, 4, true);
    stage_await(stage, B, EV_READ, 1);
    stage_signal(stage, SIGNAL_PAUSE_OVER + A);
    stage_await(stage, A, EV_WRITE, PIECES_A);
    stage_signal(stage, SIGNAL_GO_ON);
    stage_join(stage, -1);
}

/* ---- a watchdog that renews whatever is there ----------------------------------------------------------------- */

/* It needs a connection of its own. It ends with the process. */
static void start_thread(struct actor *me, void *(*run)(void *))
{
    static struct actor twin;
    pthread_t thread;

    twin = *me;
    twin.redis = NULL;
    if (pthread_create(&thread, NULL, run, &twin) != 0)
        actor_fails(me, "no thread");
    pthread_detach(thread);
}

static void *watchdog(void *me);

static void work_guarded(struct actor *me)
{
    int64_t done;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: watchdog-naive */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, TTL_MS)) /* 1 */
        again(me, 250);
    note_got(me, 0);
    start_thread(me, watchdog);
    done = read_progress(me);
    for (int i = 0; i < pieces(me); i++) {
        hold_up(me, i); /* 3: A stops here, and its thread too */
        do_piece(me, ++done);
    }
    note(me, EV_LET);
    redis_do(me, "EVAL %s 1 {lock} %s", COMPARE_AND_DELETE, me->id);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void *watchdog(void *me)
{
    /* clang-format off */
    /* shown: watchdog-naive */
    for (;;) { /* 2: the thread */
        work(me, TTL_MS / 3);
        redis_do(me, "PEXPIRE {lock} %d", TTL_MS); /* 5! whose lock is it? */
        note_signal(me, SIGNAL_RENEWED);
    }
    /* shown end */
    /* clang-format on */
    return NULL;
}

static void play_naive(struct stage *stage)
{
    static const struct phrase renewed = PHRASE("renewed by A", "被 A 续期");
    unsigned before;

    begin(stage, work_guarded, observe_key);
    pause_first(stage);
    before = history_count(stage->history, A, EV_SIGNAL);
    stage_resume(stage, A);
    stage_await(stage, A, EV_SIGNAL, before + 1);
    stage_note(stage, SERVER, &renewed);
    stage_await(stage, A, EV_WRITE, PAUSE_AT + 1);
    stage_step(stage, A, 5, true);
    stage_signal(stage, SIGNAL_GO_ON);
    stage_join(stage, -1);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void work_with_lease(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;
    int64_t done;

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: watchdog-ours */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 1 */
    note_got(me, hf_lease_token(lease));
    done = read_progress(me);
    for (int i = 0; i < pieces(me); i++) { /* 2: the library renews */
        hold_up(me, i); /* 3: A stops here */
        if (hf_lease_state(lease) == HF_STATE_LOST) /* 5! the lease of B is not ours */
            break;
        do_piece(me, ++done);
    }
    note(me, EV_LET);
    hf_release(lease, &err); /* HF_LOST: we know that the job is not done */
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    begin(stage, work_with_lease, observe_name);
    pause_first(stage);
    stage_resume(stage, A);
    stage_await(stage, A, EV_LOST, 1);
    stage_step(stage, A, 5, false);
    stage_sleep(stage, 300);
    stage_signal(stage, SIGNAL_GO_ON);
    stage_join(stage, -1);
}

/* ---- the checker -------------------------------------------------------------------------------------------- */

/* Each piece of work that anybody did must be in the count. */
static void judge(struct stage *stage, struct verdict *verdict)
{
    int done = (int)history_count(stage->history, -1, EV_WRITE);
    int count = (int)history_last_value(stage->history, PROGRESS, 0);

    verdict->broken = done != count;
    if (verdict->broken)
        verdict_say(
            verdict,
            "%d pieces of work were done, but the count says %d: A and B did some of them twice.",
            "共执行了 %d 段任务，进度却是 %d：A 和 B 重复执行了一部分。", done, count);
    else
        verdict_say(verdict,
                    "%d pieces of work were done, and the count says %d: none was done twice.",
                    "共执行了 %d 段任务，进度也是 %d：没有重复执行。", done, count);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("a long job", "长任务") },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("progress", "进度"), PHRASE("pieces done", "已完成的段数") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("No watchdog", "没有看门狗"),
        .note = PHRASE("the lock ends in the middle of the job", "任务还在执行，锁就过期了"),
        .breaks = true,
        .shown = "watchdog-none",
        .play = play_none,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("A naive watchdog", "朴素的看门狗"),
        .note = PHRASE("a thread renews the key, whoever has it", "守护线程只管续期，不看锁是谁的"),
        .breaks = true,
        .shown = "watchdog-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Holdfast", "Holdfast"),
        .note = PHRASE("renews its own lease, and says LOST when it cannot",
                       "只续自己的锁，续不上就报告 LOST"),
        .ours = true,
        .shown = "watchdog-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_watchdog = {
    .id = "watchdog",
    .title = PHRASE("A watchdog renews the lock of a long job", "看门狗为长任务续期"),
    .setting = PHRASE("ttl 1s, a job of 4 pieces of 0.5s, SIGSTOP until B has done a piece",
                      "过期时间 1s，任务 4 段、每段 0.5s，A 被 SIGSTOP 直到 B 执行完一段"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("A takes the lock and begins a long job.", "A 加锁，开始执行长任务。"),
        PHRASE("The ttl has passed: a watchdog has renewed the lock.", "过期时间已到：看门狗已经续期。"),
        PHRASE("A is paused, and its watchdog with it.", "A 连同看门狗一起被暂停。"),
        PHRASE("The lock has expired. B gets it, and goes on where A was.", "锁已过期，B 拿到锁，接着 A 的进度执行。"),
        PHRASE("A wakes up. Naive: it renews the lock of B, and works on. Holdfast: LOST, it stops.", "A 醒来。朴素做法：给 B 的锁续期，继续执行。Holdfast：得知 LOST，停止执行。"),
    },
    .why = PHRASE("Renewal makes a lock last as long as the job, as long as the watchdog itself runs. One that does not compare the owner renews the lock of another client and never learns that its own is lost; ours renews by owner, counts its validity by its own clock, and tells the job.",
                  "只要看门狗还在运行，续期就能让锁和任务一样长。不比较持有者的看门狗会给别人的锁续期，永远不知道自己的锁已经丢了；我们按持有者续期，用自己的时钟计算有效期，并告诉业务锁已丢失。"),
    .ways = ways,
};
