/* SPDX-License-Identifier: MIT */
/* See wire.h. Asks the kernel's sock_diag(7) for the clients' ends: those whose peer is the port. */
#include "wire.h"

#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ESTABLISHED 1

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

static bool ask(int fd)
{
    struct question question = {
        .head = { .nlmsg_len = sizeof question,
                  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
        .body = { .sdiag_family = AF_INET,
                  .sdiag_protocol = IPPROTO_TCP,
                  .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                  .idiag_states = 1 << ESTABLISHED },
    };

    return send(fd, &question, sizeof question, 0) == (ssize_t)sizeof question;
}

/* Of one socket. */
static double bytes_of(const struct nlmsghdr *message)
{
    const struct inet_diag_msg *body = NLMSG_DATA(message);
    const struct rtattr *at = (const struct rtattr *)(body + 1);
    unsigned left = message->nlmsg_len - (unsigned)NLMSG_LENGTH(sizeof *body);
    struct tcp_info info = { 0 };

    for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
        if (at->rta_type == INET_DIAG_INFO) {
            size_t len = RTA_PAYLOAD(at);

            memcpy(&info, RTA_DATA(at), len < sizeof info ? len : sizeof info);
        }
    return (double)info.tcpi_bytes_acked + (double)info.tcpi_bytes_received;
}

/* False: that was the last part. */
static bool add_part(int fd, uint16_t port, double *sum)
{
    _Alignas(struct nlmsghdr) static char part[65536];
    ssize_t got = recv(fd, part, sizeof part, 0);
    unsigned left = got > 0 ? (unsigned)got : 0;

    for (const struct nlmsghdr *message = (const struct nlmsghdr *)part; NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
        const struct inet_diag_msg *body = NLMSG_DATA(message);

        if (message->nlmsg_type == NLMSG_DONE)
            return false;
        if (message->nlmsg_type == NLMSG_ERROR) {
            *sum = NAN;
            return false;
        }
        if (body->id.idiag_dport == htons(port))
            *sum += bytes_of(message);
    }
    return got > 0 || (got < 0 && errno == EINTR);
}

double wire_bytes(uint16_t port)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    double sum = 0;

    if (fd < 0)
        return NAN;
    if (!ask(fd))
        sum = NAN;
    else
        while (add_part(fd, port, &sum))
            ;
    close(fd);
    return sum;
}
