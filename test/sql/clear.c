/* SPDX-License-Identifier: MIT */
/*
 * A server that asks for the password in clear text does not get it. It speaks just enough of MariaDB's protocol: a greeting,
 * then the request to log in by another plugin; what the client says after that is looked at.
 * Without TLS that server may be an attacker in between.
 */
#include "contract.h"
#include "server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECRET "TopSecretPw"

struct liar {
    int fd;
    uint16_t port;
    const char *greets,
        *asks; /* plugins: of the greeting, and of the request to change; NULL: no request */
    pthread_t thread;
    char heard[8192]; /* all that clients said */
    size_t len;
    unsigned clients;
};

static void put(int fd, unsigned char number, const char *body, size_t len)
{
    char packet[512];

    packet[0] = (char)len;
    packet[1] = (char)(len >> 8);
    packet[2] = 0;
    packet[3] = (char)number;
    memcpy(packet + 4, body, len);
    (void)!write(fd, packet, len + 4);
}

/* What the client says next, within a second or two: it may well say nothing. */
static bool hear(struct liar *liar, int fd)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    ssize_t n = 0;

    if (poll(&polled, 1, 2000) > 0 && liar->len < sizeof liar->heard)
        n = read(fd, liar->heard + liar->len, sizeof liar->heard - liar->len);
    if (n > 0)
        liar->len += (size_t)n;
    return n > 0;
}

static void talk(struct liar *liar, int fd)
{
    /* Version 10, a name, thread 7, 8 bytes of challenge, capabilities, utf8, status, more capabilities, 12 bytes more. */
    static const char head[] =
        "\x0a"
        "5.5.5-10.11.6-MariaDB\0\7\0\0\0abcdefgh\0\xfe\xf7\x2d\2\0\xff\x81\x15"
        "\0\0\0\0\0\0\0\0\0\0ijklmnopqrst";
    char body[256], asked[128];
    size_t len = sizeof head;
    int n;

    memcpy(body, head, sizeof head);
    body[sizeof head - 1] = 0;
    /* No TLS: what a client may want of it is not there. */
    strcpy(body + len, liar->greets);
    len += strlen(liar->greets) + 1;
    put(fd, 0, body, len);
    if (!hear(liar, fd) || !liar->asks)
        return;
    n = snprintf(asked, sizeof asked, "\xfe%s", liar->asks);
    memcpy(asked + n + 1, "abcdefghijklmnopqrst", 21);
    put(fd, 2, asked, (size_t)n + 22);
    while (hear(liar, fd))
        put(fd, 4, "\1\4", 2); /* "send all of it": what caching_sha2_password knows */
}

static void *serve(void *arg)
{
    struct liar *liar = arg;
    int fd;

    while ((fd = accept(liar->fd, NULL, NULL)) >= 0) {
        liar->clients++;
        talk(liar, fd);
        close(fd);
    }
    return NULL;
}

static void begin(struct liar *liar)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof address;

    liar->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(liar->fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(liar->fd, 16) == 0);
    CHECK(getsockname(liar->fd, (struct sockaddr *)&address, &len) == 0);
    liar->port = ntohs(address.sin_port);
    CHECK(pthread_create(&liar->thread, NULL, serve, liar) == 0);
}

static hf_status try_it(struct liar *liar, const char *more)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;
    char url[256];
    hf_status status;

    begin(liar);
    options.open_wait_ms = 5000; /* what is denied is denied at once */
    snprintf(url, sizeof url, "mariadb://app:" SECRET "@127.0.0.1:%u/test%s", (unsigned)liar->port,
             more);
    contract_error.text[0] = 0;
    status = hf_open(url, &options, &store, &contract_error);
    shutdown(liar->fd, SHUT_RDWR);
    pthread_join(liar->thread, NULL);
    close(liar->fd);
    CHECK(store == NULL);
    CHECK(liar->clients > 0);
    return status;
}

static void never_in_clear(const char *greets, const char *asks, const char *more)
{
    struct liar liar = { .greets = greets, .asks = asks };
    hf_status status = try_it(&liar, more);

    CHECK(memmem(liar.heard, liar.len, SECRET, strlen(SECRET)) == NULL);
    if (status != HF_DENIED || !strstr(contract_error.text, "tls=on"))
        fprintf(stderr, "%s\n", contract_error.text);
    CHECK(status == HF_DENIED);
    CHECK(strstr(contract_error.text, "tls=on") != NULL);
}

static void asked_for_clear_text(void **state)
{
    (void)state;
    never_in_clear("mysql_native_password", "mysql_clear_password", "");
}

static void greeted_with_clear_text(void **state)
{
    (void)state;
    never_in_clear("mysql_clear_password", "mysql_clear_password", "");
}

static void asked_for_a_dialog(void **state)
{
    (void)state;
    never_in_clear("mysql_native_password", "dialog", "");
}

/* They encrypt it with a key that the server sends: without TLS, anybody's. */
static void asked_to_encrypt_it_for_anybody(void **state)
{
    (void)state;
    never_in_clear("mysql_native_password", "caching_sha2_password", "");
    never_in_clear("mysql_native_password", "sha256_password", "");
}

/* The challenge is answered, and not by the password. */
static void challenged(void **state)
{
    struct liar liar = { .greets = "mysql_native_password", .asks = "mysql_native_password" };

    (void)state;
    (void)try_it(&liar, "");
    CHECK(liar.len > 60);
    CHECK(memmem(liar.heard, liar.len, SECRET, strlen(SECRET)) == NULL);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest cases[] = {
        cmocka_unit_test(challenged),
        cmocka_unit_test(asked_for_clear_text),
        cmocka_unit_test(greeted_with_clear_text),
        cmocka_unit_test(asked_for_a_dialog),
        cmocka_unit_test(asked_to_encrypt_it_for_anybody),
    };

    signal(SIGPIPE, SIG_IGN);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
