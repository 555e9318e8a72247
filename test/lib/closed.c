/* SPDX-License-Identifier: MIT */
/* closed COMMAND...: run COMMAND where no other user of this machine reaches the servers that it starts (own_network.h). */
#include "own_network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: closed COMMAND...\n", stderr);
        return 64;
    }
    close_to_others();
    execvp(argv[1], argv + 1);
    fprintf(stderr, "closed: %s: %s\n", argv[1], strerror(errno));
    return 127;
}
