/* SPDX-License-Identifier: MIT */
/* See memcached_bed.h. */
#include "memcached_bed.h"

#include <stdio.h>
#include <string.h>

struct cache *cache;
struct proxy *proxy;
hf_store *store, *other;

int bed_setup_with(const char *const *options)
{
    static char url[128];
    hf_acquire_request request = mutex_request("warm");

    cache = cache_start(options);
    proxy = proxy_start(cache->port);
    snprintf(url, sizeof url, "%s", cache_url(cache->port, ""));
    contract_begin(url, false);
    contract_setup(NULL);
    store = open_at(cache_url(proxy_port(proxy), "?op_timeout=1s&connect_timeout=1s"));
    other = open_at(url);
    EXPECT(HF_OK, probe(store, &request));
    EXPECT(HF_OK, probe(other, &request));
    return 0;
}

int bed_setup(void **state)
{
    (void)state;
    return bed_setup_with(NULL);
}

int bed_teardown(void **state)
{
    proxy_heal(proxy);
    if (hf_close(store, HF_CLOSE_FLAG_RELEASE) != HF_OK ||
        hf_close(other, HF_CLOSE_FLAG_RELEASE) != HF_OK)
        return -1;
    contract_teardown(state);
    proxy_stop(proxy);
    cache_free(cache);
    proxy = NULL;
    cache = NULL;
    return 0;
}

bool is_settled_later(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN;
}

void settle(void)
{
    hf_acquire_request request = mutex_request("warm");

    AWAIT(probe(store, &request) == HF_OK);
}

void is_free_again(const char *name)
{
    hf_acquire_request trying = mutex_request(name);

    AWAIT(probe(other, &trying) == HF_OK);
}

bool is_there(const char *name)
{
    char command[320];

    snprintf(command, sizeof command, "me hf:l:%s\r\n", name);
    return strncmp(cache_say(cache, command, 1), "ME", 2) == 0;
}
