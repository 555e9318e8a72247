/* SPDX-License-Identifier: MIT */
/*
 * Is the lease file still what LMDB left there? LMDB trusts its own pages: of some damage it
 * returns a code, at some it asserts (and would end the program), and an old state
 * of its tree it takes for the newest if told so. Records have checksums; this is for what
 * lies beneath them. All under the mutex.
 *
 * The two meta pages are mapped a second time, to be read: what they say must make
 * sense, and the number of the last transaction must be the one that we wrote down.
 */
#include "engine/lmdb/lm.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

/* The head of a meta page of LMDB's data format 1 (lmdb 0.9; another version is refused by LMDB). */
#define META_MAGIC 0xBEEFC0DEu
#define META_VERSION 1u

struct meta_db {
    uint32_t page_size;
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta {
    uint64_t page_number;
    uint16_t pad, flags, lower, upper;
    uint32_t magic, version;
    uint64_t address, map_size;
    struct meta_db free, main;
    uint64_t last_page;
    _Atomic uint64_t txn;
};

_Static_assert(offsetof(struct meta, txn) == 144, "as LMDB has it");

static const struct meta *meta_at(const struct lm_depot *d, int which)
{
    return (const struct meta *)(const void *)((const char *)d->metas + (size_t)LM_PAGE * (size_t)which);
}

static const struct meta *newest(const struct lm_depot *d)
{
    return meta_at(d, atomic_load_explicit(&meta_at(d, 0)->txn, memory_order_relaxed) <
                          atomic_load_explicit(&meta_at(d, 1)->txn, memory_order_relaxed));
}

int hfi_lm_sound_open(struct lm_depot *d)
{
    void *map = mmap(NULL, (size_t)2 * LM_PAGE, PROT_READ, MAP_SHARED, d->lease_fd, 0);

    if (map == MAP_FAILED)
        return errno;
    d->metas = map;
    return 0;
}

void hfi_lm_sound_unmap(void *metas)
{
    if (metas)
        munmap(metas, (size_t)2 * LM_PAGE);
}

static bool db_sound(const struct meta_db *db, const struct meta *meta)
{
    if (db->root == UINT64_MAX)
        return true; /* an empty tree */
    return db->root > 1 && db->root <= meta->last_page && db->depth > 0 && db->depth < 32;
}

/* `last_txn` 0: not known, because who wrote last was killed. Then what is there counts. */
bool hfi_lm_sound(struct lm_depot *d)
{
    const struct meta *meta = newest(d);
    uint64_t txn = atomic_load_explicit(&meta->txn, memory_order_relaxed);

    if (meta_at(d, 0)->magic != META_MAGIC || meta_at(d, 1)->magic != META_MAGIC || meta->version != META_VERSION ||
        meta->free.page_size != LM_PAGE || !db_sound(&meta->free, meta) || !db_sound(&meta->main, meta))
        return false;
    if (d->header->last_txn && d->header->last_txn != txn)
        return false;
    d->header->last_txn = txn;
    return true;
}

void hfi_lm_sound_committed(struct lm_depot *d)
{
    d->header->last_txn = atomic_load_explicit(&newest(d)->txn, memory_order_relaxed);
}

/* LMDB's last word before abort(): go back to where LMDB was called from. What it had in hand is given
 * up, with the environment. */
void hfi_lm_sound_assert(MDB_env *env, const char *text)
{
    struct lm_depot *d = mdb_env_get_userctx(env);

    (void)text;
    longjmp(d->damaged, 1);
}
