/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL server for one experiment; see sql.h. It does not run as root: initdb and the server run as the user postgres, or as
 * nobody. Main thread.
 */
#include "sql.h"

#include "../../test/lib/server.h"

#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MS 5000 /* for an orderly end; then SIGKILL */

struct postgres {
    char dir[SERVER_PATH_ROOM];
    char programs[SERVER_PATH_ROOM]; /* the directory of initdb and postgres */
    char url[2 * SERVER_PATH_ROOM];
    uint16_t port;
    pid_t pid;
};
static struct postgres server;

/* ---- who runs it ------------------------------------------------------------------------------------ */

static const struct passwd *runner(void)
{
    const struct passwd *user = getpwnam("postgres");

    if (!user)
        user = getpwnam("nobody");
    if (!user)
        give_up("there is neither a user postgres nor nobody");
    return user;
}

/* In the child, just before exec. */
static void drop_rights(void *arg)
{
    const struct passwd *user = arg;

    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
}

static pid_t run(const char *const *args)
{
    char log[SERVER_PATH_ROOM + 8];
    struct launch how = { .log = log, .dir = server.dir, .become = drop_rights };

    snprintf(log, sizeof log, "%s/log", server.dir);
    how.arg = (void *)(uintptr_t)runner();
    return launch(args, &how);
}

__attribute__((noreturn)) static void fail(const char *what)
{
    char log[SERVER_PATH_ROOM + 8];

    snprintf(log, sizeof log, "%s/log", server.dir);
    show_file(log);
    give_up("%s", what);
}

/* ---- begin and end ------------------------------------------------------------------------------------- */

/* The newest that is installed. */
static void find_programs(void)
{
    glob_t found;

    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
        give_up("initdb is not installed: apt-get install postgresql");
    snprintf(server.programs, sizeof server.programs, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

static void make_data(void)
{
    char program[SERVER_PATH_ROOM + 16], data[SERVER_PATH_ROOM + 8];
    const char *args[] = { program, "-D",        data,         "-U", "postgres", "-A",
                           "trust", "--no-sync", "--locale=C", "-E", "UTF8",     "--wal-segsize=1",
                           NULL };
    int status;

    snprintf(program, sizeof program, "%s/initdb", server.programs);
    snprintf(data, sizeof data, "%s/data", server.dir);
    if (waitpid(run(args), &status, 0) < 0 || status != 0)
        fail("initdb failed");
}

static void start(void)
{
    char program[SERVER_PATH_ROOM + 16], data[SERVER_PATH_ROOM + 8], port[16];
    char sockets[SERVER_PATH_ROOM + 32];
    const char *args[] = { program,     "-D",    data,
                           "-p",        port,    "-h",
                           "", /* through its directory only, which is closed to others */
                           "-c",        sockets, "-c",
                           "fsync=off", "-c",    "dynamic_shared_memory_type=mmap",
                           NULL };

    snprintf(program, sizeof program, "%s/postgres", server.programs);
    snprintf(data, sizeof data, "%s/data", server.dir);
    snprintf(port, sizeof port, "%u", (unsigned)server.port);
    snprintf(sockets, sizeof sockets, "unix_socket_directories=%s", server.dir);
    server.pid = run(args);
}

/* SIGQUIT: it ends its own processes, and leaves no shared memory behind. */
static void stop(void *arg)
{
    int64_t end_ms = clock_ms() + END_MS;

    (void)arg;
    if (server.pid > 0) {
        kill(server.pid, SIGQUIT);
        while (!has_ended(server.pid) && clock_ms() < end_ms)
            sleep_ms(5);
    }
    end_process(&server.pid);
    if (server.dir[0])
        remove_dir(server.dir);
    server.dir[0] = 0;
}

void sql_open(struct stage *stage)
{
    int64_t end_ms = clock_ms() + SERVER_LIMIT_MS;

    find_programs();
    make_dir(server.dir, sizeof server.dir, "lab-postgres", true);
    server_keep(&server, stop);
    if (geteuid() == 0 && chown(server.dir, runner()->pw_uid, runner()->pw_gid) != 0)
        give_up("chown %s failed", server.dir);
    server.port = free_port();
    snprintf(server.url, sizeof server.url, "postgresql://postgres@/postgres?host=%s&port=%u",
             server.dir, (unsigned)server.port);
    make_data();
    start();
    while (!sql_answers(server.url, stage->server, sizeof stage->server)) {
        if (has_ended(server.pid) || clock_ms() > end_ms)
            fail("the PostgreSQL server does not start");
        sleep_ms(20);
    }
    stage->url = server.url;
}

void sql_close(struct stage *stage)
{
    sql_hang_up();
    server_forget(&server);
    stop(NULL);
    stage->url = NULL;
    stage->server[0] = 0;
}
