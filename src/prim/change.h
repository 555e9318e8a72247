/* SPDX-License-Identifier: MIT */
/*
 * Changing a cell by a plan: read it, let a pure function decide what it should become, swap at the
 * version that was read; again if somebody was quicker.
 *
 * A plan may be asked any number of times, and must find its own work done: a swap whose outcome is not
 * known is followed by another look. If the first copy has arrived the plan sees it; if it has not, and
 * the second one gets there first, then the version has moved, and it does nothing.
 * If the look fails too, or the time is up, the outcome is HF_UNKNOWN, and never the failure of the look, which
 * would say that nothing was done. A plan that finds no trace of its work although there is doubt says itself
 * whether that is HF_UNKNOWN: somebody may have covered or removed it.
 */
#ifndef HFI_CHANGE_H
#define HFI_CHANGE_H

#include "prim/cell_op.h"
#include "util/buffer.h"

struct hfi_change {
    struct hfi_cell found; /* for the plan to read */
    bool doubt;            /* likewise: an earlier swap of this call may have been done */
    enum { HFI_KEEP, HFI_WRITE, HFI_REMOVE } what;
    struct hfi_buffer bytes; /* HFI_WRITE: what it should be */
    int64_t ttl_ms;          /* likewise; 0: no end */
};

/* Decide what change->found should become. Anything but HF_OK ends it, with the text in `inner`. */
typedef hf_status hfi_plan_fn(struct hfi_change *change, void *arg, hf_error *inner);

/* HF_OK: it is as the plan wants it, at *ret_version (may be NULL; 0: there is none). HF_BUSY: others
 * changed it all the time. HF_UNKNOWN: a swap may have been done, and nothing has settled it. */
hf_status hfi_cell_plan(const struct hfi_prim *prim, hfi_plan_fn *plan, void *arg,
                        uint64_t *ret_version, hf_error *inner);
/* Likewise, and the error is wrapped. */
hf_status hfi_cell_change(const struct hfi_prim *prim, hfi_plan_fn *plan, void *arg,
                          uint64_t *ret_version, hf_error *err);

/* ---- records ------------------------------------------------------------------------------------ */

#define HFI_DIGITS 16 /* 2^53 has so many */

/* Append to the buffer. false: out of memory. */
bool hfi_put_bytes(struct hfi_buffer *to, const void *bytes, size_t len);
bool hfi_put_number(struct hfi_buffer *to, uint64_t number); /* HFI_DIGITS digits */
bool hfi_put_text(struct hfi_buffer *to, const char *text);  /* its length, and the text */

/* What is left to be read of a record. Each says false if it is not there, for good. */
struct hfi_reader {
    const unsigned char *at;
    size_t left;
};
bool hfi_get_bytes(struct hfi_reader *from, size_t len, const unsigned char **ret_bytes);
bool hfi_get_number(struct hfi_reader *from, uint64_t *ret_number);
bool hfi_get_text(struct hfi_reader *from, char *ret_text, size_t size); /* no NUL inside */

#endif
