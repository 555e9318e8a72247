/* SPDX-License-Identifier: MIT */
/* Where we listen: an address of this machine, or a Unix socket. */
#ifndef SERVE_LISTEN_H
#define SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

#define LISTEN_DEFAULT "127.0.0.1:7411"

struct listen_at {
    char host[256]; /* without brackets; "" for a Unix socket */
    char port[8];
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "" for an address */
};

/* "HOST:PORT", "[V6]:PORT" or "unix:PATH". NULL, or what is wrong with it. Pure. */
const char *listen_parse(const char *text, struct listen_at *ret_at);
/* A listening socket. -1: `why` says what failed. *ret_loopback: only this machine reaches it. A
 * stale Unix socket is removed first; a new one is for its owner alone (0600). */
int listen_open(const struct listen_at *at, bool *ret_loopback, char *why, size_t why_size);
/* The socket as people write it, with the port that it got ("127.0.0.1:7411"). */
void listen_shown(int fd, const struct listen_at *at, char *ret_text, size_t size);

#endif
