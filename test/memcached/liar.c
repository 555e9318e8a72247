/* SPDX-License-Identifier: MIT */
/*
 * A server that plays a script: replies that are malformed, those to another command, those that no
 * command gets. None is taken for a grant; the connection is closed, and another one made.
 */
#include "memcached_bed.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GREETING \
    "VERSION 1.6.18\r\nMN\r\nSTAT pid 1\r\nSTAT uptime 5\r\nSTAT time 1000000\r\nEND\r\n"

#define STALL_US 700000 /* longer than what the engine takes for a server that was stopped */

/* ---- the liar ------------------------------------------------------------------------------------ */

struct liar {
    int fd;
    uint16_t port;
    const char *greeting;
    const char *reply; /* to each command; "{O}" becomes the command's number */
    bool stalls;       /* the first connection: its first reply comes late, and then it is closed */
    _Atomic unsigned connections, heard;
    _Atomic unsigned swaps; /* by a CAS number, on later connections */
    _Atomic bool stop;
    pthread_t thread;
};

static bool readable(const struct liar *liar, int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };

    while (!liar->stop)
        if (poll(&ready, 1, 20) > 0)
            return true;
    return false;
}

static void say(int fd, const char *text, const char *command)
{
    char said[4096], number[32] = "0";
    const char *mark = strstr(text, "{O}"), *opaque = strstr(command, " O");

    if (opaque)
        snprintf(number, sizeof number, "%.*s", (int)strcspn(opaque + 2, " \r"), opaque + 2);
    if (mark)
        snprintf(said, sizeof said, "%.*s%s%s", (int)(mark - text), text, number, mark + 3);
    else
        snprintf(said, sizeof said, "%s", text);
    if (send(fd, said, strlen(said), MSG_NOSIGNAL) < 0)
        return; /* it has gone */
}

/* One connection: the greeting, then the reply to every first line of a command. */
static void serve(struct liar *liar, int fd)
{
    char heard[8192];
    size_t len = 0;
    bool greeted = false;

    while (readable(liar, fd)) {
        ssize_t got = recv(fd, heard + len, sizeof heard - len - 1, 0);

        if (got <= 0)
            return;
        len += (size_t)got;
        heard[len] = 0;
        if (!greeted && strstr(heard, "stats\r\n")) {
            say(fd, liar->greeting, "");
            greeted = true;
            len = 0;
        } else if (greeted && strstr(heard, "\r\n")) {
            liar->heard++;
            if (liar->stalls && liar->connections > 1)
                liar->swaps += strncmp(heard, "ms ", 3) == 0 && strstr(heard, " C") != NULL;
            if (liar->stalls && liar->connections == 1) {
                usleep(STALL_US);
                say(fd, liar->reply, heard);
                return;
            }
            say(fd, liar->reply, heard);
            len = 0;
        }
    }
}

static void *run(void *arg)
{
    struct liar *liar = arg;

    while (readable(liar, liar->fd)) {
        int fd = accept4(liar->fd, NULL, NULL, SOCK_CLOEXEC);

        liar->connections++;
        serve(liar, fd);
        close(fd);
    }
    return NULL;
}

static void liar_start(struct liar *liar, const char *greeting, const char *reply)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;

    *liar = (struct liar){ .greeting = greeting, .reply = reply };
    liar->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(liar->fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(liar->fd, 8) == 0);
    CHECK(getsockname(liar->fd, (struct sockaddr *)&at, &len) == 0);
    liar->port = ntohs(at.sin_port);
    CHECK(pthread_create(&liar->thread, NULL, run, liar) == 0);
}

static void liar_stop(struct liar *liar)
{
    liar->stop = true;
    pthread_join(liar->thread, NULL);
    close(liar->fd);
}

/* ---- replies ----------------------------------------------------------------------------------------- */

static hf_status acquire_from(const char *reply, struct liar *liar)
{
    hf_acquire_request request = mutex_request("n");
    char url[128];
    hf_store *at;
    hf_lease *lease = NULL;
    hf_status status;

    liar_start(liar, GREETING, reply);
    snprintf(url, sizeof url, "memcached://127.0.0.1:%u?op_timeout=200ms&connect_timeout=500ms",
             (unsigned)liar->port);
    at = open_at(url);
    status = hf_acquire(at, &request, &lease, &contract_error);
    CHECK((status == HF_OK) == (lease != NULL));
    hf_close(at, HF_CLOSE_FLAG_RELEASE);
    liar_stop(liar);
    return status;
}

static void the_truth_is_believed(void **state)
{
    struct liar liar;

    (void)state;
    EXPECT(HF_OK, acquire_from("HD c5 O{O}\r\n", &liar));
    CHECK(liar.connections == 1);
}

static const char *const lies[] = {
    "OK\r\n",                   /* of another protocol */
    "HD c5\r\n",                /* without the number of the command */
    "HD c5 O999999\r\n",        /* with another's */
    "HD cx O{O}\r\n",           /* a CAS number that is none */
    "HD c5 O{O}\n",             /* without its carriage return */
    "HD c5 O{O}",               /* without its end */
    "VA 3 c5 O{O}\r\nabcd\r\n", /* longer than it says */
    "VA 99999999999 O{O}\r\n",  /* longer than anything */
    "STORED\r\n",
    "STAT pid 1\r\n",
    "END\r\n",
    "key=hf%3An exp=1\n",
    "CLIENT_ERROR bad data chunk\r\n",
    "\r\n\r\n\r\n",
    "-ERR unknown command\r\n",
};

static void *is_not_believed(void *arg)
{
    const char *lie = *(const char *const *)arg;
    struct liar liar;
    hf_status status = acquire_from(lie, &liar);

    if (!is_settled_later(status) || liar.connections < 2) /* another is made to settle it */
        give_up("%s: %s %s, %u connections", lie, hf_status_name(status), contract_error.text,
                liar.connections);
    return NULL;
}

/* All at once: each takes as long as a server is given to answer. */
static void lies_are_not(void **state)
{
    pthread_t threads[sizeof lies / sizeof *lies];

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        CHECK(pthread_create(&threads[i], NULL, is_not_believed, (void *)&lies[i]) == 0);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        pthread_join(threads[i], NULL);
}

/* A grant is one, and what nobody asked for after it ends the connection. */
/* A grant that came late is to be renewed once more before it counts. Its connection is gone by then, and with it the
 * meaning of its CAS number: a restarted server may have given the same number to the lease of another client. */
static void numbers_end_with_their_connection(void **state)
{
    hf_acquire_request request = mutex_request("n");
    struct liar liar;
    hf_lease *lease = NULL;
    hf_status status;
    hf_store *at;
    char url[128];

    (void)state;
    liar_start(&liar, GREETING, "HD c5 O{O}\r\n");
    liar.stalls = true;
    snprintf(url, sizeof url, "memcached://127.0.0.1:%u?op_timeout=3s", (unsigned)liar.port);
    at = open_at(url);
    status = hf_acquire(at, &request, &lease, &contract_error);
    CHECK((status == HF_OK) == (lease != NULL));
    CHECK(liar.connections > 1);
    CHECK(liar.swaps == 0);
    hf_close(at, HF_CLOSE_FLAG_RELEASE);
    liar_stop(&liar);
}

static void too_much_is_not_kept(void **state)
{
    struct liar liar;
    hf_status status = acquire_from("HD c5 O{O}\r\nHD c6 O1\r\nHD c7 O1\r\n", &liar);

    (void)state;
    CHECK(status == HF_OK || is_settled_later(status));
}

/* No memory is no grant, and the connection is as good as before. */
static void refusals_are_typed(void **state)
{
    struct liar liar;

    (void)state;
    EXPECT(HF_FULL, acquire_from("SERVER_ERROR out of memory storing object\r\n", &liar));
    CHECK(liar.connections == 1);
}

/* ---- greetings ---------------------------------------------------------------------------------------- */

static void greetings(void **state)
{
    static const struct {
        const char *greeting;
        hf_status status;
        const char *says;
    } cases[] = {
        { "VERSION 1.5.22\r\nERROR\r\nEND\r\n", HF_VERSION, "1.6" },
        { "VERSION 1.6.3\r\nEN\r\n", HF_VERSION, "newer" },
        { "VERSION 1.6.18\r\nERROR\r\n", HF_VERSION, "meta" },
        { "CLIENT_ERROR unauthenticated\r\n", HF_DENIED, "user" },
        { "HTTP/1.1 400 Bad Request\r\n", HF_UNAVAILABLE, "not a reply" },
        { "VERSION 1.6.18\r\nMN\r\nEND\r\n", HF_UNAVAILABLE, "uptime" },
        { "MN\r\n", HF_UNAVAILABLE, "greeting" },
        { "", HF_UNAVAILABLE, "" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hf_open_options options = HF_OPEN_OPTIONS_INIT;
        struct liar liar;
        hf_store *none = NULL;

        options.open_wait_ms = 300;
        liar_start(&liar, cases[i].greeting, "");
        EXPECT(cases[i].status,
               hf_open(cache_url(liar.port, ""), &options, &none, &contract_error));
        if (!strstr(contract_error.text, cases[i].says))
            fail_msg("%s: %s", cases[i].greeting, contract_error.text);
        liar_stop(&liar);
    }
}

static int begin(void **state)
{
    (void)state;
    cache = cache_start(NULL); /* contract.c wants some store */
    contract_begin(cache_url(cache->port, ""), false);
    contract_setup(NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    cache_free(cache);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_is_believed),
        cmocka_unit_test(lies_are_not),
        cmocka_unit_test(numbers_end_with_their_connection),
        cmocka_unit_test(too_much_is_not_kept),
        cmocka_unit_test(refusals_are_typed),
        cmocka_unit_test(greetings),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, begin, end);
}
