/* SPDX-License-Identifier: MIT */
/*
 * The durable file `store`: the format's number and the token high-water mark.
 *
 * Tokens are counted in shared memory, which does not survive a power cut. So a mark above all
 * granted tokens is on disk before any of them is granted: it is raised by LMDB_TOKEN_BLOCK at a
 * time, and after a loss counting continues at the mark. A new store begins at the time in
 * microseconds: so a store that was deleted and created again does not grant the old numbers a
 * second time.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"
#include "util/hash.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static hf_status make(struct lmdb_directory *d, int fd, hf_error *err);
static struct lmdb_mark mark_of(uint64_t sequence, uint64_t limit);
static int write_mark(int fd, const struct lmdb_mark *mark);

hf_status lmdb_tokens_open(struct lmdb_directory *d, uint64_t *ret_limit, hf_error *err)
{
    struct lmdb_store_file file;
    struct lmdb_mark mark;
    bool created;
    ssize_t n;
    hf_status status;

    if (d->store_fd < 0) {
        status = lmdb_file(d, "store", &d->store_fd, &created, err);
        if (status != HF_OK)
            return status;
    }

    n = pread(d->store_fd, &file, sizeof file, 0);
    if (n == 0 && !d->alone)
        return hfi_error_set(err, LMDB_MUST_BE_ALONE, 0, "%s/store is empty", d->path);
    if (n == 0) {
        status = make(d, d->store_fd, err);
        if (status != HF_OK)
            return status;
        n = pread(d->store_fd, &file, sizeof file, 0);
    }
    if (n != (ssize_t)sizeof file || file.magic != LMDB_STORE_MAGIC)
        return hfi_error_set(
            err, HF_CORRUPT, 0,
            "%s/store is not a Holdfast store file: tokens could go back; restore it, "
            "or move the directory away to start a new store",
            d->path);
    if (file.format > LMDB_FORMAT)
        return hfi_error_set(err, HF_VERSION, 0,
                             "%s was made by a newer version (format %u, this library knows %u)",
                             d->path, file.format, LMDB_FORMAT);
    if (!lmdb_mark_pick(&file.first, &file.second, &mark))
        return hfi_error_set(
            err, HF_CORRUPT, 0,
            "%s/store: both copies of the token mark are damaged: tokens could go back; "
            "restore it, or move the directory away to start a new store",
            d->path);
    *ret_limit = mark.limit;
    return HF_OK;
}

int lmdb_tokens_reserve(struct lmdb_directory *d, uint64_t limit)
{
    struct lmdb_store_file file;
    struct lmdb_mark mark;

    if (pread(d->store_fd, &file, sizeof file, 0) != (ssize_t)sizeof file)
        return errno ? errno : EIO;
    if (!lmdb_mark_pick(&file.first, &file.second, &mark))
        return EIO;
    if (mark.limit >= limit)
        return 0;
    mark = mark_of(mark.sequence + 1, limit);
    return write_mark(d->store_fd, &mark);
}

bool lmdb_mark_pick(const struct lmdb_mark *first, const struct lmdb_mark *second,
                    struct lmdb_mark *ret)
{
    struct lmdb_mark want = mark_of(first->sequence, first->limit);
    bool first_good = first->sequence && want.checksum == first->checksum;
    bool second_good;

    want = mark_of(second->sequence, second->limit);
    second_good = second->sequence && want.checksum == second->checksum;
    if (!first_good && !second_good)
        return false;
    *ret = !second_good || (first_good && first->sequence > second->sequence) ? *first : *second;
    return true;
}

/* The whole file is written and synced before the magic makes it valid: a crash leaves it empty or
 * complete. */
static hf_status make(struct lmdb_directory *d, int fd, hf_error *err)
{
    struct lmdb_store_file file;
    struct timespec now;
    uint64_t start;

    clock_gettime(CLOCK_REALTIME, &now);
    start = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (now.tv_sec < 0 || start >= HFI_TOKEN_LIMIT / 2)
        start = 1; /* a clock that is this wrong is not used */

    memset(&file, 0, sizeof file);
    file.magic = LMDB_STORE_MAGIC;
    file.format = LMDB_FORMAT_FIRST;
    file.first = mark_of(1, start);
    if (pwrite(fd, &file, sizeof file, 0) != (ssize_t)sizeof file || fsync(fd) != 0 ||
        fsync(d->dir_fd) != 0) {
        int saved = errno;

        (void)!ftruncate(fd, 0);
        return hfi_error_set(err, saved == ENOSPC || saved == EDQUOT ? HF_FULL : HF_UNAVAILABLE,
                             saved, "cannot write %s/store: %s", d->path, strerror(saved));
    }
    return HF_OK;
}

static struct lmdb_mark mark_of(uint64_t sequence, uint64_t limit)
{
    struct lmdb_mark mark = { .sequence = sequence, .limit = limit };

    mark.checksum = hfi_checksum(&mark, offsetof(struct lmdb_mark, checksum));
    return mark;
}

/* Odd sequences go to the first copy, even ones to the second. */
static int write_mark(int fd, const struct lmdb_mark *mark)
{
    off_t at = (off_t)(mark->sequence % 2 ? offsetof(struct lmdb_store_file, first)
                                          : offsetof(struct lmdb_store_file, second));

    if (pwrite(fd, mark, sizeof *mark, at) != (ssize_t)sizeof *mark)
        return errno ? errno : EIO;
    return fdatasync(fd) == 0 ? 0 : errno;
}
