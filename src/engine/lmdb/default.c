/* SPDX-License-Identifier: MIT */
/*
 * The default store: which directory "file:" means. It is the same for cron, for a login shell and
 * for a set-user-ID program: neither the environment nor the real user id matters.
 *
 *   1. what the administrator says in LMDB_SITE_FILE, for all users
 *   2. .local/state/holdfast in the home of the effective user, by the passwd entry
 *
 * Until version 0.1 the default was LMDB_OLD_DEFAULT, for all users together, where that directory existed. As long
 * as a process uses the store there, another default would be a second lock of the same name: it is refused.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HOME_PATH ".local/state/holdfast"
#define SITE_MAX  HFI_URL_MAX

void lmdb_where_done(struct lmdb_where *where)
{
    hfi_free(where->path);
    where->path = NULL;
}

/* ---- URLs ---------------------------------------------------------------------------- */

/* A relative path means another store in another working directory: it is made absolute at once. */
static hf_status make_absolute(char **path, hf_error *err)
{
    char here[PATH_MAX], *whole;

    if (**path == '/')
        return HF_OK;
    if (!getcwd(here, sizeof here))
        return hfi_error_set(err, HF_CONFIG, errno,
                             "the path of the URL is relative, and the working directory is not "
                             "known: %s",
                             strerror(errno));
    whole = hfi_malloc(strlen(here) + strlen(*path) + 2);
    if (!whole)
        return hfi_error_memory(err);
    sprintf(whole, "%s/%s", strcmp(here, "/") == 0 ? "" : here, *path);
    hfi_free(*path);
    *path = whole;
    return HF_OK;
}

static const struct hfi_form forms[] = { { "file", 0, 0, 0, NULL }, { .scheme = NULL } };

#define AT(member) offsetof(struct lmdb_conf, member)
static const struct hfi_param params[] = {
    { "shared", HFI_PARAM_CHOICE, AT(shared), 0, 0, 1, "group" },
    { "lock_wait", HFI_PARAM_DURATION, AT(lock_wait_ms), 100, HF_DURATION_MAX_MS, LMDB_LOCK_WAIT_MS,
      NULL },
    { .name = NULL },
};

const struct hfi_conf_type lmdb_conf_type = { sizeof(struct lmdb_conf), forms, params };

/* "file:", "file:/path", "file:path", "file:///path". */
hf_status lmdb_where(struct lmdb_conf *conf, struct lmdb_where *ret, hf_error *err)
{
    struct lmdb_where where = { .shared = conf->shared == 0 };
    const char *path = NULL;
    hf_status status;

    if (!*conf->url.path) {
        status = lmdb_default(LMDB_SITE_FILE, ret, err);
        ret->shared |= where.shared;
        return status;
    }
    status =
        hfi_conf_part(&conf->url, conf->url.path, strlen(conf->url.path), "the path", &path, err);
    if (status != HF_OK)
        return status;
    where.path = hfi_strdup(path);
    if (!where.path)
        return hfi_error_memory(err);
    status = make_absolute(&where.path, err);
    if (status != HF_OK) {
        lmdb_where_done(&where);
        return status;
    }
    *ret = where;
    return HF_OK;
}

/* ---- what the administrator says -------------------------------------------------------- */

/* A user who may change this file chooses everybody's store: so only root may. */
static hf_status read_site(const char *file, char text[SITE_MAX], hf_error *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *wrong = NULL;
    struct stat st;
    ssize_t n = -1;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return HF_NOT_FOUND;
    if (fd < 0 || fstat(fd, &st) != 0)
        wrong = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        wrong = "it is no regular file";
    else if (st.st_uid != 0 || st.st_mode & (S_IWGRP | S_IWOTH))
        wrong = "it chooses the store of all users, so it must belong to root, and nobody else may "
                "write to it (chown root, chmod 644)";
    else if ((n = read(fd, text, SITE_MAX)) < 0)
        wrong = strerror(errno);
    else if (n == SITE_MAX || memchr(text, 0, (size_t)n))
        wrong = "it has no line with a URL";
    if (fd >= 0)
        close(fd);
    if (wrong)
        return hfi_error_set(err, HF_CONFIG, 0, "%s: %s", file, wrong);
    text[n] = 0;
    return HF_OK;
}

/* The one line that is neither empty nor a comment; NULL: none, or more than one. */
static char *only_line(char *text)
{
    char *found = NULL, *rest;

    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        size_t len;

        line += strspn(line, " \t");
        if (!*line || *line == '#')
            continue;
        if (found)
            return NULL;
        found = line;
        for (len = strlen(line); len > 0 && strchr(" \t", line[len - 1]); len--)
            line[len - 1] = 0;
    }
    return found;
}

static hf_status from_site(const char *file, struct lmdb_where *ret, hf_error *err)
{
    struct hfi_conf *conf = NULL;
    char text[SITE_MAX + 1], *line;
    hf_status status = read_site(file, text, err);

    if (status != HF_OK)
        return status;
    line = only_line(text);
    if (!line || strncmp(line, "file:/", 6) != 0)
        return hfi_error_set(err, HF_CONFIG, 0,
                             "%s: it must have one line, the URL of an embedded store with its "
                             "whole path (file:/srv/locks?shared=group)",
                             file);
    status = hfi_conf_new(line, &lmdb_conf_type, &conf, err);
    if (status == HF_OK)
        status = lmdb_where((struct lmdb_conf *)conf, ret, err);
    hfi_conf_delete(conf);
    if (status != HF_OK) {
        hfi_error_wrap(err, "%s", file);
        lmdb_where_done(ret);
    }
    return status;
}

hf_status lmdb_default(const char *site_file, struct lmdb_where *ret, hf_error *err)
{
    struct passwd entry, *found = NULL;
    char buffer[4096], path[PATH_MAX];
    hf_status status;

    memset(ret, 0, sizeof *ret);
    status = from_site(site_file, ret, err);
    if (status != HF_NOT_FOUND) {
        ret->by_default = true;
        return status;
    }
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) != 0 || !found ||
        entry.pw_dir[0] != '/')
        return hfi_error_set(err, HF_CONFIG, 0,
                             "no default store: user %u has no home directory; name a store, or "
                             "let %s name one for everybody",
                             (unsigned)geteuid(), site_file);
    if (snprintf(path, sizeof path, "%s/%s", entry.pw_dir, HOME_PATH) >= (int)sizeof path)
        return hfi_error_set(err, HF_CONFIG, ENAMETOOLONG, "the home directory's path is too long");
    ret->path = hfi_strdup(path);
    if (!ret->path)
        return hfi_error_memory(err);
    ret->by_default = ret->in_home = true;
    return HF_OK;
}

/* ---- the default of before ----------------------------------------------------------------- */

/*
 * Is there a store in the old place, and does a process use it? The locks on `live` tell, as they
 * do for the processes of that store. Closing a file drops this process's locks on it: so this must
 * not be called for a store that this process has open.
 */
enum lmdb_old lmdb_old_default(const char *path, int32_t *ret_pid)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    enum lmdb_old old = LMDB_OLD_NONE;
    struct stat st;
    int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

    if (dir < 0)
        return LMDB_OLD_NONE;
    if (fstatat(dir, "store", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
        old = LMDB_OLD_IDLE;
        fd = openat(dir, "live", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0) {
            if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fcntl(fd, F_GETLK, &lock) == 0 &&
                lock.l_type != F_UNLCK) {
                old = LMDB_OLD_LIVE;
                *ret_pid = lock.l_pid;
            }
            close(fd);
        }
    }
    close(dir);
    return old;
}

hf_status lmdb_refuse_two_defaults(const struct lmdb_where *where, hf_error *err)
{
    int32_t pid = 0;

    if (!where->by_default || lmdb_old_default(LMDB_OLD_DEFAULT, &pid) != LMDB_OLD_LIVE)
        return HF_OK;
    return hfi_error_set(
        err, HF_CONFIG, 0,
        "the default store is now %s, but process %d uses the one of before, " LMDB_OLD_DEFAULT
        ": end what uses it, or keep it by a line in " LMDB_SITE_FILE
        " (see holdfast-engines(7)); to use the new one at once say file:%s",
        where->path, (int)pid, where->path);
}
