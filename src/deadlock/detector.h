/* SPDX-License-Identifier: MIT */
/*
 * The detector: a thread per store, started with the first request that may have to wait while its
 * session holds something. It reads a view of the whole store when such a wait is a second old, and
 * then at growing intervals. One view serves all waits of the process, and the detector works at
 * most a twentieth of the time. Of each cycle (graph.h) exactly one wait ends; the process to which
 * it belongs ends it.
 *
 * An engine that cannot list waiters may at least know what its own process holds and waits for,
 * and what other processes have told it (hfi_engine.tells_own): then cycles of those are found.
 *
 * A request that waits in the local queue is not seen by other processes. One whose
 * session holds something leaves that queue when it is a second old and goes to the
 * store by itself.
 */
#ifndef HFI_DEADLOCK_DETECTOR_H
#define HFI_DEADLOCK_DETECTOR_H

#include "holdfast/holdfast.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define HFI_DETECT_FIRST_MS 1000
#define HFI_DETECT_LONGEST  10 /* times first_ms: the longest time between two views */
#define HFI_DETECT_SHARE    20 /* of this many parts of the time one is for reading views */

struct hfi_store;
struct hfi_tag;
struct hfi_wait;

struct hfi_detector {
    bool able;        /* the store can list waiters, and detection was not switched off */
    int64_t first_ms; /* a wait is examined when it is this old */
    pthread_mutex_t lock;
    bool started, stop;
    _Atomic int awake; /* it will look at the list of waits soon, without being woken */
    _Atomic uint32_t wakeups;
    int64_t rest_ms; /* the thread's own: no view is read before this */
    pthread_t thread;
};

/* Takes deadlock_check= of the URL. */
void hfi_detect_init(struct hfi_store *store, int64_t first_ms);
void hfi_detect_stop(struct hfi_store *store);

/* This wait of a session that holds something begins, or goes on in the store. Its owner calls this; no
 * locks. */
void hfi_detect_watch(struct hfi_wait *wait, const struct hfi_tag *tag);
/* The error of a wait that ended with HF_DEADLOCK: it describes the circle. Returns ret_error. */
const hf_error *hfi_detect_error(const struct hfi_wait *wait, hf_error *ret_error);

#endif
