/* SPDX-License-Identifier: MIT */
/* See zk_server.h. */
#include "zk_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES  3
#define TRY_MS 25000 /* until another try, on other ports */
#define JAVA   "/usr/bin/java"
#define JAR    "/usr/share/java/zookeeper.jar"
#define LOG    "/usr/share/java/slf4j-simple.jar"

static void start(struct zk_server *server);
static bool serves(struct zk_server *server, int64_t until_ms);

/* ---- files ------------------------------------------------------------------------------- */

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[2 * SERVER_PATH_ROOM];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        give_up("%s: %s", path, strerror(errno));
}

static void write_config(struct zk_server *server)
{
    const struct ensemble *ensemble = server->ensemble;
    char text[2048], id[16];
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "dataDir=%s\nclientPort=%u\nclientPortAddress=127.0.0.1\ntickTime=%d\ninitLimit=40\n"
        "syncLimit=%d\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n%s",
        server->dir, (unsigned)server->port, ensemble->tick_ms, ensemble->sync_limit,
        ensemble->more ? ensemble->more : "");

    for (int i = 0; ensemble->count > 1 && i < ensemble->count; i++) {
        const struct zk_server *other = &ensemble->servers[i];
        uint16_t quorum = server->to[i] ? proxy_port(server->to[i]) : other->quorum_port;

        used += (size_t)snprintf(text + used, sizeof text - used, "server.%d=127.0.0.1:%u:%u\n",
                                 other->number, (unsigned)quorum, (unsigned)other->election_port);
    }
    write_file(server->dir, "zoo.cfg", text);
    snprintf(id, sizeof id, "%d\n", server->number);
    write_file(server->dir, "myid", id);
}

/* ---- an ensemble's life -------------------------------------------------------------------- */

static void end(void *ensemble)
{
    ensemble_free(ensemble);
}

/* On ports that are free now: somebody else may have one before we listen there. */
static bool start_all(struct ensemble *ensemble, bool cuttable, int64_t limit_ms)
{
    int64_t until_ms = clock_ms() + limit_ms;
    int count = ensemble->count;

    for (int i = 0; i < count; i++) {
        ensemble->servers[i].port = free_port();
        ensemble->servers[i].quorum_port = free_port();
        ensemble->servers[i].election_port = free_port();
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (i != j && cuttable)
                ensemble->servers[i].to[j] = proxy_start(ensemble->servers[j].quorum_port);
    for (int i = 0; i < count; i++)
        start(&ensemble->servers[i]);
    for (int i = 0; i < count; i++)
        if (!serves(&ensemble->servers[i], until_ms))
            return false;
    return true;
}

static void stop_all(struct ensemble *ensemble)
{
    for (int i = 0; i < ensemble->count; i++)
        if (ensemble->servers[i].pid)
            zk_server_kill(&ensemble->servers[i]);
    for (int i = 0; i < ensemble->count; i++)
        for (int j = 0; j < ensemble->count; j++) {
            proxy_stop(ensemble->servers[i].to[j]);
            ensemble->servers[i].to[j] = NULL;
        }
}

struct ensemble *ensemble_start(int count, int tick_ms, int sync_limit, bool cuttable)
{
    struct ensemble *ensemble = calloc(1, sizeof *ensemble);

    if (count > ENSEMBLE_MAX)
        give_up("no such ensemble");
    server_keep(ensemble, end);
    make_dir(ensemble->dir, sizeof ensemble->dir, "zk", false);
    ensemble->count = count;
    ensemble->tick_ms = tick_ms;
    ensemble->sync_limit = sync_limit;
    for (int i = 0; i < count; i++) {
        struct zk_server *server = &ensemble->servers[i];

        *server = (struct zk_server){ .ensemble = ensemble, .number = i + 1 };
        snprintf(server->dir, sizeof server->dir, "%.110s/%d", ensemble->dir, i + 1);
        if (mkdir(server->dir, 0700) != 0)
            give_up("%s: %s", server->dir, strerror(errno));
    }
    for (int try = 1; !start_all(ensemble, cuttable, try < TRIES ? TRY_MS : SERVER_LIMIT_MS);
         try++) {
        if (try == TRIES)
            give_up("ZooKeeper does not serve (needs %s and %s)", JAVA, JAR);
        stop_all(ensemble);
    }
    return ensemble;
}

void ensemble_free(struct ensemble *ensemble)
{
    if (!ensemble)
        return;
    server_forget(ensemble);
    stop_all(ensemble);
    remove_dir(ensemble->dir);
    free(ensemble);
}

static void start(struct zk_server *server)
{
    char config[2 * SERVER_PATH_ROOM], log[2 * SERVER_PATH_ROOM];
    /* Quick to start, small, and not slowed by the disk: what is killed here is a process, and
     * what it wrote stays. Empty containers go after a second and not after a minute. */
    const char *args[] = { JAVA,
                           "-Xmx96m",
                           "-Xss512k",
                           "-XX:TieredStopAtLevel=1",
                           "-XX:+UseSerialGC",
                           "-XX:-UsePerfData",
                           "-Dzookeeper.forceSync=no",
                           "-Dznode.container.checkIntervalMs=1000",
                           "-Dzookeeper.jmx.log4j.disable=true",
                           "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                           "-cp",
                           JAR ":" LOG,
                           "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                           config,
                           NULL };

    write_config(server);
    snprintf(config, sizeof config, "%s/zoo.cfg", server->dir);
    snprintf(log, sizeof log, "%s/log", server->dir);
    server->pid = launch(args, &(struct launch){ .log = log });
}

void zk_server_kill(struct zk_server *server)
{
    end_process(&server->pid);
}

void zk_server_restart(struct zk_server *server)
{
    start(server);
    if (!serves(server, clock_ms() + SERVER_LIMIT_MS))
        give_up("ZooKeeper does not serve again");
}

void zk_server_pause(struct zk_server *server)
{
    if (!stop_process(server->pid))
        give_up("the server did not stop");
}

void zk_server_continue(struct zk_server *server)
{
    kill(server->pid, SIGCONT);
}

void ensemble_cut(struct zk_server *server, bool cut)
{
    for (int i = 0; i < server->ensemble->count; i++)
        if (server->to[i]) {
            proxy_block(server->to[i], PROXY_UP, cut);
            proxy_block(server->to[i], PROXY_DOWN, cut);
        }
}

/* ---- asking ---------------------------------------------------------------------------------- */

void zk_ask(const struct zk_server *server, const char *word, char *answer, size_t size)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(server->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval limit = { .tv_sec = 2 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t used = 0;
    ssize_t got = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, word, strlen(word), MSG_NOSIGNAL) > 0)
        while (used < size - 1 && (got = recv(fd, answer + used, size - 1 - used, 0)) > 0)
            used += (size_t)got;
    answer[used] = 0;
    close(fd);
}

long long zk_srvr(const struct zk_server *server, const char *key)
{
    char answer[4096];
    const char *at;

    zk_ask(server, "srvr", answer, sizeof answer);
    at = strstr(answer, key);
    return at ? atoll(at + strlen(key)) : -1;
}

static bool has_mode(const struct zk_server *server, const char *mode)
{
    char answer[4096], line[64];

    zk_ask(server, "srvr", answer, sizeof answer);
    snprintf(line, sizeof line, "Mode: %s", mode);
    return strstr(answer, line) != NULL;
}

/* false: it has ended, and why is on stderr; or it does not by until_ms. */
static bool serves(struct zk_server *server, int64_t until_ms)
{
    while (!has_mode(server, "")) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            char command[2 * SERVER_PATH_ROOM + 16];

            server->pid = 0;
            snprintf(command, sizeof command, "cat %s/log >&2", server->dir);
            (void)!system(command);
            return false;
        }
        if (clock_ms() > until_ms)
            return false;
        sleep_ms(20);
    }
    return true;
}

static struct zk_server *with_mode(struct ensemble *ensemble, const char *mode)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;; sleep_ms(20)) {
        for (int i = 0; i < ensemble->count; i++)
            if (ensemble->servers[i].pid && has_mode(&ensemble->servers[i], mode))
                return &ensemble->servers[i];
        if (clock_ms() > until_ms)
            give_up("no server is a %s", mode);
    }
}

struct zk_server *ensemble_leader(struct ensemble *ensemble)
{
    return with_mode(ensemble, "leader");
}

struct zk_server *ensemble_follower(struct ensemble *ensemble)
{
    return with_mode(ensemble, "follower");
}

/* ---- URLs -------------------------------------------------------------------------------------- */

static char *url_room(void)
{
    static char rooms[4][512];
    static size_t next;

    return rooms[next++ % 4];
}

const char *zk_url(uint16_t port, const char *rest)
{
    char *url = url_room();

    snprintf(url, 512, "zk://127.0.0.1:%u%s", (unsigned)port, rest);
    return url;
}

const char *ensemble_url(const struct ensemble *ensemble, const char *rest)
{
    char *url = url_room();
    size_t used = (size_t)snprintf(url, 512, "zk://");

    for (int i = 0; i < ensemble->count; i++)
        used += (size_t)snprintf(url + used, 512 - used, "%s127.0.0.1:%u", i ? "," : "",
                                 (unsigned)ensemble->servers[i].port);
    snprintf(url + used, 512 - used, "%s", rest);
    return url;
}
