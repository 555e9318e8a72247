/* SPDX-License-Identifier: MIT */
/* `holdfast bench`: a program of its own, holdfast-bench, beside us or in libexec. */
#include "cli.h"
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "holdfast-bench"

int verb_bench(struct cli *cli)
{
    char **rest = cli->args.command;
    char **arguments;
    size_t count = 0, used = 0;

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

    program_execute(PROGRAM, arguments);
    if (errno == ENOENT)
        say_error("%s is not installed: run `make bench` in the sources", PROGRAM);
    else
        say_error("%s cannot be executed: %s", PROGRAM, strerror(errno));
    free(arguments);
    return EXIT_NO_STORE;
}
