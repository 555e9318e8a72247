/* SPDX-License-Identifier: MIT */
/*
 * One step on a cell, for the primitives that stand on cells: on the calling thread, which
 * drives the engine if need be, and at most as long as a call may take that waits for nobody. And
 * waiting for a change of one, for as long as its caller likes (cell_wait.c).
 *
 * The caller has entered the store (hfi_prim_enter()). Errors are those of the engine, not yet
 * wrapped: hfi_prim_error() adds the store, the verb and the name. A step that is given up because
 * the store does not answer is HF_UNAVAILABLE if it could not change anything, else HF_UNKNOWN.
 */
#ifndef HFI_CELL_OP_H
#define HFI_CELL_OP_H

#include "core/store.h"

/* What a call of a primitive is about. */
struct hfi_prim {
    struct hfi_store *store;
    hf_store *handle; /* the caller's; NULL: it came with a lease */
    const char *verb; /* for errors: "acquire", "count" */
    struct hfi_name name;
};

/* Find the store of a handle, check the name, and that the engine has `caps`. The name's bytes stay the
 * caller's. After HF_OK hfi_prim_leave() is due. */
hf_status hfi_prim_enter(struct hfi_prim *prim, hf_store *store, const char *verb, const void *name,
                         size_t name_len, uint64_t caps, hf_error *err);
void hfi_prim_leave(struct hfi_prim *prim);

/* HF_UNSUPPORTED, with what the engine lacks: cells, or else a clock. */
hf_status hfi_prim_unsupported(struct hfi_store *store, const char *verb, hf_error *err);
/* Fill in err: "<location>: <verb> '<name>': ...". Returns status. */
hf_status hfi_prim_error(const struct hfi_prim *prim, hf_status status, const hf_error *inner,
                         hf_error *err);

/* A cell as it was found. `bytes` belong to whoever read it: hfi_cell_forget(). */
struct hfi_cell {
    unsigned char *bytes; /* NULL: there is no such cell, and version is 0 */
    size_t len;
    uint64_t version;
    int64_t ttl_ms; /* left; -1: no end */
};

/* HF_OK also if there is none. */
hf_status hfi_cell_read(const struct hfi_prim *prim, struct hfi_cell *ret_cell, hf_error *inner);
void hfi_cell_forget(struct hfi_cell *cell);

/* Put bytes (NULL: delete it) where the cell has `version` (0: there is none). HF_BUSY: it has another
 * one. ttl_ms 0: no end. ret_version may be NULL. */
hf_status hfi_cell_swap(const struct hfi_prim *prim, uint64_t version, const void *bytes,
                        size_t len, int64_t ttl_ms, uint64_t *ret_version, hf_error *inner);

/*
 * Wait until the cell's version is another than `version` (0: there is none), at once if it is already;
 * *ret_version (may be NULL) says which, 0: it is gone. until_ms: hfi_now_ms() time, HFI_NEVER: no limit;
 * one that has passed is a look. An event wakes it with HF_CAP_CELL_WATCH; elsewhere the cell is read
 * again every 25 ms at first and every second in the end. A store that goes away is waited for.
 *
 * HF_TIMEOUT. HF_CANCELLED: by `cancel` (may be NULL), or the store is being closed. HF_UNAVAILABLE: the
 * time is up, and the store was away at its end. HF_INVALID, HF_FORKED: not a canceller.
 */
hf_status hfi_cell_wait(const struct hfi_prim *prim, uint64_t version, int64_t until_ms,
                        hf_cancel *cancel, uint64_t *ret_version, hf_error *inner);

/*
 * A pause before the next try, until until_ms (hfi_now_ms() time), for a call whose deadline is its
 * own business. HF_CANCELLED: by `cancel` (may be NULL), or the store is being closed. HF_INVALID,
 * HF_FORKED: not a canceller.
 */
hf_status hfi_prim_pause(const struct hfi_prim *prim, int64_t until_ms, hf_cancel *cancel,
                         hf_error *inner);

/* The store's clock, microseconds since 1970 (HF_CAP_CLOCK). */
hf_status hfi_store_time(const struct hfi_prim *prim, int64_t *ret_us, hf_error *inner);

#endif
