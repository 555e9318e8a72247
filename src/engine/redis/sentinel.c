/* SPDX-License-Identifier: MIT */
/*
 * redis+sentinel: the server of the store is the one that the sentinels name as master.
 *
 * We keep a connection to every sentinel of the URL, and ask each of them once in ping_ms, and at
 * once whenever the master goes down, turns out to be a replica, or answers READONLY. We ask all of
 * them instead of listening to one (+switch-master): one of them may have missed a failover, and
 * messages are lost while a connection is down.
 *
 *   SENTINEL MASTER name                   its config-epoch: which failover it has seen last
 *   SENTINEL GET-MASTER-ADDR-BY-NAME name  the address; asked second, so that it is never older
 *                                          than the epoch that we believe it has
 *   SENTINEL SENTINELS name                the others: asked if none of the URL's answers
 *
 * The server that they name must itself report the role master (servers.c, node_up()); until it
 * does, we ask again, with a growing pause. After a switch every lease is in doubt, because the run
 * id is another one; waiters send heartbeats at once, and those that the new master does not know
 * join the queue again.
 */
#include "engine/redis/sentinel.h"

#include "engine/redis/address.h"
#include "engine/redis/internal.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"
#include "util/text.h"

#include <string.h>
#include <unistd.h>

#define MEMBERS_MAX HFI_HOSTS_MAX
#define LOWER_MS    10000 /* how long an epoch below the last one is not trusted */
#define SETTLE_MS   250   /* how long the first choice waits for more than half of the answers */

/* One sentinel. */
struct member {
    struct redis_store *store;
    struct hfi_address *address;
    struct hfi_link *link;
    bool learnt; /* learnt from another sentinel: asked only if none of the URL answers */
    int64_t ask_ms;

    struct redis_sent epoch_sent, master_sent, others_sent;
    unsigned awaited; /* answers */
    bool told_others; /* has named the other sentinels since it is up */

    struct hfi_address *master; /* its last answer; NULL: none */
    int64_t epoch, asked_epoch;
    hf_error why; /* why there is no answer */
};

struct redis_sentinel {
    struct member *members[MEMBERS_MAX];
    size_t count;
    bool news;        /* the set of answers has changed */
    int64_t first_ms; /* of the first answer; 0: none yet */
    int64_t epoch;    /* highest that was followed */
    bool followed;    /* a master was followed before */
    /* since when all answers are below an epoch that was followed; 0: they are not */
    int64_t lower_ms;
};

static struct member *add_member(struct redis_store *store, const struct hfi_address *address,
                                 bool learnt);
static void member_up(struct hfi_link *link);
static void member_down(struct hfi_link *link, hf_status status, const char *why);
static void question(struct member *member, int64_t now_ms);
static void epoch_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void master_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void others_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void choose(struct redis_store *store, int64_t now_ms);
static void ask_soon(struct redis_store *store, unsigned failures);

static const struct hfi_link_owner member_owner = { .up = member_up, .down = member_down };

/* ---- open and close ------------------------------------------------------------------------ */

static hf_status sentinel_open(struct redis_store *store, hf_error *err)
{
    store->sentinel = hfi_calloc(1, sizeof *store->sentinel);
    if (!store->sentinel)
        return hfi_error_memory(err);
    for (size_t i = 0; i < store->conf->url.host_count; i++)
        if (!add_member(store, &store->conf->url.hosts[i], false))
            return hfi_error_memory(err);
    return HF_OK;
}

static struct member *add_member(struct redis_store *store, const struct hfi_address *address,
                                 bool learnt)
{
    struct redis_sentinel *sentinel = store->sentinel;
    struct member *member;

    if (sentinel->count == MEMBERS_MAX)
        return NULL;
    member = hfi_calloc(1, sizeof *member);
    if (!member)
        return NULL;
    member->store = store;
    member->learnt = learnt;
    member->address = hfi_address_copy(address);
    member->link = member->address ? hfi_link_new(store->conf, member->address, false,
                                                  &store->reactor, &member_owner, member)
                                   : NULL;
    if (!member->link) {
        hfi_address_free(member->address);
        hfi_free(member);
        return NULL;
    }
    hfi_link_to_sentinel(member->link);
    hfi_link_keep(member->link, !learnt);
    sentinel->members[sentinel->count++] = member;
    return member;
}

static void sentinel_close(struct redis_store *store)
{
    for (size_t i = 0; store->sentinel && i < store->sentinel->count; i++) {
        struct member *member = store->sentinel->members[i];

        hfi_link_free(member->link);
        hfi_address_free(member->address);
        hfi_address_free(member->master);
        hfi_free(member);
    }
    hfi_free(store->sentinel);
    store->sentinel = NULL;
}

static bool sentinel_ready(const struct redis_store *store)
{
    return store->node_count > 0 && redis_single.ready(store);
}

static bool is_hard(const hf_error *why)
{
    return why->status != HF_OK && why->status != HF_UNAVAILABLE;
}

/* Once a master is named, the reason is that master's. Before that, it is hopeless if no sentinel
 * is left that might name one. */
static const hf_error *sentinel_why(const struct redis_store *store, bool hopeless)
{
    const hf_error *why = NULL;

    if (store->node_count > 0)
        return redis_single.why(store, hopeless);
    for (size_t i = 0; i < store->sentinel->count; i++) {
        const struct member *member = store->sentinel->members[i];

        if (member->learnt)
            continue;
        if (hopeless && !redis_is_final(store, &member->why))
            return NULL;
        if (member->why.status != HF_OK && (!why || (is_hard(&member->why) && !is_hard(why))))
            why = &member->why;
    }
    return why;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void member_up(struct hfi_link *link)
{
    struct member *member = hfi_link_data(link);

    hfi_link_settled(link);
    member->told_others = false;
    question(member, hfi_now_ms());
}

static void member_down(struct hfi_link *link, hf_status status, const char *why)
{
    struct member *member = hfi_link_data(link);

    hfi_address_free(member->master);
    member->master = NULL;
    member->store->sentinel->news = true;
    hfi_error_set(&member->why, status, 0, "sentinel %s", why);
}

static void send_question(struct member *member, const char *verb, struct redis_sent *sent,
                          void (*answered)(struct redis_sent *, const struct hfi_reply *, bool))
{
    struct hfi_command command;

    hfi_command_init(&command);
    hfi_command_add_text(&command, "SENTINEL");
    hfi_command_add_text(&command, verb);
    hfi_command_add_text(&command, member->store->conf->master);
    sent->answered = answered;
    member->awaited++;
    hfi_link_send(member->link, &command, sent);
    hfi_command_done(&command);
}

static void question(struct member *member, int64_t now_ms)
{
    int64_t pause_ms = member->store->conf->ping_ms;

    if (member->awaited > 0)
        return;
    /* Random, so that not all clients ask a sentinel at once. */
    member->ask_ms =
        now_ms + pause_ms * 3 / 4 + (int64_t)(hfi_random_u64() % 1024) * pause_ms / 2048;
    send_question(member, "MASTER", &member->epoch_sent, epoch_answered);
    send_question(member, "GET-MASTER-ADDR-BY-NAME", &member->master_sent, master_answered);
    if (!member->told_others)
        send_question(member, "SENTINELS", &member->others_sent, others_answered);
}

/* The value of a field in a list of fields and values; NULL: none. */
static const struct hfi_reply *field(const struct hfi_reply *list, const char *key)
{
    for (size_t i = 0; list && list->type == HFI_REPLY_LIST && i + 1 < list->count; i += 2) {
        const struct hfi_reply *name = hfi_reply_at(list, i, HFI_REPLY_TEXT);

        if (name && strcmp(name->text, key) == 0)
            return hfi_reply_at(list, i + 1, HFI_REPLY_TEXT);
    }
    return NULL;
}

static uint16_t port_of(const struct hfi_reply *text)
{
    uint64_t port;

    return text && !hfi_parse_u64(text->text, 1, UINT16_MAX, &port) ? (uint16_t)port : 0;
}

/* A user who may not ask for it gets epoch 0; then only role and votes decide. */
static void epoch_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct member *member = hfi_container(sent, struct member, epoch_sent);
    const struct hfi_reply *text = field(reply, "config-epoch");
    uint64_t epoch = 0;

    (void)maybe;
    member->awaited--;
    if (text && hfi_parse_u64(text->text, 0, INT64_MAX, &epoch))
        epoch = 0;
    member->asked_epoch = (int64_t)epoch;
}

static void master_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct member *member = hfi_container(sent, struct member, master_sent);
    const struct hfi_reply *host = hfi_reply_at(reply, 0, HFI_REPLY_TEXT);
    uint16_t port = port_of(hfi_reply_at(reply, 1, HFI_REPLY_TEXT));
    struct hfi_address *master = host ? hfi_address_new(host->text, host->len, port) : NULL;

    (void)maybe;
    member->awaited--;
    if (!reply)
        return; /* it is going down */
    hfi_address_free(member->master);
    member->master = master;
    member->epoch = member->asked_epoch;
    member->store->sentinel->news = true;
    if (master) {
        member->why.status = HF_OK;
        if (member->store->sentinel->first_ms == 0)
            member->store->sentinel->first_ms = hfi_now_ms();
    } else if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &member->why);
        hfi_error_wrap(&member->why, "sentinel %s", member->address->shown);
    } else {
        hfi_error_set(&member->why, HF_CONFIG, 0, "sentinel %s: it knows no master called '%s'",
                      member->address->shown, member->store->conf->master);
    }
}

static void others_answered(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct member *member = hfi_container(sent, struct member, others_sent);
    struct redis_sentinel *sentinel = member->store->sentinel;

    (void)maybe;
    member->awaited--;
    if (!reply || reply->type != HFI_REPLY_LIST)
        return;
    member->told_others = true;
    for (size_t i = 0; i < reply->count; i++) {
        const struct hfi_reply *host = field(&reply->items[i], "ip");
        uint16_t port = port_of(field(&reply->items[i], "port"));
        struct hfi_address *address = host ? hfi_address_new(host->text, host->len, port) : NULL;
        bool known = !address;

        for (size_t m = 0; m < sentinel->count && !known; m++)
            known = hfi_address_same(sentinel->members[m]->address, address);
        if (!known)
            (void)add_member(member->store, address, true); /* no room: it is not needed */
        hfi_address_free(address);
    }
}

static void ask_soon(struct redis_store *store, unsigned failures)
{
    int64_t at_ms =
        hfi_now_ms() + hfi_backoff_ms(failures ? failures : 1, (uint32_t)hfi_random_u64());

    for (size_t i = 0; i < store->sentinel->count; i++)
        if (at_ms < store->sentinel->members[i]->ask_ms)
            store->sentinel->members[i]->ask_ms = at_ms;
}

/* ---- following ---------------------------------------------------------------------------------- */

/* Have enough sentinels answered for the first choice? Later answers only correct it. */
static bool settled(const struct redis_sentinel *sentinel, size_t answers, size_t voters,
                    int64_t now_ms)
{
    size_t pending = 0;

    for (size_t i = 0; i < sentinel->count; i++)
        pending += !sentinel->members[i]->learnt && !sentinel->members[i]->master &&
                   sentinel->members[i]->why.status == HF_OK;
    return sentinel->followed || 2 * answers > voters || pending == 0 ||
           now_ms >= sentinel->first_ms + SETTLE_MS;
}

/* An epoch below one that was followed is accepted only if all answers have one for a while: the
 * only sentinel that answers may have been stopped before it learnt of a failover. */
static bool stays_lower(struct redis_sentinel *sentinel, int64_t epoch, int64_t now_ms)
{
    if (epoch >= sentinel->epoch) {
        sentinel->lower_ms = 0;
        return true;
    }
    if (sentinel->lower_ms == 0)
        sentinel->lower_ms = now_ms;
    return now_ms - sentinel->lower_ms >= LOWER_MS;
}

static void choose(struct redis_store *store, int64_t now_ms)
{
    struct redis_sentinel *sentinel = store->sentinel;
    struct hfi_sentinel_answer answers[MEMBERS_MAX];
    const struct hfi_address *current = store->node_count > 0 ? store->nodes[0]->address : NULL;
    size_t count = 0, best;

    for (size_t i = 0; i < sentinel->count; i++)
        if (sentinel->members[i]->master)
            answers[count++] = (struct hfi_sentinel_answer){ sentinel->members[i]->master,
                                                             sentinel->members[i]->epoch };
    if (count == 0)
        sentinel->first_ms = 0;
    if (count == 0 || !settled(sentinel, count, store->conf->url.host_count, now_ms))
        return;
    best =
        hfi_sentinel_choose(answers, count, store->conf->url.host_count, current, sentinel->epoch);
    if (best == count || !stays_lower(sentinel, answers[best].epoch, now_ms)) {
        sentinel->news = false;
        return;
    }
    if ((!current || !hfi_address_same(current, answers[best].master)) &&
        !redis_master_aim(store, answers[best].master)) {
        sentinel->first_ms = now_ms; /* out of memory: later */
        return;
    }
    sentinel->epoch = answers[best].epoch;
    sentinel->followed = true;
    sentinel->news = false;
}

static void sentinel_up(struct redis_node *node)
{
    (void)node;
}

static void sentinel_down(struct redis_node *node)
{
    ask_soon(node->store, hfi_link_failures(node->link));
}

static bool sentinel_refused(struct redis_call *call, const struct hfi_reply *reply)
{
    bool demoted = hfi_reply_is_error(reply, "READONLY") || hfi_reply_is_error(reply, "UNBLOCKED");

    if (call->synced || (!demoted && !hfi_reply_is_error(reply, "LOADING") &&
                         !hfi_reply_is_error(reply, "MASTERDOWN")))
        return false;
    if (demoted && call->sent_to) {
        hfi_link_unusable(call->sent_to->link, HF_UNAVAILABLE, "it is a replica now");
    }
    return redis_call_later(call, reply);
}

/* ---- time ---------------------------------------------------------------------------------------- */

/* Does no sentinel of the URL answer for now? */
static bool needs_others(const struct redis_sentinel *sentinel)
{
    for (size_t i = 0; i < sentinel->count; i++)
        if (!sentinel->members[i]->learnt && hfi_link_failures(sentinel->members[i]->link) == 0)
            return false;
    return true;
}

static void tick_member(struct member *member, bool others, int64_t now_ms)
{
    if (hfi_link_state(member->link) == HFI_STREAM_IDLE)
        hfi_link_keep(member->link, !member->learnt || others);
    else if (hfi_link_state(member->link) == HFI_STREAM_UP && member->ask_ms <= now_ms)
        question(member, now_ms);
}

static void sentinel_tick(struct redis_store *store, int64_t now_ms)
{
    struct redis_sentinel *sentinel = store->sentinel;
    bool others = needs_others(sentinel);

    for (size_t i = 0; i < sentinel->count; i++)
        tick_member(sentinel->members[i], others, now_ms);
    if (sentinel->news)
        choose(store, now_ms);
}

static int64_t member_next_ms(const struct member *member)
{
    return hfi_link_state(member->link) == HFI_STREAM_UP && member->awaited == 0 ? member->ask_ms
                                                                                 : HFI_NEVER;
}

static int64_t sentinel_next_ms(const struct redis_store *store)
{
    const struct redis_sentinel *sentinel = store->sentinel;
    int64_t next_ms = HFI_NEVER;

    if (!sentinel->followed && sentinel->first_ms > 0)
        next_ms = sentinel->first_ms + SETTLE_MS;
    for (size_t i = 0; i < sentinel->count; i++) {
        int64_t at_ms = member_next_ms(sentinel->members[i]);

        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

const struct redis_topology redis_sentinel = {
    .open = sentinel_open,
    .close = sentinel_close,
    .ready = sentinel_ready,
    .why = sentinel_why,
    .up = sentinel_up,
    .down = sentinel_down,
    .refused = sentinel_refused,
    .tick = sentinel_tick,
    .next_ms = sentinel_next_ms,
};
