/* SPDX-License-Identifier: MIT */
/*
 * The versioned cells of a server in memory (mem_server.h): as simple as possible. No thread, no
 * clock, no network; the caller locks. The bytes of a cell stay until the server is freed, so
 * requests and replies carry pointers. Memory as in mem_server.h.
 */
#ifndef MEM_CELLS_H
#define MEM_CELLS_H

#include "engine/native.h"
#include "mem_server.h"

struct mem_cells;

struct mem_cells *mem_cells_new(mem_push_fn *push, void *arg);
void mem_cells_free(struct mem_cells *cells);

/* Bytes for a request; good until mem_cells_free(). */
const void *mem_cells_keep(struct mem_cells *cells, const void *bytes, size_t len);

/* The items of a commit, with all that they point to; likewise. */
const struct hfi_commit_op *mem_cells_keep_commit(struct mem_cells *cells,
                                                  const struct hfi_commit_op *commit);

/*
 * Carry out MEM_CELL_READ, MEM_CELL_SWAP, MEM_CELL_COMMIT, MEM_CELL_WAIT or MEM_TIME. A second copy of a swap (by its
 * `owner`) is answered as the first was. A wait that must wait is answered with `queued`, and pushed to
 * its owner when the cell has changed, at most MEM_WAITER_LIFE_MS after it was last asked for.
 */
struct mem_reply mem_cells_call(struct mem_cells *cells, const struct mem_request *request,
                                int64_t now_ms);

/* Expire what is due, and tell the waiters. */
void mem_cells_tick(struct mem_cells *cells, int64_t now_ms);
int64_t mem_cells_next_ms(const struct mem_cells *cells); /* HFI_NEVER: nothing is due */
void mem_cells_forget(struct mem_cells *cells);           /* all of them, telling nobody */

#endif
