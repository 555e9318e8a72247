/* SPDX-License-Identifier: MIT */
/* See redis_bed.h. */
#include "redis_bed.h"

#include <stdio.h>

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

void aim(const char *url)
{
    static char kept[512];

    snprintf(kept, sizeof kept, "%s", url);
    contract_begin(kept, true);
    contract_setup(NULL);
}

hf_store *open_direct(void)
{
    return open_at(server_url(server, ""));
}

hf_store *open_through(void)
{
    return open_at(proxy_url(proxy, ""));
}
