/* SPDX-License-Identifier: MIT */
/*
 * A data directory takes seconds to make and milliseconds to copy: one is made per version of the
 * server, below the build folder, and copied for every start. A lock on a file beside it makes tests
 * that run at once wait for the one that makes it.
 */
#include "db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECIPE "5" /* raise it when what is made here changes */

static const char postgres_sql[] = "CREATE ROLE app LOGIN PASSWORD '" DB_SECRET "';\n"
                                   "CREATE ROLE few LOGIN PASSWORD '" DB_SECRET "';\n"
                                   "CREATE DATABASE test OWNER app;\n";

static const char postgres_conf[] = "listen_addresses = '127.0.0.1'\n"
                                    "unix_socket_permissions = 0777\n"
                                    "max_connections = 500\n"
                                    "shared_buffers = 8MB\n"
                                    "fsync = off\n"
                                    "full_page_writes = off\n"
                                    "wal_level = minimal\n"
                                    "max_wal_senders = 0\n"
                                    "max_wal_size = 64MB\n"
                                    "min_wal_size = 2MB\n"
                                    "jit = off\n"
                                    "dynamic_shared_memory_type = mmap\n"
                                    "logging_collector = off\n";

static const char mariadb_sql[] =
    "FLUSH PRIVILEGES;\n"
    "DROP USER IF EXISTS root@'127.0.0.1', root@'::1';\n" /* root: only through the socket */
    "CREATE DATABASE test;\n"
    "CREATE USER app@'%' IDENTIFIED BY '';\n"
    "CREATE USER locked@'%' IDENTIFIED BY '" DB_SECRET "';\n"
    "CREATE USER tls@'%' IDENTIFIED BY '" DB_SECRET "' REQUIRE X509;\n"
    "CREATE USER few@'%' IDENTIFIED BY '';\n"
    "GRANT ALL ON test.* TO app@'%', locked@'%', tls@'%';\n";

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        give_up("%s: %s", path, strerror(errno));
}

static void must(enum db_kind kind, const char *work, char *const *args, const char *input)
{
    char log[128];

    snprintf(log, sizeof log, "%s/log", work);
    if (!db_run(kind, args, log, input)) {
        show_file(log);
        give_up("%s failed", args[0]);
    }
}

static void make_postgres(const char *work)
{
    char data[128], input[128], program[256];
    char *init[] = { program,
                     (char *)"-D",
                     data,
                     (char *)"-U",
                     (char *)"postgres",
                     (char *)"-A",
                     (char *)"trust",
                     (char *)"--no-sync",
                     (char *)"--locale=C",
                     (char *)"-E",
                     (char *)"UTF8",
                     (char *)"--wal-segsize=1",
                     NULL };
    char *single[] = { program, (char *)"--single", (char *)"-F", (char *)"-D",
                       data,    (char *)"postgres", NULL };

    snprintf(data, sizeof data, "%s/data", work);
    snprintf(program, sizeof program, "%s", db_program(DB_POSTGRES, "initdb"));
    must(DB_POSTGRES, work, init, "/dev/null");
    write_file(data, "postgresql.conf", postgres_conf);
    write_file(work, "sql", postgres_sql);
    snprintf(input, sizeof input, "%s/sql", work);
    snprintf(program, sizeof program, "%s", db_program(DB_POSTGRES, "postgres"));
    must(DB_POSTGRES, work, single, input);
}

static void make_mariadb(const char *work)
{
    char data[128], input[128], program[256];
    char *init[] = { program,
                     (char *)"--no-defaults",
                     data,
                     (char *)"--auth-root-authentication-method=normal",
                     (char *)"--skip-test-db",
                     (char *)"--skip-name-resolve",
                     (char *)"--innodb-log-file-size=8M",
                     (char *)"--innodb-flush-log-at-trx-commit=0",
                     NULL };
    char *boot[] = { program,
                     (char *)"--no-defaults",
                     (char *)"--bootstrap",
                     data,
                     (char *)"--innodb-log-file-size=8M",
                     NULL };

    snprintf(data, sizeof data, "--datadir=%s/data", work);
    snprintf(program, sizeof program, "%s", db_program(DB_MARIADB, "mariadb-install-db"));
    must(DB_MARIADB, work, init, "/dev/null");
    write_file(work, "sql", mariadb_sql);
    snprintf(input, sizeof input, "%s/sql", work);
    snprintf(program, sizeof program, "%s", db_program(DB_MARIADB, "mariadbd"));
    must(DB_MARIADB, work, boot, input);
}

static void copy(const char *from, const char *to)
{
    char command[1024];

    snprintf(command, sizeof command, "cp -a --reflink=auto '%s' '%s'", from, to);
    if (system(command) != 0)
        give_up("%s failed", command);
}

/* Made where the server's user may write, then moved, whole, to where only we may. */
static void make(struct db *db, const char *template)
{
    char work[64], data[128], half[520];

    snprintf(work, sizeof work, "%.50s.new", db->dir);
    if (mkdir(work, 0700) != 0)
        give_up("%s: %s", work, strerror(errno));
    db_own(db->kind, work);
    if (db->kind == DB_POSTGRES)
        make_postgres(work);
    else
        make_mariadb(work);
    snprintf(data, sizeof data, "%s/data", work);
    snprintf(half, sizeof half, "%s.half", template);
    remove_dir(half);
    copy(data, half);
    remove_dir(work);
    if (rename(half, template) != 0)
        give_up("%s: %s", template, strerror(errno));
}

/* What the server calls its version, as a file name. */
static void version_name(const struct db *db, char *name, size_t room)
{
    char command[512], line[256] = "";
    size_t n = (size_t)snprintf(name, room, "%s-" RECIPE "-",
                                db->kind == DB_POSTGRES ? "postgres" : "mariadb");
    FILE *pipe;

    snprintf(command, sizeof command, "%s --version",
             db_program(db->kind, db->kind == DB_POSTGRES ? "postgres" : "mariadbd"));
    pipe = popen(command, "r");
    if (!pipe || !fgets(line, sizeof line, pipe) || pclose(pipe) != 0)
        give_up("%s failed", command);
    for (const char *c = line; *c && *c != '\n' && n + 1 < room; c++)
        if ((*c >= '0' && *c <= '9') || *c == '.')
            name[n++] = *c;
    name[n] = 0;
}

/* Who may come in: the administrator through the socket, others as was wished. */
static void write_hba(struct db *db)
{
    char data[128], text[512];
    const char *how = db->wish.password ? "scram-sha-256" : "trust";

    snprintf(data, sizeof data, "%s/data", db->dir);
    snprintf(text, sizeof text,
             "local all postgres trust\n"
             "host all postgres all reject\n" /* who may run commands: only through the directory */
             "local all all %s\n"
             "%s all all 127.0.0.1/32 %s%s\n",
             how, db->wish.tls ? "hostssl" : "host", how,
             db->wish.tls ? " clientcert=verify-ca" : "");
    write_file(data, "pg_hba.conf", text);
}

void db_data_copy(struct db *db)
{
    char name[128], template[512], lock_path[520], data[128];
    int lock;

    version_name(db, name, sizeof name);
    mkdir(DB_TEMPLATES, 0755);
    snprintf(template, sizeof template, "%s/%s", DB_TEMPLATES, name);
    snprintf(lock_path, sizeof lock_path, "%s.lock", template);
    lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0 || flock(lock, LOCK_EX) != 0)
        give_up("%s: %s", lock_path, strerror(errno));
    if (access(template, F_OK) != 0)
        make(db, template);
    close(lock);
    snprintf(data, sizeof data, "%s/data", db->dir);
    copy(template, data);
    if (db->kind == DB_POSTGRES)
        write_hba(db);
}
