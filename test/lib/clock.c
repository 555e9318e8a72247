/* SPDX-License-Identifier: MIT */
/* The test's side of the clock shim: a mapped file in the server's directory that both share. */
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void make_clock(struct server *server)
{
    char file[SERVER_PATH_ROOM + 8];
    int fd;

    snprintf(file, sizeof file, "%s/clock", server->dir);
    fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *server->clock_us) != 0)
        give_up("%s: %s", file, strerror(errno));
    server->clock_us =
        mmap(NULL, sizeof *server->clock_us, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (server->clock_us == MAP_FAILED)
        give_up("%s: %s", file, strerror(errno));
    close(fd);
}

struct server *clock_server(const char *const *options)
{
    return server_start_with(options, "LD_PRELOAD=" CLOCK_SHIM, make_clock);
}

void clock_jump_ms(struct server *server, int64_t ms)
{
    atomic_fetch_add(server->clock_us, ms * 1000);
}
