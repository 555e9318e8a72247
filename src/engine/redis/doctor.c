/* SPDX-License-Identifier: MIT */
/*
 * Checks whether this store can keep its promises: finds its servers, then checks each
 * (doctor_server.c), over separate connections (ask.h): the store's connections belong to the
 * thread that drives it. Everything here may block, as long as the URL's connect_timeout and
 * op_timeout allow for each server.
 */
#include "engine/redis/doctor.h"

#include "engine/redis/internal.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SENTINELS_FEW 3
#define HOST_ROOM     256

static void check_sentinels(struct redis_checkup *r);
static void check_cluster(struct redis_checkup *r);
static void check_server(const struct redis_checkup *r, const struct hfi_address *address);

hf_status redis_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct redis_store *store = self;
    struct redis_checkup r = { .report = { .finding = finding, .arg = arg }, .conf = store->conf };

    (void)err;
    if (store->conf->topology == REDIS_TOPOLOGY_SENTINEL)
        check_sentinels(&r);
    else if (store->conf->topology == REDIS_TOPOLOGY_CLUSTER)
        check_cluster(&r);
    else
        check_server(&r, &store->conf->url.hosts[0]);

    if (store->conf->wire != HFI_WIRE_NATIVE)
        hfi_report(&r.report, HF_CHECK_LEVEL_WARNING, "wire",
                   "%s: locks shared with other libraries have no tokens and no order of waiting",
                   store->conf->wire == HFI_WIRE_PLAIN ? "plain" : "redisson");
    return HF_OK;
}

static void check_server(const struct redis_checkup *r, const struct hfi_address *address)
{
    struct hfi_ask *ask = NULL;
    hf_error err;

    if (hfi_ask_open(r->conf, address, false, &ask, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "connection", "%s", err.text);
        return;
    }
    hfi_doctor_server(r, ask, address);
    hfi_ask_close(ask);
}

/* Check a server whose address another server sent. `host` has HOST_ROOM bytes. */
static void check_told(struct redis_checkup *r, char *host, unsigned port)
{
    char shown[HOST_ROOM + 16];
    struct hfi_address address = { .host = host, .port = (uint16_t)port, .shown = shown };

    snprintf(shown, sizeof shown, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    r->report.where = shown;
    check_server(r, &address);
    r->report.where = NULL;
}

/* ---- sentinel -------------------------------------------------------------------------------- */

/* "host\nport" of the master, as this sentinel has it. false: it does not answer, or has none. */
static bool ask_sentinel(const struct redis_checkup *r, const struct hfi_address *address,
                         char told[HOST_ROOM])
{
    struct hfi_ask *ask = NULL;
    hf_error err;
    char *text;

    if (hfi_ask_open(r->conf, address, true, &ask, &err) != HF_OK) {
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "sentinel", "%s", err.text);
        return false;
    }
    text = hfi_ask(ask,
                   (const char *[]){ "SENTINEL", "GET-MASTER-ADDR-BY-NAME", r->conf->master, NULL },
                   &err);
    if (!text || !*text)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "sentinel", "%s: %s", address->shown,
                   text ? "does not know this master" : err.text);
    else
        snprintf(told, HOST_ROOM, "%s", text);
    hfi_free(text);
    hfi_ask_close(ask);
    return told[0] != 0;
}

static void check_sentinels(struct redis_checkup *r)
{
    char master[HOST_ROOM] = "", told[HOST_ROOM];
    size_t answered = 0, agreed = 0;
    char *port;

    for (size_t i = 0; i < r->conf->url.host_count; i++) {
        told[0] = 0;
        if (!ask_sentinel(r, &r->conf->url.hosts[i], told))
            continue;
        answered++;
        if (!master[0])
            memcpy(master, told, sizeof master);
        agreed += strcmp(master, told) == 0;
    }
    if (!answered) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "sentinel", "none of them names the master '%s'",
                   r->conf->master);
        return;
    }
    if (agreed < answered)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "sentinel",
                   "they name different masters: a failover is under way, or the network is cut");
    hfi_report(&r->report,
               r->conf->url.host_count < SENTINELS_FEW ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK,
               "sentinel", "%zu of %zu answer%s", answered, r->conf->url.host_count,
               r->conf->url.host_count < SENTINELS_FEW
                   ? "; with fewer than three in the URL we may not find the master after a failure"
                   : "");
    port = strchr(master, '\n');
    if (!port)
        return;
    *port++ = 0;
    check_told(r, master, (unsigned)strtoul(port, NULL, 10));
}

/* ---- cluster ---------------------------------------------------------------------------------- */

/* A line of CLUSTER NODES: "id host:port@bus[,name] flags master ...". Only masters that are up. */
static bool parse_node(const char *line, char host[HOST_ROOM], unsigned *ret_port)
{
    char place[HOST_ROOM], flags[128];
    char *at, *colon;

    if (sscanf(line, "%*s %255s %127s", place, flags) != 2)
        return false;
    at = strchr(place, '@');
    if (at)
        *at = 0;
    colon = strrchr(place, ':');
    if (!colon || !strstr(flags, "master") || strstr(flags, "fail") || strstr(flags, "noaddr"))
        return false;
    *colon = 0;
    snprintf(host, HOST_ROOM, "%s", place);
    *ret_port = (unsigned)strtoul(colon + 1, NULL, 10);
    return *ret_port != 0;
}

static void check_masters(struct redis_checkup *r, const struct hfi_address *asked,
                          const char *nodes)
{
    char host[HOST_ROOM];
    unsigned port, masters = 0;

    for (const char *line = nodes; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!parse_node(line, host, &port))
            continue;
        masters++;
        if (!host[0]) /* it does not know its own address yet */
            snprintf(host, sizeof host, "%s", asked->host);
        check_told(r, host, port);
    }
    hfi_report(&r->report, masters < 3 ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK, "cluster",
               "%u masters%s", masters,
               masters < 3 ? ": with fewer than three there is no majority that replaces one" : "");
}

static void check_cluster(struct redis_checkup *r)
{
    struct hfi_ask *ask = NULL;
    hf_error err = { 0 };
    char *info = NULL, *nodes = NULL, value[32];
    size_t i;

    for (i = 0; i < r->conf->url.host_count && !ask; i++)
        if (hfi_ask_open(r->conf, &r->conf->url.hosts[i], false, &ask, &err) != HF_OK)
            hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster", "%s", err.text);
    if (!ask) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "cluster",
                   "none of the nodes in the URL answers");
        return;
    }
    info = hfi_ask(ask, (const char *[]){ "CLUSTER", "INFO", NULL }, &err);
    if (!info)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster",
                   "its state: no right to know (%s)", err.text);
    else if (strcmp(hfi_info(info, "cluster_state", value, sizeof value), "ok") != 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "cluster",
                   "its state is '%s': names of some slots cannot be locked", value);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "cluster",
                   "its state is ok, all slots have a master");
    hfi_free(info);

    nodes = hfi_ask(ask, (const char *[]){ "CLUSTER", "NODES", NULL }, &err);
    hfi_ask_close(ask);
    if (!nodes) {
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "cluster",
                   "its nodes: no right to know (%s)", err.text);
        check_server(r, &r->conf->url.hosts[i - 1]);
        return;
    }
    check_masters(r, &r->conf->url.hosts[i - 1], nodes);
    hfi_free(nodes);
}
