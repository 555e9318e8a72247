/* SPDX-License-Identifier: MIT */
/*
 * The permit model, see mem_server.h. A name lives while it is held, waited for,
 * closed by a lock_delay, or has a size that was set; the token counter is one for all names, so it can
 * outlive them. An owner that has ended or was refused stays known for a while (`ended`), so that a
 * late copy of its acquire cannot be granted.
 */
#include "mem_server.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS   512
#define PAGE      10 /* names of a list, or some more */
#define ENDED_MAX 1024

/* One holder or one waiter. */
struct party {
    struct party *next;
    struct mem_request ask;
    int64_t since_ms;
    int64_t until_ms;     /* holder: its lease ends; waiter: it counts as dead */
    int64_t granted_ms;   /* holder: when the running ttl began */
    uint64_t first, held; /* holder: its block's first token, and the one that holds now */
    uint64_t last;        /* holder: the last token that it has ever been given */
    int64_t tid;
    bool idle;                    /* holder: so it says */
    bool told;                    /* holder: that others wait */
    uint32_t slots[HF_SLOTS_MAX]; /* holder with NUMBERED */
};

struct name {
    struct name *next;
    unsigned char bytes[HF_NAME_MAX];
    uint32_t len;
    enum hfi_mode mode;
    uint32_t capacity;
    uint32_t set; /* the size that was set; 0: as requests say */
    uint64_t taken;
    int64_t closed_until_ms; /* 0: open */
    struct party *holders, *waiters;
};

struct mem_server {
    struct name *names[BUCKETS];
    uint64_t next_token;
    uint32_t block; /* the most tokens of a lingering claim at a time; 0: no limit */
    uint64_t seq;
    unsigned char ended[ENDED_MAX][HFI_OWNER_LEN];
    unsigned ended_at;
    mem_push_fn *push;
    void *push_arg;
};

static struct name *find_name(const struct mem_server *server, const void *bytes, uint32_t len);
static struct name *get_name(struct mem_server *server, const struct mem_request *ask);
static void settle(struct mem_server *server, struct name *name, int64_t now_ms);
static void drop_if_idle(struct mem_server *server, struct name *name);
static void tell_holders(struct mem_server *server, struct name *name);
static struct party **find_party(struct party **list, const unsigned char *owner);
static void end_party(struct mem_server *server, struct party **at);
static void remember_ended(struct mem_server *server, const unsigned char *owner);
static bool has_ended(const struct mem_server *server, const unsigned char *owner);
static void *must(void *memory);

struct mem_server *mem_server_new(mem_push_fn *push, void *arg)
{
    struct mem_server *server = must(calloc(1, sizeof *server));

    server->next_token = 1;
    server->seq = 1;
    server->push = push;
    server->push_arg = arg;
    return server;
}

void mem_server_free(struct mem_server *server)
{
    mem_server_forget(server);
    free(server);
}

/* ---- requests ------------------------------------------------------------ */

static struct mem_reply answer(hf_status status)
{
    return (struct mem_reply){ .status = status };
}

/* Every token given so far is at most the one in this answer. */
static struct mem_reply still_waiting(const struct mem_server *server)
{
    return (struct mem_reply){ .status = HF_OK, .queued = true, .token = server->next_token - 1 };
}

static struct mem_reply granted(const struct party *holder)
{
    struct mem_reply reply = {
        .status = HF_OK,
        .token = holder->first,
        .tokens = holder->ask.tokens_wanted,
        .ttl_ms = holder->ask.ttl_ms,
        .granted_ms = holder->granted_ms,
        .mode = holder->ask.mode,
        .capacity = holder->ask.capacity,
        .permits = holder->ask.permits,
        .flags = holder->ask.flags,
        .others_wait = holder->told,
    };

    memcpy(reply.slots, holder->slots, sizeof reply.slots);
    return reply;
}

static bool has_slot(const struct party *holder, uint32_t slot)
{
    for (uint32_t i = 0; i < holder->ask.permits; i++)
        if (holder->slots[i] == slot)
            return true;
    return false;
}

/* The lowest numbers that no holder has. `party` is not among the holders yet. */
static void number(const struct name *name, struct party *party)
{
    uint32_t count = 0;

    for (uint32_t slot = 0; count < party->ask.permits; slot++) {
        const struct party *p = name->holders;

        while (p && !(p->ask.flags & HFI_CLAIM_NUMBERED && has_slot(p, slot)))
            p = p->next;
        if (!p)
            party->slots[count++] = slot;
    }
}

static uint32_t at_most(const struct mem_server *server, uint32_t tokens)
{
    return server->block > 0 && tokens > server->block ? server->block : tokens;
}

/* Give `party`, which is in no list, the lease. HF_FULL: no tokens are left. */
static hf_status grant(struct mem_server *server, struct name *name, struct party *party,
                       int64_t now_ms)
{
    if (party->ask.flags & HFI_CLAIM_LINGERS)
        party->ask.tokens_wanted = at_most(server, party->ask.tokens_wanted);
    if (party->ask.tokens_wanted >= HFI_TOKEN_LIMIT - server->next_token)
        return HF_FULL;

    party->first = party->held = server->next_token;
    server->next_token += party->ask.tokens_wanted;
    party->last = server->next_token - 1;
    party->since_ms = party->granted_ms = now_ms;
    party->until_ms = party->ask.ttl_ms ? now_ms + party->ask.ttl_ms : HFI_NEVER;
    party->told = name->waiters != NULL && party->ask.flags & HFI_CLAIM_WATCHED;
    if (party->ask.flags & HFI_CLAIM_NUMBERED)
        number(name, party);
    party->next = name->holders;
    name->holders = party;
    name->taken += party->ask.permits;
    server->seq++;
    return HF_OK;
}

static struct mem_reply refuse(struct mem_server *server, const struct mem_request *ask,
                               hf_status why)
{
    remember_ended(server, ask->owner);
    return answer(why);
}

static bool fits(const struct name *name, uint32_t permits)
{
    return !name->closed_until_ms && name->taken + permits <= name->capacity;
}

/* The holder whose place it takes, if it fits there; NULL: there is none, or it does not fit. */
static struct party **place_for(struct name *name, const struct mem_request *ask)
{
    struct party **old =
        ask->flags & HFI_CLAIM_REPLACES ? find_party(&name->holders, ask->replaced) : NULL;

    if (!old || (name->closed_until_ms && ask->permits > (*old)->ask.permits))
        return NULL;
    return ask->permits <= name->capacity - name->taken + (*old)->ask.permits ? old : NULL;
}

/* Returns when it would have ended: the new one does not end before. */
static int64_t make_place(struct mem_server *server, struct name *name, struct party **old)
{
    int64_t until_ms = (*old)->until_ms;

    name->taken -= (*old)->ask.permits;
    end_party(server, old);
    return until_ms;
}

/* A message may have been lost: the heartbeat of the first waiter sends it again. */
static void repeat_wanted(struct mem_server *server, struct name *name)
{
    for (struct party *p = name->holders; p; p = p->next)
        p->told = false;
    tell_holders(server, name);
}

/* Is the name what the request takes it for? */
static bool agrees(const struct name *name, const struct mem_request *ask)
{
    if (name->set)
        return ask->mode == HFI_MODE_SEMAPHORE && ask->permits <= name->set;
    return (!name->holders && !name->waiters) ||
           (name->mode == ask->mode && name->capacity == ask->capacity);
}

static struct mem_reply acquire(struct mem_server *server, const struct mem_request *ask,
                                int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct party **at, *party;
    struct mem_reply reply;
    int64_t until_ms;
    bool overtakes;

    if (name && (at = find_party(&name->holders, ask->owner)))
        return granted(*at);
    if (name && (at = find_party(&name->waiters, ask->owner))) {
        (*at)->until_ms = now_ms + MEM_WAITER_LIFE_MS;
        if (*at == name->waiters)
            repeat_wanted(server, name);
        return still_waiting(server);
    }
    if (has_ended(server, ask->owner))
        return answer(HF_LOST);
    if (name && !agrees(name, ask))
        return (struct mem_reply){ .status = HF_MISMATCH,
                                   .mode = name->mode,
                                   .capacity = name->capacity };

    if (ask->flags & HFI_CLAIM_REPLACES && !(name && find_party(&name->holders, ask->replaced)))
        return answer(HF_NOT_FOUND);

    name = get_name(server, ask);
    if ((at = place_for(name, ask))) {
        party = must(calloc(1, sizeof *party));
        party->ask = *ask;
        until_ms = make_place(server, name, at);
        if (grant(server, name, party, now_ms) != HF_OK)
            abort(); /* no test has come that far */
        party->until_ms = party->until_ms < until_ms ? until_ms : party->until_ms;
        reply = granted(party);
        settle(server, name, now_ms);
        return reply;
    }
    overtakes =
        !(ask->flags & HFI_CLAIM_REPLACES) && (!name->waiters || (ask->flags & HFI_CLAIM_BARGE));
    if (!(overtakes && fits(name, ask->permits)) && !ask->may_wait) {
        reply = refuse(server, ask, HF_BUSY);
        reply.lingers =
            name->holders && !name->waiters && name->holders->ask.flags & HFI_CLAIM_LINGERS;
        drop_if_idle(server, name);
        return reply;
    }

    party = must(calloc(1, sizeof *party));
    party->ask = *ask;
    if (overtakes && fits(name, ask->permits)) {
        if (grant(server, name, party, now_ms) == HF_OK)
            return granted(party);
        free(party);
        drop_if_idle(server, name);
        return answer(HF_FULL);
    }
    party->since_ms = now_ms;
    party->until_ms = now_ms + MEM_WAITER_LIFE_MS;
    for (at = &name->waiters; *at && !(ask->flags & HFI_CLAIM_REPLACES); at = &(*at)->next)
        ;
    party->next = *at;
    *at = party;
    server->seq++;
    tell_holders(server, name);
    return still_waiting(server);
}

/* Whether it was in the queue or has not arrived yet: after this it will never be granted. */
static struct mem_reply cancel(struct mem_server *server, const struct mem_request *ask,
                               int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct party **at;

    if (name && (at = find_party(&name->holders, ask->owner)))
        return granted(*at);
    remember_ended(server, ask->owner);
    if (name && (at = find_party(&name->waiters, ask->owner))) {
        end_party(server, at);
        settle(server, name, now_ms);
        drop_if_idle(server, name);
    }
    return answer(HF_CANCELLED);
}

static void give_back(struct mem_server *server, struct name *name, struct party **at,
                      int64_t now_ms)
{
    name->taken -= (*at)->ask.permits;
    end_party(server, at);
    settle(server, name, now_ms);
    drop_if_idle(server, name);
}

static struct mem_reply release(struct mem_server *server, const struct mem_request *ask,
                                int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct party **at;

    if (name && (at = find_party(&name->holders, ask->owner))) {
        give_back(server, name, at, now_ms);
        return answer(HF_OK);
    }
    (void)cancel(server, ask, now_ms);
    return answer(HF_LOST);
}

/* Renew or adopt: never re-creates a lease. */
static struct mem_reply renew(struct mem_server *server, const struct mem_request *ask,
                              int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct party **at = name ? find_party(&name->holders, ask->owner) : NULL;
    struct party *holder;
    struct mem_reply reply;

    if (!at)
        return answer(ask->verb == MEM_ADOPT ? HF_NOT_FOUND : HF_LOST);
    if (ask->verb == MEM_ADOPT && !((*at)->ask.flags & HFI_CLAIM_DETACHED))
        return answer(HF_NOT_FOUND);

    holder = *at;
    if (ask->ttl_ms)
        holder->ask.ttl_ms = ask->ttl_ms;
    holder->granted_ms = now_ms;
    holder->until_ms = holder->ask.ttl_ms ? now_ms + holder->ask.ttl_ms : HFI_NEVER;
    if (ask->verb == MEM_ADOPT)
        holder->ask.session = ask->session;
    server->seq++;
    reply = granted(holder);
    if (ask->verb == MEM_ADOPT)
        return reply;
    reply.tokens = 0;
    if (ask->tokens_wanted > 0 && ask->tokens_wanted < HFI_TOKEN_LIMIT - server->next_token) {
        reply.token = server->next_token;
        reply.tokens = at_most(server, ask->tokens_wanted);
        server->next_token += reply.tokens;
        holder->last = server->next_token - 1;
    }
    return reply;
}

/* Set the size of a semaphore, or go back to what requests say. */
static struct mem_reply resize(struct mem_server *server, const struct mem_request *ask,
                               int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);

    if (name && (name->holders || name->waiters) && name->mode != HFI_MODE_SEMAPHORE)
        return (struct mem_reply){ .status = HF_MISMATCH,
                                   .mode = name->mode,
                                   .capacity = name->capacity };
    if (!name && ask->capacity == 0)
        return answer(HF_OK);
    name = get_name(server, ask);
    name->set = ask->capacity;
    if (name->set) {
        name->mode = HFI_MODE_SEMAPHORE;
        name->capacity = name->set;
    }
    server->seq++;
    settle(server, name, now_ms);
    drop_if_idle(server, name);
    return answer(HF_OK);
}

/* Tell every holder that listens. */
static struct mem_reply ask_holders(struct mem_server *server, const struct mem_request *ask)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct mem_reply push = { .status = HF_OK, .is_wanted = true, .wanted = HFI_WANTED_ASKED };
    hf_status status = name && name->holders ? HF_BUSY : HF_NOT_FOUND;

    memcpy(push.text, ask->label, sizeof push.text);
    for (struct party *p = name ? name->holders : NULL; p; p = p->next)
        if (p->ask.flags & HFI_CLAIM_WATCHED) {
            server->push(server->push_arg, p->ask.session, p->ask.owner, &push);
            status = HF_OK;
        }
    return answer(status);
}

/* End one holder by expiry or force: its session is told, and its lock_delay begins. */
static void lose(struct mem_server *server, struct name *name, struct party **at, int64_t now_ms)
{
    struct party *holder = *at;
    struct mem_reply lost = answer(HF_LOST);

    if (holder->ask.lock_delay_ms && now_ms + holder->ask.lock_delay_ms > name->closed_until_ms)
        name->closed_until_ms = now_ms + holder->ask.lock_delay_ms;
    server->push(server->push_arg, holder->ask.session, holder->ask.owner, &lost);
    name->taken -= holder->ask.permits;
    end_party(server, at);
}

static struct mem_reply break_one(struct mem_server *server, const struct mem_request *ask,
                                  int64_t now_ms)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    struct party **at;

    for (at = name ? &name->holders : NULL; at && *at; at = &(*at)->next)
        if ((*at)->held == ask->token ||
            ((*at)->ask.flags & HFI_CLAIM_LINGERS && (*at)->first <= ask->token &&
             ask->token <= (*at)->last)) {
            lose(server, name, at, now_ms);
            settle(server, name, now_ms);
            drop_if_idle(server, name);
            return answer(HF_OK);
        }
    return answer(HF_NOT_FOUND);
}

struct mem_reply mem_server_call(struct mem_server *server, const struct mem_request *request,
                                 int64_t now_ms)
{
    struct name *name = find_name(server, request->name, request->name_len);

    if (name) {
        settle(server, name, now_ms);
        drop_if_idle(server, name);
    }

    switch (request->verb) {
    case MEM_ACQUIRE:
        return acquire(server, request, now_ms);
    case MEM_CANCEL:
        return cancel(server, request, now_ms);
    case MEM_RELEASE:
        return release(server, request, now_ms);
    case MEM_RENEW:
    case MEM_ADOPT:
        return renew(server, request, now_ms);
    case MEM_BREAK:
        return break_one(server, request, now_ms);
    case MEM_RESIZE:
        return resize(server, request, now_ms);
    case MEM_ASK:
        return ask_holders(server, request);
    case MEM_INSPECT:
    case MEM_CELL_READ:
    case MEM_CELL_SWAP:
    case MEM_CELL_COMMIT:
    case MEM_CELL_WAIT:
    case MEM_TIME:
    case MEM_VERBS:
        break;
    }
    return answer(HF_INTERNAL);
}

/* ---- time ----------------------------------------------------------------- */

/* Expire, then hand off from the head of the queue: a waiter that does not fit blocks all behind
 * it. */
static void settle(struct mem_server *server, struct name *name, int64_t now_ms)
{
    struct party **at, *head;
    struct mem_reply reply;
    int64_t until_ms;

    for (at = &name->holders; *at;) {
        if ((*at)->until_ms <= now_ms)
            lose(server, name, at, (*at)->until_ms);
        else
            at = &(*at)->next;
    }
    for (at = &name->waiters; *at;) {
        if ((*at)->until_ms <= now_ms)
            end_party(server, at);
        else
            at = &(*at)->next;
    }
    if (name->closed_until_ms && name->closed_until_ms <= now_ms) {
        name->closed_until_ms = 0;
        server->seq++;
    }
    while ((head = name->waiters)) {
        until_ms = 0;
        if ((at = place_for(name, &head->ask)))
            until_ms = make_place(server, name, at);
        if (!fits(name, head->ask.permits))
            break;
        name->waiters = head->next;
        reply = answer(grant(server, name, head, now_ms));
        if (reply.status == HF_OK) {
            head->until_ms = head->until_ms < until_ms ? until_ms : head->until_ms;
            reply = granted(head);
        }
        server->push(server->push_arg, head->ask.session, head->ask.owner, &reply);
        if (reply.status != HF_OK)
            free(head);
    }
    tell_holders(server, name);
}

/* Holders that asked for it learn that others wait, and that they do not any more. */
static void tell_holders(struct mem_server *server, struct name *name)
{
    struct mem_reply push = { .status = HF_OK,
                              .is_wanted = true,
                              .wanted = name->waiters ? HFI_WANTED_YES : HFI_WANTED_NO };

    for (struct party *p = name->holders; p; p = p->next)
        if (p->ask.flags & HFI_CLAIM_WATCHED && p->told != (name->waiters != NULL)) {
            p->told = name->waiters != NULL;
            server->push(server->push_arg, p->ask.session, p->ask.owner, &push);
        }
}

void mem_server_tick(struct mem_server *server, int64_t now_ms)
{
    struct name *name, *next;

    for (unsigned b = 0; b < BUCKETS; b++)
        for (name = server->names[b]; name; name = next) {
            next = name->next;
            settle(server, name, now_ms);
            drop_if_idle(server, name);
        }
}

int64_t mem_server_next_ms(const struct mem_server *server)
{
    int64_t next_ms = HFI_NEVER;

    for (unsigned b = 0; b < BUCKETS; b++)
        for (const struct name *name = server->names[b]; name; name = name->next) {
            for (const struct party *p = name->holders; p; p = p->next)
                next_ms = p->until_ms < next_ms ? p->until_ms : next_ms;
            for (const struct party *p = name->waiters; p; p = p->next)
                next_ms = p->until_ms < next_ms ? p->until_ms : next_ms;
            if (name->closed_until_ms && name->closed_until_ms < next_ms)
                next_ms = name->closed_until_ms;
        }
    return next_ms;
}

/* ---- looking -------------------------------------------------------------- */

static bool emit_holders(const struct name *name, struct hfi_sink *sink, int64_t now_ms)
{
    for (const struct party *p = name->holders; p; p = p->next) {
        hf_holder holder = {
            .token = p->held,
            .first = p->first,
            .permits = p->ask.permits,
            .detached = !!(p->ask.flags & HFI_CLAIM_DETACHED),
            .age_ms = now_ms - p->since_ms,
            .ttl_ms = p->until_ms == HFI_NEVER ? -1 : p->until_ms - now_ms,
            .pid = p->ask.pid,
            .tid = p->tid,
            .lingers = (p->ask.flags & HFI_CLAIM_LINGERS) != 0,
            .idle = p->idle,
            .watched = (p->ask.flags & HFI_CLAIM_WATCHED) != 0,
            .slot_count = p->ask.flags & HFI_CLAIM_NUMBERED ? p->ask.permits : 0,
            .label = p->ask.label,
        };
        memcpy(holder.slots, p->slots, sizeof holder.slots);
        if (!sink->holder(sink, &holder))
            return false;
    }
    return true;
}

static bool emit_waiters(const struct name *name, struct hfi_sink *sink, int64_t now_ms)
{
    uint32_t position = 1;

    for (const struct party *p = name->waiters; p; p = p->next) {
        hf_waiter waiter = {
            .position = position++,
            .permits = p->ask.permits,
            .kind = hfi_shown_kind(p->ask.mode, p->ask.permits),
            .age_ms = now_ms - p->since_ms,
            .pid = p->ask.pid,
            .label = p->ask.label,
        };
        if (!sink->waiter(sink, &waiter))
            return false;
    }
    return true;
}

static bool emit(const struct name *name, struct hfi_sink *sink, int64_t now_ms)
{
    hf_entry entry = {
        .name = name->bytes,
        .name_len = name->len,
        .kind = hfi_shown_kind(name->mode, 1),
        .capacity = name->capacity,
        .taken = (uint32_t)name->taken,
        .closed_ms = name->closed_until_ms ? name->closed_until_ms - now_ms : 0,
        .resized = name->set != 0,
    };

    return sink->entry(sink, &entry) && emit_holders(name, sink, now_ms) &&
           emit_waiters(name, sink, now_ms);
}

/* The cursor is the number of a bucket. */
bool mem_server_list(struct mem_server *server, struct hfi_cursor *cursor, bool whole,
                     struct hfi_sink *sink, int64_t now_ms)
{
    unsigned bucket = 0, count = 0;

    if (cursor->len > 0)
        memcpy(&bucket, cursor->bytes, sizeof bucket);
    mem_server_tick(server, now_ms);
    for (; bucket < BUCKETS && count < PAGE; bucket++)
        for (const struct name *name = server->names[bucket]; name; name = name->next, count++)
            if (whole ? !emit(name, sink, now_ms) : !sink->name(sink, name->bytes, name->len))
                return false;
    cursor->len = bucket < BUCKETS ? sizeof bucket : 0;
    memcpy(cursor->bytes, &bucket, sizeof bucket);
    return true;
}

bool mem_server_look(struct mem_server *server, const struct hfi_name *key, struct hfi_sink *sink,
                     int64_t now_ms)
{
    const struct name *name;

    mem_server_tick(server, now_ms);
    name = find_name(server, key->bytes, key->len);
    return !name || emit(name, sink, now_ms);
}

void mem_server_passed(struct mem_server *server, const struct hfi_name *key,
                       const unsigned char owner[HFI_OWNER_LEN], uint64_t token, int64_t tid)
{
    struct name *name = find_name(server, key->bytes, key->len);
    struct party **at = name ? find_party(&name->holders, owner) : NULL;

    if (!at)
        return;
    (*at)->held = token;
    (*at)->tid = tid;
    (*at)->idle = tid == 0;
    server->seq++;
}

uint64_t mem_server_seq(const struct mem_server *server)
{
    return server->seq;
}

bool mem_server_holds(const struct mem_server *server, const void *bytes, uint32_t len,
                      const unsigned char owner[HFI_OWNER_LEN])
{
    struct name *name = find_name(server, bytes, len);

    return name && find_party(&name->holders, owner);
}

void mem_server_forget(struct mem_server *server)
{
    struct name *name;

    for (unsigned b = 0; b < BUCKETS; b++)
        while ((name = server->names[b])) {
            while (name->holders)
                end_party(server, &name->holders);
            while (name->waiters)
                end_party(server, &name->waiters);
            name->closed_until_ms = 0;
            name->set = 0;
            drop_if_idle(server, name);
        }
    server->seq++;
}

void mem_server_forget_ended(struct mem_server *server)
{
    server->ended_at = 0;
}

void mem_server_set_block(struct mem_server *server, uint32_t tokens)
{
    server->block = tokens;
}

void mem_server_set_token(struct mem_server *server, uint64_t token)
{
    server->next_token = token;
}

/* ---- names and parties ---------------------------------------------------- */

static unsigned bucket_of(const unsigned char *bytes, uint32_t len)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * 16777619u;
    return h % BUCKETS;
}

static struct name *find_name(const struct mem_server *server, const void *bytes, uint32_t len)
{
    struct name *name = server->names[bucket_of(bytes, len)];

    while (name && (name->len != len || memcmp(name->bytes, bytes, len) != 0))
        name = name->next;
    return name;
}

/* Find or make the name; kind and capacity are set again while nobody uses it. */
static struct name *get_name(struct mem_server *server, const struct mem_request *ask)
{
    struct name *name = find_name(server, ask->name, ask->name_len);
    unsigned bucket = bucket_of(ask->name, ask->name_len);

    if (!name) {
        name = must(calloc(1, sizeof *name));
        memcpy(name->bytes, ask->name, ask->name_len);
        name->len = ask->name_len;
        name->next = server->names[bucket];
        server->names[bucket] = name;
    }
    if (!name->holders && !name->waiters && !name->set) {
        name->mode = ask->mode;
        name->capacity = ask->capacity;
    }
    return name;
}

static void drop_if_idle(struct mem_server *server, struct name *name)
{
    struct name **at = &server->names[bucket_of(name->bytes, name->len)];

    if (name->holders || name->waiters || name->closed_until_ms || name->set)
        return;
    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    free(name);
}

/* The link to the holder or waiter with this owner, or NULL. */
static struct party **find_party(struct party **list, const unsigned char *owner)
{
    for (; *list; list = &(*list)->next)
        if (memcmp((*list)->ask.owner, owner, HFI_OWNER_LEN) == 0)
            return list;
    return NULL;
}

static void end_party(struct mem_server *server, struct party **at)
{
    struct party *party = *at;

    *at = party->next;
    remember_ended(server, party->ask.owner);
    server->seq++;
    free(party);
}

static void remember_ended(struct mem_server *server, const unsigned char *owner)
{
    memcpy(server->ended[server->ended_at++ % ENDED_MAX], owner, HFI_OWNER_LEN);
}

static bool has_ended(const struct mem_server *server, const unsigned char *owner)
{
    for (unsigned i = 0; i < ENDED_MAX && i < server->ended_at; i++)
        if (memcmp(server->ended[i], owner, HFI_OWNER_LEN) == 0)
            return true;
    return false;
}

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}
