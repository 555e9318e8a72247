/* SPDX-License-Identifier: MIT */
/*
 * Time for targets with real descriptors: it goes on by a little whenever somebody looks, and a sleep takes none. What is ready is seen.
 * One thread.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS INT64_C(200000)

static int64_t now_ns;

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    if (clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, ret_time);
    now_ns += LOOK_NS;
    *ret_time = (struct timespec){ 1000 + now_ns / 1000000000, now_ns % 1000000000 };
    return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
    int ready = (int)syscall(SYS_epoll_pwait, fd, events, count, 0, NULL, 0);

    if (ready == 0)
        now_ns += (timeout_ms < 0 ? 1000 : timeout_ms) * INT64_C(1000000);
    return ready;
}
