/* SPDX-License-Identifier: MIT */
/*
 * What all servers of tests and of the bench have in common: ports, directories, processes that are
 * started, stopped and killed, and a command that runs meanwhile. The engines' own servers are in
 * test/redis, test/etcd ...
 *
 * A server dies with the thread that started it (PR_SET_PDEATHSIG), so that a program that is killed leaves none behind: start
 * servers from the main thread. Whatever goes wrong here ends the program; no call returns an error.
 *
 * Ports come from below the range that the kernel gives to connecting clients, and are reserved for as long as this process
 * lives: a server that is restarted finds its port free.
 */
#ifndef TEST_SERVER_H
#define TEST_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SERVER_LIMIT_MS  60000 /* an event that has not come by then will not come */
#define SERVER_PATH_ROOM 128

/* A port that no other test gets while this process lives. */
uint16_t free_port(void);
/* An event that does not come ends the program. */
__attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *format, ...);
int64_t clock_ms(void); /* CLOCK_BOOTTIME */
void sleep_ms(int64_t ms);

/* A new directory for a server of that name: in memory (/dev/shm) if it is wanted and there is such a place, else below
 * TMPDIR. */
void make_dir(char *ret_dir, size_t room, const char *name, bool in_memory);
void remove_dir(const char *dir); /* with all that is in it */
void show_file(const char *path); /* a log, to stderr */

/* How a server is started; all may be NULL or false. */
struct launch {
    const char *log;  /* where its output goes; NULL: nowhere */
    char *const *env; /* NULL: a short PATH and nothing else */
    const char *dir;  /* where it is started */
    /* its own, as a service has: the kernel shares the CPUs out between sessions first */
    bool session;
    bool outlives;          /* it outlives our thread: another process ends it */
    void (*become)(void *); /* called just before exec: drops privileges */
    void *arg;
};
/* Between fork() and exec() only calls are made that are allowed in a program with threads. */
pid_t launch(const char *const *args, const struct launch *how);
/* Servers started from now on have this variable ("NAME=VALUE") too. The text must live as long as the program. */
void launch_also(char *variable);
bool is_installed(const char *program); /* is it in the PATH? */
/* SIGKILL, and wait for its end. 0 is fine. */
void end_process(pid_t *pid);
/* SIGSTOP, and wait until it has stopped. False: it has ended by itself. */
bool stop_process(pid_t pid);
bool has_ended(pid_t child); /* it can still be waited for */

/* `end` is called for what is still kept when the program exits, in the process that kept it. */
void server_keep(void *server, void (*end)(void *server));
void server_forget(void *server);

/* Run a command to its end, and return its exit status (128 + a signal's number). Signals that ask us to end are passed on to
 * it. `meanwhile` (may be NULL) is called after it was started. It dies with us. */
int run_command(char **command, void (*meanwhile)(pid_t child, void *arg), void *arg);

#endif
