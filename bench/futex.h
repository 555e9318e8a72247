/* SPDX-License-Identifier: MIT */
/* The system call, for the raw loops and for the bench's own workers. */
#ifndef BENCH_FUTEX_H
#define BENCH_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen, int shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static inline void futex_wake(_Atomic uint32_t *word, int count, int shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#endif
