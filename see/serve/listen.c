/* SPDX-License-Identifier: MIT */
/* Listening sockets. Main thread, before anything else runs. */
#include "listen.h"

#include "util/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 512

const char *listen_parse(const char *text, struct listen_at *ret_at)
{
    struct listen_at at = { 0 };
    const char *colon = strrchr(text, ':');
    const char *from = text;
    size_t len;
    uint64_t port;

    if (strncmp(text, "unix:", 5) == 0) {
        if (text[5] != '/')
            return "unix: needs an absolute path";
        if (strlen(text + 5) >= sizeof at.path)
            return "the path of the socket is too long";
        strcpy(at.path, text + 5);
        *ret_at = at;
        return NULL;
    }
    if (!colon)
        return "it is HOST:PORT or unix:PATH";
    if (hfi_parse_u64(colon + 1, 0, 65535, &port))
        return "the port is a number from 0 to 65535";
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        from++;
        len -= 2;
    } else if (memchr(text, ':', len)) {
        return "an IPv6 address needs brackets: [::1]:7411";
    }
    if (len == 0 || len >= sizeof at.host)
        return "the host is missing: HOST:PORT";
    memcpy(at.host, from, len);
    snprintf(at.port, sizeof at.port, "%u", (unsigned)port);
    *ret_at = at;
    return NULL;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static int failed(int fd, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A socket file to which nobody listens is left over from a server that was killed. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat found;
    int fd;

    if (lstat(address->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
        errno == ECONNREFUSED)
        unlink(address->sun_path);
    close(fd);
}

static int open_unix(const struct listen_at *at, char *why, size_t why_size)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask;
    int bound;

    if (fd < 0)
        return failed(fd, why, why_size);
    strcpy(address.sun_path, at->path);
    remove_stale(&address);
    /* The mask, not a chmod(2) afterwards: there must be no moment in which others may connect. */
    mask = umask(0177);
    bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
    umask(mask);
    if (bound != 0 || listen(fd, BACKLOG) != 0)
        return failed(fd, why, why_size);
    return fd;
}

static int open_address(const struct addrinfo *to, char *why, size_t why_size)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;

    if (fd < 0)
        return failed(fd, why, why_size);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (to->ai_family == AF_INET6) /* [::] means IPv6: both would surprise a careful operator */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, to->ai_addr, to->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        return failed(fd, why, why_size);
    return fd;
}

int listen_open(const struct listen_at *at, bool *ret_loopback, char *why, size_t why_size)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    int code, fd;

    if (at->path[0]) {
        *ret_loopback = true;
        return open_unix(at, why, why_size);
    }
    code = getaddrinfo(at->host, at->port, &hints, &found);
    if (code != 0) {
        snprintf(why, why_size, "%s", gai_strerror(code));
        return -1;
    }
    fd = open_address(found, why, why_size);
    if (fd >= 0)
        *ret_loopback = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    return fd;
}

void listen_shown(int fd, const struct listen_at *at, char *ret_text, size_t size)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char port[8] = "0";

    if (at->path[0]) {
        snprintf(ret_text, size, "unix:%s", at->path);
        return;
    }
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        getnameinfo((struct sockaddr *)&address, len, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    snprintf(ret_text, size, strchr(at->host, ':') ? "[%s]:%s" : "%s:%s", at->host, port);
}
