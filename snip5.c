#include <holdfast/holdfast.h>
#include <poll.h>

static bool finished;

static void on_released(const hf_result *result, void *arg)
{
    (void)arg;
    finished = result->status == HF_OK;
}

static void on_acquired(const hf_result *result, void *arg)
{
    (void)arg;
    if (result->status != HF_OK || hf_release_async(result->lease, on_released, NULL, NULL, NULL) != HF_OK)
        finished = true;
}

int main(int argc, char **argv)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT; /* copied by the call */
    struct pollfd fd = { .events = POLLIN };
    hf_store *store;

    request.name = "job";
    request.name_len = HF_CSTRING;
    request.wait_ms = 60000;
    if (hf_open(argc > 1 ? argv[1] : NULL, NULL, &store, NULL) != HF_OK ||
        hf_acquire_async(store, &request, on_acquired, NULL, NULL, NULL) != HF_OK)
        return 1;
    fd.fd = hf_store_fd(store);
    while (!finished) {
        poll(&fd, 1, hf_store_timeout_ms(store));
        hf_store_process(store);
    }
    return hf_close(store, 0) != HF_OK;
}
