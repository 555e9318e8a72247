/* SPDX-License-Identifier: MIT */
/*
 * Which process is this? One page that the kernel empties in every child that
 * gets a copy of our memory (fork, raw clone without CLONE_VM). A vfork child
 * shares our memory and thus our id, as it should: until exec it is us.
 *
 * Everything in the page is good when all zero, so a wiped page needs no
 * repair: id 0 means "not drawn yet", and an all-zero pthread mutex is a fresh
 * one (the unit test checks that). No lock guards the set-up: the thread that publishes
 * first wins, and a fork in the middle leaves either nothing or a good page.
 */
#include "util/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

struct page {
    _Atomic uint64_t id;
    void *slot;
    pthread_mutex_t mutex;
};

static _Atomic(struct page *) current;
static struct page plain; /* where the kernel cannot wipe; wipe_plain() does */

/* Each runs once in a process: not inlined, so that the usual path stays short. */
static struct page *set_up(void) __attribute__((noinline));
static uint64_t draw_id(struct page *page) __attribute__((noinline));

static inline struct page *get_page(void)
{
    struct page *page = atomic_load_explicit(&current, memory_order_acquire);

    return __builtin_expect(page != NULL, 1) ? page : set_up();
}

uint64_t hfi_process_id(void)
{
    struct page *page = get_page();
    uint64_t id = atomic_load_explicit(&page->id, memory_order_relaxed);

    return __builtin_expect(id != 0, 1) ? id : draw_id(page);
}

pthread_mutex_t *hfi_process_mutex(void)
{
    return &get_page()->mutex;
}

void **hfi_process_slot(void)
{
    return &get_page()->slot;
}

static void wipe_plain(void)
{
    memset(&plain, 0, sizeof plain);
}

/* A page that is empty in every child; else `plain`, which fork() empties but raw clone does not. */
static struct page *make_page(size_t size)
{
    struct page *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0)
        return page;

    if (page != MAP_FAILED)
        munmap(page, size);

    /* Registered before the page is published; twice does no harm. If there is no memory for this
     * either, a fork cannot be noticed, and nothing is better than to go on. */
    (void)pthread_atfork(NULL, NULL, wipe_plain);
    return &plain;
}

static struct page *set_up(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    struct page *mine = make_page(size);
    struct page *expected = NULL;

    if (atomic_compare_exchange_strong(&current, &expected, mine))
        return mine;

    if (mine != &plain)
        munmap(mine, size);
    return expected;
}

/* Straight from the kernel: util/random.h needs our answer to know whether its pool is good. */
static uint64_t draw_id(struct page *page)
{
    uint64_t id = 0, expected = 0;

    while (id == 0)
        if (getrandom(&id, sizeof id, 0) < 0 && errno != EINTR)
            abort(); /* as util/random.c does */

    return atomic_compare_exchange_strong(&page->id, &expected, id) ? id : expected;
}
