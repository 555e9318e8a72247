/* SPDX-License-Identifier: MIT */
/* holdfast-serve: what is checked before it listens, what is started, and in which order it ends. */
#include "options.h"
#include "util/url_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXIT_NO_INPUT 66
#define EXIT_INTERNAL 70
#define EXIT_CONFIG   78
#define PEM_MAX       65536

static int complain(int code, const char *what, const char *why)
{
    fprintf(stderr, "holdfast-serve: %s: %s\n", what, why);
    return code;
}

/* A PEM file as text, to be wiped and freed. */
static char *read_pem(const char *path, bool secret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat found;
    char *text = NULL;
    ssize_t got = -1;

    if (fd < 0 || fstat(fd, &found) != 0) {
        complain(0, path, strerror(errno));
    } else if (!S_ISREG(found.st_mode)) {
        complain(0, path, "not a regular file");
    } else if (secret && rights_exposed(path, &found)) {
        complain(0, path, "others may read the key: chmod 600");
    } else if ((text = calloc(1, PEM_MAX)) != NULL) {
        got = read(fd, text, PEM_MAX - 1);
    }
    if (fd >= 0)
        close(fd);
    if (text && got <= 0) {
        complain(0, path, "cannot be read");
        free(text);
        text = NULL;
    }
    return text;
}

/* What cannot be another site's name, and what the operator has named. Addresses need no entry. */
static void name_hosts(struct options *options, struct server *server)
{
    static const char *names[HOSTS_MAX + 2] = { "localhost" };
    size_t count = 1;

    if (options->listen.host[0])
        names[count++] = options->listen.host;
    for (size_t i = 0; i < options->host_count; i++)
        names[count++] = options->hosts[i];
    server->hosts = (struct hosts){ names, count };
}

/* On the thread of a source. */
static void source_changed(void *arg)
{
    struct server *server = arg;
    uint64_t one = 1;

    if (!atomic_exchange(&server->changed, true))
        (void)!write(server->wake_fd, &one, sizeof one);
}

static bool start_sources(struct server *server, const struct see_stores *stores)
{
    server->stores = calloc(stores->count, sizeof *server->stores);
    for (size_t i = 0; server->stores && i < stores->count; i++) {
        struct see_source_options options = { .name = stores->items[i].name,
                                              .url = stores->items[i].url,
                                              .changed = source_changed,
                                              .arg = server };
        struct store *store = &server->stores[i];

        store->server = server;
        store->index = (unsigned)i;
        store->source = see_source_start(&options);
        if (!store->source)
            return false;
        server->store_count++;
    }
    return server->stores != NULL;
}

static void stop_sources(struct server *server)
{
    for (size_t i = 0; i < server->store_count; i++) {
        struct store *store = &server->stores[i];

        see_source_stop(store->source);
        for (size_t c = 0; c < CACHE_SIZE; c++)
            piece_drop(store->cache[c].piece);
        piece_drop(store->graph);
        free(store->by_name);
    }
    free(server->stores);
}

static int read_rights(const struct options *options, struct server *server)
{
    char why[512];

    server->rights_path = options->tokens;
    if (!options->tokens)
        return rights_default(&server->rights) ? -1 : EXIT_INTERNAL;
    if (rights_read(options->tokens, &server->rights, why, sizeof why))
        return -1;
    return complain(EXIT_CONFIG, "--tokens", why);
}

static int open_listener(const struct options *options, int *ret_fd)
{
    char why[256], shown[300];
    bool loopback = false;
    int fd = listen_open(&options->listen, &loopback, why, sizeof why);

    if (fd < 0)
        return complain(EXIT_NO_INPUT, "--listen", why);
    if (!loopback && !(options->cert && options->tokens) && !options->allow_insecure) {
        close(fd);
        return complain(EXIT_CONFIG, "--listen",
                        "others can reach that address: --tokens, --cert and --key are needed "
                        "(or --allow-insecure)");
    }
    listen_shown(fd, &options->listen, shown, sizeof shown);
    /* For people, and for scripts that asked for port 0. */
    if (options->listen.path[0])
        printf("holdfast serve: listening on %s\n", shown);
    else
        printf("holdfast serve: listening on http%s://%s/\n", options->cert ? "s" : "", shown);
    fflush(stdout);
    *ret_fd = fd;
    return -1;
}

/* Connections, stores and streams all need descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Before any thread starts: they inherit it. */
static void block_signals(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int serve(struct server *server, const struct options *options, const char *cert,
                 const char *key)
{
    int fd = -1;
    int code = open_listener(options, &fd);

    if (code != -1)
        return code;
    if (http_start(server, fd, cert, key)) {
        code = loop_run(server);
        http_stop(server);
    } else {
        code = complain(EXIT_CONFIG, "HTTP",
                        cert ? "cannot start: is it a certificate and its key?" : "cannot start");
    }
    close(fd);
    if (options->listen.path[0])
        unlink(options->listen.path);
    return code;
}

static int run(struct server *server, const struct options *options)
{
    char *cert = options->cert ? read_pem(options->cert, false) : NULL;
    char *key = options->key ? read_pem(options->key, true) : NULL;
    int code = EXIT_CONFIG;

    if (!options->cert || (cert && key))
        code = serve(server, options, cert, key);
    if (key)
        explicit_bzero(key, PEM_MAX);
    free(cert);
    free(key);
    return code;
}

/* A copy of a URL behind the last one; the password in the original, which ps(1) shows, is overwritten. */
static const char *keep_url(struct see_stores *stores, char *url)
{
    size_t len = url ? strlen(url) + 1 : 0;
    char *copy = stores->bytes + stores->size;

    if (!url)
        return NULL;
    memcpy(copy, url, len);
    stores->size += len;
    hfi_url_wipe(url);
    return copy;
}

static const char *find_stores(const struct options *options, struct see_stores *ret_stores)
{
    struct see_stores stores = { .count = 0 };
    char *from_environment = options->store_count > 0 ? NULL : getenv("HOLDFAST_STORE");
    size_t room = from_environment ? strlen(from_environment) + 1 : 1;

    if (options->stores_fd >= 0)
        return see_stores_read(options->stores_fd, ret_stores);
    for (size_t i = 0; i < options->store_count; i++)
        room += strlen(options->stores[i]) + 1;
    stores.bytes = malloc(room); /* see_stores_done() wipes it */
    if (!stores.bytes)
        return "out of memory";
    for (size_t i = 0; i < options->store_count; i++) {
        stores.items[stores.count].name = "";
        stores.items[stores.count++].url = keep_url(&stores, options->stores[i]);
    }
    if (stores.count == 0) {
        stores.items[0].name = "";
        stores.items[0].url = keep_url(&stores, from_environment);
        stores.count = 1;
    }
    *ret_stores = stores;
    return NULL;
}

int main(int argc, char **argv)
{
    struct server server = { .started_ms = see_now_ms() };
    static struct options options; /* name_hosts() keeps what it names */
    struct see_stores stores;
    const char *wrong;
    int code = options_parse(argc, argv, &options);

    if (code != -1)
        return code;
    block_signals();
    raise_limit();
    server.limits = options.limits;
    name_hosts(&options, &server);
    server.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server.epoll_fd < 0 || server.wake_fd < 0)
        return complain(EXIT_INTERNAL, "epoll", strerror(errno));
    wrong = find_stores(&options, &stores);
    if (wrong)
        return complain(EXIT_CONFIG, "stores", wrong);
    code = read_rights(&options, &server);
    if (code == -1 && !start_sources(&server, &stores))
        code = complain(EXIT_INTERNAL, "stores", "no memory or no thread");
    see_stores_done(&stores);
    if (code == -1)
        code = run(&server, &options);
    stop_sources(&server);
    rights_done(&server.rights);
    close(server.wake_fd);
    close(server.epoll_fd);
    return code;
}
