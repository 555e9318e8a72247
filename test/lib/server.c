/* SPDX-License-Identifier: MIT */
/* Servers of a test's own; see server.h. Main thread only, but for clock_ms(), sleep_ms() and give_up(). */
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT_FIRST 12000 /* below ip_local_port_range: the kernel gives none of these to a client */
#define PORT_COUNT 18000

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

/* ---- directories and files ---------------------------------------------------------- */

void make_dir(char *ret_dir, size_t room, const char *name, bool in_memory)
{
    const char *tmp = getenv("TMPDIR");
    int len;

    if (in_memory && access("/dev/shm", W_OK) == 0)
        tmp = "/dev/shm";
    len = snprintf(ret_dir, room, "%s/holdfast-%s-XXXXXX", tmp ? tmp : "/tmp", name);
    if (len < 0 || (size_t)len >= room || !mkdtemp(ret_dir))
        give_up("%s: %s", ret_dir, strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

void remove_dir(const char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void show_file(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");

    while (file && fgets(line, sizeof line, file))
        fputs(line, stderr);
    if (file)
        fclose(file);
}

/* ---- processes ------------------------------------------------------------------------ */

#define ALSO_MAX 4
#define ENV_MAX  512
static char *also[ALSO_MAX + 1]; /* NULL at the end */

void launch_also(char *variable)
{
    size_t n = 0;

    while (also[n])
        n++;
    if (n == ALSO_MAX)
        give_up("too many variables for servers");
    also[n] = variable;
}

/* `env` and what launch_also() has added, into `ret`. */
static void join_env(char *const *env, char **ret)
{
    size_t n = 0;

    for (size_t i = 0; env[i] && n < ENV_MAX; i++)
        ret[n++] = env[i];
    for (size_t i = 0; also[i]; i++)
        ret[n++] = also[i];
    ret[n] = NULL;
}

static void begin(const char *const *args, const struct launch *how, pid_t parent)
{
    char *path[] = { (char *)"PATH=/usr/bin:/bin", NULL }, *env[ENV_MAX + ALSO_MAX + 1];
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = null;

    if (how->log)
        out = open(how->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (how->session)
        setsid();
    else
        signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the test, which ends us */
    dup2(null, 0);
    dup2(out, 1);
    dup2(out, 2);
    if (how->become)
        how->become(how->arg);
    if (!how->outlives)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* after setuid(2), which clears it */
    join_env(how->env ? how->env : path, env);
    if (getppid() == parent && (!how->dir || chdir(how->dir) == 0))
        execvpe(args[0], (char *const *)(uintptr_t)args, env);
    _exit(127);
}

pid_t launch(const char *const *args, const struct launch *how)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    if (pid == 0)
        begin(args, how, parent);
    return pid;
}

bool is_installed(const char *program)
{
    const char *at = getenv("PATH");
    char path[512];

    while (at && *at) {
        size_t len = strcspn(at, ":");

        snprintf(path, sizeof path, "%.*s/%s", (int)len, at, program);
        if (access(path, X_OK) == 0)
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

void end_process(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *pid = 0;
}

bool stop_process(pid_t pid)
{
    int status;

    kill(pid, SIGSTOP);
    while (waitpid(pid, &status, WUNTRACED) < 0)
        if (errno != EINTR)
            return false;
    return WIFSTOPPED(status);
}

bool has_ended(pid_t child)
{
    siginfo_t info = { .si_pid = 0 };

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != 0;
}

/* ---- whoever is still there at the end ------------------------------------------------------ */

static struct kept {
    void *server;
    void (*end)(void *server);
    struct kept *next;
} * all;
static pid_t owner; /* the process that started these servers, not a forked child */

static void end_all(void)
{
    while (getpid() == owner && all) {
        struct kept *kept = all;

        all = kept->next;
        kept->end(kept->server);
        free(kept);
    }
}

void server_keep(void *server, void (*end)(void *server))
{
    struct kept *kept = malloc(sizeof *kept);

    if (!server || !kept)
        give_up("out of memory");
    if (!owner) {
        owner = getpid();
        atexit(end_all);
    }
    *kept = (struct kept){ server, end, all };
    all = kept;
}

void server_forget(void *server)
{
    for (struct kept **link = &all; *link; link = &(*link)->next)
        if ((*link)->server == server) {
            struct kept *kept = *link;

            *link = kept->next;
            free(kept);
            return;
        }
}

/* ---- a command ------------------------------------------------------------------------------- */

static volatile sig_atomic_t command_pid;

static void pass_on(int number)
{
    if (command_pid > 0)
        kill((pid_t)command_pid, number);
}

int run_command(char **command, void (*meanwhile)(pid_t child, void *arg), void *arg)
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
        fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        give_up("fork: %s", strerror(errno));
    command_pid = (sig_atomic_t)pid;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &action, NULL);
    if (meanwhile)
        meanwhile(pid, arg);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            give_up("%s: %s", command[0], strerror(errno));
    command_pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
