/* SPDX-License-Identifier: MIT */
/*
 * Links over TLS: accepted and refused connections with their reasons, and records that come in
 * pieces.
 */
#include "bed.h"
#include "certs.h"
#include "proxy.h"
#include "redis_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[] = "/tmp/holdfast-tls-XXXXXX";

static struct server *start(const char *cert, const char *clients)
{
    char cert_file[200], key_file[200], ca_file[200];

    snprintf(cert_file, sizeof cert_file, "%s/%s.pem", dir, cert);
    snprintf(key_file, sizeof key_file, "%s/%s.key", dir, cert);
    snprintf(ca_file, sizeof ca_file, "%s/ca.pem", dir);
    return server_start((const char *[]){ "--tls-cert-file", cert_file, "--tls-key-file", key_file,
                                          "--tls-ca-cert-file", ca_file, "--tls-auth-clients",
                                          clients, NULL });
}

static const char *url_of(const char *host, unsigned port, const char *rest)
{
    static char url[1000];

    snprintf(url, sizeof url, "rediss://%s:%u%s%sca=%s/ca.pem", host, port, rest,
             strchr(rest, '?') ? "&" : "?", dir);
    return url;
}

static void ping(struct bed *bed)
{
    struct call call;

    CALL(bed, &call, "PING");
    bed_until_answered(bed, &call);
    assert_string_equal(call.text, "PONG");
}

static void good(void **state)
{
    struct server *server = start("good", "no");
    struct bed bed;
    struct call call;
    size_t size = 20 << 20;
    char *value = malloc(size + 1);

    (void)state;
    bed_init(&bed, url_of("127.0.0.1", server->port, "/2?op_timeout=1m"), false);
    bed_open_up(&bed);
    for (int i = 0; i < 100; i++)
        ping(&bed);

    memset(value, 'v', size);
    value[size] = 0;
    CALL(&bed, &call, "SET", "big", value);
    bed_until_answered(&bed, &call);
    CALL(&bed, &call, "GET", "big");
    bed_until_answered(&bed, &call);
    assert_int_equal(call.type, HFI_REPLY_TEXT);
    free(value);

    for (int i = 0; i < 100; i++) {
        CALL(&bed, &call, "INCR", "n");
        while (call.answers == 0) {
            hfi_stream_read(&hfi_link_stream(bed.link)->source, true);
            hfi_stream_ready(&hfi_link_stream(bed.link)->source, -1, 0, 0);
        }
        assert_int_equal(call.integer, i + 1);
    }

    server_kill(server);
    bed_until_down(&bed);
    assert_int_equal(bed.status, HF_UNAVAILABLE);
    server_restart(server);
    bed_open_up(&bed);
    ping(&bed);
    bed_done(&bed);

    /* By name, which is looked up by another thread. */
    bed_init(&bed, url_of("localhost", server->port, ""), false);
    bed_open_up(&bed);
    ping(&bed);
    bed_done(&bed);
    server_free(server);
}

static void strangers(void **state)
{
    static const struct {
        const char *cert, *host, *rest, *why; /* NULL: it is let in */
    } cases[] = {
        { "other", "127.0.0.1", "", "certificate: IP address mismatch" },
        { "other", "localhost", "", "certificate: hostname mismatch" },
        { "other", "127.0.0.1", "?sni=elsewhere.example", NULL },
        { "other", "127.0.0.1", "?verify=off", NULL },
        { "bare", "localhost", "", "certificate: hostname mismatch" },
        { "over", "127.0.0.1", "", "certificate: certificate has expired" },
        { "over", "127.0.0.1", "?verify=off", NULL },
        { "good", "localhost", "?sni=127.0.0.1", NULL },
    };
    struct server *server = NULL;
    const char *cert = "";

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bed bed;

        if (strcmp(cert, cases[i].cert) != 0) {
            server_free(server);
            server = start(cases[i].cert, "no");
            cert = cases[i].cert;
        }
        bed_init(&bed, url_of(cases[i].host, server->port, cases[i].rest), false);
        if (cases[i].why)
            bed_open_down(&bed, HF_DENIED, cases[i].why);
        else
            bed_open_up(&bed);
        bed_done(&bed);
    }

    /* An authority that nobody here knows. */
    {
        char url[100];
        struct bed bed;

        snprintf(url, sizeof url, "rediss://127.0.0.1:%u", server->port);
        bed_init(&bed, url, false);
        bed_open_down(&bed, HF_DENIED, "the server's certificate: ");
        bed_done(&bed);
        snprintf(url, sizeof url, "redis://127.0.0.1:%u?tls=on&verify=off", server->port);
        bed_init(&bed, url, false);
        bed_open_up(&bed);
        bed_done(&bed);
    }
    server_free(server);
}

static void clients(void **state)
{
    struct server *server = start("good", "yes");
    char rest[300];
    struct bed bed;

    (void)state;
    bed_init(&bed, url_of("127.0.0.1", server->port, ""), false);
    bed_open_down(&bed, HF_DENIED, "TLS: ");
    bed_done(&bed);
    snprintf(rest, sizeof rest, "?cert=%s/client.pem&key=%s/client.key", dir, dir);
    bed_init(&bed, url_of("127.0.0.1", server->port, rest), true);
    bed_open_up(&bed);
    bed_done(&bed);
    server_free(server);
}

static void at_cross_purposes(void **state)
{
    struct server *plain = server_start(NULL), *tls = start("good", "no");
    char url[100];
    struct bed bed;

    (void)state;
    bed_init(&bed, url_of("127.0.0.1", plain->port, "?connect_timeout=3s"), false);
    bed_open_down(&bed, HF_UNAVAILABLE, "TLS");
    bed_done(&bed);
    snprintf(url, sizeof url, "redis://127.0.0.1:%u", tls->port);
    bed_init(&bed, url, false);
    bed_open_down(&bed, HF_UNAVAILABLE, "");
    bed_done(&bed);
    server_free(plain);
    server_free(tls);
}

/* Records in pieces, and cut at places all over the handshake and the greeting. */
static void pieces(void **state)
{
    struct server *server = start("good", "no");
    struct proxy *proxy = proxy_start(server->port);
    struct bed bed;
    unsigned ups = 0;

    (void)state;
    bed_init(&bed, url_of("127.0.0.1", proxy_port(proxy), "?connect_timeout=1m&op_timeout=1m"),
             false);
    proxy_drip(proxy, PROXY_DOWN, 7);
    bed_open_up(&bed);
    ping(&bed);
    hfi_link_close(bed.link);
    proxy_heal(proxy);

    for (int64_t cut = 0; cut < 6000; cut += cut < 10 ? 1 : 97) {
        proxy_cut_after(proxy, PROXY_DOWN, cut);
        ups = bed.ups;
        bed_open(&bed);
        while (hfi_link_state(bed.link) != HFI_STREAM_UP &&
               hfi_link_state(bed.link) != HFI_STREAM_IDLE)
            bed_drive(&bed, 1000);
        if (bed.ups == ups)
            assert_int_equal(bed.status, HF_UNAVAILABLE);
        bed.downs_seen = bed.downs;
        hfi_link_close(bed.link);
        proxy_heal(proxy);
    }
    bed_open_up(&bed);
    bed_done(&bed);
    proxy_stop(proxy);
    server_free(server);
}

/* ---- a network that damages what it carries ------------------------------------------------------ */

struct relay {
    int listener, server_port;
    _Atomic int damage; /* 1: the next bytes from the client, 2: from the server */
    pthread_t thread;
};

/* Carry what has come from one to the other; false: the end. */
static bool carry(struct relay *relay, int from, int to, int way)
{
    char bytes[4096];
    ssize_t len = recv(from, bytes, sizeof bytes, 0);

    if (len <= 0)
        return false;
    if (relay->damage == way) {
        bytes[len - 1] = (char)~bytes[len - 1];
        relay->damage = 0;
    }
    return send(to, bytes, (size_t)len, MSG_NOSIGNAL) == len;
}

static void *run_relay(void *argument)
{
    struct relay *relay = argument;
    int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)relay->server_port) };
    struct pollfd fds[] = { { .fd = client, .events = POLLIN },
                            { .fd = server, .events = POLLIN } };
    bool on;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    on = client >= 0 && connect(server, (struct sockaddr *)&to, sizeof to) == 0;
    while (on && poll(fds, 2, -1) > 0) {
        if (fds[0].revents)
            on = carry(relay, client, server, 1);
        if (on && fds[1].revents)
            on = carry(relay, server, client, 2);
    }
    close(client);
    close(server);
    return NULL;
}

/* It ends the link, but it is no refusal: the next try may well succeed. */
static void damaged(void **state)
{
    struct server *server = start("good", "no");

    (void)state;
    for (int way = 1; way <= 2; way++) {
        struct relay relay = { .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                               .server_port = server->port };
        struct sockaddr_in at = { .sin_family = AF_INET };
        socklen_t len = sizeof at;
        struct call call;
        struct bed bed;

        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(bind(relay.listener, (struct sockaddr *)&at, len), 0);
        assert_int_equal(listen(relay.listener, 1), 0);
        assert_int_equal(getsockname(relay.listener, (struct sockaddr *)&at, &len), 0);
        assert_int_equal(pthread_create(&relay.thread, NULL, run_relay, &relay), 0);

        bed_init(&bed, url_of("127.0.0.1", ntohs(at.sin_port), "?connect_timeout=1m"), false);
        bed_open_up(&bed);
        ping(&bed);
        relay.damage = way;
        CALL(&bed, &call, "PING");
        bed_until_down(&bed);
        assert_int_equal(bed.status, HF_UNAVAILABLE);
        assert_true(call.none && call.maybe);
        bed_done(&bed);
        pthread_join(relay.thread, NULL);
        close(relay.listener);
    }
    server_free(server);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    certs_authority(dir);
    certs_make(dir, "good", "DNS:localhost,IP:127.0.0.1", 20);
    certs_make(dir, "other", "DNS:elsewhere.example", 20);
    certs_make(dir, "bare", NULL, 20);
    certs_make(dir, "over", "DNS:localhost,IP:127.0.0.1", -1);
    certs_make(dir, "client", NULL, 20);
    return 0;
}

static int tear_down(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),    cmocka_unit_test(strangers),
        cmocka_unit_test(clients), cmocka_unit_test(at_cross_purposes),
        cmocka_unit_test(pieces),  cmocka_unit_test(damaged),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
