/* SPDX-License-Identifier: MIT */
/*
 * with_server ENGINE [OPTION...] COMMAND...: run COMMAND with a server of its own, whose URL is in HOLDFAST_TEST_URL; its
 * status is ours. Whatever ends us, the server ends too. {id} in the URL is for the contract suite, which gives every case a
 * prefix of its own. COMMAND is in the server's network, in which there is nothing else (own_network.h). The options are the engine's: test/redis/with_redis.c and so on.
 *
 * Those of the engines that are built are linked.
 */
#include "own_network.h"
#include "server.h"

#include <string.h>

#define ENGINE(name) int with_##name(int argc, char **argv) __attribute__((weak))
ENGINE(redis);
ENGINE(memcached);
ENGINE(etcd);
ENGINE(zookeeper);
ENGINE(postgres);
ENGINE(mariadb);

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} engines[] = { { "redis", with_redis },       { "memcached", with_memcached },
                { "etcd", with_etcd },         { "zookeeper", with_zookeeper },
                { "postgres", with_postgres }, { "mariadb", with_mariadb } };

int main(int argc, char **argv)
{
    close_to_others();
    for (size_t i = 0; argc > 1 && i < sizeof engines / sizeof *engines; i++)
        if (engines[i].run && strcmp(argv[1], engines[i].name) == 0)
            return engines[i].run(argc - 1, argv + 1);
    give_up("usage: with_server redis|memcached|etcd|zookeeper|postgres|mariadb [OPTION...] "
            "COMMAND...");
}
