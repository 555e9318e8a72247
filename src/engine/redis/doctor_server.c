/* SPDX-License-Identifier: MIT */
/*
 * Checks what one server means for the promises: each finding states a fact and its consequence.
 * Settings that we may not read (ACL) are reported as unknown, which is a warning and never a
 * failure. Most facts come from INFO, which our user must be allowed to run anyway.
 */
#include "engine/redis/doctor.h"

#include "engine/engine.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PINGS        9
#define SLOW_US      300000  /* a round trip that makes short leases hard to keep */
#define CLOCK_FAR_US 1000000 /* synchronised clocks differ by less */
#define MEMORY_NEAR  90      /* per cent of maxmemory */
#define LAG_FAR_S    10      /* a replica that has been silent for this time */
#define BEHIND_FAR   (16 << 20)
#define VALUE_ROOM   128
/* What to type for the file; CONFIG REWRITE keeps it. */
#define KEEP        "CONFIG SET appendonly yes, CONFIG SET appendfsync always"
#define NOT_ALLOWED "no right to know (ACL SETUSER ... +config|get +info)"

/* What CONFIG GET says of a parameter. */
struct setting {
    bool known;
    char value[VALUE_ROOM];
};

struct facts {
    char *info; /* INFO, the default sections */
    struct setting save, appendfsync, no_fsync_on_rewrite;
};

static bool gather(struct hfi_ask *ask, struct facts *ret_facts, hf_error *err);
static void check_version(const struct redis_checkup *r, struct hfi_ask *ask, const char *info);
static void check_memory(const struct redis_checkup *r, const char *info);
static void check_persistence(const struct redis_checkup *r, const struct facts *facts);
static void check_replication(const struct redis_checkup *r, const char *info);
static void check_round_trip(const struct redis_checkup *r, struct hfi_ask *ask);
static void check_clock(const struct redis_checkup *r, struct hfi_ask *ask);

void hfi_doctor_server(const struct redis_checkup *r, struct hfi_ask *ask,
                       const struct hfi_address *address)
{
    struct facts facts;
    hf_error err;

    if (!gather(ask, &facts, &err)) {
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "connection", "%s", err.text);
        return;
    }
    check_version(r, ask, facts.info);
    check_replication(r, facts.info);
    check_persistence(r, &facts);
    check_memory(r, facts.info);
    hfi_doctor_access(&r->report, r->conf, ask, address);
    if (r->conf->wire == HFI_WIRE_NATIVE) {
        hfi_doctor_rights(r, ask);
        hfi_report(
            &r->report, HF_CHECK_LEVEL_OK, "tokens",
            "no smaller than the server's time in microseconds: even if it forgets all, they "
            "grow on, unless its clock goes back too");
    }
    check_round_trip(r, ask);
    check_clock(r, ask);
    hfi_free(facts.info);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static long long info_number(const char *info, const char *key)
{
    char value[VALUE_ROOM];

    return strtoll(hfi_info(info, key, value, sizeof value), NULL, 10);
}

/* false: the connection broke. A setting that we may not read is no failure. */
static bool gather(struct hfi_ask *ask, struct facts *ret_facts, hf_error *err)
{
    const struct {
        const char *name;
        struct setting *setting;
    } settings[] = {
        { "save", &ret_facts->save },
        { "appendfsync", &ret_facts->appendfsync },
        { "no-appendfsync-on-rewrite", &ret_facts->no_fsync_on_rewrite },
    };

    ret_facts->info = hfi_ask(ask, (const char *[]){ "INFO", NULL }, err);
    if (!ret_facts->info)
        return false;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct setting *setting = settings[i].setting;

        setting->known =
            hfi_ask_setting(ask, settings[i].name, setting->value, sizeof setting->value, err);
        if (!setting->known && err->status == HF_UNAVAILABLE) {
            hfi_free(ret_facts->info);
            return false;
        }
    }
    return true;
}

/* ---- what it is ------------------------------------------------------------------------------ */

static void check_version(const struct redis_checkup *r, struct hfi_ask *ask, const char *info)
{
    const struct hfi_server *server = hfi_ask_server(ask);
    char value[VALUE_ROOM];

    hfi_report(&r->report, HF_CHECK_LEVEL_OK, "server", "%s %s%s, up for %lld s",
               server->is_valkey ? "Valkey" : "Redis", server->version,
               strcmp(hfi_info(info, "redis_mode", value, sizeof value), "standalone") == 0 ? ""
               : server->is_cluster ? ", a cluster's node"
                                    : "",
               info_number(info, "uptime_in_seconds"));
    if (server->is_replica)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "role",
                   "a replica: it takes no locks; connect to its master");
    if (server->is_cluster && r->conf->topology != REDIS_TOPOLOGY_CLUSTER)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "role",
                   "a node of a cluster, which has only some of the names: use redis+cluster:");
    if (info_number(info, "loading"))
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "server",
                   "still reading its data from disk: it takes no locks yet");
}

/* One replica's line of INFO: "ip=..,port=..,state=online,offset=..,lag=..". */
static bool is_good_replica(const char *line, long long master_offset)
{
    const char *offset = strstr(line, "offset="), *lag = strstr(line, "lag=");
    long long at = offset ? strtoll(offset + 7, NULL, 10) : -1;

    return strstr(line, "state=online") && lag && strtoll(lag + 4, NULL, 10) < LAG_FAR_S &&
           at >= 0 && master_offset >= 0 && master_offset - at < BEHIND_FAR;
}

static void check_replication(const struct redis_checkup *r, const char *info)
{
    long long count = info_number(info, "connected_slaves");
    long long offset = info_number(info, "master_repl_offset"), good = 0;
    char key[32], line[VALUE_ROOM];

    for (long long i = 0; i < count; i++) {
        snprintf(key, sizeof key, "slave%lld", i);
        hfi_info(info, key, line, sizeof line);
        if (is_good_replica(line, offset))
            good++;
        else
            hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                       "a replica does not keep up: %s; look at its log, and at the network to it",
                       line);
    }
    if (r->conf->sync > good)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "replication",
                   "sync=%u, but %lld replicas keep up: no lock will be granted", r->conf->sync,
                   good);
    else if (r->conf->sync)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_OK, "replication",
            "%lld replicas keep up; a grant counts once %u of them have it. A failover to one "
            "that does not have it can still forget it",
            good, r->conf->sync);
    else if (count)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "replication",
                   "%lld replicas, of which none need have a grant: a failover can forget the last "
                   "ones, and the name be granted twice (sync=N narrows that; tokens still tell)",
                   count);
    else
        hfi_report(&r->report,
                   r->conf->topology == REDIS_TOPOLOGY_SINGLE ? HFI_CHECK_NOTE
                                                              : HF_CHECK_LEVEL_WARNING,
                   "replication", "no replicas: if this server is gone, so are its locks");
}

/* ---- what it keeps ------------------------------------------------------------------------------ */

static void check_disk(const struct redis_checkup *r, const char *info)
{
    char value[VALUE_ROOM];

    if (strcmp(hfi_info(info, "aof_last_write_status", value, sizeof value), "err") == 0)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_BAD, "persistence",
            "the last write to its append-only file failed: it refuses locks until that works");
    if (strcmp(hfi_info(info, "rdb_last_bgsave_status", value, sizeof value), "err") == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_BAD, "persistence",
                   "the last snapshot failed: it may refuse locks (stop-writes-on-bgsave-error)");
}

static void check_append_only(const struct redis_checkup *r, const struct facts *facts)
{
    const char *fsync = facts->appendfsync.value, *rewrite = facts->no_fsync_on_rewrite.value;

    if (!facts->appendfsync.known || !facts->no_fsync_on_rewrite.known)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "persistence",
                   "an append-only file; how often it is synced: " NOT_ALLOWED
                   " (appendfsync). Unless always, a crash forgets the last grants");
    else if (strcmp(fsync, "always") != 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "persistence",
                   "an append-only file with appendfsync %s: if its machine crashes, the last %s "
                   "of grants are forgotten and can be given again; CONFIG SET appendfsync always",
                   fsync, strcmp(fsync, "everysec") == 0 ? "two seconds" : "half minute or more");
    else if (strcmp(rewrite, "no") != 0)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "appendfsync always, but no-appendfsync-on-rewrite %s: while the file is rewritten "
            "a crash forgets grants; CONFIG SET no-appendfsync-on-rewrite no",
            rewrite);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "persistence",
                   "appendfsync always: leases and token counters survive a restart");
}

static void check_persistence(const struct redis_checkup *r, const struct facts *facts)
{
    const char *save = facts->save.value;

    check_disk(r, facts->info);
    if (info_number(facts->info, "aof_enabled"))
        check_append_only(r, facts);
    else if (!facts->save.known)
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "no append-only file; snapshots: " NOT_ALLOWED
            " (save). A restart forgets every lease since the last one, or all, and can give "
            "them again");
    else if (save[0])
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "snapshots only (save %s): a restart that comes with a crash forgets every lease "
            "since the last one, and can give them again; " KEEP,
            save);
    else
        hfi_report(
            &r->report, HF_CHECK_LEVEL_WARNING, "persistence",
            "none: a restart forgets every lease and token counter. Holders are told as soon "
            "as they notice, but a name can be granted again before that; " KEEP);
}

static void check_memory(const struct redis_checkup *r, const char *info)
{
    long long most = info_number(info, "maxmemory"), used = info_number(info, "used_memory");
    char policy[VALUE_ROOM];

    hfi_info(info, "maxmemory_policy", policy, sizeof policy);
    if (!policy[0])
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "memory", "maxmemory-policy: " NOT_ALLOWED);
    else if (strcmp(policy, "noeviction") != 0)
        hfi_report(&r->report, most ? HF_CHECK_LEVEL_BAD : HF_CHECK_LEVEL_WARNING, "memory",
                   "maxmemory-policy %s: %s, a lock that is held can be evicted and granted again. "
                   "CONFIG SET maxmemory-policy noeviction",
                   policy, most ? "when memory is full" : "once there is a maxmemory");
    else if (most == 0)
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "memory",
                   "noeviction, no maxmemory: locks are not evicted");
    else
        hfi_report(&r->report,
                   used > most / 100 * MEMORY_NEAR ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK,
                   "memory",
                   "noeviction, %lld of %lld MiB used: when it is full, locks are refused; "
                   "releases and renewals go on (CONFIG SET maxmemory)",
                   used >> 20, most >> 20);
}

/* ---- who we are to it ---------------------------------------------------------------------------- */

/* ---- time -------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void check_round_trip(const struct redis_checkup *r, struct hfi_ask *ask)
{
    int64_t us[PINGS], median_us;
    double median_ms, longest_ms;
    hf_error err;

    for (size_t i = 0; i < PINGS; i++) {
        int64_t before_ns = hfi_now_ns();
        char *pong = hfi_ask(ask, (const char *[]){ "PING", NULL }, &err);

        if (!pong) {
            hfi_report(&r->report,
                       err.status == HF_DENIED ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD,
                       "round trip", "PING: %s", err.text);
            return;
        }
        hfi_free(pong);
        us[i] = (hfi_now_ns() - before_ns) / 1000;
    }
    qsort(us, PINGS, sizeof *us, by_size);
    median_us = us[PINGS / 2];
    median_ms = (double)median_us / 1000;
    longest_ms = (double)us[PINGS - 1] / 1000;
    if (median_us > SLOW_US)
        hfi_report(&r->report, HF_CHECK_LEVEL_WARNING, "round trip",
                   "%.1f ms (median of %d; the longest %.1f ms): leases need a ttl that is much "
                   "longer",
                   median_ms, PINGS, longest_ms);
    else
        hfi_report(&r->report, HF_CHECK_LEVEL_OK, "round trip",
                   "%.2f ms (median of %d; the longest %.2f ms)", median_ms, PINGS, longest_ms);
}

static void check_clock(const struct redis_checkup *r, struct hfi_ask *ask)
{
    int64_t ahead_us = 0, error_us;
    hf_error err;
    bool far;

    if (hfi_ask_clock(ask, PINGS, &ahead_us, &error_us, &err) != HF_OK) {
        hfi_report(&r->report,
                   err.status == HF_DENIED ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_BAD, "clock",
                   "TIME: %s", err.status == HF_DENIED ? NOT_ALLOWED : err.text);
        return;
    }
    far = llabs(ahead_us) - error_us > CLOCK_FAR_US;
    hfi_report(&r->report, far ? HF_CHECK_LEVEL_WARNING : HF_CHECK_LEVEL_OK, "clock",
               "the server's is %.2f ms %s ours (give or take %.2f ms). Leases go by the server's "
               "alone%s",
               (double)llabs(ahead_us) / 1000, ahead_us < 0 ? "behind" : "ahead of",
               (double)error_us / 1000,
               far ? ", but one of the two is wrong: when the server's is set right, leases end "
                     "early (forward) or late (back): keep both by NTP"
                   : "");
}
