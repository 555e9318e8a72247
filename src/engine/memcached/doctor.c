/* SPDX-License-Identifier: MIT */
/*
 * Checks whether this server can keep the promises, on a connection of its own and on the caller's
 * thread. A cache may forget items: most findings say when it does.
 */
#include "engine/memcached/internal.h"

#include "engine/kit/report.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_ROOM 64

struct facts {
    uint64_t evictions, limit_maxbytes, bytes, uptime, threads, cmd_flush, curr_connections,
        max_connections, rejected_connections, maxconns, item_size_max;
    char evicted_first[16]; /* stats settings: "evictions on|off" */
    char lru_crawler[16], auth[16], cas_enabled[16];
};

struct ask {
    struct hfi_reactor reactor; /* first: they are one address */
    struct memcached_connection connection;
    struct memcached_sent sent;
    struct facts *facts;
    bool settings; /* the lines are of stats settings */
    bool over;
    hf_error why;
};

/* ---- asking ------------------------------------------------------------------------------------ */

static void ask_up(struct memcached_connection *connection)
{
    (void)connection;
}

static void ask_down(struct memcached_connection *connection, hf_status status, const char *why)
{
    struct ask *ask = connection->data;

    hfi_error_set(&ask->why, status, 0, "%s", why);
}

static const struct memcached_connection_calls ask_calls = { .up = ask_up, .down = ask_down };

static void take_stat(struct facts *facts, bool settings, const char *name, const char *value)
{
    const struct {
        const char *name;
        bool settings;
        uint64_t *at;
    } numbers[] = {
        { "evictions", false, &facts->evictions },
        { "limit_maxbytes", false, &facts->limit_maxbytes },
        { "bytes", false, &facts->bytes },
        { "uptime", false, &facts->uptime },
        { "threads", false, &facts->threads },
        { "cmd_flush", false, &facts->cmd_flush },
        { "curr_connections", false, &facts->curr_connections },
        { "max_connections", false, &facts->max_connections },
        { "rejected_connections", false, &facts->rejected_connections },
    };
    const struct {
        const char *name;
        char *at;
    } words[] = {
        { "evictions", facts->evicted_first },
        { "lru_crawler", facts->lru_crawler },
        { "auth_enabled_ascii", facts->auth },
        { "cas_enabled", facts->cas_enabled },
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].settings == settings && strcmp(numbers[i].name, name) == 0)
            *numbers[i].at = strtoull(value, NULL, 10);
    for (size_t i = 0; i < sizeof words / sizeof *words && settings; i++)
        if (strcmp(words[i].name, name) == 0)
            snprintf(words[i].at, 16, "%s", value);
}

static void stats_answered(struct memcached_sent *sent, const struct memcached_reply *reply,
                           bool maybe)
{
    struct ask *ask = hfi_container(sent, struct ask, sent);
    char line[256], *space;

    (void)maybe;
    if (!reply || reply->kind != MEMCACHED_STAT) {
        ask->over = true;
        if (reply && reply->kind != MEMCACHED_END)
            hfi_error_set(&ask->why, HF_UNAVAILABLE, 0, "the server refuses to tell its stats");
        return;
    }
    snprintf(line, sizeof line, "%.*s", (int)(reply->len < 255 ? reply->len : 255), reply->text);
    space = strchr(line, ' ');
    if (!space)
        return;
    *space = 0;
    take_stat(ask->facts, ask->settings, line, space + 1);
}

/* Every wait ends by the time limits of the connection. */
static void ask_turn(struct ask *ask)
{
    hfi_reactor_turn(&ask->reactor, HFI_NEVER);
}

static void ask_stats(struct ask *ask, const char *command, bool settings)
{
    size_t len;
    char *to;

    hfi_reactor_enter(&ask->reactor);
    to = hfi_stream_reserve(&ask->connection.stream, ASK_ROOM);
    len = to ? (size_t)snprintf(to, ASK_ROOM, "%s\r\n", command) : 0;
    ask->settings = settings;
    ask->over = false;
    ask->sent = (struct memcached_sent){ .sent.lines = true, .answered = stats_answered };
    memcached_connection_send(&ask->connection, len, &ask->sent);
    hfi_reactor_leave(&ask->reactor);
    while (!ask->over)
        ask_turn(ask);
}

/* Read all facts, and the version. */
static hf_status learn(const struct memcached_conf *conf, struct facts *ret_facts,
                       char ret_version[32], hf_error *err)
{
    struct ask ask = { .facts = ret_facts };
    hf_status status = hfi_reactor_init(&ask.reactor, NULL, NULL, err);

    if (status == HF_OK &&
        !memcached_connection_init(&ask.connection, &ask.reactor, conf, &ask_calls, &ask))
        status = hfi_error_memory(err);
    if (status == HF_OK) {
        hfi_stream_open(&ask.connection.stream, hfi_now_ms());
        while (ask.connection.stream.state != HFI_STREAM_UP && ask.why.status == HF_OK)
            ask_turn(&ask);
        if (ask.why.status == HF_OK)
            ask_stats(&ask, "stats", false);
        if (ask.why.status == HF_OK)
            ask_stats(&ask, "stats settings", true);
        memcpy(ret_version, ask.connection.server.version, 32);
        if (ask.why.status != HF_OK)
            status = hfi_error_set(err, ask.why.status, 0, "%s", ask.why.text);
    }
    memcached_connection_done(&ask.connection);
    hfi_reactor_done(&ask.reactor);
    return status;
}

/*
 * What is so with every memcached is said, but is no warning: the engine does not promise it, and no setting
 * mends it. Warnings are what this server or this URL could do better.
 */

/* ---- judging --------------------------------------------------------------------------------------- */

static void judge_memory(const struct hfi_report *report, const struct facts *facts)
{
    bool may_evict = strcmp(facts->evicted_first, "off") != 0;
    uint64_t percent = facts->limit_maxbytes ? facts->bytes * 100 / facts->limit_maxbytes : 0;

    if (may_evict)
        hfi_report(
            report, facts->evictions ? HF_CHECK_LEVEL_BAD : HFI_CHECK_NOTE, "eviction",
            "%" PRIu64 " items were evicted since the server started%s. When its memory is full it "
            "forgets items, leases included, and lets another client in; a holder notices at its "
            "next "
            "renewal (a third of the ttl). Give locks a server of their own",
            facts->evictions, facts->evictions ? ": leases may have been among them" : "");
    else
        hfi_report(
            report, HFI_CHECK_NOTE, "eviction",
            "off (-M): no item is evicted when memory is full. But when it is full, a renewal "
            "or another's attempt that finds no room makes memcached delete the lease under that "
            "name; the holder notices at its next renewal");
    hfi_report(report, percent >= 80 ? HF_CHECK_LEVEL_BAD : HF_CHECK_LEVEL_OK, "memory",
               "%" PRIu64 " MB at most (-m), %" PRIu64 "%% in use", facts->limit_maxbytes >> 20,
               percent);
}

static void judge_life(const struct hfi_report *report, const struct facts *facts)
{
    hfi_report(report, HFI_CHECK_NOTE, "restart",
               "up for %" PRIu64
               " s. A restart forgets all leases at once: others get in while holders "
               "still hold, until their next renewal. What reaches a server just before it is "
               "continued from a stop may end early",
               facts->uptime);
    if (facts->cmd_flush)
        hfi_report(report, HF_CHECK_LEVEL_BAD, "flush_all",
                   "%" PRIu64
                   " times since it started: each forgot all leases. Do not share a cache "
                   "that is flushed with locks",
                   facts->cmd_flush);
    else
        hfi_report(report, HF_CHECK_LEVEL_OK, "flush_all",
                   "never since it started (one would forget all leases)");
}

static void judge_rest(const struct hfi_report *report, const struct facts *facts)
{
    hfi_report(
        report, HFI_CHECK_NOTE, "tokens",
        "none: nothing fences a holder that was paused. For locks that protect data use another "
        "engine; this one saves double work");
    hfi_report(report, HFI_CHECK_NOTE, "waiting",
               "by polling: no order among waiters, and nobody can list them");
    if (strcmp(facts->cas_enabled, "no") == 0)
        hfi_report(report, HF_CHECK_LEVEL_BAD, "cas",
                   "off (-C): nothing can be renewed or released. Start it without");
    if (strcmp(facts->lru_crawler, "no") == 0)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "ls",
                   "the LRU crawler is off: names cannot be listed; start it with -o lru_crawler");
    if (facts->rejected_connections)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "connections",
                   "%" PRIu64 " were refused: start it with a larger -c",
                   facts->rejected_connections);
    else
        hfi_report(report, HF_CHECK_LEVEL_OK, "connections",
                   "%" PRIu64 " of at most %" PRIu64 ", %" PRIu64 " threads",
                   facts->curr_connections, facts->max_connections, facts->threads);
}

hf_status memcached_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct memcached_store *store = self;
    struct hfi_report report = { .finding = finding, .arg = arg };
    struct facts facts = { 0 };
    char version[32] = "";
    hf_status status = learn(store->conf, &facts, version, err);

    if (status != HF_OK)
        return status;
    hfi_report(&report, HF_CHECK_LEVEL_OK, "server", "memcached %s at %s", version,
               store->conf->url.hosts[0].shown);
    hfi_report_access(&report,
                      &(struct hfi_access){ .user = store->conf->url.user,
                                            .proof = store->conf->url.user ? "a password" : NULL,
                                            .local = hfi_all_local(&store->conf->url) });
    judge_memory(&report, &facts);
    judge_life(&report, &facts);
    judge_rest(&report, &facts);
    return HF_OK;
}
