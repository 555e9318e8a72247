/* SPDX-License-Identifier: MIT */
/* Work with a limit: see within.h. */
#include "within.h"

#include "cli.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct job {
    void (*work)(void *arg);
    void *arg;
    int done; /* an eventfd */
};

static void *run_job(void *arg)
{
    struct job *job = arg;
    uint64_t one = 1;

    job->work(job->arg);
    while (write(job->done, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    return NULL;
}

static bool is_done(const struct job *job, int64_t limit_ms)
{
    struct pollfd polled = { .fd = job->done, .events = POLLIN };
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), limit_ms), left_ms;

    while ((left_ms = until_ms - hfi_now_ms()) > 0)
        if (poll(&polled, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms) == 1)
            return true;
    return poll(&polled, 1, 0) == 1;
}

bool within(int64_t limit_ms, void (*work)(void *arg), void *arg)
{
    struct job *job = must_alloc(sizeof *job);
    pthread_t thread;

    *job = (struct job){ work, arg, eventfd(0, EFD_CLOEXEC) };
    if (job->done < 0 || pthread_create(&thread, NULL, run_job, job) != 0) {
        work(arg); /* late is better than not at all */
    } else if (is_done(job, limit_ms)) {
        pthread_join(thread, NULL);
    } else {
        pthread_detach(thread); /* it keeps `job` too */
        return false;
    }
    if (job->done >= 0)
        close(job->done);
    free(job);
    return true;
}
