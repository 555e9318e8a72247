/* SPDX-License-Identifier: MIT */
/*
 * The tables of mode=row and mode=session, which differ between servers in their names and a few words only. Included
 * by the file of each engine that has a function `hold_open`.
 *
 * Each mode has two: tokens=on adds fencing tokens.
 */
#ifndef HFI_SQ_HOLD_TABLE_H
#define HFI_SQ_HOLD_TABLE_H

#include "engine/sql/sq.h"

/* No shared locks: a reader and a mutex of one name could not be told from each other, and must not mix. No queue that
 * can be seen, and no order that is promised: it is the server's own. */
#define SQ_HOLD_CAPS                                                                     \
    (HF_CAP_WAIT | HF_CAP_PROCESS | HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | \
     HF_CAP_CLOCK)

#define SQ_HOLD_TABLE(NAME, SCHEMES, CAPS, TOKENS, FAILOVER, HOST, FAIRNESS)                 \
    {                                                                                        \
        .abi = HFI_ENGINE_ABI, .drive = HFI_BLOCKING,                                        \
        .info = { .name = (NAME),                                                            \
                  .schemes = (SCHEMES),                                                      \
                  .available = 1,                                                            \
                  .tokens = (TOKENS),                                                        \
                  .caps = SQ_HOLD_CAPS | (CAPS),                                             \
                  .on_crash = SQ_ON_CRASH,                                                   \
                  .on_pause = "kept while the connection lives: a stopped process keeps it", \
                  .on_clock_jump = "unaffected: there is no ttl",                            \
                  .on_server_loss = (FAILOVER),                                              \
                  .on_partition =                                                            \
                      "LOST after 14 s without a sign of the server, which frees it " HOST,  \
                  .fairness = (FAIRNESS),                                                    \
                  .wakeup = "the server's own lock queue" },                                 \
        .default_ttl_ms = 0, .tells_own = true, .min_ttl_ms = SQ_MIN_TTL_MS,                 \
        .guard_ms = SQ_GUARD_MS, .open = hold_open, .close = hfi_sq_close,                   \
        .location = hfi_sq_location, .submit = hfi_sq_submit, .cancel = hfi_sq_cancel,       \
        .doctor = hfi_sq_hold_doctor,                                                        \
    }

/* [mode is session][tokens=on] */
#define SQ_HOLD_PAIR(NAME, SCHEMES, HOST, FAIRNESS)                                                \
    {                                                                                              \
        SQ_HOLD_TABLE(NAME, SCHEMES, 0, HF_TOKENS_NONE, SQ_ON_LOSS, HOST, FAIRNESS),               \
            SQ_HOLD_TABLE(NAME, SCHEMES, HF_CAP_TOKEN, HF_TOKENS_WHILE_DURABLE, SQ_ON_LOSS_TOKENS, \
                          HOST, FAIRNESS)                                                          \
    }
#define SQ_HOLD_TABLES(NAME, SCHEMES, HOST, ROW_FAIRNESS, SESSION_FAIRNESS) \
    {                                                                       \
        SQ_HOLD_PAIR(NAME "-row", SCHEMES, HOST, ROW_FAIRNESS),             \
            SQ_HOLD_PAIR(NAME "-session", SCHEMES, HOST, SESSION_FAIRNESS)  \
    }

#define SQ_ON_CRASH "freed by the server as soon as it sees the connection end"
#define SQ_ON_LOSS  "lost with the connection, and told so; a standby knows nothing of it"
#define SQ_ON_LOSS_TOKENS \
    "lost with the connection, and told so; tokens go on if the standby has the last commits"

#endif
