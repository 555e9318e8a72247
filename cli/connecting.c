/* SPDX-License-Identifier: MIT */
/*
 * Shows a line on the terminal while a store is being opened, if that takes longer than a moment,
 * and erases it in the end. It runs on a thread of its own, and only in the foreground of a
 * terminal. It never waits for a terminal that is stopped (Ctrl-S).
 */
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOMENT_MS 300

struct connecting {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop, drawn; /* under the mutex */
    char text[256];
};

static bool is_watched(const struct cli *cli)
{
    const char *term = secure_getenv("TERM");

    return !cli->args.quiet && isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0) &&
           tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static bool put(const char *text)
{
    struct pollfd polled = { .fd = STDERR_FILENO, .events = POLLOUT };

    return poll(&polled, 1, 0) == 1 && polled.revents & POLLOUT &&
           write(STDERR_FILENO, text, strlen(text)) > 0;
}

static void *draw(void *arg)
{
    struct connecting *connecting = arg;
    struct timespec until;
    int rc = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += MOMENT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&connecting->mutex);
    while (!connecting->stop && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&connecting->wake, &connecting->mutex, &until);
    if (!connecting->stop)
        connecting->drawn = put(connecting->text);
    pthread_mutex_unlock(&connecting->mutex);
    return NULL;
}

struct connecting *connecting_begin(const struct cli *cli, const char *to)
{
    struct connecting *connecting;
    pthread_condattr_t attr;
    sigset_t all, before;
    int rc;

    if (!is_watched(cli))
        return NULL;
    connecting = must_alloc(sizeof *connecting);
    snprintf(connecting->text, sizeof connecting->text, "\r\033[Kconnecting to %s", shown(to));
    pthread_mutex_init(&connecting->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&connecting->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&connecting->thread, NULL, draw, connecting);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        return connecting;
    free(connecting); /* without the line, opening still works */
    return NULL;
}

void connecting_end(struct connecting *connecting)
{
    if (!connecting)
        return;
    pthread_mutex_lock(&connecting->mutex);
    connecting->stop = true;
    pthread_cond_signal(&connecting->wake);
    pthread_mutex_unlock(&connecting->mutex);
    pthread_join(connecting->thread, NULL);
    if (connecting->drawn)
        (void)put("\r\033[K");
    pthread_cond_destroy(&connecting->wake);
    pthread_mutex_destroy(&connecting->mutex);
    free(connecting);
}
