/* SPDX-License-Identifier: MIT */
/*
 * Where an embedded store lives: its directory, which file systems will do, and how
 * its files are opened. Two processes must never use two different stores under one name, so
 * nothing here falls back: a store that exists and cannot be opened is an error. trust.c decides
 * who may write to a store, default.c which directory is the default.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static hf_status open_directory(struct lmdb_directory *d, const struct lmdb_where *where,
                                bool existing, hf_error *err);
static hf_status refuse_network(struct lmdb_directory *d, hf_error *err);
static hf_status make_parents(const char *path, hf_error *err);
static const char *advice(int error);
static hf_status cannot_open(const char *path, int error, hf_error *err);
static hf_status no_store(const char *path, hf_error *err);

hf_status lmdb_directory_open(struct lmdb_directory *d, const struct lmdb_where *where,
                              bool existing, hf_error *err)
{
    struct stat st;
    hf_status status = open_directory(d, where, existing, err);

    if (status == HF_OK)
        status = refuse_network(d, err);
    if (status != HF_OK || !existing)
        return status;
    /* A store exists when its durable file does: before that it is being created, or its creator
     * died. */
    if (fstatat(d->dir_fd, "store", &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        (S_ISREG(st.st_mode) && st.st_size == 0))
        return no_store(d->path, err);
    return HF_OK;
}

void lmdb_directory_close(struct lmdb_directory *d)
{
    if (d->dir_fd >= 0)
        close(d->dir_fd);
    d->dir_fd = -1;
    hfi_free(d->path);
    hfi_free(d->location);
    d->path = d->location = NULL;
}

/* The text is part of the contract with core and the command: engine.h. */
static hf_status no_store(const char *path, hf_error *err)
{
    return hfi_error_set(err, HF_NOT_FOUND, 0, "no store yet at file:%s", path);
}

static hf_status make_parents(const char *path, hf_error *err)
{
    char part[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return hfi_error_set(err, errno == ENOENT ? HF_CONFIG : HF_DENIED, errno,
                                 "cannot make directory %s: %s%s", part, strerror(errno),
                                 advice(errno));
    }
    return HF_OK;
}

/* Users of services have a home that is not there, or that belongs to root. */
static const char *advice(int error)
{
    return error == EACCES || error == EPERM || error == EROFS
               ? ": the default store is in the home directory of this user; name another store, "
                 "for example with HOLDFAST_STORE"
               : "";
}

/* 0700, whatever the umask: a store is private to its user unless the URL says otherwise. */
static hf_status make_directory(const struct lmdb_where *where, hf_error *err)
{
    if (where->in_home) {
        hf_status status = make_parents(where->path, err);

        if (status != HF_OK)
            return status;
    }
    if (mkdir(where->path, 0700) != 0 && errno != EEXIST)
        return hfi_error_set(err,
                             errno == ENOSPC || errno == EDQUOT ? HF_FULL
                             : errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG
                                 ? HF_CONFIG
                                 : HF_DENIED,
                             errno, "cannot make directory %s: %s%s", where->path, strerror(errno),
                             where->in_home ? advice(errno) : "");
    return HF_OK;
}

/* The location is also what a command gives its children: so it says that the store is shared. */
static hf_status set_path(struct lmdb_directory *d, const char *path, hf_error *err)
{
    char *absolute = realpath(path, NULL);

    d->path = hfi_strdup(absolute ? absolute : path);
    free(absolute);
    d->location = d->path ? hfi_malloc(strlen(d->path) + sizeof "file:?shared=group") : NULL;
    if (!d->location)
        return hfi_error_memory(err);
    sprintf(d->location, "file:%s%s", d->path, d->shared ? "?shared=group" : "");
    return HF_OK;
}

/* Mostly another user's store, or that of a group which this user has just joined: so it is said whose. */
static hf_status cannot_open(const char *path, int error, hf_error *err)
{
    struct stat st;
    char owner[400] = "";

    if (error == EACCES && stat(path, &st) == 0)
        lmdb_owner_words(&st, owner, sizeof owner);
    return hfi_error_set(err, error == ENOTDIR ? HF_CONFIG : HF_DENIED, error,
                         "cannot open directory %s: %s%s", path, strerror(error), owner);
}

static hf_status open_directory(struct lmdb_directory *d, const struct lmdb_where *where,
                                bool existing, hf_error *err)
{
    const char *path = where->path;
    struct stat st;
    hf_status status = existing ? HF_OK : make_directory(where, err);

    if (status != HF_OK)
        return status;
    d->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir_fd < 0 && existing && errno == ENOENT)
        return no_store(path, err);
    if (d->dir_fd < 0)
        return cannot_open(path, errno, err);
    if (fstat(d->dir_fd, &st) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s: %s", path, strerror(errno));
    d->shared = where->shared;
    d->by_default = where->by_default;
    status = set_path(d, path, err);
    if (status != HF_OK)
        return status;
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    d->dir_uid = st.st_uid;
    d->dir_gid = st.st_gid;
    /* Others may not even read: read permission is enough to lock `init` or `live`. */
    d->file_mode = d->shared && st.st_mode & S_IWGRP ? 0660 : 0600;
    return lmdb_check_trust(d, &st, NULL, err);
}

/* The kernel's numbers (linux/magic.h and the file systems' own sources). */
bool lmdb_network_fs(long type, const char **ret_name)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        { 0x6969, "NFS" },
        { 0x517b, "SMB" },
        { 0xff534d42, "CIFS" },
        { 0xfe534d42, "SMB" },
        { 0x01021997, "9P" },
        { 0x00c36400, "Ceph" },
        { 0x5346414f, "AFS" },
        { 0x6b414653, "AFS" },
        { 0x73757245, "Coda" },
        { 0x564c, "NCP" },
        { 0x01161970, "GFS2" },
        { 0x7461636f, "OCFS2" },
        { 0x65735546, "FUSE" },
        { 0x0bd00bd0, "Lustre" },
        { 0x786f4256, "VirtualBox shared folder" },
        { 0x47504653, "GPFS" },
        { 0x19830326, "BeeGFS" },
        { 0xaad7aaea, "PanFS" },
        { 0x20030528, "OrangeFS" },
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((unsigned long)type == known[i].magic) {
            *ret_name = known[i].name;
            return true;
        }
    return false;
}

/* Shared mappings, futexes and fcntl locks work within one kernel only. */
static hf_status refuse_network(struct lmdb_directory *d, hf_error *err)
{
    struct statfs fs;
    const char *name;

    if (fstatfs(d->dir_fd, &fs) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "statfs %s: %s", d->path, strerror(errno));
    if (lmdb_network_fs((long)fs.f_type, &name))
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "%s is on %s, which may be shared with other machines: the embedded "
                             "store works on local file systems only",
                             d->path, name);
    return HF_OK;
}

static hf_status not_opened(struct lmdb_directory *d, const char *name, hf_error *err)
{
    struct stat st;
    char owner[400] = "";
    int saved = errno;
    hf_status status = saved == ENOSPC || saved == EDQUOT                    ? HF_FULL
                       : saved == EACCES || saved == EPERM || saved == EROFS ? HF_DENIED
                                                                             : HF_UNAVAILABLE;

    /* open(2) itself refuses links, sockets and devices that nobody serves. */
    if (fstatat(d->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && lmdb_strange(&st))
        return hfi_error_set(err, HF_DENIED, saved, "%s/%s %s and no file of a store", d->path,
                             name, lmdb_strange(&st));
    if (saved == EACCES && fstat(d->dir_fd, &st) == 0)
        lmdb_owner_words(&st, owner, sizeof owner);
    return hfi_error_set(err, status, saved, "cannot open %s/%s: %s%s", d->path, name,
                         strerror(saved), owner);
}

/*
 * A new file gets its owner, group and mode from the directory, not from the umask or the group of
 * its creator. A file that root creates in a user's store belongs to that user.
 */
static int adjust_new(struct lmdb_directory *d, int fd)
{
    uid_t uid = geteuid() == 0 ? d->dir_uid : (uid_t)-1;

    if (d->shared && fchown(fd, uid, d->dir_gid) != 0)
        return -1;
    return fchmod(fd, d->file_mode);
}

/* Was the file made by us or by a user whom we trust? A hard link would let us write to another
 * file. */
static hf_status check_file(struct lmdb_directory *d, int fd, const char *name, hf_error *err)
{
    struct stat st;
    hf_status status;

    if (fstat(fd, &st) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s/%s: %s", d->path, name,
                             strerror(errno));
    if (lmdb_strange(&st))
        return hfi_error_set(err, HF_DENIED, 0, "%s/%s %s and no file of a store", d->path, name,
                             lmdb_strange(&st));
    status = lmdb_check_trust(d, &st, name, err);
    /* Made by a version that let others read. */
    if (status == HF_OK && (st.st_mode & 0777) != d->file_mode &&
        (st.st_uid == geteuid() || geteuid() == 0))
        (void)!fchmod(fd, d->file_mode);
    return status;
}

/*
 * Creating and opening are two steps, so that we know which it was. O_NONBLOCK: a fifo or a device
 * in place of the file must not block us before we can see what it is.
 */
hf_status lmdb_file(struct lmdb_directory *d, const char *name, int *ret_fd, bool *ret_created,
                    hf_error *err)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = openat(d->dir_fd, name, flags);
    hf_status status;

    *ret_created = false;
    if (fd < 0 && errno == ENOENT) {
        fd = openat(d->dir_fd, name, flags | O_CREAT | O_EXCL, d->file_mode);
        if (fd >= 0) {
            *ret_created = true;
            if (adjust_new(d, fd) != 0) {
                int saved = errno;

                close(fd);
                unlinkat(d->dir_fd, name, 0);
                return hfi_error_set(err, HF_DENIED, saved,
                                     "cannot give %s/%s to those who share the store: %s", d->path,
                                     name, strerror(saved));
            }
        } else if (errno == EEXIST) {
            fd = openat(d->dir_fd, name, flags);
        }
    }
    if (fd < 0)
        return not_opened(d, name, err);
    status = check_file(d, fd, name, err);
    if (status != HF_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return HF_OK;
}

/* Allocate blocks for every byte that is mapped: then a full disk is an error here and not a SIGBUS
 * later. */
hf_status lmdb_reserve_space(struct lmdb_directory *d, int fd, const char *name, int64_t size,
                             hf_error *err)
{
    int rc = posix_fallocate(fd, 0, size);

    if (rc == EINTR)
        return lmdb_reserve_space(d, fd, name, size, err);
    if (rc != 0)
        return hfi_error_set(err,
                             rc == ENOSPC || rc == EDQUOT || rc == EFBIG ? HF_FULL : HF_UNAVAILABLE,
                             rc, "cannot reserve %lld bytes for %s/%s: %s", (long long)size,
                             d->path, name, strerror(rc));
    return HF_OK;
}

hf_status lmdb_boot_id(char ret_id[40], hf_error *err)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret_id, 36);
    int saved = errno;

    if (fd >= 0)
        close(fd);
    if (n != 36)
        return hfi_error_set(
            err, HF_UNAVAILABLE, saved,
            "cannot read the boot id (is /proc mounted?): leases of before a reboot "
            "could not be told from living ones");
    memset(ret_id + 36, 0, 4);
    return HF_OK;
}
