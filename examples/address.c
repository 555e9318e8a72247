/* SPDX-License-Identifier: MIT */
/*
 * A cell that ends with a lease: the one that serves writes down its address, and clients find it there for as long as it holds the
 * lease, and never longer. Here it is killed, and has no time to clean up; the store ends its lease, and with it the address.
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELL "example/service/address"

static hf_lease *serve(hf_store *store, const char *address)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = "example/service";
    request.name_len = HF_CSTRING;
    request.ttl_ms = 5000; /* how long clients may be led to one that has crashed */
    request.wait_ms = 60000;
    must(hf_acquire(store, &request, &lease, &err), &err);
    must(hf_lease_cell_set(lease, CELL, HF_CSTRING, address, strlen(address), &err), &err);
    return lease;
}

/* 1: there is an address, and it is this one. 0: nobody serves. */
static int is_served_at(hf_store *store, const char *address)
{
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    hf_status status = hf_lease_cell_get(store, CELL, HF_CSTRING, &cell, &err);

    if (status == HF_NOT_FOUND) {
        printf("client: nobody serves\n");
        return 0;
    }
    must(status, &err);
    printf("client: it is at %s\n", (char *)cell.bytes); /* there is a NUL behind the bytes */
    expect(strcmp(cell.bytes, address) == 0, "the address of the one that serves");
    hf_free(cell.bytes);
    return 1;
}

/* The service that crashes. It tells the parent when its address can be found, and ends with it. */
static int first_service(int argc, char **argv, int parent)
{
    hf_store *store = open_store(argc, argv);
    hf_lease *lease = serve(store, "10.0.0.7:8080");
    char byte = 0;

    expect(write(parent, &byte, 1) == 1, "the parent is told");
    expect(read(parent, &byte, 1) == 1, "killed here; the library renews the lease until then");
    (void)hf_release(lease, NULL);
    return 1;
}

int main(int argc, char **argv)
{
    int pair[2], status;
    hf_store *store;
    hf_lease *lease;
    hf_error err;
    pid_t child;
    char byte;

    needs(url_of(argc, argv), HF_CAP_TTL | HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_TOKEN);
    expect(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "a pair of sockets");
    child = fork(); /* before any store is open: handles do not survive a fork */
    expect(child >= 0, "a child");
    close(pair[child != 0]);
    if (child == 0)
        return first_service(argc, argv, pair[1]);
    expect(read(pair[0], &byte, 1) == 1, "the service is ready");

    store = open_store(argc, argv);
    expect(is_served_at(store, "10.0.0.7:8080"), "it serves");
    kill(child, SIGKILL);
    expect(waitpid(child, &status, 0) == child, "it has crashed");
    lease = serve(store, "10.0.0.8:8080"); /* waits until the store has ended the other lease */
    expect(is_served_at(store, "10.0.0.8:8080"), "another one serves");
    must(hf_release(lease, &err), &err);
    expect(!is_served_at(store, ""), "no lease, no address");
    close_store(store);
    return 0;
}
