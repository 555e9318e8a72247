/* SPDX-License-Identifier: MIT */
/* holdfast(1): take the command line apart and call the verb. */
#include "cli.h"
#include "table.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Descriptors 0, 1 and 2 must not be reused: if a file of a store got number 1, the first message
 * would be written into it. So closed ones are filled with a placeholder that children do not
 * inherit: for them the descriptor is still closed.
 */
static void fill_closed(struct cli *cli)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (fd == STDOUT_FILENO)
            cli->stdout_closed = true;
        if (open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
            _exit(EXIT_INTERNAL);
    }
}

/* A closed pipe must be an error that we can report. Blocked and not ignored: a child would inherit
 * "ignored", and for `run` the mask of a child is restored anyway. */
static void block_sigpipe(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    static struct cli cli;
    int code;

#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX,
            1); /* our threads are few and short: a heap for each costs more than it gives */
#endif
    fill_closed(&cli);
    block_sigpipe();

    code = args_parse(&cli, argc, argv);
    if (code != EXIT_FINE)
        return code;

    if (cli.args.help) {
        help_print(stdout, cli.verb);
        return out_finish(&cli);
    }
    if (cli.args.version) {
        printf("holdfast %s\n", hf_version());
        return out_finish(&cli);
    }
    if (!cli.verb) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    return cli.verb->main(&cli);
}
