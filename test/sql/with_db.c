/* SPDX-License-Identifier: MIT */
/*
 * with_server postgres|mariadb [OPTION...] COMMAND...: see test/lib/with_server.c.
 *
 *   -p             log in with a password
 *   -t             TLS, with a client certificate
 *   -x             through the unix socket
 *   -u FILE        as a user without rights, after FILE's statements were run by the administrator;
 *                  "-" for none
 *   -b, -B         PostgreSQL: through a pgbouncer that pools by transaction, by session
 *   -o NAME=VALUE  one more setting of the server
 *   -m MODE        mode=MODE in the URL
 *   -q QUERY       more of the URL (tokens=on)
 *   -f SEED        while random faults happen to the server and the network before it (db_trouble.h)
 *
 * HOLDFAST_TEST_PORT is the server's port (not the pooler's), HOLDFAST_TEST_SOCKET where its
 * administrator (postgres, root) may come in without a password: a directory for PostgreSQL.
 */
#include "db.h"
#include "db_trouble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MORE_ROOM 256

/* with_server.c calls them */
int with_postgres(int argc, char **argv);
int with_mariadb(int argc, char **argv);

/* Faults go on while the command runs: this thread owns the server. */
struct faults {
    struct db *db;
    struct proxy *proxy;
    const char *seed;
};

static void meanwhile(pid_t child, void *arg)
{
    const struct faults *faults = arg;

    if (faults->seed)
        db_trouble(faults->db, faults->proxy, strtoull(faults->seed, NULL, 10), child);
}

static void add(char more[MORE_ROOM], const char *key, const char *value)
{
    size_t len = strlen(more);

    snprintf(more + len, MORE_ROOM - len, "&%s%s", key, value);
}

static struct db_wish parse(int argc, char **argv, char more[MORE_ROOM], const char **ret_rights,
                            const char **ret_seed)
{
    struct db_wish wish = { 0 };
    size_t options = 0;
    int option;

    while ((option = getopt(argc, argv, "+ptxu:bBo:m:q:f:")) != -1) {
        switch (option) {
        case 'p':
            wish.password = true;
            break;
        case 't':
            wish.tls = true;
            break;
        case 'x':
            wish.by_socket = true;
            break;
        case 'u':
            wish.few = true;
            *ret_rights = optarg;
            break;
        case 'b':
            wish.pooling = "transaction";
            break;
        case 'B':
            wish.pooling = "session";
            break;
        case 'o':
            if (options + 1 >= DB_OPTIONS)
                give_up("with_server: too many options");
            wish.options[options++] = optarg;
            break;
        case 'm':
            add(more, "mode=", optarg);
            break;
        case 'q':
            add(more, "", optarg);
            break;
        case 'f':
            *ret_seed = optarg;
            break;
        default:
            exit(64);
        }
    }
    if (optind >= argc)
        give_up("usage: with_server %s [-p] [-t] [-x] [-u FILE] [-b] [-B] [-o NAME=VALUE] [-m "
                "MODE] [-q QUERY] "
                "[-f SEED] COMMAND...",
                argv[0]);
    return wish;
}

static int with_db(enum db_kind kind, int argc, char **argv)
{
    char more[MORE_ROOM] = "", port[16];
    const char *rights = "-", *seed = NULL;
    struct db_wish wish = parse(argc, argv, more, &rights, &seed);
    struct db *db = db_start(kind, &wish);
    struct proxy *proxy = seed ? proxy_start(db->port) : NULL;
    struct faults faults = { db, proxy, seed };
    uint16_t own_port = db->port;
    int status;

    if (strcmp(rights, "-") != 0)
        db_run_file(db, rights);
    snprintf(port, sizeof port, "%u", (unsigned)db->port);
    if (proxy)
        db->port = proxy_port(proxy);
    setenv("HOLDFAST_TEST_URL", db_url(db, more), 1);
    db->port = own_port;
    setenv("HOLDFAST_TEST_PORT", port, 1);
    setenv("HOLDFAST_TEST_SOCKET", db->socket, 1);
    db_hang_up(db); /* nobody of ours shall be in the server's lists */
    status = run_command(argv + optind, meanwhile, &faults);
    proxy_stop(proxy);
    db_free(db);
    return status;
}

int with_postgres(int argc, char **argv)
{
    return with_db(DB_POSTGRES, argc, argv);
}

int with_mariadb(int argc, char **argv)
{
    return with_db(DB_MARIADB, argc, argv);
}
