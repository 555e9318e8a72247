/* SPDX-License-Identifier: MIT */
/* Checks whether this store can keep its promises. Blocks, on connections of its own. */
#include "engine/etcd/internal.h"

#include "engine/etcd/version.h"
#include "engine/kit/report.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define MEMBERS_SAFE 3

struct checkup {
    struct etcd_store *store, *aside;
    struct hfi_report report;
};

/* Texts of the server, as C strings. */
struct shown {
    char text[96];
};

static struct shown show(struct etcd_message text)
{
    struct shown shown;
    size_t len = text.len < sizeof shown.text - 1 ? text.len : sizeof shown.text - 1;

    for (size_t i = 0; i < len; i++)
        shown.text[i] = text.at[i] >= 0x20 && text.at[i] < 0x7f ? (char)text.at[i] : '?';
    shown.text[len] = 0;
    return shown;
}

static hf_status ask(const struct checkup *r, size_t host, const struct etcd_method *method,
                     int64_t number, struct etcd_text *ret_reply, hf_error *err)
{
    return etcd_ask(r->aside, host, method, number, ret_reply, err);
}

static void check_version(const struct checkup *r, const char *member, const char *version)
{
    struct etcd_judged judged = etcd_version_judge(version);

    if (judged.why)
        hfi_report(&r->report, judged.level, "version", "%s: etcd %s: %s", member, version,
                   judged.why);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "version", "%s: etcd %s", member, version);
}

/* Check each endpoint: does it answer, which version is it, does it have a leader? Returns how many
 * answer. */
static size_t check_endpoints(const struct checkup *r, size_t *ret_good)
{
    const struct etcd_conf *conf = r->store->conf;
    size_t up = 0;

    for (size_t i = 0; i < conf->url.host_count; i++) {
        const char *shown = conf->url.hosts[i].shown;
        struct etcd_text text = { 0 };
        struct etcd_message reply;
        struct shown version;
        hf_error err;

        if (ask(r, i, &etcd_status_method, 0, &text, &err) != HF_OK) {
            etcd_text_done(&text);
            hfi_report(&r->report,
                       conf->url.host_count > 1 ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD,
                       "endpoint", "%s", err.text);
            continue;
        }
        *ret_good = i;
        up++;
        reply = etcd_asked(&text);
        version = show(etcd_part(reply, ETCD_STATUS_VERSION));
        check_version(r, shown, version.text);
        if (etcd_number(reply, ETCD_STATUS_LEADER) == 0)
            hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "leader",
                       "%s knows no leader: nothing can be locked through it", shown);
        if (etcd_count(reply, ETCD_STATUS_ERRORS) > 0)
            hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "errors", "%s reports: %s", shown,
                       show(etcd_part(reply, ETCD_STATUS_ERRORS)).text);
        etcd_text_done(&text);
    }
    return up;
}

static void check_members(const struct checkup *r, size_t host)
{
    struct etcd_text text = { 0 };
    hf_status status;
    hf_error err;
    size_t count;

    status = ask(r, host, &etcd_members_method, 0, &text, &err);
    count = etcd_count(etcd_asked(&text), ETCD_MEMBERS);
    etcd_text_done(&text);
    if (status != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster", "its members: not known (%s)",
                   err.text);
        return;
    }
    if (count <
        MEMBERS_SAFE) /* one is as good as a single server of any engine; two are worse than one */
        hfi_report(&r->report, count == 1 ? HFI_CHECK_NOTE : HF_CHECK_LEVEL_WARNING, "cluster",
                   "%zu member%s: locks end while %s is down; three go on without one", count,
                   count == 1 ? "" : "s", count == 1 ? "it" : "one");
    else
        hfi_report(&r->report, count % 2 ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "cluster",
                   "%zu members: tolerates the loss of %zu%s", count, (count - 1) / 2,
                   count % 2 ? "" : "; one less would do as well (etcdctl member remove)");
    if (r->store->conf->url.host_count == 1 && count > 1)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "endpoints",
                   "the URL names one of %zu members: name them all, or this client stops when "
                   "that one does",
                   count);
}

static void check_alarms(const struct checkup *r, size_t host)
{
    struct etcd_text text = { 0 };
    struct etcd_message reply, one;
    hf_error err;

    if (ask(r, host, &etcd_alarm_method, 0, &text, &err) != HF_OK) { /* action 0: to read them */
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "alarms", "not known (%s)", err.text);
        etcd_text_done(&text);
        return;
    }
    reply = etcd_asked(&text);
    if (etcd_count(reply, ETCD_ALARMS) == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "alarms", "none");
    while (etcd_next(&reply, ETCD_ALARMS, &one)) {
        bool full = etcd_number(one, ETCD_ALARM_KIND) == ETCD_ALARM_NOSPACE;

        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "alarms", "%s: %s", full ? "NOSPACE" : "CORRUPT",
                   full ? "no new lease and no new lock until space is made (compact, defrag, "
                          "disarm)"
                        : "etcd itself is not sound");
    }
    etcd_text_done(&text);
}

static void check_access(const struct checkup *r)
{
    const struct etcd_conf *conf = r->store->conf;

    hfi_report_access(
        &r->report,
        &(struct hfi_access){ .user = conf->url.user,
                              .proof = conf->url.user       ? "a password"
                                       : conf->url.tls.cert ? "a certificate"
                                                            : NULL,
                              .admin = conf->url.user && strcmp(conf->url.user, "root") == 0,
                              .local = hfi_all_local(&conf->url),
                              .tls = conf->url.tls.on,
                              .verified = conf->url.tls.verify,
                              .tls_how = "etcds:" });
}

static void check_lease(const struct checkup *r, size_t host)
{
    struct etcd_text text = { 0 };
    hf_error err;
    int64_t ttl_s, id;

    if (ask(r, host, &etcd_grant_method, 1, &text, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "lease", "not granted (%s)", err.text);
        etcd_text_done(&text);
        return;
    }
    ttl_s = etcd_number(etcd_asked(&text), ETCD_LEASE_TTL);
    id = etcd_number(etcd_asked(&text), ETCD_LEASE_ID);
    etcd_text_done(&text);
    hfi_report(&r->report, HF_CHECK_LEVEL_OK, "lease",
               "the shortest ttl is %lld s (from etcd's election timeout)", (long long)ttl_s);
    (void)ask(r, host, &etcd_revoke_method, id, &text, &err); /* else it ends by itself */
    etcd_text_done(&text);
}

hf_status etcd_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct etcd_store *store = self;
    struct checkup r = { .store = store, .report = { .finding = finding, .arg = arg } };
    size_t good = 0, up;

    r.aside = etcd_aside_open(store, err);
    if (!r.aside)
        return err ? err->status : HF_NO_MEMORY;
    up = check_endpoints(&r, &good);
    check_access(&r);
    hfi_report(&r.report, HF_CHECK_LEVEL_OK, "prefix", "all keys begin with %s/",
               store->conf->prefix);
    if (up > 0) { /* else that was reported above */
        check_members(&r, good);
        check_alarms(&r, good);
        check_lease(&r, good);
    }
    etcd_aside_close(r.aside);
    return HF_OK;
}
