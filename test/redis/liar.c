/* SPDX-License-Identifier: MIT */
/* See liar.h. One thread for each connection; it knows just enough to be greeted. */
#include "liar.h"

#include "redis_server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64

struct liar {
    int fd;
    uint16_t port;
    char error[128];
    const char *_Atomic next, *_Atomic later; /* replies instead of the error */
    _Atomic unsigned scripts;
    _Atomic unsigned master, epoch;
    pthread_t thread, threads[CONNECTIONS_MAX];
    int fds[CONNECTIONS_MAX];
    size_t count;
};

struct guest {
    struct liar *liar;
    int fd;
};

/* The client may be gone: that is an error here, and no signal. */
__attribute__((format(printf, 2, 3))) static void say(int fd, const char *format, ...)
{
    char line[1024];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len > 0 && len < (int)sizeof line)
        (void)!send(fd, line, (size_t)len, MSG_NOSIGNAL);
}

static void say_bulk(int fd, const char *text)
{
    say(fd, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void answer_sentinel(struct liar *liar, int fd, const char *word)
{
    char number[16];

    if (strcasecmp(word, "MASTER") == 0) {
        snprintf(number, sizeof number, "%u", liar->epoch);
        say(fd, "*2\r\n");
        say_bulk(fd, "config-epoch");
        say_bulk(fd, number);
    } else if (strcasecmp(word, "SENTINELS") == 0) {
        say(fd, "*0\r\n");
    } else {
        snprintf(number, sizeof number, "%u", liar->master);
        say(fd, "*2\r\n");
        say_bulk(fd, "127.0.0.1");
        say_bulk(fd, number);
    }
}

static void answer(struct liar *liar, int fd, const redisReply *command)
{
    const char *verb = command->elements ? command->element[0]->str : "";
    const char *word = command->elements > 1 ? command->element[1]->str : "";

    if (strcasecmp(verb, "INFO") == 0 && strcmp(word, "server") == 0)
        say_bulk(fd, "run_id:0123456789\r\nredis_version:7.0.0\r\nredis_mode:cluster\r\n");
    else if (strcasecmp(verb, "INFO") == 0)
        say_bulk(fd, "role:master\r\nmaster_replid:0123\r\nloading:0\r\n");
    else if (strcasecmp(verb, "HELLO") == 0)
        say(fd, "-ERR unknown command\r\n");
    else if (strcasecmp(verb, "SENTINEL") == 0)
        answer_sentinel(liar, fd, word);
    else if (strcasecmp(verb, "CLUSTER") == 0)
        say(fd, "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$0\r\n\r\n:%u\r\n$2\r\nid\r\n",
            (unsigned)liar->port);
    else if (strcasecmp(verb, "SUBSCRIBE") == 0)
        say(fd, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(word), word);
    else if (strcasecmp(verb, "PING") == 0)
        say(fd, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    else if (strncasecmp(verb, "EVAL", 4) == 0) {
        liar->scripts++;
        const char *next = atomic_exchange(&liar->next, NULL);

        if (next || liar->later)
            say(fd, "%s", next ? next : liar->later);
        else
            say(fd, "-%s\r\n", liar->error);
    } else
        say(fd, "+OK\r\n");
}

static void *serve(void *arg)
{
    struct guest *guest = arg;
    redisReader *reader = redisReaderCreate();
    char bytes[16384];
    ssize_t got;

    while ((got = read(guest->fd, bytes, sizeof bytes)) > 0) {
        void *command;

        redisReaderFeed(reader, bytes, (size_t)got);
        while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
            answer(guest->liar, guest->fd, command);
            freeReplyObject(command);
        }
    }
    redisReaderFree(reader);
    free(guest);
    return NULL;
}

static void *listen_on(void *arg)
{
    struct liar *liar = arg;
    int fd;

    while ((fd = accept(liar->fd, NULL, NULL)) >= 0) {
        struct guest *guest = malloc(sizeof *guest);

        if (!guest || liar->count == CONNECTIONS_MAX)
            give_up("liar: too many connections");
        *guest = (struct guest){ liar, fd };
        liar->fds[liar->count] = fd;
        if (pthread_create(&liar->threads[liar->count++], NULL, serve, guest) != 0)
            give_up("liar: no thread");
    }
    return NULL;
}

struct liar *liar_start(const char *error)
{
    struct liar *liar = calloc(1, sizeof *liar);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    const char *percent = strstr(error, "%u");

    if (!liar)
        give_up("out of memory");
    liar->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (liar->fd < 0 || bind(liar->fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(liar->fd, 16) != 0 || getsockname(liar->fd, (struct sockaddr *)&at, &len) != 0)
        give_up("liar: no socket");
    liar->port = ntohs(at.sin_port);
    if (percent)
        snprintf(liar->error, sizeof liar->error, "%.*s%u%s", (int)(percent - error), error,
                 (unsigned)liar->port, percent + 2);
    else
        snprintf(liar->error, sizeof liar->error, "%s", error);
    if (pthread_create(&liar->thread, NULL, listen_on, liar) != 0)
        give_up("liar: no thread");
    return liar;
}

struct liar *liar_sentinel(uint16_t master, unsigned epoch)
{
    struct liar *liar = liar_start("ERR");

    liar->master = master;
    liar->epoch = epoch;
    return liar;
}

void liar_says(struct liar *liar, const char *next, const char *later)
{
    liar->later = later;
    liar->next = next;
}

void liar_names(struct liar *liar, uint16_t master)
{
    liar->master = master;
}

uint16_t liar_port(const struct liar *liar)
{
    return liar->port;
}

unsigned liar_scripts(struct liar *liar)
{
    return liar->scripts;
}

void liar_stop(struct liar *liar)
{
    shutdown(liar->fd, SHUT_RDWR);
    pthread_join(liar->thread, NULL);
    for (size_t i = 0; i < liar->count; i++) {
        shutdown(liar->fds[i], SHUT_RDWR);
        pthread_join(liar->threads[i], NULL);
        close(liar->fds[i]);
    }
    close(liar->fd);
    free(liar);
}
