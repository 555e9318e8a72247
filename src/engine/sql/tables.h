/* SPDX-License-Identifier: MIT */
/*
 * What the tables of PostgreSQL and MariaDB have in common: they differ only in names and a few
 * words. Included by engine.c of each.
 *
 * mode=row and mode=session have two sets of promises each: tokens=on adds fencing tokens.
 */
#ifndef SQL_TABLES_H
#define SQL_TABLES_H

#include "engine/sql/internal.h"

/* Rows of the table of either engine. */
#define SQL_ENGINE_ROWS                                                                \
    .abi = HFI_ENGINE_ABI, .drive = &(const struct hfi_drive){ .kind = HFI_BLOCKING }, \
    SQL_STORAGE, .close = sql_close, .submit = sql_submit, .cancel = sql_cancel,       \
    .passed = sql_passed

/* mode=lease. The rest is the server's: name, schemes, on_server_loss, fairness, wakeup. */
#define SQL_LEASE_PROMISES                                                                         \
    .default_ttl_ms = SQL_TTL_MS, .min_ttl_ms = SQL_MIN_TTL_MS, .guard_ms = SQL_GUARD_MS,          \
    .suspends = true, .tokens = HF_TOKEN_STRENGTH_WHILE_DURABLE,                                   \
    .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |            \
            HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE | HF_CAP_LOCK_DELAY |      \
            HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK | HF_CAP_CELLS | HF_CAP_CELL_TTL |      \
            HF_CAP_CELL_WATCH | HF_CAP_CLOCK | HF_CAP_WANTED | HF_CAP_LINGER | HF_CAP_COMMIT |     \
            HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,                                      \
    .on_crash = "freed after the ttl", .on_pause = "freed after the ttl; the token fences",        \
    .on_clock_jump = "forward: leases end early, the token fences; back: a dead holder keeps its " \
                     "name for a ttl more",                                                        \
    .on_partition =                                                                                \
        "unavailable on the far side; LOST by the client's own clock before the lease ends"

/* Why not: mode=lease. */
#define SQL_LEASE_LACKS                                                                           \
    .lacks = (const hf_engine_lack[])                                                             \
    {                                                                                             \
        { HF_CAP_PROCESS, "a lease is a row, which a dead client does not end; the ttl does, or " \
                          "use mode=session" },                                                   \
            { HF_CAP_WATCH,                                                                       \
              "no row counts the changes of all names; every acquire would wait for it" },        \
            { HF_CAP_SCRIPTS,                                                                     \
              "scripts are Redis' Lua; SQL of your own runs on a connection of your own" },       \
        {                                                                                         \
            0, NULL                                                                               \
        }                                                                                         \
    }

/* Why not: mode=row and mode=session. A row without capabilities says nothing. */
#define SQL_LOCK_LACKS(CAPS, WHY_NOT_SHARED)                                                   \
    .lacks = (const hf_engine_lack[])                                                          \
    {                                                                                          \
        { HF_CAP_SHARED & ~(uint64_t)(CAPS), WHY_NOT_SHARED },                                 \
            { HF_CAP_SEMAPHORE | HF_CAP_CONVERT | HF_CAP_NUMBERED | HF_CAP_RESIZE,             \
              "the server's own locks do not count" },                                         \
            { HF_CAP_TTL | HF_CAP_DETACHED | HF_CAP_LOCK_DELAY,                                \
              "a lock of the server lives exactly as long as its connection" },                \
            { HF_CAP_PASS | HF_CAP_LINGER,                                                     \
              "the lock is of one connection, and another process could not call it back" },   \
            { HF_CAP_FIFO | HF_CAP_BARGE, "the queue is the server's own" },                   \
            { HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK,                                  \
              "the server shows its locks as numbers, without our names and holders" },        \
            { HF_CAP_TOKEN & ~(uint64_t)(CAPS), "tokens=on gives them, for a commit each" },   \
            { HF_CAP_WANTED, "the server tells no connection that others wait for its lock" }, \
            { HF_CAP_WATCH, "the server tells nobody of its locks" },                          \
            { HF_CAP_SCRIPTS,                                                                  \
              "scripts are Redis' Lua; SQL of your own runs on a connection of your own" },    \
        {                                                                                      \
            0, NULL                                                                            \
        }                                                                                      \
    }

/* Readers in mode=session of PostgreSQL only: its shared advisory locks. There a mutex is a writer, for the server cannot tell
 * them apart. The queue is the server's own: it cannot be listed, and its order is not promised. */
#define SQL_LOCK_CAPS                                                                \
    (HF_CAP_WAIT | HF_CAP_PROCESS | HF_CAP_CELLS | HF_CAP_COMMIT | HF_CAP_CELL_TTL | \
     HF_CAP_CELL_WATCH | HF_CAP_CLOCK)

#define SQL_LOCK_PROMISES(NAME, SCHEMES, CHOICE, CAPS, WHY_NOT_SHARED, TOKENS, FAILOVER, HOST,    \
                          FAIRNESS)                                                               \
    {                                                                                             \
        .name = (NAME), .schemes = (SCHEMES), .choice = (CHOICE),                                 \
        SQL_LOCK_LACKS(CAPS, WHY_NOT_SHARED), .tokens = (TOKENS), .caps = SQL_LOCK_CAPS | (CAPS), \
        .default_ttl_ms = 0, .min_ttl_ms = SQL_MIN_TTL_MS, .guard_ms = SQL_GUARD_MS,              \
        .tells_own = true, .on_crash = SQL_ON_CRASH,                                              \
        .on_pause = "kept while the connection lives: a stopped process keeps it",                \
        .on_clock_jump = "unaffected: there is no ttl", .on_server_loss = (FAILOVER),             \
        .on_partition = "LOST after 14 s without a sign of the server, which frees it " HOST,     \
        .fairness = (FAIRNESS), .wakeup = "the server's own lock queue"                           \
    }

/* [mode is session][tokens=on] */
#define SQL_LOCK_PAIR(NAME, SCHEMES, CHOICE, CAPS, WHY_NOT_SHARED, HOST, FAIRNESS)                 \
    {                                                                                              \
        SQL_LOCK_PROMISES(NAME, SCHEMES, CHOICE, CAPS, WHY_NOT_SHARED, HF_TOKEN_STRENGTH_NONE,     \
                          SQL_ON_LOSS, HOST, FAIRNESS),                                            \
            SQL_LOCK_PROMISES(NAME, SCHEMES, CHOICE "&tokens=on", (CAPS) | HF_CAP_TOKEN,           \
                              WHY_NOT_SHARED, HF_TOKEN_STRENGTH_WHILE_DURABLE, SQL_ON_LOSS_TOKENS, \
                              HOST, FAIRNESS)                                                      \
    }
#define SQL_LOCK_TABLES(NAME, SCHEMES, SESSION_CAPS, WHY_NOT_SHARED, HOST, ROW_FAIRNESS,           \
                        SESSION_FAIRNESS)                                                          \
    {                                                                                              \
        SQL_LOCK_PAIR(NAME "-row", SCHEMES, "mode=row", 0, "a row is locked for one writer", HOST, \
                      ROW_FAIRNESS),                                                               \
            SQL_LOCK_PAIR(NAME "-session", SCHEMES, "mode=session", SESSION_CAPS, WHY_NOT_SHARED,  \
                          HOST, SESSION_FAIRNESS)                                                  \
    }
/* The other sets of promises, for struct hfi_engine. */
#define SQL_MODES(NATIVE)                                                        \
    .modes = (const struct hfi_promises *const[])                                \
    {                                                                            \
        &(NATIVE)[0][0], &(NATIVE)[0][1], &(NATIVE)[1][0], &(NATIVE)[1][1], NULL \
    }

#define SQL_ON_CRASH "freed by the server as soon as it sees the connection end"
#define SQL_ON_LOSS  "lost with the connection, and told so; a standby knows nothing of it"
#define SQL_ON_LOSS_TOKENS \
    "lost with the connection, and told so; tokens go on if the standby has the last commits"

#endif
