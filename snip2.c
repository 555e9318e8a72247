#include <holdfast/holdfast.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_bool stop;

static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    (void)lease;
    (void)arg;
    if (event == HF_EVENT_LOST) {
        fprintf(stderr, "the lease is lost: %s\n", text);
        atomic_store(&stop, true);
    }
}

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_store *store;
    hf_lease *lease;

    request.name = "batch";
    request.name_len = HF_CSTRING;
    request.max_hold_ms = 1000; /* so that it is lost here */
    request.on_event = on_event;
    if (hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, NULL) != HF_OK || hf_acquire(store, &request, &lease, NULL) != HF_OK)
        return 1;
    while (!atomic_load(&stop))
        poll(NULL, 0, 10); /* instead of it: a small step of the work */
    return hf_release(lease, NULL) != HF_LOST || hf_close(store, 0) != HF_OK;
}
