/* SPDX-License-Identifier: MIT */
/* Data of the current thread. */
#ifndef HFI_THREAD_H
#define HFI_THREAD_H

#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <stdint.h>

struct hfi_store;

#define HFI_SPARE_MAX 4
#define HFI_HELD_MAX  8

struct hfi_spares {
    void *slots[HFI_SPARE_MAX];
    unsigned count;
};

/* A callback of a store that this thread is in. On its stack; they nest. */
struct hfi_calling {
    const struct hfi_store *store;
    const struct hfi_calling *outer; /* NULL: none */
};

/* One per thread. After a fork it describes the parent's thread until hfi_thread_id() is asked. */
struct hfi_self {
    uint64_t process; /* hfi_process_id() of when the ids were drawn */
    uint64_t id;      /* of this thread; never used again in this process */
    int64_t tid;
    /* the innermost callback that this thread is in; NULL: none */
    const struct hfi_calling *calling;
    unsigned stopping; /* it is stopping waits, perhaps with locks held */
    /* it drives this store in hf_store_process(), and calls back next; NULL: none */
    const struct hfi_store *processes;

    struct hfi_spares leases, calls; /* spare.h */
    bool watched;                    /* the end of this thread is noticed */

    uint64_t owner[2]; /* see owner.h */
    uint64_t owner_process;
    uint32_t owners_left;

    /* The latest leases that it holds: see session.h. */
    hf_lease *held[HFI_HELD_MAX];
    uint32_t held_count;
};

/* In the static TLS block of every thread: the library is linked, or loaded early. */
extern _Thread_local struct hfi_self hfi_self __attribute__((tls_model("initial-exec")));

/* This thread, for HF_FLAG_REENTRANT. Not the kernel's number, which is soon used again. */
uint64_t hfi_thread_id(void);
/* This thread, for people. */
int64_t hfi_thread_tid(void);

#endif
