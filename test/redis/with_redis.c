/* SPDX-License-Identifier: MIT */
/*
 * with_server redis [OPTION...] COMMAND...: see test/lib/with_server.c.
 *
 *   -p         a password is required
 *   -u RULES   log in as an ACL user with these rules and nothing else
 *   -t         TLS, with a client certificate
 *   -x         through the Unix socket
 *   -S         a master and two replicas, watched by three sentinels
 *   -C         a cluster of three nodes
 *   -T         ... and a {tag} in the prefix: all names are in one slot
 *   -R N       N servers that know nothing of each other, for Redlock (with -p, -t, -o, -q)
 *   -f SEED    through a network that fails at random (chaos.h), and a server that does
 *   -o OPTION  one more option for the server (-o --maxmemory -o 100mb)
 *   -q QUERY   more of the URL (wire=plain)
 *
 * HOLDFAST_TEST_PORT is the server's port (not -S, -C, -R) and HOLDFAST_TEST_SOCKET its Unix socket, at
 * which no user is needed for -u.
 */
#include "chaos.h"
#include "set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int with_redis(int argc, char **argv); /* with_server.c calls it */

#define URL_ROOM  1024
#define SECRET    "sesame"
#define NODES_MAX 9

struct wish {
    bool password, tls, by_socket, sentinel, cluster, tagged;
    const char *rules, *query, *seed;
    int nodes;
    const char *options[SERVER_OPTIONS];
    size_t option_count;
};

static char certificates[SERVER_PATH_ROOM];

static void add_option(struct wish *wish, const char *option)
{
    if (wish->option_count + 8 >= SERVER_OPTIONS)
        give_up("with_server: too many options");
    wish->options[wish->option_count++] = option;
}

/* ---- certificates ------------------------------------------------------------------------ */

static const char certificate_script[] =
    "set -e; cd \"$0\"; exec 2>log; new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
    "openssl req -x509 $new -days 2 -subj /CN=test-ca -keyout ca.key -out ca.crt\n"
    "openssl req -x509 $new -days 2 -subj /CN=server -CA ca.crt -CAkey ca.key"
    "  -addext subjectAltName=IP:127.0.0.1,DNS:localhost"
    "  -addext basicConstraints=critical,CA:FALSE -keyout server.key -out server.crt\n"
    "openssl req -x509 $new -days 2 -subj /CN=client -CA ca.crt -CAkey ca.key"
    "  -addext basicConstraints=critical,CA:FALSE -keyout client.key -out client.crt\n";

/* One of three static ones. */
static const char *in_certificates(const char *file)
{
    static char paths[3][2 * SERVER_PATH_ROOM];
    static size_t next;
    char *path = paths[next++ % 3];

    snprintf(path, sizeof paths[0], "%s/%s", certificates, file);
    return path;
}

static void make_certificates(struct wish *wish)
{
    pid_t pid;
    int status;

    make_dir(certificates, sizeof certificates, "tls", false);
    pid = fork();
    if (pid == 0) {
        execlp("sh", "sh", "-c", certificate_script, certificates, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        give_up("openssl makes no certificates, see %s/log", certificates);
    add_option(wish, "--tls-cert-file");
    add_option(wish, in_certificates("server.crt"));
    add_option(wish, "--tls-key-file");
    add_option(wish, in_certificates("server.key"));
    add_option(wish, "--tls-ca-cert-file");
    add_option(wish, in_certificates("ca.crt"));
}

/* ---- the URL ---------------------------------------------------------------------------------- */

/* What TLS needs in a URL. */
static void tls_query(const struct wish *wish, char tls[4 * SERVER_PATH_ROOM])
{
    tls[0] = 0;
    if (wish->tls)
        snprintf(tls, 4 * SERVER_PATH_ROOM, "&ca=%s/ca.crt&cert=%s/client.crt&key=%s/client.key",
                 certificates, certificates, certificates);
}

static void make_url(const struct wish *wish, const struct server *server, uint16_t port,
                     char url[URL_ROOM])
{
    char login[128] = "", tls[4 * SERVER_PATH_ROOM];

    if (wish->rules)
        snprintf(login, sizeof login, "app:%s@", SECRET);
    else if (wish->password)
        snprintf(login, sizeof login, ":%s@", SECRET);
    tls_query(wish, tls);
    if (wish->by_socket)
        snprintf(url, URL_ROOM, "redis+unix://%s%s?prefix=hf:{id}:", login, server->socket);
    else
        snprintf(url, URL_ROOM, "redis%s://%s127.0.0.1:%u?prefix=hf:%s:%s", wish->tls ? "s" : "",
                 login, (unsigned)port, wish->tagged ? "{{id}}" : "{id}", tls);
}

/* Redlock: start the nodes, which server.h ends with us, and make their URL. */
static void start_nodes(const struct wish *wish, char url[URL_ROOM])
{
    char tls[4 * SERVER_PATH_ROOM];
    int len;

    tls_query(wish, tls);
    len = snprintf(url, URL_ROOM, "redlock%s://%s", wish->tls ? "s" : "",
                   wish->password ? ":" SECRET "@" : "");
    for (int i = 0; i < wish->nodes; i++) {
        const struct server *server = server_start(wish->options);

        len += snprintf(url + len, URL_ROOM - (size_t)len, "%s127.0.0.1:%u", i ? "," : "",
                        (unsigned)server->port);
    }
    snprintf(url + len, URL_ROOM - (size_t)len, "?prefix=hf:{id}:%s", tls);
}

static void add_query(const struct wish *wish, char url[URL_ROOM])
{
    size_t len = strlen(url);

    if (wish->query)
        snprintf(url + len, URL_ROOM - len, "&%s", wish->query);
}

static void export_server(const struct server *server)
{
    char port[16];

    snprintf(port, sizeof port, "%u", (unsigned)server->port);
    setenv("HOLDFAST_TEST_PORT", port, 1);
    setenv("HOLDFAST_TEST_SOCKET", server->socket, 1);
}

static void add_user(struct server *server, const char *rules)
{
    char command[1024];

    snprintf(command, sizeof command, "ACL SETUSER app reset on >%s %s", SECRET, rules);
    server_do(server, command);
}

/* ---- the command ------------------------------------------------------------------------------- */

static struct wish parse(int argc, char **argv)
{
    struct wish wish = { 0 };
    int option;

    while ((option = getopt(argc, argv, "+pu:txSCTR:f:o:q:")) != -1) {
        switch (option) {
        case 'p':
            wish.password = true;
            add_option(&wish, "--requirepass");
            add_option(&wish, SECRET);
            break;
        case 'u':
            wish.rules = optarg;
            break;
        case 't':
            wish.tls = true;
            break;
        case 'x':
            wish.by_socket = true;
            break;
        case 'S':
            wish.sentinel = true;
            break;
        case 'C':
            wish.cluster = true;
            break;
        case 'T':
            wish.tagged = true;
            break;
        case 'R':
            wish.nodes = atoi(optarg);
            if (wish.nodes < 1 || wish.nodes > NODES_MAX)
                give_up("with_server: -R: 1 to %d", NODES_MAX);
            break;
        case 'f':
            wish.seed = optarg;
            break;
        case 'o':
            add_option(&wish, optarg);
            break;
        case 'q':
            wish.query = optarg;
            break;
        default:
            exit(64);
        }
    }
    if (optind >= argc)
        give_up(
            "usage: with_server redis [-p] [-u RULES] [-t] [-x] [-T] [-S] [-C] [-R N] [-f SEED] "
            "[-o OPTION] [-q QUERY] COMMAND...");
    return wish;
}

int with_redis(int argc, char **argv)
{
    struct wish wish = parse(argc, argv);
    struct sentinel_set *set = NULL;
    struct cluster *cluster = NULL;
    struct server *server = NULL;
    struct proxy *proxy = NULL;
    struct chaos *chaos = NULL;
    char url[URL_ROOM];
    int status;

    if (wish.tls)
        make_certificates(&wish);
    if (wish.sentinel) {
        set = sentinel_start(2, 5000, wish.options);
        snprintf(url, sizeof url, "%s", sentinel_url(set, "?prefix=hf:{id}:"));
    } else if (wish.cluster) {
        cluster = cluster_start(wish.options);
        snprintf(url, sizeof url, "%s",
                 cluster_url(cluster, wish.tagged ? "?prefix=hf:{{id}}:" : "?prefix=hf:{id}:"));
    } else if (wish.nodes) {
        start_nodes(&wish, url);
    } else {
        server = server_start(wish.options);
        if (wish.password)
            server_login(server, "default", SECRET);
        if (wish.rules)
            add_user(server, wish.rules);
        if (wish.seed) {
            proxy = proxy_start(server->port);
            chaos = chaos_start(server, proxy, strtoull(wish.seed, NULL, 10));
        }
        make_url(&wish, server, proxy ? proxy_port(proxy) : server->port, url);
        export_server(server);
    }
    add_query(&wish, url);
    setenv("HOLDFAST_TEST_URL", url, 1);
    status = run_command(argv + optind, NULL, NULL);
    if (chaos)
        chaos_stop(chaos);
    proxy_stop(proxy);
    server_free(server);
    sentinel_free(set);
    cluster_free(cluster);
    if (certificates[0])
        remove_dir(certificates);
    return status;
}
