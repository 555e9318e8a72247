/* SPDX-License-Identifier: MIT */
/* One memcached server. It has no data but what is in its memory. */
#include "lab.h"

#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILLERS 60000 /* more than it has room for */

static struct cache *cache;

static void start(struct lab *lab)
{
    static const char *const small[] = { "-m", "4", NULL };

    cache = cache_start(lab->fault == FAULT_EVICTION ? small : NULL);
    lab->ports[lab->count++] = cache->port;
}

static void url(const struct lab *lab, const uint16_t *ports, char text[URL_ROOM])
{
    snprintf(text, URL_ROOM, "memcached://127.0.0.1:%u%s%s", (unsigned)ports[0],
             lab->mode->query[0] ? "?" : "", lab->mode->query);
}

static pid_t pid(const struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    return cache->pid;
}

static void kill_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    cache_kill(cache);
}

static void revive(struct lab *lab, unsigned member, bool keep)
{
    (void)lab, (void)member, (void)keep;
    cache_restart(cache);
}

static void pause_it(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    cache_pause(cache);
}

static void resume(struct lab *lab, unsigned member)
{
    (void)lab, (void)member;
    cache_continue(cache);
}

/* Items of every size that ours may have, until they have pushed ours out. */
static void evict(struct lab *lab)
{
    static const unsigned sizes[] = { 16, 64, 128, 256 };
    char *text = malloc(FILLERS * 340u), *at = text;

    (void)lab;
    if (!text)
        give_up("out of memory");
    for (unsigned i = 0; i < FILLERS; i++) {
        unsigned size = sizes[i % 4];

        at += sprintf(at, "set filler%u 0 0 %u noreply\r\n%0*u\r\n", i, size, (int)size, i);
    }
    strcpy(at, "mn\r\n");
    cache_say(cache, text, 1);
    free(text);
}

static const char *why_not(const struct lab *lab, enum fault_kind fault)
{
    (void)lab;
    switch (fault) {
    case FAULT_SERVER_KILL:
        return "it has no data that it could come back with: see server-wipe";
    case FAULT_FAILOVER:
        return "one server, and no replica";
    case FAULT_DISK_FULL:
        return "it uses no disk";
    case FAULT_MEMORY_FULL:
        return "it evicts when its memory is full: see eviction";
    case FAULT_SCRIPT_FLUSH:
        return "it runs no scripts";
    default:
        return NULL;
    }
}

const struct bed bed_memcached = { .start = start,
                                   .url = url,
                                   .pid = pid,
                                   .kill = kill_it,
                                   .revive = revive,
                                   .pause = pause_it,
                                   .resume = resume,
                                   .evict = evict,
                                   .why_not = why_not };
