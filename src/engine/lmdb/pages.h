/* SPDX-License-Identifier: MIT */
/*
 * Pages of LMDB's data format 1 (lmdb 0.9; another version is refused by LMDB), as they lie in a mapping. Whatever is
 * read here may be damaged: every offset is bounded before it is used.
 */
#ifndef HF_ENGINE_LMDB_PAGES_H
#define HF_ENGINE_LMDB_PAGES_H

#include "engine/lmdb/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LMDB_META_MAGIC    0xBEEFC0DEu
#define LMDB_META_VERSION  1u
#define LMDB_PAGE_BRANCH   0x01
#define LMDB_PAGE_LEAF     0x02
#define LMDB_PAGE_OVERFLOW 0x04
#define LMDB_PAGE_META     0x08
#define LMDB_NODE_BIG      0x01 /* its value has pages of its own */
#define LMDB_DEPTH_MAX     32

struct lmdb_page {
    uint64_t number;
    uint16_t pad, flags, lower, upper; /* an overflow page: how many, in the last two */
};

struct lmdb_tree {
    uint32_t page_size;
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root; /* UINT64_MAX: it is empty */
};

struct lmdb_meta {
    struct lmdb_page page;
    uint32_t magic, version;
    uint64_t address, map_size;
    struct lmdb_tree free, main;
    uint64_t last_page;
    _Atomic uint64_t txn;
};

_Static_assert(offsetof(struct lmdb_meta, txn) == 144, "as LMDB has it");

struct lmdb_node {
    uint16_t size_low, size_high, flags,
        key_size; /* of a branch: the first three are a page number */
    unsigned char key[];
};

static inline const struct lmdb_meta *lmdb_meta_at(const char *pages, int which)
{
    return (const struct lmdb_meta *)(const void *)(pages + (size_t)LMDB_PAGE * (size_t)which);
}

/* Page `number`, which is mapped, if its header is that of such a page. */
static inline const struct lmdb_page *lmdb_page_at(const char *pages, uint64_t number,
                                                   uint16_t flags)
{
    const struct lmdb_page *page =
        (const struct lmdb_page *)(const void *)(pages + number * LMDB_PAGE);

    return page->number == number && page->flags == flags && page->lower > sizeof *page &&
                   page->lower <= page->upper && page->upper <= LMDB_PAGE && !(page->lower & 1)
               ? page
               : NULL;
}

static inline int lmdb_page_count(const struct lmdb_page *page)
{
    return (page->lower - (int)sizeof *page) / 2;
}

static inline unsigned lmdb_node_offset(const struct lmdb_page *page, int at)
{
    return ((const uint16_t *)(page + 1))[at];
}

/* A node whose key can be read; NULL: it is not on the page. */
static inline const struct lmdb_node *lmdb_node_at(const struct lmdb_page *page, int at,
                                                   size_t key_max)
{
    unsigned offset = lmdb_node_offset(page, at);
    const struct lmdb_node *node;

    if (offset < page->upper || offset & 1 || offset + sizeof *node > LMDB_PAGE)
        return NULL;
    node = (const struct lmdb_node *)(const void *)((const char *)page + offset);
    return node->key_size <= key_max && offset + sizeof *node + node->key_size <= LMDB_PAGE ? node
                                                                                            : NULL;
}

static inline uint64_t lmdb_node_child(const struct lmdb_node *node)
{
    return node->size_low | (uint64_t)node->size_high << 16 | (uint64_t)node->flags << 32;
}

static inline size_t lmdb_node_size(const struct lmdb_node *node)
{
    return node->size_low | (size_t)node->size_high << 16;
}

#endif
