/* SPDX-License-Identifier: MIT */
/* See sql.h. */
#include "sql.h"

#include "../test/lib/own_network.h"
#include "../test/lib/server.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES    5
#define START_S  60.0
#define LOOK_S   0.05
#define NOT_HERE 127

#define CONNECTIONS 400

const char *sql_program(const char *pattern, const char *name)
{
    static char path[512];
    char where[512];
    glob_t found;

    snprintf(where, sizeof where, "%s/%s", pattern, name);
    if (glob(where, 0, NULL, &found) != 0)
        return NULL;
    snprintf(path, sizeof path, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    return path;
}

void sql_become(const char *const *argv)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(NOT_HERE);
}

static void drop_root(const struct sql_server *server)
{
    if (geteuid() != 0)
        return;
    if (setgroups(0, NULL) != 0 || setgid(server->gid) != 0 || setuid(server->uid) != 0)
        _exit(EXIT_INTERNAL);
}

/* In a child of our own, that ends with us. */
static pid_t begin(const struct sql_server *server, void (*what)(const struct sql_server *server))
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    setsid(); /* as servers do: the kernel shares the CPUs out between sessions first */
    drop_root(server);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after setuid(2), which clears it */
    if (getppid() != parent || chdir(server->dir) != 0)
        _exit(EXIT_INTERNAL);
    what(server);
    _exit(NOT_HERE);
}

static void install(const struct bench *bench, const struct sql_server *server)
{
    int status;

    if (waitpid(begin(server, server->kind->install), &status, 0) < 0)
        bench_die("waitpid: %s", strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        bench_skip(bench, "the server is not installed");
    if (status != 0)
        bench_die("%s: its data directory could not be made", server->kind->name);
}

/* False: it ended, most likely because the port was taken. */
static bool start_once(struct sql_server *server)
{
    int64_t end = bench_ns() + (int64_t)(START_S * 1e9);
    struct sql_raw *raw;

    server->port = free_port();
    server->pid = begin(server, server->kind->serve);
    while (!(raw = server->kind->try_open(server))) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            return false;
        if (bench_ns() > end)
            bench_die("our %s does not answer", server->kind->name);
        bench_sleep(LOOK_S);
    }
    server->kind->close(raw);
    return true;
}

struct sql_server *sql_server_start(const struct bench *bench, const struct sql_kind *kind)
{
    return sql_server_start_for(bench, kind, CONNECTIONS);
}

struct sql_server *sql_server_start_for(const struct bench *bench, const struct sql_kind *kind,
                                        unsigned connections)
{
    struct sql_server *server = calloc(1, sizeof *server);
    struct passwd *who = geteuid() == 0 ? getpwnam("nobody") : getpwuid(geteuid());
    int tries = 0;

    /* Its administrator has no password, and may run commands as the user of the server. */
    if (!closed_to_others())
        bench_skip(bench,
                   "this machine permits no network of its own, and others could reach the server");
    if (!server || !who)
        bench_die("out of memory, or no user to be");
    server->kind = kind;
    server->connections = connections;
    server->uid = who->pw_uid;
    server->gid = who->pw_gid;
    make_dir(server->dir, sizeof server->dir, "bench", true);
    if (chown(server->dir, server->uid, server->gid) != 0)
        bench_die("chown: %s", strerror(errno));
    install(bench, server);
    while (!start_once(server))
        if (++tries == TRIES)
            bench_die("%s does not start", kind->name);
    snprintf(server->url, sizeof server->url, "%s%u/%s", kind->url, server->port, kind->database);
    kind->close(sql_open(server)); /* the database is there */
    return server;
}

void sql_server_stop(struct sql_server *server)
{
    end_process(&server->pid);
    remove_dir(server->dir);
    free(server);
}

struct sql_raw *sql_open(const struct sql_server *server)
{
    struct sql_raw *raw = server->kind->try_open(server);

    if (!raw)
        bench_die("our %s does not answer", server->kind->name);
    server->kind->prepare(raw);
    return raw;
}

const char *sql_url(const struct sql_server *server, const char *mode)
{
    size_t room = sizeof server->url + 32;
    char *url = malloc(room);

    if (!url)
        bench_die("out of memory");
    snprintf(url, room, "%s?mode=%s", server->url, mode);
    return url;
}
