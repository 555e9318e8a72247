/* SPDX-License-Identifier: MIT */
/* The C side of the Go binding: callbacks that end in Go, and what must lie in C memory. */
#ifndef HOLDFAST_GO_SHIM_H
#define HOLDFAST_GO_SHIM_H

#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

/* Their `arg` is a key of ids in ids.go. */
void hfgo_done(const hf_result *result, void *arg);
void hfgo_event(hf_lease *lease, hf_event event, const char *text, void *arg);
hf_status hfgo_decide(const hf_cell *old, hf_cell_change *change, void *arg);

/* What a short blocking call needs. It lies in C memory, because the request holds pointers. */
struct hfgo_frame {
    hf_acquire_request request;
    hf_lease *lease;
    hf_error error;
    char name[HF_NAME_MAX];
};

/* One cgo call each: the frame has the request, and room for what comes back. */
hf_status hfgo_acquire(hf_store *store, struct hfgo_frame *frame);
hf_status hfgo_release(hf_lease *lease, struct hfgo_frame *frame);

/* Does the descriptor poll readable now? */
int hfgo_readable(int fd);

#endif
