/* SPDX-License-Identifier: MIT */
/* The embedded engine: there is no server, only a directory. */
#include "lab.h"

#include <stdio.h>

static char dir[SERVER_PATH_ROOM];

static void end(void *unused)
{
    (void)unused;
    remove_dir(dir);
}

static void start(struct lab *lab)
{
    make_dir(dir, sizeof dir, "faults-store", false);
    server_keep(dir, end);
    lab->count = 0;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    (void)lab, (void)ports;
    snprintf(text, URL_ROOM, "file:%s/store", dir);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    switch (fault) {
    case FAULT_CLIENT_KILL:
    case FAULT_CLIENT_STOP:
    case FAULT_CLIENT_CLOCK:
    case FAULT_DISK_FULL:
        return NULL;
    case FAULT_CUT:
    case FAULT_HALF_OPEN:
    case FAULT_SLOW:
    case FAULT_LOSS:
    case FAULT_PARTITION:
        return "there is no network: one machine only";
    default:
        return "there is no server";
    }
}

const struct bed bed_file = { .start = start, .url = url, .why_not = why_not };
