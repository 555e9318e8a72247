/* SPDX-License-Identifier: MIT */
/* Asking the `holdfast run` around us: see handed.h. */
#include "util/handed.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <ctype.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_MS 5000 /* an outer run that is stopped does not answer */

/* The number may have been given to something else since. */
static bool is_ours(int fd, uint64_t inode)
{
    struct stat about;
    int type = 0;
    socklen_t len = sizeof type;

    return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == inode &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

int hfi_handed_fd(const char **at)
{
    const char *text = *at;
    uint64_t inode;
    char *end;
    long fd;

    *at = NULL;
    if (!isdigit((unsigned char)*text))
        return -1;
    fd = strtol(text, &end, 10);
    if (*end != ':' || !isdigit((unsigned char)end[1]))
        return -1;
    inode = strtoull(end + 1, &end, 10);
    *at = *end == ',' ? end + 1 : NULL;
    return fd <= INT_MAX && is_ours((int)fd, inode) ? (int)fd : -1;
}

int hfi_handed_connect(int inherited, const struct hfi_hello *hello, const void *name,
                       const char *location)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec parts[] = { { (void *)(uintptr_t)hello, sizeof *hello },
                             { (void *)(uintptr_t)name, hello->name_len },
                             { (void *)(uintptr_t)location, hello->location_len } };
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 3, .msg_control = &control, .msg_controllen = sizeof control
    };
    int pair[2];
    ssize_t sent;

    if (hello->location_len >= HFI_HANDED_LOCATION_MAX ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        return -1;

    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &pair[1], sizeof(int));
    sent = sendmsg(inherited, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(pair[1]);
    if (sent > 0)
        return pair[0];
    close(pair[0]);
    return -1;
}

bool hfi_handed_any(void)
{
    const char *text = secure_getenv(HFI_HANDED_VARIABLE);

    return text && *text;
}

/* One message as a text. NULL: a hang-up, or no text. */
static char *take_answer(int fd)
{
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), ANSWER_MS), left_ms = ANSWER_MS;
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    char text[HFI_HANDED_URL_MAX], *answer = NULL;
    ssize_t len;

    while (left_ms > 0 && poll(&polled, 1, (int)left_ms) <= 0)
        left_ms = until_ms - hfi_now_ms();
    len = recv(fd, text, sizeof text, MSG_DONTWAIT | MSG_TRUNC);
    if (len > 0 && (size_t)len < sizeof text && !memchr(text, 0, (size_t)len))
        answer = hfi_strndup(text, (size_t)len);
    explicit_bzero(text, sizeof text);
    return answer;
}

char *hfi_handed_url(const char *text)
{
    const char *at = secure_getenv(HFI_HANDED_VARIABLE);
    int inherited = at ? hfi_handed_fd(&at) : -1, fd;
    struct hfi_hello hello = { HFI_HANDED_MAGIC, 0, 0, (uint32_t)strlen(text) };
    char *url;

    fd = inherited < 0 ? -1 : hfi_handed_connect(inherited, &hello, "", text);
    if (fd < 0)
        return NULL;
    url = take_answer(fd);
    close(fd);
    return url;
}
