/* SPDX-License-Identifier: MIT */
/*
 * Checks whether this store can keep its promises: the session, and the answer of each server of
 * the URL to "srvr", the one four-letter word that is allowed by default. Uses connections of its
 * own, since the store's connection belongs to the thread that drives it. May block, ANSWER_MS for
 * each server.
 */
#include "engine/zookeeper/internal.h"

#include "engine/kit/report.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_MS   3000
#define ANSWER_ROOM 4096

struct checkup {
    struct hfi_report report;
    unsigned servers, members, leaders; /* that answer; of an ensemble; that lead it */
};

/* The rest of the line that begins with `key`. */
static const char *value(const char *answer, const char *key, char *ret_value, size_t size)
{
    const char *at = strstr(answer, key);

    ret_value[0] = 0;
    if (at)
        snprintf(ret_value, size, "%.*s", (int)strcspn(at + strlen(key), ",\n"), at + strlen(key));
    return ret_value;
}

static void check_server(struct checkup *r, const struct hfi_address *host)
{
    char answer[ANSWER_ROOM], mode[32], version[64], *dash;

    if (!zk_server_ask(host, hfi_now_ms() + ANSWER_MS, answer, sizeof answer)) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "server", "%s:%u: no answer", host->host,
                   host->port);
        return;
    }
    value(answer, "Mode: ", mode, sizeof mode);
    value(answer, "Zookeeper version: ", version, sizeof version);
    dash = strchr(version, '-');
    if (dash)
        *dash = 0;
    if (!mode[0]) {
        r->members++; /* assumed, since it does not say */
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "server",
                   "%s:%u: does not answer \"srvr\": version and role not known; "
                   "4lw.commands.whitelist=srvr",
                   host->host, host->port);
        return;
    }
    hfi_report(&r->report, HF_CHECK_LEVEL_OK, "server", "%s:%u: version %s, %s", host->host,
               host->port, version, mode);
    r->servers++;
    r->members += strcmp(mode, "leader") == 0 || strcmp(mode, "follower") == 0;
    r->leaders += strcmp(mode, "leader") == 0;
    if (strcmp(mode, "standalone") == 0)
        hfi_report(&r->report, HFI_CHECK_NOTE, "replication",
                   "%s:%u is a single server: without it there are no locks, and with its disk the "
                   "order of "
                   "tokens is lost",
                   host->host, host->port);
    if (strcmp(mode, "read-only") == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "replication",
                   "%s:%u is cut off from the others", host->host, host->port);
}

static void check_ensemble(const struct checkup *r, size_t hosts)
{
    if (r->leaders > 1)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "replication",
                   "%u servers lead: they do not belong together", r->leaders);
    if (r->members > 0 && hosts == 1)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "replication",
            "one server of an ensemble is named: name all, or its loss is the loss of the store");
    if (r->members > 0 && hosts > 1 && hosts % 2 == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                   "%zu servers tolerate no more losses than %zu (unless some are observers)",
                   hosts, hosts - 1);
}

static void check_session(const struct checkup *r, int64_t asked_ms, int64_t given_ms)
{
    char asked[32], given[32];

    hfi_format_duration(asked_ms, asked, sizeof asked);
    hfi_format_duration(given_ms, given, sizeof given);
    if (given_ms != asked_ms)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "session",
            "asked for a timeout of %s, the server gives %s (minSessionTimeout, maxSessionTimeout)",
            asked, given);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "session",
                   "timeout %s: a lease is freed this long after its holder died", given);
}

/* ZooKeeper takes any user; what a user owns is protected by the list of rights of each node. */
static void check_access(const struct checkup *r, const struct zk_conf *conf)
{
    bool own = conf->acl != ZK_ACL_OPEN;

    hfi_report_access(&r->report, &(struct hfi_access){ .user = conf->url.user,
                                                        .proof = own ? "a password" : NULL,
                                                        .local = hfi_all_local(&conf->url) });
    if (!own)
        hfi_report(&r->report, conf->url.user ? HF_CHECK_LEVEL_WARNING : HFI_CHECK_NOTE, "access",
                   "nodes are open to everybody who reaches the servers (a user in the URL with "
                   "acl=creator makes them that user's)");
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "access", "nodes belong to the URL's user");
}

hf_status zk_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct zk_store *store = self;
    struct checkup r = { .report = { .finding = finding, .arg = arg } };
    int64_t timeout_ms;
    bool connected;

    (void)err;
    hfi_reactor_enter(&store->reactor);
    timeout_ms = store->validity.timeout_ms;
    connected = store->connected;
    hfi_reactor_leave_quietly(&store->reactor, false);
    if (connected)
        check_session(&r, store->conf->timeout_ms, timeout_ms);
    else
        hfi_report(&r.report, HF_CHECK_LEVEL_BAD, "session", "not connected");
    for (size_t i = 0; i < store->conf->url.host_count; i++)
        check_server(&r, &store->conf->url.hosts[i]);
    check_ensemble(&r, store->conf->url.host_count);
    check_access(&r, store->conf);
    return HF_OK;
}
