/* SPDX-License-Identifier: MIT */
/*
 * Names to socket addresses. A lookup is shared by its thread and the caller; the last of them
 * frees it. The thread writes the result, then sets `finished`, then signals the eventfd; it writes
 * nothing after that.
 */
#include "util/resolve.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREAD_STACK (1024 * 1024) /* name service modules need much stack */

struct hfi_lookup {
    _Atomic int users;
    _Atomic bool finished;
    int event_fd; /* an eventfd: readable when `finished` is set */
    int code;     /* of getaddrinfo() */
    struct hfi_places places;
    uint16_t port;
    char host[];
};

static bool start_thread(struct hfi_lookup *lookup);
static void *look_up(void *argument);
static int get_addresses(const char *host, uint16_t port, int flags, struct hfi_places *ret_places);

bool hfi_resolve_numeric(const char *host, uint16_t port, struct hfi_places *ret_places)
{
    return get_addresses(host, port, AI_NUMERICHOST, ret_places) == 0;
}

struct hfi_lookup *hfi_lookup_new(const char *host, uint16_t port)
{
    size_t size = strlen(host) + 1;
    struct hfi_lookup *lookup = hfi_calloc(1, sizeof *lookup + size);

    if (!lookup)
        return NULL;

    memcpy(lookup->host, host, size);
    lookup->port = port;
    lookup->users = 2;
    lookup->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->event_fd < 0) {
        hfi_free(lookup);
        return NULL;
    }
    if (!start_thread(lookup)) {
        close(lookup->event_fd);
        hfi_free(lookup);
        return NULL;
    }
    return lookup;
}

int hfi_lookup_fd(const struct hfi_lookup *lookup)
{
    return lookup->event_fd;
}

void hfi_lookup_wait(const struct hfi_lookup *lookup, int64_t until_ms)
{
    struct pollfd one = { .fd = lookup->event_fd, .events = POLLIN };
    int64_t left_ms;

    while (!atomic_load_explicit(&lookup->finished, memory_order_acquire) &&
           (left_ms = until_ms - hfi_now_ms()) > 0)
        (void)poll(&one, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
}

bool hfi_lookup_finished(const struct hfi_lookup *lookup, struct hfi_places *ret_places,
                         const char **ret_wrong)
{
    if (!atomic_load_explicit(&lookup->finished, memory_order_acquire))
        return false;

    *ret_wrong = NULL;
    if (lookup->code != 0)
        *ret_wrong = gai_strerror(lookup->code);
    else if (lookup->places.count == 0)
        *ret_wrong = "the name has no address";
    else
        *ret_places = lookup->places;
    return true;
}

void hfi_lookup_drop(struct hfi_lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->users, 1) > 1)
        return;
    close(lookup->event_fd);
    hfi_free(lookup);
}

/* Detached: nobody waits for it. No signals: a handler of the program must not run on it. */
static bool start_thread(struct hfi_lookup *lookup)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int code;

    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK);

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&thread, &attr, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return code == 0;
}

static void *look_up(void *argument)
{
    struct hfi_lookup *lookup = argument;
    ssize_t written;

    lookup->code = get_addresses(lookup->host, lookup->port, 0, &lookup->places);
    atomic_store_explicit(&lookup->finished, true, memory_order_release);
    written =
        write(lookup->event_fd, &(uint64_t){ 1 }, sizeof(uint64_t)); /* cannot fail: it was 0 */
    (void)written;
    hfi_lookup_drop(lookup);
    return NULL;
}

static int get_addresses(const char *host, uint16_t port, int flags, struct hfi_places *ret_places)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = flags | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    char service[8];
    int code;

    snprintf(service, sizeof service, "%u", (unsigned)port);
    code = getaddrinfo(host, service, &hints, &found);
    if (code != 0)
        return code;

    ret_places->count = 0;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        struct hfi_place *place = &ret_places->at[ret_places->count];

        if (ret_places->count == HFI_PLACES_MAX || at->ai_addrlen > sizeof place->address)
            continue;
        memcpy(&place->address, at->ai_addr, at->ai_addrlen);
        place->len = at->ai_addrlen;
        ret_places->count++;
    }
    freeaddrinfo(found);
    return 0;
}
