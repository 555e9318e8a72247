/* SPDX-License-Identifier: MIT */
/*
 * Any one of several names: three printers, and a job that takes whichever is free. While all are busy it stands in the
 * queue of each of them.
 */
#include "example.h"

#include <pthread.h>
#include <unistd.h>

static const char *const printers[] = { "example/printer 1", "example/printer 2",
                                        "example/printer 3" };

static size_t print_somewhere(hf_store *store, hf_lease **ret_lease)
{
    hf_acquire_request requests[3];
    size_t index;
    hf_error err;

    for (size_t i = 0; i < 3; i++) {
        requests[i] = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
        requests[i].name = printers[i];
        requests[i].name_len = HF_CSTRING;
        requests[i].wait_ms = 60000;
    }
    must(hf_acquire_any(store, requests, 3, &index, ret_lease, &err), &err);
    printf("a job has %s\n", printers[index]);
    return index;
}

static void *release_soon(void *arg)
{
    usleep(100 * 1000);
    (void)hf_release(arg, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv);
    hf_lease *jobs[3], *next;
    pthread_t thread;
    hf_error err;

    for (size_t i = 0; i < 3; i++)
        expect(print_somewhere(store, &jobs[i]) == i, "the first that is free");
    expect(pthread_create(&thread, NULL, release_soon, jobs[1]) == 0, "a thread");
    expect(print_somewhere(store, &next) == 1, "the one that came free");
    pthread_join(thread, NULL);

    must(hf_release(jobs[0], &err), &err);
    must(hf_release(jobs[2], &err), &err);
    must(hf_release(next, &err), &err);
    close_store(store);
    return 0;
}
