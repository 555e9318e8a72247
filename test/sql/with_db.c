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
 *   -f             trouble: it is stopped for a while, killed and started again, its sessions are ended
 *
 * {id} in the URL is for the contract suite, which gives every case tables of its own.
 * HOLDFAST_TEST_PORT is the server's port (not the pooler's), HOLDFAST_TEST_SOCKET where its
 * administrator (postgres, root) may come in without a password: a directory for PostgreSQL.
 */
#include "db.h"

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

/* About a second later: one trouble, over when this returns. */
static void make_trouble(struct db *db, unsigned turn)
{
    sleep_ms(600 + rand() % 600);
    switch (turn % 3) {
    case 0:
        db_pause(db);
        sleep_ms(100 + rand() % 1000);
        db_continue(db);
        return;
    case 1:
        if (db->kind == DB_POSTGRES)
            db_do(db,
                  "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = "
                  "'app'");
        return;
    default:
        db_kill(db);
        sleep_ms(rand() % 300);
        db_restart(db);
        return;
    }
}

static int run(char **command, struct db *trouble)
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
    for (unsigned turn = 0; trouble && waitpid(pid, &status, WNOHANG | WNOWAIT) == 0; turn++)
        make_trouble(trouble, turn);
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
                            bool *ret_trouble)
{
    struct db_wish wish = { 0 };
    size_t options = 0;
    int option;

    while ((option = getopt(argc, argv, "+ptxu:bBo:m:q:f")) != -1) {
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
            *ret_trouble = true;
            break;
        default:
            exit(64);
        }
    }
    if (optind >= argc)
        give_up("usage: %s [-p] [-t] [-x] [-u FILE] [-b] [-B] [-o NAME=VALUE] [-m MODE] [-q QUERY] "
                "[-f] "
                "COMMAND...",
                argv[0]);
    return wish;
}

int main(int argc, char **argv)
{
    char more[MORE_ROOM] = "", port[16];
    const char *rights = "-";
    bool trouble = false;
    struct db_wish wish = parse(argc, argv, more, &rights, &trouble);
    struct db *db = db_start(WITH_DB, &wish);
    int status;

    if (strcmp(rights, "-") != 0)
        db_run_file(db, rights);
    snprintf(port, sizeof port, "%u", (unsigned)db->port);
    setenv("HOLDFAST_TEST_URL", db_url(db, more), 1);
    setenv("HOLDFAST_TEST_PORT", port, 1);
    setenv("HOLDFAST_TEST_SOCKET", db->socket, 1);
    db_hang_up(db); /* nobody of ours shall be in the server's lists */
    status = run(argv + optind, trouble ? db : NULL);
    db_free(db);
    return status;
}
