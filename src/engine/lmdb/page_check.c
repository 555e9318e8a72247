/* SPDX-License-Identifier: MIT */
/*
 * Checks the pages of the lease file before LMDB uses them. LMDB trusts its own pages: for some
 * damage it returns a code, for some it asserts (and would end the program), and a damaged
 * transaction number makes it use an old state of its tree. Records have checksums; this file
 * checks the pages. All under the mutex.
 *
 * LMDB does not say where it has mapped the file, but a record that it returns is in the mapping:
 * so we can find its pages. Before a transaction the meta pages must be sound, and the number of
 * the last transaction must be the one that we noted. Before a name is taken because it was not
 * found, the path to its position must be sound.
 */
#include "engine/lmdb/internal.h"
#include "engine/lmdb/pages.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const struct lmdb_meta *newest(const char *pages)
{
    return lmdb_meta_at(
        pages, atomic_load_explicit(&lmdb_meta_at(pages, 0)->txn, memory_order_relaxed) <
                   atomic_load_explicit(&lmdb_meta_at(pages, 1)->txn, memory_order_relaxed));
}

static bool db_sound(const struct lmdb_tree *db, const struct lmdb_meta *meta)
{
    if (db->root == UINT64_MAX)
        return true; /* an empty tree */
    return db->root > 1 && db->root <= meta->last_page && db->depth > 0 && db->depth < 32;
}

static bool metas_sound(const char *pages)
{
    const struct lmdb_meta *meta = newest(pages);

    return lmdb_meta_at(pages, 0)->magic == LMDB_META_MAGIC &&
           lmdb_meta_at(pages, 1)->magic == LMDB_META_MAGIC && meta->version == LMDB_META_VERSION &&
           meta->free.page_size == LMDB_PAGE && db_sound(&meta->free, meta) &&
           db_sound(&meta->main, meta);
}

/* Before LMDB opens a file that we did not create: it would enlarge the file to the last page
 * number of the meta page, even if that is damaged. */
bool lmdb_pages_file(struct lmdb_directory *d)
{
    _Alignas(8) char pages[2 * LMDB_PAGE];

    return pread(d->lease_fd, pages, sizeof pages, 0) == (ssize_t)sizeof pages &&
           metas_sound(pages) && newest(pages)->last_page < d->map_size / LMDB_PAGE;
}

/* Find out where the file is mapped: the page of the anchor record says its own number, and the
 * file must have the same bytes there. */
bool lmdb_pages_find(struct lmdb_directory *d, MDB_txn *txn)
{
    MDB_val key = { .mv_size = LMDB_KEY_ANCHOR, .mv_data = (void *)(uintptr_t)LMDB_ANCHOR }, value;
    const struct lmdb_page *page;
    char copy[LMDB_PAGE];

    d->pages = NULL;
    if (mdb_get(txn, d->dbi, &key, &value) != 0)
        return false;
    page = (const struct lmdb_page *)((uintptr_t)value.mv_data & ~(uintptr_t)(LMDB_PAGE - 1));
    if (page->number < 2 || page->number >= d->map_size / LMDB_PAGE ||
        pread(d->lease_fd, copy, sizeof copy, (off_t)(page->number * LMDB_PAGE)) !=
            (ssize_t)sizeof copy ||
        memcmp(copy, page, sizeof copy) != 0)
        return false;
    d->pages = (const char *)page - page->number * LMDB_PAGE;
    return true;
}

/* `last_txn` 0: not known, because the last writer was killed. Then the state in the file is
 * accepted. */
bool lmdb_pages_check(struct lmdb_directory *d)
{
    uint64_t txn, last;

    if (!metas_sound(d->pages))
        return false;
    txn = atomic_load_explicit(&newest(d->pages)->txn, memory_order_relaxed);
    last = atomic_load_explicit(&d->header->last_txn, memory_order_relaxed);
    if (last && last != txn)
        return false;
    atomic_store_explicit(&d->header->last_txn, txn, memory_order_relaxed);
    return true;
}

void lmdb_pages_committed(struct lmdb_directory *d)
{
    atomic_store_explicit(&d->header->last_txn,
                          atomic_load_explicit(&newest(d->pages)->txn, memory_order_relaxed),
                          memory_order_relaxed);
}

/* ---- room ------------------------------------------------------------------------- */

#define PAGES_KEPT 64 /* several times what a change of one or two names can need */

/*
 * LMDB writes every changed page to a new place, also when it deletes. So an acquire leaves this
 * many pages free, or enlarges the file, and a release may use them. Then a full disk never
 * prevents a release.
 */
bool lmdb_pages_room(struct lmdb_directory *d)
{
    const struct lmdb_meta *meta = newest(d->pages);
    uint64_t used = 2 + meta->free.branch_pages + meta->free.leaf_pages +
                    meta->free.overflow_pages + meta->main.branch_pages + meta->main.leaf_pages +
                    meta->main.overflow_pages;

    return used + PAGES_KEPT <= d->map_size / LMDB_PAGE;
}

/* ---- is it really not there? --------------------------------------------------------- */

/*
 * A name that is not found is free: so "not found" must be as certain as a checksum makes a record.
 * A search goes wrong only at a damaged node that compares the wrong way with the key. Then one of
 * the two neighbours of the position where the search ends is such a node: the right one if the
 * true position is further right, the left one if it is further left. So if both neighbours are
 * sound, keys included, the search was right.
 */
/* NULL: it is not such a page. */
static const struct lmdb_page *page_at(const struct lmdb_directory *d, uint64_t number,
                                       uint16_t flags)
{
    return number < 2 || number >= d->map_size / LMDB_PAGE ? NULL
                                                           : lmdb_page_at(d->pages, number, flags);
}

static const struct lmdb_node *node_at(const struct lmdb_page *page, int at)
{
    return lmdb_node_at(page, at, LMDB_KEY_FULL);
}

static bool record_sound(const struct lmdb_page *page, int at)
{
    const struct lmdb_node *node = node_at(page, at);
    size_t size;

    if (!node)
        return false;
    size = lmdb_node_size(node);
    return lmdb_node_offset(page, at) + sizeof *node + node->key_size + size <= LMDB_PAGE &&
           lmdb_record_sound(node->key, node->key_size, node->key + node->key_size, size);
}

/* As LMDB compares: bytes, then length. */
static int compare(const struct lmdb_node *node, const uint64_t hash[2])
{
    int order =
        memcmp(node->key, hash, node->key_size < LMDB_KEY_NAME ? node->key_size : LMDB_KEY_NAME);

    return order ? order : node->key_size - LMDB_KEY_NAME;
}

/* The number of nodes from `first` on that are not larger than the name's key; -1: a node is not on
 * the page. */
static int search(const struct lmdb_page *page, int first, const uint64_t hash[2])
{
    int low = first, high = lmdb_page_count(page);

    while (low < high) {
        int middle = (low + high) / 2;
        const struct lmdb_node *node = node_at(page, middle);

        if (!node)
            return -1;
        if (compare(node, hash) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Uses a cursor, which can cross from leaf to leaf. */
static bool neighbours_sound(struct lmdb_txn *t, const uint64_t hash[2])
{
    MDB_val key = { .mv_size = LMDB_KEY_NAME, .mv_data = (void *)(uintptr_t)hash }, value;
    MDB_cursor *cursor;
    bool sound = true;
    int rc = mdb_cursor_open(t->mdb, t->directory->dbi, &cursor);

    if (rc != 0)
        return true; /* out of memory is no damage */
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc == 0)
        sound = lmdb_record_sound(key.mv_data, key.mv_size, value.mv_data, value.mv_size);
    rc = mdb_cursor_get(cursor, &key, &value, rc == 0 ? MDB_PREV : MDB_LAST);
    if (rc == 0 && sound) {
        int order =
            memcmp(key.mv_data, hash, key.mv_size < LMDB_KEY_NAME ? key.mv_size : LMDB_KEY_NAME);

        /* The anchor may be the beginning of the hash: shorter comes first. */
        sound = lmdb_record_sound(key.mv_data, key.mv_size, value.mv_data, value.mv_size) &&
                (order < 0 || (order == 0 && key.mv_size < LMDB_KEY_NAME));
    }
    mdb_cursor_close(cursor);
    return sound && (rc == 0 || rc == MDB_NOTFOUND);
}

/* Checks the tree as it was before this transaction: a damaged page must not be written to
 * either. */
bool lmdb_pages_way(struct lmdb_txn *t, const uint64_t hash[2])
{
    const struct lmdb_directory *d = t->directory;
    const struct lmdb_meta *meta = newest(d->pages);
    uint64_t number = meta->main.root;
    const struct lmdb_page *page;
    int at;

    if (number == UINT64_MAX)
        return true;
    for (int level = meta->main.depth; level > 1; level--) {
        const struct lmdb_node *node;

        page = page_at(d, number, LMDB_PAGE_BRANCH);
        if (!page || (at = search(page, 1, hash)) < 1 || !(node = node_at(page, at - 1)))
            return false;
        number = lmdb_node_child(node);
    }
    page = page_at(d, number, LMDB_PAGE_LEAF);
    if (!page || (at = search(page, 0, hash)) < 0 || (at > 0 && !record_sound(page, at - 1)) ||
        (at < lmdb_page_count(page) && !record_sound(page, at)))
        return false;
    if (meta->main.depth > 1 && (at == 0 || at == lmdb_page_count(page)))
        return neighbours_sound(t, hash); /* one of them is on another page */
    return true;
}

bool lmdb_pages_absent(struct lmdb_txn *t, const uint64_t hash[2])
{
    return lmdb_pages_way(t, hash) && neighbours_sound(t, hash);
}

/* ---- assertions ------------------------------------------------------------------------- */

/* LMDB calls this instead of abort(): return to where LMDB was called from. Its transaction and its
 * environment are abandoned. */
void lmdb_pages_assert(MDB_env *env, const char *text)
{
    struct lmdb_directory *d = mdb_env_get_userctx(env);

    (void)text;
    if (env == d->cells)
        longjmp(d->cells_damaged, 1);
    longjmp(d->damaged, 1);
}
