/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the library. It is malloc(3)'s, unless the program has set an allocator of its own or a test counts
 * (hfi_alloc_fail_at()): until then the hook costs one relaxed load of a flag that nobody writes.
 */
#include "util/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool hooked;  /* a test counts, or `custom` is set */
static atomic_bool sealed;  /* too late to set one */
static hf_allocator custom; /* written before the first allocation, then never again */
static atomic_bool watching;
static atomic_ulong made;    /* allocations since the last hfi_alloc_fail_at() */
static atomic_ulong fail_at; /* the number of the one that fails; 0: none */
static atomic_bool fail_on;  /* and all after it */

static inline bool is_hooked(void);
static bool refused(void);
static bool count_one(void);

/* A size of 0 is one byte: NULL always means out of memory. */
void *hfi_malloc(size_t size)
{
    size = size ? size : 1;
    if (!is_hooked())
        return malloc(size);
    if (refused())
        return NULL;
    return custom.allocate ? custom.allocate(size, custom.arg) : malloc(size);
}

void *hfi_calloc(size_t count, size_t size)
{
    size_t whole;
    void *memory;

    count = count ? count : 1;
    size = size ? size : 1;
    if (!is_hooked())
        return calloc(count, size);
    if (refused())
        return NULL;
    if (!custom.allocate)
        return calloc(count, size);
    if (__builtin_mul_overflow(count, size, &whole))
        return NULL;
    memory = custom.allocate(whole, custom.arg);
    return memory ? memset(memory, 0, whole) : NULL;
}

void *hfi_realloc(void *memory, size_t size)
{
    size = size ? size : 1;
    if (!is_hooked())
        return realloc(memory, size);
    if (refused())
        return NULL;
    return custom.resize ? custom.resize(memory, size, custom.arg) : realloc(memory, size);
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
    if (is_hooked() && custom.release) {
        if (memory)
            custom.release(memory, custom.arg);
        return;
    }
    free(memory);
}

bool hfi_alloc_set(const hf_allocator *allocator)
{
    if (atomic_load(&sealed))
        return false;
    custom = *allocator;
    atomic_store(&hooked, true);
    return true;
}

void hfi_alloc_seal(void)
{
    if (!atomic_load_explicit(&sealed, memory_order_relaxed))
        atomic_store(&sealed, true);
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
    atomic_store(&hooked, true);
    return before;
}

static inline bool is_hooked(void)
{
    return __builtin_expect(atomic_load_explicit(&hooked, memory_order_relaxed), 0);
}

static bool refused(void)
{
    return atomic_load_explicit(&watching, memory_order_relaxed) && count_one();
}

static bool count_one(void)
{
    unsigned long number = atomic_fetch_add(&made, 1) + 1;
    unsigned long k = atomic_load(&fail_at);

    return k != 0 && (number == k || (number > k && atomic_load(&fail_on)));
}
