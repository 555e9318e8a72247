/* SPDX-License-Identifier: MIT */
/* `holdfast faults [URL] [--minutes N] [--yes]`: a program of its own, holdfast-faults. */
#include "cli.h"
#include "table.h"

#include <stdio.h>
#include <unistd.h>

int verb_faults(struct cli *cli)
{
    struct args *args = &cli->args;
    char seconds[40];
    char *arguments[4];
    size_t count = 0;

    if (cli->stdout_closed)
        return out_finish(cli);
    if (args->name && args->store)
        return usage_error(cli, "either a URL or -S");
    if (!args->yes && !isatty(STDIN_FILENO))
        return usage_error(cli, "without a terminal it needs --yes");
    if (args->name)
        args->store = must_strdup(args->name);
    snprintf(seconds, sizeof seconds, "--seconds=%lld",
             60 * (args->minutes > 0 ? (long long)args->minutes : 1));
    arguments[count++] = seconds;
    if (args->yes)
        arguments[count++] = (char *)(uintptr_t) "--yes";
    if (args->json)
        arguments[count++] = (char *)(uintptr_t) "--json";
    arguments[count] = NULL;
    return program_see(cli, "holdfast-faults", arguments);
}
