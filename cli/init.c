/* SPDX-License-Identifier: MIT */
/* `holdfast init [--group GROUP] DIR`: make an embedded store for oneself or for a group, and say its URL. */
#include "json.h"
#include "store.h"
#include "table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_GROUP ((gid_t)-1)

static int find_group(const struct cli *cli, gid_t *ret_gid);
static int open_directory(const char *path, int *ret_fd);
static int set_modes(int dir, const char *path, gid_t gid);

int verb_init(struct cli *cli)
{
    const char *path = cli->args.name;
    char whole[PATH_MAX], *url;
    struct cli_store store;
    gid_t gid = NO_GROUP;
    int dir = -1, code;

    if (!path || !*path)
        return usage_error(cli, "which directory?");
    if (strncmp(path, "file:", 5) == 0)
        return usage_error(cli, "'%s' is a URL: give its directory", shown(path));
    code = find_group(cli, &gid);
    if (code == EXIT_FINE)
        code = open_directory(path, &dir);
    if (code == EXIT_FINE)
        code = set_modes(dir, path, gid);
    if (dir >= 0)
        close(dir);
    if (code != EXIT_FINE)
        return code;
    if (!realpath(path, whole)) {
        say_error("%s: %s", shown(path), strerror(errno));
        return EXIT_CONFIG;
    }
    url = url_of_path(whole, gid != NO_GROUP);
    code = store_open(cli, url, &store);
    if (code == EXIT_FINE) {
        store_close(&store);
        if (cli->args.json) {
            json_t *object = json_object();

            json_object_set_new(object, "store", json_text(url, strlen(url)));
            json_print(object, true);
        } else {
            puts(url);
        }
        code = out_finish(cli);
    }
    free(url);
    return code;
}

static int find_group(const struct cli *cli, gid_t *ret_gid)
{
    const struct group *group;

    if (!cli->args.group)
        return EXIT_FINE;
    group = getgrnam(cli->args.group);
    if (!group) {
        say_error("no group '%s'", shown(cli->args.group));
        return EXIT_CONFIG;
    }
    *ret_gid = group->gr_gid;
    return EXIT_FINE;
}

static int failed(const char *path)
{
    int saved = errno;

    say_error("%s: %s", shown(path), strerror(saved));
    return saved == EACCES || saved == EPERM || saved == EROFS ? EXIT_DENIED : EXIT_CONFIG;
}

/* Open a directory that belongs to us and is new, empty or has a store in it: we do not change the
 * modes of any other. */
static int open_directory(const char *path, int *ret_fd)
{
    bool other = false, has_store;
    struct dirent *entry;
    struct stat st;
    DIR *list;
    int fd;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return failed(path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return failed(path);
    *ret_fd = fd;
    has_store = faccessat(fd, "store", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    list = opendir(path);
    while (list && (entry = readdir(list)))
        other |= strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (list)
        closedir(list);
    if (other && !has_store) {
        say_error("%s is not empty, and there is no store in it: name a new or an empty directory",
                  shown(path));
        return EXIT_CONFIG;
    }
    if (st.st_uid != geteuid()) {
        say_error("%s belongs to another user", shown(path));
        return EXIT_DENIED;
    }
    if (has_store && st.st_mode & S_IWOTH) {
        say_error("every user may write to the store in %s, and may have its files open: make a "
                  "new one elsewhere, and "
                  "copy 'store' and 'cells.mdb' into it while nobody uses them",
                  shown(path));
        return EXIT_DENIED;
    }
    return EXIT_FINE;
}

/* A file that has another name elsewhere would be opened to the group there, too. */
static int refuse_links(int dir, const char *path)
{
    struct dirent *entry;
    DIR *list = opendir(path);
    int code = list ? EXIT_FINE : failed(path);

    while (list && code == EXIT_FINE && (entry = readdir(list))) {
        struct stat st;

        if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
            st.st_nlink == 1)
            continue;
        say_error("%s/%s has another name, too (a hard link): nothing was changed", shown(path),
                  shown(entry->d_name));
        code = EXIT_DENIED;
    }
    if (list)
        closedir(list);
    return code;
}

/* The files first: a user that may enter the directory must not meet one with the old rights. */
static int set_modes(int dir, const char *path, gid_t gid)
{
    bool group = gid != NO_GROUP;
    struct dirent *entry;
    int code = refuse_links(dir, path);
    DIR *list = code == EXIT_FINE ? opendir(path) : NULL;

    while (list && code == EXIT_FINE && (entry = readdir(list))) {
        struct stat st;
        int fd;

        if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        fd = openat(dir, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_nlink != 1)) { /* since we looked */
            close(fd);
            errno = EPERM;
            fd = -1;
        }
        if (fd < 0 || (group && fchown(fd, (uid_t)-1, gid) != 0) ||
            fchmod(fd, group ? 0660 : 0600) != 0)
            code = failed(entry->d_name);
        if (fd >= 0)
            close(fd);
    }
    if (list)
        closedir(list);
    if (code == EXIT_FINE &&
        ((group && fchown(dir, (uid_t)-1, gid) != 0) || fchmod(dir, group ? 02770 : 0700) != 0))
        code = failed(path);
    return code;
}
