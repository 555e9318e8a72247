/* SPDX-License-Identifier: MIT */
/*
 * Is the file of the cells still what LMDB left there? LMDB trusts its pages: at some damage it asserts, at
 * some it reads past them, and a free page that is in use it overwrites. So its pages are looked at before it does,
 * through read(2), where damage can only be wrong and not lead anywhere. Under the mutex of the cells.
 *
 * What is looked at: the two meta pages, every time. The pages on the way to a cell, when it is read. All pages,
 * when the file is opened and before a write: that costs an fsync, which takes longer. Of a file with more than
 * FULL_PAGES pages then only those of the tree of free pages; the doctor looks at all. What is certain of all pages: each page is what its parent takes it for, has one parent, and is
 * not in the list of free pages; keys are in order. Of values the checksums of their records tell (cells.c).
 */
#include "engine/lmdb/lm.h"

#include "util/alloc.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define FULL_PAGES 512 /* two MiB: some ten thousand small cells */

/* LMDB's data format 1 (lmdb 0.9). */
#define META_MAGIC    0xBEEFC0DEu
#define META_VERSION  1u
#define PAGE_BRANCH   0x01
#define PAGE_LEAF     0x02
#define PAGE_OVERFLOW 0x04
#define PAGE_META     0x08
#define NODE_BIG      0x01
#define FREE_FLAGS    0x4008 /* keys are numbers, and how we open it: MDB_NOSUBDIR */
#define DEPTH_MAX     32

struct page {
    uint64_t number;
    uint16_t pad, flags, lower, upper; /* an overflow page: how many, in the last two */
};

struct tree {
    uint32_t page_size;
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta {
    struct page page;
    uint32_t magic, version;
    uint64_t address, map_size;
    struct tree free, main;
    uint64_t last_page, txn;
};

struct node {
    uint16_t size_low, size_high, flags,
        key_size; /* of a branch: the first three are a page number */
};

struct key {
    size_t len;
    unsigned char bytes[LM_KEY_NAME];
};

struct audit {
    int fd;
    uint64_t last_page;
    unsigned char *seen;    /* a bit for each page; NULL: not counted */
    bool numbers;           /* the tree of free pages */
    const struct key *only; /* values with pages of their own: of this key alone; NULL: of all */
    struct tree found;
    struct key last, floor; /* the key before; no key may be below */
};

static bool walk(struct audit *a, uint64_t number, int level);

static bool read_at(int fd, uint64_t number, void *ret, size_t len)
{
    return pread(fd, ret, len, (off_t)(number * LM_PAGE)) == (ssize_t)len;
}

/* ---- meta pages -------------------------------------------------------------------- */

static bool meta_sound(const struct meta *meta)
{
    return meta->page.flags == PAGE_META && meta->magic == META_MAGIC &&
           meta->version == META_VERSION && meta->address == 0 && meta->free.page_size == LM_PAGE &&
           meta->free.flags == FREE_FLAGS && meta->main.flags == 0 &&
           meta->free.depth <= DEPTH_MAX && meta->main.depth <= DEPTH_MAX && meta->last_page >= 1 &&
           meta->last_page < HFI_LM_CELLS_MAP / LM_PAGE;
}

/*
 * The newest, if both are sound. They are of the last two transactions, each in the page that its number says. So
 * a number that changed, and would make an old state the newest, shows.
 */
static bool newest(int fd, struct meta *ret)
{
    struct meta metas[2];
    uint64_t txn;
    int at;

    if (!read_at(fd, 0, &metas[0], sizeof metas[0]) ||
        !read_at(fd, 1, &metas[1], sizeof metas[1]) || !meta_sound(&metas[0]) ||
        !meta_sound(&metas[1]))
        return false;
    at = metas[1].txn > metas[0].txn;
    txn = metas[at].txn;
    if (txn == 0 ? metas[1].txn != 0 : (int)(txn & 1) != at || metas[!at].txn != txn - 1)
        return false;
    *ret = metas[at];
    return true;
}

/* ---- pages -------------------------------------------------------------------------- */

static bool mark(struct audit *a, uint64_t number, uint64_t count)
{
    if (number < 2 || number > a->last_page || count > a->last_page - number + 1)
        return false;
    for (uint64_t n = number; a->seen && n < number + count; n++) {
        if (a->seen[n / 8] >> n % 8 & 1)
            return false;
        a->seen[n / 8] |= (unsigned char)(1u << n % 8);
    }
    return true;
}

static int compare(const struct audit *a, const struct key *one, const struct key *two)
{
    uint64_t x, y;
    int order;

    if (a->numbers && one->len == sizeof x && two->len == sizeof y) {
        memcpy(&x, one->bytes, sizeof x);
        memcpy(&y, two->bytes, sizeof y);
        return x < y ? -1 : x > y;
    }
    order = memcmp(one->bytes, two->bytes, one->len < two->len ? one->len : two->len);
    return order ? order : (int)one->len - (int)two->len;
}

static int count_of(const struct page *page)
{
    return (page->lower - (int)sizeof *page) / 2;
}

/* Node `at`, copied, with its key; the place of its data. 0: it is not on the page. */
static size_t node_at(const struct audit *a, const char *bytes, int at, struct node *ret,
                      struct key *ret_key)
{
    struct page page;
    uint16_t offset;

    memcpy(&page, bytes, sizeof page);
    memcpy(&offset, bytes + sizeof page + 2 * (size_t)at, sizeof offset);
    if (offset < page.upper || offset & 1 || offset + sizeof *ret > LM_PAGE)
        return 0;
    memcpy(ret, bytes + offset, sizeof *ret);
    if (ret->key_size > (a->numbers ? sizeof(uint64_t) : LM_KEY_NAME) ||
        offset + sizeof *ret + ret->key_size > LM_PAGE)
        return 0;
    ret_key->len = ret->key_size;
    memcpy(ret_key->bytes, bytes + offset + sizeof *ret, ret->key_size);
    return offset + sizeof *ret + ret->key_size;
}

/* Page `number`, if it is of this kind. */
static bool get_page(struct audit *a, uint64_t number, uint16_t flags, char ret[LM_PAGE])
{
    struct page page;

    if (!mark(a, number, 1) || !read_at(a->fd, number, ret, LM_PAGE))
        return false;
    memcpy(&page, ret, sizeof page);
    return page.number == number && page.flags == flags && page.lower > sizeof page &&
           page.lower <= page.upper && page.upper <= LM_PAGE && !(page.lower & 1);
}

/* The pages of a value that has its own: they follow each other. */
static bool big_sound(struct audit *a, uint64_t number, size_t size, struct page *ret)
{
    uint64_t count = (sizeof *ret + size + LM_PAGE - 1) / LM_PAGE;
    uint32_t said;

    if (!mark(a, number, count) || !read_at(a->fd, number, ret, sizeof *ret))
        return false;
    memcpy(&said, &ret->lower, sizeof said);
    a->found.overflow_pages += said;
    return ret->number == number && ret->flags == PAGE_OVERFLOW && said == count;
}

/* A list of free pages: how many, then each, falling. None of them is in use. */
static bool free_list_sound(struct audit *a, const char *list, size_t size)
{
    uint64_t count, number, before = UINT64_MAX;

    if (size < sizeof count)
        return false;
    memcpy(&count, list, sizeof count);
    if (count > size / sizeof count - 1)
        return false;
    for (uint64_t i = 0; i < count; i++, before = number) {
        memcpy(&number, list + (i + 1) * sizeof number, sizeof number);
        if (number >= before || !mark(a, number, 1))
            return false;
    }
    return true;
}

static bool big_free_list_sound(struct audit *a, uint64_t number, size_t size)
{
    char *list = hfi_malloc(size);
    bool sound = list &&
                 pread(a->fd, list, size, (off_t)(number * LM_PAGE + sizeof(struct page))) ==
                     (ssize_t)size &&
                 free_list_sound(a, list, size);

    hfi_free(list);
    return sound;
}

static bool leaf_node_sound(struct audit *a, const char *bytes, int at)
{
    struct node node = { 0 };
    struct page big;
    struct key key;
    size_t data = node_at(a, bytes, at, &node, &key);
    size_t size = node.size_low | (size_t)node.size_high << 16;
    uint64_t number;

    if (!data || node.flags & ~NODE_BIG || size > HFI_LM_CELLS_MAP ||
        (a->numbers ? key.len != sizeof(uint64_t) : key.len != LM_KEY_NAME && key.len != 1))
        return false;
    if ((a->last.len && compare(a, &a->last, &key) >= 0) || compare(a, &a->floor, &key) > 0)
        return false;
    a->last = key;
    a->found.entries++;
    if (!(node.flags & NODE_BIG))
        return data + size <= LM_PAGE && (!a->numbers || free_list_sound(a, bytes + data, size));
    if (data + sizeof number > LM_PAGE)
        return false;
    if (a->only && compare(a, a->only, &key) != 0)
        return true;
    memcpy(&number, bytes + data, sizeof number);
    return big_sound(a, number, size, &big) &&
           (!a->numbers || big_free_list_sound(a, number, size));
}

static bool leaf_sound(struct audit *a, const char *bytes)
{
    struct page page;

    memcpy(&page, bytes, sizeof page);
    a->found.leaf_pages++;
    for (int i = 0; i < count_of(&page); i++)
        if (!leaf_node_sound(a, bytes, i))
            return false;
    return true;
}

static bool branch_sound(struct audit *a, const char *bytes, int level)
{
    struct page page;
    struct node node;
    struct key key;

    memcpy(&page, bytes, sizeof page);
    a->found.branch_pages++;
    for (int i = 0; i < count_of(&page); i++) {
        if (!node_at(a, bytes, i, &node, &key))
            return false;
        if (i > 0) { /* the first has no key that counts */
            if (a->last.len && compare(a, &a->last, &key) >= 0)
                return false;
            a->floor = key;
        }
        if (!walk(a, node.size_low | (uint64_t)node.size_high << 16 | (uint64_t)node.flags << 32,
                  level - 1))
            return false;
    }
    return true;
}

static bool walk(struct audit *a, uint64_t number, int level)
{
    char bytes[LM_PAGE];

    return get_page(a, number, level > 1 ? PAGE_BRANCH : PAGE_LEAF, bytes) &&
           (level > 1 ? branch_sound(a, bytes, level) : leaf_sound(a, bytes));
}

/* ---- the whole, and the way --------------------------------------------------------------- */

static bool tree_sound(struct audit *a, const struct tree *tree, bool numbers)
{
    a->numbers = numbers;
    memset(&a->found, 0, sizeof a->found);
    a->last.len = a->floor.len = 0;
    if (tree->root == UINT64_MAX)
        return tree->depth == 0 && tree->entries == 0;
    return tree->depth > 0 && walk(a, tree->root, tree->depth) &&
           a->found.branch_pages == tree->branch_pages && a->found.leaf_pages == tree->leaf_pages &&
           a->found.overflow_pages == tree->overflow_pages && a->found.entries == tree->entries;
}

static bool all_sound(int fd, const struct meta *meta)
{
    struct audit a = { .fd = fd, .last_page = meta->last_page };
    bool sound;

    a.seen = hfi_calloc(1, (size_t)meta->last_page / 8 + 1);
    if (!a.seen)
        return true; /* out of memory is no damage */
    sound = tree_sound(&a, &meta->main, false) && tree_sound(&a, &meta->free, true);
    hfi_free(a.seen);
    return sound;
}

bool hfi_lm_cells_sound_file(int fd)
{
    struct meta meta;

    return newest(fd, &meta) && all_sound(fd, &meta);
}

/* `seen`: the last transaction that this process saw; an older one does not come back. */
bool hfi_lm_cells_sound(int fd, bool write, uint64_t *seen)
{
    struct meta meta;

    if (!newest(fd, &meta) || meta.txn < *seen)
        return false;
    *seen = meta.txn;
    if (write && meta.last_page >= FULL_PAGES) {
        struct audit a = { .fd = fd, .last_page = meta.last_page };

        return tree_sound(&a, &meta.free, true); /* which decides what is overwritten */
    }
    return !write || all_sound(fd, &meta);
}

/*
 * The pages from the root to where this key is, or would be. If it is not there, its neighbours must be what they
 * seem, for a search goes astray only at a key that was changed (sound.c has the argument): *ret_few says that the
 * file is so small that all of its records can be asked.
 */
bool hfi_lm_cells_sound_way(int fd, const unsigned char hash[LM_KEY_NAME], bool *ret_few)
{
    struct key wanted = { .len = LM_KEY_NAME };
    struct meta meta;
    uint64_t number;

    if (!newest(fd, &meta))
        return false;
    *ret_few = meta.last_page < FULL_PAGES;
    memcpy(wanted.bytes, hash, LM_KEY_NAME);
    number = meta.main.root;
    for (int level = meta.main.depth; level > 0 && number != UINT64_MAX; level--) {
        struct audit a = { .fd = fd, .last_page = meta.last_page, .only = &wanted };
        char bytes[LM_PAGE];
        struct page page;
        struct node node;
        struct key key;

        if (!get_page(&a, number, level > 1 ? PAGE_BRANCH : PAGE_LEAF, bytes))
            return false;
        if (level == 1)
            return leaf_sound(&a, bytes);
        memcpy(&page, bytes, sizeof page);
        for (int i = 0; i < count_of(&page); i++) {
            if (!node_at(&a, bytes, i, &node, &key))
                return false;
            if (i > 0 && compare(&a, &key, &wanted) > 0)
                break;
            number = node.size_low | (uint64_t)node.size_high << 16 | (uint64_t)node.flags << 32;
        }
    }
    return true;
}
