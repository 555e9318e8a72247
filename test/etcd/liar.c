/* SPDX-License-Identifier: MIT */
/*
 * A server that plays a script instead of being etcd: answers that are no JSON, cut, empty, of the
 * wrong shape, or not even HTTP. Whatever it says, we end with a status that fits, in bounded time, and
 * believe nothing.
 */
#include "contract.h"
#include "server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RULES_MAX 8
#define QUERY     "?connect_timeout=500ms&op_timeout=250ms&ping=200ms"

struct rule {
    const char *path, *reply; /* raw; NULL: the connection is closed */
};

static struct rule rules[RULES_MAX + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint16_t port;

#define OK(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" body
#define HEADER   "\"header\":{\"revision\":\"7\",\"raft_term\":\"2\"}"

static const char *reply_to(const char *request)
{
    const char *reply = NULL;

    pthread_mutex_lock(&lock);
    for (const struct rule *rule = rules; rule->path; rule++)
        if (strstr(request, rule->path)) {
            reply = rule->reply;
            break;
        }
    pthread_mutex_unlock(&lock);
    return reply;
}

/* One request, one answer, and the end of the connection is the end of the answer. */
static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char request[8192];
    size_t len = 0;
    const char *body, *reply, *field;
    ssize_t got;

    while ((got = read(fd, request + len, sizeof request - 1 - len)) > 0) {
        len += (size_t)got;
        request[len] = 0;
        body = strstr(request, "\r\n\r\n");
        field = strstr(request, "Content-Length: ");
        if (!body || !field || strlen(body + 4) < (size_t)atoi(field + 16))
            continue;
        reply = reply_to(request);
        if (reply && write(fd, reply, strlen(reply)) < 0)
            break;
        break;
    }
    close(fd);
    return NULL;
}

static void *listen_on(void *arg)
{
    int fd = (int)(intptr_t)arg, client;
    pthread_t thread;

    while ((client = accept(fd, NULL, NULL)) >= 0) {
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) != 0)
            close(client);
        else
            pthread_detach(thread);
    }
    return NULL;
}

static void start(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t thread;

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, listen_on, (void *)(intptr_t)fd) != 0)
        give_up("no listener");
    pthread_detach(thread);
    port = ntohs(address.sin_port);
}

static void say(const struct rule *list)
{
    size_t count = 0;

    pthread_mutex_lock(&lock);
    for (; list && list[count].path; count++)
        rules[count] = list[count];
    rules[count++] =
        (struct rule){ "/v3/lease/grant", OK("{" HEADER ",\"ID\":\"99\",\"TTL\":\"30\"}") };
    rules[count++] = (struct rule){ "/v3/kv/range", OK("{" HEADER "}") };
    rules[count] = (struct rule){ NULL, NULL };
    pthread_mutex_unlock(&lock);
}

static hf_status open_at(const char *host, int64_t wait_ms, hf_store **ret_store)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    char url[128];

    options.open_wait_ms = wait_ms;
    snprintf(url, sizeof url, "etcd://%s:%u/x" QUERY, host, (unsigned)port);
    return hf_open(url, &options, ret_store, &contract_error);
}

static hf_status open_it(int64_t wait_ms, hf_store **ret_store)
{
    return open_at("127.0.0.1", wait_ms, ret_store);
}

/* ---- names ------------------------------------------------------------------------------------------- */

/* The socket by which libcurl hears of its last lookup, and whether anything watches it. */
static atomic_int lookup_fd = -1;
static atomic_bool lookup_watched;
static atomic_int lookups, unheard;

__attribute__((visibility("default"))) int socketpair(int domain, int type, int protocol,
                                                      int ret_fds[2])
{
    int rc = (int)syscall(SYS_socketpair, domain, type, protocol, ret_fds);

    atomic_store(&lookup_watched, false);
    atomic_store(&lookup_fd, rc == 0 ? ret_fds[0] : -1);
    return rc;
}

__attribute__((visibility("default"))) int epoll_ctl(int epoll_fd, int what, int fd,
                                                     struct epoll_event *event)
{
    int rc = (int)syscall(SYS_epoll_ctl, epoll_fd, what, fd, event);

    if (rc == 0 && what == EPOLL_CTL_ADD && fd == atomic_load(&lookup_fd))
        atomic_store(&lookup_watched, true);
    return rc;
}

/* Seen from libcurl, which asks. A name is known at the fourth lookup only; none ends before its socket is watched. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
    struct sockaddr_in *to = (struct sockaddr_in *)(info + 1);

    (void)hints;
    if (!info)
        return EAI_MEMORY;
    for (int i = 0; i < 200 && !atomic_load(&lookup_watched); i++)
        nap_ms(10);
    if (!atomic_load(&lookup_watched))
        atomic_fetch_add(&unheard, 1);
    if (strcmp(node, "late.test") != 0 || atomic_fetch_add(&lookups, 1) < 3) {
        free(info);
        return EAI_AGAIN;
    }
    to->sin_family = AF_INET;
    to->sin_port = htons(service ? (uint16_t)atoi(service) : 0);
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info->ai_family = AF_INET;
    info->ai_socktype = SOCK_STREAM;
    info->ai_protocol = IPPROTO_TCP;
    info->ai_addr = (struct sockaddr *)to;
    info->ai_addrlen = sizeof *to;
    *ret = info;
    return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *info)
{
    free(info);
}

/* libcurl has a socket of its own for each lookup and closes it without a word. The next lookup gets the same number,
 * and that must be watched too. */
static void name_known_later(void **state)
{
    hf_store *store = NULL;

    (void)state;
    say(NULL);
    EXPECT(HF_OK, open_at("late.test", LIMIT_MS, &store));
    CHECK(atomic_load(&lookups) == 4 && atomic_load(&unheard) == 0);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

/* What no server should say, whatever was asked. */
static const char *const nonsense[] = {
    NULL,
    "",
    "lol\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"header\":",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    OK(""),
    OK("{"),
    OK("[1,2]"),
    OK("<html>sign in</html>"),
    "HTTP/1.1 500 Oops\r\n\r\n",
    "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":\"etcdserver: no leader\",\"code\":14}",
    "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
};
#define NONSENSE (sizeof nonsense / sizeof *nonsense)

static void opening(void **state)
{
    hf_store *store = NULL;

    (void)state;
    for (size_t i = 0; i < NONSENSE; i++) {
        say((struct rule[]){ { "POST", nonsense[i] }, { NULL, NULL } });
        EXPECT(HF_UNAVAILABLE, open_it(300, &store));
        CHECK(strstr(contract_error.text, "127.0.0.1") != NULL);
    }
    say((struct rule[]){ { "POST", "HTTP/1.1 404 Not Found\r\n\r\n404 page not found" },
                         { NULL, NULL } });
    EXPECT(HF_VERSION, open_it(300, &store));
    say((struct rule[]){ { "POST", "HTTP/1.1 403 Forbidden\r\n\r\n{\"error\":\"etcdserver: "
                                   "permission denied\",\"code\":7}" },
                         { NULL, NULL } });
    EXPECT(HF_DENIED, open_it(300, &store));
}

static const char *const wrong_shapes[] = {
    OK("{}"),
    OK("{\"header\":5,\"succeeded\":\"yes\",\"responses\":7}"),
    OK("{\"succeeded\":true}"),
    OK("{" HEADER ",\"succeeded\":true,\"responses\":[]}"),
    OK("{" HEADER ",\"responses\":[{\"response_put\":{}}]}"),
    OK("{\"header\":{\"revision\":\"-3\"},\"succeeded\":true,\"responses\":[{},{\"response_range\":"
       "{}}]}"),
    OK("{\"header\":{\"revision\":\"9007199254740993\"},\"succeeded\":true,\"responses\":[{},"
       "{\"response_range\":{\"kvs\":[{\"key\":\"??\",\"create_revision\":\"x\"}]}}]}"),
};

/* The transaction of an acquire is answered so. Nothing is granted on such a word. */
static void acquire_with(const char *reply)
{
    hf_acquire_request request = mutex_request("n");
    hf_store *store = NULL;
    hf_lease *lease = NULL;
    hf_status status;

    say((struct rule[]){ { "/v3/kv/txn", reply }, { NULL, NULL } });
    EXPECT(HF_OK, open_it(LIMIT_MS, &store));
    request.wait_ms = 200;
    status = hf_acquire(store, &request, &lease, &contract_error);
    CHECK(status != HF_OK && lease == NULL);
    CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
}

static void acquiring(void **state)
{
    (void)state;
    for (size_t i = 0; i < NONSENSE; i++)
        acquire_with(nonsense[i]);
    for (size_t i = 0; i < sizeof wrong_shapes / sizeof *wrong_shapes; i++)
        acquire_with(wrong_shapes[i]);
}

/* A grant of a lease that is none, and a list that is none. */
static void others(void **state)
{
    static const char *const paths[] = { "/v3/lease/grant", "/v3/kv/range" };

    (void)state;
    for (size_t p = 0; p < 2; p++)
        for (size_t i = 5; i < NONSENSE; i += 2) {
            hf_acquire_request request = mutex_request("n");
            hf_store *store = NULL;
            hf_lease *lease = NULL;
            hf_view *view = NULL;
            hf_status status;

            say(NULL);
            EXPECT(HF_OK, open_it(LIMIT_MS, &store));
            say((struct rule[]){
                { paths[p], nonsense[i] }, { "/v3/kv/txn", wrong_shapes[0] }, { NULL, NULL } });
            request.wait_ms = 100;
            CHECK(hf_acquire(store, &request, &lease, &contract_error) != HF_OK);
            status = hf_store_inspect(store, "n", 1, 0, &view, &contract_error);
            CHECK(p == 0 ? status == HF_OK : status == HF_UNAVAILABLE);
            hf_free(view);
            CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
        }
}

/* Pages that say that there is more, but not where; and one that comes again. Its key is x/locks/none, which is no claim. */
static void pages(void **state)
{
    static const char *const replies[] = {
        OK("{" HEADER ",\"more\":true}"),
        OK("{" HEADER ",\"more\":true,\"kvs\":[{\"key\":7}]}"),
        OK("{" HEADER ",\"more\":true,\"kvs\":[{\"key\":\"??\"}]}"),
        OK("{" HEADER ",\"more\":true,\"kvs\":[{\"key\":\"eC9sb2Nrcy9ub25l\"}]}"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        hf_store *store = NULL;
        hf_view *view = NULL;

        say(NULL);
        EXPECT(HF_OK, open_it(LIMIT_MS, &store));
        say((struct rule[]){ { "/v3/kv/range", replies[i] }, { NULL, NULL } });
        EXPECT(HF_CORRUPT,
               hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
        CHECK(view == NULL);
        CHECK(hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(opening), cmocka_unit_test(acquiring),
                                        cmocka_unit_test(others), cmocka_unit_test(pages),
                                        cmocka_unit_test(name_known_later) };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    start();
    contract_alone = false;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
