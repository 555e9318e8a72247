/* SPDX-License-Identifier: MIT */
/*
 * Checks what these servers mean for the promises. Each finding states a fact and the promise that
 * depends on it. Tokens are strict while nodes keep their counters, so most findings are about what
 * a node keeps through a crash: a node that keeps everything is fine; one that loses everything is
 * noticed, and does not vote; one that comes back with an old state cannot be noticed. Settings
 * that we may not read (ACL) are reported as unknown. May block.
 */
#include "engine/redlock/probe.h"

#include "engine/kit/report.h"
#include "engine/redis/doctor.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_ROOM   64
#define CLOCK_ASKS   5
#define CLOCK_FAR_US 1000000  /* synchronised clocks differ by less */
#define AHEAD_US     60000000 /* a proposal this far ahead of a node's clock does not count there */
#define NOT_ALLOWED  "no right to know (ACL SETUSER ... +config|get +info)"

struct doctor {
    struct hfi_report report;
    struct redlock_probe probe;
    bool plain; /* wire=plain */
    bool sure;  /* every node keeps its counters, as far as we can see */
    bool clock_known[HFI_NODES_MAX];
    int64_t ahead_us[HFI_NODES_MAX];
};

static void check_node(struct doctor *d, unsigned node, int64_t max_ttl_ms);
static void check_cluster(struct doctor *d);
static void check_votes(struct doctor *d);
static void conclude(struct doctor *d);
static void check_clocks(struct doctor *d);
static void check_places(struct doctor *d);

hf_status redlock_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct redlock_store *store = self;
    struct doctor d = { .report = { .finding = finding, .arg = arg },
                        .plain = store->wire->bare,
                        .sure = true };

    (void)err;
    redlock_probe_init(&d.probe, store->conf);
    redlock_probe_look(&d.probe);
    for (unsigned i = 0; i < d.probe.n; i++) {
        d.report.where = redlock_probe_name(&d.probe, i);
        check_node(&d, i, store->max_ttl_ms);
    }
    d.report.where = NULL;
    if (d.plain)
        check_votes(&d);
    else
        check_cluster(&d);
    check_places(&d);
    check_clocks(&d);
    conclude(&d);
    redlock_probe_done(&d.probe);
    return HF_OK;
}

/* What follows for exclusion and tokens. */
static void conclude(struct doctor *d)
{
    if (d->plain) {
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "tokens",
                   "none: wire=plain shares locks with clients that know none, so nothing fences a "
                   "holder that was paused past its ttl");
        hfi_report(&d->report, HFI_CHECK_NOTE, "exclusion",
                   "at most one holder at a time while clocks run at one speed, nobody is paused "
                   "past its ttl, and no node comes back within a ttl without what it had; beyond "
                   "that nothing protects");
        return;
    }
    if (d->sure)
        hfi_report(
            &d->report, HF_CHECK_LEVEL_OK, "tokens",
            "strict: every node keeps its counters through a crash, so no token is given twice, "
            "whatever "
            "clocks, networks and clients do");
    else
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "tokens",
            "strict only while no node comes back with counters of some time ago (see "
            "persistence), and fewer "
            "than a majority lose their data at a time; else unique as far as clocks are right");
    hfi_report(
        &d->report, HF_CHECK_LEVEL_OK, "exclusion",
        "at most one holder at a time while clocks run at one speed and nobody is paused past its "
        "ttl; beyond "
        "that only the token protects, where the resource checks it (hf_guard_claim)");
}

/* ---- what a node keeps ------------------------------------------------------------------------- */

static void check_append_only(struct doctor *d, struct hfi_ask *ask)
{
    char sync[VALUE_ROOM], rewrite[VALUE_ROOM];
    hf_error err;

    hfi_ask_setting(ask, "appendfsync", sync, sizeof sync, &err);
    hfi_ask_setting(ask, "no-appendfsync-on-rewrite", rewrite, sizeof rewrite, &err);
    if (strcmp(sync, "always") == 0 && strcmp(rewrite, "no") == 0) {
        hfi_report(&d->report, HF_CHECK_LEVEL_OK, "persistence",
                   "appendfsync always: it keeps its counters through a crash");
        return;
    }
    d->sure = false;
    if (!sync[0] || !rewrite[0])
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "an append-only file; appendfsync: " NOT_ALLOWED
            ". Unless it is always, it may come back from a crash with counters of some time ago "
            "and vote with "
            "them: tokens are strict only while that does not happen");
    else if (strcmp(sync, "always") != 0)
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "appendfsync %s: after a crash of its machine it comes back with the counters of %s "
            "before, and votes "
            "with them: tokens are strict only while that does not happen; CONFIG SET appendfsync "
            "always",
            sync, strcmp(sync, "everysec") == 0 ? "a second or two" : "half a minute");
    else
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "appendfsync always, but no-appendfsync-on-rewrite %s: a crash while the file is "
            "rewritten takes "
            "counters back; tokens are strict only while that does not happen; CONFIG SET "
            "no-appendfsync-on-rewrite no",
            rewrite);
}

static void check_persistence(struct doctor *d, struct hfi_ask *ask, const char *info)
{
    char value[VALUE_ROOM], save[VALUE_ROOM];
    hf_error err;

    if (strcmp(hfi_info(info, "aof_last_write_status", value, sizeof value), "err") == 0)
        hfi_report(
            &d->report, HF_CHECK_LEVEL_BAD, "persistence",
            "the last write to its append-only file failed: it refuses locks until that works");
    if (strcmp(hfi_info(info, "aof_enabled", value, sizeof value), "1") == 0) {
        check_append_only(d, ask);
        return;
    }
    d->sure = false;
    if (!hfi_ask_setting(ask, "save", save, sizeof save, &err))
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "no append-only file; snapshots: " NOT_ALLOWED
            ". With snapshots it comes back from a crash with old counters and votes with them");
    else if (save[0])
        hfi_report(
            &d->report, HF_CHECK_LEVEL_BAD, "persistence",
            "snapshots only (save %s): it comes back from any crash with the counters of the last "
            "one, and votes "
            "with them: tokens can be given twice; CONFIG SET appendonly yes, CONFIG SET "
            "appendfsync "
            "always",
            save);
    else
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "none: a restart empties it, which is noticed; it has no vote until it is healed. "
            "Tokens are strict only "
            "while no majority is emptied within one max_ttl; CONFIG SET appendonly yes, CONFIG "
            "SET "
            "appendfsync always");
}

/* wire=plain: a node that comes back votes at once, with whatever it has kept. */
static void check_kept(const struct doctor *d, struct hfi_ask *ask, const char *info)
{
    char aof[VALUE_ROOM], sync[VALUE_ROOM] = "";
    hf_error err;

    if (strcmp(hfi_info(info, "aof_enabled", aof, sizeof aof), "1") == 0)
        hfi_ask_setting(ask, "appendfsync", sync, sizeof sync, &err);
    if (strcmp(sync, "always") == 0)
        hfi_report(&d->report, HF_CHECK_LEVEL_OK, "persistence",
                   "appendfsync always: it keeps its locks through a crash");
    else
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "after a crash it comes back without its latest locks and votes at once, so that "
            "two may hold: start it no sooner than the longest ttl after it ended");
}

static void check_memory(const struct doctor *d, const char *info)
{
    char policy[VALUE_ROOM], most[VALUE_ROOM];

    hfi_info(info, "maxmemory_policy", policy, sizeof policy);
    hfi_info(info, "maxmemory", most, sizeof most);
    if (!policy[0])
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "memory",
                   "maxmemory-policy: " NOT_ALLOWED ". It must be noeviction");
    else if (strcmp(policy, "noeviction") != 0)
        hfi_report(
            &d->report, strcmp(most, "0") != 0 ? HF_CHECK_LEVEL_BAD : HF_CHECK_LEVEL_WARNING,
            "memory",
            "maxmemory-policy %s: %s it evicts leases%s; CONFIG SET maxmemory-policy noeviction",
            policy, strcmp(most, "0") != 0 ? "when memory is full" : "once there is a maxmemory",
            d->plain ? "" : ", and with its cluster key its vote");
    else
        hfi_report(&d->report, HF_CHECK_LEVEL_OK, "memory",
                   "noeviction: a full node refuses locks, and forgets none");
}

static void check_role(const struct doctor *d, struct hfi_ask *ask, const char *info)
{
    const struct hfi_server *server = hfi_ask_server(ask);
    char replicas[VALUE_ROOM], uptime[VALUE_ROOM];

    hfi_info(info, "connected_slaves", replicas, sizeof replicas);
    hfi_info(info, "uptime_in_seconds", uptime, sizeof uptime);
    hfi_report(&d->report, HF_CHECK_LEVEL_OK, "server", "%s %s, up for %s s",
               server->is_valkey ? "Valkey" : "Redis", server->version, uptime[0] ? uptime : "?");
    if (server->is_replica)
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "role",
                   "a replica: it has no vote of its own. Nodes must be independent of each other");
    else if (server->is_cluster)
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "role",
                   "a node of a Redis Cluster, which has only some of the names");
    else if (strtol(replicas, NULL, 10) > 0)
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "role",
                   d->plain
                       ? "a master with %s replicas: if one of them takes its place, that is a "
                         "node without its latest locks, which votes: two may hold"
                       : "a master with %s replicas: if one of them takes its place, that is a "
                         "node with counters of some time "
                         "ago, which votes. Tokens are strict only while nobody fails over",
                   replicas);
}

/* ---- time ------------------------------------------------------------------------------------------ */

static void ask_clock(struct doctor *d, unsigned node, struct hfi_ask *ask)
{
    int64_t error_us;
    hf_error err;

    d->clock_known[node] =
        hfi_ask_clock(ask, CLOCK_ASKS, &d->ahead_us[node], &error_us, &err) == HF_OK;
    if (!d->clock_known[node])
        hfi_report(&d->report,
                   err.status == HF_DENIED ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD, "clock",
                   "TIME: %s", err.status == HF_DENIED ? NOT_ALLOWED : err.text);
}

static void check_clocks(struct doctor *d)
{
    int64_t low = INT64_MAX, high = INT64_MIN, far;

    for (unsigned i = 0; i < d->probe.n; i++) {
        if (!d->clock_known[i])
            continue;
        low = d->ahead_us[i] < low ? d->ahead_us[i] : low;
        high = d->ahead_us[i] > high ? d->ahead_us[i] : high;
    }
    if (low > high)
        return;
    far = high - low;
    hfi_report(
        &d->report, far > CLOCK_FAR_US ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK, "clock",
        "the nodes' differ by %.2f ms, ours from theirs by %.2f ms at most. Leases are counted in "
        "time that passes, so "
        "a difference is no harm%s",
        (double)far / 1000, (double)(-low > high ? -low : high) / 1000,
        far > CLOCK_FAR_US
            ? "; but when one is set right, leases there end early or late: keep them by NTP that "
              "slews"
            : "");
    if (-low > AHEAD_US)
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "clock",
            "ours is more than a minute ahead of a node's: what we propose for tokens does not "
            "count there, and most "
            "acquisitions need a second round trip");
}

/* ---- a node, and all of them ------------------------------------------------------------------------- */

static void check_state(const struct doctor *d, const struct redlock_probed *node,
                        int64_t max_ttl_ms)
{
    const struct hfi_node_view *view = &node->told.view;
    char left[32], shown[32];
    int64_t left_ms = max_ttl_ms - view->age_ms;

    if (view->state == HFI_NODE_READY) {
        hfi_report(&d->report, HF_CHECK_LEVEL_OK, "epoch",
                   "%llu, max_ttl %s, %llu names with a counter of their own",
                   (unsigned long long)view->epoch.number,
                   hfi_format_duration(view->max_ttl_ms, shown, sizeof shown),
                   (unsigned long long)node->told.names);
    } else if (view->state == HFI_NODE_EMPTY && view->marked && left_ms > 0) {
        hfi_report(
            &d->report, HF_CHECK_LEVEL_WARNING, "epoch",
            "it has lost its data, and has no vote; any client heals it in %s, when nothing can be "
            "held any more that "
            "it has forgotten",
            hfi_format_duration(left_ms, left, sizeof left));
    } else if (view->state == HFI_NODE_EMPTY) {
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "epoch",
                   "it is empty, and has no vote; it is about to be healed");
    } else {
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "epoch", "%s", node->why.text);
    }
}

static void check_node(struct doctor *d, unsigned index, int64_t max_ttl_ms)
{
    struct redlock_probed *node = &d->probe.nodes[index];
    hf_error err;
    char *info;

    if (!node->ask) {
        d->sure = false;
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "connection",
                   "%s. It costs its vote and nothing else", redlock_probe_why(&d->probe, index));
        return;
    }
    info = hfi_ask(node->ask, (const char *[]){ "INFO", NULL }, &err);
    if (!info) {
        d->sure = false;
        hfi_report(&d->report,
                   err.status == HF_DENIED ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD, "server",
                   "INFO: %s", err.text);
    } else {
        check_role(d, node->ask, info);
        if (d->plain)
            check_kept(d, node->ask, info);
        else
            check_persistence(d, node->ask, info);
        check_memory(d, info);
    }
    hfi_doctor_access(&d->report, d->probe.conf, node->ask, &d->probe.conf->url.hosts[index]);
    hfi_free(info);
    if (!d->plain)
        check_state(d, node, max_ttl_ms);
    ask_clock(d, index, node->ask);
}

/* wire=plain: every node that answers votes. */
static void check_votes(struct doctor *d)
{
    unsigned n = d->probe.n, need = hfi_majority(n), in = 0;

    for (unsigned i = 0; i < n; i++)
        in += d->probe.nodes[i].ask && d->probe.nodes[i].why.status == HF_OK;
    if (in < need)
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "nodes",
                   "%u of %u nodes vote, and %u are needed: no lock is granted", in, n, need);
    else
        hfi_report(&d->report, in == n ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "nodes",
                   "%u of %u nodes vote, %u are needed: %u more may fail or be cut off", in, n,
                   need, in - need);
}

static void check_cluster(struct doctor *d)
{
    const struct hfi_node_view *views = d->probe.views;
    unsigned n = d->probe.n, need = hfi_majority(n), in = 0, behind = 0;
    struct hfi_heal plan = hfi_heal_next(views, n);
    struct hfi_epoch epoch;
    hf_error err;

    if (plan.step == HFI_HEAL_STUCK) {
        redlock_probe_stuck(&d->probe, plan.why, &err);
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "cluster", "%s", err.text);
    }
    if (hfi_epoch_current(views, n, &epoch))
        for (unsigned i = 0; i < n; i++) {
            bool same =
                views[i].state == HFI_NODE_READY && hfi_epoch_compare(&views[i].epoch, &epoch) == 0;

            in += same;
            behind += views[i].state == HFI_NODE_READY && !same;
        }
    if (behind)
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "cluster",
                   "%u nodes are in another epoch than the majority: they are about to be lifted",
                   behind);
    if (in >= need)
        hfi_report(&d->report, in == n ? HF_CHECK_LEVEL_OK : HF_CHECK_LEVEL_WARNING, "cluster",
                   "%u of %u nodes vote, %u are needed: %u more may fail or be cut off", in, n,
                   need, in - need);
    else if (plan.step != HFI_HEAL_STUCK)
        hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "cluster",
                   "no majority of the %u nodes is in one epoch: no lock is granted", n);
    if (n % 2 == 0)
        hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "cluster",
                   "%u nodes tolerate no more losses than %u: one of them costs and does not help",
                   n, n - 1);
}

/* Nodes are independent only on different machines: two servers on one machine fail together. */
static void check_places(struct doctor *d)
{
    const struct redlock_probe *probe = &d->probe;
    bool told = false;

    for (unsigned i = 0; i < probe->n; i++)
        for (unsigned k = 0; k < i; k++) {
            const struct hfi_address *a = &probe->conf->url.hosts[i],
                                     *b = &probe->conf->url.hosts[k];

            if (probe->nodes[i].ask && probe->nodes[k].ask &&
                strcmp(hfi_ask_server(probe->nodes[i].ask)->run_id,
                       hfi_ask_server(probe->nodes[k].ask)->run_id) == 0)
                hfi_report(&d->report, HF_CHECK_LEVEL_BAD, "places",
                           "%s and %s are one server: it would vote twice", b->shown, a->shown);
            else if (!told && a->host && b->host && strcmp(a->host, b->host) == 0) {
                told = true; /* once: with all on one machine it is every pair */
                hfi_report(&d->report, HF_CHECK_LEVEL_WARNING, "places",
                           "%s and %s are on one host: what fails together counts as one node",
                           b->shown, a->shown);
            }
        }
}
