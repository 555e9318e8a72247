/* SPDX-License-Identifier: MIT */
/* See own_network.h. Main thread, before any other. */
#include "own_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

/* Without root's rights, the network needs a user namespace too, in which we are who we were. */
static bool move(bool root, uid_t uid, gid_t gid)
{
    char users[64], groups[64];

    if (root)
        return unshare(CLONE_NEWNET) == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    snprintf(users, sizeof users, "%lu %lu 1", (unsigned long)uid, (unsigned long)uid);
    snprintf(groups, sizeof groups, "%lu %lu 1", (unsigned long)gid, (unsigned long)gid);
    return write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/gid_map", groups);
}

static bool raise_loopback(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;

    request.ifr_flags = (short)(request.ifr_flags | IFF_UP | IFF_RUNNING);
    good = good && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Some machines permit the namespace and refuse what it needs. There is no way back, so a child tries it first. */
static bool is_permitted(bool root, uid_t uid, gid_t gid)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(move(root, uid, gid) && raise_loopback() ? 0 : 1);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

bool own_network(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();

    return is_permitted(uid == 0, uid, gid) && move(uid == 0, uid, gid) && raise_loopback();
}

/* What is below us in the tree of processes need not do it again. */
#define CLOSED "HOLDFAST_CLOSED"

void close_to_others(void)
{
    const char *permitted = "no";

    if (getenv(CLOSED))
        return;
    if (!own_network())
        fputs("this machine permits no network of its own for tests: while they run, other users "
              "of the "
              "machine can reach their servers\n",
              stderr);
    else
        permitted = "yes";
    setenv(CLOSED, permitted, 1);
}

bool closed_to_others(void)
{
    const char *said = getenv(CLOSED);

    return said && strcmp(said, "yes") == 0;
}
