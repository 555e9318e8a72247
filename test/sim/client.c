/* SPDX-License-Identifier: MIT */
/*
 * A client of the simulation: acquire, hold, renew, release, again. Every
 * decision about its lease is one of core/term.h or kit/handover.h; this file does what an engine
 * does (from which send a grant counts, which answer belongs to which request) and what a user
 * does.
 *
 *   IDLE --> ASKING --------------> HELD --> RELEASING --> IDLE
 *               \ too short          ^ \ \ lost  ^
 *                +--> CONFIRMING ----+  \ +------+
 *                                    ^   v       | recall, time is up
 *                                    +-- LINGERS-+
 */
#include "sim.h"

#include <string.h>

static void begin(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void ask_again(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void release_lease(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void decide(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void start_renewal(struct sim *sim, struct sim_client *client, int64_t ttl_ms,
                          int64_t now_ms);
static void lose(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void rest(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void let_go(struct sim *sim, struct sim_client *client, int64_t now_ms);
static void take_again(struct sim *sim, struct sim_client *client, int64_t now_ms);

static bool has_lease(const struct sim_client *client)
{
    return client->phase == SIM_HELD || client->phase == SIM_LINGERS;
}

static int64_t beat_ms(const struct sim *sim)
{
    return sim->ttl_ms / 4;
}

bool sim_client_says_held(const struct sim *sim, const struct sim_client *client)
{
    if (!has_lease(client) || client->term.state == HF_STATE_LOST)
        return false;
    if (MUTANT == SIM_WAIT_FOR_RENEWAL && client->renewal)
        return true;
    return hfi_term_remaining(&client->term, sim_local_ms(sim, client)) > 0;
}

/* ---- what is due ------------------------------------------------------------------------ */

void sim_client_step(struct sim *sim, struct sim_client *client)
{
    int64_t now_ms = sim_local_ms(sim, client);
    int64_t wake_ms;

    if (has_lease(client))
        decide(sim, client, now_ms);
    if (now_ms >= client->next_ms) {
        if (client->phase == SIM_IDLE && !sim->calm)
            begin(sim, client, now_ms);
        else if (client->phase == SIM_ASKING || client->phase == SIM_RELEASING)
            ask_again(sim, client, now_ms);
        else if (client->phase == SIM_HELD)
            let_go(sim, client, now_ms);
        else if (client->phase == SIM_LINGERS)
            take_again(sim, client, now_ms);
        else if (client->phase == SIM_CONFIRMING)
            release_lease(sim, client, now_ms);
    }

    if (client->phase == SIM_IDLE && sim->calm)
        return;
    wake_ms = client->next_ms;
    if (has_lease(client)) {
        struct hfi_term_step step = hfi_term_next(&client->term, now_ms);
        int64_t at_ms = step.what == HFI_TERM_SLEEP ? step.at_ms
                        : step.what == HFI_TERM_RISK && client->phase == SIM_LINGERS
                            ? client->term.valid_until_ms
                            : now_ms;

        if (MUTANT == SIM_SLEEP_TOO_LONG && client->renewal)
            at_ms = HFI_NEVER;
        wake_ms = at_ms < wake_ms ? at_ms : wake_ms;
        if (client->renewal && client->renewal_ms < wake_ms)
            wake_ms = client->renewal_ms;
    }
    sim_set_timer(sim, client, wake_ms > now_ms ? wake_ms : now_ms + 1);
}

/* Draw what to ask for, under a new owner. */
static void begin(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    client->ask = (struct mem_request){
        .verb = MEM_ACQUIRE,
        .session = (uint64_t)client->number,
        .name = { (unsigned char)sim_roll(sim, (uint64_t)sim->name_count) },
        .name_len = 1,
        .mode = sim->mode,
        .capacity = sim->capacity,
        .permits = sim->mode == HFI_MODE_MUTEX       ? 1
                   : sim->mode == HFI_MODE_SEMAPHORE ? 1 + (uint32_t)sim_roll(sim, 2)
                   : sim_chance(sim, 50)             ? 1
                                                     : HFI_RW_MAX,
        .tokens_wanted = 1 + (uint32_t)sim_roll(sim, 4),
        .ttl_ms = sim->ttl_ms,
        .may_wait = sim_chance(sim, 80),
    };
    for (int i = 0; i < HFI_OWNER_LEN; i++)
        client->ask.owner[i] = (unsigned char)sim_roll(sim, 256);
    client->term = (struct hfi_term){
        .renew = sim_chance(sim, 80),
        .ttl_ms = sim->ttl_ms,
        .min_ttl_ms = 1000,
        .guard_ms = HFI_GUARD_MS,
        .max_hold_ms =
            sim_chance(sim, 20) ? (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms * 3) + 1 : 0,
    };
    client->linger_ms = 0;
    if (sim->mode != HFI_MODE_SEMAPHORE && client->ask.permits == sim->capacity &&
        client->term.renew && client->term.max_hold_ms == 0 && sim_chance(sim, 50)) {
        client->linger_ms = 1 + (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms / 2);
        client->ask.flags = HFI_CLAIM_LINGERS | HFI_CLAIM_WATCHED;
    }
    client->wanted = false;
    client->more = 0;
    client->phase = SIM_ASKING;
    client->queued = false;
    client->min_valid_ms = sim_chance(sim, 30) ? (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms) : 0;
    client->base_ms = now_ms;
    client->floor = 0;
    client->next_ms = now_ms + beat_ms(sim);
    sim_send(sim, client, &client->ask, 0);
}

/* Send a heartbeat of a waiter, or the same release again. */
static void ask_again(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    client->next_ms = now_ms + beat_ms(sim);
    sim_send(sim, client, &client->ask, 0);
}

/* Release it, held or lost: from here on the client does not say "held". */
static void release_lease(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    client->phase = SIM_RELEASING;
    client->renewal = 0;
    client->ask.verb = MEM_RELEASE;
    client->next_ms = now_ms;
    ask_again(sim, client, now_ms);
}

/* ---- a lease that lingers ----------------------------------------------------------------- */

static bool may_linger(const struct sim *sim, const struct sim_client *client)
{
    return client->linger_ms > 0 && !client->wanted && client->term.state == HF_STATE_HELD &&
           client->term.ttl_ms == sim->ttl_ms;
}

/* The user releases it. */
static void let_go(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    if (!may_linger(sim, client) || hfi_term_remaining(&client->term, now_ms) == 0) {
        release_lease(sim, client, now_ms);
        return;
    }
    client->phase = SIM_LINGERS;
    client->idle_ms = now_ms + client->linger_ms;
    client->next_ms = now_ms + (int64_t)sim_roll(sim, (uint64_t)client->linger_ms * 5 / 4);
}

/* The next user comes, or nobody does. */
static void take_again(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    bool valid = hfi_term_remaining(&client->term, now_ms) > 0 || MUTANT == SIM_IDLE_WITHOUT_CLOCK;
    bool token = client->token < client->last || client->more > 0 || MUTANT == SIM_BEYOND_BLOCK;

    if (now_ms >= client->idle_ms || !valid || !token || sim->calm) {
        release_lease(sim, client, now_ms);
        return;
    }
    if (client->token < client->last || client->more == 0) {
        client->token++;
    } else {
        client->token = client->more_from;
        client->last = client->more_from + client->more - 1;
        client->more = 0;
    }
    client->phase = SIM_HELD;
    client->since_ms = now_ms;
    client->taken_again++;
    client->next_ms = now_ms + (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms);
    sim_judge_used(sim, client);
}

/* As hfi_idle_ttl(), but with a smaller least ttl, so that most schedules are above it. */
static int64_t renewal_ttl(const struct sim_client *client, int64_t now_ms)
{
    const struct hfi_term *term = &client->term;
    int64_t ttl_ms = term->min_ttl_ms;
    bool held = client->phase == SIM_HELD;

    if (client->linger_ms == 0 || (held && client->since_ms < term->sent_ms))
        return term->ttl_ms;
    if (held && ttl_ms < term->sent_ms + term->granted_ms - now_ms)
        ttl_ms = term->sent_ms + term->granted_ms - now_ms;
    return ttl_ms < term->ttl_ms ? ttl_ms : term->ttl_ms;
}

static void on_wanted(struct sim *sim, struct sim_client *client, const struct mem_reply *reply,
                      int64_t now_ms)
{
    client->wanted = reply->wanted == HFI_WANTED_YES;
    if (client->phase != SIM_LINGERS || !client->wanted)
        return;
    if (MUTANT == SIM_RECALL_LEAVES_IDLE) {
        struct mem_request request = client->ask;

        request.verb = MEM_RELEASE;
        sim_send(sim, client, &request, 0);
        return;
    }
    release_lease(sim, client, now_ms);
}

/* ---- a held lease -------------------------------------------------------------------------- */

static void decide(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    struct hfi_term *term = &client->term;
    struct hfi_term_step step;

    if (client->renewal && now_ms >= client->renewal_ms) {
        hf_status assumed = MUTANT == SIM_ASSUME_RENEWED ? HF_OK : HF_UNKNOWN;

        client->renewal = 0;
        if (MUTANT == SIM_ASSUME_TOKENS && client->linger_ms > 0 && client->more == 0) {
            client->more_from = client->last + 1;
            client->more = 4;
        }
        if (hfi_term_renewed(term, assumed, client->renewal_sent_ms, term->ttl_ms, now_ms)) {
            lose(sim, client, now_ms);
            return;
        }
    }
    if (client->phase == SIM_LINGERS && MUTANT == SIM_IDLE_WITHOUT_CLOCK)
        return;
    if (client->phase == SIM_LINGERS && term->state != HF_STATE_HELD) {
        release_lease(sim, client, now_ms); /* nobody is told */
        return;
    }
    step = hfi_term_next(term, now_ms);
    if (step.what == HFI_TERM_RISK && client->phase == SIM_HELD && MUTANT != SIM_RISK_WITH_ANSWER) {
        hfi_term_risk(term);
        step = hfi_term_next(term, now_ms);
    }
    if (step.what == HFI_TERM_SLEEP && step.at_ms > term->valid_until_ms)
        sim_wrong(sim, "client %d would sleep past the end of its lease", client->number);
    if (step.what == HFI_TERM_LOST && !(MUTANT == SIM_WAIT_FOR_RENEWAL && client->renewal))
        lose(sim, client, now_ms);
    else if (step.what == HFI_TERM_RENEW ||
             (client->linger_ms > 0 && !term->renewing && client->more == 0 &&
              client->last - client->token <= 1 && sim_chance(sim, 50)))
        start_renewal(sim, client, hfi_term_ask(term, renewal_ttl(client, now_ms), now_ms), now_ms);
    else if (!term->renewing && client->phase == SIM_HELD && sim_chance(sim, 5)) {
        /* The user renews, for longer or for less. */
        int64_t ask_ms =
            hfi_term_ask(term, 1000 + (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms), now_ms);

        if (ask_ms)
            start_renewal(sim, client, ask_ms, now_ms);
    }
}

static void start_renewal(struct sim *sim, struct sim_client *client, int64_t ttl_ms,
                          int64_t now_ms)
{
    static unsigned last_number;
    struct mem_request request = client->ask;
    int64_t believed_ms = client->term.valid_until_ms;

    request.verb = MEM_RENEW;
    request.ttl_ms = ttl_ms;
    request.tokens_wanted = client->linger_ms > 0 && has_lease(client) && client->more == 0 ? 4 : 0;
    client->renewal = ++last_number ? last_number : ++last_number;
    /* The time limit of a request: shorter than the lease, or longer. */
    client->renewal_ms = now_ms + (sim_chance(sim, 50) ? sim->ttl_ms / 6 : 2 * sim->ttl_ms);
    client->renewal_sent_ms = now_ms;
    hfi_term_renewing(&client->term, ttl_ms, now_ms);
    if (MUTANT == SIM_FORGET_SHORTER)
        client->term.valid_until_ms = believed_ms;
    sim_send(sim, client, &request, client->renewal);
}

static void lose(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    sim_judge_lost(sim, client, now_ms, client->term.valid_until_ms);
    client->term.state = HF_STATE_LOST;
    client->lost++;
    if (MUTANT == SIM_LATE_YES_REVIVES && client->renewal) {
        client->renewal_ms = HFI_NEVER; /* still waits for the answer */
        client->next_ms = now_ms + sim->ttl_ms / 2;
        return;
    }
    release_lease(sim, client, now_ms);
}

/* ---- what comes back -------------------------------------------------------------------------- */

/* An answer may name the rest of a grant: how long it lasts is the server's rule, here the ttl. */
static bool is_short(const struct sim_client *client, int64_t left_ms)
{
    const struct hfi_term *term = &client->term;
    int64_t lasts_ms = MUTANT == SIM_REST_IS_WHOLE ? term->granted_ms : term->ttl_ms;

    if (MUTANT == SIM_NEVER_CONFIRM)
        return hfi_grant_is_stale(left_ms, lasts_ms);
    if (MUTANT == SIM_BELIEVE_OLD_NEWS)
        return false;
    return hfi_grant_needs_renewal(left_ms, lasts_ms, term->ttl_ms, client->min_valid_ms);
}

/* Renew for the whole ttl before the user learns of the lease. */
static void confirm(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    client->phase = SIM_CONFIRMING;
    start_renewal(sim, client, sim->ttl_ms, now_ms);
    client->next_ms = client->renewal_ms;
}

/* We hold it, counted from `sent_ms`. */
static void take(struct sim *sim, struct sim_client *client, const struct mem_reply *reply,
                 int64_t sent_ms, int64_t now_ms)
{
    hfi_term_begin(&client->term, sent_ms, reply->ttl_ms);
    if (MUTANT == SIM_IGNORE_DRIFT && client->term.valid_until_ms < client->term.hold_valid_ms)
        client->term.valid_until_ms = sent_ms + reply->ttl_ms;
    client->renewal = 0;
    if (client->phase == SIM_ASKING) {
        client->token = reply->token;
        client->last = reply->token + reply->tokens - 1;
        client->wanted = client->wanted || reply->others_wait;
    }
    if (client->phase == SIM_ASKING && is_short(client, sent_ms + reply->ttl_ms - now_ms)) {
        confirm(sim, client, now_ms);
        return;
    }
    sim_judge_taken(sim, client, client->phase == SIM_CONFIRMING, now_ms);
    if (hfi_term_remaining(&client->term, now_ms) == 0) {
        release_lease(sim, client,
                      now_ms); /* the answer was late: the user was never told "held" */
        return;
    }
    client->phase = SIM_HELD;
    client->since_ms = now_ms;
    client->acquired++;
    client->next_ms = now_ms + (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms * 2);
    sim_judge_used(sim, client);
    decide(sim, client, now_ms);
}

static void on_answer(struct sim *sim, struct sim_client *client, const struct sim_message *message,
                      int64_t now_ms)
{
    const struct mem_reply *reply = &message->reply;

    if (reply->status == HF_OK && reply->queued) {
        /* Still waiting: any grant with a larger token is later than the send of this request. */
        client->queued = true;
        if (message->sent_ms > client->base_ms)
            client->base_ms = message->sent_ms;
        if (reply->token > client->floor && MUTANT != SIM_IGNORE_FLOOR)
            client->floor = reply->token;
        sim_judge_waits(sim, client, message->served_ns);
    } else if (reply->status == HF_OK && reply->token <= client->floor) {
        ; /* overtaken by a later answer. An engine has one request under way, and does not hear this */
    } else if (reply->status == HF_OK)
        take(sim, client, reply, MUTANT == SIM_COUNT_FROM_REPLY ? now_ms : message->sent_ms,
             now_ms);
    else
        rest(sim, client, now_ms); /* busy */
}

/*
 * The server has handed it over. Its owner is new with every acquisition, but a server that has lost its data may have queued a late
 * copy since: the message of the first grant is old then, and the floor shows that.
 */
static void on_handed_over(struct sim *sim, struct sim_client *client,
                           const struct mem_reply *reply, int64_t now_ms)
{
    int64_t from_ms = MUTANT == SIM_COUNT_FROM_PUSH ? now_ms : client->base_ms;
    enum hfi_message verdict =
        hfi_message_judge(client->queued ? HFI_WAITER_QUEUED : HFI_WAITER_ASKING, from_ms,
                          client->floor, reply->token, reply->ttl_ms, now_ms);

    if (MUTANT == SIM_BELIEVE_OLD_NEWS)
        verdict = HFI_MESSAGE_GRANT;
    if (verdict == HFI_MESSAGE_GRANT)
        take(sim, client, reply, from_ms, now_ms);
    else if (verdict == HFI_MESSAGE_RECHECK)
        ask_again(sim, client, now_ms);
}

static void on_confirmed(struct sim *sim, struct sim_client *client,
                         const struct sim_message *message, int64_t now_ms)
{
    if (message->renewal != client->renewal)
        return;
    if (message->reply.status == HF_OK)
        take(sim, client, &message->reply, client->renewal_sent_ms, now_ms);
    else
        release_lease(sim, client, now_ms); /* it has lapsed */
}

static void on_renewed(struct sim *sim, struct sim_client *client,
                       const struct sim_message *message, int64_t now_ms)
{
    struct hfi_term *term = &client->term;
    bool matches = message->renewal == client->renewal;
    bool lost;

    if (MUTANT == SIM_LATE_YES_REVIVES && term->state == HF_STATE_LOST && matches)
        term->state = HF_STATE_AT_RISK, term->valid_until_ms = now_ms + 1;
    if (MUTANT == SIM_LAST_SEND && client->renewal)
        matches = true;
    if (!matches || !client->renewal)
        return; /* given up, or a second copy */
    client->renewal = 0;
    if (client->linger_ms > 0 && message->reply.status == HF_OK) {
        client->wanted = client->wanted || message->reply.others_wait;
        if (message->request.tokens_wanted > 0 && message->reply.tokens > 0 && client->more == 0) {
            client->more_from = message->reply.token;
            client->more = message->reply.tokens;
        }
    }
    if (message->reply.status == HF_LOST) {
        sim_judge_told(sim, client);
        if (MUTANT == SIM_LOST_STAYS_IDLE && client->phase == SIM_LINGERS)
            return;
    }
    lost = hfi_term_renewed(term, message->reply.status,
                            MUTANT == SIM_COUNT_FROM_REPLY ? now_ms : client->renewal_sent_ms,
                            message->reply.ttl_ms, now_ms);
    if (MUTANT == SIM_IGNORE_DRIFT && !lost && message->reply.status == HF_OK && !term->max_hold_ms)
        term->valid_until_ms = term->sent_ms + message->reply.ttl_ms;
    if (lost)
        lose(sim, client, now_ms);
    else if (client->phase == SIM_LINGERS && client->wanted && MUTANT != SIM_RECALL_LEAVES_IDLE)
        release_lease(sim, client, now_ms);
}

void sim_client_message(struct sim *sim, struct sim_client *client,
                        const struct sim_message *message)
{
    int64_t now_ms = sim_local_ms(sim, client);
    enum mem_verb verb = message->request.verb;

    if (memcmp(message->request.owner, client->ask.owner, HFI_OWNER_LEN) != 0)
        return; /* it is about an earlier acquisition */
    if (message->push) {
        if (message->reply.is_wanted)
            on_wanted(sim, client, &message->reply, now_ms);
        else if (message->reply.status == HF_LOST && has_lease(client) &&
                 client->term.state != HF_STATE_LOST) {
            sim_judge_told(sim, client);
            if (MUTANT != SIM_LOST_STAYS_IDLE || client->phase != SIM_LINGERS)
                lose(sim, client, now_ms);
        } else if (message->reply.status == HF_OK && client->phase == SIM_ASKING)
            on_handed_over(sim, client, &message->reply, now_ms);
    } else if (client->phase == SIM_ASKING && verb == MEM_ACQUIRE)
        on_answer(sim, client, message, now_ms);
    else if (client->phase == SIM_CONFIRMING && verb == MEM_RENEW)
        on_confirmed(sim, client, message, now_ms);
    else if (has_lease(client) && verb == MEM_RENEW)
        on_renewed(sim, client, message, now_ms);
    else if (client->phase == SIM_RELEASING && verb == MEM_RELEASE)
        rest(sim, client, now_ms);
    sim_client_step(sim, client);
}

static void rest(struct sim *sim, struct sim_client *client, int64_t now_ms)
{
    client->phase = SIM_IDLE;
    client->next_ms = now_ms + (int64_t)sim_roll(sim, (uint64_t)sim->ttl_ms);
}
