/* SPDX-License-Identifier: MIT */
/* The list of stores that `holdfast` hands over in a file descriptor. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX 65536

const char *see_stores_read(int fd, struct see_stores *ret_stores)
{
    struct see_stores stores = { .bytes = malloc(BYTES_MAX) };
    ssize_t got = 0;
    char *at, *end;

    if (!stores.bytes)
        return "out of memory";
    while (stores.size < BYTES_MAX &&
           (got = read(fd, stores.bytes + stores.size, BYTES_MAX - stores.size)) > 0)
        stores.size += (size_t)got;
    close(fd);
    at = stores.bytes;
    end = at + stores.size;
    while (got == 0 && at < end && stores.count < SEE_STORES_MAX) {
        char *url = memchr(at, 0, (size_t)(end - at));
        char *behind = url ? memchr(url + 1, 0, (size_t)(end - url - 1)) : NULL;

        if (!behind)
            break;
        stores.items[stores.count].name = at;
        stores.items[stores.count++].url = url + 1;
        at = behind + 1;
    }
    if (got != 0 || at != end || stores.count == 0) {
        see_stores_done(&stores);
        return "the descriptor has no list of stores: `holdfast` makes one";
    }
    *ret_stores = stores;
    return NULL;
}

void see_stores_done(struct see_stores *stores)
{
    if (stores->bytes)
        explicit_bzero(stores->bytes, stores->size);
    free(stores->bytes);
    *stores = (struct see_stores){ .count = 0 };
}
