/* SPDX-License-Identifier: MIT */
/*
 * Can a proxy stand before the store of this URL? Only before one server that is named by host and port, and reached without TLS: a
 * certificate is for the server's own name, and servers of a set announce addresses of their own.
 */
#include "aim.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *scheme, *port;
} schemes[] = { { "redis", "6379" },   { "memcached", "11211" }, { "etcd", "2379" },
                { "zk", "2181" },      { "postgresql", "5432" }, { "postgres", "5432" },
                { "mariadb", "3306" }, { "mysql", "3306" } };

static const char *default_port(const char *url)
{
    size_t len = strcspn(url, ":");

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strlen(schemes[i].scheme) == len && memcmp(schemes[i].scheme, url, len) == 0)
            return schemes[i].port;
    return NULL;
}

static bool look_up(const char *host, const char *port, struct sockaddr_in *ret_address)
{
    struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(ret_address, found->ai_addr, sizeof *ret_address);
    freeaddrinfo(found);
    return true;
}

const char *aim_at(const char *url, struct aim *ret_aim)
{
    const char *port = url ? default_port(url) : NULL, *start, *end, *at, *colon;
    char host[256], number[8];

    if (!port || strncmp(url + strcspn(url, ":"), "://", 3) != 0 || strlen(url) >= URL_ROOM)
        return "a proxy stands only before one server, without TLS";
    start = strstr(url, "://") + 3;
    end = start + strcspn(start, "/?#");
    for (at = start; at < end; at++) /* user-info ends with the last @ */
        if (*at == '@')
            start = at + 1;
    if (memchr(start, ',', (size_t)(end - start)) || start == end || *start == '[')
        return "a proxy stands only before one server, named by host or IPv4 address";
    if (strstr(end, "ssl") || strstr(end, "host=") || strstr(end, "socket="))
        return "a proxy stands only before a server that the URL names, without TLS";
    colon = memchr(start, ':', (size_t)(end - start));
    snprintf(host, sizeof host, "%.*s", (int)((colon ? colon : end) - start), start);
    snprintf(number, sizeof number, "%.*s", colon ? (int)(end - colon - 1) : 0,
             colon ? colon + 1 : "");
    if (!look_up(host, number[0] ? number : port, &ret_aim->server))
        return "its server has no IPv4 address";
    snprintf(ret_aim->before, sizeof ret_aim->before, "%.*s", (int)(start - url), url);
    snprintf(ret_aim->after, sizeof ret_aim->after, "%s", end);
    return NULL;
}

void aim_through(const struct aim *aim, unsigned port, char ret_url[URL_ROOM])
{
    size_t len = (size_t)snprintf(ret_url, URL_ROOM, "%s127.0.0.1:%u", aim->before, port);

    if (len < URL_ROOM)
        snprintf(ret_url + len, URL_ROOM - len, "%s", aim->after);
}
