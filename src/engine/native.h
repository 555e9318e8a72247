/* SPDX-License-Identifier: MIT */
/*
 * Ops that only some engines have: several cells in one step (HF_CAP_COMMIT), counters (HFI_NATIVE_COUNTER), rate limits
 * (HFI_NATIVE_LIMIT) and scripts (HF_CAP_SCRIPTS). If an engine has no counters or limits of its own, src/prim makes them
 * from a cell.
 *
 * Core keeps each of these structs, with the name's bytes, until the op is finished.
 */
#ifndef HFI_NATIVE_H
#define HFI_NATIVE_H

#include "engine/engine.h"
#include "holdfast/primitives.h"
#include "holdfast/redis.h"

/* ---- several cells in one step --------------------------------------------------------------------- */

/* LEAVE only asserts the version. Of an item with version 0 the cell must not exist; it is never a DELETE. */
struct hfi_commit_item {
    struct hfi_name name;
    uint64_t version;
    hf_cell_action action;
    const void *bytes; /* WRITE */
    size_t len;
    int64_t ttl_ms; /* WRITE: as that of a swap; 0: none */
    uint64_t ret_version;
};

/* Sorted by the bytes of the names, and no name is there twice: an engine that locks the items one by one has an order for it. */
struct hfi_commit_op {
    size_t count; /* 1 to HF_CELLS_MAX */
    struct hfi_commit_item *items;
};

/* The item whose cell has another version than it expects; `count`: none. */
static inline size_t hfi_commit_changed(const struct hfi_commit_op *commit)
{
    size_t i = 0;

    while (i < commit->count && commit->items[i].ret_version == commit->items[i].version)
        i++;
    return i;
}

static inline bool hfi_commit_writes(const struct hfi_commit_op *commit)
{
    for (size_t i = 0; i < commit->count; i++)
        if (commit->items[i].action != HF_CELL_ACTION_LEAVE)
            return true;
    return false;
}

/* ---- counters ------------------------------------------------------------------------------------ */

enum hfi_counter_verb {
    HFI_COUNTER_ADD,    /* value -> ret_value; HF_OVERFLOW: nothing has changed */
    HFI_COUNTER_GET,    /* -> ret_value; one that is not there is 0 */
    HFI_COUNTER_SET,    /* value */
    HFI_COUNTER_SET_IF, /* value, if it is `expected`; HF_CHANGED: it is ret_value */
    HFI_COUNTER_DELETE
};

/* HF_MISMATCH: the name is a cell of another kind. Nothing but GET is ever sent twice: HF_UNKNOWN means that it may have
 * been done. */
struct hfi_counter_op {
    enum hfi_counter_verb verb;
    struct hfi_name name;
    int64_t value, expected;
    int64_t ret_value;
};

/* ---- rate limits ---------------------------------------------------------------------------------- */

#define HFI_LIMIT_HEAD      27 /* bytes at the beginning of a state that say whose it is */
#define HFI_LIMIT_PARTS_MAX (INT64_C(1) << 51) /* all sums stay below 2^53: exact in Lua too */

struct hfi_limit_rule {
    hf_limit_algorithm algorithm;
    int64_t rate, period_us, burst;
    int64_t unit, speed; /* BUCKET: parts of a permit; parts that come back in a microsecond */
    unsigned char head[HFI_LIMIT_HEAD];
};

enum hfi_limit_act {
    HFI_LIMIT_TAKE,
    HFI_LIMIT_LOOK, /* with rate 0: whatever rule it has */
    HFI_LIMIT_BACK,
    HFI_LIMIT_SET,  /* `rule` is the rule from now on, whatever others say */
    HFI_LIMIT_UNSET /* from now on it is as requests say. Has no rule */
};

struct hfi_limit_ask {
    enum hfi_limit_act act;
    int64_t permits;
    int64_t wait_us; /* TAKE: at most */
    int64_t at_us;   /* BACK: which */
};

enum hfi_limit_said {
    HFI_LIMIT_GRANTED,  /* at at_us, which may be later than now */
    HFI_LIMIT_REFUSED,  /* it would have been granted at at_us */
    HFI_LIMIT_SEEN_IT,  /* LOOK, SET */
    HFI_LIMIT_RETURNED, /* BACK */
    HFI_LIMIT_KEPT,     /* BACK: not possible; nothing has changed */
    HFI_LIMIT_OPENED,   /* UNSET */
    HFI_LIMIT_NONE,     /* LOOK with rate 0: there is no such limit */
    HFI_LIMIT_MANY,     /* TAKE: more permits than the rule that was set ever has */
    HFI_LIMIT_MISMATCH, /* the state is of another limit, or of something else */
    HFI_LIMIT_VERSION,  /* ... of a later version of Holdfast */
    HFI_LIMIT_CORRUPT
};

struct hfi_limit_answer {
    enum hfi_limit_said said;
    int64_t wait_us;   /* at_us less the state's now */
    int64_t at_us;     /* by the state's time */
    int64_t left;      /* permits that could be taken at once */
    int64_t refill_us; /* until all permits are back, if nobody takes any */
    size_t len;        /* of the bytes to be written; 0: none */
    /* The head of the state, if its rule is in force and not that of the question; else zeros. */
    unsigned char head[HFI_LIMIT_HEAD];
};

/*
 * Decide as hfi_limit_decide() of prim/limit_plan.h does, by the server's clock, and in one step for everybody. HF_OK:
 * `answer` is filled in, but for `len`; also if it says no. HF_MISMATCH: something else is under the name. Only a LOOK is
 * ever sent twice. A state with a rule that was set does not expire.
 */
struct hfi_limit_op {
    struct hfi_name name;
    struct hfi_limit_rule rule;
    struct hfi_limit_ask ask;
    struct hfi_limit_answer answer;
};

/* ---- scripts -------------------------------------------------------------------------------------- */

#define HFI_SCRIPT_SHA_LEN HF_SCRIPT_SHA1_LEN

enum hfi_script_verb {
    HFI_SCRIPT_RUN,  /* script -> what it returned */
    HFI_SCRIPT_LOAD, /* texts[0], to every server -> its SHA-1 */
    HFI_SCRIPT_EXISTS, /* texts, each a script or a SHA-1 in hex -> a list of 1 (every server has it) and 0 */
    HFI_SCRIPT_FLUSH /* every server forgets all scripts; no value */
};

/*
 * What it points to is valid during submit() only; the struct itself until the op is finished.
 *
 * RUN is never sent again after it may have begun: HF_UNKNOWN. HF_INVALID: the script is at fault (it does
 * not compile, raised an error, or answered one) or, before it was sent, its keys are of several slots;
 * the text is the server's. HF_NOT_FOUND: the server has no script with this SHA-1. HF_CANCELLED: it was killed.
 * HF_UNSUPPORTED: this server cannot run it read-only.
 */
struct hfi_script_op {
    enum hfi_script_verb verb;
    const hf_script_request *script; /* RUN: with real lengths; `text` or `sha1` */
    const char *const *texts;        /* LOAD, EXISTS */
    const size_t *lens;              /* NULL: each ends with a NUL */
    size_t count;
    hf_value *ret_value; /* the caller's to free, after HF_OK */
};

/* One block holds a whole tree, so the root is freed and nothing else. */
struct hf_value {
    hf_value_kind kind;
    int64_t integer;
    const char *bytes; /* with a NUL behind them */
    size_t len;
    const struct hf_value *items;
    size_t count;
};

#endif
