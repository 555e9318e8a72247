/* SPDX-License-Identifier: MIT */
/* See etcd_bed.h. */
#include "etcd_bed.h"

#include <stdio.h>
#include <string.h>

struct etcd_cluster *etcd;
struct proxy *proxy;

static int begin(size_t count)
{
    static char kept[1024];

    etcd = etcd_start(count, 0);
    proxy = proxy_start(etcd->members[0].port);
    snprintf(kept, sizeof kept, "%s", at_bed(etcd_url(etcd, -1, "")));
    contract_begin(kept, true);
    contract_setup(NULL);
    return 0;
}

int bed_setup(void **state)
{
    (void)state;
    return begin(1);
}

int bed_setup_cluster(void **state)
{
    (void)state;
    return begin(3);
}

int bed_teardown(void **state)
{
    contract_teardown(state);
    proxy_stop(proxy);
    etcd_free(etcd);
    proxy = NULL;
    etcd = NULL;
    return 0;
}

/* ---- stores ---------------------------------------------------------------------------------- */

hf_store *open_with(const char *query)
{
    return open_at(etcd_url(etcd, -1, query));
}

hf_store *open_member(size_t member, const char *query)
{
    return open_at(etcd_url(etcd, (int)member, query));
}

hf_store *open_through(const char *query)
{
    char url[512];

    snprintf(url, sizeof url, "etcd://127.0.0.1:%u/hf/bed%s%s", (unsigned)proxy_port(proxy),
             *query ? "?" : "", query);
    return open_at(url);
}

/* ---- behind the engine's back ------------------------------------------------------------------- */

size_t list_leases(int64_t *ret_ids, size_t room)
{
    struct etcd_text reply = etcd_tell(etcd, 0, "Lease/LeaseLeases", (struct etcd_text){ 0 }, true);
    struct etcd_message at = etcd_answer(&reply), one;
    size_t count = 0;

    for (; etcd_next(&at, 2, &one); count++)
        if (count < room)
            ret_ids[count] = etcd_number(one, 1);
    etcd_text_done(&reply);
    return count;
}

void revoke_lease(int64_t id)
{
    struct etcd_text body = { 0 }, reply;

    etcd_put_number(&body, 1, id);
    reply = etcd_tell(etcd, 0, "Lease/LeaseRevoke", body, false); /* it may have ended */
    etcd_text_done(&reply);
}

int64_t count_keys(const char *area)
{
    char from[128], to[128];
    struct etcd_text body = { 0 }, reply;
    int64_t count;

    snprintf(from, sizeof from, "hf/bed/%s/", area);
    snprintf(to, sizeof to, "hf/bed/%s0", area);
    etcd_put_bytes(&body, 1, from, strlen(from));
    etcd_put_bytes(&body, 2, to, strlen(to));
    etcd_put_number(&body, 9, 1); /* count only */
    reply = etcd_tell(etcd, 0, "KV/Range", body, true);
    count = etcd_number(etcd_answer(&reply), 4);
    etcd_text_done(&reply);
    return count;
}

void put_value(const char *key, const void *value, size_t len)
{
    struct etcd_text body = { 0 }, reply;

    etcd_put_bytes(&body, 1, key, strlen(key));
    etcd_put_bytes(&body, 2, value, len);
    reply = etcd_tell(etcd, 0, "KV/Put", body, true);
    etcd_text_done(&reply);
}

void delete_key(const char *key)
{
    struct etcd_text body = { 0 }, reply;

    etcd_put_bytes(&body, 1, key, strlen(key));
    reply = etcd_tell(etcd, 0, "KV/DeleteRange", body, true);
    etcd_text_done(&reply);
}

void compact(void)
{
    struct etcd_text body = { 0 }, reply;
    int64_t revision;

    etcd_put_bytes(&body, 1, "a", 1);
    reply = etcd_tell(etcd, 0, "KV/Range", body, true);
    revision = etcd_number(etcd_part(etcd_answer(&reply), 1), 3);
    etcd_text_done(&reply);
    body = (struct etcd_text){ 0 };
    etcd_put_number(&body, 1, revision);
    etcd_put_number(&body, 2, 1); /* physical */
    reply = etcd_tell(etcd, 0, "KV/Compact", body, false);
    etcd_text_done(&reply);
}
