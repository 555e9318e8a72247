/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into the command by lost.bats, to see when it means to end what it runs, and when it
 * does. Into the file HOLDFAST_TEST_TRACE come, in ms of the library's clock:
 *
 *   lease END          as far as a lease is good that no renewal reaches any more
 *   timer AT NOW       it will look again
 *   kill SIGNAL NOW    it has sent a signal
 *
 * With HOLDFAST_TEST_VALID_MS it is such a lease: what is left of it only shrinks, from that value
 * at the first question, which is answered when the file HOLDFAST_TEST_READY is there. With
 * HOLDFAST_TEST_LATE_MS it stalls for so long after it has acquired.
 */
#include "holdfast/holdfast.h"

#include "util/clock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void trace(const char *format, ...)
{
    int fd = open(getenv("HOLDFAST_TEST_TRACE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    va_list args;

    va_start(args, format);
    vdprintf(fd, format, args);
    va_end(args);
    close(fd);
}

/* What the call does when nobody is in between; memcpy(), for C has no such cast. */
static void find_next(const char *name, void *ret_function)
{
    void *next = dlsym(RTLD_NEXT, name);

    memcpy(ret_function, &next, sizeof next);
}

int64_t hf_lease_remaining_ms(hf_lease *lease)
{
    static int64_t end_ms;
    int64_t (*next)(hf_lease *);
    int64_t now_ms;

    if (!getenv("HOLDFAST_TEST_VALID_MS")) {
        find_next("hf_lease_remaining_ms", &next);
        return next(lease);
    }
    if (end_ms == 0) {
        while (access(getenv("HOLDFAST_TEST_READY"), F_OK) != 0)
            usleep(2000);
        end_ms = hfi_now_ms() + atoll(getenv("HOLDFAST_TEST_VALID_MS"));
        trace("lease %lld\n", (long long)end_ms);
    }
    now_ms = hfi_now_ms();
    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* Asked for right after the acquire, and before anything else. */
uint64_t hf_lease_token(hf_lease *lease)
{
    const char *late_ms = getenv("HOLDFAST_TEST_LATE_MS");
    uint64_t (*next)(hf_lease *);

    if (late_ms)
        usleep((useconds_t)atoi(late_ms) * 1000);
    find_next("hf_lease_token", &next);
    return next(lease);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    int (*next)(int, int, const struct itimerspec *, struct itimerspec *);

    trace("timer %lld %lld\n",
          (long long)new->it_value.tv_sec * 1000 + new->it_value.tv_nsec / 1000000,
          (long long)hfi_now_ms());
    find_next("timerfd_settime", &next);
    return next(fd, flags, new, old);
}

int kill(pid_t pid, int number)
{
    int (*next)(pid_t, int);
    int result;

    find_next("kill", &next);
    result = next(pid, number);
    trace("kill %d %lld\n", number, (long long)hfi_now_ms());
    return result;
}
