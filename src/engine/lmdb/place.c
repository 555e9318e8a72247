/* SPDX-License-Identifier: MIT */
/*
 * Where an embedded store lives: its directory, which file systems will do, and how
 * its files are opened. Two processes must never be led to two different stores
 * under one name, so nothing here falls back: what exists and fails is an error.
 */
#include "engine/lmdb/lm.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SYSTEM_PATH "/var/lib/holdfast"
#define HOME_PATH   ".local/state/holdfast"

static hf_status open_directory(struct lm_depot *d, const char *path, hf_error *err);
static hf_status refuse_network(struct lm_depot *d, hf_error *err);
static hf_status make_parents(const char *path, hf_error *err);

hf_status hfi_lm_place_open(struct lm_depot *d, const char *path, hf_error *err)
{
    hf_status status = open_directory(d, path, err);

    if (status != HF_OK)
        return status;
    return refuse_network(d, err);
}

void hfi_lm_place_close(struct lm_depot *d)
{
    if (d->dir_fd >= 0)
        close(d->dir_fd);
    d->dir_fd = -1;
    hfi_free(d->path);
    hfi_free(d->location);
    d->path = d->location = NULL;
}

/* The same for cron and for a login shell: nothing of the environment takes part. */
hf_status hfi_lm_default_path(char **ret_path, hf_error *err)
{
    struct stat st;
    struct passwd entry, *found = NULL;
    char buffer[4096], path[PATH_MAX];
    hf_status status;

    if (lstat(SYSTEM_PATH, &st) == 0 || errno != ENOENT) {
        *ret_path = hfi_strdup(SYSTEM_PATH);
        return *ret_path ? HF_OK : hfi_error_memory(err);
    }

    if (getpwuid_r(getuid(), &entry, buffer, sizeof buffer, &found) != 0 || !found ||
        !entry.pw_dir[0])
        return hfi_error_set(
            err, HF_CONFIG, 0,
            "no default store: %s does not exist and user %u has no home directory", SYSTEM_PATH,
            (unsigned)getuid());
    if (snprintf(path, sizeof path, "%s/%s", entry.pw_dir, HOME_PATH) >= (int)sizeof path)
        return hfi_error_set(err, HF_CONFIG, ENAMETOOLONG, "the home directory's path is too long");

    status = make_parents(path, err);
    if (status != HF_OK)
        return status;
    *ret_path = hfi_strdup(path);
    return *ret_path ? HF_OK : hfi_error_memory(err);
}

static hf_status make_parents(const char *path, hf_error *err)
{
    char part[PATH_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return hfi_error_set(err, errno == ENOENT ? HF_CONFIG : HF_DENIED, errno,
                                 "cannot make directory %s: %s", part, strerror(errno));
    }
    return HF_OK;
}

static hf_status open_directory(struct lm_depot *d, const char *path, hf_error *err)
{
    char *absolute;
    struct stat st;

    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return hfi_error_set(err,
                             errno == ENOSPC || errno == EDQUOT ? HF_FULL
                             : errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG
                                 ? HF_CONFIG
                                 : HF_DENIED,
                             errno, "cannot make directory %s: %s", path, strerror(errno));

    d->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir_fd < 0)
        return hfi_error_set(err, errno == ENOTDIR ? HF_CONFIG : HF_DENIED, errno,
                             "cannot open directory %s: %s", path, strerror(errno));
    if (fstat(d->dir_fd, &st) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "fstat %s: %s", path, strerror(errno));
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    d->file_mode = st.st_mode & 0666;

    absolute = realpath(path, NULL);
    d->path = hfi_strdup(absolute ? absolute : path);
    free(absolute);
    d->location = d->path ? hfi_malloc(strlen(d->path) + sizeof "file:") : NULL;
    if (!d->location)
        return hfi_error_memory(err);
    sprintf(d->location, "file:%s", d->path);
    return HF_OK;
}

/* The kernel's numbers (linux/magic.h and the file systems' own sources). */
bool hfi_lm_network_fs(long type, const char **ret_name)
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

/* Shared mappings, futexes and fcntl liveness hold within one kernel only. */
static hf_status refuse_network(struct lm_depot *d, hf_error *err)
{
    struct statfs fs;
    const char *name;

    if (fstatfs(d->dir_fd, &fs) != 0)
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "statfs %s: %s", d->path, strerror(errno));
    if (hfi_lm_network_fs((long)fs.f_type, &name))
        return hfi_error_set(err, HF_UNSUPPORTED, 0,
                             "%s is on %s, which may be shared with other machines: the embedded "
                             "store works on local file systems only",
                             d->path, name);
    return HF_OK;
}

/*
 * O_CREAT on an existing file of another user in a sticky directory is refused by
 * fs.protected_regular, so creating and opening are two steps. fchmod, because the
 * directory's mode says who shares the store and the umask does not.
 */
hf_status hfi_lm_file(struct lm_depot *d, const char *name, int *ret_fd, bool *ret_created,
                      hf_error *err)
{
    int fd = openat(d->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    *ret_created = false;
    if (fd < 0 && errno == ENOENT) {
        fd = openat(d->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                    d->file_mode);
        if (fd >= 0) {
            *ret_created = true;
            if (fchmod(fd, d->file_mode) != 0) {
                int saved = errno;

                close(fd);
                unlinkat(d->dir_fd, name, 0);
                return hfi_error_set(err, HF_DENIED, saved, "chmod %s/%s: %s", d->path, name,
                                     strerror(saved));
            }
        } else if (errno == EEXIST) {
            fd = openat(d->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        }
    }
    if (fd < 0) {
        hf_status status = errno == ENOSPC || errno == EDQUOT                    ? HF_FULL
                           : errno == EACCES || errno == EPERM || errno == EROFS ? HF_DENIED
                                                                                 : HF_UNAVAILABLE;
        return hfi_error_set(err, status, errno, "cannot open %s/%s: %s", d->path, name,
                             strerror(errno));
    }
    *ret_fd = fd;
    return HF_OK;
}

/* Real blocks behind every byte that is mapped: a full disk is an error here and not a SIGBUS later. */
hf_status hfi_lm_reserve_space(struct lm_depot *d, int fd, const char *name, int64_t size,
                               hf_error *err)
{
    int rc = posix_fallocate(fd, 0, size);

    if (rc == EINTR)
        return hfi_lm_reserve_space(d, fd, name, size, err);
    if (rc != 0)
        return hfi_error_set(err,
                             rc == ENOSPC || rc == EDQUOT || rc == EFBIG ? HF_FULL : HF_UNAVAILABLE,
                             rc, "cannot reserve %lld bytes for %s/%s: %s", (long long)size,
                             d->path, name, strerror(rc));
    return HF_OK;
}

hf_status hfi_lm_boot_id(char ret_id[40], hf_error *err)
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
