/* SPDX-License-Identifier: MIT */
/*
 * One server of the N: a link for commands and one for messages, opened again after a pause
 * when they go down. A node that cannot be reached, or does not answer, only loses its vote:
 * nothing waits for it once a majority has answered, a silent one gets no new acquires, and the
 * releases that it missed are sent when it is back.
 */
#include "engine/redlock/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void node_up(struct hfi_link *link);
static void node_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_up(struct hfi_link *link);
static void inbox_down(struct hfi_link *link, hf_status status, const char *why);
static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len);

static const struct hfi_link_owner node_owner = { .up = node_up, .down = node_down };
static const struct hfi_link_owner inbox_owner = { .up = inbox_up,
                                                   .down = inbox_down,
                                                   .message = inbox_message };

/* ---- open and close ------------------------------------------------------------------- */

hf_status redlock_nodes_open(struct redlock_store *store, hf_error *err)
{
    for (unsigned i = 0; i < store->n; i++) {
        struct redlock_node *node = &store->nodes[i];
        const struct hfi_address *address = &store->conf->url.hosts[i];

        node->store = store;
        node->index = i;
        node->deferred_end = &node->deferred;
        node->link = hfi_link_new(store->conf, address, false, &store->reactor, &node_owner, node);
        if (!node->link)
            return hfi_error_memory(err);
        hfi_link_keep(node->link, true);
        if (store->wire->bare)
            continue; /* nobody sends us messages */
        node->inbox = hfi_link_new(store->conf, address, true, &store->reactor, &inbox_owner, node);
        if (!node->inbox)
            return hfi_error_memory(err);
        hfi_link_keep(node->inbox, true);
    }
    return HF_OK;
}

void redlock_nodes_close(struct redlock_store *store)
{
    struct redlock_deferred_release *release;

    for (unsigned i = 0; i < store->n; i++) /* close all before any is freed: answers use other
                                             * nodes */
        if (store->nodes[i].link)
            hfi_link_close(store->nodes[i].link);
    for (unsigned i = 0; i < store->n; i++) {
        struct redlock_node *node = &store->nodes[i];

        if (node->inbox)
            hfi_link_close(node->inbox);
        hfi_link_free(node->link);
        hfi_link_free(node->inbox);
        while ((release = node->deferred)) {
            node->deferred = release->next;
            hfi_free(release);
        }
    }
}

/* ---- who can be asked --------------------------------------------------------------------- */

bool redlock_node_up(const struct redlock_node *node)
{
    return node->link && hfi_link_usable(node->link);
}

bool redlock_node_silent(const struct redlock_node *node, int64_t now_ms)
{
    return hfi_link_in_flight(node->link) > 0 && now_ms - node->heard_ms > REDLOCK_SILENT_MS;
}

uint32_t redlock_nodes_up(const struct redlock_store *store)
{
    uint32_t up = 0;

    for (unsigned i = 0; i < store->n; i++)
        if (redlock_node_up(&store->nodes[i]))
            up |= 1u << i;
    return up;
}

/* A silent node is not used if the others are enough. It may only be slow, so otherwise it is asked
 * all the same, up to a limit of unanswered commands. */
uint32_t redlock_nodes_voting(const struct redlock_store *store, int64_t now_ms)
{
    uint32_t quick = 0, slow = 0;

    if (!store->has_epoch)
        return 0;
    for (unsigned i = 0; i < store->n; i++) {
        const struct redlock_node *node = &store->nodes[i];

        if (!redlock_node_up(node) || node->view.state != HFI_NODE_READY ||
            hfi_epoch_compare(&node->view.epoch, &store->epoch) != 0)
            continue;
        if (!redlock_node_silent(node, now_ms))
            quick |= 1u << i;
        else if (hfi_link_in_flight(node->link) < REDLOCK_FLIGHT_MAX)
            slow |= 1u << i;
    }
    return redlock_count(quick) >= store->need ? quick : quick | slow;
}

/* ---- deferred releases ---------------------------------------------------------------------- */

void redlock_defer_release(struct redlock_node *node, const struct hfi_name *name,
                           const unsigned char *owner, uint64_t attempt, int64_t ttl_ms)
{
    struct redlock_deferred_release *release;

    if (node->store->closing)
        return;
    if (node->deferred_count >=
        REDLOCK_DEFERRED_MAX) { /* the oldest has the least of its ttl left */
        release = node->deferred;
        node->deferred = release->next;
        node->deferred_count--;
        hfi_free(release);
        if (!node->deferred)
            node->deferred_end = &node->deferred;
    }
    release = hfi_malloc(sizeof *release + name->len);
    if (!release)
        return; /* it expires by itself */
    release->next = NULL;
    memcpy(release->owner, owner, HFI_OWNER_LEN);
    release->attempt = attempt;
    release->until_ms = hfi_after_ms(hfi_now_ms(), 2 * ttl_ms);
    release->name_len = name->len;
    memcpy(release->name, name->bytes, name->len);
    *node->deferred_end = release;
    node->deferred_end = &release->next;
    node->deferred_count++;
}

/* ---- links come and go ------------------------------------------------------------------------ */

/* Two addresses that lead to one server are one vote, not two. */
static const struct redlock_node *twin(const struct redlock_node *node, const char *run_id)
{
    for (unsigned i = 0; i < node->store->n; i++) {
        const struct redlock_node *other = &node->store->nodes[i];

        if (other != node && other->link && hfi_link_usable(other->link) &&
            strcmp(other->run_id, run_id) == 0)
            return other;
    }
    return NULL;
}

static void refuse(struct redlock_node *node, const char *what, const char *more)
{
    hfi_link_unusable(node->link, HF_CONFIG, "%s%s", what, more);
}

static void node_up(struct hfi_link *link)
{
    struct redlock_node *node = hfi_link_data(link);
    const struct hfi_server *server = hfi_link_server(link);
    const struct redlock_node *other = twin(node, server->run_id);

    node->scripts = (struct hfi_script_set){ 0 };
    node->heard_ms = hfi_now_ms();
    if (other) {
        refuse(node, "it is the same server as ", hfi_link_address(other->link)->shown);
        return;
    }
    if (server->is_replica) {
        refuse(node, "it is a replica: a node of Redlock must be independent of all others", "");
        return;
    }
    if (server->is_cluster) {
        refuse(node, "it is a node of a Redis Cluster: Redlock needs servers of their own", "");
        return;
    }
    /* A restart of one node puts no lease in doubt: it is one vote, and the next renewal by
     * majority shows whether it was needed. */
    snprintf(node->run_id, sizeof node->run_id, "%s", server->run_id);
    hfi_link_settled(link);
    node->why.status = HF_OK;
    node->why.text[0] = 0;
    redlock_send_deferred(node);
    node->store->wire->up(node);
}

static void node_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct redlock_node *node = hfi_link_data(link);

    hfi_error_set(&node->why, status, 0, "%s", why);
    node->store->wire->down(node);
}

static void inbox_up(struct hfi_link *link)
{
    struct redlock_node *node = hfi_link_data(link);

    node->inbox_sent.answered = inbox_answered;
    hfi_link_subscribe(link, node->store->inbox_name.text, node->store->inbox_name.len,
                       &node->inbox_sent);
}

static void inbox_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redlock_node *node = hfi_container(sent, struct redlock_node, inbox_sent);

    (void)maybe;
    if (!reply || reply->type == HFI_REPLY_ERROR)
        return; /* without messages heartbeats find what was granted */
    node->inbox_up = true;
    redlock_hears(node->store);
    hfi_link_settled(node->inbox);
    redlock_waits_hurry(node->store); /* grants may have been published while nobody listened */
}

static void inbox_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct redlock_node *node = hfi_link_data(link);

    (void)status;
    (void)why;
    node->inbox_up = false;
    redlock_hears(node->store);
}

static void inbox_message(struct hfi_link *link, const char *channel, size_t channel_len,
                          const char *payload, size_t len)
{
    struct redlock_node *node = hfi_link_data(link);
    struct redlock_store *store = node->store;

    if (redis_inbox_name_is(&store->inbox_name, channel, channel_len))
        redlock_message(node, payload, len);
}
