/* SPDX-License-Identifier: MIT */
/*
 * A lease that outlives its process. One process acquires it, detached, prints
 * its handle and ends; another adopts the lease by that handle, with the same
 * token, and releases it. In between no process keeps the lease, so it needs a ttl. Any process
 * that has the handle can release the lease: treat it as a secret.
 */
#include "example.h"

#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "example/release-train"

static int first_process(int argc, char **argv, int out)
{
    hf_store *store = open_store(argc, argv);
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    char handle[HF_LEASE_TEXT_MAX];
    hf_lease *lease;
    hf_error err;

    request.name = NAME;
    request.name_len = HF_CSTRING;
    request.flags = HF_FLAG_DETACHED;
    request.ttl_ms = 20000;
    must(hf_acquire(store, &request, &lease, &err), &err);
    expect(hf_lease_export(lease, handle) == HF_OK, "a handle");
    printf("first process:  acquired, token %" PRIu64 ", and goes\n", hf_lease_token(lease));
    expect(write(out, handle, sizeof handle) == (ssize_t)sizeof handle, "the pipe");
    return 0; /* without releasing it */
}

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    char handle[HF_LEASE_TEXT_MAX];
    hf_adopt_request adopt = HF_ADOPT_REQUEST_INIT;
    hf_lease *lease, *other;
    hf_store *store;
    hf_error err;
    int pipe_fds[2], status;
    pid_t child;

    needs(url_of(argc, argv), HF_CAP_DETACHED);
    expect(pipe(pipe_fds) == 0, "a pipe");
    child = fork(); /* before any store is open */
    expect(child >= 0, "a child");
    if (child == 0)
        return first_process(argc, argv, pipe_fds[1]);
    close(pipe_fds[1]); /* so that we see its end, whatever becomes of the child */
    expect(read(pipe_fds[0], handle, sizeof handle) == (ssize_t)sizeof handle, "the handle");
    expect(waitpid(child, &status, 0) == child && status == 0, "the child ended");

    store = open_store(argc, argv);
    request.name = NAME;
    request.name_len = HF_CSTRING;
    expect(hf_acquire(store, &request, &other, &err) == HF_BUSY,
           "still held, though nobody is there");
    printf("second process: the first is gone, and the name is still held\n");

    adopt.name = NAME;
    adopt.name_len = HF_CSTRING;
    adopt.text = handle;
    adopt.renew = true;
    must(hf_lease_adopt(store, &adopt, &lease, &err), &err);
    printf("second process: adopted, token %" PRIu64 "\n", hf_lease_token(lease));
    must(hf_release(lease, &err), &err);

    must(hf_acquire(store, &request, &other, &err), &err);
    printf("second process: released; the next lease has token %" PRIu64 "\n",
           hf_lease_token(other));
    must(hf_release(other, &err), &err);
    expect(hf_lease_adopt(store, &adopt, &lease, &err) == HF_NOT_FOUND, "the handle is void");
    close_store(store);
    return 0;
}
