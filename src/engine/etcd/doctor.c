/* SPDX-License-Identifier: MIT */
/* Checks whether this store can keep its promises. Blocks, on connections of its own. */
#include "engine/etcd/internal.h"

#include "engine/kit/report.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_SAFE 3

struct checkup {
    struct etcd_store *store;
    struct hfi_report report;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static hf_status ask(const struct checkup *r, size_t host, const char *path, const char *body,
                     json_t **ret_reply, hf_error *err)
{
    return etcd_ask(r->store, host, path, body, r->store->conf->op_ms, ret_reply, err);
}

/* Check each endpoint: does it answer, which version is it, does it have a leader? Returns how many
 * answer. */
static size_t check_endpoints(const struct checkup *r, size_t *ret_good)
{
    const struct etcd_conf *conf = r->store->conf;
    size_t up = 0;

    for (size_t i = 0; i < conf->url.host_count; i++) {
        const char *shown = conf->url.hosts[i].shown, *version;
        json_t *reply = NULL;
        hf_error err;

        if (ask(r, i, "/v3/maintenance/status", "{}", &reply, &err) != HF_OK) {
            hfi_report(&r->report,
                       conf->url.host_count > 1 ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD,
                       "endpoint", "%s", err.text);
            continue;
        }
        *ret_good = i;
        up++;
        version = text_of(reply, "version");
        if (strncmp(version, "3.", 2) == 0 && strtol(version + 2, NULL, 10) < 4)
            hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "version",
                       "%s: etcd %s; 3.4 or newer is needed", shown, version);
        else
            hfi_report(&r->report, HF_CHECK_LEVEL_OK, "version", "%s: etcd %s", shown, version);
        if (etcd_read_number(reply, "leader") == 0)
            hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "leader",
                       "%s knows no leader: nothing can be locked through it", shown);
        if (json_array_size(json_object_get(reply, "errors")) > 0)
            hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "errors", "%s reports: %s", shown,
                       json_string_value(json_array_get(json_object_get(reply, "errors"), 0)));
        json_decref(reply);
    }
    return up;
}

static void check_members(const struct checkup *r, size_t host)
{
    json_t *reply = NULL;
    hf_error err;
    size_t count;

    if (ask(r, host, "/v3/cluster/member/list", "{}", &reply, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster", "its members: not told (%s)",
                   err.text);
        return;
    }
    count = json_array_size(json_object_get(reply, "members"));
    json_decref(reply);
    if (count < MEMBERS_SAFE)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster",
                   "%zu member%s: locks end while it is down; three go on without one", count,
                   count == 1 ? "" : "s");
    else
        hfi_report(&r->report, count % 2 ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "cluster",
                   "%zu members: goes on without %zu%s", count, (count - 1) / 2,
                   count % 2 ? "" : "; one less would do as well");
    if (r->store->conf->url.host_count == 1 && count > 1)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "endpoints",
                   "the URL names one of %zu members: name them all, or we stop when that one does",
                   count);
}

static void check_alarms(const struct checkup *r, size_t host)
{
    json_t *reply = NULL;
    hf_error err;
    const json_t *alarms;

    if (ask(r, host, "/v3/maintenance/alarm", "{\"action\":\"GET\"}", &reply, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "alarms", "not told (%s)", err.text);
        return;
    }
    alarms = json_object_get(reply, "alarms");
    if (json_array_size(alarms) == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "alarms", "none");
    for (size_t i = 0; i < json_array_size(alarms); i++)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_BAD, "alarms", "%s: %s",
            text_of(json_array_get(alarms, i), "alarm"),
            strcmp(text_of(json_array_get(alarms, i), "alarm"), "NOSPACE") == 0
                ? "no new lease and no new lock until space is made (compact, defrag, disarm)"
                : "etcd itself is not sound");
    json_decref(reply);
}

static void check_access(const struct checkup *r)
{
    const struct etcd_conf *conf = r->store->conf;

    hfi_report(&r->report, conf->url.user ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "auth",
               conf->url.user ? "as a user of etcd"
                              : "no user: whoever reaches etcd can end every lock");
    if (!conf->url.tls.on)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "tls",
                   "off: what is sent can be read and changed on the way");
    else
        hfi_report(
            &r->report, conf->url.tls.verify ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "tls",
            conf->url.tls.verify ? "on%s" : "on, but the server's certificate is not verified%s",
            conf->url.tls.cert ? ", with a certificate of our own" : "");
}

static void check_lease(const struct checkup *r, size_t host)
{
    char body[64];
    json_t *reply = NULL;
    hf_error err;
    int64_t ttl_s;

    if (ask(r, host, "/v3/lease/grant", "{\"TTL\":\"1\"}", &reply, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "lease", "not granted (%s)", err.text);
        return;
    }
    ttl_s = etcd_read_number(reply, "TTL");
    hfi_report(&r->report, HF_CHECK_LEVEL_OK, "lease",
               "the shortest ttl is %lld s (from etcd's election timeout)", (long long)ttl_s);
    snprintf(body, sizeof body, "{\"ID\":\"%lld\"}", (long long)etcd_read_number(reply, "ID"));
    json_decref(reply);
    reply = NULL;
    if (ask(r, host, "/v3/lease/revoke", body, &reply, &err) == HF_OK)
        json_decref(reply);
}

hf_status etcd_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct etcd_store *store = self;
    struct checkup r = { .store = store, .report = { .finding = finding, .arg = arg } };
    size_t good = 0, up = check_endpoints(&r, &good);

    (void)err;
    check_access(&r);
    hfi_report(&r.report, HF_CHECK_LEVEL_OK, "prefix", "all keys begin with %s/",
               store->conf->prefix);
    if (up == 0)
        return HF_OK; /* reported above */
    check_members(&r, good);
    check_alarms(&r, good);
    check_lease(&r, good);
    return HF_OK;
}
