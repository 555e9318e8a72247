/* SPDX-License-Identifier: MIT */
/*
 * What an uncontended acquire and release on Redis cost in system calls of the caller: send and receive, twice, and
 * nothing else.
 *
 *   calls          run `calls COUNT` under strace(1), and count what is between two marks
 *   calls COUNT    acquire and release so often, on the server of HOLDFAST_TEST_URL, with a mark before each
 */
#include "holdfast/holdfast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM   100
#define PAIRS  10000
#define LEAST  4  /* system calls of a pair */
#define RARELY 10 /* one pair of this many may do periodic work */
#define MARK   "getppid"
#define SKIP   77

static void fail(const char *what)
{
    fprintf(stderr, "calls: %s\n", what);
    exit(1);
}

static int run_pairs(long count)
{
    const char *given = getenv("HOLDFAST_TEST_URL");
    char *url = given ? strndup(given, strcspn(given, "?")) : NULL; /* without the suite's prefix */
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_error err;

    request.name = "pair";
    request.name_len = HF_CSTRING;
    request.name_len = strlen(request.name);
    if (!url || hf_open(url, NULL, &store, &err) != HF_OK)
        fail(url ? err.text : "HOLDFAST_TEST_URL is not set");
    for (long i = 0; i < count; i++) {
        hf_lease *lease;

        (void)syscall(SYS_getppid);
        if (hf_acquire(store, &request, &lease, &err) != HF_OK || hf_release(lease, &err) != HF_OK)
            fail(err.text);
    }
    (void)syscall(SYS_getppid);
    free(url);
    return hf_close(store, 0) == HF_OK ? 0 : 1;
}

/* How many pairs, of those between two marks, took more than LEAST calls? -1: no marks, strace cannot trace here. */
static long read_trace(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];
    long pairs = -1, dear = 0, calls = 0;

    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, MARK "(", sizeof MARK) == 0) {
            if (pairs >= WARM && calls > LEAST)
                dear++;
            pairs++;
            calls = 0;
        } else if (strchr(line, '(')) {
            calls++;
        }
    }
    if (file)
        fclose(file);
    return pairs == WARM + PAIRS ? dear : -1;
}

/* Trace the caller's thread of `self COUNT`: the keeper's calls, which go by the clock, are not seen; to wake it is. */
static long trace(const char *self, long count)
{
    char path[] = "/tmp/holdfast-calls-XXXXXX", text[32];
    int fd = mkstemp(path), status = 0;
    long dear;
    pid_t pid;

    if (fd < 0)
        fail("no temporary file");
    close(fd);
    snprintf(text, sizeof text, "%ld", count);
    pid = fork();
    if (pid == 0) {
        execlp("strace", "strace", "-qq", "-s", "0", "-o", path, self, text, (char *)NULL);
        _exit(SKIP);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail("no child");
    dear = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? read_trace(path) : -1;
    unlink(path);
    return dear;
}

int main(int argc, char **argv)
{
    long dear;

    if (argc > 1)
        return run_pairs(strtol(argv[1], NULL, 10));
    run_pairs(1); /* what fails without strace is no reason to skip */
    dear = trace(argv[0], WARM + PAIRS);
    if (dear < 0) {
        printf("strace(1) is not there, or not allowed to trace\n");
        return SKIP;
    }
    printf("%ld of %d pairs took more than %d system calls\n", dear, PAIRS, LEAST);
    if (dear > PAIRS / RARELY)
        fail("that is too many");
    return 0;
}
