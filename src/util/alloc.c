/* SPDX-License-Identifier: MIT */
/*
 * The door to malloc. Nothing is counted until a test first calls
 * hfi_alloc_fail_at(): until then the hook is one relaxed load of a flag that
 * nobody writes.
 */
#include "util/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool watching;
static atomic_ulong made;    /* allocations since the last hfi_alloc_fail_at() */
static atomic_ulong fail_at; /* the number of the one that fails; 0: none */
static atomic_bool fail_on;  /* and all after it */

static inline bool refused(void);
static bool count_one(void);

void *hfi_malloc(size_t size)
{
    return refused() ? NULL : malloc(size ? size : 1);
}

void *hfi_calloc(size_t count, size_t size)
{
    return refused() ? NULL : calloc(count ? count : 1, size ? size : 1);
}

/* Never frees: a size of 0 is one byte, which leaves no room for doubt about NULL. */
void *hfi_realloc(void *memory, size_t size)
{
    return refused() ? NULL : realloc(memory, size ? size : 1);
}

char *hfi_strdup(const char *text)
{
    return hfi_strndup(text, strlen(text));
}

char *hfi_strndup(const char *text, size_t len)
{
    char *copy;

    len = strnlen(text, len);
    copy = hfi_malloc(len + 1);

    if (!copy)
        return NULL;

    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

void hfi_free(void *memory)
{
    free(memory);
}

unsigned long hfi_alloc_fail_at(unsigned long k, int all)
{
    unsigned long before;

    /* Off while the other fields change, so that no allocation meets half of it. */
    atomic_store(&fail_at, 0);
    before = atomic_exchange(&made, 0);
    atomic_store(&fail_on, all != 0);
    atomic_store(&fail_at, k);
    atomic_store(&watching, true);
    return before;
}

static inline bool refused(void)
{
    return __builtin_expect(atomic_load_explicit(&watching, memory_order_relaxed), 0) &&
           count_one();
}

static bool count_one(void)
{
    unsigned long number = atomic_fetch_add(&made, 1) + 1;
    unsigned long k = atomic_load(&fail_at);

    return k != 0 && (number == k || (number > k && atomic_load(&fail_on)));
}
