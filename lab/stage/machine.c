/* SPDX-License-Identifier: MIT */
/* See machine.h. This program's clock_gettime() comes before that of the C library, for the shared libraries as well. */
#include "machine.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t off_s;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (syscall(SYS_clock_gettime, clock, t) != 0)
        return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        t->tv_sec += atomic_load(&off_s);
    return 0;
}

void machine_clock_s(int64_t seconds)
{
    atomic_store(&off_s, seconds);
}

int64_t wall_clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
