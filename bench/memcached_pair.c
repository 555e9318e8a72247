/* SPDX-License-Identifier: MIT */
/*
 * One thread takes and gives back one name on a memcached of the bench's own; against the same two
 * commands by hand: an add that returns the CAS number, and a delete by that number, over one
 * blocking socket. The server is on a free port of the loopback and ends with the measurement.
 */
#include "measures.h"
#include "ours.h"
#include "rounds.h"

#include "../test/lib/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_S 0.1
#define STRIDE  16
#define START_S 5.0
#define LOOK_S  0.01
#define TRIES   5 /* somebody may take the port before the server does */

struct pair {
    hf_store *store;
    hf_acquire_request request;
    int fd;
    char add[512];
    size_t add_len;
};

/* ---- the server ---------------------------------------------------------------------------- */

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static pid_t begin(uint16_t port)
{
    const struct passwd *user = getpwuid(geteuid());
    char number[8];
    const char *args[] = { "memcached",
                           "-l",
                           "127.0.0.1",
                           "-U",
                           "0",
                           "-p",
                           number,
                           geteuid() == 0 ? "-u" : NULL,
                           user ? user->pw_name : "root",
                           NULL };

    snprintf(number, sizeof number, "%u", port);
    return launch(args, &(struct launch){ .session = true });
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    close(fd);
    return -1;
}

/* Its connection; -1: it ended, most likely because the port was taken. */
static int start_once(uint16_t port, pid_t *ret_pid)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    pid_t pid = begin(port);
    int fd;

    while ((fd = connect_to(port)) < 0) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return -1;
        if (bench_ns() > end)
            bench_die("our memcached does not listen");
        bench_sleep(LOOK_S);
    }
    *ret_pid = pid;
    return fd;
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* Send, and wait for the one line that answers. */
static void exchange(int fd, const char *bytes, size_t len, char said[64])
{
    size_t got = 0;

    if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        bench_die("send to our memcached: %s", strerror(errno));
    do {
        ssize_t more = recv(fd, said + got, 63 - got, 0);

        if (more <= 0)
            bench_die("recv from our memcached: %s", more < 0 ? strerror(errno) : "closed");
        got += (size_t)more;
    } while (said[got - 1] != '\n');
    said[got] = 0;
    if (strncmp(said, "HD", 2) != 0)
        bench_die("our memcached: %s", said);
}

static void step_raw(void *arg)
{
    struct pair *pair = arg;
    char said[64], command[128];
    int len;

    exchange(pair->fd, pair->add, pair->add_len, said);
    len = snprintf(command, sizeof command, "md bench-name-raw00 C%.*s\r\n",
                   (int)strcspn(said + 4, "\r "), said + 4);
    exchange(pair->fd, command, (size_t)len, said);
}

static void step_ours(void *arg)
{
    struct pair *pair = arg;

    ours_release(ours_acquire(pair->store, &pair->request));
}

static double round_ours(void *arg, double seconds)
{
    return rounds_loop(step_ours, arg, seconds, STRIDE);
}

static double round_raw(void *arg, double seconds)
{
    return rounds_loop(step_raw, arg, seconds, STRIDE);
}

void measure_memcached_pair(struct bench *bench)
{
    enum { OURS, RAW, COUNT };
    static struct rounds rounds;
    static struct pair pair;
    const struct contender contenders[COUNT] = { { round_ours, &pair }, { round_raw, &pair } };
    uint16_t port = 0;
    char url[64];
    pid_t pid = 0;

    if (!is_installed("memcached"))
        bench_skip(bench, "memcached is not installed");
    pair.fd = -1;
    for (int i = 0; i < TRIES && pair.fd < 0; i++)
        pair.fd = start_once(port = free_port(), &pid);
    if (pair.fd < 0)
        bench_die("memcached does not start");
    snprintf(url, sizeof url, "memcached://127.0.0.1:%u", port);
    pair.store = ours_open_url(url);
    pair.request = ours_request(OURS_NAME, 0);
    /* A value as long as ours is. */
    pair.add_len = (size_t)snprintf(pair.add, sizeof pair.add,
                                    "ms bench-name-raw00 120 ME T32 c\r\n%0120d\r\n", 0);

    rounds_run(bench, 1, ROUND_S, contenders, COUNT, &rounds);
    rounds_rates(bench, &rounds, OURS, "acquire+release", RAW, "an add and a CAS-delete, by hand",
                 (struct target){ AT_LEAST, 0.9, 0, false });
    ours_close(pair.store);
    close(pair.fd);
    end_process(&pid);
}
