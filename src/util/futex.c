/* SPDX-License-Identifier: MIT */
/* Futexes. The timeout is relative: the kernel has none on CLOCK_BOOTTIME. */
#include "util/futex.h"

#include "util/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLEEP_MAX_MS \
    (INT64_C(24) * 3600 * 1000) /* a longer sleep returns early, which
                                                  * hfi_futex_wait() allows */

_Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "the kernel sees a plain word");

static struct timespec time_left(int64_t until_ms, int64_t now_ns);

void hfi_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t until_ms, bool shared)
{
    int op = shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
    struct timespec left;

    if (until_ms == INT64_MAX) {
        syscall(SYS_futex, word, op, expected, NULL, NULL, 0);
        return;
    }

    left = time_left(until_ms, hfi_now_ns());
    if (left.tv_sec < 0)
        return;

    syscall(SYS_futex, word, op, expected, &left, NULL, 0);
}

int hfi_futex_wake(_Atomic uint32_t *word, int n, bool shared)
{
    int op = shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE;

    return (int)syscall(SYS_futex, word, op, n, NULL, NULL, 0);
}

/* From now to until_ms; tv_sec -1: it has passed. */
static struct timespec time_left(int64_t until_ms, int64_t now_ns)
{
    int64_t now_ms = now_ns / 1000000;
    int64_t left_ns;

    if (until_ms <= now_ms)
        return (struct timespec){ .tv_sec = -1 };
    if (until_ms - now_ms > SLEEP_MAX_MS)
        return (struct timespec){ .tv_sec = SLEEP_MAX_MS / 1000 };

    left_ns = until_ms * 1000000 - now_ns;
    return (struct timespec){ .tv_sec = (time_t)(left_ns / 1000000000),
                              .tv_nsec = (long)(left_ns % 1000000000) };
}
