/* SPDX-License-Identifier: MIT */
/*
 * Finds cells without LMDB, which trusts its pages: through a mapping of our own, with every offset
 * bounded before it is used. So damage cannot lead a read out of the mapping. Before LMDB writes,
 * the pages that it will read are checked here, each once in a transaction. Their number depends on
 * the depth of the tree, not on the number of cells.
 *
 * If a record is found, its checksum, which covers the key, is correct. If it is absent, the
 * records before and after its position are sound and in order, and every page on the path has only
 * keys in the range of its parent. So a changed key is detected, and so is a page number that leads
 * to another page of the tree. An old copy of a page has the right keys too: therefore no page on
 * the path may be a free page. (A write always checks that; a read only while the tree of free
 * pages is a single page, which is the usual case.)
 *
 * What LMDB reads when it puts: the pages from the root to the key. When it deletes it may also
 * merge pages: then it reads the siblings on each level, the lowest leaf below them, and the next
 * leaf. With n deletions in one transaction it may read n siblings on each side: those of pages
 * that earlier deletions merged.
 */
#include "engine/lmdb/internal.h"

#include <endian.h>
#include <string.h>

/* ---- pages -------------------------------------------------------------------------- */

static inline int compare(const unsigned char *one, size_t one_len, const unsigned char *two,
                          size_t two_len)
{
    uint64_t a, b;
    int order;

    if (one_len == LMDB_KEY_NAME && two_len == LMDB_KEY_NAME) {
        memcpy(&a, one, sizeof a);
        memcpy(&b, two, sizeof b);
        if (a != b)
            return be64toh(a) < be64toh(b) ? -1 : 1;
    }
    order = memcmp(one, two, one_len < two_len ? one_len : two_len);
    return order ? order : (int)one_len - (int)two_len;
}

/* Compare keys in the order of the tree of cells, or of the tree of free pages. */
static inline int compare_nodes(const struct lmdb_node *one, const struct lmdb_node *two,
                                bool numbers)
{
    uint64_t x, y;

    if (!numbers || one->key_size != sizeof x || two->key_size != sizeof y)
        return compare(one->key, one->key_size, two->key, two->key_size);
    memcpy(&x, one->key, sizeof x);
    memcpy(&y, two->key, sizeof y);
    return x < y ? -1 : x > y;
}

int lmdb_cells_compare(const struct lmdb_node *one, const struct lmdb_node *two, bool numbers)
{
    return compare_nodes(one, two, numbers);
}

static inline bool leaf_node_sound(const struct lmdb_page *page, int at,
                                   const struct lmdb_node *node, bool numbers, size_t *ret_size)
{
    *ret_size = node->flags & LMDB_NODE_BIG ? sizeof(uint64_t) : lmdb_node_size(node);
    return !(node->flags & ~LMDB_NODE_BIG) &&
           (numbers ? node->key_size == sizeof(uint64_t)
                    : node->key_size == LMDB_KEY_NAME || node->key_size == LMDB_CELL_COUNTER_LEN) &&
           lmdb_node_offset(page, at) + sizeof *node + node->key_size + *ret_size <= LMDB_PAGE;
}

/* Check that all nodes are on the page, that their keys are in order, and that together they fill
 * the used part. */
static inline bool nodes_sound(const struct lmdb_page *page, bool leaf, bool numbers)
{
    const struct lmdb_node *node, *before = NULL;
    size_t size = 0, sum = 0;

    for (int i = 0, count = lmdb_page_count(page); i < count; i++, before = node) {
        node = lmdb_node_at(page, i, numbers ? sizeof(uint64_t) : LMDB_KEY_NAME);
        if (!node || (leaf && !leaf_node_sound(page, i, node, numbers, &size)))
            return false;
        /* The first node of a branch has no key. */
        if (i > !leaf && compare_nodes(before, node, numbers) >= 0)
            return false;
        sum += (sizeof *node + node->key_size + size + 1) & ~(size_t)1;
    }
    return sum == (size_t)(LMDB_PAGE - page->upper);
}

bool lmdb_cells_page_whole(const struct lmdb_page *page, bool numbers)
{
    bool leaf = page->flags == LMDB_PAGE_LEAF;

    if (numbers)
        return nodes_sound(page, leaf, true);
    return leaf ? nodes_sound(page, true, false) : nodes_sound(page, false, false);
}

static bool bit(const unsigned char *bits, uint64_t n)
{
    return bits[n / 8] >> n % 8 & 1;
}

/* NULL: it is not such a page. If LMDB will read the page, all of it is checked the first time. */
static const struct lmdb_page *page_at(struct lmdb_cells_view *v, uint64_t number, int level)
{
    const struct lmdb_page *page;

    if (number < 2 || number > v->last_page || number >= v->backed)
        return NULL;
    page = lmdb_page_at(v->pages, number, level > 1 ? LMDB_PAGE_BRANCH : LMDB_PAGE_LEAF);
    if (!page || !v->taken || bit(v->whole, number))
        return page;
    if (bit(v->taken, number))
        return NULL;
    if (v->looking)
        return page;
    if (!lmdb_cells_page_whole(page, false))
        return NULL;
    v->whole[number / 8] |= (unsigned char)(1u << number % 8);
    return page;
}

static const struct lmdb_node *node_at(const struct lmdb_page *page, int at)
{
    return lmdb_node_at(page, at, LMDB_KEY_NAME);
}

/* ---- from the root to a leaf ------------------------------------------------------------ */

/* The number of nodes from `first` on that are below the key (`same`: or equal); -1: one is not on
 * the page. */
static int search(const struct lmdb_page *page, int first, const MDB_val *key, bool same)
{
    int low = first, high = lmdb_page_count(page);

    while (low < high) {
        int middle = (low + high) / 2;
        const struct lmdb_node *node = node_at(page, middle);

        if (!node)
            return -1;
        if (compare(node->key, node->key_size, key->mv_data, key->mv_size) < same)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Are the keys of the page in the range that its parent gives? The first node of a branch has no
 * key. */
static bool within(const struct lmdb_page *page, int level, const struct lmdb_node *low,
                   const struct lmdb_node *high)
{
    int first = level > 1, last = lmdb_page_count(page) - 1;
    const struct lmdb_node *node;

    if (last < first)
        return true;
    if (low && (!(node = node_at(page, first)) || compare_nodes(low, node, false) > 0))
        return false;
    return !high || ((node = node_at(page, last)) && compare_nodes(node, high, false) < 0);
}

/* Find the path to the first record that is not below this key. */
static bool find_path(struct lmdb_cells_view *v, const MDB_val *key, struct lmdb_cells_path *ret)
{
    const struct lmdb_node *low = NULL, *high = NULL, *node;
    uint64_t number = v->main.root;

    ret->depth = v->main.depth;
    for (int i = 0, level = ret->depth; level > 0; i++, level--) {
        const struct lmdb_page *page = page_at(v, number, level);
        int at;

        if (!page || !within(page, level, low, high))
            return false;
        at = level > 1 ? search(page, 1, key, true) - 1 : search(page, 0, key, false);
        if (at < 0)
            return false;
        ret->steps[i].page = page;
        ret->steps[i].at = at;
        if (level == 1)
            break;
        if (!(node = node_at(page, at)))
            return false;
        number = lmdb_node_child(node);
        if (at > 0)
            low = node;
        if (at + 1 < lmdb_page_count(page) && !(high = node_at(page, at + 1)))
            return false;
    }
    return true;
}

/* Descend from the current child of step `i` along the left descend, or the right one. */
static bool descend(struct lmdb_cells_view *v, struct lmdb_cells_path *path, int i, bool right)
{
    for (; i < path->depth - 1; i++) {
        const struct lmdb_node *node = node_at(path->steps[i].page, path->steps[i].at);
        const struct lmdb_page *page =
            node ? page_at(v, lmdb_node_child(node), path->depth - i - 1) : NULL;

        if (!page)
            return false;
        path->steps[i + 1].page = page;
        path->steps[i + 1].at = right ? lmdb_page_count(page) - 1 : 0;
    }
    return true;
}

/* To the leaf beside this one. 0: there is none; -1: damage. */
static int step(struct lmdb_cells_view *v, struct lmdb_cells_path *path, int by)
{
    for (int i = path->depth - 2; i >= 0; i--) {
        int at = path->steps[i].at + by;

        if (at < 0 || at >= lmdb_page_count(path->steps[i].page))
            continue;
        path->steps[i].at = at;
        return descend(v, path, i, by < 0) ? 1 : -1;
    }
    return 0;
}

/* ---- free pages ------------------------------------------------------------------------- */

/* A list of free pages: the count, then the page numbers, descending. */
static bool in_list(const unsigned char *list, size_t size, uint64_t wanted)
{
    uint64_t count, number, low = 0;

    if (size < sizeof count)
        return false;
    memcpy(&count, list, sizeof count);
    if (count > size / sizeof count - 1)
        return false;
    for (uint64_t high = count; low < high;) {
        uint64_t middle = (low + high) / 2;

        memcpy(&number, list + (middle + 1) * sizeof number, sizeof number);
        if (number == wanted)
            return true;
        if (number > wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* For a read. Damage of the tree of free pages itself is found by a write. */
static bool is_free(const struct lmdb_cells_view *v, const struct lmdb_cells_path *path)
{
    const struct lmdb_page *page;

    if (v->taken || v->free.depth != 1 || v->free.root < 2 || v->free.root >= v->backed ||
        !(page = lmdb_page_at(v->pages, v->free.root, LMDB_PAGE_LEAF)) ||
        !lmdb_cells_page_whole(page, true))
        return false;
    for (int i = 0; i < lmdb_page_count(page); i++) {
        const struct lmdb_node *node = lmdb_node_at(page, i, sizeof(uint64_t));
        MDB_val list;

        if (!node || !lmdb_cells_value(v, page, node, &list))
            continue;
        for (int k = 0; k < path->depth; k++)
            if (in_list(list.mv_data, list.mv_size, path->steps[k].page->number))
                return true;
    }
    return false;
}

/* ---- records -------------------------------------------------------------------------------- */

/* The value of a record: on the page, or on consecutive pages of its own. */
bool lmdb_cells_value(const struct lmdb_cells_view *v, const struct lmdb_page *page,
                      const struct lmdb_node *node, MDB_val *ret)
{
    const unsigned char *data = node->key + node->key_size;
    size_t room = (size_t)((const unsigned char *)page + LMDB_PAGE - data);
    const struct lmdb_page *big;
    uint64_t number, count;
    uint32_t said;

    *ret = (MDB_val){ .mv_size = lmdb_node_size(node), .mv_data = (void *)(uintptr_t)data };
    if (node->flags != LMDB_NODE_BIG)
        return node->flags == 0 && ret->mv_size <= room;
    if (room < sizeof number)
        return false;
    memcpy(&number, data, sizeof number);
    count = (sizeof *big + ret->mv_size + LMDB_PAGE - 1) / LMDB_PAGE;
    if (number < 2 || number > v->last_page || count > v->last_page - number + 1 ||
        number + count > v->backed)
        return false;
    big = (const struct lmdb_page *)(const void *)(v->pages + number * LMDB_PAGE);
    memcpy(&said, &big->lower, sizeof said);
    ret->mv_data = (void *)(uintptr_t)(big + 1);
    return big->number == number && big->flags == LMDB_PAGE_OVERFLOW && said == count;
}

static int compare_values(const MDB_val *one, const MDB_val *two)
{
    return compare(one->mv_data, one->mv_size, two->mv_data, two->mv_size);
}

static int record(const struct lmdb_cells_view *v, const struct lmdb_cells_path *path,
                  MDB_val *ret_key, MDB_val *ret_value)
{
    const struct lmdb_page *page = path->steps[path->depth - 1].page;
    const struct lmdb_node *node = node_at(page, path->steps[path->depth - 1].at);

    if (!node || !lmdb_cells_value(v, page, node, ret_value))
        return LMDB_E_CORRUPT;
    *ret_key = (MDB_val){ .mv_size = node->key_size, .mv_data = (void *)(uintptr_t)node->key };
    return 0;
}

/* Is the record after the key's position (`by` 1), or before it (-1), sound and on that side of the
 * key? */
static bool neighbour_sound(struct lmdb_cells_view *v, struct lmdb_cells_path path,
                            const MDB_val *key, int by)
{
    int *at = &path.steps[path.depth - 1].at;
    struct lmdb_found found;
    MDB_val its, value;
    int order, moved = 1;

    if (by < 0)
        --*at;
    if (*at < 0 || *at >= lmdb_page_count(path.steps[path.depth - 1].page))
        moved = step(v, &path, by);
    if (moved <= 0)
        return moved == 0; /* there is none */
    if (record(v, &path, &its, &value) != 0)
        return false;
    order = compare_values(&its, key);
    return (by < 0 ? order < 0 : order > 0) &&
           (its.mv_size == LMDB_CELL_COUNTER_LEN ||
            lmdb_cell_parse(&its, &value, v->sealed, &found) == 0);
}

/* MDB_NOTFOUND: the record certainly does not exist. */
int lmdb_cells_find(struct lmdb_cells_view *v, const MDB_val *key, MDB_val *ret)
{
    struct lmdb_cells_path path;
    MDB_val its;
    int rc;

    if (v->main.depth == 0)
        return MDB_NOTFOUND;
    if (!find_path(v, key, &path) || is_free(v, &path))
        return LMDB_E_CORRUPT;
    if (path.steps[path.depth - 1].at < lmdb_page_count(path.steps[path.depth - 1].page)) {
        rc = record(v, &path, &its, ret);
        if (rc != 0)
            return rc;
        if (compare_values(&its, key) == 0)
            return 0;
    }
    return neighbour_sound(v, path, key, -1) && neighbour_sound(v, path, key, 1) ? MDB_NOTFOUND
                                                                                 : LMDB_E_CORRUPT;
}

/* Begin at the first record that is not below this key, for lmdb_cells_next(). LMDB will not read
 * these pages. */
int lmdb_cells_from(struct lmdb_cells_view *v, const MDB_val *key, struct lmdb_cells_path *ret)
{
    bool sound;

    v->looking = true;
    ret->depth = 0;
    sound = v->main.depth == 0 || find_path(v, key, ret);
    v->looking = false;
    return sound ? 0 : LMDB_E_CORRUPT;
}

int lmdb_cells_next(struct lmdb_cells_view *v, struct lmdb_cells_path *path, MDB_val *ret_key,
                    MDB_val *ret_value)
{
    int moved = 1, rc;

    if (path->depth == 0)
        return MDB_NOTFOUND;
    v->looking = true;
    if (path->steps[path->depth - 1].at >= lmdb_page_count(path->steps[path->depth - 1].page))
        moved = step(v, path, 1);
    v->looking = false;
    if (moved <= 0)
        return moved == 0 ? MDB_NOTFOUND : LMDB_E_CORRUPT;
    rc = record(v, path, ret_key, ret_value);
    path->steps[path->depth - 1].at++;
    return rc;
}

/* ---- before a deletion -------------------------------------------------------------------- */

/* Check the children of step `i` from `first` to `last`, each with its lowest leaf. */
static bool children_sound(struct lmdb_cells_view *v, const struct lmdb_cells_path *path, int i,
                           int first, int last)
{
    struct lmdb_cells_path below = *path;

    for (int at = first < 0 ? 0 : first; at <= last && at < lmdb_page_count(path->steps[i].page);
         at++) {
        below.steps[i].at = at;
        if (!descend(v, &below, i, false))
            return false;
    }
    return true;
}

/* Check what LMDB may read to delete this key, as the n-th deletion of the transaction. */
bool lmdb_cells_around(struct lmdb_cells_view *v, const MDB_val *key)
{
    struct lmdb_cells_path path;
    int n = ++v->deletions;

    if (v->main.depth == 0)
        return true;
    if (!find_path(v, key, &path))
        return false;
    for (int by = -1; by <= 1; by += 2) {
        struct lmdb_cells_path beside = path;

        for (int i = 0, moved = 1; i < n && moved; i++)
            if ((moved = step(v, &beside, by)) < 0)
                return false;
    }
    for (int i = 0; i < path.depth - 1; i++)
        if (!children_sound(v, &path, i, 0, 0) ||
            !children_sound(v, &path, i, path.steps[i].at - n, path.steps[i].at + n))
            return false;
    return true;
}
