/* SPDX-License-Identifier: MIT */
/*
 * The only loop over a cell: read it, call a pure decision function, act on its verdict, repeat.
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
 * A decision may be called any number of times, and must recognise its own work. With `look_again`
 * a swap whose outcome is unknown is followed by another read. If the first copy has arrived, the
 * decision sees it; if it has not, and the second one gets there first, then the version has moved,
 * and the first one does nothing. If that read fails too, or the time is up, the outcome is
 * HF_UNKNOWN and never the failure of the read, which would say that nothing was done. A decision
 * that finds no trace of its work although there is `doubt` says itself whether that is HF_UNKNOWN:
 * another process may have overwritten or removed it.
 *
 * There is no event for the end of a foreign lease short of queueing for it. So a decision that depends on leases is asked
 * again in a while: soon at first, and once a second in the end.
 */
#ifndef HFI_CELL_RUN_H
#define HFI_CELL_RUN_H

#include "prim/action.h"
#include "util/buffer.h"

#define HFI_LEASES_FIRST_MS 125 /* between two checks of the leases; each time is twice the last */
#define HFI_LEASES_LAST_MS  1000

struct hfi_cell_run;
struct hfi_prim_task;

enum hfi_verdict {
    HFI_END,    /* the cell is as it should be */
    HFI_FAIL,   /* hfi_run_fail() has said why */
    HFI_WRITE,  /* hfi_run_write() has said what */
    HFI_DELETE, /* the cell */
    HFI_CLOCK,  /* ask again, with the store's time in `now_us` */
    HFI_ASK,    /* ask again, with `answer` to hfi_run_ask() */
    HFI_WAIT    /* until the cell changes, the time is up or, with `leases`, they must be checked */
};

typedef enum hfi_verdict hfi_decide_fn(struct hfi_cell_run *run, void *arg);

enum hfi_answer { HFI_UNASKED, HFI_IS_HELD, HFI_IS_GONE };

struct hfi_cell_run {
    /* Set before it begins. */
    hfi_decide_fn *decide;
    void *arg;
    bool patient; /* nothing of this call's own is at stake, so failures are retried until the time
                  * is up. A decision may change it */
    bool look_again; /* after a swap whose outcome is unknown */
    /* begin by waiting until the version is not that of `found`; the bytes do not matter */
    bool version_only;
    bool asks_user;        /* the decision calls user code: it runs in hf_store_process(), or on the
                    * caller's thread */
    bool stoppable;        /* the canceller ends the run also while it loses races */
    int64_t race_until_ms; /* when to give up after lost races; 0: HFI_CALL_LIMIT_MS after the last
                        * verdict that settled something */
    hf_status late;        /* the status then; HF_OK means HF_BUSY */
    const char *late_text; /* NULL: the engine's */

    /* For the decision to read. */
    struct hfi_cell found; /* what is there: as it was read, or written */
    bool wrote;            /* the last verdict of this run wrote it */
    bool doubt;            /* an earlier swap of this run may have been done */
    bool leases_due;       /* it is time to check leases */
    enum hfi_answer answer;
    bool has_time;
    int64_t now_us;   /* with has_time */
    int64_t heard_ns; /* likewise: our time (hfi_now_ns()) just after now_us was read */

    /* For the decision to write. */
    bool foreign;      /* with WRITE: the write is about another participant: its outcome is not
                        * that of this call */
    bool leases;       /* with WAIT: it depends on leases too */
    int64_t leases_ms; /* when to check them; 0: at once */

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
    int round;        /* lost races in a row */
    int64_t begun_ms; /* of the race */
    int64_t leases_pause_ms, rest_ms, wait_begun_ms;
};

/* Set up a run: the flags above are set before or after this, everything else is reset. */
void hfi_cell_run_begin(struct hfi_cell_run *run, hfi_decide_fn *decide, void *arg);
/* The run's action has ended with `got`, or the run begins (got is HF_OK then). HFI_BEGUN:
 * task->action is to be done. Any other status is the end; the text is in task->error. */
hf_status hfi_cell_run_step(struct hfi_prim_task *task, hf_status got);
/* Free its memory; `found` is gone. */
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
/* ASK whether the lease with this token (0: any) holds `name`, whose bytes stay where they are. If
 * the engine cannot inspect and `may_try` is set, the run tries to acquire the name instead: that
 * fails while it is held. Without `may_try` the answer is then that it is held. */
enum hfi_verdict hfi_run_ask(struct hfi_cell_run *run, const void *name, uint32_t len,
                             uint64_t token, bool may_try);

#endif
