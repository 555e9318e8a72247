/* SPDX-License-Identifier: MIT */
/* A pgbouncer in front of a PostgreSQL of a test; see db.h. Its files are next to the server's
 * data. */
#include "db.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_config(const struct db *db, const char *home, const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file)
        give_up("%s: %s", path, strerror(errno));
    fprintf(file,
            "[databases]\n* = host=%s port=%u\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            "listen_port = %u\nunix_socket_dir =\nauth_type = trust\nauth_file = %s/users\n"
            "pool_mode = %s\ndefault_pool_size = 60\nmax_client_conn = 300\nlogfile = %s/log\n"
            "ignore_startup_parameters = extra_float_digits\n",
            db->socket, (unsigned)db->port, (unsigned)db->pooler_port, home, db->wish.pooling,
            home);
    fclose(file);
}

static bool listens(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;

    close(fd);
    return there;
}

static void await(struct db *db, const char *home)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    char log[160];

    while (!listens(db->pooler_port)) {
        if (waitpid(db->pooler, NULL, WNOHANG) == db->pooler || clock_ms() > until_ms) {
            snprintf(log, sizeof log, "%s/log", home);
            show_file(log);
            give_up("pgbouncer does not start");
        }
        sleep_ms(3);
    }
}

void pooler_start(struct db *db)
{
    char home[128], config[160], users[160];
    char *args[] = { (char *)db_program(DB_MARIADB, "pgbouncer"), config, NULL };
    FILE *file;

    db->pooler_port = free_port();
    snprintf(home, sizeof home, "%s/pooler", db->dir);
    snprintf(config, sizeof config, "%s/ini", home);
    snprintf(users, sizeof users, "%s/users", home);
    if (mkdir(home, 0755) != 0 && errno != EEXIST)
        give_up("%s: %s", home, strerror(errno));
    db_own(db->kind, home);
    write_config(db, home, config);
    file = fopen(users, "w");
    if (!file || fputs("\"app\" \"" DB_SECRET "\"\n\"few\" \"" DB_SECRET "\"\n", file) < 0 ||
        fclose(file) != 0)
        give_up("%s: %s", users, strerror(errno));
    db->pooler = fork();
    if (db->pooler < 0)
        give_up("fork: %s", strerror(errno));
    if (db->pooler == 0) {
        int null = open("/dev/null", O_RDWR);

        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        setpgid(0, 0);
        db_drop_rights(db->kind);
        if (chdir(home) == 0)
            execv(args[0], args);
        _exit(127);
    }
    await(db, home);
}

void pooler_stop(struct db *db)
{
    if (db->pooler <= 0)
        return;
    kill(db->pooler, SIGKILL);
    waitpid(db->pooler, NULL, 0);
    db->pooler = 0;
}
