/* SPDX-License-Identifier: MIT */
/*
 * The only loop over a cell: read it, ask a pure decision what it should become, act on the verdict, ask again.
 *
 *            +--------------------------------------------------------------+
 *            v                                                              |
 *          READ ---> decide ---> END, FAIL                                  |
 *                     ^  |                                                  |
 *                     |  +-----> WRITE, DELETE: SWAP --- quicker, unknown --+ (pause)
 *                     |  |                        |                         |
 *                     +--|------------------------+ done                    |
 *                     +--|-- CLOCK: the store's time; ASK: is that lease held?
 *                        +-----> WAIT: until the cell changes, or leases are due
 *
 * After a successful write the decision sees what it wrote, without another read: a change costs one read and one swap.
 *
 * A decision may be asked any number of times, and must find its own work done. With `look_again` a swap whose outcome is
 * unknown is followed by another read. If the first copy has arrived, the decision sees it; if it has not, and the second
 * one gets there first, then the version has moved, and the first one does nothing. If that read fails too, or the time is
 * up, the outcome is HF_UNKNOWN and never the failure of the read, which would say that nothing was done. A decision that
 * finds no trace of its work although there is `doubt` says itself whether that is HF_UNKNOWN: somebody may have covered
 * or removed it.
 *
 * There is no event for the end of a foreign lease short of queueing for it. So a decision that depends on leases is asked
 * again in a while: soon at first, and once a second in the end.
 */
#ifndef HFI_CELL_RUN_H
#define HFI_CELL_RUN_H

#include "prim/action.h"
#include "util/buffer.h"

#define HFI_LEASES_FIRST_MS 125 /* between two looks at leases; each time is twice the last */
#define HFI_LEASES_LAST_MS  1000

struct hfi_cell_run;
struct hfi_prim_task;

enum hfi_verdict {
    HFI_END,    /* it is as we want it */
    HFI_FAIL,   /* hfi_run_fail() has said why */
    HFI_WRITE,  /* hfi_run_write() has said what */
    HFI_DELETE, /* the cell */
    HFI_CLOCK,  /* ask again, with the store's time in `now_us` */
    HFI_ASK,    /* ask again, with `answer` to hfi_run_ask() */
    HFI_WAIT /* until the cell changes, the time is up or, with `leases`, they are to be looked at */
};

typedef enum hfi_verdict hfi_decide_fn(struct hfi_cell_run *run, void *arg);

enum hfi_answer { HFI_UNASKED, HFI_IS_HELD, HFI_IS_GONE };

struct hfi_cell_run {
    /* Set before it begins. */
    hfi_decide_fn *decide;
    void *arg;
    bool
        patient; /* nothing of our own is at stake: what cannot be settled now is tried again until the time is
                              up. A decision may change it */
    bool look_again; /* after a swap whose outcome is unknown */
    bool
        version_only; /* begin by waiting until the version is not that of `found`; the bytes do not matter */
    bool
        asks_user; /* the decision calls user code: in hf_store_process(), or on the caller's thread */
    bool stoppable; /* the canceller ends it also while others are quicker */
    int64_t
        race_until_ms; /* when to give up because others are quicker; 0: HFI_CALL_LIMIT_MS after the last verdict that
                              settled something */
    hf_status late;        /* what that is; HF_OK: HF_BUSY */
    const char *late_text; /* NULL: the engine's */

    /* For the decision to read. */
    struct hfi_cell found; /* what is there: as it was read, or written */
    bool wrote;            /* it was written by the last verdict of this run */
    bool doubt;            /* an earlier swap of this run may have been done */
    bool leases_due;       /* it is time to look at leases */
    enum hfi_answer answer;
    bool has_time;
    int64_t now_us;   /* with has_time */
    int64_t heard_ns; /* likewise: a moment after it was read, by hfi_now_ns() */

    /* For the decision to write. */
    bool foreign;      /* with WRITE: it is about somebody else. An unknown outcome is not ours */
    bool leases;       /* with WAIT: it depends on leases too */
    int64_t leases_ms; /* when to look at them; 0: at once */

    /* The run's own. */
    bool active;
    int state;
    hf_status status; /* HFI_FAIL */
    struct hfi_buffer buffer;
    unsigned char *owned; /* the bytes of `found`, if they are not the caller's */
    const void *bytes;
    size_t len;
    int64_t ttl_ms;
    const void *ask_name;
    uint32_t ask_len;
    uint64_t ask_token;
    bool ask_may_try;
    hf_acquire_request try_request;
    int round;        /* swaps that came too late, one after the other */
    int64_t begun_ms; /* of the race */
    int64_t leases_pause_ms, rest_ms, wait_begun_ms;
};

/* Set it up: the flags above are set before or after this, all else is new. */
void hfi_cell_run_begin(struct hfi_cell_run *run, hfi_decide_fn *decide, void *arg);
/* The run has an answer to its action, or begins (got is HF_OK then). HFI_BEGUN: task->action is to be done. Else that
 * is the end; the text is in task->error. */
hf_status hfi_cell_run_step(struct hfi_prim_task *task, hf_status got);
/* Give back its memory; `found` is gone. */
void hfi_cell_run_done(struct hfi_cell_run *run);

/* ---- for decisions ------------------------------------------------------------------------------------ */

/* FAIL with this status and text. */
__attribute__((format(printf, 3, 4))) enum hfi_verdict hfi_run_fail(struct hfi_cell_run *run,
                                                                    hf_status status,
                                                                    const char *format, ...);
hf_error *hfi_run_error(struct hfi_cell_run *run);
/* Likewise: the cell of that name is of another kind. */
enum hfi_verdict hfi_run_mismatch(struct hfi_cell_run *run);
enum hfi_verdict hfi_run_memory(struct hfi_cell_run *run);

/* An empty buffer for what is to be written. */
struct hfi_buffer *hfi_run_buffer(struct hfi_cell_run *run);
/* WRITE what is in that buffer; ttl_ms 0: no end. */
enum hfi_verdict hfi_run_write(struct hfi_cell_run *run, int64_t ttl_ms);
/* WRITE bytes that stay where they are while the run lasts. */
enum hfi_verdict hfi_run_write_bytes(struct hfi_cell_run *run, const void *bytes, size_t len,
                                     int64_t ttl_ms);
/* ASK whether the lease with this token (0: whichever) holds `name`, whose bytes stay where they are. Where nobody can look,
 * and `may_try`, the name is tried: nobody gets one that is held. Else the answer is that it is held. */
enum hfi_verdict hfi_run_ask(struct hfi_cell_run *run, const void *name, uint32_t len,
                             uint64_t token, bool may_try);

#endif
