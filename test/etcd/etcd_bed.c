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
    json_t *reply = etcd_ask(etcd, 0, "/v3/lease/leases", "{}", true);
    const json_t *leases = json_object_get(reply, "leases");
    size_t count = json_array_size(leases);

    for (size_t i = 0; i < count && i < room; i++)
        ret_ids[i] = etcd_number(json_array_get(leases, i), "ID");
    json_decref(reply);
    return count;
}

void revoke_lease(int64_t id)
{
    char body[64];

    snprintf(body, sizeof body, "{\"ID\":\"%lld\"}", (long long)id);
    json_decref(etcd_ask(etcd, 0, "/v3/lease/revoke", body, false)); /* it may have ended */
}

static const char *base64(const char *text, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text), used = 0;

    for (size_t i = 0; i < len; i += 3) {
        unsigned group = (unsigned)(unsigned char)text[i] << 16;

        group |= i + 1 < len ? (unsigned)(unsigned char)text[i + 1] << 8 : 0;
        group |= i + 2 < len ? (unsigned)(unsigned char)text[i + 2] : 0;
        ret[used++] = digits[group >> 18];
        ret[used++] = digits[group >> 12 & 63];
        ret[used++] = i + 1 < len ? digits[group >> 6 & 63] : '=';
        ret[used++] = i + 2 < len ? digits[group & 63] : '=';
    }
    ret[used] = 0;
    return ret;
}

int64_t count_keys(const char *area)
{
    char from[128], to[128], a[256], b[256], body[600];
    json_t *reply;
    int64_t count;

    snprintf(from, sizeof from, "hf/bed/%s/", area);
    snprintf(to, sizeof to, "hf/bed/%s0", area);
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"range_end\":\"%s\",\"count_only\":true}",
             base64(from, a), base64(to, b));
    reply = etcd_ask(etcd, 0, "/v3/kv/range", body, true);
    count = etcd_number(reply, "count");
    json_decref(reply);
    return count;
}

void compact(void)
{
    json_t *reply = etcd_ask(etcd, 0, "/v3/kv/range", "{\"key\":\"YQ==\"}", true);
    char body[64];

    snprintf(body, sizeof body, "{\"revision\":\"%lld\",\"physical\":true}",
             (long long)etcd_number(json_object_get(reply, "header"), "revision"));
    json_decref(reply);
    json_decref(etcd_ask(etcd, 0, "/v3/kv/compaction", body, false));
}
