/* SPDX-License-Identifier: MIT */
/* A rate limit by fixed windows, and calls on both sides of a boundary. */
#include "../stage/ours.h"
#include "../stage/redis.h"
#include "server.h"

#define LIMIT     5
#define WINDOW_MS 2000
#define BURST_MS  1000 /* before the end of the window */
#define EVERY_MS  150
#define CALLS     14
#define MARGIN_MS 20 /* a clock may be adjusted a little */

enum { COUNTER, A, LET_IN };

/* When calls were let in: between these times of our own clock. Shared by director and actors. */
struct calls {
    int count;
    struct {
        int64_t before_ms, after_ms;
    } let_in[CALLS];
};

static const struct phrase nothing = PHRASE("", "");

/* Of the calls before and with `last`, how many were certainly within one window. */
static int within_window(const struct calls *calls, int last)
{
    int count = 0;

    for (int i = 0; i <= last; i++)
        count += calls->let_in[last].after_ms - calls->let_in[i].before_ms < WINDOW_MS - MARGIN_MS;
    return count;
}

typedef bool call_fn(struct actor *me);

/* One call opens the window; the others come around its end. */
static void call_often(struct actor *me, call_fn *call)
{
    struct calls *calls = me->stage->shared;
    bool refused = false;

    for (int i = 0; i < CALLS; i++) {
        int64_t before_ms = clock_ms();
        bool in = call(me);
        int count = 0;

        if (in) {
            calls->let_in[calls->count].before_ms = before_ms;
            calls->let_in[calls->count].after_ms = clock_ms();
            count = within_window(calls, calls->count++);
        }
        note_event(me, (struct event){ .kind = in ? EV_WRITE : EV_REFUSED,
                                       .other = LET_IN,
                                       .value = count,
                                       .text = &nothing,
                                       .bad = count > LIMIT });
        if (i < 2)
            note_step(me, i + 1, false);
        else
            note_step(me, !in ? 3 : refused ? 4 : 0, in && me->stage->way->breaks);
        refused |= !in;
        work(me, i == 0 ? WINDOW_MS - BURST_MS : EVERY_MS);
    }
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* clang-format off */
/* shown: rate-window-naive */
static const char fixed_window[] =
    "local visits = redis.call('INCR', KEYS[1]) "
    "if visits == 1 then "
    "    redis.call('PEXPIRE', KEYS[1], ARGV[1]) "   /* 4! then it counts from 0 again */
    "end "
    "return visits <= tonumber(ARGV[2])";

static bool may_call_naively(struct actor *me)
{
    return redis_ok(me, "EVAL %s 1 {visits} %d %d", fixed_window, WINDOW_MS, LIMIT);
}
/* shown end */
/* clang-format on */

static void visit_naively(struct actor *me)
{
    call_often(me, may_call_naively);
}

/* An observer's value, if it has changed. */
static void note_value(struct actor *me, int64_t value)
{
    static int64_t before;

    if (value != before)
        note_event(me, (struct event){ .kind = EV_VALUE, .other = -1, .value = value });
    before = value;
}

static int observe_counter(struct actor *me, uint64_t *ret_token)
{
    int64_t visits = redis_int(me, "GET {visits}");

    (void)ret_token;
    note_value(me, visits < LIMIT ? visits : LIMIT); /* refused calls count too */
    return -2;
}

static void play(struct stage *stage, actor_fn *visit, observe_fn *observe)
{
    stage_observe(stage, COUNTER, observe, NULL);
    stage_start(stage, A, visit, NULL);
    stage_join(stage, A);
}

static void play_naive(struct stage *stage)
{
    play(stage, visit_naively, observe_counter);
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

static bool may_call(struct actor *me)
{
    hf_store *store = me->arg;
    hf_limit_request limit = the_limit();
    hf_error err;
    hf_status status;

    /* clang-format off */
    /* shown: rate-window-ours */
    limit.algorithm = HF_LIMIT_ALGORITHM_SLIDING;         /* 4! never more than 5 in any 2s */
    limit.rate = LIMIT;
    limit.per_ms = WINDOW_MS;
    status = hf_limit_take(store, &limit, NULL, &err);
    if (status == HF_BUSY)
        return false;
    must(me, status, &err);
    return true;
    /* shown end */
    /* clang-format on */
}

static void visit(struct actor *me)
{
    me->arg = ours_open(me);
    call_often(me, may_call);
    ours_close(me, me->arg);
}

static int observe_limit(struct actor *me, uint64_t *ret_token)
{
    static hf_store *store;
    hf_limit_request limit = the_limit();
    hf_limit_result result = HF_LIMIT_RESULT_INIT;

    (void)ret_token;
    if (!store)
        store = ours_open(me);
    if (hf_limit_get(store, &limit, &result, NULL) == HF_OK)
        note_value(me, LIMIT - (int64_t)result.left);
    return -2;
}

static void play_ours(struct stage *stage)
{
    play(stage, visit, observe_limit);
}

/* ---- the checker ---------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    const struct calls *calls = stage->shared;
    int most = 0;

    for (int i = 0; i < calls->count; i++) {
        int count = within_window(calls, i);

        most = count > most ? count : most;
    }
    verdict->broken = most > LIMIT;
    if (verdict->broken)
        verdict_say(verdict, "The limit is %d in %ds, but %d calls were let in within %ds.",
                    "限流 %d 次 / %ds，却放行了 %d 次（%ds 之内）。", LIMIT, WINDOW_MS / 1000, most,
                    WINDOW_MS / 1000);
    else
        verdict_say(verdict,
                    "The limit is %d in %ds, and never more than %d were let in within that time.",
                    "限流 %d 次 / %ds，任意时段内最多放行 %d 次。", LIMIT, WINDOW_MS / 1000, most);
}

static const struct lane lanes[] = {
    { LANE_RESOURCE, PHRASE("counter", "计数器"), PHRASE("at the server", "服务器上") },
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("calls", "发起调用") },
    { LANE_RESOURCE, PHRASE("let in", "已放行"), PHRASE("in the last 2s", "最近 2s 内") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Fixed window", "固定窗口"),
        .note = PHRASE("INCR and EXPIRE in a script", "脚本中 INCR 加 EXPIRE"),
        .breaks = true,
        .shown = "rate-window-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Sliding window", "滑动窗口"),
        .note = PHRASE("Holdfast remembers each grant", "Holdfast 记住每次放行的时刻"),
        .ours = true,
        .shown = "rate-window-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_rate_window = {
    .id = "rate-window",
    .title = PHRASE("A rate limit at the boundary of two windows", "限流：固定窗口的边界"),
    .setting = PHRASE("at most 5 calls in 2s; one call opens the window, the others come around its end",
                      "2s 内最多 5 次；第一次调用开启窗口，其余集中在窗口末尾前后"),
    .needs = NEED_REDIS,
    .steps = {
        PHRASE("The first call opens the window.", "第一次调用，窗口开始。"),
        PHRASE("Just before its end come more calls.", "窗口快结束时，调用集中到来。"),
        PHRASE("The limit is reached: calls are refused.", "达到上限，调用被拒绝。"),
        PHRASE("The window is over. Fixed: five more at once. Sliding: one, since only the first call is older than 2s.",
               "窗口结束。固定窗口：立刻又放行 5 次；滑动窗口：只放行 1 次，因为只有第一次调用已在 2s 之前。"),
    },
    .why = PHRASE("A fixed window forgets everything at its boundary: what came just before it does not count for what comes just after it, and nearly twice the limit gets through. A sliding window remembers when each call was let in, by the server's clock.",
                  "固定窗口一到边界就清零：边界前刚放行的次数不再计入，边界前后合起来接近上限的两倍。滑动窗口按服务器时钟记住每次放行的时刻，任意 2s 都不会超限。"),
    .ways = ways,
};
