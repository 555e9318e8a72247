/* SPDX-License-Identifier: MIT */
/* contract [--processes] [--async] URL GROUP [CASE]: run one group against one store. See contract.h. */
#include "mem_engine.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_ROW(group) { #group, contract_##group },
static const struct contract_group groups[] = { CONTRACT_GROUPS(GROUP_ROW) };

int main(int argc, char **argv)
{
    bool processes = argc > 1 && strcmp(argv[1], "--processes") == 0;
    const char *url;

    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        mem_engine_register();
        peer_serve(STDIN_FILENO, argv[2]);
        return 0;
    }
    argv += processes;
    argc -= processes;
    contract_pumped = argc > 1 && strcmp(argv[1], "--async") == 0;
    argv += contract_pumped;
    argc -= contract_pumped;
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: contract [--processes] [--async] URL|'' GROUP [CASE]\n");
        return 64;
    }
    url = argv[1][0] ? argv[1] : getenv("HOLDFAST_TEST_URL");
    if (!url) {
        fprintf(stderr, "contract: no URL given, and HOLDFAST_TEST_URL is not set\n");
        return 64;
    }
    if (argc == 4)
        cmocka_set_test_filter(argv[3]);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(argv[2], groups[i].name) == 0) {
            contract_begin(url, processes);
            return groups[i].run() ? 1 : 0;
        }
    fprintf(stderr, "contract: no group '%s'\n", argv[2]);
    return 64;
}
