/* SPDX-License-Identifier: MIT */
/*
 * Random bytes: every thread draws from a pool of its own, filled by
 * getrandom(2). A byte is wiped when it is given out. The pool carries the id
 * of the process that filled it, so a forked child, which inherits a copy, finds another process's
 * id in it and fills it again.
 */
#include "util/random.h"

#include "util/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define POOL_SIZE 512 /* 32 owner ids; more does not make a draw much cheaper */

struct pool {
    uint64_t process; /* the process that filled it; 0: none yet */
    size_t left;      /* unused bytes, at the end */
    unsigned char bytes[POOL_SIZE];
};

static _Thread_local struct pool pool;

static void fill(void *bytes, size_t len);

void hfi_random_bytes(void *ret_bytes, size_t len)
{
    uint64_t process = hfi_process_id();
    unsigned char *from;

    if (len > POOL_SIZE / 2) {
        fill(ret_bytes, len);
        return;
    }
    if (pool.process != process || pool.left < len) {
        fill(pool.bytes, POOL_SIZE);
        pool.left = POOL_SIZE;
        pool.process = process;
    }

    from = pool.bytes + POOL_SIZE - pool.left;
    memcpy(ret_bytes, from, len);
    memset(from, 0, len);
    pool.left -= len;
}

uint64_t hfi_random_u64(void)
{
    uint64_t value;

    hfi_random_bytes(&value, sizeof value);
    return value;
}

static void fill(void *bytes, size_t len)
{
    unsigned char *to = bytes;

    while (len > 0) {
        ssize_t got = getrandom(to, len, 0);

        if (got < 0 && errno != EINTR)
            abort(); /* repeated owner ids would be worse than a crash */
        if (got > 0) {
            to += got;
            len -= (size_t)got;
        }
    }
}
