/* SPDX-License-Identifier: MIT */
/* Nested runs: whatever an inner run sends, and whatever an outer one answers. Real sockets. */
#include "fuzz.h"

#include "nest.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define FDS_MAX 32 /* more than one input opens */

static void make_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) != 0) {
        perror("socketpair");
        abort();
    }
}

/* One message with `fds` descriptors. */
static void send_with(int to, const void *bytes, size_t len, unsigned fds, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = { 0 };
    struct iovec part = { (void *)(uintptr_t)bytes, len };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    int copies[8];

    for (unsigned i = 0; i < fds; i++)
        copies[i] = fd;
    if (fds > 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), copies, fds * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
    }
    (void)!sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void outer(struct fuzz_input in, unsigned fds)
{
    static const struct nest_hold holds[] = {
        { HF_KIND_MUTEX, "job", 3, "redis://h/" },
        { HF_KIND_EXCLUSIVE, "x", 1, "file:/" },
    };
    static const uint64_t tokens[] = { 7, 8 };
    int pair[2], connection[2];
    struct nest nest = { .inherited = -1 };

    make_pair(pair);
    make_pair(connection);
    nest.fd = pair[0];
    send_with(pair[1], in.at, in.len, fds, connection[1]);
    close(connection[1]);
    nest_accept(&nest, holds, tokens, 2);
    MUST(nest.inner_count <= 1);
    nest_tell(&nest, NEST_ENDING, 5);
    nest_close(&nest);
    close(pair[1]);
    close(connection[0]);
}

static void inner(struct fuzz_input in)
{
    struct nest_message message;
    int pair[2];

    make_pair(pair);
    send_with(pair[1], in.at, in.len, 0, -1);
    (void)nest_hear(pair[0], &message);
    close(pair[1]);
    MUST(nest_hear(pair[0], &message) && message.word == NEST_HUNG_UP);
    close(pair[0]);
}

/* Which of the first descriptors are open, a bit each. */
static uint64_t open_fds(void)
{
    uint64_t set = 0;

    for (int fd = 0; fd < FDS_MAX; fd++)
        set |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    return set;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    uint8_t what = fuzz_byte(&in);
    uint64_t before = open_fds();

    if (what & 0x80)
        inner(in);
    else
        outer(in, what % 9);
    MUST(open_fds() == before);
    return 0;
}
