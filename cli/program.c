/* SPDX-License-Identifier: MIT */
/* Programs that come with the command (holdfast-bench, holdfast-top, ...): beside us, as in a build, or in libexec. */
#include "cli.h"
#include "secret.h"
#include "store.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void execute(const char *path, char **arguments)
{
    sigset_t none;

    sigemptyset(&none);
    sigaddset(&none, SIGPIPE); /* main() blocked it */
    sigprocmask(SIG_UNBLOCK, &none, NULL);
    execv(path, arguments);
}

void program_execute(const char *program, char **arguments)
{
    char path[PATH_MAX], installed[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    if (len > 0) {
        char *slash;

        path[len] = 0;
        slash = strrchr(path, '/');
        if (slash && (size_t)(slash - path) + strlen(program) + 2 <= sizeof path) {
            strcpy(slash + 1, program);
            execute(path, arguments);
        }
    }
    snprintf(installed, sizeof installed, HOLDFAST_LIBEXECDIR "/%s", program);
    execute(installed, arguments);
}

/* ---- stores for a program of see/ ------------------------------------------------------------ */

static bool put(int fd, const char *text)
{
    size_t len = strlen(text) + 1;

    return write(fd, text, len) == (ssize_t)len;
}

/* NULL: the one that every verb means without -S. A profile has a name, a URL has none. */
static int put_store(const struct cli *cli, const char *spec, int fd)
{
    const char *name = spec;
    char *url = NULL;
    int code = store_url(cli, spec, &url);

    if (code != EXIT_FINE)
        return code;
    if (!name)
        name = secure_getenv("HOLDFAST_STORE");
    if (!name || strchr(name, ':'))
        name = "";
    if (!put(fd, name) || !put(fd, url)) {
        say_error("no memory for the list of stores: %s", strerror(errno));
        code = EXIT_INTERNAL;
    }
    secret_free(url);
    return code;
}

static int put_stores(const struct cli *cli, int fd)
{
    const struct texts *stores = &cli->args.stores;
    int code = EXIT_FINE;

    if (cli->args.store || stores->count == 0)
        code = put_store(cli, NULL, fd);
    for (size_t i = 0; i < stores->count && code == EXIT_FINE; i++)
        code = put_store(cli, stores->items[i], fd);
    return code;
}

/* The program has the URL in its descriptor; what it starts itself gets no password. */
static void leave_no_secret(void)
{
    const char *url = secure_getenv("HOLDFAST_STORE");
    char *clean = url && hfi_url_has_secret(url) ? url_without_secrets(url) : NULL;

    if (clean)
        setenv("HOLDFAST_STORE", clean, 1);
    free(clean);
}

int program_see(struct cli *cli, const char *program, char **arguments)
{
    char first[32];
    size_t count = 0;
    char **all;
    int code, fd = memfd_create("stores", 0); /* not closed by exec: it is for the program */

    if (fd < 0) {
        say_error("no memory for the list of stores: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    code = put_stores(cli, fd);
    leave_no_secret();
    if (code != EXIT_FINE || lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        return code != EXIT_FINE ? code : EXIT_INTERNAL;
    }
    while (arguments[count])
        count++;
    all = must_alloc((count + 3) * sizeof *all);
    snprintf(first, sizeof first, "--stores-fd=%d", fd);
    all[0] = (char *)(uintptr_t)program;
    all[1] = first;
    memcpy(all + 2, arguments, (count + 1) * sizeof *all);
    program_execute(program, all);
    code = program_missing(program);
    free(all);
    close(fd);
    return code;
}

int program_missing(const char *program)
{
#ifndef HOLDFAST_PACKAGES
    const char *option = strcmp(program, "holdfast-lab") == 0 ? "HOLDFAST_LAB" : "HOLDFAST_SEE";
#endif

#ifdef HOLDFAST_PACKAGES /* debian/control */
    if (errno == ENOENT)
        say_error("%s is not installed: install the package %s", program,
                  strcmp(program, "holdfast-faults") == 0 ? "holdfast-lab" : program);
#else
    if (errno == ENOENT && strcmp(program, "holdfast-faults") == 0)
        say_error("%s is missing: it belongs beside this command, or in " HOLDFAST_LIBEXECDIR,
                  program);
    else if (errno == ENOENT)
        say_error("%s is missing: this build has %s=OFF", program, option);
#endif
    else
        say_error("%s cannot be executed: %s", program, strerror(errno));
    return EXIT_NO_STORE;
}
