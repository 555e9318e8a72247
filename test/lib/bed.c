/* SPDX-License-Identifier: MIT */
/* See bed.h. */
#include "bed.h"

#include "mem_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t bed_open_wait_ms;

void bed_main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--peer") == 0) {
        mem_engine_register();
        peer_serve(STDIN_FILENO, argv[2]);
        exit(0);
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}

const char *at_bed(const char *url)
{
    static char filled[1024];
    const char *id = strstr(url, "{id}");

    if (!id)
        return url;
    snprintf(filled, sizeof filled, "%.*sbed%s", (int)(id - url), url, id + 4);
    return filled;
}

hf_store *open_at(const char *url)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    if (bed_open_wait_ms)
        options.open_wait_ms = bed_open_wait_ms;
    EXPECT(HF_OK, hf_open(at_bed(url), &options, &store, &contract_error));
    return store;
}

hf_acquire_request with_ttl(hf_acquire_request request, int64_t ttl_ms)
{
    request.ttl_ms = ttl_ms;
    return request;
}

hf_acquire_request with_wait(hf_acquire_request request, int64_t wait_ms)
{
    request.wait_ms = wait_ms;
    return request;
}

hf_acquire_request semaphore_request(const char *name, uint32_t capacity)
{
    hf_acquire_request request = mutex_request(name);

    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = capacity;
    return request;
}

uint64_t gets_free(hf_store *store, const char *name, uint64_t after)
{
    hf_acquire_request request = waiting_request(name);
    hf_lease *lease = take(store, &request);
    uint64_t token = hf_lease_token(lease);

    CHECK(token > after);
    give(lease);
    return token;
}

void close_hard(hf_store *store)
{
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
}

void note_loss(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct loss *loss = arg;

    (void)lease;
    if (event != HF_EVENT_LOST)
        return;
    snprintf(loss->why, sizeof loss->why, "%s", why);
    loss->calls++;
    loss->at_ms = now_ms();
}
