/* SPDX-License-Identifier: MIT */
/* The test's side of the clock shim; see clock.h. */
#include "clock.h"

#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *clock_preload(void)
{
    static char text[PATH_MAX + 64];
    char self[PATH_MAX] = "";
    char *slash;

    if (CLOCK_SHIM[0] == '/')
        return "LD_PRELOAD=" CLOCK_SHIM;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        give_up("/proc/self/exe: %s", strerror(errno));
    slash = strrchr(self, '/');
    snprintf(text, sizeof text, "LD_PRELOAD=%.*s/%s", slash ? (int)(slash - self) : 0, self,
             CLOCK_SHIM);
    return text;
}

_Atomic int64_t *clock_make(const char *dir)
{
    char file[2 * SERVER_PATH_ROOM];
    _Atomic int64_t *clock_us;
    int fd;

    snprintf(file, sizeof file, "%s/clock", dir);
    fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *clock_us) != 0)
        give_up("%s: %s", file, strerror(errno));
    clock_us = mmap(NULL, sizeof *clock_us, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (clock_us == MAP_FAILED)
        give_up("%s: %s", file, strerror(errno));
    close(fd);
    return clock_us;
}
