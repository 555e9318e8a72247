/* SPDX-License-Identifier: MIT */
/*
 * Checks the pages of the cells' file before LMDB uses them. LMDB trusts its pages: some damage
 * makes it assert, some makes it read past the end of a page, and it overwrites a page that is in
 * use but listed as free. All under the mutex of the cells.
 *
 * When a process opens the file, all pages are checked, up to FULL_PAGES of them; the doctor checks
 * all pages of any file. Before each transaction: the length of the file and the two meta pages.
 * Before a write: the whole tree of free pages, because it says what may be overwritten, and
 * because no page on the path to a cell may be in it. That costs time in proportion to the number
 * of free pages, most of which LMDB reads too. cells_find.c checks the path to a cell.
 *
 * Guaranteed after a check of all pages: each page is of the kind that its parent expects, has one
 * parent, and is not in the list of free pages; keys are in order. Guaranteed before a write: the
 * same for all pages that LMDB will read. Not guaranteed: damage of a page elsewhere is found only
 * when a search reaches that page. A page that is in use elsewhere and also in the list of free
 * pages is found only on the path, if the damage happened while the file was open or the file has
 * more than FULL_PAGES pages. A change between our check and LMDB's read is not found.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FULL_PAGES 4096   /* 16 MiB: some hundred thousand small cells; a few milliseconds */
#define FREE_FLAGS 0x4008 /* of the tree of free pages: integer keys, MDB_NOSUBDIR */

struct audit {
    const struct lmdb_cells_view *v;
    unsigned char *seen; /* a bit for each page */
    bool numbers;        /* this is the tree of free pages */
    struct lmdb_tree found;
    const struct lmdb_node *last, *floor; /* the previous key; the lowest key that is allowed */
};

/* ---- meta pages -------------------------------------------------------------------- */

static bool tree_fits(const struct lmdb_tree *tree)
{
    return tree->root == UINT64_MAX ? tree->depth == 0 && tree->entries == 0
                                    : tree->depth > 0 && tree->depth <= LMDB_DEPTH_MAX;
}

static bool meta_sound(const struct lmdb_meta *meta)
{
    return meta->page.flags == LMDB_PAGE_META && meta->magic == LMDB_META_MAGIC &&
           meta->version == LMDB_META_VERSION && meta->address == 0 &&
           meta->free.page_size == LMDB_PAGE && meta->free.flags == FREE_FLAGS &&
           meta->main.flags == 0 && tree_fits(&meta->free) && tree_fits(&meta->main) &&
           meta->last_page >= 1 && meta->last_page < LMDB_CELLS_MAP / LMDB_PAGE;
}

/*
 * Find the newest meta page, if both are sound. They are of the last two transactions, and each is
 * in the page that its transaction number selects. So a damaged number that would make an old state
 * the newest is detected.
 */
static bool newest(struct lmdb_cells_view *v)
{
    const struct lmdb_meta *metas[2] = { lmdb_meta_at(v->pages, 0), lmdb_meta_at(v->pages, 1) };
    uint64_t txns[2];
    int at;

    if (v->backed < 2 || !meta_sound(metas[0]) || !meta_sound(metas[1]))
        return false;
    for (int i = 0; i < 2; i++)
        txns[i] = atomic_load_explicit(&metas[i]->txn, memory_order_relaxed);
    at = txns[1] > txns[0];
    if (txns[at] == 0 ? txns[1] != 0 : (int)(txns[at] & 1) != at || txns[!at] != txns[at] - 1)
        return false;
    if (txns[at] < v->txn)
        return false; /* we have seen a later transaction: an old state must not come back */
    v->txn = txns[at];
    v->free = metas[at]->free;
    v->main = metas[at]->main;
    v->last_page = metas[at]->last_page;
    return true;
}

/* ---- all pages ------------------------------------------------------------------------ */

static bool walk(struct audit *a, uint64_t number, int level);

static bool mark(struct audit *a, uint64_t number, uint64_t count)
{
    if (number < 2 || number > a->v->last_page || count > a->v->last_page - number + 1)
        return false;
    for (uint64_t n = number; n < number + count; n++) {
        if (a->seen[n / 8] >> n % 8 & 1)
            return false;
        a->seen[n / 8] |= (unsigned char)(1u << n % 8);
    }
    return true;
}

/* A list of free pages: the count, then the page numbers, descending. None of them may be in
 * use. */
static bool free_list_sound(struct audit *a, const MDB_val *list)
{
    const unsigned char *at = list->mv_data;
    uint64_t count, number, before = UINT64_MAX;

    if (list->mv_size < sizeof count)
        return false;
    memcpy(&count, at, sizeof count);
    if (count > list->mv_size / sizeof count - 1)
        return false;
    for (uint64_t i = 0; i < count; i++, before = number) {
        memcpy(&number, at + (i + 1) * sizeof number, sizeof number);
        if (number >= before || !mark(a, number, 1))
            return false;
    }
    return true;
}

static bool leaf_sound(struct audit *a, const struct lmdb_page *page)
{
    a->found.leaf_pages++;
    for (int i = 0, count = lmdb_page_count(page); i < count; i++) {
        const struct lmdb_node *node = lmdb_node_at(page, i, LMDB_KEY_NAME);
        MDB_val value;
        uint64_t number;

        if (i == 0 && ((a->last && lmdb_cells_compare(a->last, node, a->numbers) >= 0) ||
                       (a->floor && lmdb_cells_compare(a->floor, node, a->numbers) > 0)))
            return false;
        a->last = node;
        a->found.entries++;
        if (node->flags & LMDB_NODE_BIG || a->numbers) {
            if (!lmdb_cells_value(a->v, page, node, &value))
                return false;
            if (node->flags & LMDB_NODE_BIG) {
                uint64_t pages = (sizeof *page + value.mv_size + LMDB_PAGE - 1) / LMDB_PAGE;

                memcpy(&number, node->key + node->key_size, sizeof number);
                a->found.overflow_pages += pages;
                if (!mark(a, number, pages))
                    return false;
            }
            if (a->numbers && !free_list_sound(a, &value))
                return false;
        }
    }
    return true;
}

static bool branch_sound(struct audit *a, const struct lmdb_page *page, int level)
{
    a->found.branch_pages++;
    for (int i = 0, count = lmdb_page_count(page); i < count; i++) {
        const struct lmdb_node *node = lmdb_node_at(page, i, LMDB_KEY_NAME);

        if (i > 0) { /* the first node of a branch has no key */
            if (a->last && lmdb_cells_compare(a->last, node, a->numbers) >= 0)
                return false;
            a->floor = node;
        }
        if (!walk(a, lmdb_node_child(node), level - 1))
            return false;
    }
    return true;
}

static bool walk(struct audit *a, uint64_t number, int level)
{
    const struct lmdb_page *page;

    if (!mark(a, number, 1) || number >= a->v->backed)
        return false;
    page = lmdb_page_at(a->v->pages, number, level > 1 ? LMDB_PAGE_BRANCH : LMDB_PAGE_LEAF);
    return page && lmdb_cells_page_whole(page, a->numbers) &&
           (level > 1 ? branch_sound(a, page, level) : leaf_sound(a, page));
}

static bool tree_sound(const struct lmdb_cells_view *v, unsigned char *seen,
                       const struct lmdb_tree *tree)
{
    struct audit a = { .v = v, .seen = seen, .numbers = tree == &v->free };

    if (tree->depth == 0)
        return true;
    return walk(&a, tree->root, tree->depth) && a.found.branch_pages == tree->branch_pages &&
           a.found.leaf_pages == tree->leaf_pages &&
           a.found.overflow_pages == tree->overflow_pages && a.found.entries == tree->entries;
}

int lmdb_cells_audit(const struct lmdb_cells_view *v)
{
    unsigned char *seen = hfi_calloc(1, (size_t)v->last_page / 8 + 1);
    bool sound = seen && tree_sound(v, seen, &v->main) && tree_sound(v, seen, &v->free);

    hfi_free(seen);
    return !seen ? ENOMEM : sound ? 0 : LMDB_E_CORRUPT;
}

/* ---- the mapping, and a transaction ---------------------------------------------------- */

/* Takes ownership of the descriptor. LMDB will initialise an empty file. */
int lmdb_cells_map(struct lmdb_cells_view *v, int fd)
{
    void *at = mmap(NULL, LMDB_CELLS_MAP, PROT_READ, MAP_SHARED, fd, 0);
    int rc = errno;

    if (at == MAP_FAILED) {
        close(fd);
        return rc;
    }
    v->fd = fd;
    v->pages = at;
    if (lseek(fd, 0, SEEK_END) == 0)
        return 0;
    rc = lmdb_cells_begin(v, true);
    return rc != 0 || v->last_page >= FULL_PAGES ? rc : lmdb_cells_audit(v);
}

void lmdb_cells_unmap(struct lmdb_cells_view *v)
{
    if (v->pages) {
        munmap((void *)(uintptr_t)v->pages, LMDB_CELLS_MAP);
        close(v->fd);
    }
    hfi_free(v->taken);
    memset(v, 0, sizeof *v);
}

/* Before a transaction or a read. Reads the length by lseek, which takes half as long as fstat. */
int lmdb_cells_begin(struct lmdb_cells_view *v, bool write)
{
    off_t end = lseek(v->fd, 0, SEEK_END);
    size_t len;

    hfi_free(v->taken);
    v->taken = v->whole = NULL;
    v->deletions = 0;
    if (end < 0)
        return errno;
    v->backed = (uint64_t)end / LMDB_PAGE;
    if (!newest(v))
        return LMDB_E_CORRUPT;
    if (!write)
        return 0;
    len = (size_t)v->last_page / 8 + 1;
    v->taken = hfi_calloc(2, len);
    if (!v->taken)
        return ENOMEM;
    v->whole = v->taken + len;
    return tree_sound(v, v->taken, &v->free) ? 0 : LMDB_E_CORRUPT;
}
