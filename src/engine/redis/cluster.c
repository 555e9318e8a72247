/* SPDX-License-Identifier: MIT */
/*
 * redis+cluster: which of many servers gets a command.
 *
 * The map of slots (CLUSTER SLOTS) is asked of any node that is up, and asked for again when a
 * command was moved, when a server of the map cannot be reached, and when a slot has none; never
 * more often than once in REFRESH_MIN_MS. Servers are connected to when a command is to go there.
 *
 *   MOVED      not executed: the slot is noted, and the command goes where it says
 *   ASK        not executed: the command goes there once, behind ASKING
 *   TRYAGAIN   not executed: some keys of the name are here and some there; a moment later
 *   CLUSTERDOWN, LOADING, READONLY   a moment later, for as long as the caller wants to wait
 *
 * A command is redirected at most REDIS_HOPS_MAX times. While a slot is on its way, Redis refuses
 * commands on several keys of which one does not exist, and a name without waiters has no queue: so
 * acquire and release of such a name wait (TRYAGAIN) until the slot has arrived. Renewals,
 * which touch one key, go on.
 *
 * What a failover forgets: replication is asynchronous, so the new server may not have a grant that
 * the old one answered. When a server that had slots has none any more, every lease is in doubt
 * until a renewal has found it. A slot that was moved between living servers loses nothing.
 *
 * Messages of PUBLISH reach every node: the inbox is subscribed at any one that has slots.
 */
#include "engine/redis/address.h"
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

#define SLOTS          16384u
#define NO_NODE        UINT16_MAX
#define NODES_MAX      1024
#define REFRESH_MIN_MS 100
#define KEEP_MS        30000 /* a server without slots is kept so long: an ASK may lead there again */
#define HOPS_AT_ONCE   2     /* further redirections come after a pause */

struct redis_cluster {
    struct hfi_conn *conn;
    struct redis_sent sent;
    struct redis_node *asked; /* for the map; NULL: nobody */
    struct redis_node *hint;  /* whom to ask next: it knows best */
    bool known;               /* there is a map */
    bool look_at_inbox;       /* is it at a server of the map? */
    int64_t asked_ms;         /* when we asked last */
    int64_t refresh_ms;       /* when to ask again; HFI_NEVER */
    unsigned failures;        /* maps in a row that were of no use, or had a server that is down */
    hf_error why;             /* of the last such */
    uint16_t fresh[SLOTS];    /* the map that is being read */
};

static bool add_seeds(struct hfi_conn *conn);
static struct redis_node *find_or_add(struct hfi_conn *conn, const char *host, size_t len,
                                      uint16_t port);
static struct redis_node *any_up(const struct hfi_conn *conn);
static void refresh(struct hfi_conn *conn, int64_t pause_ms);
static void refresh_after_failure(struct hfi_conn *conn);
static void ask(struct hfi_conn *conn, int64_t now_ms);
static void slots_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void move_inbox(struct hfi_conn *conn, bool must);

static bool is_up(const struct redis_node *node)
{
    return node->link && hfi_link_state(node->link) == HFI_STREAM_UP;
}

/* ---- open and close ---------------------------------------------------------------- */

static hf_status cluster_open(struct hfi_conn *conn, hf_error *err)
{
    conn->cluster = hfi_calloc(1, sizeof *conn->cluster);
    conn->slots = hfi_malloc(SLOTS * sizeof *conn->slots);
    if (!conn->cluster || !conn->slots)
        return hfi_error_memory(err);
    conn->cluster->conn = conn;
    conn->cluster->refresh_ms = HFI_NEVER;
    memset(conn->slots, 0xff, SLOTS * sizeof *conn->slots);
    if (!add_seeds(conn) || !redis_inbox_aim(conn, &conn->conf->url.hosts[0]))
        return hfi_error_memory(err);
    return HF_OK;
}

static void cluster_close(struct hfi_conn *conn)
{
    hfi_free(conn->cluster);
    conn->cluster = NULL;
    hfi_free(conn->slots);
    conn->slots = NULL;
}

static bool cluster_ready(const struct hfi_conn *conn)
{
    return conn->inbox_up && conn->cluster->known && any_up(conn);
}

static bool is_hard(const hf_error *why)
{
    return why->status != HF_OK && why->status != HF_UNAVAILABLE;
}

/* Hopeless only if nobody is up and everybody has a reason that will not pass. */
static const hf_error *cluster_why(const struct hfi_conn *conn, bool hopeless)
{
    const hf_error *why = NULL;

    if (is_hard(&conn->inbox.why))
        return &conn->inbox.why;
    if (is_hard(&conn->cluster->why))
        return &conn->cluster->why;
    for (uint32_t i = 0; i < conn->node_count; i++) {
        const struct redis_node *node = conn->nodes[i];

        if (!node->link)
            continue;
        if (hopeless && !redis_is_final(conn, &node->why))
            return NULL;
        if (node->why.status != HF_OK && (!why || is_hard(&node->why)))
            why = &node->why;
    }
    if (hopeless)
        return why;
    return conn->cluster->why.status != HF_OK ? &conn->cluster->why : why ? why : &conn->inbox.why;
}

/* ---- nodes -------------------------------------------------------------------------- */

static struct redis_node *find(struct hfi_conn *conn, const char *host, size_t len, uint16_t port)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link && hfi_address_is(conn->nodes[i]->address, host, len, port))
            return conn->nodes[i];
    return NULL;
}

static bool add_seeds(struct hfi_conn *conn)
{
    for (size_t i = 0; i < conn->conf->url.host_count; i++) {
        const struct hfi_address *seed = &conn->conf->url.hosts[i];
        struct redis_node *node = find_or_add(conn, seed->host, strlen(seed->host), seed->port);

        if (!node)
            return false;
        hfi_link_keep(node->link, true);
    }
    return true;
}

/* NULL: out of memory, too many, or no host at all. */
static struct redis_node *find_or_add(struct hfi_conn *conn, const char *host, size_t len,
                                      uint16_t port)
{
    struct redis_node *node = find(conn, host, len, port);
    struct hfi_address *address;
    uint32_t index;

    if (node)
        return node;
    if (conn->node_count >= NODES_MAX)
        return NULL;
    address = hfi_address_new(host, len, port);
    if (!address)
        return NULL;
    index = redis_node_add(conn, address);
    hfi_address_free(address);
    if (index == REDIS_NODE_ANY)
        return NULL;
    node = conn->nodes[index];
    hfi_link_keep(node->link, false); /* until somebody sends something there */
    node->gone = true;                /* until a map has it */
    node->keep_ms = hfi_now_ms() + KEEP_MS;
    return node;
}

/* Not always the same one: the first may be the one that knows least. */
static struct redis_node *any_up(const struct hfi_conn *conn)
{
    uint32_t from = conn->node_count ? (uint32_t)hfi_random_u64() % conn->node_count : 0;

    for (uint32_t i = 0; i < conn->node_count; i++) {
        struct redis_node *node = conn->nodes[(from + i) % conn->node_count];

        if (is_up(node) && hfi_link_usable(node->link))
            return node;
    }
    return NULL;
}

uint32_t redis_cluster_next(const struct hfi_conn *conn, uint32_t from)
{
    for (; from < conn->node_count; from++)
        if (conn->nodes[from]->link && conn->nodes[from]->serves)
            return from;
    return REDIS_NODE_ANY;
}

/* A server that has left the map, and that nobody waits for. By the driver. */
static void drop_gone(struct hfi_conn *conn, int64_t now_ms)
{
    for (uint32_t i = 0; i < conn->node_count; i++) {
        struct redis_node *node = conn->nodes[i];

        if (!node->link || !node->gone || !conn->cluster->known || node->keep_ms > now_ms)
            continue;
        if (hfi_link_in_flight(node->link) > 0) {
            node->keep_ms = now_ms + KEEP_MS;
            continue;
        }
        if (conn->cluster->hint == node)
            conn->cluster->hint = NULL;
        redis_node_drop(node);
    }
}

static void cluster_up(struct redis_node *node)
{
    struct hfi_conn *conn = node->conn;

    if (!conn->cluster->known || conn->cluster->failures > 0)
        refresh(conn, 0);
}

static void cluster_down(struct redis_node *node)
{
    if (node->serves || !node->conn->cluster->known)
        refresh_after_failure(node->conn);
}

/* ---- routes -------------------------------------------------------------------------- */

struct redis_node *redis_cluster_route(struct hfi_conn *conn, const struct redis_call *call)
{
    uint32_t slot = call->command.slot, index = call->node;

    if (conn->node_count == 0)
        return NULL; /* being closed */
    if (index == REDIS_NODE_ANY && slot == HFI_SLOT_ANY)
        return any_up(conn);
    if (index == REDIS_NODE_ANY)
        index = conn->slots[slot] == NO_NODE ? REDIS_NODE_ANY : conn->slots[slot];
    if (index == REDIS_NODE_ANY || !conn->nodes[index]->link) {
        refresh(conn, 0);
        return NULL;
    }
    return conn->nodes[index];
}

static void end_lost(struct redis_call *call, const struct redis_node *node)
{
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "redirected %u times, and at last to %s", call->hops - 1,
                  node->address->shown);
    redis_call_end(call, HFI_REFUSED, &err);
}

/* Where the server says. false: that is nowhere. */
static bool follow(struct redis_call *call, const struct hfi_reply *reply, bool asking)
{
    struct hfi_conn *conn = call->conn;
    struct hfi_redirect to;
    struct redis_node *node;
    const char *here;

    if (!hfi_redirect_parse(reply, &to) || !call->sent_to)
        return false;
    here = call->sent_to->address->host;
    node = to.len ? find_or_add(conn, to.host, to.len, to.port)
                  : find_or_add(conn, here, strlen(here), to.port);
    if (!node)
        return false;

    call->hops++;
    call->asking = asking;
    if (asking) {
        call->node = node->index;
        node->keep_ms = hfi_now_ms() + KEEP_MS;
    } else {
        call->node = REDIS_NODE_ANY;
        conn->slots[to.slot] = (uint16_t)node->index;
        node->gone = false;
        conn->cluster->hint = node;
        refresh(conn, 0);
    }
    if (call->hops > REDIS_HOPS_MAX)
        end_lost(call, node);
    else if (call->hops <= HOPS_AT_ONCE)
        redis_call_try(conn, call);
    else if (!redis_call_later(call, reply))
        end_lost(call, node);
    return true;
}

/* Did a script stop where it was because a key of it is not here, or the cluster is down? */
static bool stopped_halfway(const struct hfi_reply *reply)
{
    static const char *const words[] = { "access a non local key", "while the cluster is down" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(reply->text, reply->len, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool cluster_refused(struct redis_call *call, const struct hfi_reply *reply)
{
    static const char *const passing[] = { "TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN",
                                           "READONLY" };
    bool wait = false;

    if (hfi_reply_is_error(reply, "MOVED"))
        return follow(call, reply, false);
    if (hfi_reply_is_error(reply, "ASK"))
        return follow(call, reply, true);
    if (call->user_script)
        return false; /* a script can answer such words itself, and has run then */

    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        wait = wait || hfi_reply_is_error(reply, passing[i]);
    if (!wait && call->idempotent && stopped_halfway(reply))
        wait = call->was_sent = call->resent = true;
    if (!wait)
        return false;
    if (!hfi_reply_is_error(reply, "TRYAGAIN"))
        refresh(call->conn, 0);
    call->asking = false;
    if (call->command.slot != HFI_SLOT_ANY)
        call->node = REDIS_NODE_ANY;
    return redis_call_later(call, reply);
}

/* ---- the map --------------------------------------------------------------------------- */

/* Ask for it, no earlier than in `pause_ms`. */
static void refresh(struct hfi_conn *conn, int64_t pause_ms)
{
    struct redis_cluster *cluster = conn->cluster;
    int64_t at_ms = hfi_now_ms() + pause_ms;

    if (at_ms < cluster->asked_ms + REFRESH_MIN_MS)
        at_ms = cluster->asked_ms + REFRESH_MIN_MS;
    if (at_ms < cluster->refresh_ms)
        cluster->refresh_ms = at_ms;
}

static void refresh_after_failure(struct hfi_conn *conn)
{
    conn->cluster->failures++;
    refresh(conn, hfi_backoff_ms(conn->cluster->failures, (uint32_t)hfi_random_u64()));
}

static void ask(struct hfi_conn *conn, int64_t now_ms)
{
    struct redis_cluster *cluster = conn->cluster;
    struct redis_node *node = cluster->hint && is_up(cluster->hint) ? cluster->hint : any_up(conn);
    struct hfi_command command;

    cluster->refresh_ms = HFI_NEVER;
    cluster->asked_ms = now_ms;
    cluster->hint = NULL;
    if (!node) {
        (void)add_seeds(conn); /* all that we know are down: begin as at first */
        if (cluster->known)
            refresh_after_failure(conn);
        return; /* the first that comes up makes us ask again */
    }
    cluster->asked = node;
    cluster->sent.answered = slots_answered;
    hfi_command_init(&command);
    hfi_command_add_text(&command, "CLUSTER");
    hfi_command_add_text(&command, "SLOTS");
    hfi_link_send(node->link, &command, &cluster->sent);
    hfi_command_done(&command);
}

/* One range of slots: first, last, its master, its replicas. false: it has another form. */
static bool take_range(struct hfi_conn *conn, const struct redis_node *from,
                       const struct hfi_reply *range)
{
    const struct hfi_reply *first = hfi_reply_at(range, 0, HFI_REPLY_INTEGER);
    const struct hfi_reply *last = hfi_reply_at(range, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *master = hfi_reply_at(range, 2, HFI_REPLY_LIST);
    const struct hfi_reply *host = hfi_reply_at(master, 0, HFI_REPLY_TEXT);
    const struct hfi_reply *port = hfi_reply_at(master, 1, HFI_REPLY_INTEGER);
    bool here = !host || host->len == 0 || (host->len == 1 && host->text[0] == '?');
    struct redis_node *node;

    if (!first || !last || first->integer < 0 || last->integer >= SLOTS || !port ||
        port->integer <= 0 || port->integer > UINT16_MAX)
        return false;
    node = find_or_add(conn, here ? from->address->host : host->text,
                       here ? strlen(from->address->host) : host->len, (uint16_t)port->integer);
    if (!node)
        return false;
    node->in_map = true;
    for (int64_t slot = first->integer; slot <= last->integer; slot++)
        conn->cluster->fresh[slot] = (uint16_t)node->index;
    return true;
}

static bool read_map(struct hfi_conn *conn, const struct redis_node *from,
                     const struct hfi_reply *reply)
{
    bool ok = reply->type == HFI_REPLY_LIST && reply->count > 0;

    memset(conn->cluster->fresh, 0xff, sizeof conn->cluster->fresh);
    for (uint32_t i = 0; i < conn->node_count; i++)
        conn->nodes[i]->in_map = false;
    for (size_t i = 0; ok && i < reply->count; i++)
        ok = take_range(conn, from, &reply->items[i]);
    return ok;
}

/* Is there anything that another map might put right? */
static bool is_whole(const struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link && conn->nodes[i]->serves &&
            hfi_link_failures(conn->nodes[i]->link) > 0)
            return false;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (conn->slots[slot] == NO_NODE)
            return false;
    return true;
}

static void use_map(struct hfi_conn *conn)
{
    struct redis_cluster *cluster = conn->cluster;

    for (uint32_t i = 0; i < conn->node_count; i++) {
        struct redis_node *node = conn->nodes[i];

        if (node->serves && !node->in_map) {
            redis_doubt(conn); /* its place was taken: what it had not passed on is lost */
            redis_waits_hurry(conn);
        }
        if (!node->in_map && !node->gone)
            node->keep_ms = hfi_now_ms() + KEEP_MS;
        node->serves = node->in_map;
        node->gone = !node->in_map;
    }
    memcpy(conn->slots, cluster->fresh, sizeof cluster->fresh);
    cluster->known = cluster->look_at_inbox = true;
    cluster->why.status = HF_OK;
    cluster->why.text[0] = 0;
    if (is_whole(conn))
        cluster->failures = 0;
    else
        refresh_after_failure(conn);
    hfi_requests_unpark(&conn->requests, hfi_now_ms());
}

static void slots_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_cluster *cluster =
        (struct redis_cluster *)((char *)sent - offsetof(struct redis_cluster, sent));
    struct hfi_conn *conn = cluster->conn;
    const struct redis_node *from = cluster->asked;

    (void)maybe;
    cluster->asked = NULL;
    if (!reply) {
        refresh_after_failure(conn);
        return;
    }
    if (reply->type != HFI_REPLY_ERROR && read_map(conn, from, reply)) {
        use_map(conn);
        return;
    }
    if (reply->type == HFI_REPLY_ERROR)
        (void)hfi_reply_status(reply, &cluster->why);
    else
        hfi_error_set(&cluster->why, HF_UNAVAILABLE, 0, "it knows of no slots");
    if (cluster->why.status == HF_CORRUPT)
        cluster->why.status = HF_UNAVAILABLE;
    hfi_error_wrap(&cluster->why, "%s: CLUSTER SLOTS", from->address->shown);
    refresh_after_failure(conn);
}

/* ---- the inbox, and time ------------------------------------------------------------------ */

static bool inbox_serves(const struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link && conn->nodes[i]->serves &&
            hfi_address_same(conn->nodes[i]->address, conn->inbox.address))
            return true;
    return false;
}

/* Before it is opened again, and when its server has left the cluster and hears nothing any more. */
static void move_inbox(struct hfi_conn *conn, bool must)
{
    const struct redis_node *node = any_up(conn);

    if (!node || (must && !node->serves))
        return;
    if (!hfi_address_same(node->address, conn->inbox.address))
        (void)redis_inbox_aim(conn, node->address);
}

static void cluster_tick(struct hfi_conn *conn, int64_t now_ms)
{
    struct redis_cluster *cluster = conn->cluster;

    if (cluster->refresh_ms <= now_ms && !cluster->asked)
        ask(conn, now_ms);
    if (hfi_link_opens_again(conn->inbox.link, now_ms)) {
        move_inbox(conn, false);
        cluster->look_at_inbox = true;
    } else if (cluster->look_at_inbox) {
        if (inbox_serves(conn))
            cluster->look_at_inbox = false;
        else
            move_inbox(conn, true);
    }
    drop_gone(conn, now_ms);
}

static int64_t cluster_next_ms(const struct hfi_conn *conn)
{
    int64_t next_ms = conn->cluster->asked ? HFI_NEVER : conn->cluster->refresh_ms;

    for (uint32_t i = 0; conn->cluster->known && i < conn->node_count; i++)
        if (conn->nodes[i]->link && conn->nodes[i]->gone && conn->nodes[i]->keep_ms < next_ms)
            next_ms = conn->nodes[i]->keep_ms;
    return next_ms;
}

const struct redis_topology redis_cluster = {
    .open = cluster_open,
    .close = cluster_close,
    .ready = cluster_ready,
    .why = cluster_why,
    .up = cluster_up,
    .down = cluster_down,
    .refused = cluster_refused,
    .tick = cluster_tick,
    .next_ms = cluster_next_ms,
};
