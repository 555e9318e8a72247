/* SPDX-License-Identifier: MIT */
/* The temporary directory that the stores are in, and what it lies on. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include <limits.h>

struct place {
    char dir[PATH_MAX]; /* ours, made by place_make() */
    char type[32];      /* of its file system: "ext4", "tmpfs" */
};

/* Make a new directory under $TMPDIR, or /tmp. 0, or errno; then dir is what was tried. */
int place_make(struct place *ret);
/* A directory in it. 0, or errno. */
int place_sub(const struct place *place, const char *name, char ret_path[PATH_MAX]);
/* Remove `path` with all that is in it. */
void place_remove(const char *path);
/* Bytes on disk of all files in `dir`. */
double place_bytes(const char *dir);

#endif
