/* SPDX-License-Identifier: MIT */
/*
 * One action of a primitive's task (task.h): an op of the engine, a wait for a cell, a pause, an
 * acquire, a release, or a check of a lease. Each is a child of core's task (core/task.h), which
 * does it on the caller's thread or without one.
 *
 * Errors are those of the engine, without the store, the verb and the name; only those of ACQUIRE
 * and RELEASE are complete. An op that is not answered in time is HF_UNAVAILABLE if it changes
 * nothing, and HF_UNKNOWN if it may have changed something.
 */
#ifndef HFI_ACTION_H
#define HFI_ACTION_H

#include "engine/native.h"
#include "prim/prim.h"

struct hfi_prim_task;

/* A cell as it was found. */
struct hfi_cell {
    unsigned char *bytes; /* NULL: there is no such cell, and version is 0 */
    size_t len;
    uint64_t version;
    int64_t ttl_ms; /* time left; -1: no end */
};
void hfi_cell_forget(struct hfi_cell *cell);

enum hfi_action_kind {
    HFI_ACT_READ, /* -> cell, owned by the task; HF_OK also if there is none */
    HFI_ACT_SWAP, /* version (0: there is none), bytes (NULL: delete it), len, ttl_ms (0: no end) -> version; HF_BUSY:
                        the cell has another version */
    HFI_ACT_COMMIT, /* commit, of hfi_malloc() with all that it points to: it belongs to the op then. HF_OK, HF_BUSY -> commit,
                        valid until the next action. HF_CAP_COMMIT */
    HFI_ACT_TIME,   /* -> now_us: the store's clock, since 1970 (HF_CAP_CLOCK) */
    HFI_ACT_COUNTER, /* native.counter; the engine has HFI_NATIVE_COUNTER */
    HFI_ACT_LIMIT,   /* native.limit; the engine has HFI_NATIVE_LIMIT */
    HFI_ACT_WAIT, /* version, until_ms: until the cell has another version -> version (0: it is gone). HF_TIMEOUT.
                        The engine has HF_CAP_CELL_WATCH */
    HFI_ACT_PAUSE,   /* until_ms; or pause_us if that is not 0: that pause never ends early */
    HFI_ACT_HOLDS,   /* name, token (0: any) -> holds: does that lease hold the name?
                    * HF_CAP_INSPECT */
    HFI_ACT_LOOK,    /* name, look -> look: what the store shows of the name. HF_CAP_INSPECT */
    HFI_ACT_ACQUIRE, /* request -> lease */
    HFI_ACT_RELEASE, /* lease */
    HFI_ACT_SCRIPT,  /* native.script: used while it begins; HF_CAP_SCRIPTS */
    HFI_ACT_TURN     /* continue on a thread where user code may run */
};

/* WAIT and PAUSE end with HF_CANCELLED by the task's canceller, and when the store is being closed; HF_INVALID,
 * HF_FORKED: not a canceller. */
struct hfi_action {
    enum hfi_action_kind kind;
    const void *bytes;
    size_t len;
    uint64_t version;
    int64_t ttl_ms;
    int64_t until_ms;
    int64_t pause_us;
    int64_t now_us;
    struct hfi_cell cell;
    struct hfi_commit_op *commit;
    bool writes; /* COMMIT: it is not only a check */
    union {
        struct hfi_counter_op counter;
        struct hfi_limit_op limit;
        struct hfi_script_op script;
    } native;
    struct {
        const void *bytes;
        uint32_t len;
    } name;
    uint64_t token;
    bool holds;
    struct hfi_lease_sink *sink; /* HOLDS, while it is under way: the op's memory */
    /* LOOK: begins a block of memory, which is the op's while that is under way; the task's again afterwards, unless the op was given
     * up: then NULL. */
    struct hfi_sink *look;
    void (*forget_look)(void *look, struct hfi_op *op); /* frees it */
    const hf_acquire_request *request;
    hf_lease *lease;
};

/* Begin task->action. Returns HFI_BEGUN, or the final status if it ended at once, with the text in
 * task->error. */
hf_status hfi_action_begin(struct hfi_prim_task *task);
/* The child has ended with `got`: store its results in task->action and its text in task->error.
 * Returns the action's status. */
hf_status hfi_action_end(struct hfi_prim_task *task, hf_status got);

#endif
