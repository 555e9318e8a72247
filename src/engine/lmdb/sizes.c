/* SPDX-License-Identifier: MIT */
/*
 * hf_semaphore_resize(): sizes that were set, and the durable file in which they stand.
 *
 * The name record in the lease file has the size (LMDB_MODE_SET), so that an acquire finds it where it looks anyway, and such a record
 * stays while the name is free. But the lease file does not outlive a boot or its damage. So a size is written to the file `sizes`
 * first: records are only appended, and the last one of a name counts; 0 takes a size back. A new lease file gets what stands there.
 *
 * A call appends, syncs and commits under the mutex. If it is killed in between, the next process that takes the mutex carries out
 * the last record: only that one can be missing in the lease file. If it is killed while it appends, the torn record at the end
 * counts for nothing, and the next call overwrites it.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ------------------------------------------------------------------------------------ */

/* A record, as it is stored up to name_len. */
struct size {
    uint32_t checksum; /* of all that follows */
    uint32_t capacity;
    uint32_t name_len;
    unsigned char name[HF_NAME_MAX];
};
#define SIZE_FIXED offsetof(struct size, name)
#define CHUNK      ((size_t)64 * 1024) /* read at a time; many times the longest record */

static uint32_t checksum(const struct size *size)
{
    return hfi_checksum(&size->capacity, SIZE_FIXED - sizeof(uint32_t) + size->name_len);
}

/* How long the record at the beginning of `bytes` is. 0: it does not end there (torn), or is none (`*ret_damaged`). */
static size_t parse(const unsigned char *bytes, size_t len, struct size *ret, bool *ret_damaged)
{
    size_t whole;

    *ret_damaged = false;
    if (len < SIZE_FIXED)
        return 0;
    memcpy(ret, bytes, len < sizeof *ret ? len : sizeof *ret);
    whole = SIZE_FIXED + ret->name_len;
    if (ret->name_len == 0 || ret->name_len > HF_NAME_MAX || ret->capacity > HF_CAPACITY_MAX)
        *ret_damaged = len > sizeof *ret; /* else it may be the end of a write that was cut off */
    else if (whole <= len && checksum(ret) != ret->checksum)
        *ret_damaged = len > whole;
    else
        return whole <= len ? whole : 0;
    return 0;
}

typedef int each_fn(struct lmdb_txn *t, const struct size *size);

/* Call each(), which may be NULL, for all records in order. *ret_end: behind the last whole one, which is in *ret_last. */
static int walk(struct lmdb_txn *t, int fd, each_fn *each, struct size *ret_last, off_t *ret_end)
{
    unsigned char *bytes = hfi_malloc(CHUNK);
    struct size size;
    bool damaged = false;
    size_t at, one = 1;
    ssize_t got;
    int rc = bytes ? 0 : ENOMEM;

    *ret_end = 0;
    ret_last->name_len = 0;
    while (rc == 0 && one > 0) {
        got = pread(fd, bytes, CHUNK, *ret_end);
        if (got < 0)
            rc = errno;
        for (at = 0, one = 0; rc == 0 && got > 0; at += one) {
            size_t next = parse(bytes + at, (size_t)got - at, &size, &damaged);

            if (damaged)
                rc = LMDB_E_CORRUPT;
            if (next == 0 || rc != 0)
                break; /* the end, or of this chunk: if there was something in it, read on */
            rc = each ? each(t, &size) : 0;
            *ret_last = size;
            *ret_end += (off_t)next;
            one = next;
        }
    }
    hfi_free(bytes);
    return rc;
}

/* An older version would not see that the size is set: it may not open the store from now on. */
static int mark_format(struct lmdb_directory *d)
{
    uint32_t format = LMDB_FORMAT;

    if (pwrite(d->store_fd, &format, sizeof format, offsetof(struct lmdb_store_file, format)) !=
            (ssize_t)sizeof format ||
        fdatasync(d->store_fd) != 0)
        return errno ? errno : EIO;
    return 0;
}

/* *ret_written: it may stand there, whatever is returned. */
static int append(struct lmdb_directory *d, const struct hfi_name *name, uint32_t capacity,
                  bool *ret_written)
{
    struct size size = { .capacity = capacity, .name_len = name->len }, last;
    size_t len = SIZE_FIXED + name->len;
    off_t end;
    bool created;
    int fd, rc;

    if (lmdb_file(d, "sizes", &fd, &created, NULL) != HF_OK)
        return EIO;
    memcpy(size.name, name->bytes, name->len);
    size.checksum = checksum(&size);
    rc = walk(NULL, fd, NULL, &last, &end);
    if (rc == 0 && end == 0)
        rc = mark_format(d);
    *ret_written = rc == 0 || *ret_written;
    if (rc == 0 && (ftruncate(fd, end) != 0 || pwrite(fd, &size, len, end) != (ssize_t)len ||
                    fsync(fd) != 0 || (created && fsync(d->dir_fd) != 0)))
        rc = errno ? errno : EIO;
    close(fd);
    return rc;
}

/* ---- in the lease file ----------------------------------------------------------------------------- */

/* The record of a name with this size. `rec` is as it is in the file, or new. */
static void set(struct lmdb_name *rec, uint32_t capacity)
{
    if (!capacity) {
        rec->mode &= (uint8_t)~LMDB_MODE_SET;
        return;
    }
    rec->mode = HFI_MODE_SEMAPHORE | LMDB_MODE_SET;
    rec->capacity = capacity;
}

static bool in_use(const struct lmdb_name *rec)
{
    return rec->first.token || rec->further > 0 || rec->waiters > 0;
}

static int put_size(struct lmdb_txn *t, const struct size *size)
{
    struct hfi_name name = { .bytes = size->name, .len = size->name_len };
    struct lmdb_name rec;
    int rc;

    hfi_hash128(name.bytes, name.len, name.hash);
    rc = lmdb_name_get(t, &name, &rec);
    if (rc == MDB_NOTFOUND) {
        lmdb_name_init(&rec, &name);
        rec.mode = HFI_MODE_SEMAPHORE;
        rc = 0;
    }
    if (rc == LMDB_E_COLLISION ||
        (rc == 0 && lmdb_mode(&rec) != HFI_MODE_SEMAPHORE && in_use(&rec)))
        return 0; /* it was refused when it was set */
    if (rc != 0)
        return rc;
    set(&rec, size->capacity);
    return lmdb_name_put(t, name.hash, &rec);
}

/* Under the mutex, with no transaction open: put all records of the file, or only the last one, into the lease file. */
static int put_sizes(struct lmdb_directory *d, int fd, bool all)
{
    struct lmdb_txn t = { .directory = d, .write = true, .read_ms = hfi_now_ms() };
    struct size last;
    off_t end;
    int rc;

    if (!LMDB_GUARD(d))
        return LMDB_E_CORRUPT;
    rc = mdb_txn_begin(d->env, NULL, 0, &t.mdb);
    if (rc != 0)
        return rc;
    rc = walk(&t, fd, all ? put_size : NULL, &last, &end);
    if (rc == 0 && !all && last.name_len > 0)
        rc = put_size(&t, &last);
    if (rc != 0) {
        mdb_txn_abort(t.mdb);
        return rc;
    }
    rc = mdb_txn_commit(t.mdb);
    if (rc == 0)
        lmdb_pages_committed(d);
    return rc;
}

hf_status lmdb_sizes_load(struct lmdb_directory *d, bool all, hf_error *err)
{
    int rc, fd;
    bool created;
    hf_status status;

    if (faccessat(d->dir_fd, "sizes", F_OK, 0) != 0)
        return HF_OK;
    status = lmdb_file(d, "sizes", &fd, &created, err);
    if (status != HF_OK)
        return status;
    while ((rc = put_sizes(d, fd, all)) == MDB_MAP_FULL && lmdb_leases_grow(d) == 0)
        ;
    close(fd);
    if (rc == LMDB_E_CORRUPT)
        return hfi_error_set(err, HF_CORRUPT, 0,
                             "%s/sizes, the sizes of semaphores that were set, is damaged: restore "
                             "it, or remove it and set them again",
                             d->path);
    return rc == 0 ? HF_OK : lmdb_failed(d, rc, err);
}

/* ---- the op -------------------------------------------------------------------------------------------- */

struct resize {
    struct hfi_op *op;
    hf_status status;
    bool written; /* it may be in the durable file */
};

static int resize_body(struct lmdb_txn *t, void *arg)
{
    struct resize *r = arg;
    const struct hfi_name *name = &r->op->u.resize.name;
    uint32_t capacity = r->op->u.resize.capacity;
    struct lmdb_name rec;
    int rc;

    r->status = HF_OK;
    if (!lmdb_pages_way(t, name->hash))
        return LMDB_E_CORRUPT;
    if (capacity > 0 && !lmdb_pages_room(t->directory))
        return MDB_MAP_FULL;
    rc = lmdb_name_get(t, name, &rec);
    if (rc == MDB_NOTFOUND) {
        lmdb_name_init(&rec, name);
        rec.mode = HFI_MODE_SEMAPHORE;
        rc = 0;
    }
    if (rc == 0)
        rc = lmdb_expire(t, name->hash, &rec);
    if (rc != 0)
        return rc;
    if (lmdb_mode(&rec) != HFI_MODE_SEMAPHORE && in_use(&rec)) {
        rc = lmdb_find_dead(t, name->hash, &rec, false);
        r->status = hfi_mismatch_set(&r->op->error, lmdb_mode(&rec), rec.capacity);
        return rc != 0 ? rc : LMDB_STOP;
    }
    if ((rec.mode & LMDB_MODE_SET ? rec.capacity : 0) == capacity)
        return LMDB_STOP; /* it is so already */
    rc = append(t->directory, name, capacity, &r->written);
    if (rc != 0)
        return rc;
    set(&rec, capacity);
    rc = lmdb_promote(t, name->hash, &rec, 0);
    return rc != 0 ? rc : lmdb_name_put(t, name->hash, &rec);
}

void lmdb_resize(struct lmdb_store *store, struct hfi_op *op)
{
    struct resize r = { .op = op };
    hf_status status = lmdb_run_op(store, op, true, resize_body, NULL, &r);

    if (status == HF_OK)
        status = r.status;
    else if (r.written)
        status = HF_UNKNOWN; /* the next lease file would have it */
    lmdb_finish(store, op, status);
}
