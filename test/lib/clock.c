/* SPDX-License-Identifier: MIT */
/* The test's side of the clock shim; see clock.h. */
#include "clock.h"

#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static char shim_dir[] = "/tmp/holdfast-shim-XXXXXX";

static void end(void *dir)
{
    remove_dir(dir);
}

const char *clock_copy_shim(void)
{
    static char path[sizeof shim_dir + 16];
    char bytes[4096];
    ssize_t len = -1;
    int from = open(CLOCK_SHIM, O_RDONLY | O_CLOEXEC), to = -1;

    if (mkdtemp(shim_dir) && chmod(shim_dir, 0755) == 0) {
        server_keep(shim_dir, end);
        snprintf(path, sizeof path, "%s/clock.so", shim_dir);
        to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    }
    if (from < 0 || to < 0 || fchmod(to, 0755) != 0)
        give_up("a copy of %s: %s", CLOCK_SHIM, strerror(errno));
    while ((len = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)len) != len)
            break;
    if (len != 0)
        give_up("a copy of %s: %s", CLOCK_SHIM, strerror(errno));
    close(from);
    close(to);
    return path;
}
