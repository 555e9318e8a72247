/* SPDX-License-Identifier: MIT */
/*
 * Peers, see peer.h. Both ends of the line are here: the one that commands
 * (below the cases' main thread) and the one that serves. A command is a line of
 * words, an answer is a line too. Names in commands are plain words.
 */
#include "peer.h"
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define LINE 1024

/* ---- commanding --------------------------------------------------------------- */

static void *serve_thread(void *arg)
{
    struct peer *peer = arg;

    peer_serve(peer->served_fd, peer->url);
    close(peer->served_fd);
    return NULL;
}

static void start_process(struct peer *peer, int fds[2])
{
    char *argv[] = { "contract", "--peer", peer->url, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDIN_FILENO);
    CHECK(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    peer->pid = pid;
}

static void say(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct peer *peer, const char *format, ...)
{
    char line[LINE];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[len++] = '\n';
    CHECK(send(peer->fd, line, (size_t)len, MSG_NOSIGNAL) == len);
}

static char *hear(struct peer *peer, char line[LINE])
{
    struct pollfd fd = { .fd = peer->fd, .events = POLLIN };

    for (size_t len = 0; len < LINE - 1; len++) {
        CHECK(poll(&fd, 1, 2 * LIMIT_MS) == 1);
        CHECK(read(peer->fd, line + len, 1) == 1);
        if (line[len] == '\n') {
            line[len] = 0;
            return line;
        }
    }
    FAIL("the answer is too long");
    return line;
}

static hf_status hear_status(struct peer *peer)
{
    char line[LINE];

    return (hf_status)atoi(hear(peer, line));
}

void peer_start(struct peer *peer)
{
    char line[LINE];
    int fds[2];

    memset(peer, 0, sizeof *peer);
    snprintf(peer->url, sizeof peer->url, "%s", contract_url());
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    peer->fd = fds[0];
    if (contract_processes)
        start_process(peer, fds);
    else {
        peer->served_fd = fds[1];
        CHECK(pthread_create(&peer->thread, NULL, serve_thread, peer) == 0);
    }
    if (strcmp(hear(peer, line), "ready") != 0) {
        fprintf(stderr, "peer: %s\n", line);
        FAIL("the peer is not ready");
    }
}

static void await_end(struct peer *peer)
{
    int status;

    close(peer->fd);
    if (peer->pid)
        CHECK(waitpid((pid_t)peer->pid, &status, 0) == (pid_t)peer->pid);
    else
        CHECK(pthread_join(peer->thread, NULL) == 0);
}

void peer_stop(struct peer *peer)
{
    say(peer, "stop");
    EXPECT(HF_OK, hear_status(peer));
    await_end(peer);
}

void peer_signal(struct peer *peer, int signal)
{
    CHECK(peer->pid != 0);
    CHECK(kill((pid_t)peer->pid, signal) == 0);
}

void peer_kill(struct peer *peer)
{
    peer_signal(peer, SIGKILL);
    await_end(peer);
}

void peer_exit(struct peer *peer)
{
    say(peer, "exit");
    await_end(peer);
}

void peer_make_child(struct peer *peer, bool fork)
{
    say(peer, fork ? "fork" : "spawn");
    EXPECT(HF_OK, hear_status(peer));
}

void peer_kill_alone(struct peer *peer)
{
    int status;

    peer_signal(peer, SIGKILL);
    CHECK(waitpid((pid_t)peer->pid, &status, 0) == (pid_t)peer->pid);
}

void peer_orphans_end(struct peer *peer)
{
    close(peer->fd); /* they read from the same line */
}

void peer_begin(struct peer *peer, int lease, const hf_acquire_request *r)
{
    say(peer,
        "begin %d %s %d %u %u %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64
        " %s",
        lease, (const char *)r->name, (int)r->kind, r->capacity, r->permits, r->flags, r->wait_ms,
        r->ttl_ms, r->lock_delay_ms, r->min_hold_ms, r->scope, r->label ? r->label : "peer");
}

hf_status peer_join(struct peer *peer, int lease, uint64_t *ret_token)
{
    char line[LINE];
    int status = -1;
    uint64_t token = 0;

    say(peer, "join %d", lease);
    CHECK(sscanf(hear(peer, line), "%d %" SCNu64, &status, &token) == 2);
    if (ret_token)
        *ret_token = token;
    return (hf_status)status;
}

hf_status peer_acquire(struct peer *peer, int lease, const hf_acquire_request *request)
{
    peer_begin(peer, lease, request);
    return peer_join(peer, lease, NULL);
}

hf_status peer_release(struct peer *peer, int lease)
{
    say(peer, "release %d", lease);
    return hear_status(peer);
}

hf_state peer_state(struct peer *peer, int lease)
{
    char line[LINE];

    say(peer, "state %d", lease);
    return (hf_state)atoi(hear(peer, line));
}

void peer_handle(struct peer *peer, int lease, char ret_text[HF_LEASE_TEXT_MAX])
{
    char line[LINE];

    say(peer, "handle %d", lease);
    snprintf(ret_text, HF_LEASE_TEXT_MAX, "%.63s", hear(peer, line));
}

void peer_hammer(struct peer *peer, const char *name, hf_kind kind, int count, const char *path)
{
    say(peer, "hammer %s %d %d %s", name, (int)kind, count, path);
}

void peer_add(struct peer *peer, const char *name, int count)
{
    say(peer, "add %s %d", name, count);
}

void peer_limit(struct peer *peer, const hf_limit_request *limit, int count, const char *path)
{
    say(peer, "limit %s %d %u %" PRId64 " %u %d %s", (const char *)limit->name,
        (int)limit->algorithm, limit->rate, limit->per_ms, limit->burst, count, path);
}

void peer_climb(struct peer *peer, int names, int count, unsigned seed)
{
    say(peer, "climb %d %d %u", names, count, seed);
}

void peer_idle(struct peer *peer)
{
    EXPECT(HF_OK, hear_status(peer));
}

hf_status peer_put(struct peer *peer, const char *name, const char *text)
{
    if (text)
        say(peer, "put %s %s", name, text);
    else
        say(peer, "delete %s", name);
    return hear_status(peer);
}

void peer_count(struct peer *peer, const char *name, int count)
{
    say(peer, "count %s %d", name, count);
}

/* ---- serving ------------------------------------------------------------------------ */

struct desk {
    int fd;
    hf_store *store;
    struct place {
        hf_store *store;
        hf_acquire_request request;
        char name[256], label[HF_LABEL_MAX + 1];
        hf_lease *lease;
        hf_status status;
        hf_cancel *cancel;
        bool running;
        pthread_t thread;
    } places[PEER_LEASES];
};

static void answer(struct desk *desk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void answer(struct desk *desk, const char *format, ...)
{
    char line[LINE];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[len++] = '\n';
    if (send(desk->fd, line, (size_t)len, MSG_NOSIGNAL) < 0)
        return; /* the test has gone: the next read ends us */
}

static void *place_run(void *arg)
{
    struct place *place = arg;

    place->status = hf_acquire(place->store, &place->request, &place->lease, NULL);
    return NULL;
}

static void do_begin(struct desk *desk, const char *args)
{
    int number = 0, kind = 0;
    struct place fresh = { .store = desk->store, .running = true };
    struct place *place;
    hf_acquire_request *r = &fresh.request;

    r->size = sizeof *r;
    if (sscanf(args,
               "%d %255s %d %u %u %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNu64 " %127s",
               &number, fresh.name, &kind, &r->capacity, &r->permits, &r->flags, &r->wait_ms,
               &r->ttl_ms, &r->lock_delay_ms, &r->min_hold_ms, &r->scope, fresh.label) != 12 ||
        number < 0 || number >= PEER_LEASES)
        abort();
    place = &desk->places[number];
    *place = fresh;
    place->request.kind = (hf_kind)kind;
    place->request.name = place->name;
    place->request.name_len = HF_CSTRING;
    place->request.label = place->label;
    if (hf_cancel_open(&place->cancel) != HF_OK)
        abort();
    place->request.cancel = place->cancel;
    if (pthread_create(&place->thread, NULL, place_run, place) != 0)
        abort();
}

static void join_place(struct place *place)
{
    if (place->running)
        pthread_join(place->thread, NULL);
    place->running = false;
}

static hf_status do_hammer(struct desk *desk, const char *args)
{
    char name[256], path[512];
    int kind, count, fd;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    volatile uint64_t *numbers;
    hf_status status = HF_OK;
    hf_lease *lease;

    if (sscanf(args, "%255s %d %d %511s", name, &kind, &count, path) != 4)
        abort();
    fd = open(path, O_RDWR | O_CLOEXEC);
    numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || numbers == MAP_FAILED)
        abort();
    request.name = name;
    request.name_len = HF_CSTRING;
    request.kind = (hf_kind)kind;
    request.wait_ms = LIMIT_MS;
    for (int i = 0; i < count && status == HF_OK; i++) {
        status = hf_acquire(desk->store, &request, &lease, NULL);
        if (status != HF_OK)
            break;
        if (numbers[0] != numbers[1])
            status = HF_INTERNAL;
        numbers[0] = numbers[0] + 1;
        if (i % 7 == 0)
            sched_yield();
        numbers[1] = numbers[1] + 1;
        if (hf_release(lease, NULL) != HF_OK)
            status = HF_LOST;
    }
    munmap((void *)numbers, 4096);
    close(fd);
    return status;
}

static hf_status do_put(struct desk *desk, const char *args)
{
    char name[256], text[256];

    if (sscanf(args, "%255s %255s", name, text) != 2)
        abort();
    return call_cell_set(desk->store, name, HF_CSTRING, text, strlen(text), 0, NULL, NULL);
}

static hf_status do_delete(struct desk *desk, const char *name)
{
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_cell_get(desk->store, name, HF_CSTRING, &cell, NULL);

    if (status == HF_OK)
        status = hf_cell_delete(desk->store, name, HF_CSTRING, cell.version, NULL);
    hf_free(cell.bytes);
    return status;
}

static hf_status count_one(const hf_cell *old, hf_cell_change *change, void *arg)
{
    char *text = arg;

    snprintf(text, 16, "%d", old->bytes ? atoi(old->bytes) + 1 : 1);
    change->action = HF_CELL_ACTION_WRITE;
    change->bytes = text;
    change->len = strlen(text);
    return HF_OK;
}

hf_status peer_count_here(hf_store *store, const char *name, int count)
{
    hf_status status = HF_OK;
    char text[16];

    for (int i = 0; i < count && status == HF_OK; i++)
        status =
            call_cell_update(store, name, HF_CSTRING, count_one, text, LIMIT_MS, NULL, NULL, NULL);
    return status;
}

static hf_status do_count(struct desk *desk, const char *args)
{
    char name[256];
    int count;

    if (sscanf(args, "%255s %d", name, &count) != 2)
        abort();
    return peer_count_here(desk->store, name, count);
}

static hf_status do_add(struct desk *desk, const char *args)
{
    char name[256];
    int count;
    hf_status status = HF_OK;

    if (sscanf(args, "%255s %d", name, &count) != 2)
        abort();
    for (int i = 0; i < count && status == HF_OK; i++)
        do
            status = hf_counter_add(desk->store, name, HF_CSTRING, 1, NULL, NULL);
        while (status == HF_BUSY); /* nothing was done */
    return status;
}

static hf_status do_limit(struct desk *desk, const char *args)
{
    char name[256], path[512], line[64];
    int algorithm, count, fd;
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT;
    hf_status status = HF_OK;

    if (sscanf(args, "%255s %d %u %" SCNd64 " %u %d %511s", name, &algorithm, &limit.rate,
               &limit.per_ms, &limit.burst, &count, path) != 7)
        abort();
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    limit.name = name;
    limit.name_len = HF_CSTRING;
    limit.algorithm = (hf_limit_algorithm)algorithm;
    for (int i = 0; i < count && status == HF_OK; i++) {
        hf_limit_result result = HF_LIMIT_RESULT_INIT;

        limit.permits = i % 3 == 0 ? 2 : 1;
        limit.wait_ms = i % 4 == 3 ? 0 : HF_FOREVER;
        status = hf_limit_take(desk->store, &limit, &result, NULL);
        if (status == HF_OK) {
            int len = snprintf(line, sizeof line, "%" PRId64 " %u\n", result.at_us, limit.permits);

            if (write(fd, line, (size_t)len) != len)
                abort();
        } else if (status == HF_BUSY && limit.wait_ms == 0) {
            status = HF_OK;
        }
    }
    close(fd);
    return status;
}

/* Every session acquires names in their order: so there is never a circle, although all wait all
 * the time. */
hf_status climb(hf_store *store, int names, int count, unsigned seed)
{
    hf_lease *leases[8];
    hf_status status = HF_OK;
    hf_error err = { .text = "" };

    for (int i = 0; i < count && status == HF_OK; i++) {
        int held = 0;

        for (int n = 0; n < names && n < 8 && status == HF_OK; n++) {
            hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
            char name[16];

            seed = seed * 1103515245u + 12345u;
            if (seed >> 16 & 1)
                continue;
            snprintf(name, sizeof name, "step%d", n);
            request.name = name;
            request.name_len = HF_CSTRING;
            request.wait_ms = seed >> 17 & 1 ? HF_FOREVER : LIMIT_MS;
            status = hf_acquire(store, &request, &leases[held], &err);
            held += status == HF_OK;
        }
        if (status != HF_OK)
            fprintf(stderr, "climb: %s\n", err.text);
        while (held > 0)
            (void)hf_release(leases[--held], NULL);
    }
    return status;
}

static hf_status do_climb(struct desk *desk, const char *args)
{
    int names, count;
    unsigned seed;

    if (sscanf(args, "%d %d %u", &names, &count, &seed) != 3)
        abort();
    return climb(desk->store, names, count, seed);
}

/* A child that lives until the line to us is closed. */
static hf_status do_child(bool by_fork)
{
    char *argv[] = { "cat", NULL };
    char byte;
    pid_t pid;

    if (!by_fork)
        return posix_spawn(&pid, "/bin/cat", NULL, NULL, argv, environ) == 0 ? HF_OK : HF_INTERNAL;
    pid = fork();
    if (pid == 0) {
        while (recv(STDIN_FILENO, &byte, 1, MSG_PEEK) > 0)
            usleep(1000);
        _exit(0);
    }
    return pid > 0 ? HF_OK : HF_INTERNAL;
}

/* One command. false: it was the last. */
static bool serve_line(struct desk *desk, const char *line)
{
    const char *args = strchr(line, ' ');
    int number = args ? atoi(args) : 0;
    struct place *place = &desk->places[number >= 0 && number < PEER_LEASES ? number : 0];
    char handle[HF_LEASE_TEXT_MAX] = "";

    if (strncmp(line, "begin ", 6) == 0)
        do_begin(desk, args);
    else if (strncmp(line, "join ", 5) == 0) {
        join_place(place);
        answer(desk, "%d %" PRIu64, (int)place->status,
               place->status == HF_OK ? hf_lease_token(place->lease) : 0);
    } else if (strncmp(line, "release ", 8) == 0)
        answer(desk, "%d", (int)hf_release(place->lease, NULL));
    else if (strncmp(line, "state ", 6) == 0)
        answer(desk, "%d", (int)hf_lease_state(place->lease));
    else if (strncmp(line, "handle ", 7) == 0) {
        if (hf_lease_export(place->lease, handle) != HF_OK)
            handle[0] = 0;
        answer(desk, "%s", handle);
    } else if (strncmp(line, "hammer ", 7) == 0)
        answer(desk, "%d", (int)do_hammer(desk, args));
    else if (strncmp(line, "put ", 4) == 0)
        answer(desk, "%d", (int)do_put(desk, args));
    else if (strncmp(line, "delete ", 7) == 0)
        answer(desk, "%d", (int)do_delete(desk, args + 1));
    else if (strncmp(line, "count ", 6) == 0)
        answer(desk, "%d", (int)do_count(desk, args));
    else if (strncmp(line, "add ", 4) == 0)
        answer(desk, "%d", (int)do_add(desk, args));
    else if (strncmp(line, "limit ", 6) == 0)
        answer(desk, "%d", (int)do_limit(desk, args));
    else if (strncmp(line, "climb ", 6) == 0)
        answer(desk, "%d", (int)do_climb(desk, args));
    else if (strcmp(line, "exit") == 0)
        _exit(0);
    else if (strcmp(line, "fork") == 0 || strcmp(line, "spawn") == 0)
        answer(desk, "%d", (int)do_child(line[0] == 'f'));
    else if (strcmp(line, "stop") == 0)
        return false;
    else
        abort();
    return true;
}

/* Leave every queue, give everything back, close. */
static hf_status leave(struct desk *desk)
{
    hf_status status;

    for (int i = 0; i < PEER_LEASES; i++) {
        struct place *place = &desk->places[i];

        if (place->cancel)
            hf_cancel_fire(place->cancel);
        join_place(place);
        if (place->cancel)
            hf_cancel_close(place->cancel);
    }
    status = hf_close(desk->store, HF_CLOSE_FLAG_RELEASE);
    for (int i = 0; i < PEER_LEASES; i++)
        if (desk->places[i].lease)
            hf_release(desk->places[i].lease, NULL);
    return status;
}

void peer_serve(int fd, const char *url)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    struct desk desk = { .fd = fd };
    char line[LINE];
    size_t len = 0;
    hf_error err;
    hf_status status;

    if (fd ==
        STDIN_FILENO) /* a process: one that is stopped when a test fails does not outlive it */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    options.label = "peer";
    if (hf_open(url, &options, &desk.store, &err) != HF_OK) {
        answer(&desk, "%s", err.text);
        return;
    }
    answer(&desk, "ready");
    while (len < sizeof line && read(fd, line + len, 1) == 1) {
        if (line[len++] != '\n')
            continue;
        line[len - 1] = 0;
        len = 0;
        if (!serve_line(&desk, line)) {
            status = leave(&desk);
            answer(&desk, "%d", (int)status);
            return;
        }
    }
    (void)leave(&desk);
}
