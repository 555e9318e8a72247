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
    _Alignas(16) unsigned char bytes[];
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

    if (len > 0)
        memcpy(blob->bytes, bytes, len);
    blob->next = cells->blobs;
    cells->blobs = blob;
    return blob->bytes;
}

const struct hfi_commit_op *mem_cells_keep_commit(struct mem_cells *cells,
                                                  const struct hfi_commit_op *commit)
{
    struct hfi_commit_item items[HF_CELLS_MAX];
    struct hfi_commit_op copy = { .count = commit->count };

    for (size_t i = 0; i < commit->count; i++) {
        items[i] = commit->items[i];
        items[i].name.bytes = mem_cells_keep(cells, items[i].name.bytes, items[i].name.len);
        if (items[i].action == HF_CELL_ACTION_WRITE)
            items[i].bytes = mem_cells_keep(cells, items[i].bytes, items[i].len);
    }
    copy.items = (struct hfi_commit_item *)(uintptr_t)mem_cells_keep(cells, items,
                                                                     commit->count * sizeof *items);
    return mem_cells_keep(cells, &copy, sizeof copy);
}

/* ---- entries ----------------------------------------------------------------- */

static struct cell *find(struct mem_cells *cells, const unsigned char *name, uint32_t len)
{
    struct cell *cell = cells->cells;

    while (cell && (cell->name_len != len || memcmp(cell->name, name, len) != 0))
        cell = cell->next;
    return cell;
}

static uint64_t version_of(const struct cell *cell)
{
    return cell && cell->bytes ? cell->version : 0;
}

static struct cell *make(struct mem_cells *cells, const unsigned char *name, uint32_t len)
{
    struct cell *cell = must(calloc(1, sizeof *cell));

    memcpy(cell->name, name, len);
    cell->name_len = len;
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
        cell = make(cells, ask->name, ask->name_len);
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

/* The version of the cell after the item was done; `version` is what it was before. */
static uint64_t change(struct mem_cells *cells, const struct hfi_commit_item *item,
                       uint64_t version, int64_t now_ms)
{
    struct cell *cell = find(cells, item->name.bytes, item->name.len);

    if (item->action == HF_CELL_ACTION_LEAVE)
        return version;
    if (!cell)
        cell = make(cells, item->name.bytes, item->name.len);
    memset(cell->by, 0, HFI_OWNER_LEN);
    if (item->action == HF_CELL_ACTION_DELETE) {
        end(cells, cell, now_ms);
        return 0;
    }
    cell->bytes = item->bytes;
    cell->len = item->len;
    cell->version = ++cells->last_version;
    cell->until_ms = item->ttl_ms ? now_ms + item->ttl_ms : HFI_NEVER;
    tell(cells, cell, now_ms);
    return cell->version;
}

static struct mem_reply commit(struct mem_cells *cells, const struct mem_request *ask,
                               int64_t now_ms)
{
    const struct hfi_commit_op *op = ask->bytes;
    uint64_t versions[HF_CELLS_MAX];
    hf_status status = HF_OK;

    for (size_t i = 0; i < op->count; i++) {
        versions[i] = version_of(find(cells, op->items[i].name.bytes, op->items[i].name.len));
        if (versions[i] != op->items[i].version)
            status = HF_BUSY;
    }
    for (size_t i = 0; status == HF_OK && i < op->count; i++)
        versions[i] = change(cells, &op->items[i], versions[i], now_ms);
    return (struct mem_reply){ .status = status,
                               .bytes = mem_cells_keep(cells, versions, sizeof versions) };
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
    cell = find(cells, request->name, request->name_len);
    switch (request->verb) {
    case MEM_CELL_READ:
        return read_cell(cell, now_ms);
    case MEM_CELL_SWAP:
        return swap(cells, cell, request, now_ms);
    case MEM_CELL_COMMIT:
        return commit(cells, request, now_ms);
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
