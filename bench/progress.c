/* SPDX-License-Identifier: MIT */
/* A bar on stderr, if that is a terminal; see out.h. */
#include "out.h"

#include <stdatomic.h>
#include <unistd.h>

#define WIDTH 30 /* of the bar, in cells */

void progress_init(struct progress *progress, size_t total)
{
    *progress = (struct progress){ .shown = isatty(STDERR_FILENO) == 1, .total = total };
}

void progress_draw(const struct report *report, void *arg)
{
    const struct progress *progress = arg;
    int permille = atomic_load(&((struct report *)(uintptr_t)report)->permille), full;

    if (!progress->shown)
        return;
    permille = ((int)progress->done * 1000 + permille) / (int)progress->total;
    full = WIDTH * permille / 1000;
    fputs("\r[", stderr);
    for (int i = 0; i < WIDTH; i++)
        fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d %%  %s\033[K", permille / 10, progress->name);
    fflush(stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
