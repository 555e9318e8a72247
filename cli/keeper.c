/* SPDX-License-Identifier: MIT */
/* The keeper of `lock --for PID`: see keeper.h. */
#include "keeper.h"

#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The keeper's answer: whether it could adopt the lease. */
struct answer {
    int32_t code; /* an exit code */
    char text[HF_ERROR_TEXT_MAX];
};

/* Also makes its descriptor quiet again, after a renewal that failed for once. */
static bool is_held(hf_lease *lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    return hf_lease_get(lease, &info) == HF_OK && info.state != HF_STATE_LOST;
}

static _Noreturn void keep(const struct cli *cli, int from, int to, int process);
static void cut_off(int *from, int *to, int *process);

int keeper_begin(const struct cli *cli, int64_t pid, struct keeper *ret_keeper)
{
    int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    int down[2], up[2];
    pid_t child;

    if (process < 0 && errno == ESRCH)
        return usage_error(cli, "--for %" PRId64 ": no such process", pid);
    if (process < 0 && errno == EINVAL)
        return usage_error(cli, "--for %" PRId64 ": a thread, not a process", pid);
    if (process < 0 || pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        say_error("--for %" PRId64 ": %s", pid, strerror(errno));
        return EXIT_INTERNAL;
    }

    child = fork();
    if (child < 0) {
        say_error("cannot start the keeper: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        keep(cli, down[0], up[1], process);
    }

    close(down[0]);
    close(up[1]);
    close(process);
    *ret_keeper = (struct keeper){ child, down[1], up[0] };
    return EXIT_FINE;
}

int keeper_hand_over(struct keeper *keeper, const char *handle)
{
    struct answer answer = { 0 };
    size_t size = strlen(handle) + 1;
    ssize_t len = -1;

    if (write(keeper->to, handle, size) == (ssize_t)size)
        do
            len = read(keeper->from, &answer, sizeof answer);
        while (len < 0 && errno == EINTR);
    close(keeper->to);
    close(keeper->from);
    if (len != (ssize_t)sizeof answer) {
        say_error("the keeper has ended");
        return EXIT_INTERNAL;
    }
    if (answer.code != EXIT_FINE)
        say_error("keeper: %s", answer.text);
    return answer.code;
}

/* ---- in the keeper ------------------------------------------------------------------------- */

static void answer_with(int to, int code, const char *text)
{
    struct answer answer = { .code = code };

    snprintf(answer.text, sizeof answer.text, "%s", text);
    if (write(to, &answer, sizeof answer) < 0)
        _exit(code);
    close(to);
}

static _Noreturn void keep(const struct cli *cli, int from, int to, int process)
{
    hf_adopt_request request = HF_ADOPT_REQUEST_INIT;
    const struct args *args = &cli->args;
    char handle[HF_LEASE_TEXT_MAX];
    struct cli_store store;
    struct pollfd polled[2];
    hf_lease *lease;
    hf_error err = { 0 };
    int code;

    cut_off(&from, &to, &process);
    if (read(from, handle, sizeof handle) <= 0 || !memchr(handle, 0, sizeof handle))
        _exit(EXIT_FINE); /* nothing was acquired */

    code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE) {
        answer_with(to, code, "the store could not be opened");
        _exit(code);
    }
    if (chdir("/") != 0) /* not earlier: the store's path may be relative */
        _exit(EXIT_INTERNAL);
    request.name = args->name;
    request.name_len = strlen(args->name);
    request.text = handle;
    request.ttl_ms = args->ttl_ms;
    request.renew = true;
    if (hf_lease_adopt(store.store, &request, &lease, &err) != HF_OK) {
        answer_with(to, exit_of(err.status), err.text);
        _exit(exit_of(err.status));
    }
    answer_with(to, EXIT_FINE, "");

    polled[0] = (struct pollfd){ .fd = process, .events = POLLIN };
    polled[1] = (struct pollfd){ .fd = hf_lease_fd(lease), .events = POLLIN };
    while ((poll(polled, 2, -1) < 0 && errno == EINTR) || (!polled[0].revents && is_held(lease)))
        continue;

    /* PID has ended; or the lease has, and then this only ends the handle. */
    hf_release(lease, NULL);
    store_close(&store);
    _exit(EXIT_FINE);
}

/* Out of the shell's session, without its descriptors. */
static void cut_off(int *from, int *to, int *process)
{
    int null = open("/dev/null", O_RDWR);
    int *kept[] = { from, to, process };

    setsid();
    prctl(PR_SET_NAME, "holdfast-keeper");

    /* To the top first, so that neither moving one down nor dup2() below hits another. */
    for (int i = 0; i < 3; i++)
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, 16);
    for (int fd = 0; fd <= 2; fd++)
        if (null < 0 || dup2(null, fd) < 0)
            _exit(EXIT_INTERNAL);
    for (int i = 0; i < 3; i++) {
        if (*kept[i] < 0 || dup2(*kept[i], 3 + i) < 0)
            _exit(EXIT_INTERNAL);
        *kept[i] = 3 + i;
    }
    syscall(SYS_close_range, 6, ~0u, 0); /* musl has no function for it */
}
