/* SPDX-License-Identifier: MIT */
/* The clock of all decisions: CLOCK_BOOTTIME, which counts suspend and never jumps. */
#ifndef HFI_CLOCK_H
#define HFI_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline int64_t hfi_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t hfi_now_ms(void)
{
    return hfi_now_ns() / 1000000;
}

/* a + b without overflow, for a >= 0 and b >= 0: INT64_MAX means never. */
static inline int64_t hfi_after_ms(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* The end of a wait that begins now, for a wait_ms > 0: it never ends before its time, although hfi_now_ms() is rounded down. */
static inline int64_t hfi_wait_end_ms(int64_t wait_ms)
{
    return hfi_after_ms(hfi_now_ms() + 1, wait_ms);
}
#endif
