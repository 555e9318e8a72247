/* SPDX-License-Identifier: MIT */
/* A row is read, thought about, and written. What became of it meanwhile? Nobody asks, a version column asks, or a lock keeps others away. */
#include "../stage/ours.h"
#include "../stage/sql.h"

#define TTL_MS 2000
#define STOCK  20

#define SIGNAL_GO INT64_C(1)

enum { A, ROW, B };                       /* the lanes without a lock */
enum { A_, LOCK, B_, LOCKED_ROW, LANES }; /* and with one: A and B are the same */
_Static_assert((int)A == (int)A_ && (int)B == (int)B_, "the clients have the same lanes");

/* A thinks until the director has seen what it waits for; B for a moment. */
static void think(struct actor *me)
{
    work(me, 300);
    if (me->number == 0)
        await_signal(me, SIGNAL_GO);
}

static void fill(struct stage *stage)
{
    stage_sql(stage, "DROP TABLE IF EXISTS goods");
    stage_sql(stage, "CREATE TABLE goods (id int PRIMARY KEY, stock int, version int)");
    stage_sql(stage, "INSERT INTO goods VALUES (1, %d, 1)", STOCK);
}

/* ---- without a lock ------------------------------------------------------------------------------------ */

static void sell_naively(struct actor *me)
{
    int64_t stock;

    /* clang-format off */
    /* shown: database-version-naive */
    stock = sql_int(me, "SELECT stock FROM goods WHERE id = 1"); /* 1 */
    note_read(me, ROW, stock);
    note_step(me, me->number == 0 ? 1 : 2, false);
    think(me);                                                   /* 2: B reads the same */
    sql_do(me, "UPDATE goods SET stock = %d "
               "WHERE id = 1", (int)stock - 1);                  /* 4! whatever it is by now */
    note_write(me, ROW, stock - 1, 0);
    note_step(me, me->number == 0 ? 4 : 3, me->number == 0);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

static void note_outcome(struct actor *me, bool written, int64_t value)
{
    note_step(me, me->number == 0 ? 4 : 3, false);
    if (written)
        note_write(me, ROW, value, 0);
    else
        note_refused(me, ROW, 0, 0);
}

static void sell_by_version(struct actor *me)
{
    int64_t row[2], changed;

    /* clang-format off */
    /* shown: database-version-column */
    do {
        sql_row(me, row, 2, "SELECT stock, version FROM goods "
                            "WHERE id = 1");               /* 1 */
        note_read(me, ROW, row[0]);
        note_step(me, me->number == 0 ? 1 : 2, false);
        think(me);                                         /* 2: B reads the same */
        changed = sql_do(me, "UPDATE goods SET stock = %d, version = version + 1 "
                             "WHERE id = 1 AND version = %d",
                         (int)row[0] - 1, (int)row[1]);    /* 4! 0 rows: another version */
        note_outcome(me, changed > 0, row[0] - 1);
    } while (changed == 0);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
}

/* A thinks until B is done. */
static void play(struct stage *stage, actor_fn *fn)
{
    fill(stage);
    stage_value(stage, ROW, STOCK);
    stage_start(stage, A, fn, NULL);
    stage_await(stage, A, EV_READ, 1);
    stage_start(stage, B, fn, NULL);
    stage_await(stage, B, EV_DONE, 1);
    stage_sleep(stage, 200); /* so that the picture shows the gap */
    stage_signal(stage, SIGNAL_GO);
    stage_join(stage, -1);
}

static void play_naive(struct stage *stage)
{
    play(stage, sell_naively);
}

static void play_version(struct stage *stage)
{
    play(stage, sell_by_version);
}

/* ---- ours -------------------------------------------------------------------------------------------------- */

static void sell(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_acquire_request request = ours_request(me, "goods", TTL_MS);
    hf_guard_sql_request guard = HF_GUARD_SQL_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;
    int64_t stock;

    guard.dialect = HF_SQL_DIALECT_POSTGRESQL;
    guard.name = "goods";
    guard.name_len = HF_CSTRING;
    guard.run = sql_run;
    guard.run_arg = me;
    note(me, EV_ASK);
    note_step(me, me->number == 0 ? 0 : 2, false);
    /* clang-format off */
    /* shown: database-version-ours */
    must(me, hf_acquire(store, &request, &lease, &err), &err); /* 2! B waits here */
    note_got(me, hf_lease_token(lease));
    sql_do(me, "BEGIN");
    guard.token = hf_lease_token(lease);
    must(me, hf_guard_claim_sql(&guard, &err), &err); /* a holder that woke up too late: HF_FENCED */
    stock = sql_int(me, "SELECT stock FROM goods WHERE id = 1"); /* 1 */
    note_claim(me, LOCKED_ROW, guard.token, stock);
    note_step(me, me->number == 0 ? 1 : 3, false);
    think(me);
    sql_do(me, "UPDATE goods SET stock = %d WHERE id = 1", (int)stock - 1);
    sql_do(me, "COMMIT");
    note_write(me, LOCKED_ROW, stock - 1, guard.token);
    note_step(me, me->number == 0 ? 4 : 0, false);
    note(me, EV_LET);
    must(me, hf_release(lease, &err), &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    fill(stage);
    stage_do(stage, ours_prepare);
    stage_value(stage, LOCKED_ROW, STOCK);
    stage_sql(stage, "%s", hf_guard_sql_schema(HF_SQL_DIALECT_POSTGRESQL));
    stage_observe(stage, LOCK, observe_name, (void *)(uintptr_t) "goods");
    stage_start(stage, A, sell, NULL);
    stage_await(stage, A, EV_CLAIM, 1);
    stage_await(stage, LOCK, EV_OWNER, 1);
    stage_start(stage, B, sell, NULL);
    stage_await(stage, B, EV_ASK, 1);
    stage_sleep(stage, 700); /* so that the picture shows that it waits */
    stage_signal(stage, SIGNAL_GO);
    stage_join(stage, -1);
    stage_sql(stage, "DROP TABLE holdfast_guard");
}

/* ---- the checker ---------------------------------------------------------------------------------------------- */

static void judge(struct stage *stage, struct verdict *verdict)
{
    int sold = (int)history_count(stage->history, -1, EV_DONE);
    int again = (int)history_count(stage->history, -1, EV_REFUSED);
    int left = (int)stage_sql(stage, "SELECT stock FROM goods WHERE id = 1");

    verdict->broken = STOCK - sold != left;
    if (verdict->broken)
        verdict_say(verdict, "%d sold, but the stock went from %d to %d: an update is lost.",
                    "卖出 %d 件，库存却从 %d 变成 %d：丢失了一次更新。", sold, STOCK, left);
    else if (again > 0)
        verdict_say(
            verdict,
            "%d sold, the stock went from %d to %d; %d write was refused, and its work done again.",
            "卖出 %d 件，库存从 %d 变成 %d；%d 次写入被拒绝，工作重做。", sold, STOCK, left, again);
    else
        verdict_say(verdict, "%d sold, the stock went from %d to %d, and nothing was done twice.",
                    "卖出 %d 件，库存从 %d 变成 %d，没有重做任何工作。", sold, STOCK, left);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("database", "数据库"), PHRASE("stock", "库存") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static const struct lane lanes_ours[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("database", "数据库"), PHRASE("lock", "锁") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("database", "数据库"), PHRASE("stock", "库存") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("read, then write", "先读取，再写回"),
        .breaks = true,
        .shown = "database-version-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Version column", "版本号（乐观锁）"),
        .note =
            PHRASE("optimistic: write only what was read, else again", "版本没变才写入，否则重来"),
        .shown = "database-version-column",
        .play = play_version,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("A lock in the same database", "同一数据库里的锁"),
        .note = PHRASE("B waits; the token is claimed in the transaction",
                       "B 排队等待；事务里声明围栏令牌"),
        .ours = true,
        .shown = "database-version-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes_ours,
    },
    WAYS_END,
};

const struct experiment experiment_database_version = {
    .id = "database-version",
    .title = PHRASE("A row is read, and written later", "先读后写：数据库中的丢失更新"),
    .setting = PHRASE("two clients sell one piece each from a stock of 20",
                      "两个客户端各卖出 1 件，库存 20"),
    .needs = NEED_POSTGRES,
    .own_servers = true,
    .steps = {
        PHRASE("A reads the stock and thinks.", "A 读取库存，处理业务。"),
        PHRASE("B comes, and wants to sell too.", "B 也来购买。"),
        PHRASE("B reads, and writes.", "B 读取并写回。"),
        PHRASE("A writes what it worked out.", "A 写入算好的值。"),
    },
    .why = PHRASE("Between a read and a write the row belongs to nobody. A version column finds that out at the write, and the work is done again; a lock lets the second client wait before it begins, and its token, claimed in the same transaction, keeps out a holder that comes too late.",
                  "读与写之间，这一行不属于任何人。版本号在写入时发现冲突，工作要重做；锁让后来者先等待，再开始工作；在同一事务里声明围栏令牌，还能挡住迟到的持有者。"),
    .ways = ways,
    .open = sql_open,
    .close = sql_close,
};
