/* SPDX-License-Identifier: MIT */
/* A database server's life; see db.h. */
#include "db.h"

#include "../wire/certs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 512
#define ARGS      (2 * DB_OPTIONS + 64)

static void begin(struct db *db);
static void await_answer(struct db *db);
static void guard(struct db *db);

/* ---- who runs it ------------------------------------------------------------------------------ */

static const struct passwd *runner(enum db_kind kind)
{
    const struct passwd *user = getpwnam(kind == DB_POSTGRES ? "postgres" : "mysql");

    if (!user)
        user = getpwnam("nobody");
    if (!user)
        give_up("there is no user nobody");
    return user;
}

void db_own(enum db_kind kind, const char *path)
{
    const struct passwd *user = runner(kind);

    if (geteuid() == 0 && chown(path, user->pw_uid, user->pw_gid) != 0)
        give_up("chown %s: %s", path, strerror(errno));
}

void db_drop_rights(enum db_kind kind)
{
    const struct passwd *user = runner(kind);

    if (geteuid() == 0 &&
        (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
}

const char *db_program(enum db_kind kind, const char *name)
{
    static char path[256];
    char pattern[128];
    glob_t found;
    const char *where[] = { "/usr/lib/postgresql/*/bin", "/usr/sbin", "/usr/bin",
                            "/usr/local/bin" };

    for (size_t i = kind == DB_POSTGRES ? 0 : 1; i < sizeof where / sizeof *where; i++) {
        snprintf(pattern, sizeof pattern, "%s/%s", where[i], name);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        snprintf(path, sizeof path, "%s", found.gl_pathv[found.gl_pathc - 1]); /* the newest */
        globfree(&found);
        return path;
    }
    give_up("%s is not installed: tools/packages.sh test", name);
}

bool db_run(enum db_kind kind, char *const *args, const char *log, const char *input)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666), in = open(input, O_RDONLY);

        dup2(in, 0);
        dup2(out, 1);
        dup2(out, 2);
        db_drop_rights(kind);
        if (chdir("/") == 0)
            execv(args[0], args);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- start, end --------------------------------------------------------------------------------- */

static void end(void *db)
{
    db_free(db);
}

/* The keys must be the server's own, and nobody else may read them; the client's stay ours. */
static void make_certificates(struct db *db)
{
    certs_authority(db->dir);
    certs_make(db->dir, "server", "DNS:localhost,IP:127.0.0.1", 2);
    certs_make(db->dir, "app", NULL, 2);
    db_own(db->kind, certs_path(db->dir, "server.key"));
    if (chmod(certs_path(db->dir, "server.key"), 0600) != 0 ||
        chmod(certs_path(db->dir, "app.key"), 0600) != 0)
        give_up("%s: %s", db->dir, strerror(errno));
}

struct db *db_start(enum db_kind kind, const struct db_wish *wish)
{
    struct db *db = calloc(1, sizeof *db);

    server_keep(db, end);
    db->kind = kind;
    if (wish)
        db->wish = *wish;
    make_dir(db->dir, sizeof db->dir, "db", true);
    db_own(kind, db->dir);
    guard(db);
    db->port = free_port();
    snprintf(db->socket, sizeof db->socket, "%s%s", db->dir, kind == DB_POSTGRES ? "" : "/socket");
    if (db->wish.tls)
        make_certificates(db);
    db_data_copy(db);
    begin(db);
    await_answer(db);
    if (db->wish.pooling)
        pooler_start(db);
    return db;
}

static size_t postgres_args(const struct db *db, char **args, char room[][160])
{
    size_t n = 0, r = 0;

    args[n++] = (char *)db_program(DB_POSTGRES, "postgres");
    snprintf(room[r], sizeof room[r], "%s/data", db->dir);
    args[n++] = (char *)"-D";
    args[n++] = room[r++];
    snprintf(room[r], sizeof room[r], "port=%u", (unsigned)db->port);
    args[n++] = (char *)"-c";
    args[n++] = room[r++];
    snprintf(room[r], sizeof room[r], "unix_socket_directories=%s", db->dir);
    args[n++] = (char *)"-c";
    args[n++] = room[r++];
    if (db->wish.tls) {
        const char *names[] = { "ssl_ca_file", "ssl_cert_file", "ssl_key_file" };
        const char *files[] = { "ca.pem", "server.pem", "server.key" };

        args[n++] = (char *)"-c";
        args[n++] = (char *)"ssl=on";
        for (int i = 0; i < 3; i++) {
            snprintf(room[r], sizeof room[r], "%s=%s/%s", names[i], db->dir, files[i]);
            args[n++] = (char *)"-c";
            args[n++] = room[r++];
        }
    }
    for (size_t i = 0; db->wish.options[i]; i++) {
        args[n++] = (char *)"-c";
        args[n++] = (char *)db->wish.options[i];
    }
    return n;
}

static size_t mariadb_args(const struct db *db, char **args, char room[][160])
{
    size_t n = 0, r = 0;
    const char *fixed[] = { "--no-defaults",
                            "--bind-address=127.0.0.1",
                            "--skip-name-resolve",
                            "--max-connections=500",
                            "--performance-schema=OFF",
                            "--skip-log-bin",
                            "--innodb-buffer-pool-size=8M",
                            "--innodb-log-file-size=8M",
                            "--innodb-flush-log-at-trx-commit=0",
                            "--innodb-doublewrite=0",
                            "--innodb-use-native-aio=0",
                            "--innodb-temp-data-file-path=ibtmp1:1M:autoextend",
                            "--innodb-fast-shutdown=2",
                            "--key-buffer-size=1M",
                            "--aria-pagecache-buffer-size=1M",
                            "--character-set-server=utf8mb4" };

    args[n++] = (char *)db_program(DB_MARIADB, "mariadbd");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        args[n++] = (char *)fixed[i];
    snprintf(room[r], sizeof room[r], "--datadir=%s/data", db->dir);
    args[n++] = room[r++];
    snprintf(room[r], sizeof room[r], "--socket=%s", db->socket);
    args[n++] = room[r++];
    snprintf(room[r], sizeof room[r], "--pid-file=%s/mariadb.pid", db->dir);
    args[n++] = room[r++];
    snprintf(room[r], sizeof room[r], "--port=%u", (unsigned)db->port);
    args[n++] = room[r++];
    if (db->wish.tls) {
        const char *names[] = { "ssl-ca", "ssl-cert", "ssl-key" };
        const char *files[] = { "ca.pem", "server.pem", "server.key" };

        for (int i = 0; i < 3; i++) {
            snprintf(room[r], sizeof room[r], "--%s=%s/%s", names[i], db->dir, files[i]);
            args[n++] = room[r++];
        }
    }
    for (size_t i = 0; db->wish.options[i]; i++) {
        snprintf(room[r], sizeof room[r], "--%s", db->wish.options[i]);
        args[n++] = room[r++];
    }
    return n;
}

static void drop_rights(void *db)
{
    db_drop_rights(((struct db *)db)->kind);
}

static void begin(struct db *db)
{
    char *args[ARGS] = { NULL }, log[SERVER_PATH_ROOM + 8], data[SERVER_PATH_ROOM + 8];
    char room[DB_OPTIONS + 8][160];

    if (db->kind == DB_POSTGRES)
        postgres_args(db, args, room);
    else
        mariadb_args(db, args, room);
    snprintf(log, sizeof log, "%s/log", db->dir);
    snprintf(data, sizeof data, "%s/data", db->dir); /* it would go there by itself, later */
    db->pid = launch((const char *const *)args, &(struct launch){ .log = log,
                                                                  .dir = data,
                                                                  .env = environ,
                                                                  .session = true,
                                                                  .outlives = true, /* guard() */
                                                                  .become = drop_rights,
                                                                  .arg = db });
}

static void await_answer(struct db *db)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    char log[SERVER_PATH_ROOM + 8];

    while (!db_answers(db)) {
        if (waitpid(db->pid, NULL, WNOHANG) == db->pid || clock_ms() > until_ms) {
            snprintf(log, sizeof log, "%s/log", db->dir);
            show_file(log);
            give_up("the database server does not start");
        }
        sleep_ms(5);
    }
}

/* ---- all its processes --------------------------------------------------------------------------- */

/* 0: there is no such process (any more, as far as anybody is concerned). */
static char state_of(pid_t pid)
{
    char path[64], text[512], state;
    FILE *file;
    const char *end;
    size_t len;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file)
        return 0;
    len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = 0;
    end = strrchr(text, ')'); /* of the program's name */
    return end && sscanf(end + 1, " %c", &state) == 1 && !strchr("ZX", state) ? state : 0;
}

/* Processes whose current directory is at or below `dir`, whatever their parent is by now. */
static size_t residents(const char *dir, pid_t found[PROCESSES])
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t n = 0, len = strlen(dir);
    char path[300], home[256];

    while (proc && (entry = readdir(proc)) && n < PROCESSES) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        ssize_t got;

        snprintf(path, sizeof path, "/proc/%s/cwd", entry->d_name);
        got = pid > 0 ? readlink(path, home, sizeof home) : -1;
        if (got >= (ssize_t)len && memcmp(home, dir, len) == 0 && state_of(pid))
            found[n++] = pid;
    }
    if (proc)
        closedir(proc);
    return n;
}

static void await_stop(pid_t pid)
{
    int64_t until_ms = clock_ms() + SERVER_LIMIT_MS;
    char state;

    while ((state = state_of(pid)) != 0 && !strchr("Tt", state)) {
        if (clock_ms() > until_ms)
            give_up("process %d does not stop", (int)pid);
        sleep_ms(1);
    }
}

/* Until none is left: one may just have been made. */
static void kill_residents(const char *dir)
{
    pid_t found[PROCESSES];
    size_t n;

    while ((n = residents(dir, found)) > 0) {
        for (size_t i = 0; i < n; i++)
            kill(found[i], SIGKILL);
        sleep_ms(1);
    }
}

static const char *home_of(const struct db *db)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/data", db->dir);
    return path;
}

/* The first process, so that it makes no more; then those that it made. */
void db_pause(struct db *db)
{
    pid_t found[PROCESSES];
    size_t n;

    kill(db->pid, SIGSTOP);
    await_stop(db->pid);
    n = residents(home_of(db), found);
    for (size_t i = 0; i < n; i++)
        kill(found[i], SIGSTOP);
    for (size_t i = 0; i < n; i++)
        await_stop(found[i]);
}

void db_continue(struct db *db)
{
    pid_t found[PROCESSES];
    size_t n = residents(home_of(db), found);

    for (size_t i = 0; i < n; i++)
        kill(found[i], SIGCONT);
}

void db_kill(struct db *db)
{
    db_hang_up(db);
    if (db->pid <= 0)
        return;
    kill(db->pid, SIGKILL);
    waitpid(db->pid, NULL, 0);
    kill_residents(home_of(db));
    db->pid = 0;
}

void db_stop(struct db *db)
{
    db_hang_up(db);
    if (db->pid <= 0)
        return;
    kill(db->pid, db->kind == DB_POSTGRES ? SIGINT : SIGTERM); /* "fast" */
    waitpid(db->pid, NULL, 0);
    db->pid = 0;
}

void db_restart(struct db *db)
{
    db_kill(db);
    begin(db);
    await_answer(db);
}

/* PostgreSQL's interlock, which SIGKILL leaves behind: line 7 of postmaster.pid tells its key and id. */
static void forget_shared(const char *dir)
{
    char path[128], line[256] = "";
    unsigned long key, id;
    FILE *file;

    snprintf(path, sizeof path, "%s/data/postmaster.pid", dir);
    file = fopen(path, "r");
    for (int i = 0; file && i < 7; i++)
        if (!fgets(line, sizeof line, file))
            line[0] = 0;
    if (file && sscanf(line, "%lu %lu", &key, &id) == 2)
        shmctl((int)id, IPC_RMID, NULL);
    if (file)
        fclose(file);
}

void db_free(struct db *db)
{
    if (!db)
        return;
    server_forget(db);
    pooler_stop(db);
    db_kill(db);
    forget_shared(db->dir);
    remove_dir(db->dir);
    close(db->leash); /* the guardian finds nothing to do */
    free(db);
}

/* ---- the guardian ------------------------------------------------------------------------------ */

/*
 * A process that waits for our end, and belongs to nobody, so that who kills us with all our children
 * does not kill it. (PR_SET_PDEATHSIG would reach the first process of PostgreSQL only; the others, if
 * they were stopped just then, would stay for ever; and nobody would remove the directory.)
 */
static void guard(struct db *db)
{
    int ends[2];
    char byte;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        give_up("pipe: %s", strerror(errno));
    db->leash = ends[1];
    pid = fork();
    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    if (pid > 0) {
        close(ends[0]);
        waitpid(pid, NULL, 0);
        return;
    }
    if (setsid() < 0 || fork() != 0)
        _exit(0);
    for (int fd = 0; fd < 3; fd++)
        dup2(open("/dev/null", O_RDWR | O_CLOEXEC), fd);
    dup2(ends[0], 3);
    close_range(4, ~0u, 0); /* the other end too, and those of others */
    while (read(3, &byte, 1) < 0 && errno == EINTR)
        ;
    kill_residents(db->dir);
    forget_shared(db->dir);
    remove_dir(db->dir);
    _exit(0);
}
