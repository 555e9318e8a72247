/* SPDX-License-Identifier: MIT */
/* See bed.h. */
#include "bed.h"

#include "mem_engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct server *server;
struct proxy *proxy;

static void begin(void)
{
    proxy = proxy_start(server->port);
    aim(server_url(server, ""));
}

int bed_setup(void **state)
{
    (void)state;
    server = server_start(NULL);
    begin();
    return 0;
}

int bed_setup_clock(void **state)
{
    (void)state;
    server = clock_server(NULL);
    begin();
    return 0;
}

int bed_teardown(void **state)
{
    contract_teardown(state);
    proxy_stop(proxy);
    server_free(server);
    proxy = NULL;
    server = NULL;
    return 0;
}

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

void aim(const char *url)
{
    static char kept[512];

    snprintf(kept, sizeof kept, "%s", url);
    contract_begin(kept, true);
    contract_setup(NULL);
}

hf_store *open_at(const char *url)
{
    hf_store *store = NULL;

    EXPECT(HF_OK, hf_open(url, NULL, &store, &contract_error));
    return store;
}

hf_store *open_direct(void)
{
    return open_at(server_url(server, ""));
}

hf_store *open_through(void)
{
    return open_at(proxy_url(proxy, ""));
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

void note_loss(hf_lease *lease, hf_status reason, const char *why, void *arg)
{
    struct loss *loss = arg;

    (void)lease, (void)reason, (void)why;
    loss->calls++;
    loss->at_ms = now_ms();
}
