/* SPDX-License-Identifier: MIT */
/*
 * Which server gets a command. A link that goes down is opened again after a pause; what
 * cannot be sent meanwhile is parked, in order, for as long as its caller wants to wait. A command
 * whose answer was cut off is sent again only if its script allows that (`again`); else its
 * outcome is RD_MAYBE, and it is up to the caller to settle it.
 *
 * One store is one server here; sentinel.c and cluster.c (struct rd_topology) say which, and which of
 * several.
 */
#include "engine/redis/address.h"
#include "engine/redis/rd.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * So many bytes leave although more may come: the server works on the first commands while the driver
 * is still waking, one by one, those whose answers came. (Some twelve acquires; measured: 64 threads
 * get 1.3 to 1.7 times as much done as with one write at the end.) Not while a caller's loop runs its
 * callbacks: that is soon over, and small writes come back as small reads.
 */
#define EAGER 4096

static void answered(struct hfi_sent *sent, const struct hfi_reply *reply, bool maybe);
static void inbox_answered(struct hfi_sent *sent, const struct hfi_reply *reply, bool maybe);
static void hush(struct hfi_conn *conn);
static void node_up(struct hfi_link *link);
static void node_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_up(struct hfi_link *link);
static void inbox_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len);

static const struct hfi_link_owner node_owner = { .up = node_up, .down = node_down };
static const struct hfi_link_owner inbox_owner = { .up = inbox_up,
                                                   .down = inbox_down,
                                                   .message = inbox_message };

/* ---- opening and closing --------------------------------------------------------------- */

/* Lead a node to a server, or to another one. By the driver, or before there is one. false: out of
 * memory, and it is as it was. */
static bool aim(struct rd_node *node, const struct hfi_address *address)
{
    struct hfi_conn *conn = node->conn;
    bool is_inbox = node == &conn->inbox;
    struct hfi_address *copy = hfi_address_copy(address);
    struct hfi_link *link = copy ? hfi_link_new(conn->conf, copy, is_inbox, conn->pump.epoll_fd,
                                                is_inbox ? &inbox_owner : &node_owner, node)
                                 : NULL;

    if (!link) {
        hfi_address_free(copy);
        return false;
    }
    hfi_rd_node_drop(node);
    node->link = link;
    node->address = copy;
    node->failures = 0;
    node->open_ms = 0;
    node->wanted = true;
    return true;
}

void hfi_rd_node_drop(struct rd_node *node)
{
    if (node->link)
        hfi_link_close(node->link); /* first: what it answers may look at the node */
    hfi_link_free(node->link);
    hfi_address_free(node->address);
    node->link = NULL;
    node->address = NULL;
    node->shun = false;
    if (node == &node->conn->inbox)
        hush(node->conn);
}

uint32_t hfi_rd_node_add(struct hfi_conn *conn, const struct hfi_address *address)
{
    struct rd_node *node;

    for (uint32_t i = 0; i < conn->node_count; i++)
        if (!conn->nodes[i]->link) {
            *conn->nodes[i] = (struct rd_node){ .conn = conn, .index = i };
            return aim(conn->nodes[i], address) ? i : RD_NODE_ANY;
        }
    if (conn->node_count == conn->node_room) {
        uint32_t room = conn->node_room ? 2 * conn->node_room : 4;
        struct rd_node **nodes = hfi_realloc(conn->nodes, room * sizeof *nodes);

        if (!nodes)
            return RD_NODE_ANY;
        conn->nodes = nodes;
        conn->node_room = room;
    }
    node = hfi_calloc(1, sizeof *node);
    if (!node)
        return RD_NODE_ANY;
    node->conn = conn;
    node->index = conn->node_count;
    if (!aim(node, address)) {
        hfi_free(node);
        return RD_NODE_ANY;
    }
    conn->nodes[conn->node_count] = node;
    return conn->node_count++;
}

bool hfi_rd_inbox_aim(struct hfi_conn *conn, const struct hfi_address *address)
{
    conn->inbox.conn = conn;
    return aim(&conn->inbox, address);
}

/* The node itself is the last: if memory ends before, it is still where it was, and who asks again
 * sees that. */
bool hfi_rd_master_aim(struct hfi_conn *conn, const struct hfi_address *address)
{
    conn->sync.conn = conn;
    if (!hfi_rd_inbox_aim(conn, address) || (conn->conf->sync > 0 && !aim(&conn->sync, address)))
        return false;
    return conn->node_count > 0 ? aim(conn->nodes[0], address)
                                : hfi_rd_node_add(conn, address) != RD_NODE_ANY;
}

/* ---- one server -------------------------------------------------------------------------- */

static hf_status single_open(struct hfi_conn *conn, hf_error *err)
{
    return hfi_rd_master_aim(conn, &conn->conf->addresses[0]) ? HF_OK : hfi_error_memory(err);
}

static bool single_ready(const struct hfi_conn *conn)
{
    return conn->inbox_up && hfi_link_state(conn->nodes[0]->link) == HFI_LINK_UP &&
           (!conn->sync.link || hfi_link_state(conn->sync.link) == HFI_LINK_UP);
}

static const hf_error *single_why(const struct hfi_conn *conn, bool hopeless)
{
    const struct rd_node *both[2] = { conn->nodes[0], &conn->inbox };

    for (int i = 0; i < 2; i++)
        if (both[i]->why.status != HF_OK && (!hopeless || both[i]->why.status != HF_UNAVAILABLE))
            return &both[i]->why;
    return NULL;
}

const struct rd_topology hfi_rd_single = {
    .open = single_open,
    .ready = single_ready,
    .why = single_why,
};

/* ---- opening and closing the store ----------------------------------------------------------- */

hf_status hfi_rd_net_open(struct hfi_conn *conn, hf_error *err)
{
    int64_t until_ms = conn->pump.host->open_deadline_ms;
    const struct rd_topology *topology = conn->conf->way == HFI_WAY_SENTINEL  ? &hfi_rd_sentinel
                                         : conn->conf->way == HFI_WAY_CLUSTER ? &hfi_rd_cluster
                                                                              : &hfi_rd_single;
    const hf_error *why = NULL;
    hf_status status;

    conn->topology = topology;
    status = topology->open(conn, err);
    if (status == HF_OK)
        while (!topology->ready(conn) && !(why = topology->why(conn, true)) &&
               hfi_now_ms() < until_ms)
            hfi_pump_turn(&conn->pump, until_ms);
    if (status == HF_OK && topology->ready(conn))
        return HF_OK;

    if (status == HF_OK) {
        if (!why)
            why = topology->why(conn, false);
        status = why && why->status != HF_OK
                     ? hfi_error_set(err, why->status, why->native, "%s", why->text)
                     : hfi_error_set(err, HF_UNAVAILABLE, 0, "%s: no answer in time",
                                     conn->conf->addresses[0].shown);
    }
    hfi_pump_enter(&conn->pump);
    conn->closing = true;
    hfi_rd_net_close(conn);
    pthread_mutex_unlock(&conn->pump.lock);
    return status;
}

void hfi_rd_net_close(struct hfi_conn *conn)
{
    struct rd_call *call;
    hf_error err;

    for (uint32_t i = 0; i < conn->node_count; i++)
        hfi_rd_node_drop(conn->nodes[i]); /* all, before any is gone: answers may look at others */
    for (uint32_t i = 0; i < conn->node_count; i++)
        hfi_free(conn->nodes[i]);
    hfi_free(conn->nodes);
    conn->nodes = NULL;
    conn->node_count = 0;
    conn->sync.conn = conn->inbox.conn = conn;
    hfi_rd_node_drop(&conn->sync);
    hfi_rd_node_drop(&conn->inbox);

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the store is being closed");
    while ((call = conn->parked)) {
        conn->parked = call->next;
        if (!conn->parked)
            conn->parked_end = &conn->parked; /* who answers may send again, and that is parked */
        hfi_rd_call_end(call, RD_UNSENT, &err);
    }
    if (conn->topology->close)
        conn->topology->close(conn);
}

void hfi_rd_net_abandon(struct hfi_conn *conn)
{
    const struct rd_node *both[2] = { &conn->sync, &conn->inbox };

    for (uint32_t i = 0; i < conn->node_count + 2; i++) {
        const struct rd_node *node =
            i < conn->node_count ? conn->nodes[i] : both[i - conn->node_count];

        if (node->link && hfi_link_fd(node->link) >= 0)
            close(hfi_link_fd(node->link));
    }
    if (conn->topology->abandon)
        conn->topology->abandon(conn);
}

/* ---- sending ------------------------------------------------------------------------------ */

static struct rd_node *route(struct hfi_conn *conn, const struct rd_call *call)
{
    if (call->synced)
        return conn->sync.link ? &conn->sync : NULL;
    if (conn->slots)
        return hfi_rd_cluster_route(conn, call);
    return conn->node_count ? conn->nodes[0] : NULL;
}

/* What the user is told of a call that could not be sent. */
static void end_unsent(struct hfi_conn *conn, struct rd_call *call)
{
    const struct rd_node *node = route(conn, call);
    hf_error err;

    hfi_error_set(&err, HF_UNAVAILABLE, 0, "%s",
                  node && node->why.text[0] ? node->why.text
                  : call->tries > 0         ? call->sent_to->said.text
                                            : "not connected");
    if (node && node->why.status != HF_OK)
        err.status = node->why.status;
    hfi_rd_call_end(call, RD_UNSENT, &err);
}

static void enqueue(struct hfi_conn *conn, struct rd_call *call)
{
    call->next = NULL;
    *conn->parked_end = call;
    conn->parked_end = &call->next;
    if (call->give_up_ms < conn->parked_ms)
        conn->parked_ms = call->give_up_ms;
    if (call->retry_ms && call->retry_ms < conn->parked_ms)
        conn->parked_ms = call->retry_ms;
}

static void park(struct hfi_conn *conn, struct rd_call *call)
{
    if (call->hasty)
        end_unsent(conn, call);
    else
        enqueue(conn, call);
}

bool hfi_rd_net_later(struct rd_call *call, const struct hfi_reply *reply)
{
    int64_t pause_ms =
        hfi_link_backoff_ms(call->tries < RD_TRIES_SLOWER ? ++call->tries : RD_TRIES_SLOWER,
                            (uint32_t)hfi_random_u64());
    int64_t at_ms = hfi_now_ms() + pause_ms;

    if (call->hasty || at_ms >= call->give_up_ms || call->conn->closing)
        return false;
    (void)hfi_reply_status(reply, &call->sent_to->said);
    call->retry_ms = at_ms;
    enqueue(call->conn, call);
    return true;
}

/* Has this server been sent the script's text since we connected? From now on it has. So NOSCRIPT is
 * rare (SCRIPT FLUSH), and commands are executed in the order in which they were sent. */
static bool knows_script(struct rd_node *node, const struct hfi_script *script)
{
    for (size_t i = 0; i < RD_SCRIPTS_MAX; i++) {
        if (node->scripts[i] == script)
            return true;
        if (!node->scripts[i]) {
            node->scripts[i] = script;
            return false;
        }
    }
    return false;
}

void hfi_rd_net_send(struct hfi_conn *conn, struct rd_call *call)
{
    struct rd_node *node = route(conn, call);

    call->retry_ms = 0;
    if (!node || hfi_link_state(node->link) != HFI_LINK_UP) {
        if (node)
            node->wanted = true;
        if (node && node->failures == 0 && !conn->closing)
            enqueue(conn, call); /* it is being connected to for the first time: even in haste */
        else
            park(conn, call);
        return;
    }
    call->sent_to = node;
    call->sent.answered = answered;
    if (call->first_ms == 0)
        call->first_ms = hfi_now_ms();
    if (call->command.script && !call->theirs)
        call->command.whole = !knows_script(node, call->command.script);
    if (call->asking)
        hfi_link_send_asking(node->link, &call->command, &call->sent);
    else
        hfi_link_send(node->link, &call->command, &call->sent);
    if (!conn->pump.looping)
        hfi_link_flush_if(node->link, EAGER);
}

bool hfi_rd_net_unsend(struct hfi_conn *conn, struct rd_call *call)
{
    struct rd_call **at = &conn->parked;

    while (*at && *at != call)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = call->next;
    if (!*at)
        conn->parked_end = at;
    return true;
}

void hfi_rd_net_unpark(struct hfi_conn *conn, int64_t now_ms)
{
    struct rd_call *call = conn->parked, *next;

    conn->parked = NULL;
    conn->parked_end = &conn->parked;
    conn->parked_ms = HFI_NEVER;
    for (; call; call = next) {
        next = call->next;
        if (call->retry_ms > now_ms) {
            park(conn, call);
            continue;
        }
        if (call->give_up_ms > now_ms)
            hfi_rd_net_send(conn, call);
        else
            end_unsent(conn, call);
    }
}

void hfi_rd_net_flush(struct hfi_conn *conn)
{
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link)
            hfi_link_flush(conn->nodes[i]->link);
    if (conn->sync.link)
        hfi_link_flush(conn->sync.link);
    if (conn->inbox.link)
        hfi_link_flush(conn->inbox.link);
}

struct hfi_link *hfi_rd_net_busy(struct hfi_conn *conn)
{
    struct hfi_link *busy = NULL;

    if (conn->sync.link && hfi_link_in_flight(conn->sync.link))
        return NULL;

    for (uint32_t i = 0; i < conn->node_count; i++) {
        struct hfi_link *link = conn->nodes[i]->link;

        if (link && hfi_link_in_flight(link)) {
            if (busy || hfi_link_state(link) != HFI_LINK_UP)
                return NULL;
            busy = link;
        }
    }
    return busy;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void unanswered(struct rd_call *call, bool maybe)
{
    struct hfi_conn *conn = call->conn;
    hf_error err;

    call->was_sent = call->was_sent || maybe;
    call->copied = call->copied || maybe;
    if (!conn->closing && (!maybe || call->again)) {
        park(conn, call);
        return;
    }
    hfi_error_set(&err, HF_UNAVAILABLE, 0, "the connection broke before the answer came");
    hfi_rd_call_end(call, maybe ? RD_MAYBE : RD_UNSENT, &err);
}

static void forget_scripts(struct rd_node *node)
{
    memset(node->scripts, 0, sizeof node->scripts);
}

/* In the server's own words: one that a script made up itself means that it has run. */
static bool is_noscript(const struct hfi_reply *reply)
{
    static const char words[] = "NOSCRIPT No matching script";

    return reply->len >= sizeof words - 1 && memcmp(reply->text, words, sizeof words - 1) == 0;
}

static void refused(struct rd_call *call, const struct hfi_reply *reply)
{
    struct hfi_conn *conn = call->conn;
    hf_error err;

    if (call->command.script && !call->command.whole && is_noscript(reply)) {
        if (call->theirs)
            call->command.whole = true;
        else
            forget_scripts(call->sent_to); /* SCRIPT FLUSH: all are gone */
        hfi_rd_net_send(conn, call);
        return;
    }
    if (conn->topology->refused && conn->topology->refused(call, reply))
        return;
    (void)hfi_reply_status(reply, &err);
    /* It was made a replica under us; its name may lead to another server by now. */
    if (conn->topology == &hfi_rd_single && hfi_reply_is_error(reply, "READONLY")) {
        call->sent_to->why = err;
        call->sent_to->shun = true;
    }
    /* Waiting would not help. (In a cluster, where these have been followed too often, it may.) */
    if (conn->conf->way != HFI_WAY_CLUSTER && hfi_reply_is_error(reply, "MOVED"))
        hfi_error_set(&err, HF_CONFIG, 0,
                      "the server is one of a cluster, and another one has this name: use "
                      "redis+cluster:");
    if (call->theirs) {
        call->answer(call, RD_REFUSED, reply, &err);
        hfi_rd_call_free(call);
        return;
    }
    /* An error that we do not know may have struck in the middle of a script. */
    hfi_rd_call_end(call, err.status == HF_CORRUPT ? RD_MAYBE : RD_REFUSED, &err);
}

static void answered(struct hfi_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct rd_call *call = (struct rd_call *)((char *)sent - offsetof(struct rd_call, sent));

    if (!reply) {
        unanswered(call, maybe);
        return;
    }
    if (reply->type == HFI_REPLY_ERROR) {
        refused(call, reply);
        return;
    }
    call->answer(call, RD_ANSWERED, reply, NULL);
    hfi_rd_call_free(call);
}

/* ---- links come and go ------------------------------------------------------------------------ */

static void open_later(struct rd_node *node)
{
    node->failures++;
    node->open_ms = hfi_now_ms() + hfi_link_backoff_ms(node->failures, (uint32_t)hfi_random_u64());
    if (node->conn->topology->down)
        node->conn->topology->down(node);
    if (node->failures == 1 && node->conn->parked)
        hfi_rd_net_unpark(node->conn, hfi_now_ms()); /* who is in haste waited for this only */
}

static void node_up(struct hfi_link *link)
{
    struct rd_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;
    const struct hfi_server *server = hfi_link_server(link);

    if (server->is_replica && !conn->slots) { /* in a cluster it says where its master is */
        hfi_error_set(&node->why, HF_UNAVAILABLE, 0,
                      "%s: it is a replica, and locks need its master",
                      hfi_link_address(link)->shown);
        node->shun = true;
        return;
    }
    if (conn->slots && !server->is_cluster) {
        hfi_error_set(&node->why, HF_CONFIG, 0, "%s: it is no node of a cluster: use redis://",
                      hfi_link_address(link)->shown);
        node->shun = true;
        return;
    }
    if (node->was_up &&
        (strcmp(node->run_id, server->run_id) != 0 || strcmp(node->replid, server->replid) != 0))
        hfi_rd_doubt(conn);
    snprintf(node->run_id, sizeof node->run_id, "%s", server->run_id);
    snprintf(node->replid, sizeof node->replid, "%s", server->replid);
    node->was_up = true;
    forget_scripts(node);
    node->failures = 0;
    node->why.status = HF_OK;
    node->why.text[0] = 0;
    if (conn->topology->up)
        conn->topology->up(node);
    hfi_rd_net_unpark(conn, hfi_now_ms());
}

static void node_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct rd_node *node = hfi_link_data(link);

    hfi_error_set(&node->why, status, 0, "%s", why);
    open_later(node);
}

static void inbox_up(struct hfi_link *link)
{
    struct rd_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;

    conn->inbox_sent.answered = inbox_answered;
    hfi_link_subscribe(link, conn->inbox_name, conn->inbox_len, &conn->inbox_sent);
}

static void inbox_answered(struct hfi_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct hfi_conn *conn =
        (struct hfi_conn *)((char *)sent - offsetof(struct hfi_conn, inbox_sent));

    (void)maybe;
    if (!reply)
        return; /* the link is going down */
    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &conn->inbox.why);
        hfi_error_wrap(&conn->inbox.why, "%s: SUBSCRIBE %s",
                       hfi_link_address(conn->inbox.link)->shown, conn->inbox_name);
        conn->inbox.shun = true;
        return;
    }
    conn->inbox_up = true;
    conn->inbox.failures = 0;
    conn->inbox.why.status = HF_OK;
    conn->inbox.why.text[0] = 0;
    hfi_rd_waits_hurry(conn); /* grants may have been published to nobody */
    hfi_rd_channels_up(conn);
}

/* Nothing is subscribed any more: subscriptions end with the line. */
static void hush(struct hfi_conn *conn)
{
    conn->inbox_up = false;
    for (struct rd_wait *wait = conn->waits; wait; wait = wait->next)
        wait->listens = false;
    hfi_rd_channels_down(conn);
}

static void inbox_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct rd_node *node = hfi_link_data(link);

    hush(node->conn);
    hfi_error_set(&node->why, status, 0, "%s", why);
    open_later(node);
}

static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len)
{
    struct rd_node *node = hfi_link_data(link);
    struct hfi_conn *conn = node->conn;

    if (channel_len == conn->inbox_len && memcmp(channel, conn->inbox_name, channel_len) == 0)
        hfi_rd_message(conn, payload, len);
    else if (conn->way->heard)
        conn->way->heard(conn, channel, channel_len);
    else
        hfi_rd_channel_message(conn, channel, channel_len, payload, len);
}

/* ---- time ---------------------------------------------------------------------------------------- */

static void tick_node(struct rd_node *node, int64_t now_ms)
{
    if (node->shun) {
        node->shun = false;
        if (node == &node->conn->inbox)
            hush(node->conn);
        hfi_link_close(node->link);
        open_later(node);
    }
    if (hfi_link_state(node->link) != HFI_LINK_IDLE)
        hfi_link_tick(node->link, now_ms);
    else if (node->wanted && node->open_ms <= now_ms)
        hfi_link_open(node->link, now_ms);
}

void hfi_rd_net_tick(struct hfi_conn *conn, int64_t now_ms)
{
    if (conn->topology->tick)
        conn->topology->tick(conn, now_ms);
    for (uint32_t i = 0; i < conn->node_count; i++)
        if (conn->nodes[i]->link)
            tick_node(conn->nodes[i], now_ms);
    if (conn->sync.link)
        tick_node(&conn->sync, now_ms);
    if (conn->inbox.link)
        tick_node(&conn->inbox, now_ms);
    if (conn->parked_ms <= now_ms)
        hfi_rd_net_unpark(conn, now_ms);
}

static int64_t node_next_ms(const struct rd_node *node)
{
    if (node->shun)
        return 0;
    if (hfi_link_state(node->link) == HFI_LINK_IDLE)
        return node->wanted ? node->open_ms : HFI_NEVER;
    return hfi_link_next_ms(node->link);
}

int64_t hfi_rd_net_next_ms(struct hfi_conn *conn)
{
    int64_t next_ms = conn->inbox.link ? node_next_ms(&conn->inbox) : HFI_NEVER, at_ms;

    at_ms = conn->sync.link ? node_next_ms(&conn->sync) : HFI_NEVER;
    next_ms = at_ms < next_ms ? at_ms : next_ms;
    for (uint32_t i = 0; i < conn->node_count; i++) {
        at_ms = conn->nodes[i]->link ? node_next_ms(conn->nodes[i]) : HFI_NEVER;
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    at_ms = conn->topology->next_ms ? conn->topology->next_ms(conn) : HFI_NEVER;
    next_ms = at_ms < next_ms ? at_ms : next_ms;
    return conn->parked_ms < next_ms ? conn->parked_ms : next_ms;
}
