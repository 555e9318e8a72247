/* SPDX-License-Identifier: MIT */
/*
 * A libcurl multi handle whose descriptors are not inherited by executed programs.
 *
 * libcurl has two sockets in each, by which curl_multi_wakeup() wakes curl_multi_poll(). Older versions (7.88) do not close them on
 * exec, and do not tell which they are; whoever inherits them can write into our event loop. So we
 * call curl_multi_wakeup(), and find the two sockets of this process that have a new byte in them.
 */
#include "engine/etcd/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOKED_AT 256 /* local sockets that are inherited: a process has hardly any */

struct candidate {
    int fd, in, out; /* bytes to read, bytes (or so) that the other end has not read */
};

static bool is_inherited_socket(int fd)
{
    int domain = 0, flags = fcntl(fd, F_GETFD);
    socklen_t len = sizeof domain;

    return flags >= 0 && !(flags & FD_CLOEXEC) &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

static void count(int fd, int *ret_in, int *ret_out)
{
    *ret_in = *ret_out = 0;
    (void)ioctl(fd, FIONREAD, ret_in);
    (void)ioctl(fd, SIOCOUTQ, ret_out);
}

static size_t look(struct candidate *candidates)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    size_t found = 0;

    while (dir && found < LOOKED_AT && (entry = readdir(dir))) {
        int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || !is_inherited_socket(fd))
            continue;
        candidates[found].fd = fd;
        count(fd, &candidates[found].in, &candidates[found].out);
        found++;
    }
    if (dir)
        closedir(dir);
    return found;
}

CURLM *etcd_multi_new(void)
{
    CURLM *multi = curl_multi_init();
    struct candidate candidates[LOOKED_AT];
    size_t found = multi ? look(candidates) : 0;

    if (!found)
        return multi;
    curl_multi_wakeup(multi);
    for (size_t i = 0; i < found; i++) {
        int in, out;

        count(candidates[i].fd, &in, &out);
        if (in > candidates[i].in || out > candidates[i].out)
            fcntl(candidates[i].fd, F_SETFD, FD_CLOEXEC);
    }
    curl_multi_poll(multi, NULL, 0, 0, NULL); /* takes the byte out again */
    return multi;
}
