/* SPDX-License-Identifier: MIT */
/*
 * Two transfers lock the rows of two accounts (SELECT ... FOR UPDATE), in opposite order: each has one, and waits for the other's. The database
 * sees the circle and ends one transaction in the middle of its work.
 */
#include "../stage/ours.h"
#include "../stage/sql.h"

#define TTL_MS  10000
#define BALANCE 100

enum { A, ACCOUNT_1, ACCOUNT_2, B };

/* A pays from account 1 to 2, B from 2 to 1. */
struct transfer {
    int from, to, amount;
};

static struct transfer transfer_of(const struct actor *me)
{
    return me->number == 0 ? (struct transfer){ 1, 2, 10 } : (struct transfer){ 2, 1, 20 };
}

static int lane_of(int account)
{
    return account == 1 ? ACCOUNT_1 : ACCOUNT_2;
}

static void fill(struct stage *stage)
{
    stage_sql(stage, "DROP TABLE IF EXISTS accounts");
    stage_sql(stage, "CREATE TABLE accounts (id int PRIMARY KEY, balance int)");
    stage_sql(stage, "INSERT INTO accounts VALUES (1, %d), (2, %d)", BALANCE, BALANCE);
}

static void begin(struct stage *stage)
{
    stage_value(stage, ACCOUNT_1, BALANCE);
    stage_value(stage, ACCOUNT_2, BALANCE);
}

static int64_t lock_row(struct actor *me, int account)
{
    return sql_int(me, "SELECT balance FROM accounts WHERE id = %d FOR UPDATE", account);
}

static int64_t add(struct actor *me, int account, int amount)
{
    return sql_int(me, "UPDATE accounts SET balance = balance + %d WHERE id = %d RETURNING balance",
                   amount, account);
}

/* After the commit. */
static void note_transfer(struct actor *me, const struct transfer *t, const int64_t balance[2])
{
    note_write(me, lane_of(t->from), balance[0], 0);
    note_write(me, lane_of(t->to), balance[1], 0);
}

/* ---- in opposite order ----------------------------------------------------------------------------------- */

/* Until the other client has its first row too. */
static void think(struct actor *me)
{
    work(me, 300);
    await(me, me->lane == A ? B : A, EV_READ, 1);
}

static void note_deadlock(struct actor *me, int lane)
{
    static const struct phrase text = PHRASE("deadlock: undone", "死锁：回滚");

    note(me, EV_GAVE_UP);
    note_text(me, &text);
    note_lock(me, EV_LET, lane, 0);
}

static void transfer_naively(struct actor *me)
{
    struct transfer t = transfer_of(me);
    int64_t balance[2];

    sql_do(me, "BEGIN");
    /* clang-format off */
    /* shown: database-rows-naive */
    balance[0] = lock_row(me, t.from); /* 1: SELECT ... WHERE id = %d FOR UPDATE */
    note_lock(me, EV_GOT, lane_of(t.from), 0);
    note_read(me, lane_of(t.from), balance[0]);
    note_step(me, 1, false);
    think(me);
    note_lock(me, EV_ASK, lane_of(t.to), 0);
    note_step(me, 2, false);
    if (!sql_try(me, "SELECT balance FROM accounts "
                     "WHERE id = %d FOR UPDATE", t.to)) { /* 2! each waits for the other */
        note_step(me, 3, true);
        note_deadlock(me, lane_of(t.from));
        sql_do(me, "ROLLBACK");                           /* 3: error 40P01, all is undone */
        return;
    }
    note_lock(me, EV_GOT, lane_of(t.to), 0);
    balance[0] = add(me, t.from, -t.amount);
    balance[1] = add(me, t.to, t.amount);
    sql_do(me, "COMMIT");
    /* shown end */
    /* clang-format on */
    note_transfer(me, &t, balance);
    note_lock(me, EV_LET, ACCOUNT_1, 0);
    note_lock(me, EV_LET, ACCOUNT_2, 0);
    note(me, EV_DONE);
}

static void play_naive(struct stage *stage)
{
    fill(stage);
    begin(stage);
    stage_start(stage, A, transfer_naively, NULL);
    stage_start(stage, B, transfer_naively, NULL);
    stage_join(stage, -1);
}

/* ---- in the same order -------------------------------------------------------------------------------------- */

static void transfer_sorted(struct actor *me)
{
    struct transfer t = transfer_of(me);
    int64_t balance[2];

    sql_do(me, "BEGIN");
    note(me, EV_ASK);
    note_step(me, me->number == 0 ? 0 : 2, false);
    /* clang-format off */
    /* shown: database-rows-sorted */
    balance[0] = lock_row(me, t.from < t.to ? t.from : t.to); /* 2! the smaller one first */
    note_got(me, 0);
    note_read(me, ACCOUNT_1, balance[0]);
    note_step(me, 1, false);
    lock_row(me, t.from < t.to ? t.to : t.from);
    work(me, 500);
    balance[0] = add(me, t.from, -t.amount);
    balance[1] = add(me, t.to, t.amount);
    note(me, EV_LET);
    sql_do(me, "COMMIT");
    /* shown end */
    /* clang-format on */
    note_transfer(me, &t, balance);
    note(me, EV_DONE);
}

static void play_sorted(struct stage *stage)
{
    fill(stage);
    begin(stage);
    stage_start(stage, A, transfer_sorted, NULL);
    stage_await(stage, A, EV_READ, 1);
    stage_start(stage, B, transfer_sorted, NULL);
    stage_join(stage, -1);
}

/* ---- ours ---------------------------------------------------------------------------------------------------- */

static void transfer(struct actor *me)
{
    struct transfer t = transfer_of(me);
    hf_store *store = ours_open(me);
    char from[16], to[16];
    hf_acquire_request requests[2];
    hf_lease *leases[2];
    hf_error err;
    int64_t balance[2];

    snprintf(from, sizeof from, "account-%d", t.from);
    snprintf(to, sizeof to, "account-%d", t.to);
    requests[0] = ours_request(me, from, TTL_MS);
    requests[1] = ours_request(me, to, TTL_MS);
    note(me, EV_ASK);
    note_step(me, me->number == 0 ? 0 : 2, false);
    /* clang-format off */
    /* shown: database-rows-ours */
    /* requests: A "account-1", "account-2"; B the other way round */
    must(me, hf_acquire_all(store, requests, 2, leases, &err), &err); /* 2! both, or none */
    note_got(me, 0);
    note_step(me, 1, false);
    sql_do(me, "BEGIN");
    balance[0] = add(me, t.from, -t.amount);
    work(me, 500);
    balance[1] = add(me, t.to, t.amount);
    sql_do(me, "COMMIT");
    note_transfer(me, &t, balance);
    note(me, EV_LET);
    must(me, hf_release(leases[0], &err), &err);
    must(me, hf_release(leases[1], &err), &err);
    /* shown end */
    /* clang-format on */
    note(me, EV_DONE);
    ours_close(me, store);
}

static void play_ours(struct stage *stage)
{
    fill(stage);
    stage_do(stage, ours_prepare);
    begin(stage);
    stage_start(stage, A, transfer, NULL);
    stage_await(stage, A, EV_GOT, 1);
    stage_start(stage, B, transfer, NULL);
    stage_join(stage, -1);
}

/* ---- the checker ------------------------------------------------------------------------------------------------ */

/* A transfer that was not told to have failed must be in the accounts, and one that was must not. */
static bool is_right(struct stage *stage)
{
    int a = history_count(stage->history, A, EV_DONE) ? 10 : 0;
    int b = history_count(stage->history, B, EV_DONE) ? 20 : 0;

    return stage_sql(stage, "SELECT balance FROM accounts WHERE id = 1") == BALANCE - a + b &&
           stage_sql(stage, "SELECT balance FROM accounts WHERE id = 2") == BALANCE + a - b;
}

static void judge(struct stage *stage, struct verdict *verdict)
{
    int done = (int)history_count(stage->history, -1, EV_DONE);
    int ended = (int)history_count(stage->history, -1, EV_GAVE_UP);
    bool right = is_right(stage);

    verdict->broken = ended > 0 || done != 2 || !right;
    if (!right)
        verdict_say(verdict, "%d of 2 transfers are done, and the balances are wrong.",
                    "2 笔转账完成 %d 笔，余额不对。", done);
    else if (ended > 0)
        verdict_say(
            verdict,
            "Deadlock: the database ended %d of 2 transactions with an error. Its work is gone; "
            "%d transfer is done.",
            "死锁：数据库报错结束了 %d 个事务，它的工作作废；2 笔转账只完成 %d 笔。", ended, done);
    else
        verdict_say(verdict, "%d of 2 transfers are done, nobody got an error.",
                    "2 笔转账完成 %d 笔，没有报错。", done);
}

static const struct lane lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE("pays 1 → 2", "1 → 2 转账") },
    { LANE_RESOURCE, PHRASE("account 1", "账户 1"), PHRASE("row", "行") },
    { LANE_RESOURCE, PHRASE("account 2", "账户 2"), PHRASE("row", "行") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE("pays 2 → 1", "2 → 1 转账") },
    LANES_END,
};

static const struct way ways[] = {
    {
        .title = PHRASE("Naive", "朴素做法"),
        .note = PHRASE("FOR UPDATE, each in its own order", "FOR UPDATE，各按各的顺序"),
        .breaks = true,
        .capacity = 2, /* locks */
        .shown = "database-rows-naive",
        .play = play_naive,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("One order for all", "统一加锁顺序"),
        .note = PHRASE("FOR UPDATE, the smaller number first", "FOR UPDATE，编号小的先锁"),
        .shown = "database-rows-sorted",
        .play = play_sorted,
        .judge = judge,
        .lanes = lanes,
    },
    {
        .title = PHRASE("Both at once", "一次锁住两个"),
        .note = PHRASE("hf_acquire_all() orders the names itself", "hf_acquire_all() 自己排好顺序"),
        .ours = true,
        .shown = "database-rows-ours",
        .play = play_ours,
        .judge = judge,
        .lanes = lanes,
    },
    WAYS_END,
};

const struct experiment experiment_database_rows = {
    .id = "database-rows",
    .title = PHRASE("Two rows, locked in opposite order", "两行记录，加锁顺序相反"),
    .setting = PHRASE("two transfers between two accounts at once: A pays 10 from 1 to 2, B pays 20 from 2 to 1",
                      "两个账户之间同时两笔转账：A 从 1 向 2 转 10，B 从 2 向 1 转 20"),
    .needs = NEED_POSTGRES,
    .own_servers = true,
    .steps = {
        PHRASE("A client gets its first lock.", "拿到第一把锁。"),
        PHRASE("A client waits for the other one.", "等待对方释放。"),
        PHRASE("The database ends one of the two.", "数据库结束其中一个事务。"),
    },
    .why = PHRASE("Row locks work, but two clients that take them in different order wait for each other, and the database can only end one of them, in the middle of its work. If all take the names in one order there is no circle; hf_acquire_all() does that for every caller, whatever order it writes.",
                  "行锁（悲观锁）本身没问题，但两个客户端加锁顺序不同就会互相等待，数据库只能结束其中一个，它的工作中途作废。所有人按同一顺序加锁就不会形成环；hf_acquire_all() 替每个调用者排好顺序。"),
    .ways = ways,
    .open = sql_open,
    .close = sql_close,
};
