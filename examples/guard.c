/* SPDX-License-Identifier: MIT */
/*
 * A balance that no late writer can spoil: the guard.
 *
 * fenced.c shows a resource that checks tokens by itself. This one lets the library
 * do it: a few bytes in a store, which remember the highest token that they have
 * seen. The first depositor is stopped between reading the balance and writing it
 * back, until its lease has ended and another depositor has deposited. Its write would lose that
 * deposit; it is refused, and it begins again with a new lease.
 *
 *   example-guard [STORE OF THE LOCK [STORE OF THE BALANCE]]
 */
#include <holdfast/primitives.h>

#include "example.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BALANCE "example/balance"

static const char *resource_url(int argc, char **argv)
{
    return argc > 2 ? argv[2] : argc > 1 ? argv[1] : NULL;
}

static hf_lease *take(hf_store *store)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;

    request.name = BALANCE;
    request.name_len = HF_CSTRING;
    request.ttl_ms = 2000;
    request.wait_ms = 60000;
    must(hf_acquire(store, &request, &lease, &err), &err);
    return lease;
}

/* Add `amount` under this lease. `pause`: be stopped in the middle. */
static hf_status deposit(hf_store *bank, hf_lease *lease, long amount, int pause)
{
    char text[32];
    void *found;
    uint64_t token;
    hf_error err;
    hf_status status;

    must(hf_lease_fence(lease, &token, &err), &err);

    /* Claim before reading: from here on nobody with a lower token changes what we read. */
    must(hf_guard_claim(bank, BALANCE, HF_CSTRING, token, &found, NULL, &err), &err);
    snprintf(text, sizeof text, "%ld", (found ? strtol(found, NULL, 10) : 0) + amount);
    printf("token %" PRIu64 ": read %s, will write %s\n", token, found ? (char *)found : "nothing",
           text);
    hf_free(found);
    if (pause)
        raise(SIGSTOP);

    status = hf_guard_set(bank, BALANCE, HF_CSTRING, token, text, strlen(text), &err);
    if (status != HF_FENCED)
        must(status, &err);
    printf("token %" PRIu64 ": %s\n", token, status == HF_OK ? "written" : err.text);
    return status;
}

static int paused_depositor(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv), *bank;
    hf_lease *lease = take(store);
    hf_error err;

    must(hf_open(resource_url(argc, argv), NULL, &bank, &err), &err);
    expect(deposit(bank, lease, 1, 1) == HF_FENCED, "a late write is refused");
    expect(hf_release(lease, NULL) == HF_LOST, "the lease was over");

    lease = take(store); /* begin again, from the claim on */
    expect(deposit(bank, lease, 1, 0) == HF_OK, "the second try is accepted");
    must(hf_release(lease, &err), &err);
    close_store(bank);
    close_store(store);
    return 0;
}

int main(int argc, char **argv)
{
    pid_t child;
    hf_store *store, *bank;
    hf_lease *lease;
    void *found;
    uint64_t token;
    hf_error err;
    int status;

    needs(url_of(argc, argv), HF_CAP_TOKEN | HF_CAP_TTL | HF_CAP_CELLS);
    child = fork(); /* before any store is open: handles do not survive a fork */
    expect(child >= 0, "a child");
    if (child == 0)
        return paused_depositor(argc, argv);
    expect(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "the child stopped");

    store = open_store(argc, argv);
    must(hf_open(resource_url(argc, argv), NULL, &bank, &err), &err);
    lease = take(store); /* when the child's lease has ended */
    expect(deposit(bank, lease, 100, 0) == HF_OK, "our deposit");
    must(hf_release(lease, &err), &err);

    kill(child, SIGCONT);
    expect(waitpid(child, &status, 0) == child && status == 0, "the child did as it should");
    lease = take(store);
    must(hf_lease_fence(lease, &token, &err), &err);
    must(hf_guard_claim(bank, BALANCE, HF_CSTRING, token, &found, NULL, &err), &err);
    printf("balance: %s\n", found ? (char *)found : "nothing");
    expect(found && strcmp(found, "101") == 0, "no deposit was lost");
    hf_free(found);
    must(hf_release(lease, &err), &err);
    close_store(bank);
    close_store(store);
    return 0;
}
