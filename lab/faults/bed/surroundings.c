/* SPDX-License-Identifier: MIT */
/*
 * Networks, disks and clocks of a cell's own. Networks and disks need root: namespaces that only this process and its children
 * see.
 *
 *   clients, near   -- lo ------------------------------------------ servers at 127.0.0.1
 *   clients, far    -- tun1 --- this thread, which loses packets --- tun0 -- the same servers
 *
 * The far clients use the same addresses: in their network 127.0.0.0/8 is routed through the wire (route_localnet), so that
 * servers that announce their own addresses are reached too.
 */
#include "lab.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACKET_ROOM 65536
#define DISK_OPTION "size=1200m,mode=1777"
#define FILL_BYTES  (1 << 20)

extern char **environ;

static void must(const char *what, bool fine)
{
    if (!fine)
        give_up("%s: %s (this fault needs root)", what, strerror(errno));
}

/* ---- the wire ------------------------------------------------------------------------------------ */

static int ends[2];
static _Atomic unsigned loss_percent;

void net_loss(unsigned percent)
{
    atomic_store(&loss_percent, percent);
}

static void pass(int from, int to, uint64_t *dice)
{
    static char packet[PACKET_ROOM];
    ssize_t len = read(from, packet, sizeof packet);

    if (len > 0 && chance(dice, 100) >= atomic_load(&loss_percent))
        (void)!write(to, packet, (size_t)len);
}

static void *carry(void *arg)
{
    uint64_t dice = 1;

    (void)arg;
    for (;;) {
        struct pollfd fds[2] = { { .fd = ends[0], .events = POLLIN },
                                 { .fd = ends[1], .events = POLLIN } };

        if (poll(fds, 2, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].revents & POLLIN)
                pass(ends[i], ends[1 - i], &dice);
    }
    return NULL;
}

static int open_end(const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    must("/dev/net/tun", fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0);
    return fd;
}

static void command(const char *text)
{
    must(text, system(text) == 0); /* NOLINT(cert-env33-c): a constant of ours, in a test */
}

void net_begin(int *ret_far)
{
    pthread_t thread;
    int near;

    must("a network of our own", unshare(CLONE_NEWNET) == 0);
    near = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    command("ip link set lo up");
    ends[0] = open_end("tun0");
    command("ip addr add 10.99.0.1 peer 10.99.0.2 dev tun0 && ip link set tun0 up && "
            "echo 1 >/proc/sys/net/ipv4/conf/tun0/route_localnet && "
            "echo 0 >/proc/sys/net/ipv4/conf/tun0/rp_filter && "
            "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter");
    must("a second network", unshare(CLONE_NEWNET) == 0);
    *ret_far = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    ends[1] = open_end("tun1");
    command("ip addr add 10.99.0.2 peer 10.99.0.1 dev tun1 && ip link set tun1 up && "
            "echo 1 >/proc/sys/net/ipv4/conf/tun1/route_localnet && "
            "echo 0 >/proc/sys/net/ipv4/conf/tun1/rp_filter && "
            "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter && "
            "ip route add 127.0.0.0/8 dev tun1 src 10.99.0.2");
    must("back to the first network", setns(near, CLONE_NEWNET) == 0);
    if (pthread_create(&thread, NULL, carry, NULL) != 0)
        give_up("no thread");
}

/* ---- the disk ------------------------------------------------------------------------------------- */

void disk_begin(void)
{
    must("mounts of our own", unshare(CLONE_NEWNS) == 0);
    must("private mounts", mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must("a small disk", mount("faults", "/dev/shm", "tmpfs", 0, DISK_OPTION) == 0);
    setenv("TMPDIR", "/dev/shm", 1);
}

void disk_fill(bool full)
{
    static const char path[] = "/dev/shm/filler";
    static char bytes[FILL_BYTES];
    int fd;

    unlink(path);
    if (!full)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(path, fd >= 0);
    for (size_t step = sizeof bytes; step >= 512;)
        if (write(fd, bytes, step) < 0)
            step /= 2;
    close(fd);
}

/* ---- clocks ------------------------------------------------------------------------------------------ */

void clock_begin(struct lab *lab, bool of_servers)
{
    static char variable[2 * SERVER_PATH_ROOM], preload[2 * SERVER_PATH_ROOM];
    static char *env[512];
    size_t n = 0;

    lab->clock_us = clock_make(lab->dir);
    must(lab->dir, chmod(lab->dir, 0755) == 0); /* databases run as other users */
    snprintf(variable, sizeof variable, CLOCK_VARIABLE "=%s/clock", lab->dir);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", clock_copy_shim());
    if (of_servers) {
        launch_also(variable);
        launch_also(preload);
        return;
    }
    while (environ[n] && n + 3 < sizeof env / sizeof *env) {
        env[n] = environ[n];
        n++;
    }
    env[n++] = variable;
    env[n++] = preload;
    lab->director.crew.env = env;
}
