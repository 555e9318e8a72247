/* SPDX-License-Identifier: MIT */
/* See fake_wire.h. */
#undef _FORTIFY_SOURCE /* it makes recv(2), which is defined here, an inline function of the C library's */
#include "fake_wire.h"

#include "fake_time.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WIRES_MAX 32
#define SLICE_MS  20 /* of a sleep in recv(2) */
#define NO_ANSWER 0xf0
#define HANGS_UP  0xfa

static struct fake_wire wires[WIRES_MAX];
static size_t wire_count, turn;
static const struct fake_wire_calls *calls;
static struct fuzz_input input;

static void hang_up(struct fake_wire *wire)
{
    if (wire->peer >= 0)
        close(wire->peer);
    wire->peer = -1;
}

static struct fake_wire *find(int fd)
{
    for (size_t i = wire_count; i > 0; i--) /* the last one that had the number */
        if (wires[i - 1].fd == fd)
            return &wires[i - 1];
    return NULL;
}

static void speak(struct fake_wire *wire)
{
    static char bytes[FAKE_WIRE_ROOM];
    uint8_t what = fuzz_byte(&input);
    struct fuzz_input piece = { input.at, what < input.len ? what : input.len };
    size_t len;

    if (wire->peer < 0)
        return;
    if (what >= HANGS_UP || piece.len == 0)
        hang_up(wire);
    if (what >= NO_ANSWER || piece.len == 0)
        return;
    input.at += piece.len;
    input.len -= piece.len;
    len = calls->say(wire, piece, bytes);
    if (syscall(SYS_sendto, wire->peer, bytes, len, MSG_NOSIGNAL, NULL, 0) < 0)
        hang_up(wire);
}

/* Nothing happens: one of the servers says something. At the end of the input all hang up. */
static bool idle(void)
{
    bool any = false;

    if (input.len == 0) {
        for (size_t i = 0; i < wire_count; i++) {
            any = any || wires[i].peer >= 0;
            hang_up(&wires[i]);
        }
        return any;
    }
    for (size_t i = 0; i < wire_count; i++) {
        struct fake_wire *wire = &wires[turn++ % wire_count];

        if (wire->peer >= 0) {
            speak(wire);
            return true;
        }
    }
    return false;
}

void fake_wire_begin(const struct fake_wire_calls *protocol, struct fuzz_input in)
{
    calls = protocol;
    input = in;
    wire_count = turn = 0;
    fake_time_idle = idle;
}

void fake_wire_end(void)
{
    for (size_t i = 0; i < wire_count; i++)
        hang_up(&wires[i]);
    wire_count = 0;
}

/* ---- of the C library --------------------------------------------------------------------------------- */

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    int both[2];

    (void)address, (void)len;
    if (input.len == 0 || wire_count == WIRES_MAX) {
        errno = ECONNREFUSED;
        return -1;
    }
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) == 0);
    MUST(dup3(both[0], fd, O_CLOEXEC) == fd);
    close(both[0]);
    wires[wire_count++] = (struct fake_wire){ .fd = fd, .peer = both[1] };
    return 0;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    struct fake_wire *wire = find(fd);

    if (!wire)
        return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
    if (wire->peer < 0) {
        errno = EPIPE;
        return -1;
    }
    calls->sent(wire, bytes, len);
    speak(wire);
    return (ssize_t)len;
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    ssize_t got = syscall(SYS_recvfrom, fd, bytes, len, flags | MSG_DONTWAIT, NULL, NULL);

    if (got < 0 && errno == EAGAIN && !(flags & MSG_DONTWAIT)) {
        if (!idle())
            fake_time_pass(SLICE_MS);
        got = syscall(SYS_recvfrom, fd, bytes, len, flags | MSG_DONTWAIT, NULL, NULL);
        if (got < 0)
            fake_time_pass(SLICE_MS);
    }
    return got;
}
