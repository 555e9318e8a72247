/* SPDX-License-Identifier: MIT */
/* See fake_time.h. */
#include "fake_time.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS INT64_C(200000)

static int64_t now_ns;
bool (*fake_time_idle)(void);

void fake_time_pass(int64_t ms)
{
    now_ns += ms * INT64_C(1000000);
}

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

    if (ready == 0 && timeout_ms != 0 && fake_time_idle && fake_time_idle())
        ready = (int)syscall(SYS_epoll_pwait, fd, events, count, 0, NULL, 0);
    if (ready == 0)
        fake_time_pass(timeout_ms < 0 ? 1000 : timeout_ms);
    return ready;
}
