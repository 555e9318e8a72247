/* SPDX-License-Identifier: MIT */
/*
 * Cells in memory, see mem_cells.h. A deleted cell stays as an entry without bytes: it remembers
 * the swap that deleted it, so that a late copy of that swap is not answered as failed.
 */
#include "mem_cells.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct watcher {
    struct watcher *next;
    struct mem_request ask;
    int64_t until_ms; /* after this it counts as gone */
};

struct cell {
    struct cell *next;
    unsigned char name[HF_NAME_MAX];
    uint32_t name_len;
    const void *bytes; /* NULL: there is none */
    size_t len;
    uint64_t version;
    int64_t until_ms;                /* HFI_NEVER */
    unsigned char by[HFI_OWNER_LEN]; /* the swap that made it so */
    uint64_t by_version;             /* the version in its answer */
};

struct blob {
    struct blob *next;
    unsigned char bytes[];
};

struct mem_cells {
    struct cell *cells;
    struct watcher *watchers;
    struct blob *blobs;
    uint64_t last_version;
    mem_push_fn *push;
    void *push_arg;
};

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

struct mem_cells *mem_cells_new(mem_push_fn *push, void *arg)
{
    struct mem_cells *cells = must(calloc(1, sizeof *cells));

    cells->push = push;
    cells->push_arg = arg;
    return cells;
}

void mem_cells_forget(struct mem_cells *cells)
{
    struct cell *cell;

    while ((cell = cells->cells)) {
        cells->cells = cell->next;
        free(cell);
    }
}

void mem_cells_free(struct mem_cells *cells)
{
    struct watcher *watcher;
    struct blob *blob;

    mem_cells_forget(cells);
    while ((watcher = cells->watchers)) {
        cells->watchers = watcher->next;
        free(watcher);
    }
    while ((blob = cells->blobs)) {
        cells->blobs = blob->next;
        free(blob);
    }
    free(cells);
}

const void *mem_cells_keep(struct mem_cells *cells, const void *bytes, size_t len)
{
    struct blob *blob = must(malloc(sizeof *blob + len + 1));

    memcpy(blob->bytes, bytes, len);
    blob->next = cells->blobs;
    cells->blobs = blob;
    return blob->bytes;
}

/* ---- entries ----------------------------------------------------------------- */

static struct cell *find(struct mem_cells *cells, const struct mem_request *ask)
{
    struct cell *cell = cells->cells;

    while (cell &&
           (cell->name_len != ask->name_len || memcmp(cell->name, ask->name, ask->name_len) != 0))
        cell = cell->next;
    return cell;
}

static uint64_t version_of(const struct cell *cell)
{
    return cell && cell->bytes ? cell->version : 0;
}

static struct cell *make(struct mem_cells *cells, const struct mem_request *ask)
{
    struct cell *cell = must(calloc(1, sizeof *cell));

    memcpy(cell->name, ask->name, ask->name_len);
    cell->name_len = ask->name_len;
    cell->until_ms = HFI_NEVER;
    cell->next = cells->cells;
    cells->cells = cell;
    return cell;
}

/* Push to every waiter for another version of the cell. */
static void tell(struct mem_cells *cells, const struct cell *cell, int64_t now_ms)
{
    struct mem_reply reply = { .status = HF_OK, .version = version_of(cell) };
    struct watcher **at = &cells->watchers, *watcher;

    while ((watcher = *at)) {
        bool mine = watcher->ask.name_len == cell->name_len &&
                    memcmp(watcher->ask.name, cell->name, cell->name_len) == 0 &&
                    watcher->ask.version != reply.version;

        if (!mine && watcher->until_ms > now_ms) {
            at = &watcher->next;
            continue;
        }
        *at = watcher->next;
        if (mine)
            cells->push(cells->push_arg, watcher->ask.session, watcher->ask.owner, &reply);
        free(watcher);
    }
}

static void end(struct mem_cells *cells, struct cell *cell, int64_t now_ms)
{
    cell->bytes = NULL;
    cell->until_ms = HFI_NEVER;
    tell(cells, cell, now_ms);
}

/* ---- requests ---------------------------------------------------------------- */

static struct mem_reply read_cell(const struct cell *cell, int64_t now_ms)
{
    if (!cell || !cell->bytes)
        return (struct mem_reply){ .status = HF_NOT_FOUND };
    return (struct mem_reply){ .status = HF_OK,
                               .version = cell->version,
                               .bytes = cell->bytes,
                               .len = cell->len,
                               .ttl_ms =
                                   cell->until_ms == HFI_NEVER ? -1 : cell->until_ms - now_ms };
}

static struct mem_reply swap(struct mem_cells *cells, struct cell *cell,
                             const struct mem_request *ask, int64_t now_ms)
{
    if (cell && memcmp(cell->by, ask->owner, HFI_OWNER_LEN) == 0)
        return (struct mem_reply){ .status = HF_OK, .version = cell->by_version };
    if (version_of(cell) != ask->version)
        return (struct mem_reply){ .status = HF_BUSY, .version = version_of(cell) };
    if (!cell)
        cell = make(cells, ask);
    memcpy(cell->by, ask->owner, HFI_OWNER_LEN);
    cell->by_version = cell->version;
    if (!ask->bytes) {
        end(cells, cell, now_ms);
        return (struct mem_reply){ .status = HF_OK, .version = cell->by_version };
    }
    cell->bytes = ask->bytes;
    cell->len = ask->len;
    cell->version = cell->by_version = ++cells->last_version;
    cell->until_ms = ask->ttl_ms ? now_ms + ask->ttl_ms : HFI_NEVER;
    tell(cells, cell, now_ms);
    return (struct mem_reply){ .status = HF_OK, .version = cell->version };
}

static struct mem_reply wait_for(struct mem_cells *cells, const struct cell *cell,
                                 const struct mem_request *ask, int64_t now_ms)
{
    struct watcher *watcher = cells->watchers;

    if (version_of(cell) != ask->version)
        return (struct mem_reply){ .status = HF_OK, .version = version_of(cell) };
    while (watcher && memcmp(watcher->ask.owner, ask->owner, HFI_OWNER_LEN) != 0)
        watcher = watcher->next;
    if (!watcher) {
        watcher = must(calloc(1, sizeof *watcher));
        watcher->next = cells->watchers;
        cells->watchers = watcher;
    }
    watcher->ask = *ask;
    watcher->until_ms = now_ms + MEM_WAITER_LIFE_MS;
    return (struct mem_reply){ .status = HF_OK, .queued = true };
}

struct mem_reply mem_cells_call(struct mem_cells *cells, const struct mem_request *request,
                                int64_t now_ms)
{
    struct timespec t;
    struct cell *cell;

    mem_cells_tick(cells, now_ms);
    cell = find(cells, request);
    switch (request->verb) {
    case MEM_CELL_READ:
        return read_cell(cell, now_ms);
    case MEM_CELL_SWAP:
        return swap(cells, cell, request, now_ms);
    case MEM_CELL_WAIT:
        return wait_for(cells, cell, request, now_ms);
    case MEM_TIME:
        clock_gettime(CLOCK_REALTIME, &t);
        return (struct mem_reply){ .status = HF_OK,
                                   .time_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 };
    default:
        return (struct mem_reply){ .status = HF_INTERNAL };
    }
}

/* ---- time ---------------------------------------------------------------------- */

void mem_cells_tick(struct mem_cells *cells, int64_t now_ms)
{
    for (struct cell *cell = cells->cells; cell; cell = cell->next)
        if (cell->until_ms <= now_ms)
            end(cells, cell, now_ms);
}

int64_t mem_cells_next_ms(const struct mem_cells *cells)
{
    int64_t next_ms = HFI_NEVER;

    for (const struct cell *cell = cells->cells; cell; cell = cell->next)
        next_ms = cell->until_ms < next_ms ? cell->until_ms : next_ms;
    return next_ms;
}
