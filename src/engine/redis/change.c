/* SPDX-License-Identifier: MIT */
/*
 * Waiting for any change of a lease: HFI_OP_CHANGE_WAIT, on one server (also behind Sentinel).
 *
 * The server itself tells, by what it has for caches of clients (CLIENT TRACKING in broadcast mode): every write to a key of a name, by a script
 * or by a plain command, and the end of such a key becomes a message on our inbox's connection. No script knows of it, and while no client watches
 * it costs the server nothing.
 *
 *   OFF --SUBSCRIBE, on the inbox--> ASKED --CLIENT TRACKING ON, on the connection for commands--> ON
 *    ^---- one of these connections went down, or nobody has waited for IDLE_MS ------------------+
 *
 * The change number is a count of our own. While the state is not ON changes are missed: so it grows each time that ON is reached
 * again. A server sends the message of a change before the answer to the client that made it. So a wait whose time is up asks
 * for one more answer on the inbox (it subscribes again): what had changed before that question comes before the answer.
 */
#include "engine/redis/internal.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHANNEL  "__redis__:invalidate"
#define IDLE_MS  10000 /* how long the server goes on telling when nobody waits */
#define RETRY_MS 250   /* after a temporary refusal */

static void subscribed(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe);
static void tracked(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err);

/* ---- ending ---------------------------------------------------------------------------------- */

static void end(struct redis_store *store, struct redis_change_wait *wait, hf_status status,
                const hf_error *err)
{
    struct redis_changes *changes = &store->changes;
    struct hfi_op *op = wait->op;

    op->u.change.seq = changes->number;
    hfi_list_remove(&wait->listed);
    wait->op = NULL;
    store->reactor.listeners--;
    if (hfi_list_empty(&changes->waits))
        hfi_source_at(&changes->timer, hfi_after_ms(hfi_now_ms(), IDLE_MS));
    hfi_reactor_finish(&store->reactor, op, status, err);
}

/* The number has grown. */
static void tell(struct redis_store *store)
{
    struct redis_changes *changes = &store->changes;

    changes->number++;
    hfi_list_each (struct redis_change_wait, wait, &changes->waits, listed)
        if (wait->op->u.change.seq != 0)
            end(store, wait, HF_OK, NULL);
}

static void fail_all(struct redis_store *store, const hf_error *err)
{
    hfi_list_each (struct redis_change_wait, wait, &store->changes.waits, listed)
        end(store, wait, err->status, err);
}

/* ---- on and off -------------------------------------------------------------------------------- */

static void subscribe(struct redis_store *store)
{
    struct redis_changes *changes = &store->changes;

    changes->subscribing = true;
    changes->again = false;
    hfi_list_each (struct redis_change_wait, wait, &changes->waits, listed)
        wait->asked = wait->late;
    changes->sent.answered = subscribed;
    hfi_link_subscribe(store->inbox.link, CHANNEL, strlen(CHANNEL), &changes->sent);
}

static void turn_on(struct redis_store *store)
{
    struct redis_changes *changes = &store->changes;

    if (changes->state != REDIS_CHANGES_OFF || changes->subscribing || !store->inbox_up ||
        hfi_list_empty(&changes->waits))
        return;
    changes->state = REDIS_CHANGES_ASKED;
    subscribe(store);
}

static struct redis_call *tracking(struct redis_store *store, const char *word,
                                   redis_answer_fn *answer)
{
    struct redis_call *call = redis_call_new(store, NULL, 0, answer, NULL);

    if (!call)
        return NULL;
    call->fail_fast = true; /* a connection that comes up begins anew */
    hfi_command_add_text(&call->command, "CLIENT");
    hfi_command_add_text(&call->command, "TRACKING");
    hfi_command_add_text(&call->command, word);
    return call;
}

static void ignored(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    (void)call, (void)outcome, (void)reply, (void)err;
}

/* Not ON any more, or not yet: try again soon, if somebody waits. */
static void turn_off(struct redis_store *store)
{
    struct redis_changes *changes = &store->changes;

    changes->state = REDIS_CHANGES_OFF;
    changes->turn++;
    hfi_source_at(&changes->timer, hfi_after_ms(hfi_now_ms(), RETRY_MS));
}

static void track(struct redis_store *store)
{
    static const hf_error nameless = { .status = HF_DENIED,
                                       .text = "HELLO does not say the id of our connection" };
    uint64_t inbox_id = hfi_link_server(store->inbox.link)->client_id;
    struct redis_call *off = tracking(store, "OFF", ignored); /* an earlier inbox may be told */
    struct redis_call *on = tracking(store, "ON", tracked);
    char prefix[REDIS_KEY_MAX], id[24];

    if (!off || !on || inbox_id == 0) {
        if (off)
            redis_call_free(off);
        if (on)
            redis_call_free(on);
        turn_off(store);
        if (inbox_id == 0)
            fail_all(store, &nameless);
        return;
    }
    on->data = (void *)(uintptr_t)store->changes.turn; /* NOLINT */
    snprintf(id, sizeof id, "%" PRIu64, inbox_id);
    snprintf(prefix, sizeof prefix, "%s{", store->conf->prefix); /* what belongs to names */
    hfi_command_add_text(&on->command, "REDIRECT");
    hfi_command_add_text(&on->command, id);
    hfi_command_add_text(&on->command, "BCAST");
    hfi_command_add_text(&on->command, "PREFIX");
    hfi_command_add_text(&on->command, prefix);
    redis_call_send(off);
    redis_call_send(on);
}

static void tracked(struct redis_call *call, enum hfi_outcome outcome,
                    const struct hfi_reply *reply, const hf_error *err)
{
    struct redis_store *store = call->store;
    struct redis_changes *changes = &store->changes;
    hf_error said;

    (void)reply;
    if ((uintptr_t)call->data != changes->turn || changes->state != REDIS_CHANGES_ASKED)
        return; /* a connection broke meanwhile */
    if (outcome != HFI_ANSWERED) {
        turn_off(store);
        if (outcome == HFI_REFUSED && err && err->status != HF_UNAVAILABLE) {
            said = *err;
            hfi_error_wrap(&said, "CLIENT TRACKING");
            fail_all(store, &said); /* no rights */
        }
        return;
    }
    changes->state = REDIS_CHANGES_ON;
    tell(store); /* what changed before this was not told */
    hfi_list_each (struct redis_change_wait, wait, &changes->waits, listed)
        wait->op->u.change.seq = changes->number; /* they count from now */
    if (!changes->subscribing && changes->again)
        subscribe(store);
}

/* ---- the waits ----------------------------------------------------------------------------------- */

void redis_change_wait(void *self, struct hfi_op *op)
{
    struct redis_store *store = self;
    struct redis_changes *changes = &store->changes;
    struct redis_change_wait *wait = &redis_op(op)->change_wait;

    if (op->u.change.seq != 0 && op->u.change.seq != changes->number) {
        op->u.change.seq = changes->number;
        hfi_reactor_finish(&store->reactor, op, HF_OK, NULL);
        return;
    }
    wait->op = op;
    wait->late = wait->asked = false;
    hfi_list_append(&changes->waits, &wait->listed);
    store->reactor.listeners++;
    if (changes->state == REDIS_CHANGES_ON)
        op->u.change.seq = changes->number;
    else
        turn_on(store);
}

void redis_change_cancel(void *self, struct hfi_op *op, hf_status status)
{
    struct redis_store *store = self;
    struct redis_changes *changes = &store->changes;
    struct redis_change_wait *wait = &redis_op(op)->change_wait;

    if (!wait->op)
        return;
    if (status != HF_TIMEOUT || wait->late || changes->state == REDIS_CHANGES_OFF) {
        end(store, wait, status == HF_TIMEOUT && wait->late ? HF_UNAVAILABLE : status, NULL);
        return;
    }
    wait->late = true;
    changes->again = true;
    if (changes->state == REDIS_CHANGES_ON && !changes->subscribing)
        subscribe(store);
}

static void subscribed(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct redis_changes *changes = hfi_container(sent, struct redis_changes, sent);
    struct redis_store *store = hfi_container(changes, struct redis_store, changes);
    hf_error err;

    (void)maybe;
    changes->subscribing = false;
    if (!reply)
        return; /* the link is going down */
    if (reply->type == HFI_REPLY_ERROR) {
        (void)hfi_reply_status(reply, &err);
        hfi_error_wrap(&err, "SUBSCRIBE " CHANNEL);
        turn_off(store);
        fail_all(store, &err);
        return;
    }
    if (changes->state == REDIS_CHANGES_OFF) {
        turn_on(store);
        return;
    }
    if (changes->state == REDIS_CHANGES_ASKED) {
        track(store);
        return;
    }
    hfi_list_each (struct redis_change_wait, wait, &changes->waits, listed)
        if (wait->asked)
            end(store, wait, HF_TIMEOUT, NULL);
    if (changes->again)
        subscribe(store);
}

/* ---- from outside ---------------------------------------------------------------------------------- */

void redis_changes_up(struct redis_store *store)
{
    turn_on(store);
}

void redis_changes_down(struct redis_store *store)
{
    if (store->changes.state != REDIS_CHANGES_OFF)
        turn_off(store);
}

bool redis_change_message(struct redis_store *store, const char *channel, size_t len)
{
    if (len != strlen(CHANNEL) || memcmp(channel, CHANNEL, len) != 0)
        return false;
    if (store->changes.state == REDIS_CHANGES_ON)
        tell(store);
    return true;
}

void redis_changes_due(struct hfi_source *timer, int64_t now_ms)
{
    struct redis_changes *changes = hfi_container(timer, struct redis_changes, timer);
    struct redis_store *store = hfi_container(changes, struct redis_store, changes);
    struct redis_call *off;

    (void)now_ms;
    if (!hfi_list_empty(&changes->waits)) {
        turn_on(store);
        return;
    }
    if (changes->state != REDIS_CHANGES_ON || changes->subscribing ||
        !(off = tracking(store, "OFF", ignored)))
        return;
    changes->state = REDIS_CHANGES_OFF;
    changes->turn++;
    changes->number++; /* what changes from now on is not told */
    redis_call_send(off);
    hfi_link_unsubscribe(store->inbox.link, CHANNEL, strlen(CHANNEL));
}
