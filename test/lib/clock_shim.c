/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a server: shifts its wall clock by a number of microseconds, which is stored as 8
 * bytes in the file that HOLDFAST_TEST_CLOCK names and that the test has mapped too. Monotonic
 * clocks are not changed, as in a real jump of the wall clock. (libfaketime does not work together
 * with jemalloc.)
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t none;
static _Atomic int64_t *offset_us = &none;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("HOLDFAST_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd >= 0 ? mmap(NULL, sizeof *offset_us, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (map != MAP_FAILED)
        offset_us = map;
    if (fd >= 0)
        close(fd);
}

static void shift(int64_t *seconds, long *fraction, int64_t unit_us_inverse, int64_t per_second)
{
    int64_t total = (int64_t)*fraction + atomic_load(offset_us) % 1000000 * unit_us_inverse;

    *seconds += atomic_load(offset_us) / 1000000 + total / per_second;
    total %= per_second;
    if (total < 0) {
        total += per_second;
        *seconds -= 1;
    }
    *fraction = (long)total;
}

/* Uses the system call and not the next library's function, which may not be bound yet. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    int64_t seconds;

    if (syscall(SYS_clock_gettime, clock, t) != 0)
        return -1;
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return 0;
    seconds = t->tv_sec;
    shift(&seconds, &t->tv_nsec, 1000, 1000000000);
    t->tv_sec = seconds;
    return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict t,
                                                        void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
