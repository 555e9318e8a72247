/* SPDX-License-Identifier: MIT */
/* What every unit test includes: cmocka wants these headers first. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/*
 * How much random input goes to code that has no threads. ThreadSanitizer has nothing to find there
 * and is slow: a tenth.
 */
#if defined(__SANITIZE_THREAD__)
#define UNIT_ROUNDS(count) ((count) / 10)
#else
#define UNIT_ROUNDS(count) (count)
#endif

/* A small generator for seeded tests: the same numbers everywhere (xorshift64*). */
static inline uint64_t unit_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
