/* SPDX-License-Identifier: MIT */
/*
 * Many wait for one lock. Either each asks again and again, or all stand in a queue and the lock is handed over.
 *
 * A play has one holder, which also is the usher: it lets the waiters come one after the other, each when the one before it has
 * been refused, or stands in the queue. So it is known who came first. Then nothing happens for a while, and the server's commands are
 * counted. Then the holder releases, and the lock goes from waiter to waiter; each measures the time since the last release.
 */
#include "../stage/measure.h"
#include "../stage/ours.h"
#include "../stage/redis.h"

#include "../../test/redis/redis_server.h"

#include <stdlib.h>
#include <string.h>

#define POLL_MS  50
#define TTL_MS   3000  /* the shortest with which our waiters report in only once a second */
#define NAIVE_MS 60000 /* the naive holder does not renew */
#define HOLD_MS  1
#define POINTS   4
#define MOST     128
#define ROUNDS   5
#define SAMPLES  (MOST * 2)
#define IDLE_MS  1000 /* the interval of our heartbeats, which count */

enum { POLL, QUEUE, WAYS };

static const int waiters[POINTS] = { 2, 8, 32, MOST };
static const int rounds[POINTS] = { ROUNDS, 2, 1, 1 };

/* Signals: of the usher to waiter `lane` in a round; of the waiter that it is known to wait. */
#define SIGNAL_COME(round, lane)  (INT64_C(10000) + (round)*1000 + (lane))
#define SIGNAL_WAITS(round, lane) (INT64_C(30000) + (round)*1000 + (lane))
#define SIGNAL_ALL(round)         (INT64_C(50000) + (round)) /* all wait */
#define SIGNAL_RELEASE(round)     (INT64_C(51000) + (round)) /* the holder may release */
#define SIGNAL_OVER(round)        (INT64_C(52000) + (round)) /* all had it */

struct queue {
    int way, waiters, rounds;
    _Atomic int64_t released_ns;
    _Atomic int served[ROUNDS];
    int lane[ROUNDS][MOST]; /* who was served, in this order */
    int64_t gap_ns[ROUNDS][MOST];
};
_Static_assert(sizeof(struct queue) <= SHARED_BYTES, "it fits");

static struct queue *queue_of(const struct actor *me)
{
    return me->stage->shared;
}

/* ---- what both ways have ------------------------------------------------------------------------------- */

/* Has it: how long was the lock free, and who are we in the order? */
static void served(struct actor *me, int round)
{
    struct queue *queue = queue_of(me);
    int64_t gap_ns = history_now_ns() - atomic_load(&queue->released_ns);
    int place = atomic_fetch_add(&queue->served[round], 1);

    queue->lane[round][place] = me->lane;
    queue->gap_ns[round][place] = gap_ns;
    work(me, HOLD_MS);
}

/* Just before the release. */
static void releases(struct actor *me)
{
    atomic_store(&queue_of(me)->released_ns, history_now_ns());
}

static void released(struct actor *me, int round)
{
    struct queue *queue = queue_of(me);

    if (me->lane > 0 && atomic_load(&queue->served[round]) == queue->waiters)
        note_signal(me, SIGNAL_OVER(round)); /* the last one; seen twice does no harm */
}

/* ---- naive ------------------------------------------------------------------------------------------------ */

static void take_naively(struct actor *me, int round)
{
    bool known = false;

    /* clang-format off */
    /* shown: polling-naive */
    while (!redis_ok(me, "SET {lock} %s NX PX %d", me->id, NAIVE_MS)) { /* ! again and again */
        if (!known)
            note_signal(me, SIGNAL_WAITS(round, me->lane));
        known = true;
        work(me, POLL_MS);
    }
    /* shown end */
    /* clang-format on */
}

static void give_naively(struct actor *me)
{
    releases(me);
    redis_do(me, "DEL {lock}");
}

static void usher_naively(struct actor *me, int round)
{
    for (int lane = 1; lane <= queue_of(me)->waiters; lane++) {
        note_signal(me, SIGNAL_COME(round, lane));
        await_signal(me, SIGNAL_WAITS(round, lane));
    }
}

static void poll(struct actor *me)
{
    redis_int(me, "GET {lock}"); /* connects */
    measure_ready(me);
    for (int round = 0; round < queue_of(me)->rounds; round++) {
        if (me->lane > 0)
            await_signal(me, SIGNAL_COME(round, me->lane));
        take_naively(me, round);
        if (me->lane == 0) {
            usher_naively(me, round);
            note_signal(me, SIGNAL_ALL(round));
            await_signal(me, SIGNAL_RELEASE(round));
        } else {
            served(me, round);
        }
        give_naively(me);
        released(me, round);
        if (me->lane == 0)
            await_signal(me, SIGNAL_OVER(round));
    }
}

/* ---- ours -------------------------------------------------------------------------------------------------- */

static size_t waiting(struct actor *me, hf_store *store)
{
    hf_view *view;
    const hf_entry *entry;
    hf_error err;
    size_t count;

    must(me, hf_store_inspect(store, "lock", HF_CSTRING, 0, &view, &err), &err);
    entry = hf_view_entry(view, 0);
    count = entry ? entry->waiter_count : 0;
    hf_free(view);
    return count;
}

static void usher(struct actor *me, hf_store *store, int round)
{
    for (int lane = 1; lane <= queue_of(me)->waiters; lane++) {
        note_signal(me, SIGNAL_COME(round, lane));
        while (waiting(me, store) < (size_t)lane)
            work(me, 1);
    }
}

static void stand_in_queue(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;

    (void)waiting(me, store); /* connects */
    measure_ready(me);
    for (int round = 0; round < queue_of(me)->rounds; round++) {
        if (me->lane > 0)
            await_signal(me, SIGNAL_COME(round, me->lane));
        /* clang-format off */
        /* shown: polling-ours */
        must(me, hf_acquire(store, &request, &lease, &err), &err); /* ! wait_ms: HF_FOREVER */
        /* shown end */
        /* clang-format on */
        if (me->lane == 0) {
            usher(me, store, round);
            note_signal(me, SIGNAL_ALL(round));
            await_signal(me, SIGNAL_RELEASE(round));
        } else {
            served(me, round);
        }
        releases(me);
        must(me, hf_release(lease, &err), &err);
        released(me, round);
        if (me->lane == 0)
            await_signal(me, SIGNAL_OVER(round));
    }
    ours_close(me, store);
}

/* ---- measuring ------------------------------------------------------------------------------------------------ */

/* What the server has done so far. Our question is among it. */
struct load {
    /* total_reads_processed: a client that sends one command at a time is read once for each */
    double requests;
    double commands; /* total_commands_processed: with those that scripts run */
};

static double stat_of(struct stage *stage, const redisReply *info, const char *key)
{
    const char *at = info->str ? strstr(info->str, key) : NULL;

    if (!at)
        stage_unclear(stage, "INFO stats has no %s", key);
    return at ? strtod(at + strlen(key), NULL) : 0;
}

static struct load load_of(struct stage *stage)
{
    redisReply *info = server_ask(stage->redis, "INFO stats");
    struct load load = { stat_of(stage, info, "total_reads_processed:"),
                         stat_of(stage, info, "total_commands_processed:") };

    freeReplyObject(info);
    return load;
}

static void await_all(struct stage *stage, int64_t signal)
{
    if (!stage->unclear && !history_await_signal(stage->history, signal, AWAIT_MS))
        stage_unclear(stage, "signal %lld did not come", (long long)signal);
}

/* A second of it, while all wait and nobody releases. */
static struct load idle_load(struct stage *stage)
{
    int64_t from_ns = history_now_ns();
    struct load before = load_of(stage), after;
    double seconds;

    stage_sleep(stage, IDLE_MS);
    after = load_of(stage);
    seconds = (double)(history_now_ns() - from_ns) / 1e9;
    return (struct load){ (after.requests - before.requests - 1) / seconds,
                          (after.commands - before.commands - 1) / seconds };
}

/* Of all plays of one way. */
struct tally {
    int overtaken; /* with the most waiters: one that came later was served before them */
    struct load idle;
};

/* The lanes are numbered as they came. */
static int count_overtaken(const struct queue *queue, int round)
{
    int overtaken = 0;

    for (int i = 0; i < queue->waiters; i++) {
        bool late = false;

        for (int k = 0; k < i; k++)
            late = late || queue->lane[round][k] > queue->lane[round][i];
        overtaken += late;
    }
    return overtaken;
}

static void play(struct stage *stage, int way, int point, struct series *rate, struct series *gap,
                 struct tally *tally)
{
    struct queue *queue = stage->shared;
    static double gaps[SAMPLES];
    size_t count = 0;
    struct load idle = { 0 };

    if (!measure_next(stage, way))
        return;
    server_do(stage->redis, "FLUSHALL");
    queue->way = way;
    queue->waiters = waiters[point];
    queue->rounds = rounds[point];
    measure_start(stage, queue->waiters + 1, way == POLL ? poll : stand_in_queue, NULL);
    for (int round = 0; round < queue->rounds && !stage->unclear; round++) {
        await_all(stage, SIGNAL_ALL(round));
        if (round == 0)
            idle = idle_load(stage);
        stage_signal(stage, SIGNAL_RELEASE(round));
        await_all(stage, SIGNAL_OVER(round));
        for (int i = 0; i < queue->waiters && count < SAMPLES; i++)
            gaps[count++] = (double)queue->gap_ns[round][i] / 1e6;
    }
    stage_join(stage, -1);
    if (stage->unclear)
        return;
    tally->idle = idle;
    tally->overtaken = count_overtaken(queue, 0);
    measure_point(rate, &idle.requests, 1);
    measure_point(gap, gaps, count);
}

static void judge(const struct tally *tally, struct verdict *verdict)
{
    verdict->broken = tally->overtaken > 0;
    verdict_say(
        verdict,
        "%d of %d were overtaken by a later one. Waiting cost %.0f requests a second (%.0f "
        "commands, with those in scripts).",
        "%d/%d 个等待者被后来者插队；等待期间每秒 %.0f 个请求（连同脚本内共 %.0f 条命令）。",
        tally->overtaken, MOST, tally->idle.requests, tally->idle.commands);
}

static void title_lines(struct plot *plot)
{
    static const struct phrase x_title = PHRASE("waiters", "等待者");
    static const struct phrase rate =
        PHRASE("Requests a second, while nothing happens", "无事发生时服务器每秒请求数");
    static const struct phrase gap =
        PHRASE("From release to the next grant, in ms", "从释放到下一个拿到锁（ms）");
    static const struct phrase low = PHRASE("lower is better, log scale", "越低越好，对数坐标");
    static const struct phrase texts[WAYS] = {
        PHRASE("Few waiters: the lock lies idle until the next one asks. Many: the server answers "
               "questions. The client that asks at the right moment wins.",
               "等待者少，锁空着等下一次轮询；等待者多，服务器忙于应答。谁碰巧问得及时谁拿到锁。"),
        PHRASE("The release names the next in the queue and wakes it. Waiters only report, once a "
               "second, that they are still there.",
               "释放时把锁交给队首并唤醒它。等待者只定期报告自己还在：这里每秒一次，过期时间 10 s "
               "以上时每 3.3 s 一次。"),
    };

    *plot = (struct plot){ .charts = 2, .x_title = x_title, .points = POINTS };
    for (int i = 0; i < POINTS; i++)
        plot->x[i] = waiters[i];
    for (int chart = 0; chart < 2; chart++) {
        plot->chart[chart].title = chart == 0 ? rate : gap;
        plot->chart[chart].note = low;
        plot->chart[chart].logarithmic = true;
        plot->chart[chart].series_count = WAYS;
    }
    for (int way = 0; way < WAYS; way++)
        plot->texts[way] = texts[way];
}

static void name_lines(struct stage *stage, struct plot *plot, const struct tally *tallies)
{
    for (int way = 0; way < WAYS; way++) {
        struct series *rate = &plot->chart[0].series[way], *gap = &plot->chart[1].series[way];

        rate->way = gap->way = way;
        rate->title = gap->title = stage->experiment->ways[way].title;
        measure_note(rate, "%.0f/s with %d", "%.0f/s（%d 个）", tallies[way].idle.requests, MOST);
        measure_note(gap, "%.1f ms with %d", "%.1f ms（%d 个）", gap->mid[POINTS - 1], MOST);
    }
}

/* Both ways at one point before the next: a machine that is busy for a while is busy for both. */
static void measure(struct stage *stage, struct plot *plot, struct verdict verdicts[WAYS_MAX])
{
    struct tally tallies[WAYS] = { { 0 } };

    title_lines(plot);
    for (int point = 0; point < POINTS; point++)
        for (int way = 0; way < WAYS; way++)
            play(stage, way, point, &plot->chart[0].series[way], &plot->chart[1].series[way],
                 &tallies[way]);
    name_lines(stage, plot, tallies);
    for (int way = 0; way < WAYS; way++)
        judge(&tallies[way], &verdicts[way]);
    snprintf(plot->checked[LANG_EN], sizeof plot->checked[0],
             "The waiters come one after the other. A waiter that is served after a later one was "
             "overtaken.");
    snprintf(plot->checked[LANG_ZH], sizeof plot->checked[0],
             "等待者依次到来；若后来者先拿到锁，就算被插队。");
}

static const struct way ways[] = {
    {
        .title = PHRASE("polling", "轮询"),
        .note = PHRASE("SET NX every 50 ms", "每 50 ms 一次 SET NX"),
        .breaks = true,
        .shown = "polling-naive",
    },
    {
        .title = PHRASE("hand-over", "排队交接"),
        .note = PHRASE("a queue in the server", "队列在服务器上"),
        .ours = true,
        .shown = "polling-ours",
    },
    WAYS_END,
};

const struct experiment experiment_polling = {
    .id = "polling",
    .title = PHRASE("Polling against hand-over", "轮询与排队交接"),
    .setting =
        PHRASE("2 to 128 waiters for one lock; each holds it for 1 ms; naive asks every 50 ms",
               "2 到 128 个等待者争一把锁，各持有 1 ms；朴素做法每 50 ms 轮询一次"),
    .needs = NEED_REDIS,
    .own_servers = true,
    .why = PHRASE("A waiter that polls either asks often, and the server is busy with nothing, or "
                  "seldom, and the lock lies idle; and it has no place in a line. A queue in the "
                  "server costs a command now and then, hands over at once, and keeps the order.",
                  "轮询间隔短，服务器空忙；间隔长，锁白白空着；而且没有先来后到。服务器上的队列只要"
                  "等待者定期报告自己还在，释放时立刻交接，并保持先后顺序。"),
    .ways = ways,
    .measure = measure,
};
