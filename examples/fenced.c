/* SPDX-License-Identifier: MIT */
/*
 * A paused holder, and the resource that refuses it.
 *
 * The child takes a lease with a ttl of one second, looks (still held), and is
 * stopped between the look and the write, as a page fault, a debugger or a sleeping
 * laptop would do. Meanwhile the lease ends and the parent gets the next one. When
 * the child goes on it writes: no lock in the world can stop it any more. The
 * resource can, because the token of the child is lower than one it has seen.
 *
 * The rule of the resource: accept a token >= the highest seen, refuse lower ones,
 * and check and write in one step. The rule of its users: claim before reading,
 * that is, present the token first and read then. Who reads first may work on
 * what an older writer still changes.
 */
#include "example.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The resource: a number, and the highest token that it was written with. A table row or an object in a
 * bucket would do; what matters is that comparing and writing are one step there. */
struct resource {
    pthread_mutex_t step;
    uint64_t highest;
    int value;
};

static int claim(struct resource *resource, uint64_t token)
{
    int accepted;

    pthread_mutex_lock(&resource->step);
    accepted = token >= resource->highest;
    if (accepted)
        resource->highest = token;
    pthread_mutex_unlock(&resource->step);
    return accepted;
}

static int write_value(struct resource *resource, uint64_t token, int value)
{
    int accepted;

    pthread_mutex_lock(&resource->step);
    accepted = token >= resource->highest;
    if (accepted) {
        resource->highest = token;
        resource->value = value;
    }
    pthread_mutex_unlock(&resource->step);
    return accepted;
}

static struct resource *make_resource(void)
{
    struct resource *resource =
        mmap(NULL, sizeof *resource, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared;

    expect(resource != MAP_FAILED, "shared memory");
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&resource->step, &shared);
    return resource;
}

static hf_lease *take(hf_store *store, int64_t ttl_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = "example/value";
    request.name_len = HF_CSTRING;
    request.ttl_ms = ttl_ms; /* without a ttl a stopped process keeps its lease: safe, but stuck */
    request.wait_ms = 60000;
    must(hf_acquire(store, &request, &lease, &err), &err);
    return lease;
}

static int paused_writer(int argc, char **argv, struct resource *resource)
{
    hf_store *store = open_store(argc, argv);
    hf_lease *lease = take(store, 2000);
    uint64_t token =
        hf_lease_token(lease); /* asked for early, as a real program would pass it on */
    int accepted;

    expect(claim(resource, token), "the first claim");
    expect(hf_lease_state(lease) == HF_STATE_HELD, "held at the last look");
    printf("child:  token %" PRIu64 ", lease held, about to write\n", token);
    raise(SIGSTOP); /* ... and now a pause of unknown length */

    accepted = write_value(resource, token, 1);
    printf("child:  woke up and wrote with token %" PRIu64 ": %s\n", token,
           accepted ? "ACCEPTED" : "refused");
    printf("child:  and the library says the lease is %s\n",
           hf_lease_state(lease) == HF_STATE_LOST ? "lost" : "held");
    expect(!accepted, "a lower token is refused");
    expect(hf_release(lease, NULL) == HF_LOST, "hf_release() says LOST");
    close_store(store);
    return 0;
}

int main(int argc, char **argv)
{
    struct resource *resource = make_resource();
    pid_t child;
    hf_store *store;
    hf_lease *lease;
    uint64_t token;
    hf_error err;
    int status;

    needs(url_of(argc, argv), HF_CAP_TOKEN | HF_CAP_TTL);
    child = fork(); /* before any store is open: handles do not survive a fork */
    expect(child >= 0, "a child");
    if (child == 0)
        return paused_writer(argc, argv, resource);
    expect(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "the child stopped");

    store = open_store(argc, argv);
    lease = take(store, 0);
    token = hf_lease_token(lease);
    expect(claim(resource, token), "our claim");
    expect(write_value(resource, token, resource->value + 2), "our write");
    printf("parent: token %" PRIu64 ", wrote %d\n", token, resource->value);

    kill(child, SIGCONT);
    expect(waitpid(child, &status, 0) == child && status == 0, "the child did as it should");
    printf("parent: the value is still %d\n", resource->value);
    expect(resource->value == 2, "nothing was overwritten");
    must(hf_release(lease, &err), &err);
    close_store(store);
    return 0;
}
