/* SPDX-License-Identifier: MIT */
/* Sockets that a forked child does not keep, and nothing else that has their numbers by then. */
#include "unit.h"

#include "util/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Does a child have it? And we, still? */
static bool child_has(int fd)
{
    pid_t pid;
    int status = 0;

    errno = 0;
    pid = fork();
    if (pid == 0)
        _exit(is_open(fd) ? 1 : 0);
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void what_is_noted(void **state)
{
    int fds[2], high = 3000; /* in another part of the table */

    (void)state;
    pair(fds);
    assert_int_equal(hfi_fd_note(fds[0]), fds[0]);
    assert_false(child_has(fds[0]));
    assert_true(child_has(fds[1]));
    assert_true(is_open(fds[0]));
    hfi_fd_forget(fds[0]);
    assert_true(child_has(fds[0]));

    if (dup2(fds[0], high) == high) { /* not with a low limit */
        (void)hfi_fd_note(high);
        assert_false(child_has(high));
        hfi_fd_forget(high);
        close(high);
    }
    close(fds[0]);
    close(fds[1]);
}

/* Closed by somebody else, without a word: the number is another socket, or a file, by the time of the fork. */
static void what_was_ours(void **state)
{
    int fds[2], others[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    pair(fds);
    pair(others);
    (void)hfi_fd_note(fds[0]);
    assert_int_equal(dup2(others[0], fds[0]), fds[0]);
    assert_true(child_has(fds[0]));
    assert_int_equal(dup2(file, fds[0]), fds[0]);
    assert_true(child_has(fds[0]));
    hfi_fd_forget(fds[0]);
    close(fds[0]);
    close(fds[1]);
    close(others[0]);
    close(others[1]);
    close(file);
}

static void nonsense(void **state)
{
    (void)state;
    assert_int_equal(hfi_fd_note(-1), -1);
    assert_int_equal(hfi_fd_note(1 << 30), 1 << 30);
    hfi_fd_forget(-1);
    hfi_fd_forget(1 << 30);
    hfi_fd_forget(5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_noted),
        cmocka_unit_test(what_was_ours),
        cmocka_unit_test(nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
