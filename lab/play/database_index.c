/* SPDX-License-Identifier: MIT */
/* The lock table of seed 001: a unique index lets one client insert the row. Its holder dies, and the row has no expiry. */
#include "../stage/ours.h"
#include "../stage/sql.h"

#include <stdlib.h>

#define TTL_MS  2000
#define WAIT_MS 3500 /* that B waits for the lock */
#define TRY_MS  100

enum { A, TABLE, B };

/* A dies while it holds. How long has B then to wait? */
static void play(struct stage *stage, actor_fn *fn, observe_fn *observe)
{
    stage_observe(stage, TABLE, observe, (void *)(uintptr_t) "lock");
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_step(stage, A, 1, false);
    stage_await(stage, TABLE, EV_OWNER, 1);
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_ASK, 1);
    stage_sleep(stage, 400); /* so that the picture shows it */
    stage_kill(stage, A);
    stage_step(stage, A, 2, false);
    stage_join(stage, B);
}

/* ---- naive ------------------------------------------------------------------------------------------ */

/* The work of A does not come to its end. */
static void work_on(struct actor *me)
{
    if (me->number == 0)
        pause_point(me);
    work(me, 300);
}

static bool waits_too_long(int64_t since_ns)
{
    return history_now_ns() - since_ns > WAIT_MS * INT64_C(1000000);
}

static void lock_naively(struct actor *me)
{
    int64_t since_ns = history_now_ns();

    note(me, EV_ASK);
    /* clang-format off */
    /* shown: database-index-naive */
    while (!sql_try(me, "INSERT INTO database_lock (resource, description) "
                        "VALUES (1, '%s')", me->id)) { /* 1: unique, or it fails */
        note(me, EV_TRY);
        if (waits_too_long(since_ns)) {                /* 3! no expiry: for ever */
            note_step(me, 3, true);
            note(me, EV_GAVE_UP);
            return;
        }
        work(me, TRY_MS);
    }
    note_got(me, 0);
    work_on(me);                                       /* 2: A dies here */
    note(me, EV_LET);
    sql_do(me, "DELETE FROM database_lock WHERE resource = 1");
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static int observe_row(struct actor *me, uint64_t *ret_token)
{
    int64_t owner = sql_int(me, "SELECT ascii(description) FROM database_lock WHERE resource = 1");
    char id[2] = { (char)owner, 0 };

    *ret_token = 0;
    return owner ? lane_of_id(me->stage, id, 1) : -1;
}

static void play_naive(struct stage *stage)
{
    stage_sql(stage, "DROP TABLE IF EXISTS database_lock");
    stage_sql(stage, "CREATE TABLE database_lock (id serial PRIMARY KEY, "
                     "resource int NOT NULL UNIQUE, description varchar(1024) NOT NULL)");
    play(stage, lock_naively, observe_row);
}

/* ---- ours ----------------------------------------------------------------------------------------------- */

static void lock(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "lock", TTL_MS);
    hf_lease *lease;
    hf_error err;
    hf_status status;

    request.wait_ms = WAIT_MS * 4; /* the machine may be slow; the lease is over long before */
    note(me, EV_ASK);
    /* clang-format off */
    /* shown: database-index-ours */
    status = hf_acquire(store, &request, &lease, &err); /* 3! every lease has an end: ttl */
    if (status == HF_TIMEOUT) {
        note(me, EV_GAVE_UP);
        return;
    }
    must(me, status, &err);
    note_got(me, hf_lease_token(lease));
    note_step(me, me->number == 0 ? 0 : 3, false);
    work_on(me);                                        /* 2: A dies here */
    note(me, EV_LET);
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    stage_do(stage, ours_prepare);
    play(stage, lock, observe_name);
}

/* ---- the checker ------------------------------------------------------------------------------------------ */

/* From the death of A until B has the lock, or gives up. */
static int64_t waited_ms(const struct history *history)
{
    size_t count;
    const struct event **list = history_sorted(history, &count);
    int64_t killed_ns = 0, end_ns = 0;

    for (size_t i = 0; list && i < count; i++) {
        if (list[i]->kind == EV_KILLED)
            killed_ns = list[i]->at_ns;
        else if (list[i]->lane == B && (list[i]->kind == EV_GOT || list[i]->kind == EV_GAVE_UP))
            end_ns = list[i]->at_ns;
    }
    free(list);
    return (end_ns - killed_ns) / 1000000;
}

static void judge(struct stage *stage, struct verdict *verdict)
{
    double seconds = (double)waited_ms(stage->history) / 1000;

    verdict->broken = history_count(stage->history, B, EV_GOT) == 0;
    if (verdict->broken)
        verdict_say(verdict,
                    "A is dead for %.1fs, and its lock is still there: B tried %d times in vain.",
                    "A 已崩溃 %.1fs，锁仍被占用：B 重试 %d 次都失败。", seconds,
                    (int)history_count(stage->history, B, EV_TRY));
    else
        verdict_say(verdict, "%.1fs after A's death its lease was over, and B had the lock.",
                    "A 崩溃 %.1fs 后锁到期，B 拿到锁。", seconds);
}

static void judge_naive(struct stage *stage, struct verdict *verdict)
{
    judge(stage, verdict);
    if (verdict->broken && stage_sql(stage, "SELECT count(*) FROM database_lock") != 1)
        verdict->broken = false; /* then it was something else */
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("database", "数据库"), PHRASE("lock table", "锁表") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("a row in a table with a unique index", "锁表加唯一索引"),
        .breaks = true,
        .shown = "database-index-naive",
        .play = play_naive,
        .judge = judge_naive,
        .lanes = lanes,
    },
    {
        .title = PHRASE("A lease in the same database", "同一数据库，锁有过期时间"),
        .note = PHRASE("it ends by itself unless its holder renews it", "持有者不续期，锁自动到期"),
        .ours = true,
        .shown = "database-index-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_database_index = {
    .id = "database-index",
    .title = PHRASE("A lock by a unique index, and its holder dies", "唯一索引做锁，持有者崩溃"),
    .setting = PHRASE("B tries every 100 ms for 3.5s, or waits; our ttl is 2s",
                      "B 每 100 ms 重试，最多 3.5s，或排队等待；租约过期时间 2s"),
    .needs = NEED_POSTGRES,
    .own_servers = true,
    .steps = {
        PHRASE("A has the lock; B wants it.", "A 持有锁，B 也想要。"),
        PHRASE("A dies. Nobody deletes its row.", "A 崩溃，没有人删除它的记录。"),
        PHRASE("B tries or waits. Does it ever get the lock?", "B 重试或等待：能拿到锁吗？"),
    },
    .why = PHRASE("A row in a table does not know that its owner is dead: without an end of its own it stays until a person deletes it. A lease has an end, which the holder moves as long as it lives; so a crash costs its ttl, and nobody has to clean up.",
                  "表里的一行不知道主人已经崩溃：没有过期时间，它会一直留在那里，直到有人手工删除。租约有过期时间，持有者活着就续期（看门狗）；崩溃最多耽误一个过期时间，无需清理。"),
    .ways = ways,
    .open = sql_open,
    .close = sql_close,
};
