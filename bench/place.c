/* SPDX-License-Identifier: MIT */
/* See place.h. */
#include "place.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define DESCRIPTORS 16 /* that nftw() may use */

/* Lines like "36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/root rw". */
static void find_type(struct place *place)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[4096], device[32] = "";
    struct stat st;

    snprintf(place->type, sizeof place->type, "unknown");
    if (!file)
        return;
    if (stat(place->dir, &st) == 0)
        snprintf(device, sizeof device, " %u:%u ", major(st.st_dev), minor(st.st_dev));
    while (*device && fgets(line, sizeof line, file)) {
        char *dash = strstr(line, " - "), *found = strstr(line, device);

        if (dash && found && found < dash)
            snprintf(place->type, sizeof place->type, "%.*s", (int)strcspn(dash + 3, " "),
                     dash + 3);
    }
    fclose(file);
}

int place_make(struct place *ret)
{
    const char *parent = getenv("TMPDIR");

    if (!parent || !*parent)
        parent = "/tmp";
    if (snprintf(ret->dir, sizeof ret->dir, "%s/holdfast-bench.XXXXXX", parent) >=
        (int)sizeof ret->dir - NAME_MAX)
        return ENAMETOOLONG;
    if (!mkdtemp(ret->dir))
        return errno;
    find_type(ret);
    return 0;
}

int place_sub(const struct place *place, const char *name, char ret_path[PATH_MAX])
{
    if (snprintf(ret_path, PATH_MAX, "%s/%s", place->dir, name) >= PATH_MAX)
        return ENAMETOOLONG;
    return mkdir(ret_path, 0700) == 0 ? 0 : errno;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void place_remove(const char *path)
{
    nftw(path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

static double bytes; /* nftw() has no argument for it */

static int add_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)path, (void)ftw;
    if (flag == FTW_F)
        bytes += 512 * (double)st->st_blocks;
    return 0;
}

double place_bytes(const char *dir)
{
    bytes = 0;
    nftw(dir, add_one, DESCRIPTORS, FTW_PHYS);
    return bytes;
}
