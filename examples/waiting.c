/* SPDX-License-Identifier: MIT */
/*
 * Ways to stop waiting: not to wait at all, a deadline, and another thread that
 * says so. In all of them the library has left the queue when the call returns.
 */
#include "example.h"

#include <pthread.h>
#include <unistd.h>

static void *give_up_soon(void *arg)
{
    hf_cancel *cancel = (hf_cancel *)arg;

    usleep(100 * 1000);
    hf_cancel_fire(cancel); /* every request that names it ends; also ones that are yet to come */
    return NULL;
}

static hf_status try_it(hf_store *store, const char *how, int64_t wait_ms, hf_cancel *cancel)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease;
    hf_error err;
    hf_status status;

    request.name = "example/door";
    request.name_len = HF_CSTRING;
    request.wait_ms = wait_ms;
    request.cancel = cancel;
    status = hf_acquire(store, &request, &lease, &err);
    printf("%-22s %s\n", how, hf_status_name(status));
    return status;
}

int main(int argc, char **argv)
{
    hf_store *store = open_store(argc, argv);
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_cancel *cancel;
    hf_lease *lease;
    pthread_t thread;
    hf_error err;

    request.name = "example/door";
    request.name_len = HF_CSTRING;
    must(hf_acquire(store, &request, &lease, &err), &err);

    expect(try_it(store, "once", 0, NULL) == HF_BUSY, "busy");
    expect(try_it(store, "for 100 ms", 100, NULL) == HF_TIMEOUT, "a timeout");

    expect(hf_cancel_open(&cancel) == HF_OK, "a canceller");
    expect(pthread_create(&thread, NULL, give_up_soon, cancel) == 0, "a thread");
    expect(try_it(store, "until told otherwise", HF_FOREVER, cancel) == HF_CANCELLED, "cancelled");
    pthread_join(thread, NULL);
    expect(try_it(store, "with a fired canceller", HF_FOREVER, cancel) == HF_CANCELLED,
           "still fired");
    expect(hf_cancel_close(cancel) == HF_OK, "freed");

    must(hf_release(lease, &err), &err);
    close_store(store);
    return 0;
}
