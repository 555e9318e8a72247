/* SPDX-License-Identifier: MIT */
/* memcached servers for one test; see cache.h. Main thread only, except cache_say(). */
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX (CACHE_OPTIONS + 16)
#define SAID_MAX (1024 * 1024)

static void start(struct cache *cache);
static int connect_to(const struct cache *cache);

/* ---- a server's life ---------------------------------------------------------------------- */

static void end(void *cache)
{
    cache_free(cache);
}

static struct cache *begin(const char *const *options)
{
    struct cache *cache = calloc(1, sizeof *cache);

    server_keep(cache, end);
    for (size_t i = 0; options && options[i]; i++) {
        if (i + 1 >= CACHE_OPTIONS)
            give_up("too many options for a server");
        cache->options[i] = options[i];
    }
    return cache;
}

struct cache *cache_start(const char *const *options)
{
    struct cache *cache = begin(options);

    cache->port = free_port();
    start(cache);
    return cache;
}

struct cache *cache_start_socket(const char *const *options)
{
    struct cache *cache = begin(options);

    make_dir(cache->dir, sizeof cache->dir, "memcached", false);
    snprintf(cache->socket, sizeof cache->socket, "%.110s/socket", cache->dir);
    start(cache);
    return cache;
}

static void await_answer(struct cache *cache)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    int status, fd;

    while ((fd = connect_to(cache)) < 0) {
        if (waitpid(cache->pid, &status, WNOHANG) == cache->pid)
            give_up("memcached does not start: status %d", status);
        if (clock_ms() > until_ms)
            give_up("memcached does not answer");
        sleep_ms(5);
    }
    close(fd);
}

static void start(struct cache *cache)
{
    const struct passwd *user = getpwuid(geteuid());
    char port[8];
    const char *args[ARGS_MAX] = { "/usr/bin/memcached", "-t", "2", "-U", "0" };
    size_t count = 5;

    snprintf(port, sizeof port, "%u", (unsigned)cache->port);
    args[count++] = cache->port ? "-p" : "-s";
    args[count++] = cache->port ? port : cache->socket;
    if (cache->port) {
        args[count++] = "-l";
        args[count++] = "127.0.0.1";
    }
    if (geteuid() == 0) { /* it wants to be told */
        args[count++] = "-u";
        args[count++] = user ? user->pw_name : "root";
    }
    for (size_t i = 0; cache->options[i]; i++)
        args[count++] = cache->options[i];
    args[count] = NULL;

    cache->pid = launch(args, &(struct launch){ .log = NULL });
    await_answer(cache);
}

void cache_kill(struct cache *cache)
{
    end_process(&cache->pid);
}

void cache_restart(struct cache *cache)
{
    cache_kill(cache);
    if (cache->socket[0])
        unlink(cache->socket);
    start(cache);
}

void cache_pause(struct cache *cache)
{
    if (!stop_process(cache->pid))
        give_up("memcached does not stop");
}

void cache_continue(struct cache *cache)
{
    kill(cache->pid, SIGCONT);
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    server_forget(cache);
    cache_kill(cache);
    if (cache->dir[0])
        remove_dir(cache->dir);
    free(cache);
}

/* ---- talking to it --------------------------------------------------------------------------- */

static int connect_to(const struct cache *cache)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(cache->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = SERVER_LIMIT_MS / 1000 };
    int fd = socket(cache->port ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed;

    snprintf(un.sun_path, sizeof un.sun_path, "%.107s", cache->socket);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    failed = cache->port ? connect(fd, (struct sockaddr *)&in, sizeof in)
                         : connect(fd, (struct sockaddr *)&un, sizeof un);
    if (!failed)
        return fd;
    close(fd);
    return -1;
}

static unsigned count_lines(const char *text, size_t len)
{
    unsigned count = 0;

    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count;
}

static const char *exchange(struct cache *cache, const void *bytes, size_t len, unsigned lines)
{
    static _Thread_local char said[SAID_MAX];
    int fd = connect_to(cache);
    size_t got = 0;
    ssize_t more = 1;

    if (fd < 0 || send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
        give_up("memcached cannot be spoken to");
    while (count_lines(said, got) < lines && got + 1 < sizeof said && more > 0) {
        more = recv(fd, said + got, sizeof said - got - 1, 0);
        got += more > 0 ? (size_t)more : 0;
    }
    close(fd);
    said[got] = 0;
    if (count_lines(said, got) < lines)
        give_up("memcached says too little: %s", said);
    return said;
}

const char *cache_say(struct cache *cache, const char *text, unsigned lines)
{
    return exchange(cache, text, strlen(text), lines);
}

const char *cache_set(struct cache *cache, const char *key, const void *value, size_t len,
                      const char *flags)
{
    char *text = malloc(strlen(key) + strlen(flags) + len + 64);
    const char *said;
    size_t head;

    if (!text)
        give_up("out of memory");
    head = (size_t)sprintf(text, "ms %s %zu %s\r\n", key, len, flags);
    memcpy(text + head, value, len);
    memcpy(text + head + len, "\r\n", 2);
    said = exchange(cache, text, head + len + 2, 1);
    free(text);
    return said;
}

long long cache_stat(struct cache *cache, const char *name)
{
    const char *said, *at;
    char line[64];
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    snprintf(line, sizeof line, "STAT %s ", name);
    for (unsigned lines = 20; clock_ms() < until_ms; lines += 10) {
        said = cache_say(cache, "stats\r\n", lines);
        at = strstr(said, line);
        if (at)
            return atoll(at + strlen(line));
        if (strstr(said, "\nEND"))
            break;
    }
    give_up("memcached has no stat %s", name);
}

const char *cache_url(uint16_t port, const char *rest)
{
    static char urls[4][256];
    static unsigned next;
    char *url = urls[next++ % 4];

    snprintf(url, sizeof urls[0], "memcached://127.0.0.1:%u%s", (unsigned)port, rest);
    return url;
}
