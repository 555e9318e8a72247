/* SPDX-License-Identifier: MIT */
/*
 * Once only: several processes start at the same time, and one of them prepares what all need. The first
 * that tries is killed in the middle, so another one does it; the rest wait, and find it done.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 4

/* 1: we have done it. 0: somebody else had. */
static int prepare(hf_store *store, int crash)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_once_mark mark = HF_ONCE_MARK_INIT;
    hf_lease *lease;
    hf_status status;
    hf_error err;

    request.name = "example/once";
    request.name_len = HF_CSTRING;
    request.ttl_ms =
        2000; /* how long the others wait for one that crashed, on stores that do not notice the
               * death of a process */
    request.wait_ms = 60000;
    status = hf_once_begin(store, &request, 0, &lease, &mark, &err);
    if (status == HF_DONE) {
        printf("%ld: done already, by %s\n", (long)getpid(), mark.label);
        return 0;
    }
    must(status, &err);
    printf("%ld: doing it\n", (long)getpid());
    if (crash)
        raise(SIGKILL);

    /* ... the work itself. If it failed: hf_release() alone, and it is not done. */
    must(hf_once_finish(lease, &err), &err);
    must(hf_release(lease, &err), &err);
    return 1;
}

static pid_t start(int argc, char **argv, int crash)
{
    pid_t child = fork();

    expect(child >= 0, "a child");
    if (child == 0) {
        hf_store *store = open_store(argc, argv);
        int did = prepare(store, crash);

        close_store(store);
        exit(did);
    }
    return child;
}

int main(int argc, char **argv)
{
    int status, did = 0;
    pid_t child;

    needs(url_of(argc, argv), HF_CAP_CELLS | HF_CAP_TTL);
    child = start(argc, argv, 1);
    expect(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "the first one crashed");
    for (int i = 0; i < PROCESSES; i++)
        start(argc, argv, 0);
    for (int i = 0; i < PROCESSES; i++) {
        expect(wait(&status) > 0 && WIFEXITED(status), "a child ended");
        did += WEXITSTATUS(status);
    }
    expect(did == 1, "one of them did it");
    return 0;
}
