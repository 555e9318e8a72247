/* SPDX-License-Identifier: MIT */
/*
 * An election: two candidates, each a process that says where it can be reached. One leads and is killed; the
 * other one follows, and resigns when it is told to. We look on, and print what we are shown.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHAIR "example/chair"

static int candidate(int argc, char **argv, const char *address)
{
    hf_store *store = open_store(argc, argv);
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *leader;
    sigset_t set;
    hf_error err;
    int number;

    request.name = CHAIR;
    request.name_len = HF_CSTRING;
    request.ttl_ms = 2000; /* how long it takes until a dead leader is replaced, on a server */
    request.wait_ms = HF_FOREVER;
    must(hf_election_campaign(store, &request, address, strlen(address), &leader, &err), &err);

    /* Leading. A real one would also stop at once when hf_lease_fd() says that it is lost. */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &number);
    must(hf_election_resign(leader, &err), &err);
    close_store(store);
    return 0;
}

static pid_t start(int argc, char **argv, const char *address)
{
    pid_t child;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    child = fork();
    expect(child >= 0, "a child");
    if (child == 0)
        exit(candidate(argc, argv, address));
    return child;
}

/* Look until it is as we expect: NULL: nobody leads. */
static void see(hf_store *store, hf_leader **seen, const char *address)
{
    hf_election_request request = HF_ELECTION_REQUEST_INIT;

    request.name = CHAIR;
    request.name_len = HF_CSTRING;
    request.wait_ms = 60000;
    for (;;) {
        hf_leader *next;
        hf_error err;

        request.last = *seen;
        must(hf_election_wait(store, &request, &next, &err), &err);
        hf_free(*seen);
        *seen = next;
        printf("%s\n", next->leads ? (const char *)next->value : "nobody leads");
        if (address ? next->leads && strcmp(next->value, address) == 0 : !next->leads)
            return;
    }
}

int main(int argc, char **argv)
{
    pid_t first, second;
    hf_leader *seen = NULL;
    hf_store *store;
    int status;

    needs(url_of(argc, argv), HF_CAP_CELLS | HF_CAP_TTL);
    first = start(argc, argv, "10.0.0.1:80");
    store = open_store(argc, argv);
    see(store, &seen, "10.0.0.1:80");
    close_store(store); /* handles do not survive a fork */
    second = start(argc, argv, "10.0.0.2:80");
    store = open_store(argc, argv);

    kill(first, SIGKILL);
    expect(waitpid(first, &status, 0) == first, "the first one is dead");
    see(store, &seen, "10.0.0.2:80");
    kill(second, SIGTERM);
    expect(waitpid(second, &status, 0) == second && status == 0, "the second one resigned");
    see(store, &seen, NULL);
    hf_free(seen);
    close_store(store);
    return 0;
}
