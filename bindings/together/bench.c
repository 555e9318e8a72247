/* SPDX-License-Identifier: MIT */
/* bench URL SECONDS: uncontended pairs of one thread, as the programs examples/bench of the other languages measure them. */
#include <holdfast/holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double pairs_per_second(hf_store *store, double seconds)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    double begin = now_s(), end = begin;
    unsigned long pairs = 0;
    hf_lease *lease;
    hf_error err;

    request.name = "bench";
    request.name_len = HF_CSTRING;
    request.wait_ms = HF_FOREVER;
    while (end - begin < seconds) {
        for (int i = 0; i < 64; i++, pairs++)
            if (hf_acquire(store, &request, &lease, &err) != HF_OK ||
                hf_release(lease, &err) != HF_OK) {
                fprintf(stderr, "%s\n", err.text);
                exit(1);
            }
        end = now_s();
    }
    return (double)pairs / (end - begin);
}

int main(int argc, char **argv)
{
    hf_store *store;
    hf_error err;

    if (argc != 3) {
        fprintf(stderr, "usage: bench URL SECONDS\n");
        return 64;
    }
    if (hf_open(argv[1], NULL, &store, &err) != HF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    pairs_per_second(store, 0.1);
    printf("pairs_per_second %.0f\n", pairs_per_second(store, strtod(argv[2], NULL)));
    return hf_close(store, 0) == HF_OK ? 0 : 1;
}
