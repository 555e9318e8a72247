/* SPDX-License-Identifier: MIT */
/*
 * The caller's event loop: asynchronous calls, and the work of hf_store_process().
 *
 * An asynchronous call is counted from its begin until its callback was called.
 * The thread that gets the answer puts it into `done` and makes the descriptor readable; callbacks
 * run only in hf_store_process(). A thread that gets it in hf_store_process() calls back before it returns, and
 * touches the descriptor only if there are more: an answer costs no write(2) and read(2) of its own.
 */
#ifndef HFI_LOOP_H
#define HFI_LOOP_H

#include "util/list.h"

#include <pthread.h>
#include <stdint.h>

struct hfi_store;

struct hfi_loop {
    pthread_mutex_t lock;
    struct hfi_list done;   /* struct hfi_call, by `due` */
    uint32_t pending;       /* calls whose callback has not been called */
    bool used;              /* hf_store_fd() was called: the loop drives the engine */
    bool rung;              /* event_fd is readable */
    int epoll_fd, event_fd; /* -1: hf_store_fd() was never called */
};

void hfi_loop_init(struct hfi_loop *loop);
void hfi_loop_done(struct hfi_loop *loop);
/* A call is due, by its `due`. The store may be gone when this returns. */
void hfi_loop_add(struct hfi_store *store, struct hfi_list *due);
/* Make hf_store_fd() readable: something is due, or a timeout has changed. Any locks of shards. */
void hfi_loop_ring(struct hfi_store *store);
/* The engine's timeout has become shorter: the loop, if there is one, must ask for it again. */
void hfi_loop_ring_timeout(struct hfi_store *store);
/* Does the caller's loop drive the engine? It does after hf_store_fd(). */
bool hfi_loop_drives(struct hfi_store *store);
/* Run the callbacks that are due. */
void hfi_loop_run(struct hfi_store *store);

#endif
