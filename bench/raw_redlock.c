/* SPDX-License-Identifier: MIT */
/* The Redlock of a textbook, by hand and for one client; see redlock_nodes.h. */
#include "redlock_nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL "30000"

static const char compare_and_delete[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct raw_redlock {
    struct raw_redis *nodes[REDLOCK_NODES];
    unsigned owed[REDLOCK_NODES]; /* answers that have not come */
    struct raw_command set, del;
    char *set_owner, *del_owner; /* the position of its digits in them */
    uint64_t owner;
};

static char *find_owner(struct raw_command *command, const char *owner)
{
    char *found = memmem(command->bytes, command->len, owner, RAW_OWNER);

    if (!found)
        bench_die("no owner in a raw command");
    return found;
}

struct raw_redlock *raw_redlock_open(const struct redlock_nodes *nodes, const char *name)
{
    struct raw_redlock *raw = calloc(1, sizeof *raw);
    char sha[RAW_SHA], owner[RAW_OWNER + 1];

    if (!raw)
        bench_die("out of memory");
    for (int i = 0; i < REDLOCK_NODES; i++) {
        raw->nodes[i] = raw_redis_open(nodes->servers[i]->port);
        raw_redis_load(raw->nodes[i], compare_and_delete, sha);
    }
    snprintf(owner, sizeof owner, "%032" PRIx64, raw->owner);
    raw_redis_format(&raw->set, (const char *const[]){ "SET", name, owner, "NX", "PX", TTL, NULL });
    raw_redis_format(&raw->del, (const char *const[]){ "EVALSHA", sha, "1", name, owner, NULL });
    raw->set_owner = find_owner(&raw->set, owner);
    raw->del_owner = find_owner(&raw->del, owner);
    return raw;
}

void raw_redlock_close(struct raw_redlock *raw)
{
    for (int i = 0; i < REDLOCK_NODES; i++)
        raw_redis_close(raw->nodes[i]);
    free(raw);
}

/* Send it to all, and wait until a majority owes nothing any more. */
static void round_trip(struct raw_redlock *raw, const struct raw_command *command)
{
    struct pollfd fds[REDLOCK_NODES];
    int done = 0;

    for (int i = 0; i < REDLOCK_NODES; i++) {
        raw_redis_send(raw->nodes[i], command->bytes, command->len);
        raw->owed[i]++;
    }
    while (done < REDLOCK_MAJORITY) {
        for (int i = 0; i < REDLOCK_NODES; i++)
            fds[i] =
                (struct pollfd){ .fd = raw->owed[i] ? raw->nodes[i]->fd : -1, .events = POLLIN };
        if (poll(fds, REDLOCK_NODES, -1) < 0 && errno != EINTR)
            bench_die("poll: %s", strerror(errno));
        for (int i = 0; i < REDLOCK_NODES; i++)
            if (fds[i].revents) {
                raw->owed[i] -= (unsigned)raw_redis_replies(raw->nodes[i]);
                done += raw->owed[i] == 0;
            }
    }
}

void raw_redlock_pair(struct raw_redlock *raw)
{
    char digits[RAW_OWNER + 1];

    snprintf(digits, sizeof digits, "%032" PRIx64, ++raw->owner);
    memcpy(raw->set_owner, digits, RAW_OWNER);
    memcpy(raw->del_owner, digits, RAW_OWNER);
    round_trip(raw, &raw->set);
    round_trip(raw, &raw->del);
}
