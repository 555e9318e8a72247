/* SPDX-License-Identifier: MIT */
/* The command line of holdfast-serve. `holdfast serve` finds the stores and hands them over. */
#ifndef SERVE_OPTIONS_H
#define SERVE_OPTIONS_H

#include "listen.h"
#include "serve.h"

#define HOSTS_MAX 32

struct options {
    struct listen_at listen;
    const char *hosts[HOSTS_MAX];
    size_t host_count;
    const char *tokens, *cert, *key;
    bool allow_insecure;
    struct limits limits;
    int stores_fd; /* -1: none: a URL of --store */
    char *stores[SEE_STORES_MAX];
    size_t store_count;
};

/* -1: go on; else an exit code, after a message or the help. */
int options_parse(int argc, char **argv, struct options *ret_options);

#endif
