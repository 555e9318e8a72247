/* SPDX-License-Identifier: MIT */
/* Replacing ourselves by the command, where nothing is held while it runs. Main thread. */
#include "store.h"
#include "util/handed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int become(struct cli *cli, struct cli_store *store)
{
    char **command = cli->args.command;
    int error;

    setenv("HOLDFAST_STORE", store->for_child, 1);
    if (store
            ->handed) /* a run around us may have the same one; else a `holdfast` inside says why it has none */
        setenv(HFI_HANDED_VARIABLE, "none", 0);
    for (size_t i = 0; i < PASSWORD_ENVS; i++)
        if (store->password_envs[i])
            unsetenv(store->password_envs[i]);
    store_close(store);
    execvp(command[0], command);
    error = errno;
    say_error("cannot execute '%s': %s", shown(command[0]), strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
}
