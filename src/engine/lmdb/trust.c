/* SPDX-License-Identifier: MIT */
/*
 * Checks which other users may write to a store, and whether its URL allows that.
 *
 * The processes of an embedded store share memory. It holds robust mutexes, whose lists are pointers, and
 * LMDB trusts its pages: a user who may write there can run code in all of them. So a store is
 * private to its user, unless its URL says shared=group. Then the owner and the group's members are
 * trusted, and nobody else. Root is no exception: root too must say shared=group to use a store of
 * another user.
 *
 * The decisions are pure functions of what fstat(2) says.
 */
#include "engine/lmdb/internal.h"

#include "util/error.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- pure ------------------------------------------------------------------------ */

enum lmdb_distrust lmdb_distrust(const struct stat *st, uid_t user, bool shared)
{
    if (st->st_mode & S_IWOTH)
        return LMDB_OTHERS_WRITE;
    if (shared)
        return LMDB_TRUSTED;
    if (st->st_uid != user && st->st_uid != 0)
        return LMDB_OTHER_OWNER;
    /* With an access control list these bits are its mask: so named users are covered too. */
    if (st->st_mode & S_IWGRP)
        return LMDB_GROUP_WRITES;
    return LMDB_TRUSTED;
}

/* Why this cannot be a file that we made; NULL: it may be one. */
const char *lmdb_strange(const struct stat *st)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return st->st_nlink > 1 ? "has another name too (a hard link)" : NULL;
    case S_IFIFO:
        return "is a fifo";
    case S_IFSOCK:
        return "is a socket";
    case S_IFDIR:
        return "is a directory";
    case S_IFLNK:
        return "is a symbolic link";
    default:
        return "is a device";
    }
}

/* ---- in words --------------------------------------------------------------------- */

void lmdb_user_words(uid_t uid, char *buf, size_t size)
{
    struct passwd entry, *found = NULL;
    char memory[2048];

    if (getpwuid_r(uid, &entry, memory, sizeof memory, &found) == 0 && found)
        snprintf(buf, size, "user %.60s", entry.pw_name);
    else
        snprintf(buf, size, "user %u", (unsigned)uid);
}

static void group_words(gid_t gid, char *buf, size_t size)
{
    struct group entry, *found = NULL;
    char memory[4096];

    if (getgrgid_r(gid, &entry, memory, sizeof memory, &found) == 0 && found)
        snprintf(buf, size, "group %.60s", entry.gr_name);
    else
        snprintf(buf, size, "group %u", (unsigned)gid);
}

void lmdb_owner_words(const struct stat *st, char *buf, size_t size)
{
    char who[80];

    *buf = '\0';
    if (st->st_uid == geteuid())
        return;
    if (st->st_mode & S_IWGRP) {
        group_words(st->st_gid, who, sizeof who);
        snprintf(buf, size,
                 ": it is for the members of %s; a user who joins a group is a member of it from "
                 "the next login on",
                 who);
        return;
    }
    lmdb_user_words(st->st_uid, who, sizeof who);
    snprintf(buf, size,
             ": it belongs to %s; to share a store between users, make one for a group (holdfast "
             "init --group GROUP DIR)",
             who);
}

#define DANGER "and a user who writes to a store can run code in the processes that use it"

hf_status lmdb_check_trust(struct lmdb_directory *d, const struct stat *st, const char *name,
                           hf_error *err)
{
    char path[512], who[80];

    snprintf(path, sizeof path, "%.380s%s%.100s", d->path, name ? "/" : "", name ? name : "");
    switch (lmdb_distrust(st, geteuid(), d->shared)) {
    case LMDB_TRUSTED:
        return HF_OK;
    case LMDB_OTHERS_WRITE:
        if (name)
            return hfi_error_set(err, HF_DENIED, 0,
                                 "every user may write to %s, " DANGER
                                 ": move the store away and make a new one",
                                 path);
        return hfi_error_set(err, HF_DENIED, 0,
                             "every user may write to %s, " DANGER
                             ": use a directory of your own, or make one for a group "
                             "(holdfast init --group GROUP DIR)",
                             path);
    case LMDB_GROUP_WRITES:
        group_words(st->st_gid, who, sizeof who);
        return hfi_error_set(err, HF_DENIED, 0,
                             "%s may write to %s, " DANGER
                             ": if you trust all its members say shared=group in the URL, else "
                             "chmod g-w",
                             who, path);
    case LMDB_OTHER_OWNER:
        break;
    }
    lmdb_user_words(st->st_uid, who, sizeof who);
    return hfi_error_set(err, HF_DENIED, 0,
                         "%s belongs to %s, who may write to it, " DANGER
                         ": use a store of your own, or say shared=group in the URL if you trust "
                         "that user",
                         path, who);
}

/* ---- for the doctor ----------------------------------------------------------------- */

void lmdb_sharing_words(struct lmdb_directory *d, char *buf, size_t size)
{
    char user[80], group[80];
    struct stat st;

    if (fstat(d->dir_fd, &st) != 0) {
        snprintf(buf, size, "cannot look: %s", strerror(errno));
        return;
    }
    lmdb_user_words(st.st_uid, user, sizeof user);
    group_words(st.st_gid, group, sizeof group);
    if (st.st_mode & S_IWGRP)
        snprintf(buf, size,
                 "shared by %s and the members of %s: each of them can run code as each other",
                 user, group);
    else
        snprintf(buf, size,
                 "private to %s: other users have other stores (holdfast init --group GROUP DIR "
                 "makes one to share)",
                 user);
}
