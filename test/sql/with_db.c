/* SPDX-License-Identifier: MIT */
/*
 * with_postgres, with_mariadb [OPTION...] COMMAND...: run COMMAND with a database server of its own,
 * whose URL is in HOLDFAST_TEST_URL; its status is ours. Whatever ends us, the server ends too.
 *
 *   -p             log in with a password
 *   -t             TLS, with a client certificate
 *   -x             through the unix socket
 *   -u FILE        as a user without rights, after FILE's statements were run by the administrator;
 *                  "-" for none
 *   -b, -B         PostgreSQL: through a pgbouncer that pools by transaction, by session
 *   -o NAME=VALUE  one more setting of the server
 *   -m MODE        mode=MODE in the URL
 *   -q QUERY       more of the URL (tokens=on)
 *   -f SEED        while random faults happen to the server and the network before it (trouble.h)
 *
 * {id} in the URL is for the contract suite, which gives every case tables of its own.
 * HOLDFAST_TEST_PORT is the server's port (not the pooler's), HOLDFAST_TEST_SOCKET where its
 * administrator (postgres, root) may come in without a password: a directory for PostgreSQL.
 */
#include "db.h"
#include "trouble.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_ROOM 256

static volatile sig_atomic_t child;

static void pass_on(int number)
{
    if (child > 0)
        kill((pid_t)child, number);
}

/* Faults go on until it ends: this thread owns the server. */
static int run(char **command, struct db *db, struct proxy *proxy, const char *seed)
{
    const int passed[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
    struct sigaction action = { .sa_handler = pass_on };
    pid_t parent = getpid(), pid = fork();
    int status;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        execvp(command[0], command);
        fprintf(stderr, "with_db: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        give_up("with_db: fork: %s", strerror(errno));
    child = (sig_atomic_t)pid;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &action, NULL);
    if (seed)
        trouble(db, proxy, strtoull(seed, NULL, 10), pid);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            give_up("with_db: %s", strerror(errno));
    child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void add(char more[MORE_ROOM], const char *key, const char *value)
{
    size_t len = strlen(more);

    snprintf(more + len, MORE_ROOM - len, "&%s%s", key, value);
}

static struct db_wish parse(int argc, char **argv, char more[MORE_ROOM], const char **ret_rights,
                            const char **ret_seed)
{
    struct db_wish wish = { 0 };
    size_t options = 0;
    int option;

    while ((option = getopt(argc, argv, "+ptxu:bBo:m:q:f:")) != -1) {
        switch (option) {
        case 'p':
            wish.password = true;
            break;
        case 't':
            wish.tls = true;
            break;
        case 'x':
            wish.by_socket = true;
            break;
        case 'u':
            wish.few = true;
            *ret_rights = optarg;
            break;
        case 'b':
            wish.pooling = "transaction";
            break;
        case 'B':
            wish.pooling = "session";
            break;
        case 'o':
            if (options + 1 >= DB_OPTIONS)
                give_up("with_db: too many options");
            wish.options[options++] = optarg;
            break;
        case 'm':
            add(more, "mode=", optarg);
            break;
        case 'q':
            add(more, "", optarg);
            break;
        case 'f':
            *ret_seed = optarg;
            break;
        default:
            exit(64);
        }
    }
    if (optind >= argc)
        give_up("usage: %s [-p] [-t] [-x] [-u FILE] [-b] [-B] [-o NAME=VALUE] [-m MODE] [-q QUERY] "
                "[-f SEED] COMMAND...",
                argv[0]);
    return wish;
}

int main(int argc, char **argv)
{
    char more[MORE_ROOM] = "", port[16];
    const char *rights = "-", *seed = NULL;
    struct db_wish wish = parse(argc, argv, more, &rights, &seed);
    struct db *db = db_start(WITH_DB, &wish);
    struct proxy *proxy = seed ? proxy_start(db->port) : NULL;
    uint16_t own_port = db->port;
    int status;

    if (strcmp(rights, "-") != 0)
        db_run_file(db, rights);
    snprintf(port, sizeof port, "%u", (unsigned)db->port);
    if (proxy)
        db->port = proxy_port(proxy);
    setenv("HOLDFAST_TEST_URL", db_url(db, more), 1);
    db->port = own_port;
    setenv("HOLDFAST_TEST_PORT", port, 1);
    setenv("HOLDFAST_TEST_SOCKET", db->socket, 1);
    db_hang_up(db); /* nobody of ours shall be in the server's lists */
    status = run(argv + optind, db, proxy, seed);
    proxy_stop(proxy);
    db_free(db);
    return status;
}
