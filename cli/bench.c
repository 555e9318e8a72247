/* SPDX-License-Identifier: MIT */
/* `holdfast bench`: a program of its own, holdfast-bench, beside us or in libexec. */
#include "cli.h"
#include "table.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "holdfast-bench"

static void execute(const char *path, char **arguments)
{
    sigset_t none;

    sigemptyset(&none);
    sigaddset(&none, SIGPIPE); /* main() blocked it */
    sigprocmask(SIG_UNBLOCK, &none, NULL);
    execv(path, arguments);
}

int verb_bench(struct cli *cli)
{
    char **rest = cli->args.command;
    char path[PATH_MAX];
    char **arguments;
    size_t count = 0, used = 0;
    ssize_t len;

    while (rest && rest[count])
        count++;
    arguments = must_alloc((count + 3) * sizeof *arguments);
    arguments[used++] = (char *)(uintptr_t)PROGRAM;
    if (cli->args.json) /* given before the verb */
        arguments[used++] = (char *)(uintptr_t) "--json";
    for (size_t i = 0; i < count; i++)
        arguments[used++] = rest[i];
    if (cli->args.store)
        setenv("HOLDFAST_STORE", cli->args.store, 1);

    len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len > 0) {
        char *slash;

        path[len] = 0;
        slash = strrchr(path, '/');
        if (slash && (size_t)(slash - path) + sizeof "/" PROGRAM <= sizeof path) {
            strcpy(slash, "/" PROGRAM);
            execute(path, arguments);
        }
    }
    execute(HOLDFAST_LIBEXECDIR "/" PROGRAM, arguments);

    if (errno == ENOENT)
        say_error(
            "%s is no part of an installation: `make bench` in the sources builds and runs it",
            PROGRAM);
    else
        say_error("%s cannot be executed: %s", PROGRAM, strerror(errno));
    free(arguments);
    return EXIT_NO_STORE;
}
