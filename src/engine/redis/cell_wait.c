/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a cell to change: HFI_OP_CELL_WAIT.
 *
 * cell_swap.lua publishes the new version on a channel with the name of the cell's key. A wait
 * first subscribes to that channel on the inbox's connection, and then reads the version: the read
 * sees an earlier change, and a later one comes as a message. After a broken connection all
 * channels are subscribed again, and every wait reads again.
 *
 *   channel  OFF --SUBSCRIBE--> ASKED --confirmed--> ON           (one for all who wait for a cell)
 *             ^------ the line went down ------------+
 *   wait     LISTENING --the channel is ON--> READING --still the same--> RESTING
 *                                                ^--- message, time -----+
 *
 * There is no message for the end of a ttl: the read says how much is left, and the cell is read
 * again then. It is also read at intervals of LOOK_MS: between the nodes of a cluster a message can
 * be lost unnoticed.
 *
 * Versions of a name only grow, so a message with a later one than ours is proof of a change. Any other
 * message (it was deleted, or one that comes late) is a reason to read.
 */
#include "engine/redis/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"
#include "util/random.h"

#include <string.h>

#define LOOK_MS  10000 /* interval of reads without a message */
#define RETRY_MS 250   /* after a temporary refusal */
#define DIGITS   16    /* of a version, at most */

enum channel_state { CHANNEL_OFF, CHANNEL_ASKED, CHANNEL_ON };

struct redis_channel {
    struct redis_channel *next; /* in store->channels */
    struct redis_store *store;
    struct redis_cell_wait *waits;
    struct redis_sent sent; /* ASKED: its SUBSCRIBE */
    enum channel_state state;
    size_t len;
    char name[REDIS_KEY_MAX];
};

struct redis_cell_wait {
    struct redis_cell_wait *next; /* of its channel */
    struct redis_channel *channel;
    struct hfi_op *op;
    struct redis_call *call; /* READING */
    bool again;              /* READING: a message came meanwhile */
    int64_t read_ms;         /* RESTING: when to read; HFI_NEVER: LISTENING or READING */
};

static void subscribed(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void look(struct redis_cell_wait *wait);

/* ---- channels ---------------------------------------------------------------------------- */

static void subscribe(struct redis_channel *channel)
{
    if (channel->state != CHANNEL_OFF || !channel->store->inbox_up)
        return;
    channel->state = CHANNEL_ASKED;
    channel->sent.answered = subscribed;
    hfi_link_subscribe(channel->store->inbox.link, channel->name, channel->len, &channel->sent);
}

/* If no wait uses the channel any more, free it, unless the link still has its address. */
static void drop_unused(struct redis_channel *channel)
{
    struct redis_store *store = channel->store;
    struct redis_channel **at = &store->channels;

    if (channel->waits || channel->state == CHANNEL_ASKED)
        return;
    if (channel->state == CHANNEL_ON)
        hfi_link_unsubscribe(store->inbox.link, channel->name, channel->len);
    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    store->reactor.listeners--;
    hfi_free(channel);
}

static struct redis_channel *channel_of(struct redis_store *store, const char *name, size_t len)
{
    struct redis_channel *channel = store->channels;

    while (channel && (channel->len != len || memcmp(channel->name, name, len) != 0))
        channel = channel->next;
    return channel;
}

/* ---- beginning and ending ------------------------------------------------------------------ */

static void end(struct redis_cell_wait *wait, hf_status status, const hf_error *err)
{
    struct redis_channel *channel = wait->channel;
    struct redis_store *store = channel->store;
    struct redis_cell_wait **at = &channel->waits;

    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    if (wait->call) {
        wait->call->data = NULL; /* ignore its answer */
        wait->call->idempotent = false;
        if (hfi_request_unpark(&store->requests, &wait->call->request))
            redis_call_free(wait->call);
    }
    redis_op(wait->op)->cell_wait = NULL;
    hfi_reactor_finish(&store->reactor, wait->op, status, err);
    hfi_free(wait);
}

static void change(struct redis_cell_wait *wait, uint64_t version)
{
    wait->op->u.cell.ret_version = version;
    end(wait, HF_OK, NULL);
}

void redis_cell_wait(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_cell_wait *wait = hfi_calloc(1, sizeof *wait);
    char name[REDIS_KEY_MAX];
    size_t len = redis_cell_key(store, &op->u.cell.name, name);
    struct redis_channel *channel = channel_of(store, name, len);

    if (wait && !channel && (channel = hfi_calloc(1, sizeof *channel))) {
        channel->store = store;
        channel->len = len;
        memcpy(channel->name, name, len);
        channel->next = store->channels;
        store->channels = channel;
        store->reactor.listeners++;
    }
    if (!wait || !channel) {
        hfi_free(wait);
        hfi_reactor_finish(&store->reactor, op, HF_NO_MEMORY, NULL);
        return;
    }
    wait->channel = channel;
    wait->op = op;
    wait->read_ms = HFI_NEVER;
    wait->next = channel->waits;
    channel->waits = wait;
    redis_op(op)->cell_wait = wait;
    if (channel->state == CHANNEL_ON)
        look(wait);
    else
        subscribe(channel); /* if there is no connection, when there is one */
}

void redis_cell_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct redis_store *store = self;
    struct redis_cell_wait *wait = redis_op(op)->cell_wait;
    struct redis_channel *channel;

    (void)store;
    if (!wait)
        return;
    channel = wait->channel;
    end(wait, status, NULL);
    drop_unused(channel);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void rest(struct redis_cell_wait *wait, int64_t pause_ms)
{
    struct redis_store *store = wait->channel->store;

    wait->read_ms = hfi_after_ms(hfi_now_ms(), pause_ms);
    hfi_source_by(&store->cell_read, wait->read_ms);
}

/* The cell has not changed. The server may expire it up to a millisecond late. */
static void unchanged(struct redis_cell_wait *wait, int64_t left_ms)
{
    int64_t pause_ms = LOOK_MS / 2 + (int64_t)(hfi_random_u64() % LOOK_MS);

    if (wait->again)
        look(wait);
    else
        rest(wait, left_ms >= 0 && left_ms < pause_ms ? left_ms + 1 : pause_ms);
}

static void answered(struct redis_call *call, enum hfi_outcome outcome,
                     const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_cell_wait *wait = call->data;
    const struct hfi_reply *version = hfi_reply_at(reply, 1, HFI_REPLY_INTEGER);
    const struct hfi_reply *left = hfi_reply_at(reply, 3, HFI_REPLY_INTEGER);
    struct redis_channel *channel;
    char letter = hfi_reply_letter(reply);
    hf_status status;
    uint64_t now;

    if (!wait)
        return;
    wait->call = NULL;
    channel = wait->channel;
    now = letter == 'C' && version ? (uint64_t)version->integer : 0;
    /* A read that could not be sent is tried again later: so look() never ends its own wait. */
    status = outcome == HFI_REFUSED ? hfi_outcome_status(outcome, err) : HF_UNAVAILABLE;
    if (outcome != HFI_ANSWERED && status == HF_UNAVAILABLE)
        rest(wait, RETRY_MS / 2 + (int64_t)(hfi_random_u64() % RETRY_MS));
    else if (outcome != HFI_ANSWERED)
        end(wait, status, err);
    else if (letter != 'N' && (letter != 'C' || !version || !left || version->integer <= 0))
        end(wait, HF_CORRUPT,
            &(hf_error){ .text = "the server gave an unexpected answer to a script" });
    else if (now != wait->op->u.cell.version)
        change(wait, now);
    else
        unchanged(wait, letter == 'C' ? left->integer : -1);
    drop_unused(channel);
}

static void look(struct redis_cell_wait *wait)
{
    struct redis_store *store = wait->channel->store;
    struct redis_call *call;

    if (wait->call) {
        wait->again = true; /* the read under way may have seen the old version */
        return;
    }
    wait->again = false;
    wait->read_ms = HFI_NEVER;
    call = redis_call_new(store, &hfi_script_cell_read, 1, answered, NULL);
    if (!call) {
        rest(wait, RETRY_MS);
        return;
    }
    wait->call = call;
    call->data = wait;
    call->idempotent = true;
    call->request.give_up_ms = HFI_NEVER; /* core cancels it when its time is up */
    redis_add_cell_key(call, &wait->op->u.cell.name);
    hfi_command_add_number(&call->command, 1); /* without the bytes */
    redis_call_send(call);
}

void redis_cell_read_due(struct hfi_source *cell_read, int64_t now_ms)
{
    struct redis_store *store = hfi_container(cell_read, struct redis_store, cell_read);

    for (struct redis_channel *channel = store->channels; channel; channel = channel->next)
        for (struct redis_cell_wait *wait = channel->waits; wait; wait = wait->next) {
            if (wait->read_ms <= now_ms)
                look(wait);
            hfi_source_by(cell_read, wait->read_ms);
        }
}

/* ---- what the inbox' line brings ---------------------------------------------------------------- */

static void subscribed(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_channel *channel = hfi_container(sent, struct redis_channel, sent);
    struct redis_cell_wait *wait, *next;
    hf_error err = { .status = HF_OK };

    (void)maybe;
    channel->state = reply && reply->type != HFI_REPLY_ERROR ? CHANNEL_ON : CHANNEL_OFF;
    if (reply && reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &err);
        hfi_error_wrap(&err, "SUBSCRIBE %.*s", (int)channel->len, channel->name);
    }
    for (wait = channel->waits; wait && reply; wait = next) {
        next = wait->next;
        if (channel->state == CHANNEL_ON)
            look(wait);
        else
            end(wait, err.status, &err); /* no rights */
    }
    drop_unused(channel);
}

/* The connection is up, perhaps again: messages published meanwhile are lost. */
void redis_channels_up(struct redis_store *store)
{
    for (struct redis_channel *channel = store->channels; channel; channel = channel->next)
        subscribe(channel);
}

void redis_channels_down(struct redis_store *store)
{
    for (struct redis_channel *channel = store->channels; channel; channel = channel->next)
        if (channel->state == CHANNEL_ON)
            channel->state = CHANNEL_OFF; /* for an ASKED channel the lost answer does this */
}

/* The version in a message; 0: the cell was deleted, or the message is not one of ours. */
static uint64_t told(const char *payload, size_t len)
{
    uint64_t version = 0;

    for (size_t i = 0; i < len && len <= DIGITS; i++) {
        if (payload[i] < '0' || payload[i] > '9')
            return 0;
        version = version * 10 + (uint64_t)(payload[i] - '0');
    }
    return version;
}

void redis_channel_message(struct redis_store *store, const char *name, size_t name_len,
                           const char *payload, size_t len)
{
    struct redis_channel *channel = channel_of(store, name, name_len);
    uint64_t version = told(payload, len);
    struct redis_cell_wait *wait, *next;

    if (!channel)
        return;
    for (wait = channel->waits; wait; wait = next) {
        next = wait->next;
        if (version > wait->op->u.cell.version)
            change(wait, version);
        else if (version != wait->op->u.cell.version || version == 0)
            look(wait);
    }
    drop_unused(channel);
}
