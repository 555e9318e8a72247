/* SPDX-License-Identifier: MIT */
/*
 * The servers of this process, the network to them and its faults. Everything
 * here runs under mem_lock, taken by the engines or by the calls of tests; a
 * fork holds it too, so a child finds it free and its servers whole.
 *
 * A message is executed, or handed to its connection, at once unless a fault delays it. Delayed
 * ones wait in the world's `wire` until mem_world_pump(), which every connection calls whenever it
 * is driven.
 */
#include "mem_internal.h"

#include "core/registry.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A message on its way: a request to the server, or a reply or push from it. */
struct packet {
    struct packet *next;
    int64_t due_ms;
    enum { TO_SERVER, REPLY, PUSH } what;
    uint64_t session, id;
    size_t count;
    unsigned char owner[HFI_OWNER_LEN]; /* PUSH */
    struct mem_request *requests;       /* TO_SERVER */
    struct mem_reply *replies;          /* REPLY, PUSH */
};

struct rule {
    enum mem_verb verb;
    unsigned count;
    int64_t delay_ms;
};

struct mem_world {
    struct mem_world *next;
    char name[128];
    struct mem_server *server;
    struct mem_cells *cells;
    struct mem_store *stores;
    struct packet *wire;
    int64_t now_ms; /* while the server is being called */
    bool cut;
    struct rule rules[MEM_FAULTS];
    uint64_t chaos;
    unsigned chaos_percent;
    int64_t chaos_late_ms;
    unsigned long counts[MEM_VERBS], largest[MEM_VERBS];
    void (*between)(void *arg); /* see mem_doubt() */
    void *between_arg;
};

pthread_mutex_t mem_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t mem_changed;

static struct mem_world *worlds;
static uint64_t last_session;

static void push(void *arg, uint64_t session, const unsigned char *owner,
                 const struct mem_reply *reply);
static void carry_out(struct mem_world *world, uint64_t session, uint64_t id,
                      const struct mem_request *requests, size_t count, int64_t now_ms);
static void put_on_wire(struct mem_world *world, struct packet packet);
static void free_packet(struct packet *packet);
static bool suffers(struct mem_world *world, enum mem_fault fault, enum mem_verb verb,
                    int64_t *ret_delay_ms);
static void *copy(const void *items, size_t count, size_t size);

/* ---- worlds and connections ------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&mem_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mem_lock);
}

static void register_once(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&mem_changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_atfork(before_fork, after_fork, after_fork);
    hfi_registry_add(&mem_event_engine);
    hfi_registry_add(&mem_block_engine);
    hfi_registry_add(&mem_bare_engine);
    hfi_registry_add(hfi_engine_entry_memory());
}

void mem_engine_register(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_once);
}

static struct mem_world *get_world(const char *name)
{
    struct mem_world *world = worlds;

    while (world && strcmp(world->name, name) != 0)
        world = world->next;
    if (world)
        return world;

    world = calloc(1, sizeof *world);
    if (!world)
        abort();
    snprintf(world->name, sizeof world->name, "%s", name);
    world->server = mem_server_new(push, world);
    world->cells = mem_cells_new(push, world);
    world->next = worlds;
    worlds = world;
    return world;
}

void mem_engine_reset(void)
{
    struct mem_world **at, *world;
    struct packet *packet;

    pthread_mutex_lock(&mem_lock);
    for (at = &worlds; (world = *at);) {
        if (world->stores) {
            at = &world->next;
            continue;
        }
        *at = world->next;
        while ((packet = world->wire)) {
            world->wire = packet->next;
            free_packet(packet);
        }
        mem_server_free(world->server);
        mem_cells_free(world->cells);
        free(world);
    }
    pthread_mutex_unlock(&mem_lock);
}

#define AT(member) offsetof(struct mem_conf, member)
static const struct hfi_param params[] = {
    { "call", HFI_PARAM_DURATION, AT(call_ms), 1, HF_DURATION_MAX_MS, 2000, NULL },
    { .name = NULL },
};
static const struct hfi_param block_params[] = {
    { "late", HFI_PARAM_DURATION, AT(late_ms), 0, HF_DURATION_MAX_MS, 0, NULL },
    { .name = NULL },
};
static const struct hfi_form forms[] = { { "memevent", 0, 0, 0, NULL },
                                         { "membare", 0, 0, 0, NULL },
                                         { "memblock", 0, 0, 0, block_params },
                                         { .scheme = NULL } };

const struct hfi_conf_type mem_conf_type = { sizeof(struct mem_conf), forms, params };

hf_status mem_conn_open(struct mem_store *store, struct hfi_conf *conf, struct hfi_host *host,
                        hf_error *err)
{
    store->host = host;
    store->call_ms = ((struct mem_conf *)conf)->call_ms;
    if (strlen(conf->path) >= sizeof((struct mem_world *)0)->name)
        return hfi_error_set(err, HF_CONFIG, 0, "the name of the server is too long");

    pthread_mutex_lock(&mem_lock);
    store->session = ++last_session;
    store->world = get_world(conf->path);
    store->next = store->world->stores;
    store->world->stores = store;
    pthread_mutex_unlock(&mem_lock);
    return HF_OK;
}

void mem_conn_close(struct mem_store *store)
{
    struct mem_store **at;

    pthread_mutex_lock(&mem_lock);
    for (at = &store->world->stores; *at != store; at = &(*at)->next)
        ;
    *at = store->next;
    pthread_mutex_unlock(&mem_lock);
}

struct mem_server *mem_conn_server(struct mem_store *store)
{
    return store->world->server;
}

struct mem_cells *mem_conn_cells(struct mem_store *store)
{
    return store->world->cells;
}

static struct mem_store *find_conn(struct mem_world *world, uint64_t session)
{
    struct mem_store *store = world->stores;

    while (store && store->session != session)
        store = store->next;
    return store;
}

/* ---- the network ------------------------------------------------------------ */

bool mem_conn_send(struct mem_store *store, uint64_t id, const struct mem_request *requests,
                   size_t count, int64_t now_ms)
{
    struct mem_world *world = store->world;
    enum mem_verb verb = requests[0].verb;
    struct packet packet = {
        .what = TO_SERVER, .session = store->session, .id = id, .count = count
    };
    int64_t delay_ms = 0;

    if (world->cut)
        return false;
    if (suffers(world, MEM_LOSE_REQUEST, verb, &delay_ms))
        return true;
    if (suffers(world, MEM_REPEAT_REQUEST, verb, &delay_ms)) {
        packet.due_ms = now_ms + delay_ms;
        packet.requests = copy(requests, count, sizeof *requests);
        put_on_wire(world, packet);
    }
    if (suffers(world, MEM_DELAY_REQUEST, verb, &delay_ms)) {
        packet.due_ms = now_ms + delay_ms;
        packet.requests = copy(requests, count, sizeof *requests);
        put_on_wire(world, packet);
        return true;
    }
    carry_out(world, store->session, id, requests, count, now_ms);
    return true;
}

/* Hand a reply or push to its connection, if that is still open and not cut. */
static void deliver(struct mem_world *world, const struct packet *packet)
{
    struct mem_store *store = find_conn(world, packet->session);

    if (!store || world->cut)
        return;
    if (packet->what == PUSH)
        store->on_push(store, packet->owner, packet->replies);
    else if (store->on_reply)
        store->on_reply(store, packet->id, packet->replies, packet->count);
}

static void send_back(struct mem_world *world, struct packet packet, enum mem_verb verb)
{
    bool is_push = packet.what == PUSH;
    int64_t delay_ms = 0;

    if (suffers(world, is_push ? MEM_LOSE_PUSH : MEM_LOSE_REPLY, verb, &delay_ms))
        return;
    if (suffers(world, is_push ? MEM_DELAY_PUSH : MEM_DELAY_REPLY, verb, &delay_ms)) {
        packet.due_ms = world->now_ms + delay_ms;
        packet.replies = copy(packet.replies, packet.count, sizeof *packet.replies);
        put_on_wire(world, packet);
        return;
    }
    deliver(world, &packet);
    if (!is_push && suffers(world, MEM_REPEAT_REPLY, verb, &delay_ms))
        deliver(world, &packet);
}

static void push(void *arg, uint64_t session, const unsigned char *owner,
                 const struct mem_reply *reply)
{
    struct mem_world *world = arg;
    struct mem_reply copied = *reply;
    struct packet packet = { .what = PUSH, .session = session, .count = 1, .replies = &copied };

    memcpy(packet.owner, owner, HFI_OWNER_LEN);
    send_back(world, packet, MEM_VERBS);
}

static void carry_out(struct mem_world *world, uint64_t session, uint64_t id,
                      const struct mem_request *requests, size_t count, int64_t now_ms)
{
    struct mem_reply *replies = calloc(count, sizeof *replies);
    struct packet packet = { .what = REPLY, .session = session, .id = id, .count = count };

    if (!replies)
        abort();
    world->now_ms = now_ms;
    if (count > world->largest[requests[0].verb])
        world->largest[requests[0].verb] = count;
    for (size_t i = 0; i < count; i++) {
        world->counts[requests[i].verb]++;
        if (requests[i].verb >= MEM_CELL_READ)
            replies[i] = mem_cells_call(world->cells, &requests[i], now_ms);
        else if (requests[i].verb != MEM_INSPECT)
            replies[i] = mem_server_call(world->server, &requests[i], now_ms);
    }
    packet.replies = replies;
    send_back(world, packet, requests[0].verb);
    free(replies);
    mem_world_changed(world);
}

void mem_world_changed(struct mem_world *world)
{
    pthread_cond_broadcast(&mem_changed);
    for (struct mem_store *store = world->stores; store; store = store->next)
        if (store->on_change)
            store->on_change(store);
}

void mem_world_pump(struct mem_world *world, int64_t now_ms)
{
    struct packet **at, *packet;
    uint64_t seq = mem_server_seq(world->server);

    for (at = &world->wire; (packet = *at);) {
        if (packet->due_ms > now_ms) {
            at = &packet->next;
            continue;
        }
        *at = packet->next;
        if (packet->what == TO_SERVER)
            carry_out(world, packet->session, packet->id, packet->requests, packet->count, now_ms);
        else
            deliver(world, packet);
        free_packet(packet);
        at = &world->wire; /* what was carried out may have put more on the wire */
    }
    world->now_ms = now_ms;
    mem_server_tick(world->server, now_ms);
    if (mem_cells_next_ms(world->cells) <= now_ms) {
        mem_cells_tick(world->cells, now_ms);
        pthread_cond_broadcast(&mem_changed);
    }
    if (seq != mem_server_seq(world->server))
        mem_world_changed(world);
}

int64_t mem_world_next_ms(const struct mem_world *world)
{
    int64_t next_ms = mem_server_next_ms(world->server);
    int64_t cells_ms = mem_cells_next_ms(world->cells);

    next_ms = cells_ms < next_ms ? cells_ms : next_ms;
    for (const struct packet *packet = world->wire; packet; packet = packet->next)
        next_ms = packet->due_ms < next_ms ? packet->due_ms : next_ms;
    return next_ms;
}

bool mem_world_is_cut(const struct mem_world *world)
{
    return world->cut;
}

static void put_on_wire(struct mem_world *world, struct packet packet)
{
    struct packet **at = &world->wire;

    while (*at && (*at)->due_ms <= packet.due_ms)
        at = &(*at)->next;
    packet.next = *at;
    *at = copy(&packet, 1, sizeof packet);
    pthread_cond_broadcast(&mem_changed);
}

static void free_packet(struct packet *packet)
{
    free(packet->requests);
    free(packet->replies);
    free(packet);
}

static void *copy(const void *items, size_t count, size_t size)
{
    void *made = calloc(count, size);

    if (!made)
        abort();
    return memcpy(made, items, count * size);
}

/* ---- faults ------------------------------------------------------------------ */

/* Pseudo-random numbers from the seed (xorshift64*). */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717) >> 33;
}

static bool suffers(struct mem_world *world, enum mem_fault fault, enum mem_verb verb,
                    int64_t *ret_delay_ms)
{
    struct rule *rule = &world->rules[fault];

    if (rule->count && (rule->verb == MEM_VERBS || verb == MEM_VERBS || rule->verb == verb)) {
        rule->count--;
        *ret_delay_ms = rule->delay_ms;
        return true;
    }
    if (!world->chaos_percent || draw(&world->chaos) % 100 >= world->chaos_percent)
        return false;
    *ret_delay_ms = (int64_t)(draw(&world->chaos) % (uint64_t)(world->chaos_late_ms + 1));
    return true;
}

void mem_fault(const char *server, enum mem_fault fault, enum mem_verb verb, unsigned count,
               int64_t delay_ms)
{
    pthread_mutex_lock(&mem_lock);
    get_world(server)->rules[fault] =
        (struct rule){ .verb = verb, .count = count, .delay_ms = delay_ms };
    pthread_mutex_unlock(&mem_lock);
}

void mem_chaos(const char *server, uint64_t seed, unsigned percent, int64_t late_ms)
{
    struct mem_world *world;

    pthread_mutex_lock(&mem_lock);
    world = get_world(server);
    world->chaos = seed * 2 + 1;
    world->chaos_percent = percent;
    world->chaos_late_ms = late_ms;
    pthread_mutex_unlock(&mem_lock);
}

void mem_heal(const char *server)
{
    struct mem_world *world;

    pthread_mutex_lock(&mem_lock);
    world = get_world(server);
    memset(world->rules, 0, sizeof world->rules);
    world->chaos_percent = 0;
    world->cut = false;
    for (struct mem_store *store = world->stores; store; store = store->next)
        if (store->on_cut)
            store->on_cut(store);
    pthread_cond_broadcast(&mem_changed);
    pthread_mutex_unlock(&mem_lock);
}

void mem_cut(const char *server, bool cut)
{
    struct mem_world *world;

    pthread_mutex_lock(&mem_lock);
    world = get_world(server);
    world->cut = cut;
    for (struct mem_store *store = world->stores; store; store = store->next)
        if (store->on_cut)
            store->on_cut(store);
    pthread_cond_broadcast(&mem_changed);
    pthread_mutex_unlock(&mem_lock);
}

unsigned long mem_count(const char *server, enum mem_verb verb)
{
    unsigned long count;

    pthread_mutex_lock(&mem_lock);
    count = get_world(server)->counts[verb];
    pthread_mutex_unlock(&mem_lock);
    return count;
}

unsigned long mem_largest(const char *server, enum mem_verb verb)
{
    unsigned long count;

    pthread_mutex_lock(&mem_lock);
    count = get_world(server)->largest[verb];
    pthread_mutex_unlock(&mem_lock);
    return count;
}

void mem_forget(const char *server)
{
    pthread_mutex_lock(&mem_lock);
    mem_server_forget(get_world(server)->server);
    mem_cells_forget(get_world(server)->cells);
    mem_world_changed(get_world(server));
    pthread_mutex_unlock(&mem_lock);
}

void mem_doubt(const char *server, void (*between)(void *arg), void *arg)
{
    struct mem_world *world;

    pthread_mutex_lock(&mem_lock);
    world = get_world(server);
    world->between = between;
    world->between_arg = arg;
    for (struct mem_store *store = world->stores; store; store = store->next) {
        pthread_mutex_unlock(&mem_lock);
        store->host->doubt(store->host, "the test says so");
        pthread_mutex_lock(&mem_lock);
    }
    world->between = NULL;
    pthread_mutex_unlock(&mem_lock);
}

void mem_world_uncorked(struct mem_world *world)
{
    void (*between)(void *);
    void *arg;

    pthread_mutex_lock(&mem_lock);
    between = world->between;
    arg = world->between_arg;
    world->between = NULL;
    pthread_mutex_unlock(&mem_lock);
    if (between)
        between(arg);
}

void mem_set_block(const char *server, uint32_t tokens)
{
    pthread_mutex_lock(&mem_lock);
    mem_server_set_block(get_world(server)->server, tokens);
    pthread_mutex_unlock(&mem_lock);
}

void mem_set_token(const char *server, uint64_t token)
{
    pthread_mutex_lock(&mem_lock);
    mem_server_set_token(get_world(server)->server, token);
    pthread_mutex_unlock(&mem_lock);
}

/* ---- what both kinds of engine do alike -------------------------------------- */

void mem_request_fill(struct mem_store *store, const struct hfi_claim *claim, enum mem_verb verb,
                      int64_t ttl_ms, bool may_wait, struct mem_request *ret_request)
{
    *ret_request = (struct mem_request){
        .verb = verb,
        .session = store->session,
        .name_len = claim->name.len,
        .mode = claim->mode,
        .capacity = claim->capacity,
        .permits = claim->permits,
        .flags = claim->flags,
        .tokens_wanted = claim->tokens_wanted,
        .ttl_ms = ttl_ms,
        .lock_delay_ms = claim->lock_delay_ms,
        .may_wait = may_wait,
        .pid = getpid(),
    };
    memcpy(ret_request->name, claim->name.bytes, claim->name.len);
    memcpy(ret_request->owner, claim->owner, HFI_OWNER_LEN);
    memcpy(ret_request->replaced, claim->replaced, HFI_OWNER_LEN);
    snprintf(ret_request->label, sizeof ret_request->label, "%s",
             claim->label ? claim->label : store->host->label);
}

void mem_request_fill_cell(struct mem_store *store, const struct hfi_op *op, enum mem_verb verb,
                           const unsigned char owner[HFI_OWNER_LEN],
                           struct mem_request *ret_request)
{
    *ret_request = (struct mem_request){ .verb = verb, .session = store->session };
    memcpy(ret_request->owner, owner, HFI_OWNER_LEN);
    if (verb == MEM_TIME)
        return;
    if (verb == MEM_CELL_COMMIT) {
        ret_request->bytes = mem_cells_keep_commit(store->world->cells, op->u.commit);
        return;
    }
    ret_request->name_len = op->u.cell.name.len;
    memcpy(ret_request->name, op->u.cell.name.bytes, op->u.cell.name.len);
    ret_request->version = op->u.cell.version;
    ret_request->ttl_ms = op->u.cell.ttl_ms;
    ret_request->len = op->u.cell.len;
    if (op->u.cell.bytes)
        ret_request->bytes = mem_cells_keep(store->world->cells, op->u.cell.bytes, op->u.cell.len);
}

void mem_request_fill_named(const struct hfi_op *op, struct mem_request *ret_request)
{
    const struct hfi_name *name = op->kind == HFI_OP_BREAK    ? &op->u.brk.name
                                  : op->kind == HFI_OP_RESIZE ? &op->u.resize.name
                                                              : &op->u.ask.name;

    *ret_request = (struct mem_request){ .verb = mem_verb_of(op->kind), .name_len = name->len };
    memcpy(ret_request->name, name->bytes, name->len);
    if (op->kind == HFI_OP_BREAK)
        ret_request->token = op->u.brk.token;
    else if (op->kind == HFI_OP_RESIZE)
        ret_request->capacity = op->u.resize.capacity;
    else
        snprintf(ret_request->label, sizeof ret_request->label, "%s", op->u.ask.text);
}

void mem_tell_hears(struct mem_store *store)
{
    bool hears = store->watches && !store->world->cut;

    if (hears == store->hears)
        return;
    store->hears = hears;
    pthread_mutex_unlock(&mem_lock);
    store->host->hears(store->host, hears);
    pthread_mutex_lock(&mem_lock);
}

hf_status mem_cell_fill(struct hfi_op *op, const struct mem_reply *reply)
{
    if (op->kind == HFI_OP_TIME) {
        op->u.time.ret_us = reply->time_us;
        return reply->status;
    }
    if (op->kind == HFI_OP_CELLS_COMMIT) {
        for (size_t i = 0; i < op->u.commit->count; i++)
            op->u.commit->items[i].ret_version = ((const uint64_t *)reply->bytes)[i];
        return reply->status;
    }
    op->u.cell.ret_version = reply->version;
    if (op->kind != HFI_OP_CELL_READ || reply->status != HF_OK)
        return reply->status;
    op->u.cell.ret_bytes = hfi_malloc(reply->len + 1);
    if (!op->u.cell.ret_bytes)
        return HF_NO_MEMORY;
    memcpy(op->u.cell.ret_bytes, reply->bytes, reply->len);
    op->u.cell.ret_len = reply->len;
    op->u.cell.ret_ttl_ms = reply->ttl_ms;
    return HF_OK;
}

hf_status mem_inspect(struct mem_store *store, struct hfi_op *op, bool whole)
{
    struct mem_server *server = mem_conn_server(store);
    bool ok = op->kind == HFI_OP_LIST
                  ? mem_server_list(server, op->u.list.cursor, whole, op->u.list.sink, hfi_now_ms())
                  : mem_server_look(server, &op->u.look.name, op->u.look.sink, hfi_now_ms());

    return ok ? HF_OK : HF_NO_MEMORY;
}

enum mem_verb mem_verb_of(enum hfi_op_kind kind)
{
    static const enum mem_verb verbs[] = {
        [HFI_OP_ACQUIRE] = MEM_ACQUIRE,
        [HFI_OP_RELEASE] = MEM_RELEASE,
        [HFI_OP_RENEW] = MEM_RENEW,
        [HFI_OP_ADOPT] = MEM_ADOPT,
        [HFI_OP_LIST] = MEM_INSPECT,
        [HFI_OP_LOOK] = MEM_INSPECT,
        [HFI_OP_BREAK] = MEM_BREAK,
        [HFI_OP_CELL_READ] = MEM_CELL_READ,
        [HFI_OP_CELL_SWAP] = MEM_CELL_SWAP,
        [HFI_OP_CELL_WAIT] = MEM_CELL_WAIT,
        [HFI_OP_TIME] = MEM_TIME,
        [HFI_OP_RESIZE] = MEM_RESIZE,
        [HFI_OP_ASK] = MEM_ASK,
        [HFI_OP_CELLS_COMMIT] = MEM_CELL_COMMIT,
    };

    return kind < sizeof verbs / sizeof *verbs ? verbs[kind] : MEM_VERBS;
}

void mem_claim_fill(struct mem_store *store, struct hfi_claim *claim, const struct mem_reply *reply,
                    int64_t sent_ms)
{
    claim->token = store->bare ? 0 : reply->token;
    claim->tokens = reply->tokens;
    claim->granted_ttl_ms = reply->ttl_ms;
    claim->sent_ms = sent_ms;
    claim->others_wait = reply->others_wait;
    if (reply->flags & ~claim->flags &
        HFI_CLAIM_NUMBERED) /* an adopted one; others may read the flags of the rest */
        claim->flags |= HFI_CLAIM_NUMBERED;
    memcpy(claim->slots, reply->slots, sizeof claim->slots);
}

void mem_passed(void *self, struct hfi_claim *claim, uint64_t token, int64_t tid)
{
    struct mem_store *store = self;

    pthread_mutex_lock(&mem_lock);
    mem_server_passed(store->world->server, &claim->name, claim->owner, token, tid);
    mem_world_changed(store->world);
    pthread_mutex_unlock(&mem_lock);
}

bool mem_change_seen(struct mem_store *store, struct hfi_op *op)
{
    uint64_t seq = mem_server_seq(store->world->server), asked = op->u.change.seq;

    op->u.change.seq = seq;
    return asked != 0 && asked != seq;
}

hf_status mem_doctor(void *self, hfi_finding_fn *finding, void *arg, hf_error *err)
{
    struct mem_store *store = self;

    (void)err;
    finding(HF_CHECK_LEVEL_OK, "server", store->host->location, arg);
    finding(HF_CHECK_LEVEL_WARNING, "durability", "everything ends with this process", arg);
    return HF_OK;
}

void mem_cond_wait(int64_t until_ms)
{
    int64_t left_ms = until_ms - hfi_now_ms();
    struct timespec at;

    if (left_ms <= 0)
        return;
    if (left_ms > 60000)
        left_ms = 60000; /* callers check again anyway */
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left_ms / 1000;
    at.tv_nsec += left_ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&mem_changed, &mem_lock, &at);
}
