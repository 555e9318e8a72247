/* SPDX-License-Identifier: MIT */
/*
 * Many locks in one thread: acquisitions that run beside each other in a poll loop,
 * which could be anybody's event loop. Nothing here blocks but poll(2) itself;
 * callbacks run inside hf_store_process() and nowhere else.
 *
 * Three jobs. A and B want the same name, so B gets it when A gives it back; C
 * wants another one and waits for nobody.
 */
#include "example.h"

#include <poll.h>

struct job {
    const char *who, *name;
    hf_store *store;
    int done;
};

static int unfinished;

static void on_released(const hf_result *result, void *arg)
{
    struct job *job = arg;

    must(result->status, result->error);
    printf("%s: the release of %s is confirmed\n", job->who, job->name);
    job->done = 1;
    unfinished--;
}

static void on_acquired(const hf_result *result, void *arg)
{
    struct job *job = arg;
    hf_error error;

    must(result->status, result->error);
    printf("%s: has %s, does its work, gives it back\n", job->who, job->name);
    must(hf_release_async(result->lease, on_released, job, NULL, &error), &error);
}

static void begin(struct job *job)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT; /* copied: it may go out of scope */
    hf_error err;

    request.name = job->name;
    request.name_len = HF_CSTRING;
    request.wait_ms = 60000;
    must(hf_acquire_async(job->store, &request, on_acquired, job, NULL, &err), &err);
    unfinished++;
}

int main(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv);
    struct job jobs[] = { { "A", "example/one", store, 0 },
                          { "B", "example/one", store, 0 },
                          { "C", "example/two", store, 0 } };
    struct pollfd poller = { .fd = hf_store_fd(store), .events = POLLIN };

    expect(poller.fd >= 0, "a descriptor");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        begin(&jobs[i]);
    printf("all three have begun\n");

    while (unfinished > 0) {
        expect(poll(&poller, 1, hf_store_timeout_ms(store)) >= 0, "poll(2)");
        expect(hf_store_process(store) == HF_OK, "hf_store_process()");
    }
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        expect(jobs[i].done, "every job is done");
    close_store(store);
    return 0;
}
