/* SPDX-License-Identifier: MIT */
/* Nested runs, both sides: see nest.h. Main thread. */
#include "nest.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x48465231) /* "HFR1": also the version of this protocol */
#define FIRST_FD \
    60                 /* high enough not to collide with a script's `exec
                                        * 3>file` */
#define DEPTH_MAX 16   /* outer runs that we ask */
#define LATE_MS   1000 /* with -n: an outer run that is stopped does not answer */

static int receive(int from, struct hfi_hello *ret_hello, char *ret_name, char *ret_location);
static void add(struct nest *nest, int inner);
static bool covers(const struct nest_hold *hold, const struct hfi_hello *hello, const char *name,
                   const char *location);
static bool same_store(const char *a, const char *b);
static void hand_over(const struct nest *nest, int inner, const char *text);

/* ---- the outer one ------------------------------------------------------------------ */

void nest_open(struct nest *nest, int64_t grace_ms)
{
    const char *around = secure_getenv(NEST_VARIABLE);
    struct stat about;
    char *text;
    int pair[2];

    unsetenv(HFI_HANDED_VARIABLE); /* of an outer run, with its store */
    nest->fd = nest->inherited = -1;
    nest->grace_ms = grace_ms < 1 ? 1 : grace_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)grace_ms;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return;

    nest->fd = pair[0];
    nest->inherited = fcntl(pair[1], F_DUPFD, FIRST_FD);
    close(pair[1]);
    if (nest->inherited < 0 || fstat(nest->inherited, &about) != 0) {
        nest_close(nest);
        return;
    }

    /* The innermost first; our command can reach the outer runs too. */
    text = must_alloc(64 + (around ? strlen(around) : 0));
    sprintf(text, "%d:%" PRIu64 "%s%s", nest->inherited, (uint64_t)about.st_ino, around ? "," : "",
            around ? around : "");
    setenv(NEST_VARIABLE, text, 1);
    text[strcspn(text, ",")] = 0;
    if (nest->handed)
        setenv(HFI_HANDED_VARIABLE, text, 1);
    free(text);
}

void nest_started(struct nest *nest)
{
    if (nest->inherited >= 0)
        close(nest->inherited);
    nest->inherited = -1;
}

void nest_accept(struct nest *nest, const struct nest_hold *holds, const uint64_t *tokens,
                 size_t count)
{
    char name[HF_NAME_MAX], location[NEST_LOCATION_MAX];
    struct hfi_hello hello;
    int inner;

    while ((inner = receive(nest->fd, &hello, name, location)) != -1) {
        struct nest_message answer = { .word = NEST_REFUSED };
        bool granted = false;

        if (inner < 0)
            continue; /* not understood, and there is no connection to answer on */
        if (hello.magic == HFI_HANDED_MAGIC) {
            hand_over(nest, inner, location);
            close(inner);
            continue;
        }
        for (size_t i = 0; i < count && !granted; i++) {
            granted = covers(&holds[i], &hello, name, location);
            if (granted)
                answer = (struct nest_message){ NEST_GRANTED, nest->grace_ms, tokens[i] };
        }
        if (send(inner, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof answer ||
            !granted) {
            close(inner);
            continue;
        }

        add(nest, inner);
    }
}

/* Only to this user, and to root, who may read our memory: a process of the command may have become
 * another user, and has our descriptor still. */
static void hand_over(const struct nest *nest, int inner, const char *text)
{
    struct ucred who = { .uid = (uid_t)-1 };
    socklen_t len = sizeof who;

    if (!nest->handed || strcmp(text, nest->store) != 0 ||
        getsockopt(inner, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0 ||
        (who.uid != geteuid() && who.uid != 0))
        return;
    (void)!send(inner, nest->handed, strlen(nest->handed), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void add(struct nest *nest, int inner)
{
    struct ucred who = { 0 };
    socklen_t len = sizeof who;

    nest->inners = realloc(nest->inners, (nest->inner_count + 1) * sizeof *nest->inners);
    nest->pids = realloc(nest->pids, (nest->inner_count + 1) * sizeof *nest->pids);
    if (!nest->inners || !nest->pids) {
        say_error("out of memory");
        exit(EXIT_INTERNAL);
    }
    getsockopt(inner, SOL_SOCKET, SO_PEERCRED, &who, &len); /* the process that made the pair */
    nest->inners[nest->inner_count] = inner;
    nest->pids[nest->inner_count++] = who.pid;
}

void nest_remove(struct nest *nest, size_t index)
{
    close(nest->inners[index]);
    nest->inners[index] = nest->inners[--nest->inner_count];
    nest->pids[index] = nest->pids[nest->inner_count];
}

void nest_tell(const struct nest *nest, enum nest_word word, uint64_t value)
{
    struct nest_message message = { .word = word, .value = value };

    /* An inner run that does not read learns it from the hang-up. */
    for (size_t i = 0; i < nest->inner_count; i++)
        if (send(nest->inners[i], &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            continue;
}

void nest_hang_up(struct nest *nest)
{
    if (nest->fd >= 0)
        close(nest->fd);
    nest->fd = -1;
}

void nest_close(struct nest *nest)
{
    nest_started(nest);
    nest_hang_up(nest);
    while (nest->inner_count > 0)
        nest_remove(nest, nest->inner_count - 1);
    free(nest->inners);
    free(nest->pids);
    nest->inners = NULL;
    nest->pids = NULL;
}

/* One descriptor out of a control message; whatever else came with it is closed. -2: none. */
static int take_fd(struct msghdr *message)
{
    int result = -2;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (result < 0)
                result = fd;
            else
                close(fd);
        }
    }
    return result;
}

/* Receive the connection of an inner run. -1: there is no message; -2: it was not valid. */
static int receive(int from, struct hfi_hello *ret_hello, char *ret_name, char *ret_location)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct {
        struct hfi_hello hello;
        char rest[HF_NAME_MAX + NEST_LOCATION_MAX];
    } body;
    struct iovec part = { &body, sizeof body };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    ssize_t len = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    int fd;

    if (len < 0)
        return -1;

    fd = take_fd(&message); /* also of an empty message */
    if (len == 0 && fd < 0)
        return -1; /* every copy of the other end is closed */
    if ((size_t)len < sizeof body.hello || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        (body.hello.magic != MAGIC && body.hello.magic != HFI_HANDED_MAGIC) ||
        body.hello.name_len > HF_NAME_MAX || body.hello.location_len >= NEST_LOCATION_MAX ||
        sizeof body.hello + body.hello.name_len + body.hello.location_len != (size_t)len) {
        if (fd >= 0)
            close(fd);
        return -2;
    }

    *ret_hello = body.hello;
    memcpy(ret_name, body.rest, body.hello.name_len);
    memcpy(ret_location, body.rest + body.hello.name_len, body.hello.location_len);
    ret_location[body.hello.location_len] = 0;
    return fd;
}

/*
 * Does our lease cover what the inner run wants? An exclusive lease covers everything of its kind.
 * A reader covers an inner reader: if that one queued behind a writer that waits for the outer
 * reader, it would wait for ever. Permits of a semaphore are counted, so an inner run takes its
 * own.
 */
static bool covers(const struct nest_hold *hold, const struct hfi_hello *hello, const char *name,
                   const char *location)
{
    bool kind = hold->kind != HF_KIND_SEMAPHORE &&
                (hello->kind == (uint32_t)hold->kind ||
                 (hold->kind == HF_KIND_EXCLUSIVE &&
                  (hello->kind == HF_KIND_SHARED || hello->kind == HF_KIND_UPGRADEABLE)) ||
                 (hold->kind == HF_KIND_UPGRADEABLE && hello->kind == HF_KIND_SHARED));

    return kind && hello->name_len == hold->name_len &&
           memcmp(name, hold->name, hold->name_len) == 0 && same_store(location, hold->location);
}

static bool same_store(const char *a, const char *b)
{
    struct stat a_about, b_about;

    if (strcmp(a, b) == 0)
        return true;

    /* The same directory can be written in two ways. */
    a += strncmp(a, "file:", 5) == 0 ? 5 : 0;
    b += strncmp(b, "file:", 5) == 0 ? 5 : 0;
    return a[0] == '/' && b[0] == '/' && stat(a, &a_about) == 0 && stat(b, &b_about) == 0 &&
           a_about.st_dev == b_about.st_dev && a_about.st_ino == b_about.st_ino;
}

/* ---- the inner one ------------------------------------------------------------------- */

/* Wait for the answer. false: this outer run refuses, or is gone. */
static bool answered(int fd, int64_t until_ms, const struct signals *signals,
                     struct nest_answer *answer)
{
    for (;;) {
        struct pollfd polled[] = { { .fd = fd, .events = POLLIN },
                                   { .fd = signals->fd, .events = POLLIN } };
        int64_t left_ms = until_ms == INT64_MAX ? -1 : until_ms - hfi_now_ms();
        struct nest_message message;
        struct signal_event event;

        if (until_ms != INT64_MAX && left_ms <= 0) {
            answer->timed_out = true;
            return false;
        }
        poll(polled, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);

        if (nest_hear(fd, &message)) {
            answer->token = message.value;
            answer->grace_ms = message.grace_ms ? message.grace_ms : NEST_GRACE_UNTOLD_MS;
            return message.word == NEST_GRANTED;
        }
        while (signals_next(signals, &event)) {
            if (signal_stops(event.number))
                signals_stop(event.number, false);
            if (!signal_ends(event.number))
                continue;
            answer->ended_by = event;
            return false;
        }
    }
}

struct nest_answer nest_ask(const struct nest_hold *wanted, int64_t wait_ms,
                            const struct signals *signals)
{
    struct nest_answer answer = { .fd = -1 };
    const char *at = secure_getenv(NEST_VARIABLE);
    int64_t limit_ms = wait_ms > 0 ? wait_ms : LATE_MS;
    int64_t until_ms = wait_ms == HF_FOREVER ? INT64_MAX : hfi_after_ms(hfi_now_ms(), limit_ms);

    for (int depth = 0; at && *at && depth < DEPTH_MAX; depth++) {
        struct hfi_hello hello = { MAGIC, (uint32_t)wanted->kind, (uint32_t)wanted->name_len,
                                   (uint32_t)strlen(wanted->location) };
        int fd = hfi_handed_fd(&at);
        int connection =
            fd < 0 ? -1 : hfi_handed_connect(fd, &hello, wanted->name, wanted->location);

        if (connection < 0)
            continue;
        if (answered(connection, until_ms, signals, &answer)) {
            answer.fd = connection;
            return answer;
        }
        close(connection);
        if (answer.ended_by.number || answer.timed_out)
            return answer;
    }
    return answer;
}

bool nest_hear(int fd, struct nest_message *ret_message)
{
    struct nest_message message;
    ssize_t len = recv(fd, &message, sizeof message, MSG_DONTWAIT);

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (len != (ssize_t)sizeof message)
        message = (struct nest_message){ .word = NEST_HUNG_UP };
    *ret_message = message;
    return true;
}
