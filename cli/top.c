/* SPDX-License-Identifier: MIT */
/* `holdfast top [GLOB]`: a program of its own, holdfast-top. */
#include "cli.h"
#include "table.h"

#include <unistd.h>

int verb_top(struct cli *cli)
{
    const struct args *args = &cli->args;
    char *arguments[5];
    size_t count = 0;

    if (cli->stdout_closed)
        return out_finish(cli);
    if (args->json && !args->once)
        return usage_error(cli, "--json needs --once");
    if (!args->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return usage_error(cli, "without a terminal, use --once");
    if (args->once)
        arguments[count++] = (char *)(uintptr_t)(args->json ? "--json" : "--once");
    if (args->color == COLOR_NEVER)
        arguments[count++] = (char *)(uintptr_t) "--plain";
    if (args->name) {
        arguments[count++] = (char *)(uintptr_t) "--glob";
        arguments[count++] = (char *)(uintptr_t)args->name;
    }
    arguments[count] = NULL;
    return program_see(cli, "holdfast-top", arguments);
}
