/* SPDX-License-Identifier: MIT */
/* Redis servers of a test's own; see server.h. Main thread only, but for server_ask(). */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT_FIRST 12000 /* below ip_local_port_range: no client is ever given one of these */
#define PORT_COUNT 18000
#define ARGS_MAX   (SERVER_OPTIONS + 24)

static struct server *all;
static pid_t owner; /* whose servers these are: not a forked child's */

static void launch(struct server *server);
static void await_answer(struct server *server);

void give_up(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

int64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void sleep_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/* ---- ports ------------------------------------------------------------------------- */

/* An abstract socket is the reservation: it needs no file and ends with the process. */
static bool reserve(uint16_t port)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                          "holdfast-test-port-%u", (unsigned)port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        give_up("socket: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
        return true; /* kept open */
    close(fd);
    return false;
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool bound;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return bound;
}

uint16_t free_port(void)
{
    unsigned start = (unsigned)getpid() * 7919u + (unsigned)clock_ms();

    for (unsigned i = 0; i < PORT_COUNT; i++) {
        uint16_t port = (uint16_t)(PORT_FIRST + (start + i * 7) % PORT_COUNT);

        if (reserve(port) && is_free(port))
            return port;
    }
    give_up("no free port");
}

/* ---- a server's life ------------------------------------------------------------------ */

struct server *server_start(const char *const *options)
{
    return server_start_with(options, NULL, NULL);
}

static void free_all(void)
{
    while (getpid() == owner && all)
        server_free(all);
}

static void enlist(struct server *server)
{
    if (!owner) {
        owner = getpid();
        atexit(free_all);
    }
    server->next = all;
    all = server;
}

/* A copy of `text` with {dir} and {port} filled in. */
static char *expand(const struct server *server, const char *text)
{
    char *result = malloc(strlen(text) + 2 * SERVER_PATH_ROOM), *out = result;

    if (!result)
        give_up("out of memory");
    while (*text) {
        if (strncmp(text, "{dir}", 5) == 0) {
            out += sprintf(out, "%s", server->dir);
            text += 5;
        } else if (strncmp(text, "{port}", 6) == 0) {
            out += sprintf(out, "%u", (unsigned)server->port);
            text += 6;
        } else {
            *out++ = *text++;
        }
    }
    *out = 0;
    return result;
}

struct server *server_start_with(const char *const *options, const char *environment,
                                 void (*prepare)(struct server *server))
{
    struct server *server = calloc(1, sizeof *server);
    const char *tmp = getenv("TMPDIR");

    if (!server)
        give_up("out of memory");
    snprintf(server->dir, sizeof server->dir, "%s/holdfast-redis-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(server->dir))
        give_up("%s: %s", server->dir, strerror(errno));
    enlist(server);
    snprintf(server->socket, sizeof server->socket, "%.100s/socket", server->dir);
    server->port = free_port();
    for (size_t i = 0; options && options[i]; i++) {
        if (i + 2 >= SERVER_OPTIONS)
            give_up("too many options for a server");
        server->options[i] = expand(server, options[i]);
        server->tls |= strcmp(options[i], "--tls-cert-file") == 0;
    }
    server->options[SERVER_OPTIONS - 1] = environment ? expand(server, environment) : NULL;
    if (prepare)
        prepare(server);
    launch(server);
    await_answer(server);
    return server;
}

/* Only what may be called between fork() and exec() in a program with threads. */
static void become_server(const struct server *server, char *const *args, pid_t parent)
{
    char *environment = server->options[SERVER_OPTIONS - 1];
    char clock_text[SERVER_PATH_ROOM + 32] = "HOLDFAST_TEST_CLOCK=";
    char *env[] = { (char *)"PATH=/usr/bin:/bin", clock_text, environment, NULL };
    sigset_t none;
    int null = open("/dev/null", O_RDWR);

    strcat(strcat(clock_text, server->dir), "/clock"); /* clock.h makes it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the test, which ends us */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(null, 0);
    dup2(null, 1);
    execve(args[0], args, env);
    _exit(127);
}

static void launch(struct server *server)
{
    char port[16], log[SERVER_PATH_ROOM];
    char *args[ARGS_MAX] = { (char *)"/usr/bin/redis-server" };
    pid_t parent = getpid();
    size_t n = 1;
    const char *ours[] = { server->tls ? "--tls-port" : "--port",
                           port,
                           server->tls ? "--port" : "--tls-port",
                           "0",
                           "--bind",
                           "127.0.0.1",
                           "--unixsocket",
                           server->socket,
                           "--dir",
                           server->dir,
                           "--logfile",
                           log,
                           "--save",
                           "",
                           "--appendonly",
                           "no",
                           "--enable-debug-command",
                           "yes",
                           "--daemonize",
                           "no" };

    snprintf(port, sizeof port, "%u", (unsigned)server->port);
    snprintf(log, sizeof log, "%.100s/log", server->dir);
    /* A configuration file stands before all options. */
    if (server->options[0] && server->options[0][0] == '/') {
        args[n++] = server->options[0];
    } else {
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            args[n++] = (char *)ours[i];
    }
    for (size_t i = n == 2 ? 1 : 0; server->options[i] && n < ARGS_MAX - 1; i++)
        args[n++] = server->options[i];
    server->pid = fork();
    if (server->pid < 0)
        give_up("fork: %s", strerror(errno));
    if (server->pid == 0)
        become_server(server, args, parent);
}

static void show_log(const struct server *server)
{
    char path[2 * SERVER_PATH_ROOM], line[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/log", server->dir);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stderr);
    if (file)
        fclose(file);
}

redisContext *server_connect(struct server *server)
{
    redisContext *c = redisConnectUnix(server->socket);
    redisReply *reply;

    if (!c)
        give_up("out of memory");
    if (c->err || !server->password[0])
        return c;
    reply = redisCommand(c, "AUTH %s %s", server->user, server->password);
    if (reply && reply->type == REDIS_REPLY_ERROR)
        give_up("server: %s", reply->str);
    freeReplyObject(reply);
    return c;
}

/* It may refuse us (a password is set): that it answers at all is enough. */
static void await_answer(struct server *server)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;;) {
        redisContext *c = redisConnectUnix(server->socket);
        redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
        bool loading = reply && reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "LOAD", 4);
        bool answered = reply && !loading;

        freeReplyObject(reply);
        if (c)
            redisFree(c);
        if (answered)
            return;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid || clock_ms() > until_ms) {
            show_log(server);
            give_up("redis-server does not start");
        }
        sleep_ms(3);
    }
}

static void hang_up(struct server *server)
{
    if (server->raw)
        redisFree(server->raw);
    server->raw = NULL;
}

void server_kill(struct server *server)
{
    hang_up(server);
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
    unlink(server->socket);
}

void server_restart(struct server *server)
{
    server_kill(server);
    launch(server);
    await_answer(server);
}

void server_pause(struct server *server)
{
    int status;

    kill(server->pid, SIGSTOP);
    if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status)) {
        show_log(server);
        give_up("the server has ended by itself");
    }
}

void server_continue(struct server *server)
{
    kill(server->pid, SIGCONT);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    for (struct server **link = &all; *link; link = &(*link)->next)
        if (*link == server) {
            *link = server->next;
            break;
        }
    server_kill(server);
    nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (server->clock_us)
        munmap((void *)server->clock_us, sizeof *server->clock_us);
    for (size_t i = 0; i < SERVER_OPTIONS; i++)
        free(server->options[i]);
    free(server);
}

/* ---- speaking to it ------------------------------------------------------------------- */

void server_login(struct server *server, const char *user, const char *password)
{
    snprintf(server->user, sizeof server->user, "%s", user);
    snprintf(server->password, sizeof server->password, "%s", password);
    hang_up(server);
}

/* hiredis 0.14 writes without MSG_NOSIGNAL. SIGPIPE is not ignored for the whole program: that would
 * hide it if the library forgot to. */
static redisReply *command(redisContext *c, const char *format, va_list args)
{
    struct timespec at_once = { 0 };
    sigset_t pipe, before;
    redisReply *reply;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    reply = redisvCommand(c, format, args);
    while (sigtimedwait(&pipe, NULL, &at_once) == SIGPIPE)
        ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reply;
}

static redisReply *ask(struct server *server, const char *format, va_list args)
{
    for (int tries = 0; tries < 3; tries++) {
        va_list again;
        redisReply *reply;

        if (!server->raw)
            server->raw = server_connect(server);
        va_copy(again, args);
        reply = command(server->raw, format, again);
        va_end(again);
        if (reply)
            return reply;
        hang_up(server); /* a test may have had it killed */
    }
    show_log(server);
    give_up("the server does not answer: %s", format);
}

redisReply *server_ask(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;

    va_start(args, format);
    reply = ask(server, format, args);
    va_end(args);
    return reply;
}

long long server_do(struct server *server, const char *format, ...)
{
    va_list args;
    redisReply *reply;
    long long integer;

    va_start(args, format);
    reply = ask(server, format, args);
    va_end(args);
    if (reply->type == REDIS_REPLY_ERROR)
        give_up("%s: %s", format, reply->str);
    integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

const char *server_url(const struct server *server, const char *rest)
{
    static _Thread_local char texts[4][256];
    static _Thread_local unsigned turn;
    char *text = texts[turn++ % 4];

    snprintf(text, sizeof texts[0], "redis%s://127.0.0.1:%u%s", server->tls ? "s" : "",
             (unsigned)server->port, rest);
    return text;
}
