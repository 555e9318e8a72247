/* SPDX-License-Identifier: MIT */
/*
 * A read-write lock: readers share, a writer is alone. The queue is first come,
 * first served, so a writer that waits is not overtaken by readers who come later:
 * writers do not starve. A reader cannot become the writer: two readers that tried would wait for
 * each other, so it is refused (HF_DEADLOCK). Here one thread plays all of them, with a scope of
 * its own for each.
 */
#include "example.h"

enum { ADA = 1, BOB, EVE };

/* `who` stands for a thread of its own: all are played by one here, and one that reads cannot wait for
 * itself to stop reading. */
static hf_status take(hf_store *store, uint64_t who, hf_kind kind, int64_t wait_ms,
                      hf_lease **ret_lease)
{
    static uint64_t party;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err;
    hf_status status;

    request.scope = ++party;
    request.name = "example/document";
    request.name_len = HF_CSTRING;
    request.kind = kind;
    request.wait_ms = wait_ms;
    request.scope = who;
    status = hf_acquire(store, &request, ret_lease, &err);
    printf("%-6s %s\n", kind == HF_KIND_SHARED ? "reader" : "writer",
           status == HF_OK ? "is in" : hf_status_text(status));
    return status;
}

static void leave(hf_lease *lease, const char *who)
{
    hf_error err;

    must(hf_release(lease, &err), &err);
    printf("%-6s leaves\n", who);
}

int main(int argc, char **argv)
{
    hf_store *store;
    hf_lease *first, *second, *writer;

    /* Where waiters cannot be listed no deadlock is found: the reader that wants to write would wait for ever. */
    needs(url_of(argc, argv), HF_CAP_SHARED | HF_CAP_WAITERS);
    store = open_store(argc, argv);
    expect(take(store, ADA, HF_KIND_SHARED, 0, &first) == HF_OK, "a reader comes in");
    expect(take(store, BOB, HF_KIND_SHARED, 0, &second) == HF_OK, "and another one");
    expect(take(store, EVE, HF_KIND_EXCLUSIVE, 100, &writer) == HF_TIMEOUT, "no writer meanwhile");
    expect(take(store, ADA, HF_KIND_EXCLUSIVE, HF_FOREVER, &writer) == HF_DEADLOCK,
           "least of all one who reads: it would wait for itself");
    leave(first, "reader");
    leave(second, "reader");

    expect(take(store, EVE, HF_KIND_EXCLUSIVE, 0, &writer) == HF_OK,
           "a writer, now that it is free");
    expect(take(store, ADA, HF_KIND_SHARED, 0, &first) == HF_BUSY, "no reader meanwhile");
    leave(writer, "writer");
    close_store(store);
    return 0;
}
