/* SPDX-License-Identifier: MIT */
/*
 * From a name to a connection: several addresses of which some are dead, a name server that is slow
 * or knows nothing, both families, Unix sockets. getaddrinfo() is our own here.
 */
#include "bed.h"
#include "fake.h"

#include "util/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- a name service ------------------------------------------------------------------------------ */

static _Atomic int asked, answered;
static pthread_mutex_t slow = PTHREAD_MUTEX_INITIALIZER; /* slow.test waits for it */

static struct addrinfo *entry(const char *address, const char *service, struct addrinfo *next)
{
    struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in6));
    struct sockaddr_in *four = (struct sockaddr_in *)(info + 1);
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(info + 1);
    in_port_t port = htons((uint16_t)atoi(service));

    assert_non_null(info);
    info->ai_addr = (struct sockaddr *)(info + 1);
    info->ai_next = next;
    if (inet_pton(AF_INET, address, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = port;
        info->ai_addrlen = sizeof *four;
    } else if (inet_pton(AF_INET6, address, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = port;
        info->ai_addrlen = sizeof *six;
    } else {
        free(info);
        return NULL;
    }
    info->ai_family = info->ai_addr->sa_family;
    return info;
}

/* Seen from libholdfast, which asks. */
__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    struct addrinfo *list = entry(node, service, NULL);

    if (!list && (hints->ai_flags & AI_NUMERICHOST))
        return EAI_NONAME;
    if (!list) {
        asked++;
        if (strcmp(node, "slow.test") == 0) {
            pthread_mutex_lock(&slow);
            pthread_mutex_unlock(&slow);
            list = entry("127.0.0.1", service, NULL);
        } else if (strcmp(node, "dead-then-good.test") == 0) {
            list = entry("127.0.0.2", service, entry("127.0.0.1", service, NULL));
        } else if (strcmp(node, "refused-then-good.test") == 0) {
            list = entry("127.0.0.3", service,
                         entry("127.0.0.4", service, entry("127.0.0.1", service, NULL)));
        } else if (strcmp(node, "dead.test") == 0) {
            list = entry("127.0.0.2", service, entry("127.0.0.2", service, NULL));
        } else if (strcmp(node, "many.test") == 0) {
            for (int i = 0; i < 3 * 16; i++)
                list = entry("127.0.0.3", service, list);
        } else if (strcmp(node, "empty.test") == 0) {
            *ret = NULL;
            answered++;
            return 0;
        } else {
            answered++;
            return EAI_NONAME;
        }
        answered++;
    }
    *ret = list;
    return 0;
}

__attribute__((visibility("default"))) void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;

        free(list);
        list = next;
    }
}

/* ---- an address that does not answer ------------------------------------------------------------- */

/* 127.0.0.2, whose queue of connections is full: another waits for ever. */
static int dead[16];

static void start_dead(uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };

    inet_pton(AF_INET, "127.0.0.2", &to.sin_addr);
    dead[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dead[0], (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(listen(dead[0], 0), 0);
    for (size_t i = 1; i < COUNT(dead); i++) {
        dead[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(dead[i], (struct sockaddr *)&to, sizeof to);
    }
}

static void stop_dead(void)
{
    for (size_t i = 0; i < COUNT(dead); i++)
        close(dead[i]);
}

/* ---- tests --------------------------------------------------------------------------------------- */

static const struct fake_step greets[] = { GREET, END };

static void init(struct bed *bed, const struct fake *fake, const char *host, const char *rest)
{
    char url[200];

    snprintf(url, sizeof url, "redis://%s:%u%s", host, fake_port(fake), rest);
    bed_init(bed, url, false);
}

static void first_is_dead(void **state)
{
    struct fake *fake = fake_start(greets);
    struct bed bed;
    int64_t begun_ms;

    (void)state;
    start_dead(fake_port(fake));
    init(&bed, fake, "dead-then-good.test", "?connect_timeout=8s");
    begun_ms = hfi_now_ms();
    bed_open_up(&bed);
    assert_true(hfi_now_ms() - begun_ms >= 3900); /* a fair share: half of it, for one of two */
    bed_done(&bed);

    init(&bed, fake, "dead.test", "?connect_timeout=200ms");
    bed_open_down(&bed, HF_UNAVAILABLE, "dead.test:");
    bed_done(&bed);
    stop_dead();
    fake_stop(fake);
}

static void first_refuses(void **state)
{
    struct fake *fake = fake_start(greets);
    struct bed bed;

    (void)state;
    init(&bed, fake, "refused-then-good.test", "?connect_timeout=1m");
    bed_open_up(&bed);
    hfi_link_close(bed.link);
    bed_open_up(&bed);
    bed_done(&bed);
    init(&bed, fake, "many.test", "?connect_timeout=1m");
    bed_open_down(&bed, HF_UNAVAILABLE, "Connection refused");
    bed_done(&bed);
    fake_stop(fake);
}

static void no_such_name(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, "redis://nowhere.test?connect_timeout=1m", false);
    bed_open_down(&bed, HF_UNAVAILABLE, "nowhere.test:6379: Name or service not known");
    bed_done(&bed);
    bed_init(&bed, "redis://empty.test?connect_timeout=1m", false);
    bed_open_down(&bed, HF_UNAVAILABLE, "empty.test:6379: the name has no address");
    bed_done(&bed);
}

/* A slow name server: the link gives up, asks no second time while the first answer is out, takes
 * that answer when it comes; and one that goes away meanwhile leaves nothing behind. */
static void slow_names(void **state)
{
    struct fake *fake = fake_start(greets);
    int before = asked;
    struct bed bed;

    (void)state;
    pthread_mutex_lock(&slow);
    init(&bed, fake, "slow.test", "?connect_timeout=50ms");
    bed_open_down(&bed, HF_UNAVAILABLE, "its name not resolved within 50 ms");
    bed_open_down(&bed, HF_UNAVAILABLE, "its name not resolved within 50 ms");
    bed_open(&bed);
    assert_int_equal(hfi_link_state(bed.link), HFI_STREAM_RESOLVING);
    hfi_link_close(bed.link);
    bed.conf->connect_ms = 60000;
    bed_open(&bed);
    pthread_mutex_unlock(&slow);
    while (bed.ups == 0)
        bed_drive(&bed, 1000);
    assert_int_equal(asked - before, 1);

    hfi_link_close(bed.link);
    pthread_mutex_lock(&slow);
    bed_open(&bed);
    assert_int_equal(hfi_link_state(bed.link), HFI_STREAM_RESOLVING);
    bed_done(&bed); /* its thread still waits */
    pthread_mutex_unlock(&slow);
    while (answered < asked)
        usleep(1000);
    fake_stop(fake);
}

static void by_six(void **state)
{
    struct fake *fake;
    struct bed bed;
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    bool there = probe >= 0 && bind(probe, (struct sockaddr *)&to, sizeof to) == 0;

    (void)state;
    if (probe >= 0)
        close(probe);
    if (!there)
        skip();
    fake = fake_start_at(greets, AF_INET6, NULL);
    init(&bed, fake, "[::1]", "");
    bed_open_up(&bed);
    bed_done(&bed);
    fake_stop(fake);
}

static void by_path(void **state)
{
    char dir[] = "/tmp/holdfast-wire-XXXXXX", path[64], url[100];
    struct fake *fake;
    struct bed bed;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    fake = fake_start_at(greets, AF_UNIX, path);
    snprintf(url, sizeof url, "redis+unix://%s", path);
    bed_init(&bed, url, false);
    bed_open_up(&bed);
    bed_done(&bed);
    fake_stop(fake);

    bed_init(&bed, url, false); /* the file is still there, and nobody behind it */
    bed_open_down(&bed, HF_UNAVAILABLE, "Connection refused");
    bed_done(&bed);
    unlink(path);
    rmdir(dir);
}

/* No descriptor is left: it fails where callbacks are allowed, and recovers. */
static void no_descriptors(void **state)
{
    struct fake *fake = fake_start(greets);
    struct rlimit before, none;
    struct bed bed;

    (void)state;
    init(&bed, fake, "127.0.0.1", "?connect_timeout=1m");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bed_open(&bed);
    assert_int_equal(bed.downs, 0);
    assert_true(hfi_stream_next_ms(hfi_link_stream(bed.link)) <= hfi_now_ms());
    bed_until_down(&bed);
    assert_int_equal(bed.status, HF_UNAVAILABLE);
    assert_non_null(strstr(bed.why, "Too many open files"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    bed_open_up(&bed);
    bed_done(&bed);
    fake_stop(fake);
}

/* Its socket is a blocking one once it is connected, and not inherited. */
static void descriptor(void **state)
{
    struct fake *fake = fake_start(greets);
    struct bed bed;

    (void)state;
    init(&bed, fake, "127.0.0.1", "");
    bed_open_up(&bed);
    assert_int_equal(fcntl(hfi_link_stream(bed.link)->fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(hfi_link_stream(bed.link)->fd, F_GETFD), FD_CLOEXEC);
    bed_done(&bed);
    fake_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_is_dead),  cmocka_unit_test(first_refuses),
        cmocka_unit_test(no_such_name),   cmocka_unit_test(slow_names),
        cmocka_unit_test(by_six),         cmocka_unit_test(by_path),
        cmocka_unit_test(no_descriptors), cmocka_unit_test(descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
