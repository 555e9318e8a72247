/* SPDX-License-Identifier: MIT */
/* The test's side of the clock shim: a mapped file that server and test share. */
#include "clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *offset_us;
static char file[SERVER_PATH_ROOM];

static void forget_file(void)
{
    unlink(file);
}

static void make_file(void)
{
    const char *tmp = getenv("TMPDIR");
    int fd;

    snprintf(file, sizeof file, "%s/holdfast-clock-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(file);
    if (fd < 0 || ftruncate(fd, sizeof *offset_us) != 0)
        give_up("%s: %s", file, strerror(errno));
    offset_us = mmap(NULL, sizeof *offset_us, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (offset_us == MAP_FAILED)
        give_up("%s: %s", file, strerror(errno));
    close(fd);
    atexit(forget_file);
    setenv("HOLDFAST_TEST_CLOCK", file, 1);
}

struct server *clock_server(const char *const *options)
{
    if (!offset_us)
        make_file();
    atomic_store(offset_us, 0);
    return server_start_with(options, "LD_PRELOAD=" CLOCK_SHIM);
}

void clock_jump_ms(int64_t ms)
{
    atomic_fetch_add(offset_us, ms * 1000);
}
