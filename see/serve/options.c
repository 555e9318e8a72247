/* SPDX-License-Identifier: MIT */
/* The command line. */
#include "options.h"

#include "util/text.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 64

enum {
    OPTION_LISTEN = 256,
    OPTION_TOKENS,
    OPTION_HOST,
    OPTION_CERT,
    OPTION_KEY,
    OPTION_INSECURE,
    OPTION_CONNECTIONS,
    OPTION_LEASES,
    OPTION_NAMES,
    OPTION_STORES_FD,
    OPTION_HELP,
    OPTION_VERSION
};

static const struct option longs[] = {
    { "store", required_argument, NULL, 'S' },
    { "listen", required_argument, NULL, OPTION_LISTEN },
    { "tokens", required_argument, NULL, OPTION_TOKENS },
    { "host", required_argument, NULL, OPTION_HOST },
    { "cert", required_argument, NULL, OPTION_CERT },
    { "key", required_argument, NULL, OPTION_KEY },
    { "allow-insecure", no_argument, NULL, OPTION_INSECURE },
    { "connections", required_argument, NULL, OPTION_CONNECTIONS },
    { "leases", required_argument, NULL, OPTION_LEASES },
    { "metrics-names", required_argument, NULL, OPTION_NAMES },
    { "stores-fd", required_argument, NULL, OPTION_STORES_FD },
    { "help", no_argument, NULL, OPTION_HELP },
    { "version", no_argument, NULL, OPTION_VERSION },
    { NULL, 0, NULL, 0 },
};

static const char help[] =
    "Usage: holdfast serve [-S STORE]... [options]\n"
    "\n"
    "Show stores on a live page, in metrics and through an HTTP API.\n"
    "\n"
    "  -S, --store STORE      a URL or profile; several are shown side by side\n"
    "      --listen WHERE     HOST:PORT or unix:PATH (" LISTEN_DEFAULT ")\n"
    "      --tokens FILE      lines of RIGHTS TOKEN NAME; without it, reading only\n"
    "      --host NAME        another host name that clients may use\n"
    "      --cert FILE        TLS: the certificate, PEM\n"
    "      --key FILE         TLS: its key, PEM\n"
    "      --allow-insecure   listen on other addresses without TLS or tokens\n"
    "      --connections N    at most N connections at a time (1000)\n"
    "      --leases N         at most N leases of one token (1000)\n"
    "      --metrics-names N  separate series for the first N names (0)\n"
    "      --help, --version\n"
    "\n"
    "Manual: man holdfast-serve\n";

static int usage(const char *option, const char *why)
{
    fprintf(stderr, "holdfast-serve: --%s: %s\n", option, why);
    return EXIT_USAGE;
}

static int number(const char *option, const char *text, uint64_t min, uint64_t max,
                  uint64_t *ret_number)
{
    const char *wrong = hfi_parse_u64(text, min, max, ret_number);

    return wrong ? usage(option, wrong) : -1;
}

static int take(struct options *options, int option, char *value)
{
    uint64_t count = 0;
    const char *wrong;
    int code = -1;

    switch (option) {
    case 'S':
        if (options->store_count == SEE_STORES_MAX)
            return usage("store", "too many of them");
        options->stores[options->store_count++] = value;
        return -1;
    case OPTION_LISTEN:
        wrong = listen_parse(value, &options->listen);
        return wrong ? usage("listen", wrong) : -1;
    case OPTION_HOST:
        if (options->host_count == HOSTS_MAX)
            return usage("host", "too many of them");
        options->hosts[options->host_count++] = value;
        return -1;
    case OPTION_TOKENS:
        options->tokens = value;
        return -1;
    case OPTION_CERT:
        options->cert = value;
        return -1;
    case OPTION_KEY:
        options->key = value;
        return -1;
    case OPTION_INSECURE:
        options->allow_insecure = true;
        return -1;
    case OPTION_CONNECTIONS:
        code = number("connections", value, 4, 100000, &count);
        options->limits.connections = (unsigned)count;
        return code;
    case OPTION_LEASES:
        code = number("leases", value, 1, 1000000, &count);
        options->limits.leases = (size_t)count;
        return code;
    case OPTION_NAMES:
        code = number("metrics-names", value, 0, 10000, &count);
        options->limits.names = (unsigned)count;
        return code;
    case OPTION_STORES_FD:
        code = number("stores-fd", value, 3, 1000000, &count);
        options->stores_fd = (int)count;
        return code;
    case OPTION_HELP:
        fputs(help, stdout);
        return 0;
    case OPTION_VERSION:
        printf("holdfast-serve %s\n", hf_version());
        return 0;
    default:
        fputs("Manual: man holdfast-serve\n", stderr);
        return EXIT_USAGE;
    }
}

int options_parse(int argc, char **argv, struct options *ret_options)
{
    struct options options = { .stores_fd = -1, .limits = { 1000, 1000, 0 } };
    int option, code = -1;

    (void)!listen_parse(LISTEN_DEFAULT, &options.listen);
    while (code == -1 && (option = getopt_long(argc, argv, "S:", longs, NULL)) != -1)
        code = take(&options, option, optarg);
    if (code != -1)
        return code;
    if (optind < argc) {
        fprintf(stderr, "holdfast-serve: it takes no operands\n");
        return EXIT_USAGE;
    }
    if (!options.cert != !options.key)
        return usage(options.cert ? "cert" : "key", "TLS needs --cert and --key");
    *ret_options = options;
    return -1;
}
